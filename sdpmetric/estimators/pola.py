"""POLA as an estimator: in batch, solved to a proof, or pair by pair."""

from __future__ import annotations

from dataclasses import field
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from sdpmetric.core.problem import Problem
from sdpmetric.core.solution import Solution
from sdpmetric.estimators import routes
from sdpmetric.estimators.data import Data
from sdpmetric.estimators.options import N_PAIRS, Count, Positive, Seed, Share, Verbosity, estimator
from sdpmetric.estimators.streams import StreamingEstimator
from sdpmetric.problems.pola import POLAProblem
from sdpmetric.streams.pola import POLAStream


@estimator
class POLA(StreamingEstimator):
    """A metric and a threshold between similar and dissimilar pairs (Shalev-Shwartz, Singer and Ng 2004) [SSN2004].

    `fit` and `fit_pairs` solve the batch problem to a proof. `partial_fit` and `partial_fit_pairs` are the paper's
    online algorithm: they take pairs one after another, continue where the last call ended, and start again after a
    `fit`. Nothing is proven about their metric, and there is no ``solution_``.

    Parameters
    ----------
    n_components : int, optional
        Columns of `transform`: the leading principal components of the transformed examples; online, the leading
        eigenvectors of the metric. `solution_` is the whole metric. Default: all.
    slack_weight : float or None, default 0.01
        Weight of the sum of the slacks; None: hard margins, which are feasible for few data sets. If many pairs
        contradict each other, larger weights take longer.
    initial_threshold : float, default 1
        ``b_1``, at least 1.
    gamma : float, optional
        Online only, for pairs that no metric separates: steps are shortened by it; see `sdpmetric.POLAStream`.
    n_pairs : int or None, default 10000
        With labels: pairs of each kind that are drawn at most, from each batch where it is online; None: all of them.
    solver : {"auto", "dual", "conic", "batch"}, default "auto"
        "batch" is for the hard margin; see `sdpmetric.solve`.
    tol, max_iter, max_time, verbose, random_state
        As in `LMNN`; `random_state` is also that of pairs.
    early_stopping, validation_fraction, n_iter_no_change
        As in `MMC`.

    Attributes
    ----------
    threshold_ : float
        Squared distances below it mean similar.
    stream_ : POLAStream
        Online only: the learner, with counts of updates and mistakes and its cumulative loss.
    components_, metric_, solution_, relative_gap_, validation_score_, n_iter_, n_features_in_, feature_names_in_
        As in `LMNN`; online `n_iter_` counts the pairs taken.

    See Also
    --------
    PairClassifier : Tells pairs apart, by the threshold of POLA.
    LEGO : Pairs one after another, with bounds on their distances.

    Examples
    --------
    >>> from sdpmetric.estimators import POLA
    >>> X = [[0.0, 0.0], [0.2, 1.0], [3.0, 0.1], [3.1, 1.2]]
    >>> pola = POLA(slack_weight=None).fit_pairs(X, pairs=[[0, 1], [2, 3], [0, 2], [1, 3]], similar=[1, 1, -1, -1])
    >>> pola.predict_pairs(X, [[0, 1], [1, 2]]).tolist()
    [True, False]
    """

    n_components: Count | None = field(default=None, kw_only=False)
    slack_weight: float | None = 0.01
    initial_threshold: float = 1.0
    gamma: float | None = None
    n_pairs: Count | None = N_PAIRS
    solver: str = "auto"
    tol: Positive | None = 1e-3
    max_iter: Count | None = None
    max_time: Positive | None = None
    verbose: Verbosity = False
    random_state: Seed = None
    early_stopping: bool = False
    validation_fraction: Share = 0.3
    n_iter_no_change: Count = 10
    stream_: POLAStream = field(init=False)
    statement = POLAProblem
    fit_pairs = routes.fit_pairs

    def predict_pairs(self, X: ArrayLike, pairs: ArrayLike) -> NDArray[np.bool_]:
        """Say which pairs are similar: those whose squared distance is below the threshold.

        Parameters
        ----------
        X : (n, n_features_in_) array
        pairs : (p, 2) integer array
            Row numbers of X.

        Returns
        -------
        similar : (p,) bool array
        """
        check_is_fitted(self)
        return np.asarray(self.pair_distance(X, pairs) ** 2 < self.threshold_)

    def _keep(self, problem: Problem, solution: Solution, score: float | None = None) -> None:
        super()._keep(problem, solution, score)
        self.threshold_ = solution.extras["threshold"]

    # -- online -------------------------------------------------------------------------------------------------------

    def _taken(self) -> int:
        return self.stream_.n_pairs

    def _take_pairs(self, X: Data, pairs: ArrayLike, similar: ArrayLike) -> Self:
        if self._streaming():
            stream = self.stream_
        else:
            stream = POLAStream(X.shape[1], self.initial_threshold, self.gamma)
        stream.partial_fit(X, pairs, similar)
        self.threshold_ = stream.threshold
        return self._online(stream, X.dtype)
