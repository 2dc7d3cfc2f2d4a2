"""Concentric circles need several metrics
=======================================

Several metrics where one cannot do it: the concentric circles of Weinberger and Saul (2009),
Fig. 7.

The circles, of alternating classes, are nearer to each other than the points of one circle.
The radius must be stretched, and no linear map does that everywhere: with one metric every
nearest neighbor is of the wrong class. With one metric for each half of the directions the
error falls, and with one for each third it is 0. Each answer is proven to be the optimum of
its program (section 5.2, Eq. 16), to a relative gap of 1e-4.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Ellipse

import sdpmetric as sm
from sdpmetric import classification, datasets
from sdpmetric.plotting import COLORS, STYLE

plt.style.use(STYLE)

COLORS = np.array(COLORS[:2])


def unit_ball(M: np.ndarray, center: np.ndarray) -> Ellipse:
    """The points at distance 1 from the center."""
    values, vectors = np.linalg.eigh(M)
    width, height = 2 / np.sqrt(np.maximum(values, 1e-3))
    angle = np.degrees(np.arctan2(vectors[1, 0], vectors[0, 0]))
    return Ellipse(center, width, height, angle=angle, fill=False, color="0.3", linewidth=1.2)


# %%
# One, two and three metrics, each for a sector of the directions.
X, y, _ = datasets.concentric_circles()
direction = np.arctan2(X[:, 1], X[:, 0]) % np.pi / np.pi
figure, axes = plt.subplots(1, 3, figsize=(12, 4.3), layout="constrained")
for count, axis in zip((1, 2, 3), axes, strict=True):
    regions = (direction * count).astype(int)
    problem = sm.MultiMetricLMNNProblem.from_labels(X, y, 1, push_weight=0.9, regions=regions)
    solution = sm.solve(problem, tol=1e-4)
    predicted = classification.knn_predict(
        solution.components, X, y, n_neighbors=1, regions=regions
    )
    error = np.mean(predicted != y)
    print(f"{count} metrics: leave-one-out error {error:.1%}; {solution}")
    wrong = predicted != y
    axis.scatter(*X[~wrong].T, s=9, color=COLORS[y[~wrong]])
    axis.scatter(*X[wrong].T, s=14, color=COLORS[y[wrong]], marker="x", linewidth=0.9)
    for region, M in enumerate(solution.metrics):
        angle = np.pi * (region + 0.5) / count
        axis.add_patch(
            unit_ball(0.05 * M, 8 * np.array([np.cos(angle), np.sin(angle)]) * (count > 1))
        )
    axis.set(
        title=f"{count} metric{'s' * (count > 1)}: error {error:.0%}",
        aspect="equal",
        xticks=[],
        yticks=[],
    )
figure.supxlabel(
    "crosses: nearest neighbor of the other class; ellipses: the metrics' unit balls, enlarged"
)
plt.show()
