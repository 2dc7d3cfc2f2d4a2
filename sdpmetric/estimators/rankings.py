"""The base of estimators that learn rankings: from labels, or from lists of relevant items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from sdpmetric.core import validation
from sdpmetric.core.problem import Problem
from sdpmetric.estimators.callbacks import with_callbacks
from sdpmetric.estimators.data import Data, Labels, Weights, checked_data
from sdpmetric.estimators.labelled import LabelledEstimator
from sdpmetric.ranking.relevance import Relevance
from sdpmetric.ranking.scores import evaluate


class RankingEstimator(LabelledEstimator):
    """An estimator that learns which items are relevant to which queries."""

    def _stated(
        self, X: Data, related: Relevance, queries: Data | None = None, sample_weight: Weights = None
    ) -> Problem:
        """State the problem of checked data."""
        raise NotImplementedError

    def _problem(self, X: Data, y: Labels, sample_weight: Weights = None) -> Problem:
        _, index = validation.check_labels(y, len(X))
        return self._stated(X, Relevance.from_labels(index, unanswerable="exclude"), None, sample_weight)

    @with_callbacks
    def fit_relevance(
        self,
        X: ArrayLike,
        relevance: Relevance | Sequence[ArrayLike] | sp.sparray | sp.spmatrix,
        queries: ArrayLike | None = None,
    ) -> Self:
        """Learn from items that are relevant to queries.

        Parameters
        ----------
        X : (n, d) array
            The items.
        relevance : Relevance, lists of row numbers of X, or sparse (m, n) matrix
            One list or row for each query.
        queries : (m, d) array, optional
            Default: the items, each left out of its own ranking.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            What the problem refuses.
        """
        data = self._checked(X)
        asked = None if queries is None else checked_data(self, queries)
        if isinstance(relevance, Relevance):
            related = relevance
        elif sp.issparse(relevance):
            related = Relevance.from_matrix(relevance, leave_one_out=asked is None)
        else:
            related = Relevance.from_lists(list(relevance), len(data), leave_one_out=asked is None)
        if not self._stops_early():
            return self._learn(self._stated(data, related, asked), data)
        learned, held = self._divided(related.n_queries, None)
        rows = learned if asked is None else np.arange(len(data))  # queries that are items are held back as both
        known, rest = (related.part(some, rows, unanswerable="exclude") for some in (learned, held))
        problem = self._stated(data[rows], known, None if asked is None else asked[learned])
        further = (data if asked is None else asked)[held]
        return self._learn(problem, data, measure=lambda L: evaluate(problem.X, rest, further, components=L).map)
