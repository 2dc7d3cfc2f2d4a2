"""Shared parts of all plots: colours, axes, and the data of an estimator or a solution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.core.solution import Solution

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# Ten hues for ten classes; the first six are colour-blind safe (Okabe and Ito 2008).
COLOURS = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#6A3D9A", "#8C564B", "#7F7F7F", "#A8A200",
)  # fmt: skip
# For matplotlib.pyplot.style.use: what the displays draw by, for pictures of one's own beside them.
STYLE = {
    "axes.prop_cycle": f"cycler('color', {list(COLOURS)})",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "0.92",
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "legend.fontsize": "small",
    "lines.linewidth": 1.6,
}
# Further classes reuse the colours with other markers.
MARKERS = ("o", "^", "s", "D", "v", "P", "X", "*")
INK = "#000000"


class Embedder(Protocol):
    """A fitted transformer: an estimator of this package, of scikit-learn, or a pipeline."""

    def transform(self, X: ArrayLike) -> ArrayLike:
        """Embed examples."""


# What a metric was learned by.
Learned = Embedder | Solution


def axes_of(given: Axes | Sequence[Axes] | None, count: int, size: tuple[float, float], share: str) -> list[Axes]:
    """The axes to draw on: the given ones, or new ones side by side (`share` is "none") or one below another ("x")."""
    if given is None:
        try:
            from matplotlib import pyplot
        except ImportError as error:
            raise ImportError("pictures need matplotlib: pip install 'sdpmetric[plot]'.") from error
        rows, columns = (count, 1) if share == "x" else (1, count)
        new = pyplot.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained", sharex=share == "x")[1]
        return list(new.flat)
    axes = list(np.ravel(np.asarray(given, dtype=object)))
    if len(axes) != count:
        raise ValueError(f"this picture has {count} parts; pass as many axes as ax, got {len(axes)}.")
    return axes


def figure_of(ax: Axes) -> Figure:
    """The figure of axes, also of axes in a subfigure."""
    figure = ax.get_figure(root=True)
    if figure is None:
        raise ValueError("these axes were removed from their figure; pass others, or none.")
    return figure


def tidy(ax: Axes) -> None:
    """No lines above and to the right, a faint grid below everything."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color="0.92", linewidth=0.7)
    ax.set_axisbelow(True)


def solution_of(learned: object) -> Solution:
    """A solution as it is, that of a fitted estimator, or that of the last step of a pipeline."""
    if isinstance(learned, Solution):
        return learned
    if hasattr(learned, "fit"):
        check_is_fitted(learned)
    for _, step in reversed(getattr(learned, "steps", [("", learned)])):
        solution = getattr(step, "solution_", None)
        if isinstance(solution, Solution):
            return solution
    raise ValueError(
        f"{type(learned).__name__} has no solution_; pass a fitted estimator of sdpmetric, a pipeline with one, or a "
        "solution."
    )


def feature_names(names: ArrayLike | None, d: int) -> list[str]:
    """Names of d features; numbers where there are none, or they are of other features."""
    given = [] if names is None else [str(name) for name in np.ravel(np.asarray(names, dtype=object))]
    return given if len(given) == d else [str(number) for number in range(d)]


def one_metric(solution: Solution) -> FloatArray:
    """The components of a solution, which must have a single metric."""
    if solution.components.ndim > 2:
        raise ValueError(
            f"this solution has {len(solution.components)} metrics, which embed no example in one way; MetricDisplay "
            "shows several."
        )
    return np.asarray(solution.components, dtype=np.float64)


def embedded(learned: Learned, X: ArrayLike) -> FloatArray:
    """Examples transformed by a fitted estimator, or under the metric of a solution."""
    if isinstance(learned, Solution):
        L, data = one_metric(learned), np.asarray(validation.check_data(X), dtype=np.float64)
        if data.shape[1] != L.shape[1]:
            raise ValueError(
                f"X has {data.shape[1]} features and the metric {L.shape[1]}; pass the features it is for."
            )
        return data @ L.T if len(L) else np.zeros((len(data), 1))
    kind = type(learned).__name__
    if getattr(getattr(learned, "components_", None), "ndim", 2) > 2:
        raise ValueError(f"{kind} has several metrics, which embed no example in one way; MetricDisplay shows several.")
    steps = getattr(learned, "steps", None)
    if not hasattr(learned, "transform") and isinstance(steps, list) and len(steps) > 1:  # it ends with a classifier
        return embedded(cast(Embedder, cast(Sequence[object], learned)[:-1]), X)
    if not hasattr(learned, "transform"):
        raise ValueError(f"{kind} does not transform; pass a fitted metric learner or a pipeline.")
    Z: FloatArray = np.asarray(validation.check_data(learned.transform(X)), dtype=np.float64)
    return Z
