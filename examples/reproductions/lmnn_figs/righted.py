"""Fig. 5: digits whose nearest neighbor was wrong before the metric was learned and is right after."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import sdpmetric as sm
from lmnn_figs.digits import Digits, K
from lmnn_figs.sets import data_set
from sdpmetric import classification

# Test digits shown: nearest neighbor wrong before and right after, and the other way round.
RIGHTED, WRONGED = 6, 2
KINDS = {
    (True, True): "right before and after",
    (False, True): "wrong before, right after",
    (True, False): "right before, wrong after",
    (False, False): "wrong before and after",
}


def draw(images, labels, examples, neighbors):
    """Each example beside its neighbors before and after; those of its class have a thin frame, others a thick one."""
    figure, grid = plt.subplots(len(examples), 1 + 2 * K, figsize=(0.8 * (1 + 2 * K), 0.9 * len(examples)))
    for row, (axes, example) in enumerate(zip(grid, examples, strict=True)):
        shown = [example, *neighbors[0, row], *neighbors[1, row]]
        for column, (ax, item) in enumerate(zip(axes, shown, strict=True)):
            ax.imshow(images[item], cmap="gray_r")
            ax.set(xticks=[], yticks=[])
            for spine in ax.spines.values():
                spine.set(visible=column > 0, linewidth=1 if labels[item] == labels[example] else 3)
        axes[0].set_ylabel(f"{labels[example]}")
        for column, name in ((1, "before"), (1 + K, "after")):
            if row == 0:
                axes[column].set_title(f"nearest {name}", fontsize=9, loc="left")
    return figure


def figure5(digits: Digits, output: Path) -> str:
    """Write lmnn_figure5.md and .png; return the Markdown."""
    data = data_set("digits", digits)
    components = sm.solve(sm.LMNNProblem.from_labels(data.X, data.y, K, 0.5), tol=1e-3).components
    before, after = (
        classification.nearest_neighbors(L, data.X, data.X_test, K, algorithm="brute")[1]
        for L in (np.eye(data.X.shape[1]), components)
    )
    was, now = (data.y[near[:, 0]] == data.y_test for near in (before, after))
    drawn = np.random.default_rng(0)
    righted, wronged = np.flatnonzero(~was & now), np.flatnonzero(was & ~now)
    shown = np.concatenate(
        [drawn.permutation(some)[:count] for some, count in ((righted, RIGHTED), (wronged, WRONGED))]
    )
    rows, place = np.unique(np.concatenate([before[shown], after[shown]]), return_inverse=True)
    place = place.reshape(2, len(shown), K)
    images = digits.images(rows, shown)
    labels = np.concatenate([data.y[rows], data.y_test[shown]])
    figure = draw(images, labels, len(rows) + np.arange(len(shown)), place)
    figure.suptitle(
        f"test digits, drawn at random: {min(RIGHTED, len(righted))} of {len(righted)} whose nearest neighbor was "
        f"wrong\nbefore and is right after, {min(WRONGED, len(wronged))} of {len(wronged)} the other way round",
        fontsize=10,
    )
    figure.savefig(output / "lmnn_figure5.png", dpi=120)
    plt.close(figure)
    errors = [data.errors(L)[0] for L in (np.eye(data.X.shape[1]), components)]
    lines = [
        f"{data.protocol}. {K} target neighbors, push weight 0.5; neighbors are training digits. The paper shows "
        "digits of the second row and counts none.",
        "",
        f"| nearest neighbor | of {len(data.y_test):,} test digits |",
        "| --- | --- |",
        *(f"| {said} | {np.sum((was == a) & (now == b)):,} |" for (a, b), said in KINDS.items()),
        f"| error of {K}-NN before, % | {errors[0]:.2f} |",
        f"| error of {K}-NN after, % | {errors[1]:.2f} |",
    ]
    text = "\n".join(lines)
    (output / "lmnn_figure5.md").write_text(text + "\n")
    return text
