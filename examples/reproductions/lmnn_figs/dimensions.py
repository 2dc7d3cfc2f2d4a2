"""Fig. 13: error against dimensionality, when the metric is cut to few dimensions or learned in few."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import sdpmetric as sm
from lmnn_figs.digits import Digits, K
from lmnn_figs.trees import FEW, tree_and_partial

# Weinberger and Saul (2009), section 6.3, from 350 dimensions of MNIST: test error of LMNN-R in per cent, and speed-up
# of ball trees over the baseline, partial distances in the original space, whose error is 2.33.
PAPER, FASTER = {15: 2.38, 25: 1.76}, {15: 15.0, 25: 5.7}


def figure13(digits: Digits, ranks: list[int], output: Path) -> str:
    """Write lmnn_figure13.md and .png; return the Markdown."""
    full = digits.full
    every = digits.error(np.eye(digits.n_components))
    best = digits.error(full.components)
    rows, errors = [], []
    queries = digits.Z_test[:FEW]
    _, whole, _ = tree_and_partial(digits.Z, queries)
    for rank in ranks:
        cut, learned = full.leading(rank), digits.rectangular(rank)
        factors = (np.eye(digits.n_components)[:rank], cut, full.leading(rank, digits.Z), learned.components)
        shown = [digits.error(L) for L in factors]
        tree, _, _ = tree_and_partial(digits.Z @ learned.components.T, queries @ learned.components.T)
        costs = sm.certify(digits.problem, cut, dual=full.dual).objective, learned.objective
        over = [100 * (cost / full.lower_bound - 1) for cost in costs]
        paper = f"{PAPER[rank]:.2f} | {FASTER[rank]:g}" if rank in PAPER else "not printed | not printed"
        rows.append(
            f"| {rank} | {paper} | {' | '.join(f'{error:.2f}' for error in shown)} | {whole / tree:.2g} "
            f"| {over[0]:,.1f} | {over[1]:,.1f} | {learned.seconds:.0f} |"
        )
        errors.append(shown)
    lines = [
        f"{digits.protocol}. kNN with k = {K}; speed-ups of scikit-learn's `BallTree` after LMNN-R over partial "
        f"distances in all dimensions ({whole:.3f} s for {len(queries):,} queries). In all {digits.n_components} "
        f"dimensions the test error is {every:.2f} % before and {best:.2f} % after LMNN, whose metric has rank "
        f"{len(full.components)}, objective {full.objective:,.0f}, proven lower bound {full.lower_bound:,.0f}, "
        f"{full.seconds:.0f} s.",
        "",
        "| dimensions | paper, LMNN-R, test % | paper, speed-up | PCA, test % | LMNN-S, eigenvectors of the metric, % "
        "| LMNN-S, principal components of the transformed inputs, % | LMNN-R, % | speed-up "
        "| LMNN-S, objective above the bound, % | LMNN-R, objective above the bound, % "
        "| LMNN-R after the full solve, s |",
        "| --- |" + " --- |" * 10,
        *rows,
    ]
    text = "\n".join(lines)
    (output / "lmnn_figure13.md").write_text(text + "\n")
    draw(ranks, np.array(errors), every, best, output / "lmnn_figure13.png")
    return text


def draw(ranks: list[int], errors: np.ndarray, every: float, best: float, path: Path) -> None:
    figure, ax = plt.subplots(figsize=(7.0, 4.6), layout="constrained")
    styles = (
        ("PCA", "#888888", "s:"),
        ("LMNN-S, eigenvectors", "#D55E00", "^--"),
        ("LMNN-S, components", "#CC79A7", "v--"),
        ("LMNN-R", "#0072B2", "o-"),
    )
    for (name, color, style), curve in zip(styles, errors.T, strict=True):
        ax.plot(ranks, curve, style, color=color, label=name, markersize=5)
    at = [rank for rank in PAPER if min(ranks) <= rank <= max(ranks)]
    if at:
        ax.plot(at, [PAPER[rank] for rank in at], "x", color="#000000", ms=9, mew=2, label="paper, LMNN-R, 60,000 rows")
    for value, name, color in ((every, "Euclidean", "#888888"), (best, "LMNN", "#0072B2")):
        ax.axhline(value, color=color, linewidth=0.8, linestyle=(0, (1, 2)))
        place = {"xytext": (4, 2), "textcoords": "offset points", "ha": "left", "fontsize": 8, "color": color}
        ax.annotate(f"{name}, all dimensions", (0.0, value), xycoords=("axes fraction", "data"), **place)
    ax.set(xlabel="dimensions", ylabel="test error, %", xscale="log", yscale="log")
    ax.set_xticks(ranks, [str(rank) for rank in ranks])
    ax.minorticks_off()
    low, high = min(np.nanmin(errors), best, *PAPER.values()), np.nanmax(errors)
    ticks = [t for t in (0.5, 1, 1.5, 2, 3, 5, 10, 20, 50, 100) if 0.8 * low <= t <= 1.2 * high]
    ax.set_yticks(ticks, [f"{t:g}" for t in ticks])
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color="0.92", linewidth=0.7)
    ax.legend(frameon=False)
    figure.savefig(path, dpi=120)
    plt.close(figure)
