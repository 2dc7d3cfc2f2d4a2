"""Points strictly inside a feasible set, and the constraints that no feasible point fulfils strictly.

For ``A_0 x = b_0`` and ``b_k - A_k x`` in the cones ``K_k``, with ``e_k`` inside ``K_k``, solve [FRT1985]

    ``maximize sum t_k, A_0 x = b_0 s, b_k s - A_k x - t_k e_k in K_k, 0 <= t_k <= 1, s >= 1``.

Then ``x / s`` is feasible, and strictly inside every cone with ``t_k > 0``. If all constraints are linear, t_k is 0 for
those that hold with equality throughout, and 1 for all others. No bound rests on that: these inequalities become
equations, which leaves fewer points, or multipliers that are 0 are left out with their rows, which leaves more.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from sdpmetric.arrays import FloatArray
from sdpmetric.programs.canonical import Answer, ConeProgram, Cones, Solver, ask


def interior(program: ConeProgram, solver: Solver) -> tuple[FloatArray, FloatArray] | None:
    """The point ``x / s`` and t of each row, 0 of equations; None if the solver fails."""
    A, b, cones = program.A, program.b, program.cones
    (m, n), linear, unit = A.shape, cones.linear, cones.interior
    count = int(cones.block[-1]) + 1 - cones.zero if m > cones.zero else 0
    rows = np.flatnonzero(unit)
    T = sp.csr_array((unit[rows], (rows, cones.block[rows] - cones.zero)), (m, count))
    slacks = sp.csr_array(sp.hstack([A, -b[:, None], T]))
    bounds = sp.hstack([sp.csr_array((2 * count, n + 1)), sp.vstack([sp.eye_array(count), -sp.eye_array(count)])])
    scale = sp.csr_array(([-1.0], ([0], [n])), (1, n + 1 + count))
    right = np.concatenate([np.zeros(linear), np.ones(count), np.zeros(count), [-1.0], np.zeros(m - linear)])
    homogeneous = ConeProgram(
        sp.csr_array((n + 1 + count, n + 1 + count)),
        np.append(np.zeros(n + 1), -np.ones(count)),
        sp.csr_array(sp.vstack([slacks[:linear], bounds, scale, slacks[linear:]])),
        right,
        replace(cones, nonneg=cones.nonneg + 2 * count + 1),
    )
    answer = ask(homogeneous, replace(solver, accurate=False, tolerance=1e-8))
    if not isinstance(answer, Answer) or not answer.x[n] > 0.5 or "infeasible" in answer.status.lower():
        return None
    return answer.x[:n] / answer.x[n], np.append(np.zeros(cones.zero), answer.x[n + 1 :])[cones.block]


def dual_interior(program: ConeProgram, solver: Solver) -> tuple[FloatArray, FloatArray, FloatArray] | None:
    """Multipliers z and y with ``A'z + Py = -c`` and z >= 0 where constraints are linear, and t of each multiplier."""
    (m, n), zero = program.A.shape, program.cones.zero
    curved = np.flatnonzero(np.diff(program.P.indptr))
    signs = sp.csr_array((-np.ones(m - zero), (np.arange(m - zero), np.arange(zero, m))), (m - zero, m + len(curved)))
    A = sp.csr_array(sp.vstack([sp.hstack([program.transposed, program.P[:, curved]]), signs]))
    b, size = np.append(-program.c, np.zeros(m - zero)), A.shape[1]
    dual = ConeProgram(sp.csr_array((size, size)), np.zeros(size), A, b, Cones(n, m - zero))
    found = interior(dual, solver)
    if found is None:
        return None
    y = np.zeros(n)
    y[curved] = found[0][m:]
    return found[0][:m], y, np.append(np.ones(zero), found[1][n:])
