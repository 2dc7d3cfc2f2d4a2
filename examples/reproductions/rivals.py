"""Online methods that papers compare with, in NumPy: LORETA (PSD-1), OASIS, and ITML with an explicit gradient."""

from __future__ import annotations

import numpy as np

# The largest relative change that one retraction takes; longer steps are shortened.
REACH = 1.0
# Candidates for the learning rate of ITML, in units of one over the mean squared target and distance.
RATES = tuple(10.0 ** (k / 2) for k in range(-8, 5))


def triplets(y: np.ndarray, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Queries, items of their class and items of other classes, (n,) each, drawn uniformly."""
    rng, order = np.random.default_rng(seed), np.argsort(y, kind="stable")
    _, starts, of, counts = np.unique(y[order], return_index=True, return_inverse=True, return_counts=True)
    place, c = np.empty(len(y), dtype=np.int64), np.empty(len(y), dtype=np.int64)
    place[order], c[order] = np.arange(len(y)) - starts[of], of
    q = rng.choice(np.flatnonzero(counts[c] > 1), n)
    near = order[starts[c[q]] + (place[q] + rng.integers(1, counts[c[q]])) % counts[c[q]]]
    far = rng.integers(len(y), size=n)
    while (same := y[far] == y[q]).any():
        far[same] = rng.integers(len(y), size=int(same.sum()))
    return q, near, far


def retracted(K: np.ndarray, v: np.ndarray, c: float) -> np.ndarray:
    """The factor after the step of ``K^T K`` along ``c v v^T``, by the retraction of second order [LL2014]."""
    h = np.linalg.solve(K @ K.T, K @ v)
    size = h @ h
    c *= min(1.0, REACH / (abs(c) * size)) if c * size else 1.0
    return K + np.outer(h, c * ((1.0 - 0.5 * c * size) * v + (0.375 * c * size - 0.5) * (h @ K)))


def loreta(X: np.ndarray, y: np.ndarray, K: np.ndarray, step: float, n_steps: int, seed: int = 0) -> np.ndarray:
    """LORETA on PSD matrices of fixed rank [SWC2012]: the factor after hinges of ``q^T W (near - far)``, W = K^T K."""
    for q, near, far in zip(*triplets(y, n_steps, seed), strict=True):
        u = X[near] - X[far]
        if (K @ X[q]) @ (K @ u) < 1.0:
            for sign in (1.0, -1.0):  # q u^T + u q^T as a difference of two matrices of rank one
                K = retracted(K, X[q] + sign * u, 0.25 * sign * step)
    return K


def oasis(X: np.ndarray, y: np.ndarray, aggressiveness: float, n_steps: int, seed: int = 0) -> np.ndarray:
    """OASIS [CSSB2010]: a similarity, neither symmetric nor PSD, by passive-aggressive steps."""
    S = np.eye(X.shape[1])
    for q, near, far in zip(*triplets(y, n_steps, seed), strict=True):
        u = X[near] - X[far]
        loss, size = 1.0 - X[q] @ S @ u, (X[q] @ X[q]) * (u @ u)
        if loss > 0.0 and size > 0.0:
            S += min(aggressiveness, loss / size) * np.outer(X[q], u)
    return S


def online_itml(
    X: np.ndarray, pairs: np.ndarray, targets: np.ndarray, sides: np.ndarray, rate: float
) -> tuple[np.ndarray, float]:
    """The online algorithm of Davis et al. [DKJSD2007]: a factor of the metric, and the losses before the steps.

    ``A_{t+1}^{-1} = A_t^{-1} + eta_t (p - y) z z^T`` with the squared distance p and the target y, which is at most
    (side 1), at least (-1) or exactly asked for. It is positive definite only while ``eta_t (y - p) p < 1``, so eta_t
    is at most ``1 / (2 (y - p) p)``.
    """
    A, loss = np.eye(X.shape[1]), 0.0
    for (i, j), y, side in zip(pairs, targets, sides, strict=True):
        z = X[i] - X[j]
        image = A @ z
        p = z @ image
        excess = p - y
        if side * excess < 0.0 or excess == 0.0 or p == 0.0:
            continue
        loss += 0.5 * excess**2
        sigma = excess * (rate if excess > 0.0 else min(rate, 0.5 / (-excess * p)))
        A -= sigma / (1.0 + sigma * p) * np.outer(image, image)
    return np.linalg.cholesky(A).T, loss


def itml_rate(X: np.ndarray, pairs: np.ndarray, targets: np.ndarray, sides: np.ndarray) -> float:
    """The learning rate of `online_itml` with the smallest loss on a few pairs."""
    D = np.sum((X[pairs[:, 0]] - X[pairs[:, 1]]) ** 2, axis=1)
    rates = np.array(RATES) / (np.mean(D**2) + np.mean(targets**2))
    return float(min(rates, key=lambda rate: online_itml(X, pairs, targets, sides, rate)[1]))
