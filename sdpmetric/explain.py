"""What the multipliers of a solution mean: support triplets, influence of examples, slacks, and sensitivities.

See ``docs/duals.md`` for the inequalities behind every number.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sdpmetric.core.certificate import Certificate
from sdpmetric.core.multipliers import Dual
from sdpmetric.core.solution import Solution
from sdpmetric.linalg.distances import distances
from sdpmetric.problems.lmnn import LMNNProblem
from sdpmetric.triplets.margins import hinge_slopes, margins
from sdpmetric.triplets.triplets import Triplets

FloatArray = NDArray[np.float64]
Columns = dict[str, NDArray[np.generic]]

# Multipliers below this share of their bound (squared hinge: of the largest) count as 0: what an interior-point method
# leaves. Those as near to their bound, or as near as the relative gap, count as at it.
SUPPORT = 1e-6
# Relative rounding of objective and lower bound, to be taken for a part of the gap.
ROUNDING = 1e-12


@dataclass(frozen=True, eq=False, repr=False)
class Support:
    """The support triplets: those with a positive multiplier, largest first.

    Attributes
    ----------
    triplets : Triplets
    multipliers : (s,) array
        ``a_t`` of a feasible dual point. Also the derivative of the optimum by the margin of this triplet alone.
    ceilings : (s,) array
        Push weight times weight, the largest multiplier; infinite for the squared hinge.
    lower, upper : (s,) arrays
        Proven by the gap: in every optimal dual point the triplet's multiplier lies between the two.
    tolerance : float
        How far from its bound, relatively, a multiplier counts as at it: about the relative gap, as repair scales them.
    """

    triplets: Triplets
    multipliers: FloatArray
    ceilings: FloatArray
    lower: FloatArray
    upper: FloatArray
    tolerance: float

    def __len__(self) -> int:
        return len(self.multipliers)

    @property
    def at_bound(self) -> NDArray[np.bool_]:
        """Which multipliers are at their upper bound, as those of violated triplets are, (s,)."""
        return self.multipliers >= (1 - self.tolerance) * self.ceilings

    @property
    def inside(self) -> NDArray[np.bool_]:
        """Which multipliers are strictly between 0 and their bound: triplets that hold their margin exactly, (s,)."""
        return ~self.at_bound

    @property
    def proven(self) -> NDArray[np.bool_]:
        """Which triplets are in the support of every optimal dual point, (s,)."""
        return self.lower > 0

    def to_dict(self) -> Columns:
        """Columns by name, as ``pandas.DataFrame`` takes them."""
        values = {"multiplier": self.multipliers, "ceiling": self.ceilings, "lower": self.lower, "upper": self.upper}
        return _indices(self.triplets) | values

    def __str__(self) -> str:
        return (
            f"{len(self):,} support triplets: {int(self.at_bound.sum()):,} at their bound, "
            f"{int(self.inside.sum()):,} inside; {int(self.proven.sum()):,} proven to be in every support"
        )


@dataclass(frozen=True, eq=False, repr=False)
class Influence:
    """The part of every example in the multipliers.

    Attributes
    ----------
    as_anchor, as_target, as_impostor : (n,) arrays
        Sums of the multipliers of the triplets in which the example has this role; each array sums to ``sum a``.
    contribution : (n,) array
        Signed contribution to the size of the metric: of each triplet's ``a_t D(i, l)``, which stretches, anchor and
        impostor have half each, and of its ``-a_t D(i, j)``, which shrinks, anchor and target. The sum is
        ``sum a_t <B_t, M>``, which falls short of the cost ``<C, M>`` by at most the gap.
    """

    as_anchor: FloatArray
    as_target: FloatArray
    as_impostor: FloatArray
    contribution: FloatArray

    @property
    def total(self) -> FloatArray:
        """Sum of the three roles, (n,)."""
        return self.as_anchor + self.as_target + self.as_impostor

    def to_dict(self) -> Columns:
        """Columns by name, one row for each example."""
        roles = {"as_anchor": self.as_anchor, "as_target": self.as_target, "as_impostor": self.as_impostor}
        return {"example": np.arange(len(self.total)), **roles, "total": self.total, "contribution": self.contribution}

    def __str__(self) -> str:
        total = self.total
        first = np.argsort(-total, kind="stable")[:5]
        named = ", ".join(f"{i} ({total[i]:.4g})" for i in first if total[i] > 0)
        return f"{int((total > 0).sum()):,} of {len(total):,} examples have influence; most: {named or 'none'}"


@dataclass(frozen=True, eq=False, repr=False)
class Slacks:
    """The violated triplets of the metric, by an exhaustive search, largest slack first.

    Attributes
    ----------
    triplets : Triplets
    values : (v,) array
        Slack ``1 - (D(i, l) - D(i, j))``, positive.
    losses : (v,) array
        What each costs: ``mu w_t`` times slack or squared slack.
    by_anchor : (n,) array
        Sum of the losses of each anchor.
    pull, push : float
        The two sums of the objective ``(1 - mu) pull + mu push + ridge trace(M)``.
    """

    triplets: Triplets
    values: FloatArray
    losses: FloatArray
    by_anchor: FloatArray
    pull: float
    push: float

    def __len__(self) -> int:
        return len(self.values)

    def to_dict(self) -> Columns:
        """Columns by name, one row for each violated triplet."""
        return _indices(self.triplets) | {"slack": self.values, "loss": self.losses}

    def __str__(self) -> str:
        worst = f", largest slack {self.values[0]:.4g}" if len(self) else ""
        return (
            f"{len(self):,} violated triplets of {int((self.by_anchor > 0).sum()):,} anchors{worst}; "
            f"pull {self.pull:.6g}, push {self.push:.6g}"
        )


@dataclass(frozen=True, eq=False, repr=False)
class Sensitivity:
    """Derivatives of the optimum, up to the gap; supergradients (by the margin: a subgradient) where it has none.

    Attributes
    ----------
    objective, lower_bound : float
        Proven at the weights of the problem.
    at_push_weight, at_ridge : float
        The weights of the problem.
    push_weight : float
        ``push - pull``.
    ridge : float
        ``trace(M)``.
    margin : float
        ``sum a``. For the hinge that is the lower bound itself: the optimum is proportional to the margin.
    triplet_weights : (v,) array
        By the weight of every violated triplet, in the order of `Slacks.triplets`: ``mu h(slack)``; 0 for all others.
    """

    objective: float
    lower_bound: float
    at_push_weight: float
    at_ridge: float
    push_weight: float
    ridge: float
    margin: float
    triplet_weights: FloatArray

    def at_most(self, *, push_weight: float | None = None, ridge: float | None = None) -> float:
        """Bound the optimum from above at other weights: it is concave in them, and below each of its tangents.

        Parameters
        ----------
        push_weight, ridge : float, optional
            Any that the problem takes; what is not given stays.
        """
        mu = 0.0 if push_weight is None else push_weight - self.at_push_weight
        rho = 0.0 if ridge is None else ridge - self.at_ridge
        return self.objective + self.push_weight * mu + self.ridge * rho

    def at_least(self, *, margin: float) -> float:
        """Bound the optimum from below at another margin than 1: it is convex in it, and above each of its tangents.

        Parameters
        ----------
        margin : float
            At least 0.
        """
        return self.lower_bound + self.margin * (margin - 1.0)

    def to_dict(self) -> dict[str, float]:
        """The three derivatives by name."""
        return {"margin": self.margin, "push_weight": self.push_weight, "ridge": self.ridge}

    def __str__(self) -> str:
        return "optimum by " + ", ".join(f"{name} {value:+.6g}" for name, value in self.to_dict().items())


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """What a certified solution of LMNN says about its triplets, its examples and its weights.

    Attributes
    ----------
    certificate : Certificate
        Of exactly the metric and the multipliers that are explained. Its gap is the error of everything here.
    dual : Dual
        The feasible multipliers themselves, also the tiny ones.
    support : Support
    influence : Influence
    slacks : Slacks
    sensitivity : Sensitivity
    """

    certificate: Certificate
    dual: Dual
    support: Support
    influence: Influence
    slacks: Slacks
    sensitivity: Sensitivity

    def __str__(self) -> str:
        parts = (self.certificate, self.support, self.influence, self.slacks, self.sensitivity)
        return "\n".join(map(str, parts))

    def __repr__(self) -> str:
        return f"<Explanation {self}>"


def explain(solution: Solution, problem: LMNNProblem | None = None) -> Explanation:
    """Read the multipliers of an LMNN solution, of any solver.

    The multipliers are repaired first, as the certificate does, so that they are dual feasible. How much they and the
    metric can be wrong is the gap of `Explanation.certificate`: ask the solver for a small one.

    Parameters
    ----------
    solution : Solution
        Of an `LMNNProblem`. Where it has no multipliers (an edited program, a solve that was interrupted early) the
        slopes of the hinges at its metric take their place, and the gap is accordingly larger.
    problem : LMNNProblem, optional
        The problem, for a solution that was loaded without it; default ``solution.problem``.

    Returns
    -------
    Explanation

    Raises
    ------
    TypeError
        If the problem is of another kind.
    ValueError
        If the solution was loaded without its problem and none is given.
    """
    stated = solution.problem if problem is None else problem
    if stated is None:
        raise ValueError("the solution was loaded without its problem; pass it as explain(solution, problem).")
    if not isinstance(stated, LMNNProblem):
        raise TypeError(f"explain is for LMNN, whose multipliers belong to triplets; got {type(stated).__name__}.")
    L = np.asarray(solution.components, dtype=np.float64)
    Z = stated.embed(L)
    slacks = _slacks(stated, Z)
    given = solution.dual
    if not isinstance(given, Dual):
        weights = stated.source.weights_of(slacks.triplets)
        given = Dual(slacks.triplets, stated.push_weight * weights * (2 * slacks.values if stated.squared else 1.0))
    dual = stated.feasible_dual(given)
    certificate = stated.certify(L, dual=dual)
    slopes = Sensitivity(
        objective=certificate.objective,
        lower_bound=certificate.lower_bound,
        at_push_weight=stated.push_weight,
        at_ridge=stated.ridge,
        push_weight=slacks.push - slacks.pull,
        ridge=float(np.sum(L**2)),
        margin=float(dual.values.sum()),
        triplet_weights=stated.push_weight * (slacks.values**2 if stated.squared else slacks.values),
    )
    support, influence = _support(stated, Z, dual, certificate), _influence(stated, Z, dual)
    return Explanation(certificate, dual, support, influence, slacks, slopes)


def _support(problem: LMNNProblem, Z: FloatArray, dual: Dual, certificate: Certificate) -> Support:
    gap = certificate.gap + ROUNDING * certificate.objective
    mu_w = problem.push.ceilings(dual.triplets)
    unit = np.full(len(dual), dual.values.max(initial=0.0)) if problem.squared else mu_w
    kept = np.flatnonzero(dual.values > SUPPORT * unit)
    kept = kept[np.argsort(-dual.values[kept], kind="stable")]
    triplets, mu_w = dual.triplets[kept], mu_w[kept]
    u = 1.0 - margins(Z, triplets)
    with np.errstate(divide="ignore"):
        least_excess = np.where(u < 0, gap / np.maximum(-u, 0.0), np.inf)  # a_t excess_t <= gap
        if problem.squared:  # (a_t - 2 mu w_t slack_t)^2 <= 4 mu w_t gap
            middle, radius = 2 * mu_w * np.maximum(u, 0.0), 2 * np.sqrt(mu_w * gap)
            lower, upper, ceilings = middle - radius, middle + radius, np.full(len(u), np.inf)
        else:  # (mu w_t - a_t) slack_t <= gap
            lower, upper, ceilings = mu_w - np.where(u > 0, gap / np.maximum(u, 0.0), np.inf), mu_w, mu_w
    lower, upper = np.maximum(lower, 0.0), np.minimum(upper, least_excess)
    return Support(triplets, dual.values[kept], ceilings, lower, upper, max(SUPPORT, certificate.relative_gap))


def _influence(problem: LMNNProblem, Z: FloatArray, dual: Dual) -> Influence:
    n, T, a = len(problem.X), dual.triplets, dual.values
    far, near = 0.5 * a * distances(Z, T.anchors, T.impostors), 0.5 * a * distances(Z, T.anchors, T.targets)
    return Influence(
        _sums(T.anchors, a, n),
        _sums(T.targets, a, n),
        _sums(T.impostors, a, n),
        _sums(T.anchors, far - near, n) + _sums(T.impostors, far, n) - _sums(T.targets, near, n),
    )


def _slacks(problem: LMNNProblem, Z: FloatArray) -> Slacks:
    found = [np.zeros((0, 3), dtype=np.int32)]
    for block in problem.push.near(Z):
        found.append(block.triplets(hinge_slopes(Z, block, 0.0, problem.squared)[1])[0].to_array())
    triplets = Triplets.from_array(np.concatenate(found))
    values = 1.0 - margins(Z, triplets)
    order = np.argsort(-values, kind="stable")
    triplets, values = triplets[order], values[order]
    push = problem.source.weights_of(triplets) * (values**2 if problem.squared else values)
    losses, pull = problem.push_weight * push, distances(Z, *problem.target_pairs).sum()
    return Slacks(triplets, values, losses, _sums(triplets.anchors, losses, len(Z)), float(pull), float(push.sum()))


def _indices(triplets: Triplets) -> Columns:
    return {"anchor": triplets.anchors, "target": triplets.targets, "impostor": triplets.impostors}


def _sums(rows: NDArray[np.integer], values: FloatArray, n: int) -> FloatArray:
    return np.bincount(rows, values, minlength=n).astype(np.float64)
