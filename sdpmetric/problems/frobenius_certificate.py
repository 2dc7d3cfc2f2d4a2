"""The certificate of LMNN with a Frobenius term: what a point costs over all triplets, and what multipliers prove."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import brentq

from sdpmetric.arrays import FloatArray
from sdpmetric.bounds.push import SMOOTHINGS, ClippedMultipliers, target_bounds
from sdpmetric.core.certificate import DualityCertificate
from sdpmetric.core.multipliers import Dual, Multipliers, check_triplet_multipliers
from sdpmetric.engine.deadline import is_late
from sdpmetric.linalg import psd
from sdpmetric.linalg.rigorous import (
    Form,
    Images,
    above,
    below,
    metric_norm_above,
    product_above,
    sum_above,
    sum_below,
)
from sdpmetric.triplets.bounds import inactive_beyond, largest_hinges, margin_form, slope_form
from sdpmetric.triplets.margins import hinge_slopes, margin_adjoint

if TYPE_CHECKING:
    from sdpmetric.problems.frobenius import FrobeniusLMNNProblem


def certificate(
    problem: FrobeniusLMNNProblem,
    components: FloatArray,
    primal_residual: float,
    dual: Multipliers | None,
    metric: FloatArray | None = None,
) -> DualityCertificate:
    """The certificate of a checked point; see `FrobeniusLMNNProblem.certify`."""
    base, L = problem.base, components
    mu, plain, images = base.push_weight, problem.plain, Images.of(base.X, base.centered, L.T, metric=metric)
    widths = () if dual is not None or is_late() else SMOOTHINGS
    totals, forms = [0.0] * len(widths), [Form.zero(base.X.shape[1]) for _ in widths]
    losses, n_active = [], 0
    for block in base.push.near(images.points, widen=inactive_beyond(images)):
        near, highest = target_bounds(base.push, [images], block)
        loss, active = largest_hinges(images, block, near, highest, squared=False)
        losses.append(loss)
        n_active += active
        for g, gamma in enumerate(widths):
            sums, slopes = hinge_slopes(images.points, block, gamma, False, near)
            totals[g] = below(totals[g] + below(mu * sums.slopes, slopes.size + 4))
            forms[g] += slope_form(plain, block, slopes, accuracy=np.inf).times(mu)
    cost = base.pull_cost.bound(L, images)
    size = metric_norm_above(L, metric)
    penalty = product_above(0.5, problem.frobenius, size, size)
    objective = above(cost + product_above(mu, sum_above(np.array(losses))) + penalty, 3)
    violation = 0.0
    tries = [(total, form, 1.0) for total, form in zip(totals, forms, strict=True)]
    if dual is None and not widths:
        tries = [(0.0, Form.zero(base.X.shape[1]), 1.0)]
    if dual is not None:
        clipped = clip(problem, check_triplet_multipliers(dual))
        violation = clipped.violation
        form = margin_form(plain, clipped.triplets, clipped.values, accuracy=np.inf)
        tries = [(sum_below(clipped.values), form, _headroom(problem, clipped))]
    multiples = [_best_multiple(problem, total, form.matrix, headroom) for total, form, headroom in tries]
    values = [_value(problem, m, total, form) for m, (total, form, _) in zip(multiples, tries, strict=True)]
    best = int(np.argmax(values))
    aligned = cost + 2.0 * problem.penalty(L) - multiples[best] * float(np.sum((L @ tries[best][1].matrix) * L))
    return DualityCertificate(
        objective=objective,
        lower_bound=values[best],
        primal_residual=primal_residual,
        dual_residual=violation,
        complementarity=abs(aligned) / max(1.0, objective),
        n_active=n_active,
        program="LMNN with a Frobenius term",
        rigor="float",
    )


def feasible_dual(problem: FrobeniusLMNNProblem, dual: Dual) -> Dual:
    """Repaired multipliers; see `FrobeniusLMNNProblem.feasible_dual`."""
    clipped = clip(problem, dual)
    B = margin_adjoint(problem.base.centered, clipped.triplets, clipped.values)
    multiple = _best_multiple(problem, float(clipped.values.sum()), B, _headroom(problem, clipped))
    scaled = np.minimum(multiple * clipped.values, problem.base.push_weight * clipped.weights)
    return Dual(clipped.triplets[scaled > 0], scaled[scaled > 0])


def clip(problem: FrobeniusLMNNProblem, dual: Dual) -> ClippedMultipliers:
    """Multipliers in their boxes. The term costs every direction something: no two examples are apart for free."""
    return problem.base.push.clipped(dual)


def _headroom(problem: FrobeniusLMNNProblem, clipped: ClippedMultipliers) -> float:
    """The largest multiple of multipliers that stays in their boxes, at least 1."""
    ceilings = problem.base.push_weight * clipped.weights
    return max(1.0, float((ceilings / clipped.values).min(initial=np.inf)))


def _value(problem: FrobeniusLMNNProblem, multiple: float, total: float, form: Form) -> float:
    """A float not above the dual value of a multiple of multipliers, which may miss their boxes by rounding."""
    if multiple <= 0.0:
        return 0.0  # no multipliers at all prove 0
    part = (form.times(multiple) - problem.cost_form).positive_part
    lost = product_above(0.5, part, part, above(1.0 / problem.frobenius))
    return max(0.0, below(multiple * total, 12) - above(lost, 12))


def _best_multiple(problem: FrobeniusLMNNProblem, total: float, B: FloatArray, headroom: float) -> float:
    """The multiple of a dual candidate with the largest dual value, which is concave along it."""
    if total <= 0.0 or not math.isfinite(headroom):
        return 0.0

    def slope(multiple: float) -> float:
        L = psd.factor(multiple * B - problem.linear_cost)
        return total - float(np.sum((L @ B) * L)) / problem.frobenius

    ends = slope(0.0), slope(headroom)
    # Rounding of the linear cost is more than the Frobenius term, or fourth powers of the data overflow.
    if not (0.0 < ends[0] < math.inf and math.isfinite(ends[1])):
        return 0.0
    return headroom if ends[1] >= 0.0 else float(brentq(slope, 0.0, headroom, xtol=1e-15, rtol=1e-9, disp=False))
