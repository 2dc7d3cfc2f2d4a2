"""The search for good bounds: the program itself is solved first, and what then lacks a proof is solved with margins.

If all constraints are linear, a point in the relative interior of the feasible set is computed, and multipliers
likewise; bounds are proven from points between these and the solver's. Otherwise the program is solved again
with the cones moved inward in the rows whose bound is not feasible, by as much as they violate it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import scipy.sparse as sp

from sdpmetric.arrays import FloatArray, LongArray
from sdpmetric.programs.canonical import ACCURATE, CAUTIOUS, Answer, ConeProgram, Data, Solver, Units, ask
from sdpmetric.programs.enclosure import Bound, curvature, lower_bound, upper_bound
from sdpmetric.programs.faces import inner_multipliers, inner_point
from sdpmetric.programs.rational import farkas
from sdpmetric.programs.reach import reach


@dataclass(frozen=True)
class SearchOptions:
    """When a search ends, and by how much cones are moved, in units in which the data are about 1."""

    width: float = 1e-6  # The relative width at which a search ends
    small_width: float = 1e-8  # With semidefinite cones and up to 50 variables, where a solve is cheap
    matrix_width: float = 1e-7  # With semidefinite cones and more variables
    poor_width: float = 1e-4  # A larger one is worth a search in other units
    shifts: tuple[float, ...] = (1e-10, 1e-8, 1e-6, 1e-4)  # Least moves of violated rows, in the order tried
    # In the first solve with exponential or power cones, whose points are outside by rounding.
    first_shift: float = 1e-9
    largest_shift: float = 1e-3
    # Logarithms of the inner point's share in a mixture.
    exponents: tuple[float, ...] = (-9.0, -7.5, -6.0, -4.5, -3.0, -1.5, 0.0)
    precision: float = 0.2  # To which the best exponent is bisected
    rounding: float = 1e-12  # Contradictions up to this prove nothing where compilation rounds by an unknown amount


OPTIONS = SearchOptions()


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
    direction: FloatArray | None = None  # In which a program is unbounded
    margin: float | None = None  # By how much each right-hand side may change without making the program feasible
    reasons: dict[str, str] = field(default_factory=dict)
    status: str = ""
    estimate: float = math.nan  # Of the optimum, by the first answer whose two objectives agree

    @property
    def width(self) -> float:
        """The relative width; infinite or not a number where an end is."""
        return (self.upper - self.lower) / max(1.0, min(abs(self.upper), 1e300))

    @property
    def target(self) -> float:
        """The relative width that is enough."""
        if not self.program.cones.psd:
            return OPTIONS.width
        return OPTIONS.small_width if self.program.A.shape[1] <= 50 else OPTIONS.matrix_width

    @property
    def wide(self) -> bool:
        """Whether a narrower interval may be worth another solve."""
        contradictory = self.lower == math.inf or self.upper == -math.inf
        return not contradictory and not self.width <= self.target

    def run(self) -> None:
        """Search in units near 1, and in the program's own."""
        scaled, units = self.program.equilibrated()
        unscaled, matrices = (self.program, Units.none(self.program)), bool(self.program.cones.psd)
        second = ACCURATE if matrices else {}
        attempts = [(scaled, units, {}), (*unscaled, second), (scaled, units, ACCURATE)]
        attempts += [(*unscaled, {}), (*unscaled, CAUTIOUS)]
        for number, (program, scale, settings) in enumerate(attempts if matrices else attempts[:3]):
            poor = matrices or self.lower == -math.inf or OPTIONS.poor_width < self.width < math.inf
            if self.wide and ((poor and self.solver.remaining > 0.0) or number == 0):
                self.solver = replace(self.solver, settings=settings)
                self._explore(program, scale)
        if self.wide and not math.isfinite(self.width) and self.solver.remaining > 0.0:
            self._decide(scaled, units, "infeasible, unbounded")

    def _open(self, side: str) -> bool:
        """Whether to search for a better bound on this side: it may be far from the optimum."""
        value = self.upper if side == "upper" else self.lower
        close = abs(value - self.estimate) <= 0.1 * self.target * max(1.0, abs(self.estimate))
        return self.wide and not close and self.solver.remaining > 0.0

    def _explore(self, program: ConeProgram, units: Units) -> None:
        """The bounds of one answer, then of answers with margins."""
        cones = program.cones
        shift = OPTIONS.first_shift if (cones.exp or cones.power) and not cones.psd else 0.0
        answer, self.estimate = ask(program, self.solver, shift, shift), math.nan
        if not isinstance(answer, Answer):
            for side in ("lower", "upper"):
                self.reasons.setdefault(side, answer)
            return
        self.status, linear = answer.status, cones.linear == cones.size
        above, below = self._bounds(program, units, answer)
        if self._open("lower") and (linear or cones.psd):
            self._use_box(program, units, answer)
        self._decide(program, units, answer.status.lower())
        if linear:
            self._use_faces(program, units, answer)
        else:
            bounds = {side: b for side, b in (("upper", above), ("lower", below)) if self._open(side)}
            if len(bounds) == 2:
                self._move_inward(program, units, answer, bounds, 1)
            for side, bound in bounds.items():
                if self._open(side):
                    self._move_inward(program, units, answer, {side: bound}, len(OPTIONS.shifts))
        if self.lower == -math.inf and self._open("lower"):
            self._use_box(program, units, answer)  # once more, as points of a better objective may be shorter

    def _bounds(self, program: ConeProgram, units: Units, answer: Answer) -> tuple[Bound, Bound]:
        """The upper and the lower bound of one answer."""
        x, z = answer.x, answer.z
        above = self._above(program, units, x)
        if math.isnan(self.estimate):
            curved = 0.5 * float(x @ (program.P @ x))
            primal, dual = float(program.c @ x) + curved, -float(program.b @ z) - curved
            if abs(primal - dual) <= 0.1 * self.target * max(1.0, abs(dual)):
                self.estimate = units.value(dual, up=False)
        return above, self._below(program, units, answer)

    def _use_box(self, program: ConeProgram, units: Units, answer: Answer) -> None:
        """A lower bound from how long points can be."""
        level = units.scaled(self.upper) if curvature(program.P, program.radii.P) == 0.0 else math.inf
        box = reach(program, level)
        if np.isfinite(box).any():
            self._below(program, units, answer, box=box)

    def _use_active_set(self, program: ConeProgram, units: Units, answer: Answer) -> None:
        """Bounds by an active set: inequalities with multipliers above their slacks are equations, others dropped."""
        zero, rows = program.cones.zero, np.arange(program.cones.linear)
        active = (answer.z > program.b - program.A @ answer.x)[rows] | (rows < zero)
        if self._open("upper"):
            equations = np.append(rows[active], rows[~active])
            self._above(program.of_rows(equations, int(np.sum(active))), units, answer.x)
        if self._open("lower"):
            used = np.append(rows[active], np.arange(program.cones.linear, program.cones.size))
            self._below(program.of_rows(rows[active], zero), units, replace(answer, z=answer.z[used]), rows=used)

    def _use_faces(self, program: ConeProgram, units: Units, answer: Answer) -> None:
        """Bounds on the faces of the feasible sets of linear constraints, primal and dual."""
        self._use_active_set(program, units, answer)
        zero, rows = program.cones.zero, np.arange(program.cones.size)
        if self._open("upper") and (inside := inner_point(program, self.solver)) is not None:
            point, strict = inside
            face = program.of_rows(np.append(rows[~strict], rows[strict]), int(np.sum(~strict)))
            self._mix_points(face, units, answer.x, point)
            if self._open("upper") and isinstance(vertex := ask(face, self.solver), Answer):
                self._mix_points(face, units, vertex.x, point)
        if self._open("lower") and (center := inner_multipliers(program, self.solver)) is not None:
            inner, positive = center
            used = rows[positive]
            outer, inner = (replace(v, z=v.z[used]) for v in (answer, inner))
            self._mix_multipliers(program.of_rows(used, zero), units, outer, inner, used)

    def _move_inward(
        self, program: ConeProgram, units: Units, answer: Answer, bounds: dict[str, Bound], count: int
    ) -> None:
        """Solve a few times with cones moved inward in violated rows, and mix with the answer of the unmoved cones."""
        size, cones = program.cones.size, program.cones
        guess = cones.exp > 0 or len(cones.power) > 0  # by how much points violate these cones is not known
        missing = {side: np.zeros(size) + bound.missing for side, bound in bounds.items() if np.any(bound.missing)}
        moves = dict(missing)
        for number, shift in enumerate(OPTIONS.shifts[guess:][:count]):
            largest = shift if guess else OPTIONS.largest_shift
            for side, lack in missing.items():
                rows = (lack > 0.0) | (number > 0) | guess  # once rows are moved, others may be violated
                moves[side] = np.where(rows, np.clip(4.0 * np.maximum(lack, moves[side]), shift, largest), 0.0)
            inner = ask(program, self.solver, *(moves[k] if k in missing else 0.0 for k in ("upper", "lower")))
            if not isinstance(inner, Answer):
                missing = {side: np.full(size, shift) for side in missing}
                continue
            above, below = self._bounds(program, units, inner)
            for side in list(missing):
                bound = above if side == "upper" else below
                if not bound.why and side == "upper":
                    self._mix_points(program, units, answer.x, inner.x)
                elif not bound.why:
                    self._mix_multipliers(program, units, answer, inner)
                missing[side] = np.maximum(missing[side], bound.missing)
                if not bound.why or not np.any(bound.missing) or "infeasible" in inner.status.lower():
                    del missing[side]
            if not missing:
                return

    def _mix_points(self, program: ConeProgram, units: Units, outer: FloatArray, inner: FloatArray) -> None:
        self._mix(lambda share: self._above(program, units, outer + share * (inner - outer), worst=0.0))

    def _mix_multipliers(
        self, program: ConeProgram, units: Units, outer: Answer, inner: Answer, rows: LongArray | None = None
    ) -> None:
        def bound(share: float) -> Bound:
            x, z = (v + share * (w - v) for v, w in ((outer.x, inner.x), (outer.z, inner.z)))
            return self._below(program, units, Answer(x, z, ""), rows=rows)

        self._mix(bound)

    def _mix(self, bound: Callable[[float], Bound]) -> None:
        """About the best bound: that of the smallest share of the inner point at which one is proven."""
        low, high = OPTIONS.exponents[0], math.inf
        for exponent in OPTIONS.exponents:
            if not bound(10.0**exponent).why:
                high = exponent
                break
            low = exponent
        while self.width > 0.1 * self.target and OPTIONS.precision < high - low < math.inf:
            exponent = 0.5 * (low + high)
            low, high = (exponent, high) if bound(10.0**exponent).why else (low, exponent)

    def _above(self, program: ConeProgram, units: Units, x: FloatArray, worst: float = math.inf) -> Bound:
        bound = upper_bound(program, x, worst)
        value = units.value(bound.value, up=True)
        if value < self.upper and bound.x is not None:
            self.upper, self.point = value, units.point(bound.x)
        self.reasons["upper"] = bound.why or self.reasons.get("upper", "")
        return bound

    def _below(
        self,
        program: ConeProgram,
        units: Units,
        answer: Answer,
        *,
        rows: LongArray | None = None,
        box: FloatArray | None = None,
    ) -> Bound:
        """A lower bound of the program, which may have only some rows of the one that the units are for."""
        bound = lower_bound(program, answer.z, answer.x, np.full(len(answer.x), np.inf) if box is None else box)
        value = min(units.value(bound.value, up=False), self.upper)
        if value > self.lower and bound.x is not None and bound.z is not None:
            z = np.zeros(len(units.rows))
            z[slice(None) if rows is None else rows] = bound.z
            self.lower, self.multipliers = value, units.dual(z)
        self.reasons["lower"] = bound.why or self.reasons.get("lower", "")
        return bound

    def _decide(self, program: ConeProgram, units: Units, status: str) -> None:
        """Prove that the program is infeasible or unbounded, where a status says so."""
        if self.upper == math.inf and "infeasible" in status and "dual" not in status:
            self._contradict(program, units)
        if self.lower == -math.inf and ("dual" in status or "unbounded" in status):
            if self.upper == math.inf:
                answer = ask(_without_objective(program), self.solver, OPTIONS.shifts[1], 0.0)
                if isinstance(answer, Answer):
                    self._above(program, units, answer.x)
            if self.upper < math.inf:
                self._descend(program, units)

    def _contradict(self, program: ConeProgram, units: Units) -> None:
        """Prove that more than nothing has to be added to the slacks; the multipliers are a Farkas vector.

        Where less than nothing has, the point is feasible.
        """
        relaxed, zero, inside = _relaxed(program), program.cones.zero, program.cones.interior
        answer = ask(relaxed, self.solver, 0.0, OPTIONS.shifts[1])
        if not isinstance(answer, Answer):
            return
        self._above(program, units, answer.x[:-1])
        z = np.append(answer.z[:zero] - answer.z[zero : 2 * zero], answer.z[2 * zero + 1 :])
        boxes = np.full(len(answer.x), np.inf), reach(relaxed, math.inf)
        margin = max(lower_bound(relaxed, answer.z, answer.x, box).value for box in boxes)
        if margin <= 0.0 and (ray := farkas(program, z)) is not None:
            unit = np.concatenate([np.sign(ray[:zero]), inside[zero:]])
            margin, z = -float(program.b @ ray) / float(unit @ ray) * (1.0 - 1e-9), ray
        if margin > (0.0 if self.certain else OPTIONS.rounding):
            inner = np.concatenate([np.ones(zero), inside[zero:]]) > 0.0
            self.margin = float(np.ldexp(margin, units.size_b - units.rows[inner]).min(initial=np.inf))
            self.lower, self.multipliers = math.inf, units.dual(z)
        elif margin > 0.0:
            self.reasons["upper"] = "a contradiction is as small as what compilation rounds"

    def _descend(self, program: ConeProgram, units: Units) -> None:
        """Prove that a direction in which every point may be moved has a negative cost."""
        rays = _rays(program)
        answer = ask(rays, self.solver, OPTIONS.shifts[1], 0.0)
        if isinstance(answer, Answer):
            ray = upper_bound(rays, answer.x)
            if ray.x is not None and ray.value < (0.0 if self.certain else -math.sqrt(OPTIONS.rounding)):
                self.upper, self.point, self.direction = -math.inf, None, units.point(ray.x)


def _without_objective(program: ConeProgram) -> ConeProgram:
    return replace(program, c=0.0 * program.c, P=sp.csr_array(program.P.shape), uncertainty=None, proofs={})


def _relaxed(program: ConeProgram) -> ConeProgram:
    """``minimize t`` with ``b - Ax + t e`` in the cones, equations within t, and ``t >= -1``."""
    cones, zero, n = program.cones, program.cones.zero, program.A.shape[1]
    column = -np.concatenate([np.ones(2 * zero + 1), cones.interior[zero:]])

    def data(of: Data, sign: float, last: FloatArray, constant: float) -> Data:
        rows = sp.vstack([of.A[:zero], sign * of.A[:zero], sp.csr_array((1, n)), of.A[zero:]])
        A = sp.csr_array(sp.hstack([rows, last[:, None]]))
        b = np.concatenate([of.b[:zero], sign * of.b[:zero], [constant], of.b[zero:]])
        return Data(sp.csr_array((n + 1, n + 1)), np.append(np.zeros(n), constant), A, b)

    uncertainty = None if program.uncertainty is None else data(program.uncertainty, 1.0, 0.0 * column, 0.0)
    cones = replace(cones, zero=0, nonneg=2 * zero + 1 + cones.nonneg)
    return ConeProgram(*data(program.data, -1.0, column, 1.0), cones, uncertainty)


def _rays(program: ConeProgram) -> ConeProgram:
    """``minimize c'd`` with ``-Ad`` in the cones, ``Pd = 0`` and ``c'd >= -1``."""
    cones, zero = program.cones, program.cones.zero
    bent = np.diff(program.P.indptr) + np.diff(program.radii.P.indptr) > 0

    def data(of: Data, constant: float) -> Data:
        A = sp.csr_array(sp.vstack([of.P[bent], of.A[:zero], -(2.0 * constant - 1.0) * of.c[None, :], of.A[zero:]]))
        A.eliminate_zeros()
        b = np.zeros(A.shape[0])
        b[int(bent.sum()) + zero] = constant
        return Data(sp.csr_array(of.P.shape), of.c, A, b)

    uncertainty = None if program.uncertainty is None else data(program.uncertainty, 0.0)
    cones = replace(cones, zero=zero + int(bent.sum()), nonneg=cones.nonneg + 1)
    return ConeProgram(*data(program.data, 1.0), cones, uncertainty)
