"""Examples before and after a metric was learned, with impostors marked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sdpmetric import classification
from sdpmetric.arrays import FloatArray, IndexArray
from sdpmetric.core import neighbors, rounding, validation
from sdpmetric.lmnn.triplets.margins import target_distances
from sdpmetric.lmnn.triplets.sources import LabeledTriplets
from sdpmetric.plotting.style import Display, Learned, before_and_after, ink, look, solution_of, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# Points are fainter from this number of examples on.
DENSE = 1000
# Label of the second axis of one-dimensional data.
CLASS = "class"


@dataclass(frozen=True, eq=False)
class View:
    """Examples in the plane, and pairs of examples and impostors."""

    points: FloatArray  # (n, 2)
    impostors: IndexArray  # (p, 2) int32
    labels: tuple[str, str]  # Of the two axes
    accuracy: float  # Of the nearest neighbors in all dimensions, each example left out of its own
    gap: float = math.nan  # Relative gap of the metric

    @classmethod
    def of(cls, P: FloatArray, points: FloatArray, kind: str, source: LabeledTriplets, gap: float = math.nan) -> Self:
        """Points of any dimension, as they are drawn in the plane whose axes are of a kind."""
        anchors, together = source.anchors(), np.zeros(len(P), dtype=np.int32)
        limits = target_distances(P, anchors, source.targets[anchors]).max(axis=1, initial=0.0)
        pairs = [
            np.stack([candidates.anchors[candidates.rows], candidates.impostors], axis=1)
            for candidates in source.candidate_blocks(P, together, among=anchors, limits=limits)
        ]
        predicted = classification.knn_predict(np.eye(P.shape[1]), P, source.labels, None, source.targets.shape[1])
        return cls(
            points,
            np.concatenate([np.zeros((0, 2), dtype=np.int32), *pairs]),
            (kind, CLASS) if P.shape[1] == 1 else (f"first {kind}", f"second {kind}"),
            float(np.mean(predicted == source.labels)),
            gap,
        )

    @property
    def invaders(self) -> IndexArray:
        """The examples that are an impostor of another one, each once."""
        return np.unique(self.impostors[:, 1])


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
    targets : (n, k) int32 array
        Target neighbors.

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
    targets: IndexArray
    ax_: list[Axes] = field(init=False)

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
        (data, Z), gap = before_and_after(learned, X), _proven(learned)
        classes, index = validation.check_labels(y, len(data))
        validation.check_class_sizes(classes, index, n_neighbors)
        source = LabeledTriplets(neighbors.target_neighbors(data, index, n_neighbors), index)
        before, after = _plane(data, index), _plane(Z, index)
        if Z.shape[1] > 1:  # rotations and reflections do not change an embedding
            u, _, vt = np.linalg.svd((after - after.mean(axis=0)).T @ (before - before.mean(axis=0)))
            after = after @ u @ vt
        kind = "feature" if data.shape[1] <= 2 else "principal component"
        views = View.of(data, before, kind, source), View.of(Z, after, "learned direction", source, gap)
        return cls(*views, np.asarray(y).ravel(), source.targets).plot(ax, example=example)

    from_solution = from_estimator

    def plot(self, ax: Sequence[Axes] | None = None, *, example: int | None = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : two Axes, optional
            For before and after; default: new ones side by side.
        example : int, optional
            Join this example to its target neighbors by solid lines and to its impostors by broken ones.
        """
        is_row = validation.is_integer(example)
        if example is not None and not (is_row and 0 <= example < len(self.y)):
            raise ValueError(f"example must be a row from 0 to {len(self.y) - 1}, got {example!r}.")
        self.ax_ = self._axes(ax, 2, (9.0, 4.4))
        from matplotlib.collections import PathCollection

        for axes, view, stage in zip(self.ax_, (self.before, self.after), ("before", "after"), strict=True):
            self._draw(axes, view)
            gap = f"\nrelative gap {rounding.scientific(view.gap, 1)}" if math.isfinite(view.gap) else ""
            axes.set_title(
                f"{stage}: {len(view.invaders):,} of {len(self.y):,} examples are impostors\n"
                f"{view.accuracy:.1%} training accuracy of nearest neighbors{gap}",
                fontsize="medium",
            )
            if example is not None:
                self._join(axes, view, example)
        classes = np.unique(self.y)
        if len(classes) <= 20:
            legend_entries = [zip(*axes.get_legend_handles_labels(), strict=True) for axes in self.ax_]
            entries = {name: handle for handles in legend_entries for handle, name in handles}
            names, handles = list(entries), list(entries.values())
            legend = self.ax_[1].legend(handles, names, loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize="small")
            legend.set_frame_on(False)
            for handle in legend.legend_handles:
                if isinstance(handle, PathCollection):
                    handle.set_sizes([36])
                    handle.set_alpha(0.9)
        return self

    def _draw(self, axes: Axes, view: View) -> None:
        size, faint = float(np.clip(12000 / len(self.y), 6, 30)), float(np.sqrt(DENSE / max(len(self.y), DENSE)))
        classes = np.unique(self.y)
        for c, label in enumerate(classes):
            members, (color, marker) = view.points[self.y == label], look(c)
            x, y = members.T
            axes.scatter(x, y, size, color=color, marker=marker, linewidths=0, alpha=0.8 * faint, label=label, zorder=2)
        if len(ringed := view.points[view.invaders]):
            x, y = ringed.T
            rings = axes.scatter(x, y, 2.6 * size, facecolors="none", edgecolors=ink(), linewidths=0.6, zorder=3)
            rings.set(alpha=faint, label="impostor")
        axes.set(xlabel=view.labels[0], ylabel=view.labels[1])
        if view.labels[1] == CLASS:
            axes.set_yticks(np.arange(len(classes)), [str(label) for label in classes])
            axes.set_ylim(-0.7, len(classes) - 0.3)
        else:
            axes.set_aspect("equal", adjustable="datalim")
        tidy(axes)

    def _join(self, axes: Axes, view: View, example: int) -> None:
        P, target_rows = view.points, self.targets[example]
        far = view.impostors[view.impostors[:, 0] == example, 1]
        for linked, style, name in ((target_rows, "-", "to target neighbors"), (far, ":", "to its impostors")):
            for number, row in enumerate(linked):
                label = name if number == 0 else None
                axes.plot(*P[[example, row]].T, style, color=ink(), linewidth=1.3, zorder=4, label=label)
        (star,) = axes.plot(*P[example], "*", color=ink(), zorder=5, label="the example")
        star.set(markersize=13, markeredgecolor=axes.get_facecolor())


def _proven(learned: object) -> float:
    """The relative gap of a solution, an estimator or a pipeline; NaN where it has none."""
    try:
        return solution_of(learned).relative_gap
    except ValueError:
        return math.nan


def _plane(P: FloatArray, index: IndexArray) -> FloatArray:
    """Project points of any dimension to the plane; for one dimension, classes are drawn above each other."""
    if P.shape[1] == 1:
        return np.column_stack([P[:, 0], index])
    return P if P.shape[1] == 2 else leading_plane(P)


def leading_plane(Z: FloatArray) -> FloatArray:
    """The two leading principal components of points, (n, 2); the second one is 0 in one dimension."""
    Z = Z - Z.mean(axis=0)
    if Z.shape[1] < 2:
        Z = np.column_stack([Z, np.zeros((len(Z), 2 - Z.shape[1]))])
    axes = np.linalg.eigh(Z.T @ Z)[1][:, [-1, -2]]
    return np.asarray(Z @ (axes * np.sign(axes[np.abs(axes).argmax(axis=0), [0, 1]])))  # eigenvectors have no sign
