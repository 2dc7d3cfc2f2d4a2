"""Kill workers of a Dask cluster at random moments of a solve: what it ends with, and when.

    python examples/benchmarks/lost_workers.py --count 40 --seed 0

Two worker processes for each case; Dask starts another one for each that is killed. A case ends well with a proof, or
with a certified point within 1.2 times the limit and a second. The moments cover the data's way to the workers, too.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
import warnings
from collections import Counter

import numpy as np
from distributed import Client, LocalCluster
from sklearn.datasets import make_blobs

import sdpmetric as sm

LIMIT = 20.0


def cluster_of_two() -> LocalCluster:
    """Two workers of one thread, without pages that need ports."""
    return LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, worker_dashboard_address=None)


def kill(pid: int, when: list[float]) -> None:
    """Kill a process and note the time."""
    when.append(time.perf_counter())
    os.kill(pid, signal.SIGKILL)


def main() -> int:
    """Kill a worker in each of several solves and print how many ended how."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--limit", type=float, default=LIMIT)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    X, y = make_blobs(options.rows, 10, centers=5, cluster_std=4.0, random_state=0)
    seen, latest = Counter[str](), 0.0
    for _ in range(2):  # the first one compiles
        with cluster_of_two() as cluster, Client(cluster) as client:
            usual = sm.solve(sm.LMNNProblem.from_labels(X, y, 3), engine=client, max_time=options.limit).seconds
    for k in range(options.count):
        rng, killed = np.random.default_rng([options.seed, k]), list[float]()
        # a third of them while data are scattered and shards are made
        delay = rng.uniform(0.0, 0.1 * usual if k % 3 == 0 else usual)
        while not killed:
            with cluster_of_two() as cluster, Client(cluster) as client:
                problem = sm.LMNNProblem.from_labels(X, y, 3)
                victim = int(rng.choice([nanny.pid for nanny in cluster.workers.values()]))
                timer = threading.Timer(delay, kill, (victim, killed))
                began = time.perf_counter()
                timer.start()
                solution = sm.solve(problem, engine=client, max_time=options.limit)
                seconds = time.perf_counter() - began
                timer.cancel()
                timer.join()
            delay *= 0.5  # where the solve had ended before
        late = seconds > 1.2 * options.limit + 1.0
        again = problem.certify(solution.components, dual=solution.dual)
        wrong = abs(again.objective - solution.objective) > 1e-9 * abs(again.objective)
        said = "FAILED: late" if late else "FAILED: wrong" if wrong else f"{solution.status}"
        seen[said] += 1
        latest = max(latest, seconds)
        print(f"{k}: killed after {killed[0] - began:.2f} s, {said} after {seconds:.2f} s", flush=True)
    for said, count in seen.most_common():
        print(f"{count:6d}  {said}")
    print(f"an undisturbed solve took {usual:.1f} s, the longest {latest:.1f} s, the limit was {options.limit:g} s")
    return int(any(said.startswith("FAILED") for said in seen))


if __name__ == "__main__":
    sys.exit(main())
