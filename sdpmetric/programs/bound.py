"""The verb `bound`: an interval that is proven to contain the optimum of a program that a user wrote in CVXPY."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from sdpmetric.arrays import FloatArray
from sdpmetric.core.certificate import digits, reservation
from sdpmetric.core.proof import Proof
from sdpmetric.core.run import Budget
from sdpmetric.engine.interface import deadline, remaining
from sdpmetric.lazy import cvxpy as cp
from sdpmetric.linalg.rigorous import Rigor, sum_above, sum_below
from sdpmetric.programs.canonical import SOLVERS, Answer, Canonical, ConeProgram, Units, ask
from sdpmetric.programs.enclosure import OverSizeError, curvature, lower_bound, rooms, upper_bound
from sdpmetric.programs.rays import annihilates, farkas
from sdpmetric.programs.reach import reach

# How far the cones are moved inward, one after another, until bounds are proven; the relative width that is enough.
SHIFTS, ENOUGH, LARGEST = (1e-9, 1e-7, 1e-5), 1e-6, 1e300
# By how much less they are moved after that, where the interval is wide: solutions may be small.
FINER = (1e-2, 1e-4)
ASSUMED = "no variable of the cone program is larger than {radius:g} in absolute value at an optimal point"


@dataclass(frozen=True, eq=False)
class ProgramBound:
    """An interval that contains the optimum of a program.

    Attributes
    ----------
    lower_bound, upper_bound : float
        The optimum, the maximum of a maximization, is between them. Both are infinite, with the same sign, if the
        program is proven to be infeasible or unbounded.
    rigor : {"float", "assumption"}
        Every rounding is accounted for, or the bound holds only if `assumption` does.
    assumption : str or None
    point : dict of str to array, or None
        Variables by name at a point within rounding of one that is proven to be feasible and to have an objective
        within the interval; None if there is no such proof.
    maximization : bool
    """

    lower_bound: float
    upper_bound: float
    rigor: Rigor
    assumption: str | None
    point: dict[str, FloatArray] | None
    maximization: bool
    evidence: Evidence | None = field(default=None, repr=False, compare=False)

    def save_proof(self, path: str | Path, data: str | Path) -> None:
        """Write what is proven as files that ``python -m sdpmetric.check DATA PROOF`` verifies without this package.

        They are about the cone program that CVXPY compiles, ``minimize c'x where b - A x is in the cones``: of a
        maximization its objective is minus that of the program, and constants of the objective are left out.

        Parameters
        ----------
        path : str or Path
            The file to write, an NPZ file.
        data : str or Path
            Another one, with A (rows, columns and entries), b and c.

        Raises
        ------
        ValueError
            If an end of the interval is infinite or rests on an assumption, the program is quadratic, has exponential
            or power cones or dependent equations, or has more variables than rows.

        Examples
        --------
        >>> import cvxpy as cp, sdpmetric as sm
        >>> x = cp.Variable(2, nonneg=True)
        >>> found = sm.bound(cp.Problem(cp.Minimize(x[0] + x[1]), [x[0] + 2 * x[1] >= 3]))
        >>> found.save_proof("proof.npz", "program.npz")  # doctest: +SKIP
        """
        infeasible = self.lower_bound == self.upper_bound == (-math.inf if self.maximization else math.inf)
        finite = math.isfinite(self.lower_bound) and math.isfinite(self.upper_bound)
        if self.evidence is None or self.rigor != "float" or not (finite or infeasible):
            raise ValueError(
                "nothing finite is proven of both sides without an assumption; there is no proof to write."
            )
        self.evidence.write(path, data)

    @classmethod
    def nothing(cls) -> ProgramBound:
        """The interval of all numbers."""
        return cls(-math.inf, math.inf, "float", None, None, False)

    @property
    def relative_width(self) -> float:
        """The width of the interval over the larger of 1 and the absolute values of its ends; infinite if they are."""
        width = self.upper_bound - self.lower_bound
        return width / max(1.0, abs(self.lower_bound), abs(self.upper_bound)) if math.isfinite(width) else math.inf

    def __str__(self) -> str:
        what = "maximum" if self.maximization else "minimum"
        low, high = digits(self.lower_bound, self.upper_bound)
        if self.lower_bound == self.upper_bound and math.isinf(self.lower_bound):
            infeasible = (self.lower_bound < 0.0) == self.maximization
            found = "The program is proven to be infeasible" if infeasible else f"The {what} is proven to be unbounded"
        elif math.isfinite(self.lower_bound) and math.isfinite(self.upper_bound):
            found = f"The {what} is between {low} and {high}, a relative width of {self.relative_width:.1e}"
        elif math.isfinite(self.lower_bound):
            found = f"The {what} is at least {low}; nothing is proven about the other side"
        elif math.isfinite(self.upper_bound):
            found = f"The {what} is at most {high}; nothing is proven about the other side"
        else:
            return f"Nothing is proven about the {what}."
        return found + (reservation(self.rigor, self.assumption) or ", all rounding included") + "."


def bound(
    problem: cp.Problem, solver: str | None = None, radius: float | None = None, *, max_time: float | None = None
) -> ProgramBound:
    """Prove an interval that contains the optimum of any convex program in CVXPY, in floating point.

    The program need not be about metrics: linear, quadratic, second-order, semidefinite, exponential and power cones
    are accepted. A solver's multipliers are moved inside the dual cone, and an exactly dual feasible point near them is
    enclosed [JCK2007], as VSDP does in Matlab; likewise a feasible point. The solver is not trusted. The claim is about
    the floats of the cone program that CVXPY compiles; ``docs/bounds_of_programs.md`` has the proof.

    Parameters
    ----------
    problem : cvxpy.Problem
        Convex by CVXPY's rules, without integers; parameters have values. Its variables keep theirs.
    solver : {"CLARABEL", "SCS"}, optional
        Where points and multipliers come from; default "CLARABEL". A worse solver gives a wider interval.
    radius : float, optional
        What you know the variables to be at most in absolute value at an optimal point, those that CVXPY introduces
        included, in the units of the program. It is used only where no bound is proven without, and named in
        `assumption`.
    max_time : float, optional
        Seconds after which the solver stops and no other solve is begun; compilation and the proof of what was found
        are not interrupted. Default: no limit. An end of which nothing is proven by then is infinite.

    Returns
    -------
    ProgramBound
        With `lower_bound`, `upper_bound`, `rigor`, `assumption` and `point`.

    Raises
    ------
    ValueError
        If `radius` or `max_time` is not positive, or the program has integers, is not convex, lacks values of
        parameters, or is too large: more than 8000 variables that occur together in dense rows, or a factor of more
        than 40 million entries.
    TypeError
        If it is no ``cvxpy.Problem``.

    Examples
    --------
    The largest quantum value of the CHSH inequality, whose square is 8:

    >>> import cvxpy as cp, sdpmetric as sm
    >>> G = cp.Variable((4, 4), PSD=True)
    >>> found = sm.bound(cp.Problem(cp.Maximize(G[0, 2] + G[0, 3] + G[1, 2] - G[1, 3]), [cp.diag(G) == 1]))
    >>> found.lower_bound**2 <= 8 <= found.upper_bound**2, found.rigor
    (True, 'float')
    """
    name = "CLARABEL" if solver is None else solver.upper() if isinstance(solver, str) else solver
    if name not in SOLVERS:
        raise ValueError(f"solver must be one of {', '.join(SOLVERS)}, got {solver!r}.")
    if radius is not None and not (isinstance(radius, (int, float)) and 0.0 < radius < math.inf):
        raise ValueError(f"radius must be a positive number, got {radius!r}.")
    budget = Budget(max_time)
    with deadline(budget.ends):
        return _proven(problem, name, radius)


def _proven(problem: cp.Problem, name: str, radius: float | None) -> ProgramBound:
    canonical = Canonical.of(problem)
    program, units = canonical.program.equilibrated()
    search = Search(program, name, float(np.ldexp(1.0, -units.objective)))
    rigor: Rigor = "float"
    assumption = None
    try:
        search.run()
        if radius is not None and search.lower == -math.inf and search.upper > -math.inf:
            far = np.ldexp(radius, -(units.columns + units.size_b))
            if search.assume(np.nextafter(far, np.inf)):
                rigor, assumption = "assumption", ASSUMED.format(radius=radius)
    except OverSizeError:
        raise OverSizeError(
            f"the program is too large to prove a bound: the enclosure for its {program.A.shape[1]} variables needs a "
            "factor of more than 8000 dense columns or 40 million entries; fix or drop some variables."
        ) from None
    power, offset = units.objective, canonical.offset
    ends = [_offset(search.lower, power, offset, up=False), _offset(search.upper, power, offset, up=True)]
    if canonical.sign < 0:
        ends = [-ends[1], -ends[0]]
    point = None if search.point is None else canonical.values(units.point(search.point))
    evidence = None
    if search.multipliers is not None and search.at is not None and search.upper > -math.inf:
        claims = _offset(search.upper, power, 0.0, up=True), _offset(search.lower, power, 0.0, up=False)
        near = search.at if search.point is None else search.point
        evidence = Evidence(canonical.program, program, units, near, search.multipliers, search.at, claims)
    return ProgramBound(ends[0], ends[1], rigor, assumption, point, canonical.sign < 0, evidence)


def _offset(value: float, power: int, offset: float, *, up: bool) -> float:
    """The objective in the program's own units, rounded outward."""
    if not math.isfinite(value):
        return value
    outward = math.inf if up else -math.inf
    scaled = float(np.ldexp(value, power))
    if power and value:
        scaled = math.nextafter(scaled, outward)
    if not math.isfinite(scaled):
        return scaled if (scaled > 0.0) == up else math.copysign(1.7976931348623157e308, scaled)
    total = np.array([scaled, offset])
    return sum_above(total) if up else sum_below(total)


@dataclass(frozen=True, eq=False)
class Evidence:
    """A cone program with a point and multipliers near exactly feasible ones, and its upper and lower bound.

    Point, multipliers, and where the slope of the objective is taken are those of the scaled program. An infinite lower
    bound is that of a Farkas vector.
    """

    program: ConeProgram
    scaled: ConeProgram
    units: Units
    point: FloatArray
    multipliers: FloatArray
    at: FloatArray
    claims: tuple[float, float]

    def write(self, path: str | Path, data: str | Path) -> None:
        """Write proof and data; entries that are solved for again are those with the most room."""
        p, cones, feasible = self.scaled, self.program.cones, self.claims[1] < math.inf
        n, equations = p.A.shape[1], p.A[: cones.zero if feasible else 0].toarray()
        room = rooms(cones, self.multipliers)
        most = np.abs(room[np.isfinite(room)]).max(initial=0.0) or 1.0
        room = np.append(np.where(np.isfinite(room), np.abs(room), most), np.full(n, most))
        for some in cones.threes:
            room[some] = 1e-6 * most
        M = np.concatenate([p.A.toarray(), p.P.toarray() if feasible else np.zeros((n, n))]) * room[:, None]
        rows = scipy.linalg.qr(M.T, mode="r", pivoting=True)[1][:n]
        columns = (
            scipy.linalg.qr(equations, mode="r", pivoting=True)[1][: len(equations)] if len(equations) else rows[:0]
        )
        z, size = np.append(self.multipliers, self.at), np.linalg.norm(M[rows], axis=1, keepdims=True)
        enough = np.linalg.matrix_rank(M[rows] / np.where(size > 0.0, size, 1.0)) == n
        ray = (
            None if feasible else self.multipliers if annihilates(p, self.multipliers) else farkas(p, self.multipliers)
        )
        if ray is not None and (annihilates(p, ray) or not enough):
            rows, z, enough = rows[:0], np.append(ray, self.at), annihilates(p, ray)
        if not enough:
            raise ValueError(
                "no multipliers are determined by the others: there are fewer independent rows than variables."
            )
        if feasible:  # least changes, by least squares, before few entries are solved for
            for _ in range(2):
                r = p.c + p.transposed @ z[:-n] + p.P @ z[-n:]
                z = z - room * np.linalg.lstsq(M.T, r, rcond=None)[0]
        if np.linalg.matrix_rank(equations) < len(equations):
            raise ValueError("equations of the program depend on each other; leave out those that follow from others.")
        y = np.ldexp(z[:-n], self.units.rows + self.units.size_c)
        arrays = {"point": self.units.point(self.point), "multipliers": np.append(y, self.units.point(z[-n:]))}
        arrays |= {"sizes": np.array([cones.zero, cones.nonneg, cones.exp])}
        arrays |= {name: np.array(getattr(cones, name), dtype=np.float64) for name in ("soc", "psd", "power")}
        held = {"b": self.program.b, "c": self.program.c}
        for name, M in (("A", self.program.A.tocoo()), ("P", self.program.P.tocoo())):
            held |= {name: M.data, f"{name}_rows": M.row, f"{name}_columns": M.col}
        own = -float(p.b @ z[:-n]) - 0.5 * float(z[-n:] @ (p.P @ z[-n:]))  # of these multipliers
        low = min(self.claims[1], float(np.ldexp(own, self.units.objective)))
        claims = (self.claims[0], low) if feasible else (None, None)
        arrays |= {"free_multipliers": rows, "free_point": columns}
        Proof(claims[0], claims[1], {"domain": "cones"}, (), held, arrays).write(path, data)


@dataclass
class Search:
    """The best bounds of a program so far, and the point of the upper one; `unit` is 1 in the user's units."""

    program: ConeProgram
    solver: str
    unit: float
    lower: float = -math.inf
    upper: float = math.inf
    point: FloatArray | None = None
    multipliers: FloatArray | None = None
    at: FloatArray | None = None  # Where the objective's slope is taken, of these multipliers
    last: FloatArray | None = None  # Multipliers of the last solve

    @property
    def wide(self) -> bool:
        """Whether a narrower interval may be worth another solve."""
        width = self.upper - self.lower
        return not width <= ENOUGH * max(self.unit, min(abs(self.upper), LARGEST))

    def run(self) -> None:
        """Move the cones inward by more and more until both bounds are proven, then by less until they are near."""
        for shift in SHIFTS:
            self._try(shift, shift)
            if self.lower == -math.inf:
                self._try(0.0, shift)
            if self.upper == math.inf:
                self._try(shift, 0.0)
            if self.upper == math.inf and self._infeasible(shift):
                self.lower = math.inf
                return
            if self.lower == -math.inf and self.upper < math.inf and self._unbounded(shift):
                self.upper, self.point = -math.inf, None
                return
            if self.upper - self.lower < math.inf or remaining() <= 0.0:
                break
        for smaller in FINER:
            if self.wide:
                self._try(smaller * shift, smaller * shift)

    def _try(self, primal: float, dual: float) -> None:
        answer = ask(self.program, self.solver, primal, dual)
        if answer is not None:
            self._improve(answer)

    def _improve(self, answer: Answer) -> None:
        self.last = answer.z
        upper, point = upper_bound(self.program, answer.x)
        if upper < self.upper:
            self.upper, self.point = upper, point
        nowhere = np.full(len(answer.x), np.inf)
        if (lower := lower_bound(self.program, answer.z, answer.x, nowhere)) > self.lower:
            self.lower, self.multipliers, self.at = lower, answer.z, answer.x
        if self.lower == -math.inf:
            self.lower = lower_bound(self.program, answer.z, answer.x, nowhere, weighted=True)
            self.multipliers, self.at = answer.z, answer.x
        if self.lower == -math.inf:
            known = reach(self.program, self.upper if curvature(self.program.P) == 0.0 else math.inf)
            if np.isfinite(known).any():
                self.lower = min(self.upper, lower_bound(self.program, answer.z, answer.x, known))

    def assume(self, far: FloatArray) -> bool:
        """A lower bound if no variable is larger than it is known or assumed to be."""
        known = np.minimum(far, reach(self.program, math.inf))
        for shift in (0.0, *SHIFTS):
            answer = ask(self.program, self.solver, 0.0, shift)
            if answer is not None:
                found = min(self.upper, lower_bound(self.program, answer.z, answer.x, known))
                self.lower = max(self.lower, found)
        return self.lower > -math.inf

    def _infeasible(self, shift: float) -> bool:
        """Whether more than nothing has to be added to the slacks; its multipliers are a Farkas vector.

        Where less than nothing has, the point is feasible.
        """
        relaxed, zero = _relaxed(self.program), self.program.cones.zero
        answer, rays = ask(relaxed, self.solver, 0.0, shift), [] if self.last is None else [self.last]
        if answer is not None:
            self.upper, self.point = upper_bound(self.program, answer.x[:-1])
            z = np.append(answer.z[:zero] - answer.z[zero : 2 * zero], answer.z[2 * zero + 1 :])
            known = np.full(len(answer.x), np.inf), reach(relaxed, math.inf)
            if any(lower_bound(relaxed, answer.z, answer.x, far) > 0.0 for far in known):
                self.multipliers, self.at = z, np.zeros(self.program.A.shape[1])
                return True
            rays.append(z)
        found = [ray for ray in (farkas(self.program, z) for z in rays) if ray is not None]
        if found:
            self.multipliers, self.at = found[0], np.zeros(self.program.A.shape[1])
        return bool(found)

    def _unbounded(self, shift: float) -> bool:
        """Whether a direction in which every point may be moved has a negative cost."""
        rays = _rays(self.program)
        answer = ask(rays, self.solver, shift, 0.0)
        return answer is not None and upper_bound(rays, answer.x)[0] < 0.0


def _relaxed(program: ConeProgram) -> ConeProgram:
    """``minimize t`` with ``b - Ax + t e`` in the cones, equations within t, and ``t >= -1``."""
    cones, A, b, zero = program.cones, program.A, program.b, program.cones.zero
    n, column = A.shape[1], -np.concatenate([np.ones(2 * zero + 1), program.cones.interior()[zero:]])
    rows = sp.vstack([A[:zero], -A[:zero], sp.csr_array((1, n)), A[zero:]])
    return ConeProgram(
        sp.csr_array((n + 1, n + 1)),
        np.append(np.zeros(n), 1.0),
        sp.hstack([rows, column[:, None]]).tocsr(),
        np.concatenate([b[:zero], -b[:zero], [1.0], b[zero:]]),
        replace(cones, zero=0, nonneg=2 * zero + 1 + cones.nonneg),
    )


def _rays(program: ConeProgram) -> ConeProgram:
    """``minimize c'd`` with ``-Ad`` in the cones, ``Pd = 0`` and ``c'd >= -1``."""
    cones, zero = program.cones, program.cones.zero
    bent = program.P[np.diff(program.P.indptr) > 0]
    A = sp.vstack([bent, program.A[:zero], -program.c[None, :], program.A[zero:]]).tocsr()
    A.eliminate_zeros()
    b = np.zeros(A.shape[0])
    b[bent.shape[0] + zero] = 1.0
    cones = replace(cones, zero=zero + bent.shape[0], nonneg=cones.nonneg + 1)
    return ConeProgram(sp.csr_array(program.P.shape), program.c, A, b, cones)
