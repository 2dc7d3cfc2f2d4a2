"""Targets for distances: regression of squared distances."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from sdpmetric.core import pairs as pair_checks
from sdpmetric.terms.losses import HalfSquare
from sdpmetric.terms.margins import MarginLoss, item_weights

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.int32]


@dataclass(frozen=True, eq=False, repr=False)
class DistanceTargets(MarginLoss):
    """``sum_p w_p / 2 (D(p) - y_p)^2``, on one side or both, the loss of LEGO [JKDG2008].

    Parameters
    ----------
    pairs : (p, 2) integer array
        Row numbers of X.
    targets : (p,) array or number
        ``y_p >= 0``, squared distances.
    sides : (p,) array or number, optional
        0, the default: the distance is to equal the target; 1: at most the target; -1: at least the target.
    weights : (p,) array, optional
        ``w_p >= 0``; default 1.
    sample_weight : (n,) array, optional
        Weights of examples; each pair is multiplied by that of its first row.
    weight : float, default 1
    """

    pairs: ArrayLike | None = None
    targets: ArrayLike = 1.0
    sides: ArrayLike | None = None

    name: ClassVar[str] = "distance_targets"

    def bind(self, X: NDArray[np.floating]) -> Self:
        """Check pairs and targets against data."""
        try:
            given = pair_checks.check_pairs([] if self.pairs is None else self.pairs, len(X))
            rows, targets, sides = pair_checks.check_targets(X, given, self.targets, self.sides)
        except ValueError as error:
            raise ValueError(f"{self.name}: {error}") from error
        w = item_weights(self.name, self.weights, self.sample_weight, rows[:, 0], len(X))
        return replace(self, pairs=rows, targets=targets, sides=sides, weights=w, sample_weight=None)

    def describe(self) -> str:
        """Say in a few words what the term is."""
        return f"half squares over {self.size:,} target distances"

    @cached_property
    def scalar(self) -> HalfSquare:
        """Half a square, on one side or both."""
        return HalfSquare(np.asarray(self.sides, dtype=np.float64))

    @cached_property
    def offset(self) -> FloatArray:
        """Minus the targets."""
        return -np.asarray(self.targets, dtype=np.float64)

    def distance_pairs(self) -> IndexArray:
        """The pairs."""
        return np.asarray(self.pairs, dtype=np.int32)

    @cached_property
    def combination(self) -> sp.csr_array:
        """The distances themselves."""
        return sp.eye_array(self.size, format="csr")

    def roles(self) -> dict[str, IndexArray]:
        """Row numbers by role."""
        return dict(zip(("first", "second"), self.distance_pairs().T, strict=True))
