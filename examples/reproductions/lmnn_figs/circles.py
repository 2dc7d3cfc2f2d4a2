"""Fig. 7: concentric circles, which several metrics tell apart and no single one."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Circle, Ellipse

import sdpmetric as sm
from sdpmetric import classification, datasets
from sdpmetric.plotting import COLORS

CLUSTERS = (1, 2, 3, 4, 6, 8)
DIRECTIONS = (2, 3, 4)
DRAWN = (1, 4, 6)
# Weinberger and Saul (2009), Fig. 7: leave-one-out error on two circles by the number of clusters.
PAPER = {"1": "100", "2": "21", "3": "0"}


def figure7(output: Path) -> str:
    """Write lmnn_figure7.md and .png; return the Markdown."""
    made = [datasets.concentric_circles(2, 60, 10.0)[:2], datasets.concentric_circles()[:2]]
    rows = [("Euclidean", "", [_wrong(np.eye(2), X, y) for X, y in made])]
    gaps = []
    figure, axes = plt.subplots(1, len(DRAWN), figsize=(12.6, 4.9), layout="constrained")
    for kind, count in [("clusters of k-means", c) for c in CLUSTERS] + [("directions", c) for c in DIRECTIONS]:
        wrong = []
        for X, y in made:
            regions = {"regions": _directions(X, count)} if kind == "directions" else {"regions": "kmeans"}
            problem = sm.MultiMetricLMNNProblem.from_labels(X, y, 1, 0.9, n_regions=count, **regions)
            solution = sm.solve(problem, tol=1e-4)
            gaps.append(solution.relative_gap)
            wrong.append(_wrong(solution.components, X, y, problem.regions))
            if len(wrong) == 1 and kind != "directions" and count in DRAWN:
                draw(axes[DRAWN.index(count)], problem, solution, y, wrong[0])
        rows.append((str(count), "all examples" if count == 1 else kind, wrong))
    figure.supxlabel(
        "crosses: nearest neighbor of the other class; black: points at one distance from a region's mean; broken: "
        "Euclidean, same area",
        fontsize=9,
    )
    figure.savefig(output / "lmnn_figure7.png", dpi=120)
    plt.close(figure)
    lines = [
        "Circles of two classes (`datasets.concentric_circles`): two with 60 points each and radii 10 and 11, and four "
        "with 120 points each and radii 20 to 23, classes in turns. One target neighbor, push weight 0.9, all metrics "
        f"of a row learned together; largest proven gap {max(gaps):.0e}. Error of the nearest neighbor, every point "
        "left out in turn. A direction and its opposite are one.",
        "",
        "| metrics | one for each of the | paper, two circles, % | two circles, error % | four circles, error % |",
        "| --- | --- | --- | --- | --- |",
        *(
            f"| {metrics} | {kind} | {PAPER.get(metrics, 'not printed') if kind != 'directions' else 'not printed'} "
            f"| {100 * two.mean():.1f} | {100 * four.mean():.1f} |"
            for metrics, kind, (two, four) in rows
        ),
    ]
    text = "\n".join(lines)
    (output / "lmnn_figure7.md").write_text(text + "\n")
    return text


def _directions(X: np.ndarray, count: int) -> np.ndarray:
    """Equal shares of the directions; a metric does not tell a direction from its opposite."""
    return (np.arctan2(X[:, 1], X[:, 0]) % np.pi * count / np.pi).astype(int)


def _wrong(components: np.ndarray, X: np.ndarray, y: np.ndarray, regions: np.ndarray | None = None) -> np.ndarray:
    return classification.knn_predict(components, X, y, n_neighbors=1, regions=regions) != y


def draw(
    ax: plt.Axes, problem: sm.MultiMetricLMNNProblem, solution: sm.Solution, y: np.ndarray, wrong: np.ndarray
) -> None:
    X, regions = problem.X, problem.regions
    centers = np.array([X[regions == region].mean(axis=0) for region in range(problem.n_regions)])
    for c, label in enumerate(np.unique(y)):
        ax.scatter(*X[y == label].T, s=15, color=COLORS[c], alpha=0.6, linewidths=0)
    radius = 0.12 * np.ptp(X)
    for center, L in zip(centers, solution.components.reshape(len(centers), -1, 2), strict=True):
        values, vectors = np.linalg.eigh(L.T @ L)
        halves = np.maximum(values, 1e-3 * values[-1]) ** -0.5  # a singular metric has an unbounded ellipse
        halves *= radius / np.sqrt(halves.prod())
        angle = np.degrees(np.arctan2(vectors[1, 0], vectors[0, 0]))
        ax.add_artist(Ellipse(center, *(2 * halves), angle=angle, fill=False, linewidth=2))
        ax.add_artist(Circle(center, radius, fill=False, linestyle="--", edgecolor="0.5"))
    ax.scatter(*X[wrong].T, s=22, color="black", marker="x", linewidths=0.8, zorder=5)
    many = f"{problem.n_regions} metrics" if problem.n_regions > 1 else "1 metric"
    ax.set(title=f"{many}: {wrong.sum()} of {len(y)} wrong", xlabel="", ylabel="", xticks=[], yticks=[])
    reach = 1.25 * np.abs(X).max()
    ax.set_aspect("equal", adjustable="box")
    ax.set(xlim=(-reach, reach), ylim=(-reach, reach))
    ax.spines[:].set_visible(False)
