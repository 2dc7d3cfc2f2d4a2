"""Collapsing classes: soft neighbors are to be members of the own class."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from types import ModuleType
from typing import ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.special import entr

from sdpmetric.core import validation
from sdpmetric.core.sample_weight import check_sample_weight
from sdpmetric.linalg.rigorous import (
    above,
    all_above,
    distributions,
    entropies,
    gamma,
    log_bounds,
    log_sum_exp,
    sum_above,
    sum_below,
)
from sdpmetric.terms.base import Expression, Loss

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.int32]

# Exponential cones, one for each ordered pair of examples, beyond which no program is stated.
MAX_CONES = 200_000


@dataclass(frozen=True, eq=False, repr=False)
class Collapse(Loss):
    """``sum_i w_i KL(p0(. | i) || p(. | i))`` with ``p(j | i)`` a softmax of ``-D(i, j)``, MCML's objective [GR2006].

    ``p0(. | i)`` is uniform over the other members of i's class. Time and memory are quadratic in the number of
    examples. Multipliers are ``w_i (q(j | i) - p0(j | i))`` for distributions q, row by row without the diagonal.

    Parameters
    ----------
    labels : (n,) array
        Class labels of any kind; at least two classes, each with at least two members.
    sample_weight : (n,) array, optional
        ``w``, nonnegative; default 1.
    weight : float, default 1

    Attributes
    ----------
    index : (n,) int32 array
        Of a bound term, the class of each example.
    """

    labels: ArrayLike | None = None
    sample_weight: ArrayLike | None = None
    index: IndexArray | None = None

    name: ClassVar[str] = "collapse"
    inside: ClassVar[bool] = True

    def bind(self, X: NDArray[np.floating]) -> Self:
        """Check the labels against data."""
        try:
            classes, index = validation.check_labels([] if self.labels is None else self.labels, len(X))
        except ValueError as error:
            raise ValueError(f"{self.name}: {error}") from error
        counts = np.bincount(index)
        if counts.min() == 1:
            raise ValueError(
                f"{self.name}: class {classes.tolist()[counts.argmin()]!r} has one member; each class needs two at "
                "least: merge or drop such classes."
            )
        weights = check_sample_weight(self.sample_weight, len(X))
        return replace(self, labels=None, index=index, sample_weight=weights)

    def describe(self) -> str:
        """Say in a few words what the term is."""
        return f"divergence of soft neighbors from the classes of {self.n:,} examples"

    @property
    def n(self) -> int:
        """Number of examples."""
        return len(self._classes)

    @property
    def _classes(self) -> IndexArray:
        return np.asarray(self.index, dtype=np.int32)

    @cached_property
    def row_weights(self) -> FloatArray:
        """``weight * w_i``, (n, 1)."""
        w = np.ones(self.n) if self.sample_weight is None else np.asarray(self.sample_weight, dtype=np.float64)
        return self.weight * w[:, None]

    @property
    def size(self) -> int:
        """The ordered pairs of different examples."""
        return self.n * (self.n - 1)

    @cached_property
    def offset(self) -> FloatArray:
        """0."""
        return np.zeros(self.size)

    def distance_pairs(self) -> IndexArray:
        """All pairs a < b, row by row."""
        return np.stack(np.triu_indices(self.n, 1), axis=1).astype(np.int32)

    @cached_property
    def combination(self) -> sp.csr_array:
        """Minus the squared distance of each ordered pair, example by example."""
        first, second = np.nonzero(~np.eye(self.n, dtype=bool))
        low, high = np.minimum(first, second), np.maximum(first, second)
        place = low * (2 * self.n - low - 1) // 2 + high - low - 1
        rows = (-np.ones(self.size), place, np.arange(self.size + 1))
        return sp.csr_array(rows, shape=(self.size, self.size // 2))

    @cached_property
    def ideal(self) -> FloatArray:
        """``p0``, (n, n - 1)."""
        same = (self._classes[:, None] == self._classes)[~np.eye(self.n, dtype=bool)].reshape(self.n, -1)
        return np.asarray(same / same.sum(axis=1, keepdims=True))

    @cached_property
    def entropies(self) -> FloatArray:
        """Of ``p0(. | i)``, (n,)."""
        return np.asarray(np.log(np.bincount(self._classes)[self._classes] - 1.0))

    def value(self, u: FloatArray) -> float:
        """The weighted sum of divergences."""
        return self.smoothed(u, 0.0)[0]

    def highest(self, low: FloatArray, high: FloatArray) -> float:
        """Highest partition functions less lowest pulls; see `Loss.highest`."""
        lowest, highest = low.reshape(self.n, -1), high.reshape(self.n, -1)
        partition, pull = log_sum_exp(lowest, highest)[1], self.ideal * lowest
        slack = gamma(self.n + 8) * (np.abs(pull).sum(axis=1) + np.abs(partition) + self._mates[1])
        found = np.maximum(partition - pull.sum(axis=1) - self._mates[0] + slack, 0.0)
        return above(sum_above(self.row_weights[:, 0] * found), 4)

    @cached_property
    def _mates(self) -> tuple[FloatArray, FloatArray]:
        """Floats below and above the exact `entropies`."""
        return log_bounds(np.asarray(np.bincount(self._classes)[self._classes] - 1.0, dtype=np.float64))

    def probabilities(self, a: FloatArray) -> FloatArray:
        """The numbers q of given multipliers, 0 where they are negative, (n, n - 1)."""
        rows, w = a.reshape(self.n, -1), self.row_weights
        return np.maximum(np.divide(rows, w, out=np.zeros_like(rows), where=w > 0.0) + self.ideal, 0.0)

    def dual_value(self, a: FloatArray) -> float:
        """See `Loss.dual_value`: the exact multipliers are those of distributions."""
        found = np.stack([entropies(distributions(self.probabilities(a)), 2)[0], -self._mates[1]])
        parts = (self.row_weights[:, 0] * found).ravel()
        return sum_below(parts - all_above(gamma(4) * np.abs(parts)))

    def errors(self, a: FloatArray) -> FloatArray:
        """See `Loss.errors`."""
        q = distributions(self.probabilities(a))
        off = np.abs(self.row_weights * (q - self.ideal) - a.reshape(self.n, -1))
        return np.asarray(off + gamma(16) * self.row_weights * (q + self.ideal)).ravel()

    def smoothed(self, u: FloatArray, width: float, center: FloatArray | None = None) -> tuple[float, FloatArray]:
        """There is no kink; the slopes are ``q - p0`` for the softmax q."""
        rows = u.reshape(self.n, -1)
        top, nearest = rows.max(axis=1, keepdims=True), np.where(self.ideal > 0.0, rows, -np.inf).max(axis=1)
        q = np.exp(rows - top)
        sums = q.sum(axis=1, keepdims=True)
        # Beside the nearest of the class, so that small divergences keep their digits.
        pull = np.einsum("ij,ij->i", self.ideal, rows - nearest[:, None])
        divergences = np.log(sums[:, 0]) + (top[:, 0] - nearest) - pull - self.entropies
        value = float(self.row_weights[:, 0] @ np.maximum(divergences, 0.0))
        return value, (self.row_weights * (q / sums - self.ideal)).ravel()

    def conjugates(self, a: FloatArray) -> FloatArray:
        """The entropy of p0 less that of q, for each example at its first pair."""
        found = np.zeros((self.n, self.n - 1))
        found[:, 0] = self.row_weights[:, 0] * (self.entropies - entr(self.probabilities(a)).sum(axis=1))
        return found.ravel()

    def clip(self, a: FloatArray) -> FloatArray:
        """Such that q is a distribution."""
        q = self.probabilities(a)
        sums = q.sum(axis=1, keepdims=True)
        q = np.where(sums > 0.0, q / np.where(sums > 0.0, sums, 1.0), self.ideal)
        return np.asarray(self.row_weights * (q - self.ideal)).ravel()

    def ceiling(self, a: FloatArray, step: FloatArray) -> float:
        """The largest t at which no probability is negative."""
        q, change = (self.row_weights * self.ideal).ravel() + a, step
        down = change < 0.0
        return max(0.0, float((q[down] / -change[down]).min(initial=np.inf)))

    def expression(self, u: Expression, cp: ModuleType) -> tuple[Expression | float, list[object]]:
        """The weighted sum of divergences.

        Raises
        ------
        ValueError
            If there are more ordered pairs than a solver could hold.
        """
        if self.size > MAX_CONES:
            raise ValueError(
                f"the program would have {self.size:,} exponential cones; it is stated up to {MAX_CONES:,}. Solve with "
                "solver='factored', or take fewer examples."
            )
        rows, w = cp.reshape(u, (self.n, self.n - 1), order="C"), self.row_weights[:, 0]
        pull = cp.sum(cp.multiply(self.row_weights * self.ideal, rows)) + float(w @ self.entropies)
        return w @ cp.log_sum_exp(rows, axis=1) - pull, []
