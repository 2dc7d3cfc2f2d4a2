"""Shared parts of curves along a trace: abscissa, limits, legend."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from sdpmetric.core.solution import Solution
from sdpmetric.core.trace import Trace, TraceRow
from sdpmetric.plotting.style import solution_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FloatArray = NDArray[np.float64]
Against = Literal["seconds", "iteration"]

# Values that span more than this are drawn on a logarithmic axis.
WIDE = 50.0


class TraceDisplay(ABC):
    """A picture along the trace of a solve: made in three ways, drawn by `plot`."""

    figure_: Figure

    @classmethod
    def from_estimator(
        cls,
        learned: object,
        *,
        against: Against = "seconds",
        ax: Axes | Sequence[Axes] | None = None,
        name: str | None = None,
        colour: str | None = None,
    ) -> Self:
        """Draw the solve of a fitted estimator or a solution, with its certificate as the last point.

        Parameters
        ----------
        learned : estimator with ``solution_``, a pipeline with one, or Solution
        against : {"seconds", "iteration"}, default "seconds"
        ax, name, colour
            As in `plot`; `name` is the solver's by default.

        Raises
        ------
        ValueError
            If the estimator has no solution, or its trace is empty.
        """
        solution = solution_of(learned)
        display = cls._of(ended(solution), against, solution.certificate.kind, solution)
        return display.plot(ax, name=solution.solver if name is None else name, colour=colour)

    @classmethod
    def from_solution(
        cls,
        solution: Solution,
        *,
        against: Against = "seconds",
        ax: Axes | Sequence[Axes] | None = None,
        name: str | None = None,
        colour: str | None = None,
    ) -> Self:
        """As `from_estimator`."""
        return cls.from_estimator(solution, against=against, ax=ax, name=name, colour=colour)

    @classmethod
    def from_trace(
        cls,
        trace: Trace,
        *,
        kind: str = "duality",
        against: Against = "seconds",
        ax: Axes | Sequence[Axes] | None = None,
        name: str | None = None,
        colour: str | None = None,
    ) -> Self:
        """Draw a trace alone.

        Parameters
        ----------
        trace : Trace
        kind : str, default "duality"
            Of the certificate: the objective of a stream ("regret") grows, of anything else the best so far is drawn.
        against, ax, name, colour
            As in `from_estimator`.
        """
        return cls._of(trace, against, kind, None).plot(ax, name=name, colour=colour)

    @classmethod
    @abstractmethod
    def _of(cls, trace: Trace, against: Against, kind: str, solution: Solution | None) -> Self:
        """The display of a trace."""

    @abstractmethod
    def plot(
        self, ax: Axes | Sequence[Axes] | None = None, *, name: str | None = None, colour: str | None = None
    ) -> Self:
        """Draw."""


def start(axes: Axes, against: Against) -> None:
    """Start the abscissa at 0; if times differ by orders of magnitude, make it logarithmic."""
    times = np.concatenate([np.asarray(curve.get_xdata(), dtype=float) for curve in axes.lines])
    if against == "seconds" and times.min() > 0 and times.max() > WIDE * times.min():
        axes.set_xscale("log")
        axes.set_xlim(0.8 * times.min(), 1.25 * times.max())
    else:
        axes.set_xlim(0, 1.03 * max(times.max(), 1e-9))


def legible(axes: Axes) -> None:
    """Show whole decades of a logarithmic axis of a gap, two at least, so that few points have labels around them."""
    from matplotlib.ticker import LogLocator, NullFormatter

    heights = np.concatenate([np.asarray(curve.get_ydata(), dtype=float) for curve in axes.lines])
    low, high = np.floor(np.log10(heights.min())), np.ceil(np.log10(heights.max()))
    axes.set_ylim(10 ** min(low, high - 2), 10**high * 1.2)
    axes.yaxis.set_major_locator(LogLocator(numticks=8))
    axes.yaxis.set_minor_formatter(NullFormatter())


def legend_above(axes: Axes) -> None:
    """Draw the legend above the axes, where it hides no curve."""
    axes.legend(fontsize="small", frameon=False, loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=2)


def ended(solution: Solution) -> Trace:
    """The trace with the certificate as its last row."""
    end = solution.certificate
    last = TraceRow(solution.n_iter, solution.seconds, end.objective, end.lower_bound, n_active=end.n_active)
    return Trace([*solution.trace, last])


def column(trace: Trace, against: Against) -> FloatArray:
    """Seconds or iterations of a trace, which must not be empty."""
    if against not in get_args(Against):
        raise ValueError(f"against must be 'seconds' or 'iteration', got {against!r}.")
    if not len(trace):
        raise ValueError(
            "the trace is empty: there is nothing to draw; solve again, or load a solution with its trace."
        )
    return trace[against]
