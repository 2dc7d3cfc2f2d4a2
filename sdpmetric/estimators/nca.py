"""Neighbourhood components analysis (NCA) as an estimator, a replacement of scikit-learn's."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import field
from time import perf_counter

import numpy as np

from sdpmetric.arrays import FloatArray
from sdpmetric.core.problem import Problem
from sdpmetric.core.solution import Solution
from sdpmetric.core.status import Status
from sdpmetric.estimators.base import SolvedEstimator
from sdpmetric.estimators.options import Count, NotNegative, Verbosity, estimator
from sdpmetric.estimators.soft_neighbors import SoftNeighborEstimator
from sdpmetric.problems.nca import NCAProblem, Objective, Targets
from sdpmetric.solvers.nca_start import Init


@estimator
class NCA(SoftNeighborEstimator, SolvedEstimator):
    """Neighbourhood components analysis (Goldberger et al. 2005) [GRHS2005], a replacement of scikit-learn's.

    Everything that scikit-learn's ``NeighborhoodComponentsAnalysis`` accepts means the same here, so that changing the
    import is enough; from the same start it takes the same path, several times faster, and in memory that grows with
    n and not with its square. Two things differ: float32 data give float32 components, and a fit that did not converge
    always warns. Parameters from ``objective`` on are new. NCA is not convex, and optimality is not proven: the
    certificate is of kind "stationarity".

    Parameters
    ----------
    n_components : int, optional
        Rows of the components; default the number of features.
    init : {"auto", "pca", "lda", "identity", "random"} or (r, d) array, default "auto"
        Where to begin. "auto": "lda" where ``n_components <= min(d, classes - 1)``, else "pca" where
        ``n_components < min(d, n)``, else "identity". Where distances are so large that the gradient vanishes there
        and scikit-learn stops at once, the same components at a smaller scale. An array is taken as it is.
    warm_start : bool, default False
        Start from the components of the last fit and ignore ``n_components`` and ``init``.
    max_iter : int, default 50
        Iterations of L-BFGS-B; batches of the stochastic solver.
    tol : float, default 1e-5
        L-BFGS-B stops when its relative decrease or the largest entry of the gradient is below this.
    callback : callable, optional
        Called with components, flat, and the number of the iteration, after each iteration of L-BFGS-B.
    verbose : int, default 0
        Above 0, print each iteration.
    random_state : int, RandomState, Generator or None, default None
        For ``init="random"`` and "pca", where None takes NumPy's global state as scikit-learn does; for the stochastic
        solver and for what early stopping sets aside, where None is 0.
    objective : {"probability", "log"}, default "probability"
        Maximize the sum of ``p_i``, as scikit-learn does, or of ``log p_i``.
    diagonal : bool, default False
        One weight for each feature: "auto" is "identity" then, and "pca" and "lda" are refused.
    targets : {"classes", "continuous"}, default "classes"
        Whether y are labels, or numbers that match softly; see `NCAProblem`, and `MLKR` for predicting them.
    solver : {"lbfgs", "stochastic"}, default "lbfgs"
        "stochastic" for very many examples; see `sdpmetric.solve`.
    max_time : float, optional
        Limit on seconds.
    early_stopping, validation_fraction, n_iter_no_change : default False, 0.3 and 10
        Keep a share of the examples out of the fit, and end it after so many steps without a better score on them, the
        accuracy of nearest neighbors, or R^2 of kernel regression with weights ``exp(-d^2)`` for continuous targets;
        the best metric is taken.

    Attributes
    ----------
    components_, metric_ : (r, d) and (d, d) arrays
        The factor L, in the dtype of the data, and ``L.T @ L``.
    solution_ : Solution
        With certificate, status, multipliers and trace.
    validation_score_ : float
        With early stopping, the score on what was kept out.
    n_iter_, n_features_in_, feature_names_in_
        Iterations, as scikit-learn counts them: one more than those of L-BFGS-B, or batches of the stochastic solver;
        features, and their names where the data have any.
    random_state_ : RandomState

    See Also
    --------
    MLKR : For numbers that are to be predicted.
    MCML : A convex relative.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sdpmetric.estimators import NCA
    >>> X, y = load_iris(return_X_y=True)
    >>> NCA(n_components=2, random_state=0).fit(X, y).transform(X).shape
    (150, 2)
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
    solver: str = "lbfgs"
    statement = NCAProblem

    def _continuous(self) -> bool:
        return self.targets == "continuous"

    def _options(self, problem: Problem) -> dict[str, object]:
        given = super()._options(problem) | {"tol": max(self.tol, np.finfo(float).tiny)}
        if self.solver == "stochastic":
            return given | {"verbose": self.verbose > 0}
        self._iteration, began = 0, perf_counter()

        def on_iteration(flat: FloatArray, objective: float) -> None:
            self._iteration += 1
            if self.verbose:  # to standard output, where scikit-learn prints it
                seconds = perf_counter() - began
                sys.stdout.write(
                    f"[{type(self).__name__}] {self._iteration:>10} {-objective:>20.6e} {seconds:>10.2f}\n"
                )
            if self.callback is not None:
                self.callback(flat, self._iteration)

        given |= {"iterations": self.max_iter, "accuracy": self.tol, "on_iteration": on_iteration}
        return given | {"max_iter": None, "verbose": False}

    def _keep(self, problem: Problem, solution: Solution, score: float | None = None) -> None:
        super()._keep(problem, solution, score)
        if self.solver != "stochastic":
            self.n_iter_ = self._iteration + 1

    def _advice(self, solution: Solution) -> str:
        if solution.status is not Status.USER_LIMIT:
            return super()._advice(solution)
        limit = f"max_iter={self.max_iter}" + ("" if self.max_time is None else f" or max_time={self.max_time}")
        return f"It did not converge: {limit} came first; raise it, or tol."
