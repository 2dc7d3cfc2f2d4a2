"""LMNN as an estimator."""

from __future__ import annotations

from sdpmetric.estimators.base import Data, LabelledEstimator, Labels
from sdpmetric.problems.lmnn import LMNNProblem, Loss


class LMNN(LabelledEstimator):
    """Large margin nearest neighbor classification (Weinberger and Saul 2009) [WS2009], with a proof."""

    def __init__(
        self,
        n_components: int | None = None,
        *,
        n_neighbors: int = 3,
        push_weight: float = 0.5,
        ridge: float = 0.0,
        loss: Loss = "hinge",
        solver: str = "auto",
        tol: float | None = None,
        max_iter: int | None = None,
        max_time: float | None = None,
        verbose: bool = False,
        random_state: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.push_weight = push_weight
        self.ridge = ridge
        self.loss = loss
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.verbose = verbose
        self.random_state = random_state

    def _problem(self, X: Data, y: Labels) -> LMNNProblem:
        return LMNNProblem.from_labels(X, y, self.n_neighbors, self.push_weight, ridge=self.ridge, loss=self.loss)
