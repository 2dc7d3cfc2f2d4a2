"""Certify, verify, compare, and solve along a path, for every statement and for metrics of any package."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sdpmetric.arrays import FloatArray, allow_underflow
from sdpmetric.core import validation
from sdpmetric.core.certificate import (
    AS_SAVED,
    Certificate,
    DualityCertificate,
    InfeasibilityCertificate,
    Multipliers,
    absolute_gap,
)
from sdpmetric.core.problem import Problem, check_problem, unsupported
from sdpmetric.core.registry import solvers_of, solvers_to_try
from sdpmetric.core.run import solve
from sdpmetric.core.solution import Solution, check_solution
from sdpmetric.core.status import Status
from sdpmetric.core.steps import TraceRow
from sdpmetric.core.text import Printed, aligned, digits, scientific
from sdpmetric.core.validation import check_limit
from sdpmetric.engine import threads
from sdpmetric.linalg.rigorous.directed import RIGORS


def path(
    problem: Problem,
    *,
    solver: str = "auto",
    tol: float | None = None,
    max_time: float | None = None,
    verbose: bool = False,
    **weights: Sequence[float],
) -> list[Solution]:
    """Solve for several values of a weight, starting each solve from the previous solution if the solver allows it.

    Parameters
    ----------
    problem : Problem
        Gives the data and the weights that do not vary.
    solver : str, default "auto"
        As in `solve`.
    tol : float, optional
        Relative gap to prove at every point; default that of the solver, as in `solve`.
    max_time : float, optional
        Seconds for each point.
    verbose : bool, default False
    **weights : sequence of float
        Exactly one of `Problem.weights` with its values along the path, for example ``push_weight=[0.1, 0.5, 0.9]``.

    Returns
    -------
    list of Solution
        One for each value, up to an interruption; `Solution.problem` is the problem that it solves.

    Raises
    ------
    TypeError
        If the problem is a stream or has no weights.
    ValueError
        If not exactly one weight is passed, or its values are not a list of numbers.

    See Also
    --------
    Problem.with_weights, explain, solve

    Examples
    --------
    >>> import sdpmetric as sm
    >>> from sklearn.datasets import load_iris
    >>> problem = sm.LMNNProblem.from_labels(*load_iris(return_X_y=True))
    >>> [solution.status.word for solution in sm.path(problem, push_weight=[0.3, 0.5])]
    ['optimal', 'optimal']
    """
    check_problem("path", problem)
    if not problem.weights or solvers_of(problem)[0].stream:
        raise unsupported("path", problem, "it is a stream or has no weights; solve each problem by itself")
    if len(weights) != 1 or not set(weights) <= set(problem.weights):
        raise ValueError(
            f"pass exactly one of {', '.join(f'{name}=' for name in problem.weights)}, the values along the path; "
            f"got {', '.join(f'{name}=' for name in weights) or 'none'}."
        )
    ((name, values),) = weights.items()
    try:
        problems = [problem.with_weights(**{name: value}) for value in values]
    except TypeError as error:
        raise ValueError(f"{name} must be a list of numbers, the values along the path, got {values!r}.") from error
    takes_start = "init" in solvers_to_try(problem, solver)[0].options
    solutions: list[Solution] = []
    for problem_at in problems:
        start = solutions[-1].components if takes_start and solutions and solutions[-1].components.size else None
        once = partial(solve, problem_at, solver, tol=tol, max_time=max_time, verbose=verbose)
        solutions.append(once() if start is None else once(init=start))
        if solutions[-1].status is Status.INTERRUPTED:
            break
    return solutions


@allow_underflow
def certify(
    problem: Problem,
    components: ArrayLike | None = None,
    *,
    metric: ArrayLike | None = None,
    dual: Multipliers | None = None,
) -> Certificate:
    """Certify any metric, from any package, in one pass over the data.

    The lower bound is what the point's own slopes prove: valid, but loose far from an optimum; `verify` tightens it.

    Parameters
    ----------
    problem : Problem
    components : (r, d) array, or (c, r, d) for c metrics, optional
        Factor L of the metric ``M = L.T @ L``.
    metric : (d, d) array, or (c, d, d) for c metrics, optional
        The metric itself. Pass either `components` or `metric`. If the metric is exactly PSD, `objective` is not below
        its objective. If not, `objective` is not below that of a PSD matrix near it, at a relative distance of at most
        `primal_residual`, up to rounding.
    dual : Dual or (p,) array, optional
        Multipliers to prove the lower bound with, of triplets or of the problem's constraints.

    Returns
    -------
    certificate : Certificate
        Of the kind that the problem has.

    See Also
    --------
    solve, verify, Problem.certify

    Examples
    --------
    >>> import sdpmetric as sm
    >>> problem = sm.LMNNProblem.from_labels(*sm.datasets.load("iris"))
    >>> solution = sm.solve(problem)
    >>> sm.certify(problem, solution.components, dual=solution.dual) == solution.certificate
    True
    """
    check_problem("certify", problem)
    problem.check_size(components, metric)
    problem.check_unchanged()
    with threads.one_pool():
        return problem.certify(components, metric=metric, dual=dual)


@allow_underflow
def verify(
    problem: Problem,
    components: ArrayLike | None = None,
    *,
    metric: ArrayLike | None = None,
    estimator: FittedEstimator | FittedTransformer | None = None,
    rescale: bool = False,
    tol: float = 1e-3,
    verbose: bool = False,
) -> Certificate:
    """Prove how far a metric, from any source, is from optimal.

    Parameters
    ----------
    problem : Problem
        A convex statement.
    components : (r, d) array, or (c, r, d) for c metrics, optional
        Factor L of the metric.
    metric : (d, d) array, or (c, d, d) for c metrics, optional
        The metric itself.
    estimator : object, optional
        A fitted estimator with ``components_``, or any that embeds by an affine map, as pipelines do: its linear part.
    rescale : bool, default False
        Certify the best multiple of the metric instead, for packages with another margin or other units.
    tol : float, default 1e-3
        Relative gap between the optimum and the lower bound; a weaker bound is enough if it proves the given metric to
        be this near.
    verbose : bool, default False

    Returns
    -------
    Certificate
        Certificate of the given metric: its objective, the proven lower bound, and the gap between them.

    Raises
    ------
    TypeError
        If nothing proves a lower bound for the problem.
    ValueError
        If not exactly one point is passed.

    See Also
    --------
    certify, compare, solve

    Examples
    --------
    >>> import numpy as np
    >>> import sdpmetric as sm
    >>> problem = sm.LMNNProblem.from_labels(*sm.datasets.load("iris"))
    >>> certificate = sm.verify(problem, metric=np.eye(4), rescale=True)
    >>> certificate.lower_bound <= certificate.objective
    True
    """
    check_problem("verify", problem)
    if solvers_of(problem)[0].stream:
        raise unsupported("verify", problem, "a stream has a regret, not a gap; use regret")
    check_limit("tol", tol, "relative gap")
    if estimator is not None:
        if components is not None or metric is not None:
            raise ValueError("pass exactly one of components=, metric= and estimator=.")
        components = linear_map(estimator, problem.X)
    problem.check_size(components, metric)
    problem.check_unchanged()
    L, primal_residual = problem.check_point(components, metric)
    with threads.one_pool():
        scale = problem.best_scale(L) if rescale else 1.0
        if metric is None:
            certificate = problem.certify(scale * L)
        else:
            certificate = problem.certify(metric=scale**2 * np.asarray(metric, dtype=np.float64))
    if not isinstance(certificate, DualityCertificate | InfeasibilityCertificate):
        raise unsupported("verify", problem, "nothing proves a lower bound; use certify, which says what is known")
    certificate = replace(certificate, primal_residual=max(primal_residual, certificate.primal_residual))
    if rescale:
        certificate = replace(certificate, program=f"{certificate.program}, metric multiplied by {scale**2:.4g}")
    if certificate.settles(tol):
        return certificate

    def is_tight(row: TraceRow) -> bool:
        return replace(certificate, lower_bound=row.lower_bound).proves_optimal(tol)

    proven = solve(problem, tol=tol, verbose=verbose, callback=is_tight).certificate
    if isinstance(certificate, DualityCertificate) and isinstance(proven, DualityCertificate):
        if proven.lower_bound > certificate.lower_bound:
            certificate = replace(certificate, lower_bound=proven.lower_bound)
        return certificate
    return proven  # the constraints contradict each other


class FittedEstimator(Protocol):
    """Anything fitted that carries its factor, as metric-learn's estimators do."""

    components_: NDArray[np.floating]


@runtime_checkable
class FittedTransformer(Protocol):
    """Anything fitted that embeds examples by an affine map: a pipeline, PCA, linear discriminant analysis."""

    def transform(self, X: ArrayLike) -> ArrayLike:
        """Embed examples."""


def linear_map(estimator: FittedEstimator | FittedTransformer, X: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return the factor L of an estimator's embedding, up to a translation."""
    while not hasattr(estimator, "transform") and len(getattr(estimator, "steps", ())) > 1:
        estimator = cast(FittedTransformer, cast(Sequence[object], estimator)[:-1])
    if hasattr(estimator, "solution_") or not isinstance(estimator, FittedTransformer):
        if not hasattr(estimator, "components_"):
            raise TypeError(
                f"estimator must be fitted, with components_ or an affine transform, got {type(estimator).__name__}."
            )
        return cast(FittedEstimator, estimator).components_
    d = X.shape[1]
    wanted: int = getattr(estimator, "n_features_in_", None) or d
    validation.check_width("the problem", X, wanted, type(estimator).__name__)
    examples = np.asarray(X[:: max(1, len(X) // 200)], dtype=np.float64)
    rows: ArrayLike = np.concatenate([np.zeros((1, d)), np.eye(d), examples])
    if (names := getattr(estimator, "feature_names_in_", None)) is not None:
        import pandas as pd

        rows = pd.DataFrame(rows, columns=names)
    Z = np.asarray(estimator.transform(rows), dtype=np.float64)
    L: FloatArray = (Z[1 : d + 1] - Z[0]).T
    error = np.abs(Z[d + 1 :] - examples @ L.T - Z[0]).max(initial=0.0)
    if not error <= 1e-6 * max(np.abs(Z).max(), np.abs(examples @ L.T).max(initial=0.0)):
        raise ValueError(
            f"{type(estimator).__name__} is not an affine map of the features, so no metric has its distances; verify "
            "its linear steps on the data that they receive."
        )
    return L


@dataclass(frozen=True)
class Comparison(Printed):
    """Solutions of one problem side by side; prints as a table, in terminals and notebooks.

    Attributes
    ----------
    solutions : tuple of Solution
    """

    solutions: tuple[Solution, ...]

    COLUMNS = ("solver", "status", "objective", "lower bound", "gap", "seconds", "active")

    @property
    def consistent(self) -> bool:
        """Whether every lower bound is at or below every objective; see `sdpmetric.core.certificate`."""
        lowest = min(s.objective for s in self.solutions)
        return all(s.lower_bound <= lowest or absolute_gap(lowest, s.lower_bound) == 0.0 for s in self.solutions)

    @property
    def verdict(self) -> str:
        """One sentence: what these solutions prove together."""
        best = min(self.solutions, key=lambda solution: solution.objective)
        lowest, highest = best.objective, max(s.lower_bound for s in self.solutions)
        if not self.consistent:
            return f"Contradiction: a lower bound of {highest:.10g} lies above an objective of {lowest:.10g}."
        weakest = max((s.certificate for s in self.solutions), key=lambda certificate: RIGORS.index(certificate.rigor))
        head = "Computed" if weakest.reservation else "Proven"
        head = AS_SAVED.capitalize() if any(s.certificate.as_saved for s in self.solutions) else head
        gap = replace(best.certificate, lower_bound=highest).gap_in_words(2)
        low, high = digits(highest, lowest)
        return (
            f"{head}: the optimum lies between {low} and {high} ({gap}); every lower bound is below every "
            f"objective{weakest.reservation}."
        )

    def rows(self) -> list[tuple[str, ...]]:
        """Return the cells of the table, a tuple for each solution."""
        return [
            (
                s.solver,
                str(s.status) if not s.certificate.as_saved else f"{s.status} (as saved)",
                *reversed(digits(s.lower_bound, s.objective)),
                scientific(s.relative_gap, 2),
                f"{s.seconds:.2f}",
                f"{s.certificate.n_active:,}",
            )
            for s in self.solutions
        ]

    @property
    def table(self) -> str:
        """The table alone, narrow enough for 80 columns."""
        return aligned(self.COLUMNS, self.rows())

    def __str__(self) -> str:
        return f"{self.table}\n{self.verdict}"


def compare(*solutions: Solution) -> Comparison:
    """Compare solutions of one problem, and say what they prove together.

    Parameters
    ----------
    *solutions : Solution
        At least one; all of the same problem.

    Returns
    -------
    comparison : Comparison
        Prints as a table; `verdict` is the sentence below it.

    Raises
    ------
    ValueError
        If there are no solutions, or they are of different problems or carry different kinds of certificates.

    See Also
    --------
    Comparison, solve, verify

    Examples
    --------
    >>> import sdpmetric as sm
    >>> problem = sm.LMNNProblem.from_labels(*sm.datasets.load("iris"))
    >>> solution = sm.solve(problem)
    >>> sm.compare(solution, sm.solve(problem, solver="conic")).consistent
    True
    """
    if not solutions:
        raise ValueError("compare needs at least one solution.")
    for solution in solutions:
        check_solution("compare", solution)
    prints = {s.problem.fingerprint() for s in solutions if s.problem is not None}
    if len(prints) > 1:
        raise ValueError("these solutions belong to different problems; compare solutions of one problem.")
    kinds = sorted({f"{s.certificate.program} ({s.certificate.kind})" for s in solutions})
    if len(kinds) > 1:
        raise ValueError(
            "these solutions are of different objectives or carry different kinds of certificates, so their "
            f"numbers do not compare: {', '.join(kinds)}."
        )
    return Comparison(solutions)
