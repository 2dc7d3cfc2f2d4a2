"""Points strictly inside a feasible set, and the constraints that no feasible point fulfils strictly.

For ``A_0 x = b_0`` and ``A_1 x <= b_1`` they are found by

    ``maximize sum t_k, A_0 x = b_0 s, b_1 s - A_1 x >= t, 0 <= t <= 1, s >= 1`` [FRT1985]:

``x / s`` is feasible, t_k is 0 for inequalities that hold with equality throughout, and 1 for all others, which
``x / s`` fulfils strictly. No bound rests on that: inequalities become equations, which leaves fewer points, or
multipliers that are 0 are left out with their rows, which leaves more.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from sdpmetric.arrays import BoolArray, FloatArray
from sdpmetric.programs.canonical import Answer, ConeProgram, Cones, Solver, ask


def inner_point(program: ConeProgram, solver: Solver) -> tuple[FloatArray, BoolArray] | None:
    """A point inside linear constraints, and the inequalities that it fulfils strictly; False for equations."""
    A, b, zero, (m, n) = program.A, program.b, program.cones.zero, program.A.shape
    count = m - zero
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
    answer = ask(homogeneous, replace(solver, tolerance=1e-8))
    if not isinstance(answer, Answer) or answer.x[n] <= 0.5 or "infeasible" in answer.status.lower():
        return None
    return answer.x[:n] / answer.x[n], np.append(np.zeros(zero, dtype=bool), answer.x[n + 1 :] > 0.5)


def inner_multipliers(program: ConeProgram, solver: Solver) -> tuple[Answer, BoolArray] | None:
    """Multipliers z and slopes y with ``A'z + Py = -c``, and those that may be positive; True for equations."""
    (m, n), zero = program.A.shape, program.cones.zero
    curved = np.flatnonzero(np.diff(program.P.indptr))
    signs = sp.csr_array((-np.ones(m - zero), (np.arange(m - zero), np.arange(zero, m))), (m - zero, m + len(curved)))
    A = sp.csr_array(sp.vstack([sp.hstack([program.transposed, program.P[:, curved]]), signs]))
    b, size = np.append(-program.c, np.zeros(m - zero)), A.shape[1]
    inside = inner_point(ConeProgram(sp.csr_array((size, size)), np.zeros(size), A, b, Cones(n, m - zero)), solver)
    if inside is None:
        return None
    (point, strict), y = inside, np.zeros(n)
    y[curved] = point[m:]
    return Answer(y, point[:m], ""), np.append(np.ones(zero, dtype=bool), strict[n:])
