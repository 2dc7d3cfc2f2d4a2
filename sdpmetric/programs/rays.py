"""Farkas vectors in rational numbers: multipliers of constraints that no point satisfies, without any rounding."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from sdpmetric.arrays import FloatArray
from sdpmetric.linalg import exact
from sdpmetric.programs.canonical import ConeProgram

ZERO = 1e-7  # Multipliers below this share of the largest count as 0
LARGEST = 120  # Rows and columns of matrices in whole numbers
INTEGER = 1 << 53  # Up to which whole numbers are floats


def farkas(program: ConeProgram, z: FloatArray) -> FloatArray | None:
    """Multipliers near z with ``A'z = 0`` and ``b'z < 0`` exactly, in the dual cone; none of exponentials or powers.

    They are proven in fractions, and returned as whole numbers where these are floats, else rounded.
    """
    cones, support = program.cones, np.flatnonzero(np.abs(z) > ZERO * np.abs(z).max(initial=0.0))
    rows = program.A[support].tocsc()
    columns = np.flatnonzero(np.diff(rows.indptr) > 0)
    if program.uncertainty is not None or not 0 < len(support) <= LARGEST or len(columns) > LARGEST:
        return None
    if support[-1] >= cones.threes[0].start:
        return None
    basis = exact.null_space(exact.integers(rows[:, columns].toarray()).T) if len(columns) else np.eye(len(support))
    tops = [max(map(abs, column), default=1) for column in basis.T.tolist()]
    if not tops:
        return None
    units = [[Fraction(int(v), int(top)) for v, top in zip(row, tops, strict=True)] for row in basis.tolist()]
    shares = np.linalg.lstsq(np.array(units, dtype=np.float64), z[support], rcond=None)[0].tolist()
    ray = [Fraction(0)] * len(z)
    for row, k in zip(units, support.tolist(), strict=True):
        ray[k] = sum((Fraction(c) * v for c, v in zip(shares, row, strict=True)), Fraction(0))
    inside = all(v >= 0 for v in ray[cones.zero : cones.linear])
    for block in cones.soc_blocks:
        head, *tail = ray[block]
        inside &= head >= 0 and head**2 >= sum(v**2 for v in tail)
    inside &= all(_is_semidefinite(side, ray[block]) for side, block in zip(cones.psd, cones.psd_blocks, strict=True))
    price = sum((Fraction(b) * v for b, v in zip(program.b.tolist(), ray, strict=True)), Fraction(0))
    if not inside or price >= 0:
        return None
    common = math.lcm(*(v.denominator for v in ray))
    integers = [int(v * common) for v in ray] if common.bit_length() < 1000 else [INTEGER]
    return np.array(integers if max(map(abs, integers)) < INTEGER else ray, dtype=np.float64)


def annihilates(program: ConeProgram, z: FloatArray) -> bool:
    """Whether ``A'z = 0`` exactly."""
    total, A = [Fraction(0)] * program.A.shape[1], program.A.tocoo()
    for i, j, value in zip(A.row.tolist(), A.col.tolist(), A.data.tolist(), strict=True):
        total[j] += Fraction(value) * Fraction(float(z[i]))
    return not any(total)


def _is_semidefinite(side: int, entries: list[Fraction]) -> bool:
    """Whether a lower triangle is that of a positive semidefinite matrix, by elimination."""
    S = [[Fraction(0)] * side for _ in range(side)]
    for i, j, v in zip(*(index.tolist() for index in np.tril_indices(side)), entries, strict=True):
        S[i][j] = S[j][i] = v
    for k, row in enumerate(S):
        if row[k] < 0 or (row[k] == 0 and any(row)):
            return False
        for below in S[k + 1 :]:
            if below[k]:
                below[:] = [v - below[k] / row[k] * top for v, top in zip(below, row, strict=True)]
        S[k + 1 :] = [[Fraction(0)] * (k + 1) + below[k + 1 :] for below in S[k + 1 :]]
    return True
