"""Nearest neighbors before and after a metric was learned, as images."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sdpmetric import classification
from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.plotting.style import Learned, axes_of, before_and_after, figure_of, hues

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

IndexArray = NDArray[np.int64]

# Pixels between images, and between groups of images, as shares of an image.
BETWEEN, GROUPS = 0.25, 0.6


@dataclass(eq=False, repr=False)
class NeighborsDisplay:
    """Each row: an example, its nearest neighbors before, and its nearest neighbors after.

    Neighbors of the example's class have a thin blue frame, others a thick broken orange one.

    Parameters
    ----------
    images : (n, h, w) array
    y : (n,) array
        Labels.
    examples : (m,) integer array
        Rows to show.
    before, after : (m, k) integer arrays
        Their nearest neighbors, nearest first.

    Attributes
    ----------
    ax_ : Axes
    figure_ : Figure

    See Also
    --------
    EmbeddingDisplay

    Examples
    --------
    >>> import numpy as np
    >>> import sdpmetric as sm
    >>> from sdpmetric.plotting import NeighborsDisplay
    >>> X, y = sm.datasets.load("iris")
    >>> X = sm.datasets.standardize(X)
    >>> problem = sm.LMNNProblem.from_labels(X, y)
    >>> solution = sm.solve(problem)
    >>> shown = NeighborsDisplay.from_solution(solution, X, y, examples=[0], images=np.zeros((150, 2, 2)))
    """

    images: FloatArray
    y: NDArray[np.generic]
    examples: IndexArray
    before: IndexArray
    after: IndexArray
    ax_: Axes = field(init=False)
    figure_: Figure = field(init=False)

    @classmethod
    def from_estimator(
        cls,
        learned: Learned,
        X: ArrayLike,
        y: ArrayLike,
        *,
        images: ArrayLike | None = None,
        examples: ArrayLike | int = 5,
        n_neighbors: int = 4,
        random_state: int | None = None,
        ax: Axes | None = None,
    ) -> NeighborsDisplay:
        """Draw neighbors among labeled examples before and after learning.

        Parameters
        ----------
        learned : estimator with ``transform``, or Solution
        X : (n, d) array
        y : (n,) array
        images : (n, h, w) array, optional
            An image of each example; default: the rows of X as square images.
        examples : (m,) integer array or int, default 5
            Rows to show, or how many to draw at random.
        n_neighbors : int, default 4
            The example itself is left out.
        random_state : int, optional
            Seed of the draw.
        ax : Axes, optional

        Raises
        ------
        ValueError
            If the shapes do not fit, or there are no such examples.
        """
        data, Z = before_and_after(learned, X)
        labels = np.asarray(y).ravel()
        validation.check_count("y", len(labels), len(data))
        side = math.isqrt(data.shape[1])
        if images is None and side * side != data.shape[1]:
            raise ValueError(
                f"rows of {data.shape[1]} features are not square images; pass images= of shape (n, h, w)."
            )
        pictures = data.reshape(-1, side, side) if images is None else np.asarray(images, dtype=np.float64)
        if pictures.ndim != 3 or len(pictures) != len(data):
            raise ValueError(f"images must have the shape ({len(data)}, h, w), got {pictures.shape}.")
        if isinstance(examples, int | np.integer):
            count = validation.check_integer("examples", examples, high=len(data))
            rows = np.sort(validation.generator(random_state).choice(len(data), count, replace=False))
        else:
            rows = validation.check_rows("examples", examples, len(data)).astype(np.int64)
            if not len(rows):
                raise ValueError("examples is empty; pass a number of examples, or row numbers.")
        nearest = [_nearest(P, rows, n_neighbors) for P in (data, Z)]
        return cls(pictures, labels, rows, *nearest).plot(ax)

    from_solution = from_estimator

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw on `ax`, or on new axes; return the display."""
        k, m = self.before.shape[1], len(self.examples)
        columns, rows = 1 + 2 * k + 2 * GROUPS + 2 * k * BETWEEN, m * (1 + BETWEEN)
        (axes,) = axes_of(ax, 1, (0.8 * columns + 0.6, 0.8 * rows + 0.7), "none")
        from matplotlib.patches import Rectangle

        self.ax_, self.figure_ = axes, figure_of(axes)
        height, width = self.images.shape[1:]
        lefts = self._lefts()
        for row, example in enumerate(self.examples):
            shown = [int(example), *self.before[row].tolist(), *self.after[row].tolist()]
            top = row * (1 + BETWEEN) * height
            scale = {"cmap": "gray_r", "vmin": self.images.min(), "vmax": self.images.max()}
            for column, shown_row in enumerate(shown):
                left_edge = lefts[column] * width
                axes.imshow(self.images[shown_row], extent=(left_edge, left_edge + width, top + height, top), **scale)
                if column:
                    same_class = self.y[shown_row] == self.y[example]
                    frame = (hues()[0], 1.0, "-") if same_class else (hues()[1], 2.4, (0, (2, 1)))
                    axes.add_patch(
                        Rectangle(
                            (left_edge, top), width, height, fill=False, edgecolor=frame[0], linewidth=frame[1],
                            linestyle=frame[2], zorder=3,
                        )
                    )  # fmt: skip
        groups = (lefts[:1], lefts[1 : 1 + k], lefts[1 + k :])
        axes.set(
            xlim=(-0.1 * width, (lefts[-1] + 1.1) * width),
            ylim=((rows - BETWEEN + 0.1) * height, -0.1 * height),
            xticks=[(group[0] + group[-1] + 1) / 2 * width for group in groups],
            xticklabels=[
                "example",
                f"nearest before: {self._agreement(self.before)}",
                f"nearest after: {self._agreement(self.after)}",
            ],
            yticks=(np.arange(m) * (1 + BETWEEN) + 0.5) * height,
            yticklabels=[str(label) for label in self.y[self.examples]],
            aspect="equal",
        )
        axes.xaxis.tick_top()
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        return self

    def _lefts(self) -> list[float]:
        """Left edges of the images of a row, in widths of one."""
        k = self.before.shape[1]
        lefts = [0.0]
        for column in range(1, 2 * k + 1):
            lefts.append(lefts[-1] + 1 + (GROUPS if column in (1, k + 1) else BETWEEN))
        return lefts

    def _agreement(self, rows: IndexArray) -> str:
        agree = self.y[rows] == self.y[self.examples][:, None]
        return f"{int(agree.sum())} of {agree.size} of its class"


def _nearest(P: FloatArray, rows: IndexArray, n_neighbors: int) -> IndexArray:
    validation.check_integer("n_neighbors", n_neighbors, high=len(P) - 1)
    _, neighbor_rows = classification.nearest_neighbors(np.eye(P.shape[1]), P, P[rows], n_neighbors + 1)
    # Among equal examples another one may come first, so the example is removed wherever it is listed.
    neighbors = [nearest[nearest != row][:n_neighbors] for row, nearest in zip(rows, neighbor_rows, strict=True)]
    return np.array(neighbors, dtype=np.int64)
