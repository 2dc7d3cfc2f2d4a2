"""`Adapter` against the features as they are and a contrastive adapter: recall at 1, mean average precision, neighbors.

    python examples/benchmarks/adapter_candidates.py --data DIR [--set banking77] [--labels 5 10 50 0] [--noise 50]

Learns from so many labels of each class, 0 for all, and retrieves the labeled examples for the others. With `--noise`
20 % of the labels are replaced at random, in the index as well; with `--unseen` half of the classes are learned from,
and each held example of the others retrieves the rest of these. `--candidates` are those of `Adapter`, and `--rates`
the learning rates of the contrastive adapter, of which the best in recall is shown, which no user can do. Rows are
divided by their lengths. Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import numpy as np
from embeddings import contrastive

from sdpmetric.estimators import Adapter

TEMPERATURE = 0.1
WRONG = 0.2


def scores(
    L: np.ndarray, items: np.ndarray, y: np.ndarray, queries: np.ndarray, asked: np.ndarray, units: bool
) -> list[float]:
    """Recall at 1, mean average precision, and accuracy of 5 neighbors, in percent; without itself for equal arrays."""
    Z, Q = items @ L.T, queries @ L.T
    if units:
        Z /= np.linalg.norm(Z, axis=1, keepdims=True)
    D = (Z**2).sum(axis=1) - 2.0 * Q @ Z.T
    is_self = items is queries
    if is_self:
        np.fill_diagonal(D, -np.inf)
    order = np.argsort(D, axis=1, kind="stable")[:, int(is_self) :]
    relevant = y[order] == asked[:, None]
    precision = np.cumsum(relevant, axis=1) / np.arange(1, order.shape[1] + 1)
    average = (precision * relevant).sum(axis=1) / np.maximum(1, relevant.sum(axis=1))
    votes = np.array([np.bincount(row).argmax() for row in y[order[:, :5]]])
    return [100.0 * float(np.mean(v)) for v in (relevant[:, 0], average, votes == asked)]


def row(task: str, by: str, figures: list[float], seconds: float) -> str:
    return f"| {task} | {by} | " + " | ".join(f"{v:.1f}" for v in figures) + f" | {seconds:.1f} |"


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("SDPMETRIC_DATA", ".")))
    parser.add_argument("--set", default="banking77")
    parser.add_argument("--labels", type=int, nargs="*", default=[5, 10, 50, 0])
    parser.add_argument("--noise", type=int, nargs="*", default=[], help="labels per class of which a share is wrong")
    parser.add_argument("--unseen", type=int, nargs="*", default=[], help="labels per class of half of the classes")
    parser.add_argument("--candidates", type=int, nargs="*", default=[100])
    parser.add_argument("--rates", type=float, nargs="*", default=[2e-4, 5e-4])
    options = parser.parse_args(argv)
    stored = np.load(options.data / f"{options.set}.npz")
    X, y = stored["X"].astype(np.float32), np.unique(stored["y"], return_inverse=True)[1]
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    n_train = int(stored["n_train"]) if "n_train" in stored else len(X)
    n_classes, d = y.max() + 1, X.shape[1]
    print("| learned from | by | recall at 1 | MAP | 5 neighbors | seconds |\n| --- | --- |" + " ---: |" * 4)
    tasks = [("labels", m) for m in options.labels]
    tasks += [("labels, 20 % wrong", m) for m in options.noise] + [("labels, other classes", m) for m in options.unseen]
    for name, m in tasks:
        rng = np.random.default_rng(0)
        classes = rng.permutation(n_classes)[: n_classes // 2] if "other" in name else np.arange(n_classes)
        rows = [rng.permutation(np.flatnonzero(y[:n_train] == c))[: m or n_train] for c in classes]
        learned = np.sort(np.concatenate(rows))
        held = np.arange(n_train, len(X)) if n_train < len(X) else np.setdiff1d(np.arange(len(X)), learned)
        labels, rng = y[learned].copy(), np.random.default_rng(1)
        if "wrong" in name:
            wrong = rng.random(len(labels)) < WRONG
            labels[wrong] = rng.integers(0, n_classes, wrong.sum())
        items, kinds, queries, asked = X[learned], labels, X[held], y[held]
        if "other" in name:
            queries, asked = X[held][others := ~np.isin(y[held], classes)], y[held][others]
            items, kinds = queries, asked

        data, task = (items, kinds, queries, asked), f"{m or 'all'} {name}"
        print(row(task, "as they are", scores(np.eye(d), *data, False), 0.0), flush=True)
        rivals = []
        for rate in options.rates:
            began = time.process_time()
            W = contrastive(X[learned].astype(np.float64), labels, rate, TEMPERATURE, 0)
            rivals.append((scores(W, *data, True), time.process_time() - began))
        if rivals:
            print(row(task, "contrastive", *max(rivals, key=lambda rival: rival[0][0])), flush=True)
        for count in options.candidates:
            began = time.process_time()
            L = Adapter(n_candidates=count).fit(X[learned], labels).components_
            seconds = time.process_time() - began
            print(row(task, f"`Adapter(n_candidates={count})`", scores(L, *data, False), seconds), flush=True)


if __name__ == "__main__":
    main()
