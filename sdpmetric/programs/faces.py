"""Points strictly inside a feasible set, and the constraints that no feasible point fulfils strictly.

An interior-point method without an objective ends near the center of the feasible set, where the slacks of inequalities
are larger than their multipliers, but for those that hold with equality throughout. More certain, and dearer, is

    ``maximize sum t_k, A_0 x = b_0 s, b_1 s - A_1 x >= t, 0 <= t <= 1, s >= 1`` [FRT1985],

for ``A_0 x = b_0`` and ``A_1 x <= b_1``: ``x / s`` is feasible, t_k is 0 for inequalities that hold with equality
throughout, and 1 for all others, which ``x / s`` fulfils strictly. No bound rests on that: inequalities become
equations, which leaves fewer points, or multipliers that are 0 are left out with their rows, which leaves more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from sdpmetric.arrays import BoolArray, FloatArray
from sdpmetric.programs.canonical import Answer, ConeProgram, Cones, Solver, ask


def inner_points(program: ConeProgram, solver: Solver) -> Iterator[tuple[FloatArray, BoolArray]]:
    """Points inside linear constraints, and the inequalities that they fulfil strictly; False for equations."""
    A, b, zero, (m, n) = program.A, program.b, program.cones.zero, program.A.shape
    solver, count = replace(solver, settings={}, tolerance=1e-8), m - zero
    center = ask(ConeProgram(sp.csr_array((n, n)), np.zeros(n), A, b, program.cones), solver)
    if isinstance(center, Answer):
        yield center.x, (b - A @ center.x > center.z) & (np.arange(m) >= zero)
    unit, empty = sp.eye_array(count), sp.csr_array((count, n + 1))
    slacks = sp.hstack([A, -b[:, None], sp.vstack([sp.csr_array((zero, count)), unit])])
    scale = sp.csr_array(([-1.0], ([0], [n])), (1, n + 1 + count))
    homogeneous = ConeProgram(
        sp.csr_array((n + 1 + count, n + 1 + count)),
        np.append(np.zeros(n + 1), -np.ones(count)),
        sp.csr_array(sp.vstack([slacks, sp.hstack([empty, unit]), sp.hstack([empty, -unit]), scale])),
        np.concatenate([np.zeros(m), np.ones(count), np.zeros(count), [-1.0]]),
        Cones(zero, 3 * count + 1),
    )
    answer = ask(homogeneous, solver)
    if isinstance(answer, Answer) and answer.x[n] > 0.5 and "infeasible" not in answer.status.lower():
        yield answer.x[:n] / answer.x[n], np.append(np.zeros(zero, dtype=bool), answer.x[n + 1 :] > 0.5)


def inner_multipliers(program: ConeProgram, solver: Solver) -> Iterator[tuple[Answer, BoolArray]]:
    """Multipliers z and slopes y with ``A'z + Py = -c``, and those that may be positive; True for equations."""
    (m, n), zero = program.A.shape, program.cones.zero
    curved = np.flatnonzero(np.diff(program.P.indptr))
    signs = sp.csr_array((-np.ones(m - zero), (np.arange(m - zero), np.arange(zero, m))), (m - zero, m + len(curved)))
    A = sp.csr_array(sp.vstack([sp.hstack([program.transposed, program.P[:, curved]]), signs]))
    b, size = np.append(-program.c, np.zeros(m - zero)), A.shape[1]
    dual = ConeProgram(sp.csr_array((size, size)), np.zeros(size), A, b, Cones(n, m - zero))
    for point, strict in inner_points(dual, solver):
        y = np.zeros(n)
        y[curved] = point[m:]
        yield Answer(y, point[:m], ""), np.append(np.ones(zero, dtype=bool), strict[n:])
