"""What a metric makes of the features: their weights, the matrix, and its spectrum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.plotting.style import Display, feature_names, hues, names_seen, one_metric, solution_of, tidy
from sdpmetric.report.contents import cancelling

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Panel = Literal["weights", "matrix", "spectrum"]
PANELS: tuple[Panel, ...] = ("weights", "matrix", "spectrum")

# Weights are drawn, and names in the heat map, up to this number of features.
NAMED = 16


@dataclass(eq=False, repr=False)
class FeaturesDisplay(Display):
    """Weights of the features as bars, a heat map of the metric, and its eigenvalues.

    Parameters
    ----------
    metric : (d, d) array
        PSD.
    scales : (d,) array
        Standard deviations of the features, which weights and the heat map are multiplied by; ones for the metric as it
        is.
    names : sequence of str
        Names of the features.
    cancel : (d,) array of bool, optional
        Features whose weight another one takes back, because the two are correlated: neither weight says what its
        feature is worth.
    shape : pair of int, optional
        Rows and columns of pixels, where the features are these.

    Attributes
    ----------
    ax_, figure_ : list of Axes, and Figure

    See Also
    --------
    MetricDisplay

    Examples
    --------
    >>> import sdpmetric as sm
    >>> X, y = sm.datasets.load("iris")
    >>> solution = sm.solve(sm.LMNNProblem.from_labels(X, y))
    >>> sm.plotting.FeaturesDisplay.from_solution(solution, X, panels=["weights", "spectrum"]).weights.shape
    (4,)
    """

    metric: FloatArray
    scales: FloatArray
    names: Sequence[str]
    cancel: NDArray[np.bool_] | None = None
    shape: tuple[int, int] | None = None
    ax_: list[Axes] = field(init=False)

    @property
    def weights(self) -> FloatArray:
        """The learned length of one standard deviation of each feature, ``s_i sqrt(M_ii)``."""
        return self.scales * np.sqrt(np.maximum(np.diag(self.metric), 0.0))

    @classmethod
    def from_estimator(
        cls,
        learned: object,
        X: ArrayLike | None = None,
        *,
        names: ArrayLike | None = None,
        shape: tuple[int, int] | None = None,
        panels: Sequence[Panel] = PANELS,
        ax: Axes | Sequence[Axes] | None = None,
    ) -> FeaturesDisplay:
        """Draw the metric of a fitted estimator, of the step of a pipeline that has one, or of a solution.

        Parameters
        ----------
        learned : estimator with ``solution_``, a pipeline with one, or Solution
        X : (n, d) array, optional
            Data in the metric's own features, whose standard deviations make weights comparable; default: none, as for
            standardized features. Which weights cancel is told from X, or from the data of the solution's problem.
        names : sequence of str, optional
            Names of the features; default: those of the fit, of a pipeline where its steps keep them, or of X.
        shape : pair of int, optional
            Rows and columns of images whose pixels the features are: the weights are drawn as an image.
        panels, ax
            As in `plot`.
        """
        solution = solution_of(learned)
        L = one_metric(solution)
        d = L.shape[1]
        scales = np.ones(d) if X is None else validation.check_data(X).astype(np.float64).std(axis=0)
        if len(scales) != d:
            raise ValueError(f"X has {len(scales)} features and the metric {d}; pass the features it is for.")
        if shape is not None and shape[0] * shape[1] != d:
            raise ValueError(f"shape must have {d} pixels, one for each feature, got {shape!r}.")
        choices = [choice for choice in (names, names_seen(learned), getattr(X, "columns", None)) if choice is not None]
        data = X if X is not None else None if solution.problem is None else solution.problem.X
        cancel = None if data is None else cancelling(L, np.asarray(validation.check_data(data), dtype=np.float64)) >= 0
        named = feature_names(choices[0] if choices else None, d)
        return cls(L.T @ L, scales, named, cancel, shape).plot(ax, panels=panels)

    from_solution = from_estimator

    def plot(self, ax: Axes | Sequence[Axes] | None = None, *, panels: Sequence[Panel] = PANELS) -> Self:
        """Draw.

        Parameters
        ----------
        ax : Axes, optional
            As many as `panels`; default: new ones side by side.
        panels : sequence of {"weights", "matrix", "spectrum"}
            "weights": the features of the largest weights, at most 16, hatched where they cancel; "matrix": the heat
            map of ``s_i s_j M_ij``; "spectrum": the eigenvalues of that.
        """
        height = 3.6 + 0.16 * min(max(len(self.names), 4), NAMED)
        draw = {"weights": self._weights, "matrix": self._matrix, "spectrum": self._spectrum}
        # 3.8 inches a panel: three across a page keep their letters legible.
        self.ax_ = self._panels(ax, panels, (3.8, height), draw)
        return self

    @property
    def _scaled(self) -> FloatArray:
        return self.scales[:, None] * self.metric * self.scales

    def _weights(self, axes: Axes) -> None:
        if self.shape is not None:
            image = axes.imshow(self.weights.reshape(self.shape), cmap="viridis", interpolation="nearest")
            self.figure_.colorbar(image, ax=axes, location="top", shrink=0.7, label="weight of the pixel")
            axes.set(xticks=[], yticks=[])
            return
        order = np.argsort(-self.weights, kind="stable")[:NAMED][::-1]
        bars = axes.barh(np.arange(len(order)), self.weights[order], color=hues()[0], height=0.7)
        cancel = [] if self.cancel is None else [bar for bar, i in zip(bars, order, strict=True) if self.cancel[i]]
        for bar in cancel:
            bar.set(facecolor="none", edgecolor=hues()[0], hatch="///")
        if cancel:
            cancel[0].set_label("cancels with a correlated feature")
            axes.legend(fontsize="small", frameon=False, loc="lower right")
        axes.set_yticks(np.arange(len(order)), [self.names[i] for i in order], fontsize="small")
        some = "" if len(order) == len(self.names) else f", the {len(order)} largest of {len(self.names)}"
        axes.set(xlabel="learned length of one unit", title=f"feature weights{some}")
        if not np.array_equal(self.scales, np.ones(len(self.scales))):
            axes.set_xlabel("learned length of one standard deviation")
        tidy(axes)
        axes.grid(visible=False, axis="y")

    def _matrix(self, axes: Axes) -> None:
        M = self._scaled
        reach = float(np.abs(M).max()) or 1.0
        image = axes.imshow(M, cmap="RdBu_r", vmin=-reach, vmax=reach, interpolation="nearest")
        self.figure_.colorbar(image, ax=axes, location="top", shrink=0.7, label="metric")
        if len(self.names) <= NAMED:
            positions = np.arange(len(self.names))
            axes.set_xticks(positions, self.names, rotation=60, ha="right", rotation_mode="anchor", fontsize="small")
            axes.set_yticks(positions, self.names, fontsize="small")

    def _spectrum(self, axes: Axes) -> None:
        values = np.linalg.eigvalsh(self._scaled)[::-1]
        shown = values[values > 1e-8 * max(float(values[0]), np.finfo(float).tiny)]
        axes.plot(np.arange(1, len(shown) + 1), shown, "o-", color=hues()[0], markersize=4, linewidth=1.2)
        if len(shown) and shown[0] > 50 * shown[-1]:
            axes.set_yscale("log")
        else:
            axes.set_ylim(0, 1.08 * float(shown[0]) if len(shown) else 1.0)
        axes.set_xlim(0.5, len(values) + 0.5)
        from matplotlib.ticker import MaxNLocator

        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set(
            xlabel="number of the eigenvalue",
            ylabel="eigenvalue",
            title=f"spectrum: rank {len(shown)} of {len(values)}",
        )
        tidy(axes)
