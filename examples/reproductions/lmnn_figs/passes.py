"""Fig. 6: error after multiple passes relative to that after one (section 5.1)."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from table1.paper import ERRORS

from lmnn_figs.digits import K
from lmnn_figs.sets import DataSet
from sdpmetric.core import pairs
from sdpmetric.estimators import LMNN

PASSES = 6
# Test error in per cent of Weinberger and Saul (2009), Table 1: after one pass, and after multiple passes; how many is
# not printed.
PAPER = {name: (ERRORS[name]["lmnn"], ERRORS[name]["passes"]) for name in ("letters", "isolet", "mnist")}


def figure6(sets: list[DataSet], output: Path) -> str:
    """Write lmnn_figure6.md and .png; return the Markdown."""
    rows, curves = [], {}
    for data in sets:
        learned = LMNN(n_neighbors=K, n_passes=PASSES, ridge=0.0).fit(data.X, data.y)
        components = [np.eye(data.X.shape[1]), *(solution.components for solution in learned.solutions_)]
        errors = [data.errors(L) for L in components]
        classes = np.unique(data.y, return_inverse=True)[1]
        targets = [np.sort(pairs.target_neighbors(data.X @ L.T, classes, K)) for L in components[:-1]]
        rows.append(f"| {data.name} | 0 | {errors[0][0]:.2f} |  | {errors[0][1]:.2f} |  |  |  |  |")
        for n, (solution, (test, train)) in enumerate(zip(learned.solutions_, errors[1:], strict=True), 1):
            changed = "" if n == 1 else f"{100 * _changed(targets[n - 2], targets[n - 1]):.0f}"
            relative = test / errors[1][0] if errors[1][0] else float("nan")
            rows.append(
                f"| {data.name} | {n} | {test:.2f} | {relative:.2f} | {train:.2f} | {changed} "
                f"| {solution.objective:,.0f} | {solution.certificate.n_active:,} | {solution.relative_gap:.0e} |"
            )
        if data.name in PAPER:
            once, several = PAPER[data.name]
            rows.append(f"| {data.name} | paper, several | {several:.2f} | {several / once:.2f} |  |  |  |  |  |")
        curves[data.name] = np.array(errors)
    lines = [
        f"{'. '.join(data.protocol for data in sets)}. {K} target neighbors, push weight 0.5; each pass proven to a "
        f"relative gap of 0.001; kNN with k = {K}. Pass 0 is the Euclidean metric. Target neighbors of pass 1 are "
        "those of the Euclidean metric, of each further pass those of the metric before.",
        "",
        "| data | pass | test % | relative to one pass | train % | target neighbors changed, % | objective "
        "| active triplets | proven gap |",
        "| --- |" + " --- |" * 8,
        *rows,
    ]
    text = "\n".join(lines)
    (output / "lmnn_figure6.md").write_text(text + "\n")
    draw(curves, output / "lmnn_figure6.png")
    return text


def _changed(before: np.ndarray, after: np.ndarray) -> float:
    """The share of target neighbors that are new."""
    kept = (after[:, :, None] == before[:, None, :]).any(axis=2)
    return float(1 - kept.mean())


def draw(curves: dict[str, np.ndarray], path: Path) -> None:
    figure, axes = plt.subplots(1, len(curves), figsize=(4.2 * len(curves), 3.8), squeeze=False, layout="constrained")
    for ax, (name, errors) in zip(axes.flat, curves.items(), strict=True):
        passes = range(1, len(errors))
        for curve, style, color, said in zip(
            errors.T, ("o-", "s--"), ("#0072B2", "#888888"), ("test", "train"), strict=True
        ):
            ax.plot(passes, curve[1:] / max(curve[1], 1e-9), style, color=color, label=said, markersize=5)
        if name in PAPER:
            once, several = PAPER[name]
            style = {"color": "black", "linewidth": 0.9, "linestyle": (0, (1, 2))}
            ax.axhline(several / once, label="paper, several passes", **style)
        ax.set(title=name, xlabel="passes", xticks=passes, ylim=(0, None))
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(color="0.92", linewidth=0.7)
        ax.legend(frameon=False, fontsize="small")
    axes[0, 0].set_ylabel("error relative to one pass")
    figure.savefig(path, dpi=120)
    plt.close(figure)
