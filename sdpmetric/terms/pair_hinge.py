"""Hinges over pairs: similar pairs nearer than a threshold, dissimilar ones further."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from sdpmetric.core import validation
from sdpmetric.core.pairs import check_similar
from sdpmetric.terms.losses import ScalarLoss, find_loss
from sdpmetric.terms.margins import MarginLoss, item_weights
from sdpmetric.terms.targets import check_term_pairs

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.int32]


@dataclass(frozen=True, eq=False, repr=False)
class PairHinge(MarginLoss):
    """``sum_p w_p l(margin - y_p (b - D(p)))`` over pairs, y 1 where similar and -1 where not, as in POLA [SSN2004].

    Similar pairs are to be nearer than ``b - margin``, dissimilar ones further than ``b + margin``.

    Parameters
    ----------
    pairs : (p, 2) integer array
        Row numbers of X; pairs may repeat.
    similar : (p,) array
        bool, or +1 for similar and -1 for dissimilar.
    threshold : float, default 2
        ``b``.
    margin : float, default 1
    loss : {"hinge", "squared_hinge", "smooth_hinge", "logistic"}, default "hinge"
    weights : (p,) array, optional
        ``w_p >= 0``; default 1.
    sample_weight : (n,) array, optional
        Weights of examples; each pair is multiplied by that of its first row.
    weight : float, default 1
    """

    pairs: ArrayLike | None = None
    similar: ArrayLike | None = None
    threshold: float = 2.0
    margin: float = 1.0
    loss: str = "hinge"

    name: ClassVar[str] = "pair_hinge"

    def bind(self, X: NDArray[np.floating]) -> Self:
        """Check the pairs against data."""
        rows = check_term_pairs(self.name, self.pairs, len(X))
        if self.similar is None:
            raise ValueError(f"{self.name} needs similar=, a flag for each pair: True where it is similar.")
        flags = check_similar(self.similar, len(rows))
        margin = validation.check_number("margin", self.margin, 0.0)
        threshold = validation.check_number("threshold", self.threshold, 0.0)
        find_loss(self.loss, type(self).__name__)
        w = item_weights(self.name, self.weights, self.sample_weight, rows[:, 0], len(X))
        return replace(
            self, pairs=rows, similar=flags, margin=margin, threshold=threshold, weights=w, sample_weight=None
        )

    def describe(self) -> str:
        """Say in a few words what the term is."""
        similar = int(np.count_nonzero(self.signs > 0))
        kinds = f"{similar:,} similar and {self.size - similar:,} dissimilar pairs"
        return f"{self.scalar.name} over {kinds} with threshold {self.threshold:g}"

    @property
    def scalar(self) -> ScalarLoss:
        """The loss of a pair."""
        return find_loss(self.loss, self.name)

    @property
    def unit(self) -> float:
        """The margin."""
        return self.margin or 1.0

    @cached_property
    def signs(self) -> FloatArray:
        """1 for similar and -1 for dissimilar pairs, (p,)."""
        return np.where(np.asarray(self.similar), 1.0, -1.0)

    @property
    def offset(self) -> FloatArray:
        """``margin - y b``."""
        return self.margin - self.signs * self.threshold

    def distance_pairs(self) -> IndexArray:
        """The pairs."""
        return np.asarray(self.pairs, dtype=np.int32)

    @cached_property
    def combination(self) -> sp.csr_array:
        """``y D``."""
        return sp.csr_array(sp.diags_array(self.signs))

    def roles(self) -> dict[str, IndexArray]:
        """Row numbers by role."""
        return dict(zip(("first", "second"), self.distance_pairs().T, strict=True))
