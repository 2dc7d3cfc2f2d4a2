"""Fig. 6: what multiple passes change (section 5.1), and neighbors of digits before and after."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from lmnn_figs.digits import Digits, K
from lmnn_figs.sets import DataSet
from sdpmetric import classification
from sdpmetric.estimators import LMNN
from sdpmetric.plotting import NeighborsDisplay
from sdpmetric.triplets import neighbors

PASSES = 6
# Test error in per cent of Weinberger and Saul (2009), Table 1: after one pass, and after multiple passes.
PAPER = {"letters": (3.60, 2.80)}
# Test digits shown: nearest neighbor wrong before and right after, and the other way round.
RIGHTED, WRONGED = 6, 2


def figure6(sets: list[DataSet], digits: Digits, output: Path) -> str:
    """Write lmnn_figure6.md and .png, with digits among the sets lmnn_figure6_digits.png, too; return the Markdown."""
    rows, curves, note = [], {}, ""
    for data in sets:
        learned = LMNN(n_neighbors=K, n_passes=PASSES).fit(data.X, data.y)
        components = [np.eye(data.X.shape[1]), *(solution.components for solution in learned.solutions_)]
        errors = [data.errors(L) for L in components]
        classes = np.unique(data.y, return_inverse=True)[1]
        targets = [np.sort(neighbors.target_neighbors(data.X @ L.T, classes, K)) for L in components[:-1]]
        first = PAPER[data.name][0] if data.name in PAPER else None
        rows.append(f"| {data.name} | 0 | not at hand | {errors[0][0]:.2f} | {errors[0][1]:.2f} | | | | |")
        for n, (solution, (test, train)) in enumerate(zip(learned.solutions_, errors[1:], strict=True), 1):
            changed = "" if n == 1 else f"{100 * _changed(targets[n - 2], targets[n - 1]):.0f}"
            paper = f"{first:.2f}" if n == 1 and first else "not at hand"
            rows.append(
                f"| {data.name} | {n} | {paper} | {test:.2f} | {train:.2f} | {changed} | {solution.objective:,.0f} "
                f"| {solution.certificate.n_active:,} | {solution.relative_gap:.0e} |"
            )
        curves[data.name] = np.array(errors)
        if data.name == digits.name:
            note = _draw_digits(data, digits, components[1], output / "lmnn_figure6_digits.png")
    lines = [
        f"{'. '.join(data.protocol for data in sets)}. {K} target neighbors, push weight 0.5; each pass proven to a "
        f"relative gap of 0.001; kNN with k = {K}. Pass 0 is the Euclidean metric. Target neighbors of pass 1 are "
        "those of the Euclidean metric, of each further pass those of the metric before.",
        "",
        "| data | pass | paper, test % | test % | train % | target neighbors changed, % | objective | active triplets "
        "| proven gap |",
        "| --- |" + " --- |" * 8,
        *rows,
        *(["", note] if note else []),
    ]
    text = "\n".join(lines)
    (output / "lmnn_figure6.md").write_text(text + "\n")
    _draw(curves, output / "lmnn_figure6.png")
    return text


def _changed(before: np.ndarray, after: np.ndarray) -> float:
    """The share of target neighbors that are new."""
    kept = (after[:, :, None] == before[:, None, :]).any(axis=2)
    return float(1 - kept.mean())


def _draw(curves: dict[str, np.ndarray], path: Path) -> None:
    figure, axes = plt.subplots(1, len(curves), figsize=(4.2 * len(curves), 3.8), squeeze=False, layout="constrained")
    for ax, (name, errors) in zip(axes.flat, curves.items(), strict=True):
        for curve, style, colour, said in zip(
            errors.T, ("o-", "s--"), ("#0072B2", "#888888"), ("test", "train"), strict=True
        ):
            ax.plot(curve, style, color=colour, label=said, markersize=5)
        if name in PAPER:
            once, several = PAPER[name]
            ax.plot([1], [once], "x", color="black", markersize=9, markeredgewidth=2, label="paper, one pass")
            ax.axhline(several, color="black", linewidth=0.9, linestyle=(0, (1, 2)), label="paper, several passes")
        ax.set(title=name, xlabel="passes", xticks=range(len(errors)), ylim=(0, None))
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(color="0.92", linewidth=0.7)
        ax.legend(frameon=False, fontsize="small")
    axes[0, 0].set_ylabel("error, %")
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _draw_digits(data: DataSet, digits: Digits, components: np.ndarray, path: Path) -> str:
    """Test digits that gain or lose their nearest neighbor of the same class; say how many there are."""
    before, after = (
        classification.nearest_neighbors(L, data.X, data.X_test, K, algorithm="brute")[1]
        for L in (np.eye(data.X.shape[1]), components)
    )
    was, now = (data.y[near[:, 0]] == data.y_test for near in (before, after))
    kinds = ((True, True), (False, True), (True, False), (False, False))
    counts = [int(np.sum((was == a) & (now == b))) for a, b in kinds]
    drawn = np.random.default_rng(0)
    righted, wronged = np.flatnonzero(~was & now), np.flatnonzero(was & ~now)
    shown = np.concatenate(
        [drawn.permutation(some)[:count] for some, count in ((righted, RIGHTED), (wronged, WRONGED))]
    )
    rows, place = np.unique(np.concatenate([before[shown], after[shown]]), return_inverse=True)
    place = place.reshape(2, len(shown), K)
    images = digits.images(rows, shown)
    labels = np.concatenate([data.y[rows], data.y_test[shown]])
    display = NeighborsDisplay(images, labels, len(rows) + np.arange(len(shown)), place[0], place[1]).plot()
    display.ax_.set_ylabel("digit")
    display.figure_.suptitle(
        f"test digits, drawn at random: {min(RIGHTED, len(righted))} of {len(righted)} whose nearest neighbor was "
        f"wrong\nbefore and is right after, {min(WRONGED, len(wronged))} of {len(wronged)} the other way round",
        fontsize=10,
    )
    display.figure_.savefig(path, dpi=120)
    plt.close(display.figure_)
    return (
        f"Nearest neighbors of the {len(data.y_test):,} test digits before and after one pass: right and right "
        f"{counts[0]:,}, wrong and right {counts[1]:,}, right and wrong {counts[2]:,}, wrong and wrong {counts[3]:,}."
    )
