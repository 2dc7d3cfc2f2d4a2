"""The search for good bounds: the program is solved once, and a list of strategies seeks what then lacks a proof.

If all constraints are linear, bounds are proven from points between the solver's and one in the relative interior of
the feasible set, and from multipliers between two as well. For ``A_0 x = b_0, A_1 x <= b_1`` the program

    ``maximize sum t_k, A_0 x = b_0 s, b_1 s - A_1 x >= t, 0 <= t <= 1, s >= 1`` [FRT1985]

yields that point ``x / s``: t_k is 0 for inequalities that hold with equality at every feasible point, and 1 for all
others. No bound rests on it: inequalities become equations, which leaves fewer points, or multipliers stay 0. Otherwise
the program is solved again with the cones moved inward in the rows that violate them, by as much.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from sdpmetric.arrays import LARGEST_VALUE, BoolArray, FloatArray
from sdpmetric.engine.lazy import cached
from sdpmetric.programs.canonical import Answer, ConeProgram, Cones, ConeSolver, Units, ask
from sdpmetric.programs.enclosure import DualEnclosure, EnclosureBound, PrimalEnclosure

WIDTH = 1e-7  # Relative width that ends a search
# Least moves of violated rows, in the order tried, of data of about 1.
SHIFTS = (1e-10, 1e-8, 1e-6, 1e-4)
LARGEST_SHIFT = 1e-3
# In the first solve with exponential or power cones: its points are outside by rounding.
FIRST_SHIFT = 1e-9
# Logarithms of the inner point's share in a mixture, and the precision of the bisection.
EXPONENTS = (-12.0, -10.5, -9.0, -7.5, -6.0, -4.5, -3.0, -1.5, 0.0)
PRECISION = 0.2
# Contradictions up to this prove nothing, as the numbers of a program are rounded when it is compiled.
SMALLEST_CONTRADICTION = 1e-12


class Contradiction(NamedTuple):
    """Why a program is infeasible: weights of its rows, and a point that violates them the least.

    The program stays infeasible if each right-hand side changes by less than `margin`.
    """

    margin: float
    weights: FloatArray
    point: FloatArray


@dataclass
class Interval:
    """The best bounds of a program so far, and what proves them.

    `program` is in units near 1; bounds, points and multipliers are in its own.
    """

    program: ConeProgram
    units: Units
    solver: ConeSolver
    lower: float = -math.inf
    upper: float = math.inf
    point: FloatArray | None = None
    multipliers: FloatArray | None = None
    contradiction: Contradiction | None = None
    direction: FloatArray | None = None  # Along it points of an unbounded program may be moved at a negative cost
    missed_lower: EnclosureBound | None = None  # The last bound that was not proven
    missed_upper: EnclosureBound | None = None
    remark: str = ""  # Why the solver gave no answer, or a contradiction is not proven
    estimate: float = math.nan  # of the optimum, by an answer with two objectives that agree

    @cached
    def primal(self) -> PrimalEnclosure:
        """The enclosure of points of the program."""
        return PrimalEnclosure.of(self.program)

    @cached
    def dual(self) -> DualEnclosure:
        """The enclosure of multipliers of the program."""
        return DualEnclosure.of(self.program)

    @property
    def width(self) -> float:
        """The relative width; infinite or not a number if an end is."""
        return (self.upper - self.lower) / max(1.0, min(abs(self.upper), LARGEST_VALUE))

    @property
    def is_wide(self) -> bool:
        """Whether to search on: nothing is decided, the bounds are not close to each other, and there is time."""
        is_decided = self.contradiction is not None or self.direction is not None
        return not is_decided and not self.width <= WIDTH and self.solver.remaining > 0.0

    def is_open(self, side: str) -> bool:
        """Return whether to search for a better bound on a side.

        If the bound of that side is at the estimated optimum up to a tenth of the width that ends a search, only the
        other side can be what keeps the interval wide. Without an estimate, NaN, both sides are open.
        """
        bound = self.upper if side == "upper" else self.lower
        is_at_optimum = abs(bound - self.estimate) <= 0.1 * WIDTH * max(1.0, abs(self.estimate))
        return self.is_wide and not is_at_optimum

    def above(self, answer: Answer, enclosure: PrimalEnclosure | None = None) -> EnclosureBound:
        """Improve the upper bound by a point."""
        bound = (enclosure or self.primal).bound(answer.x)
        value = self.units.value(bound.value, up=True)
        if value < self.upper and bound.solution is not None:
            self.upper, self.point = value, self.units.point(bound.solution)
        self.missed_upper = self.missed_upper if bound.obstacle is None else bound
        return bound

    def below(self, answer: Answer, enclosure: DualEnclosure | None = None) -> EnclosureBound:
        """Improve the lower bound by multipliers."""
        bound = (enclosure or self.dual).bound(answer.z)
        value = min(self.units.value(bound.value, up=False), self.upper)
        if value > self.lower and bound.solution is not None:
            self.lower, self.multipliers = value, self.units.dual(bound.solution)
        self.missed_lower = self.missed_lower if bound.obstacle is None else bound
        return bound

    def mix(self, improve: Callable[[Answer], EnclosureBound], outer: Answer, inner: Answer) -> None:
        """Improve a bound by answers between two, with about the smallest share of the inner one that proves any."""

        def proves(exponent: float) -> bool:
            x, z = (v + 10.0**exponent * (w - v) for v, w in ((outer.x, inner.x), (outer.z, inner.z)))
            return improve(Answer(x, z, "")).obstacle is None

        high = next((exponent for exponent in EXPONENTS if proves(exponent)), math.inf)
        low = max((exponent for exponent in EXPONENTS if exponent < high), default=high)
        while self.width > 0.1 * WIDTH and PRECISION < high - low < math.inf:
            exponent = 0.5 * (low + high)
            low, high = (low, exponent) if proves(exponent) else (exponent, high)


def search(program: ConeProgram, solver: ConeSolver, *, decides: bool = True) -> Interval:
    """Solve a program, and prove as much as the strategies do until the interval is narrow.

    Without `decides`, neither infeasible nor unbounded programs are proven to be so.
    """
    interval, cones = Interval(*program.equilibrated(), solver), program.cones
    shift = FIRST_SHIFT if (cones.exp or cones.power) and not cones.psd else 0.0
    answer = ask(interval.program, solver, shift, shift)
    if not isinstance(answer, Answer):
        interval.remark = answer
        answer = Answer(np.zeros(len(program.c)), np.zeros(cones.size), "")
    for strategy in STRATEGIES if decides else PROOFS:
        if interval.is_wide:
            strategy(interval, answer)
    return interval


# -- strategies -----------------------------------------------------------------------------------------------------


def _from_answer(interval: Interval, answer: Answer) -> None:
    """Enclose the solver's point and multipliers."""
    dual = -float(interval.program.b @ answer.z)
    if abs(float(interval.program.c @ answer.x) - dual) <= 0.1 * WIDTH * max(1.0, abs(dual)):
        interval.estimate = interval.units.value(dual, up=False)
    interval.above(answer)
    interval.below(answer)


def _from_status(interval: Interval, answer: Answer) -> None:
    """Prove that the program is infeasible or unbounded if the solver says so."""
    if "infeasible" in answer.status.lower():
        _from_nothing(interval, answer)


def _from_faces(interval: Interval, answer: Answer) -> None:
    """Mix with inner points of the faces of the feasible sets, primal and dual, if all constraints are linear."""
    program, solver = interval.program, interval.solver
    if program.cones.linear < program.cones.size:
        return
    if interval.is_open("upper") and (inside := _inner_point(program, solver)) is not None:
        face = PrimalEnclosure.of(program, ~inside[1])
        interval.mix(lambda between: interval.above(between, face), answer, Answer(inside[0], answer.z, ""))
    if interval.is_open("lower") and (inner := _inner_multipliers(program, solver)) is not None:
        enclosure = DualEnclosure.of(program, inner[1])
        interval.mix(lambda between: interval.below(between, enclosure), answer, Answer(answer.x, inner[0], ""))


def _from_moved_cones(interval: Interval, answer: Answer) -> None:
    """Solve with the cones of one side moved inward in violated rows, more until its bound is proven, and mix."""
    program, cones, no_move = interval.program, interval.program.cones, np.zeros(interval.program.cones.size)
    if cones.linear == cones.size:
        return
    guess = cones.exp > 0 or len(cones.power) > 0  # by how much points violate these cones is not known
    for side, missed in (("upper", interval.missed_upper), ("lower", interval.missed_lower)):
        lack, moves = no_move if missed is None else no_move + missed.missing, no_move
        for number, shift in enumerate(SHIFTS[guess:]):
            if not lack.any() or not interval.is_open(side):
                break
            rows = (lack > 0.0) | (number > 0) | guess  # once rows are moved, others may be violated
            size = np.clip(4.0 * np.maximum(lack, moves), shift, shift if guess else LARGEST_SHIFT)
            moves = np.where(rows, size, 0.0)
            inner = ask(program, interval.solver, *((moves, no_move) if side == "upper" else (no_move, moves)))
            if not isinstance(inner, Answer):
                lack = np.full(cones.size, shift)
                continue
            above, below = interval.above(inner), interval.below(inner)
            bound = above if side == "upper" else below
            if bound.obstacle is None:
                interval.mix(interval.above if side == "upper" else interval.below, answer, inner)
            if not np.any(bound.missing) or "infeasible" in inner.status.lower():
                break
            lack = np.maximum(lack, bound.missing)


def _from_nothing(interval: Interval, _: Answer) -> None:
    """Try to prove that the program is infeasible or unbounded, whatever the solver says."""
    if not math.isfinite(interval.width):
        _contradict(interval)
        _descend(interval)


# From the cheapest to what is tried last.
PROOFS = (_from_answer, _from_faces, _from_moved_cones)
STRATEGIES = (_from_answer, _from_status, _from_faces, _from_moved_cones, _from_nothing)


def _inner_point(program: ConeProgram, solver: ConeSolver) -> tuple[FloatArray, BoolArray] | None:
    """Return a point inside linear constraints, and the inequalities that it fulfils strictly; False for equations."""
    A, b, zero, (m, n) = program.A, program.b, program.cones.zero, program.A.shape
    count = m - zero
    unit, empty = sp.eye_array(count), sp.csr_array((count, n + 1))
    slacks = sp.hstack([A, -b[:, None], sp.vstack([sp.csr_array((zero, count)), unit])])
    scale = sp.csr_array(([-1.0], ([0], [n])), (1, n + 1 + count))
    homogeneous = ConeProgram(
        np.append(np.zeros(n + 1), -np.ones(count)),
        sp.csr_array(sp.vstack([slacks, sp.hstack([empty, unit]), sp.hstack([empty, -unit]), scale])),
        np.concatenate([np.zeros(m), np.ones(count), np.zeros(count), [-1.0]]),
        Cones(zero, 3 * count + 1),
    )
    answer = ask(homogeneous, solver)
    if not isinstance(answer, Answer) or answer.x[n] <= 0.5 or "infeasible" in answer.status.lower():
        return None
    return answer.x[:n] / answer.x[n], np.append(np.zeros(zero, dtype=bool), answer.x[n + 1 :] > 0.5)


def _inner_multipliers(program: ConeProgram, solver: ConeSolver) -> tuple[FloatArray, BoolArray] | None:
    """Return multipliers with ``A'z = -c``, and those that may be positive; True for equations."""
    (m, n), zero = program.A.shape, program.cones.zero
    signs = sp.csr_array((-np.ones(m - zero), (np.arange(m - zero), np.arange(zero, m))), (m - zero, m))
    A, b = sp.csr_array(sp.vstack([program.transposed, signs])), np.append(-program.c, np.zeros(m - zero))
    inside = _inner_point(ConeProgram(np.zeros(m), A, b, Cones(n, m - zero)), solver)
    return None if inside is None else (inside[0], np.append(np.ones(zero, dtype=bool), inside[1][n:]))


# -- decisions ------------------------------------------------------------------------------------------------------


def _contradict(interval: Interval) -> None:
    """Prove that the slacks need an addition of more than 0; if they need less than 0, the point is feasible."""
    if interval.upper < math.inf:
        return
    program, units, zero = interval.program, interval.units, interval.program.cones.zero
    relaxed, inside = search(_relaxed(program), interval.solver, decides=False), program.cones.interior
    if relaxed.point is None:
        return
    x, z = relaxed.point[:-1], relaxed.multipliers
    interval.above(Answer(x, np.zeros(0), ""))
    if relaxed.lower > SMALLEST_CONTRADICTION and z is not None:
        inner = np.concatenate([np.ones(zero), inside[zero:]]) > 0.0
        margin = float((relaxed.lower * units.size_b / units.rows[inner]).min(initial=np.inf))
        weights = units.dual(np.append(z[:zero] - z[zero : 2 * zero], z[2 * zero + 1 :]))
        interval.contradiction = Contradiction(margin, weights, units.point(x))
    elif relaxed.lower > 0.0:
        interval.remark = "the constraints contradict each other by no more than compilation rounds"


def _descend(interval: Interval) -> None:
    """Prove that every point may be moved in a direction of negative cost."""
    program, solver = interval.program, interval.solver
    if interval.lower > -math.inf:
        return
    if interval.upper == math.inf:
        feasible = search(replace(program, c=0.0 * program.c), solver, decides=False).point
        if feasible is not None:
            interval.above(Answer(feasible, np.zeros(0), ""))
    if interval.point is not None:
        rays = search(_rays(program), solver, decides=False)
        if rays.point is not None and rays.upper < -math.sqrt(SMALLEST_CONTRADICTION):
            interval.direction = interval.units.point(rays.point)


def _relaxed(program: ConeProgram) -> ConeProgram:
    """Return ``minimize t`` with ``b - Ax + t e`` in the cones, equations within t, and ``t >= -1``."""
    A, b, cones, zero, n = program.A, program.b, program.cones, program.cones.zero, program.A.shape[1]
    column = -np.concatenate([np.ones(2 * zero + 1), cones.interior[zero:]])
    rows = sp.vstack([A[:zero], -A[:zero], sp.csr_array((1, n)), A[zero:]])
    return ConeProgram(
        np.append(np.zeros(n), 1.0),
        sp.csr_array(sp.hstack([rows, column[:, None]])),
        np.concatenate([b[:zero], -b[:zero], [1.0], b[zero:]]),
        replace(cones, zero=0, nonneg=2 * zero + 1 + cones.nonneg),
    )


def _rays(program: ConeProgram) -> ConeProgram:
    """Return ``minimize c'd`` with ``-Ad`` in the cones and ``c'd >= -1``."""
    A, cones, zero = program.A, program.cones, program.cones.zero
    rows = sp.csr_array(sp.vstack([A[:zero], -program.c[None, :], A[zero:]]))
    rows.eliminate_zeros()
    b = (np.arange(rows.shape[0]) == zero) * 1.0
    return ConeProgram(program.c, rows, b, replace(cones, nonneg=cones.nonneg + 1))
