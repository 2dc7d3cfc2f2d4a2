"""Accuracy from few labels: raw distances, LMNN by its ridge, Adapter by its strength; ``--data FOLDER``.

Each data set gives 5 or 10 examples of each class, in coordinates of these examples, which leave their order of
distances as it is; up to 2,000 others are told by the nearest of them. Ridges are multiples of ``"auto"``. Cells are
means over draws, in percent; the last columns are of ``ridge="cv"`` or ``strength="cv"``, with processor seconds.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_limits
from useless_optima import made, stored

import sdpmetric as sm
from sdpmetric.estimators import LMNN, Adapter

MULTIPLES, STRENGTHS, MOST = (30.0, 10.0, 3.0, 1.0, 0.3), (100.0, 10.0, 3.0, 1.0, 0.3), 2000
LIMITS = {"tol": 1e-2, "max_time": 20.0}


def read(folder: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """The data sets that the folder has, and digits."""
    found = {"digits": load_digits(return_X_y=True)} | {k.split(" 900")[0]: v for k, v in made().items()}
    if (folder / "banking77.npz").is_file():
        arrays = np.load(folder / "banking77.npz")
        found["banking77"] = arrays["X"].astype(np.float64), arrays["y"]
    return found | {name.split(" ")[0]: both for name, both in stored(folder, 6000).items()}


def drawn(X: np.ndarray, y: np.ndarray, m: int, seed: int, units: bool) -> tuple[np.ndarray, ...]:
    """m examples of each class and others, in coordinates of the former, and their labels."""
    rng = np.random.default_rng(seed)
    rows = np.concatenate([rng.permutation(np.flatnonzero(y == c))[:m] for c in np.unique(y)])
    others = rng.permutation(np.setdiff1d(np.arange(len(X)), rows))[:MOST]
    X = X / np.linalg.norm(X, axis=1, keepdims=True) if units else X
    A, B = (X[part] - X[rows].mean(axis=0) for part in (rows, others))
    _, size, axes = np.linalg.svd(A, full_matrices=False)
    axes = axes[size > 1e-9 * size[0]]
    scale = 1.0 / np.sqrt(2.0 * np.mean(np.sum(A * A, axis=1)))
    return scale * A @ axes.T, y[rows], scale * B @ axes.T, y[others]


def accuracy(L: np.ndarray, X: np.ndarray, y: np.ndarray, Q: np.ndarray, asked: np.ndarray) -> float:
    """In percent, of the nearest."""
    Z = X @ L.T
    return 100.0 * float(np.mean(y[np.argmin(np.sum(Z * Z, axis=1) - 2.0 * (Q @ L.T) @ Z.T, axis=1)] == asked))


def ridge_columns(X: np.ndarray, y: np.ndarray, Q: np.ndarray, asked: np.ndarray) -> list[float]:
    """Raw, by ridge, and cv with its seconds."""
    units = sm.LMNNProblem.from_labels(X, y, ridge="auto").ridge
    fits = [np.eye(X.shape[1]), *(LMNN(ridge=m * units, **LIMITS).fit(X, y).components_ for m in MULTIPLES)]
    began = time.process_time()
    fits.append(LMNN(ridge="cv", **LIMITS).fit(X, y).components_)
    return [*(accuracy(L, X, y, Q, asked) for L in fits), time.process_time() - began]


def strength_columns(X: np.ndarray, y: np.ndarray, Q: np.ndarray, asked: np.ndarray) -> list[float]:
    """Raw, by strength, and "cv" with its seconds."""
    fits = [np.eye(X.shape[1]), *(Adapter(strength=s).fit(X, y).components_ for s in STRENGTHS)]
    began = time.process_time()
    fits.append(Adapter(strength="cv").fit(X, y).components_)
    return [*(accuracy(L, X, y, Q, asked) for L in fits), time.process_time() - began]


def main(argv: list[str] | None = None) -> None:
    """Print the table of ridges, or of strengths."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("SDPMETRIC_DATA", ".")))
    parser.add_argument("--strengths", action="store_true", help="of Adapter, rows divided by their lengths")
    parser.add_argument("--labels", type=int, nargs="*", default=[5, 10])
    parser.add_argument("--seeds", type=int, default=5)
    args = parser.parse_args(argv)
    values = [f"{value:g}" for value in (STRENGTHS if args.strengths else MULTIPLES)]
    print(f"| data, labels | raw | {' | '.join(values)} | cv | seconds |\n| --- |" + " ---: |" * (len(values) + 3))
    for name, (X, y) in read(args.data).items():
        for m in args.labels:
            index = np.unique(y, return_inverse=True)[1].ravel()
            if (args.names and name not in args.names) or np.bincount(index).min() <= m:
                continue
            columns = strength_columns if args.strengths else ridge_columns
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                cells = [columns(*drawn(X, index, m, seed, args.strengths)) for seed in range(args.seeds)]
            print(f"| {name}, {m} |", " | ".join(f"{cell:.1f}" for cell in np.mean(cells, axis=0)), "|", flush=True)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
