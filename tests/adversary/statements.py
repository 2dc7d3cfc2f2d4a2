"""A problem of each convex statement, drawn at random, beside its exact objective."""

from functools import partial

import exact
import numpy as np
import oracles
from exact import Distances, number, numbers, rational
from flint import arb, fmpq, fmpq_mat

import sdpmetric as sm
from adversary.case import Case
from adversary.families import log_uniform, share, weight

ALL = ("solve", "verify", "compare", "stop", "path", "explain", "proof")
TARGETS = "target neighbors that are not the nearest of their class"


def some_weights(rng, n):
    """Weights of examples, pairs or triplets: none, moderate, or of all sizes."""
    kind = rng.random()
    return None if kind < 0.6 else rng.uniform(0.1, 5.0, n) if kind < 0.9 else 10.0 ** rng.uniform(-30, 30, n)


def some_pairs(X, y, rng, n, distinct=False):
    pairs = np.unique(np.sort(rng.integers(0, len(X), (n, 2)), axis=1), axis=0)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    if distinct:  # pairs of equal examples cannot be dissimilar
        equal = (np.asarray(X)[pairs[:, 0]] == np.asarray(X)[pairs[:, 1]]).all(axis=1)
        pairs = pairs[~equal | (y[pairs[:, 0]] == y[pairs[:, 1]])]
    return pairs, y[pairs[:, 0]] == y[pairs[:, 1]]


def prior(X, rng):
    """A positive definite matrix in the units of the data, or the identity."""
    d = X.shape[1]
    if rng.random() < 0.3:
        return np.eye(d)
    scale = 1.0 / np.clip(np.ptp(np.asarray(X, float), axis=0), 1e-60, 1e60)
    G = rng.normal(size=(d + 2, d)) * scale
    A = G.T @ G
    return np.triu(A) + np.triu(A, 1).T


def lengths(X, pairs, A):
    V = np.asarray(X, float)[pairs[:, 0]] - np.asarray(X, float)[pairs[:, 1]]
    return np.maximum(np.einsum("ij,jk,ik->i", V, A, V), 1e-300)


def neighbors(X, y, rng, k):
    """Target neighbors: None, for the nearest ones, or any others."""
    if rng.random() < 0.7:
        return None
    mates_by_row = [[j for j in range(len(X)) if j != i and y[j] == y[i]] for i in range(len(X))]
    return np.array([rng.permutation(mates)[:k] for mates in mates_by_row])


def check_nearest(X, y, targets, k):
    """Target neighbors are nearest, but for ties to a relative 1e-9."""
    D = Distances(X, np.eye(X.shape[1]))
    for i, mine in enumerate(targets):
        kth = sorted(D(i, j) for j in range(len(X)) if j != i and y[j] == y[i])[k - 1]
        assert all(D(i, j) <= kth * (1 + fmpq(3, 10**9)) for j in mine.tolist()), TARGETS


def lmnn(X, y, rng, loss="hinge", make=None, data=None):
    k = int(rng.integers(1, 3))
    mu, ridge = share(rng), weight(rng) if rng.random() < 0.4 else 0.0
    target_neighbors, w = neighbors(X, y, rng, k), some_weights(rng, len(X))
    make = make or sm.LMNNProblem.from_labels
    problem = make(X, y, k, mu, target_neighbors=target_neighbors, loss=loss, ridge=ridge, sample_weight=w)
    P = np.asarray(problem.X if data is None else data, float)
    targets = problem.source.targets
    if target_neighbors is None and data is None and P.shape == np.asarray(X).shape:
        check_nearest(P, y, targets, k)
    pairs = [(i, int(j)) for i in range(len(P)) for j in targets[i] if j >= 0]
    triplets = oracles.all_triplets(targets, y)
    exact_weights = numbers(np.ones(len(P)) if w is None else w)
    costs, weights = [exact_weights[i] for i, _ in pairs], [exact_weights[i] * exact_weights[l] for i, _, l in triplets]

    def value(M, push_weight=mu, ridge=ridge):
        D = Distances(P, M=M)
        cost = exact.margins(D, pairs, triplets, push_weight, costs, weights, loss != "hinge")
        return cost + number(ridge) * exact.trace(M)

    verbs = (*ALL, "rank")
    names = {"push_weight": [0.3, mu], "ridge": [weight(rng), ridge or 1e-3]}
    name = str(rng.choice(list(names)))
    return Case(problem, value, P, weights={name: names[name]}, verbs=verbs)


def listed_triplets(X, y, rng):
    rows = np.argsort(rng.random((int(rng.integers(1, 25)), len(X))), axis=1)[:, :3]
    rows = np.unique(rows, axis=0)
    mu, ridge, w = share(rng), weight(rng) if rng.random() < 0.4 else 0.0, some_weights(rng, len(rows))
    problem = sm.LMNNProblem.from_triplets(
        X, rows, w, mu, ridge=ridge, loss=str(rng.choice(["hinge", "squared_hinge"]))
    )
    pairs, exact_weights = sorted({(i, j) for i, j, _ in rows.tolist()}), None if w is None else numbers(w)

    def value(M, push_weight=mu, ridge=ridge):
        D = Distances(problem.X, M=M)
        cost = exact.margins(D, pairs, rows.tolist(), push_weight, None, exact_weights, problem.loss != "hinge")
        return cost + number(ridge) * exact.trace(M)

    weights = {"push_weight": [share(rng), 0.5]}
    return Case(problem, value, weights=weights, verbs=ALL)


def several(X, y, rng):
    regions = "class" if rng.random() < 0.6 else rng.permutation(np.arange(len(X)) % 2)
    mu, ridge, loss = (
        share(rng),
        weight(rng) if rng.random() < 0.5 else 0.0,
        str(rng.choice(["hinge", "squared_hinge"])),
    )
    problem = sm.MultiMetricLMNNProblem.from_labels(X, y, 1, mu, regions=regions, ridge=ridge, loss=loss)
    P, of = np.asarray(problem.X, float), problem.regions
    pairs = [(i, int(j)) for i in range(len(P)) for j in problem.source.targets[i] if j >= 0]
    triplets = oracles.all_triplets(problem.source.targets, y)

    def value(M, push_weight=mu, ridge=ridge):
        D = [Distances(P, M=metric) for metric in M]
        cost = exact.margins(lambda a, b: D[of[b]](a, b), pairs, triplets, push_weight, squared=loss != "hinge")
        return cost + number(ridge) * sum((exact.trace(metric) for metric in M), fmpq(0))

    weights = {"push_weight": [0.3, mu], "ridge": [weight(rng)]}
    name = str(rng.choice(list(weights)))
    return Case(problem, value, P, several=problem.n_regions, weights={name: weights[name]}, verbs=ALL)


def kernel(X, y, rng):
    kind = str(rng.choice(["rbf", "linear", "poly"]))
    make = partial(sm.KernelLMNNProblem.from_labels, kernel=kind)
    case = lmnn(X, y, rng, make=lambda *arguments, **options: make(*arguments, **options))
    case.verbs = ALL
    return case


def pola(X, y, rng):
    pairs, similar = some_pairs(X, y, rng, 16)
    slack, start, w = weight(rng), float(rng.uniform(1.0, 3.0)), some_weights(rng, len(pairs))
    problem, signs = sm.POLAProblem(X, pairs, similar, slack, start, w), np.where(similar, 1, -1).tolist()

    def value(M, slack_weight=slack, threshold=start):
        return exact.pola(Distances(problem.X, M=M), M, pairs, signs, slack_weight, start, threshold, w)

    return Case(
        problem,
        value,
        extras=lambda rng: {"threshold": float(rng.uniform(1, 3)) if rng.random() < 0.8 else log_uniform(rng, 0, 150)},
        weights={"slack_weight": [weight(rng), slack]},
        verbs=ALL,
    )


def hard(X, y, rng):
    pairs, similar = some_pairs(X, y, rng, int(rng.integers(3, 9)))
    start = float(rng.uniform(1.0, 3.0))
    problem, signs = sm.POLAProblem(X, pairs, similar, None, start), np.where(similar, 1, -1).tolist()
    return Case(
        problem,
        lambda M, threshold=None, b=None: exact.hard_pola(Distances(problem.X, M=M), M, pairs, signs, start, b),
        constraints=[margin(problem.X, pair, sign) for pair, sign in zip(pairs.tolist(), signs, strict=True)],
        verbs=("solve", "verify", "compare", "stop", "explain", "proof"),
    )


def margin(X, pair, sign):
    """``1 - y (b - D(i, j)) <= 0`` in the metric and b, which is at least 0, as the last entry of a matrix."""
    P, d = rational(X), X.shape[1]
    v = fmpq_mat(d, 1, [P[pair[0], k] - P[pair[1], k] for k in range(d)])
    squares = v * v.transpose()
    entries = [squares[i, j] if max(i, j) < d else fmpq(-(i == j)) for i in range(d + 1) for j in range(d + 1)]
    return fmpq(1), fmpq_mat(d + 1, d + 1, entries) * sign


def mmc(X, y, rng):
    pairs, similar = some_pairs(X, y, rng, 60)
    w = some_weights(rng, len(pairs))
    problem = sm.MMCProblem(X, pairs, similar, w)
    return Case(
        problem,
        lambda M: exact.mmc(Distances(problem.X, M=M), pairs, similar, w),
        verbs=("solve", "verify", "compare", "stop", "explain", "proof"),
    )


def itml(X, y, rng):
    pairs, similar = some_pairs(X, y, rng, 20, distinct=True)
    A, gamma, w = prior(X, rng), weight(rng), some_weights(rng, len(pairs))
    low, high = np.quantile(lengths(X, pairs, A), [0.2, 0.8])
    problem = sm.ITMLProblem(X, pairs, similar, float(low), float(1.001 * high), gamma, A, w)

    def value(M, gamma=gamma):
        D = Distances(problem.X, M=M)
        return exact.itml(D, M, pairs, similar, problem.upper, problem.lower, gamma, problem.prior, w)

    weights = {"gamma": [weight(rng), gamma]}
    return Case(problem, value, weights=weights, verbs=ALL)


def lego_stream(X, y, rng):
    pairs, _ = some_pairs(X, y, rng, 20)
    A = prior(X, rng)
    D = lengths(X, pairs, A)
    targets, sides = rng.choice(D, len(pairs)) * rng.uniform(0.1, 2.0), rng.integers(-1, 2, len(pairs))
    sides[D <= 1e-290] = 1
    return sm.LEGOProblem(X, pairs, targets, sides, log_uniform(rng, -3, 1), A)


def lego(X, y, rng):
    stream = lego_stream(X, y, rng)
    problem = sm.LEGOBatchProblem(stream)

    def value(M, learning_rate=stream.learning_rate):
        loss = exact.lego_loss(Distances(stream.X, M=M), stream.pairs, stream.targets, stream.sides)
        return exact.divergence(M, stream.prior) + arb(number(learning_rate) * loss)

    weights = {"learning_rate": [log_uniform(rng, -4, 4)]}
    return Case(problem, value, np.asarray(stream.X, float), weights=weights, verbs=ALL)


def stream(X, y, rng):
    """What fixed metrics lose on a stream of LEGO, and its regret."""
    problem = lego_stream(X, y, rng)
    D = partial(Distances, problem.X)
    return Case(
        problem, lambda M: exact.lego_loss(D(M=M), problem.pairs, problem.targets, problem.sides), verbs=("regret",)
    )


def pola_stream(X, y, rng):
    """What the regret of online POLA says no metric and threshold can do without."""
    pairs, similar = some_pairs(X, y, rng, int(rng.integers(3, 12)))
    problem, signs = sm.POLAProblem(X, pairs, similar), np.where(similar, 1, -1).tolist()

    def value(M, threshold=1.5):
        D, b = Distances(problem.X, M=M), number(threshold)
        return sum(
            (exact.plus(1 - (b - D(i, j)) * s) ** 2 for (i, j), s in zip(pairs.tolist(), signs, strict=True)), fmpq(0)
        )

    return Case(problem, value, verbs=("regret",), always=())
