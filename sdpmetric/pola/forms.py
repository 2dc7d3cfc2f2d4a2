"""Two forms of batch POLA: as its paper prints it (Eq. 2) with the dual program, and as a sum of terms.

With multipliers ``a_t >= 0`` of the margins, f of ``b >= 1``, and a PSD matrix Z of ``A >> 0``, the Lagrangian is
smallest at ``A = Z - sum_t a_t y_t V_t`` and ``b = b_1 + p``, with ``p = sum_t a_t y_t + f``. So the dual program is

    maximize    sum_t a_t + f - 1/2 ||Z - sum_t a_t y_t V_t||^2 - 1/2 p^2 - b_1 p
    subject to  a <= c w  for a soft margin, a >= 0, f >= 0, Z >> 0

As a sum, the threshold is the weight of one more feature. Let a row ``x_{n+1}`` be the first example with a 1 in a
new feature, which is 0 for all others. Under ``diag(A, b - 1)`` its distance to ``x_1`` is ``b - 1``, all other
distances are those under A, and ``||diag(A, b - 1) - diag(0, b_1 - 1)||^2 = ||A||^2 + (b - b_1)^2``. So POLA is a sum
over metrics of d + 1 features: ``b >= 1`` says that the last weight is nonnegative, and metrics that mix the new
feature with others have the same distances between examples and cost more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray, IndexArray
from sdpmetric.engine.lazy import cached
from sdpmetric.lazy import cvxpy as cp
from sdpmetric.lines import Lines, boxes, distance, number, points, times, total
from sdpmetric.losses import ScalarLoss
from sdpmetric.programs.atoms import CONE, sum_of_squares
from sdpmetric.programs.exact_program import printed
from sdpmetric.sums.problem import MetricProblem
from sdpmetric.sums.terms.margins import MarginLoss, Rows
from sdpmetric.sums.terms.norms import Frobenius

if TYPE_CHECKING:
    from sdpmetric.pola.problem import POLAProblem

# Labels of the constraints; the variables are named A, b and xi.
MARGINS, SLACKS, FLOOR = "margins", "slacks", "floor"


def lines(problem: POLAProblem) -> Lines:
    """Return the program, without slacks for hard margins."""
    soft, n = problem.slack_weight is not None, len(problem.pairs)
    D, similar = [distance(i, j) for i, j in problem.pairs.tolist()], problem.similar.tolist()
    sides = (f"b - {D[t]}" if similar[t] else f"{D[t]} - b" for t in range(n))
    margins = [f"{side} >= 1{f' - xi[{t}]' if soft else ''}" for t, side in enumerate(sides)]
    objective, definitions = f"1/2 * ||A||^2 + 1/2 * (b - {number(problem.initial_threshold)})^2", list[str]()
    constraints = [(MARGINS, margins), (CONE, ["A >> 0"]), (FLOOR, ["b >= 1"])]
    if problem.slack_weight is not None:
        slacks = ((w, f"xi[{t}]") for t, w in enumerate(problem.slack_shares.tolist()))
        objective += f" + {times('c', total(slacks, n))}"
        definitions.append(f"c = {number(problem.slack_weight)}")
        constraints.insert(1, (SLACKS, ["xi >= 0"]))
    return Lines(objective, constraints, [*definitions, "D(i,j) = (x_i - x_j)' A (x_i - x_j)", *points(problem.X)])


def dual_program(problem: POLAProblem) -> cp.Problem:
    """Return the dual program; its variables have the names of the constraints: ``margins``, ``cone`` and ``floor``."""
    y, d = problem.signs, problem.X.shape[1]
    a, f = cp.Variable(len(y), nonneg=True, name=MARGINS), cp.Variable(nonneg=True, name=FLOOR)
    Z, p = cp.Variable((d, d), PSD=True, name=CONE), y @ a + f
    squares = cp.sum_squares(Z - sum_of_squares(problem.differences, cp.multiply(y, a))) + cp.square(p)
    value = cp.sum(a) + f - 0.5 * squares - problem.initial_threshold * p
    limits = [] if problem.slack_weight is None else [(a <= problem.ceilings).set_label("xi")]
    return printed(cp.Maximize(value), limits, lambda: _dual_lines(problem))


def _dual_lines(problem: POLAProblem) -> Lines:
    y, n = problem.signs.tolist(), len(problem.pairs)
    a = [f"{MARGINS}[{t}]" for t in range(n)]
    gain = total([(1.0, name) for name in [*a, FLOOR]], n + 1)
    products = [times(name, distance(i, j, "V")) for name, (i, j) in zip(a, problem.pairs.tolist(), strict=True)]
    A = total([(1.0, CONE), *((-y_t, product) for y_t, product in zip(y, products, strict=True))], n + 1)
    p = total([*zip(y, a, strict=True), (1.0, FLOOR)], n + 1)
    definitions = [f"A = {A}", f"p = {p}", "V(i,j) = (x_i - x_j)(x_i - x_j)'", *points(problem.X)]
    limits = [] if problem.slack_weight is None else [("xi", boxes(MARGINS, "<=", problem.ceilings.tolist()))]
    constraints = [*limits, *(("", [sign]) for sign in (f"{MARGINS} >= 0", f"{CONE} >> 0", f"{FLOOR} >= 0"))]
    objective = f"{gain} - 1/2 * ||A||^2 - 1/2 * p^2 - {times(problem.initial_threshold, 'p')}"
    return Lines(objective, constraints, definitions, "maximize")


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
    """State ``1/2 ||A||^2 + 1/2 (b - b_1)^2 + sum_t w_t l(1 - y_t (b - D(t)))``, or its losses if b_1 is None."""
    n, d = X.shape
    lifted = np.zeros((n + 1, d + 1), dtype=X.dtype)
    lifted[:n, :d], lifted[n, :d], lifted[n, d] = X, X[0], 1.0
    lifted_pairs = np.concatenate([pairs, [[0, n]]]).astype(np.int32)
    margins = ThresholdMargins(pairs=lifted_pairs, signs=signs, loss=loss, weights=weights)
    if initial_threshold is None:
        return MetricProblem(lifted, margins)
    return MetricProblem(lifted, margins + Frobenius(to=np.diag([*np.zeros(d), initial_threshold - 1.0])))
