"""Fig. 8: a metric of its own for each of four digits, learned and seen in the two leading principal components."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA

import sdpmetric as sm
from lmnn_figs.digits import Digits, K
from sdpmetric.classification import knn_predict
from sdpmetric.plotting import COLORS

FOUR = (0, 1, 2, 4)
# Two, as in the paper, and more, to see what the plane leaves out.
DIMENSIONS = (2, 40)
# Points drawn of each digit.
POINTS = 200
# Half the longest axis of an ellipse, as a share of the data's extent.
SIZE = 0.16


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
            rows.append(f"| {dimensions} components | {name} | {got[0]:.2f} | {got[1]:.2f} {end}")
        if dimensions == min(DIMENSIONS):
            draw(A, y, several.metrics, output / "lmnn_figure8.png")
            for digit, M in zip(FOUR, several.metrics, strict=True):
                lengths, (across, up) = stretches(M)
                angle = np.degrees(np.arctan2(up, across)) % 180
                shapes.append(f"| {digit} | {lengths[0] / lengths[1]:.2f} | {angle:.0f} |")
    lines = [
        f"{digits.name}, the digits {', '.join(map(str, FOUR))}: {len(y):,} training and {len(y_test):,} test rows, "
        f"deskewed by `datasets.deskew`; principal components are those of these training rows. {K} target neighbors, "
        f"push weight 0.5, the four metrics learned together; kNN with k = {K}. The paper prints no errors, nor of "
        "which set the digits are.",
        "",
        "| | metric | test % | train % | objective | proven gap |",
        "| --- | --- | --- | --- | --- | --- |",
        *rows,
        "",
        "The ellipses, images of the unit circle under the local maps:",
        "",
        "| digit | longer axis over shorter | direction of the longer one, degrees |",
        "| --- | --- | --- |",
        *shapes,
    ]
    text = "\n".join(lines)
    (output / "lmnn_figure8.md").write_text(text + "\n")
    return text


def stretches(M: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How much the symmetric root of a 2 x 2 metric stretches its axes, the longer first, and the direction of that."""
    values, vectors = np.linalg.eigh(M)
    return np.sqrt(np.maximum(values[::-1], 0.0)), vectors[:, 1]


def draw(A: np.ndarray, y: np.ndarray, metrics: np.ndarray, path: Path) -> None:
    """The digits, and at the mean of each the image of the unit circle with a line along its longer axis."""
    drawn = np.random.default_rng(0)
    figure, ax = plt.subplots(figsize=(7.6, 6.4), layout="constrained")
    around = np.linspace(0, 2 * np.pi, 100)
    size = SIZE * np.ptp(A) / max(stretches(M)[0][0] for M in metrics)
    for digit, color, M in zip(FOUR, COLORS, metrics, strict=False):
        some = drawn.permutation(np.flatnonzero(y == digit))[:POINTS]
        ax.scatter(*A[some].T, s=9, color=color, alpha=0.35, linewidths=0)
        center, (lengths, axis) = A[y == digit].mean(axis=0), stretches(M)
        values, vectors = np.linalg.eigh(M)
        root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        ellipse = center[:, None] + size * root @ np.stack([np.cos(around), np.sin(around)])
        line = center + size * lengths[0] * np.outer([-1, 1], axis)
        ax.plot(*ellipse, color=color, linewidth=2)
        ax.plot(*line.T, color=color, linewidth=2)
        ax.annotate(str(digit), center, fontsize=16, weight="bold", ha="center", va="center")
    ax.set(aspect="equal", xlabel="first principal component", ylabel="second", xticks=[], yticks=[])
    figure.savefig(path, dpi=120)
    plt.close(figure)
