"""Sums of terms, drawn at random, beside their exact values: all losses, regularizers and domains.

Margins go from 1e-3 to 1e3, hard constraints are tried at points scaled to their very edge, and weights have all digits
of floats. Lower bounds of a restricted domain are compared with metrics that are exactly in it.
"""

import exact
import numpy as np
from exact import INFINITE, SCALARS, Distances, divergence, number, numbers, ratio_divergence, rational, total
from flint import arb, fmpq

import sdpmetric as sm
from adversary.case import Case
from adversary.families import log_uniform, weight
from adversary.statements import prior, some_weights
from sdpmetric import terms

VERBS = ("solve", "solve", "verify", "compare", "path", "explain", "stop", "proof", "proof")
DOMAINS = ("all", "all", "diagonal", "bases")


def different(rng, n, m, k):
    return np.argsort(rng.random((m, n)), axis=1)[:, :k]


class Maker:
    """Terms over data, each with its exact value as a function of distances and of the metric."""

    def __init__(self, X, y, rng, scale=1.0):
        self.X, self.y, self.rng, self.scale = X, y, rng, scale
        self.planted: list[np.ndarray] = []

    def rows(self, m, k):
        return different(self.rng, len(self.X), m, k)

    def weights(self, m):
        w = some_weights(self.rng, m)
        return np.ones(m) if w is None else w

    def triplet(self):
        rows, loss, w = self.rows(12, 3), str(self.rng.choice(list(SCALARS))), self.weights(12)
        margin = log_uniform(self.rng, -3, 3)
        term = terms.TripletHinge(rows, margin=margin, loss=loss, weights=w)
        return term, lambda D, M: total(
            c * SCALARS[loss](number(margin) + D(i, j) - D(i, l))
            for c, (i, j, l) in zip(numbers(w), rows.tolist(), strict=True)
        )

    def quadruplet(self):
        rows, loss, w = self.rows(12, 4), str(self.rng.choice(list(SCALARS))), self.weights(12)
        margin = float(self.rng.choice([0.0, 1.0, log_uniform(self.rng, -3, 3)]))
        term = terms.QuadrupletHinge(rows, margin=margin, loss=loss, weights=w)
        return term, lambda D, M: total(
            c * SCALARS[loss](number(margin) + D(a, b) - D(i, j))
            for c, (a, b, i, j) in zip(numbers(w), rows.tolist(), strict=True)
        )

    def pair(self):
        rows, loss, w = self.rows(12, 2), str(self.rng.choice(list(SCALARS))), self.weights(12)
        b, margin = float(self.rng.uniform(0, 5)), log_uniform(self.rng, -3, 2)
        similar = self.rng.random(12) < 0.5
        term = terms.PairHinge(rows, similar, b, margin=margin, loss=loss, weights=w)
        signs = np.where(similar, 1, -1).tolist()
        return term, lambda D, M: total(
            c * SCALARS[loss](number(margin) - s * (number(b) - D(i, j)))
            for c, s, (i, j) in zip(numbers(w), signs, rows.tolist(), strict=True)
        )

    def soft_bounds(self):
        rows, loss, w = self.rows(12, 2), str(self.rng.choice(list(SCALARS))), self.weights(12)
        low, high = self.rng.uniform(0.1, 1.0, 12), self.rng.uniform(1.0, 3.0, 12)
        term = terms.DistanceBounds(rows, high, low, loss=loss, weights=w)
        return term, lambda D, M: total(
            c * (SCALARS[loss](D(i, j) - b) + SCALARS[loss](a - D(i, j)))
            for c, a, b, (i, j) in zip(numbers(w), numbers(low), numbers(high), rows.tolist(), strict=True)
        )

    def log_ratio(self):
        rows, upper = self.rows(12, 2), self.rng.random(12) < 0.5
        bounds = self.rng.exponential(size=12) * 10.0 ** self.rng.uniform(-2, 2)
        high, low = np.where(upper, bounds, np.inf), np.where(upper, 0.0, bounds)
        term = terms.DistanceBounds(rows, high, low, loss="log_ratio")

        def value(D, M):
            ratios = [D(i, j) / b for (i, j), b in zip(rows.tolist(), numbers(bounds), strict=True)]
            pick = [max(r, fmpq(1)) if up else min(r, fmpq(1)) for r, up in zip(ratios, upper, strict=True)]
            return total(map(ratio_divergence, pick))

        return term, value

    def targets(self):
        rows, sides, w = self.rows(12, 2), self.rng.integers(-1, 2, 12), self.weights(12)
        goals = self.rng.exponential(size=12) * 10.0 ** self.rng.uniform(-2, 2)
        if self.rng.random() < 0.5:  # those of a metric, which costs next to nothing
            L = log_uniform(self.rng, -3, 4) * np.diag(self.rng.random(self.d)) * self.scale
            self.planted.append(L)
            D = Distances(self.X, L)
            goals = np.clip([float(arb(D(i, j)).mid()) for i, j in rows.tolist()], 0.0, 1e300)
        term = terms.DistanceTargets(rows, goals, sides, weights=w)

        def value(D, M):
            residuals = [D(i, j) - t for (i, j), t in zip(rows.tolist(), numbers(goals), strict=True)]
            costs = zip(numbers(w), residuals, sides.tolist(), strict=True)
            return total(c * u * u / 2 for c, u, s in costs if s * u >= 0)

        return term, value

    def hard(self):
        rows = self.rows(int(self.rng.integers(1, 6)), 2)
        V = np.asarray(self.X, float)[rows[:, 0]] - np.asarray(self.X, float)[rows[:, 1]]
        with np.errstate(over="ignore", under="ignore"):
            size = np.sum((V * self.scale) ** 2, axis=1)
        center = np.clip(size, 1e-100, 1e100) * 10.0 ** self.rng.uniform(-1, 1)
        upper, lower = 1.5 * center, np.where(self.rng.random(len(rows)) < 0.5, 0.0, 0.5 * center)
        intervals = list(zip(rows.tolist(), numbers(lower), numbers(upper), strict=True))
        return terms.DistanceBounds(
            rows, upper, lower
        ), lambda D, M: arb(0) if all(a <= D(i, j) <= b for (i, j), a, b in intervals) else INFINITE

    def budget(self):
        rows, costs, bound = self.rows(5, 2), self.rng.exponential(size=5), log_uniform(self.rng, -1, 1)
        spent = list(zip(numbers(costs), rows.tolist(), strict=True))
        return terms.Budget(
            rows, bound, costs
        ), lambda D, M: arb(0) if sum((c * D(i, j) for c, (i, j) in spent), fmpq(0)) <= number(bound) else INFINITE

    def spread(self):
        rows, w = self.rows(12, 2), self.weights(12)
        return (
            terms.Spread(rows, weights=w),
            lambda D, M: (
                -total(arb(c) * arb(D(i, j)).sqrt() for c, (i, j) in zip(numbers(w), rows.tolist(), strict=True))
            ),
        )

    def repulsion(self):
        rows, w = self.rows(6, 2), 0.1 * self.rng.exponential(size=6)
        return terms.Repulsion(
            rows, weights=w
        ), lambda D, M: -total(c * D(i, j) for c, (i, j) in zip(numbers(w), rows.tolist(), strict=True))

    def pull(self):
        rows = self.rows(int(self.rng.integers(1, 12)), 2)
        w = self.weights(len(rows))
        return terms.Pull(rows, weights=w), lambda D, M: total(
            c * D(i, j) for c, (i, j) in zip(numbers(w), rows.tolist(), strict=True)
        )

    def trace(self):
        return terms.Trace(), lambda D, M: arb(exact.trace(M))

    def off_diagonal(self):
        d = range(self.d)
        return terms.OffDiagonal(), lambda D, M: total(abs(M[j, k]) for j in d for k in d if j != k)

    @property
    def d(self):
        return self.X.shape[1]

    def near_prior(self):
        """A given metric, or None."""
        return prior(self.X, self.rng) if self.rng.random() < 0.5 else None

    def frobenius(self):
        M0 = self.near_prior()
        M0 = np.zeros((self.d, self.d)) if M0 is None else M0
        return terms.Frobenius(to=M0), lambda D, M: arb(exact.square(M - rational(M0)) / 2)

    def log_det(self):
        M0 = self.near_prior()
        M0 = np.eye(self.d) if M0 is None else M0
        return terms.LogDet(to=M0), lambda D, M: divergence(M, M0)


LOSSES = (
    "triplet",
    "quadruplet",
    "pair",
    "soft_bounds",
    "log_ratio",
    "targets",
    "hard",
    "budget",
    "spread",
    "repulsion",
)
LOSSES += ("triplet", "quadruplet", "pair")  # are drawn twice as often
COSTS = ("pull", "trace", "frobenius", "log_det", "off_diagonal")


def made(maker: Maker, rng):
    """One to three losses and perhaps costs, with weights, and their exact values."""
    names = [str(rng.choice(LOSSES)) for _ in range(int(rng.integers(1, 4)))]
    names += [str(name) for name in rng.choice(COSTS, int(rng.integers(0, 3)), replace=False)]
    if {"spread", "repulsion"} & set(names):
        names.append("trace")
    return [(float(weight(rng, -2, 1)), *getattr(maker, name)()) for name in dict.fromkeys(names)]


def case_of(problem, made_terms, X, distances, inside=None, **options):
    """A sum with the exact values of its terms, whose weights may vary."""
    names = problem.names

    def value(M, **varied):
        D = distances(M)
        weights = [varied.get(name, w) for name, (w, _, _) in zip(names, made_terms, strict=True)]
        return total(
            arb(number(w)) * term_value(D, M) for w, (_, _, term_value) in zip(weights, made_terms, strict=True)
        )

    rng = np.random.default_rng(len(names))
    weights = {str(rng.choice(names)): [log_uniform(rng, -2, 1)]}
    return Case(problem, value, X, **{"inside": inside, "weights": weights, "verbs": VERBS} | options)


def combined(B, diagonal):
    """Draws exact factors of a domain: rows combined, or each by itself."""
    units = 1.0 / np.linalg.norm(B, axis=1)

    def inside(rng):
        k = len(B)
        C = np.diag(rng.exponential(size=k) * units) if diagonal else rng.normal(size=(2, k)) * units
        return rational(C * 10.0 ** rng.uniform(-2, 2)) * rational(B)

    return inside


def sums(X, y, rng):
    """A sum over a domain."""
    d, kind = X.shape[1], str(rng.choice(DOMAINS))
    clipped = np.clip(np.ptp(np.asarray(X, float), axis=0), 1e-60, 1e60)
    scale = 1.0 / np.where(clipped > 0, clipped, 1.0)
    maker = Maker(X, y, rng, scale=scale)
    made_terms = made(maker, rng)
    domain, inside = {}, None
    if kind == "diagonal":
        domain, inside = {"diagonal": True}, combined(np.eye(d), True)
    elif kind == "bases":
        B = rng.normal(size=(d + 3, d)) * scale
        domain, inside = {"bases": B}, combined(B, True)
    problem = sm.MetricProblem(X, terms.Sum(tuple(w * term for w, term, _ in made_terms)), **domain)
    data = np.asarray(problem.X, float)
    return case_of(problem, made_terms, data, lambda M: Distances(problem.X, M=M), inside, planted=maker.planted)


def labels(X, y, rng):
    """LMNN as a sum of terms, with weights of all sizes."""
    pull_weight, push_weight, trace_weight = (weight(rng, -6, 2) for _ in range(3))
    loss, ridge = str(rng.choice(["hinge", "squared_hinge"])), rng.random() < 0.5
    pull, push = terms.Pull(labels=y, n_neighbors=1), terms.TripletHinge(labels=y, n_neighbors=1, loss=loss)
    total_of = pull_weight * pull + push_weight * push
    problem = sm.MetricProblem(X, total_of + trace_weight * terms.Trace() if ridge else total_of)
    costs = problem.total.costs[0].tolist()
    triplets = [(i, j, l) for i, j in costs for l in np.flatnonzero(y != y[i]).tolist()]
    made_terms = [
        (pull_weight, pull, lambda D, M: total(D(i, j) for i, j in costs)),
        (push_weight, push, lambda D, M: total(SCALARS[loss](1 + D(i, j) - D(i, l)) for i, j, l in triplets)),
        (trace_weight, None, lambda D, M: arb(exact.trace(M))),
    ][: 3 if ridge else 2]
    data = np.asarray(problem.X, float)
    return case_of(problem, made_terms, data, lambda M: Distances(data, M=M))


def planted(X, y, rng):
    """Hinges near a prior, whose optimum is an exact matrix if all hinges are positive there.

    Impostors are next to targets, so their long differences nearly cancel.
    """
    X = np.asarray(X, float)
    n, length = len(X), log_uniform(rng, 0, 4)
    jitter = log_uniform(rng, -3, -1) / length**2 * rng.normal(size=X.shape)
    data = np.concatenate([X, X + jitter * np.ptp(X, axis=0)])
    first, second = rng.permuted(np.tile(np.arange(n), (12, 1)), axis=1)[:, :2].T
    rows = np.column_stack([first, second, second + n])
    rows[::3] = rows[::3][:, [0, 2, 1]]
    spread, is_frobenius = np.ptp(data, axis=0), bool(rng.random() < 0.5)
    scale = length * np.where(spread > 0.0, 1.0 / np.clip(spread, 1e-30, 1e70), 1.0)
    target = np.diag(scale**2)
    near, far = (rational(data[rows[:, 0]]) - rational(data[rows[:, k]]) for k in (1, 2))
    slope = near.transpose() * near - far.transpose() * far
    d, units = len(scale), 1.0 / scale if is_frobenius else scale
    in_units = (abs(slope[i, j]) * number(units[i]) * number(units[j]) for i in range(d) for j in range(d))
    size = float(arb(sum(in_units, exact.ZERO)))
    w = float(np.clip(size * log_uniform(rng, -0.5, 1), 1e-140, 1e140))
    push, near_target = terms.TripletHinge(rows), (terms.Frobenius if is_frobenius else terms.LogDet)(to=target)
    made_terms = [
        (1.0, push, lambda D, M: total(SCALARS["hinge"](1 + D(i, j) - D(i, l)) for i, j, l in rows.tolist())),
        (w, near_target, lambda D, M: arb(exact.square(M - A) / 2) if is_frobenius else divergence(M, target)),
    ]
    A = rational(target)
    optimum = A - slope / number(w) if is_frobenius else (A.inv() + slope / number(w)).inv()
    known = [optimum] if exact.definite(optimum) else []
    floats = np.array([[float(M[i, j]) for j in range(d)] for M in known for i in range(d)])
    factors = [np.linalg.cholesky(floats / np.outer(scale, scale)).T * scale] if known else []
    problem = sm.MetricProblem(data, push + w * near_target)
    return case_of(problem, made_terms, data, lambda M: Distances(data, M=M), known=known, planted=factors)
