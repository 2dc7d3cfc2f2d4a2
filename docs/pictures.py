"""Draw the stored pictures of the README and the pages: ``python docs/pictures.py`` writes them to docs/pictures.

Each is drawn twice, NAME.svg for light pages and NAME-dark.svg for dark ones.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, FancyBboxPatch

import sdpmetric as sm
from sdpmetric import datasets
from sdpmetric.plotting import COLORS, ConvergenceDisplay, EmbeddingDisplay

FOLDER = Path(__file__).parent / "pictures"
MEASURED = Path(__file__).parent / "measured" / "lmnn.md"
STOPPED = 150.0  # seconds after which a peer was stopped
OPEN = 10.0  # length of the bar of a sum whose gap stayed open
PULL, PUSH = COLORS[0], COLORS[1]
# Ink and paper of light and of dark pages.
MODES = {"": ("#1f2328", "#ffffff"), "-dark": ("#d1d7e0", "#14181e")}
# Colors of the displays that are too dark on dark paper.
BRIGHTER = {"#000000": "#d1d7e0", "#0072b2": "#4aa8e8"}


def save(figure: Figure, name: str) -> None:
    """Write an SVG file that is the same whenever it is drawn."""
    path = FOLDER / f"{name}.svg"
    figure.savefig(path, metadata={"Date": None}, bbox_inches="tight")
    plt.close(figure)
    text = "\n".join(line.rstrip() for line in path.read_text().splitlines()) + "\n"
    for dark, bright in BRIGHTER.items() if name.endswith("-dark") else ():
        text = text.replace(dark, bright)
    path.write_text(text)


def neighborhood(axis: Axes, Z: np.ndarray, y: np.ndarray, i: int, targets: np.ndarray) -> int:
    """Draw an example, its target neighbors, the margin around them, and the impostors inside it."""
    squared = np.sum((Z - Z[i]) ** 2, axis=1)
    radius = squared[targets].max() ** 0.5
    outer = (radius**2 + 1.0) ** 0.5
    inside = np.flatnonzero((y != y[i]) & (squared <= outer**2))
    ink = plt.rcParams["text.color"]
    axis.add_patch(Circle(Z[i], radius, facecolor=PULL, alpha=0.12, zorder=0))
    axis.add_patch(
        Circle(Z[i], outer, fill=False, edgecolor=ink, linestyle="--", linewidth=0.9, zorder=1)
    )
    for c in range(3):
        axis.scatter(*Z[y == c].T, s=22, color=COLORS[c + 2], marker="o^s"[c], linewidths=0)
    arrow = {"arrowstyle": "-|>", "linewidth": 1.4, "shrinkA": 3, "shrinkB": 3}
    for j in targets:
        axis.annotate(
            "", Z[i] + 0.45 * (Z[j] - Z[i]), Z[j], arrowprops=arrow | {"color": PULL}
        )
    for k in inside:
        away = Z[k] + (Z[k] - Z[i]) * 0.45 * outer / max(squared[k] ** 0.5, 0.4 * outer)
        axis.annotate("", away, Z[k], arrowprops=arrow | {"color": PUSH})
    axis.scatter(*Z[targets].T, s=80, facecolors="none", edgecolors=PULL, linewidths=1.4)
    axis.scatter(*Z[inside].T, s=80, facecolors="none", edgecolors=PUSH, linewidths=1.4)
    axis.plot(*Z[i], "*", color=ink, markersize=13)
    axis.set(xticks=[], yticks=[], aspect="equal")
    return len(inside)


def idea(mode: str) -> None:
    """Pull and push: one example with the same three target neighbors under two metrics."""
    rng = np.random.default_rng(6)
    y = np.repeat([0, 1, 2], 12)
    X = np.column_stack([rng.uniform(-3, 3, 36), 0.8 * y + rng.normal(0, 0.12, 36)])
    problem = sm.LMNNProblem.from_labels(X, y, n_neighbors=3)
    learned = sm.solve(problem, tol=1e-4).components
    turn = np.linalg.svd(learned)[0]
    Z = X @ (turn.T @ learned).T
    Z = Z[:, ::-1] * np.sign(np.corrcoef(Z[:, 0], X[:, 1])[0, 1])
    i = 12 + int(np.abs(X[12:24, 0]).argmin())
    targets = problem.target_pairs[1][problem.target_pairs[0] == i]
    figure, axes = plt.subplots(1, 2, figsize=(8.5, 3.9), layout="constrained")
    for axis, points, title in zip(
        axes, (X, Z), ("Euclidean distances", "learned distances"), strict=True
    ):
        count = neighborhood(axis, points, y, i, targets)
        axis.set_title(f"{title}: {count} impostors")
    ink = plt.rcParams["text.color"]
    handles = [
        Line2D([], [], marker="*", color=ink, linestyle="", markersize=11, label="an example"),
        Line2D(
            [],
            [],
            marker="o",
            color=PULL,
            fillstyle="none",
            linestyle="",
            label="target neighbor: pulled",
        ),
        Line2D(
            [],
            [],
            marker="o",
            color=PUSH,
            fillstyle="none",
            linestyle="",
            label="impostor: pushed",
        ),
        Line2D([], [], color=ink, linestyle="--", label="margin"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False)
    save(figure, f"idea{mode}")


def bars(mode: str) -> None:
    """How far above a proven bound packages end on wine, and their seconds on letters, from docs/measured/lmnn.md."""
    rows = [
        [cell.strip() for cell in line.strip("| \n").split("|")]
        for line in MEASURED.read_text().splitlines()
    ]
    names = {
        "factored": "sdpmetric",
        "metric_learn": "metric-learn",
        "pylmnn": "PyLMNN",
        "mlpack": "mlpack, AMSGrad",
    }
    names |= {"mlpack:optimizer=lbfgs": "mlpack, L-BFGS"}
    gaps = {
        row[1].replace("factored, target gap 1e-3", "sdpmetric"): float(row[3].rstrip(" %"))
        for row in rows
        if row[0] == "hinge" and row[1:2]
    }
    seconds = {
        "sdpmetric": next(
            float(row[6]) for row in rows if row[:3] == ["letters", "16000 x 16", "1e-03"]
        )
    }
    for row in rows:
        if row[0] == "letters" and row[1] in names:
            seconds[names[row[1]]] = STOPPED if row[2].startswith("stopped") else float(row[5])
    seconds = dict(sorted(seconds.items(), key=lambda item: item[1]))
    for name, found, title, unit in (
        ("gaps", gaps, "LMNN on wine: objective above a proven lower bound (log scale)", "%"),
        ("peers", seconds, "LMNN on letters (16,000 x 16): seconds (log scale)", "s"),
    ):
        figure, axis = plt.subplots(figsize=(7.5, 2.2), layout="constrained")
        places = np.arange(len(found))[::-1]
        axis.scatter(
            list(found.values()), places, s=60, color=[PULL, *["0.6"] * (len(found) - 1)]
        )
        for place, value in zip(places, found.values(), strict=True):
            text = (
                "stopped after 150 s"
                if unit == "s" and value == STOPPED
                else f"{value:.3g} {unit}"
            )
            axis.text(value * 1.3, place, text, va="center")
        axis.set(xscale="log", title=title, yticks=places, yticklabels=list(found), xticks=[])
        axis.set_xlim(min(found.values()) / 3, max(found.values()) * 9)
        axis.xaxis.set_tick_params(which="both", bottom=False, labelbottom=False)
        axis.spines[["top", "right", "bottom"]].set_visible(False)
        save(figure, f"{name}{mode}")


def parts(mode: str) -> None:
    """Problem, solver and certificate: what passes between them."""
    ink, paper = MODES[mode]
    figure, axis = plt.subplots(figsize=(9, 1.9), layout="constrained")
    boxes = {
        0.0: ("data and labels", "yours"),
        2.6: ("problem", "objective over all triplets"),
        5.2: ("solver", "sdpmetric, CVXPY, any package"),
        7.8: ("certificate", "objective, lower bound, gap"),
    }
    for x, (title, text) in boxes.items():
        axis.add_patch(
            FancyBboxPatch(
                (x, 0), 2.0, 1, boxstyle="round,pad=0.05", facecolor=paper, edgecolor=ink
            )
        )
        axis.text(x + 1, 0.64, title, ha="center", va="center", fontweight="bold")
        axis.text(x + 1, 0.3, text, ha="center", va="center", fontsize=7.5)
    arrow = {"arrowstyle": "-|>", "color": ink, "linewidth": 1.2}
    for x, text in ((2.08, ""), (4.68, ""), (7.28, "")):
        axis.annotate(text, (x + 0.46, 0.5), (x, 0.5), arrowprops=arrow)
    axis.text(7.5, 1.22, "metric, multipliers", ha="center", fontsize=7.5)
    axis.plot([3.6, 3.6, 8.8], [-0.06, -0.32, -0.32], color=PULL, linewidth=1.2)
    axis.annotate("", (8.8, -0.06), (8.8, -0.34), arrowprops=arrow | {"color": PULL})
    axis.text(
        6.2,
        -0.6,
        "computed by the problem from the data, whatever solver ran",
        ha="center",
        fontsize=8.5,
    )
    axis.set(xlim=(-0.2, 10.1), ylim=(-0.8, 1.45))
    axis.axis("off")
    save(figure, f"parts{mode}")


def bound(mode: str) -> None:
    """How a bound is made: from data to rows, losses, cone and bound, and the solver beside them."""
    ink, paper = MODES[mode]
    figure, axis = plt.subplots(figsize=(9, 2.7), layout="constrained")
    boxes = (
        ("data", "triplets, datasets", "examples, labels,\ncomparisons"),
        ("rows", "terms, triplets", "distances that a loss\nis about: listed or found"),
        ("losses", "losses", "value, slope,\nconjugate"),
        ("cone", "bounds", "slack matrix:\nis it PSD?"),
        ("bound", "core", "certificate:\ngap and grade"),
    )
    arrow = {"arrowstyle": "-|>", "color": ink, "linewidth": 1.2}
    for k, (title, folder, text) in enumerate(boxes):
        x = 2.1 * k
        axis.add_patch(
            FancyBboxPatch(
                (x, 0), 1.6, 1.3, boxstyle="round,pad=0.05", facecolor=paper, edgecolor=ink
            )
        )
        axis.text(x + 0.8, 1.08, title, ha="center", va="center", fontweight="bold")
        axis.text(x + 0.8, 0.56, text, ha="center", va="center", fontsize=7.5)
        axis.text(
            x + 0.8,
            0.1,
            folder,
            ha="center",
            va="center",
            fontsize=7,
            family="monospace",
            color=PULL,
        )
        if k:
            axis.annotate("", (x - 0.06, 0.65), (x - 0.44, 0.65), arrowprops=arrow)
    axis.add_patch(
        FancyBboxPatch(
            (2.1, -1.5), 3.7, 0.75, boxstyle="round,pad=0.05", facecolor=paper, edgecolor=PUSH
        )
    )
    axis.text(3.95, -1.0, "solver", ha="center", va="center", fontweight="bold")
    axis.text(
        3.95,
        -1.32,
        "solvers",
        ha="center",
        va="center",
        fontsize=7,
        family="monospace",
        color=PULL,
    )
    axis.annotate("", (3.95, -0.7), (3.95, -0.08), arrowprops=arrow)
    axis.text(4.05, -0.4, "objective and slopes", va="center", fontsize=7.5)
    axis.plot([5.85, 7.1], [-1.12, -1.12], color=PUSH, linewidth=1.2)
    axis.annotate("", (7.1, -0.08), (7.1, -1.14), arrowprops=arrow | {"color": PUSH})
    axis.text(7.2, -0.6, "metric and multipliers,\nfrom any solver", va="center", fontsize=7.5)
    axis.set(xlim=(-0.2, 10.3), ylim=(-1.65, 1.5))
    axis.axis("off")
    save(figure, f"bound{mode}")


def adapters(mode: str) -> None:
    """Recall on embeddings, from docs/measured/methods.md."""
    text = (
        MEASURED.with_name("methods.md")
        .read_text(encoding="utf-8")
        .split("## Adapters on embeddings")[1]
        .split("\n## ")[0]
    )
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line[:1] == "|"
    ]
    names, ways = (
        [row[0] for row in rows[2:]],
        {"raw": 1, "LMNN()": 2, "Adapter()": 3, "contrastive, best": 6},
    )
    figure, axis = plt.subplots(figsize=(7.2, 2.9), layout="constrained")
    for k, (way, column) in enumerate(ways.items()):
        heights = [float(row[column]) for row in rows[2:]]
        axis.scatter(
            np.arange(len(names)) + 0.2 * k,
            heights,
            s=36,
            label=way,
            color=COLORS[(5, 2, 0, 1)[k]],
        )
    axis.set(ylim=(70, 95), ylabel="recall at 1, %")
    axis.set_xticks(
        np.arange(len(names)) + 0.3, [name.replace(" ", "\n") for name in names], fontsize=8
    )
    axis.legend(ncols=4, loc="upper center", bbox_to_anchor=(0.5, 1.16), frameon=False)
    save(figure, f"adapters{mode}")


def given_distances(mode: str) -> None:
    """Distances of pairs that were not given, before and after."""
    rng = np.random.default_rng(0)
    X, root = rng.normal(size=(200, 5)), np.diag([3.0, 1.0, 1.0, 0.3, 0.0])
    pairs, others = rng.permutation(200).reshape(100, 2), rng.permutation(200).reshape(100, 2)
    d = np.linalg.norm((X[pairs[:, 0]] - X[pairs[:, 1]]) @ root, axis=1) * rng.uniform(
        0.9, 1.1, size=100
    )
    total = sm.terms.Pull(pairs) + sm.terms.Spread(pairs, weights=2 * d)
    L = sm.solve(sm.MetricProblem(X, total)).components
    v = X[others[:, 0]] - X[others[:, 1]]
    figure, axes = plt.subplots(1, 2, figsize=(7.2, 2.9), layout="constrained", sharey=True)
    truth = np.linalg.norm(v @ root, axis=1)
    for axis, A, color, what in zip(
        axes, (np.eye(5), L), (PUSH, PULL), ("Euclidean", "learned"), strict=True
    ):
        axis.plot(
            [0, truth.max()], [0, truth.max()], color=plt.rcParams["text.color"], linewidth=0.8
        )
        axis.scatter(truth, np.linalg.norm(v @ A.T, axis=1), s=14, color=color)
        axis.set(xlabel="true distance", title=what)
    axes[0].set_ylabel("distance")
    save(figure, f"given_distances{mode}")


def sums(mode: str) -> None:
    """Seconds of sums of terms from 1,500 comparisons, from docs/measured/lmnn.md."""
    text = MEASURED.read_text(encoding="utf-8").split("## Comparisons in 384 dimensions")[1]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line[:1] == "|"
    ][2:]
    rows.sort(key=lambda row: OPEN if row[3] == "no" else float(row[3]), reverse=True)
    figure, axis = plt.subplots(figsize=(7.5, 2.8), layout="constrained")
    for place, row in enumerate(rows):
        seconds = OPEN if row[3] == "no" else float(row[3])
        bar = axis.barh(place, seconds, color="0.6" if row[3] == "no" else PULL)
        axis.bar_label(
            bar, ["gap open after 30 s" if row[3] == "no" else f"{seconds:g} s"], padding=3
        )
    names = [
        row[0].split(": `")[0].replace("`", "").replace(", diagonal=True", "") for row in rows
    ]
    axis.set(yticks=range(len(rows)), yticklabels=names, xticks=[], xlim=(0, 1.35 * OPEN))
    axis.set_title("1,500 comparisons, 384 dimensions: seconds to a proven gap of 1e-3")
    axis.spines[["top", "right", "bottom"]].set_visible(False)
    save(figure, f"sums{mode}")


def main() -> None:
    """Draw all of them."""
    FOLDER.mkdir(exist_ok=True)
    plt.switch_backend("Agg")
    X, y = datasets.load("wine")
    X = datasets.standardize(X)
    problem = sm.LMNNProblem.from_labels(X, y, n_neighbors=3)
    fast, slow = sm.solve(problem), sm.solve(problem, solver="subgradient")
    for mode, (ink, paper) in MODES.items():
        colors = dict.fromkeys(
            ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"),
            ink,
        )
        faces = dict.fromkeys(
            ("figure.facecolor", "axes.facecolor", "savefig.facecolor"), paper
        )
        grid = {"grid.color": "#2b3138" if mode else "#ebebeb", "grid.linewidth": 0.7}
        with plt.rc_context(
            {"svg.hashsalt": "sdpmetric", "svg.fonttype": "none"} | colors | faces | grid
        ):
            idea(mode)
            bars(mode)
            parts(mode)
            bound(mode)
            adapters(mode)
            given_distances(mode)
            sums(mode)
            save(EmbeddingDisplay.from_solution(fast, X, y).figure_, f"embedding{mode}")
            closing = ConvergenceDisplay.from_solution(
                slow, against="iteration", name="LMNN on wine"
            )
            closing.ax_[0].set(xscale="log", xlim=(1, closing.positions[-1]), ylim=(0, 450))
            save(closing.figure_, f"interval{mode}")


if __name__ == "__main__":
    main()
