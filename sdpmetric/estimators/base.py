"""The base of all estimators: checks data, states a problem, solves it, keeps the answer with its certificate.

How to add an estimator: one module here, with a class that

- derives from `SolvedEstimator`, with the options of problems solved to a proof, or from `MetricEstimator`;
- is decorated with `sdpmetric.estimators.data.estimator`: its parameters are its fields, with defaults, and their
  types determine what each may be. Those named like arguments of `sdpmetric.solve` or of the statement are passed on to
  it;
- names its ``statement``, and what it learns from besides labels: ``fit_pairs = base.fit_pairs``;
- has a docstring that describes all its parameters and attributes.

Everything else is inherited. Export it in ``__init__.py``, where the tests find it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from functools import partial
from inspect import signature
from typing import ClassVar, Self, TypeVar, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags, check_array
from sklearn.utils.validation import check_is_fitted

from sdpmetric.arrays import FloatArray
from sdpmetric.classification.nearest import knn_predict
from sdpmetric.core import text, validation
from sdpmetric.core.certificate import DualityCertificate
from sdpmetric.core.named import Init, named_components, named_prior
from sdpmetric.core.pairs import check_pairs, check_similar
from sdpmetric.core.problem import Labeled, Problem
from sdpmetric.core.registry import solvers_of, solvers_to_try
from sdpmetric.core.run import solve
from sdpmetric.core.solution import Solution
from sdpmetric.core.status import Status, UselessOptimumWarning, warn
from sdpmetric.core.steps import Score
from sdpmetric.estimators.data import (
    Count,
    Data,
    Labels,
    Matrix,
    Positive,
    Rows,
    Seed,
    Share,
    Verbosity,
    Weights,
    checked_data,
    checked_data_and_labels,
    divide_rows,
    estimator,
    rows_to_embed,
    seed_of,
    tuple_score,
    warn_of_unlabeled,
    weighed,
)
from sdpmetric.linalg.distances import distances
from sdpmetric.sums.domains import Domain

P = TypeVar("P", bound=Problem)
Statement = Callable[[Data, ArrayLike, ArrayLike | None], Problem]  # of tuples and what is said about them
# Parameters that are arguments of solve.
SOLVE = ("solver", "tol", "max_iter", "max_time", "verbose", "n_components")
CHECKED_EXAMPLES = 2_000  # of a fit: their nearest neighbors are compared before and after
TELLING_GAP = 0.5  # a wider relative gap of a non-convex problem: its objective is more than twice the bound
# Attributes of some fits only.
PASSING = ("solution_", "relative_gap_", "validation_score_", "stream_")


class MetricEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """A transformer that learns a linear map, with the certificate of its metric."""

    statement: ClassVar[type[Problem]]
    components_: Data
    solution_: Solution
    relative_gap_: float
    ridge_: float
    validation_score_: float
    n_iter_: int
    n_features_in_: int
    checks_neighbors: ClassVar[bool] = False  # whether a fit to labels warns if neighbors get worse
    remedy: ClassVar[str] = "this method does not aim at nearest neighbors; LMNN and NCA do."
    # of estimators without these options:
    n_components: int | None = None
    n_neighbors: int = 3
    max_time: float | None = None
    solver: str = "auto"
    random_state: Seed = None
    init: ArrayLike | Init = "auto"
    warm_start: bool = False
    early_stopping: bool = False
    validation_fraction: float
    n_iter_no_change: int

    # -- data and problems --------------------------------------------------------------------------------------------

    def _checked(self, X: ArrayLike, *, reset: bool = True, n_min: int = 2) -> Data:
        self._validate_params()
        return self._ranked(checked_data(self, X, reset=reset, n_min=n_min))

    def _checked_labels(self, X: ArrayLike, y: ArrayLike, *, reset: bool = True, n_min: int = 2) -> tuple[Data, Labels]:
        self._validate_params()
        data, labels = checked_data_and_labels(self, X, y, reset=reset, n_min=n_min)
        if not self._continuous:
            warn_of_unlabeled(labels)
        return self._ranked(data), labels

    @property
    def _continuous(self) -> bool:
        """Whether y are numbers and no classes."""
        return False

    def _ranked(self, X: Data) -> Data:
        """Return data with as many features as there are to be components."""
        n, d = self.n_components, X.shape[1]
        if n is not None and n > d:
            raise ValueError(f"n_components={n} is more than the {d} features of X; ask for fewer components.")
        return X

    def _seed(self) -> int:
        return seed_of(self.random_state)

    def _state(self, make: Callable[..., P], *data: object, **named: object) -> P:
        """State a problem, with those of its arguments that are parameters of this estimator."""
        takes, parameters = signature(make).parameters, self.get_params(deep=False)
        arguments = {name: parameters[name] for name in takes if name in parameters}
        if "random_state" in takes:
            arguments["random_state"] = self._seed()
        if isinstance(word := arguments.get("prior"), str) and word == "random":
            arguments["prior"] = named_prior(word, cast(Data, data[0]), self._seed())
        return make(*data, **arguments | {name: value for name, value in named.items() if value is not None})

    def _problem(self, X: Data, y: Labels, weights: Weights = None) -> Problem:
        return self._state(cast(type[Labeled], self.statement).from_labels, X, y, sample_weight=weights)

    def _problem_of_tuples(self, X: Data, tuples: ArrayLike, annotations: ArrayLike | None) -> Problem:
        """State the problem of pairs that are similar or not, or of triplets or quadruplets with weights."""
        return self._state(self.statement, X, tuples, annotations)

    # -- fitting ------------------------------------------------------------------------------------------------------

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from labels.

        Parameters
        ----------
        X : (n, d) array or sparse matrix
            Finite numbers; float32 stays float32, everything else becomes float64. Sparse data are made dense.
        y : (n,) array
            Class labels of any kind, at least two classes; or numbers, for continuous targets.
        sample_weight : (n,) array, optional
            Nonnegative weights of the examples; the statement's ``from_labels`` says what they mean. Examples of weight
            0 are left out.

        Warns
        -----
        ConvergenceWarning
            If the requested tolerance is not proven, with advice.
        UserWarning
            If a class has as few members as there are target neighbors asked for, or fewer.
        UselessOptimumWarning
            If the optimum is likely to fit the training data only.
        """
        data, labels = self._checked_labels(X, y)
        weights, rows = weighed(sample_weight, len(data))
        return self._fit(data[rows], labels[rows], weights)

    def _fit(self, X: Data, y: Labels, weights: Weights = None) -> Self:
        began = time.perf_counter()
        rows, held = self._divided(len(y), y)
        problem = self._problem(X[rows], y[rows], None if weights is None else weights[rows])
        measure = self._measure(problem, y[rows], X[held], y[held]) if self.early_stopping else None
        return self._learn(problem, y, measure, y[rows], began)

    def _fit_tuples(
        self, X: Data, tuples: ArrayLike, annotations: ArrayLike | None, state: Statement | None = None
    ) -> Self:
        """Learn from pairs, triplets or quadruplets; early stopping holds some of them back."""
        began, state = time.perf_counter(), state or self._problem_of_tuples
        problem, measure = state(X, tuples, annotations), None
        if self.early_stopping:
            stated, similar, learned = np.asarray(tuples), None, None
            if stated.shape[1] == 2 and annotations is not None:
                similar = check_similar(annotations, len(stated))
            rows, held = self._divided(len(stated), similar)
            if annotations is not None:
                learned = np.asarray(annotations)[rows]
            problem = state(X, stated[rows], learned)
            measure = partial(tuple_score, problem.X, stated[held], None if similar is None else similar[held])
        return self._learn(problem, measure=measure, began=began)

    def _learn(
        self,
        problem: Problem,
        y: Labels | None = None,
        measure: Score | None = None,
        labels: Labels | None = None,
        began: float | None = None,
    ) -> Self:
        """Solve a problem and keep the solution; a `measure` stops the solve early.

        y are the labels of the fit, `labels` those of the problem. Work done since `began` counts as time of the solve.
        """
        options = self._start(problem, labels)
        if began is not None and self.max_time is not None:
            # A solve gets a positive limit even if all time has been spent.
            options["max_time"] = max(self.max_time - (time.perf_counter() - began), 1e-3)
        self._keep(problem, *self._solve(problem, y, measure, **options))
        return self

    def _share_of_time(self, n: int) -> float | None:
        """Return the `max_time` of each of n solves that choose a parameter: together half of that of the fit."""
        return None if self.max_time is None else 0.5 * self.max_time / n

    def _solve(
        self, problem: Problem, y: Labels | None, measure: Score | None, **options: object
    ) -> tuple[Solution, float | None]:
        """Solve, warn of an unproven or a useless optimum, and return the solution with its score; y are all labels."""
        stop_early = {} if measure is None else {"score": measure, "patience": self.n_iter_no_change}
        arguments = self._options(problem) | stop_early | {"random_state": self._seed()} | options
        solution = cast(Callable[..., Solution], solve)(problem, **arguments)
        stationary = solution.status is Status.STATIONARY and isinstance(solution.certificate, DualityCertificate)
        if not solution.status.expected or (stationary and solution.relative_gap > TELLING_GAP):
            words = f"{type(self).__name__} ended with status {solution.status}"
            if isinstance(solution.certificate, DualityCertificate):
                words += f" at a relative gap of {text.scientific(solution.relative_gap, 3)}"
            warn(f"{words}. {self._advice(solution)}", ConvergenceWarning)
        if caution := self._caution(problem, solution, y):
            warn(f"{type(self).__name__}: {caution}", UselessOptimumWarning)
        return solution, None if measure is None else measure(np.asarray(solution.components, dtype=np.float64))

    def _caution(self, problem: Problem, solution: Solution, y: Labels | None) -> str | None:
        """Say why the optimum is likely to be useless for other data, or return None; y: the labels, if any."""
        if not solution.status.expected and not (solution.components.any() and solution.objective < math.inf):
            return None  # a limit left no other metric: the weights are not to blame
        caution = problem.caution(solution.components, solution.certificate)
        checks = self.checks_neighbors and self.n_components is None  # fewer columns may well know less
        if caution is not None or y is None or not checks or len(problem.X) != len(y):
            return caution  # the lengths differ if examples were held out
        rows, X = np.random.default_rng(0).permutation(len(y))[:CHECKED_EXAMPLES], np.asarray(problem.X, np.float64)
        maps = np.eye(X.shape[1]), np.asarray(solution.components, dtype=np.float64)
        before, after = (float(np.mean(knn_predict(L, X[rows], y[rows], None, 3) == y[rows])) for L in maps)
        if before - after < 0.02:
            return None
        return (
            f"3 nearest neighbors classify {after:.1%} of the training examples correctly under the metric, and "
            f"{before:.1%} without it: {self.remedy}"
        )

    def _options(self, problem: Problem) -> dict[str, object]:
        """Return arguments of `sdpmetric.solve`: the parameters of this estimator that are such."""
        parameters = self.get_params(deep=False)
        options: dict[str, object] = {name: parameters[name] for name in SOLVE if name in parameters}
        bounded = any("n_components" in entry.options for entry in solvers_of(problem))
        if options.get("n_components") is None or not bounded:
            options.pop("n_components", None)  # the full-rank metric is learned, and reduced afterwards
        elif options["solver"] == "factored":
            options["solver"] = "low_rank"
        return options

    def _start(self, problem: Problem, y: Labels | None) -> dict[str, object]:
        """Return what ``warm_start`` and ``init`` say to start from, as an option of the solver; else its own start."""
        is_automatic = isinstance(self.init, str) and self.init == "auto"
        if is_automatic and not self.warm_start:
            return {}
        entry = solvers_to_try(problem, self.solver, {"init"})[0]
        if "init" not in entry.options:
            raise ValueError(
                f"solver={entry.name!r} does not start from components; leave warm_start and init out, or choose "
                "another solver."
            )
        if self.warm_start and hasattr(self, "solution_"):
            last = self.solution_.components
            self._check_features_of_last(last.shape[-1], problem.X.shape[1])
            return {"init": last} if last.any() else {}
        if is_automatic:
            return {}
        if isinstance(self.init, str):
            return {"init": self._named(problem, cast(Init, self.init), y)}
        return {"init": self.init}

    def _named(self, problem: Problem, init: Init, y: Labels | None) -> FloatArray:
        """Return components to start from by name, as many as there are."""
        n, d = problem.X.shape
        index = None if y is None else validation.check_labels(y, n)[1]
        rows = self.n_components or getattr(problem, "n_components", d)
        max_rows = n if init == "pca" else int(index.max()) if init == "lda" and index is not None else d
        L = named_components(init, problem.X, index, min(rows, d, max_rows), self._seed())
        domain: Domain | None = getattr(problem, "domain", None)
        nearest = None if domain is None else domain.member_beside(L)
        return L if nearest is None else nearest[0]

    def _check_features_of_last(self, d_last: int, d: int) -> None:
        if d_last != d:
            raise ValueError(
                f"warm_start=True, but the components of the fit before are for {d_last} features, and X has {d}; pass "
                "data like those, or fit again with warm_start=False."
            )

    def _advice(self, solution: Solution) -> str:
        return solution.advice_on(getattr(self, "feature_names_in_", ()))

    def _fitted(self, problem: Problem, components: Data) -> dict[str, object]:
        """Return the attributes that `transform` and similar methods need, by name."""
        if components.shape[-2] > components.shape[-1]:  # a row for each basis: the same distances take d columns
            components = np.asarray(np.linalg.qr(components, mode="r"))
        ridge = {} if (used := getattr(problem, "ridge", None)) is None else {"ridge_": used}
        return {"components_": self._padded(components), **ridge}

    def _padded(self, components: Data) -> Data:
        """Return components with rows of zeros if there are fewer than asked for; another fit has as many."""
        missing = max(0, self._rows(components.shape[-1]) - components.shape[-2])
        return np.pad(components, [(0, 0)] * (components.ndim - 2) + [(0, missing), (0, 0)])

    def _rows(self, d: int) -> int:
        return self.n_components or d

    def _keep(self, problem: Problem, solution: Solution, score: float | None = None) -> None:
        self._forget()
        self.__dict__.update(self._fitted(problem, solution.components))
        self.solution_, self.n_iter_ = solution, solution.n_iter
        if isinstance(solution.certificate, DualityCertificate):
            self.relative_gap_ = solution.relative_gap
        if score is not None:
            self.validation_score_ = score

    def _forget(self) -> None:
        for name in PASSING:
            self.__dict__.pop(name, None)

    # -- early stopping -----------------------------------------------------------------------------------------------

    def _divided(self, n: int, groups: Labels | None) -> tuple[Rows, Rows]:
        """Return rows to learn from, and rows that early stopping holds back, some of each group."""
        if not self.early_stopping:
            return slice(None), slice(0)
        return divide_rows(n, self.validation_fraction, self._seed(), groups)

    def _measure(self, problem: Problem, y: Labels, X_held: Data, y_held: Labels) -> Score:
        votes = min(self.n_neighbors, len(y))
        return lambda L: float(np.mean(knn_predict(L, problem.X, y, X_held, votes) == y_held))

    # -- for everybody ------------------------------------------------------------------------------------------------

    @property
    def metric_(self) -> Data:
        """The metric ``L.T @ L``."""
        check_is_fitted(self)
        return np.asarray(self.components_.T @ self.components_)

    def transform(self, X: ArrayLike) -> Data:
        """Embed examples so that the Euclidean distance is the learned one.

        Parameters
        ----------
        X : (n, n_features_in_) array or sparse matrix
            Sparse rows are not made dense. ``X @ components_.T``, (n, r), is float32 if X is.
        """
        check_is_fitted(self)
        data = rows_to_embed(self, X)
        return self._embed(data).astype(data.dtype, copy=False)

    def _embed(self, X: Data | sp.csr_array) -> Data:
        return np.asarray(X @ self.components_.T)

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Score how well the nearest other examples predict an example's class or target.

        The accuracy of ``n_neighbors`` neighbors, or of 3 if there is no such parameter. For continuous targets, R^2 of
        kernel regression with weights ``exp(-d^2)``.

        Parameters
        ----------
        X : (n, n_features_in_) array or sparse matrix
            Preferably examples that were not learned from.
        y : (n,) array
        """
        check_is_fitted(self)
        data, labels = checked_data_and_labels(self, X, y, reset=False, n_min=2)
        return self._score_embedded(np.asarray(self._embed(data), dtype=np.float64), labels)

    def _score_embedded(self, Z: FloatArray, y: Labels) -> float:
        votes = min(self.n_neighbors, len(y) - 1)
        return float(np.mean(knn_predict(np.eye(Z.shape[1]), Z, y, None, votes) == y))

    def pair_distance(self, X: ArrayLike, pairs: ArrayLike) -> FloatArray:
        """Return learned distances of pairs of examples, (p,); not squared, as scikit-learn's are not.

        Parameters
        ----------
        X : (n, n_features_in_) array or sparse matrix
        pairs : (p, 2) integer array
            Row numbers of X.
        """
        check_is_fitted(self)
        data = rows_to_embed(self, X)
        rows = check_pairs(pairs, data.shape[0], distinct=False)
        Z = np.asarray(self._embed(data), dtype=np.float64)
        return np.sqrt(distances(np.ascontiguousarray(Z), rows[:, 0], rows[:, 1]))

    def get_metric(self) -> Callable[..., float]:
        """Return the learned distance as a function, for scikit-learn's ``metric=``; a later fit does not change it.

        It is ``metric(u, v, squared=False)`` of two (n_features_in_,) arrays.
        """
        check_is_fitted(self)
        return copy(self)._distance

    def _distance(self, u: ArrayLike, v: ArrayLike, squared: bool = False) -> float:
        points = check_array([u, v], dtype=np.float64)
        validation.check_width("u", points, self.n_features_in_, "the metric")
        first, second = self._embed(points)
        distance = float(np.linalg.norm(first - second))
        return distance * distance if squared else distance

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.sparse = tags.target_tags.required = True
        return tags

    def __getstate__(self) -> dict[str, object]:
        """Leave the training data out of pickles and copies."""
        return {name: _without_problem(value) for name, value in super().__getstate__().items()}


@estimator
class LimitedEstimator(MetricEstimator):
    """The base of estimators that are solved in steps, with limits of number and time."""

    max_iter: Count | None = None
    max_time: Positive | None = None
    verbose: Verbosity = False
    random_state: Seed = None


@estimator
class SolvedEstimator(LimitedEstimator):
    """The base of what is solved to a proof: the options of solver, starts and early stopping."""

    solver: str = "auto"
    tol: Positive | None = 1e-3
    init: Matrix | Init = "auto"
    warm_start: bool = False
    early_stopping: bool = False
    validation_fraction: Share = 0.1
    n_iter_no_change: Count = 10


def _without_problem(value: object) -> object:
    """Return a solution, or each of a list of them, without its problem; anything else as it is."""
    if isinstance(value, Solution):
        return replace(value, problem=None)
    return [_without_problem(solution) for solution in value] if isinstance(value, list) else value


E = TypeVar("E", bound=MetricEstimator)


def fit_unweighted(self: E, X: ArrayLike, y: ArrayLike) -> E:
    """Learn from labels, as `LMNN.fit` does without weights."""
    return self._fit(*self._checked_labels(X, y))


def fit_pairs(self: E, X: ArrayLike, pairs: ArrayLike, similar: ArrayLike | None = None) -> E:
    """Learn from similar and dissimilar pairs; errors and warnings are those of `fit`.

    Parameters
    ----------
    X : (n, d) array
    pairs : (p, 2) integer array
        Row numbers of X.
    similar : (p,) array
        bool, or +1 for similar and -1 for dissimilar; required.
    """
    data = self._checked(X)
    if similar is None:
        raise TypeError("fit_pairs needs X, pairs of its row numbers, and similar=, a flag for each pair.")
    return self._fit_tuples(data, pairs, similar)


def fit_triplets(self: E, X: ArrayLike, triplets: ArrayLike, weights: ArrayLike | None = None) -> E:
    """Learn from triplets; errors and warnings are those of `fit`.

    Parameters
    ----------
    X : (n, d) array
    triplets : (t, 3) integer array
        Row numbers of X: an anchor, an example that is to be near it, and one that should be farther away.
    weights : (t,) array, optional
        Nonnegative weights; default 1.
    """
    return self._fit_tuples(self._checked(X), rows_of("triplets", triplets, 3), weights)


def fit_quadruplets(self: E, X: ArrayLike, quadruplets: ArrayLike, weights: ArrayLike | None = None) -> E:
    """Learn from quadruplets; errors and warnings are those of `fit`.

    Parameters
    ----------
    X : (n, d) array
    quadruplets : (t, 4) integer array
        Row numbers of X: the near pair, then the far one.
    weights : (t,) array, optional
        Nonnegative weights; default 1.
    """
    return self._fit_tuples(self._checked(X), rows_of("quadruplets", quadruplets, 4), weights)


def rows_of(name: str, tuples: ArrayLike, size: int) -> NDArray[np.integer]:
    """Return tuples of row numbers, (t, size)."""
    rows = validation.rectangular(name, tuples)
    if rows.ndim != 2 or rows.shape[1] != size:
        raise ValueError(f"{name} must be an integer array of shape (t, {size}), got shape {rows.shape}.")
    return rows
