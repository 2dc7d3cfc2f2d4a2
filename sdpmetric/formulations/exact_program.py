"""What every exact program has in common: variables found by name, and the point and multipliers of a solved one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def named(program: cp.Problem) -> dict[str, cp.Variable | cp.Constraint]:
    """Variables by name and labelled constraints by label, for example ``named(program)["margins"].dual_value``.

    Parameters
    ----------
    program : cvxpy.Problem
    """
    found = {variable.name(): variable for variable in program.variables()}
    return found | {c.label: c for c in program.constraints if c.label is not None}


@dataclass(frozen=True, eq=False)
class Point:
    """What a solved program says, as the backend left it; the problem repairs and judges it.

    Attributes
    ----------
    metric : (d, d) array
        Symmetric, PSD up to the backend's accuracy.
    dual : (p,) array or None
        Multipliers in the order of the problem's constraints.
    threshold : float or None
        POLA's threshold b.
    """

    metric: FloatArray
    dual: FloatArray | None = None
    threshold: float | None = None


@dataclass(frozen=True, eq=False)
class ExactProgram:
    """A problem's exact program and how to read it once it is solved.

    Attributes
    ----------
    program : cvxpy.Problem
    read : callable
        ``read()`` returns the `Point` of the solved program.
    infeasibility : ExactProgram or None
        What to solve where the program is found infeasible: its multipliers prove that to the problem.
    """

    program: cp.Problem
    read: Callable[[], Point]
    infeasibility: ExactProgram | None = None
