"""Metrics as ellipses: the points at one distance from a center."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.core.solution import Solution
from sdpmetric.plotting.style import Display, feature_names, ink, look, metric_step, names_seen, steps_of, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# The ellipses have the area of a circle whose diameter is this share of the data's extent.
SHARE = 0.3


@dataclass(eq=False, repr=False)
class MetricDisplay(Display):
    """Ellipses of the points at one distance from a center, in the plane of two features.

    The ellipses are sections: the other features have the values of the center. A long axis is a direction of small
    weight. The dashed circle is that of the Euclidean distance, with the same area.

    Parameters
    ----------
    metrics : (c, d, d) array
        PSD matrices.
    X : (n, d) array
        Examples to draw.
    y : (n,) array or None
        Their labels.
    features : pair of int
        The plane.
    centers : (c, d) array
        Centers of the ellipses, one for each metric.
    names : pair of str
        Names of the features.

    Attributes
    ----------
    ax_, figure_ : Axes, and Figure

    See Also
    --------
    EmbeddingDisplay, FeaturesDisplay

    Examples
    --------
    >>> import sdpmetric as sm
    >>> X, y = sm.datasets.load("iris")
    >>> solution = sm.solve(sm.LMNNProblem.from_labels(X, y))
    >>> sm.plotting.MetricDisplay.from_solution(solution, X, y, features=(0, 2)).sections.shape
    (1, 2, 2)
    """

    metrics: FloatArray
    X: FloatArray
    y: NDArray[np.generic] | None
    features: tuple[int, int] = field(kw_only=True)
    centers: FloatArray = field(kw_only=True)
    names: tuple[str, str] = field(kw_only=True)
    ax_: Axes = field(init=False)

    @classmethod
    def from_estimator(
        cls,
        learned: object,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        features: tuple[int, int] = (0, 1),
        centers: ArrayLike | None = None,
        ax: Axes | None = None,
    ) -> MetricDisplay:
        """Draw the metric or the metrics that were learned over data.

        Parameters
        ----------
        learned : estimator with ``components_``, a pipeline with one, or Solution
            For a pipeline, X and the ellipses are the examples as the metric's step receives them.
        X : (n, d) array
        y : (n,) array, optional
            Labels, for the colors.
        features : pair of int, default (0, 1)
        centers : (c, d) array, optional
            One center for each metric; default: the mean of the data. Several metrics are all drawn there, unless
            they are as many as there are labels in `y`: then each is drawn at the mean of its class.
        ax : Axes, optional
        """
        if hasattr(learned, "fit"):
            check_is_fitted(learned)
        names_at_fit = names_seen(learned) if hasattr(learned, "steps") else getattr(X, "columns", names_seen(learned))
        metric_estimator, received = metric_step(learned, X)
        learned = steps_of(metric_estimator)[0]
        components = learned.components if isinstance(learned, Solution) else getattr(learned, "components_", None)
        if components is None:
            raise ValueError(f"{type(learned).__name__} has no components_; pass a metric learner.")
        data = np.asarray(validation.check_data(received), dtype=np.float64)
        L = np.asarray(components, dtype=np.float64)
        L = L if L.ndim == 3 else L[None]
        d = data.shape[1]
        if L.ndim != 3 or L.shape[2] != d:
            raise ValueError(
                f"components have shape {np.shape(components)}, and X {d} features; pass the features that the metric "
                "is for. A metric in the feature space of a kernel cannot be drawn."
            )
        if d == 1:
            raise ValueError("X has one feature; an ellipse needs two.")
        are_rows = all(isinstance(feature, int | np.integer) and 0 <= feature < d for feature in features)
        if len(features) != 2 or not are_rows or features[0] == features[1]:
            raise ValueError(f"features must be two different integers from 0 to {d - 1}, got {features!r}.")
        first, second = (int(feature) for feature in features)
        labels = None if y is None else np.asarray(y).ravel()
        if labels is not None:
            validation.check_count("y", len(labels), len(data))
        if centers is not None:
            origins = validation.check_matrix("centers", centers, (len(L), d), "a row for each metric")
        else:
            means = _class_means(data, labels)
            origins = means if len(L) == len(means) > 1 else np.tile(data.mean(axis=0), (len(L), 1))
        names = feature_names(names_at_fit, d, "feature ")
        metrics, pair = np.swapaxes(L, 1, 2) @ L, (names[first], names[second])
        return cls(metrics, data, labels, features=(first, second), centers=origins, names=pair).plot(ax)

    from_solution = from_estimator

    @property
    def sections(self) -> FloatArray:
        """The metrics of the plane, (c, 2, 2)."""
        plane = list(self.features)
        return np.asarray(self.metrics[:, plane][:, :, plane])

    @property
    def extent(self) -> float:
        """The larger of the two ranges of the data in the plane; 1 where all examples are equal there."""
        return float(np.ptp(self.X[:, list(self.features)], axis=0).max()) or 1.0

    @property
    def axes(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Half axes (c, 2), the shorter one first, their directions (c, 2, 2) as columns, and distances (c,)."""
        values, vectors = np.linalg.eigh(self.sections)
        # Below this share of the trace they are rounding errors.
        values[values < 1e-12 * np.trace(self.metrics, axis1=1, axis2=2)[:, None]] = 0.0
        values, vectors = values[:, ::-1], vectors[:, :, ::-1]
        # A semi-axis of an ellipse is at most this many times the extent of the data, also where the metric is 0.
        circle, longest = SHARE * self.extent / 2, 1.5 * self.extent
        top = np.maximum(values[:, 0], np.finfo(float).tiny)
        ratio = np.clip(values[:, 1] / top, (circle / longest) ** 4, 1.0)  # squared ratio of the half axes
        short = circle * ratio**0.25
        halves = np.stack([short, short / np.sqrt(ratio)], axis=1)
        return halves, vectors, short * np.sqrt(values[:, 0])

    @property
    def classes(self) -> list[str] | None:
        """The labels, if there is a metric for each and it is drawn at the mean of its class; None otherwise."""
        means = _class_means(self.X, self.y)
        if self.y is None or not 1 < len(means) == len(self.centers) or not np.allclose(self.centers, means):
            return None
        return [str(label) for label in np.unique(self.y).tolist()]

    @property
    def radii(self) -> FloatArray:
        """The distances that the ellipses show, (c,); all ellipses have the same area."""
        return self.axes[2]

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw on `ax`, or on new axes; return the display."""
        (axes,) = self._axes(ax, 1, (6.4, 5.4))
        from matplotlib.patches import Circle, Ellipse

        self.ax_ = axes
        points = self.X[:, list(self.features)]
        labels = np.zeros(len(points)) if self.y is None else self.y
        size = float(np.clip(12000 / len(points), 12, 30))
        for c, label in enumerate(np.unique(labels)):
            members = points[labels == label]
            (color, marker), name = look(c), None if self.y is None else str(label)
            x, y = members.T
            axes.scatter(x, y, size, linewidths=0, alpha=0.6, color=color, marker=marker, label=name)
        classes, several = self.classes, len(self.metrics) > 1
        names = [f"metric of {c}" for c in classes] if classes else [f"metric {c}" for c in range(len(self.metrics))]
        origins = self.centers[:, list(self.features)]
        shape = {"fill": False, "zorder": 3}
        for c, (half, vectors, radius) in enumerate(zip(*self.axes, strict=True)):
            angle = float(np.degrees(np.arctan2(vectors[1, 0], vectors[0, 0])))
            # Colors stand for classes; a metric that belongs to no class is black.
            color = look(c)[0] if classes else ink()
            ellipse = Ellipse(origins[c], *(2 * half), angle=angle, edgecolor=color, linewidth=2.2, **shape)
            ellipse.set_label(f"{names[c]}: distance {radius:.3g}" if several else f"distance {radius:.3g}")
            circle = Circle(origins[c], SHARE * self.extent / 2, edgecolor="0.5", linestyle="--", linewidth=1, **shape)
            circle.set_label("Euclidean, same area" if c == len(origins) - 1 else None)
            for patch in (ellipse, circle) if radius > 0 else (circle,):
                axes.add_artist(
                    patch
                )  # unlike add_patch, this keeps the limits: the ellipse of a singular metric is unbounded
            reach = np.minimum(np.linalg.norm(vectors * half, axis=1), self.extent)
            axes.update_datalim([origins[c] - reach, origins[c] + reach])
            zero = None if radius > 0 else f"{names[c]} is 0 here" if several else "the metric is 0 here"
            axes.plot(*origins[c], "+", color=color, markersize=9, markeredgewidth=1.6, zorder=4, label=zero)
        axes.set(xlabel=self.names[0], ylabel=self.names[1])
        axes.set_aspect("equal", adjustable="datalim")
        axes.autoscale_view()
        tidy(axes)
        axes.legend(fontsize="small", frameon=False, loc="center left", bbox_to_anchor=(1.01, 0.5))
        return self


def _class_means(X: FloatArray, y: NDArray[np.generic] | None) -> FloatArray:
    labels = np.zeros(0) if y is None else np.unique(y)
    return np.array([X[y == label].mean(axis=0) for label in labels]).reshape(len(labels), X.shape[1])
