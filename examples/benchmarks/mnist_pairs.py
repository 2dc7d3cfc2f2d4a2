"""Pairs of MNIST digits: 45 binary problems, metrics learned from 1,000 pairs each, k-NN errors beside Euclid's.

Run it with ``python examples/benchmarks/mnist_pairs.py --data DIR [--scaling standard|pixels] [--digits 49,35]
[--batch]``; it prints Markdown, with ``--batch`` POLA's batch conversion, too, which takes five times as long. DIR (or
SDPMETRIC_DATA) holds mnist.npz. For each two digits: the first 10,000 training rows and all test rows that are of these
digits; 1,000 pairs of training rows, every other one similar, drawn with the problem's number as seed; then nearest
neighbors among the training rows.

Scaling "standard": every pixel that varies is brought to mean 0 and variance 1 over the problem's training rows, and so
is it for Euclid. "pixels": gray values / 255, no more. For the learners the scaled features are then all multiplied by
one number, so that the median squared distance of the 1,000 pairs is DISTANCE, which changes nothing for Euclid.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

import sdpmetric as sm

sys.path.insert(0, str(Path(__file__).parents[1] / "reproductions"))
import rivals

NEIGHBORS = (1, 3, 5)
N_TRAIN, N_PAIRS, DISTANCE = 10_000, 1_000, 10.0
# Largest loss that the batch conversion leaves, and how often it goes over the pairs at most.
BETA, MOST_PASSES = 0.1, 20

# A learner gives components from scaled training rows, pairs and their flags.
Learner = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def pola(X: np.ndarray, pairs: np.ndarray, similar: np.ndarray) -> np.ndarray:
    """Online POLA, once over the pairs: b_1 = 1, the separable version, the last metric."""
    return sm.POLAStream(X.shape[1], 1.0).partial_fit(X, pairs, similar).components


def pola_batch(X: np.ndarray, pairs: np.ndarray, similar: np.ndarray) -> np.ndarray:
    """The batch conversion of section 6: online POLA over the pairs again, until no loss of a pass exceeds BETA."""
    stream = sm.POLAStream(X.shape[1], 1.0)
    for _ in range(MOST_PASSES):
        before = stream.cumulative_loss
        stream.partial_fit(X, pairs, similar)
        if stream.cumulative_loss - before <= BETA**2:
            break
    return stream.components


def _stated(X: np.ndarray, pairs: np.ndarray, similar: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Similar pairs at most the 5th percentile of their squared distances apart, dissimilar ones at least the 95th."""
    low, high = np.percentile(np.sum((X[pairs[:, 0]] - X[pairs[:, 1]]) ** 2, axis=1), [5, 95])
    return pairs, np.where(similar, low, high), np.where(similar, 1, -1)


def lego(X: np.ndarray, pairs: np.ndarray, similar: np.ndarray) -> np.ndarray:
    """LEGO, once over the pairs, with the learning rate 0.1 where the median squared distance is 1."""
    return sm.LEGOStream(X.shape[1], 0.1 / DISTANCE**2).partial_fit(X, *_stated(X, pairs, similar)).components


def lego_pretrained(X: np.ndarray, pairs: np.ndarray, similar: np.ndarray) -> np.ndarray:
    """LEGO with the learning rate of least loss on the first 200 of the pairs."""
    given = _stated(X, pairs, similar)
    stream = sm.LEGOStream.pretrained(X, *(part[:200] for part in given))
    return stream.partial_fit(X, *given).components


def itml_online(X: np.ndarray, pairs: np.ndarray, similar: np.ndarray) -> np.ndarray:
    """Online ITML with LEGO's pairs and rate."""
    return rivals.online_itml(X, *_stated(X, pairs, similar), 0.1 / DISTANCE**2)[0]


LEARNERS: dict[str, Learner] = {
    "POLA": pola,
    "LEGO": lego,
    "LEGO pre-trained": lego_pretrained,
    "ITML online": itml_online,
}


def draw_pairs(y: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Every other pair similar; the first row of a pair is drawn among all."""
    pairs = np.empty((N_PAIRS, 2), dtype=np.int32)
    for t in range(N_PAIRS):
        i = rng.integers(len(y))
        pool = np.flatnonzero((y == y[i]) == (t % 2 == 1))
        pairs[t] = i, rng.choice(pool[pool != i])
    return pairs, y[pairs[:, 0]] == y[pairs[:, 1]]


def scale(train: np.ndarray, test: np.ndarray, scaling: str) -> tuple[np.ndarray, np.ndarray]:
    """Varying pixels only; they are all that distances see of the training rows."""
    spread = train.std(axis=0)
    varying = spread > 0
    spread = np.where(scaling == "standard", spread, 1.0)[varying]
    mean = train[:, varying].mean(axis=0)
    return (train[:, varying] - mean) / spread, (test[:, varying] - mean) / spread


def errors(Z: np.ndarray, y: np.ndarray, queries: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Wrong predictions among the queries for each number of neighbors, distances in single precision."""
    Z, queries = Z.astype(np.float32), queries.astype(np.float32)
    D = np.sum(Z**2, axis=1) - 2 * (queries @ Z.T)
    near = np.argpartition(D, max(NEIGHBORS), axis=1)[:, : max(NEIGHBORS)]
    order = np.argsort(np.take_along_axis(D, near, axis=1), axis=1)
    votes = y[np.take_along_axis(near, order, axis=1)]
    return np.array([np.sum((votes[:, :k].mean(axis=1) > 0.5) != truth) for k in NEIGHBORS])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("SDPMETRIC_DATA"))
    parser.add_argument("--scaling", choices=["standard", "pixels"], default="standard")
    parser.add_argument("--digits", help="pairs of digits, for example 49,35; default: all 45")
    parser.add_argument("--batch", action="store_true", help="POLA in batch, too")
    given = parser.parse_args()
    if given.data is None:
        parser.error("name the folder of mnist.npz by --data or SDPMETRIC_DATA.")
    learners = LEARNERS | ({"POLA in batch": pola_batch} if given.batch else {})
    with np.load(Path(given.data) / "mnist.npz") as file:
        X, y = file["X"].astype(np.float64) / 255, file["y"].astype(int)
    X_train, y_train, X_test, y_test = X[:N_TRAIN], y[:N_TRAIN], X[60_000:], y[60_000:]
    every = list(combinations(range(10), 2))
    chosen = every if given.digits is None else [(int(name[0]), int(name[1])) for name in given.digits.split(",")]
    heads = " | ".join(f"{name}, k = {k}" for name in ("Euclid", *learners) for k in NEIGHBORS)
    print(f"| digits | test rows | {heads} |\n|{' --- |' * (2 + (1 + len(learners)) * len(NEIGHBORS))}")
    counts, began = [], time.perf_counter()
    for a, b in chosen:
        rows, queries = np.isin(y_train, (a, b)), np.isin(y_test, (a, b))
        Z, Q = scale(X_train[rows], X_test[queries], given.scaling)
        classes, truth = y_train[rows] == a, y_test[queries] == a
        pairs, similar = draw_pairs(classes, np.random.default_rng(every.index((a, b))))
        unit = np.sqrt(DISTANCE / np.median(np.sum((Z[pairs[:, 0]] - Z[pairs[:, 1]]) ** 2, axis=1)))
        wrong = [errors(Z, classes, Q, truth)]
        for learn in learners.values():
            L = learn(unit * Z, pairs, similar)
            wrong.append(errors(Z @ L.T, classes, Q @ L.T, truth))
        counts.append(wrong)
        print(f"| {a}, {b} | {len(truth):,} | {' | '.join(str(w) for row in wrong for w in row)} |", flush=True)
    table = np.array(counts)
    sums = " | ".join(str(w) for w in table.sum(axis=0).ravel())
    print(f"| all | | {sums} |\n")
    for number, name in enumerate(learners, 1):
        for k, column in zip(NEIGHBORS, table[:, number].T, strict=True):
            euclid = table[:, 0, NEIGHBORS.index(k)]
            below, same = int(np.sum(column < euclid)), int(np.sum(column == euclid))
            print(f"{name}, k = {k}: below Euclid on {below} of {len(table)} problems, equal on {same}.")
            if name != "POLA":
                rival = table[:, 1, NEIGHBORS.index(k)]
                print(f"{name}, k = {k}: at or below POLA on {int(np.sum(column <= rival))} of {len(table)} problems.")
    print(f"\nScaling {given.scaling!r}; {time.perf_counter() - began:.0f} seconds.")


if __name__ == "__main__":
    with threadpool_limits(limits=1, user_api="blas"):
        main()
