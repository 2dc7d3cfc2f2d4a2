"""The verb `explain`: what the multipliers of a solution mean.

For every statement with the capability `constraints` (`Constrained`); see ``docs/duals.md`` for the inequalities behind
every number.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sdpmetric.core.certificate import Certificate
from sdpmetric.core.constraints import Constraints
from sdpmetric.core.explanation import Columns, Explanation, Influence, Sensitivity, Slacks, Support
from sdpmetric.core.problem import Constrained, Problem, refuse
from sdpmetric.core.solution import Solution

FloatArray = NDArray[np.float64]

# Multipliers below this share of their bound (without a bound: of the largest) count as 0: what an interior-point
# method leaves. Those as near to their bound, or as near as the relative gap, count as at it.
SUPPORT = 1e-6
# Relative rounding of objective and lower bound, to be taken for a part of the gap.
ROUNDING = 1e-12


def explain(solution: Solution, problem: Problem | None = None) -> Explanation:
    """Read the multipliers of a solution, of any solver.

    The multipliers are repaired first, as the certificate does, so that they are dual feasible. How much they and the
    metric can be wrong is the gap of `Explanation.certificate`: ask the solver for a small one.

    Parameters
    ----------
    solution : Solution
        Of a statement whose multipliers belong to constraints. Where the solution has none (an edited program, a solve
        that was interrupted early), those that its metric suggests take their place, and the gap is larger.
    problem : Problem, optional
        The problem, for a solution that was loaded without it; default ``solution.problem``.

    Returns
    -------
    Explanation

    Raises
    ------
    TypeError
        If the statement has no multipliers with a meaning, or the solution is of a stream.
    ValueError
        If the solution was loaded without its problem and none is given, or the constraints contradict each other.
    """
    stated = solution.problem if problem is None else problem
    if stated is None:
        raise ValueError("the solution was loaded without its problem; pass it as explain(solution, problem).")
    if "explain" in stated.refusals or not isinstance(stated, Constrained):
        otherwise = "it has no method constraints() that says what its multipliers belong to; see solution.certificate."
        raise refuse(stated, "explain", otherwise)
    if solution.certificate.kind == "regret":
        raise TypeError("explain does not take a stream's solution, which has no multipliers: solve the problem first.")
    L = np.asarray(solution.components, dtype=np.float64)
    found = stated.constraints(L, solution.dual)
    certificate = stated.certify(L, dual=found.dual)
    support, influence = _support(found, certificate), _influence(found, len(stated.X))
    slacks, weights = _slacks(found, len(stated.X), certificate.constraints)
    margin = float(found.multipliers.sum()) if found.margin else None
    bounds = certificate.objective, certificate.lower_bound
    sensitivity = Sensitivity(*bounds, found.slopes, margin, weights, stated, L)
    return Explanation(certificate, found.dual, support, influence, slacks, sensitivity)


def _support(found: Constraints, certificate: Certificate) -> Support:
    a, ceilings = found.multipliers, found.loss.ceilings
    unit = np.where(np.isfinite(ceilings), ceilings, a.max(initial=0.0))
    active = np.flatnonzero(a > SUPPORT * unit)
    active = active[np.argsort(-a[active], kind="stable")]
    lower, upper = found.loss.intervals(found.excess, certificate.gap + ROUNDING * abs(certificate.objective))
    values = (a[active], ceilings[active], lower[active], upper[active])
    columns = _columns(found, active)
    return Support(certificate.constraints, columns, *values, max(SUPPORT, min(certificate.relative_gap, 1.0)))


def _influence(found: Constraints, n: int) -> Influence:
    contribution = np.zeros(n)
    for first, second, stretch in found.stretch:
        half = 0.5 * found.multipliers * stretch
        contribution += _sums(first, half, n) + _sums(second, half, n)
    roles = {role: _sums(rows, found.multipliers, n) for role, rows in found.roles.items()}
    return Influence(roles, contribution)


def _slacks(found: Constraints, n: int, kind: str) -> tuple[Slacks, FloatArray]:
    """The violated constraints, and the derivatives by the factors of their losses."""
    violated = np.flatnonzero(found.excess > 0)
    violated = violated[np.argsort(-found.excess[violated], kind="stable")]
    losses = found.loss.values(found.excess)
    roles = {role: _sums(rows, losses, n) for role, rows in found.roles.items()}
    slacks = Slacks(kind, _columns(found, violated), found.excess[violated], losses[violated], roles, found.sums)
    factors = np.ones(len(losses)) if found.weights is None else found.weights
    return slacks, losses[violated] / factors[violated]


def _columns(found: Constraints, which: NDArray[np.integer]) -> Columns:
    return {name: values[which] for name, values in {**found.roles, **found.columns}.items()}


def _sums(rows: NDArray[np.integer], values: FloatArray, n: int) -> FloatArray:
    return np.bincount(rows, values, minlength=n).astype(np.float64)
