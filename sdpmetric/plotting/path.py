"""The error of nearest neighbors along a path of weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sdpmetric.classification import knn_predict
from sdpmetric.core import validation
from sdpmetric.core.solution import Solution
from sdpmetric.plotting.curves import legend_above
from sdpmetric.plotting.style import COLOURS, axes_of, figure_of, one_metric, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FloatArray = NDArray[np.float64]


@dataclass(eq=False, repr=False)
class PathDisplay:
    """Errors on training and test examples against a weight of the statement, as `sdpmetric.path` varies it.

    Parameters
    ----------
    weight : str
        Name of the weight.
    values : (p,) array
    train, test : (p,) arrays
        Share of errors; of training examples each is left out of its own neighbors.
    ranks : (p,) integer array
        Of the metrics.

    Attributes
    ----------
    ax_ : Axes
    figure_ : Figure
    """

    weight: str
    values: FloatArray
    train: FloatArray
    test: FloatArray
    ranks: NDArray[np.int64]
    ax_: Axes = field(init=False)
    figure_: Figure = field(init=False)

    @property
    def best(self) -> float:
        """The first value of the fewest test errors."""
        return float(self.values[np.argmin(self.test)])

    @classmethod
    def from_solutions(
        cls,
        solutions: Sequence[Solution],
        y: ArrayLike,
        X_test: ArrayLike,
        y_test: ArrayLike,
        *,
        weight: str = "push_weight",
        n_neighbors: int = 3,
        ax: Axes | None = None,
    ) -> Self:
        """Draw the errors of the solutions of `sdpmetric.path`.

        Parameters
        ----------
        solutions : sequence of Solution
            With their problems.
        y : (n,) array
            Labels of the problems' examples.
        X_test : (m, d) array
        y_test : (m,) array
        weight : str, default "push_weight"
            The one that varies.
        n_neighbors : int, default 3
            That vote.
        ax : Axes, optional

        Raises
        ------
        ValueError
            If a solution has no problem, or no such weight.
        """
        values, train, test, ranks = [], [], [], []
        labels, truth = np.asarray(y).ravel(), np.asarray(y_test).ravel()
        queries = np.asarray(validation.check_data(X_test), dtype=np.float64)
        for solution in solutions:
            problem = solution.problem
            if problem is None or weight not in problem.weights:
                raise ValueError(f"every solution needs its problem, with the weight {weight!r}; pass those of path().")
            L, X = one_metric(solution), np.asarray(problem.X, dtype=np.float64)
            values.append(float(getattr(problem, weight)))
            ranks.append(int(np.linalg.matrix_rank(L)) if L.size else 0)
            train.append(float(np.mean(knn_predict(L, X, labels, n_neighbors=n_neighbors) != labels)))
            test.append(float(np.mean(knn_predict(L, X, labels, queries, n_neighbors) != truth)))
        found = (np.array(values), np.array(train), np.array(test), np.array(ranks))
        return cls(weight, *found).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw on `ax`, or on new axes; return the display."""
        (axes,) = axes_of(ax, 1, (6.4, 4.0), "none")
        self.ax_, self.figure_ = axes, figure_of(axes)
        cases = (("test", self.test, "o-", COLOURS[1]), ("train", self.train, "o--", COLOURS[0]))
        for name, errors, style, colour in cases:
            axes.plot(self.values, 100 * errors, style, color=colour, markersize=4, linewidth=1.6, label=name)
        axes.axvline(self.best, color="0.6", linestyle=":", linewidth=1.4, label=f"fewest test errors: {self.best:.3g}")
        if self.values.min() > 0 and self.values.max() > 50 * self.values.min():
            axes.set_xscale("log")
        for value, rank, height in zip(self.values, self.ranks, np.maximum(self.test, self.train), strict=True):
            axes.annotate(
                f"{rank}", (value, 100 * height), (0, 6), textcoords="offset points", ha="center", fontsize="x-small",
                color="0.4",
            )  # fmt: skip
        axes.set(xlabel=self.weight.replace("_", " "), ylabel="errors of nearest neighbors, %")
        axes.plot([], [], " ", label="small numbers: rank of the metric")
        axes.set_ylim(0, 115 * max(float(self.test.max()), float(self.train.max()), 0.01))
        tidy(axes)
        legend_above(axes)
        return self
