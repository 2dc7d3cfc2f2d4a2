"""Neighbourhood components analysis (NCA) as an estimator, a replacement of scikit-learn's."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from numbers import Real
from time import perf_counter
from typing import ClassVar, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.utils._param_validation import Interval, StrOptions

from sdpmetric.core.problem import Problem
from sdpmetric.core.solution import Solution
from sdpmetric.core.status import Status
from sdpmetric.estimators.data import Data, Labels, Weights
from sdpmetric.estimators.options import Reduced, Solved, Started, StoppedEarly, options
from sdpmetric.estimators.soft_neighbors import SoftNeighborEstimator
from sdpmetric.estimators.watcher import Watcher
from sdpmetric.problems.nca import NCAProblem, Objective, Targets
from sdpmetric.problems.soft_neighbors import SoftNeighborProblem
from sdpmetric.solvers.nca_start import Init

FloatArray = NDArray[np.float64]


@options
class NCA(SoftNeighborEstimator, Reduced, Solved, Started, StoppedEarly):
    """Neighbourhood components analysis (Goldberger et al. 2005) [GRHS2005], a replacement of scikit-learn's.

    Everything that scikit-learn's ``NeighborhoodComponentsAnalysis`` accepts means the same here, so that changing the
    import is enough; from the same start it takes the same path, several times faster, and in memory that grows with
    n and not with its square. Two things differ: float32 data give float32 components, and a fit that did not converge
    always warns. Parameters from ``objective`` on are new.

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
    random_state : int, RandomState or None
        For ``init="random"`` and "pca", and for the stochastic solver.
    objective : {"probability", "log"}, default "probability"
        Maximize the sum of ``p_i``, as scikit-learn does, or of ``log p_i``.
    diagonal : bool, default False
        One weight for each feature: "auto" is "identity" then, and "pca" and "lda" are refused.
    targets : {"classes", "continuous"}, default "classes"
        Whether y are labels, or numbers that match softly; see `NCAProblem`, and `MLKR` for predicting them.
    solver : {"lbfgs", "stochastic"}, default "lbfgs"
        "stochastic" for very many examples; see `sdpmetric.solve`.

    Attributes
    ----------
    components_ : (r, d) array
    n_iter_ : int
        As scikit-learn counts them: one more than the iterations of L-BFGS-B; batches of the stochastic solver.
    random_state_ : RandomState
    solution_ : Solution
        Its certificate is of kind "stationarity": NCA is not convex, and optimality is not proven.
    dual_gap_ : float
        To a trivial lower bound.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sdpmetric.estimators import NCA
    >>> X, y = load_iris(return_X_y=True)
    >>> NCA(n_components=2, random_state=0).fit(X, y).transform(X).shape
    (150, 2)
    """

    _parameter_constraints: ClassVar[dict[str, list[object]]] = {
        **NeighborhoodComponentsAnalysis._parameter_constraints,
        "diagonal": ["boolean"],
        "targets": [StrOptions({"classes", "continuous"})],
        "max_time": [Interval(Real, 0, None, closed="neither"), None],
        "solver": [str],
    }

    init: Init | FloatArray = "auto"
    max_iter: int = 50
    tol: float = 1e-5
    callback: Callable[[FloatArray, int], None] | None = None
    verbose: int = 0
    objective: Objective = "probability"
    diagonal: bool = False
    targets: Targets = "classes"
    solver: str = "lbfgs"

    def _continuous(self) -> bool:
        return self.targets == "continuous"

    def _problem(self, X: Data, y: Labels, sample_weight: Weights = None) -> NCAProblem:
        self._validate_params()
        self._check_start(X.shape[1])
        return self._with_own(NCAProblem)(X, y, sample_weight=sample_weight)

    def _solve(self, watcher: Watcher, **options: object) -> Solution:
        problem = cast(SoftNeighborProblem, watcher.problem)  # what _problem made
        options |= {"start": self._start(problem), "tol": max(self.tol, np.finfo(float).tiny)}
        if self.solver == "stochastic":
            return super()._solve(watcher, n_components=None, verbose=self.verbose > 0, **options)
        self._iteration, began = 0, perf_counter()

        def on_iteration(flat: FloatArray, objective: float) -> None:
            self._iteration += 1
            if self.verbose:
                seconds = perf_counter() - began
                # To standard output, where scikit-learn prints it.
                sys.stdout.write(
                    f"[{type(self).__name__}] {self._iteration:>10} {-objective:>20.6e} {seconds:>10.2f}\n"
                )
            if self.callback is not None:
                self.callback(flat, self._iteration)

        options |= {"iterations": self.max_iter, "accuracy": self.tol, "on_iteration": on_iteration}
        return super()._solve(watcher, n_components=None, max_iter=None, verbose=False, **options)

    def _keep(self, problem: Problem, solution: Solution) -> None:
        super()._keep(problem, solution)
        if self.solver != "stochastic":
            self.n_iter_ = self._iteration + 1

    def _warn_unless_proven(self, solution: Solution) -> None:
        if solution.status.expected:
            return
        limited = solution.status is Status.USER_LIMIT
        limit = f"max_iter={self.max_iter}" + ("" if self.max_time is None else f" or max_time={self.max_time}")
        warnings.warn(
            f"{type(self).__name__} did not converge: "
            + (f"{limit} came first; raise it, or tol." if limited else solution.status.advice),
            ConvergenceWarning,
            stacklevel=4,
        )
