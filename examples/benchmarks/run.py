"""Solvers and peers on labeled data: objective above a proven lower bound, and seconds. A table.

    python examples/benchmarks/run.py                                      # iris, wine, digits; our default solver
    python examples/benchmarks/run.py --data digits:30 --solvers factored metric_learn pylmnn mlpack --peers .peers
    python examples/benchmarks/run.py --data letters usps mnist --folder DATA --tol 1e-3 1e-5 --repeats 3

`sets.py` has the data (with `:d`, the first d principal components; with `:d:n`, of a sample of n rows). Solvers are
those of `sdpmetric.solve` and the peers of `peer.py` (with `:option=value,...`), which run in an environment of their
own, built by `peers.sh`. Seconds of ours are those of stating the problem (which finds the target neighbors) and
solving it; a peer's are those of its fit alone, which does the same. All data have mean norm 4.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import re
import shlex
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from peer import PEERS
from sets import load

import sdpmetric as sm

HERE = Path(__file__).parent
PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "cvxpy", "clarabel")
# The bound that a peer is measured against, where no solver of ours that was asked for gives a better one.
BOUND_TOLERANCE = 1e-3
# Below this gap a run of ours that chases a peer's objective gives up.
CHASE_TOLERANCE = 1e-7


@dataclass
class Run:
    """One solver's runs on one data set; `seconds` and what follows it are medians of the repeats."""

    data: str
    shape: tuple[int, int]
    solver: str
    status: str
    objective: float
    lower_bound: float = float("nan")
    tol: float | None = None
    iterations: int | None = None
    seconds: float = float("nan")
    stating: float = float("nan")
    one_pass: float = float("nan")
    chase: float = float("nan")
    above: float = float("nan")
    trace: list[tuple[float, float]] = field(default_factory=list)


def parse(spec: str) -> tuple[str, dict[str, object]]:
    """Name and options of `name:key=value,...`; a value is JSON, or else a word."""
    name, _, rest = spec.partition(":")
    options: dict[str, object] = {}
    for item in filter(None, rest.split(",")):
        key, _, value = item.partition("=")
        try:
            options[key] = json.loads(value)
        except json.JSONDecodeError:
            options[key] = value
    return name, options


def one_pass(X: np.ndarray) -> float:
    """Seconds of one look at all pairs in plain NumPy: the unit that makes machines comparable."""
    X = X.astype(np.float32)
    norms = (X**2).sum(axis=1)
    began = time.perf_counter()
    near = 0
    for first in range(0, len(X), 1024):
        D = X[first : first + 1024] @ X.T
        D *= -2
        D += norms
        D += norms[first : first + 1024, None]
        near += int((D < 1).sum())
    return time.perf_counter() - began


def statement(args: argparse.Namespace, X: np.ndarray, y: np.ndarray) -> sm.LMNNProblem:
    """The problem that everybody is judged by; nothing of it is computed yet but the target neighbors."""
    return sm.LMNNProblem.from_labels(X, y, args.n_neighbors, args.push_weight, loss=args.loss)


def objective(problem: sm.LMNNProblem, components: np.ndarray) -> float:
    """The objective of the best multiple of a metric, so that no peer is judged by its units."""
    L = np.asarray(components, dtype=np.float64)
    return problem.objective(problem.best_scale(L) * L)


def ours(
    args: argparse.Namespace, solver: str, X: np.ndarray, y: np.ndarray, tol: float, until: float = -np.inf
) -> tuple[sm.Solution, float, float, list[tuple[float, float]]]:
    """Solution, seconds with and of stating the problem, and the best exact objective so far against time.

    With `until`, the run ends at the first exact objective that is not above it.
    """
    name, options = parse(solver)
    began = time.perf_counter()
    problem = statement(args, X, y)
    stating = time.perf_counter() - began

    def enough(row: sm.TraceRow) -> bool:
        return row.objective <= until

    solution = sm.solve(problem, name, tol=tol, max_time=args.max_time, callback=enough, **options)
    seconds = time.perf_counter() - began
    best, trace = np.inf, []
    for row in solution.trace:
        if row.objective < best:  # infinite while the factored solver has seen some anchors only
            best = row.objective
            trace.append((stating + row.seconds, best))
    if solution.objective < best:
        trace.append((seconds, solution.objective))
    return solution, seconds, stating, trace


def peer(args: argparse.Namespace, solver: str, X: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray] | str:
    """What a peer found, started from the Euclidean metric; or why it found nothing."""
    name, options = parse(solver)
    settings = {"k": args.n_neighbors, "push_weight": args.push_weight, "options": options}
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder, "given.npz"), Path(folder, "found.npz")
        np.savez(given, X=X, y=y, start=np.eye(X.shape[1]), settings=json.dumps(settings))
        command = [args.peers / "bin" / "python", "-P", HERE / "peer.py", name, given, found]
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        try:
            ended = subprocess.run(
                command, timeout=args.max_time, capture_output=True, text=True, check=False, env=environment
            )
        except subprocess.TimeoutExpired:
            return f"stopped after {args.max_time:g} s"
        if ended.returncode:
            return "failed: " + (ended.stderr.strip().splitlines() or ["no message"])[-1]
        with np.load(found) as file:
            return dict(file)


def measure(args: argparse.Namespace, data: str, versions: set[str]) -> list[Run]:
    """All solvers on one data set; repeats are interleaved, so that they share what the machine does beside."""
    X, y = load(data, args.folder)
    own = [(solver, tol) for solver in args.solvers if not is_peer(solver) for tol in args.tol]
    peers = [solver for solver in args.solvers if is_peer(solver)]
    runs: dict[tuple[str, float | None], list[Run]] = {}
    for _ in range(args.repeats):
        unit = one_pass(X)
        for solver, tol in own or [("factored", BOUND_TOLERANCE)]:
            solution, seconds, stating, trace = ours(args, solver, X, y, tol)
            run = Run(data, X.shape, solver, str(solution.status), solution.objective, solution.lower_bound, tol)
            run.iterations = solution.n_iter
            run.seconds, run.stating, run.one_pass, run.trace = seconds, stating, unit, trace
            runs.setdefault((solver, tol), []).append(run)
            progress(run)
        for solver in peers:
            found = peer(args, solver, X, y)
            run = Run(data, X.shape, solver, "fitted", np.nan, one_pass=unit)
            runs.setdefault((solver, None), []).append(run)
            if isinstance(found, str):
                run.status = found
            else:
                run.objective = objective(statement(args, X, y), found["components"])
                run.seconds = float(found["seconds"])
                run.trace = [(run.seconds, run.objective)]
                versions.add(str(found["version"]))
                trace = ours(args, "factored", X, y, CHASE_TOLERANCE, until=run.objective)[3]
                run.chase = min((s for s, value in trace if value <= run.objective), default=np.inf)
            progress(run)
    middle = [median(repeats) for repeats in runs.values()]
    bound = max(run.lower_bound for run in middle if np.isfinite(run.lower_bound))
    for run in middle:
        run.above = (run.objective - bound) / bound
    return middle


def median(repeats: list[Run]) -> Run:
    """The repeat of median seconds, with the other times' medians too."""
    run = sorted(repeats, key=lambda run: run.seconds)[(len(repeats) - 1) // 2]
    for name in ("seconds", "stating", "one_pass", "chase"):
        setattr(run, name, float(np.median([getattr(run, name) for run in repeats])))
    return run


def is_peer(solver: str) -> bool:
    """Whether a solver runs in the peers' environment."""
    return parse(solver)[0] in PEERS


def progress(run: Run) -> None:
    """One line for each run, as it ends."""
    print(f"{run.data} {run.solver}: {run.status}, objective {run.objective:.6g}, {run.seconds:.2f} s", file=sys.stderr)


def warm(args: argparse.Namespace) -> None:
    """A small problem that compiles what the solvers need, so that nobody's seconds hold it."""
    X, y = load("digits:30", None)
    some = np.random.default_rng(0).permutation(len(X))[:600]
    for solver in {"factored", *(solver for solver in args.solvers if not is_peer(solver))}:
        ours(args, solver, X[some], y[some], 1e-2)


def machine(peers: set[str]) -> list[str]:
    """Machine, versions and peak memory."""
    info = Path("/proc/cpuinfo")
    named = re.search(r"model name\s*: (.*)", info.read_text() if info.is_file() else "")
    versions = [f"{name} {importlib.metadata.version(name)}" for name in PACKAGES]
    commit = subprocess.run(["git", "-C", HERE, "describe", "--always", "--dirty"], capture_output=True, text=True)
    peak = ""
    if sys.platform == "linux":
        import resource

        peak = f"; peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB"
    return [
        f"{named[1] if named else platform.machine()}, {os.cpu_count()} cores{peak}",
        f"Python {platform.python_version()}, {', '.join(versions)}, commit {commit.stdout.strip() or 'unknown'}",
        *([f"Peers: {', '.join(sorted(peers))}"] if peers else []),
    ]


def number(value: float, style: str) -> str:
    """A number, or nothing where there is none."""
    if np.isposinf(value):
        return "never"
    return format(value, style) if np.isfinite(value) else ""


def table(runs: list[Run]) -> list[str]:
    """The Markdown table."""
    lines = [
        "| data | n x d | solver | asked | status | objective | above the bound | proven gap | iterations | seconds "
        "| passes: stating + solving | its seconds / ours | ours to its objective, s | its seconds / these |",
        "|" + " --- |" * 14,
    ]
    for run in runs:
        own = run.tol is not None
        ours = [other.seconds for other in runs if other.data == run.data and other.tol is not None]
        passes = ""
        if own and run.one_pass > 1e-3:  # of small data it measures the interpreter
            passes = f"{run.stating / run.one_pass:.1f} + {(run.seconds - run.stating) / run.one_pass:.1f}"
        cells = [
            run.data,
            f"{run.shape[0]} x {run.shape[1]}",
            run.solver,
            f"{run.tol:.0e}" if own else "",
            run.status.replace("|", "/"),
            number(run.objective, ".6g"),
            number(run.above, ".1e"),
            number((run.objective - run.lower_bound) / run.objective, ".1e"),
            "" if run.iterations is None else f"{run.iterations:,}",
            number(run.seconds, ".3g"),
            passes,
            "" if own or not ours else number(run.seconds / ours[0], ".1f"),
            number(run.chase, ".3g"),
            number(run.seconds / run.chase, ".1f") if np.isfinite(run.chase) else "",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    lines.append("")
    for data in dict.fromkeys(run.data for run in runs):
        some = [run for run in runs if run.data == data]
        bound = max((run.lower_bound for run in some if np.isfinite(run.lower_bound)), default=np.nan)
        lines.append(f"- {data}: proven lower bound {bound:.7g}; one pass takes {some[0].one_pass:.3g} s")
    return lines


def main(argv: list[str] | None = None) -> None:
    """Measure, and write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=["iris", "wine", "digits"], metavar="NAME[:D[:N]]")
    parser.add_argument("--solvers", nargs="+", default=["factored"], metavar="NAME[:OPTION=VALUE,...]")
    parser.add_argument("--loss", default="hinge", choices=["hinge", "squared_hinge"], help="PyLMNN's is squared")
    parser.add_argument("--tol", nargs="+", type=float, default=[1e-3], help="proven gaps asked of ours")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--max-time", type=float, help="seconds for each run; peers are stopped")
    parser.add_argument("--push-weight", type=float, default=0.5)
    parser.add_argument("--n-neighbors", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=os.environ.get("SDPMETRIC_DATA"), help="letters, usps, mnist")
    parser.add_argument("--peers", type=Path, default=Path(".peers"), help="their environment, from peers.sh")
    parser.add_argument("--output", type=Path, default=Path("benchmark_results"), help="folder of what is written")
    args = parser.parse_args(argv)
    args.folder = None if args.folder is None else Path(args.folder)
    if any(map(is_peer, args.solvers)) and not (args.peers / "bin" / "python").exists():
        raise SystemExit(f"there are no peers in {args.peers}; build them: sh {HERE / 'peers.sh'} {args.peers}")
    warm(args)
    versions: set[str] = set()
    runs: list[Run] = []
    for data in args.data:
        runs += measure(args, data, versions)
        # After each data set, so that an interrupted night leaves what it measured.
        command = shlex.join(["python", "examples/benchmarks/run.py", *(sys.argv[1:] if argv is None else argv)])
        text = [f"Made by `{command}`.", "", *(f"- {line}" for line in machine(versions)), "", *table(runs), ""]
        args.output.mkdir(parents=True, exist_ok=True)
        (args.output / "benchmarks.md").write_text("\n".join(text), encoding="utf-8")
    print("\n".join(text))


if __name__ == "__main__":
    main()
