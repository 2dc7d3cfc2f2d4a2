"""The search for good bounds: the program is solved once, and a list of strategies seeks what then lacks a proof.

If all constraints are linear, a point in the relative interior of the feasible set is computed, and multipliers
likewise; bounds are proven from points between these and the solver's. Otherwise the program is solved again
with the cones moved inward in the rows whose bound is not feasible, by as much as they violate it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from sdpmetric.arrays import FloatArray
from sdpmetric.engine.cached import cached
from sdpmetric.programs.canonical import Answer, ConeProgram, Solver, Units, ask
from sdpmetric.programs.enclosure import Bound, DualEnclosure, PrimalEnclosure
from sdpmetric.programs.faces import inner_multipliers, inner_point

WIDTH = 1e-7  # The relative width at which a search ends
# Least moves of violated rows, in the order tried, in units in which the data are about 1.
SHIFTS = (1e-10, 1e-8, 1e-6, 1e-4)
LARGEST_SHIFT = 1e-3
# In the first solve with exponential or power cones, whose points are outside by rounding.
FIRST_SHIFT = 1e-9
# Logarithms of the inner point's share in a mixture, and the precision to which the best one is bisected.
EXPONENTS = (-12.0, -10.5, -9.0, -7.5, -6.0, -4.5, -3.0, -1.5, 0.0)
PRECISION = 0.2
# Contradictions up to this prove nothing, as the numbers of a program are rounded when it is compiled.
ROUNDING = 1e-12


@dataclass
class Interval:
    """The best bounds of a program so far, and what proves them.

    `program` is in units near 1; bounds, points and multipliers are in its own.
    """

    program: ConeProgram
    units: Units
    solver: Solver
    lower: float = -math.inf
    upper: float = math.inf
    point: FloatArray | None = None
    multipliers: FloatArray | None = None
    direction: FloatArray | None = None  # In which the program is unbounded
    margin: float | None = None  # By how much each right-hand side may change without making the program feasible
    # A point that violates the constraints of an infeasible program the least, or one in an unbounded direction.
    nearest: FloatArray | None = None
    missed_lower: Bound | None = None  # The last bound that was not proven
    missed_upper: Bound | None = None
    remark: str = ""  # Why the solver gave no answer, or a contradiction is not proven
    estimate: float = math.nan  # Of the optimum, by an answer whose two objectives agree

    @cached
    def primal(self) -> PrimalEnclosure:
        """What encloses points of the program."""
        return PrimalEnclosure.of(self.program)

    @cached
    def dual(self) -> DualEnclosure:
        """What encloses multipliers of the program."""
        return DualEnclosure.of(self.program)

    @property
    def is_decided(self) -> bool:
        """Whether the program is proven to be infeasible or unbounded."""
        return self.lower == math.inf or self.upper == -math.inf

    @property
    def width(self) -> float:
        """The relative width; infinite or not a number if an end is."""
        return (self.upper - self.lower) / max(1.0, min(abs(self.upper), 1e300))

    @property
    def is_wide(self) -> bool:
        """Whether to search on: neither are the bounds close to each other, nor is the time over."""
        return not self.is_decided and not self.width <= WIDTH and self.solver.remaining > 0.0

    def is_open(self, value: float) -> bool:
        """Whether to search for a better bound than this one: it may be far from the optimum."""
        return self.is_wide and not abs(value - self.estimate) <= 0.1 * WIDTH * max(1.0, abs(self.estimate))

    def above(self, enclosure: PrimalEnclosure, x: FloatArray) -> Bound:
        """Improve the upper bound by a point."""
        bound = enclosure.bound(x)
        value = self.units.value(bound.value, up=True)
        if value < self.upper and bound.x is not None:
            self.upper, self.point = value, self.units.point(bound.x)
        if bound.obstacle is not None:
            self.missed_upper = bound
        return bound

    def below(self, enclosure: DualEnclosure, z: FloatArray, y: FloatArray) -> Bound:
        """Improve the lower bound by multipliers and a slope."""
        bound = enclosure.bound(z, y)
        value = min(self.units.value(bound.value, up=False), self.upper)
        if value > self.lower and bound.z is not None:
            self.lower, self.multipliers = value, self.units.dual(self._widened(enclosure.program, bound.z))
        if bound.obstacle is not None:
            self.missed_lower = bound
        return bound

    def withdraw(self, remark: str) -> None:
        """Take back that the program is infeasible."""
        self.lower, self.multipliers, self.margin, self.remark = -math.inf, None, None, remark

    def _widened(self, program: ConeProgram, z: FloatArray) -> FloatArray:
        """Multipliers of a program of some rows as those of all rows."""
        if program.numbers is None:
            return z
        widened = np.zeros(self.program.cones.size)
        widened[program.numbers] = z
        return widened

    def mix_points(self, enclosure: PrimalEnclosure, outer: FloatArray, inner: FloatArray) -> None:
        """Improve the upper bound by points between two."""
        self._mix(lambda share: self.above(enclosure, outer + share * (inner - outer)))

    def mix_multipliers(self, enclosure: DualEnclosure, outer: Answer, inner: Answer) -> None:
        """Improve the lower bound by multipliers and slopes between those of two answers."""

        def bound(share: float) -> Bound:
            y, z = (v + share * (w - v) for v, w in ((outer.x, inner.x), (outer.z, inner.z)))
            return self.below(enclosure, z, y)

        self._mix(bound)

    def _mix(self, bound: Callable[[float], Bound]) -> None:
        """Find about the smallest share of the inner point at which a bound is proven."""
        low, high = EXPONENTS[0], math.inf
        for exponent in EXPONENTS:
            if bound(10.0**exponent).obstacle is None:
                high = exponent
                break
            low = exponent
        while self.width > 0.1 * WIDTH and PRECISION < high - low < math.inf:
            exponent = 0.5 * (low + high)
            low, high = (low, exponent) if bound(10.0**exponent).obstacle is None else (exponent, high)


def search(program: ConeProgram, solver: Solver, *, decides: bool = True) -> Interval:
    """Solve a program, and prove as much as the strategies do until the interval is narrow.

    Without `decides`, neither infeasible nor unbounded programs are proven to be so.
    """
    # Clarabel solves semidefinite programs better in their own units: 15 of 22 of SDPLIB were proven, 9 in others.
    cones = program.cones
    interval = Interval(*((program, Units.none(program)) if cones.psd else program.equilibrated()), solver)
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
    program, x, z = interval.program, answer.x, answer.z
    curved = 0.5 * float(x @ (program.P @ x))
    primal, dual = float(program.c @ x) + curved, -float(program.b @ z) - curved
    if abs(primal - dual) <= 0.1 * WIDTH * max(1.0, abs(dual)):
        interval.estimate = interval.units.value(dual, up=False)
    interval.above(interval.primal, x)
    interval.below(interval.dual, z, x)


def _from_status(interval: Interval, answer: Answer) -> None:
    """Prove that the program is infeasible or unbounded if the solver says so."""
    status = answer.status.lower()
    if "infeasible" in status and "dual" not in status:
        _contradict(interval)
    if "dual" in status or "unbounded" in status:
        _descend(interval)


def _from_faces(interval: Interval, answer: Answer) -> None:
    """Mix with inner points of the faces of the feasible sets, primal and dual, if all constraints are linear."""
    program, solver = interval.program, interval.solver
    zero, rows = program.cones.zero, np.arange(program.cones.size)
    if program.cones.linear < len(rows):
        return
    if interval.is_open(interval.upper) and (inside := inner_point(program, solver)) is not None:
        point, strict = inside
        face = program.of_rows(np.append(rows[~strict], rows[strict]), int(np.sum(~strict)))
        enclosure = PrimalEnclosure.of(face)
        interval.mix_points(enclosure, answer.x, point)
        if interval.is_open(interval.upper) and isinstance(vertex := ask(face, solver), Answer):
            interval.mix_points(enclosure, vertex.x, point)
    if interval.is_open(interval.lower) and (center := inner_multipliers(program, solver)) is not None:
        inner, positive = center
        outer, inner = (replace(v, z=v.z[rows[positive]]) for v in (answer, inner))
        interval.mix_multipliers(DualEnclosure.of(program.of_rows(rows[positive], zero)), outer, inner)


def _from_moved_cones(interval: Interval, answer: Answer) -> None:
    """Solve with cones moved inward in violated rows, both sides at once and then each alone, and mix."""
    cones, missing = interval.program.cones, dict[str, FloatArray]()
    if cones.linear == cones.size:
        return
    for side, missed in (("upper", interval.missed_upper), ("lower", interval.missed_lower)):
        if missed is not None and np.any(missed.missing):
            missing[side] = np.zeros(cones.size) + missed.missing
    if len(missing) == 2:
        _move_inward(interval, answer, missing, 1)
    for side, lack in missing.items():
        _move_inward(interval, answer, {side: lack}, len(SHIFTS))


def _move_inward(interval: Interval, answer: Answer, missing: dict[str, FloatArray], count: int) -> None:
    """Solve with the cones of open sides moved inward, and move them more until their bounds are proven."""
    program, cones = interval.program, interval.program.cones
    guess = cones.exp > 0 or len(cones.power) > 0  # by how much points violate these cones is not known
    ends = {"upper": interval.upper, "lower": interval.lower}
    missing = {side: lack for side, lack in missing.items() if interval.is_open(ends[side])}
    moves = {"upper": np.zeros(cones.size), "lower": np.zeros(cones.size)} | missing
    for number, shift in enumerate(SHIFTS[guess:][:count]):
        if not missing or interval.solver.remaining <= 0.0:
            return
        largest = shift if guess else LARGEST_SHIFT
        for side, lack in missing.items():
            rows = (lack > 0.0) | (number > 0) | guess  # once rows are moved, others may be violated
            moves[side] = np.where(rows, np.clip(4.0 * np.maximum(lack, moves[side]), shift, largest), 0.0)
        inner = ask(program, interval.solver, *(moves[k] if k in missing else 0.0 for k in ("upper", "lower")))
        if not isinstance(inner, Answer):
            missing = {side: np.full(cones.size, shift) for side in missing}
            continue
        bounds = {
            "upper": interval.above(interval.primal, inner.x),
            "lower": interval.below(interval.dual, inner.z, inner.x),
        }
        for side in list(missing):
            if bounds[side].obstacle is None:
                if side == "upper":
                    interval.mix_points(interval.primal, answer.x, inner.x)
                else:
                    interval.mix_multipliers(interval.dual, answer, inner)
            missing[side] = np.maximum(missing[side], bounds[side].missing)
            if not np.any(bounds[side].missing) or "infeasible" in inner.status.lower():
                del missing[side]


def _from_nothing(interval: Interval, _: Answer) -> None:
    """Try to prove that the program is infeasible or unbounded, whatever the solver says."""
    if not math.isfinite(interval.width):
        _contradict(interval)
        _descend(interval)


# From the cheapest to what is tried last.
PROOFS = (_from_answer, _from_faces, _from_moved_cones)
STRATEGIES = (_from_answer, _from_status, _from_faces, _from_moved_cones, _from_nothing)


# -- decisions ------------------------------------------------------------------------------------------------------


def _contradict(interval: Interval) -> None:
    """Prove that more than nothing has to be added to the slacks; the multipliers are a Farkas vector.

    If less than nothing has, the point is feasible.
    """
    if interval.upper < math.inf:
        return
    program, units, zero = interval.program, interval.units, interval.program.cones.zero
    found, inside = search(_relaxed(program), interval.solver, decides=False), program.cones.interior
    if found.point is not None:
        interval.above(interval.primal, found.point[:-1])
        interval.nearest = units.point(found.point[:-1])
    if found.lower > ROUNDING and found.multipliers is not None:
        inner, z = np.concatenate([np.ones(zero), inside[zero:]]) > 0.0, found.multipliers
        interval.margin = float(np.ldexp(found.lower, units.size_b - units.rows[inner]).min(initial=np.inf))
        z = np.append(z[:zero] - z[zero : 2 * zero], z[2 * zero + 1 :])
        interval.lower, interval.multipliers = math.inf, units.dual(z)
    elif found.lower > 0.0:
        interval.remark = "the constraints contradict each other by no more than compilation rounds"


def _descend(interval: Interval) -> None:
    """Prove that a direction in which every point may be moved has a negative cost."""
    program, solver = interval.program, interval.solver
    if interval.lower > -math.inf:
        return
    if interval.upper == math.inf:
        feasible = search(_without_objective(program), solver, decides=False)
        if feasible.point is not None:
            interval.above(interval.primal, feasible.point)
    if interval.upper < math.inf:
        found = search(_rays(program), solver, decides=False)
        if found.point is not None and found.upper < -math.sqrt(ROUNDING):
            interval.direction = interval.units.point(found.point)
            interval.nearest = None if interval.point is None else interval.point + interval.direction
            interval.upper, interval.point = -math.inf, None


def _without_objective(program: ConeProgram) -> ConeProgram:
    return replace(program, c=0.0 * program.c, P=sp.csr_array(program.P.shape))


def _relaxed(program: ConeProgram) -> ConeProgram:
    """``minimize t`` with ``b - Ax + t e`` in the cones, equations within t, and ``t >= -1``."""
    A, b, cones, zero, n = program.A, program.b, program.cones, program.cones.zero, program.A.shape[1]
    column = -np.concatenate([np.ones(2 * zero + 1), cones.interior[zero:]])
    rows = sp.vstack([A[:zero], -A[:zero], sp.csr_array((1, n)), A[zero:]])
    return ConeProgram(
        sp.csr_array((n + 1, n + 1)),
        np.append(np.zeros(n), 1.0),
        sp.csr_array(sp.hstack([rows, column[:, None]])),
        np.concatenate([b[:zero], -b[:zero], [1.0], b[zero:]]),
        replace(cones, zero=0, nonneg=2 * zero + 1 + cones.nonneg),
    )


def _rays(program: ConeProgram) -> ConeProgram:
    """``minimize c'd`` with ``-Ad`` in the cones, ``Pd = 0`` and ``c'd >= -1``."""
    cones, zero, bent = program.cones, program.cones.zero, program.curved
    A = sp.csr_array(sp.vstack([program.P[bent], program.A[:zero], -program.c[None, :], program.A[zero:]]))
    A.eliminate_zeros()
    b, zero = np.zeros(A.shape[0]), zero + int(bent.sum())
    b[zero] = 1.0
    cones = replace(cones, zero=zero, nonneg=cones.nonneg + 1)
    return ConeProgram(sp.csr_array(program.P.shape), program.c, A, b, cones)
