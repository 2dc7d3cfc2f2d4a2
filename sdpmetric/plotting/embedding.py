"""Examples before and after a metric was learned, with impostors marked, and distances of pairs with a threshold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist
from sklearn.metrics import roc_auc_score, roc_curve

from sdpmetric import classification
from sdpmetric.arrays import FloatArray, IndexArray
from sdpmetric.core import pairs, text, validation
from sdpmetric.core.pairs import pairs_of_labels
from sdpmetric.core.solution import Solution
from sdpmetric.linalg.distances import distances
from sdpmetric.plotting.style import Display, Learned, before_and_after, ink, look, solution_of, tidy

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

# Label of the second axis of one-dimensional data.
CLASS = "class"


@dataclass(frozen=True, eq=False)
class View:
    """Examples under one metric, and as they are drawn in the plane."""

    Z: FloatArray  # (n, r)
    points: FloatArray  # (n, 2)
    index: NDArray[np.integer]  # (n,), classes
    targets: IndexArray  # (n, k)
    kind: str  # of axes

    def impostors(self, rows: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Return whether each example is an impostor of each of some rows, (m, n)."""
        D = cdist(self.Z[rows], self.Z, "sqeuclidean")
        reach = np.take_along_axis(D, self.targets[rows], axis=1).max(axis=1, keepdims=True)
        return np.asarray((reach >= D) & (self.index[rows, None] != self.index))

    @property
    def invaders(self) -> NDArray[np.bool_]:
        """Whether each example is an impostor of any other one, (n,)."""
        blocks = np.array_split(np.arange(len(self.Z)), -(-len(self.Z) // 256))
        return np.asarray(np.any([self.impostors(rows).any(axis=0) for rows in blocks], axis=0))

    @property
    def accuracy(self) -> float:
        """Share of examples classified right by their nearest neighbors in all dimensions, without themselves."""
        predicted = classification.knn_predict(np.eye(self.Z.shape[1]), self.Z, self.index, None, self.targets.shape[1])
        return float(np.mean(predicted == self.index))


@dataclass(eq=False, repr=False)
class EmbeddingDisplay(Display):
    """Examples before and after learning, with impostors ringed.

    More than two dimensions are drawn in their two leading principal components. The learned embedding is rotated and
    reflected to match the first picture as closely as possible. An impostor is an example of another class that is at
    most as far away as the furthest of the `n_neighbors` target neighbors, the nearest examples of the own class before
    learning (Weinberger and Saul 2009, Fig. 1) [WS2009]; the margin is ignored, since it has no meaning before
    learning.

    Parameters
    ----------
    before, after : View
    y : (n,) array
        Labels.
    gap : float
        Relative gap of the metric; NaN if it has none.

    Attributes
    ----------
    ax_, figure_ : list of two Axes, and Figure

    Examples
    --------
    >>> import sdpmetric as sm
    >>> X, y = sm.datasets.load("iris")
    >>> solution = sm.solve(sm.LMNNProblem.from_labels(X, y))
    >>> len(sm.plotting.EmbeddingDisplay.from_solution(solution, X, y).ax_)
    2
    """

    before: View
    after: View
    y: NDArray[np.generic]
    gap: float = math.nan

    @classmethod
    def from_estimator(
        cls,
        learned: Learned,
        X: ArrayLike,
        y: ArrayLike,
        *,
        n_neighbors: int = 3,
        example: int | None = None,
        ax: Sequence[Axes] | None = None,
    ) -> EmbeddingDisplay:
        """Draw labeled examples before and after learning.

        Parameters
        ----------
        learned : estimator with ``transform``, or Solution
            Any transformer, of this package or another. In a pipeline, *before* is the input of the metric's step.
        X : (n, d) array
        y : (n,) array
        n_neighbors : int, default 3
            Target neighbors; every class needs more members than this.
        example, ax
            As in `plot`.
        """
        data, Z = before_and_after(learned, X)
        classes, index = validation.check_labels(y, len(data))
        validation.check_class_sizes(classes, index, n_neighbors)
        targets = pairs.target_neighbors(data, index, n_neighbors)
        before, after = _plane(data, index), _plane(Z, index)
        if Z.shape[1] > 1:  # rotations and reflections do not change an embedding
            u, _, vt = np.linalg.svd((after - after.mean(axis=0)).T @ (before - before.mean(axis=0)))
            after = after @ u @ vt
        kind = "feature" if data.shape[1] <= 2 else "principal component"
        first, second = View(data, before, index, targets, kind), View(Z, after, index, targets, "learned direction")
        return cls(first, second, np.asarray(y).ravel(), _proven(learned)).plot(ax, example=example)

    from_solution = from_estimator

    def plot(self, ax: Sequence[Axes] | None = None, *, example: int | None = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : two Axes, optional
            For before and after; default: new axes side by side.
        example : int, optional
            Join this example to its target neighbors by solid lines and to its impostors by broken lines.

        Raises
        ------
        ValueError
            If `example` is no row.
        """
        is_row = validation.is_integer(example)
        if example is not None and not (is_row and 0 <= example < len(self.y)):
            raise ValueError(f"example must be a row from 0 to {len(self.y) - 1}, got {example!r}.")
        self._set_axes(ax, (9, 4))
        from matplotlib.collections import PathCollection

        gap = f"\nrelative gap {text.scientific(self.gap, 1)}" if math.isfinite(self.gap) else ""
        entries: dict[str, Artist] = {}
        for axes, view, stage in zip(self.ax_, (self.before, self.after), ("before", "after"), strict=True):
            invaders = view.invaders
            self._draw(axes, view, invaders)
            axes.set_title(
                f"{stage}: {invaders.sum():,} of {len(self.y):,} examples are impostors\n"
                f"{view.accuracy:.1%} training accuracy of nearest neighbors{gap if view is self.after else ''}",
                fontsize="medium",
            )
            if example is not None:
                _join(axes, view, example)
            handles, labels = axes.get_legend_handles_labels()
            entries |= dict(zip(map(str, labels), handles, strict=True))
        if len(np.unique(self.y)) <= 20:
            place = {"loc": "center left", "bbox_to_anchor": (1, 0.5)}
            legend = self.ax_[1].legend(list(entries.values()), list(entries), fontsize="small", frameon=False, **place)
            for handle in legend.legend_handles:
                if isinstance(handle, PathCollection):  # points may be small and faint
                    handle.set_sizes([36])
                    handle.set_alpha(1)
        return self

    def _draw(self, axes: Axes, view: View, invaders: NDArray[np.bool_]) -> None:
        size, faint = float(np.clip(12000 / len(self.y), 6, 30)), float(np.sqrt(1000 / max(len(self.y), 1000)))
        classes = np.unique(self.y)
        for c, label in enumerate(classes):
            x, y = view.points[self.y == label].T
            color, marker = look(c)
            axes.scatter(x, y, size, color=color, marker=marker, linewidths=0, alpha=faint, label=label, zorder=2)
        if invaders.any():
            x, y = view.points[invaders].T
            rings = axes.scatter(x, y, 3 * size, facecolors="none", edgecolors=ink(), linewidths=0.5, zorder=3)
            rings.set(alpha=faint, label="impostor")
        if view.Z.shape[1] == 1:
            axes.set(xlabel=view.kind, ylabel=CLASS, ylim=(-1, len(classes)))
            axes.set_yticks(np.arange(len(classes)), [str(label) for label in classes])
        else:
            axes.set(xlabel=f"first {view.kind}", ylabel=f"second {view.kind}")
            axes.set_aspect("equal", adjustable="datalim")
        tidy(axes)


def _join(axes: Axes, view: View, example: int) -> None:
    impostors = np.flatnonzero(view.impostors(np.array([example]))[0])
    lines = (view.targets[example], "-", "to target neighbors"), (impostors, ":", "to its impostors")
    for rows, style, name in lines:
        for number, row in enumerate(rows):
            label = name if number == 0 else None
            axes.plot(*view.points[[example, row]].T, style, color=ink(), zorder=4, label=label)
    (star,) = axes.plot(*view.points[example], "*", color=ink(), zorder=5, label="the example")
    star.set(markersize=13, markeredgecolor=axes.get_facecolor())


def _proven(learned: object) -> float:
    """Return the relative gap of a solution, an estimator or a pipeline; NaN if it has none."""
    try:
        return solution_of(learned).relative_gap
    except ValueError:
        return math.nan


def _plane(P: FloatArray, index: IndexArray) -> FloatArray:
    """Project points to their two leading principal components; in one dimension, draw classes above each other."""
    if P.shape[1] == 1:
        return np.column_stack([P[:, 0], index])
    if P.shape[1] == 2:
        return P
    centered = P - P.mean(axis=0)
    axes = np.linalg.eigh(centered.T @ centered)[1][:, [-1, -2]]
    return np.asarray(centered @ (axes * np.sign(axes[np.abs(axes).argmax(axis=0), [0, 1]])))  # fixes their signs


@dataclass(eq=False, repr=False)
class DistancesDisplay(Display):
    """Learned distances of similar and of dissimilar pairs.

    Parameters
    ----------
    before, after : (p,) arrays
        Distances before and after learning; not squared.
    similar : (p,) array of bool
    threshold : float, optional
        Default: the one of the highest balanced accuracy.

    Attributes
    ----------
    ax_, figure_ : list of two Axes, and Figure

    Examples
    --------
    >>> import sdpmetric as sm
    >>> X, y = sm.datasets.load("iris")
    >>> solution = sm.solve(sm.LMNNProblem.from_labels(X, y))
    >>> before, after = sm.plotting.DistancesDisplay.from_solution(solution, X, y, random_state=0).areas
    >>> after > before
    True
    """

    before: FloatArray
    after: FloatArray
    similar: NDArray[np.bool_]
    threshold: float = math.nan

    def __post_init__(self) -> None:
        if math.isnan(self.threshold):
            false, true, levels = roc_curve(~self.similar, self.after, drop_intermediate=False)
            self.threshold = float(levels[np.argmax(true - false)])

    @property
    def areas(self) -> tuple[float, float]:
        """Area under the ROC curve of distances as a test of "dissimilar", before and after."""
        before, after = (float(roc_auc_score(~self.similar, lengths)) for lengths in (self.before, self.after))
        return before, after

    @classmethod
    def from_estimator(
        cls,
        learned: Learned,
        X: ArrayLike,
        y: ArrayLike,
        *,
        n_pairs: int | None = 10_000,
        threshold: float | None = None,
        random_state: int | None = None,
        ax: Sequence[Axes] | None = None,
    ) -> DistancesDisplay:
        """Draw distances of labeled examples before and after learning.

        Parameters
        ----------
        learned : estimator with ``transform``, a pipeline with one, or Solution
            In a pipeline, *before* is the input of the metric's step.
        X : (n, d) array
        y : (n,) array
            Two examples are similar if they have the same label.
        n_pairs : int or None, default 10000
            Most pairs of each kind to draw; all pairs if None.
        threshold : float, optional
            Largest distance of a similar pair; POLA's is the root of its ``threshold_``. Default: that of a solution
            that has one, else the one of the highest balanced accuracy.
        random_state : int, optional
            Seed of the draw.
        ax
            As in `plot`.
        """
        if threshold is None and isinstance(learned, Solution) and "threshold" in learned.extras:
            threshold = float(np.sqrt(learned.extras["threshold"]))
        data, Z = before_and_after(learned, X)
        _, index = validation.check_labels(y, len(data))
        pairs, similar = pairs_of_labels(index, n_pairs, random_state)
        first, second = pairs[:, 0], pairs[:, 1]
        before, after = (np.sqrt(distances(P, first, second)) for P in (data, np.ascontiguousarray(Z)))
        return cls(before, after, similar, math.nan if threshold is None else threshold).plot(ax)

    from_solution = from_estimator

    def plot(self, ax: Sequence[Axes] | None = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : two Axes, optional
            For the histograms and the ROC curve; default: new axes side by side.
        """
        histogram, roc = self._set_axes(ax, (10, 4))
        self._draw_histogram(histogram)
        self._draw_roc(roc)
        for axes in self.ax_:
            tidy(axes)
            axes.legend(fontsize="small", frameon=False)
        return self

    def _draw_histogram(self, axes: Axes) -> None:
        # Lines show the distances before, scaled to the mean of the learned distances.
        before = self.before * (float(self.after.mean()) / (float(self.before.mean()) or 1.0))
        top = float(np.quantile(np.concatenate([self.after, before]), 0.995)) or 1.0
        edges = np.linspace(0.0, top, 41).tolist()
        for c, (name, mask) in enumerate((("same class", self.similar), ("other class", ~self.similar))):
            color = look(c)[0]
            axes.hist(self.after[mask], edges, density=True, color=color, alpha=0.5, label=name)
            heights, _ = np.histogram(before[mask], edges, density=True)
            axes.stairs(heights, edges, color=color, linestyle=":", label=f"{name}, before")
        accuracy = np.mean((self.after <= self.threshold) == self.similar)
        level = f"threshold {self.threshold:.3g}"
        axes.axvline(self.threshold, color=ink(), linestyle="--", label=level)
        axes.set_title(f"the threshold is right for {accuracy:.1%} of pairs")
        axes.set(xlabel="learned distance", ylabel="density")

    def _draw_roc(self, axes: Axes) -> None:
        cases = (("before", self.before, "0.55"), ("after", self.after, look(0)[0]))
        for (name, lengths, color), area in zip(cases, self.areas, strict=True):
            false, true, _ = roc_curve(~self.similar, lengths)
            axes.plot(false, true, color=color, label=f"{name}, area {area:.3f}")
        axes.plot([0, 1], [0, 1], ":", color="0.7", linewidth=1)
        axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", title="ROC curve of distances")
        axes.set_xlabel("false positive rate: same class, farther than the level")
        axes.set_ylabel("true positive rate: other class, farther")
