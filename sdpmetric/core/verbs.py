"""Solve, certify, verify, and solve along a path: the verbs of the package, for every statement."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import ArrayLike

from sdpmetric.core import validation
from sdpmetric.core.attempts import Attempts
from sdpmetric.core.certificate import Certificate, DualityCertificate, InfeasibilityCertificate, Multipliers
from sdpmetric.core.linear_map import FittedEstimator, FittedTransformer, linear_map
from sdpmetric.core.printer import Printer
from sdpmetric.core.problem import Problem, check_problem, unsupported
from sdpmetric.core.registry import Solver, solvers_of, solvers_to_try
from sdpmetric.core.run import EarlyStopping, Run, check_calls, check_tolerance
from sdpmetric.core.solution import Solution
from sdpmetric.core.status import Status
from sdpmetric.core.steps import Budget, Callback, Score, Watch
from sdpmetric.core.trace import TraceRow
from sdpmetric.engine import Engine, resolve, threads
from sdpmetric.engine.interface import BudgetSpent, deadline, hurried, using

if TYPE_CHECKING:
    from distributed import Client


# Of the time of `verify` that the certificate of the point may take; the rest is for the lower bound.
SHARE = 0.5


def solve(
    problem: Problem,
    solver: str = "auto",
    *,
    tol: float | None = None,
    max_iter: int | None = None,
    max_time: float | None = None,
    callback: Callback | None = None,
    watch: Watch | None = None,
    verbose: bool = False,
    random_state: int | None = None,
    score: Score | None = None,
    patience: int | None = None,
    engine: Engine | Client | str | None = None,
    **options: object,
) -> Solution:
    """Solve a problem and certify the answer.

    Parameters
    ----------
    problem : Problem
        Any statement of this package, or one of your own.
    solver : str, default "auto"
        By name; `sdpmetric.solvers_of` lists those of a problem. "auto" begins with the first that takes the options;
        where one stalls at a gap above `tol`, the next goes on from its point, and `Solution.solver` names the last.
        For LMNN: "factored", a continuation method in the factor; "subgradient", Algorithm 1 of Weinberger and Saul
        (2009) [WS2009] with Polyak steps and an ergodic dual; "conic", the exact semidefinite program in CVXPY, by
        constraint generation; "low_rank", a metric of bounded rank (LMNN-R, section 5.4), with ``n_components=``.
    tol : float, optional
        Relative gap to prove; default that of the solver, 1e-6 for "conic" and 1e-3 for most of the others.
    max_iter : int, optional
        Largest number of evaluations of objective and gradient; default: no limit.
    max_time : float, optional
        Limit in seconds; default: no limit. The best point so far is returned with its certificate; where that is the
        zero metric, the start or a multiple of the identity, if its objective is finite.
    callback : callable, optional
        Called with each `TraceRow`; returning True stops the solve.
    watch : callable, optional
        Called with each point and its row of the trace, for example `sdpmetric.report.Recorder`.
    verbose : bool, default False
        Log progress, and how the solve ended, as information of the logger "sdpmetric": on standard error, unless the
        program has configured logging.
    random_state : int, optional
        Seed of the solvers that draw at random; default 0. The others use no randomness.
    score : callable, optional
        ``score(components)``, larger is better, for example the accuracy on held-out examples; written into the trace
        for each step.
    patience : int, optional
        Early stopping: return the step with the best `score` (the last if tied), with its own certificate, and stop
        after this many steps without a better one.
    engine : Engine, dask.distributed.Client or "threads", optional
        Where the loops run, for LMNN's solver "factored": default the threads of this process; or the workers of a Dask
        cluster. See ``docs/deploy.md``.
    **options
        Options of the solver, for example ``init=`` (components to start from), ``step="paper"`` of "subgradient",
        ``backend="SCS"`` of "conic", or ``n_components=2`` and ``full=`` (the solution without a bound on the rank) of
        "low_rank"; see the docstring of the solver.

    Returns
    -------
    Solution
        With `status` ``optimal`` only if the relative gap is proven to be at most `tol`, or the optimum to be 0 or
        less and the gap to be at most the certificate's `resolution`; ``stalled`` if no solver could do more and the
        gap is above ten times `tol`.

    Raises
    ------
    ValueError
        If the solver is unknown, or an argument is out of range.
    TypeError
        If nothing solves problems of this kind, or the solver does not take an option or another engine.
    ImportError
        If the engine needs a package that is not installed.

    See Also
    --------
    certify, compare, path, solvers_of, verify

    Examples
    --------
    >>> import sdpmetric as sm
    >>> from sklearn.datasets import load_iris
    >>> problem = sm.LMNNProblem.from_labels(*load_iris(return_X_y=True))
    >>> sm.solve(problem, tol=1e-3).status.word
    'optimal'
    """
    solvers = solvers_to_try(problem, solver, options)
    entry = solvers[0]
    tol = entry.tol if tol is None else tol
    check_tolerance(tol)
    check_calls(callback, score, patience)
    options = _check_options(problem, entry, options, random_state)
    if engine is not None and not entry.engines:
        raise TypeError(
            f"solver {entry.name!r} of {type(problem).__name__} runs on the threads of this process; leave engine= out."
        )
    printer = Printer(stream=entry.stream, tol=tol) if verbose else None
    watches = [] if watch is None else [watch]
    watches += [] if printer is None else [lambda step, row: printer(row)]
    budget = Budget(max_time, max_iter)
    with deadline(budget.deadline, budget.last):
        place = resolve(engine)
    with using(place):
        run = Run(
            problem,
            budget,
            tol,
            watches=watches,
            callback=callback,
            score=score,
            early_stopping=None if patience is None else EarlyStopping(patience),
            stream=entry.stream,
            relaxed=entry.relaxed,
            rank=cast(int | None, options.get("n_components", getattr(problem, "n_components", None))),
        )
        attempts = Attempts(run, solvers, options)
        solution = run.over(attempts)
    solution = replace(solution, solver=attempts.solver.name)
    if printer is not None:
        printer.end(solution)
    return solution


def _check_options(
    problem: Problem, entry: Solver, options: dict[str, object], random_state: int | None
) -> dict[str, object]:
    if foreign := sorted(set(options) - entry.options):
        raise TypeError(
            f"solver {entry.name!r} does not take {', '.join(foreign)}{validation.like(foreign[0], entry.options)}; "
            f"its options are {', '.join(sorted(entry.options)) or 'none'}."
        )
    checked = {name: value for name, value in options.items() if value is not None}
    if random_state is not None:
        checked["random_state"] = validation.check_integer("random_state", random_state, 0)
    if "init" in checked:
        try:
            checked["init"] = problem.check_point(np.asarray(checked["init"]), None)[0]
        except ValueError as error:
            raise ValueError(str(error).replace("components", "init")) from error
    return checked


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
        If the statement has no weights.
    ValueError
        If not exactly one of its weights is given.

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
    takes_start = "init" in solvers_to_try(problem, solver)[0].options
    solutions: list[Solution] = []
    for problem_at in problem.with_each(name, values):
        start = solutions[-1].components if takes_start and solutions and solutions[-1].components.size else None
        once = partial(solve, problem_at, solver, tol=tol, max_time=max_time, verbose=verbose)
        solutions.append(once() if start is None else once(init=start))
        if solutions[-1].status is Status.INTERRUPTED:
            break
    return solutions


def certify(
    problem: Problem,
    components: ArrayLike | None = None,
    *,
    metric: ArrayLike | None = None,
    dual: Multipliers | None = None,
    max_time: float | None = None,
) -> Certificate:
    """Certify any metric, from any package, in one pass over the data.

    The lower bound is what the point's own slopes prove: valid, but loose far from an optimum; `verify` tightens it.

    Parameters
    ----------
    problem : Problem
    components : (r, d) array, or (c, r, d) for c metrics, optional
        Factor L of the metric ``M = L.T @ L``.
    metric : (d, d) array, or (c, d, d) for c metrics, optional
        The metric itself; exactly one of the two. `objective` is not below its own if it is exactly PSD, and not below
        that of a PSD matrix within `primal_residual` of it, relatively and up to rounding, if it is not.
    dual : Dual or (p,) array, optional
        Multipliers to prove the lower bound with, of triplets or of the problem's constraints.
    max_time : float, optional
        Limit in seconds; default: no limit. Where it is short the lower bound is trivial, and, where even the
        objective takes longer, the objective infinite.

    Returns
    -------
    certificate : Certificate
        Of the kind that the problem has.

    Raises
    ------
    TypeError
        If the statement takes multipliers of another kind.
    ValueError
        If the point has the wrong shape, is not finite, or is not PSD.

    See Also
    --------
    solve, verify, Problem.certify

    Examples
    --------
    >>> import sdpmetric as sm
    >>> X, y = sm.datasets.load("iris")
    >>> X = sm.datasets.standardize(X)
    >>> problem = sm.LMNNProblem.from_labels(X, y)
    >>> solution = sm.solve(problem)
    >>> sm.certify(problem, solution.components, dual=solution.dual) == solution.certificate
    True
    """
    check_problem("certify", problem)
    problem.check_given(components, metric)
    return _certificate_in_time(problem, components, metric, dual, Budget(max_time))


def _certificate_in_time(
    problem: Problem,
    components: ArrayLike | None,
    metric: ArrayLike | None,
    dual: Multipliers | None,
    budget: Budget,
    share: float = 1.0,
) -> Certificate:
    """The certificate of a point; without a bound where that takes more than a share of the time, or of nothing."""
    problem.check_unchanged()
    if budget.max_time == math.inf:
        return problem.certify(components, metric=metric, dual=dual)
    certify = partial(problem.certify, components, metric=metric)
    with threads.one_pool(), contextlib.suppress(BudgetSpent):
        with contextlib.suppress(BudgetSpent), deadline(budget.began + share * budget.max_time, budget.last):
            return certify(dual=dual)
        with hurried(), deadline(budget.last, budget.last):
            return certify()
    name = type(problem).__name__
    weakness = "time was over before the objective was known"
    return DualityCertificate(objective=math.inf, lower_bound=-math.inf, program=name, weakness=weakness)


def verify(
    problem: Problem,
    components: ArrayLike | None = None,
    *,
    metric: ArrayLike | None = None,
    estimator: FittedEstimator | FittedTransformer | None = None,
    rescale: bool = False,
    tol: float = 1e-3,
    max_time: float | None = None,
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
    max_time : float, optional
        Limit in seconds; default: no limit. Half of it is for the certificate of the metric itself, see `certify`.
    verbose : bool, default False

    Returns
    -------
    Certificate
        Certificate of the given metric: its objective, the proven lower bound, and the gap between them.

    Raises
    ------
    TypeError
        If nothing proves a lower bound for statements of this kind.
    ValueError
        If not exactly one point is given, or it has the wrong shape, is not finite, or is not PSD.

    See Also
    --------
    certify, compare, solve

    Examples
    --------
    >>> import numpy as np
    >>> import sdpmetric as sm
    >>> X, y = sm.datasets.load("iris")
    >>> X = sm.datasets.standardize(X)
    >>> problem = sm.LMNNProblem.from_labels(X, y)
    >>> certificate = sm.verify(problem, metric=np.eye(4), rescale=True)
    >>> certificate.lower_bound <= certificate.objective
    True
    """
    check_problem("verify", problem)
    if solvers_of(problem)[0].stream:
        raise unsupported("verify", problem, "a stream has a regret, not a gap; use regret")
    check_tolerance(tol)
    budget = Budget(max_time)
    if estimator is not None:
        if components is not None or metric is not None:
            raise ValueError("pass exactly one of components=, metric= and estimator=.")
        components = linear_map(estimator, problem.X)
    L, primal_residual = problem.check_given(components, metric)
    scale = 1.0
    if rescale:
        with contextlib.suppress(BudgetSpent), deadline(budget.began + SHARE * budget.max_time, budget.last):
            scale = problem.best_scale(L)
    multiple = None if metric is None else scale**2 * np.asarray(metric, dtype=np.float64)
    factor = scale * L if multiple is None else None
    certificate = _certificate_in_time(problem, factor, multiple, None, budget, SHARE)
    if not isinstance(certificate, DualityCertificate | InfeasibilityCertificate):
        raise unsupported("verify", problem, "nothing proves a lower bound; use certify, which says what is known")
    certificate = replace(certificate, primal_residual=max(primal_residual, certificate.primal_residual))
    if rescale:
        certificate = replace(certificate, program=f"{certificate.program}, metric multiplied by {scale**2:.4g}")
    if certificate.settles(tol):
        return certificate

    def is_tight(row: TraceRow) -> bool:
        return replace(certificate, lower_bound=row.lower_bound).proves_optimal(tol)

    remaining = None if max_time is None else max(budget.remaining, 1e-3)
    proven = solve(problem, tol=tol, max_time=remaining, verbose=verbose, callback=is_tight).certificate
    if isinstance(certificate, DualityCertificate) and isinstance(proven, DualityCertificate):
        if proven.lower_bound > certificate.lower_bound:
            certificate = replace(certificate, lower_bound=proven.lower_bound)
        return certificate
    return proven  # the constraints contradict each other
