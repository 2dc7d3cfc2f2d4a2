"""Bounds of a cone program that hold in floating point, from any multipliers and any point.

For every x with ``b - Ax`` in K, z in the dual cone and any y [JCK2007],

    ``c'x + x'Px / 2 >= -b'z - y'Py / 2 + r'x + (x - y)'P(x - y) / 2,  r = c + A'z + Py``.

As P is positive semidefinite, the last term is at least 0. The residual r of floats is not 0. So z is moved by
``D A w`` and y by w with ``(A'DA + P) w = -r``, which makes the residual 0 exactly. This w is not computed but
enclosed: if ``A'DA + P >= kappa I``, then ``||w|| <= ||r|| / kappa`` and ``||D^(1/2) A w|| <= ||r|| / kappa^(1/2)``. A
proven point is made likewise from equations ``A_0 x = b_0``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
import scipy.sparse as sp

from sdpmetric.arrays import FloatArray, LongArray
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
from sdpmetric.programs.canonical import ConeProgram, Cones, lower_triangle
from sdpmetric.programs.definite import DENSE, Definite, OverSizeError
from sdpmetric.programs.rational import determined, independent

UNDERFLOW = 1e-280  # More than underflow takes from a sum of products
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
    """About how many times `Cones.interior` has to be added to each row, to be proven in the cone whatever the errors.

    At most 0 only if that is proven. Errors of the rows of one block are at most its entry of `errors` together.
    """
    lack = np.zeros(cones.size)
    signs = slice(cones.zero, cones.linear)
    ball = errors[cones.block]
    lack[signs] = np.where(v[signs] >= ball[signs], 0.0, ball[signs] - v[signs])
    for rows in cones.soc_blocks:
        tail = above(norm_above(v[rows][1:]) + 1.5 * float(ball[rows.start]), 4)
        lack[rows] = 0.0 if v[rows.start] >= tail else tail - v[rows.start]
    for rows in cones.psd_blocks:
        lack[rows] = _semidefinite(lower_triangle(v[rows], dual=dual), float(ball[rows.start]), dual=dual)
    exp, power = cones.threes
    if cones.exp:
        x, y, z = v[exp].reshape(-1, 3).T
        lack[exp] = np.repeat(_exponential(*((-y, -x, z) if dual else (x, y, z)), ball[exp][::3], dual=dual), 3)
    if cones.power:
        x, y, z = v[power].reshape(-1, 3).T
        lack[power] = np.repeat(_power(x, y, z, np.array(cones.power), ball[power][::3], dual=dual), 3)
    return lack


def _semidefinite(S: FloatArray, ball: float, *, dual: bool) -> float:
    """An error of multipliers off the diagonal counts twice, one of slacks half."""
    used = np.abs(S).max(axis=1, initial=0.0) > 0.0
    if ball == 0.0:
        if not used.any():
            return 0.0
        S = S[np.ix_(used, used)]
    bottom = least_eigenvalue(S)
    ball = above(1.4142135623730952 * ball, 2) if dual else ball
    return 0.0 if bottom >= ball else ball - bottom


def _exponential(x: FloatArray, y: FloatArray, z: FloatArray, ball: FloatArray, *, dual: bool) -> FloatArray:
    """``y exp(x / y) <= z``; in the dual cone, with x and y as given, ``y exp(x / y) <= e z``."""
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


def _power(
    x: FloatArray, y: FloatArray, z: FloatArray, alpha: FloatArray, ball: FloatArray, *, dual: bool
) -> FloatArray:
    """``x^a y^(1 - a) >= |z|``; in the dual cone ``(x / a)^a (y / (1 - a))^(1 - a) >= |z|``."""
    low = [np.nextafter(v - ball, -np.inf) for v in (x, y)]
    inside = (low[0] > 0.0) & (low[1] > 0.0)
    top = np.nextafter(np.abs(z) + ball, np.inf)
    logs = []
    for v, a in zip(low, (alpha, 1.0 - alpha), strict=True):
        log = log_bounds(np.where(inside, v, 1.0))[0]
        if dual:
            log = log - log_bounds(a)[1]
        logs.append(a * log)
    rounding = 16.0 * U * (1.0 + np.abs(logs[0]) + np.abs(logs[1]) + np.abs(np.log(alpha)) + np.abs(np.log1p(-alpha)))
    bottom = logs[0] + logs[1] - rounding
    fits = inside & ((top == 0.0) | (bottom >= log_bounds(np.where(top > 0.0, top, 1.0))[1]))
    missing = np.where(inside, np.maximum(top - np.exp(bottom), 0.0) + U * top, ball - np.minimum(x, y))
    return np.where(fits, 0.0, missing + UNDERFLOW)


def _balls(cones: Cones, errors: FloatArray, limits: FloatArray | None = None) -> FloatArray:
    """Return floats not below the norm of the errors of each block, which are at most the largest of its limits."""
    squares, limit, moves = np.zeros(cones.count), np.zeros(cones.count), np.zeros(cones.count, dtype=bool)
    with np.errstate(over="ignore"):
        np.add.at(squares, cones.block, errors * errors)
    np.logical_or.at(moves, cones.block, errors > 0.0)
    norms = np.sqrt(squares) * (1.0 + gamma(cones.size + 8)) + ROOT * moves
    norms[: cones.linear] = errors[: cones.linear]
    if limits is not None:
        np.maximum.at(limit, cones.block, limits)
        norms = np.minimum(norms, limit + ROOT * moves)
    return norms


def _norms_of_rows(M: sp.csr_array) -> FloatArray:
    """Return floats not below the norms of the rows of a sparse matrix."""
    squares = np.asarray(M.multiply(M).sum(axis=1)).ravel()
    terms = float(np.diff(M.indptr).max(initial=0)) + 8.0
    return np.asarray(np.sqrt(squares) * (1.0 + gamma(terms)) + np.where(np.diff(M.indptr) > 0, ROOT, 0.0))


# -- bounds ---------------------------------------------------------------------------------------------------------


class Obstacle(Enum):
    """Why a bound is not proven."""

    NOT_CONVEX = "the matrix of the objective is not proven to be positive semidefinite"
    UNCONSTRAINED = "variables of the objective are in no constraint"
    DEPENDENT_COLUMNS = "columns of the constraints depend on each other, or nearly"
    MULTIPLIERS = "multipliers near the solver's are not in the dual cone"
    IMPOSSIBLE = "an equation without variables does not hold"
    DEPENDENT_EQUATIONS = "equations depend on each other, or nearly"
    SLACKS = "slacks near the solver's are not in the cone"


@dataclass(frozen=True, eq=False)
class Bound:
    """A proven number; infinite if nothing is proven, and then why.

    Attributes
    ----------
    places : integer array
        Rows or columns of the program that the obstacle is about, the worst first.
    missing : (m,) array or float
        By how much each row is outside of its cone.
    x, z : arrays or None
        Near the point x, or the multipliers z and slope x, are those that are proven to be feasible.
    """

    value: float
    obstacle: Obstacle | None = None
    places: LongArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    missing: FloatArray | float = 0.0
    x: FloatArray | None = None
    z: FloatArray | None = None


def is_convex(P: sp.csr_array) -> bool:
    """Whether P is proven to be positive semidefinite."""
    columns = np.flatnonzero(np.diff(P.indptr))
    if P.nnz == len(columns) and np.array_equal(P.diagonal()[columns], P.data):
        return bool((P.data >= 0.0).all())
    if len(columns) > DENSE:
        raise OverSizeError
    count, labels = sp.csgraph.connected_components(P[columns][:, columns])
    blocks = (columns[labels == k] for k in range(count))
    return all(_is_semidefinite(sp.csc_array(P[block][:, block])) for block in blocks)


def _is_semidefinite(P: sp.csc_array) -> bool:
    """Whether P, or the part of it that determines a singular P, ``[I V]' P_cc [I V]``, is semidefinite."""
    if least_eigenvalue(P.toarray()) >= 0.0:
        return True
    basis = independent(P)[0]
    return basis is not None and least_eigenvalue(P[basis][:, basis].toarray()) >= 0.0


@dataclass(frozen=True, eq=False)
class DualEnclosure:
    """Multipliers ``z + D A w`` and slopes ``y + w`` that make the residual 0, with w on some columns.

    Attributes
    ----------
    columns : integer array
        All columns that are not 0, or some of which the others are proven to be combinations.
    roots : (m,) array
        ``D^(1/2)``.
    matrix : sparse array
        ``D^(1/2) A``.
    lengths : (m,) array
        Norms of the rows of the matrix on the columns, in units of `definite`.
    """

    program: ConeProgram
    columns: LongArray
    roots: FloatArray
    matrix: sp.csr_array
    definite: Definite
    lengths: FloatArray
    failure: Bound | None

    @classmethod
    def of(cls, program: ConeProgram) -> DualEnclosure:
        """Factorize the matrix of corrections."""
        P, failure = program.P, None
        roots = np.where(np.arange(program.cones.size) < program.cones.zero, FREE_ROOT, 1.0)
        W = sp.csr_array(sp.diags_array(roots) @ program.A)
        used = (np.diff(program.transposed.indptr) > 0) | program.curved
        columns, lengths, definite = np.flatnonzero(used), np.zeros(len(roots)), None
        if not is_convex(P):
            failure = Bound(-math.inf, Obstacle.NOT_CONVEX)
        elif (program.c[~used] != 0.0).any():
            failure = Bound(-math.inf, Obstacle.UNCONSTRAINED, np.flatnonzero(~used & (program.c != 0.0)))
        else:
            definite = Definite.of(W[:, columns], P[columns][:, columns] if P.nnz else None)
            if definite is None:
                basis, dependent = independent(
                    sp.csc_array(sp.vstack([program.A, P, program.c[None, :]]).tocsc()[:, columns])
                )
                if basis is not None and len(basis) < len(columns):
                    columns = columns[basis]
                    definite = Definite.of(W[:, columns], P[columns][:, columns] if P.nnz else None)
            if definite is None:
                failure = Bound(-math.inf, Obstacle.DEPENDENT_COLUMNS, columns[dependent])
            else:
                unit = sp.diags_array(np.ldexp(1.0, definite.powers))
                lengths = _norms_of_rows(sp.csr_array(W[:, columns] @ unit))
        return cls(program, columns, roots, W, definite or Definite.empty(), lengths, failure)

    def bound(self, z: FloatArray, y: FloatArray) -> Bound:
        """Return a float not above the optimum, from any multipliers z and any y; minus infinity without proof."""
        program, definite, columns, roots = self.program, self.definite, self.columns, self.roots
        cones, b, P, curved = program.cones, program.b, program.P, program.curved
        if not P.nnz and not program.c.any():
            return Bound(0.0, x=np.zeros(len(y)), z=np.zeros(len(z)))
        if self.failure is not None:
            return self.failure
        y = np.where(curved, y, 0.0)
        for _ in range(2):
            w = np.zeros(len(y))
            w[columns] = definite.solve(-(program.c + program.transposed @ z + P @ y)[columns])
            z, y = z + roots * (self.matrix @ w), y + np.where(curved, w, 0.0)
        Py, Py_errors = image(P, y)
        r, r_errors = image(program.transposed, z, program.c + Py)
        residual = np.abs(r) + (r_errors + Py_errors + U * (np.abs(program.c) + np.abs(Py))) * MARGIN
        shift, step = definite.norms(residual[columns])
        errors = roots * np.minimum(shift, self.lengths * step) * (1.0 + 1e-12)
        missing = lacks(cones, z, _balls(cones, errors, roots * shift * (1.0 + 1e-12)), dual=True)
        if missing.max(initial=0.0) > 0.0:
            return Bound(-math.inf, Obstacle.MULTIPLIERS, np.argsort(-missing)[:1], missing)
        products, heights = np.concatenate([b * z, 0.5 * y * Py]), np.abs(b)
        losses = [
            3.0 * U * sum_above(np.abs(products)) * MARGIN + UNDERFLOW,
            min(above(norm_above(roots * heights) * shift, 8), sum_above(all_above(heights * errors, 4))),
            above(float(np.abs(y) @ Py_errors), len(y) + 8),
        ]
        if curved[columns].any():
            unit = np.ldexp(1.0, definite.powers[curved[columns]]).max(initial=0.0)  # steps are in units of their own
            losses += [above(norm_above(np.abs(Py) + Py_errors) * step * float(unit), 8), above(0.5 * shift * shift, 4)]
        return Bound(sum_below(np.concatenate([-products, -np.array(losses)])), x=y, z=z)


@dataclass(frozen=True, eq=False)
class PrimalEnclosure:
    """Points that satisfy equations exactly, near given ones.

    Attributes
    ----------
    values : (n,) array
        Of variables that the equations determine exactly, NaN of the others.
    rows : integer array
        Equations from which all others follow.
    matrix : sparse array
        Their coefficients of the other variables.
    definite : Definite
        The products of the rows of the matrix.
    """

    program: ConeProgram
    values: FloatArray
    rows: LongArray
    matrix: sp.csr_array
    definite: Definite
    failure: Bound | None

    @classmethod
    def of(cls, program: ConeProgram) -> PrimalEnclosure:
        """Determine variables by the equations, and factorize those that remain."""
        zero, failure = program.cones.zero, None
        A = program.A[:zero]
        values, rows, b = determined(A, program.b[:zero])
        matrix = sp.csr_array(A @ sp.diags_array(np.isnan(values) * 1.0))
        matrix.eliminate_zeros()
        definite = Definite.of(matrix[rows].T.tocsr())
        empty = (np.diff(A.indptr) == 0) & (program.b[:zero] != 0.0)
        if empty.any():
            definite, failure = None, Bound(math.inf, Obstacle.IMPOSSIBLE, np.flatnonzero(empty))
        elif definite is None:
            known = np.isfinite(b[rows])
            sides = sp.csr_array(np.where(known, b[rows], 0.0)[:, None])
            basis, dependent = independent(sp.csc_array(sp.hstack([matrix[rows], sides]).T))
            if basis is not None and len(basis) < len(rows) and known.all():
                rows = rows[basis]
                definite = Definite.of(matrix[rows].T.tocsr())
            if definite is None:
                failure = Bound(math.inf, Obstacle.DEPENDENT_EQUATIONS, rows[dependent])
        return cls(program, values, rows, matrix[rows], definite or Definite.empty(), failure)

    def bound(self, x: FloatArray) -> Bound:
        """Return a float not below the optimum, from a point near x; infinity if none is proven to be feasible."""
        program, definite, rows = self.program, self.definite, self.rows
        cones, A, b, zero = program.cones, program.A, program.b, program.cones.zero
        if self.failure is not None:
            return self.failure
        x, length = np.where(np.isnan(self.values), x, self.values), 0.0
        if len(rows):
            M = A[rows]
            for _ in range(3):
                x = x + self.matrix.T @ definite.solve(b[rows] - M @ x)
            r, r_errors = image(M, -x, b[rows])
            length = definite.norms(np.abs(r) + r_errors)[0]
        slack, errors = image(A, -x, b)
        if length:
            errors += _norms_of_rows(A) * length * (1.0 + 1e-12)
        errors[:zero] = slack[:zero] = 0.0
        missing = lacks(cones, slack, _balls(cones, errors), dual=False)
        if missing.max(initial=0.0) > 0.0:
            return Bound(math.inf, Obstacle.SLACKS, np.argsort(-missing)[:1], missing)
        if not program.P.nnz and not program.c.any():
            return Bound(0.0, x=x)
        Px, Px_errors = image(program.P, x)
        terms = np.concatenate([program.c * x, 0.5 * x * Px])
        slope, bend = norm_above(np.abs(program.c) + np.abs(Px) + Px_errors), 0.5 * norm_above(program.P.data)
        losses = [
            3.0 * U * sum_above(np.abs(terms)) + UNDERFLOW,
            above(float(np.abs(x) @ Px_errors), len(x) + 4),
            above(slope * length, 4) if length else 0.0,
            above(bend * length * length, 8) if length else 0.0,
        ]
        return Bound(sum_above(np.append(terms, losses)), x=x)
