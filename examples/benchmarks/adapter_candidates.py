"""How many candidates `Adapter` compares each example with: recall at 1, mean average precision and 5 neighbors.

    python examples/benchmarks/adapter_candidates.py --data DIR [--set banking77] [--labels 50 10] [--noise 0 0.2]

Learns from so many labels of each class, a share of them replaced at random, and retrieves the labeled examples for the
others. Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import numpy as np

from sdpmetric.estimators import Adapter


def scores(items: np.ndarray, y: np.ndarray, queries: np.ndarray, asked: np.ndarray) -> str:
    """Recall at 1, mean average precision, and accuracy of 5 nearest neighbors, in percent."""
    D = (items**2).sum(axis=1) - 2.0 * queries @ items.T
    order = np.argsort(D, axis=1, kind="stable")
    relevant = y[order] == asked[:, None]
    precision = np.cumsum(relevant, axis=1) / np.arange(1, len(items) + 1)
    average = (precision * relevant).sum(axis=1) / np.maximum(1, relevant.sum(axis=1))
    votes = [np.bincount(row).argmax() for row in y[order[:, :5]]]
    return " | ".join(f"{100 * np.mean(v):.1f}" for v in (relevant[:, 0], average, votes == asked))


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("SDPMETRIC_DATA", ".")))
    parser.add_argument("--set", default="banking77")
    parser.add_argument("--labels", type=int, nargs="*", default=[50, 10])
    parser.add_argument("--noise", type=float, nargs="*", default=[0.0, 0.2])
    parser.add_argument("--candidates", type=int, nargs="*", default=[30, 100, 200])
    options = parser.parse_args(argv)
    stored = np.load(options.data / f"{options.set}.npz")
    X, y = stored["X"].astype(np.float32), np.unique(stored["y"], return_inverse=True)[1]
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    n_train = int(stored["n_train"]) if options.set == "banking77" else len(X)
    print("| labels | noise | candidates | recall at 1 | MAP | 5 neighbors | seconds |\n|" + " ---: |" * 7)
    for n_labels in options.labels:
        for noise in options.noise:
            rng = np.random.default_rng(0)
            rows = [rng.permutation(np.flatnonzero(y[:n_train] == c))[:n_labels] for c in range(y.max() + 1)]
            learned = np.sort(np.concatenate(rows))
            held = np.arange(n_train, len(X)) if n_train < len(X) else np.setdiff1d(np.arange(len(X)), learned)
            labels, rng = y[learned].copy(), np.random.default_rng(1)
            wrong = rng.random(len(labels)) < noise
            labels[wrong] = rng.integers(0, y.max() + 1, wrong.sum())
            print(f"| {n_labels} | {noise} | raw | {scores(X[learned], labels, X[held], y[held])} | |", flush=True)
            for count in options.candidates:
                began = time.process_time()
                L = Adapter(n_candidates=count).fit(X[learned], labels).components_
                seconds = time.process_time() - began
                row = scores(X[learned] @ L.T, labels, X[held] @ L.T, y[held])
                print(f"| {n_labels} | {noise} | {count} | {row} | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
