"""LMNN in the feature space of a kernel, as an estimator."""

from __future__ import annotations

from dataclasses import field
from typing import Self, cast

import numpy as np
import scipy.sparse as sp
from sklearn.utils import Tags

from sdpmetric.arrays import FloatArray
from sdpmetric.core.problem import Problem
from sdpmetric.core.run import Score
from sdpmetric.estimators import routes
from sdpmetric.estimators.data import Data, Labels, Weights
from sdpmetric.estimators.large_margin import LargeMarginEstimator
from sdpmetric.estimators.options import Count, Ridge, estimator
from sdpmetric.problems.kernel import FeatureSpace, Kernel, KernelLMNNProblem
from sdpmetric.problems.lmnn import Loss


@estimator
class KernelLMNN(LargeMarginEstimator):
    """LMNN in the feature space of a kernel (Weinberger and Saul 2009, section 5.3) [WS2009], solved to a proof.

    Time is cubic and memory quadratic in the number of training examples. Target neighbors are nearest in the feature
    space. With a precomputed kernel `fit` does not stop early, and `fit_triplets` takes the kernel matrix, too.

    Parameters
    ----------
    n_components : int, optional
        Bound on the rank of the metric; `transform` then gives so many columns. Default: none.
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
    init : (r', r) array, optional
        Components to start from, of the coordinates in the feature space; default: the solver's own start.
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

    See Also
    --------
    LMNN : Without a kernel.

    Examples
    --------
    >>> from sklearn.datasets import make_circles
    >>> from sdpmetric.estimators import KernelLMNN
    >>> X, y = make_circles(60, factor=0.5, random_state=0)
    >>> KernelLMNN(n_components=2, gamma=1.0).fit_transform(X, y).shape
    (60, 2)
    """

    n_components: Count | None = field(default=None, kw_only=False)
    kernel: Kernel = "rbf"
    gamma: float | None = None
    degree: float | None = None
    coef0: float | None = None
    n_neighbors: Count = 3
    push_weight: float = 0.5
    ridge: Ridge = 0.1
    loss: Loss = "hinge"
    space_: FeatureSpace = field(init=False)
    statement = KernelLMNNProblem
    fit_triplets = routes.fit_triplets

    def _ranked(self, X: Data) -> Data:
        return X  # the feature space may have more directions than there are features; the solver checks

    def _coordinates(self, X: Data) -> FloatArray:
        given = {"gamma": self.gamma, "degree": self.degree, "coef0": self.coef0}
        parameters = {name: float(value) for name, value in given.items() if value is not None}
        return FeatureSpace.of(X, self.kernel, parameters)[1]

    def _fit(self, X: Data, y: Labels, weights: Weights = None, regions: Labels | None = None) -> Self:
        if self.early_stopping and self.kernel == "precomputed":
            raise ValueError(
                "early_stopping holds examples back from the feature space, and a precomputed kernel has all of them "
                "in it; name the kernel, or leave early_stopping out."
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
        """With a precomputed kernel, X is a matrix of pairs."""
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags
