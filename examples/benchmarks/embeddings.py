"""LMNN on top of frozen embeddings: seconds, memory, and recall of an index before and after.

    SDPMETRIC_DATA=DATA python examples/benchmarks/embeddings.py --rows 10000
    SDPMETRIC_DATA=DATA python examples/benchmarks/embeddings.py --rows 50000

The embeddings are `datasets/embeddings.py`: 512 numbers in single precision, of norm 1. Recall at k is the share of
MNIST's 10,000 test images with an image of their class among the k nearest of the images that the metric learned from.
Compilation is not timed; stating the problem, which finds the target neighbors, is.
"""

from __future__ import annotations

import argparse
import logging
import os
import resource
import time
from pathlib import Path

import numpy as np
from run import module
from sklearn.neighbors import NearestNeighbors

import sdpmetric as sm


def recall(items: np.ndarray, y: np.ndarray, queries: np.ndarray, labels: np.ndarray) -> str:
    """At 1 and at 10."""
    near = NearestNeighbors(n_neighbors=10, algorithm="brute").fit(items).kneighbors(queries, return_distance=False)
    hits = y[near] == labels[:, None]
    return f"{hits[:, 0].mean():.2%} | {hits.any(axis=1).mean():.2%}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--tol", type=float, default=1e-3)
    parser.add_argument("--max-time", type=float)
    parser.add_argument("--components", type=int, nargs="*", default=[], help="ranks of the indexes; all of it too")
    parser.add_argument("--verbose", action="store_true")
    given = parser.parse_args()
    if given.verbose:
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    X, y, queries, labels = module("datasets", "embeddings").split(Path(os.environ["SDPMETRIC_DATA"]))
    some = np.sort(np.random.default_rng(0).permutation(len(X))[: given.rows])
    X, y = X[some], y[some]
    sm.solve(sm.LMNNProblem.from_labels(X[:600], y[:600]), tol=0.1)  # compiles
    began = time.perf_counter()
    problem = sm.LMNNProblem.from_labels(X, y)
    stated = time.perf_counter() - began
    solution = sm.solve(problem, tol=given.tol, max_time=given.max_time, verbose=given.verbose)
    seconds, peak = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    L = solution.components
    print(
        f"{len(X):,} x {X.shape[1]}: {solution.status}, proven gap {solution.relative_gap:.1e}, {solution.n_iter}",
        end=" ",
    )
    print(f"evaluations, rank {len(L)}; stated in {stated:.1f} s, in all {seconds:.1f} s, {peak:.2f} GiB\n")
    print("| metric | numbers of a row | recall at 1 | recall at 10 |\n| --- | --- | --- | --- |")
    print(f"| Euclidean | {X.shape[1]} | {recall(X, y, queries, labels)} |")
    _, sigma, rows = np.linalg.svd(L, full_matrices=False)
    for rank in sorted({len(L), *given.components}, reverse=True):
        cut = (sigma[:rank, None] * rows[:rank]).T
        print(f"| learned | {rank} | {recall(X @ cut, y, queries @ cut, labels)} |")


if __name__ == "__main__":
    main()
