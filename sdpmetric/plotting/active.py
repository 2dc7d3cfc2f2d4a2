"""The number of active triplets during a solve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from sdpmetric.core.solution import Solution
from sdpmetric.core.trace import Trace
from sdpmetric.plotting.curves import WIDE, Against, TraceDisplay, column, legend_above, start
from sdpmetric.plotting.style import COLOURS, axes_of, figure_of, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FloatArray = NDArray[np.float64]


@dataclass(eq=False, repr=False)
class ActiveTripletsDisplay(TraceDisplay):
    """Number of active triplets, or other constraints, during a solve, in the rows of the trace that count them.

    Parameters
    ----------
    at : (t,) array
        Seconds or iterations.
    n_active : (t,) array
        Triplets with a positive hinge; of a stream, its updates; of other statements, what their certificates count.
    against : {"seconds", "iteration"}
    total : int or None
        Number of all triplets.

    Attributes
    ----------
    ax_ : Axes
    figure_ : Figure
    """

    at: FloatArray
    n_active: FloatArray
    against: Against = field(default="seconds", kw_only=True)
    total: int | None = field(default=None, kw_only=True)
    ax_: Axes = field(init=False)

    @classmethod
    def _of(cls, trace: Trace, against: Against, kind: str, solution: Solution | None) -> Self:
        total = getattr(getattr(getattr(solution, "problem", None), "source", None), "size", None)
        at, n_active = column(trace, against), trace["n_active"]
        counted = n_active > 0 if n_active.any() else np.ones(len(n_active), dtype=bool)
        return cls(at[counted], n_active[counted], against=against, total=total)

    def plot(
        self, ax: Axes | Sequence[Axes] | None = None, *, name: str | None = None, colour: str | None = None
    ) -> Self:
        """Draw on `ax`, or on new axes, with `name` in the legend; arguments as in `ConvergenceDisplay.plot`."""
        (axes,) = axes_of(ax, 1, (6.4, 3.6), "none")
        self.ax_, self.figure_ = axes, figure_of(axes)
        colour = COLOURS[len(axes.lines) % len(COLOURS)] if colour is None else colour
        axes.plot(
            self.at, self.n_active, color=colour, label=name, linewidth=1.6, marker="o", markersize=3,
            drawstyle="steps-post",
        )  # fmt: skip
        what = "active constraints" if self.total is None else f"active triplets, of {self.total:,}"
        axes.set(xlabel=self.against, ylabel=what)
        heights = np.concatenate([np.asarray(curve.get_ydata(), dtype=float) for curve in axes.lines])
        if heights.min() > 0 and heights.max() > WIDE * heights.min():
            axes.set_yscale("log")
            axes.set_ylim(0.8 * heights.min(), 1.25 * heights.max())
        else:
            axes.set_ylim(0, 1.08 * max(heights.max(), 1.0))
        start(axes, self.against)
        tidy(axes)
        if name:
            legend_above(axes)
        return self
