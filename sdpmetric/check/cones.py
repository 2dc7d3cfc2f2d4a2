"""Cone programs, ``minimize c'x where b - A x is in K``: a feasible point and a dual feasible one, made exact in balls.

For x with ``b - A x`` in K and z in the dual cone with ``A'z + c = 0``, ``c'x >= -b'z``. A solver's points miss the
equations by rounding: some of their entries, which the file names, are solved for anew, and the cones are checked then.
Of a semidefinite block the rows are its lower triangle: slacks off the diagonal are the sum of both entries.
"""

from __future__ import annotations

import json
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np
from flint import arb, arb_mat

from sdpmetric.check.arithmetic import is_positive, total
from sdpmetric.check.files import (
    BYTES,
    DAMAGED,
    FORMAT,
    LISTED,
    BadInput,
    IndexArray,
    Refused,
    digest,
    indices,
    number,
    numbers,
    read_npz,
)

CLAIMS, ARRAYS = {"format", "cones", "objective", "lower_bound", "sha256"}, ("columns", "multipliers", "point", "rows")


def program(data_path: Path, proof_path: Path) -> tuple[float, float, arb, arb, str]:
    """The claims, an upper and a lower bound of the optimum, and the program in words."""
    held, given = read_npz(proof_path, (*ARRAYS, "about", "seal")), read_npz(data_path, ("A", "b", "c"), others=True)
    try:
        about = json.loads(str(held["about"]))
        zero, nonneg, soc, psd = (about["cones"][name] for name in ("zero", "nonneg", "soc", "psd"))
        sizes = [zero, nonneg, *soc, *(side * (side + 1) // 2 for side in psd)]
        if set(about) != CLAIMS or about["format"] != FORMAT or len(about["cones"]) != 4:
            raise ValueError(f"it says {', '.join(about)}; expected {', '.join(sorted(CLAIMS))}, of format {FORMAT}")
        if not all(type(size) is int and 0 <= size <= LISTED for size in (zero, nonneg, *soc, *psd)):
            raise ValueError("sizes of its cones are not whole numbers")
    except DAMAGED as error:
        raise BadInput(f"{proof_path} is not a proof of a cone program: {error}.") from error
    data = {"A": numbers("A", given["A"], LISTED, 3), **{k: numbers(k, given[k], LISTED) for k in ("b", "c")}}
    arrays = {name: numbers(name, held[name], BYTES) for name in ARRAYS}
    if digest({**data}) != about["sha256"]:
        raise Refused("data: this is not the program that the proof is about: their hashes differ")
    if str(held["seal"]) != digest({**arrays}, str(held["about"])):
        raise Refused("seal: the file was changed after it was written")
    b, c = ([arb(x) for x in data[name].tolist()] for name in ("b", "c"))
    (m, n), E = (len(b), len(c)), data["A"]
    rows, columns = indices("rows", arrays["rows"], 0, m), indices("columns", arrays["columns"], 0, n)
    at, by = indices("A", E[:, 0], 0, m), indices("A", E[:, 1], 0, n)
    sized = sum(sizes) == m and len(arrays["point"]) == n and len(arrays["multipliers"]) == m
    if not sized or len(rows) != n or len(columns) != zero or any(len({*x.tolist()}) < len(x) for x in (rows, columns)):
        raise BadInput(f"cones, points or entries to be solved for do not fit {m} rows of {n} variables.")
    entries = list(zip(at.tolist(), by.tolist(), [arb(x) for x in E[:, 2].tolist()], strict=True))
    z = _solved(arrays["multipliers"], [(j, i, x) for i, j, x in entries], [-x for x in c], rows)
    x = _solved(arrays["point"], [entry for entry in entries if entry[0] < zero], b[:zero], columns)
    s = list(b)
    for i, j, value in entries:
        s[i] -= value * x[j]
    blocks = [slice(*ends) for ends in pairwise(accumulate(sizes, initial=0))]
    for name, v, half in (("multipliers", z, 1), ("point", s, 2)):
        fits = all(value >= 0 for value in v[blocks[1]])
        fits &= all(_in_second_order(v[block]) for block in blocks[2 : 2 + len(soc)])
        matrices = zip(blocks[2 + len(soc) :], psd, strict=True)
        if not fits or not all(is_positive(_matrix(v[block], side, half)) for block, side in matrices if side):
            raise Refused(f"{name}: they are not proven to be in the cones")
    kinds = f"{zero} equations, {nonneg} inequalities, second-order cones {soc}, semidefinite cones {psd}"
    high, low = (total([p * q for p, q in zip(*both, strict=True)]) for both in ((c, x), (b, z)))
    claims = number("objective", about["objective"]), number("lower_bound", about["lower_bound"])
    return *claims, high, -low, f"A cone program of {n} variables, {kinds}, minimize c'x where b - A x is in the cones"


def _solved(start: np.ndarray, entries: list[tuple[int, int, arb]], right: list[arb], free: IndexArray) -> list[arb]:
    """Numbers near given ones that satisfy equations exactly; only free ones are changed."""
    found, place = [arb(x) for x in start.tolist()], {int(j): k for k, j in enumerate(free)}
    M, rest = arb_mat(len(right), len(free)), list(right)
    for i, j, x in entries:
        if j in place:
            M[i, place[j]] += x
        else:
            rest[i] -= x * found[j]
    if len(right):
        for j, value in zip(free.tolist(), M.solve(arb_mat(len(right), 1, rest)).entries(), strict=True):
            found[j] = value
    return found


def _in_second_order(v: list[arb]) -> bool:
    return not v or bool(v[0] >= 0 and v[0] ** 2 >= total([x**2 for x in v[1:]]))


def _matrix(v: list[arb], side: int, half: int) -> arb_mat:
    """A semidefinite block from its lower triangle, of which entries off the diagonal are divided."""
    S = arb_mat(side, side)
    for x, i, j in zip(v, *(ends.tolist() for ends in np.tril_indices(side)), strict=True):
        S[i, j] = S[j, i] = x if i == j else x / half
    return S
