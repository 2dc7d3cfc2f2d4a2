"""Bounds of a cone program that hold in floating point, from any multipliers and any point.

For every x with ``b - Ax`` in K, z in the dual cone and any y [JCK2007],

    ``c'x + x'Px / 2 >= -b'z - y'Py / 2 + r'x + (x - y)'P(x - y) / 2,  r = c + A'z + Py``.

As P is positive semidefinite, the last term is at least 0. The residual r of floats is not 0. Where x is known to be
bounded, ``r'x`` is. Elsewhere z is moved by ``D A w`` and y by w with ``(A'DA + P) w = -r``, which makes the residual 0
exactly. This w is not computed but enclosed: if ``A'DA + P >= kappa I``, then ``||w|| <= ||r|| / kappa`` and
``||D^(1/2) A w|| <= ||r|| / kappa^(1/2)``. A proven point is made likewise from equations ``A_0 x = b_0``.

Multipliers or slacks that are slightly outside are moved inside, by about the smallest step that leaves others near the
boundary unchanged; a few steps are tried.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg

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
from sdpmetric.programs.canonical import ConeProgram, Cones, lower_triangle
from sdpmetric.programs.definite import DENSE, Definite, OverSizeError
from sdpmetric.programs.rational import determined, independent

UNDERFLOW = 1e-280  # More than underflow takes from a sum of products
ROOT = 1e-150  # More than underflow takes from the root of a sum of squares
REPAIRS = 8  # How often multipliers or slacks are moved into the cone, and the equations corrected again
MARGIN = 1.0 + 1e-9  # More than the rounding of some products of bounds


def image(
    M: sp.csr_array,
    v: FloatArray,
    radii: sp.csr_array,
    extra: FloatArray | float = 0.0,
    extra_radii: FloatArray | float = 0.0,
) -> tuple[FloatArray, FloatArray]:
    """``M v + extra``, and how far each entry may be from that of numbers within given radii."""
    terms, sizes = float(np.diff(M.indptr).max(initial=0)) + 8.0, abs(M)
    errors = (sizes @ np.abs(v) + np.abs(extra)) * (gamma(terms) * MARGIN)
    errors += UNDERFLOW * terms * (sizes @ (v != 0.0) + np.abs(extra) > 0.0)
    if radii.nnz or np.any(extra_radii):
        errors += (radii @ np.abs(v) + extra_radii) * MARGIN
    return M @ v + extra, errors


def least_squares(M: sp.csr_array, v: FloatArray) -> FloatArray:
    """About the least-squares solution w of ``M w = v`` with the smallest norm."""
    return np.asarray(scipy.sparse.linalg.lsqr(M, v, atol=1e-9, btol=1e-9, iter_lim=200)[0])


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


# -- bounds ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Bound:
    """A proven number; infinite where nothing is proven, and then why, and what each row of the cones lacks.

    Near the point x, or the multipliers z and slope x, are those that are proven to be feasible.
    """

    value: float
    why: str = ""
    missing: FloatArray | float = 0.0
    x: FloatArray | None = None
    z: FloatArray | None = None


def curvature(P: sp.csr_array, radii: sp.csr_array) -> float:
    """A float not above the least eigenvalue of P within radii, on the columns that it has, at most 0."""
    if not P.nnz and not radii.nnz:
        return 0.0
    columns = np.flatnonzero(np.diff(P.indptr) + np.diff(radii.indptr))
    if P.nnz == len(columns) and np.array_equal(P.diagonal()[columns], P.data):
        bottom = P.diagonal()
        if radii.nnz:
            bottom = np.nextafter(bottom - radii.sum(axis=1) * MARGIN, -np.inf)
        return min(0.0, float(bottom[columns].min()))
    if len(columns) > DENSE:
        raise OverSizeError
    count, labels = sp.csgraph.connected_components(P[columns][:, columns])
    blocks = (columns[labels == k] for k in range(count))
    value = min(0.0, *(_curvature(sp.csc_array(P[block][:, block])) for block in blocks))
    return float(np.nextafter(value - above(float(radii.sum()), radii.nnz + 8), -np.inf)) if radii.nnz else value


def _curvature(P: sp.csc_array) -> float:
    """For a singular matrix, that of independent columns decides: ``P = [I V]' P_cc [I V]``."""
    bottom = least_eigenvalue(P.toarray())
    basis = independent(P) if bottom < 0.0 else None
    singular = basis is not None and least_eigenvalue(P[basis][:, basis].toarray()) >= 0.0
    return 0.0 if singular else bottom


@dataclass(frozen=True, eq=False)
class Correction:
    """Multipliers ``z + D A w`` and slopes ``x + w`` that make the residual 0 on some columns, with w on these."""

    columns: LongArray
    roots: FloatArray  # D^(1/2)
    matrix: sp.csr_array  # D^(1/2) A
    radii: sp.csr_array
    definite: Definite | None  # None where columns depend on each other, or nearly
    lengths: FloatArray  # Of the rows of the matrix on the columns, in units of the definite one

    @classmethod
    def of(cls, program: ConeProgram, columns: LongArray) -> Correction:
        """Where columns are proven to be combinations of others, it is enough to correct those."""
        # 64: the root of the weight of multipliers of equations, which have no sign.
        roots = np.where(np.arange(program.cones.size) < program.cones.zero, 64.0, 1.0)
        W, radii = (sp.csr_array(sp.diags_array(roots) @ M) for M in (program.A, program.radii.A))
        P, P_radii = program.P, program.radii.P

        def definite(some: LongArray) -> Definite | None:
            bending, bending_radii = P[some][:, some], P_radii[some][:, some]
            curved = bool(bending.nnz or bending_radii.nnz)
            return Definite.of(W[:, some], radii[:, some], bending if curved else None, bending_radii)

        M = sp.vstack([program.A, P, program.c[None, :]]) if program.uncertainty is None else None
        columns, matrix = _basis(columns, definite, M)
        lengths = np.zeros(len(roots))
        if matrix is not None:
            unit = sp.diags_array(np.ldexp(1.0, matrix.powers))
            for M in (W, radii):
                lengths += norms_of_rows(sp.csr_array(M[:, columns] @ unit))
        return cls(columns, roots, W, radii, matrix, lengths)

    def cost(
        self, program: ConeProgram, bounded: BoolArray, slope: FloatArray, shift: float, step: float, box: FloatArray
    ) -> float:
        """What the residual and its change by the correction may cost where variables are bounded."""
        slope = slope[bounded]
        if shift > 0.0 and self.definite is not None:
            units = sp.diags_array(np.ldexp(1.0, self.definite.powers))
            for M, Q in ((self.matrix, program.P), (self.radii, program.radii.P)):
                slope = slope + norms_of_rows(sp.csr_array(M[:, bounded].T)) * shift * (1.0 + 1e-12)
                moves = norms_of_rows(sp.csr_array(Q[bounded][:, self.columns] @ units))
                slope = slope + moves * step * (1.0 + 1e-12)
        return sum_above(all_above(slope * box[bounded], 4))


def _basis(
    columns: LongArray, definite: Callable[[LongArray], Definite | None], M: sp.csr_array | None
) -> tuple[LongArray, Definite | None]:
    """Columns and their products, or where these are singular those of columns of M of which the others are made."""
    matrix = definite(columns)
    if matrix is None and M is not None:
        basis = independent(sp.csc_array(M.tocsc()[:, columns]))
        if basis is not None and len(basis) < len(columns):
            return columns[basis], definite(columns[basis])
    return columns, matrix


@dataclass(frozen=True, eq=False)
class Equations:
    """Equations of a program from which all others follow, for the variables that these do not determine exactly.

    Attributes
    ----------
    values : (n,) array
        Of variables that are determined, NaN of the others.
    matrix : sparse array
        The coefficients of the latter.
    definite : Definite or None
        The products of its rows; None where they depend on each other, or nearly.
    """

    values: FloatArray
    rows: LongArray
    matrix: sp.csr_array
    definite: Definite | None

    @classmethod
    def of(cls, program: ConeProgram) -> Equations:
        """Those of the rows of the zero cone."""
        zero, radii = program.cones.zero, program.radii.A[: program.cones.zero]
        A = program.A[:zero]
        values, rows, M = np.full(A.shape[1], np.nan), np.flatnonzero(np.diff(A.indptr)), None
        if program.uncertainty is None:
            values, rows, b = determined(A, program.b[:zero])
        matrix = sp.csr_array(A @ sp.diags_array(np.isnan(values) * 1.0))
        matrix.eliminate_zeros()
        if program.uncertainty is None and np.isfinite(b[rows]).all():
            M = sp.hstack([matrix, b[:, None]]).T
        rows, definite = _basis(rows, lambda some: Definite.of(matrix[some].T.tocsr(), radii[some].T.tocsr()), M)
        return cls(values, rows, matrix[rows], definite)


def lower_bound(program: ConeProgram, z: FloatArray, x: FloatArray, box: FloatArray) -> Bound:
    """A float not above the optimum, from any multipliers z and any x; minus infinity where nothing is proven.

    `box` is a proven bound of the absolute value of each entry of an optimal point, infinity if there is none.
    """
    cones, b, P, radii = program.cones, program.b, program.P, program.radii
    lowest, bounded = curvature(P, radii.P), np.isfinite(box)
    curved = np.diff(P.indptr) + np.diff(radii.P.indptr) > 0
    bent = 0.0
    if lowest < 0.0:
        if not bounded[curved].all():
            return Bound(-math.inf, "the matrix of the objective is not proven to be positive semidefinite")
        lowest -= 8.0 * U * (float(abs(P).max()) - lowest)  # the sum is rounded
        bent = above(-0.6 * lowest * sum_above(all_above(box[curved] ** 2)), 4)
        P = sp.csr_array(P - lowest * sp.diags_array(curved * 1.0))
        program = replace(program, P=P)
    constrained = (np.diff(program.transposed.indptr) > 0) | (np.diff(program.transposed_radii.indptr) > 0) | curved
    if (np.abs(program.c) + radii.c)[~constrained & ~bounded].any():
        return Bound(-math.inf, "a variable of the objective is in no constraint")  # it costs less and less
    columns = np.flatnonzero(constrained & ~bounded)
    if (key := columns.tobytes()) not in program.proofs:
        program.proofs[key] = Correction.of(program, columns)
    correction: Correction = program.proofs[key]
    columns, roots, definite = correction.columns, correction.roots, correction.definite
    if definite is None:
        return Bound(-math.inf, "columns of the constraints depend on each other, or nearly")
    x, worst = np.where(curved, x, 0.0), math.inf
    for repairs in reversed(range(REPAIRS)):
        for _ in range(2):
            w = np.zeros(len(x))
            w[columns] = definite.solve(-(program.c + program.transposed @ z + P @ x)[columns])
            z, x = z + roots * (correction.matrix @ w), x + np.where(curved, w, 0.0)
        Px, Px_radii = image(P, x, radii.P)
        r, r_radii = image(program.transposed, z, program.transposed_radii, program.c + Px, radii.c)
        residual = np.abs(r) + (r_radii + Px_radii + U * (np.abs(program.c) + np.abs(Px))) * MARGIN
        shift, step = definite.norms(residual[columns])
        errors = roots * np.minimum(shift, correction.lengths * step) * (1.0 + 1e-12)
        missing = lacks(cones, z, _balls(cones, errors, roots * shift * (1.0 + 1e-12)), dual=True)
        if missing.max(initial=0.0) <= 0.0:
            break
        if not repairs or missing.max() > 0.7 * worst:
            return Bound(-math.inf, f"multipliers near the solver's are not in {cones.named(missing)}", missing)
        worst = missing.max()
        active = lacks(cones, z - 10.0 * worst * cones.dual_interior, _balls(cones, errors), dual=True) > 0.0
        z = z + 1.5 * missing * cones.dual_interior
        # A small weight keeps the active ones where they were moved.
        weights = sp.diags_array(np.where(active, 0.03, roots))
        r = (program.c + program.transposed @ z + P @ x)[columns]
        z = z - weights @ least_squares(program.transposed[columns] @ weights, r)
    products, heights = np.concatenate([b * z, 0.5 * x * Px]), all_above(np.abs(b) + radii.b)
    losses = [
        3.0 * U * sum_above(np.abs(products)) * MARGIN + UNDERFLOW,
        bent,
        min(above(norm_above(roots * heights) * shift, 8), sum_above(all_above(heights * errors, 4))),
        above(float(radii.b @ np.abs(z)), len(z) + 8),
        above(float(np.abs(x) @ Px_radii), len(x) + 8),
    ]
    if curved[columns].any():
        unit = np.ldexp(1.0, definite.powers[curved[columns]]).max(initial=0.0)  # steps are in units of their own
        losses += [above(norm_above(np.abs(Px) + Px_radii) * step * float(unit), 8), above(0.5 * shift * shift, 4)]
    if bounded.any():
        losses.append(correction.cost(program, bounded, residual, shift, step, box))
    return Bound(sum_below(np.concatenate([-products, -np.array(losses)])), x=x, z=z)


def _balls(cones: Cones, errors: FloatArray, limits: FloatArray | None = None) -> FloatArray:
    """Floats not below the norm of the errors of each block, which are at most the largest of its limits."""
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


def norms_of_rows(M: sp.csr_array) -> FloatArray:
    """Floats not below the norms of the rows of a sparse matrix."""
    squares = np.asarray(M.multiply(M).sum(axis=1)).ravel()
    terms = float(np.diff(M.indptr).max(initial=0)) + 8.0
    return np.asarray(np.sqrt(squares) * (1.0 + gamma(terms)) + np.where(np.diff(M.indptr) > 0, ROOT, 0.0))


def upper_bound(program: ConeProgram, x: FloatArray, worst: float = math.inf) -> Bound:
    """A float not below the optimum, from a point near x that is proven to be feasible; infinity if none is.

    The point is not moved if its largest violation is above 0.7 times `worst`.
    """
    cones, A, b, zero, radii = program.cones, program.A, program.b, program.cones.zero, program.radii
    empty = np.diff(A.indptr)[:zero] == 0
    if (np.abs(b[:zero]) + radii.b[:zero] + radii.A[:zero].sum(axis=1))[empty].any():
        return Bound(math.inf, "an equation has no variables")
    if "equations" not in program.proofs:
        program.proofs["equations"] = Equations.of(program)
    equations: Equations = program.proofs["equations"]
    rows, definite = equations.rows, equations.definite
    if definite is None:
        return Bound(math.inf, "equations depend on each other, or nearly")
    for repairs in reversed(range(REPAIRS)):
        x, length = np.where(np.isnan(equations.values), x, equations.values), 0.0
        if len(rows):
            M = A[rows]
            for _ in range(3):
                x = x + equations.matrix.T @ definite.solve(b[rows] - M @ x)
            r, r_radii = image(M, -x, radii.A[rows], b[rows], radii.b[rows])
            length = definite.norms(np.abs(r) + r_radii)[0]
        slack, errors = image(A, -x, radii.A, b, radii.b)
        if length:
            errors += (norms_of_rows(A) + norms_of_rows(radii.A)) * length * (1.0 + 1e-12)
        errors[:zero] = slack[:zero] = 0.0
        balls = _balls(cones, errors)
        missing = lacks(cones, slack, balls, dual=False)
        if missing.max(initial=0.0) <= 0.0:
            break
        if not repairs or missing.max() > 0.7 * worst:
            return Bound(math.inf, f"slacks near the solver's are not in {cones.named(missing)}", missing)
        worst = missing.max()
        active = lacks(cones, slack - 10.0 * worst * cones.interior, balls, dual=False) > 0.0
        active[:zero] = True
        move = (1.5 * missing + 2.0 * balls[cones.block] * (missing > 0.0)) * cones.interior
        x = x - least_squares(A[active], move[active])
    Px, Px_radii = image(program.P, x, radii.P)
    terms = np.concatenate([program.c * x, 0.5 * x * Px])
    slope = norm_above(np.abs(program.c) + radii.c + np.abs(Px) + Px_radii)
    bend = 0.5 * (norm_above(program.P.data) + norm_above(radii.P.data))
    losses = [
        3.0 * U * sum_above(np.abs(terms)) + UNDERFLOW,
        above(float(np.abs(x) @ (Px_radii + radii.c)), len(x) + 4),
        above(slope * length, 4) if length else 0.0,
        above(bend * length * length, 8) if length else 0.0,
    ]
    return Bound(sum_above(np.append(terms, losses)), x=x)
