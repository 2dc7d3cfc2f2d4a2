"""Freeze and kill parts of a Dask cluster at random moments of a solve: what it ends with, and when.

    python examples/benchmarks/lost_workers.py [--count 40] [--seed 0] [--limit 20]

The scheduler and two nannies with a worker each are processes of their own. Each case stops (SIGSTOP) or kills
(SIGKILL) the scheduler, a worker, both workers or a nanny, before or during ``solve(engine=client, max_time=limit)``.
It ends well with a certified point or with the error `ShardLost`, within 1.2 times the limit and a second.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from distributed import Client
from sklearn.datasets import make_blobs

import sdpmetric as sm
from sdpmetric.engine.interface import ShardLost

PARTS = ("scheduler", "worker", "both workers", "nanny")
SIGNALS = (signal.SIGSTOP, signal.SIGKILL)


def send(sign: signal.Signals, pids: Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, sign)


class Cluster:
    """A scheduler and two nannies with a worker each."""

    def __init__(self) -> None:
        address = str(Path(tempfile.mkdtemp()) / "scheduler.json")
        self.scheduler, *self.nannies = (
            subprocess.Popen(
                [sys.executable, "-m", f"distributed.cli.dask_{kind}", "--no-dashboard", "--scheduler-file", address]
                + (["--port", "0"] if kind == "scheduler" else ["--nthreads", "1"]),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for kind in ("scheduler", "worker", "worker")
        )
        self.client = Client(scheduler_file=address, timeout=120)
        self.find_workers()

    def find_workers(self) -> None:
        self.client.wait_for_workers(2, timeout=120)
        self.workers = list(self.client.run(os.getpid).values())

    def pids(self, part: str) -> list[int]:
        if part == "scheduler":
            return [self.scheduler.pid]
        return [self.nannies[0].pid] if part == "nanny" else self.workers[: 1 + (part == "both workers")]

    def end(self) -> None:
        nannies = [nanny.pid for nanny in self.nannies]
        send(signal.SIGKILL, [*nannies, self.scheduler.pid, *self.workers])


def case(cluster: Cluster, problem: sm.Problem, pids: list[int], sign: signal.Signals, delay: float, limit: float):
    """What a solve ended with, and its seconds."""
    timer = threading.Timer(delay, send, (sign, pids))
    if not delay:
        send(sign, pids)
    began = time.perf_counter()
    if delay:
        timer.start()
    try:
        solution = sm.solve(problem, engine=cluster.client, max_time=limit, tol=1e-9)
    except ShardLost:
        return "`ShardLost`", time.perf_counter() - began
    finally:
        timer.cancel()
    seconds = time.perf_counter() - began
    again = problem.certify(solution.components, dual=solution.dual).objective
    if solution.objective == np.inf and solution.lower_bound <= again:
        return "the start, whose objective was not known in time", seconds
    if abs(again - solution.objective) > 1e-9 * abs(again):
        return "a WRONG certificate", seconds
    return solution.status.word + (", bound 0" if solution.lower_bound <= 0.0 else ""), seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--limit", type=float, default=20.0)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    X, y = make_blobs(options.rows, 10, centers=5, cluster_std=4.0, random_state=0)
    usual = sm.solve(sm.LMNNProblem.from_labels(X, y, 3), tol=1e-9, max_time=options.limit).seconds  # compiles, too
    allowed, cluster = 1.2 * options.limit + 1.0, None
    endings: dict[tuple[str, str], list[tuple[str, float]]] = defaultdict(list)
    for number in range(options.count):
        rng = np.random.default_rng([options.seed, number])
        sign, part = SIGNALS[number * len(SIGNALS) // options.count], PARTS[number % len(PARTS)]
        delay = 0.0 if number // len(PARTS) % 5 == 0 else rng.uniform(0.0, min(options.limit, 2.0 * usual))
        cluster = cluster or Cluster()
        pids = cluster.pids(part)
        problem = sm.LMNNProblem.from_labels(X, y, 3)
        answer, seconds = case(cluster, problem, pids, sign, delay, options.limit)
        print(f"{number}: {part}, {sign.name} after {delay:.2f} s: {answer}, {seconds:.2f} s", file=sys.stderr)
        endings[part, sign.name].append((answer, seconds))
        send(signal.SIGCONT, pids)
        if sign is signal.SIGKILL and part in ("scheduler", "nanny"):
            cluster.end()
            cluster = None
        else:
            cluster.find_workers()
    print("| hit | signal | solves | ended with | longest, s | late |\n| --- | --- | ---: | --- | ---: | ---: |")
    for (part, name), ended in endings.items():
        answers, times = zip(*ended, strict=True)
        late = sum(seconds > allowed for seconds in times)
        print(f"| {part} | {name} | {len(ended)} | {', '.join(sorted(set(answers)))} | {max(times):.1f} | {late} |")
    if cluster is not None:
        cluster.end()
    sys.stdout.flush()
    os._exit(any("WRONG" in answer or s > allowed for ended in endings.values() for answer, s in ended))


if __name__ == "__main__":
    main()
