"""NCA where n is large: Adam on truncated sums of sampled anchors, scored by full sums of examples held back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from sdpmetric.arrays import FloatArray, LongArray
from sdpmetric.core import validation
from sdpmetric.core.registry import solver
from sdpmetric.core.run import Budget, BudgetSpent, Step
from sdpmetric.core.status import Status
from sdpmetric.problems.nca import NCAProblem
from sdpmetric.solvers.nca_start import start_of

# Anchors of a phase, anchors of a step, examples held back at most, and the share of the nearest candidates that is
# added from the anchor's own class.
ANCHORS, BATCH, HELD_BACK, OWN = 2048, 256, 1000, 0.25
# Step sizes relative to the root mean square of L: the first one, and the share of it that ends the solve; and how many
# phases may pass without a better score before the step is halved.
RATE, LAST_RATE, PATIENCE = 0.02, 1 / 20, 2
# A score is better if it is so by a thousandth of an example (of a unit of log p).
RISE = 1e-3
DECAYS = (0.9, 0.99)


@solver(NCAProblem, "stochastic", tol=1e-3)
def steps(
    problem: NCAProblem,
    budget: Budget,
    tol: float,
    *,
    init: FloatArray | None = None,
    candidates: int = 200,
    random_state: int = 0,
) -> Iterator[Step]:
    """Minimize by Adam on sums that are truncated to each anchor's nearest candidates.

    A phase draws anchors, finds the candidates of each under the metric of the moment (nearest of all, and nearest of
    its own class), and passes over the anchors in small batches. Examples held back tell, by full sums, how good the
    result is; where it got no better twice, the solver goes back to the best point and halves its step.
    """
    validation.check_integer("candidates", candidates)
    rng, n = np.random.default_rng(random_state), len(problem.X)
    L = start_of(problem, random_state) if init is None else init
    shuffled = rng.permutation(n)
    n_held = max(1, min(HELD_BACK, n // 5))
    held, pool = np.sort(shuffled[:n_held]), shuffled[n_held:]
    best, best_score = L, _score(problem, L, held)
    yield Step(best, score=best_score)
    rate, place, idle, adam = RATE, 0, 0, _Adam.at(L)
    while rate > LAST_RATE * RATE:
        anchors = np.take(pool, np.arange(place, place + ANCHORS), mode="wrap")
        place = (place + ANCHORS) % len(pool)
        near = nearest_candidates(problem, L, anchors, candidates)
        try:
            for low in range(0, len(anchors), BATCH):
                budget.spend()
                part = slice(low, low + BATCH)
                gradient = truncated_gradient(problem, L, anchors[part], near[part])
                L = adam.step(L, gradient, rate)
        except BudgetSpent:
            if (score := _score(problem, L, held)) > best_score:
                best = L
            yield Step(best, score=score)
            raise
        score = _score(problem, L, held)
        idle = 0 if score > best_score + RISE else idle + 1
        if score > best_score:
            best, best_score = L, score
        if idle == PATIENCE:
            L, rate, idle, adam = best, rate / 2, 0, _Adam.at(best)
        yield Step(best, step=rate, score=score)
    yield Step(best, score=best_score, status=Status.STOPPED_EARLY)


def _score(problem: NCAProblem, L: FloatArray, held: LongArray) -> float:
    return -problem.value_and_gradient(L, held)[0] / len(held)


@dataclass
class _Adam:
    """Moments of the gradient (Kingma and Ba 2015), the second one for all entries together: no basis is special.

    Steps are relative to the size of the factor.
    """

    mean: FloatArray
    square: float = 0.0
    taken: int = 0

    @classmethod
    def at(cls, L: FloatArray) -> _Adam:
        return cls(np.zeros(L.shape))

    def step(self, L: FloatArray, gradient: FloatArray, rate: float) -> FloatArray:
        self.taken += 1
        first, second = DECAYS
        self.mean = first * self.mean + (1 - first) * gradient
        self.square = second * self.square + (1 - second) * float(np.mean(gradient**2))
        mean, square = self.mean / (1 - first**self.taken), self.square / (1 - second**self.taken)
        length = rate * float(np.sqrt(np.mean(L**2)) / (np.sqrt(square) + np.finfo(np.float64).tiny))
        moved: FloatArray = L - length * mean
        return moved


def nearest_candidates(problem: NCAProblem, L: FloatArray, anchors: LongArray, count: int) -> LongArray:
    """The nearest examples of each anchor, and the nearest of its own class."""
    X = np.asarray(problem.X, dtype=np.float64)
    Z = ((X - X.mean(axis=0)) @ L.T).astype(np.float32)  # enough to choose by
    n = len(Z)
    near = np.tile(anchors[:, None], (1, min(count + 1, n)))
    near[:] = _nearest(Z, anchors, near.shape[1])
    if not len(problem.targets):
        own = np.tile(anchors[:, None], (1, min(int(np.ceil(OWN * count)) + 1, n)))
        for label in np.unique(problem.index[anchors]):
            members, asking = np.flatnonzero(problem.index == label), problem.index[anchors] == label
            k = min(own.shape[1], len(members))
            own[asking, :k] = members[_nearest(Z[members], np.searchsorted(members, anchors[asking]), k)]
        near = np.concatenate([near, own], axis=1)
    near.sort(axis=1)
    again = np.zeros(near.shape, dtype=bool)
    again[:, 1:] = near[:, 1:] == near[:, :-1]
    return np.where(again, anchors[:, None], near)


def _nearest(Z: NDArray[np.float32], which: LongArray, count: int) -> LongArray:
    search = NearestNeighbors(n_neighbors=count, algorithm="brute").fit(Z)
    found: LongArray = search.kneighbors(Z[which], return_distance=False)
    return found


def truncated_gradient(problem: NCAProblem, L: FloatArray, anchors: LongArray, near: LongArray) -> FloatArray:
    """The gradient of the terms of some anchors, each of which can choose among its candidates only, (r, d)."""
    touched, positions = np.unique(np.concatenate([anchors, near.ravel()]), return_inverse=True)
    own, others = positions[: len(anchors)], positions[len(anchors) :].reshape(near.shape)
    X = np.asarray(problem.X[touched], dtype=np.float64)
    X -= X.mean(axis=0)
    Z = X @ L.T
    D = np.stack([np.sum((Z[row] - Z[i]) ** 2, axis=1) for i, row in zip(own, others, strict=True)])
    D[near == anchors[:, None]] = np.inf
    W = _weights(D, problem.match(anchors[:, None], near), problem.logarithm)
    W *= problem.example_weights[anchors, None]
    graph = sp.csr_array((W.ravel(), others.ravel(), np.arange(0, W.size + 1, W.shape[1])), (len(own), len(X)))
    G = np.asarray(graph.sum(axis=0))[:, None] * Z - graph.T @ Z[own]
    np.subtract.at(G, own, graph @ Z)
    gradient: FloatArray = 2 * G.T @ X
    return np.diag(np.diag(gradient)) if problem.diagonal else gradient


def _weights(D: FloatArray, match: FloatArray, logarithm: bool) -> FloatArray:
    """Derivatives of minus ``p_i``, or ``log p_i``, in the distances; rows without anybody to choose are 0."""
    with np.errstate(divide="ignore"):
        matched = D - np.log(match)
    p, q = _softmax(D), _softmax(matched)
    if logarithm:
        return np.where(np.isfinite(matched).any(axis=1, keepdims=True), q - p, 0.0)
    return np.asarray(p * (match - (p * match).sum(axis=1, keepdims=True)))


def _softmax(D: FloatArray) -> FloatArray:
    nearest = D.min(axis=1, keepdims=True)
    E = np.exp(np.where(np.isfinite(nearest), nearest, 0.0) - D)
    return np.asarray(E / np.maximum(E.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny))
