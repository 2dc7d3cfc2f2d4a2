"""Which sum of terms is proven in which time, by features and comparisons: ``--data FOLDER`` of banking77.npz.

384 features are the embeddings, 64 their leading principal components, 768 random features of them; a comparison is a
question, one of its kind and one of another. A cell has seconds of processor time of one thread to a proven gap of
1e-3, or, in brackets, the gap after ``--max-time`` seconds. ``--labels`` adds `Adapter`, 0 for all.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.decomposition import PCA
from threadpoolctl import threadpool_limits

import sdpmetric as sm
from sdpmetric import terms
from sdpmetric.estimators import Adapter


def features(X: np.ndarray, d: int) -> np.ndarray:
    """As many as asked for, scaled to a mean squared distance of 10."""
    if d < X.shape[1]:
        X = PCA(d, random_state=0).fit_transform(X)
    elif d > X.shape[1]:
        X = np.maximum(X @ np.random.default_rng(0).normal(size=(X.shape[1], d)), 0.0)
    return X * np.sqrt(10.0 / (2.0 * X.var(axis=0).sum()))


def sums(t: np.ndarray, d: int) -> dict[str, tuple[terms.Sum, dict[str, bool]]]:
    """The statements, by name."""
    near = 1.0 / np.sqrt(len(t) * d) * terms.Frobenius(to=np.eye(d))
    hinge, smooth, squared, logistic = (
        terms.TripletHinge(t, loss=loss, margin=0.0 if loss == "logistic" else 1.0, weight=1.0 / len(t))
        for loss in ("hinge", "smooth_hinge", "squared_hinge", "logistic")
    )
    return {
        "hinge, near I: `+ Frobenius(to=I)`": (hinge + near, {}),
        "smooth hinge, near I": (smooth + near, {}),
        "squared hinge, near I": (squared + near, {}),
        "logistic, near I: what `Adapter` states": (logistic + near, {}),
        "hinge, `+ LogDet()`": (hinge + 0.01 * terms.LogDet(), {}),
        "hinge, `+ Trace()`": (hinge + 0.01 * terms.Trace(), {}),
        "weights of features: hinge, `+ Trace()`, `diagonal=True`": (hinge + 0.01 * terms.Trace(), {"diagonal": True}),
        "weights of features near 1: hinge, `+ Frobenius(to=I)`": (hinge + near, {"diagonal": True}),
    }


def main(argv: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("SDPMETRIC_DATA", ".")))
    parser.add_argument("--features", type=int, nargs="+", default=[64, 384, 768])
    parser.add_argument("--comparisons", type=int, nargs="+", default=[500, 5000])
    parser.add_argument("--labels", type=int, nargs="*", default=[])
    parser.add_argument("--only", default="", help="statements with this in their names")
    parser.add_argument("--max-time", type=float, default=30.0)
    args = parser.parse_args(argv)
    stored = np.load(args.data / "banking77.npz")
    n, rng = int(stored["n_train"]), np.random.default_rng(0)
    X, y = stored["X"][:n].astype(np.float64), stored["y"][:n]
    t = rng.integers(0, n, (400 * max(args.comparisons), 3))
    t = t[(y[t[:, 0]] == y[t[:, 1]]) & (y[t[:, 0]] != y[t[:, 2]]) & (t[:, 0] != t[:, 1])]
    cases = [(d, m) for d in args.features for m in args.comparisons]
    data = {d: features(X, d) for d in args.features}
    print("| statement | solver | " + " | ".join(f"d = {d}, {m:,}" for d, m in cases) + " |")
    print("| --- | --- |" + " ---: |" * len(cases))
    for name in (name for name in sums(t[:10], 2) if args.only in name):
        cells, solvers = [], list[str]()
        for d, m in cases:
            total, domain = sums(t[:m], d)[name]
            began = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                solution = sm.solve(sm.MetricProblem(data[d], total, **domain), tol=1e-3, max_time=args.max_time)
            took, gap = time.process_time() - began, solution.relative_gap
            cells.append(f"{took:.1f}" if gap <= 1e-3 else f"[{gap:.0e}]")
            solvers.append(solution.solver)
        print(f"| {name} | {', '.join(dict.fromkeys(solvers))} | " + " | ".join(cells) + " |", flush=True)
    for m in args.labels:
        rows = np.concatenate([rng.permutation(np.flatnonzero(y == c))[: m or n] for c in np.unique(y)])
        for d in args.features:
            began, adapter = time.process_time(), Adapter(max_time=10.0 * args.max_time).fit(data[d][rows], y[rows])
            took, gap = time.process_time() - began, adapter.relative_gap_
            print(f"Adapter, {len(rows):,} labels, d = {d}: {took:.1f} s, gap {gap:.0e}", flush=True)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
