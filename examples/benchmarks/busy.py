"""Solves on a machine that has other things to do, and the very first solve: a Markdown table.

    python examples/benchmarks/busy.py --folder DATA

For each data set: the median seconds of stating and solving a problem to 1e-3 on an idle machine; with one core taken
by another process; of two processes that solve the same problem side by side, the slower one; and the first solve with
an empty cache of compiled code, from the start of the command, imports included. Each solve runs in a process of its
own. The figures hold only if nothing else runs on the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from report import machine
from run import load

import sdpmetric as sm

DATA = ["digits:30", "digits", "letters", "usps:64"]
TOLERANCE = 1e-3


def solve(X: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """State and solve once: seconds and evaluations."""
    began = time.perf_counter()
    solution = sm.solve(sm.LMNNProblem.from_labels(X, y, 3, 0.5), tol=TOLERANCE)
    seconds = time.perf_counter() - began
    if not solution.status.ok:
        raise SystemExit(f"not proven: {solution.status}")
    return {"seconds": seconds, "evaluations": solution.n_iter, "objective": solution.objective}


def worker(data: str, folder: Path | None, repeats: int) -> None:
    """Solve once unmeasured, say so, wait for a word, and solve again and again."""
    X, y = load(data, folder)
    if not repeats:
        print(json.dumps([solve(X, y)]))
        return
    solve(X, y)
    print("ready", flush=True)
    sys.stdin.readline()
    print(json.dumps([solve(X, y) for _ in range(repeats)]), flush=True)


def start(args: argparse.Namespace, data: str, repeats: int, **environment: str) -> subprocess.Popen[str]:
    """A process with a `worker`."""
    command = [sys.executable, __file__, "--worker", data, "--repeats", str(repeats)]
    folder = [] if args.folder is None else ["--folder", str(args.folder)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    return subprocess.Popen([*command, *folder], env={**os.environ, **environment}, **pipes)


def side_by_side(args: argparse.Namespace, data: str, n: int) -> tuple[float, dict[str, float]]:
    """Median seconds of n processes that solve at the same time, of the slowest; and one of the solves."""
    workers = [start(args, data, args.repeats) for _ in range(n)]
    for one in workers:
        if one.stdout.readline().strip() != "ready":
            raise SystemExit(f"a solve of {data} failed.")
    for one in workers:
        one.stdin.write("go\n")
        one.stdin.flush()
    runs = [json.loads(one.communicate()[0]) for one in workers]
    return max(float(np.median([run["seconds"] for run in some])) for some in runs), runs[0][0]


@contextmanager
def one_core_taken() -> Iterator[None]:
    """Another process that takes what it can get of one core."""
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        other.kill()
        other.wait()


def first(args: argparse.Namespace, data: str) -> tuple[float, float]:
    """Seconds from the start of the command to the proof with an empty cache, and those of the CPU."""
    with tempfile.TemporaryDirectory() as cache:
        before, began = os.times(), time.perf_counter()
        one = start(args, data, 0, NUMBA_CACHE_DIR=cache)
        one.communicate()
        seconds, after = time.perf_counter() - began, os.times()
    if one.returncode:
        raise SystemExit(f"the first solve of {data} failed.")
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return seconds, used


def main(argv: list[str] | None = None) -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=DATA, metavar="NAME[:D[:N]]")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--folder", type=Path, default=os.environ.get("SDPMETRIC_DATA"), help="letters, usps, mnist")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    args.folder = None if args.folder is None else Path(args.folder)
    if args.worker:
        worker(args.worker, args.folder, args.repeats)
        return
    print("\n".join(f"- {line}" for line in machine([])), "", sep="\n")
    columns = ["data", "evaluations", "idle, s", "one core taken, s", "times idle", "two side by side, s", "times idle"]
    print("|", " | ".join([*columns, "first solve, s", "of CPU, s"]), "|")
    print("|", " | ".join(["---"] * (len(columns) + 2)), "|")
    for data in args.data:
        idle, run = side_by_side(args, data, 1)
        with one_core_taken():
            taken, _ = side_by_side(args, data, 1)
        two, _ = side_by_side(args, data, 2)
        wall, cpu = first(args, data)
        print(
            f"| {data} | {run['evaluations']} | {idle:.2f} | {taken:.2f} | {taken / idle:.1f} | {two:.2f} "
            f"| {two / idle:.1f} | {wall:.1f} | {cpu:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
