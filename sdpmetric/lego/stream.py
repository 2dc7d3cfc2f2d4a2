"""LogDet exact gradient online (LEGO): each step the exact minimum of divergence and loss, in closed form."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from sdpmetric.core import validation
from sdpmetric.core.pairs import check_targets
from sdpmetric.lego import loops as logdet
from sdpmetric.lego.logdet import LogDetStream, LogDetUpdate, MetricStep


class LEGOStream(LogDetStream):
    """LEGO (Jain, Kulis, Dhillon and Grauman 2008, section 2) [JKDG2008].

    For a pair with the difference z and the target distance y the metric moves to::

        argmin over A of  D_ld(A, A_t) + learning_rate * loss(z^T A z, y),
        loss(p, y) = 1/2 (p - y)^2,  or 0 where a target that is a bound holds

    in closed form, Eq. 2.2 and 2.3 there. A pair with a side of 1 or -1 is the paper's quadruple (u, v, y, b). The
    metric stays positive definite for every learning rate. The factor G, ``G^T G = A``, moves by the rank-one step of
    section 3.2.

    Parameters
    ----------
    n_features : int
    learning_rate : float
        ``eta > 0``, in units of one over the square of a squared distance; `pretrained` chooses one.
    prior : (d, d) array, optional
        Positive definite ``A_0``; default: the identity.

    Raises
    ------
    ValueError
        If a number is out of range, or the metric is not positive definite.
    """

    def update_comparison(
        self, u: ArrayLike, v: ArrayLike, w: ArrayLike, x: ArrayLike, margin: float = 1.0
    ) -> LogDetUpdate:
        """Take one comparison of distances, ``d(u, v) + margin <= d(w, x)``.

        The loss is half the square of the violation. The step is the exact minimum, of rank two; see docs/lego.md.

        Parameters
        ----------
        u, v : (d,) arrays
            The pair that should be nearer.
        w, x : (d,) arrays
            The pair that should be farther apart.
        margin : float, default 1
            At least 0.

        Returns
        -------
        LogDetUpdate
            With two steps where the margin was violated.
        """
        near, far = self._difference(u, v), self._difference(w, x)
        gap = validation.check_number("margin", margin, 0.0)
        left, right = np.empty((2, len(self._G))), np.empty((2, len(near)))
        losses = self.cumulative_loss
        excess, moved = logdet.comparison_step(self._G, near, far, gap, self.learning_rate, left, right, self._totals)
        if not np.isfinite(excess):
            raise self._too_large("the distances or the margin of the comparison are")
        self._n_items += 1
        steps = (MetricStep(left[0], right[0]), MetricStep(left[1], right[1])) if moved else ()
        return LogDetUpdate(excess - gap, self.cumulative_loss - losses, steps)

    def partial_fit_comparisons(self, X: ArrayLike, comparisons: ArrayLike, margin: float = 1.0) -> Self:
        """Take comparisons of rows in turn, in one compiled loop.

        Parameters
        ----------
        X : (n, d) array
        comparisons : (q, 4) integer array
            Row numbers; the distance of the first two plus the margin should be at most that of the last two.
        margin : float, default 1

        Returns
        -------
        self
        """
        data = self._data(X)
        rows = np.asarray(comparisons)
        if rows.ndim != 2 or rows.shape[1] != 4:
            raise ValueError(f"comparisons must be an integer array of shape (q, 4), got shape {rows.shape}.")
        halves = [check_targets(data, rows[:, :2], 0.0, 1)[0], check_targets(data, rows[:, 2:], 0.0, -1)[0]]
        given = np.ascontiguousarray(np.concatenate(halves, axis=1))
        gap = validation.check_number("margin", margin, 0.0)
        taken = logdet.take_comparisons(self._G, data, given, gap, self.learning_rate, self._totals)
        self._n_items += taken
        if taken < len(given):
            raise self._too_large(f"the distances or the margin of comparison {given[taken].tolist()} are")
        return self
