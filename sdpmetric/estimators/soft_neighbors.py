"""NCA and MLKR as estimators: initial components, and how early stopping scores continuous targets."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import field
from time import perf_counter
from typing import Literal, cast

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import softmax
from sklearn.metrics import r2_score
from sklearn.utils import Tags, check_array, check_random_state

from sdpmetric.arrays import FloatArray, allow_underflow
from sdpmetric.core.named import Init, named_components
from sdpmetric.core.problem import Problem
from sdpmetric.core.solution import Solution
from sdpmetric.core.status import Status
from sdpmetric.core.steps import Score
from sdpmetric.estimators.base import MetricEstimator, SolvedEstimator
from sdpmetric.estimators.data import Count, Data, Labels, NotNegative, Rows, Verbosity, Weights, estimator
from sdpmetric.nca.problem import MLKRProblem, NCAProblem, Objective, Targets
from sdpmetric.nca.soft_neighbors import SoftNeighborProblem
from sdpmetric.nca.solver import rescaled, unsaturated

# Lines that scikit-learn prints while NCA looks for a start, and above the iterations.
SOUGHT = {"pca": "principal", "lda": "most discriminative"}
HEADER = f"{'Iteration':>10} {'Objective Value':>20} {'Time(s)':>10}"


class SoftNeighborEstimator(MetricEstimator):
    """An estimator that starts from components, given or by name, and keeps their number of rows."""

    init: Init | FloatArray
    diagonal: bool

    targets: Targets = "continuous"  # of NCA a parameter

    @property
    def _continuous(self) -> bool:
        return self.targets == "continuous"

    def _problem(self, X: Data, y: Labels, weights: Weights = None) -> Problem:
        d = X.shape[1]
        if isinstance(self.init, np.ndarray):
            rows, columns = check_array(self.init, input_name="init").shape
            if columns != d or rows > d or self.n_components not in (None, rows):
                raise ValueError(
                    f"init has shape {(rows, columns)}; expected {self.n_components or f'at most {d}'} rows "
                    f"(n_components) and {d} columns (features)."
                )
        elif self.diagonal and self.init in ("pca", "lda", "covariance"):
            raise ValueError(f"init={self.init!r} gives no diagonal matrix; with diagonal=True pass 'identity'.")
        return self._state(self.statement, X, y, sample_weight=weights)

    def _divided(self, n: int, groups: Labels | None) -> tuple[Rows, Rows]:
        return super()._divided(n, None if self._continuous else groups)

    def _measure(self, problem: Problem, y: Labels, X_held: Data, y_held: Labels) -> Score:
        if not self._continuous:
            return super()._measure(problem, y, X_held, y_held)
        return lambda L: _regressed(cdist(X_held @ L.T, problem.X @ L.T, "sqeuclidean"), y, y_held)

    def _score_embedded(self, Z: FloatArray, y: Labels) -> float:
        if not self._continuous:
            return super()._score_embedded(Z, y)
        squared = cdist(Z, Z, "sqeuclidean")
        np.fill_diagonal(squared, np.inf)
        return _regressed(squared, y, y)

    def _start(self, problem: Problem, y: Labels | None) -> dict[str, object]:
        random_state = self.random_state
        self.random_state_ = check_random_state(
            self._seed() if isinstance(random_state, np.random.Generator) else random_state
        )
        return super()._start(problem, y) or {"init": self._named(problem, "auto", y)}

    def _named(self, problem: Problem, init: Init, y: Labels | None) -> FloatArray:
        how: Init = "identity" if self.diagonal and init == "auto" else init
        statement = cast(SoftNeighborProblem, problem)
        index = None if statement.row_classes is None else statement.row_classes[np.argsort(statement.order)]
        began = perf_counter()
        start = named_components(how, statement.X, index, statement.n_components, self.random_state_)
        if how in SOUGHT:
            self._tell(f"Finding {SOUGHT[how]} components... done in {perf_counter() - began:5.2f}s")
        return self._scaled(statement, np.diag(np.diag(start)) if self.diagonal else start)

    def _tell(self, line: str) -> None:
        """Say how far it has come."""

    def _scaled(self, problem: SoftNeighborProblem, start: FloatArray) -> FloatArray:
        return unsaturated(problem, start)

    def _fitted(self, problem: Problem, components: Data) -> dict[str, object]:
        return {"components_": components}


@allow_underflow
def _regressed(squared: FloatArray, y: Labels, truth: Labels) -> float:
    """Return R^2 of kernel regression from squared distances to examples of known targets."""
    return float(r2_score(truth, softmax(-squared, axis=1) @ y))


@estimator
class NCA(SoftNeighborEstimator, SolvedEstimator):
    """Neighborhood components analysis (Goldberger et al. 2005) [GRHS2005], a drop-in replacement for scikit-learn's.

    All arguments of scikit-learn's ``NeighborhoodComponentsAnalysis`` mean the same here, so changing the import is
    enough; from the same start it takes the same path, faster, and in memory that is linear in n. Two things differ:
    float32 data give float32 components, and a fit that did not converge always warns. Parameters from ``objective`` on
    are new. NCA is not convex, and optimality is not proven: the certificate is of kind "stationarity". Program and
    certificate: docs/methods.md.

    Parameters
    ----------
    n_components : int, optional
        Rows of the components; default the number of features.
    init : {"auto", "pca", "lda", "identity", "covariance", "random"} or (r, d) array, default "auto"
        Where to start. "auto": "lda" if ``n_components <= min(d, classes - 1)``, else "pca" if ``n_components < min(d,
        n)``, else "identity". If distances are so large that the gradient vanishes, scikit-learn stops at once. Then
        the start is scaled down. But an array is used as it is.
    warm_start : bool, default False
        Start from the components of the last fit and ignore ``n_components`` and ``init``.
    max_iter : int, default 50
        Iterations of L-BFGS-B.
    tol : float, default 1e-5
        L-BFGS-B stops when its relative decrease or the largest entry of the gradient is below this.
    callback : callable, optional
        Called with components, flat, and the number of the iteration, after each iteration of L-BFGS-B.
    verbose : int, default 0
        Above 0, print each iteration.
    random_state : int, RandomState, Generator or None, default None
        For ``init="random"`` and "pca" (None is NumPy's global state, as in scikit-learn), and for the examples that
        early stopping holds out (None is 0).
    objective : {"probability", "log"}, default "probability"
        Maximize the sum of ``p_i``, as scikit-learn does, or of ``log p_i``.
    diagonal : bool, default False
        Learn one weight for each feature: then "auto" is "identity", and "pca" and "lda" raise errors.
    targets : {"classes", "continuous"}, default "classes"
        Whether y are labels, or numbers that match softly; see `NCAProblem`, and `MLKR` for predicting them.
    solver, max_time, early_stopping, validation_fraction, n_iter_no_change
        As in `LMNN`; for continuous targets the score is R^2 of kernel regression with weights ``exp(-d^2)``.

    Attributes
    ----------
    components_, metric_, solution_, validation_score_, n_iter_, n_features_in_, feature_names_in_
        As in `LMNN`; `n_iter_` counts as scikit-learn's: one more than the iterations of L-BFGS-B.
    random_state_ : RandomState
    """

    n_components: Count | None = field(default=None, kw_only=False)
    init: Init | FloatArray = "auto"
    max_iter: Count = 50
    tol: NotNegative = 1e-5
    callback: Callable[[FloatArray, int], None] | None = None
    verbose: Verbosity = 0
    objective: Objective = "probability"
    diagonal: bool = False
    targets: Targets = "classes"
    statement = NCAProblem

    def _options(self, problem: Problem) -> dict[str, object]:
        options = super()._options(problem) | {"tol": max(self.tol, np.finfo(float).tiny)}
        self._iteration, self._began = 0, perf_counter()
        self._tell(f"{self._name}\n{self._name} {HEADER}\n{self._name} {'-' * len(HEADER)}")

        def on_iteration(flat: FloatArray, objective: float) -> None:
            self._iteration += 1
            seconds = perf_counter() - self._began
            self._tell(f"{self._name} {self._iteration:>10} {-objective:>20.6e} {seconds:>10.2f}")
            if self.callback is not None:
                self.callback(flat, self._iteration)

        options |= {"iterations": self.max_iter, "accuracy": self.tol, "on_iteration": on_iteration}
        return options | {"max_iter": None, "verbose": False}

    def _keep(self, problem: Problem, solution: Solution, score: float | None = None) -> None:
        super()._keep(problem, solution, score)
        self.n_iter_ = self._iteration + 1
        self._tell(f"{self._name} Training took {perf_counter() - self._began:8.2f}s.")

    @property
    def _name(self) -> str:
        return f"[{type(self).__name__}]"

    def _tell(self, line: str) -> None:
        if self.verbose:
            sys.stdout.write(f"{line}\n")  # as scikit-learn prints it

    def _advice(self, solution: Solution) -> str:
        if solution.status is not Status.USER_LIMIT:
            return super()._advice(solution)
        limit = f"max_iter={self.max_iter}" + ("" if self.max_time is None else f" or max_time={self.max_time}")
        return f"It did not converge: {limit} came first; raise it, or tol."


@estimator
class MLKR(SoftNeighborEstimator, SolvedEstimator):
    """Metric learning for kernel regression (Weinberger and Tesauro 2007) [WT2007].

    For continuous targets y. It is a transformer for use before a regressor that depends on distances, such as
    ``KNeighborsRegressor``, which with weights ``exp(-d^2)`` is the paper's kernel regression. MLKR is not convex, and
    optimality is not proven: the certificate is of kind "stationarity". Program and certificate: docs/methods.md.

    Parameters
    ----------
    n_components : int, optional
        Rows of the components; default the number of features.
    init : {"auto", "pca", "identity", "covariance", "random"} or (r, d) array, default "auto"
        Where to start; "auto" is "pca" if ``n_components < min(d, n)``, else "identity". Components are scaled so that
        neither the nearest neighbor alone counts nor all alike; an array is used as it is.
    warm_start, diagonal, random_state
        As in `NCA`.
    tol : float or None, default 1e-3
        `stationarity` of the certificate to reach; the solver's default if None.
    max_iter, max_time : int and float, default 1000 and None
        Limits on evaluations and on seconds.
    solver, verbose, early_stopping, validation_fraction, n_iter_no_change
        As in `LMNN`; the score is R^2 of kernel regression with weights ``exp(-d^2)``.

    Attributes
    ----------
    components_, metric_, solution_, validation_score_, n_iter_, n_features_in_, feature_names_in_
        As in `LMNN`.
    random_state_ : RandomState

    Warns
    -----
    ConvergenceWarning
        If the point is not stationary up to `tol`.
    """

    n_components: Count | None = field(default=None, kw_only=False)
    init: Literal["auto", "pca", "identity", "covariance", "random"] | FloatArray = "auto"
    diagonal: bool = False
    max_iter: Count | None = 1000
    statement = MLKRProblem

    def _scaled(self, problem: SoftNeighborProblem, start: FloatArray) -> FloatArray:
        return rescaled(problem, start)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.one_d_labels = True
        return tags
