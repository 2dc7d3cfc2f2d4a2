"""LMNN from 60,000 to a million rows on one machine: seconds, peak memory and the growth exponents of time.

    SDPMETRIC_DATA=DATA python examples/benchmarks/growth.py                        # 60,000 to 250,000 rows
    SDPMETRIC_DATA=DATA python examples/benchmarks/growth.py --rows 1000000 --max-time 3400

Rows are MNIST's training images and those images moved by up to two pixels, in 50 principal components at mean norm 4.
Every size runs in a process of its own, whose peak memory is measured. Compilation is not timed; stating the problem,
which finds the target neighbors, is.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import resource
import time
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
from sklearn.decomposition import PCA

import sdpmetric as sm

# The image itself, then moves by one pixel, by two, and the diagonals between: rows down and columns to the right.
MOVES = sorted(((a, b) for a in range(-2, 3) for b in range(-2, 3)), key=lambda move: move[0] ** 2 + move[1] ** 2)


def rows_of(n: int, components: int) -> tuple[np.ndarray, np.ndarray]:
    """The first n of the moved images, in principal components of the images as they are."""
    with np.load(Path(os.environ.get("SDPMETRIC_DATA", ".")) / "mnist.npz") as found:
        X, y = found["X"][: int(found["n_train"])], found["y"][: int(found["n_train"])]
    pca = PCA(components, svd_solver="covariance_eigh").fit(X.astype(np.float64))
    images, parts = X.reshape(-1, 28, 28), []
    for move in MOVES[: -(-n // len(X))]:
        moved = np.roll(images, move, (1, 2)).reshape(len(X), -1)
        parts.append(pca.transform(moved[: n - sum(map(len, parts))].astype(np.float64)))
    Z = np.concatenate(parts)
    return Z * (4 / np.linalg.norm(Z, axis=1).mean()), np.tile(y, len(parts))[:n]


def solve(n: int, components: int, tol: float, max_time: float, verbose: bool, answer: Connection) -> None:
    """Solve one size and send its figures."""
    if verbose:
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    X, y = rows_of(n, components)
    sm.solve(sm.LMNNProblem.from_labels(X[:2000], y[:2000]), tol=0.1)  # compiles
    began, spent = time.perf_counter(), time.process_time()
    problem = sm.LMNNProblem.from_labels(X, y)
    del X, y  # the problem has its own
    stated = time.perf_counter() - began
    solution = sm.solve(problem, tol=tol, max_time=max_time - stated, verbose=verbose)
    seconds, spent = time.perf_counter() - began, time.process_time() - spent
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    answer.send((solution.status, solution.relative_gap, solution.n_iter, stated, seconds, spent, peak))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[60_000, 125_000, 250_000])
    parser.add_argument("--components", type=int, default=50)
    parser.add_argument("--tol", type=float, default=1e-3)
    parser.add_argument("--max-time", type=float, default=3600.0, help="seconds for each size")
    parser.add_argument("--verbose", action="store_true", help="the solver's progress, with the time of day")
    given = parser.parse_args()
    print("| rows | status | proven gap | iterations | stating, s | seconds | processor, s | peak, GiB | exponent |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    before: tuple[int, float] | None = None
    context = multiprocessing.get_context("spawn")
    for n in given.rows:
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(
            target=solve, args=(n, given.components, given.tol, given.max_time, given.verbose, theirs)
        )
        process.start()
        status, gap, iterations, stated, seconds, spent, peak = ours.recv()
        process.join()
        grown = f"{np.log(seconds / before[1]) / np.log(n / before[0]):.2f}" if before else ""
        print(
            f"| {n:,} | {status} | {gap:.1e} | {iterations} | {stated:.1f} | {seconds:.1f} | {spent:.1f} "
            f"| {peak:.2f} | {grown} |",
            flush=True,
        )
        before = n, seconds


if __name__ == "__main__":
    main()
