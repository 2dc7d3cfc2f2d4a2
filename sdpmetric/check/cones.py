"""Cone programs, ``minimize c'x + x'Px / 2 where b - A x is in K``: points that are made exact in balls.

For x with ``b - A x`` in K, any y, and z in the dual cone with ``c + A'z + Py = 0``, the objective at x is at least
``-b'z - y'Py / 2``; if ``A'z = 0`` and ``b'z < 0``, there is no such x. A solver's points miss the equations by
rounding: some of their entries, which the file names, are solved for again, and the cones are checked then. Of a
semidefinite block the rows are its lower triangle: slacks off the diagonal are the sum of both entries.
"""

from __future__ import annotations

from itertools import accumulate, pairwise

import numpy as np
from flint import arb, arb_mat

from sdpmetric.check.arithmetic import is_psd, total
from sdpmetric.check.files import Arrays, BadInput, FloatArray, IndexArray, ProofPart, Refused, Work, printable

Entry = tuple[int, int, arb]


def prove(data: Arrays, domain: ProofPart, claims: list[object]) -> tuple[arb | None, arb | None, str]:
    """An upper and a lower bound of the optimum, None where nothing is claimed, and the program in words.

    Of a contradiction, for which nothing is claimed of either side, the lower bound is that of 0.
    """
    multipliers, start, free, free_start, sizes, *cones = domain.arrays.values()
    (sign,), offset = domain.numbers["sign"], total(map(arb, domain.numbers["offset"]))
    if sign not in (-1.0, 1.0):
        raise BadInput("the sign of the objective is neither 1 nor -1.")
    contradiction = claims == [None, None]
    point, bounded = (claim is not None for claim in claims[:: int(sign)])
    (zero, nonneg, exp), (soc, psd, powers) = sizes.tolist(), [some.tolist() for some in cones]
    b, c = ([arb(x) for x in data[name].tolist()] for name in "bc")
    m, n = len(b), len(c)
    blocks = [zero, nonneg, *soc, *(k * (k + 1) // 2 for k in psd), *[3] * (exp + len(powers))]
    fits = sum(blocks) == m and len(multipliers) == m + n and all(0.0 < x < 1.0 for x in powers)
    fits &= len({*free.tolist()}) == len(free) in (0, n) and len({*free_start.tolist()}) == len(free_start) in (0, zero)
    if not fits:
        raise BadInput(f"cones, points or entries to be solved for do not fit {m} rows of {n} variables.")
    sides = [n * (len(free) > 0), n * (len(data["P"]) > 0), zero, *psd, *psd]
    Work().spend(4 * (m + n + len(data["A"]) + len(data["P"]) + sum(k * k for k in sides)), sum(k**3 for k in sides))
    A, P = _entries(data, "A"), [] if contradiction else _entries(data, "P")
    bent = arb_mat(n, n)
    for i, j, value in P:
        bent[i, j] += value
    if P and not (bent == bent.transpose() and is_psd(bent)):
        raise Refused("P: it is not proven to be positive semidefinite")
    turned = [(j, i, value) for i, j, value in A] + [(i, m + j, value) for i, j, value in P]
    dual_point = [arb(0)] * (m + n)
    if bounded or contradiction:
        dual_point = _solved(multipliers, turned, [arb(0) if contradiction else -value for value in c], free)
    z, y = dual_point[:m], dual_point[m:]
    x = _solved(start, [entry for entry in A if entry[0] < zero], b[:zero], free_start) if point else [arb(0)] * n
    s = list(b)
    for i, j, value in A if point else ():
        s[i] -= value * x[j]
    some = [slice(*rows) for rows in pairwise(accumulate(blocks, initial=0))][1:]
    kinds = [("+", 0.0), *[("soc", 0.0)] * len(soc), *(("psd", k) for k in psd), *[("exp", 0.0)] * exp]
    kinds += [("power", alpha) for alpha in powers]
    for name, v in [("multipliers", z)] * (bounded or contradiction) + [("point", s)] * point:
        for (kind, of), block in zip(kinds, some, strict=True):
            if not CONES[kind](v[block], of, name == "multipliers"):
                raise Refused(f"{name}: they are not proven to be in the cones")
    high = total(p * q for p, q in zip(c, x, strict=True)) + _square(P, x) / 2
    low = -total(p * q for p, q in zip(b, z, strict=True)) - _square(P, y) / 2
    words = f"{zero} equations, {nonneg} inequalities, second-order cones {soc}, semidefinite cones {psd}"
    words += f", {exp} exponential cones, powers {powers}" if exp or powers else ""
    objective, named = "c'x + x'Px / 2" if len(data["P"]) else "c'x", repr(printable(domain.loss))
    objective = (
        f"minimize {objective} + {offset.str(17)}" if sign > 0 else f"maximize -({objective}) - {offset.str(17)}"
    )
    words = f"A compiled cone program of {n} variables ({named}), {words}, {objective} where b - A x is in the cones"
    rows = high + offset if point else None, low if contradiction else low + offset if bounded else None
    return (*rows, words) if sign > 0 or contradiction else (_minus(rows[1]), _minus(rows[0]), words)


def _minus(value: arb | None) -> arb | None:
    return None if value is None else -value


def _entries(data: Arrays, name: str) -> list[Entry]:
    rows, columns, values = (data[name + of].tolist() for of in ("_rows", "_columns", ""))
    return list(zip(rows, columns, map(arb, values), strict=True))


def _square(P: list[Entry], x: list[arb]) -> arb:
    return total(x[i] * x[j] * value for i, j, value in P)


def _solved(start: FloatArray, entries: list[Entry], sides: list[arb], free: IndexArray) -> list[arb]:
    """Numbers near given ones that satisfy equations exactly; only free ones are changed."""
    solved, place = [arb(x) for x in start.tolist()], {j: k for k, j in enumerate(free.tolist())}
    M, residual = arb_mat(len(sides), len(free)), list(sides)
    for i, j, value in entries:
        if j in place:
            M[i, place[j]] += value
        else:
            residual[i] -= value * solved[j]
    if not place and not all(x.is_zero() for x in residual):
        raise Refused("multipliers or point: an equation does not hold, and no entry is to be solved for")
    if place:
        solution = M.solve(arb_mat(len(sides), 1, residual)).entries()
        solved = [solution[place[j]] if j in place else x for j, x in enumerate(solved)]
    return solved


# -- whether numbers are in a cone or its dual ------------------------------------------------------------------------


def _psd(v: list[arb], side: float, dual: bool) -> bool:
    """A semidefinite block from its lower triangle, of which slacks off the diagonal are halved."""
    S = arb_mat(int(side), int(side))
    for x, i, j in zip(v, *(bounds.tolist() for bounds in np.tril_indices(int(side))), strict=True):
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
    "soc": lambda v, _, dual: not v or bool(v[0] >= 0 and v[0] ** 2 >= total(x**2 for x in v[1:])),
    "psd": _psd,
    "exp": _exp,
    "power": _power,
}
