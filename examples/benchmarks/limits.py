"""Whether ``max_time`` holds: seconds of solves under a limit, on blobs and, where its file is in the folder, on MNIST.

Run it with ``SDPMETRIC_DATA=DATA python examples/benchmarks/limits.py``; without the folder MNIST is left out.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sklearn.datasets import make_blobs

import sdpmetric as sm
from sdpmetric.datasets import reduce

Case = tuple[str, sm.Problem, str, float]


def blobs(n: int) -> tuple[np.ndarray, np.ndarray]:
    X, y, *_ = make_blobs(n, 20, centers=10, cluster_std=5, random_state=0)
    return X, y


def cases() -> Iterator[Case]:
    large, small = blobs(100_000), blobs(20_000)
    problem = sm.LMNNProblem.from_labels(*large)
    yield "LMNN, 100,000 x 20", problem, "factored", 5.0
    yield "LMNN, 100,000 x 20", problem, "subgradient", 5.0
    yield "ten metrics, 20,000 x 20", sm.MultiMetricLMNNProblem.from_labels(*small), "factored", 2.0
    yield "LMNN, 20,000 x 20", sm.LMNNProblem.from_labels(*small), "conic", 3.0
    yield "Frobenius term, 20,000 x 20", sm.LMNNProblem.from_labels(*small, frobenius=1.0), "dual", 3.0
    file = Path(os.environ.get("SDPMETRIC_DATA", ".")) / "mnist.npz"
    if file.exists():
        with np.load(file) as data:
            X, y = data["X"][: int(data["n_train"])], data["y"][: int(data["n_train"])]
        yield "MNIST, 60,000 x 164", sm.LMNNProblem.from_labels(reduce(X.astype(np.float64), 164), y), "factored", 5.0


def main() -> None:
    X, y = blobs(1000)
    sm.solve(sm.LMNNProblem.from_labels(X, y))  # compiles
    sm.solve(sm.MultiMetricLMNNProblem.from_labels(X, y), tol=1e-2, max_time=10)
    print("| case | solver | max_time, s | seconds | at most 1.2 T + 1 | status | proven gap |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, problem, solver, limit in cases():
        began = time.perf_counter()
        solution = sm.solve(problem, solver, max_time=limit)
        seconds, gap = time.perf_counter() - began, f"{solution.relative_gap:.1e}"
        print(f"| {name} | {solver} | {limit:g} | {seconds:.2f} | {1.2 * limit + 1:.1f} | {solution.status} | {gap} |")


if __name__ == "__main__":
    main()
