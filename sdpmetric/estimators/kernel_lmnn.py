"""LMNN in the feature space of a kernel, as an estimator."""

from __future__ import annotations

from dataclasses import field
from functools import partial
from typing import cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.utils import Tags

from sdpmetric.core.problem import Problem
from sdpmetric.estimators.base import FloatArray
from sdpmetric.estimators.callbacks import with_callbacks
from sdpmetric.estimators.data import Data, Labels
from sdpmetric.estimators.held_back import Examples
from sdpmetric.estimators.large_margin import Given, LargeMarginEstimator
from sdpmetric.estimators.options import Reduced, Solved, Started, StoppedEarly, options
from sdpmetric.problems.kernel import FeatureSpace, Kernel, KernelLMNNProblem
from sdpmetric.problems.lmnn import Loss
from sdpmetric.problems.well_posed import Ridge


@options
class KernelLMNN(LargeMarginEstimator, Reduced, Solved, Started, StoppedEarly):
    """LMNN in the feature space of a kernel (Weinberger and Saul 2009, section 5.3) [WS2009], solved to a proof.

    Time is cubic and memory quadratic in the number of training examples.

    Parameters
    ----------
    n_components : int, optional
        Bound on the rank of the metric; `transform` then gives so many columns. Default: none.
    kernel : {"rbf", "poly", "linear", "laplacian", "sigmoid", "cosine", "precomputed"}, default "rbf"
        As in `sklearn.metrics.pairwise.pairwise_kernels`. With "precomputed", `fit` takes the (n, n) kernel matrix and
        `transform` the (m, n) kernel values with the training examples.
    gamma, degree, coef0 : float, optional
        Parameters of the kernels that have them; defaults are scikit-learn's: 1 / n_features, 3 and 1.
    n_neighbors : int, default 3
        Target neighbors per example, nearest in the feature space.
    push_weight : float, default 0.5
    ridge : float or "auto", default 0.1
        Weight of the trace in the feature space. Without it the optimum is 0 if the kernel makes the examples linearly
        independent, as the RBF kernel does, and the metric is meaningless.
    loss : {"hinge", "squared_hinge"}, default "hinge"
    init, warm_start, early_stopping, validation_fraction, n_iter_no_change
        As in `LMNN`; components are those of coordinates in the feature space. `fit` does not stop early with a
        precomputed kernel.
    solver, tol, max_iter, max_time, verbose, random_state
        As in `LMNN`.

    Attributes
    ----------
    space_ : FeatureSpace
        The coordinates in the feature space on which the metric is learned; contains the training examples.
    components_ : (r', r) array
        The factor of the metric on these r coordinates; `metric_` is (r, r).
    solution_, solutions_, dual_gap_, n_iter_, n_features_in_, feature_names_in_
        As in `LMNN`.

    Examples
    --------
    >>> from sklearn.datasets import make_circles
    >>> from sdpmetric.estimators import KernelLMNN
    >>> X, y = make_circles(60, factor=0.5, random_state=0)
    >>> KernelLMNN(n_components=2, gamma=1.0).fit_transform(X, y).shape
    (60, 2)
    """

    kernel: Kernel = "rbf"
    gamma: float | None = None
    degree: float | None = None
    coef0: float | None = None
    n_neighbors: int = 3
    push_weight: float = 0.5
    ridge: Ridge = 0.1
    loss: Loss = "hinge"
    space_: FeatureSpace = field(init=False)

    def _state(self, X: Data, y: Labels, targets: sp.csr_array | None, given: Given) -> KernelLMNNProblem:
        return KernelLMNNProblem.from_labels(
            X,
            y,
            self.n_neighbors,
            self.push_weight,
            kernel=self.kernel,
            gamma=self.gamma,
            degree=self.degree,
            coef0=self.coef0,
            target_neighbors=targets,
            ridge=self.ridge,
            loss=self.loss,
            sample_weight=given.sample_weight,
        )

    @with_callbacks
    def fit_triplets(self, X: ArrayLike, triplets: ArrayLike, weights: ArrayLike | None = None) -> KernelLMNN:
        """Learn from triplets; see `LMNN.fit_triplets`.

        Parameters
        ----------
        X : (n, d) array
            For ``kernel="precomputed"`` the (n, n) kernel matrix.
        triplets : (t, 3) integer array
        weights : (t,) array, optional

        Returns
        -------
        self
        """
        data = self._checked(X)
        state = partial(
            KernelLMNNProblem.from_triplets,
            data,
            push_weight=self.push_weight,
            kernel=self.kernel,
            gamma=self.gamma,
            degree=self.degree,
            coef0=self.coef0,
            ridge=self.ridge,
            loss=self.loss,
        )
        self._learn_tuples(data, state, triplets, weights)
        self.solutions_ = [self.solution_]
        return self

    def _coordinates(self, X: Data) -> FloatArray:
        given = {"gamma": self.gamma, "degree": self.degree, "coef0": self.coef0}
        parameters = {name: float(value) for name, value in given.items() if value is not None}
        return FeatureSpace.of(X, self.kernel, parameters)[1]

    def _examples(self, X: Data, y: Labels) -> Examples:
        if self._stops_early() and self.kernel == "precomputed":
            raise ValueError(
                "early_stopping holds examples back from the feature space, and a precomputed kernel has all of them "
                "in it; name the kernel, or leave early_stopping out."
            )
        return super()._examples(X, y)

    def _predict(self, problem: Problem, components: FloatArray, y: Labels, X: Data) -> Labels:
        space = cast(KernelLMNNProblem, problem).space
        return super()._predict(problem, components, y, space.transform(X))

    def _fitted(self, problem: Problem, components: Data) -> dict[str, object]:
        return super()._fitted(problem, components) | {"space_": cast(KernelLMNNProblem, problem).space}

    def _embed(self, X: Data | sp.csr_array) -> Data:
        return self.space_.transform(X if isinstance(X, np.ndarray) else X.toarray()) @ self.components_.T

    def __sklearn_tags__(self) -> Tags:
        """With a precomputed kernel, X is a matrix of pairs."""
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags
