"""Dissimilar pairs that gain by their distance, linearly."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from sdpmetric.terms.losses import LINEAR, ScalarLoss
from sdpmetric.terms.margins import MarginLoss, item_weights
from sdpmetric.terms.targets import check_term_pairs

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.int32]


@dataclass(frozen=True, eq=False, repr=False)
class Repulsion(MarginLoss):
    """``-sum_p w_p D(p)``, linear, as for the dissimilar pairs of SDML [QTZCZ2009].

    Without bound by itself: other terms have to cost more in every direction, as LogDet does where the weights are
    small. What has a margin, `PairHinge`, needs no such care.

    Parameters
    ----------
    pairs : (p, 2) integer array
        Row numbers of X; pairs may repeat.
    weights : (p,) array, optional
        ``w_p >= 0``; default 1.
    sample_weight : (n,) array, optional
        Weights of examples; each pair is multiplied by that of its first row.
    weight : float, default 1
    """

    pairs: ArrayLike | None = None

    name: ClassVar[str] = "repulsion"
    nonnegative: ClassVar[bool] = False

    def bind(self, X: NDArray[np.floating]) -> Self:
        """Check the pairs against data."""
        rows = check_term_pairs(self.name, self.pairs, len(X))
        w = item_weights(self.name, self.weights, self.sample_weight, rows[:, 0], len(X))
        return replace(self, pairs=rows, weights=w, sample_weight=None)

    def describe(self) -> str:
        """Say in a few words what the term is."""
        return f"repulsion of {self.size:,} pairs"

    @property
    def scalar(self) -> ScalarLoss:
        """The identity."""
        return LINEAR

    @property
    def offset(self) -> FloatArray:
        """0."""
        return np.zeros(self.size)

    def distance_pairs(self) -> IndexArray:
        """The pairs."""
        return np.asarray(self.pairs, dtype=np.int32)

    @cached_property
    def combination(self) -> sp.csr_array:
        """Minus the squared distances."""
        return -sp.eye_array(self.size, format="csr")

    def anchor(self, a: FloatArray) -> FloatArray:
        """The weights, the only multipliers there are; what they take away, other terms have to outweigh."""
        return self.clip(a)

    def roles(self) -> dict[str, IndexArray]:
        """Row numbers by role."""
        return dict(zip(("first", "second"), self.distance_pairs().T, strict=True))
