"""Bounds of a cone program that hold in floating point, from any multipliers and any point.

For every x with ``b - Ax`` in K, z in the dual cone and any y [JCK2007],

    ``c'x + x'Px / 2 >= -b'z - y'Py / 2 + r'x + (x - y)'P(x - y) / 2,  r = c + A'z + Py``.

As P is positive semidefinite, the last term is at least 0. The residual r of floats is not 0. Where x is known to be
bounded, ``r'x`` is. Elsewhere z is moved by ``D A w`` and y by w with ``(A'DA + P) w = -r``, which makes the residual 0
exactly. This w is not computed but enclosed: if ``A'DA + P >= kappa I``, then ``||w|| <= ||r|| / kappa`` and
``||D^(1/2) A w|| <= ||r|| / kappa^(1/2)``. A proven point is made likewise from equations ``A_0 x = b_0``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from sdpmetric.arrays import BoolArray, FloatArray, LongArray
from sdpmetric.linalg.rigorous import (
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

# Matrices of more columns are factorized sparsely, and not at all if their factor has more entries than that.
DENSE, MOST_ENTRIES = 2000, 40_000_000
# More than underflow takes from a sum of products.
UNDERFLOW = 1e-280
# Multipliers move by powers of 2, up to this, in proportion to their distance from the boundary of the cone.
LARGEST_WEIGHT = 12
REPAIRS = 8
# Coefficients of redundant equations have one of these denominators, and so many binary digits.
DENOMINATORS, DIGITS = (1, 3, 5, 7, 9, 11, 13, 15), 12
# The largest float below e.
E_BELOW = 2.718281828459045


class OverSizeError(ValueError):
    """The enclosure needs too large a factorization."""


def image(
    M: sp.csr_array, sizes: sp.csr_array, v: FloatArray, extra: FloatArray, off: sp.csr_array, off_extra: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """``M v + extra``, and how far each entry may be from that of numbers which are off by given radii."""
    terms = float(np.diff(M.indptr).max(initial=0)) + 8.0
    size = sizes @ np.abs(v) + np.abs(extra)
    small = sizes.sign() @ (v != 0.0) + (extra != 0.0)  # underflow
    unsure = (off @ np.abs(v) + off_extra) * (1.0 + 1e-9)
    return M @ v + extra, size * (gamma(terms) * (1.0 + 1e-9)) + UNDERFLOW * small + unsure


@dataclass(frozen=True, eq=False)
class Definite:
    """``W'W + P``, proven to be positive definite in units of its own, ``2^powers``.

    Attributes
    ----------
    least : float
        A float not above the least eigenvalue in these units.
    """

    powers: LongArray
    factor: Callable[[FloatArray], FloatArray]
    least: float

    @classmethod
    def of(
        cls, W: sp.csr_array, off: sp.csr_array, P: sp.csr_array | None = None, P_off: sp.csr_array | None = None
    ) -> Definite | None:
        """None where it is singular, as far as floats can tell, or may be so for W and P that are off by radii."""
        n = W.shape[1]
        squares = np.asarray(W.multiply(W).sum(axis=0)).ravel() + (0.0 if P is None else P.diagonal())
        if not (squares > 0.0).all() or not np.isfinite(squares).all():
            return None
        powers = -np.rint(0.5 * np.log2(squares)).astype(np.int64)
        unit = sp.diags_array(np.ldexp(1.0, powers))
        W = (W @ unit).tocsr()
        H = (W.T @ W).tocsc()
        terms = float(np.diff(W.tocsc().indptr).max(initial=0)) + 8.0
        trace = float(W.multiply(W).sum())
        rounded = gamma(terms) * trace + 2.0 * math.sqrt(trace) * float((off @ unit).sum())
        if P is not None and P_off is not None:
            H = H + unit @ P @ unit
            rounded += gamma(8) * float(abs(H).sum(axis=1).max(initial=0.0))
            rounded += float((unit @ P_off @ unit).sum())
        factor, least = _dense(H.toarray()) if n <= DENSE or H.nnz > 0.2 * n * n else _sparse(sp.csc_array(H))
        least = math.nextafter(least - above(rounded, n + 16), -math.inf)
        return cls(powers, factor, least) if least > 0.0 else None

    @classmethod
    def nothing(cls) -> Definite:
        """The empty matrix."""
        return cls(np.zeros(0, dtype=np.int64), lambda v: v, 1.0)

    def solve(self, v: FloatArray) -> FloatArray:
        """About w with ``(W'W + P) w = v``."""
        return np.ldexp(self.factor(np.ldexp(v, self.powers)), self.powers)

    def lengths(self, size: FloatArray) -> tuple[float, float]:
        """Floats not below ``||D^(1/2) A w||`` and ``||w||`` for right-hand sides of at most `size`, in these units."""
        rho = norm_above(np.ldexp(size, self.powers))
        return above(rho / math.sqrt(self.least), 4), above(rho / self.least, 4)


def independent(M: sp.csc_array) -> LongArray | None:
    """Columns of which all others are proven to be combinations, as of redundant equations; None without such a proof.

    The coefficients are guessed to be fractions with few digits times powers of 2, and checked in rational numbers.
    """
    n = M.shape[1]
    if n > DENSE:
        return None
    _, R, pivots = scipy.linalg.qr(M.toarray(), mode="economic", pivoting=True)
    diagonal = np.abs(np.diag(R))
    rank = int(np.sum(diagonal > 1e-11 * diagonal.max(initial=0.0)))
    kept, dropped = pivots[:rank], pivots[rank:]
    V = scipy.linalg.solve_triangular(R[:rank, :rank], R[:rank, rank:])
    V[np.abs(V) < 1e-9 * np.abs(V).max(initial=0.0)] = 0.0
    for k, j in enumerate(dropped):
        used = np.flatnonzero(V[:, k])
        for denominator in DENOMINATORS:
            digits, powers = np.frexp(denominator * V[used, k])
            guess = np.ldexp(np.rint(np.ldexp(digits, DIGITS)), powers - DIGITS)
            if np.allclose(guess, denominator * V[used, k], rtol=1e-8, atol=0.0) and _sums_to(
                M, [*zip(kept[used].tolist(), guess.tolist(), strict=True), (int(j), -float(denominator))]
            ):
                break
        else:
            return None
    return np.sort(kept)


def _sums_to(M: sp.csc_array, combination: list[tuple[int, float]]) -> bool:
    """Whether a combination of columns is exactly 0."""
    total: dict[int, Fraction] = {}
    for j, factor in combination:
        some = slice(M.indptr[j], M.indptr[j + 1])
        for i, value in zip(M.indices[some].tolist(), M.data[some].tolist(), strict=True):
            total[i] = total.get(i, Fraction(0)) + Fraction(value) * Fraction(factor)
    return not any(total.values())


def _least(solve: Callable[[FloatArray], FloatArray], n: int) -> float:
    """About the least eigenvalue, by inverse iteration."""
    v = np.cos(np.arange(n, dtype=np.float64) ** 2)
    size = 1.0
    for _ in range(6):
        v = solve(v / np.linalg.norm(v))
        size = float(np.linalg.norm(v))
    return 1.0 / size if size > 0.0 and math.isfinite(size) else 0.0


def _dense(H: FloatArray) -> tuple[Callable[[FloatArray], FloatArray], float]:
    n = len(H)
    if n > 4 * DENSE:
        raise OverSizeError
    H = 0.5 * (H + H.T)
    try:
        factor = scipy.linalg.cho_factor(H)
    except np.linalg.LinAlgError:
        return lambda v: v, -math.inf

    def solve(v: FloatArray) -> FloatArray:
        return np.asarray(scipy.linalg.cho_solve(factor, v))

    size = _least(solve, n)
    for share in (0.5, 0.1, 0.01):
        shifted = H - share * size * np.eye(n)
        try:
            np.linalg.cholesky(shifted)
        except np.linalg.LinAlgError:
            continue
        diagonal = np.diag(H)
        error = (gamma(n + 8) + gamma(2 * n + 16) ** 2) * float(diagonal.sum()) + 2.0 * U * float(diagonal.max())
        return solve, share * size * (1.0 - 4.0 * U) - above(error, 2 * n)
    return solve, -math.inf


def _sparse(H: sp.csc_array) -> tuple[Callable[[FloatArray], FloatArray], float]:
    """By ``L D L'``, whose distance from the matrix is computed, as no theorem on SuperLU's rounding is at hand."""
    n = H.shape[0]
    options = {"permc_spec": "MMD_AT_PLUS_A", "diag_pivot_thresh": 0.0, "options": {"SymmetricMode": True}}
    try:
        first = splu(H, **options)
        if first.nnz > MOST_ENTRIES:
            raise OverSizeError
        size = _least(first.solve, n)
        shift = 0.5 * size
        found = splu(sp.csc_array(H - shift * sp.eye_array(n)), **options)
    except RuntimeError:  # singular
        return lambda v: v, -math.inf
    d = found.U.diagonal()
    if not np.array_equal(found.perm_r, found.perm_c) or not (d > 0.0).all():
        return first.solve, -math.inf
    order = np.argsort(found.perm_c)
    shifted = sp.csr_array(H - shift * sp.eye_array(n))[order][:, order]
    L = found.L.tocsr()
    apart = abs(sp.csr_array(L @ sp.diags_array(d) @ L.T) - shifted).sum(axis=1).max()
    rounding = abs(L) @ (d * (abs(L).T @ np.ones(n))) + abs(shifted).sum(axis=1)
    terms = float(np.diff(L.indptr).max()) + 16.0
    return first.solve, shift - above(float(apart) + gamma(terms) * float(np.max(rounding)), n + 8)


# -- cones ----------------------------------------------------------------------------------------------------------


def lacks(cones: Cones, v: FloatArray, errors: FloatArray, *, dual: bool) -> FloatArray:
    """About how many times `Cones.interior` has to be added to each row, to be proven in the cone whatever the errors.

    At most 0 only if that is proven. Errors of the rows of one block are at most its entry of `errors` together.
    """
    found = np.zeros(cones.size)
    some = slice(cones.zero, cones.linear)
    ball = errors[cones.block]
    found[some] = np.where(v[some] >= ball[some], 0.0, ball[some] - v[some])
    for rows in cones.soc_blocks:
        tail = above(norm_above(v[rows][1:]) + 1.5 * float(ball[rows.start]), 4)
        found[rows] = 0.0 if v[rows.start] >= tail else tail - v[rows.start]
    for rows in cones.psd_blocks:
        found[rows] = _semidefinite(lower_triangle(v[rows], dual=dual), float(ball[rows.start]), dual=dual)
    exp, power = cones.threes
    if cones.exp:
        x, y, z = v[exp].reshape(-1, 3).T
        found[exp] = np.repeat(_exponential(*((-y, -x, z) if dual else (x, y, z)), ball[exp][::3], dual=dual), 3)
    if cones.power:
        x, y, z = v[power].reshape(-1, 3).T
        found[power] = np.repeat(_power(x, y, z, np.array(cones.power), ball[power][::3], dual=dual), 3)
    return found


def _semidefinite(S: FloatArray, ball: float, *, dual: bool) -> float:
    """An error of multipliers off the diagonal counts twice, one of slacks half."""
    used = np.abs(S).max(axis=1, initial=0.0) > 0.0
    if ball == 0.0:
        if not used.any():
            return 0.0
        S = S[np.ix_(used, used)]
    least = least_eigenvalue(S)
    ball = above(1.4142135623730952 * ball, 2) if dual else ball
    return 0.0 if least >= ball else ball - least


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
        have = np.where(have > 0.0, np.nextafter(have * (E_BELOW if dual else 1.0), -np.inf), have)
    missing = np.where(inside, np.where(need <= have, 0.0, need - have), ball - y + np.abs(z) * U + UNDERFLOW)
    return np.where(zero, 0.0, np.where(np.isfinite(missing), missing, 1.0))


def _power(
    x: FloatArray, y: FloatArray, z: FloatArray, alpha: FloatArray, ball: FloatArray, *, dual: bool
) -> FloatArray:
    """``x^a y^(1 - a) >= |z|``; in the dual cone ``(x / a)^a (y / (1 - a))^(1 - a) >= |z|``."""
    low = [np.nextafter(v - ball, -np.inf) for v in (x, y)]
    inside = (low[0] > 0.0) & (low[1] > 0.0)
    most = np.nextafter(np.abs(z) + ball, np.inf)
    parts = []
    for v, a in zip(low, (alpha, 1.0 - alpha), strict=True):
        log = log_bounds(np.where(inside, v, 1.0))[0]
        if dual:
            log = log - log_bounds(a)[1]
        parts.append(a * log)
    rounding = 16.0 * U * (1.0 + np.abs(parts[0]) + np.abs(parts[1]) + np.abs(np.log(alpha)) + np.abs(np.log1p(-alpha)))
    least = parts[0] + parts[1] - rounding
    fits = inside & ((most == 0.0) | (least >= log_bounds(np.where(most > 0.0, most, 1.0))[1]))
    missing = np.where(inside, np.maximum(most - np.exp(least), 0.0) + U * most, ball - np.minimum(x, y))
    return np.where(fits, 0.0, missing + UNDERFLOW)


def rooms(cones: Cones, z: FloatArray) -> FloatArray:
    """About how far multipliers are from the boundary of the dual cone; infinity in the free ones."""
    room = np.full(cones.size, np.inf)
    some = slice(cones.zero, cones.linear)
    room[some] = z[some]
    for rows in cones.soc_blocks:
        room[rows] = z[rows.start] - np.linalg.norm(z[rows][1:])
    for rows in cones.psd_blocks:
        room[rows] = np.linalg.eigvalsh(lower_triangle(z[rows], dual=True))[0]
    for rows in cones.threes:
        room[rows] = 0.0
    return room


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
    weighted: bool = False


def curvature(P: sp.csr_array, off: sp.csr_array) -> float:
    """A float not above the least eigenvalue of P, which may be off, on the columns that it has, at most 0."""
    if not P.nnz and not off.nnz:
        return 0.0
    used = np.flatnonzero(np.diff(P.indptr) + np.diff(off.indptr))
    if P.nnz == len(used) and np.array_equal(P.diagonal()[used], P.data):
        less = np.nextafter(P.diagonal() - off.sum(axis=1) * (1.0 + 1e-9), -np.inf) if off.nnz else P.diagonal()
        return min(0.0, float(less[used].min()))
    if len(used) > 4 * DENSE:
        raise OverSizeError
    n, labels = sp.csgraph.connected_components(P[used][:, used])
    least = min(0.0, *(_curvature(sp.csc_array(P[part][:, part])) for part in (used[labels == k] for k in range(n))))
    return float(np.nextafter(least - above(float(off.sum()), off.nnz + 8), -np.inf)) if off.nnz else least


def _curvature(P: sp.csc_array) -> float:
    """For a singular matrix, that of independent columns decides: ``P = [I V]' P_cc [I V]``."""
    least = least_eigenvalue(P.toarray())
    some = independent(P) if least < 0.0 else None
    return 0.0 if some is not None and least_eigenvalue(P[some][:, some].toarray()) >= 0.0 else least


def lower_bound(
    program: ConeProgram, z: FloatArray, x: FloatArray, reach: FloatArray, *, weighted: bool = False
) -> Bound:
    """A float not above the optimum, from any multipliers z and any x; minus infinity where nothing is proven.

    `reach` is a proven bound of the absolute value of each entry of an optimal point, infinity if there is none.
    Weighted multipliers move in proportion to their distance from the boundary of the cone, which is a factorization
    for these multipliers alone.
    """
    cones, A, b, P, off = program.cones, program.A, program.b, program.P, program.radii
    lowest = curvature(P, off.P)
    curved = np.diff(P.indptr) + np.diff(off.P.indptr) > 0
    bent = 0.0
    if lowest < 0.0:
        if not np.isfinite(reach[curved]).all():
            return Bound(-math.inf, "the matrix of the objective is not proven to be positive semidefinite")
        lowest -= 8.0 * U * (float(abs(P).max()) - lowest)  # the sum is rounded
        bent = above(-0.6 * lowest * sum_above(all_above(reach[curved] ** 2)), 4)
        P = sp.csr_array(P - lowest * sp.diags_array(curved * 1.0))
    unsure = np.bincount(off.A.indices, minlength=len(x)) > 0
    free = ~np.isfinite(reach) & ((np.diff(program.transposed.indptr) > 0) | unsure | curved)
    if (np.abs(program.c) + off.c)[~free & ~np.isfinite(reach)].any():
        return Bound(-math.inf, "a variable of the objective is in no constraint")  # it costs less and less
    columns = np.flatnonzero(free)
    roots = _weights(cones, rooms(cones, z) if weighted else None)
    W, W_off = ((sp.diags_array(roots) @ M).tocsr() for M in (A, off.A))
    inside, definite = cones.interior(dual=True), Definite.nothing()
    x = np.where(curved, x, 0.0)
    if len(columns):
        key = None if weighted else columns.tobytes()
        columns, found = program.proofs.get(key) or _regular(program, W, W_off, P, columns)
        if key is not None:
            program.proofs[key] = columns, found
        if found is None:
            return Bound(-math.inf, "columns of the constraints depend on each other, or nearly")
        definite = found
        own, unit = W[:, columns], sp.diags_array(np.ldexp(1.0, definite.powers))
        lengths = norms_of_rows(sp.csr_array(own @ unit)) + norms_of_rows(sp.csr_array(W_off[:, columns] @ unit))
    turned = off.A.T.tocsr()
    for _ in range(REPAIRS):
        for _ in range(2 if len(columns) else 0):
            r = program.c + program.transposed @ z + P @ x
            w = np.zeros(len(x))
            w[columns] = definite.solve(-r[columns])
            z, x = z + roots * (W @ w), x + np.where(curved, w, 0.0)
        Px, Px_off = image(P, abs(P), x, np.zeros(len(x)), off.P, np.zeros(len(x)))
        r, r_off = image(program.transposed, abs(program.transposed), z, program.c + Px, turned, off.c)
        size = np.abs(r) + (r_off + Px_off + U * (np.abs(program.c) + np.abs(Px))) * (1.0 + 1e-9)
        moved, root, length = np.zeros(cones.size), 0.0, 0.0
        if len(columns):
            root, length = definite.lengths(size[columns])
            moved = roots * np.minimum(root, lengths * length) * (1.0 + 1e-12)
        balls = np.zeros(int(cones.block[-1]) + 1) if cones.size else np.zeros(0)
        np.add.at(balls, cones.block, moved * moved)
        balls = np.sqrt(balls) * (1.0 + gamma(cones.size + 8))
        most = np.zeros(len(balls))
        np.maximum.at(most, cones.block, roots)
        balls = np.minimum(balls, most * root * (1.0 + 1e-12))
        balls = np.where((balls == 0.0) & (_any_of(cones, moved > 0.0)), UNDERFLOW, balls)
        missing = lacks(cones, z, balls, dual=True)
        if missing.max(initial=0.0) <= 0.0:
            break
        z = z + 1.5 * missing * inside
    else:
        return Bound(-math.inf, f"multipliers near the solver's are not in {cones.named(missing)}", missing)
    products = np.concatenate([b * z, 0.5 * x * Px])
    lost = [3.0 * U * sum_above(np.abs(products)) * (1.0 + 1e-9) + UNDERFLOW, bent]
    most_b = all_above(np.abs(b) + off.b)
    lost.append(min(above(norm_above(roots * most_b) * root, 8), sum_above(all_above(most_b * moved, 4))))
    lost.append(above(float(off.b @ np.abs(z)), len(z) + 8))
    lost.append(above(float(np.abs(x) @ Px_off), len(x) + 8))
    if curved[columns].any():
        long = np.ldexp(1.0, definite.powers[curved[columns]]).max(initial=0.0)  # lengths are in units of their own
        lost.append(above(norm_above(np.abs(Px) + Px_off) * length * float(long), 8))
        lost.append(above(0.5 * root * root, 4))
    bounded = ~free & np.isfinite(reach)
    if bounded.any():
        apart = size[bounded]
        if root > 0.0:
            units = sp.diags_array(np.ldexp(1.0, definite.powers))
            for M, Q in ((W, P), (W_off, off.P)):
                apart = apart + norms_of_rows(sp.csr_array(M[:, bounded].T)) * root * (1.0 + 1e-12)
                apart = apart + norms_of_rows(sp.csr_array(Q[bounded][:, columns] @ units)) * length * (1.0 + 1e-12)
        lost.append(sum_above(all_above(apart * reach[bounded], 4)))
    return Bound(sum_below(np.concatenate([-products, -np.array(lost)])), x=x, z=z, weighted=weighted)


def _weights(cones: Cones, room: FloatArray | None) -> FloatArray:
    """Powers of 2, larger for multipliers that have room to move."""
    if room is None:
        return np.where(np.arange(cones.size) < cones.zero, 64.0, 1.0)
    floor = float(np.where(room > 0.0, room, np.inf).min(initial=np.inf))
    with np.errstate(divide="ignore", invalid="ignore"):
        powers = np.nan_to_num(np.rint(np.log2(room / floor)), nan=0.0, posinf=LARGEST_WEIGHT, neginf=0.0)
    return np.asarray(np.ldexp(1.0, np.clip(powers, 0, LARGEST_WEIGHT).astype(np.int64)))


def _regular(
    program: ConeProgram, W: sp.csr_array, W_off: sp.csr_array, P: sp.csr_array, columns: LongArray
) -> tuple[LongArray, Definite | None]:
    """Columns on which ``W'W + P`` is definite, and which make the residual of all 0; the matrix on them."""

    def on(some: LongArray) -> Definite | None:
        bending, P_off = P[some][:, some], program.radii.P[some][:, some]
        return Definite.of(W[:, some], W_off[:, some], bending if bending.nnz or P_off.nnz else None, P_off)

    definite = on(columns)
    if definite is None and program.off is None:
        some = independent(sp.csc_array(sp.vstack([program.A, P, program.c[None, :]])[:, columns]))
        if some is not None and len(some) < len(columns):
            return columns[some], on(columns[some])
    return columns, definite


def _any_of(cones: Cones, rows: BoolArray) -> BoolArray:
    found = np.zeros(int(cones.block[-1]) + 1 if cones.size else 0, dtype=bool)
    np.logical_or.at(found, cones.block, rows)
    return found


def norms_of_rows(M: sp.csr_array) -> FloatArray:
    """Floats not below the norms of the rows of a sparse matrix."""
    squares = np.asarray(M.multiply(M).sum(axis=1)).ravel()
    terms = float(np.diff(M.indptr).max(initial=0)) + 8.0
    return np.asarray(np.sqrt(squares) * (1.0 + gamma(terms)) + np.where(np.diff(M.indptr) > 0, 1e-150, 0.0))


def _determined(A: sp.csr_array, b: FloatArray) -> tuple[FloatArray, LongArray, list[Fraction]]:
    """Variables that equations with no other one determine exactly, NaN for the rest; the rows that remain.

    The fractions are right-hand sides without these variables. A value that is no float is not used.
    """
    x, pending = np.full(A.shape[1], np.nan), np.ones(A.shape[0], dtype=bool)
    columns, counts = A.tocsc(), np.diff(A.indptr)
    right = [Fraction(v) for v in b.tolist()]
    queue = np.flatnonzero(counts <= 1).tolist()
    while queue:
        i = queue.pop()
        row = slice(A.indptr[i], A.indptr[i + 1])
        entries = [(j, v) for j, v in zip(A.indices[row].tolist(), A.data[row].tolist(), strict=True) if np.isnan(x[j])]
        if not entries:
            pending[i] = right[i] != 0
        elif pending[i]:
            [(j, v)] = entries
            value = right[i] / Fraction(v)
            if Fraction(float(value)) != value:
                continue
            x[j], pending[i] = float(value), False
            column = slice(columns.indptr[j], columns.indptr[j + 1])
            for k, w in zip(columns.indices[column].tolist(), columns.data[column].tolist(), strict=True):
                right[k] -= Fraction(w) * value
                counts[k] -= 1
                if counts[k] <= 1 and pending[k]:
                    queue.append(k)
    return x, np.flatnonzero(pending), right


@dataclass(frozen=True, eq=False)
class Equations:
    """Equations from which all others follow, for variables that are not determined exactly, and their matrix."""

    values: FloatArray  # NaN where a variable is free
    rows: LongArray
    matrix: sp.csr_array
    definite: Definite | None

    @classmethod
    def of(cls, program: ConeProgram) -> Equations:
        """The definite matrix is None where they depend on each other, or nearly."""
        zero, off = program.cones.zero, program.radii.A[: program.cones.zero]
        A, exact = program.A[:zero], program.off is None
        values, rows, right = np.full(A.shape[1], np.nan), np.flatnonzero(np.diff(A.indptr)), list[Fraction]()
        if exact:
            values, rows, right = _determined(A, program.b[:zero])
        matrix = sp.csr_array(A[rows] @ sp.diags_array(np.isnan(values) * 1.0))
        matrix.eliminate_zeros()
        definite = Definite.of(matrix.T.tocsr(), off[rows].T.tocsr()) if len(rows) else Definite.nothing()
        if definite is None and exact:
            b = np.array([float(right[i]) for i in rows])
            if all(Fraction(v) == right[i] for v, i in zip(b.tolist(), rows, strict=True)):
                some = independent(sp.csc_array(sp.hstack([matrix, b[:, None]]).T))
                if some is not None and len(some) < len(rows):
                    rows, matrix = rows[some], matrix[some]
                    definite = Definite.of(matrix.T.tocsr(), off[rows].T.tocsr())
        return cls(values, rows, matrix, definite)


def upper_bound(program: ConeProgram, x: FloatArray) -> Bound:
    """A float not below the optimum, from a point near x that is proven to be feasible; infinity if none is."""
    cones, A, b, zero, off = program.cones, program.A, program.b, program.cones.zero, program.radii
    used = np.diff(A.indptr)[:zero] > 0
    if (np.abs(b[:zero]) + off.b[:zero] + off.A[:zero].sum(axis=1))[~used].any():
        return Bound(math.inf, "an equation has no variables")
    length = 0.0
    if used.any():
        if "equations" not in program.proofs:
            program.proofs["equations"] = Equations.of(program)
        equations: Equations = program.proofs["equations"]
        rows, definite = equations.rows, equations.definite
        if definite is None:
            return Bound(math.inf, "equations depend on each other, or nearly")
        x = np.where(np.isnan(equations.values), x, equations.values)
        if len(rows):
            M = A[rows]
            for _ in range(3):
                x = x + equations.matrix.T @ definite.solve(b[rows] - M @ x)
            r, r_off = image(M, abs(M), -x, b[rows], off.A[rows], off.b[rows])
            length = definite.lengths(np.abs(r) + r_off)[0]
    slack, s_off = image(A, program.sizes, -x, b, off.A, off.b)
    moved = s_off + (norms_of_rows(A) + norms_of_rows(off.A)) * length * (1.0 + 1e-12) if length else s_off
    moved[:zero] = slack[:zero] = 0.0
    balls = np.zeros(int(cones.block[-1]) + 1) if cones.size else np.zeros(0)
    np.add.at(balls, cones.block, moved * moved)
    balls = np.where(_any_of(cones, moved > 0.0), np.sqrt(balls) * (1.0 + gamma(cones.size + 8)) + UNDERFLOW, 0.0)
    balls[: cones.linear] = moved[: cones.linear]
    missing = lacks(cones, slack, balls, dual=False)
    if missing.max(initial=0.0) > 0.0:
        return Bound(math.inf, f"slacks near the solver's are not in {cones.named(missing)}", missing)
    Px, Px_off = image(program.P, abs(program.P), x, np.zeros(len(x)), off.P, np.zeros(len(x)))
    terms = np.concatenate([program.c * x, 0.5 * x * Px])
    slope = norm_above(np.abs(program.c) + off.c + np.abs(Px) + Px_off)
    errors = [
        3.0 * U * sum_above(np.abs(terms)) + UNDERFLOW,
        above(float(np.abs(x) @ (Px_off + off.c)), len(x) + 4),
        above(slope * length, 4) if length else 0.0,
        above(0.5 * (norm_above(program.P.data) + norm_above(off.P.data)) * length * length, 8) if length else 0.0,
    ]
    return Bound(sum_above(np.append(terms, errors)), x=x)
