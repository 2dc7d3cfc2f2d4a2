"""Convergence of a solve: objective, lower bound and gap over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.core.certificate import relative_gap
from sdpmetric.core.steps import Trace, TraceRow
from sdpmetric.plotting.style import Display, look, solution_of, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Against = Literal["seconds", "iteration"]


@dataclass(eq=False, repr=False)
class ConvergenceDisplay(Display):
    """Objective and lower bound above, the gap between them below.

    Make one with `from_estimator`, `from_solution` or `from_trace`. To compare solves, draw the second one on the axes
    of the first: ``second.plot(ax=first.ax_, name="second")``.

    Parameters
    ----------
    positions : (t,) array
        Seconds or iterations.
    objective, lower_bound : (t,) arrays
        Best so far, not finite until something is known. The objective of a stream is its cumulative loss.
    against : {"seconds", "iteration"}
    kind : str
        Kind of certificate; see `sdpmetric.Certificate`.

    Attributes
    ----------
    ax_, figure_ : list of two Axes, and Figure

    Examples
    --------
    >>> import sdpmetric as sm
    >>> X, y = sm.datasets.load("iris")
    >>> solution = sm.solve(sm.LMNNProblem.from_labels(X, y))
    >>> bool(sm.plotting.ConvergenceDisplay.from_solution(solution).gap[-1] <= 1e-3)
    True
    """

    positions: FloatArray
    objective: FloatArray
    lower_bound: FloatArray
    against: Against = field(default="seconds", kw_only=True)
    kind: str = field(default="duality", kw_only=True)

    @property
    def gap(self) -> FloatArray:
        """Relative gap, as in `sdpmetric.Certificate.relative_gap`; not finite without a bound."""
        pairs = zip(self.objective.tolist(), self.lower_bound.tolist(), strict=True)
        return np.array([relative_gap(objective, bound) for objective, bound in pairs])

    @classmethod
    def from_estimator(
        cls, learned: object, *, against: Against = "seconds", ax: Sequence[Axes] | None = None, name: str | None = None
    ) -> Self:
        """Draw the solve of a fitted estimator or a solution, with its certificate as the last point.

        Parameters
        ----------
        learned : estimator with ``solution_``, a pipeline with one, or Solution
        against : {"seconds", "iteration"}, default "seconds"
        ax, name
            As in `plot`; `name` is the solver's by default.
        """
        solution = solution_of(learned)
        certificate = solution.certificate
        values = certificate.objective, certificate.lower_bound
        last = TraceRow(solution.n_iter, solution.seconds, *values, n_active=certificate.n_active)
        name = solution.solver if name is None else name
        rows = Trace([*solution.trace, last])
        return cls.from_trace(rows, kind=certificate.kind, against=against, ax=ax, name=name)

    from_solution = from_estimator

    @classmethod
    def from_trace(
        cls,
        trace: Trace,
        *,
        kind: str = "duality",
        against: Against = "seconds",
        ax: Sequence[Axes] | None = None,
        name: str | None = None,
    ) -> Self:
        """Draw a trace alone.

        Parameters
        ----------
        trace : Trace
        kind : str, default "duality"
            Kind of certificate: the objective of a stream ("regret") grows, of anything else the best so far is drawn.
        against, ax, name
            As in `from_estimator`.

        Raises
        ------
        ValueError
            If the trace is empty.
        """
        validation.check_choice("against", against, get_args(Against))
        if not len(trace):
            raise ValueError(
                "the trace is empty: there is nothing to draw; solve again, or load a solution with its trace."
            )
        objective, bound = trace["objective"], trace["lower_bound"]
        if kind != "regret":
            objective, bound = np.fmin.accumulate(objective), np.fmax.accumulate(bound)
        display = cls(trace[against], objective, bound, against=against, kind=kind)
        return display.plot(ax, name=name)

    def plot(self, ax: Sequence[Axes] | None = None, *, name: str | None = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : two Axes, optional
            For values and for the gap; default: new axes, one below the other.
        name : str, optional
            Prefix of the legend's entries "objective" and "lower bound".
        """
        values, gaps = self._set_axes(ax, (6, 6), stacked=True)
        named = f"{name}: " if name else ""
        color = look(sum(line.get_linestyle() == "-" for line in values.lines))[0]
        finite = np.isfinite(self.objective)
        proven = finite & np.isfinite(self.gap)
        is_regret = self.kind == "regret"

        def steps(axes: Axes, mask: NDArray[np.bool_], heights: FloatArray, label: str | None, style: str) -> None:
            curve = self.positions[mask], heights[mask], style
            axes.step(*curve, where="post", color=color, markersize=3, label=label)

        steps(values, finite, self.objective, f"{named}{'cumulative loss' if is_regret else 'objective'}", "o-")
        if proven.any():
            steps(values, proven, self.lower_bound, f"{named}lower bound", "o--")
            area = self.positions[proven], self.lower_bound[proven], self.objective[proven]
            values.fill_between(*area, step="post", color=color, alpha=0.25, linewidth=0)
            if proven.sum() == 1:  # a single bound has no area
                values.vlines(*area, color=color, alpha=0.25, linewidth=6)
        if (shown := proven & (self.gap > 0)).any():  # a logarithmic axis cannot show a gap of 0
            steps(gaps, shown, self.gap, name, "o-")
            _scale_gaps(gaps)
        for note in list(gaps.texts):  # of an earlier solve on these axes
            note.remove()
        if not gaps.lines:
            reason = "the gap is 0" if proven.any() else "no lower bound"
            gaps.text(0.5, 0.5, reason, transform=gaps.transAxes, ha="center", va="center", color="0.5")
        values.set_ylabel("cumulative loss" if is_regret else "best so far")
        gaps.set(ylabel="regret, relative" if is_regret else "relative gap", xlabel=self.against)
        _scale_values(values, self.against)
        for axes in self.ax_:
            tidy(axes)
        place = {"loc": "lower left", "bbox_to_anchor": (0, 1), "ncols": 2}  # above the curves
        values.legend(fontsize="small", frameon=False, **place)
        return self


def _scale_values(axes: Axes, against: Against) -> None:
    """Make ranges of a factor above 50 logarithmic, of seconds and of values; a linear abscissa begins at 0."""
    curves = [np.asarray(curve.get_xydata(), dtype=float) for curve in axes.lines]
    times, heights = np.concatenate(curves).T
    if against == "seconds" and times.min() > 0 and times.max() > 50 * times.min():
        axes.set_xscale("log")
    else:
        axes.set_xlim(left=0)
    if heights.size and heights.min() > 0 and heights.max() > 50 * heights.min():
        axes.set_yscale("log")
    elif axes.get_yscale() == "linear":
        axes.ticklabel_format(axis="y", useOffset=False)  # it would overlap the legend


def _scale_gaps(axes: Axes) -> None:
    """Show whole decades of a logarithmic axis, two at least; then few points have labels around them."""
    from matplotlib.ticker import LogLocator, NullFormatter

    heights = np.concatenate([np.asarray(curve.get_ydata(), dtype=float) for curve in axes.lines])
    low, high = np.floor(np.log10(heights.min())), np.ceil(np.log10(heights.max()))
    axes.set(yscale="log", ylim=(10 ** min(low, high - 2), 10**high * 1.2))
    axes.yaxis.set_major_locator(LogLocator(numticks=8))
    axes.yaxis.set_minor_formatter(NullFormatter())
