"""The verb `bound`: an interval that is proven to contain the optimum of a cone program that CVXPY compiles.

The written and the compiled program are compared at the point and the multipliers behind an interval, as CVXPY 1.9.3
compiles some expressions wrongly. If a compiled program is the written one, its feasible point satisfies
the written constraints, with an objective f that is not larger; and for multipliers and every x, by weak duality,
``f(x) + sum_i a_i g_i(x)`` is at least the lower bound, or positive if no point is feasible. All of it is evaluated in
floats by CVXPY's own rules. The arguments of exponential and power cones are affine, and are not evaluated.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.core.text import digits
from sdpmetric.lazy import cvxpy as cp
from sdpmetric.linalg.rigorous.directed import Rigor
from sdpmetric.programs import search
from sdpmetric.programs.canonical import Canonical, ConeSolver, with_values
from sdpmetric.programs.search import Interval

# Differences up to this, relative to the numbers that are compared, are rounding.
ROUNDING = 1e-6


class Evaluated(NamedTuple):
    """A constraint at a point: its violation, its term of the Lagrangian, and the sizes of their numbers.

    `shape` is that of its multipliers, if it is not its own.
    """

    violation: float
    size: float
    term: float = 0.0
    term_size: float = 0.0
    shape: tuple[int, ...] | None = None


def compare_with_program(canonical: Canonical, interval: Interval) -> None:
    """Raise `ValueError` if the compiled program is another one; withdraw a contradiction that is only rounding."""
    x, z, contradiction = interval.point, interval.multipliers, interval.contradiction
    if contradiction is not None:
        x, z = contradiction.point, contradiction.weights
    if x is None:
        return
    if interval.direction is not None:
        x = x + interval.direction
    problem, program = canonical.problem, canonical.program
    multipliers = canonical.multipliers(np.zeros(len(program.b)) if z is None else z)
    values, variables = canonical.values(x), problem.variables()
    with with_values(variables, [values[v.id] for v in variables]), np.errstate(all="ignore"):
        written = canonical.sign * float(np.real(problem.objective.value))
        rows = [_evaluated(constraint, multipliers.get(constraint)) for constraint in problem.constraints]

    def fault(k: int, how: str) -> ValueError:
        return _fault(canonical.constraint_name(k), problem.constraints[k], how)

    lagrangian, size = sum(row.term for row in rows), sum(row.term_size for row in rows)
    loosest = min(range(len(rows)), key=lambda k: rows[k].term, default=0)
    for k, row in enumerate(rows):
        if row.shape is not None:
            raise fault(k, f"of shape {problem.constraints[k].shape}, and {row.shape} in the compiled program")
        if contradiction is None and row.violation > ROUNDING * max(1.0, row.size):
            raise fault(k, f"violated by {row.violation:.2g}, and satisfied in the compiled program")
    if contradiction is not None:
        if lagrangian < -ROUNDING * size:
            raise fault(loosest, "satisfied, and violated in the compiled program")
        if rows and lagrangian <= search.SMALLEST_CONTRADICTION * size:
            interval.contradiction, interval.lower, interval.multipliers = None, -math.inf, None
            interval.remark = "the constraints contradict each other by no more than compilation rounds"
        return
    terms = np.append(program.c * x, canonical.offset)
    compiled, room = float(terms.sum()), ROUNDING * max(1.0, float(np.abs(terms).sum()))
    lower = canonical.total(interval.lower, up=False)
    if written > compiled + room or written < lower - room:
        numbers = f"{canonical.sign * written:.8g}, and {canonical.sign * compiled:.8g} in the compiled program"
        raise _fault("the objective", problem.objective, numbers)
    if written + lagrangian < lower - room - ROUNDING * size:
        raise fault(loosest, "not tight, and tight in the compiled program")


def _evaluated(constraint: cp.Constraint, multiplier: FloatArray | list[FloatArray] | None) -> Evaluated:
    """Evaluate a constraint at the values of its variables, by its class."""
    name, values = type(constraint).__name__, [arg.value for arg in constraint.args]
    args = [np.asarray(v.toarray() if hasattr(v, "toarray") else v) for v in values]
    size = max((float(np.abs(arg).max(initial=0.0)) for arg in args), default=0.0)
    if name == "SOC":
        tails = np.linalg.norm(args[1], axis=constraint.axis if args[1].ndim > 1 else 0)
        return Evaluated(float(np.max(tails - args[0], initial=-math.inf)), size)
    if name not in ("Equality", "Zero", "Inequality", "NonPos", "NonNeg", "PSD"):
        return Evaluated(0.0, size)
    g = (args[0] - args[1] if len(args) == 2 else args[0]) * (-1.0 if name in ("NonNeg", "PSD") else 1.0)
    excess = np.abs(g) if name in ("Equality", "Zero") else g
    if name == "PSD":
        excess = np.linalg.eigvalsh(0.5 * (g + np.conj(np.swapaxes(g, -2, -1))))
    violation = float(np.real(excess).max(initial=-math.inf))
    if multiplier is None:
        return Evaluated(violation, size)
    if np.size(multiplier) != constraint.size:
        return Evaluated(violation, size, shape=np.shape(multiplier))
    weights = np.conj(np.asarray(multiplier))
    terms = float(sum(np.sum(np.abs(weights * arg)) for arg in args))
    return Evaluated(violation, size, float(np.real(np.sum(weights * g))), terms)


def _fault(place: str, written: cp.Constraint | cp.Objective, how: str) -> ValueError:
    atoms = ", ".join(sorted({atom.__name__ for atom in written.atoms()}))
    return ValueError(
        f"CVXPY {cp.__version__} compiled another program than was written: at the point that is found, {place} is "
        f"{how}. Its atoms are {atoms or 'affine'}; state it by others."
    )


@dataclass(frozen=True, eq=False)
class ProgramBound:
    """An interval that contains the optimum of the cone program that CVXPY compiles.

    Attributes
    ----------
    lower_bound, upper_bound : float
        The optimum, the maximum of a maximization, is between them. Both are infinite, with the same sign, if the
        program is proven to be infeasible or unbounded.
    rigor : "compiled"
        All claims are about the compiled cone program. What CVXPY rounds or approximates before is not included.
    point, direction : dict of str to array, or None
        Variables by name, equal names numbered, within rounding of a feasible point that is proven to have an objective
        within the interval, or of a direction that proves the program unbounded.
    multipliers : mapping of constraint to array, or None
        Behind the lower bound of a minimization, or the upper one of a maximization, as CVXPY's
        ``constraint.dual_value``; of an infeasible program, weights of constraints that contradict each other.
    margin : float or None
        The program stays infeasible if the right-hand side of each constraint changes by less than this.
    reason : str
        Why an end is infinite; empty if none is.
    maximization : bool

    Examples
    --------
    >>> import sdpmetric as sm
    >>> import cvxpy as cp
    >>> v = cp.Variable(2)
    >>> found = sm.bound(cp.Problem(cp.Minimize(cp.sum(v)), [v >= 1, cp.norm(v) <= 3]))
    >>> found.lower_bound <= 2 <= found.upper_bound, found.relative_width < 1e-6, found.rigor
    (True, True, 'compiled')
    """

    lower_bound: float
    upper_bound: float
    point: dict[str, FloatArray] | None
    maximization: bool
    direction: dict[str, FloatArray] | None = None
    multipliers: Mapping[cp.Constraint, FloatArray | list[FloatArray]] | None = field(default=None, repr=False)
    margin: float | None = None
    reason: str = ""
    rigor: ClassVar[Rigor] = "compiled"

    @property
    def relative_width(self) -> float:
        """The width of the interval over the larger of 1 and the absolute values of its ends; infinite if they are."""
        width = self.upper_bound - self.lower_bound
        return width / max(1.0, abs(self.lower_bound), abs(self.upper_bound)) if math.isfinite(width) else math.inf

    def __str__(self) -> str:
        low, high = digits(self.lower_bound, self.upper_bound)
        name = f"{'maximum' if self.maximization else 'minimum'} of the compiled cone program"
        why = f" ({self.reason})" if self.reason else ""
        finite = math.isfinite(self.lower_bound), math.isfinite(self.upper_bound)
        if all(finite) and self.lower_bound == self.upper_bound:
            kind = "maximum" if self.maximization else "minimum"
            return f"The compiled cone program is proven to be feasible, and its {kind} is {low}."
        if all(finite):
            return f"The {name} is between {low} and {high}, a relative width of {self.relative_width:.1e}."
        if any(finite):
            limit = f"at least {low}" if finite[0] else f"at most {high}"
            return f"The {name} is {limit}; nothing is proven about the other side{why}."
        if self.lower_bound < self.upper_bound:
            return f"Nothing is proven about the {name}{why}."
        if (self.lower_bound < 0.0) != self.maximization:
            return f"The {name} is proven to be unbounded."
        margin = ""
        if self.margin is not None:
            margin = f", also if right-hand sides change by less than {digits(self.margin, math.inf)[0]}"
        return f"The compiled cone program is proven to be infeasible{margin}."


def bound(problem: cp.Problem, *, max_time: float | None = None) -> ProgramBound:
    """Prove an interval that contains the optimum of the cone program that CVXPY compiles from a convex problem.

    The program need not be about metrics. Clarabel solves it. Near its multipliers, intervals enclose an exactly dual
    feasible point, which proves one end [JCK2007], as VSDP does in Matlab. A feasible point proves the other end in
    the same way. All rounding is included, and the solver is not trusted. The claim is about the compiled program:
    CVXPY's compilation rounds some numbers and replaces some functions by approximations.
    ``docs/bounds_of_programs.md`` has the proof.

    Parameters
    ----------
    problem : cvxpy.Problem
        Convex by CVXPY's rules, without integers; parameters have values. Its variables keep theirs.
    max_time : float, optional
        Seconds after which the solver stops, and no solve begins. Compilation before it and proofs after it are not
        limited. Default: no limit. An end about which nothing is proven by then is infinite.

    Returns
    -------
    ProgramBound
        With `lower_bound`, `upper_bound`, `point`, `multipliers` and `reason`.

    Raises
    ------
    ValueError
        If `max_time` is not positive, or the program is not convex, is too large, has integers, parameters without
        values or constraints of classes that are not CVXPY's, or if compilation changes its meaning.
    TypeError
        If `problem` is not a ``cvxpy.Problem``.

    Examples
    --------
    The largest quantum value of the CHSH inequality, the square root of 8:

    >>> import cvxpy as cp, sdpmetric as sm
    >>> G = cp.Variable((4, 4), PSD=True)
    >>> found = sm.bound(cp.Problem(cp.Maximize(G[0, 2] + G[0, 3] + G[1, 2] - G[1, 3]), [cp.diag(G) == 1]))
    >>> found.lower_bound**2 <= 8 <= found.upper_bound**2
    True
    """
    if max_time is not None:
        validation.check_positive("max_time", max_time)
    solver = ConeSolver(time.perf_counter() + (math.inf if max_time is None else max_time))
    canonical = Canonical.of(problem)
    interval = search.search(canonical.program, solver)
    compare_with_program(canonical, interval)
    return _stated(canonical, interval)


def _stated(canonical: Canonical, interval: Interval) -> ProgramBound:
    """Return what a search found, in the user's terms."""
    maximization, bounds = canonical.sign < 0, [interval.lower, interval.upper]
    contradiction, direction, z, reasons = interval.contradiction, interval.direction, interval.multipliers, list[str]()
    if contradiction is not None:
        bounds, z = [math.inf, math.inf], contradiction.weights
    elif direction is not None:
        bounds = [-math.inf, -math.inf]
    else:
        reasons = [interval.remark] if interval.remark else []
        for value, missed in zip(bounds, (interval.missed_lower, interval.missed_upper), strict=True):
            if math.isinf(value) and missed is not None and missed.obstacle is not None:
                name = canonical.column_name if missed.obstacle.is_about_columns else canonical.row_name
                reasons.append(missed.obstacle.value.format(place=name(missed.place)))
    lower, upper = (canonical.total(value, up=k == 1) for k, value in enumerate(bounds))
    return ProgramBound(
        *((0.0 - upper, 0.0 - lower) if maximization else (lower, upper)),
        _by_name(canonical, interval.point if direction is None and contradiction is None else None),
        maximization,
        _by_name(canonical, direction),
        None if z is None else canonical.multipliers(z),
        None if contradiction is None else contradiction.margin,
        "; ".join(reasons),
    )


def _by_name(canonical: Canonical, x: FloatArray | None) -> dict[str, FloatArray] | None:
    """Return variables by name at a point of the program; the second of the same name is numbered."""
    if x is None:
        return None
    variables, values = canonical.problem.variables(), canonical.values(x)
    names = [v.name() for v in variables]
    counts = [names[: k + 1].count(name) for k, name in enumerate(names)]
    keys = [name if count == 1 else f"{name} ({count})" for name, count in zip(names, counts, strict=True)]
    return {key: values[v.id] for key, v in zip(keys, variables, strict=True)}
