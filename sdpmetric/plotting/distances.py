"""Distances of pairs of one class and of two: their histograms with a threshold, and the ROC curve."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import roc_auc_score, roc_curve

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.core.pairs import pairs_of_labels
from sdpmetric.core.solution import Solution
from sdpmetric.linalg.distances import distances
from sdpmetric.plotting.style import Display, Learned, before_and_after, ink, look, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(eq=False, repr=False)
class DistancesDisplay(Display):
    """Learned distances of similar and of dissimilar pairs.

    Parameters
    ----------
    before, after : (p,) arrays
        Distances before and after learning; not squared.
    similar : (p,) array of bool
    threshold : float, optional
        Default: the one of the highest balanced accuracy.

    Attributes
    ----------
    ax_, figure_ : list of two Axes, and Figure

    Examples
    --------
    >>> import sdpmetric as sm
    >>> X, y = sm.datasets.load("iris")
    >>> solution = sm.solve(sm.LMNNProblem.from_labels(X, y))
    >>> before, after = sm.plotting.DistancesDisplay.from_solution(solution, X, y, random_state=0).areas
    >>> after > before
    True
    """

    before: FloatArray
    after: FloatArray
    similar: NDArray[np.bool_]
    threshold: float = math.nan

    def __post_init__(self) -> None:
        if math.isnan(self.threshold):
            false, true, levels = roc_curve(~self.similar, self.after, drop_intermediate=False)
            self.threshold = float(levels[np.argmax(true - false)])

    @property
    def areas(self) -> tuple[float, float]:
        """Area under the ROC curve of distances as a test of "dissimilar", before and after."""
        before, after = (float(roc_auc_score(~self.similar, lengths)) for lengths in (self.before, self.after))
        return before, after

    @classmethod
    def from_estimator(
        cls,
        learned: Learned,
        X: ArrayLike,
        y: ArrayLike,
        *,
        n_pairs: int | None = 10_000,
        threshold: float | None = None,
        random_state: int | None = None,
        ax: Sequence[Axes] | None = None,
    ) -> DistancesDisplay:
        """Draw distances of labeled examples before and after learning.

        Parameters
        ----------
        learned : estimator with ``transform``, a pipeline with one, or Solution
            In a pipeline, *before* is the input of the metric's step.
        X : (n, d) array
        y : (n,) array
            Two examples are similar if they have the same label.
        n_pairs : int or None, default 10000
            Pairs of each kind that are drawn at most; None: all of them.
        threshold : float, optional
            Largest distance of a similar pair; POLA's is the root of its ``threshold_``. Default: that of a solution
            that has one, else the one of the highest balanced accuracy.
        random_state : int, optional
            Seed of the draw.
        ax
            As in `plot`.
        """
        if threshold is None and isinstance(learned, Solution) and "threshold" in learned.extras:
            threshold = float(np.sqrt(learned.extras["threshold"]))
        data, Z = before_and_after(learned, X)
        _, index = validation.check_labels(y, len(data))
        pairs, similar = pairs_of_labels(index, n_pairs, random_state)
        first, second = pairs[:, 0], pairs[:, 1]
        before, after = (np.sqrt(distances(P, first, second)) for P in (data, np.ascontiguousarray(Z)))
        return cls(before, after, similar, math.nan if threshold is None else threshold).plot(ax)

    from_solution = from_estimator

    def plot(self, ax: Sequence[Axes] | None = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : two Axes, optional
            For the histograms and the ROC curve; default: new ones side by side.
        """
        histogram, roc = self._set_axes(ax, (10.4, 4.2))
        self._draw_histogram(histogram)
        self._draw_roc(roc)
        for axes in self.ax_:
            tidy(axes)
            axes.legend(fontsize="small", frameon=False)
        return self

    def _draw_histogram(self, axes: Axes) -> None:
        # Lines show the distances before, at the scale at which their mean is that of the learned ones.
        before = self.before * (float(self.after.mean()) / (float(self.before.mean()) or 1.0))
        top = float(np.quantile(np.concatenate([self.after, before]), 0.995)) or 1.0
        edges = np.linspace(0.0, top, 41).tolist()
        for c, (name, mask) in enumerate((("same class", self.similar), ("other class", ~self.similar))):
            color = look(c)[0]
            axes.hist(self.after[mask], edges, density=True, color=color, alpha=0.5, label=name)
            heights, _ = np.histogram(before[mask], edges, density=True)
            axes.stairs(heights, edges, color=color, linestyle=":", linewidth=1.4, label=f"{name}, before")
        accuracy = np.mean((self.after <= self.threshold) == self.similar)
        level = f"threshold {self.threshold:.3g}"
        axes.axvline(self.threshold, color=ink(), linestyle="--", linewidth=1.4, label=level)
        axes.set_title(f"the threshold is right for {accuracy:.1%} of pairs")
        axes.set(xlabel="learned distance", ylabel="density")

    def _draw_roc(self, axes: Axes) -> None:
        cases = (("before", self.before, "0.55"), ("after", self.after, look(0)[0]))
        for (name, lengths, color), area in zip(cases, self.areas, strict=True):
            false, true, _ = roc_curve(~self.similar, lengths)
            axes.plot(false, true, color=color, linewidth=1.8, label=f"{name}, area {area:.3f}")
        axes.plot([0, 1], [0, 1], ":", color="0.7", linewidth=1)
        axes.set(xlim=(0, 1), ylim=(0, 1.01), aspect="equal", title="ROC curve of distances")
        axes.set_xlabel("false positive rate: same class, farther than the level")
        axes.set_ylabel("true positive rate: other class, farther")
