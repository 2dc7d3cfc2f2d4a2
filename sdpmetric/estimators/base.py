"""The base of all estimators: validation, solve, transform, callbacks, and the warning if the gap is not proven.

How to add an estimator: one module here, with a class derived from
`sdpmetric.estimators.labelled.LabelledEstimator` (labels) or `WeightedEstimator` (labels and weights), or from
`sdpmetric.estimators.pairs_base.PairsEstimator` (labels or pairs), or from `MetricEstimator` (anything else), that

- is a dataclass by the decorator `sdpmetric.estimators.options.options`: its parameters are its fields, with defaults,
  and those of the groups of options that it derives from. ``n_components`` and the arguments of `sdpmetric.solve`
  among them are handed to ``solve``, and those of its statement to the statement;
- names its statement, ``_statement``, or states its problem in ``_problem(X, y)``, of checked data;
- documents its own parameters and attributes: those of its bases are added.

Everything else is inherited. Export it in ``__init__.py`` and list it in ``tests/test_estimators.py``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from functools import partial
from inspect import signature
from typing import Self, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags, check_array, check_random_state
from sklearn.utils.validation import check_is_fitted

from sdpmetric.core import validation
from sdpmetric.core.certificate import DualityCertificate
from sdpmetric.core.problem import Problem
from sdpmetric.core.registry import find_solver, rank_bound_of
from sdpmetric.core.run import Score
from sdpmetric.core.solution import Solution
from sdpmetric.core.status import UselessOptimumWarning
from sdpmetric.estimators.callbacks import CallbackSupportMixin
from sdpmetric.estimators.data import Data, Labels, checked_data, rows_to_embed
from sdpmetric.estimators.held_back import HoldsBack
from sdpmetric.estimators.watcher import Watcher
from sdpmetric.linalg.distances import distances
from sdpmetric.verbs import solve

FloatArray = NDArray[np.float64]
P = TypeVar("P", bound=Problem)

# Arguments of an estimator that are arguments of solve.
SOLVE = ("solver", "tol", "max_iter", "max_time", "verbose", "n_components")


class MetricEstimator(
    HoldsBack, CallbackSupportMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    """A transformer that learns a linear map, with the certificate of its metric.

    Attributes
    ----------
    components_ : (r, n_features_in_) array
        The factor L, in the dtype of the data; at least one row, and ``n_components`` of them where that was given.
    metric_ : (n_features_in_, n_features_in_) array
        ``L.T @ L``.
    solution_ : Solution
        With certificate, status, multipliers and trace. A pickle carries it without the data.
    dual_gap_ : float
        The proven relative gap.
    n_iter_ : int
        Evaluations of objective and gradient.
    n_features_in_ : int
    feature_names_in_ : array of str
        If the data had names.
    """

    components_: Data
    solution_: Solution
    dual_gap_: float
    n_iter_: int
    n_features_in_: int

    # -- for subclasses -----------------------------------------------------------------------------------------------

    def _checked(self, X: ArrayLike) -> Data:
        return checked_data(self, X, reset=True, n_min=2)

    def _with_own(self, state: Callable[..., P]) -> Callable[..., P]:
        """What states a problem, given those of its arguments that are parameters of this estimator."""
        takes, own = signature(state).parameters, self.get_params(deep=False)
        given = {name: own[name] for name in takes if name in own}
        return partial(state, **given | ({"random_state": self._seed()} if "random_state" in takes else {}))

    def _learn(self, problem: Problem, X: Data, y: Labels | None = None, measure: Score | None = None) -> Self:
        """Solve one problem, between the calls of scikit-learn's callbacks, and store the solution.

        The solve is stopped early where a `measure` of components on what was held back is given.
        """
        context = self._init_callback_context(max_subtasks=None)
        context.call_on_fit_task_begin(estimator=self, X=X, y=y)
        self._keep(problem, self._solve(Watcher(self, problem, context, X, y, measure)))
        self.__dict__.pop("validation_score_", None)
        if measure is not None:
            self.validation_score_ = measure(np.asarray(self.solution_.components, dtype=np.float64))
        self._warn_unless_proven(self.solution_)
        self._warn_if_useless(problem, self.solution_)
        context.call_on_fit_task_end(estimator=self, X=X, y=y, reconstruction_attributes={})
        return self

    def _learn_tuples(
        self, X: Data, state: Callable[..., Problem], tuples: ArrayLike, *about: ArrayLike | None
    ) -> Self:
        """Learn from the problem ``state(X, tuples, *about)``; early stopping holds some of the tuples back."""
        problem, measure = self._stated_and_measured(partial(state, X), tuples, about)
        return self._learn(problem, X, measure=measure)

    def _solve(self, watcher: Watcher, **options: object) -> Solution:
        """Solve with the arguments that this estimator has, and further options."""
        given = self.get_params(deep=False)
        arguments = {name: given[name] for name in SOLVE if name in given}
        if rank_bound_of(type(watcher.problem)) is None:  # the whole metric is learned, and reduced afterwards
            arguments.pop("n_components", None)
        if "start" not in options and (start := self._given_start(watcher.problem)) is not None:
            arguments["start"] = start
        if watcher.measure is not None:
            arguments["patience"] = self.n_iter_no_change
        arguments |= options
        return solve(
            watcher.problem,
            callback=watcher.callback,
            score=watcher.score,
            random_state=self._seed(),
            **arguments,
        )

    def _given_start(self, problem: Problem) -> Data | None:
        """What ``warm_start`` and ``init`` say to start from; None: the solver's own start."""
        warm, init = getattr(self, "warm_start", False), getattr(self, "init", None)
        if warm or init is not None:
            entry = find_solver(problem, getattr(self, "solver", "auto"))
            if "start" not in entry.options:
                raise ValueError(
                    f"solver={entry.name!r} does not start from components; leave warm_start and init out, or take "
                    "another solver."
                )
        if warm and hasattr(self, "solution_"):
            last, d = self.solution_.components, problem.X.shape[1]
            if last.shape[-1] != d:
                raise ValueError(
                    f"warm_start=True, but the components of the fit before are for {last.shape[-1]} features, and X "
                    f"has {d}; pass data like those, or fit anew with warm_start=False."
                )
            return last if last.any() else None
        if init is not None:
            try:
                problem.check_point(np.asarray(init), None)
            except ValueError as error:
                raise ValueError(str(error).replace("components", "init")) from error
        return init

    def _seed(self) -> int:
        """A seed from ``random_state``: an integer as it is, None is 0, a generator gives one."""
        given = getattr(self, "random_state", None)
        if given is None or isinstance(given, int | np.integer):
            return int(given or 0)
        return int(check_random_state(given).randint(np.iinfo(np.int32).max))

    def _fitted(self, problem: Problem, components: Data) -> dict[str, object]:
        """The attributes that `transform` and similar methods need, by name."""
        asked = getattr(self, "n_components", None)
        if asked is None or components.ndim != 2:
            return {"components_": self._rows(components)}
        d = problem.X.shape[1]
        if validation.check_integer("n_components", asked, 1, d) < len(components):
            Z = problem.X @ components.T
            axes = np.linalg.svd(Z - Z.mean(axis=0), full_matrices=False)[2]
            components = axes[:asked] @ components
        return {"components_": self._rows(components)}

    def _keep(self, problem: Problem, solution: Solution) -> None:
        """Set the attributes of a fit."""
        for name, value in self._fitted(problem, solution.components).items():
            setattr(self, name, value)
        self.solution_ = solution
        self.dual_gap_ = solution.relative_gap
        self.n_iter_ = solution.n_iter

    def _warn_unless_proven(self, solution: Solution) -> None:
        """Warn with the advice of the status, unless no proof was promised."""
        if not solution.status.expected:
            proven = isinstance(solution.certificate, DualityCertificate)
            gap = f" at a relative gap of {solution.relative_gap:.2e}" if proven else ""
            warnings.warn(
                f"{type(self).__name__} ended with status {solution.status}{gap}. {self._advice(solution)}",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _advice(self, solution: Solution) -> str:
        """What to do about a solve that did not end as it should."""
        return solution.status.advice

    def _warn_if_useless(self, problem: Problem, solution: Solution) -> None:
        """Warn where the solution is likely to be of no use for other data."""
        if said := problem.caution(solution.components, solution.certificate):
            warnings.warn(f"{type(self).__name__}: {said}", UselessOptimumWarning, stacklevel=4)

    def _rows(self, components: Data) -> Data:
        """Components with rows of zeros where there are fewer than asked for, or none."""
        asked = getattr(self, "n_components", None) or 1
        missing = max(0, asked - components.shape[-2])
        return np.pad(components, [(0, 0)] * (components.ndim - 2) + [(0, missing), (0, 0)])

    # -- for everybody ------------------------------------------------------------------------------------------------

    @property
    def metric_(self) -> Data:
        """The metric ``L.T @ L``."""
        check_is_fitted(self)
        metric: Data = self.components_.T @ self.components_
        return metric

    def transform(self, X: ArrayLike) -> Data:
        """Embed examples so that the Euclidean distance is the learned one.

        Parameters
        ----------
        X : (n, n_features_in_) array or sparse matrix
            Sparse rows are not made dense.

        Returns
        -------
        Z : (n, r) array
            ``X @ components_.T``, float32 if X is.

        Raises
        ------
        NotFittedError
            Before any fit.
        ValueError
            If X has other features than the data of the fit, or numbers that are not finite.
        """
        check_is_fitted(self)
        data = rows_to_embed(self, X)
        return self._embed(data).astype(data.dtype, copy=False)

    def _embed(self, X: Data | sp.csr_array) -> Data:
        embedded: Data = X @ self.components_.T
        return embedded

    def pair_distance(self, X: ArrayLike, pairs: ArrayLike) -> FloatArray:
        """Learned distances of pairs of examples; not squared, as scikit-learn's are not.

        Parameters
        ----------
        X : (n, n_features_in_) array or sparse matrix
        pairs : (p, 2) integer array
            Row numbers of X.

        Returns
        -------
        distances : (p,) array
        """
        check_is_fitted(self)
        data = rows_to_embed(self, X)
        rows = validation.check_pairs(pairs, data.shape[0])
        Z = np.asarray(self._embed(data), dtype=np.float64)
        return np.sqrt(distances(np.ascontiguousarray(Z), rows[:, 0], rows[:, 1]))

    def get_metric(self) -> Callable[[ArrayLike, ArrayLike], float]:
        """The learned distance of two examples as a function, for scikit-learn's ``metric=``.

        Returns
        -------
        metric : callable
            ``metric(u, v)`` of two (n_features_in_,) arrays, not squared. A later fit does not change it.
        """
        check_is_fitted(self)
        return copy(self)._distance

    def _distance(self, u: ArrayLike, v: ArrayLike) -> float:
        ends = check_array([u, v], dtype=np.float64)
        if ends.shape[1] != self.n_features_in_:
            raise ValueError(f"u and v have {ends.shape[1]} features; the metric is for {self.n_features_in_}.")
        first, second = self._embed(ends)
        return float(np.linalg.norm(first - second))

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def __sklearn_tags__(self) -> Tags:
        """Set the tags for scikit-learn's checks and meta-estimators."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.sparse = True
        return tags

    def __getstate__(self) -> dict[str, object]:
        """Leave the training data out of pickles and copies."""
        return {name: _without_problem(value) for name, value in super().__getstate__().items()}


def _without_problem(value: object) -> object:
    """A solution, or each of a list of them, without its problem; anything else as it is."""
    if isinstance(value, Solution):
        return replace(value, problem=None)
    return [_without_problem(one) for one in value] if isinstance(value, list) else value
