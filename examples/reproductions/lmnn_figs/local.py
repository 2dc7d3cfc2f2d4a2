"""Fig. 8: a metric of its own for each of four digits, seen in the three leading principal components."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patheffects import withStroke
from sklearn.decomposition import PCA

import sdpmetric as sm
from lmnn_figs.digits import Digits, K
from sdpmetric.classification import knn_predict
from sdpmetric.plotting import COLOURS, MetricDisplay

FOUR = (0, 1, 2, 4)
DIMENSIONS = (3, 40)
# Points drawn of each digit.
POINTS = 150
PLANES = ((0, 1), (0, 2), (1, 2))
# Radius of the ball that has the volume of the ellipsoids in space, as a share of the data's extent.
SIZE = 0.11


def figure8(digits: Digits, output: Path) -> str:
    """Write lmnn_figure8.md and .png; return the Markdown."""
    train, test = (np.isin(labels, FOUR) for labels in (digits.y, digits.y_test))
    X, y, y_test = digits.Z[train], digits.y[train], digits.y_test[test]
    rows, shapes = [], []
    for dimensions in sorted({min(d, X.shape[1]) for d in DIMENSIONS}):
        turn = PCA(dimensions, svd_solver="full").fit(X)
        A, B = turn.transform(X), turn.transform(digits.Z_test[test])

        def errors(
            L: np.ndarray, regions: np.ndarray | None = None, A: np.ndarray = A, B: np.ndarray = B
        ) -> list[float]:
            shown = ((B, y_test), (None, y))
            return [100 * float(np.mean(knn_predict(L, A, y, Q, K, regions=regions) != t)) for Q, t in shown]

        one = sm.solve(sm.LMNNProblem.from_labels(A, y, K, 0.5))
        problem = sm.MultiMetricLMNNProblem.from_labels(A, y, K, 0.5)
        several = sm.solve(problem)
        for name, found, got in (
            ("Euclidean", None, errors(np.eye(dimensions))),
            ("one metric", one, errors(one.components)),
            ("a metric for each digit", several, errors(several.components, problem.regions)),
        ):
            end = "| | |" if found is None else f"| {found.objective:,.0f} | {found.relative_gap:.0e} |"
            rows.append(f"| {dimensions} | {name} | not at hand | {got[0]:.2f} | {got[1]:.2f} {end}")
        if dimensions == min(DIMENSIONS):
            _draw(A, y, several, output / "lmnn_figure8.png")
            axes = [1 / np.sqrt(np.linalg.eigvalsh(M)) for M in several.metrics]
            sizes = [np.prod(three) ** (1 / 3) for three in axes]
            for digit, (longest, middle, shortest), size in zip(FOUR, axes, sizes, strict=True):
                ratios = (longest / shortest, middle / shortest, size / sizes[0])
                shapes.append(f"| {digit} | " + " | ".join(f"{ratio:.2f}" for ratio in ratios) + " |")
    lines = [
        f"{digits.name}, the digits {', '.join(map(str, FOUR))}: {len(y):,} training and {len(y_test):,} test rows, "
        f"deskewed by `datasets.deskew`; principal components are those of these training rows. {K} target neighbors, "
        f"push weight 0.5, the four metrics learned together; kNN with k = {K}.",
        "",
        "| dimensions | metric | paper | test % | train % | objective | proven gap |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        *rows,
        "",
        "The ellipsoids in three dimensions:",
        "",
        "| digit | longest axis over shortest | middle over shortest | geometric mean, of 0 being 1 |",
        "| --- | --- | --- | --- |",
        *shapes,
    ]
    text = "\n".join(lines)
    (output / "lmnn_figure8.md").write_text(text + "\n")
    return text


def _draw(A: np.ndarray, y: np.ndarray, solution: sm.Solution, path: Path) -> None:
    """The ellipsoids in space, and their sections in the three planes of two components."""
    drawn = np.random.default_rng(0)
    some = np.concatenate([drawn.permutation(np.flatnonzero(y == digit))[:POINTS] for digit in FOUR])
    figure = plt.figure(figsize=(11.0, 9.6), layout="constrained")
    space = figure.add_subplot(2, 2, 1, projection="3d", computed_zorder=False)
    points, labels = A[some], y[some]
    centers = np.array([points[labels == digit].mean(axis=0) for digit in FOUR])
    for digit, colour, center, M in zip(FOUR, COLOURS, centers, solution.metrics, strict=False):
        space.scatter(*points[labels == digit].T, s=9, color=colour, alpha=0.5, linewidths=0, depthshade=False)
        surface = SIZE * np.ptp(points) * ellipsoid(M) + center[:, None, None]
        space.plot_surface(*surface, color=colour, alpha=0.25, linewidth=0)
        space.plot_wireframe(*surface, color=colour, linewidth=0.6, rstride=6, cstride=4)
        halo = [withStroke(linewidth=3, foreground="white")]
        space.text(
            *center, str(digit), fontsize=14, weight="bold", ha="center", va="center", zorder=10, path_effects=halo
        )
    space.set(xticklabels=[], yticklabels=[], zticklabels=[], aspect="equal")
    space.set(**{f"{axis}label": f"component {n}" for n, axis in enumerate("xyz", 1)})
    space.set_title("ellipsoids of one volume", fontsize=10)
    space.set_box_aspect(None, zoom=1.0)
    for axis in (space.xaxis, space.yaxis, space.zaxis):
        axis.labelpad = -8
    for place, plane in enumerate(PLANES, 2):
        ax = figure.add_subplot(2, 2, place)
        names = [f"component {n + 1}" for n in plane]
        display = MetricDisplay(
            solution.metrics, points, labels, features=plane, centers=centers, names=(names[0], names[1])
        ).plot(ax)
        display.ax_.legend_.remove()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def ellipsoid(M: np.ndarray, steps: int = 24) -> np.ndarray:
    """Points at one distance from 0, scaled to the volume of the unit ball, (3, 2 * steps, steps)."""
    around, down = np.meshgrid(np.linspace(0, 2 * np.pi, 2 * steps), np.linspace(0, np.pi, steps), indexing="ij")
    ball = np.stack([np.cos(around) * np.sin(down), np.sin(around) * np.sin(down), np.cos(down)])
    values, vectors = np.linalg.eigh(M)
    halves = np.prod(values) ** (1 / 6) / np.sqrt(values)
    return np.einsum("ij,jab->iab", vectors * halves, ball)
