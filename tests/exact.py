"""Exact rational arithmetic for tests: objectives of LMNN at float points, and hostile families of problems.

Nothing here calls the package, so that agreement is evidence.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from flint import fmpq, fmpq_mat


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


FAMILIES = ("plain", "offset", "scales", "duplicates", "repeated", "constant", "grid", "float32", "wide", "line")


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
    return X, y
