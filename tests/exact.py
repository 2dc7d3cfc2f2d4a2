"""Exact objectives of every convex statement, in rational numbers and balls, and hostile families of data.

Each function states a program as its paper or docstring does, of a matrix M of rational numbers and of the distances
under it. Nothing here calls the package, so that agreement is evidence.
"""

from fractions import Fraction

import numpy as np
from flint import arb, fmpq, fmpq_mat

INFINITE = arb("inf")
ZERO, UNIT = fmpq(0), fmpq(1)


def rational(A) -> fmpq_mat:
    """A float matrix as a matrix of rational numbers."""
    A = np.atleast_2d(np.asarray(A, dtype=np.float64))
    return fmpq_mat(*A.shape, [fmpq(*value.as_integer_ratio()) for value in A.ravel().tolist()])


def number(value: float) -> fmpq:
    return fmpq(*float(value).as_integer_ratio())


def numbers(values) -> list[fmpq]:
    return [number(value) for value in np.ravel(values).tolist()]


def fraction(value: fmpq) -> Fraction:
    return Fraction(int(value.p), int(value.q))


def metric(L) -> fmpq_mat:
    """``L^T L`` exactly, of a factor of floats or of rational numbers."""
    L = L if isinstance(L, fmpq_mat) else rational(L)
    return L.transpose() * L


def trace(M: fmpq_mat) -> fmpq:
    return sum((M[k, k] for k in range(M.nrows())), ZERO)


def square(M: fmpq_mat) -> fmpq:
    """The sum of the squares of the entries."""
    return sum((entry**2 for entry in M.entries()), ZERO)


def definite(M: fmpq_mat) -> bool:
    """Whether a symmetric matrix is positive definite, by its leading minors."""
    n = M.nrows()
    minors = (fmpq_mat(k, k, [M[i, j] for i in range(k) for j in range(k)]).det() for k in range(1, n + 1))
    return all(minor > 0 for minor in minors)


class Distances:
    """Exact squared distances, pair by pair, under the metric ``L^T L`` of a factor, or under a metric M."""

    def __init__(self, X, L=None, M: fmpq_mat | None = None) -> None:
        P = rational(X)
        if M is None:
            Z = P * rational(L).transpose() if len(L) else fmpq_mat(P.nrows(), 1)
            self.G = Z * Z.transpose()
        else:
            self.G = P * M * P.transpose()
        self.seen: dict[tuple[int, int], fmpq] = {}

    def __call__(self, a: int, b: int) -> fmpq:
        key = (min(a, b), max(a, b))
        if key not in self.seen:
            G = self.G
            self.seen[key] = G[a, a] + G[b, b] - 2 * G[a, b]
        return self.seen[key]


def plus(u: fmpq) -> fmpq:
    return max(ZERO, u)


def logistic(u: fmpq) -> arb:
    return (1 + (-abs(arb(u))).exp()).log() + arb(plus(u))


def ratio_divergence(r: fmpq) -> arb:
    """``r - log r - 1``."""
    return arb(r) - 1 - arb(r).log() if r > 0 else INFINITE


SCALARS = {
    "hinge": plus,
    "squared_hinge": lambda u: plus(u) ** 2,
    "logistic": logistic,
}


def total(terms) -> arb:
    return sum((arb(term) for term in terms), arb(0))


def log_det(M: fmpq_mat) -> arb:
    """The logarithm of a determinant of rational numbers; minus infinity where it is not positive."""
    determinant = M.det()
    return arb(determinant).log() if determinant > 0 else arb("-inf")


def divergence(A: fmpq_mat, prior) -> arb:
    """``trace(A A_0^-1) - log det(A A_0^-1) - d`` in balls."""
    A0 = rational(prior)
    if not A.det() > 0:
        return INFINITE
    return arb(trace(A * A0.inv())) - log_det(A) + log_det(A0) - A.nrows()


def margins(distance, pairs, triplets, mu, costs=None, weights=None, squared=False) -> fmpq:
    """``(1 - mu) sum_p c_p D(p) + mu sum_t w_t h(1 + D(i, j) - D(i, l))``, of any distance of two rows."""
    costs = [UNIT] * len(pairs) if costs is None else costs
    weights = [UNIT] * len(triplets) if weights is None else weights
    pull = sum((c * distance(int(i), int(j)) for c, (i, j) in zip(costs, pairs, strict=True)), ZERO)
    push = ZERO
    for (i, j, l), w in zip(triplets, weights, strict=True):
        u = plus(UNIT + distance(int(i), int(j)) - distance(int(i), int(l)))
        push += w * (u * u if squared else u)
    return (UNIT - number(mu)) * pull + number(mu) * push


def lmnn_objective(X, L, pairs, triplets, weights, mu, ridge=0.0, squared=False, regions=None) -> fmpq:
    """The objective of LMNN at ``L^T L``; with regions, a factor for each, and a pair goes by its second."""
    factors = [np.asarray(factor, dtype=np.float64) for factor in ([L] if regions is None else L)]
    D = [Distances(X, factor) for factor in factors]
    distance = D[0] if regions is None else lambda a, b: D[int(regions[b])](a, b)
    squares = sum((v**2 for factor in factors for v in numbers(factor)), ZERO)
    return margins(distance, pairs, triplets, mu, None, numbers(weights), squared) + number(ridge) * squares


def pola(D, M, pairs, signs, slack_weight, start, b, weights=None) -> fmpq:
    """POLA's objective with slacks."""
    weights = [UNIT] * len(pairs) if weights is None else numbers(weights)
    missed = (plus(1 - (number(b) - D(i, j)) * s) for (i, j), s in zip(pairs.tolist(), signs, strict=True))
    slack = sum((w * u for w, u in zip(weights, missed, strict=True)), ZERO)
    return (square(M) + (number(b) - number(start)) ** 2) / 2 + number(slack_weight) * slack


def hard_pola(D, M, pairs, signs, start, b=None) -> fmpq | None:
    """POLA's objective at a threshold, or least among the multiples of a metric; None where a margin is missed."""
    lengths, first = [(D(i, j), s) for (i, j), s in zip(pairs.tolist(), signs, strict=True)], number(start)
    if b is not None:
        satisfied = all((number(b) - q) * s >= 1 for q, s in lengths)
        return (square(M) + (number(b) - first) ** 2) / 2 if satisfied else None
    longest_similar = max((q for q, s in lengths if s > 0), default=ZERO)
    shortest_dissimilar = min((q for q, s in lengths if s < 0), default=None)
    if shortest_dissimilar is None:  # the zero metric and the threshold that is asked for keep them
        return ZERO
    if shortest_dissimilar <= longest_similar:
        return None
    size = square(M)
    c = max(
        2 / (shortest_dissimilar - longest_similar), (first + 1) * shortest_dissimilar / (size + shortest_dissimilar**2)
    )
    b = max(UNIT, min(max(first, c * longest_similar + 1), c * shortest_dissimilar - 1))
    return (c * c * size + (b - first) ** 2) / 2


def frml_auc(D, queries, regularization) -> fmpq:
    """FRML with all positive hinges, which is also its relaxation."""
    lam = number(regularization) * fmpq(sum(len(irrelevant) for _, _, irrelevant in queries), len(queries))
    cost = ZERO
    for q, relevant, irrelevant in queries:
        losses = (sum((plus(1 + D(q, i) - D(q, j)) for j in irrelevant), lam * D(q, i)) for i in relevant)
        cost += sum(losses, ZERO) / len(relevant)
    return cost


def mmc(D, pairs, similar, weights=None) -> arb:
    """Minus the spread of the dissimilar pairs, of the largest multiple up to 1 that the budget allows."""
    w = [UNIT] * len(pairs) if weights is None else numbers(weights)
    rows = [(c, D(i, j), bool(s)) for c, (i, j), s in zip(w, pairs.tolist(), similar, strict=True)]
    spent = sum((c * q for c, q, same in rows if same), ZERO)
    gained = total(arb(c) * arb(q).sqrt() for c, q, same in rows if not same)
    return -gained / (arb(spent).sqrt() if spent > 1 else arb(1))


def itml(D, M, pairs, similar, upper, lower, gamma, prior, weights=None) -> arb:
    """ITML with the best slacks."""
    w, slack = [UNIT] * len(pairs) if weights is None else numbers(weights), arb(0)
    for (a, b), same, c in zip(pairs.tolist(), similar, w, strict=True):
        ratio = D(a, b) / number(upper if same else lower)
        slack += arb(c) * ratio_divergence((max if same else min)(ratio, UNIT))
    return divergence(M, prior) + arb(number(gamma)) * slack


def lego_loss(D, pairs, targets, sides) -> fmpq:
    """What a fixed metric loses on a stream of pairs with target distances."""
    cost = ZERO
    for (a, b), target, side in zip(pairs.tolist(), targets.tolist(), sides.tolist(), strict=True):
        excess = D(a, b) - number(target)
        cost += ZERO if int(side) * excess < 0 else excess**2
    return cost / 2


FAMILIES = ("plain", "offset", "scales", "duplicates", "repeated", "constant", "grid", "float32", "wide", "line")
FAMILIES += ("dependent",)


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
