"""Bounds of a cone program that hold in floating point, from any multipliers and any point.

For every x with ``b - Ax`` in K and every z in the dual cone [JCK2007], ``c'x >= -b'z + r'x, r = c + A'z``. The
residual r of floats is not 0. So z is moved by ``D A w`` with ``A'DA w = -r``, which makes the residual 0 exactly. This
w is not computed but enclosed: if ``A'DA >= kappa I``, then ``||w|| <= ||r|| / kappa`` and ``||D^(1/2) A w|| <= ||r|| /
kappa^(1/2)``. In the same way a proven point is made from equations ``A_0 x = b_0``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

import numpy as np
import scipy.sparse as sp

from sdpmetric.arrays import BoolArray, FloatArray, LongArray
from sdpmetric.linalg.rigorous.directed import (
    U,
    above,
    all_above,
    exp_bounds,
    gamma,
    least_eigenvalue,
    log_bounds,
    norm_above,
    sum_above,
    sum_below,
)
from sdpmetric.programs.algebra import Definite, determined
from sdpmetric.programs.canonical import UNDERFLOW, ConeProgram, Cones

ROOT = 1e-150  # More than underflow takes from the root of a sum of squares
MARGIN = 1.0 + 1e-9  # More than the rounding of some products of bounds
# The root of the weight of multipliers of equations, which have no sign, in the correction of multipliers
FREE_ROOT = 64.0


def image(M: sp.csr_array, v: FloatArray, extra: FloatArray | float = 0.0) -> tuple[FloatArray, FloatArray]:
    """Return ``M v + extra``, and how far each entry may be from the exact one."""
    terms, sizes = float(np.diff(M.indptr).max(initial=0)) + 8.0, abs(M)
    errors = (sizes @ np.abs(v) + np.abs(extra)) * (gamma(terms) * MARGIN)
    errors += UNDERFLOW * terms * (sizes @ (v != 0.0) + np.abs(extra) > 0.0)
    return M @ v + extra, errors


# -- cones ----------------------------------------------------------------------------------------------------------


def lacks(cones: Cones, v: FloatArray, errors: FloatArray, *, dual: bool) -> FloatArray:
    """Return about how many times `Cones.interior` to add to each row, to be proven in the cone for all errors.

    At most 0 only if that is proven. Errors of the rows of one block are at most its entry of `errors` together.
    """
    lack, ball, blocks = np.zeros(cones.size), errors[cones.block], cones.blocks
    signs = slice(cones.zero, cones.linear)
    lack[signs] = np.where(v[signs] >= ball[signs], 0.0, ball[signs] - v[signs])
    for rows in blocks["soc"]:
        tail = above(norm_above(v[rows][1:]) + 1.5 * float(ball[rows.start]), 4)
        lack[rows] = max(0.0, tail - v[rows.start])
    for side, rows in zip(cones.psd, blocks["psd"], strict=True):
        lack[rows] = _semidefinite(side, v[rows], float(ball[rows.start]))
    if cones.exp:
        rows = slice(blocks["exp"][0].start, blocks["exp"][-1].stop)
        x, y, z = v[rows].reshape(-1, 3).T
        lack[rows] = np.repeat(_exponential(*((-y, -x, z) if dual else (x, y, z)), ball[rows][::3], dual=dual), 3)
    for exponents, rows in zip(cones.power, blocks["power"], strict=True):
        lack[rows] = _power(v[rows], np.array(exponents), float(ball[rows.start]), dual=dual)
    return lack


def _semidefinite(side: int, v: FloatArray, ball: float) -> float:
    """Return what a semidefinite row lacks. The matrix is rounded; its norm is at most that of the entries v."""
    row, column = np.tril_indices(side)
    S = np.zeros((side, side))
    S[row, column] = S[column, row] = np.where(row == column, v, v / math.sqrt(2.0))
    if ball == 0.0:
        used = np.abs(S).max(axis=1, initial=0.0) > 0.0
        if not used.any():
            return 0.0
        S = S[np.ix_(used, used)]
    ball = above(ball + 4.0 * U * norm_above(v), 2)
    bottom = least_eigenvalue(S)
    return 0.0 if bottom >= ball else ball - bottom


def _exponential(x: FloatArray, y: FloatArray, z: FloatArray, ball: FloatArray, *, dual: bool) -> FloatArray:
    """Return by how much ``y exp(x / y) <= z`` fails; in the dual cone, x and y as given, ``y exp(x / y) <= e z``."""
    zero = (x == 0.0) & (y == 0.0) & (z >= ball) & (ball == 0.0)
    low, high, top = (np.nextafter(y - ball, -np.inf), np.nextafter(y + ball, np.inf), np.nextafter(x + ball, np.inf))
    inside = low > 0.0
    low, high = np.where(inside, low, 1.0), np.where(inside, high, 1.0)
    with np.errstate(over="ignore"):
        slope = np.nextafter(np.maximum(top / low, top / high), np.inf)
        need = all_above(high * exp_bounds(slope)[1])
        have = np.nextafter(z - ball, -np.inf)
        # The largest float below e.
        have = np.where(have > 0.0, np.nextafter(have * (2.718281828459045 if dual else 1.0), -np.inf), have)
    missing = np.where(inside, np.where(need <= have, 0.0, need - have), ball - y + np.abs(z) * U + UNDERFLOW)
    return np.where(zero, 0.0, np.where(np.isfinite(missing), missing, 1.0))


def _power(v: FloatArray, a: FloatArray, ball: float, *, dual: bool) -> float:
    """Return by how much ``prod x_i^a_i >= |z|`` fails; in the dual cone ``prod (x_i / a_i)^a_i >= |z|``."""
    low, top = np.nextafter(v[:-1] - ball, -np.inf), math.nextafter(abs(float(v[-1])) + ball, math.inf)
    if low.min() <= 0.0:
        return ball - float(v[:-1].min()) + UNDERFLOW
    logs = log_bounds(low)[0] - (log_bounds(a)[1] if dual else 0.0)
    rounding = 16.0 * U * len(a) * (1.0 + float(np.abs(logs).max()) + float(np.abs(np.log(a)).max()))
    bottom = float(a @ logs) - rounding
    if top == 0.0 or bottom >= log_bounds(np.array([top]))[1][0]:
        return 0.0
    return max(top - math.exp(min(bottom, 700.0)), 0.0) + U * top + UNDERFLOW


def _balls(cones: Cones, errors: FloatArray) -> FloatArray:
    """Return floats not below the norm of the errors of each block."""
    squares = np.zeros(cones.count)
    with np.errstate(over="ignore"):
        np.add.at(squares, cones.block, errors * errors + ROOT**2 * (errors > 0.0))
    norms = np.sqrt(squares) * (1.0 + gamma(cones.size + 8))
    norms[: cones.linear] = errors[: cones.linear]
    return norms


def _norms_of_rows(M: sp.csr_array) -> FloatArray:
    """Return floats not below the norms of the rows of a sparse matrix."""
    squares = np.asarray(M.multiply(M).sum(axis=1)).ravel()
    terms = float(np.diff(M.indptr).max(initial=0)) + 8.0
    return np.asarray(np.sqrt(squares) * (1.0 + gamma(terms)) + np.where(np.diff(M.indptr) > 0, ROOT, 0.0))


# -- bounds ---------------------------------------------------------------------------------------------------------


class Obstacle(Enum):
    """Why a bound is not proven, and what helps; `{place}` is a row or a column in the user's terms."""

    UNCONSTRAINED = "{place} is in the objective and in no constraint; bound it"
    DEPENDENT_COLUMNS = "the program determines {place} only up to rounding; bound it, for example by cp.norm(x) <= 1e3"
    MULTIPLIERS = (
        "no multiplier of {place} is inside the dual cone with its error; bound the variables, for example by "
        "cp.trace(M) <= 100"
    )
    IMPOSSIBLE = "{place} is an equation without variables that does not hold"
    DEPENDENT_EQUATIONS = "{place} follows from other equations up to rounding; drop it"
    SLACKS = (
        "no point is inside {place} with its error; leave room in it, or state as equations what holds as such at "
        "every feasible point"
    )

    @property
    def is_about_columns(self) -> bool:
        """Whether the place is a column."""
        return self in (Obstacle.UNCONSTRAINED, Obstacle.DEPENDENT_COLUMNS)


@dataclass(frozen=True, eq=False)
class EnclosureBound:
    """A proven number; infinite if nothing is proven, and then why."""

    value: float
    obstacle: Obstacle | None = None
    place: int = 0  # the row or the column of the program that the obstacle is about
    missing: FloatArray | float = 0.0  # (m,): by how much each row is outside of its cone
    solution: FloatArray | None = None  # the point, or the multipliers, near those that are proven to be feasible


@dataclass(frozen=True, eq=False)
class DualEnclosure:
    """Multipliers ``z + D A w`` that make the residual 0, with w on some columns."""

    program: ConeProgram
    roots: FloatArray  # (m,): ``D^(1/2)``; 0 for multipliers that stay 0
    columns: LongArray  # all nonzero columns, or a part whose combinations provably are all of them
    definite: Definite
    failure: EnclosureBound | None

    @classmethod
    def of(cls, program: ConeProgram, used: BoolArray | None = None) -> DualEnclosure:
        """Factorize the matrix of corrections for multipliers that are 0 except on `used` rows; default: all."""
        is_free = np.arange(program.cones.size) < program.cones.zero
        roots = np.where(is_free, FREE_ROOT, 1.0) * (1.0 if used is None else used)
        W = sp.csr_array(sp.diags_array(roots) @ program.A)
        W.eliminate_zeros()
        columns, c = np.flatnonzero(np.bincount(W.indices, minlength=len(program.c))), program.c
        if len(unused := np.setdiff1d(np.flatnonzero(c), columns)):
            failure = EnclosureBound(-math.inf, Obstacle.UNCONSTRAINED, int(unused[0]))
            return cls(program, roots, columns, Definite.empty(), failure)
        basis, definite, dependent = Definite.of_basis(W.tocsc()[:, columns], c[columns])
        if definite is None:
            failure = EnclosureBound(-math.inf, Obstacle.DEPENDENT_COLUMNS, int(columns[dependent]))
            return cls(program, roots, columns, Definite.empty(), failure)
        return cls(program, roots, columns[basis], definite, None)

    def bound(self, z: FloatArray) -> EnclosureBound:
        """Return a float not above the optimum, from any multipliers; minus infinity without proof."""
        program, definite, columns, roots = self.program, self.definite, self.columns, self.roots
        cones, b, c = program.cones, program.b, program.c
        if not c.any():
            return EnclosureBound(0.0, solution=0.0 * z)
        if self.failure is not None:
            return self.failure
        z = np.where(roots > 0.0, z, 0.0)
        for _ in range(2):
            w = np.zeros(len(c))
            w[columns] = definite.solve(-(c + program.transposed @ z)[columns])
            z = z + roots**2 * (program.A @ w)
        r, r_errors = image(program.transposed, z, c)
        shift = definite.norm((np.abs(r) + (r_errors + U * np.abs(c)) * MARGIN)[columns])
        balls = np.zeros(cones.count)
        np.maximum.at(balls, cones.block, roots * shift * (1.0 + 1e-12))
        missing = lacks(cones, z, balls, dual=True)
        if missing.max(initial=0.0) > 0.0:
            return EnclosureBound(-math.inf, Obstacle.MULTIPLIERS, int(np.argmax(missing)), missing)
        losses = [
            3.0 * U * sum_above(np.abs(b * z)) * MARGIN + UNDERFLOW,
            above(norm_above(roots * np.abs(b)) * shift, 8),
        ]
        return EnclosureBound(sum_below(np.concatenate([-(b * z), -np.array(losses)])), solution=z)


@dataclass(frozen=True, eq=False)
class PrimalEnclosure:
    """Points near given points that satisfy equations exactly."""

    program: ConeProgram
    equations: LongArray  # rows that hold as equations, and `rows`, which imply all of them
    rows: LongArray
    values: FloatArray  # (n,): variables that the equations determine exactly; NaN for all other variables
    matrix: sp.csr_array  # coefficients of all other variables in `rows`; `definite` is made of their products
    definite: Definite
    failure: EnclosureBound | None

    @classmethod
    def of(cls, program: ConeProgram, equal: BoolArray | None = None) -> PrimalEnclosure:
        """Determine variables by the equations, and by inequalities that hold as equations; factorize the rest."""
        is_equation = np.arange(program.cones.size) < program.cones.zero
        equations = np.flatnonzero(is_equation if equal is None else is_equation | equal)
        A, b = program.A[equations], program.b[equations]
        values, some, sides = determined(A, b)
        matrix = sp.csr_array(A @ sp.diags_array(np.isnan(values) * 1.0))[some]
        matrix.eliminate_zeros()
        failure, empty = None, equations[(np.diff(A.indptr) == 0) & (b != 0.0)]
        basis, definite, dependent = Definite.of_basis(sp.csc_array(matrix.T), sides[some])
        if len(empty):
            failure = EnclosureBound(math.inf, Obstacle.IMPOSSIBLE, int(empty[0]))
        elif definite is None:
            failure = EnclosureBound(math.inf, Obstacle.DEPENDENT_EQUATIONS, int(equations[some[dependent]]))
        rows = equations[some[basis]]
        return cls(program, equations, rows, values, matrix[basis], definite or Definite.empty(), failure)

    def bound(self, x: FloatArray) -> EnclosureBound:
        """Return a float not below the optimum, from a point near x; infinity if none is proven to be feasible."""
        program, rows, length = self.program, self.rows, 0.0
        cones, A, b = program.cones, program.A, program.b
        if self.failure is not None:
            return self.failure
        x = np.where(np.isnan(self.values), x, self.values)
        if len(rows):
            M = A[rows]
            for _ in range(3):
                x = x + self.matrix.T @ self.definite.solve(b[rows] - M @ x)
            r, r_errors = image(M, -x, b[rows])
            length = self.definite.norm(np.abs(r) + r_errors)
        slack, errors = image(A, -x, b)
        if length:
            errors += _norms_of_rows(A) * length * (1.0 + 1e-12)
        errors[self.equations] = slack[self.equations] = 0.0
        missing = lacks(cones, slack, _balls(cones, errors), dual=False)
        if missing.max(initial=0.0) > 0.0:
            return EnclosureBound(math.inf, Obstacle.SLACKS, int(np.argmax(missing)), missing)
        terms = program.c * x
        if not program.c.any():
            return EnclosureBound(0.0, solution=x)
        losses = [3.0 * U * sum_above(np.abs(terms)) + UNDERFLOW, above(norm_above(program.c) * length, 4)]
        return EnclosureBound(sum_above(np.append(terms, losses)), solution=x)
