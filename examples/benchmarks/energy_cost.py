"""What energies cost beside plain nearest neighbors by brute force on the same rows, as a Markdown table.

    python examples/benchmarks/energy_cost.py --data DIR

DIR (or SDPMETRIC_DATA) holds mnist.npz. Its 10,000 test rows are classified against its 60,000 training rows, deskewed
and reduced to 164 dimensions, by `energy_predict` under one metric and under ten, and by scikit-learn's
`KNeighborsClassifier(3, algorithm="brute")` on what the single metric makes of the rows, which it gets embedded. The
metrics are learned on 3,000 training rows, ten of them for 20 seconds only: their cost is measured, not their errors.
Seconds are medians of the repeats, the methods taking turns. ``--metrics 1 --dtypes float64`` takes a part; the data as
reduced and the metrics are kept in ``--output``, which the first run spends most of its time on.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from report import machine
from sklearn.decomposition import PCA
from sklearn.neighbors import KNeighborsClassifier

import sdpmetric as sm
from sdpmetric import datasets
from sdpmetric.classification import energy
from sdpmetric.core import neighbors

LEARNED_ON = 3000


def prepare(folder: Path, dimension: int) -> dict[str, np.ndarray]:
    """Rows, labels, target neighbors and metrics; made once."""
    file = folder / "energy_cost.npz"
    if not file.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        data = datasets.load_split("mnist")
        X, Q = (datasets.deskew(part.astype(np.float32)) for part in (data.X_train, data.X_test))
        pca = PCA(min(dimension, X.shape[1]), svd_solver="covariance_eigh").fit(X)
        X, Q = (pca.transform(part).astype(np.float64) for part in (X, Q))
        size = 4.0 / np.linalg.norm(X, axis=1).mean()
        X, Q, y = X * size, Q * size, np.unique(data.y_train, return_inverse=True)[1]
        some = np.sort(np.random.default_rng(0).permutation(len(y))[:LEARNED_ON])
        one = sm.solve(sm.LMNNProblem.from_labels(X[some], y[some])).components
        ten = sm.solve(
            sm.MultiMetricLMNNProblem.from_labels(X[some], y[some]),
            max_time=20,
            init=np.repeat(one[None], y.max() + 1, axis=0),
        ).components
        targets = neighbors.target_neighbors(X, y, 3)
        np.savez(file, X=X, y=y, Q=Q, asked=data.y_test, one=one, ten=ten, targets=targets)
    with np.load(file) as saved:
        return dict(saved)


def seconds(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def main(arguments: list[str] | None = None) -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of mnist.npz; default: SDPMETRIC_DATA")
    parser.add_argument("--dtypes", nargs="+", default=["float64", "float32"])
    parser.add_argument("--metrics", nargs="+", type=int, choices=[1, 10], default=[1, 10])
    parser.add_argument("--queries", type=int, default=10_000, help="of the test rows")
    parser.add_argument("--dimension", type=int, default=164)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path, default=Path("benchmark_results"))
    given = parser.parse_args(arguments)
    if given.data:
        os.environ["SDPMETRIC_DATA"] = given.data
    made = prepare(given.output, given.dimension)
    y, targets, n = made["y"], made["targets"], min(given.queries, len(made["Q"]))
    lines = [
        "| dtype | metrics | rank | kNN, brute force: s | energies: s | ratio | ratio over metrics |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for dtype in given.dtypes:
        X, Q = made["X"].astype(dtype), made["Q"][:n].astype(dtype)
        Z, W = (np.ascontiguousarray(P @ made["one"].T.astype(dtype)) for P in (X, Q))
        peer = KNeighborsClassifier(3, algorithm="brute").fit(Z, y)
        for count in given.metrics:
            components, regions = (made["one"], None) if count == 1 else (made["ten"], y)

            ours = partial(
                energy.energy_predict, components, X, y, target_neighbors=targets, push_weight=0.5, regions=regions
            )
            ours(X=Q[:10])  # compiles
            pairs = [(seconds(partial(peer.predict, W)), seconds(partial(ours, X=Q))) for _ in range(given.repeats)]
            plain, cost = np.median(pairs, axis=0)
            rank = max(int(L.any(axis=1).sum()) for L in components.reshape(-1, *components.shape[-2:]))
            ratio = cost / plain
            lines.append(
                f"| {dtype} | {count} | {rank} | {plain:.2f} | {cost:.2f} | {ratio:.1f} | {ratio / count:.2f} |"
            )
    print("\n".join([*lines, "", f"{n:,} queries against {len(X):,} rows, medians of {given.repeats}."]))
    print("\n".join(machine([])))


if __name__ == "__main__":
    main()
