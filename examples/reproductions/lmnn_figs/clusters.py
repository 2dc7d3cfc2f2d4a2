"""Fig. 9: error with a metric for each class relative to one metric (section 5.2); beside it clusters of k-means."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from table1.paper import ERRORS

import sdpmetric as sm
from lmnn_figs.digits import K
from lmnn_figs.sets import DataSet

COUNTS = (2, 4, 8)
TOLERANCE = 5e-3
# Test error in per cent of Weinberger and Saul (2009), Table 1: one metric, and one for each class.
PAPER = {name: (ERRORS[name]["lmnn"], ERRORS[name]["several"]) for name in ("letters", "isolet", "mnist")}


def figure9(sets: list[DataSet], output: Path) -> str:
    """Write lmnn_figure9.md and .png; return the Markdown."""
    rows, curves = [], {}
    for data in sets:
        one = sm.solve(sm.LMNNProblem.from_labels(data.X, data.y, K, 0.5), tol=TOLERANCE)
        single = data.errors(one.components)
        rows.append(_row(data.name, "1", single, single, one, 0))
        curve = [(1, *single)]
        for count in (*COUNTS, None):
            regions = {"regions": "class"} if count is None else {"regions": "kmeans", "n_regions": count}
            problem = sm.MultiMetricLMNNProblem.from_labels(data.X, data.y, K, 0.5, **regions)
            found = sm.solve(problem, tol=TOLERANCE)
            errors = data.errors(found.components, problem.regions)
            said = f"{problem.n_regions}, one for each class" if count is None else f"{count}, clusters"
            rows.append(_row(data.name, said, errors, single, found, 1 if count is None else -1))
            curve.append((problem.n_regions, *errors))
        curves[data.name] = np.array(curve)
    lines = [
        f"{'. '.join(data.protocol for data in sets)}. {K} target neighbors, push weight 0.5, all metrics of a row "
        f"learned together to a relative gap of {TOLERANCE:g}; kNN with k = {K} under the metric of the neighbor's "
        "region; clusters are those of k-means on the training part (seed 0).",
        "",
        "| data | metrics | paper, test % | paper, relative to one | test % | relative to one | train % "
        "| active triplets | proven gap |",
        "| --- |" + " --- |" * 8,
        *rows,
    ]
    text = "\n".join(lines)
    (output / "lmnn_figure9.md").write_text(text + "\n")
    draw(curves, output / "lmnn_figure9.png")
    return text


def _row(
    name: str, metrics: str, errors: tuple[float, float], single: tuple[float, float], found: sm.Solution, which: int
) -> str:
    """A line of the table; `which` of the paper's two figures stands beside it, -1 for none."""
    known = name in PAPER and which >= 0
    theirs = f"{PAPER[name][which]:.2f}" if known else "not printed"
    gain = f"{PAPER[name][1] / PAPER[name][0]:.2f}" if known and which == 1 else ""
    ours = f"{errors[0] / single[0]:.2f}" if which != 0 and single[0] else ""
    return (
        f"| {name} | {metrics} | {theirs} | {gain} | {errors[0]:.2f} | {ours} | {errors[1]:.2f} "
        f"| {found.certificate.n_active:,} | {found.relative_gap:.0e} |"
    )


def draw(curves: dict[str, np.ndarray], path: Path) -> None:
    figure, axes = plt.subplots(1, len(curves), figsize=(4.2 * len(curves), 3.8), squeeze=False, layout="constrained")
    for ax, (name, curve) in zip(axes.flat, curves.items(), strict=True):
        counts = curve[:, 0]
        for column, style, color, said in ((1, "o", "#0072B2", "test"), (2, "s", "#888888", "train")):
            ax.plot(counts[:-1], curve[:-1, column], f"{style}{'-' if column == 1 else '--'}", color=color, label=said)
            ax.plot(counts[-1], curve[-1, column], style, color=color, fillstyle="none", markersize=8)
        ax.plot([], [], "o", color="black", fillstyle="none", markersize=8, label="one for each class")
        ax.set(title=name, xlabel="metrics", xscale="log", ylim=(0, None))
        ax.set_xticks(counts, [f"{count:.0f}" for count in counts])
        ax.minorticks_off()
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(color="0.92", linewidth=0.7)
        ax.legend(frameon=False, fontsize="small")
    axes[0, 0].set_ylabel("error, %")
    figure.savefig(path, dpi=120)
    plt.close(figure)
