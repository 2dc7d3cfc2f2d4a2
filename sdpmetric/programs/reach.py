"""How long points of a program can be, as far as its constraints tell by interval arithmetic."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from sdpmetric.arrays import FloatArray
from sdpmetric.linalg.rigorous import gamma
from sdpmetric.programs.canonical import ConeProgram, Cones

PASSES = 12
# Ends beyond this count as none; coefficients may be off by this share of themselves.
LARGEST, SHARE = 1e100, 1e-6


def reach(program: ConeProgram, upper: float) -> FloatArray:
    """Floats not below the absolute values of any point whose objective is at most `upper`, given that P is PSD.

    Each row ``s = b - Ax`` is in an interval; so is each term of it, minus the others. Nothing is known if an
    entry is off by more than a small share of itself.
    """
    m, n = program.A.shape
    cut, radii = np.isfinite(upper) and np.any(program.c), program.radii
    A = sp.vstack([program.A, program.c[None, :]]).tocsr() if cut else program.A.copy()
    A.eliminate_zeros()
    b, b_off = (np.append(program.b, upper), np.append(radii.b, 0.0)) if cut else (program.b, radii.b)
    rows, columns, a = np.repeat(np.arange(len(b)), np.diff(A.indptr)), A.indices, A.data
    A_off = sp.vstack([radii.A, radii.c[None, :]]).tocsr() if cut else radii.A
    share = 0.0
    if A_off.nnz:
        shares = sp.csr_array(A_off.multiply(abs(A).power(-1)))
        share = float(shares.max()) if shares.nnz == A_off.nnz else np.inf
        if share > SHARE:
            return np.full(n, np.inf)
    low, high = np.full(n, -np.inf), np.full(n, np.inf)
    bottom, top = np.full(len(b), -np.inf), np.full(len(b), np.inf)
    bottom[m:] = 0.0
    g = gamma(float(np.diff(A.indptr).max(initial=0)) + 16.0)
    for _ in range(PASSES):
        before = np.concatenate([low, high])
        ends = np.where(a > 0.0, low[columns], high[columns]), np.where(a > 0.0, high[columns], low[columns])
        least, most = (a * np.where(np.isfinite(end), end, 0.0) for end in ends)
        # The slack is at most b minus the least that Ax can be, and so on.
        sums = [np.bincount(rows, part, len(b)) for part in (least, most)]
        sizes = [np.bincount(rows, np.abs(part), len(b)) for part in (least, most)]
        open_ends = [np.bincount(rows, ~np.isfinite(end), len(b)) for end in ends]
        errors = [(g + 2.0 * share) * (size + np.abs(b)) + 1e-280 * (size + np.abs(b) > 0.0) + b_off for size in sizes]
        top = np.minimum(top, np.where(open_ends[0] == 0, b - sums[0] + errors[0], np.inf))
        bottom = np.maximum(bottom, np.where(open_ends[1] == 0, b - sums[1] - errors[1], -np.inf))
        _cones(program.cones, bottom[:m], top[:m])
        # a x = b - s - the others
        alone = [open_ends[k][rows] - ~np.isfinite(ends[k]) == 0 for k in (0, 1)]
        slack = [np.where(np.isfinite(v), np.abs(v), 0.0) * g for v in (bottom, top)]
        above = b[rows] - bottom[rows] - (sums[0][rows] - least) + 2.0 * errors[0][rows] + slack[0][rows]
        below = b[rows] - top[rows] - (sums[1][rows] - most) - 2.0 * errors[1][rows] - slack[1][rows]
        above, below = np.where(alone[0], above, np.inf), np.where(alone[1], below, -np.inf)
        first, last = np.where(a > 0.0, below, above) / a, np.where(a > 0.0, above, below) / a
        if share > 0.0:
            first, last = first - 4.0 * share * np.abs(first), last + 4.0 * share * np.abs(last)
        np.maximum.at(low, columns, np.nextafter(np.where(np.isfinite(first), first, -np.inf), -np.inf))
        np.minimum.at(high, columns, np.nextafter(np.where(np.isfinite(last), last, np.inf), np.inf))
        low[low < -LARGEST], high[high > LARGEST] = -np.inf, np.inf
        if np.array_equal(before, np.concatenate([low, high])):
            break
    return np.maximum(np.abs(low), np.abs(high))


def _cones(cones: Cones, bottom: FloatArray, top: FloatArray) -> None:
    """Narrow intervals of slacks by what every point of the cones fulfils, in place."""
    bottom[: cones.zero] = np.maximum(bottom[: cones.zero], 0.0)
    top[: cones.zero] = np.minimum(top[: cones.zero], 0.0)
    heads = np.array([rows.start for rows in cones.soc_blocks], dtype=np.int64)
    exp, power = cones.threes
    for some in (slice(cones.zero, cones.linear), heads):
        bottom[some] = np.maximum(bottom[some], 0.0)
    for rows, signed in ((exp, (1, 2)), (power, (0, 1))):
        for k in signed:
            some = slice(rows.start + k, rows.stop, 3)
            bottom[some] = np.maximum(bottom[some], 0.0)
    for rows in cones.soc_blocks:
        tail = slice(rows.start + 1, rows.stop)
        bottom[tail], top[tail] = np.maximum(bottom[tail], -top[rows.start]), np.minimum(top[tail], top[rows.start])
    for side, rows in zip(cones.psd, cones.psd_blocks, strict=True):
        row, column = np.tril_indices(side)
        diagonal = row == column
        bottom[rows] = np.where(diagonal, np.maximum(bottom[rows], 0.0), bottom[rows])
        ends = top[rows][diagonal]
        most = np.nextafter(ends[row] + ends[column], np.inf)  # 2 |S_ij| <= S_ii + S_jj
        bottom[rows] = np.where(diagonal, bottom[rows], np.maximum(bottom[rows], -most))
        top[rows] = np.where(diagonal, top[rows], np.minimum(top[rows], most))
