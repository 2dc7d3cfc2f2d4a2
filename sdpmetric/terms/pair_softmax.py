"""Weighted pairs under one softmax over all pairs: Eq. 8 of NCA's paper."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from types import ModuleType
from typing import ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.special import entr, logsumexp, softmax

from sdpmetric.linalg.rigorous import above, below, distributions, entropies, gamma, log_bounds, log_sum_exp, sum_above
from sdpmetric.terms.base import Expression, Loss
from sdpmetric.terms.margins import item_weights
from sdpmetric.terms.targets import check_term_pairs

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.int32]


@dataclass(frozen=True, eq=False, repr=False)
class PairSoftmax(Loss):
    """``-sum_(a, b) w_ab log( exp(-D(a, b)) / sum_(c, d) exp(-D(c, d)) )``, Eq. 8 of [GRHS2005].

    Given pairs are to be near, each as much as its weight says; (c, d) are all ordered pairs of different examples, so
    that everything else is pushed apart. The paper has a network between examples and distances. Of a linear map the
    function is convex in the metric: the distances are linear in it, and the logarithm of a sum of exponentials is
    convex. All pairs are listed: time and memory are quadratic in the number of examples.

    Parameters
    ----------
    pairs : (p, 2) integer array
        Row numbers of X; a repeated pair counts each time.
    weights : (p,) array, optional
        ``w_ab >= 0``, not all 0; default 1.
    sample_weight : (n,) array, optional
        Weights of examples; each pair is multiplied by that of its first row.
    weight : float, default 1

    Attributes
    ----------
    shares : (n (n - 1) / 2,) array
        Of a bound term, the weights of all pairs c < d divided by their sum `total`.
    """

    pairs: ArrayLike | None = None
    weights: ArrayLike | None = None
    sample_weight: ArrayLike | None = None
    n: int = 0
    shares: FloatArray | None = None
    total: float = 0.0

    name: ClassVar[str] = "pair_softmax"
    inside: ClassVar[bool] = True

    def bind(self, X: NDArray[np.floating]) -> Self:
        """Check the pairs against data."""
        n = len(X)
        rows = check_term_pairs(self.name, self.pairs, n)
        w = item_weights(self.name, self.weights, self.sample_weight, rows[:, 0], n)
        total = float(w.sum())
        if not total > 0.0:
            raise ValueError(f"the weights of {self.name} are all 0, so that no pair is to be near; give one a weight.")
        low, high = rows.min(axis=1).astype(np.int64), rows.max(axis=1)
        place = low * (2 * n - low - 1) // 2 + high - low - 1  # among all pairs c < d, row by row
        shares = np.bincount(place, w, n * (n - 1) // 2) / total
        return replace(self, pairs=rows, weights=w, sample_weight=None, n=n, shares=shares, total=total)

    def describe(self) -> str:
        """Say in a few words what the term is."""
        count = len(np.asarray(self.pairs))
        return f"softmax of {count:,} pairs among all pairs of {self.n:,} examples"

    @property
    def size(self) -> int:
        """All pairs c < d."""
        return self.n * (self.n - 1) // 2

    @property
    def offset(self) -> FloatArray:
        """0."""
        return np.zeros(self.size)

    def distance_pairs(self) -> IndexArray:
        """All pairs c < d, row by row."""
        return np.stack(np.triu_indices(self.n, 1), axis=1).astype(np.int32)

    @cached_property
    def combination(self) -> sp.csr_array:
        """Minus the squared distances."""
        return -sp.eye_array(self.size, format="csr")

    @cached_property
    def _scale(self) -> float:
        return self.weight * self.total

    @cached_property
    def ideal(self) -> FloatArray:
        """`shares`, (n (n - 1) / 2,)."""
        return np.asarray(self.shares)

    def value(self, u: FloatArray) -> float:
        """The weighted sum of minus log-probabilities."""
        return self.smoothed(u, 0.0)[0]

    def highest(self, low: FloatArray, high: FloatArray) -> float:
        """The highest logarithm of the sum less the lowest mean; see `Loss.highest`."""
        parts = np.append(-self.ideal * low, [float(log_sum_exp(low, high)[1]), float(log_bounds(np.array(2.0))[1])])
        slack = gamma(2 * self._count + 8) * float(np.abs(parts).sum())
        found = sum_above(np.append(parts, slack))
        return above(self._scale * found, 2 * self._count) if found > 0.0 else below(self._scale * -found) * -1.0

    @property
    def _count(self) -> int:
        """More than the roundings of `_scale` and of each of the shares."""
        return len(np.asarray(self.pairs)) + 8

    def _slopes(self, a: FloatArray) -> FloatArray:
        """The softmax of given multipliers, near an exact distribution."""
        return np.asarray(distributions(np.maximum(a / self._scale + self.ideal, 0.0)[None])[0])

    def dual_value(self, a: FloatArray) -> float:
        """See `Loss.dual_value`: the exact multipliers are those of a distribution."""
        entropy = float(entropies(self._slopes(a), 2)[0]) + float(log_bounds(np.array(2.0))[0])
        return below(self._scale * below(entropy), 2 * self._count)

    def errors(self, a: FloatArray) -> FloatArray:
        """See `Loss.errors`."""
        q = self._slopes(a)
        off = np.abs(self._scale * (q - self.ideal) - a)
        return np.asarray(off + gamma(2 * self._count) * self._scale * (q + self.ideal))

    def smoothed(self, u: FloatArray, width: float, center: FloatArray | None = None) -> tuple[float, FloatArray]:
        """There is no kink; the slopes are the softmax less the shares."""
        nearest = float(u[self.ideal > 0.0].max())  # so that small values keep their digits
        value = float(logsumexp(u - nearest)) + math.log(2.0) - float(self.ideal @ (u - nearest))
        return self._scale * value, self._scale * (softmax(u) - self.ideal)

    def conjugates(self, a: FloatArray) -> FloatArray:
        """Minus the entropy of the softmax over ordered pairs, at the first pair."""
        q = np.maximum(a / self._scale + self.ideal, 0.0)
        found = np.zeros(self.size)
        found[0] = -self._scale * (float(entr(q).sum()) + math.log(2.0))
        return found

    def clip(self, a: FloatArray) -> FloatArray:
        """Such that slopes and shares add up to a distribution."""
        q = np.maximum(a / self._scale + self.ideal, 0.0)
        total = float(q.sum())
        return np.asarray(self._scale * ((q / total if total > 0.0 else self.ideal) - self.ideal))

    def ceiling(self, a: FloatArray, step: FloatArray) -> float:
        """The largest t at which no probability is negative."""
        q, change = a / self._scale + self.ideal, step / self._scale
        down = change < 0.0
        return max(0.0, float((q[down] / -change[down]).min(initial=np.inf)))

    def expression(self, u: Expression, cp: ModuleType) -> tuple[Expression | float, list[object]]:
        """The weighted sum of minus log-probabilities."""
        found: Expression = self._scale * (cp.log_sum_exp(u) + math.log(2.0) - cp.sum(cp.multiply(self.ideal, u)))
        return found, []
