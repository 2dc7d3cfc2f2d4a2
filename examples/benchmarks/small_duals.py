"""SDML beside scikit-learn's graphical lasso, POLA in batch beside its exact program, Adapter beside other checkouts.

    OPENBLAS_NUM_THREADS=1 NUMBA_NUM_THREADS=1 python examples/benchmarks/small_duals.py

prints Markdown: processor milliseconds, medians of some runs, on one thread. Of SDML both sides get the same problem,
stated already; ours ends with a proven gap, and scikit-learn's tolerances are those that ours calls it with. POLA's
pairs are those of normal points that a hidden metric tells apart, without the fifth between, as they are and with a
tenth of them flipped. Adapter's embeddings are noise and a class mean with deviations that fall from feature
to feature, and with ``--data FOLDER`` ten questions of each kind of banking77; ``--against CHECKOUT`` fits them with
another checkout, too, in a process of its own.
"""

import argparse
import itertools
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
from sklearn import datasets
from sklearn.covariance import graphical_lasso
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import sdpmetric as sm
from sdpmetric.estimators import Adapter
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
    print("\n| POLA | default | L-BFGS-B and Newton | conic | over the better |\n| --- | ---: | ---: | ---: | ---: |")
    for d in (4, 10, 20):
        for n_pairs in (300, 1000, 3000):
            X, pairs, similar, rng = separable(d, n_pairs, seed)
            flipped = similar ^ (rng.random(len(similar)) < 0.1)
            for weight, labels in itertools.product((None, 0.01, 1.0, 10.0, 100.0), (similar, flipped)):
                given = X, pairs, labels, weight
                slow = sm.solve(sm.POLAProblem(*given), "conic").seconds > 1.0
                runs = {
                    name: lambda given=given, name=name: sm.solve(sm.POLAProblem(*given), name)
                    for name in ("dual", "conic")
                }
                spent = [milliseconds(run, 1 if slow else 3) for run in runs.values()]
                with patch.object(solvers, "OPTIONS", replace(solvers.OPTIONS, max_entries=0, max_hard_entries=0)):
                    spent.insert(1, milliseconds(runs["dual"], 1 if slow else 3))
                kind = "hard" if weight is None else f"slack weight {weight:g}"
                kind += ", a tenth flipped" if labels is flipped else ""
                cells = " | ".join(f"{each:.0f}" for each in spent)
                ratio = spent[0] / min(spent[1:])
                print(f"| {d} features, {n_pairs:,} pairs, {kind} | {cells} | {ratio:.2f} |", flush=True)


def adapter(name: str, folder: str | None) -> tuple[float, float]:
    """Seconds of a fit, the median of five of few rows, and the proven gap."""
    rng = np.random.default_rng(0)
    if name == "banking77":
        stored = np.load(Path(folder or "") / "banking77.npz")
        X, y, n = stored["X"].astype(np.float64), stored["y"], int(stored["n_train"])
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        rows = np.sort(np.concatenate([rng.permutation(np.flatnonzero(y[:n] == c))[:10] for c in range(77)]))
        X, y = X[rows], y[rows]
    else:
        (n, d), per_class = map(int, name.split(" x ")), 15 if name.startswith("300") else 40
        y = np.repeat(np.arange(n // per_class), per_class)
        means = rng.normal(size=(n // per_class, d))
        X = (rng.normal(size=(n, d)) + 0.9 * means[y]) / np.sqrt(1 + np.arange(d))
    seconds = milliseconds(lambda: Adapter().fit(X, y), 1 if len(X) > 1000 else 5) / 1e3
    return seconds, Adapter().fit(X, y).relative_gap_


def adapters(folder: str | None, checkouts: list[str]) -> None:
    print(f"\n| Adapter | proven gap | seconds |{' other | ratio |' * len(checkouts)}")
    print("| --- | ---: | ---: |" + " ---: | ---: |" * len(checkouts))
    for name in ("300 x 384", *(["banking77"] if folder else []), "2000 x 1536"):
        seconds, gap = adapter(name, folder)
        cells = ""
        for checkout in checkouts:
            code = f"import small_duals; print(small_duals.adapter({name!r}, {folder!r})[0])"
            path = {"PYTHONPATH": os.pathsep.join((checkout, str(Path(__file__).parent)))}
            said = subprocess.run(
                [sys.executable, "-P", "-W", "ignore", "-c", code],
                env=os.environ | path,
                stdout=subprocess.PIPE,
                check=True,
            )
            cells += f" {float(said.stdout):.2f} | {float(said.stdout) / seconds:.1f} |"
        print(f"| {name} | {gap:.0e} | {seconds:.2f} |{cells}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="of POLA's pairs")
    parser.add_argument("--only", choices=["sdml", "pola", "adapter"])
    parser.add_argument("--data", default=os.environ.get("SDPMETRIC_DATA"), help="folder of banking77.npz")
    parser.add_argument("--against", nargs="*", default=[], help="folders of other checkouts")
    args = parser.parse_args()
    with threadpool_limits(limits=1):
        if args.only in (None, "sdml"):
            sdml()
        if args.only in (None, "pola"):
            pola(args.seed)
        if args.only in (None, "adapter"):
            adapters(args.data, args.against)
