"""Collapsing classes: soft neighbors are to be members of the own class."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from types import ModuleType
from typing import ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.special import entr, logsumexp, softmax

from sdpmetric.core import validation
from sdpmetric.linalg.rigorous import (
    above,
    below,
    distributions,
    entropies,
    gamma,
    log_bounds,
    log_sum_exp,
    sum_above,
    sum_below,
)
from sdpmetric.terms.base import Expression, PairLoss

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.int32]


@dataclass(frozen=True, eq=False, repr=False)
class Collapse(PairLoss):
    """``sum_i KL(p0(. | i) || p(. | i))`` with ``p(j | i)`` a softmax of ``-D(i, j)``, the objective of MCML [GR2006].

    ``p0(. | i)`` is uniform over the other members of i's class. All pairs are listed: time and memory are quadratic
    in the number of examples; `MCMLProblem` states this term alone, with faster loops.

    Parameters
    ----------
    labels : (n,) array
        Class labels of any kind; at least two classes, each with at least two members.
    weight : float, default 1

    Attributes
    ----------
    index : (n,) int32 array
        Of a bound term, the class of each example.
    """

    labels: ArrayLike | None = None
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
        return replace(self, labels=None, index=index)

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

    @property
    def size(self) -> int:
        """The ordered pairs of different examples."""
        return self.n * (self.n - 1)

    @property
    def offset(self) -> FloatArray:
        """0."""
        return np.zeros(self.size)

    def distance_pairs(self) -> IndexArray:
        """Each example with all others, example by example."""
        first, second = np.nonzero(~np.eye(self.n, dtype=bool))
        return np.stack([first, second], axis=1).astype(np.int32)

    @cached_property
    def combination(self) -> sp.csr_array:
        """Minus the squared distances."""
        return -sp.eye_array(self.size, format="csr")

    @cached_property
    def ideal(self) -> FloatArray:
        """``p0``, (n, n - 1)."""
        first, second = self.distance_pairs().T
        same = (self._classes[first] == self._classes[second]).reshape(self.n, -1).astype(np.float64)
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
        found = sum_above(np.maximum(partition - pull.sum(axis=1) - self._mates[0] + slack, 0.0))
        return above(self.weight * found, 2)

    @cached_property
    def _mates(self) -> tuple[FloatArray, FloatArray]:
        """Floats below and above the exact `entropies`."""
        return log_bounds(np.asarray(np.bincount(self._classes)[self._classes] - 1.0, dtype=np.float64))

    def _slopes(self, a: FloatArray) -> FloatArray:
        """The distributions q of given multipliers, each row near an exact one."""
        return distributions(np.maximum(a.reshape(self.n, -1) / self.weight + self.ideal, 0.0))

    def dual_value(self, a: FloatArray) -> float:
        """See `Loss.dual_value`: the exact multipliers are those of distributions."""
        parts = np.concatenate([entropies(self._slopes(a), 2)[0], -self._mates[1]])
        total = sum_below(parts)
        return below(self.weight * total) if total > 0.0 else -above(self.weight * -total)

    def errors(self, a: FloatArray) -> FloatArray:
        """See `Loss.errors`."""
        q, rows = self._slopes(a), a.reshape(self.n, -1)
        size = self.weight * (q + self.ideal)
        return np.asarray(np.abs(self.weight * (q - self.ideal) - rows) + gamma(16) * size).ravel()

    def smoothed(self, u: FloatArray, width: float, center: FloatArray | None = None) -> tuple[float, FloatArray]:
        """There is no kink; the slopes are ``q - p0`` for the softmax q."""
        rows = u.reshape(self.n, -1)
        nearest = np.where(self.ideal > 0.0, rows, -np.inf).max(axis=1, keepdims=True)
        pull = np.sum(self.ideal * (rows - nearest), axis=1)
        divergences = logsumexp(rows - nearest, axis=1) - pull - self.entropies
        a = self.weight * (softmax(rows, axis=1) - self.ideal)
        return self.weight * float(np.maximum(divergences, 0.0).sum()), a.ravel()

    def conjugates(self, a: FloatArray) -> FloatArray:
        """The entropy of p0 less that of q, for each example at its first pair."""
        q = np.maximum(a.reshape(self.n, -1) / self.weight + self.ideal, 0.0)
        found = np.zeros((self.n, self.n - 1))
        found[:, 0] = self.weight * (self.entropies - entr(q).sum(axis=1))
        return found.ravel()

    def clip(self, a: FloatArray) -> FloatArray:
        """Such that q is a distribution."""
        q = np.maximum(a.reshape(self.n, -1) / self.weight + self.ideal, 0.0)
        sums = q.sum(axis=1, keepdims=True)
        q = np.where(sums > 0.0, q / np.where(sums > 0.0, sums, 1.0), self.ideal)
        return np.asarray(self.weight * (q - self.ideal)).ravel()

    def ceiling(self, a: FloatArray, step: FloatArray) -> float:
        """The largest t at which no probability is negative."""
        q, change = a.reshape(self.n, -1) / self.weight + self.ideal, step.reshape(self.n, -1) / self.weight
        down = change < 0.0
        return max(0.0, float((q[down] / -change[down]).min(initial=np.inf)))

    def expression(self, u: Expression, cp: ModuleType) -> tuple[Expression | float, list[object]]:
        """The weighted sum of divergences."""
        rows = cp.reshape(u, (self.n, self.n - 1), order="C")
        pull = cp.sum(cp.multiply(self.ideal, rows)) + float(self.entropies.sum())
        return self.weight * (cp.sum(cp.log_sum_exp(rows, axis=1)) - pull), []
