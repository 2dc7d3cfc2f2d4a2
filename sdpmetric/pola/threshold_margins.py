"""Margins of pairs to a threshold as a term of a sum, with the threshold as the weight of one more feature.

Let a row ``x_{n+1}`` be the first example with a 1 in a new feature, which is 0 for all others. Under
``diag(A, b - 1)`` its distance to ``x_1`` is ``b - 1``, all other distances are those under A, and
``||diag(A, b - 1) - diag(0, b_1 - 1)||^2 = ||A||^2 + (b - b_1)^2``. So POLA is a sum over metrics of d + 1 features:
``b >= 1`` says that the last weight is nonnegative, and metrics that mix the new feature with others have the same
distances between examples and cost more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray, IndexArray
from sdpmetric.engine.cached import cached
from sdpmetric.losses import ScalarLoss
from sdpmetric.sums.problem import MetricProblem
from sdpmetric.sums.terms.frobenius import Frobenius
from sdpmetric.sums.terms.margins import MarginLoss, Rows


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ThresholdMargins(MarginLoss):
    """``sum_t w_t l(1 - y_t (1 + D(p + 1) - D(t)))`` over p pairs; pair p + 1 is ``(x_1, x_{n+1})``."""

    pairs: IndexArray
    signs: FloatArray
    loss: ScalarLoss

    name: ClassVar[str] = "threshold_margins"

    def bind(self, X: NDArray[np.floating]) -> Self:
        return self

    def describe(self) -> str:
        return f"{self.scalar.name} over {self.size:,} margins to a threshold"

    @cached
    def rows(self) -> Rows:
        """``1 - y_t + y_t (D(t) - D(p + 1))``."""
        K = sp.csr_array(sp.hstack([sp.diags_array(self.signs), -self.signs[:, None]], format="csr"))
        roles = {"first": self.pairs[:-1, 0], "second": self.pairs[:-1, 1]}
        return Rows(self.loss, self.pairs, K, 1.0 - self.signs, roles=roles)


def margins_to_threshold(
    X: NDArray[np.floating],
    pairs: IndexArray,
    signs: FloatArray,
    loss: ScalarLoss,
    weights: FloatArray,
    initial_threshold: float | None,
) -> MetricProblem:
    """``1/2 ||A||^2 + 1/2 (b - b_1)^2 + sum_t w_t l(1 - y_t (b - D(t)))``; no initial threshold: the losses alone."""
    n, d = X.shape
    lifted = np.zeros((n + 1, d + 1), dtype=X.dtype)
    lifted[:n, :d], lifted[n, :d], lifted[n, d] = X, X[0], 1.0
    lifted_pairs = np.concatenate([pairs, [[0, n]]]).astype(np.int32)
    margins = ThresholdMargins(pairs=lifted_pairs, signs=signs, loss=loss, weights=weights)
    if initial_threshold is None:
        return MetricProblem(lifted, margins)
    return MetricProblem(lifted, margins + Frobenius(to=np.diag([*np.zeros(d), initial_threshold - 1.0])))
