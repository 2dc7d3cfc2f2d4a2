"""Rankings, and the sums of terms that have names of their own, beside their exact objectives."""

import exact
import numpy as np
from exact import Distances, divergence, number, numbers
from flint import arb, fmpq

import sdpmetric as sm
from adversary.case import Case
from adversary.families import log_uniform, weight
from adversary.statements import prior, some_pairs, some_weights
from adversary.sums import combined, different


def rankings(X, y, rng):
    """Items, queries (None: the items), who is relevant, and rows of queries with their items for exact objectives."""
    n, Q, of = len(X), None, y
    if rng.random() < 0.5:
        m = int(rng.integers(2, 6))
        kind = rng.integers(3)
        Q = rng.normal(size=(m, X.shape[1])) * (log_uniform(rng, -3, 3) if kind else 1.0)
        if kind == 1:  # near the items
            Q = np.asarray(X, float)[rng.integers(0, n, m)] * (1.0 + 1e-3 * rng.normal(size=(m, X.shape[1])))
        of = rng.integers(0, 2, m)
    count = n if Q is None else len(Q)
    first = 0 if Q is None else n
    queries = [
        (
            first + q,
            [i for i in range(n) if y[i] == of[q] and not (Q is None and i == q)],
            [i for i in range(n) if y[i] != of[q]],
        )
        for q in range(count)
    ]
    related = sm.Relevance.from_labels(y) if Q is None else sm.Relevance.from_labels(y, of)
    rows = np.asarray(X, float) if Q is None else np.concatenate([np.asarray(X, float), Q])
    return Q, related, rows, queries


def frml(X, y, rng):
    """The relaxation of FRML-AUC, and points of bounded rank with its multipliers."""
    Q, related, rows, queries = rankings(X, y, rng)
    regularization, rank = log_uniform(rng, -3, 1), int(rng.integers(1, X.shape[1] + 1))
    problem = sm.FRMLProblem(X, related, rank, "auc", 1.0, regularization, Q)

    def value(M):
        return exact.frml_auc(Distances(rows, M=M), queries, regularization)

    dual = {}

    def multipliers(problem):
        if "dual" not in dual:
            dual["dual"] = sm.solve(problem.relaxation, tol=1e-3, max_iter=50).dual
        return dual["dual"]

    return Case(problem, value, rank=rank, verbs=("relaxed",), dual=multipliers)


def lsml(X, y, rng):
    rows = different(rng, len(X), 15, 4)
    A, C, w = prior(X, rng), weight(rng), some_weights(rng, 15)
    problem = sm.LSMLProblem(X, rows, w, A, C)
    exact_weights = numbers(np.ones(15) if w is None else w)

    def value(M):
        D = Distances(problem.X, M=M)
        costs = (
            c * exact.plus(D(a, b) - D(i, j)) ** 2 for c, (a, b, i, j) in zip(exact_weights, rows.tolist(), strict=True)
        )
        return divergence(M, A) + arb(number(C) * sum(costs, fmpq(0)) / sum(exact_weights, fmpq(0)))

    return Case(problem, value)


def sdml(X, y, rng):
    pairs, similar = some_pairs(X, y, rng, 20)
    A, sparsity, w = prior(X, rng), weight(rng) if rng.random() < 0.8 else 0.0, some_weights(rng, len(pairs))
    eta = log_uniform(rng, -6, -0.5)
    problem = sm.SDMLProblem(X, pairs, similar, A, eta, sparsity, w)
    exact_weights, d = numbers(np.ones(len(pairs)) if w is None else w), range(X.shape[1])

    def value(M):
        D = Distances(problem.X, M=M)
        costs = (
            c * D(i, j) * (1 if s else -1) for c, (i, j), s in zip(exact_weights, pairs.tolist(), similar, strict=True)
        )
        sparse = sum((abs(M[j, k]) for j in d for k in d if j != k), fmpq(0))
        linear = number(eta) * sum(costs, fmpq(0)) / sum(exact_weights, fmpq(0)) + number(sparsity) * sparse
        return divergence(M, A) + arb(linear)

    return Case(problem, value)


def scml(X, y, rng):
    rows, k = different(rng, len(X), 15, 3), X.shape[1] + 3
    B, sparsity, w = rng.normal(size=(k, X.shape[1])), weight(rng), some_weights(rng, 15)
    problem = sm.SCMLProblem(X, rows, B, sparsity, w)
    exact_weights = numbers(np.ones(15) if w is None else w)

    def value(M):
        D = Distances(problem.X, M=M)
        costs = (
            c * exact.plus(1 + D(i, j) - D(i, l)) for c, (i, j, l) in zip(exact_weights, rows.tolist(), strict=True)
        )
        return sum(costs, fmpq(0)) / sum(exact_weights, fmpq(0)) + number(sparsity) * exact.trace(M)

    inside = combined(problem.domain.basis, True)
    return Case(problem, value, inside=inside)


# One line adds a statement to the campaign.
CASES = {"lsml": lsml, "sdml": sdml, "scml": scml}
