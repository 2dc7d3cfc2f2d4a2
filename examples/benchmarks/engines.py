"""LMNN by two threads of this process, and with its searches on two Dask workers of one thread.

The rows are MNIST's, and its images moved by one pixel in four directions, reduced to principal components. Run it with
``SDPMETRIC_DATA=DATA python examples/benchmarks/engines.py``. Without the file of MNIST the rows are blobs.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from pathlib import Path

import numpy as np
from distributed import Client, LocalCluster
from sklearn.datasets import make_blobs

import sdpmetric as sm
from sdpmetric.datasets import reduce
from sdpmetric.engine import threads

MOVES = [(0, 0), (-1, 1), (1, 1), (-1, 2), (1, 2)]


def data(n: int, components: int) -> tuple[str, np.ndarray, np.ndarray]:
    file = Path(os.environ.get("SDPMETRIC_DATA", ".")) / "mnist.npz"
    if not file.exists():
        X, y, *_ = make_blobs(n, components, centers=10, cluster_std=5, random_state=0)
        return "blobs", X, y
    with np.load(file) as found:
        X, y = found["X"][: int(found["n_train"])], found["y"][: int(found["n_train"])]
    copies = min(-(-n // len(X)), len(MOVES))
    images = X.reshape(-1, 28, 28)[: -(-n // copies)]
    moved = [np.roll(images, step, axis).reshape(len(images), -1) for step, axis in MOVES[:copies]]
    rows, labels = np.concatenate(moved)[:n].astype(np.float32), np.tile(y[: len(images)], copies)[:n]
    return "MNIST, moved", reduce(rows.astype(np.float64), components), labels


def seconds_of_workers(client: Client) -> float:
    return sum(client.run(time.process_time).values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--components", type=int, default=50)
    parser.add_argument("--tol", type=float, default=1e-3)
    parser.add_argument("--threads", type=int, default=2, help="threads, and workers of one thread")
    given = parser.parse_args()
    what, X, y = data(given.rows, given.components)
    problem, small = sm.LMNNProblem.from_labels(X, y), sm.LMNNProblem.from_labels(X[:2000], y[:2000])
    sm.solve(small)  # compiles
    print(f"{what}: {len(X):,} x {X.shape[1]}, to a gap of {given.tol:g}, {given.threads} threads or workers\n")
    print("| searches on | seconds | processor here, s | of workers, s | objective | bound | gap | evaluations |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    with (
        threads.limited(given.threads),
        LocalCluster(given.threads, threads_per_worker=1, dashboard_address=None, memory_limit=0) as workers,
        Client(workers) as client,
    ):
        client.run(sm.solve, small)
        for name, engine in (("threads", "threads"), ("workers", client)):
            stated = problem.with_weights(push_weight=problem.push_weight)  # nothing is left of the solve before
            began, here, there = time.perf_counter(), time.process_time(), seconds_of_workers(client)
            solution = sm.solve(stated, tol=given.tol, engine=engine)
            seconds, here = time.perf_counter() - began, time.process_time() - here
            print(
                f"| {name} | {seconds:.1f} | {here:.1f} | {seconds_of_workers(client) - there:.1f} | "
                f"{solution.objective:.6g} | {solution.lower_bound:.6g} | {solution.relative_gap:.1e} | "
                f"{solution.n_iter} |",
                flush=True,
            )
    print(f"\npeak memory of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")


if __name__ == "__main__":
    main()
