"""Cone programs, ``minimize c'x + x'Px / 2 where b - A x is in K``: points that are made exact in balls.

For x with ``b - A x`` in K, any y, and z in the dual cone with ``c + A'z + Py = 0``, the objective at x is at least
``-b'z - y'Py / 2``; if ``A'z = 0`` and ``b'z < 0``, there is no such x. A solver's points miss the equations by
rounding: some of their entries, which the file names, are solved for again, and the cones are checked then. Of a
semidefinite block the rows are its lower triangle: slacks off the diagonal are the sum of both entries.
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from flint import arb, arb_mat

from sdpmetric.check.arithmetic import is_psd, total
from sdpmetric.check.files import LISTED, Arrays, BadInput, FloatArray, IndexArray, Refused, Said, indices, number

Entry = tuple[int, int, arb]


def prove(data: Arrays, domain: Said, point: bool) -> tuple[arb, arb, str]:
    """An upper and a lower bound of the optimum, of which only the latter counts without a point, and the program."""
    E = {name: np.asarray(data[name], dtype=np.float64) for name in ("A", "P")}
    sizes: dict[str, Any] = domain.about
    zero, nonneg, soc, psd, exp, power = (sizes[name] for name in ("zero", "nonneg", "soc", "psd", "exp", "power"))
    lists = isinstance(soc, list) and isinstance(psd, list) and isinstance(power, list)
    whole = [zero, nonneg, exp, *soc, *psd] if lists else []
    if not whole or any(type(size) is not int or not 0 <= size <= LISTED for size in whole):
        raise BadInput("sizes of the cones of the proof are not whole numbers.")
    powers = [number("power", x) for x in power]
    b, c = ([arb(x) for x in data[name].tolist()] for name in ("b", "c"))
    (m, n), arrays = (len(b), len(c)), domain.arrays
    rows, columns = indices("rows", arrays["rows"], 0, m + n), indices("columns", arrays["columns"], 0, n)
    blocks = [zero, nonneg, *soc, *(k * (k + 1) // 2 for k in psd), *[3] * (exp + len(powers))]
    fits = sum(blocks) == m and len(arrays["point"]) == n and len(arrays["multipliers"]) == m + n
    fits &= len(rows) in (0, n) and len(columns) in (0, zero) and all(0.0 < x < 1.0 for x in powers)
    if not fits or any(len({*some.tolist()}) < len(some) for some in (rows, columns)):
        raise BadInput(f"cones, points or entries to be solved for do not fit {m} rows of {n} variables.")
    A, P = _entries("A", E["A"], m, n), _entries("P", E["P"], n, n) if point else []
    bent = arb_mat(n, n)
    for i, j, x in P:
        bent[i, j] += x
    if P and not (bent == bent.transpose() and is_psd(bent)):
        raise Refused("P: it is not proven to be positive semidefinite")
    turned = [(j, i, x) for i, j, x in A] + [(i, m + j, x) for i, j, x in P]
    both = _solved(arrays["multipliers"], turned, [-x if point else arb(0) for x in c], rows)
    z, y = both[:m], both[m:]
    x = _solved(arrays["point"], [entry for entry in A if entry[0] < zero], b[:zero], columns) if point else []
    s = list(b)
    for i, j, value in A if point else ():
        s[i] -= value * x[j]
    some = [slice(*ends) for ends in pairwise(accumulate(blocks, initial=0))][1:]
    kinds = [("+", 0), *(("soc", 0) for _ in soc), *(("psd", k) for k in psd), *[("exp", 0)] * exp]
    kinds += [("power", alpha) for alpha in powers]
    for name, v in (("multipliers", z), ("point", s))[: 1 + point]:
        for (kind, of), block in zip(kinds, some, strict=True):
            if not CONES[kind](v[block], of, name == "multipliers"):
                raise Refused(f"{name}: they are not proven to be in the cones")
    high = total([p * q for p, q in zip(c, x, strict=False)]) + _square(P, x) / 2
    low = -total([p * q for p, q in zip(b, z, strict=True)]) - _square(P, y) / 2
    given = f"{zero} equations, {nonneg} inequalities, second-order cones {soc}, semidefinite cones {psd}"
    given += f", {exp} exponential cones, powers {powers}" if exp or powers else ""
    objective = "c'x + x'Px / 2" if len(E["P"]) else "c'x"
    return high, low, f"A cone program of {n} variables, {given}, minimize {objective} where b - A x is in the cones"


def _entries(name: str, E: FloatArray, m: int, n: int) -> list[Entry]:
    at, by = indices(name, E[:, 0], 0, m), indices(name, E[:, 1], 0, n)
    return list(zip(at.tolist(), by.tolist(), [arb(x) for x in E[:, 2].tolist()], strict=True))


def _square(P: list[Entry], x: list[arb]) -> arb:
    return total([x[i] * x[j] * value for i, j, value in P])


def _solved(start: FloatArray, entries: list[Entry], right: list[arb], free: IndexArray) -> list[arb]:
    """Numbers near given ones that satisfy equations exactly; only free ones are changed."""
    found, place = [arb(x) for x in start.tolist()], {int(j): k for k, j in enumerate(free)}
    M, rest = arb_mat(len(right), len(free)), list(right)
    for i, j, x in entries:
        if j in place:
            M[i, place[j]] += x
        else:
            rest[i] -= x * found[j]
    if not len(free) and not all(x.is_zero() for x in rest):
        raise Refused("multipliers or point: an equation does not hold, and no entry is to be solved for")
    if len(free):
        for j, value in zip(free.tolist(), M.solve(arb_mat(len(right), 1, rest)).entries(), strict=True):
            found[j] = value
    return found


# -- whether numbers are in a cone or its dual ------------------------------------------------------------------------


def _psd(v: list[arb], side: float, dual: bool) -> bool:
    """A semidefinite block from its lower triangle, of which slacks off the diagonal are halved."""
    S = arb_mat(int(side), int(side))
    for x, i, j in zip(v, *(ends.tolist() for ends in np.tril_indices(int(side))), strict=True):
        S[i, j] = S[j, i] = x if i == j or dual else x / 2
    return is_psd(S)


def _exp(v: list[arb], _: float, dual: bool) -> bool:
    """``y exp(x / y) <= z``, of multipliers ``-u exp(v / u - 1) <= w``, inside."""
    x, y, z = v if not dual else (v[0] - v[1], -v[0], v[2])
    return bool(y > 0 and y * (x / y).exp() <= z)


def _power(v: list[arb], alpha: float, dual: bool) -> bool:
    """``x^a y^(1 - a) >= |z|``; of multipliers with ``x / a`` and ``y / (1 - a)``."""
    a = arb(alpha)
    x, y = (v[0] / a, v[1] / (1 - a)) if dual else (v[0], v[1])
    return bool(x > 0 and y > 0 and (a * x.log() + (1 - a) * y.log()).exp() >= abs(v[2]))


CONES = {
    "+": lambda v, _, dual: all(x >= 0 for x in v),
    "soc": lambda v, _, dual: not v or bool(v[0] >= 0 and v[0] ** 2 >= total([x**2 for x in v[1:]])),
    "psd": _psd,
    "exp": _exp,
    "power": _power,
}
