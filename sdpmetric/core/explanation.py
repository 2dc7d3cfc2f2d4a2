"""The meaning of the multipliers of a solution: support, influence of examples, slacks, and sensitivities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray, allow_underflow
from sdpmetric.core.certificate import Certificate, Multipliers
from sdpmetric.core.constraints import Constraints
from sdpmetric.core.problem import Constrained, Problem, unsupported
from sdpmetric.core.solution import Solution, problem_of
from sdpmetric.core.text import Printed

Columns = dict[str, NDArray[np.generic]]


@dataclass(frozen=True, eq=False, repr=False)
class Support:
    """The support: constraints with a positive multiplier, largest first.

    Attributes
    ----------
    kind : str
        What the constraints are about, for example "triplets" or "pairs".
    columns : mapping of str to (s,) array
        What the constraints are: row numbers of X by role, and what else tells them apart.
    multipliers : (s,) array
        ``a_t`` of a feasible dual point: the derivative of the optimum by a tightening of this constraint alone.
    ceilings : (s,) array
        The largest multipliers; infinite if there is no upper bound.
    lower, upper : (s,) arrays
        Proven by the gap: in every optimal dual point the multiplier lies between the two.
    tolerance : float
        How far from its bound, relatively, a multiplier counts as at it: about the relative gap, as repair scales them.
    """

    kind: str
    columns: Mapping[str, NDArray[np.generic]]
    multipliers: FloatArray
    ceilings: FloatArray
    lower: FloatArray
    upper: FloatArray
    tolerance: float

    def __len__(self) -> int:
        return len(self.multipliers)

    @property
    def at_bound(self) -> NDArray[np.bool_]:
        """Which multipliers are at their upper bound, as those of violated constraints under the hinge are, (s,)."""
        bounded = np.isfinite(self.ceilings)
        reached: NDArray[np.bool_] = self.multipliers >= (1 - self.tolerance) * np.where(bounded, self.ceilings, 0.0)
        return bounded & reached

    @property
    def inside(self) -> NDArray[np.bool_]:
        """Which multipliers are strictly between 0 and their bound: of hinges, those that hold exactly, (s,)."""
        return ~self.at_bound

    @property
    def in_every_support(self) -> NDArray[np.bool_]:
        """Which constraints are in the support of every optimal dual point, (s,)."""
        return self.lower > 0

    def to_dict(self) -> Columns:
        """Return columns by name, as ``pandas.DataFrame`` takes them."""
        values = {"multiplier": self.multipliers, "ceiling": self.ceilings, "lower": self.lower, "upper": self.upper}
        return {**self.columns, **values}

    def __str__(self) -> str:
        split = f": {int(self.at_bound.sum()):,} at their bound, {int(self.inside.sum()):,} inside"
        bounded = split if np.isfinite(self.ceilings).any() else ""
        every = int(self.in_every_support.sum())
        return f"{len(self):,} support {self.kind}{bounded}; {every:,} in every support by the gap"


@dataclass(frozen=True, eq=False, repr=False)
class Influence:
    """How much each example contributes to the multipliers.

    Attributes
    ----------
    by_role : mapping of str to (n,) array
        Sums of the multipliers of the constraints that give the example this role; each array sums to ``sum a``.
    contribution : (n,) array
        Signed contribution to the size of the metric: a distance that a constraint enlarges contributes ``a_t D``, one
        that it shrinks ``-a_t D``, half to each of its two examples.
    """

    by_role: Mapping[str, FloatArray]
    contribution: FloatArray

    @property
    def total(self) -> FloatArray:
        """Sum over the roles, (n,)."""
        return np.asarray(np.sum(list(self.by_role.values()), axis=0))

    def to_dict(self) -> Columns:
        """Return columns by name, one row for each example."""
        roles = {f"as_{role}": values for role, values in self.by_role.items()}
        return {"example": np.arange(len(self.total)), **roles, "total": self.total, "contribution": self.contribution}

    def __str__(self) -> str:
        total = self.total
        first = np.argsort(-total, kind="stable")[:5]
        largest = ", ".join(f"{i} ({total[i]:.4g})" for i in first if total[i] > 0)
        return f"{int((total > 0).sum()):,} of {len(total):,} examples have influence; most: {largest or 'none'}"


@dataclass(frozen=True, eq=False, repr=False)
class Slacks:
    """The violated constraints of the metric, all of them, largest slack first.

    Attributes
    ----------
    kind : str
        As in `Support`.
    columns : mapping of str to (v,) array
        As in `Support`.
    values : (v,) array
        By how much each is violated, positive; for a margin, ``1 - (D(i, l) - D(i, j))``.
    losses : (v,) array
        What each costs, a part of the objective.
    by_role : mapping of str to (n,) array
        Sums of the losses of the constraints that give the example this role.
    sums : mapping of str to float
        The sums that the objective is made of, by name.
    """

    kind: str
    columns: Mapping[str, NDArray[np.generic]]
    values: FloatArray
    losses: FloatArray
    by_role: Mapping[str, FloatArray]
    sums: Mapping[str, float]

    def __len__(self) -> int:
        return len(self.values)

    def to_dict(self) -> Columns:
        """Return columns by name, one row for each violated constraint."""
        return {**self.columns, "slack": self.values, "loss": self.losses}

    def __str__(self) -> str:
        examples = int((np.sum(list(self.by_role.values()), axis=0) > 0).sum())
        worst = f", largest slack {self.values[0]:.4g}" if len(self) else ""
        sums = ", ".join(f"{name} {value:.6g}" for name, value in self.sums.items())
        return f"{len(self):,} violated {self.kind} of {examples:,} examples{worst}{'; ' if sums else ''}{sums}"


@dataclass(frozen=True, eq=False, repr=False)
class Sensitivity:
    """Derivatives of the optimum, up to the gap; supergradients (by the margin: a subgradient) if it has none.

    Attributes
    ----------
    objective, lower_bound : float
        Proven for the problem as it is stated.
    weights : mapping of str to float
        By each weight of the statement (`Problem.weights`).
    margin : float or None
        By the margin of all constraints, ``sum a``; None for a statement without a margin. If the other terms are
        linear and the losses are hinges, the optimum is proportional to the margin, and this is the lower bound itself.
    constraint_weights : (v,) array
        By the factor of the loss of every violated constraint, in the order of `Slacks`; 0 for all others.
    problem : Problem
    components : (r, d) array
        The point.
    """

    objective: float
    lower_bound: float
    weights: Mapping[str, float]
    margin: float | None
    constraint_weights: FloatArray
    problem: Problem
    components: FloatArray

    def at_most(self, **weights: float) -> float:
        """Bound the optimum from above at other weights: by the objective of this metric there.

        If the objective is linear in the weights, that is the tangent with the derivatives `weights`.
        """
        return self.problem.with_weights(**weights).objective(self.components) if weights else self.objective

    def at_least(self, *, margin: float) -> float:
        """Bound the optimum from below at another margin than 1: it is convex in it, and above each of its tangents."""
        if self.margin is None:
            raise TypeError(f"{type(self.problem).__name__} has no margin; its multipliers are for single constraints.")
        return self.lower_bound + self.margin * (margin - 1.0)

    def to_dict(self) -> dict[str, float]:
        """Return the derivatives by margin and weights, by name."""
        return ({} if self.margin is None else {"margin": self.margin}) | dict(self.weights)

    def __str__(self) -> str:
        slopes = ", ".join(f"{name} {value:+.6g}" for name, value in self.to_dict().items())
        return f"optimum by {slopes or 'none of its weights'}"


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(Printed):
    """The constraints, examples and weights of a solution, explained by its multipliers.

    Attributes
    ----------
    certificate : Certificate
        Certificate of exactly the point and multipliers that are explained. Its gap is the error of everything here.
    dual : Dual or (p,) array
        The feasible multipliers themselves, tiny multipliers included.
    support : Support
    influence : Influence
    slacks : Slacks
    sensitivity : Sensitivity
    """

    certificate: Certificate
    dual: Multipliers
    support: Support
    influence: Influence
    slacks: Slacks
    sensitivity: Sensitivity

    def __str__(self) -> str:
        sections = (self.certificate, self.support, self.influence, self.slacks, self.sensitivity)
        return "\n".join(map(str, sections))

    def __repr__(self) -> str:
        return f"<Explanation {self}>"


# Multipliers below this share of their bound (without a bound: of the largest) count as 0: what an interior-point
# method leaves. Those as near to their bound, or as near as the relative gap, count as at it.
SUPPORT = 1e-6


@allow_underflow
def explain(solution: Solution) -> Explanation:
    """Explain a solution by its multipliers: support, influence, slacks and sensitivities.

    The multipliers are first made dual feasible, as for a certificate. The smaller the gap of
    `Explanation.certificate`, the more exact they are: request a small one from the solver.

    Parameters
    ----------
    solution : Solution
        A problem's solution with multipliers of constraints. If it has none (a solve that was
        interrupted early), the slopes at its metric take their place, and the gap is larger.

    Returns
    -------
    Explanation

    Raises
    ------
    TypeError
        If the problem has no constraints on examples, or the solution is that of a stream.

    See Also
    --------
    Explanation, solve

    Examples
    --------
    >>> import numpy as np
    >>> import sdpmetric as sm
    >>> problem = sm.LMNNProblem.from_labels(*sm.datasets.load("iris"))
    >>> solution = sm.solve(problem)
    >>> explanation = sm.explain(solution)
    >>> len(explanation.support) == np.sum(explanation.dual.values > 1e-6 * 0.5)
    np.True_
    >>> explanation.support.at_bound.any()
    np.True_
    """
    stated = problem_of("explain", solution)
    if not isinstance(stated, Constrained):
        reason = "it has no method constraints() that says what multipliers belong to; see solution.certificate"
        raise unsupported("explain", stated, reason)
    if solution.certificate.kind == "regret":
        raise TypeError("explain does not take a stream's solution, which has no multipliers: solve the problem first.")
    L = np.asarray(solution.components, dtype=np.float64)
    constraints = stated.constraints(L, solution.dual)
    certificate = stated.certify(L, dual=constraints.dual)
    support, influence = _support(constraints, certificate), _influence(constraints, len(stated.X))
    slacks, weights = _slacks(constraints, len(stated.X), certificate.constraints)
    margin = float(constraints.multipliers.sum()) if constraints.margin else None
    bounds = certificate.objective, certificate.lower_bound
    sensitivity = Sensitivity(*bounds, constraints.slopes, margin, weights, stated, L)
    return Explanation(certificate, constraints.dual, support, influence, slacks, sensitivity)


def _support(constraints: Constraints, certificate: Certificate) -> Support:
    a, ceilings = constraints.multipliers, constraints.loss.ceilings
    unit = np.where(np.isfinite(ceilings), ceilings, a.max(initial=0.0))
    active = np.flatnonzero(a > SUPPORT * unit)
    active = active[np.argsort(-a[active], kind="stable")]
    # 1e-12: the relative rounding of objective and lower bound, taken for a part of the gap.
    lower, upper = constraints.loss.intervals(constraints.excess, certificate.gap + 1e-12 * abs(certificate.objective))
    values = (a[active], ceilings[active], lower[active], upper[active])
    columns = _columns(constraints, active)
    return Support(certificate.constraints, columns, *values, max(SUPPORT, min(certificate.relative_gap, 1.0)))


def _influence(constraints: Constraints, n: int) -> Influence:
    contribution = np.zeros(n)
    for first, second, stretch in constraints.stretch:
        half = 0.5 * constraints.multipliers * stretch
        contribution += _sums(first, half, n) + _sums(second, half, n)
    roles = {role: _sums(rows, constraints.multipliers, n) for role, rows in constraints.roles.items()}
    return Influence(roles, contribution)


def _slacks(constraints: Constraints, n: int, kind: str) -> tuple[Slacks, FloatArray]:
    """Return the violated constraints, and the derivatives by the factors of their losses."""
    violated = np.flatnonzero(constraints.excess > 0)
    violated = violated[np.argsort(-constraints.excess[violated], kind="stable")]
    losses = constraints.loss.values(constraints.excess)
    roles = {role: _sums(rows, losses, n) for role, rows in constraints.roles.items()}
    slacks = Slacks(
        kind, _columns(constraints, violated), constraints.excess[violated], losses[violated], roles, constraints.sums
    )
    factors = np.ones(len(losses)) if constraints.weights is None else constraints.weights
    return slacks, losses[violated] / factors[violated]


def _columns(constraints: Constraints, rows: NDArray[np.integer]) -> Columns:
    return {name: values[rows] for name, values in {**constraints.roles, **constraints.columns}.items()}


def _sums(rows: NDArray[np.integer], values: FloatArray, n: int) -> FloatArray:
    used = rows >= 0  # a constraint of another kind has no such row
    return np.bincount(rows[used], values[used], minlength=n).astype(np.float64)
