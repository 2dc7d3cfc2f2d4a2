"""LMNN in the feature space of a kernel, as an estimator."""

from __future__ import annotations

from dataclasses import field
from typing import cast

import numpy as np
import scipy.sparse as sp
from sklearn.utils import Tags

from sdpmetric.core.problem import Problem
from sdpmetric.estimators.base import FloatArray
from sdpmetric.estimators.comparisons import TripletsEstimator
from sdpmetric.estimators.data import Data, Labels
from sdpmetric.estimators.held_back import Examples
from sdpmetric.estimators.large_margin import LargeMarginEstimator
from sdpmetric.estimators.options import Reduced, Solved, Started, StoppedEarly, options
from sdpmetric.problems.kernel import FeatureSpace, Kernel, KernelLMNNProblem
from sdpmetric.problems.lmnn import Loss
from sdpmetric.problems.well_posed import Ridge


@options
class KernelLMNN(LargeMarginEstimator, TripletsEstimator, Reduced, Solved, Started, StoppedEarly):
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
    ridge : float or "auto", default 0.1
        Weight of the trace in the feature space. Without it the optimum is 0 if the kernel makes the examples linearly
        independent, as the RBF kernel does, and the metric is meaningless.
    init : (r', r) array, optional
        Components to start from, of the coordinates in the feature space; default: the solver's own start.

    Attributes
    ----------
    space_ : FeatureSpace
        The coordinates in the feature space on which the metric is learned; contains the training examples.
    components_ : (r', r) array
        The factor of the metric on these r coordinates.
    metric_ : (r, r) array
        ``L.T @ L``.

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
    _statement = KernelLMNNProblem

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
