"""What the LogDet learners share: counts, checks of pairs, and the rank-one steps that an index follows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.core.pairs import check_targets
from sdpmetric.lego import loops


@dataclass(frozen=True, eq=False)
class MetricStep:
    """One rank-one step of a factor: ``G_new = G + outer(column, row)``.

    Attributes
    ----------
    column : (r,) array
        In the space that the factor maps to.
    row : (d,) array
        In the space of the examples.

    Examples
    --------
    >>> import sdpmetric as sm
    >>> X, y = sm.datasets.load("iris")
    >>> stream = sm.LEGOStream(4, 0.1)
    >>> step = stream.update(X[0], X[60], 4.0).steps[0]
    >>> type(step).__name__
    'MetricStep'
    """

    column: FloatArray
    row: FloatArray

    def apply(self, components: FloatArray) -> FloatArray:
        """Return the factor after the step.

        Parameters
        ----------
        components : (r, d) array
        """
        return np.asarray(components + np.outer(self.column, self.row))


@dataclass(frozen=True, eq=False)
class LogDetUpdate:
    """The result of one item of a stream."""

    # before the step: the pair's squared distance; for a comparison the near pair's minus the far pair's
    prediction: float
    loss: float  # before the step, half the square of the violation of the target or margin
    # steps of the factor in order: none if the target was satisfied, one for a pair, two for a comparison
    steps: tuple[MetricStep, ...]

    @property
    def step(self) -> MetricStep | None:
        """The step of a pair, or None if the metric did not move."""
        if len(self.steps) > 1:
            raise ValueError("a comparison moves the factor in two steps; take them in turn from steps.")
        return self.steps[0] if self.steps else None


class LogDetStream:
    """A metric that takes pairs with target distances; derived classes determine its form in memory."""

    def __init__(self, learning_rate: float) -> None:
        remedy = "the larger it is, the further each step goes"
        self.learning_rate = validation.check_positive("learning_rate", learning_rate, remedy)
        self._totals = np.zeros(loops.N_TOTALS)
        self._n_items = 0

    @property
    def n_items(self) -> int:
        """Pairs (and comparisons) taken so far."""
        return self._n_items

    @property
    def n_updates(self) -> int:
        """How many of them moved the metric."""
        return int(self._totals[loops.MOVES])

    @property
    def cumulative_loss(self) -> float:
        """Sum of the losses, each before its step."""
        return float(self._totals[loops.LOSS])

    def partial_fit(self, X: ArrayLike, pairs: ArrayLike, targets: ArrayLike, sides: ArrayLike | None = None) -> Self:
        """Take pairs of rows in turn, in one compiled loop.

        Parameters
        ----------
        X : (n, d) array
        pairs : (p, 2) integer array
        targets : (p,) array or float
            Squared distances, at least 0.
        sides : (p,) array or int, optional
            0, 1 or -1 for each pair, as in `update`; default 0.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If X has another number of features than the metric or is not finite; if pairs, targets or sides are
            invalid, see `sdpmetric.core.pairs.check_targets`; or if a number overflows. The pairs before that one have
            been taken. Also if a kernel matrix is not symmetric or not positive semidefinite.
        """
        data = self._check_data(X)
        checked = check_targets(data, pairs, targets, sides)
        if len(checked[0]):
            self._take(data, checked)
        return self

    def _check_data(self, X: ArrayLike) -> FloatArray:
        raise NotImplementedError

    def _take(self, X: FloatArray, goals: loops.Goals) -> object:
        """Take checked pairs, at least one."""
        raise NotImplementedError


def check_different(u: FloatArray, v: FloatArray) -> None:
    if (u == v).all():
        raise ValueError("the two examples are equal, 0 apart under every metric; leave the pair out.")
