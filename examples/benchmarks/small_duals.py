"""SDML beside scikit-learn's graphical lasso, and POLA in batch beside its dual alone and its exact program.

    OPENBLAS_NUM_THREADS=1 NUMBA_NUM_THREADS=1 python examples/benchmarks/small_duals.py

prints Markdown: processor milliseconds, medians of some runs, on one thread. Of SDML both sides get the same problem,
stated already; ours ends with a proven gap, and scikit-learn's tolerances are those that ours calls it with. POLA's
pairs are those of normal points that a hidden metric tells apart, without the fifth between; with slacks of a weight
each, a tenth of them is flipped.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from unittest.mock import patch

import numpy as np
from sklearn import datasets
from sklearn.covariance import graphical_lasso
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import sdpmetric as sm
from sdpmetric.pola import solvers

REPEATS = 15


def milliseconds(task: Callable[[], object], repeats: int = REPEATS) -> float:
    """Processor time, the median of some runs after one that compiles."""
    task()
    spent = []
    for _ in range(repeats):
        began = time.process_time()
        task()
        spent.append(time.process_time() - began)
    return 1e3 * statistics.median(spent)


def tables() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Standardized, and 30 principal components of digits."""
    loads = {"iris": datasets.load_iris, "wine": datasets.load_wine, "breast cancer": datasets.load_breast_cancer}
    made = {name: load(return_X_y=True) for name, load in loads.items()}
    made = {name: (StandardScaler().fit_transform(X), y) for name, (X, y) in made.items()}
    X, y = datasets.load_digits(return_X_y=True)
    return made | {"digits:30": (PCA(30, random_state=0).fit_transform(X / 16), y)}


def sdml() -> None:
    print("| SDML | proven gap | ours | graphical_lasso | ratio |\n| --- | ---: | ---: | ---: | ---: |")
    for name, (X, y) in tables().items():
        problem = sm.SDMLProblem.from_labels(X, y)
        options = {"tol": 1e-5, "enet_tol": 1e-6}
        theirs = milliseconds(lambda S=problem.linear, options=options: graphical_lasso(S, 0.01, **options))
        ours, gap = milliseconds(lambda problem=problem: sm.solve(problem)), sm.solve(problem).relative_gap
        print(f"| {name} | {gap:.0e} | {ours:.2f} | {theirs:.2f} | {ours / theirs:.1f} |", flush=True)


def separable(d: int, n_pairs: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.random.Generator]:
    rng = np.random.default_rng(seed)
    X, pairs = rng.normal(size=(400, d)) / np.sqrt(2 * d), rng.integers(0, 400, (4 * n_pairs, 2))
    V = X[pairs[:, 0]] - X[pairs[:, 1]]
    distances = np.sum((V @ rng.normal(size=(d, max(1, d // 2)))) ** 2, axis=1)
    low, high = np.quantile(distances[V.any(axis=1)], [0.4, 0.6])
    kept = np.flatnonzero(V.any(axis=1) & ((distances <= low) | (distances > high)))[:n_pairs]
    return X, pairs[kept], distances[kept] <= low, rng


def pola(seed: int) -> None:
    print("\n| POLA | default | dual alone | conic | over the better |\n| --- | ---: | ---: | ---: | ---: |")
    for d in (4, 10, 20):
        for n_pairs in (300, 1000, 3000):
            X, pairs, similar, rng = separable(d, n_pairs, seed)
            flipped = similar ^ (rng.random(len(similar)) < 0.1)
            for weight in (None, 0.01, 1.0, 10.0, 100.0):
                given = X, pairs, similar if weight is None else flipped, weight
                slow = sm.solve(sm.POLAProblem(*given), "conic").seconds > 1.0
                runs = {
                    name: lambda given=given, name=name: sm.solve(sm.POLAProblem(*given), name)
                    for name in ("dual", "conic")
                }
                spent = [milliseconds(run, 1 if slow else 3) for run in runs.values()]
                with patch.object(solvers, "OPTIONS", replace(solvers.OPTIONS, max_entries=0)):
                    spent.insert(1, milliseconds(runs["dual"], 1 if slow else 3))
                kind = "hard" if weight is None else f"slack weight {weight:g}"
                cells = " | ".join(f"{each:.0f}" for each in spent)
                ratio = spent[0] / min(spent[1:])
                print(f"| {d} features, {n_pairs:,} pairs, {kind} | {cells} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="of POLA's pairs")
    parser.add_argument("--only", choices=["sdml", "pola"])
    args = parser.parse_args()
    with threadpool_limits(limits=1):
        if args.only != "pola":
            sdml()
        if args.only != "sdml":
            pola(args.seed)
