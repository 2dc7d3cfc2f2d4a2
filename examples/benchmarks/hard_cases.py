"""Data that have made trouble: each must end with a proof, or with a status that says what to do. A Markdown table.

    python examples/benchmarks/hard_cases.py            # about a minute; --large: 100,000 rows besides

Every case runs in a process of its own, whose peak memory is measured; compilation is not timed.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
from collections.abc import Iterator

import numpy as np
from sklearn.datasets import make_blobs

import sdpmetric as sm

# Standard deviations of the blobs: from classes that are far apart to classes that overlap.
DEVIATIONS = (0.5, 1.0, 2.0, 5.0)


def indicator(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Ten normal features, and the indicator of one class, which is constant within classes."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(10), n // 10)
    return np.column_stack([rng.normal(size=(n, 10)) + 0.5 * rng.normal(size=(10, 10))[y], y == 0]), y


def cases(large: bool) -> Iterator[tuple[str, np.ndarray, np.ndarray, bool]]:
    """Name, data, labels, and whether there is one metric for each class."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(3), 400)
    X = rng.normal(size=(1200, 10)) + 0.5 * y[:, None]
    for scale in (1e-4, 1e-2, 1.0, 1e2, 1e4):
        yield f"three classes, times {scale:g}", scale * X, y, False
    yield "all points of two classes identical", np.where((y < 2)[:, None], 1.0, X), y, False
    yield "fewer examples than dimensions", rng.normal(size=(60, 200)), np.arange(60) % 3, False
    yield "pull cost singular: a feature constant in each class", np.column_stack([X, y]), y, False
    yield "no impostors", 0.01 * X + 100.0 * y[:, None], y, False
    many = np.repeat(np.arange(500), 10)
    yield "500 classes", rng.normal(size=(500, 20))[many] + 0.7 * rng.normal(size=(5000, 20)), many, False
    big = np.repeat([0, 1, 2], [20_000, 200, 200])
    yield "one class 100 times larger", rng.normal(size=(20_400, 10)) + 0.7 * big[:, None], big, False
    yield "an indicator of one class", *indicator(20_000), False
    yield "an indicator of one class, ten metrics", *indicator(5_000), True
    for n in (20_000, 100_000) if large else (20_000,):
        for deviation in DEVIATIONS:
            blobs, labels = make_blobs(n, 20, centers=10, cluster_std=deviation, random_state=0)[:2]
            yield f"ten blobs, standard deviation {deviation:g}", blobs, labels, False


def solve(name: str, X: np.ndarray, y: np.ndarray, several: bool, limit: float) -> None:
    """Solve a case and print its row."""
    statement = sm.MultiMetricLMNNProblem if several else sm.LMNNProblem
    some = np.random.default_rng(0).normal(size=(300, 5))
    sm.solve(statement.from_labels(some, np.arange(300) % 3), tol=0.1)  # compiles
    s = sm.solve(statement.from_labels(X, y), max_time=limit)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    null = s.certificate.info.get("null_dimension", 0)
    print(
        f"| {name} | {len(X)} x {X.shape[1]} | {s.status} | {s.objective:.6g} | {s.relative_gap:.1e} | {null} "
        f"| {s.n_iter} | {s.seconds:.2f} | {peak:.0f} |",
        flush=True,
    )


def main() -> None:
    """Solve them and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true", help="100,000 rows, too")
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument("--limit", type=float, default=240.0, help="seconds for each case at most")
    args = parser.parse_args()
    print("| case | n x d | status | objective | proven gap | null directions | evaluations | seconds | peak MB |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |", flush=True)
    context = multiprocessing.get_context("spawn")
    for name, X, y, several in cases(args.large):
        if args.only in name:
            child = context.Process(target=solve, args=(name, X, y, several, args.limit))
            child.start()
            child.join()


if __name__ == "__main__":
    main()
