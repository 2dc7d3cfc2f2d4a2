"""Proof files of cone programs, which `sdpmetric.check` verifies."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.linalg

from sdpmetric.arrays import FloatArray, LongArray
from sdpmetric.core.proof import Proof
from sdpmetric.programs.canonical import ConeProgram, Cones, lower_triangle
from sdpmetric.programs.rational import annihilates, farkas


@dataclass(frozen=True, eq=False)
class Evidence:
    """A cone program with a point and multipliers near exactly feasible ones, in its own units.

    `claims` are an upper and a lower bound of ``sign (c'x + x'Px / 2 + offset)``, infinite where nothing is proven; a
    contradiction has `infeasible` instead.
    """

    program: ConeProgram
    point: FloatArray | None
    multipliers: FloatArray | None
    slope: FloatArray | None  # Where the slope of the objective is taken, of these multipliers
    claims: tuple[float, float]
    infeasible: bool
    sign: int
    offset: float
    names: str

    def write(self, path: str | Path, data: str | Path) -> None:
        """Write proof and data."""
        program, cones, (upper, lower) = self.program, self.program.cones, self.claims
        m, n = program.A.shape
        primal, dual = (upper, lower) if self.sign > 0 else (lower, upper)  # bounds by the point, by the multipliers
        x, z, columns, rows = np.zeros(n), np.zeros(m + n), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        if self.infeasible or math.isfinite(dual):
            z, rows, value = self._free_multipliers()
            value = self.sign * (value + self.offset)
            dual = min(dual, value) if self.sign > 0 else max(dual, value)
        if not self.infeasible and math.isfinite(primal):
            x, columns = self._free_variables()
        arrays = {"point": x, "multipliers": z, "sizes": np.array([cones.zero, cones.nonneg, cones.exp])}
        arrays |= {name: np.array(getattr(cones, name), dtype=np.float64) for name in ("soc", "psd", "power")}
        arrays |= {"free_multipliers": rows, "free_point": columns}
        tables = {"b": program.b, "c": program.c}
        for name, M in (("A", program.A.tocoo()), ("P", program.P.tocoo())):
            tables |= {name: M.data, f"{name}_rows": M.row, f"{name}_columns": M.col}
        upper, lower = (primal, dual) if self.sign > 0 else (dual, primal)
        claims = [None if self.infeasible or not math.isfinite(v) else float(v) for v in (upper, lower)]
        description: dict[str, object] = {
            "domain": "cones",
            "sign": self.sign,
            "offset": self.offset,
            "names": self.names,
        }
        Proof(claims[0], claims[1], description, (), tables, arrays).write(path, data)

    def _free_multipliers(self) -> tuple[FloatArray, LongArray, float]:
        """Multipliers and slope, entries to solve for, and the bound of these; those with the most room are free."""
        if self.multipliers is None or self.slope is None:
            raise ValueError("the bound has no multipliers, so there is no proof of it to write.")
        p, units = self.program.equilibrated()
        y, slope = units.dual(self.multipliers, -1), units.point(self.slope, -1)
        n, feasible = p.A.shape[1], not self.infeasible
        room = _rooms(p.cones, y)
        top = np.abs(room[np.isfinite(room)]).max(initial=0.0) or 1.0
        room = np.append(np.where(np.isfinite(room), np.abs(room), top), np.full(n, top))
        for rows in p.cones.threes:
            room[rows] = 1e-6 * top
        M = np.concatenate([p.A.toarray(), p.P.toarray() if feasible else np.zeros((n, n))]) * room[:, None]
        free = scipy.linalg.qr(M.T, mode="r", pivoting=True)[1][:n]
        z, size = np.append(y, slope), np.linalg.norm(M[free], axis=1, keepdims=True)
        determined = np.linalg.matrix_rank(M[free] / np.where(size > 0.0, size, 1.0)) == n
        ray = None if feasible else y if annihilates(p.A, y) else farkas(p, y)
        if ray is not None and (annihilates(p.A, ray) or not determined):
            free, z, determined = free[:0], np.append(ray, slope), annihilates(p.A, ray)
        if not determined:
            raise ValueError(
                "no multipliers are determined by the others: there are fewer independent rows than variables."
            )
        if feasible:  # small changes of all, by least squares, before few entries are solved for
            for _ in range(2):
                r = p.c + p.transposed @ z[:-n] + p.P @ z[-n:]
                z = z - room * np.linalg.lstsq(M.T, r, rcond=None)[0]
        value = -float(p.b @ z[:-n]) - 0.5 * float(z[-n:] @ (p.P @ z[-n:]))
        return np.append(units.dual(z[:-n]), units.point(z[-n:])), free, float(np.ldexp(value, units.objective))

    def _free_variables(self) -> tuple[FloatArray, LongArray]:
        """A point, and the entries that equations determine."""
        if self.point is None:
            raise ValueError(
                "no proof can be written: the bound has no point, or one at which inequalities hold as equations; "
                "state these as equations, or prove the other side alone by `side=`."
            )
        p, _ = self.program.equilibrated()
        equations = p.A[: p.cones.zero].toarray()
        if not len(equations):
            return self.point, np.zeros(0, dtype=np.int64)
        if np.linalg.matrix_rank(equations) < len(equations):
            raise ValueError("equations of the program depend on each other; leave out those that follow from others.")
        pivots = scipy.linalg.qr(equations, mode="r", pivoting=True)[1]
        return self.point, pivots[: len(equations)].astype(np.int64)


def _rooms(cones: Cones, z: FloatArray) -> FloatArray:
    """About how far multipliers are from the boundary of the dual cone; infinity in the free ones."""
    room = np.full(cones.size, np.inf)
    room[cones.zero : cones.linear] = z[cones.zero : cones.linear]
    for rows in cones.soc_blocks:
        room[rows] = z[rows.start] - np.linalg.norm(z[rows][1:])
    for rows in cones.psd_blocks:
        room[rows] = np.linalg.eigvalsh(lower_triangle(z[rows], dual=True))[0]
    return room
