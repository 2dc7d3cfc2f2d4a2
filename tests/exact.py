"""Exact rational arithmetic for tests: objectives of LMNN at float points, and hostile families of problems.

Nothing here calls the package, so that agreement is evidence.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
from flint import arb, arb_mat, fmpq, fmpq_mat


def rational(A) -> fmpq_mat:
    """A float matrix as a matrix of rational numbers."""
    A = np.atleast_2d(np.asarray(A, dtype=np.float64))
    return fmpq_mat(*A.shape, [fmpq(*value.as_integer_ratio()) for value in A.ravel().tolist()])


def number(value: float) -> fmpq:
    return fmpq(*float(value).as_integer_ratio())


def fraction(value: fmpq) -> Fraction:
    return Fraction(int(value.p), int(value.q))


class Distances:
    """Exact squared distances under the metric ``L^T L``, pair by pair."""

    def __init__(self, X, L) -> None:
        self.Z = rational(X) * rational(L).transpose() if len(L) else None
        self.seen: dict[tuple[int, int], fmpq] = {}

    def __call__(self, a: int, b: int) -> fmpq:
        key = (min(a, b), max(a, b))
        if key not in self.seen:
            Z = self.Z
            columns = range(0 if Z is None else Z.ncols())
            self.seen[key] = sum(((Z[a, c] - Z[b, c]) ** 2 for c in columns), fmpq(0))
        return self.seen[key]


def lmnn_objective(X, L, pairs, triplets, weights, mu, ridge=0.0, squared=False, regions=None) -> fmpq:
    """The exact objective of LMNN at ``L^T L``; with regions, a factor for each, and a pair goes by its second."""
    factors = [L] if regions is None else list(L)
    D = [Distances(X, np.asarray(factor, dtype=np.float64)) for factor in factors]

    def distance(a, b):
        return D[0 if regions is None else int(regions[b])](a, b)

    mu_, one = number(mu), fmpq(1)
    total = (one - mu_) * sum((distance(int(i), int(j)) for i, j in pairs), fmpq(0))
    if ridge:
        squares = sum((number(v) ** 2 for factor in factors for v in np.ravel(factor).tolist()), fmpq(0))
        total += number(ridge) * squares
    loss = fmpq(0)
    for (i, j, l), w in zip(triplets, weights, strict=True):
        u = one + distance(int(i), int(j)) - distance(int(i), int(l))
        if u > 0:
            loss += number(w) * (u * u if squared else u)
    return total + mu_ * loss


def log_det(M: fmpq_mat) -> arb:
    """The logarithm of a determinant of rational numbers; minus infinity where it is not positive."""
    determinant = M.det()
    return arb(determinant).log() if determinant > 0 else arb("-inf")


def divergence(A: fmpq_mat, prior) -> arb:
    """``trace(A A_0^-1) - log det(A A_0^-1) - d`` in balls."""
    A0 = rational(prior)
    ratio = A * A0.inv()
    return arb(sum((ratio[k, k] for k in range(ratio.nrows())), fmpq(0))) - log_det(A) + log_det(A0) - ratio.nrows()


def metric(L) -> fmpq_mat:
    """``L^T L`` exactly."""
    return rational(L).transpose() * rational(L)


def itml_objective(X, L, pairs, similar, upper, lower, gamma, prior, weights=None) -> arb:
    """The objective of ITML at ``L^T L`` in balls; `gamma` may be 1 only where pairs have weights."""
    D, slack = Distances(X, L), arb(0)
    weights = np.ones(len(pairs)) if weights is None else weights
    for (a, b), same, w in zip(pairs.tolist(), similar.tolist(), weights.tolist(), strict=True):
        bound = number(upper if same else lower)
        ratio = (max if same else min)(D(a, b) / bound, fmpq(1))
        slack += arb(number(w)) * (arb(ratio) - 1 - (arb(ratio).log() if ratio > 0 else arb("-inf")))
    return divergence(metric(L), prior) + arb(number(gamma)) * slack


def lego_loss(X, L, pairs, targets, sides) -> fmpq:
    """What a fixed metric loses on a stream of pairs with target distances."""
    D, total = Distances(X, L), fmpq(0)
    for (a, b), target, side in zip(pairs.tolist(), targets.tolist(), sides.tolist(), strict=True):
        excess = D(a, b) - number(target)
        total += fmpq(0) if int(side) * excess < 0 else excess**2
    return total / 2


def rca_objective(X, L, chunks, ridge, weights=None, directions=None) -> arb:
    """The objective of RCA at ``L^T L`` in balls, on the directions in which data vary.

    With a ridge on data that vary in fewer directions than there are features, give their number; it is exact for
    metrics of at most that rank.
    """
    P, d = rational(X), X.shape[1]
    total, count = fmpq_mat(d, d), fmpq(0)
    w = [fmpq(1)] * len(X) if weights is None else [number(v) for v in weights.tolist()]
    for chunk in sorted(set(chunks.tolist()) - {-1}):
        rows = np.flatnonzero(chunks == chunk).tolist()
        if len(rows) > 1:
            size = sum((w[i] for i in rows), fmpq(0))
            mean = [sum((w[i] * P[i, j] for i in rows), fmpq(0)) / size for j in range(d)]
            V = fmpq_mat(len(rows), d, [P[i, j] - mean[j] for i in rows for j in range(d)])
            weighted = fmpq_mat(len(rows), d, [w[i] * V[k, j] for k, i in enumerate(rows) for j in range(d)])
            total, count = total + V.transpose() * weighted, count + size
    C = total / count + rational(ridge * np.eye(d))
    product, varying = C * metric(L), rational(np.asarray(X, dtype=np.float64)) if d else None
    rank = fmpq_mat(len(X), d, [varying[i, j] - varying[0, j] for i in range(len(X)) for j in range(d)]).rank()
    if not ridge and C.rank() < rank:
        return arb("inf")  # no chunklet varies there
    rank = rank if directions is None else directions
    volume = (
        product.charpoly()[d - rank] * (-1) ** rank
    )  # the product of as many eigenvalues, if no others are positive
    trace = arb(sum((product[k, k] for k in range(d)), fmpq(0)))
    return trace - arb(volume).log() if volume > 0 else arb("inf")


def mcml_objective(X, L, y, weights=None) -> arb:
    """The divergences of MCML at ``L^T L`` in balls."""
    D, total = Distances(X, L), arb(0)
    for i in range(len(X)):
        mates = [j for j in range(len(X)) if j != i and y[j] == y[i]]
        partition = sum((arb(-D(i, k)).exp() for k in range(len(X)) if k != i), arb(0))
        pull = sum((D(i, j) for j in mates), fmpq(0)) / len(mates)
        term = arb(pull) + partition.log() - arb(len(mates)).log()
        total += term if weights is None else arb(number(float(weights[i]))) * term
    return total


def lfda_objective(X, L, y, k, ridge=0.0, weights=None) -> arb:
    """LFDA at a factor L with independent rows, pair by pair as the paper states it, in balls."""
    n, d = X.shape
    P, D = rational(X), Distances(X, np.eye(d))
    v = [fmpq(1)] * n if weights is None else [number(w) for w in weights.tolist()]
    whole, sizes = sum(v, fmpq(0)), {c: sum((v[i] for i in range(n) if y[i] == c), fmpq(0)) for c in set(y)}
    near = [sorted(D(i, j) for j in range(n) if j != i and y[j] == y[i]) for i in range(n)]
    scale = [row[min(k, len(row)) - 1] if row else fmpq(0) for row in near]
    B, W = arb_mat(d, d), arb_mat(rational(ridge * np.eye(d)))
    for i in range(n):
        for j in range(i):
            difference = fmpq_mat(1, d, [P[i, c] - P[j, c] for c in range(d)])
            square, both = arb_mat(difference.transpose() * difference), arb(v[i] * v[j])
            if y[i] != y[j]:
                B += square * (both / arb(whole))
            elif product := scale[i] * scale[j]:
                A = both * (-arb(D(i, j)) / arb(product).sqrt()).exp()
                W += square * (A / arb(sizes[y[i]]))
                B += square * (A * (1 / arb(whole) - 1 / arb(sizes[y[i]])))
    F = arb_mat(rational(L))
    ratio = (F * W * F.transpose()).solve(F * B * F.transpose())
    return -sum((ratio[c, c] for c in range(len(L))), arb(0))


def mlr_objective(X, L, related, Q, average, C, weights=None) -> fmpq:
    """MLR at ``L^T L`` over all rankings that keep relevant items in order, and irrelevant ones, by distance."""
    X, n, total = np.concatenate([X, Q]), len(X), fmpq(0)
    D, asked = Distances(X, L), related.queries.tolist()
    w = [fmpq(1)] * len(Q) if weights is None else [number(v) for v in weights.tolist()]
    for q in asked:
        near = sorted(D(n + q, int(i)) for i in related.relevant(q))
        far = sorted(D(n + q, int(j)) for j in related.irrelevant(q))
        R, N, worst = len(near), len(far), fmpq(0)
        for places in combinations(range(R + N), R):
            above = [place - i for i, place in enumerate(places)]
            if average:
                lost = 1 - sum((fmpq(i + 1, place + 1) for i, place in enumerate(places)), fmpq(0)) / R
            else:
                lost = fmpq(sum(above), R * N)
            slopes = sum((2 * (near[i] - far[j]) for i in range(R) for j in range(above[i])), fmpq(0))
            worst = max(worst, lost + slopes / (R * N))
        total += w[q] * worst
    trace = sum((number(v) ** 2 for v in np.ravel(L).tolist()), fmpq(0))
    return trace + number(C) * total / sum((w[q] for q in asked), fmpq(0))


FAMILIES = (
    "plain",
    "offset",
    "scales",
    "duplicates",
    "repeated",
    "constant",
    "grid",
    "float32",
    "wide",
    "line",
    "dependent",
)


def hostile(family: str, rng: np.random.Generator, n: int = 12, d: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Data and labels of a family that floating point finds hard; two or three classes of at least four members."""
    y = rng.permutation(np.arange(n) % int(rng.integers(2, 4)))
    X = rng.normal(size=(n, d)) + rng.normal(size=(3, d))[y]
    if family == "offset":
        X += 10.0 ** rng.integers(2, 8)
    elif family == "scales":
        X *= 10.0 ** rng.integers(-6, 7, size=d)
    elif family == "duplicates":
        X[rng.integers(0, n, 4)] = X[rng.integers(0, n, 4)]
    elif family == "repeated":
        X = np.column_stack([X, X[:, 0] + 1e-9 * rng.normal(size=n)])
    elif family == "constant":
        X = np.column_stack([X, 1.0 * y + 1e-10 * rng.normal(size=n)])
    elif family == "grid":
        X = rng.integers(0, 4, size=(n, d)).astype(np.float64)
    elif family == "float32":
        X = X.astype(np.float32)
    elif family == "wide":
        X = rng.normal(size=(n, n + 3))
    elif family == "line":
        X = X[:, :1]
    elif family == "dependent":
        twin = (X[:, 0] / 2.54, 4.0 * X[:, 0], X[:, 0] + X[:, -1], X[:, 0] * (1.0 + 10.0 ** -rng.integers(4, 17)))
        X = np.column_stack([X, twin[int(rng.integers(4))]])
    return X, y
