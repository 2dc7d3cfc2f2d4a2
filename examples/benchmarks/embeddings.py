"""Adapters on frozen embeddings: recall of questions of a bank's customers, from few labels or from comparisons.

    python examples/benchmarks/embeddings.py --data FOLDER --labels 5 10 50 0 --comparisons 500 1500 5000

The embeddings are banking77.npz: 384 numbers of norm 1 for each of 13,083 questions of 77 kinds. Recall at 1 is the
share of the 3,080 test questions whose nearest labeled question is of their kind; 0 labels means all 10,003. From
comparisons (a question, one of its kind, one of another), the nearest of all training questions counts. Seconds are
processor time of one thread. The contrastive adapter, a square matrix W from the identity, minimizes the softmax of
similarities of a batch [KTWSTIMLK2020], or of comparisons, by Adam; it is shown at the best learning rate and
temperature of a grid, chosen by the recall of the test questions, which no user can do.
"""

from __future__ import annotations

import argparse
import itertools
import os
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from sdpmetric.estimators import LMNN, Adapter

RATES, TEMPERATURES, EPOCHS, BATCH = (2e-4, 5e-4, 1e-3), (0.05, 0.1), 60, 512


def recall(
    L: np.ndarray, items: np.ndarray, y: np.ndarray, queries: np.ndarray, asked: np.ndarray, units: bool = False
) -> float:
    """In percent, at 1; of similarities where the rows are divided by their lengths."""
    Z, Q = items @ L.T, queries @ L.T
    if units:
        Z /= np.linalg.norm(Z, axis=1, keepdims=True)
    nearest = np.argmin(np.einsum("ij,ij->i", Z, Z) - 2.0 * Q @ Z.T, axis=1)
    return 100.0 * float(np.mean(y[nearest] == asked))


def softmax_slopes(S: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Slopes of the supervised contrastive loss by the similarities of a batch; pairs of one kind are positive."""
    np.fill_diagonal(S, -np.inf)
    P = np.exp(S - S.max(axis=1, keepdims=True))
    P /= P.sum(axis=1, keepdims=True)
    positive = own[:, None] == own
    np.fill_diagonal(positive, False)
    counts = positive.sum(axis=1, keepdims=True)
    return np.where(counts > 0, P - positive / np.maximum(counts, 1), 0.0) / len(S)


def descended(
    slopes: Callable[[np.ndarray, np.ndarray], np.ndarray], batches: Callable[[], list[np.ndarray]], d: int, rate: float
) -> np.ndarray:
    """W by Adam with its usual constants."""
    W, mean, square, t = np.eye(d), np.zeros((d, d)), np.zeros((d, d)), 0
    for _ in range(EPOCHS):
        for rows in batches():
            G, t = slopes(W, rows), t + 1
            mean, square = 0.9 * mean + 0.1 * G, 0.999 * square + 0.001 * G * G
            W -= rate * (mean / (1 - 0.9**t)) / (np.sqrt(square / (1 - 0.999**t)) + 1e-8)
    return W


def through(W: np.ndarray, X: np.ndarray, by_unit: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """The gradient by W of a function of the unit vectors along ``X W^T``, from its gradient by them."""
    Z = X @ W.T
    sizes = np.linalg.norm(Z, axis=1, keepdims=True)
    U = Z / sizes
    G = by_unit(U)
    return ((G - np.sum(G * U, axis=1, keepdims=True) * U) / sizes).T @ X


def contrastive(X: np.ndarray, y: np.ndarray, rate: float, temperature: float, seed: int) -> np.ndarray:
    """From labels."""
    rng = np.random.default_rng(seed)

    def slopes(W: np.ndarray, rows: np.ndarray) -> np.ndarray:
        def by_unit(U: np.ndarray) -> np.ndarray:
            A = softmax_slopes(U @ U.T / temperature, y[rows]) / temperature
            return (A + A.T) @ U

        return through(W, X[rows], by_unit)

    def batches() -> list[np.ndarray]:
        return np.array_split(rng.permutation(len(X)), -(-len(X) // BATCH))

    return descended(slopes, batches, X.shape[1], rate)


def compared(X: np.ndarray, triplets: np.ndarray, rate: float, temperature: float, seed: int) -> np.ndarray:
    """From comparisons."""
    rng = np.random.default_rng(seed)

    def slopes(W: np.ndarray, rows: np.ndarray) -> np.ndarray:
        t, m = triplets[rows], len(rows)

        def by_unit(U: np.ndarray) -> np.ndarray:
            a, b, c = U[:m], U[m : 2 * m], U[2 * m :]
            s = (1.0 / (1.0 + np.exp(np.sum(a * (b - c), axis=1) / temperature)) / temperature / m)[:, None]
            return np.concatenate([-s * (b - c), -s * a, s * a])

        return through(W, X[t.T.ravel()], by_unit)

    def batches() -> list[np.ndarray]:
        return np.array_split(rng.permutation(len(triplets)), -(-len(triplets) // BATCH))

    return descended(slopes, batches, X.shape[1], rate)


def timed(learn: Callable[[], object]) -> tuple[object, float]:
    """What is learned, and the processor time that it took."""
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = learn()
    return found, time.process_time() - began


def main(argv: list[str] | None = None) -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("SDPMETRIC_DATA", ".")))
    parser.add_argument("--labels", type=int, nargs="*", default=[5, 10, 50, 0])
    parser.add_argument("--comparisons", type=int, nargs="*", default=[500, 1500, 5000])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--grid", type=int, default=len(RATES) * len(TEMPERATURES), help="pairs of the grid, at most")
    args = parser.parse_args(argv)
    stored = np.load(args.data / "banking77.npz")
    X, y, n = stored["X"].astype(np.float64), stored["y"].astype(np.int64), int(stored["n_train"])
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    items, kinds, queries, asked = X[:n], y[:n], X[n:], y[n:]
    d, grid = X.shape[1], list(itertools.product(RATES, TEMPERATURES))[-args.grid :]
    Adapter().fit(items[:200], kinds[:200])  # compiles
    print(
        "| learned from | as they are | `LMNN()` | `Adapter()` | seconds | gap | contrastive, best of grid | seconds |"
    )
    print("| --- |" + " ---: |" * 7)

    def row(name: str, draws: list[np.ndarray], from_labels: bool) -> None:
        """Print the means over draws, of row numbers or of comparisons; the contrastive one's best of the grid."""
        columns, rivals, gaps = [], [], []
        for seed, drawn in enumerate(draws):
            given = (items[drawn], kinds[drawn]) if from_labels else (items, drawn)
            index = given if from_labels else (items, kinds)
            lmnn, adapter, learn = LMNN(max_time=120.0), Adapter(), contrastive if from_labels else compared
            fits = [getattr(one, "fit" if from_labels else "fit_triplets") for one in (lmnn, adapter)]
            timed(partial(fits[0], *given))
            _, seconds = timed(partial(fits[1], *given))
            others = [timed(partial(learn, *given, *setting, seed)) for setting in grid]
            rivals.append([recall(W, *index, queries, asked, units=True) for W, _ in others])
            learned = (
                recall(np.asarray(L), *index, queries, asked)
                for L in (np.eye(d), *(one.components_ for one in (lmnn, adapter)))
            )
            columns.append([*learned, seconds, np.mean([took for _, took in others])])
            gaps.append(adapter.relative_gap_)
        raw, large_margin, own, seconds, took = np.mean(columns, axis=0)
        cells = f"{raw:.1f} | {large_margin:.1f} | {own:.1f} | {seconds:.1f} | {max(gaps):.0e}"
        print(f"| {name} | {cells} | {np.mean(rivals, axis=0).max():.1f} | {took:.1f} |", flush=True)

    for m in args.labels:
        draws = []
        for seed in range(args.seeds if m else 1):
            rng = np.random.default_rng(seed)
            some = [rng.permutation(np.flatnonzero(kinds == c))[: m or n] for c in np.unique(kinds)]
            draws.append(np.sort(np.concatenate(some)))
        row(f"{m} labels per class" if m else f"all {n:,} labels", draws, True)
    for m in args.comparisons:
        draws = []
        for seed in range(args.seeds):
            rng = np.random.default_rng(seed)
            t = rng.integers(0, n, (400 * m, 3))
            said = (kinds[t[:, 0]] == kinds[t[:, 1]]) & (kinds[t[:, 0]] != kinds[t[:, 2]]) & (t[:, 0] != t[:, 1])
            draws.append(t[said][:m])
        row(f"{m:,} comparisons", draws, False)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
