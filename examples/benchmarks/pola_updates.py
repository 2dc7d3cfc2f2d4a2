"""Online POLA's projection after a similar pair: four ways to find the one negative eigenpair, all compiled by numba.

Run it with ``python examples/benchmarks/pola_updates.py``; it prints Markdown. The streams are 1,000 pairs of Gaussian
points whose squared distances are 1 on average, similar where a planted metric of rank d / 4 says so, once with
features of equal size and once with features that fade like 1 / sqrt(j). All ways take the same pairs and share their
code but for the projection. BLAS and LAPACK run on one thread; the least of three runs counts.
"""

import time
from collections.abc import Callable
from functools import partial

import numba as nb
import numpy as np
from threadpoolctl import threadpool_limits

import sdpmetric as sm
from sdpmetric.engine.compiled import FAST

N_PAIRS, REPEATS, LARGEST = 1_000, 3, 60
FULL, CHOLESKY = 0, 1


@nb.njit(cache=True, fastmath=FAST)
def by_cholesky(A: np.ndarray, v: np.ndarray, length: float, u: np.ndarray) -> float:
    """Newton's method on ``1 / (v^T (A - x)^-1 v) = length``, a Cholesky decomposition for each step; no state kept."""
    d = len(v)
    x = -1e-13 * (np.trace(A) + length * np.dot(v, v))
    for _ in range(LARGEST):
        L = np.linalg.cholesky(A - x * np.eye(d))
        half = u.copy()
        for i in range(d):
            half[i] = (v[i] - np.dot(L[i, :i], half[:i])) / L[i, i]
        value = np.dot(half, half)
        for i in range(d):
            u[i] = half[i]
        for i in range(d - 1, -1, -1):  # (A - x) u = v
            u[i] /= L[i, i]
            for j in range(i):
                u[j] -= L[i, j] * u[i]
        square = np.dot(u, u)
        change = (1.0 / value - length) * value**2 / square
        if change >= 0.0 or -change <= 1e-13 * np.abs(x):
            u /= np.sqrt(square)
            return x if length * value > 1.0 - 1e-9 and x < -1e-12 * np.trace(A) else 0.0
        x += change
    return 0.0


@nb.njit(cache=True, fastmath=FAST)
def stream(X: np.ndarray, pairs: np.ndarray, similar: np.ndarray, way: int, A: np.ndarray) -> tuple[float, int]:
    """Fig. 1 of the paper; returns the threshold and the updates by similar pairs."""
    d, b, count = X.shape[1], 1.0, 0
    u = np.zeros(d)
    for t in range(len(pairs)):
        v = X[pairs[t, 0]] - X[pairs[t, 1]]
        Av = np.dot(A, v)
        square, sign = np.dot(v, v), 1.0 if similar[t] else -1.0
        loss = max(0.0, 1.0 - sign * (b - np.dot(v, Av)))
        if loss == 0.0:
            continue
        length = loss / (square**2 + 1.0)
        b = max(1.0, b + sign * length)
        x = 0.0
        if similar[t]:
            count += 1
            if way == CHOLESKY:
                x = by_cholesky(A, v, length, u)
        A -= sign * length * np.outer(v, v) + x * np.outer(u, u)
        if way == FULL and similar[t]:
            values, vectors = np.linalg.eigh(A)
            roots = vectors * np.sqrt(np.maximum(values, 0.0))
            A[:] = np.dot(roots, roots.T)
    return b, count


@nb.njit(cache=True)
def products(Q: np.ndarray, C: np.ndarray, n: int) -> None:
    for _ in range(n):
        np.dot(Q, C)


def seconds(task: Callable[[], object]) -> float:
    least = np.inf
    for _ in range(REPEATS):
        began = time.perf_counter()
        task()
        least = min(least, time.perf_counter() - began)
    return least


def make(d: int, fading: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(d)
    spread = 1 / np.sqrt(np.arange(1, d + 1)) if fading else np.ones(d)
    X = rng.normal(size=(2000, d)) * spread / np.sqrt(2 * np.sum(spread**2))
    pairs = np.array([rng.choice(2000, 2, replace=False) for _ in range(N_PAIRS)], dtype=np.int32)
    q = np.sum(((X[pairs[:, 0]] - X[pairs[:, 1]]) @ rng.normal(size=(d, d // 4))) ** 2, axis=1)
    return X, pairs, q < np.median(q)


def measure(d: int, fading: bool) -> None:
    """Print the rows of one stream."""
    X, pairs, similar = make(d, fading)
    ours, first = "Lanczos (ours)", sm.POLAStream(d).partial_fit(X, pairs, similar)
    found = {ours: first.metric}
    spent = {ours: seconds(lambda: sm.POLAStream(d).partial_fit(X, pairs, similar))}
    count = 0
    for name, way in (("Cholesky and Newton", CHOLESKY), ("full decomposition", FULL)):
        found[name] = np.zeros((d, d))
        count = stream(X, pairs, similar, way, found[name])[1]
        spent[name] = seconds(partial(lambda way: stream(X, pairs, similar, way, np.zeros((d, d))), way))
    Q = np.linalg.qr(np.random.default_rng(0).normal(size=(d, d)))[0]
    products(Q, Q, 1)
    spent["maintained eigenvectors, their one product"] = seconds(lambda: products(Q, Q, first.n_updates))
    full, exact = spent["full decomposition"], found["full decomposition"]
    for name, taken in spent.items():
        differs = f"{np.abs(found[name] - exact).max() / np.abs(exact).max():.0e}" if name in found else ""
        print(
            f"| {'fading' if fading else 'equal'} | {d} | {count} of {first.n_updates} | {name} | "
            f"{1e6 * taken / N_PAIRS:.1f} | {full / taken:.1f} | {differs} |",
            flush=True,
        )


def main() -> None:
    print("| features | d | similar updates of all | way | us per pair | times as fast as full | metric differs by |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for d in (16, 64, 200):
        for fading in (False, True):
            measure(d, fading)


if __name__ == "__main__":
    with threadpool_limits(limits=1, user_api="blas"):
        main()
