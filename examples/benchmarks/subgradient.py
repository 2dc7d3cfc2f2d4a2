"""The projected subgradient method: what it takes at scale, and where the rule of the paper stops.

    SDPMETRIC_DATA=DATA python examples/benchmarks/subgradient.py
    SDPMETRIC_DATA=DATA python examples/benchmarks/subgradient.py --data digits:61 usps:64 --tol 1e-2

Prints two Markdown tables. Every run has a process of its own, which solves a small problem first to compile the loops;
its peak memory includes Python and the libraries, about 0.3 GiB. A search looks at all pairs of examples.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from sets import load
from sklearn.datasets import make_blobs

import sdpmetric as sm


def data(name: str, folder: Path | None) -> tuple[np.ndarray, np.ndarray]:
    """A data set of `run.py`; "blobs:n" are n examples of ten well separated classes in 20 dimensions."""
    if name.startswith("blobs:"):
        X, y = make_blobs(int(name[6:]), 20, centers=10, cluster_std=0.5, random_state=0)
        return X, y
    return load(name, folder)


def measure(name: str, step: str, tol: float, max_time: float, folder: Path | None) -> dict[str, object]:
    """One run."""
    X, y = data("digits:30", None)
    sm.solve(sm.LMNNProblem.from_labels(X[:300], y[:300], 3), "subgradient", step=step, tol=0.1, max_iter=50)
    X, y = data(name, folder)
    problem = sm.LMNNProblem.from_labels(X, y, 3, 0.5)
    cpu = time.process_time()
    solution = sm.solve(problem, "subgradient", step=step, tol=tol, max_time=max_time)
    return {
        "data": name,
        "n x d": f"{X.shape[0]} x {X.shape[1]}",
        "asked": f"{tol:.0e}",
        "status": str(solution.status),
        "objective": f"{solution.objective:.7g}",
        "proven gap": f"{solution.relative_gap:.1e}",
        "iterations": solution.n_iter,
        "searches": int(np.isfinite(solution.trace["objective"]).sum()),
        "seconds": f"{solution.seconds:.2f}",
        "CPU seconds": f"{time.process_time() - cpu:.2f}",
        "peak GiB": f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f}",
        "last step / first": f"{solution.trace['step_size'][-1] / solution.trace['step_size'][1]:.0e}",
    }


def table(args: argparse.Namespace, names: list[str], step: str, tols: list[float], columns: list[str]) -> None:
    """Measure and print."""
    print(f"| {' | '.join(columns)} |\n|{' --- |' * len(columns)}")
    for name in names:
        for tol in tols:
            one = [sys.executable, __file__, "--one", name, step, str(tol), str(args.max_time)]
            folder = [] if args.folder is None else ["--folder", str(args.folder)]
            row = json.loads(subprocess.run(one + folder, check=True, capture_output=True, text=True).stdout)
            print(f"| {' | '.join(str(row[column]) for column in columns)} |", flush=True)
    print()


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    scale = ["digits:61", "letters", "usps:64", "usps:256", "blobs:20000"]
    parser.add_argument("--data", nargs="*", default=scale, help="for the first table")
    parser.add_argument("--tol", nargs="+", type=float, default=[1e-2, 1e-3], help="relative gaps to prove")
    parser.add_argument("--paper", nargs="*", default=["iris", "wine", "digits:30"], help="data for the second table")
    parser.add_argument("--max-time", type=float, default=240.0, help="seconds for one run")
    folder = os.environ.get("SDPMETRIC_DATA")
    parser.add_argument("--folder", type=Path, default=None if folder is None else Path(folder))
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        name, step, tol, max_time = args.one
        print(json.dumps(measure(name, step, float(tol), float(max_time), args.folder)))
        return
    columns = ["data", "n x d", "asked", "status", "objective", "proven gap", "iterations", "searches"]
    if args.data:
        table(args, args.data, "polyak", args.tol, [*columns, "seconds", "CPU seconds", "peak GiB"])
    if args.paper:
        table(args, args.paper, "paper", [1e-6], ["data", *columns[4:], "last step / first"])


if __name__ == "__main__":
    main()
