"""Kill workers of a Dask cluster at random moments of a solve: its answer, beside the one of this process.

    python examples/benchmarks/lost_workers.py [--count 20] [--seed 0]

A nanny starts each killed worker again. Blocks of the search are small here, so some are always under way.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import signal
import sys
import threading
from dataclasses import replace

import numpy as np
from distributed import Client, LocalCluster
from sklearn.datasets import make_blobs

import sdpmetric as sm
from sdpmetric.lmnn import impostors


def kill(pids: list[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rows", type=int, default=2000)
    given = parser.parse_args()
    impostors.OPTIONS = replace(impostors.OPTIONS, work_at_once=1 << 25)
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    X, y = make_blobs(given.rows, 10, centers=5, cluster_std=4.0, random_state=0)
    problem, overlap, same, longest, usual = sm.LMNNProblem.from_labels(X, y), 0, 0, 0.0, 0.0
    rng, expected = np.random.default_rng(given.seed), sm.solve(problem)
    for number in range(given.count):
        with LocalCluster(2, threads_per_worker=1, dashboard_address=None) as workers, Client(workers) as client:
            sm.solve(problem, engine=client)  # workers import the package
            usual = sm.solve(problem, engine=client).seconds
            pids = list(client.run(os.getpid).values())[: 1 + number % 2]
            timer = threading.Timer(rng.uniform(0.0, usual), kill, (pids,))
            timer.start()
            solution = sm.solve(problem, engine=client)
            timer.join()
        longest = max(longest, solution.seconds)
        bounds = max(solution.lower_bound, expected.lower_bound)
        overlap += bounds <= min(solution.objective, expected.objective)
        same += solution.components.tobytes() == expected.components.tobytes()
        print(
            f"{number}: {len(pids)} killed after {timer.interval:.2f} of about {usual:.2f} s, {solution.status.word} "
            f"after {solution.seconds:.2f} s",
            file=sys.stderr,
        )
    print("| solves | gaps that overlap | equal bit by bit | longest, s | last without a loss, s |")
    print("| ---: | ---: | ---: | ---: | ---: |")
    print(f"| {given.count} | {overlap} | {same} | {longest:.1f} | {usual:.1f} |")
    return int(overlap < given.count)


if __name__ == "__main__":
    sys.exit(main())
