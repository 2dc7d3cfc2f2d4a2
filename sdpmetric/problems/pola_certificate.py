"""The certificate of batch POLA: what a point costs, and what multipliers prove."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sdpmetric.arrays import FloatArray
from sdpmetric.bounds import contradiction, rays
from sdpmetric.core.certificate import Certificate, DualityCertificate, InfeasibilityCertificate
from sdpmetric.core.constraints import Constraints
from sdpmetric.core.multipliers import Multipliers, check_multipliers
from sdpmetric.core.problem import Extras
from sdpmetric.linalg import psd
from sdpmetric.linalg.rigorous import (
    Images,
    U,
    above,
    metric_norm_above,
    product_above,
    products_above,
    square,
    sum_above,
    sum_below,
)
from sdpmetric.losses import LOSSES, Weighted

if TYPE_CHECKING:
    from sdpmetric.problems.pola import POLAProblem

# A margin may be missed by this much, relative to the threshold, and count as met.
ROUNDING = 1e-9
# A point that misses a hard margin by more than this, relative to the threshold, is not repaired: it is infeasible.
REPAIRABLE = 1e-3
# A hard constraint counts as active within this distance of its margin, relative to the threshold.
ACTIVE = 1e-6


@dataclass(frozen=True)
class DualPoint:
    """What multipliers ``a`` mean: the primal point that minimises the Lagrangian, and the dual value.

    Attributes
    ----------
    components : (r, d) array
        Factor of ``A(a) = proj_PSD(-sum a_t y_t v_t v_t^T)``.
    threshold : float
        ``b(a) = max(1, b_1 + sum a_t y_t)``.
    value : float
        ``g(a)``, below every objective.
    """

    components: FloatArray
    threshold: float
    value: float


def certificate(
    problem: POLAProblem,
    components: FloatArray,
    primal_residual: float,
    dual: Multipliers | None,
    threshold: float | None,
    metric: FloatArray | None = None,
) -> Certificate:
    """The certificate of a checked point; see `POLAProblem.certify`."""
    q = problem.distances(components)
    b = problem.given_threshold(q, threshold)
    primal_residual = max(primal_residual, 1.0 - b)
    if problem.slack_weight is None:
        primal_residual = max(primal_residual, problem.margins.missed(q, b) / max(1.0, b))
    L, b = problem.repair(components, b)
    q = problem.distances(L)
    feasible = problem.slack_weight is not None or (primal_residual <= REPAIRABLE and problem.margins.separated(q))
    objective = _highest(problem, L, b, metric if np.array_equal(L, components) else None) if feasible else math.inf
    if dual is None:
        tries = _candidates(problem, q, b)
    else:
        tries = [check_multipliers(dual, len(problem.pairs), "numbers, one per pair")]
    clipped = [np.clip(a, 0.0, problem.margins.ceilings) for a in tries]
    for a in clipped:
        if problem.contradicts(a):
            pairs = tuple(int(t) for t in np.flatnonzero(a > contradiction.NEGLIGIBLE * a.max()))
            return InfeasibilityCertificate(program="POLA", constraints="pairs", contradiction=pairs, rigor="float")
    scaled = [np.minimum(problem.best_multiple(a) * a, problem.margins.ceilings) for a in clipped]
    bounds = [lowest(problem, a) for a in scaled]
    best = int(np.argmax(bounds))
    a, point = scaled[best], problem.dual_point(scaled[best])
    slacks = np.maximum(0.0, 1.0 - problem.margins.of(q, b))
    aligned = float(a @ np.abs(problem.margins.of(q, b) - 1.0 + slacks)) + abs(_conflict(problem, a, L, point))
    return DualityCertificate(
        objective=objective,
        constraints="pairs",
        lower_bound=bounds[best],
        primal_residual=primal_residual,
        dual_residual=float(np.abs(tries[best] - clipped[best]).max(initial=0.0) / max(1.0, a.max(initial=0.0))),
        complementarity=aligned / max(1.0, objective) if feasible else math.inf,
        n_active=int(np.count_nonzero(problem.margins.of(q, b) < 1.0 + ACTIVE * b)),
        program="POLA",
        rigor="float",
    )


def constraints(problem: POLAProblem, components: FloatArray, dual: Multipliers | None, extras: Extras) -> Constraints:
    """All pairs as constraints; see `POLAProblem.constraints`."""
    L, b = problem.repair(components, problem.given_threshold(problem.distances(components), extras.get("threshold")))
    q = problem.distances(L)
    given = check_multipliers(dual, len(problem.pairs), "numbers, one per pair") if dual is not None else None
    tries = _candidates(problem, q, b) if given is None else [given]
    tries = [np.clip(a, 0.0, problem.margins.ceilings) for a in tries]
    if any(problem.contradicts(a) for a in tries):
        raise ValueError("the pairs contradict each other and there is no optimum; see certificate.contradiction.")
    a = max((problem.best_multiple(a) * a for a in tries), key=lambda a: problem.dual_point(a).value)
    excess = 1.0 - problem.margins.of(q, b)
    if problem.slack_weight is None:  # a hard margin that is missed by rounding only counts as met
        excess = np.where(excess <= ROUNDING * max(1.0, b), np.minimum(excess, 0.0), excess)
    sums = {"frobenius": 0.5 * rays.squared_norm(L), "threshold": 0.5 * square(b - problem.initial_threshold)}
    weight, missed = problem.slack_weight, np.maximum(excess, 0.0)
    slack = {} if weight is None else {"slack": float(problem.margins.ceilings @ missed) / weight}
    return Constraints(
        dual=a,
        roles={"first": problem.pairs[:, 0], "second": problem.pairs[:, 1]},
        columns={"pair": np.arange(len(a)), "similar": problem.similar},
        multipliers=a,
        excess=excess,
        loss=Weighted(LOSSES["hinge"], problem.margins.ceilings),
        stretch=[(problem.pairs[:, 0], problem.pairs[:, 1], -problem.signs * q)],
        sums=sums | slack,
        slopes={"slack_weight": sum(slack.values())} if slack else {},
        margin=True,
    )


def _highest(problem: POLAProblem, components: FloatArray, threshold: float, metric: FloatArray | None = None) -> float:
    """A float not below the objective of exact components; of a hard margin, of their least feasible multiple."""
    images = Images.of(problem.X, problem.centered, components.T, metric=metric)
    low, high = images.distances(problem.pairs[:, 0], problem.pairs[:, 1])
    y, b = problem.signs, max(1.0, threshold)
    margins = np.where(y > 0, b - high, low - b)
    size, multiple, slack = metric_norm_above(components, metric), 1.0, 0.0
    if problem.slack_weight is not None:
        hinges = np.maximum(0.0, 1.0 - margins + 4.0 * U * (1.0 + b + np.where(y > 0, high, low)))
        slack = above(sum_above(products_above(problem.margins.ceilings, hinges)), 5)
    elif len(margins):
        least = float((margins - 4.0 * U * (b + np.where(y > 0, high, low))).min())
        if least <= 0.0:
            return math.inf
        multiple = above(1.0 / least, 2) if least < 1.0 else 1.0
    rounding = 4.0 * U * (multiple * b + problem.initial_threshold) if multiple != 1.0 else 0.0
    excess = above(abs(multiple * b - problem.initial_threshold) + rounding)
    return above(product_above(0.5, multiple, size, multiple, size) + product_above(0.5, excess, excess) + slack, 8)


def lowest(problem: POLAProblem, dual: FloatArray) -> float:
    """A float not above the dual value of multipliers in their box."""
    used = np.flatnonzero(dual)
    a, y, first, second = dual[used], problem.signs[used], *problem.pairs[used].T
    images = Images.of(problem.X, problem.centered, np.eye(problem.X.shape[1]))
    size = images.form(first, second, -a * y, accuracy=0.0).positive_part
    value = sum_below(a) - product_above(0.5, size, size)
    start = problem.initial_threshold
    least = math.inf
    for total in (sum_below(a * y), sum_above(a * y)):  # concave in the total: least at an end
        if start + total < 1.0:
            parts = np.array([value, 0.5 * square(1.0 - start), -total])
        else:
            parts = np.array([value, -0.5 * total * total, -total * start])
        least = min(least, sum_below(parts) - 8.0 * U * float(np.abs(parts).sum()))
    return least


def _candidates(problem: POLAProblem, q: FloatArray, b: float) -> list[FloatArray]:
    slopes = [*problem.margins.slopes(q, b), 0.0 * q]
    if problem.slack_weight is not None:
        return slopes
    return [contradiction.repeated(problem.differences, problem.signs), *slopes]


def _conflict(problem: POLAProblem, dual: FloatArray, components: FloatArray, point: DualPoint) -> float:
    """``<S, A>`` with the slack matrix ``S = A(a) + sum_t a_t y_t v_t v_t^T``, PSD."""
    q = problem.distances(components)
    return float(np.sum((point.components @ components.T) ** 2)) + float(dual @ (problem.signs * q))


def dual_point(problem: POLAProblem, dual: FloatArray) -> DualPoint:
    """The primal point and the dual value of multipliers in their box; see `POLAProblem.dual_point`."""
    L = psd.factor(problem.matrix(-dual))
    total = float(dual @ problem.signs)
    b = max(1.0, problem.initial_threshold + total)
    # Rounding error of the PSD part, where the negative part is longer.
    scale = float(dual @ np.einsum("ij,ij->i", problem.differences, problem.differences))
    rounding = 4 * L.shape[1] * float(np.finfo(float).eps) * scale
    size = math.sqrt(rays.squared_norm(L)) + rounding
    value = float(dual.sum()) - 0.5 * square(size) + 0.5 * square(b - problem.initial_threshold) - total * b
    return DualPoint(L, b, value)
