"""What the estimators NCA and MLKR share: where they begin, and how early stopping scores numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.special import softmax
from sklearn.metrics import r2_score
from sklearn.utils import check_array, check_random_state

from sdpmetric.core.problem import Problem
from sdpmetric.estimators.data import Data, Labels
from sdpmetric.estimators.held_back import Examples
from sdpmetric.estimators.labelled import WeightedEstimator
from sdpmetric.problems.soft_neighbors import SoftNeighborProblem
from sdpmetric.solvers.nca_start import Init, initial, unsaturated

FloatArray = NDArray[np.float64]


class SoftNeighborEstimator(WeightedEstimator):
    """An estimator that descends from given components; subclasses have the parameters named below."""

    n_components: int | None
    init: Init | FloatArray
    warm_start: bool
    diagonal: bool
    random_state: int | np.random.RandomState | None

    def _continuous(self) -> bool:
        """Whether y are numbers."""
        raise NotImplementedError

    def _examples(self, X: Data, y: Labels) -> Examples:
        return Examples(X, y, *self._divided(len(y), None if self._continuous() else y))

    def _score(self, problem: Problem, examples: Examples, components: FloatArray) -> float:
        if not self._continuous():
            return super()._score(problem, examples, components)
        X, y = examples.held_back
        apart = cdist(X @ components.T, problem.X @ components.T, "sqeuclidean")
        weights = softmax(-apart, axis=1)
        return float(r2_score(y, weights @ examples.learned[1]))

    def _check_start(self, d: int) -> None:
        """Refuse components to begin with that do not fit the data."""
        if self.n_components is not None and self.n_components > d:
            raise ValueError(
                f"n_components={self.n_components} cannot be greater than the number of features, {d}; "
                "ask for fewer components."
            )
        if self.warm_start and hasattr(self, "components_") and self.components_.shape[1] != d:
            raise ValueError(
                f"warm_start=True, but the components of the fit before are for {self.components_.shape[1]} features, "
                f"and X has {d}; pass data like those, or fit anew with warm_start=False."
            )
        if isinstance(self.init, np.ndarray):
            rows, columns = check_array(self.init, input_name="init").shape
            if columns != d or rows > d or self.n_components not in (None, rows):
                raise ValueError(
                    f"init has shape {(rows, columns)}; expected {self.n_components or f'at most {d}'} rows "
                    f"(n_components) and {d} columns (features)."
                )
        elif self.diagonal and self.init in ("pca", "lda"):
            raise ValueError(f"init={self.init!r} gives no diagonal matrix; with diagonal=True pass 'identity'.")

    def _start(self, problem: SoftNeighborProblem) -> FloatArray:
        self.random_state_ = check_random_state(self.random_state)
        if self.warm_start and hasattr(self, "components_"):
            return np.asarray(self.components_, dtype=np.float64)
        if isinstance(self.init, np.ndarray):
            return np.asarray(self.init, dtype=np.float64)
        how = self.init
        if self.diagonal and how == "auto":
            how = "identity"
        index = problem.row_classes
        if index is not None:
            index = index[np.argsort(problem.order)]
        start = initial(problem.X, index, problem.n_components, how, self.random_state_)
        return self._scaled(problem, np.diag(np.diag(start)) if self.diagonal else start)

    def _scaled(self, problem: SoftNeighborProblem, start: FloatArray) -> FloatArray:
        """Initial components at the scale to begin with."""
        return unsaturated(problem, start)

    def _rows(self, components: Data) -> Data:
        return components  # as many as the start had
