"""ITML online: LogDet steps with the gradient at the old metric, and a rate that keeps the metric definite."""

from __future__ import annotations

from typing import ClassVar

from sdpmetric.streams.logdet import LogDetStream


class ITMLStream(LogDetStream):
    """Online LogDet steps with an explicit gradient, after Davis, Kulis, Jain, Sra and Dhillon (2007) [DKJSD2007].

    With z the difference of a pair, p its squared distance, y its target, and the loss ``1/2 (p - y)^2`` (or 0 where a
    target that is a bound holds) the loss is replaced by its tangent at the old metric, so that the minimum of
    ``D_ld(A, A_t) + eta_t (p - y) z^T A z`` is::

        A_{t+1}^{-1} = A_t^{-1} + eta_t (p - y) z z^T

    That is positive definite only while ``eta_t (y - p) p < 1``. Here ``eta_t = min(learning_rate, 1 / (2 (y - p) p))``
    where the distance is to grow, so that a step at most doubles it, and `learning_rate` elsewhere. LEGO takes the
    gradient at the new metric instead and needs no such limit.

    Parameters
    ----------
    n_features : int
    learning_rate : float
    initial_metric : (d, d) array, optional
        Positive definite ``A_0``; default: the identity.

    Raises
    ------
    ValueError
        If a number is out of range, or the metric is not positive definite.
    """

    _explicit: ClassVar[bool] = True
