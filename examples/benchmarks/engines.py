"""The engines beside each other: threads, and as many Dask workers of one thread.

The rows are MNIST's, and its images moved by one pixel in four directions, reduced to principal components. Run it with
``SDPMETRIC_DATA=DATA python examples/benchmarks/engines.py``. Without the file of MNIST the rows are blobs.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from sklearn.datasets import make_blobs

import sdpmetric as sm
from sdpmetric.datasets import reduce
from sdpmetric.engine import cluster, threads
from sdpmetric.engine.interface import Engine

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


class Traffic:
    """Calls of shards, and the bytes of their arguments and results."""

    def __init__(self) -> None:
        self.calls, self.bytes = 0, 0

    @contextmanager
    def counted(self) -> Iterator[None]:
        from dask.sizeof import sizeof

        real = cluster._Actors.each

        def each(actors, method, *args, **kwargs):
            results = real(actors, method, *args, **kwargs)
            self.calls += len(results)
            self.bytes += sum(len(results) * sizeof(arg) for arg in args)
            self.bytes += sum(sizeof(vars(part) if hasattr(part, "__dict__") else part) for part in results)
            return results

        cluster._Actors.each = each
        try:
            yield
        finally:
            cluster._Actors.each = real


@contextmanager
def engine(name: str, n: int) -> Iterator[Engine | None]:
    if name == "threads":
        with threads.limited(n):
            yield None
    else:
        from distributed import Client, LocalCluster

        with (
            LocalCluster(n_workers=n, threads_per_worker=1, dashboard_address=None, memory_limit=0) as workers,
            Client(workers) as client,
            threads.limited(n),
        ):
            yield sm.engines.Dask(client)


def processor_seconds(where: Engine | None) -> float:
    """Of this process and of the workers, which a busy machine does not change."""
    own = time.process_time()
    return own + sum(where.client.run(time.process_time).values()) if isinstance(where, cluster.Dask) else own


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=250_000)
    parser.add_argument("--components", type=int, default=50)
    parser.add_argument("--tol", type=float, default=1e-3)
    parser.add_argument("--threads", type=int, default=2, help="threads, or workers of one thread")
    parser.add_argument("--first-only", action="store_true", help="leave the second solve, from the answer, out")
    parser.add_argument("--engines", nargs="+", default=["threads", "dask"], choices=["threads", "dask"])
    given = parser.parse_args()
    what, X, y = data(given.rows, given.components)
    problem, small = sm.LMNNProblem.from_labels(X, y), sm.LMNNProblem.from_labels(X[:2000], y[:2000])
    print(f"{what}: {len(X):,} x {X.shape[1]}, to a gap of {given.tol:g}, {given.threads} threads or workers\n")
    print(
        "| engine | first solve, s | processor, s | warm, s | times the first | evaluations | gap | calls | MiB moved |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    first = 0.0
    for name in given.engines:
        traffic = Traffic()
        with engine(name, given.threads) as where:
            sm.solve(small, engine=where)  # compiles, and starts what has to be started
            stated = problem.with_weights(push_weight=problem.push_weight)  # nothing is left of the solves before
            began, before = time.perf_counter(), processor_seconds(where)
            if name == "dask":
                with traffic.counted():
                    solution = sm.solve(stated, tol=given.tol, engine=where)
            else:
                solution = sm.solve(stated, tol=given.tol, engine=where)
            seconds, spent = time.perf_counter() - began, processor_seconds(where) - before
            began = time.perf_counter()
            if not given.first_only:
                sm.solve(stated, tol=given.tol, engine=where, init=solution.components)
            warm = time.perf_counter() - began
        first = first or seconds
        print(
            f"| {name} | {seconds:.1f} | {spent:.1f} | {warm:.1f} | {first / seconds:.2f} | {solution.n_iter} | "
            f"{solution.relative_gap:.1e} | {traffic.calls} | {traffic.bytes / 2**20:.1f} |",
            flush=True,
        )
    print(f"\npeak memory of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")


if __name__ == "__main__":
    main()
