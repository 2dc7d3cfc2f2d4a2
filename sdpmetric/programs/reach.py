"""How long points of a program can be, as far as its constraints tell by interval arithmetic."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from sdpmetric.arrays import FloatArray
from sdpmetric.linalg.rigorous.directed import gamma
from sdpmetric.programs.canonical import ConeProgram, Cones

LARGEST = 1e100  # Ends beyond this count as none


def reach(program: ConeProgram, upper: float) -> FloatArray:
    """Floats not below the absolute values of any point whose objective is at most `upper`, given that P is PSD.

    Each row ``s = b - Ax`` is in an interval; so is each term of it, minus the others. Nothing is known if an
    entry is off by more than a small share of itself.
    """
    (m, n), radii = program.A.shape, program.radii
    A, A_radii, b, b_radii = program.A.copy(), radii.A, program.b, radii.b
    if np.isfinite(upper) and np.any(program.c):  # one more row, the objective
        A, A_radii = (sp.csr_array(sp.vstack([M, v[None, :]])) for M, v in ((A, program.c), (A_radii, radii.c)))
        b, b_radii = np.append(b, upper), np.append(b_radii, 0.0)
    A.eliminate_zeros()
    rows, columns, a = np.repeat(np.arange(len(b)), np.diff(A.indptr)), A.indices, A.data
    share = 0.0
    if A_radii.nnz:
        shares = sp.csr_array(A_radii.multiply(abs(A).power(-1)))
        share = float(shares.max()) if shares.nnz == A_radii.nnz else np.inf
        if share > 1e-6:
            return np.full(n, np.inf)
    low, high = np.full(n, -np.inf), np.full(n, np.inf)
    bottom, top = np.full(len(b), -np.inf), np.full(len(b), np.inf)
    bottom[m:] = 0.0
    g = gamma(float(np.diff(A.indptr).max(initial=0)) + 16.0)
    for _ in range(12):
        before = np.concatenate([low, high])
        limits = np.where(a > 0.0, low[columns], high[columns]), np.where(a > 0.0, high[columns], low[columns])
        minima, maxima = (a * np.where(np.isfinite(limit), limit, 0.0) for limit in limits)
        # The slack is at most b minus the minimum of Ax, and so on.
        sums = [np.bincount(rows, terms, len(b)) for terms in (minima, maxima)]
        sizes = [np.bincount(rows, np.abs(terms), len(b)) + np.abs(b) for terms in (minima, maxima)]
        unlimited = [np.bincount(rows, ~np.isfinite(limit), len(b)) for limit in limits]
        errors = [(g + 2.0 * share) * size + 1e-280 * (size > 0.0) + b_radii for size in sizes]
        top = np.minimum(top, np.where(unlimited[0] == 0, b - sums[0] + errors[0], np.inf))
        bottom = np.maximum(bottom, np.where(unlimited[1] == 0, b - sums[1] - errors[1], -np.inf))
        _narrow(program.cones, bottom[:m], top[:m])
        # a x = b - s - the other terms
        single = [unlimited[k][rows] - ~np.isfinite(limits[k]) == 0 for k in (0, 1)]
        slack = [np.where(np.isfinite(v), np.abs(v), 0.0) * g for v in (bottom, top)]
        above = b[rows] - bottom[rows] - (sums[0][rows] - minima) + 2.0 * errors[0][rows] + slack[0][rows]
        below = b[rows] - top[rows] - (sums[1][rows] - maxima) - 2.0 * errors[1][rows] - slack[1][rows]
        above, below = np.where(single[0], above, np.inf), np.where(single[1], below, -np.inf)
        first, last = np.where(a > 0.0, below, above) / a, np.where(a > 0.0, above, below) / a
        if share > 0.0:
            first, last = first - 4.0 * share * np.abs(first), last + 4.0 * share * np.abs(last)
        np.maximum.at(low, columns, np.nextafter(np.where(np.isfinite(first), first, -np.inf), -np.inf))
        np.minimum.at(high, columns, np.nextafter(np.where(np.isfinite(last), last, np.inf), np.inf))
        low[low < -LARGEST], high[high > LARGEST] = -np.inf, np.inf
        if np.array_equal(before, np.concatenate([low, high])):
            break
    return np.maximum(np.abs(low), np.abs(high))


def _narrow(cones: Cones, bottom: FloatArray, top: FloatArray) -> None:
    """Narrow intervals of slacks by what every point of the cones fulfils, in place."""
    top[: cones.zero] = np.minimum(top[: cones.zero], 0.0)
    (exp, power), signed = cones.threes, np.zeros(len(bottom), dtype=bool)
    signed[: cones.linear] = True
    signed[[rows.start for rows in cones.soc_blocks]] = True
    for first in (exp.start + 1, exp.start + 2):
        signed[first : exp.stop : 3] = True
    for first in (power.start, power.start + 1):
        signed[first : power.stop : 3] = True
    for rows in cones.psd_blocks:
        signed[rows] = cones.diagonal[rows]
    bottom[signed] = np.maximum(bottom[signed], 0.0)
    for rows in cones.soc_blocks:
        tail = slice(rows.start + 1, rows.stop)
        bottom[tail], top[tail] = np.maximum(bottom[tail], -top[rows.start]), np.minimum(top[tail], top[rows.start])
    for side, rows in zip(cones.psd, cones.psd_blocks, strict=True):
        (row, column), diagonal = np.tril_indices(side), cones.diagonal[rows]
        limits = top[rows][diagonal]
        limit = np.where(
            diagonal, np.inf, np.nextafter(limits[row] + limits[column], np.inf)
        )  # 2 |S_ij| <= S_ii + S_jj
        bottom[rows], top[rows] = np.maximum(bottom[rows], -limit), np.minimum(top[rows], limit)
