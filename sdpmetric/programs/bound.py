"""The verb `bound`: an interval that is proven to contain the optimum of a program that a user wrote in CVXPY."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.core.certificate import digits, reservation
from sdpmetric.core.run import Budget
from sdpmetric.engine.interface import deadline
from sdpmetric.lazy import cvxpy as cp
from sdpmetric.linalg.rigorous import Rigor, sum_above, sum_below
from sdpmetric.programs.canonical import Solver
from sdpmetric.programs.compilation import Canonical, check
from sdpmetric.programs.definite import OverSizeError
from sdpmetric.programs.evidence import Evidence
from sdpmetric.programs.search import Search

ASSUMED = "no variable of the cone program is larger than {radius:g} in absolute value at an optimal point"


class ByConstraint(Mapping["cp.Constraint", "FloatArray | list[FloatArray]"]):
    """Arrays by constraint of a program; those of equal constraints are apart."""

    def __init__(self, constraints: list[cp.Constraint], values: dict[int, FloatArray | list[FloatArray]]) -> None:
        self._constraints, self._values = [c for c in constraints if c.id in values], values

    def __getitem__(self, constraint: cp.Constraint) -> FloatArray | list[FloatArray]:
        return self._values[constraint.id]

    def __iter__(self) -> Iterator[cp.Constraint]:
        return iter(self._constraints)

    def __len__(self) -> int:
        return len(self._constraints)


@dataclass(frozen=True, eq=False)
class ProgramBound:
    """An interval that contains the optimum of a program.

    Attributes
    ----------
    lower_bound, upper_bound : float
        The optimum, the maximum of a maximization, is between them. Both are infinite, with the same sign, if the
        program is proven to be infeasible or unbounded.
    rigor : {"float", "compiled", "assumption"}
        "float": the claim is about the program as it was written, all rounding included, that of compilation too.
        "compiled": about the cone program that CVXPY compiles; `reason` says what may be rounded or approximated
        before. "assumption": only if `assumption` holds.
    assumption : str or None
    point, direction : dict of str to array, or None
        Variables by name, equal names numbered, at a point within rounding of one that is proven to be feasible and to
        have an objective within the interval, or in a direction in which the program is unbounded; None without proof.
    multipliers : mapping of constraint to array, or None
        The multipliers behind the lower bound of a minimization, or the upper one of a maximization, as CVXPY's
        ``constraint.dual_value``, within rounding. Of an infeasible program, weights of constraints that contradict
        each other.
    margin : float or None
        The program stays infeasible if the right-hand side of each constraint changes by less than this.
    reason : str
        Why an end is infinite, or why `rigor` is "compiled"; empty if neither is so.
    maximization : bool
    """

    lower_bound: float
    upper_bound: float
    rigor: Rigor
    assumption: str | None
    point: dict[str, FloatArray] | None
    maximization: bool
    direction: dict[str, FloatArray] | None = None
    multipliers: ByConstraint | None = field(default=None, repr=False)
    margin: float | None = None
    reason: str = ""
    evidence: Evidence | None = field(default=None, repr=False, compare=False)
    values: dict[int, FloatArray] | None = field(default=None, repr=False, compare=False)

    def value(self, expression: cp.Expression) -> FloatArray:
        """The value of an expression at the point, or a `ValueError` if there is none.

        Examples
        --------
        >>> import cvxpy as cp, sdpmetric as sm
        >>> x = cp.Variable(2, nonneg=True)
        >>> found = sm.bound(cp.Problem(cp.Minimize(x[0] + x[1]), [x[0] + 2 * x[1] >= 3]))
        >>> bool(abs(found.value(x[0] + 2 * x[1]) - 3) < 1e-6)
        True
        """
        if self.values is None:
            raise ValueError("no point is proven to be feasible.")
        before = [(v, v.value) for v in expression.variables()]
        try:
            for v, _ in before:
                v.save_value(self.values[v.id])
            return np.asarray(expression.value)
        except KeyError:
            raise ValueError("expression has variables that the program does not have.") from None
        finally:
            for v, value in before:
                v.save_value(value)

    def save_proof(self, path: str | Path, data: str | Path) -> None:
        """Write what is proven as files that ``python -m sdpmetric.check DATA PROOF`` verifies without this package.

        They are about the cone program that CVXPY compiles, ``minimize c'x + x'Px / 2 where b - A x is in the cones``.
        Sign and constant of the objective are in the file, so it states the same numbers. A file may prove one end.

        Parameters
        ----------
        path : str or Path
            The file to write, an NPZ file.
        data : str or Path
            Another one, with A (rows, columns and entries), b, c and P.

        Raises
        ------
        ValueError
            If nothing is proven without an assumption, the program is unbounded, has dependent equations, or has more
            variables than rows.

        Examples
        --------
        >>> import cvxpy as cp, sdpmetric as sm
        >>> x = cp.Variable(2, nonneg=True)
        >>> found = sm.bound(cp.Problem(cp.Minimize(x[0] + x[1]), [x[0] + 2 * x[1] >= 3]))
        >>> found.save_proof("proof.npz", "program.npz")  # doctest: +SKIP
        """
        unbounded = self.lower_bound == self.upper_bound == (math.inf if self.maximization else -math.inf)
        nothing = self.lower_bound == -math.inf and self.upper_bound == math.inf
        if self.evidence is None or self.rigor == "assumption" or unbounded or nothing:
            raise ValueError("nothing finite is proven without an assumption; there is no proof to write.")
        self.evidence.write(path, data)

    @property
    def relative_width(self) -> float:
        """The width of the interval over the larger of 1 and the absolute values of its ends; infinite if they are."""
        width = self.upper_bound - self.lower_bound
        return width / max(1.0, abs(self.lower_bound), abs(self.upper_bound)) if math.isfinite(width) else math.inf

    def __str__(self) -> str:
        what = "maximum" if self.maximization else "minimum"
        low, high = digits(self.lower_bound, self.upper_bound)
        of = " of the compiled cone program" if self.rigor == "compiled" else ""
        why = f" ({self.reason})" if self.reason and self.rigor != "compiled" else ""
        if self.lower_bound == self.upper_bound and math.isinf(self.lower_bound):
            infeasible = (self.lower_bound < 0.0) == self.maximization
            about = "The compiled cone program" if of else "The program"
            found = f"{about} is proven to be infeasible" if infeasible else f"The {what}{of} is proven to be unbounded"
            if self.margin is not None:
                found += f", also if right-hand sides change by less than {digits(self.margin, math.inf)[0]}"
        elif math.isfinite(self.lower_bound) and math.isfinite(self.upper_bound):
            found = f"The {what}{of} is between {low} and {high}, a relative width of {self.relative_width:.1e}"
        elif math.isfinite(self.lower_bound):
            found = f"The {what}{of} is at least {low}; nothing is proven about the other side{why}"
        elif math.isfinite(self.upper_bound):
            found = f"The {what}{of} is at most {high}; nothing is proven about the other side{why}"
        else:
            return f"Nothing is proven about the {what}{why}."
        if self.rigor == "compiled":
            return f"{found}; {self.reason} (rigor: compiled)."
        return found + (reservation(self.rigor, self.assumption) or ", all rounding included") + "."


def bound(
    problem: cp.Problem,
    solver: str | None = None,
    radius: float | None = None,
    *,
    max_time: float | None = None,
    verbose: bool = False,
    **options: object,
) -> ProgramBound:
    """Prove an interval that contains the optimum of a convex program in CVXPY, in floating point.

    The program need not be about metrics: linear, quadratic, second-order, semidefinite, exponential and power cones
    are accepted. A solver's multipliers are moved inside the dual cone where they are not, and an exactly dual feasible
    point near them is enclosed [JCK2007], as VSDP does in Matlab; likewise a feasible point. The solver is not trusted.
    ``docs/bounds_of_programs.md`` has the proof.

    Parameters
    ----------
    problem : cvxpy.Problem
        Convex by CVXPY's rules, without integers; parameters have values. Its variables keep theirs.
    solver : str, optional
        Where points and multipliers come from: a solver that CVXPY has; default "CLARABEL". A worse one gives a wider
        interval.
    radius : float, optional
        What you know the variables to be at most in absolute value at an optimal point, those that CVXPY introduces
        included, in the units of the program. It is used only where no bound is proven without, and named in
        `assumption`.
    max_time : float, optional
        Seconds after which the solver stops and no other solve is begun; compilation and the proof of what was found
        are not interrupted. Default: no limit. An end of which nothing is proven by then is infinite.
    verbose : bool
        Whether the solver prints; default False.
    **options
        Options of the solver: those of Clarabel's and SCS's settings, or what CVXPY passes to others.

    Returns
    -------
    ProgramBound
        With `lower_bound`, `upper_bound`, `rigor`, `point`, `multipliers` and `reason`.

    Raises
    ------
    ValueError
        If `radius` or `max_time` is not positive, the solver is not installed, or the program has integers, is not
        convex, lacks values of parameters, has constraints of classes of which nothing is known, atoms that CVXPY
        approximates, or is too large: more than 8000 variables that occur together in dense rows, or a factor of more
        than 40 million entries.
    TypeError
        If it is no ``cvxpy.Problem``, or the solver has no such option.

    Examples
    --------
    The largest quantum value of the CHSH inequality, whose square is 8:

    >>> import cvxpy as cp, sdpmetric as sm
    >>> G = cp.Variable((4, 4), PSD=True)
    >>> found = sm.bound(cp.Problem(cp.Maximize(G[0, 2] + G[0, 3] + G[1, 2] - G[1, 3]), [cp.diag(G) == 1]))
    >>> found.lower_bound**2 <= 8 <= found.upper_bound**2, found.rigor
    (True, 'float')
    """
    name = "CLARABEL" if solver is None else solver.upper() if isinstance(solver, str) else solver
    validation.check_choice("solver", name, cp.installed_solvers())
    if radius is not None:
        validation.check_positive("radius", radius)
    budget = Budget(max_time)
    with deadline(budget.ends):
        return _proven(problem, Solver(name, options, verbose), radius)


def _proven(problem: cp.Problem, solver: Solver, radius: float | None) -> ProgramBound:
    check(problem)
    if sum(v.size for v in problem.variables()):
        canonical = Canonical.of(problem)
    else:
        one = cp.Variable()
        canonical = replace(
            Canonical.of(cp.Problem(problem.objective, [*problem.constraints, one == 0])), problem=problem
        )
    search = Search(canonical.program, solver, canonical.reservation is None)
    try:
        assumed = search.run(radius)
    except OverSizeError:
        raise OverSizeError(
            "the program is too large to prove a bound: the enclosure for its "
            f"{canonical.program.A.shape[1]} variables needs a factor of more than 8000 dense columns or 40 million "
            "entries; fix or drop some variables."
        ) from None
    return _stated(canonical, search, ASSUMED.format(radius=radius) if assumed else None)


def _stated(canonical: Canonical, search: Search, assumption: str | None) -> ProgramBound:
    """What a search found, in the user's terms."""
    ends = [_total(value, canonical, up=k == 1) for k, value in enumerate((search.lower, search.upper))]
    if canonical.sign < 0:
        ends = [-ends[1], -ends[0]]
    rigor: Rigor = "assumption" if assumption else "float" if canonical.reservation is None else "compiled"
    sides = [
        search.reasons.get(side, "")
        for side, end in (("lower", search.lower), ("upper", search.upper))
        if math.isinf(end)
    ]
    lacking = [] if math.inf in (search.lower, -search.upper) else [words for words in sides if words]
    if lacking and search.status:
        lacking.append(f"the solver's status was {search.status}")
    reason = "; ".join(([canonical.reservation or ""] if rigor == "compiled" else []) + lacking)
    values = None if search.point is None else canonical.values(search.point)
    direction = None if search.direction is None else canonical.values(search.direction)
    multipliers = None
    if search.multipliers is not None:
        constraints = canonical.problem.constraints
        multipliers = ByConstraint(constraints, _dual_values(constraints, canonical.multipliers(search.multipliers)))
    evidence = Evidence(
        replace(canonical.program, proofs={}),
        search.point,
        search.multipliers,
        search.slope,
        (ends[1], ends[0]),
        search.lower == math.inf,
        canonical.sign,
        canonical.offset,
        ", ".join(f"{v.name()} {v.shape}" for v in canonical.problem.variables()),
    )
    return ProgramBound(
        ends[0],
        ends[1],
        rigor,
        assumption,
        _by_name(canonical.problem, values),
        canonical.sign < 0,
        _by_name(canonical.problem, direction),
        multipliers,
        search.margin,
        reason,
        evidence,
        values,
    )


def _by_name(problem: cp.Problem, values: dict[int, FloatArray] | None) -> dict[str, FloatArray] | None:
    """Variables by name; the second of the same name is numbered."""
    if values is None:
        return None
    named: dict[str, FloatArray] = {}
    for v in problem.variables():
        name, count = v.name(), 2
        while name in named:
            name, count = f"{v.name()} ({count})", count + 1
        named[name] = values[v.id]
    return named


def _dual_values(
    constraints: list[cp.Constraint], multipliers: dict[int, FloatArray]
) -> dict[int, FloatArray | list[FloatArray]]:
    """Multipliers in the shapes of CVXPY's ``dual_value``; the constraints keep theirs."""
    found = {}
    for constraint in constraints:
        if constraint.id in multipliers:
            before = [v.value for v in constraint.dual_variables]
            constraint.save_dual_value(multipliers[constraint.id])
            found[constraint.id] = constraint.dual_value
            for v, value in zip(constraint.dual_variables, before, strict=True):
                v.save_value(value)
    return found


def _total(value: float, canonical: Canonical, *, up: bool) -> float:
    """An objective with its constant, rounded outward."""
    if not math.isfinite(value):
        return value
    off = canonical.offset_off if up else -canonical.offset_off
    total = np.array([value, canonical.offset, off])
    return sum_above(total) if up else sum_below(total)
