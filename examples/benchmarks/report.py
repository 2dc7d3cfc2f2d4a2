"""What the benchmarks write: the runs as JSON, a Markdown table, and the machine that made them."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from run import Run

PACKAGES = ("sdpmetric", "numpy", "scipy", "scikit-learn", "numba", "cvxpy", "clarabel")


def write_report(output: Path, runs: Sequence[Run], arguments: Sequence[str], peers: Sequence[str]) -> None:
    """Write ``benchmarks.md`` and ``benchmarks.json`` into a folder."""
    output.mkdir(parents=True, exist_ok=True)
    about = machine(peers)
    command = shlex.join(["python", "examples/benchmarks/run.py", *arguments])
    text = [f"Made by `{command}`.", "", *(f"- {line}" for line in about), "", *table(runs), ""]
    (output / "benchmarks.md").write_text("\n".join(text), encoding="utf-8")
    record = {"command": command, "machine": about, "runs": [asdict(run) for run in runs]}
    (output / "benchmarks.json").write_text(json.dumps(record, indent=1), encoding="utf-8")


def machine(peers: Sequence[str]) -> list[str]:
    """Machine, load and versions."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        names = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if line[:10] == "model name"]
        cpu = names[0] if names else cpu
    commit = subprocess.run(
        ["git", "-C", Path(__file__).parent, "describe", "--always", "--dirty"],
        capture_output=True,
        text=True,
        check=False,
    )
    peak = ""
    if sys.platform != "win32":
        import resource

        size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**30 if sys.platform == "darwin" else 2**20)
        peak = f"; peak memory of our process {size:.2f} GiB"
    load = f", load average {os.getloadavg()[1]:.1f} when it ended" if hasattr(os, "getloadavg") else ""
    return [
        f"{cpu}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}{load}{peak}",
        f"Python {platform.python_version()}, "
        + ", ".join(f"{name} {importlib.metadata.version(name)}" for name in PACKAGES if installed(name))
        + (f", commit {commit.stdout.strip()}" if commit.returncode == 0 else ""),
        *([f"Peers: {', '.join(peers)}"] if peers else []),
    ]


def installed(name: str) -> bool:
    """Whether a distribution is there to be asked for its version."""
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def number(value: float, style: str) -> str:
    """A number, or nothing where there is none."""
    if np.isposinf(value):
        return "never"
    return format(value, style) if np.isfinite(value) else ""


def table(runs: Sequence[Run]) -> list[str]:
    """The Markdown table."""
    lines = [
        "| data | n x d | solver | asked | status | objective | above the bound | seconds | passes: stating + solving "
        "| ours to its objective, s | its seconds / ours |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for run in runs:
        own = run.tol is not None
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
            number(run.seconds, ".2f"),
            passes,
            number(run.chase, ".2f"),
            number(run.seconds / run.chase, ".1f") if np.isfinite(run.chase) else "",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    lines.append("")
    for data in dict.fromkeys(run.data for run in runs):
        some = [run for run in runs if run.data == data]
        bound = max((run.lower_bound for run in some if np.isfinite(run.lower_bound)), default=np.nan)
        lines.append(f"- {data}: proven lower bound {bound:.7g}; one pass takes {some[0].one_pass:.3g} s")
    return lines
