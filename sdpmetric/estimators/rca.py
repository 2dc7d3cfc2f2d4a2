"""Relevant component analysis (RCA) as an estimator."""

from __future__ import annotations

from typing import Self

from numpy.typing import ArrayLike

from sdpmetric.estimators.base import Data, Labels
from sdpmetric.estimators.callbacks import with_callbacks
from sdpmetric.estimators.pairs_base import PairsEstimator
from sdpmetric.problems.rca import RCAProblem


class RCA(PairsEstimator):
    """Relevant component analysis (Bar-Hillel et al. 2005) [BHSW2005]: whitening within chunklets, in closed form.

    Parameters
    ----------
    ridge : float, default 0
        Added to the diagonal of the covariance within chunklets; needed where data vary in directions in which no
        chunklet does.

    Attributes
    ----------
    components_, metric_, solution_, dual_gap_, n_iter_, n_features_in_, feature_names_in_
        As in `sdpmetric.estimators.base.MetricEstimator`.

    Examples
    --------
    >>> import numpy as np
    >>> from sdpmetric.estimators import RCA
    >>> X = np.array([[0.0, 0.0], [0.1, 2.0], [1.0, 0.1], [1.2, 1.9]])
    >>> RCA().fit_chunks(X, [0, 0, 1, 1]).transform(X).shape
    (4, 2)
    """

    def __init__(self, *, ridge: float = 0.0) -> None:
        self.ridge = ridge

    def _problem(self, X: Data, y: Labels) -> RCAProblem:
        return RCAProblem.from_labels(X, y, self.ridge)

    def _problem_of_pairs(self, X: Data, pairs: ArrayLike, similar: ArrayLike) -> RCAProblem:
        return RCAProblem.from_pairs(X, pairs, similar, self.ridge)

    @with_callbacks
    def fit_chunks(self, X: ArrayLike, chunks: ArrayLike) -> Self:
        """Learn from chunklets, examples that are known to belong together.

        Parameters
        ----------
        X : (n, d) array
        chunks : (n,) integer array
            Number of each example's chunklet, -1: of none.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            What the problem refuses.
        """
        data = self._checked(X)
        return self._learn(RCAProblem(data, chunks, self.ridge), data)
