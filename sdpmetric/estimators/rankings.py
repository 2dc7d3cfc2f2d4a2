"""The base of estimators that learn rankings: from labels, or from lists of relevant items."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from sdpmetric.core import validation
from sdpmetric.core.problem import Problem
from sdpmetric.estimators.base import MetricEstimator, weighted
from sdpmetric.estimators.callbacks import with_callbacks
from sdpmetric.estimators.data import Data, Labels, Weights, checked_data
from sdpmetric.ranking.relevance import Relevance
from sdpmetric.ranking.scores import evaluate


class RankingEstimator(MetricEstimator):
    """An estimator that learns which items are relevant to which queries."""

    def _problem(self, X: Data, y: Labels, weights: Weights = None) -> Problem:
        _, index = validation.check_labels(y, len(X))
        related = Relevance.from_labels(index, unanswerable="exclude")
        return self._state(self.statement, X, related, **weighted(weights))

    @with_callbacks
    def fit_relevance(
        self,
        X: ArrayLike,
        relevance: Relevance | Sequence[ArrayLike] | sp.sparray | sp.spmatrix,
        queries: ArrayLike | None = None,
    ) -> Self:
        """Learn from items that are relevant to queries; errors and warnings are those of `fit`.

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
        """
        data = self._checked(X)
        asked = None if queries is None else checked_data(self, queries)

        state = partial(self._state, self.statement)
        if isinstance(relevance, Relevance):
            related = relevance
        elif sp.issparse(relevance):
            related = Relevance.from_matrix(relevance, leave_one_out=asked is None)
        else:
            related = Relevance.from_lists(list(relevance), len(data), leave_one_out=asked is None)
        if not self.early_stopping:
            return self._learn(state(data, related, queries=asked), data)
        learned, held = (np.arange(related.n_queries)[rows] for rows in self._divided(related.n_queries, None))
        rows = learned if asked is None else np.arange(len(data))  # queries that are items are held back as both
        known, rest = (related.part(some, rows, unanswerable="exclude") for some in (learned, held))
        problem = state(data[rows], known, queries=None if asked is None else asked[learned])
        further = (data if asked is None else asked)[held]
        return self._learn(problem, data, measure=lambda L: evaluate(problem.X, rest, further, components=L).map)
