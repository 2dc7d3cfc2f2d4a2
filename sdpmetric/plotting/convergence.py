"""The convergence of a solve: objective, lower bound and gap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from sdpmetric.core.certificate import relative_gap
from sdpmetric.core.solution import Solution
from sdpmetric.core.trace import Trace
from sdpmetric.plotting.curves import WIDE, Against, TraceDisplay, column, legend_above, legible, start
from sdpmetric.plotting.style import COLOURS, axes_of, figure_of, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FloatArray = NDArray[np.float64]


@dataclass(eq=False, repr=False)
class ConvergenceDisplay(TraceDisplay):
    """Objective and lower bound above, the gap between them below.

    Make one with `from_estimator`, `from_solution` or `from_trace`. To compare solves, draw the second one on the axes
    of the first: ``second.plot(ax=first.ax_, name="second")``.

    Parameters
    ----------
    at : (t,) array
        Seconds or iterations.
    objective, lower_bound : (t,) arrays
        Best so far; not finite where nothing is known yet. The objective of a stream is its cumulative loss.
    against : {"seconds", "iteration"}
    kind : str
        Of the certificate; see `sdpmetric.Certificate`.

    Attributes
    ----------
    ax_ : list of two Axes
    figure_ : Figure
    """

    at: FloatArray
    objective: FloatArray
    lower_bound: FloatArray
    against: Against = field(default="seconds", kw_only=True)
    kind: str = field(default="duality", kw_only=True)
    ax_: list[Axes] = field(init=False)

    @property
    def gap(self) -> FloatArray:
        """Relative gap, as in `sdpmetric.Certificate.relative_gap`; not finite where there is no bound."""
        pairs = zip(self.objective.tolist(), self.lower_bound.tolist(), strict=True)
        return np.array([relative_gap(objective, bound) for objective, bound in pairs])

    @classmethod
    def _of(cls, trace: Trace, against: Against, kind: str, solution: Solution | None) -> Self:
        at, objective, bound = column(trace, against), trace["objective"], trace["lower_bound"]
        if kind != "regret":
            objective, bound = np.fmin.accumulate(objective), np.fmax.accumulate(bound)
        return cls(at, objective, bound, against=against, kind=kind)

    def plot(
        self, ax: Axes | Sequence[Axes] | None = None, *, name: str | None = None, colour: str | None = None
    ) -> Self:
        """Draw.

        Parameters
        ----------
        ax : two Axes, optional
            For values and for the gap; default: new ones, one below the other.
        name : str, optional
            Prefix of the legend's entries "objective" and "lower bound".
        colour : str, optional
            Default: the next colour of the axes.

        Returns
        -------
        self
        """
        values, gaps = self.ax_ = axes_of(ax, 2, (6.4, 5.6), "x")
        self.figure_ = figure_of(values)
        named = f"{name}: " if name else ""
        drawn = sum(line.get_linestyle() == "-" for line in values.lines)
        colour = COLOURS[drawn % len(COLOURS)] if colour is None else colour
        own = np.isfinite(self.objective)
        known = own & np.isfinite(self.gap)
        what = "cumulative loss" if self.kind == "regret" else "objective"

        def steps(axes: Axes, where: NDArray[np.bool_], heights: FloatArray, label: str | None, style: str) -> None:
            axes.step(
                self.at[where],
                heights[where],
                style,
                where="post",
                color=colour,
                linewidth=1.6,
                markersize=3,
                label=label,
            )

        steps(values, own, self.objective, f"{named}{what}", "o-")
        if known.any():
            steps(values, known, self.lower_bound, f"{named}lower bound", "o--")
            values.fill_between(
                self.at[known], self.lower_bound[known], self.objective[known], step="post", color=colour, alpha=0.15,
                linewidth=0,
            )  # fmt: skip
            if (shown := known & (self.gap > 0)).any():  # a logarithmic axis cannot show a gap of 0
                steps(gaps, shown, self.gap, name, "o-")
                gaps.set_yscale("log")
                legible(gaps)
        for note in list(gaps.texts):  # of an earlier solve on these axes
            note.remove()
        if not gaps.lines:
            gaps.text(
                0.5, 0.5, "the gap is 0" if known.any() else "no lower bound", transform=gaps.transAxes, ha="center",
                va="center", color="0.4",
            )  # fmt: skip
        heights = np.concatenate([np.asarray(curve.get_ydata(), dtype=float) for curve in values.lines])
        if heights.size and heights.min() > 0 and heights.max() > WIDE * heights.min():
            values.set_yscale("log")
        elif values.get_yscale() == "linear":
            values.ticklabel_format(axis="y", useOffset=False)  # it would overlap the legend
        values.set_ylabel("cumulative loss" if self.kind == "regret" else "best so far")
        gaps.set(ylabel="regret, relative" if self.kind == "regret" else "relative gap", xlabel=self.against)
        for axes in self.ax_:
            tidy(axes)
        start(values, self.against)
        legend_above(values)
        return self
