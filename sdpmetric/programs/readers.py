"""Programs from files of other tools: SDPA's sparse format, and MPS."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from sdpmetric.lazy import cvxpy as cp

# The columns of the fields of a fixed MPS line.
FIELDS = ((1, 3), (4, 12), (14, 22), (24, 36), (39, 47), (49, 61))
SECTIONS = ("NAME", "OBJSENSE", "ROWS", "COLUMNS", "RHS", "RANGES", "BOUNDS", "QUADOBJ", "ENDATA")


def read_program(path: str | Path) -> cp.Problem:
    r"""Read a semidefinite program in SDPA's sparse format, or a linear or quadratic one in MPS.

    Parameters
    ----------
    path : str or Path
        A file that ends with .dat-s, .mps, .sif or .qps, each also with .gz behind.

    Returns
    -------
    cvxpy.Problem
        SDPA's ``minimize c'x where x_1 F_1 + ... + x_m F_m - F_0 is positive semidefinite``, or the program of the MPS
        file. Numbers are read as the nearest floats.

    Raises
    ------
    ValueError
        If the file is of another kind, has integers, or does not follow its format.

    See Also
    --------
    bound

    Examples
    --------
    >>> import tempfile, sdpmetric as sm
    >>> from pathlib import Path
    >>> from sdpmetric.programs.readers import read_program
    >>> path = Path(tempfile.mkdtemp()) / "small.dat-s"
    >>> _ = path.write_text("1\n1\n2\n1.0\n0 1 1 2 1.0\n1 1 1 1 1.0\n1 1 2 2 1.0\n")
    >>> interval = sm.bound(read_program(path))  # the least x with [[x, -1], [-1, x]] positive semidefinite
    >>> interval.lower_bound <= 1 <= interval.upper_bound
    True
    """
    path = Path(path)
    suffix = path.name.lower().removesuffix(".gz").rpartition(".")[2]
    if suffix not in ("dat-s", "mps", "sif", "qps"):
        raise ValueError(f"{path} must end with .dat-s, .mps, .sif or .qps, possibly with .gz behind.")
    content = path.read_bytes()
    lines = (gzip.decompress(content) if path.suffix == ".gz" else content).decode().splitlines()
    try:
        return _sdpa(lines) if suffix == "dat-s" else _mps(lines)
    except (LookupError, ValueError) as error:
        raise ValueError(f"{path} does not follow its format: {error}.") from error


def _sdpa(lines: list[str]) -> cp.Problem:
    while lines[0][:1] in ("*", '"'):
        del lines[0]
    m, count = (int(re.findall(r"[+-]?\d+", line)[0]) for line in lines[:2])
    sides = [int(word) for word in re.findall(r"[+-]?\d+", lines[2])[:count]]
    words = re.sub(r"[,(){}]", " ", " ".join(lines[3:])).split()
    c, entries = np.array(words[:m], dtype=np.float64), np.array(words[m:], dtype=np.float64).reshape(-1, 5)
    x, constraints = cp.Variable(m, name="x"), []
    for number, side in enumerate(sides, 1):
        block = entries[entries[:, 1] == number]
        k, i, j = (block[:, column].astype(np.int64) for column in (0, 2, 3))
        value, size = block[:, 4], abs(side)
        if len(k) and (min(i.min(), j.min()) < 1 or max(i.max(), j.max()) > size or k.max() > m):
            raise ValueError(f"block {number} has an entry outside")
        if side > 0:  # entries off the diagonal are given once
            twin = i != j
            place = np.append((i - 1) + (j - 1) * size, ((j - 1) + (i - 1) * size)[twin])
            k, value = (np.append(v, v[twin]) for v in (k, value))
        else:
            place = i - 1
        F = sp.csr_array((np.where(k == 0, -value, value), (place, k)), (size * size if side > 0 else size, m + 1))
        slack = F[:, 1:] @ x + F[:, [0]].toarray().ravel()
        constraints.append(cp.reshape(slack, (size, size), order="F") >> 0 if side > 0 else slack >= 0)
    return cp.Problem(cp.Minimize(c @ x), constraints)


def _mps(lines: list[str]) -> cp.Problem:
    lines = [line.rstrip() for line in lines if line.strip() and line[0] != "*"]
    # Names of fixed files may have blanks, which shows by lines with more words than fields.
    free = not any(line[0] == " " and len(line.split()) > 5 + (line[1:3].strip() != "") for line in lines)
    sections: dict[str, list[list[str]]] = {name: [] for name in SECTIONS}
    section, maximize = "", False
    for line in lines:
        if line[0] != " ":
            section = line.split()[0].upper()
            if section not in SECTIONS:
                raise ValueError(f"the section {section} is not known")
        else:
            fields = (line[first:last].strip() for first, last in FIELDS)
            sections[section].append(line.split() if free else [word for word in fields if word])
        maximize |= section == "OBJSENSE" and "MAX" in line.upper()
    if any("'MARKER'" in words for words in sections["COLUMNS"]):
        raise ValueError("it has integer variables")
    kinds = {name: kind.upper() for kind, name in sections["ROWS"]}
    columns = {name: k for k, name in enumerate(dict.fromkeys(words[0] for words in sections["COLUMNS"]))}
    rows = {name: k for k, name in enumerate(name for name, kind in kinds.items() if kind != "N")}
    n, cost = len(columns), next(name for name, kind in kinds.items() if kind == "N")
    M, c, constants, ranges = sp.lil_array((len(rows), n)), np.zeros(n), dict[str, float](), dict[str, float]()
    for column, *pairs in sections["COLUMNS"]:
        for row, value in _numbers(pairs):
            if row in rows:
                M[rows[row], columns[column]] = value
            elif row == cost:
                c[columns[column]] = value
    for numbers, name in ((constants, "RHS"), (ranges, "RANGES")):
        for words in sections[name]:
            numbers.update(_numbers(words[len(words) % 2 :]))
    x, constraints = cp.Variable(n, name="x"), list[cp.Constraint]()
    intervals = [_row_interval(kinds[row], constants.get(row, 0.0), ranges.get(row)) for row in rows]
    limits = np.array(intervals).reshape(-1, 2).T, np.array(_limits(columns, sections["BOUNDS"]))
    for matrix, (low, high) in zip((M.tocsr(), sp.eye_array(n, format="csr")), limits, strict=True):
        equal, above, below = low == high, (low != high) & np.isfinite(low), (low != high) & np.isfinite(high)
        constraints += [matrix[equal] @ x == low[equal]] if equal.any() else []
        constraints += [matrix[above] @ x >= low[above]] if above.any() else []
        constraints += [matrix[below] @ x <= high[below]] if below.any() else []
    objective = c @ x - constants.get(cost, 0.0)
    if sections["QUADOBJ"]:
        P = sp.lil_array((n, n))
        for row, column, number in sections["QUADOBJ"]:
            i, j = columns[row], columns[column]
            P[i, j] = P[j, i] = float(number)
        objective = objective + 0.5 * cp.quad_form(x, cp.psd_wrap(P.tocsc()))
    return cp.Problem(cp.Maximize(objective) if maximize else cp.Minimize(objective), constraints)


def _numbers(pairs: list[str]) -> Iterator[tuple[str, float]]:
    return zip(pairs[::2], map(float, pairs[1::2]), strict=True)


def _row_interval(kind: str, b: float, width: float | None) -> tuple[float, float]:
    """The least and the largest value of a row."""
    if kind == "E":
        return min(b, b + (width or 0.0)), max(b, b + (width or 0.0))
    room = np.inf if width is None else abs(width)
    return (b - room, b) if kind == "L" else (b, b + room)


def _limits(columns: dict[str, int], bounds: list[list[str]]) -> tuple[list[float], list[float]]:
    """The least and the largest value of each variable; an upper one below 0 alone leaves no lower one."""
    low, high, lowered = [0.0] * len(columns), [np.inf] * len(columns), set[int]()
    for kind, *words in bounds:
        number = kind not in ("FR", "MI", "PL")
        k = columns[words[-1] if not number and words[-1] in columns else words[-2]]
        if kind not in ("UP", "LO", "FX", "FR", "MI", "PL"):
            raise ValueError(f"the bound {kind} is not known, or of an integer")
        value = float(words[-1]) if number else np.inf
        if kind in ("LO", "FX", "FR", "MI"):
            low[k] = value if number else -np.inf
            lowered.add(k)
        if kind in ("UP", "FX", "FR", "PL"):
            high[k] = value
        if kind == "UP" and value < 0.0 and k not in lowered:
            low[k] = -np.inf
    return low, high
