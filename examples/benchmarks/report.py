"""What the benchmarks write: the runs as JSON, a Markdown table, a figure, and the machine that made them."""

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

import matplotlib
import matplotlib.pyplot as plt
import matplotlib.ticker
import numpy as np

if TYPE_CHECKING:
    from run import Run

PACKAGES = ("sdpmetric", "numpy", "scipy", "scikit-learn", "numba", "cvxpy", "clarabel")
# Color-blind safe (Okabe and Ito 2008).
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


def write_report(output: Path, runs: Sequence[Run], arguments: Sequence[str], peers: Sequence[str]) -> None:
    """Write ``benchmarks.md``, ``benchmarks.png`` and ``benchmarks.json`` into a folder."""
    output.mkdir(parents=True, exist_ok=True)
    about = machine(peers)
    command = shlex.join(["python", "examples/benchmarks/run.py", *arguments])
    text = [f"Made by `{command}`.", "", *(f"- {line}" for line in about), "", *table(runs), *growth(runs), ""]
    (output / "benchmarks.md").write_text("\n".join(text), encoding="utf-8")
    record = {"command": command, "machine": about, "runs": [asdict(run) for run in runs]}
    (output / "benchmarks.json").write_text(json.dumps(record, indent=1), encoding="utf-8")
    figure(output / "benchmarks.png", runs)


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


def growth(runs: Sequence[Run]) -> list[str]:
    """Exponents fitted to seconds against n at one d, and against d at one n, where there are three or more."""
    lines = []
    for axis, letter in ((0, "n"), (1, "d")):
        groups: dict[tuple[str, str, float | None, int], list[Run]] = {}
        for run in runs:
            groups.setdefault((run.data.partition(":")[0], run.solver, run.tol, run.shape[1 - axis]), []).append(run)
        for (data, solver, tol, other), group in groups.items():
            size, seconds = np.log([(run.shape[axis], run.seconds) for run in group]).T
            if len(set(size)) >= 3 and np.isfinite(seconds).all():
                asked = "" if tol is None else f" to {tol:.0e}"
                at = f"{'dn'[axis]} = {other}"
                lines.append(
                    f"- {data}, {at}, {solver}{asked}: seconds grow as {letter}^{np.polyfit(size, seconds, 1)[0]:.2f}"
                )
    return lines


def figure(path: Path, runs: Sequence[Run]) -> None:
    """Objective above the proven lower bound against seconds: ours as curves, peers as the points where they end."""
    names = list(dict.fromkeys(run.data for run in runs))
    solvers = list(dict.fromkeys(run.solver for run in runs))
    columns = min(len(names), 3)
    rows = -(-len(names) // columns)
    with matplotlib.rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}):
        drawn, axes = plt.subplots(
            rows, columns, figsize=(3.6 * columns, 3.0 * rows + 0.6), squeeze=False, layout="constrained"
        )
        for ax, name in zip(axes.flat, names, strict=False):
            some = [run for run in runs if run.data == name]
            bound = max(run.lower_bound for run in some if np.isfinite(run.lower_bound))
            for run in some:
                points = np.array(run.trace).reshape(-1, 2)
                color = COLORS[solvers.index(run.solver) % len(COLORS)]
                # At the bound itself a logarithm has no place; rounding puts a point there.
                height = np.maximum((points[:, 1] - bound) / bound, 1e-10)
                own = {"marker": "o", "ms": 3, "lw": 1.2, "drawstyle": "steps-post"}
                style = own if run.tol is not None else {"marker": "D", "ms": 6, "ls": "none"}
                ax.plot(points[:, 0], height, color=color, label=run.solver, **style)
            ax.set(
                xscale="log", yscale="log", xlabel="seconds", title=f"{name}, {some[0].shape[0]} x {some[0].shape[1]}"
            )
            for axis in (ax.xaxis, ax.yaxis):  # whole decades, so that there are ticks to read
                low, high = np.log10(axis.get_data_interval())
                axis.set_view_interval(10.0 ** np.floor(low - 0.05), 10.0 ** np.ceil(high + 0.05), ignore=True)
                axis.set_minor_formatter(matplotlib.ticker.NullFormatter())
            ax.grid(color="0.9", lw=0.6)
            ax.set_axisbelow(True)
        for ax in axes.flat[len(names) :]:
            ax.remove()
        drawn.supylabel("objective above the proven lower bound")
        handles: dict[str, object] = {}
        for ax in drawn.axes:
            handles.update({label: handle for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)})
        drawn.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4, frameon=False)
        drawn.savefig(path, dpi=150)
        plt.close(drawn)
