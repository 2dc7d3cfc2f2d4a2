"""Shared parts of curves along a trace: abscissa, limits, legend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sdpmetric.core.solution import Solution
from sdpmetric.core.trace import Trace, TraceRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FloatArray = NDArray[np.float64]
Against = Literal["seconds", "iteration"]

# Values that span more than this are drawn on a logarithmic axis.
WIDE = 50.0


def start(axes: Axes, against: Against) -> None:
    """Start the abscissa at 0; if times differ by orders of magnitude, make it logarithmic."""
    times = np.concatenate([np.asarray(curve.get_xdata(), dtype=float) for curve in axes.lines])
    if against == "seconds" and times.min() > 0 and times.max() > WIDE * times.min():
        axes.set_xscale("log")
        axes.set_xlim(0.8 * times.min(), 1.25 * times.max())
    else:
        axes.set_xlim(0, 1.03 * max(times.max(), 1e-9))


def legend_above(axes: Axes) -> None:
    """Draw the legend above the axes, where it hides no curve."""
    axes.legend(fontsize="small", frameon=False, loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=2)


def ended(solution: Solution) -> Trace:
    """The trace with the certificate as its last row."""
    judged = solution.certificate
    last = TraceRow(solution.n_iter, solution.seconds, judged.objective, judged.lower_bound, n_active=judged.n_active)
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
