"""POLA as a sum: margins of pairs to a threshold, which is 1 plus the squared distance of a pair of rows of its own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray, IndexArray
from sdpmetric.losses import ScalarLoss
from sdpmetric.sums.problem import MetricProblem
from sdpmetric.sums.terms.frobenius import Frobenius
from sdpmetric.sums.terms.margins import MarginLoss, Rows


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ThresholdMargins(MarginLoss):
    """``sum_t w_t l(1 - y_t (1 + D(own) - D(t)))`` over pairs t with signs ``y_t``, the last pair being the own one."""

    pairs: IndexArray
    signs: FloatArray
    loss: ScalarLoss

    name: ClassVar[str] = "threshold_margins"

    def bind(self, X: NDArray[np.floating]) -> Self:
        """It is stated for its data."""
        return self

    def describe(self) -> str:
        """Say in a few words what the term is."""
        return f"{self.scalar.name} over {self.size:,} margins to a threshold"

    @cached_property
    def rows(self) -> Rows:
        """``1 - y_t + y_t (D(t) - D(own))``."""
        K = sp.csr_array(sp.hstack([sp.diags_array(self.signs), -self.signs[:, None]], format="csr"))
        roles = {"first": self.pairs[:-1, 0], "second": self.pairs[:-1, 1]}
        return Rows(self.loss, self.pairs, K, 1.0 - self.signs, roles=roles)


def as_sum(
    X: NDArray[np.floating],
    pairs: IndexArray,
    signs: FloatArray,
    scalar: ScalarLoss,
    weights: FloatArray,
    initial_threshold: float | None,
) -> MetricProblem:
    """``1/2 ||A||^2 + 1/2 (b - b_1)^2 + sum_t w_t l(1 - y_t (b - D(t)))`` as a sum over one more feature and row.

    The last row is the first one with a 1 in the new feature, whose weight is ``b - 1``. Metrics that mix it with the
    others cost more than without that, and their distances are the same. No initial threshold: the losses alone.
    """
    n, d = X.shape
    lifted = np.zeros((n + 1, d + 1), dtype=X.dtype)
    lifted[:n, :d], lifted[n, :d], lifted[n, d] = X, X[0], 1.0
    both = np.concatenate([pairs, [[0, n]]]).astype(np.int32)
    margins = ThresholdMargins(pairs=both, signs=signs, loss=scalar, weights=weights)
    if initial_threshold is None:
        return MetricProblem(lifted, margins)
    return MetricProblem(lifted, margins + Frobenius(to=np.diag([*np.zeros(d), initial_threshold - 1.0])))
