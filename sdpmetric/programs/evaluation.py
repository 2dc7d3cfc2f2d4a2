"""The written and the compiled program, compared at the point and the multipliers behind an interval.

CVXPY 1.9.3 compiles some expressions wrongly. If a compiled program is the written one, its feasible point satisfies
the written constraints, with an objective f that is not larger; and for multipliers and every x, by weak duality,
``f(x) + sum_i a_i g_i(x)`` is at least the lower bound, or positive if no point is feasible. All of it is evaluated in
floats by CVXPY's own rules. The arguments of exponential and power cones are affine, and are not evaluated.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sdpmetric.arrays import FloatArray
from sdpmetric.lazy import cvxpy as cp
from sdpmetric.programs.compilation import Canonical, with_values
from sdpmetric.programs.search import Interval

# Differences up to this, relative to the numbers that are compared, are rounding.
ROUNDING = 1e-6
# Contradictions up to this are rounding, relative to the terms that are added up.
SMALLEST_CONTRADICTION = 1e-12


class Evaluated(NamedTuple):
    """A constraint at a point: its violation, its term of the Lagrangian, and the sizes of their numbers.

    `shape` is that of its multipliers, if it is not its own.
    """

    violation: float
    size: float
    term: float = 0.0
    term_size: float = 0.0
    shape: tuple[int, ...] | None = None


def compare(canonical: Canonical, interval: Interval) -> None:
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
        if rows and lagrangian <= SMALLEST_CONTRADICTION * size:
            interval.contradiction, interval.lower, interval.multipliers = None, -math.inf, None
            interval.remark = "the constraints contradict each other by no more than compilation rounds"
        return
    terms = np.append(program.c * x, canonical.offset)
    compiled, room = float(terms.sum()), ROUNDING * max(1.0, float(np.abs(terms).sum()))
    least = canonical.total(interval.lower, up=False)
    if written > compiled + room or written < least - room:
        numbers = f"{canonical.sign * written:.8g}, and {canonical.sign * compiled:.8g} in the compiled program"
        raise _fault("the objective", problem.objective, numbers)
    if written + lagrangian < least - room - ROUNDING * size:
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
