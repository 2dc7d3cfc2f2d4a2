"""LMNN with several metrics, one for each region, as an estimator that also classifies."""

from __future__ import annotations

from typing import NoReturn, Self, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from sdpmetric.arrays import FloatArray
from sdpmetric.classification.nearest import knn_predict, nearest_neighbors
from sdpmetric.core.problem import Problem
from sdpmetric.core.run import Score
from sdpmetric.estimators.callbacks import with_callbacks
from sdpmetric.estimators.data import Data, Labels, Weights, checked_data, weighed
from sdpmetric.estimators.large_margin import LargeMarginEstimator
from sdpmetric.estimators.options import Count, Ridge, estimator
from sdpmetric.problems.lmnn import Loss
from sdpmetric.problems.multi_lmnn import MultiMetricLMNNProblem, Regions


@estimator
class MultiMetricLMNN(ClassifierMixin, LargeMarginEstimator):
    """LMNN with one metric for each region (Weinberger and Saul 2009, section 5.2) [WS2009], solved to a proof.

    The distance to a training example is measured by the metric of the training example's region. No embedding has
    these distances, so this estimator has its own `kneighbors` and `predict`; `transform` gives the coordinates under
    each metric side by side.

    Parameters
    ----------
    regions : {"class", "kmeans", "spectral"}, default "class"
        One metric for each class, or for each cluster. `fit` also takes an array of regions.
    n_regions : int, optional
        Number of clusters; default: as many as classes.
    n_neighbors : int, default 3
        Target neighbors per example, and neighbors that vote.
    push_weight : float, default 0.5
        ``mu`` in ``(1 - mu) pull + mu push``.
    ridge : float or "auto", default "auto"
        Weight of the sum of the traces; "auto" as in `LMNN`, the largest of the metrics'.
    loss : {"hinge", "squared_hinge"}, default "hinge"
    solver : {"auto", "factored", "subgradient", "conic"}, default "auto"
    tol : float or None, default 1e-3
        Relative gap to prove; None: the default of the solver.
    max_iter, max_time : int and float, optional
        Limits on evaluations and on seconds.
    verbose : bool, default False
    random_state : int, RandomState, Generator or None, default None
        Of clusters, and of what early stopping sets aside; None is 0.
    init : (c, r, d) array, optional
        Components to start from, one factor for each region; default: the solver's own start.
    warm_start : bool, default False
        Start from the metric of the last fit; the optimum is the same.
    early_stopping, validation_fraction, n_iter_no_change : default False, 0.3 and 10
        Keep a share of the examples out of the fit, and end it after so many steps without a better score on them, the
        accuracy of nearest neighbors; the best metric is taken.

    Attributes
    ----------
    components_ : (c, r, n_features_in_) array
        A factor for each region, padded with rows of zeros.
    metrics_ : (c, n_features_in_, n_features_in_) array
    metric_ : not defined
        There are several, `metrics_`.
    region_names_ : (c,) array
        In the order of the metrics.
    regions_ : (m,) integer array
        Region of each training example.
    classes_ : array
        Sorted class labels.
    X_fit_, y_fit_ : (m, d) and (m,) arrays
        The training examples, without validation examples.
    solution_ : Solution
        With certificate, status, multipliers and trace. A pickle carries it without the data.
    solutions_ : list of Solution
        `solution_` alone.
    relative_gap_ : float
        The proven relative gap.
    ridge_ : float
        The ridge that was used.
    validation_score_ : float
        With early stopping, the score on what was kept out.
    n_iter_, n_features_in_, feature_names_in_
        Evaluations of objective and gradient; features, and their names where the data have any.

    See Also
    --------
    LMNN : One metric, which has an embedding.
    EnergyClassifier : Predicts labels by the objective.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sdpmetric.estimators import MultiMetricLMNN
    >>> X, y = load_iris(return_X_y=True)
    >>> several = MultiMetricLMNN().fit(X, y)
    >>> several.metrics_.shape, several.transform(X).shape[0]
    ((3, 4, 4), 150)
    """

    regions: Regions = "class"
    n_regions: Count | None = None
    n_neighbors: Count = 3
    push_weight: float = 0.5
    ridge: Ridge = "auto"
    loss: Loss = "hinge"
    statement = MultiMetricLMNNProblem

    @with_callbacks
    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        regions: ArrayLike | None = None,
    ) -> Self:
        """Learn from labels; errors and warnings are those of `LMNN.fit`.

        Parameters
        ----------
        X, y, sample_weight
            As in `LMNN.fit`.
        regions : (n,) array, optional
            Region of each example, instead of the constructor's. Request it with ``set_fit_request(regions=True)`` to
            have a pipeline or a search pass it on.

        Returns
        -------
        self
        """
        data, labels = self._checked_labels(X, y)
        given = np.zeros(len(data)) if regions is None else np.asarray(regions)
        if given.shape != (len(data),):
            raise ValueError(f"regions has shape {given.shape}; pass one region for each of {len(data)} examples.")
        weights, rows = weighed(sample_weight, len(data))
        return self._fit(data[rows], labels[rows], weights, None if regions is None else given[rows])

    def _problem(
        self, X: Data, y: Labels, weights: Weights = None, targets: sp.csr_array | None = None, **about: object
    ) -> Problem:
        if "regions" in about:
            about["n_regions"] = None
        if targets is not None:
            about["n_neighbors"] = 1  # only what a region must have more of
        return super()._problem(X, y, weights, targets, **about)

    def _fitted(self, problem: Problem, components: Data) -> dict[str, object]:
        own = cast(MultiMetricLMNNProblem, problem)
        assert own.classes is not None
        return super()._fitted(problem, components) | {
            "region_names_": own.region_names,
            "regions_": own.regions,
            "classes_": own.classes,
            "X_fit_": own.X,
            "y_fit_": own.classes[own.source.labels],
        }

    def _measure(self, problem: Problem, y: Labels, X_held: Data, y_held: Labels) -> Score:
        votes, regions = self.n_neighbors, cast(MultiMetricLMNNProblem, problem).regions
        return lambda L: float(np.mean(knn_predict(L, problem.X, y, X_held, votes, regions=regions) == y_held))

    def _votes(self) -> int:
        return min(self.n_neighbors, len(self.X_fit_))

    @property
    def metrics_(self) -> Data:
        """The metrics ``L.T @ L``, (c, d, d)."""
        check_is_fitted(self)
        metrics: Data = np.swapaxes(self.components_, 1, 2) @ self.components_
        return metrics

    @property
    def metric_(self) -> NoReturn:
        """Not defined for several metrics; see `metrics_`."""
        raise AttributeError("there are several metrics; take one of metrics_.")

    def predict(self, X: ArrayLike) -> NDArray[np.generic]:
        """Majority vote of the nearest training examples; ties shrink the neighborhood until they break.

        Parameters
        ----------
        X : (n, n_features_in_) array

        Returns
        -------
        labels : (n,) array
        """
        check_is_fitted(self)
        data = checked_data(self, X)
        return knn_predict(self.components_, self.X_fit_, self.y_fit_, data, self._votes(), regions=self.regions_)

    def kneighbors(
        self, X: ArrayLike | None = None, n_neighbors: int | None = None
    ) -> tuple[FloatArray, NDArray[np.int64]]:
        """Nearest training examples, each distance measured by the metric of the training example's region.

        Parameters
        ----------
        X : (n, n_features_in_) array, optional
            Default: the training examples, each without itself.
        n_neighbors : int, optional
            Default: that of the constructor.

        Returns
        -------
        distances, neighbors : (n, n_neighbors) arrays
            Distances, not squared, and row numbers of `X_fit_`, nearest first.
        """
        check_is_fitted(self)
        data = None if X is None else checked_data(self, X)
        k = self.n_neighbors if n_neighbors is None else n_neighbors
        squared, rows = nearest_neighbors(self.components_, self.X_fit_, data, k, regions=self.regions_)
        return np.sqrt(squared), rows

    def pair_distance(self, X: ArrayLike, pairs: ArrayLike) -> NoReturn:
        """Not defined: the distance of a pair depends on the region of its second member; see `kneighbors`."""
        raise ValueError("a pair's distance depends on the region of its second member; use kneighbors or metrics_.")

    def get_metric(self) -> NoReturn:
        """Not defined, as `pair_distance` is not."""
        raise ValueError("a pair's distance depends on the region of its second member; use kneighbors or metrics_.")

    def _embed(self, X: Data | sp.csr_array) -> Data:
        return np.hstack([X @ L.T for L in self.components_])

    @property
    def _n_features_out(self) -> int:
        return int(np.prod(self.components_.shape[:2]))
