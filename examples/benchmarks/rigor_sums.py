"""Sums of terms for the campaign of rigor.py: every term with its exact value, written without the package.

A problem has one to three losses, perhaps a cost or a regularizer, and any domain: all metrics, weights of features,
subspaces whose columns may depend on each other up to 1e-12, combinations of rays. Margins go from 1e-3 to 1e3, hard
constraints are tried at points scaled to their very edge, and weights have all digits of floats. Lower bounds of a
restricted domain are compared with metrics that are exactly in it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from exact import Distances, divergence, metric, number, rational
from flint import arb, fmpq, fmpq_mat

import sdpmetric as sm
from sdpmetric import terms

INFINITE = arb("inf")
DOMAINS = ("all", "all", "all", "diagonal", "subspace", "nearly dependent", "dependent", "bases", "labels")


def plus(u):
    return max(fmpq(0), u)


def logistic(u):
    a = arb(u)
    return (1 + (-abs(a)).exp()).log() + plus(u)


def divergence_of_ratio(r):
    return arb(r) - 1 - arb(r).log() if r > 0 else INFINITE


SCALARS = {
    "hinge": plus,
    "squared_hinge": lambda u: plus(u) ** 2,
    "smooth_hinge": lambda u: fmpq(0) if u < 0 else u * u / 2 if u < 1 else u - fmpq(1) / 2,
    "logistic": logistic,
}


def total(parts):
    return sum((arb(part) for part in parts), arb(0))


def different(rng, n, m, k):
    return np.argsort(rng.random((m, n)), axis=1)[:, :k]


def size_of(X, pairs):
    V = np.asarray(X, float)[pairs[:, 0]] - np.asarray(X, float)[pairs[:, 1]]
    return float(np.mean(np.sum(V * V, axis=1))) or 1.0


def triplet(X, y, rng, weight):
    rows, loss = different(rng, len(X), 12, 3), str(rng.choice(list(SCALARS)))
    margin, w = float(10.0 ** rng.uniform(-3, 3)), rng.exponential(size=12)
    term = weight * terms.TripletHinge(rows, margin=margin, loss=loss, weights=w)

    def value(D, M):
        us = [number(margin) + D(i, j) - D(i, l) for i, j, l in rows.tolist()]
        return number(weight) * total(number(c) * SCALARS[loss](u) for c, u in zip(w.tolist(), us, strict=True))

    return term, value


def pair(X, y, rng, weight):
    rows, loss = different(rng, len(X), 12, 2), str(rng.choice(list(SCALARS)))
    threshold, margin, similar = float(rng.uniform(0, 5)), float(10.0 ** rng.uniform(-3, 2)), rng.random(12) < 0.5
    term = weight * terms.PairHinge(rows, similar, threshold, margin=margin, loss=loss)

    def value(D, M):
        signs = np.where(similar, 1, -1).tolist()
        us = [
            number(margin) - s * (number(threshold) - D(i, j)) for s, (i, j) in zip(signs, rows.tolist(), strict=True)
        ]
        return number(weight) * total(SCALARS[loss](u) for u in us)

    return term, value


def log_ratio(X, y, rng, weight):
    rows, upper = different(rng, len(X), 12, 2), rng.random(12) < 0.5
    bounds = rng.exponential(size=12) * 10.0 ** rng.uniform(-2, 2)
    term = weight * terms.DistanceBounds(
        rows, np.where(upper, bounds, np.inf), np.where(upper, 0.0, bounds), loss="log_ratio"
    )

    def value(D, M):
        ratios = [D(i, j) / number(b) for (i, j), b in zip(rows.tolist(), bounds.tolist(), strict=True)]
        pick = [max(r, fmpq(1)) if up else min(r, fmpq(1)) for r, up in zip(ratios, upper, strict=True)]
        return number(weight) * total(map(divergence_of_ratio, pick))

    return term, value


def targets(X, y, rng, weight):
    rows, sides = different(rng, len(X), 12, 2), rng.integers(-1, 2, 12)
    goals = rng.exponential(size=12) * 10.0 ** rng.uniform(-2, 2)
    term = weight * terms.DistanceTargets(rows, goals, sides)

    def value(D, M):
        off = [D(i, j) - number(t) for (i, j), t in zip(rows.tolist(), goals.tolist(), strict=True)]
        costs = [u * u / 2 if s * u >= 0 else fmpq(0) for u, s in zip(off, sides.tolist(), strict=True)]
        return number(weight) * total(costs)

    return term, value


def hard(X, y, rng, weight):
    rows = different(rng, len(X), int(rng.integers(1, 6)), 2)
    V = np.asarray(X, float)[rows[:, 0]] - np.asarray(X, float)[rows[:, 1]]
    middle = np.sum(V * V, axis=1) / size_of(X, rows) * 10.0 ** rng.uniform(-1, 1)
    upper, lower = 1.5 * middle, np.where(rng.random(len(rows)) < 0.5, 0.0, 0.5 * middle)
    term = weight * terms.DistanceBounds(rows, upper, lower)

    def value(D, M):
        ends = zip(rows.tolist(), lower.tolist(), upper.tolist(), strict=True)
        return arb(0) if all(number(a) <= D(i, j) <= number(b) for (i, j), a, b in ends) else INFINITE

    return term, value


def budget(X, y, rng, weight):
    rows, costs, bound = different(rng, len(X), 5, 2), rng.exponential(size=5), float(10.0 ** rng.uniform(-1, 1))
    term = terms.Budget(rows, bound, costs)

    def value(D, M):
        spent = sum((number(c) * D(i, j) for c, (i, j) in zip(costs.tolist(), rows.tolist(), strict=True)), fmpq(0))
        return arb(0) if spent <= number(bound) else INFINITE

    return term, value


def spread(X, y, rng, weight):
    rows, w = different(rng, len(X), 12, 2), rng.exponential(size=12)
    term = weight * terms.Spread(rows, weights=w)

    def value(D, M):
        lengths = [number(c) * arb(D(i, j)).sqrt() for c, (i, j) in zip(w.tolist(), rows.tolist(), strict=True)]
        return -number(weight) * total(lengths)

    return term, value


def repulsion(X, y, rng, weight):
    rows, w = different(rng, len(X), 6, 2), 0.1 * rng.exponential(size=6)
    term = weight * terms.Repulsion(rows, weights=w)
    return (
        term,
        lambda D, M: (
            -number(weight) * total(number(c) * D(i, j) for c, (i, j) in zip(w.tolist(), rows.tolist(), strict=True))
        ),
    )


def collapse(X, y, rng, weight):
    term = weight * terms.Collapse(y)

    def value(D, M):
        n, found = len(y), arb(0)
        for i in range(n):
            mates = [j for j in range(n) if j != i and y[j] == y[i]]
            found += arb(sum((D(i, j) for j in mates), fmpq(0)) / len(mates)) - arb(len(mates)).log()
            found += total(arb(-D(i, k)).exp() for k in range(n) if k != i).log()
        return number(weight) * found

    return term, value


def pair_softmax(X, y, rng, weight):
    rows, w = different(rng, len(X), 8, 2), rng.exponential(size=8)
    term = weight * terms.PairSoftmax(rows, weights=w)

    def value(D, M):
        every = (2 * total(arb(-D(a, b)).exp() for a in range(len(X)) for b in range(a + 1, len(X)))).log()
        costs = [number(c) * (arb(D(i, j)) + every) for c, (i, j) in zip(w.tolist(), rows.tolist(), strict=True)]
        return number(weight) * total(costs)

    return term, value


def pull(X, y, rng, weight):
    rows, w = different(rng, len(X), int(rng.integers(1, 12)), 2), rng.exponential(size=len(X))
    w = w[: len(rows)] if len(w) >= len(rows) else np.ones(len(rows))
    term = weight * terms.Pull(rows, weights=w)
    return (
        term,
        lambda D, M: (
            number(weight) * total(number(c) * D(i, j) for c, (i, j) in zip(w.tolist(), rows.tolist(), strict=True))
        ),
    )


def trace(X, y, rng, weight):
    return weight * terms.Trace(), lambda D, M: number(weight) * total(M[k, k] for k in range(M.nrows()))


def off_diagonal(X, y, rng, weight):
    def value(D, M):
        return number(weight) * total(abs(M[j, k]) for j in range(M.nrows()) for k in range(M.nrows()) if j != k)

    return weight * terms.OffDiagonal(), value


def given_metric(X, rng):
    scale = 1.0 / np.maximum(np.ptp(np.asarray(X, float), axis=0), 1e-3)
    G = rng.normal(size=(X.shape[1] + 2, X.shape[1])) * scale
    A = G.T @ G
    return 0.5 * (A + A.T)


def frobenius(X, y, rng, weight):
    M0 = given_metric(X, rng) if rng.random() < 0.5 else np.zeros((X.shape[1], X.shape[1]))

    def value(D, M):
        return number(weight) * total(entry**2 for entry in (M - rational(M0)).entries()) / 2

    return weight * terms.Frobenius(to=M0), value


def log_det(X, y, rng, weight):
    M0 = given_metric(X, rng) if rng.random() < 0.5 else np.eye(X.shape[1])
    return weight * terms.LogDet(to=M0), lambda D, M: number(weight) * divergence(M, M0) if M.det() > 0 else INFINITE


LOSSES = (triplet, pair, log_ratio, targets, hard, budget, spread, repulsion, collapse, pair_softmax)
COSTS = (pull, trace, frobenius, log_det, off_diagonal)


def labels(X, y, rng):
    """LMNN as a sum of terms, with weights of all sizes."""
    pull_weight, push_weight, more = (float(10.0 ** rng.uniform(-6, 2)) for _ in range(3))
    loss, ridge = str(rng.choice(["hinge", "squared_hinge"])), rng.random() < 0.5
    both = pull_weight * terms.Pull(labels=y, n_neighbors=1) + push_weight * terms.TripletHinge(
        labels=y, n_neighbors=1, loss=loss
    )
    problem = sm.MetricProblem(X, both + more * terms.Trace() if ridge else both)
    near = problem.total.costs[0].tolist()

    def value(D, M):
        pushes = [SCALARS[loss](1 + D(i, j) - D(i, l)) for i, j in near for l in np.flatnonzero(y != y[i]).tolist()]
        traces = number(more) * total(M[k, k] for k in range(M.nrows())) if ridge else arb(0)
        return number(pull_weight) * total(D(i, j) for i, j in near) + number(push_weight) * total(pushes) + traces

    return problem, [value], np.eye(X.shape[1]), False


def domain_of(kind, d, rng):
    """Arguments, the rows that metrics are combined from, and whether the combinations are diagonal."""
    if kind == "diagonal":
        return {"diagonal": True}, np.eye(d), True
    if kind == "bases":
        B = rng.normal(size=(d + 3, d))
        return {"bases": B}, B, True
    P = rng.normal(size=(d, max(1, d - 1)))
    if kind == "nearly dependent":
        P = np.column_stack([P, P[:, 0] + 10.0 ** rng.uniform(-13, -5) * rng.normal(size=d)])
    elif kind == "dependent":
        P = np.column_stack([P, 2.0 * P[:, 0]])
    return ({}, np.eye(d), False) if kind == "all" else ({"subspace": P}, P.T, False)


def drawn(X, y, rng):
    """A problem, its terms' exact values, and its domain."""
    kind = str(rng.choice(DOMAINS))
    if kind == "labels":
        return labels(X, y, rng)
    d = X.shape[1]
    some = [*rng.choice(len(LOSSES), int(rng.integers(1, 4)), replace=False)]
    makers = [LOSSES[k] for k in some] + [
        COSTS[k] for k in rng.choice(len(COSTS), int(rng.integers(0, 3)), replace=False)
    ]
    if spread in makers or repulsion in makers:
        makers.append(trace)
    made = [maker(X, y, rng, float(10.0 ** rng.uniform(-2, 1))) for maker in makers]
    arguments, B, diagonal = domain_of(kind, d, rng)
    return (
        sm.MetricProblem(X, terms.Sum(tuple(term for term, _ in made)), **arguments),
        [v for _, v in made],
        B,
        diagonal,
    )


def judged(X, y, rng, share):
    """Exact values and certificates; see `violations` in rigor.py."""
    problem, values, B, diagonal = drawn(X, y, rng)
    exact_data = np.asarray(X, float)
    units = np.maximum(np.ptp(exact_data @ B.T, axis=0), 1e-300)
    k = len(B)
    combinations = [np.diag(rng.exponential(size=k) / units) if diagonal else rng.normal(size=(2, k)) / units]
    combinations.append(np.zeros((1, k)))
    if problem.total.losses and rng.random() < 0.5:  # at the edge of a constraint
        D = Distances(exact_data, combinations[0] @ B)
        i, j = problem.total.pairs[-1].tolist()
        size = float(arb(D(i, j)).mid()) or 1.0
        combinations.append(combinations[0] * np.sqrt(float(10.0 ** rng.integers(-1, 2)) / size))
    every = [(C, C @ B) for C in combinations]
    if rng.random() < share:
        found = sm.solve(problem, tol=10.0 ** -rng.integers(3, 7), max_iter=int(rng.integers(20, 100)))
        every.append((None, np.asarray(found.components, float)))
        yield None, found.certificate
    if problem.recognised is None:
        given = 10.0 ** rng.uniform(-2, 1) * rng.exponential(size=problem.total.n_multipliers)
        yield None, problem.certify(every[0][1], dual=given)
    restricted = not np.array_equal(B, np.eye(len(B.T))) or diagonal
    for C, L in every:
        if len(L):
            D, M = Distances(exact_data, L), metric(L)
        else:
            D, M = Distances(exact_data, np.zeros((1, L.shape[1]))), fmpq_mat(L.shape[1], L.shape[1])
        certificate = problem.certify(L)
        at = total(value(D, M) for value in values)
        yield at, replace(certificate, lower_bound=-np.inf) if restricted else certificate
        if restricted and C is not None:
            exact_factor = rational(C) * rational(B)
            inside = Distances(exact_data, np.zeros((1, L.shape[1])))
            inside.Z = rational(exact_data) * exact_factor.transpose()
            at = total(value(inside, exact_factor.transpose() * exact_factor) for value in values)
            yield at, certificate
