"""Proof files of cone programs, which `sdpmetric.check` verifies."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.linalg

from sdpmetric.arrays import FloatArray, LongArray
from sdpmetric.core.proof import Proof
from sdpmetric.programs.canonical import ConeProgram
from sdpmetric.programs.enclosure import rooms
from sdpmetric.programs.rays import annihilates, farkas


@dataclass(frozen=True, eq=False)
class Evidence:
    """A cone program with a point and multipliers near exactly feasible ones, in its own units.

    `claims` are an upper and a lower bound of ``sign (c'x + x'Px / 2 + offset)``, infinite where nothing is proven; a
    contradiction has `infeasible` instead.
    """

    program: ConeProgram
    point: FloatArray | None
    multipliers: FloatArray | None
    at: FloatArray | None  # Where the slope of the objective is taken, of these multipliers
    claims: tuple[float, float]
    infeasible: bool
    sign: int
    offset: float
    names: str

    def write(self, path: str | Path, data: str | Path) -> None:
        """Write proof and data."""
        program, cones = self.program, self.program.cones
        m, n = program.A.shape
        first, second = (0, 1) if self.sign > 0 else (1, 0)
        upper, lower = (self.claims[k] for k in (first, second))  # of what is minimized, but for sign and offset
        z, rows = np.zeros(m + n), np.zeros(0, dtype=np.int64)
        if self.infeasible or math.isfinite(lower):
            z, rows, own = self._multipliers()
            if not self.infeasible:
                own = self.sign * (own + self.offset)
                lower = min(lower, own) if self.sign > 0 else max(lower, own)
        columns, x = np.zeros(0, dtype=np.int64), np.zeros(n)
        if not self.infeasible and math.isfinite(upper):
            x, columns = self._point()
        arrays = {"point": x, "multipliers": z, "sizes": np.array([cones.zero, cones.nonneg, cones.exp])}
        arrays |= {name: np.array(getattr(cones, name), dtype=np.float64) for name in ("soc", "psd", "power")}
        held = {"b": program.b, "c": program.c}
        for name, M in (("A", program.A.tocoo()), ("P", program.P.tocoo())):
            held |= {name: M.data, f"{name}_rows": M.row, f"{name}_columns": M.col}
        ends = (upper, lower) if self.sign > 0 else (lower, upper)
        claims = [None if self.infeasible or not math.isfinite(v) else float(v) for v in ends]
        arrays |= {"free_multipliers": rows, "free_point": columns}
        about: dict[str, object] = {"domain": "cones", "sign": self.sign, "offset": self.offset, "names": self.names}
        Proof(claims[0], claims[1], about, (), held, arrays).write(path, data)

    def _multipliers(self) -> tuple[FloatArray, LongArray, float]:
        """Multipliers and slope, entries that are solved for, and the bound of these; free ones have the most room."""
        if self.multipliers is None or self.at is None:
            raise ValueError("the bound rests on no multipliers, so there is no proof of it to write.")
        p, units = self.program.equilibrated()
        y, at = units.dual(self.multipliers, -1), units.point(self.at, -1)
        n, feasible = p.A.shape[1], not self.infeasible
        room = rooms(p.cones, y)
        most = np.abs(room[np.isfinite(room)]).max(initial=0.0) or 1.0
        room = np.append(np.where(np.isfinite(room), np.abs(room), most), np.full(n, most))
        for some in p.cones.threes:
            room[some] = 1e-6 * most
        M = np.concatenate([p.A.toarray(), p.P.toarray() if feasible else np.zeros((n, n))]) * room[:, None]
        rows = scipy.linalg.qr(M.T, mode="r", pivoting=True)[1][:n]
        z, size = np.append(y, at), np.linalg.norm(M[rows], axis=1, keepdims=True)
        enough = np.linalg.matrix_rank(M[rows] / np.where(size > 0.0, size, 1.0)) == n
        ray = None if feasible else y if annihilates(p, y) else farkas(p, y)
        if ray is not None and (annihilates(p, ray) or not enough):
            rows, z, enough = rows[:0], np.append(ray, at), annihilates(p, ray)
        if not enough:
            raise ValueError(
                "no multipliers are determined by the others: there are fewer independent rows than variables."
            )
        if feasible:  # least changes, by least squares, before few entries are solved for
            for _ in range(2):
                r = p.c + p.transposed @ z[:-n] + p.P @ z[-n:]
                z = z - room * np.linalg.lstsq(M.T, r, rcond=None)[0]
        own = -float(p.b @ z[:-n]) - 0.5 * float(z[-n:] @ (p.P @ z[-n:]))
        return np.append(units.dual(z[:-n]), units.point(z[-n:])), rows, float(np.ldexp(own, units.objective))

    def _point(self) -> tuple[FloatArray, LongArray]:
        """A point, and the entries that equations determine."""
        if self.point is None:
            raise ValueError("the bound rests on no point, so there is no proof of it to write.")
        p, _ = self.program.equilibrated()
        equations = p.A[: p.cones.zero].toarray()
        if np.linalg.matrix_rank(equations) < len(equations):
            raise ValueError("equations of the program depend on each other; leave out those that follow from others.")
        columns = np.zeros(0, dtype=np.int64)
        if len(equations):
            columns = scipy.linalg.qr(equations, mode="r", pivoting=True)[1][: len(equations)]
        return self.point, columns
