"""The certificate of MCML: what a point costs, and what distributions prove."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr

from sdpmetric.core.certificate import DualityCertificate
from sdpmetric.core.multipliers import Multipliers
from sdpmetric.linalg import psd
from sdpmetric.linalg.rigorous import (
    ACCURACY,
    Images,
    U,
    above,
    distributions,
    entropies,
    gamma,
    log_bounds,
    log_sum_exp,
    sum_above,
    sum_below,
)

if TYPE_CHECKING:
    from sdpmetric.problems.mcml import MCMLProblem

FloatArray = NDArray[np.float64]

# Forms of at most this number of pairs are computed as accurately as possible.
FEW_PAIRS = 100_000
# Multiples of the mean cost that are added to the metric for dual candidates inside the cone.
SHARPENINGS = (0.01, 0.1, 1.0, 10.0, 100.0)
# Newton steps tried before those, in multiples of the dual infeasibility; steps and accuracy of conjugate gradients.
NEWTON_STEPS = (1.2, 4.0, 16.0, 64.0)
CG_STEPS, CG_ACCURACY = 40, 0.05
# An objective below this share of that of the zero metric is rounding error.
ZERO = 1e-14


def certificate(
    problem: MCMLProblem, components: FloatArray, primal_residual: float, dual: Multipliers | None
) -> DualityCertificate:
    """The certificate of a checked point; see `MCMLProblem.certify`.

    Parameters
    ----------
    problem : MCMLProblem
    components : (r, d) array
    primal_residual : float
        How far the given metric was from the PSD cone, relatively.
    dual : (n, n) array or None
    """
    D = problem.all_distances(problem.centered @ components.T)
    objective = _highest(problem, components)
    q, violation = _checked(problem, softmax(D) if dual is None else np.asarray(dual, dtype=np.float64))
    low, q, cone_violation = bound(problem, q, components @ problem.coordinates.inverse[: problem.coordinates.rank].T)
    D[~np.isfinite(D)] = 0.0
    aligned = ((problem.ideal - q) * np.where(problem.separated & (q == 0), 0.0, D)).sum(axis=1)
    return DualityCertificate(
        constraints="examples",
        objective=objective,
        lower_bound=low,
        primal_residual=primal_residual,
        dual_residual=max(violation, cone_violation),
        complementarity=abs(float(problem.example_weights @ aligned)) / max(1.0, objective),
        n_active=int(np.count_nonzero(q)),
        null_dimension=problem.coordinates.null.shape[1],
        program="MCML",
        resolution=problem.resolution,
        weakness=problem.cone.weakness,
    )


def _highest(problem: MCMLProblem, components: FloatArray) -> float:
    """A float not below the objective of exact components."""
    images, n = Images.of(problem.X, problem.centered, components.T), len(problem.X)
    low, high = np.empty((n, n)), np.empty((n, n))
    for i in range(n):
        low[i], high[i] = images.distances(np.full(n, i, dtype=np.int32), np.arange(n, dtype=np.int32))
    np.fill_diagonal(low, np.inf)
    np.fill_diagonal(high, np.inf)
    pulls = np.where(problem.ideal > 0, high, 0.0).sum(axis=1) / problem.mates * (1.0 + gamma(n + 4))
    parts = [pulls, log_sum_exp(-high, -low)[1], -log_bounds(problem.mates)[0]]
    return max(0.0, sum_above(np.concatenate([_weighed(problem, part, 1.0) for part in parts])))


def _weighed(problem: MCMLProblem, values: FloatArray, side: float) -> FloatArray:
    """Floats above (`side` 1) or below (-1) values of the examples times their weights."""
    if problem.sample_weight is None:
        return values
    weighed = problem.sample_weight * values
    return np.asarray(weighed + side * 2.0 * U * np.abs(weighed))


def _checked(problem: MCMLProblem, q: FloatArray) -> tuple[FloatArray, float]:
    """Distributions on pairs that the dual cone allows, and the largest change."""
    n = len(problem.X)
    if q.shape != (n, n) or not np.isfinite(q).all():
        raise ValueError(f"dual must be a finite ({n}, {n}) array of probabilities, got shape {q.shape}.")
    projected = np.where(_apart(problem), 0.0, np.maximum(q, 0.0))
    projected = distributions(np.where(projected.any(axis=1, keepdims=True), projected, problem.ideal))
    return projected, float(np.abs(projected - q).max(initial=0.0))


def _apart(problem: MCMLProblem) -> NDArray[np.bool_]:
    """Pairs that distributions must leave out for a proof, and every example with itself."""
    return problem.separated | different(problem.cone.groups)


def _top(problem: MCMLProblem, q: FloatArray) -> float:
    """An upper bound of the largest eigenvalue of ``sum w q v v^T`` against that of p0, by `DualCone.top`.

    Parameters
    ----------
    q : (n, n) array
        Within two roundings of exact distributions.
    """
    q = problem.example_weights[:, None] * q
    W = np.triu(q + q.T)
    first, second = (ends.astype(np.int32) for ends in np.nonzero(W))
    accuracy = ACCURACY if len(first) <= FEW_PAIRS else np.inf
    return problem.cone.top(problem.cone.images.form(first, second, W[first, second], roundings=4, accuracy=accuracy))


def _entropy(problem: MCMLProblem, q: FloatArray, roundings: int) -> float:
    """A float not above the weighted entropies of exact distributions less those of p0."""
    parts = (entropies(q, roundings)[0], -log_bounds(problem.mates)[1])
    return sum_below(np.concatenate([_weighed(problem, part, -1.0) for part in parts]))


def bound(problem: MCMLProblem, q: FloatArray, factor: FloatArray) -> tuple[float, FloatArray, float]:
    """The lower bound of dual feasible distributions near q, these distributions, and the infeasibility of q.

    Candidates are compared in floats; the best is proven.

    Parameters
    ----------
    problem : MCMLProblem
    q : (n, n) array
    factor : (r, rank) array
        The point, on `MCMLProblem.points`.
    """
    top = _top(problem, q)
    if top <= 1.0:
        low = _entropy(problem, q, 2)
        return (low, q, 0.0) if low > 0 else (0.0, problem.ideal, 0.0)
    best, chosen, mixing = 0.0, problem.ideal, False
    for inner in _inner_candidates(problem, q, factor, top - 1.0) if math.isfinite(top) else ():
        slack = 1.0 - psd.largest_eigenvalue(problem.pull(inner))
        if slack <= 0.0:
            continue
        # lambda_max is convex: this mixture is at most 1.
        share = (top - 1.0) / (top - 1.0 + slack)
        for mixed in (True, False):
            entropy = entr((1 - share) * q + share * inner if mixed else inner).sum(axis=1)
            value = float(problem.example_weights @ entropy) - problem.ideal_entropy
            if value > best:
                best, chosen, mixing = value, inner, mixed
    inner = distributions(np.where(_apart(problem), 0.0, chosen))
    inside = _top(problem, inner) if best > 0.0 else math.inf
    if not inside <= 1.0:
        return 0.0, problem.ideal, top - 1.0
    if mixing:
        share = min(1.0, above((top - 1.0) / (top - inside), 4))
        inner = (1.0 - share) * q + share * inner
    low = _entropy(problem, inner, 6)
    return (low, inner, top - 1.0) if low > 0.0 else (0.0, problem.ideal, top - 1.0)


def _inner_candidates(problem: MCMLProblem, q: FloatArray, factor: FloatArray, excess: float) -> Iterator[FloatArray]:
    """Candidates for strictly dual feasible distributions: Newton steps from q, and softmaxes of larger metrics."""
    change = _newton_change(problem, q)
    distances = np.einsum("ij,ij->i", problem.points @ change, problem.points)
    changes = distances[:, None] + distances[None, :] - 2 * problem.points @ change @ problem.points.T
    with np.errstate(divide="ignore"):
        D = -np.log(q)
    for multiple in NEWTON_STEPS:
        yield softmax(D + multiple * excess * changes)
    scale = math.sqrt(len(problem.X) / max(1, problem.coordinates.rank))
    for sharpening in SHARPENINGS:
        sharper = np.concatenate([factor, math.sqrt(sharpening) * scale * np.eye(factor.shape[1])])
        D = problem.all_distances(problem.points @ sharper.T)
        D[problem.separated] = np.inf
        yield softmax(D)


def _newton_change(problem: MCMLProblem, q: FloatArray) -> FloatArray:
    """The change of the metric that reduces the pull of q by the identity to first order, by conjugate gradients.

    Where q belongs to a metric this is the Newton step for a gradient of minus the identity.
    """
    Y = problem.points
    change, residual = np.zeros((Y.shape[1], Y.shape[1])), np.eye(Y.shape[1])
    direction, size = residual.copy(), float(np.sum(residual**2))
    for _ in range(CG_STEPS):
        form = Y @ direction
        squares = np.einsum("ij,ij->i", form, Y)
        D = squares[:, None] + squares[None, :] - 2 * form @ Y.T
        image = problem.pull(q * (D - (q * D).sum(axis=1, keepdims=True)))
        curvature = float(np.sum(direction * image))
        if curvature <= 0.0:
            break
        change = change + (size / curvature) * direction
        residual = residual - (size / curvature) * image
        size, before = float(np.sum(residual**2)), size
        if size <= CG_ACCURACY**2 * len(residual):
            break
        direction = residual + (size / before) * direction
    return change


def different(groups: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Which pairs are of different groups, or of an example with itself."""
    different: NDArray[np.bool_] = groups[:, None] != groups[None, :]
    np.fill_diagonal(different, True)
    return different


def softmax(D: FloatArray) -> FloatArray:
    """Distributions ``exp(-D)`` over the rows of squared distances, (n, n)."""
    q: FloatArray = np.exp(D.min(axis=1, keepdims=True) - D)
    q /= q.sum(axis=1, keepdims=True)
    return q
