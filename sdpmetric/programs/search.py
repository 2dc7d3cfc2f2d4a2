"""The search for good bounds: the program itself is solved first; cones are moved only where something is lacking."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from sdpmetric.arrays import FloatArray
from sdpmetric.engine.interface import remaining
from sdpmetric.programs.canonical import Answer, ConeProgram, Data, Solver, Units, ask
from sdpmetric.programs.enclosure import Bound, curvature, lower_bound, upper_bound
from sdpmetric.programs.rays import farkas
from sdpmetric.programs.reach import reach

# How far cones are moved inward at least, one after another, where rows lack something; and at most.
SHIFTS, LARGEST_SHIFT = (1e-10, 1e-8, 1e-6, 1e-4), 1e-3
# The relative width that is enough, after how many solves both ends need only be finite, and the width that is better
# where it costs no solve.
ENOUGH, ENOUGH_STEPS, TIGHT = 1e-6, 3, 1e-8
LARGEST = 1e300
# Solves after which a side is given up whose rows do not lack less and less.
HOPE = 2
# Points between two: the logarithm of the smallest share of the second, and how many are tried.
SMALLEST_SHARE, MIXTURES = -9.0, 4
# Contradictions smaller than this, in units in which the data are about 1, are rounding where that is not bounded.
COMPILED = 1e-12


class Inside(NamedTuple):
    """Points, or multipliers with where the slope is taken and how they were moved, that are proven to be feasible."""

    points: list[tuple[FloatArray, FloatArray, bool]]
    multipliers: list[tuple[FloatArray, FloatArray, bool]]
    tried: list[Answer]  # With active inequalities as equations


@dataclass
class Search:
    """The best bounds of a program so far, and what proves them, in units of the program.

    `certain` is False where the radii of the program may not contain the program that was written.
    """

    program: ConeProgram
    solver: Solver
    certain: bool
    lower: float = -math.inf
    upper: float = math.inf
    point: FloatArray | None = None
    multipliers: FloatArray | None = None
    at: FloatArray | None = None  # Where the slope of the objective is taken, of these multipliers
    direction: FloatArray | None = None  # In which a program is unbounded
    margin: float | None = None  # By how much each right-hand side may change without making the program feasible
    why: dict[str, str] = field(default_factory=dict)
    status: str = ""
    hoped: float = math.nan  # What the multipliers of the first answer would prove

    @property
    def wide(self) -> bool:
        """Whether a narrower interval may be worth another solve."""
        return not self.width <= ENOUGH

    @property
    def width(self) -> float:
        """The relative width; infinite or not a number where an end is."""
        return (self.upper - self.lower) / max(1.0, min(abs(self.upper), LARGEST))

    @property
    def contradictory(self) -> bool:
        """Whether the program is proven to be infeasible or unbounded."""
        return self.lower == math.inf or self.upper == -math.inf

    def run(self, start: Answer | None, radius: float | None) -> bool:
        """Search in units near 1, and in the program's own; whether the lower bound rests on the radius."""
        scaled, units = self.program.equilibrated()
        each = [(scaled, units), (self.program, Units.none(self.program))]
        if len(self.program.cones.soc + self.program.cones.psd):
            each.reverse()  # their dimensions have units already
        for number, (program, own) in enumerate([*each, each[0]]):
            again = remaining() > 0.0 and not (len(each[0][0].cones.psd) == 0 and self.lower > -math.inf)
            if self.wide and not self.contradictory and (again or number == 0):
                self.solver = replace(self.solver, accurate=number < len(each))
                self._explore(program, own, start)
                start = None
        if radius is not None and self.lower == -math.inf and self.upper > -math.inf:
            far = np.nextafter(np.ldexp(radius, -(units.columns + units.size_b)), np.inf)
            return self._assume(scaled, units, far)
        return False

    def _explore(self, program: ConeProgram, units: Units, start: Answer | None) -> None:
        """Solve with cones moved by more and more where rows lack something, and mix with the answer without."""
        size = program.cones.size
        lacking, shifts = [np.zeros(size, dtype=bool), np.zeros(size, dtype=bool)], [np.zeros(size), np.zeros(size)]
        near, lists, least = start, Inside([], [], []), [math.inf, math.inf]
        hopeless = [False, False]
        for step in range(len(SHIFTS) + 1):
            both = self.lower == -math.inf and self.upper == math.inf and step > 0
            for use in ((1, 1), (0, 1), (1, 0)) if both else ((1, 1),):
                if (not self.wide or remaining() <= 0.0) and step > 0:
                    break
                if use != (1, 1) and not (self.lower == -math.inf if use[1] else self.upper == math.inf):
                    continue
                answer = start if step == 0 and start is not None else None
                if answer is None:
                    answer = self._asked(program, *(k * shift for k, shift in zip(use, shifts, strict=True)))
                if answer is None:
                    lacking = [np.ones(size, dtype=bool)] * 2
                    continue
                near = answer if near is None and step == 0 else near
                missing = self._improve(program, units, answer, lists)
                for k in (0, 1):
                    if use[k] and step > 0:
                        hopeless[k], least[k] = missing[k].max() > 0.5 * least[k], min(least[k], missing[k].max())
                    lacking[k] = lacking[k] | (missing[k] > 0.0) if use[k] else lacking[k]
                    shifts[k] = np.maximum(shifts[k], np.minimum(4.0 * missing[k], LARGEST_SHIFT) * use[k])
            if step > 0 and near is not None and self.width > TIGHT:
                self._mix(program, units, near, lists)
            open_sides = [hopeless[k] for k, end in enumerate((self.upper, -self.lower)) if end == math.inf]
            last = step == len(SHIFTS) or (step >= HOPE and bool(open_sides) and all(open_sides))
            if not self.wide or remaining() <= 0.0 or self._decided(program, units, step, last) or last:
                return
            for k, end in enumerate((self.upper, -self.lower)):
                if step > 0 and end == math.inf:  # other rows lack something where those that did are moved
                    lacking[k] = np.ones(size, dtype=bool)
            following = SHIFTS[min(step, len(SHIFTS) - 1)]
            shifts = [np.where(own, np.maximum(s, following), 0.0) for s, own in zip(shifts, lacking, strict=True)]
            if self.upper - self.lower < math.inf and step >= ENOUGH_STEPS:
                return

    def _mix(self, program: ConeProgram, units: Units, near: Answer, inside: Inside) -> None:
        """Points between an answer, nearly feasible, and those that are proven to be inside: as near as is proven."""
        for k, points in enumerate((inside.points, inside.multipliers)):
            end = (self.upper, self.lower)[k]
            if not points or abs(end - self.hoped) <= TIGHT * max(1.0, abs(self.hoped)):
                continue
            x, z, weighted = points[-1]
            first, last = SMALLEST_SHARE, 0.0  # logarithms of shares: not proven, and proven
            for _ in range(MIXTURES):
                middle = 0.5 * (first + last)
                share = 10.0**middle
                at = near.x + share * (x - near.x)
                if k == 0:
                    found = self._above(program, units, at)
                else:
                    found = self._lower(program, units, at, near.z + share * (z - near.z), weighted)
                first, last = (middle, last) if found.why else (first, middle)

    def _decided(self, program: ConeProgram, units: Units, step: int, last: bool) -> bool:
        """Whether the program is proven to be infeasible or unbounded; tried where a solver says so, and at the end."""
        says = self.status.lower()
        shift = SHIFTS[1] if step == 0 else SHIFTS[min(step, len(SHIFTS)) - 1]
        primal = "infeasible" in says and "dual" not in says
        if self.upper == math.inf and (primal or last) and self._infeasible(program, units, shift):
            return True
        if ("dual" in says or "unbounded" in says or last) and self.lower == -math.inf:
            if self.upper == math.inf:
                answer = ask(_without_objective(program), self.solver, shift, 0.0)
                if isinstance(answer, Answer):
                    self._above(program, units, answer.x)
            return self.upper < math.inf and self._unbounded(program, units, shift)
        return False

    def _asked(self, program: ConeProgram, primal: FloatArray, dual: FloatArray) -> Answer | None:
        answer = ask(program, self.solver, primal, dual)
        if not isinstance(answer, Answer):
            for side in ("lower", "upper"):
                self.why.setdefault(side, answer)
            return None
        if not primal.any() and not dual.any():
            self.status = answer.status
        return answer

    def _improve(self, program: ConeProgram, units: Units, answer: Answer, inside: Inside) -> list[FloatArray]:
        """Improve the bounds, and return what each row of slacks and of multipliers lacks."""
        zeros, x, z = np.zeros(program.cones.size), answer.x, answer.z
        if not self.wide:
            return [zeros, zeros]
        above = self._above(program, units, x)
        if above.x is None and not inside.tried:
            self._on_face(program, units, answer)
            inside.tried.append(answer)
        if above.x is not None:
            inside.points.append((above.x, z, False))
        hoped = units.value(-float(program.b @ z) - 0.5 * float(x @ (program.P @ x)), up=False)
        self.hoped = hoped if math.isnan(self.hoped) else self.hoped
        enough = hoped - 0.1 * ENOUGH * max(1.0, abs(hoped))
        below = self._lower(program, units, x, z, False)
        best, weighted = below, False
        if not units.value(below.value, up=False) >= enough:
            other = self._lower(program, units, x, z, True)
            best, weighted = (other, True) if other.value > below.value else (below, False)
        if best.x is not None and best.z is not None:
            inside.multipliers.append((best.x, best.z, weighted))
        if not units.value(best.value, up=False) >= enough:
            level = units.scaled(self.upper) if curvature(program.P, program.radii.P) == 0.0 else math.inf
            known = reach(program, level)
            if np.isfinite(known).any():
                self._lower(program, units, x, z, False, known)
            if not below.why:
                below = replace(below, missing=SHIFTS[0])
        return [zeros + above.missing, zeros + below.missing]

    def _above(self, program: ConeProgram, units: Units, x: FloatArray) -> Bound:
        found = upper_bound(program, x)
        value = units.value(found.value, up=True)
        if value < self.upper and found.x is not None:
            self.upper, self.point = value, units.point(found.x)
        self.why["upper"] = found.why or self.why.get("upper", "")
        return found

    def _on_face(self, program: ConeProgram, units: Units, answer: Answer) -> None:
        """An upper bound from points that fulfil active inequalities with equality, as those of a flat program must."""
        cones, slacks = program.cones, program.b - program.A @ answer.x
        rows = np.arange(cones.size)
        active = (rows >= cones.zero) & (rows < cones.linear) & (answer.z > np.abs(slacks))
        order = np.concatenate([rows[: cones.zero], rows[active], rows[cones.zero :][~active[cones.zero :]]])
        count = int(active.sum())
        face = replace(cones, zero=cones.zero + count, nonneg=cones.nonneg - count)
        off = program.off
        off = None if off is None else Data(off.P, off.c, off.A[order], off.b[order])
        flat = ConeProgram(program.P, program.c, program.A[order], program.b[order], face, off)
        self._above(flat, units, answer.x)

    def _lower(
        self,
        program: ConeProgram,
        units: Units,
        x: FloatArray,
        z: FloatArray,
        weighted: bool,
        known: FloatArray | None = None,
    ) -> Bound:
        found = lower_bound(program, z, x, np.full(len(x), np.inf) if known is None else known, weighted=weighted)
        value = min(units.value(found.value, up=False), self.upper)
        if value > self.lower and found.x is not None and found.z is not None:
            self.lower, self.multipliers, self.at = value, units.dual(found.z), units.point(found.x)
        self.why["lower"] = found.why or self.why.get("lower", "")
        return found

    def _assume(self, program: ConeProgram, units: Units, far: FloatArray) -> bool:
        """A lower bound if no variable is larger than it is known or assumed to be."""
        known = np.minimum(far, reach(program, math.inf))
        for shift in (0.0, *SHIFTS):
            answer = ask(program, self.solver, 0.0, shift)
            if isinstance(answer, Answer):
                value = units.value(lower_bound(program, answer.z, answer.x, known).value, up=False)
                self.lower = max(self.lower, min(self.upper, value))
        return self.lower > -math.inf

    def _infeasible(self, program: ConeProgram, units: Units, shift: float) -> bool:
        """Whether more than nothing has to be added to the slacks; its multipliers are a Farkas vector.

        Where less than nothing has, the point is feasible.
        """
        relaxed, zero = _relaxed(program), program.cones.zero
        answer, nowhere = ask(relaxed, self.solver, 0.0, shift), np.zeros(program.A.shape[1])
        if not isinstance(answer, Answer):
            return False
        self._above(program, units, answer.x[:-1])
        z = np.append(answer.z[:zero] - answer.z[zero : 2 * zero], answer.z[2 * zero + 1 :])
        known = np.full(len(answer.x), np.inf), reach(relaxed, math.inf)
        margin = max(lower_bound(relaxed, answer.z, answer.x, far).value for far in known)
        if margin <= 0.0 and (ray := farkas(program, z)) is not None:
            inside = np.concatenate([np.sign(ray[:zero]), program.cones.interior()[zero:]])
            margin, z = -float(program.b @ ray) / float(inside @ ray) * (1.0 - 1e-9), ray
        if margin <= (0.0 if self.certain else COMPILED):
            if margin > 0.0:
                self.why["upper"] = "a contradiction is as small as what compilation rounds"
            return False
        inner = np.concatenate([np.ones(zero), program.cones.interior()[zero:]]) > 0.0
        self.margin = float(np.ldexp(margin, units.size_b - units.rows[inner]).min(initial=np.inf))
        self.lower, self.multipliers, self.at = math.inf, units.dual(z), nowhere
        return True

    def _unbounded(self, program: ConeProgram, units: Units, shift: float) -> bool:
        """Whether a direction in which every point may be moved has a negative cost."""
        rays = _rays(program)
        answer = ask(rays, self.solver, shift, 0.0)
        if not isinstance(answer, Answer):
            return False
        found = upper_bound(rays, answer.x)
        if found.x is None or not found.value < (0.0 if self.certain else -math.sqrt(COMPILED)):
            return False
        self.upper, self.point, self.direction = -math.inf, None, units.point(found.x)
        return True


def _without_objective(program: ConeProgram) -> ConeProgram:
    return replace(program, c=0.0 * program.c, P=sp.csr_array(program.P.shape), off=None, proofs={})


def _relaxed(program: ConeProgram) -> ConeProgram:
    """``minimize t`` with ``b - Ax + t e`` in the cones, equations within t, and ``t >= -1``."""
    cones, zero, n = program.cones, program.cones.zero, program.A.shape[1]
    column = -np.concatenate([np.ones(2 * zero + 1), cones.interior()[zero:]])

    def data(of: Data, sign: float, last: FloatArray, one: float) -> Data:
        rows = sp.vstack([of.A[:zero], sign * of.A[:zero], sp.csr_array((1, n)), of.A[zero:]])
        A = sp.csr_array(sp.hstack([rows, last[:, None]]))
        b = np.concatenate([of.b[:zero], sign * of.b[:zero], [one], of.b[zero:]])
        return Data(sp.csr_array((n + 1, n + 1)), np.append(np.zeros(n), one), A, b)

    off = None if program.off is None else data(program.off, 1.0, 0.0 * column, 0.0)
    cones = replace(cones, zero=0, nonneg=2 * zero + 1 + cones.nonneg)
    return ConeProgram(*data(program.data, -1.0, column, 1.0), cones, off)


def _rays(program: ConeProgram) -> ConeProgram:
    """``minimize c'd`` with ``-Ad`` in the cones, ``Pd = 0`` and ``c'd >= -1``."""
    cones, zero = program.cones, program.cones.zero
    bent = np.diff(program.P.indptr) + np.diff(program.radii.P.indptr) > 0

    def data(of: Data, one: float) -> Data:
        A = sp.csr_array(sp.vstack([of.P[bent], of.A[:zero], -(2.0 * one - 1.0) * of.c[None, :], of.A[zero:]]))
        A.eliminate_zeros()
        b = np.zeros(A.shape[0])
        b[int(bent.sum()) + zero] = one
        return Data(sp.csr_array(of.P.shape), of.c, A, b)

    off = None if program.off is None else data(program.off, 0.0)
    cones = replace(cones, zero=zero + int(bent.sum()), nonneg=cones.nonneg + 1)
    return ConeProgram(*data(program.data, 1.0), cones, off)
