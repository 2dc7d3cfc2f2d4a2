"""Exact programs of all statements: variables by name, a point and multipliers, and CVXPY's solvers with settings."""

from __future__ import annotations

import inspect
import math
import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from typing import cast

from sdpmetric.arrays import FloatArray
from sdpmetric.core.certificate import Multipliers
from sdpmetric.core.problem import Problem, check_problem, unsupported
from sdpmetric.core.registry import formulation_of
from sdpmetric.core.status import warn
from sdpmetric.core.steps import Budget
from sdpmetric.core.triplets import Triplets
from sdpmetric.core.validation import check_known
from sdpmetric.engine.threads import check_deadline
from sdpmetric.lazy import cvxpy as cp
from sdpmetric.lines import Lines
from sdpmetric.programs.canonical import no_panic


def named(program: cp.Problem) -> dict[str, cp.Variable | cp.Constraint]:
    """Return variables and labeled constraints by name, for example ``named(program)["margins"].dual_value``."""
    variables = {variable.name(): variable for variable in program.variables()}
    return variables | {c.label: c for c in program.constraints if c.label is not None}


@dataclass(frozen=True, eq=False)
class Point:
    """The metric of a solved program and its multipliers, of triplets or constraints, as the backend left them."""

    metric: FloatArray
    dual: Multipliers | None = None


@dataclass(frozen=True, eq=False)
class ExactProgram:
    """A problem's exact program; ``read()`` returns the `Point` once it is solved.

    If the solver reports that no point is feasible, the multipliers of the program `infeasibility` prove that.
    """

    program: cp.Problem
    read: Callable[[], Point]
    infeasibility: ExactProgram | None = None


def printed(
    objective: cp.Minimize | cp.Maximize, constraints: Sequence[cp.Constraint], lines: Callable[[], Lines]
) -> cp.Problem:
    """Return a CVXPY problem that prints by its lines; `lines` is called each time, as parameters may change."""
    program = _printed_program()(objective, list(constraints))
    program.lines = lines
    return program


@cache
def _printed_program() -> type[cp.Problem]:
    class PrintedProgram(cp.Problem):
        """A program that prints as its paper writes it."""

        lines: Callable[[], Lines]

        def __str__(self) -> str:
            return str(self.lines())

        def to_latex(self) -> str:
            return self.lines().to_latex()

        def _repr_latex_(self) -> str:
            return f"$${self.to_latex()}$$"

    return PrintedProgram


class PrintedProblem(Problem):
    """A statement whose exact program prints as its paper writes it."""

    def program(self) -> cp.Problem:
        """Return `sdpmetric.to_cvxpy` of this problem; ``print`` and ``to_latex()`` show it as the paper writes it."""
        return to_cvxpy(self)

    @abstractmethod
    def dual_program(self) -> cp.Problem:
        """Return the dual of `program`, which prints in the same way; see ``docs/duals.md``.

        Its variables are the multipliers, named as the constraints of `program` and in the same order; its constraints
        have the names of the variables of `program`, which are their dual values.
        """

    @abstractmethod
    def lines(self) -> Lines:
        """Return the lines that `program` prints, for problems of any size."""

    def to_latex(self) -> str:
        """Return the lines of `program` in LaTeX, also of problems too large for it."""
        return self.lines().to_latex()

    def _repr_html_(self) -> str:
        return f"{super()._repr_html_()}<div>$${escape(self.to_latex(), quote=False)}$$</div>"


def formulate(problem: Problem, **options: object) -> ExactProgram:
    """Return the exact program of a problem, and how to read its solution."""
    state = formulation_of(type(problem))
    if state is None:
        raise unsupported("to_cvxpy", problem, "no exact program is registered; register one with formulation()")
    keywords = [p.name for p in inspect.signature(state).parameters.values() if p.kind is p.KEYWORD_ONLY]
    requested = {name for name, value in options.items() if value is not None and value is not False}
    check_known(f"the program of {type(problem).__name__}", requested - {"scaled"}, {*keywords} - {"scaled"})
    return cast(ExactProgram, state(problem, **{name: value for name, value in options.items() if name in keywords}))


def to_cvxpy(problem: Problem, triplets: Triplets | None = None, *, parametric: bool = False) -> cp.Problem:
    """Return a problem as the CVXPY program of its paper, unsolved, with named variables.

    In the data's own coordinates. For LMNN the variables are named ``M``, (d, d), and ``xi``, one slack per triplet;
    the constraints are labeled ``margins``, ``slacks`` and ``cone``. Find them again with `sdpmetric.programs.named`.
    The dual values of ``margins`` are the multipliers a_t, that of ``cone`` is the slack matrix ``C - sum a_t B_t``.
    Several metrics are named ``M_1``, ``M_2`` and so on, and their cones ``cone_M_1``. For POLA the variables are
    ``A``, ``b`` and, for the soft margin, ``xi``; the constraints ``margins``, ``slacks``, ``cone`` and ``floor``. For
    sums each loss has a constraint with the name of its term; its dual values are the multipliers.
    ``docs/duals.md`` says more. ``print`` shows the program as its paper writes it.

    Parameters
    ----------
    problem : Problem
        A statement with an exact program. For a stream it is the comparator's, for FRML the relaxation's.
    triplets : Triplets, optional
        Only these triplets of LMNN; default: all. The optimum of fewer triplets is a lower bound of the full one.
    parametric : bool, default False
        Make the weights parameters, set to the problem's: ``push_weight`` and ``ridge`` of LMNN, ``slack_weight`` of
        POLA with a soft margin. Set another value (``program.param_dict["push_weight"].value = 0.3``, which
        `Problem.with_weights` says as a problem) and solve again, without compiling again. The program follows the
        rules of disciplined parametrized programming.

    Returns
    -------
    program : cvxpy.Problem
        Add constraints of your own by ``cvxpy.Problem(program.objective, program.constraints + [...])`` and pass the
        result to `sdpmetric.bound`, which proves between which numbers its optimum lies.

    Raises
    ------
    TypeError
        If the statement has no exact program, or one without that option.
    ValueError
        If there are more triplets than a solver could hold, a triplet is given twice, or one does not belong to the
        problem.

    Examples
    --------
    >>> import sdpmetric as sm
    >>> print(sm.to_cvxpy(sm.LMNNProblem.from_triplets([[0.0], [1.0], [3.0]], [[0, 1, 2]], push_weight=0.5)))
    minimize    (1 - mu) * D(0,1) + mu * xi[0,1,2]
    subject to  margins: D(0,2) - D(0,1) >= 1 - xi[0,1,2]
                slacks: xi >= 0
                cone: M >> 0
    where       mu = 0.5
                D(i,j) = (x_i - x_j)' M (x_i - x_j)
                x_0 = (0), x_1 = (1), x_2 = (3)
    """
    check_problem("to_cvxpy", problem)
    program: cp.Problem = formulate(problem, triplets=triplets, parametric=parametric).program
    return program


BackendOptions = Mapping[str, float | int | bool | str]
Options = dict[str, float | int | bool | str]

# How a backend takes its time limit.
TIME_LIMITS = {"CLARABEL": "time_limit", "SCS": "time_limit_secs"}
# The settings that proofs need, and those to try next if a program was not solved accurately enough. Clarabel's
# own regularization, 1e-8, lets its factorization break down on large cones before their residuals are small; cones of
# moderate size also bear a weaker one, and some need it.
CLARABEL: Options = {"tol_gap_rel": 1e-9, "tol_gap_abs": 1e-9, "tol_feas": 1e-9}
SCS: Options = {"eps_abs": 1e-7, "eps_rel": 1e-7, "max_iters": 20_000}
SETTINGS: dict[str, list[Options]] = {
    "CLARABEL": [CLARABEL | {"static_regularization_constant": size} for size in (1e-6, 1e-8, 1e-10)],
    "SCS": [SCS, SCS | {"eps_abs": 1e-9, "eps_rel": 1e-9, "max_iters": 100_000}],
}


@dataclass(frozen=True)
class Backend:
    """A CVXPY solver with the settings to try, one after another."""

    name: str
    settings: tuple[Options, ...]

    @classmethod
    def of(cls, backend: str, options: BackendOptions | None = None) -> Backend:
        """Check that a backend can be used with some options, on a program of one variable."""
        if options is not None and not isinstance(options, Mapping):
            raise TypeError(f"backend_options must be a mapping from names to values, got {options!r}.")
        if not isinstance(backend, str) or not _takes_cones(backend.upper()):
            able = [name for name in cp.installed_solvers() if _takes_cones(name)]
            raise ValueError(
                f"backend {backend!r} is not an installed solver for semidefinite programs; "
                f"choose one of {', '.join(able)}."
            )
        name, given_options = backend.upper(), dict(options or {})
        checked = cls(name, tuple(setting | given_options for setting in SETTINGS.get(name, [{}])))
        if given_options:
            try:
                checked.run(_smallest(), Budget(), checked.settings[0])
            except (TypeError, ValueError, AttributeError) as error:
                raise TypeError(f"backend {name} does not take backend_options={given_options}: {error}") from error
        return checked

    def timed(self, budget: Budget, options: Options) -> Options:
        """Return the options, with the remaining time if the backend takes a limit."""
        if self.name in TIME_LIMITS and math.isfinite(budget.remaining):
            return {TIME_LIMITS[self.name]: max(budget.remaining, 0.1), **options}
        return options

    def run(self, program: cp.Problem, budget: Budget, options: Options) -> str:
        """Solve a program; CVXPY's word for how it ended."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # the certificate tells of inaccurate solutions
                warnings.simplefilter("ignore", RuntimeWarning)  # a point slightly outside the domain of a logarithm
                program.get_problem_data(self.name)  # CVXPY keeps it
                check_deadline()
                with no_panic():
                    program.solve(solver=self.name, **self.timed(budget, options))
        except cp.error.SolverError as error:
            if error.__cause__ is not None:  # for example a missing license
                warn(f"{self.name} failed: {error.__cause__}", RuntimeWarning)
            return "solver_error"
        except ValueError as error:
            if "Problem data contains" not in str(error):  # NaN or infinity, which no backend takes
                raise
            return "solver_error"
        return str(program.status)


def _smallest() -> cp.Problem:
    X = cp.Variable((2, 2), symmetric=True)
    return cp.Problem(cp.Minimize(cp.trace(X)), [X >> 0])


@cache
def _takes_cones(name: str) -> bool:
    if name not in cp.installed_solvers():
        return False
    try:
        _smallest().get_problem_data(name)
    except cp.error.SolverError:
        return False
    return True
