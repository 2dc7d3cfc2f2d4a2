"""Shared parts of all plots: colors, axes, and the data of an estimator or a solution."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
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


# Ten hues for ten classes; the first six are color-blind safe (Okabe and Ito 2008).
COLORS = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#6A3D9A", "#8C564B", "#7F7F7F", "#A8A200",
)  # fmt: skip
# The same hues, lighter, on dark paper.
LIGHTER = (
    "#4FA8DD", "#F08A3C", "#2CC79A", "#DE9BC2", "#F0B429", "#9AD4F5", "#B295DC", "#C08D80", "#ABABAB", "#CFC933",
)  # fmt: skip
# For matplotlib.pyplot.style.use: what the displays draw by, for pictures of one's own beside them.
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


class Embedder(Protocol):
    """A fitted transformer: an estimator of this package, of scikit-learn, or a pipeline."""

    def transform(self, X: ArrayLike) -> ArrayLike:
        """Embed examples."""


# What a metric was learned by.
Learned = Embedder | Solution


def check_file(path: Path) -> None:
    """Refuse a picture that matplotlib cannot write, before any work."""
    try:
        from matplotlib.backend_bases import FigureCanvasBase
    except ImportError as error:
        raise ImportError("pictures need matplotlib: pip install 'sdpmetric[plot]'.") from error
    formats = FigureCanvasBase.get_supported_filetypes()
    if path.suffix.lower().removeprefix(".") not in formats:
        raise ValueError(f"{path} must end in one of {', '.join(f'.{name}' for name in formats)}.")


def ink() -> str:
    """The color of text, which differs from the paper in light styles and in dark ones."""
    from matplotlib import rcParams

    return str(rcParams["text.color"])


def hues() -> tuple[str, ...]:
    """Ten hues that show on the paper of the style in use."""
    from matplotlib import colors, rcParams

    return COLORS if sum(colors.to_rgb(rcParams["axes.facecolor"])) > 1.5 else LIGHTER


def look(c: int) -> tuple[str, str]:
    return hues()[c % len(COLORS)], MARKERS[c % len(MARKERS)]


@dataclass(eq=False, repr=False)
class Display:
    """What all pictures share: axes, given or new, and their figure."""

    figure_: Figure = field(init=False)

    def _axes(
        self, ax: Axes | Sequence[Axes] | None, count: int, size: tuple[float, float], *, stacked: bool = False
    ) -> list[Axes]:
        """The given axes, or new ones side by side, or `stacked` with a common abscissa; their figure is kept."""
        if ax is None:
            try:
                from matplotlib import pyplot
            except ImportError as error:
                raise ImportError("pictures need matplotlib: pip install 'sdpmetric[plot]'.") from error
            rows, columns = (count, 1) if stacked else (1, count)
            shape = {"squeeze": False, "sharex": stacked}
            ax = pyplot.subplots(rows, columns, figsize=size, layout="constrained", **shape)[1].flat
        panels = list(np.ravel(np.asarray(ax, dtype=object)))
        if len(panels) != count:
            raise ValueError(f"this picture has {count} parts; pass as many axes as ax, got {len(panels)}.")
        figure = panels[0].get_figure(root=True)
        if figure is None:
            raise ValueError("these axes were removed from their figure; pass others, or none.")
        self.figure_ = figure
        return panels

    def _panels(
        self,
        ax: Axes | Sequence[Axes] | None,
        panels: Sequence[str],
        size: tuple[float, float],
        painters: Mapping[str, Callable[[Axes], None]],
    ) -> list[Axes]:
        """Axes of a size for each of some panels, drawn."""
        if not panels or set(panels) - set(painters):
            raise ValueError(f"panels must be some of {', '.join(painters)}, got {panels!r}.")
        drawn = self._axes(ax, len(panels), (size[0] * len(panels), size[1]))
        for axes, panel in zip(drawn, panels, strict=True):
            painters[panel](axes)
        return drawn


def tidy(ax: Axes) -> None:
    """No lines above and to the right, a grid below everything that is faint on white and on dark paper."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color="0.5", alpha=0.17, linewidth=0.7)
    ax.set_axisbelow(True)


def steps_of(learned: object) -> list[object]:
    """The steps of a pipeline; anything else is the only one."""
    steps = getattr(learned, "steps", None)
    return [step for _, step in steps] if isinstance(steps, list) else [learned]


def solution_in(step: object) -> Solution | None:
    solution = getattr(step, "solution_", None)
    return solution if isinstance(solution, Solution) else None


def solution_of(learned: object) -> Solution:
    """A solution as it is, that of a fitted estimator, or that of the last step of a pipeline."""
    if isinstance(learned, Solution):
        return learned
    if hasattr(learned, "fit"):
        check_is_fitted(learned)
    solutions = [solution for step in steps_of(learned) if (solution := solution_in(step)) is not None]
    if not solutions:
        raise ValueError(
            f"{type(learned).__name__} has no solution_; pass a fitted estimator of sdpmetric, a pipeline with one, or "
            "a solution."
        )
    return solutions[-1]


def one_metric(solution: Solution) -> FloatArray:
    if solution.components.ndim > 2:
        raise ValueError(
            f"this solution has {len(solution.components)} metrics, so there is no single embedding; pass a solution "
            "with one metric."
        )
    return np.asarray(solution.components, dtype=np.float64)


def metric_step(learned: object, X: ArrayLike) -> tuple[object, ArrayLike]:
    """A pipeline from the step of its metric on, and the examples as this step receives them; all else as it is."""
    steps = steps_of(learned)
    solved = [i for i, step in enumerate(steps) if solution_in(step) is not None]
    position = (solved or [i for i, step in enumerate(steps) if hasattr(step, "transform")] or [0])[-1]
    pipeline = cast(Sequence[object], learned)
    return (pipeline[position:], cast(Embedder, pipeline[:position]).transform(X)) if position else (learned, X)


def before_and_after(learned: Learned, X: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Examples as the metric receives them, and as it embeds them: what a pipeline does earlier is not its merit."""
    estimator, data = metric_step(learned, X)
    Z = embedded(cast(Learned, estimator), data)
    return np.ascontiguousarray(validation.check_data(data), dtype=np.float64), Z


def embedded(learned: Learned, X: ArrayLike) -> FloatArray:
    if isinstance(learned, Solution):
        L, data = one_metric(learned), np.asarray(validation.check_data(X), dtype=np.float64)
        validation.check_width("X", data, L.shape[1], "the metric")
        return data @ L.T if len(L) else np.zeros((len(data), 1))
    kind = type(learned).__name__
    if getattr(getattr(learned, "components_", None), "ndim", 2) > 2:
        raise ValueError(f"{kind} has several metrics, so there is no single embedding.")
    if not hasattr(learned, "transform") and len(steps_of(learned)) > 1:  # it ends with a classifier
        return embedded(cast(Embedder, cast(Sequence[object], learned)[:-1]), X)
    if not hasattr(learned, "transform"):
        raise ValueError(f"{kind} does not transform; pass a fitted metric learner or a pipeline.")
    Z: FloatArray = np.asarray(validation.check_data(learned.transform(X)), dtype=np.float64)
    return Z
