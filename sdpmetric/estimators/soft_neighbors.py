"""What the estimators NCA and MLKR share: where they begin, and how early stopping scores numbers."""

from __future__ import annotations

from typing import cast

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import softmax
from sklearn.metrics import r2_score
from sklearn.utils import check_array, check_random_state

from sdpmetric.arrays import FloatArray
from sdpmetric.core.problem import Problem
from sdpmetric.core.run import Score
from sdpmetric.estimators.base import MetricEstimator
from sdpmetric.estimators.data import Data, Labels, Rows, Weights
from sdpmetric.problems.soft_neighbors import SoftNeighborProblem
from sdpmetric.solvers.nca_start import Init, initial, unsaturated


class SoftNeighborEstimator(MetricEstimator):
    """An estimator that descends from components, given or by name; it ends with as many rows as it begins with."""

    init: Init | FloatArray
    diagonal: bool

    def _continuous(self) -> bool:
        """Whether y are numbers."""
        raise NotImplementedError

    def _problem(self, X: Data, y: Labels, weights: Weights = None) -> Problem:
        self._check_start(X.shape[1])
        return self._state(self.statement, X, y, sample_weight=weights)

    def _divided(self, n: int, groups: Labels | None) -> tuple[Rows, Rows]:
        return super()._divided(n, None if self._continuous() else groups)

    def _measure(self, problem: Problem, y: Labels, X_held: Data, y_held: Labels) -> Score:
        if not self._continuous():
            return super()._measure(problem, y, X_held, y_held)

        def score(L: FloatArray) -> float:
            weights = softmax(-cdist(X_held @ L.T, problem.X @ L.T, "sqeuclidean"), axis=1)
            return float(r2_score(y_held, weights @ y))

        return score

    def _check_start(self, d: int) -> None:
        """Refuse components to begin with that do not fit the data."""
        if self.warm_start and hasattr(self, "components_"):
            self._check_last(self.components_.shape[1], d)
        if isinstance(self.init, np.ndarray):
            rows, columns = check_array(self.init, input_name="init").shape
            if columns != d or rows > d or self.n_components not in (None, rows):
                raise ValueError(
                    f"init has shape {(rows, columns)}; expected {self.n_components or f'at most {d}'} rows "
                    f"(n_components) and {d} columns (features)."
                )
        elif self.diagonal and self.init in ("pca", "lda"):
            raise ValueError(f"init={self.init!r} gives no diagonal matrix; with diagonal=True pass 'identity'.")

    def _start(self, problem: Problem) -> FloatArray:
        given, own = self.random_state, cast(SoftNeighborProblem, problem)
        self.random_state_ = check_random_state(self._seed() if isinstance(given, np.random.Generator) else given)
        if self.warm_start and hasattr(self, "components_"):
            return np.asarray(self.components_, dtype=np.float64)
        if isinstance(self.init, np.ndarray):
            return np.asarray(self.init, dtype=np.float64)
        how = "identity" if self.diagonal and self.init == "auto" else self.init
        index = None if own.row_classes is None else own.row_classes[np.argsort(own.order)]
        start = initial(own.X, index, own.n_components, how, self.random_state_)
        return self._scaled(own, np.diag(np.diag(start)) if self.diagonal else start)

    def _scaled(self, problem: SoftNeighborProblem, start: FloatArray) -> FloatArray:
        """Initial components at the scale to begin with."""
        return unsaturated(problem, start)

    def _fitted(self, problem: Problem, components: Data) -> dict[str, object]:
        return {"components_": components}
