"""Estimators of large margins, LMNN, KernelLMNN and MultiMetricLMNN: small classes, several passes, early stopping."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, field
from typing import Literal, NoReturn, Self, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from sdpmetric.arrays import FloatArray, IndexArray
from sdpmetric.classification.nearest import knn_predict, nearest_neighbors
from sdpmetric.core import validation
from sdpmetric.core.named import Init
from sdpmetric.core.pairs import target_neighbors
from sdpmetric.core.problem import Problem
from sdpmetric.core.run import solve
from sdpmetric.core.solution import Solution
from sdpmetric.core.status import Status, warn
from sdpmetric.core.steps import Score
from sdpmetric.estimators import base
from sdpmetric.estimators.base import SolvedEstimator
from sdpmetric.estimators.data import Count, Data, Labels, Ridge, Weights, checked_data, estimator, weighed
from sdpmetric.lmnn.impostors import SearchMethod
from sdpmetric.lmnn.kernel import FeatureSpace, Kernel, KernelLMNNProblem
from sdpmetric.lmnn.multi_metric import MultiMetricLMNNProblem, Regions
from sdpmetric.lmnn.problem import LMNNProblem, Loss


@dataclass(frozen=True)
class RidgeSearch:
    """How `LMNN(ridge="cv")` chooses."""

    multiples: tuple[float, ...] = (30.0, 10.0, 3.0, 1.0, 0.3)  # of the ridge "auto"
    path_gap: float = 1e-2  # relative gap that is proven, at least
    folds: int = 5  # held back in turn


RIDGE_SEARCH = RidgeSearch()
LargeMarginProblem = LMNNProblem | MultiMetricLMNNProblem
# Advice for a metric that fits its training data only.
OVERFITTED = "Cross-validate, try Adapter, which stays near the given distances, or reduce the dimension (PCA)."


@estimator
class LargeMarginEstimator(SolvedEstimator):
    """An estimator with target neighbors, which several passes may choose again.

    A class with ``n_neighbors`` or fewer members, which the problem classes reject, gets a warning and fewer target
    neighbors: each member has all other members, and a class of one member serves as impostors only. So a
    cross-validation, which makes small classes smaller, does not fail.
    """

    n_neighbors: Count = 3
    push_weight: float = 0.5
    loss: Loss = "hinge"
    solutions_: list[Solution] = field(init=False)
    checks_neighbors = True
    remedy = f"learning hurt here. {OVERFITTED}"

    def _problem(
        self, X: Data, y: Labels, weights: Weights = None, targets: IndexArray | None = None, **arguments: object
    ) -> Problem:
        state = cast(type[LMNNProblem], self.statement).from_labels
        return self._state(state, X, y, target_neighbors=targets, sample_weight=weights, **arguments)

    def _problem_of_tuples(self, X: Data, tuples: ArrayLike, annotations: ArrayLike | None) -> Problem:
        return self._state(cast(type[LMNNProblem], self.statement).from_triplets, X, tuples, annotations)

    def _coordinates(self, X: Data) -> FloatArray:
        """Return the coordinates that determine the target neighbors of the first pass."""
        return np.asarray(X, dtype=np.float64)

    def _advice(self, solution: Solution) -> str:
        words = super()._advice(solution)
        if solution.status is not Status.STATIONARY:
            return words
        return (
            f"{words} Without n_components the program is convex, and its optimum may be cut to solution_.leading(r)."
        )

    def _keep(self, problem: Problem, solution: Solution, score: float | None = None) -> None:
        super()._keep(problem, solution, score)
        self.solutions_ = [solution]

    def _fit(self, X: Data, y: Labels, weights: Weights = None, regions: Labels | None = None) -> Self:
        """Solve, then solve again with the target neighbors that are nearest under the last metric."""
        n_passes = int(getattr(self, "n_passes", 1))
        rows, held = self._divided(len(y), y)
        data, labels = X[rows], y[rows]
        weights = None if weights is None else weights[rows]
        arguments = {} if regions is None else {"regions": regions[rows]}
        targets, start = self._targets_of_small_classes(data, labels), dict[str, object]()
        passes: list[tuple[Problem, Solution, float | None]] = []
        for number in range(n_passes):
            problem = self._problem(data, labels, weights, targets, **arguments)
            measure = self._measure(problem, labels, X[held], y[held]) if self.early_stopping else None
            start = start or self._start(problem, labels)
            solution, score = self._solve(problem, y, measure, **start)
            passes.append((problem, solution, score))
            if number + 1 < n_passes:
                L = np.asarray(solution.components, dtype=np.float64)
                points = np.asarray(problem.X, dtype=np.float64) @ self._padded(L).T
                targets, start = target_neighbors(points, labels, self.n_neighbors), {"init": L} if len(L) else {}
        self._keep(*max(reversed(passes), key=lambda fitted: fitted[2] or 0.0))  # of equals the latest
        self.solutions_ = [solution for _, solution, _ in passes]
        return self

    def _targets_of_small_classes(self, X: Data, y: Labels) -> IndexArray | None:
        """Return target neighbors if a class has too few members for the statement, else None."""
        k = self.n_neighbors
        classes, index = validation.check_labels(y, len(X))
        counts = np.bincount(index)
        if counts.min() > k:
            return None
        small = np.flatnonzero(counts <= k)
        if counts.max() == 1:
            raise ValueError("every class has one member only, so there are no target neighbors; merge classes.")
        some = ", ".join(f"{classes[c]!s} ({counts[c]})" for c in small[:10]) + (", .." if len(small) > 10 else "")
        warn(
            f"these classes have n_neighbors={k} or fewer members: {some}; their members get as many target neighbors "
            "as the class has others. Lower n_neighbors, or merge or drop them, to treat all classes alike.",
            UserWarning,
        )
        return target_neighbors(self._coordinates(X), y, k)


@estimator
class LMNN(LargeMarginEstimator):
    """Large margin nearest neighbor classification (Weinberger and Saul 2009, Eq. 14) [WS2009], solved to a proof.

    The program and its certificate: docs/methods.md.

    Parameters
    ----------
    n_components : int, optional
        Columns of `transform`, and a bound on the rank of the metric (LMNN-R, section 5.4). Default: as many columns as
        features, and no bound; columns past the rank are 0.
    n_neighbors : int, default 3
        Target neighbors per example.
    push_weight : float, default 0.5
        ``mu`` in ``(1 - mu) pull + mu push``.
    ridge : float, "auto" or "cv", default "auto"
        Weight of ``trace(M)``. "auto": ``(r / n)^2`` times the mean pull cost of a direction, for n examples that vary
        in r directions: next to nothing if there are many examples. "cv", for few labels: 30, 10, 3, 1 or 0.3 times
        that, by the accuracy of the nearest neighbor in five-fold cross-validation, which takes half of `max_time`;
        each solve starts from the one before. With 0 it is the paper's program; see docs/useless_optima.md.
    loss : {"hinge", "squared_hinge"}, default "hinge"
    search : {"auto", "brute", "ball_tree"}, default "auto"
        Impostor search, exact in every case.
    n_passes : int, default 1
        Passes (section 5.1): the target neighbors of each are the nearest under the metric of the pass before. Each
        learns on X, not on the data that the pass before transformed; see docs/estimators.md. Limits of time and
        iterations apply to each pass.
    solver : {"auto", "factored", "subgradient", "conic"}, default "auto"
    tol : float or None, default 1e-3
        Relative gap to prove; the solver's default if None.
    max_iter, max_time : int and float, optional
        Limits on evaluations and on seconds.
    verbose : bool, default False
    random_state : int, RandomState, Generator or None, default None
        Seed of what early stopping sets aside; None is 0.
    init : {"auto", "identity", "covariance", "random", "pca", "lda"} or (r, d) array, default "auto"
        Components to start from; the optimum is the same. "auto": the solver's own start; else the identity, whitening
        components, random numbers, principal components, linear discriminants, or a given array.
    warm_start : bool, default False
        Start from the components of the last fit.
    early_stopping, validation_fraction, n_iter_no_change : default False, 0.1 and 10
        Hold a share of the examples, pairs or comparisons out, and end the fit after `n_iter_no_change` steps without a
        better score on them: the accuracy of nearest neighbors, the area under the ROC curve of pairs, the share of
        comparisons in order, or the mean average precision of queries. The best metric is kept.

    Attributes
    ----------
    components_, metric_ : (r, d) and (d, d) arrays
        The factor L, in the dtype of the data, and ``L.T @ L``.
    solution_ : Solution
        With certificate, status, multipliers and trace.
    solutions_ : list of Solution
        One for each pass, each with its certificate.
    relative_gap_ : float
        The proven relative gap.
    ridge_ : float
        The ridge that was used.
    ridges_, scores_ : (p,) arrays
        With "cv", the values that were tried and their accuracies; else empty.
    validation_score_ : float
        With early stopping, the score on the data that were held out.
    n_iter_, n_features_in_, feature_names_in_
        Evaluations of objective and gradient; features, and their names if the data have any.

    See Also
    --------
    MultiMetricLMNN : One metric for each class or region.
    KernelLMNN : In the feature space of a kernel.
    EnergyClassifier : Predicts labels by the objective of LMNN.

    Examples
    --------
    >>> import sdpmetric as sm
    >>> X, y = sm.datasets.load("iris")
    >>> lmnn = sm.estimators.LMNN(tol=1e-3).fit(X, y)
    >>> lmnn.solution_.status.word, bool(lmnn.relative_gap_ <= 1e-3)
    ('optimal', True)
    """

    n_components: Count | None = field(default=None, kw_only=False)
    ridge: Ridge | Literal["cv"] = "auto"
    search: SearchMethod = "auto"
    n_passes: Count = 1
    ridges_: FloatArray = field(init=False)
    scores_: FloatArray = field(init=False)
    statement = LMNNProblem
    fit_triplets = base.fit_triplets

    def _problem(
        self, X: Data, y: Labels, weights: Weights = None, targets: IndexArray | None = None, **arguments: object
    ) -> Problem:
        chosen = {"ridge": self.ridge_} if self.ridge == "cv" else {}
        return super()._problem(X, y, weights, targets, **chosen, **arguments)

    def _caution(self, problem: Problem, solution: Solution, y: Labels | None) -> str | None:
        if (caution := super()._caution(problem, solution, y)) is not None or y is not None:
            return caution
        statement = cast(LMNNProblem, problem)
        directions, n_triplets = statement.pull_costs[0].sample_size.directions, statement.source.size
        n_parameters = directions * (directions + 1) // 2
        if n_triplets >= n_parameters:
            return None
        return f"{n_triplets:,} triplets, and {n_parameters:,} parameters of the metric: it may overfit. {OVERFITTED}"

    def _fit(self, X: Data, y: Labels, weights: Weights = None, regions: Labels | None = None) -> Self:
        self.ridges_, self.scores_ = np.zeros(0), np.zeros(0)
        if self.ridge == "cv":
            self._choose(X, y, weights)
        return super()._fit(X, y, weights, regions)

    def _choose(self, X: Data, y: Labels, weights: Weights) -> None:
        """Set the ridge by cross-validation, over fewer folds if half of the time is over."""
        began, n_scored, tol = time.perf_counter(), 0, max(self.tol or 0.0, RIDGE_SEARCH.path_gap)
        counts = np.bincount(validation.check_labels(y, len(X))[1])
        folds = StratifiedKFold(
            min(RIDGE_SEARCH.folds, max(2, int(counts.max()))), shuffle=True, random_state=self._seed()
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of classes that are small in a fold
            targets = self._targets_of_small_classes(X, y)
            problem_of_all = super()._problem(X, y, weights, targets, ridge="auto")
            self.ridges_ = np.array(RIDGE_SEARCH.multiples) * cast(LMNNProblem, problem_of_all).ridge
            self.scores_ = np.zeros(len(RIDGE_SEARCH.multiples))
            max_time = self._share_of_time(folds.get_n_splits() * len(RIDGE_SEARCH.multiples))
            for rows, held in folds.split(X, y):
                if n_scored and self.max_time is not None and time.perf_counter() - began > 0.5 * self.max_time:
                    break
                n_scored += len(held)
                start, targets = None, self._targets_of_small_classes(X[rows], y[rows])
                fold_weights = None if weights is None else weights[rows]
                problem = super()._problem(X[rows], y[rows], fold_weights, targets, ridge="auto")
                for k, ridge in enumerate(self.ridges_.tolist()):
                    stated = problem.with_weights(ridge=ridge)
                    L = solve(stated, tol=tol, max_time=max_time, init=start).components
                    start = L if L.any() else None
                    self.scores_[k] += np.sum(knn_predict(L, problem.X, y[rows], X[held], 1) == y[held])
            self.scores_ /= n_scored
        self.ridge_ = float(self.ridges_[np.argmax(self.scores_)])


@estimator
class KernelLMNN(LargeMarginEstimator):
    """LMNN in the feature space of a kernel (Weinberger and Saul 2009, section 5.3) [WS2009], solved to a proof.

    Time is cubic and memory quadratic in the number of training examples. Target neighbors are nearest in the feature
    space. With a precomputed kernel `fit` cannot stop early, and `fit_triplets` also expects the kernel matrix. Program
    and certificate: docs/methods.md.

    Parameters
    ----------
    n_components : int, optional
        Columns of `transform`, and a bound on the rank of the metric. Default: no bound, and as many columns as the
        rank.
    kernel : {"rbf", "poly", "linear", "laplacian", "sigmoid", "cosine", "precomputed"}, default "rbf"
        As in `sklearn.metrics.pairwise.pairwise_kernels`. With "precomputed", `fit` takes the (n, n) kernel matrix and
        `transform` the (m, n) kernel values with the training examples.
    gamma, degree, coef0 : float, optional
        Parameters of the kernels that have them; defaults are scikit-learn's: 1 / n_features, 3 and 1.
    n_neighbors, push_weight, loss, solver
        As in `LMNN`.
    ridge : float or "auto", default 0.1
        Weight of the trace in the feature space. Without it the optimum is 0 if the kernel makes the examples linearly
        independent, as the RBF kernel does, and the metric is meaningless.
    tol, max_iter, max_time, verbose, random_state
        As in `LMNN`.
    init : {"auto", "identity", "covariance", "random", "pca", "lda"} or (r', r) array, default "auto"
        As in `LMNN`, for the coordinates in the feature space.
    warm_start, early_stopping, validation_fraction, n_iter_no_change
        As in `LMNN`.

    Attributes
    ----------
    space_ : FeatureSpace
        The coordinates in the feature space on which the metric is learned; contains the training examples.
    components_ : (r', r) array
        The factor of the metric on these r coordinates.
    metric_ : (r, r) array
        ``L.T @ L``.
    solution_, solutions_, relative_gap_, ridge_, validation_score_, n_iter_, n_features_in_, feature_names_in_
        As in `LMNN`.
    """

    n_components: Count | None = field(default=None, kw_only=False)
    kernel: Kernel = "rbf"
    gamma: float | None = None
    degree: float | None = None
    coef0: float | None = None
    ridge: Ridge = 0.1
    space_: FeatureSpace = field(init=False)
    statement = KernelLMNNProblem
    fit_triplets = base.fit_triplets

    def _rows(self, d: int) -> int:
        return self.n_components or 1  # none by default: the feature space has as many directions as examples

    def _ranked(self, X: Data) -> Data:
        return X  # the feature space may have more directions than there are features; the solver checks

    def _coordinates(self, X: Data) -> FloatArray:
        kernel_parameters = {"gamma": self.gamma, "degree": self.degree, "coef0": self.coef0}
        parameters = {name: float(value) for name, value in kernel_parameters.items() if value is not None}
        return FeatureSpace.of(X, self.kernel, parameters)[1]

    def _fit(self, X: Data, y: Labels, weights: Weights = None, regions: Labels | None = None) -> Self:
        if self.early_stopping and self.kernel == "precomputed":
            raise ValueError(
                "early_stopping holds examples out of the feature space, but a precomputed kernel contains all of "
                "them; name the kernel, or leave early_stopping out."
            )
        return super()._fit(X, y, weights)

    def _measure(self, problem: Problem, y: Labels, X_held: Data, y_held: Labels) -> Score:
        space = cast(KernelLMNNProblem, problem).space
        return super()._measure(problem, y, space.transform(X_held), y_held)

    def _fitted(self, problem: Problem, components: Data) -> dict[str, object]:
        return super()._fitted(problem, components) | {"space_": cast(KernelLMNNProblem, problem).space}

    def _embed(self, X: Data | sp.csr_array) -> Data:
        return self.space_.transform(X if isinstance(X, np.ndarray) else X.toarray()) @ self.components_.T

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags


@estimator
class MultiMetricLMNN(ClassifierMixin, LargeMarginEstimator):
    """LMNN with one metric for each region (Weinberger and Saul 2009, section 5.2) [WS2009], solved to a proof.

    The distance to a training example is measured by the metric of the training example's region. No embedding has
    these distances, so this estimator has its own `kneighbors` and `predict`; `transform` gives the coordinates under
    each metric side by side. Program and certificate: docs/methods.md.

    Parameters
    ----------
    regions : {"class", "kmeans", "spectral"}, default "class"
        One metric for each class, or for each cluster. `fit` also accepts an array of regions.
    n_regions : int, optional
        Number of clusters; default: as many as classes.
    n_neighbors : int, default 3
        Target neighbors per example, and neighbors that vote.
    ridge : float or "auto", default "auto"
        Weight of the sum of the traces; "auto": the largest of the values that `LMNN` would use for each metric.
    push_weight, loss, solver
        As in `LMNN`.
    tol, max_iter, max_time, verbose, random_state
        As in `LMNN`; `random_state` is also that of clusters.
    init : {"auto", "identity", "covariance", "random", "pca", "lda"} or (c, r, d) array, default "auto"
        As in `LMNN`; a name starts each region alike.
    warm_start, early_stopping, validation_fraction, n_iter_no_change
        As in `LMNN`.

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
    solution_, solutions_, relative_gap_, ridge_, validation_score_, n_iter_, n_features_in_, feature_names_in_
        As in `LMNN`; `solutions_` holds `solution_` alone.
    """

    regions: Regions = "class"
    n_regions: Count | None = None
    ridge: Ridge = "auto"
    statement = MultiMetricLMNNProblem
    checks_neighbors = False  # no one embedding has these distances

    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None, regions: ArrayLike | None = None
    ) -> Self:
        """Learn from labels; errors and warnings are those of `LMNN.fit`.

        Parameters
        ----------
        X, y, sample_weight
            As in `LMNN.fit`.
        regions : (n,) array, optional
            Region of each example, instead of the constructor's. Request it with ``set_fit_request(regions=True)`` to
            have a pipeline or a search pass it on.
        """
        data, labels = self._checked_labels(X, y)
        region_names = np.zeros(len(data)) if regions is None else np.asarray(regions)
        if region_names.shape != (len(data),):
            raise ValueError(f"regions has shape {region_names.shape}; pass one for each of {len(data)} examples.")
        weights, rows = weighed(sample_weight, len(data))
        return self._fit(data[rows], labels[rows], weights, None if regions is None else region_names[rows])

    def _problem(
        self, X: Data, y: Labels, weights: Weights = None, targets: IndexArray | None = None, **arguments: object
    ) -> Problem:
        if "regions" in arguments:
            arguments["n_regions"] = None
        if targets is not None:
            arguments["n_neighbors"] = 1  # only what a region must have more of
        return super()._problem(X, y, weights, targets, **arguments)

    def _fitted(self, problem: Problem, components: Data) -> dict[str, object]:
        statement = cast(MultiMetricLMNNProblem, problem)
        assert statement.classes is not None
        return super()._fitted(problem, components) | {
            "region_names_": statement.region_names,
            "regions_": statement.regions,
            "classes_": statement.classes,
            "X_fit_": statement.X,
            "y_fit_": statement.classes[statement.source.labels],
        }

    def _measure(self, problem: Problem, y: Labels, X_held: Data, y_held: Labels) -> Score:
        votes, regions = self.n_neighbors, cast(MultiMetricLMNNProblem, problem).regions
        return lambda L: float(np.mean(knn_predict(L, problem.X, y, X_held, votes, regions=regions) == y_held))

    def _named(self, problem: Problem, init: Init, y: Labels | None) -> FloatArray:
        return np.stack([super()._named(problem, init, y)] * len(cast(MultiMetricLMNNProblem, problem).region_names))

    @property
    def metrics_(self) -> Data:
        """The metrics ``L.T @ L``, (c, d, d)."""
        check_is_fitted(self)
        return np.asarray(np.swapaxes(self.components_, 1, 2) @ self.components_)

    @property
    def metric_(self) -> NoReturn:
        """Not defined for several metrics; see `metrics_`."""
        raise AttributeError("there are several metrics; take one of metrics_.")

    def predict(self, X: ArrayLike) -> NDArray[np.generic]:
        """Predict by majority of the nearest training examples, (n,); ties shrink the neighborhood until they break."""
        check_is_fitted(self)
        votes, data = min(self.n_neighbors, len(self.X_fit_)), checked_data(self, X)
        return knn_predict(self.components_, self.X_fit_, self.y_fit_, data, votes, regions=self.regions_)

    def kneighbors(
        self, X: ArrayLike | None = None, n_neighbors: int | None = None
    ) -> tuple[FloatArray, NDArray[np.int64]]:
        """Return the nearest training examples, each distance measured by the metric of the training example's region.

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
        """Raise an error: the distance of a pair depends on the region of its second member; see `kneighbors`."""
        raise ValueError("a pair's distance depends on the region of its second member; use kneighbors or metrics_.")

    def get_metric(self) -> NoReturn:
        """Raise an error, for the same reason as `pair_distance`."""
        raise ValueError("a pair's distance depends on the region of its second member; use kneighbors or metrics_.")

    def _embed(self, X: Data | sp.csr_array) -> Data:
        return np.hstack([X @ L.T for L in self.components_])

    @property
    def _n_features_out(self) -> int:
        return int(np.prod(self.components_.shape[:2]))
