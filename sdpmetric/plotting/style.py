"""Shared parts of all plots: colors, axes, and the examples before and after a metric."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.core.solution import Solution
from sdpmetric.core.verbs import FittedTransformer

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# Ten hues for ten classes; the first six are color-blind safe (Okabe and Ito 2008).
COLORS = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#6A3D9A", "#8C564B", "#7F7F7F", "#A8A200",
)  # fmt: skip
# The same hues, lighter, on dark paper.
LIGHTER = (
    "#4FA8DD", "#F08A3C", "#2CC79A", "#DE9BC2", "#F0B429", "#9AD4F5", "#B295DC", "#C08D80", "#ABABAB", "#CFC933",
)  # fmt: skip
# For matplotlib.pyplot.style.use: what the displays draw by, for other pictures next to them.
STYLE = {
    "axes.prop_cycle": f"cycler('color', {list(COLORS)})",
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
# Each class has a color and a marker of its own: hues alone do not tell ten classes apart in every eye.
MARKERS = ("o", "^", "s", "D", "v", "P", "X")


# The solution or estimator of a metric.
Learned = FittedTransformer | Solution


def ink() -> str:
    """Return the color of text, which differs from the paper in light and in dark styles."""
    from matplotlib import rcParams

    return str(rcParams["text.color"])


def look(c: int) -> tuple[str, str]:
    """Return the hue and the marker of class c, which show on the paper of the style in use."""
    from matplotlib import colors, rcParams

    hues = COLORS if sum(colors.to_rgb(rcParams["axes.facecolor"])) > 1.5 else LIGHTER
    return hues[c % len(hues)], MARKERS[c % len(MARKERS)]


@dataclass(eq=False, repr=False)
class Display:
    """The base of all pictures: two axes, given or new, and their figure."""

    ax_: list[Axes] = field(init=False)
    figure_: Figure = field(init=False)

    def _set_axes(self, ax: Sequence[Axes] | None, size: tuple[float, float], *, stacked: bool = False) -> list[Axes]:
        """Keep the given axes, or new axes side by side, or `stacked` with a common abscissa."""
        if ax is None:
            try:
                from matplotlib import pyplot
            except ImportError as error:
                raise ImportError("pictures need matplotlib: pip install 'sdpmetric[plot]'.") from error
            rows, columns = (2, 1) if stacked else (1, 2)
            ax = pyplot.subplots(rows, columns, figsize=size, layout="constrained", sharex=stacked)[1]
        panels = list(np.ravel(np.asarray(ax, dtype=object)))
        if len(panels) != 2:
            raise ValueError(f"this picture has 2 parts; pass as many axes as ax, got {len(panels)}.")
        figure = panels[0].get_figure(root=True)
        if figure is None:
            raise ValueError("these axes were removed from their figure; pass others, or none.")
        self.ax_, self.figure_ = panels, figure
        return panels


def tidy(ax: Axes) -> None:
    """Draw no lines above and to the right, and a grid below everything that is faint on white and on dark paper."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color="0.5", alpha=0.25, linewidth=0.5)
    ax.set_axisbelow(True)


def steps_of(learned: object) -> list[object]:
    """Return the steps of a pipeline; anything else is the only one."""
    steps = getattr(learned, "steps", None)
    return [step for _, step in steps] if isinstance(steps, list) else [learned]


def solution_of(learned: object) -> Solution:
    """Return a solution as it is, that of a fitted estimator, or that of the last step of a pipeline that has one."""
    if isinstance(learned, Solution):
        return learned
    if hasattr(learned, "fit"):
        check_is_fitted(learned)
    for step in reversed(steps_of(learned)):
        if isinstance(solution := getattr(step, "solution_", None), Solution):
            return solution
    raise ValueError(
        f"{type(learned).__name__} has no solution_; pass a fitted estimator of sdpmetric, a pipeline with one, or a "
        "solution."
    )


def before_and_after(learned: Learned, X: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return examples as the metric gets them, and as it embeds them: earlier steps of a pipeline are not its merit."""
    if isinstance(learned, Solution):
        data, L = _floats(X), np.asarray(learned.components, dtype=np.float64)
        if L.ndim > 2:
            raise ValueError(f"this solution has {len(L)} metrics, so there is no single embedding; pass one metric.")
        validation.check_width("X", data, L.shape[1], "the metric")
        return data, data @ L.T if len(L) else np.zeros((len(data), 1))
    embedders = [step for step in steps_of(learned) if isinstance(step, FittedTransformer)]
    solved = [k for k, step in enumerate(embedders) if hasattr(step, "solution_")]
    if not embedders or getattr(getattr(learned, "components_", None), "ndim", 2) > 2:
        raise ValueError(f"{type(learned).__name__} has no single embedding; pass an estimator with one metric.")
    last = solved[-1] if solved else len(embedders) - 1
    for step in embedders[:last]:
        X = step.transform(X)
    return _floats(X), _floats(embedders[last].transform(X))


def _floats(X: ArrayLike) -> FloatArray:
    return np.ascontiguousarray(validation.check_data(X), dtype=np.float64)
