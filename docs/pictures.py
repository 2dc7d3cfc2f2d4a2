"""Draw the stored pictures of the README and the pages: ``python docs/pictures.py`` writes them to docs/pictures."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Ellipse

import sdpmetric as sm
from sdpmetric import datasets
from sdpmetric.plotting import COLOURS, ConvergenceDisplay, EmbeddingDisplay

FOLDER = Path(__file__).parent / "pictures"


def save(figure: Figure, name: str) -> None:
    """Write an SVG file that is the same whenever it is drawn."""
    figure.savefig(FOLDER / f"{name}.svg", metadata={"Date": None}, facecolor="white", bbox_inches="tight")
    plt.close(figure)
    path = FOLDER / f"{name}.svg"
    path.write_text("\n".join(line.rstrip() for line in path.read_text().splitlines()) + "\n")


def idea() -> None:
    """One example, its target neighbors and impostors, under two metrics: data that differ in one direction only."""
    rng = np.random.default_rng(6)
    y = np.repeat([0, 1, 2], 12)
    X = np.column_stack([rng.uniform(-3, 3, 36), 0.8 * y + rng.normal(0, 0.12, 36)])
    M = sm.solve(sm.LMNNProblem.from_labels(X, y, n_neighbors=3), tol=1e-4).metric
    i = 12 + int(np.abs(X[12:24, 0]).argmin())
    same = np.flatnonzero((y == y[i]) & (np.arange(36) != i))
    figure, axes = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained", sharex=True, sharey=True)
    for axis, metric, title in ((axes[0], np.eye(2), "Euclidean metric"), (axes[1], M, "learned metric")):
        distances = np.einsum("nd,de,ne->n", X - X[i], metric, X - X[i])
        near = same[np.argsort(distances[same])[:3]]
        radius = np.sqrt(distances[near].max())
        inside = np.flatnonzero((y != y[i]) & (distances <= radius**2))
        values, vectors = np.linalg.eigh(metric)
        width, height = 2 * radius / np.sqrt(np.maximum(values, 1e-2 * values.max()))
        angle = np.degrees(np.arctan2(vectors[1, 0], vectors[0, 0]))
        ball = Circle(X[i], radius) if metric is not M else Ellipse(X[i], width, height, angle=angle)
        ball.set(facecolor="0.93", edgecolor="0.5", zorder=0)
        axis.add_patch(ball)
        for c in range(3):
            axis.scatter(*X[y == c].T, s=30, color=COLOURS[c], marker="o^s"[c], linewidths=0)
        for j in near:
            axis.plot(*X[[i, j]].T, color="black", linewidth=1)
        axis.scatter(*X[inside].T, s=90, facecolors="none", edgecolors="black", linewidths=0.8)
        axis.plot(*X[i], "*", color="black", markersize=12, markeredgecolor="white")
        axis.set(title=f"{title}: {len(inside)} impostors", aspect="equal", xlim=(-3.4, 3.4), ylim=(-1.1, 2.7))
        axis.set(xticks=[], yticks=[])
    save(figure, "idea")


def decisions() -> None:
    """Distances of pairs with the guaranteed threshold, and an embedding in which open labels are hollow."""
    X, y = datasets.load("digits")
    X = datasets.reduce(X, 20)
    rng = np.random.default_rng(0)
    rows = rng.permutation(len(X))
    learned, others = rows[:600], rows[600:]
    L = sm.solve(sm.LMNNProblem.from_labels(X[learned], y[learned])).components
    pairs = others[rng.permutation(len(others))][: len(others) // 2 * 2].reshape(
        -1, 2
    )  # no two have an example in common
    mates = [rng.permutation(others[y[others] == c])[:100].reshape(-1, 2) for c in range(10)]
    pairs = np.concatenate([pairs[y[pairs[:, 0]] != y[pairs[:, 1]]], *mates])
    same = y[pairs[:, 0]] == y[pairs[:, 1]]
    D = np.linalg.norm((X[pairs[:, 0]] - X[pairs[:, 1]]) @ L.T, axis=1)
    found = sm.guaranteed_threshold(D, same, alpha=0.02)
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
    bins = np.linspace(0.0, D.max(), 45)
    for kind, color, label in ((True, COLOURS[0], "same digit"), (False, COLOURS[1], "different")):
        axes[0].hist(D[same == kind], bins, density=True, alpha=0.6, color=color, label=label)
    axes[0].axvline(found.threshold, color="black", linewidth=1)
    axes[0].set(title=f"at most {found.alpha:.0%} false matches, with confidence 95 %", xlabel="distance", yticks=[])
    axes[0].legend(frameon=False, title=f"{found.n_errors} of {found.n_of} different\npairs are matches")
    X, y = datasets.load("wine")
    X = datasets.standardize(X)
    solution = sm.solve(sm.FrobeniusLMNNProblem.from_labels(X, y, frobenius=10.0), tol=1e-4)
    label = sm.near_optimal(solution).labels(X, y)
    Z = X @ solution.leading(2, X).T
    for c in range(3):
        for settled in (True, False):
            some = (y == c) & (label.settled == settled)
            axes[1].scatter(*Z[some].T, s=30, facecolors=COLOURS[c] if settled else "none", edgecolors=COLOURS[c])
    n_open = int((~label.settled).sum())
    axes[1].set(
        title=f"proven gap {solution.relative_gap:.0e}: {n_open} of {len(X)} labels are open", xticks=[], yticks=[]
    )
    save(figure, "decisions")


def main() -> None:
    """Draw all of them."""
    FOLDER.mkdir(exist_ok=True)
    plt.switch_backend("Agg")
    plt.rcParams.update({"svg.hashsalt": "sdpmetric", "svg.fonttype": "none"})
    idea()
    decisions()
    X, y = datasets.load("wine")
    X = datasets.standardize(X)
    problem = sm.LMNNProblem.from_labels(X, y, n_neighbors=3)
    save(EmbeddingDisplay.from_solution(sm.solve(problem), X, y).figure_, "embedding")
    slow = sm.solve(problem, solver="subgradient")
    closing = ConvergenceDisplay.from_solution(slow, against="iteration", name="LMNN on wine")
    closing.ax_[0].set(xscale="log", xlim=(1, closing.at[-1]), ylim=(0, 450))
    save(closing.figure_, "interval")


if __name__ == "__main__":
    main()
