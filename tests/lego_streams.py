"""Streams of pairs and numbers by definition, for the tests of the LogDet learners."""

import numpy as np

import sdpmetric as sm


def divergence(A, A0):
    """D_ld by its definition, as numbers."""
    ratio = A @ np.linalg.inv(A0)
    return float(np.trace(ratio) - np.linalg.slogdet(ratio)[1] - len(A0))


def definite(rng, d, size=1.0):
    L = rng.normal(size=(d, d)) + np.eye(d)
    return size * (L.T @ L + 0.1 * np.eye(d))


def pair_loss(p, y, side):
    return 0.5 * (p - y) ** 2 if side == 0 else 0.5 * max(0.0, side * (p - y)) ** 2


def make_stream(seed, d=None, p=None):
    """A random stream that no metric fits, of all three kinds of targets."""
    rng = np.random.default_rng(seed)
    d, p = d or int(rng.integers(1, 5)), p or int(rng.integers(3, 40))
    n = int(rng.integers(5, 15))
    X = rng.normal(size=(n, d)) * 10 ** rng.uniform(-0.7, 0.7)
    pairs = np.array([rng.choice(n, 2, replace=False) for _ in range(p)])
    L = rng.normal(size=(int(rng.integers(1, d + 1)), d))
    y = np.sum(((X[pairs[:, 0]] - X[pairs[:, 1]]) @ L.T) ** 2, axis=1) * rng.uniform(0.3, 1.7, p)
    sides = rng.choice([-1, 0, 1], p) if seed % 3 else rng.choice([-1, 0, 1])
    rate = 10 ** rng.uniform(-3, 0.5) / max(np.mean(y**2), 1e-3)
    return sm.LEGOProblem(X, pairs, y, sides, rate, definite(rng, d, 10 ** rng.uniform(-0.5, 0.5)))


def run(problem):
    stream = sm.LEGOStream(problem.X.shape[1], problem.learning_rate, problem.prior)
    return stream.partial_fit(problem.X, problem.pairs, problem.targets, problem.sides)
