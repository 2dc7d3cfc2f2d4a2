"""Solve, certify, verify: the verbs of the package."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar

from sdpmetric.core import run as base
from sdpmetric.core import validation
from sdpmetric.core.certificate import Certificate, relative_gap
from sdpmetric.core.printer import Printer
from sdpmetric.core.solution import Dual, Problem, Solution
from sdpmetric.core.trace import TraceRow
from sdpmetric.problems.lmnn import LMNNProblem
from sdpmetric.problems.multi_lmnn import MultiMetricLMNNProblem
from sdpmetric.solvers.lmnn import low_rank
from sdpmetric.solvers.registry import solvers_of

Callback = base.Callback
FloatArray = NDArray[np.float64]


class FittedEstimator(Protocol):
    """Anything fitted that carries its factor, as scikit-learn's and metric-learn's estimators do."""

    components_: NDArray[np.floating]


def solve(
    problem: base.CertifiableProblem,
    solver: str = "auto",
    *,
    tol: float | None = None,
    max_iter: int | None = None,
    max_time: float | None = None,
    callback: Callback | None = None,
    verbose: bool = False,
    random_state: int | None = None,
    n_components: int | None = None,
    full: Solution | None = None,
    score: base.Score | None = None,
    patience: int | None = None,
    **options: object,
) -> Solution:
    """Solve a problem and have the problem certify the answer.

    Parameters
    ----------
    problem : LMNNProblem or another statement of this package
    solver : str, default "auto"
        By name; `sdpmetric.solvers.registry.SOLVERS` lists those of every statement, "auto" is the first. For LMNN:
        "factored", L-BFGS on a smoothed hinge in the factor, with a proof; "subgradient", Algorithm 1 of Weinberger and
        Saul (2009) with Polyak steps and an ergodic dual; "conic", the exact semidefinite program in CVXPY, by
        constraint generation. For POLA: "dual", "conic", "batch", the paper's repeated online updates (hard margin),
        and "online", one pass of them.
    tol : float, optional
        Relative gap to prove; default 1e-6 for "conic", and 1e-3 for most of the others.
    max_iter : int, optional
        Evaluations of objective and gradient at most; default no limit.
    max_time : float, optional
        Seconds at most; default no limit. The best certified point so far is returned.
    callback : callable, optional
        Called with each `TraceRow`; returning True stops the solve.
    verbose : bool, default False
        Print progress.
    random_state : int, optional
        Seed of the factored solver's order of anchors; default 0. The other solvers use no randomness.
    n_components : int, optional
        Bound on the rank of the metric (LMNN-R of Weinberger and Saul 2009, section 5.4); "factored" only. The full
        problem is solved first, and its lower bound makes the certificate's relaxation gap.
    full : Solution, optional
        With `n_components`: the solution without the bound, to go on from; only the bounded solve is timed and traced.
    score : callable, optional
        ``score(components)``, larger is better, for example the accuracy on examples held back; written into the trace
        for each step.
    patience : int, optional
        Early stopping: return the step with the best `score`, the latest of equals, with its own certificate, and stop
        after so many steps without a better one. With `n_components` it is the solve of bounded rank that is stopped.
    **options
        Options of the solver. For LMNN: ``start=`` (components to start from) for all; ``step="polyak"`` or ``"paper"``
        and ``check_every=`` for "subgradient"; ``backend="CLARABEL"``, ``program=`` (an edited `to_cvxpy` program),
        ``backend_options=`` and ``polish=`` for "conic".
        For POLA: ``beta=`` for "batch", ``gamma=`` for "online"; ``backend=`` and ``backend_options=`` for "conic".

    Returns
    -------
    Solution
        With `status` ``optimal`` only if the relative gap is proven to be at most `tol`.

    Raises
    ------
    ValueError
        If the solver is unknown, or an argument is out of range.
    TypeError
        If the solver does not take an option.
    """
    entries = solvers_of(problem)
    name = next(iter(entries)) if solver == "auto" else solver
    if name not in entries:
        raise ValueError(f"unknown solver {solver!r}; choose one of 'auto', {', '.join(map(repr, entries))}.")
    entry = entries[name]
    if random_state is not None and "random_state" in entry.options:
        options["random_state"] = random_state
    foreign = set(options) - entry.options
    if foreign:
        raise TypeError(
            f"solver {name!r} does not take {', '.join(sorted(foreign))}; "
            f"its options are {', '.join(sorted(entry.options))}."
        )
    if options.get("start") is not None and not isinstance(problem, MultiMetricLMNNProblem):
        factors = validation.check_factors(np.asarray(options["start"]), problem.X.shape[1], name="start")
        if len(factors) > 1:
            raise ValueError(f"start holds {len(factors)} factors; pass one of shape (r, {problem.X.shape[1]}).")
        options["start"] = factors[0]
    tol = entry.tol if tol is None else tol
    budget = base.Budget(max_time, max_iter)
    watch = _with_printer(callback) if verbose else callback
    if n_components is not None:
        lmnn = _check_rank(problem, name, n_components)
    run = partial(base.run, problem, budget=budget, solver=name, tol=tol, callback=watch, score=score)
    if full is not None:
        _check_full(problem, full, n_components, options)
    else:
        steps = entry.steps(problem, budget, tol, **options)
        full = run(steps, kind=entry.kind, patience=patience if n_components is None else None)
    if n_components is None or len(full.components) <= n_components:
        return full
    return run(low_rank.steps(lmnn, budget, full, n_components), kind="relaxation", patience=patience)


def _check_rank(problem: Problem, solver: str, n_components: int) -> LMNNProblem:
    if not isinstance(problem, LMNNProblem) or solver != "factored":
        raise ValueError(
            f"n_components is for LMNN with solver='factored' only, got {type(problem).__name__} with {solver!r}."
        )
    whole = isinstance(n_components, int | np.integer) and not isinstance(n_components, bool)
    if not whole or not 1 <= n_components <= problem.X.shape[1]:
        raise ValueError(f"n_components must be an integer between 1 and {problem.X.shape[1]}, got {n_components!r}.")
    if problem.coordinates.null.shape[1]:
        raise ValueError(
            f"{problem.coordinates.null.shape[1]} directions have no pull cost, and the metric needs them all: "
            "reduce the dimension first, for example by PCA, or pass a small ridge, before bounding the rank."
        )
    return problem


def _check_full(problem: Problem, full: Solution, n_components: int | None, options: dict[str, object]) -> None:
    if n_components is None or options.get("start") is not None:
        raise ValueError("full= is for a solve with n_components=, which starts from it: leave it or start= out.")
    same = full.problem is problem or (full.problem is not None and full.problem.fingerprint() == problem.fingerprint())
    if not same or full.certificate.kind != "duality":
        raise ValueError("full= must solve this very problem, the same data and parameters, with no bound on the rank.")


def path(
    problem: LMNNProblem,
    *,
    push_weight: Sequence[float] | None = None,
    ridge: Sequence[float] | None = None,
    solver: str = "auto",
    tol: float | None = None,
    max_time: float | None = None,
    verbose: bool = False,
) -> list[Solution]:
    """Solve along a path of weights, each problem started from the solution before it.

    Parameters
    ----------
    problem : LMNNProblem
        Gives data, triplets and the weight that does not vary.
    push_weight, ridge : sequence of float, optional
        Exactly one of the two: the values along the path.
    solver : str, default "auto"
        As in `solve`.
    tol : float, optional
        Relative gap to prove at every point; default that of the solver, as in `solve`.
    max_time : float, optional
        Seconds for each point.
    verbose : bool, default False

    Returns
    -------
    list of Solution
        One for each value; `Solution.problem` is the problem that it solves.
    """
    if not isinstance(problem, LMNNProblem):
        raise TypeError(
            f"path is for LMNN with one metric, got {type(problem).__name__}; solve each problem by itself."
        )
    if (push_weight is None) == (ridge is None):
        raise ValueError("pass exactly one of push_weight= and ridge=, the values along the path.")
    name, values = ("push_weight", push_weight) if push_weight is not None else ("ridge", ridge)
    solutions = list[Solution]()
    for value in [] if values is None else values:
        here = problem.with_weights(**{name: float(value)})
        start = solutions[-1].components if solutions and len(solutions[-1].components) else None
        solutions.append(solve(here, solver, tol=tol, max_time=max_time, verbose=verbose, start=start))
    return solutions


def _with_printer(callback: Callback | None) -> Callback:
    printer = Printer()

    def both(row: TraceRow) -> bool | None:
        printer(row)
        return callback(row) if callback is not None else None

    return both


def certify(
    problem: LMNNProblem | MultiMetricLMNNProblem,
    components: ArrayLike | None = None,
    *,
    metric: ArrayLike | None = None,
    dual: Dual | None = None,
) -> Certificate:
    """Judge any point of a problem, from any package, in one pass over the data; see `LMNNProblem.certify`.

    The lower bound is what the point's own hinge slopes prove: cheap and always valid, but loose unless the point is
    nearly optimal. `verify` spends more for a tight one.

    Parameters
    ----------
    problem : LMNNProblem or MultiMetricLMNNProblem
        Other statements have a `certify` of their own.
    components : (r, d) array, or (c, r, d) for c metrics, optional
        Factor L of the metric ``M = L.T @ L``.
    metric : (d, d) array, or (c, d, d) for c metrics, optional
        The metric itself; exactly one of the two.
    dual : Dual, optional
        Multipliers to prove the lower bound with.
    """
    if isinstance(problem, MultiMetricLMNNProblem):
        return problem.certify(components, metrics=metric, dual=dual)
    return problem.certify(components, metric=metric, dual=dual)


def verify(
    problem: LMNNProblem,
    components: ArrayLike | None = None,
    *,
    metric: ArrayLike | None = None,
    estimator: FittedEstimator | None = None,
    rescale: bool = False,
    tol: float = 1e-3,
    max_time: float | None = None,
    verbose: bool = False,
) -> Certificate:
    """How far is this metric from optimal? Proven, whoever learned it.

    Parameters
    ----------
    problem : LMNNProblem
    components : (r, d) array, optional
        Factor L of the metric.
    metric : (d, d) array, optional
        The metric itself.
    estimator : object, optional
        A fitted estimator with ``components_``. Exactly one of the three.
    rescale : bool, default False
        Judge the best multiple of the metric instead, so that a package with another margin is not judged by units.
    tol : float, default 1e-3
        The lower bound is proven to be within this relative gap of the optimum, unless the metric is proven to be
        within `tol` of optimal before that.
    max_time : float, optional
        Seconds for the lower bound.
    verbose : bool, default False

    Returns
    -------
    Certificate
        Of the given metric: its objective, the proven lower bound, and the gap between them.
    """
    if not isinstance(problem, LMNNProblem):
        raise TypeError(
            f"verify is for LMNN with one metric, got {type(problem).__name__}; its own certify judges a point, and "
            "solve proves a lower bound."
        )
    if estimator is not None:
        if components is not None or metric is not None:
            raise ValueError("pass exactly one of components=, metric= and estimator=.")
        components = estimator.components_
    L, _ = validation.check_point(components, metric, problem.X.shape[1])
    program = "LMNN"
    if rescale:
        factor = best_multiple(problem, L)
        L, program = factor * L, f"LMNN, metric multiplied by {factor**2:.4g}"
    certificate = replace(problem.certify(L), program=program)
    if certificate.relative_gap <= tol:
        return certificate

    def enough(row: TraceRow) -> bool:
        return relative_gap(certificate.objective, row.lower_bound) <= tol

    solution = solve(problem, tol=tol, max_time=max_time, verbose=verbose, callback=enough)
    return replace(
        certificate,
        lower_bound=max(certificate.lower_bound, solution.lower_bound),
        dual_residual=solution.certificate.dual_residual,
    )


def best_multiple(problem: LMNNProblem, components: FloatArray) -> float:
    """The number s > 0 for which ``s * components`` has about the smallest objective, never a worse one than s = 1.

    The objective is convex along ``s ** 2``, so that a bounded line search on its logarithm finds the minimum; where
    there are many examples the search runs on 1000 anchors, evenly spread, with every example as a possible impostor.
    """
    Z = problem.embed(components)
    among = np.unique(np.linspace(0, len(Z) - 1, min(1000, len(Z))).astype(np.int32))

    def objective(log_scale: float) -> float:
        return problem.partial_objective(np.exp(log_scale) * Z, np.exp(log_scale) * components, among)

    found = minimize_scalar(objective, bounds=(-12.0, 12.0), method="bounded", options={"xatol": 1e-6})
    factor = float(np.exp(found.x))
    return factor if problem.objective(factor * components) < problem.objective(components) else 1.0
