"""Programs from files of other tools: SDPA's sparse format, and MPS."""

from __future__ import annotations

import gzip
import re
from collections import defaultdict
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from sdpmetric.arrays import FloatArray
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
    >>> found = sm.bound(read_program(path))  # the least x with [[x, -1], [-1, x]] positive semidefinite
    >>> found.lower_bound <= 1 <= found.upper_bound
    True
    """
    path = Path(path)
    kind = path.name.lower().removesuffix(".gz").rpartition(".")[2]
    if kind not in ("dat-s", "mps", "sif", "qps"):
        raise ValueError(f"{path} must end with .dat-s, .mps, .sif or .qps, possibly with .gz behind.")
    held = path.read_bytes()
    lines = (gzip.decompress(held) if path.suffix == ".gz" else held).decode().splitlines()
    try:
        return _sdpa(lines) if kind == "dat-s" else _mps(lines)
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
        k, i, j = (entries[entries[:, 1] == number][:, column].astype(np.int64) for column in (0, 2, 3))
        value, size = entries[entries[:, 1] == number][:, 4], abs(side)
        if len(k) and (min(i.min(), j.min()) < 1 or max(i.max(), j.max()) > size or k.max() > m):
            raise ValueError(f"block {number} has an entry outside")
        both = (i != j) & (side > 0)
        place = np.concatenate([(i - 1) + (j - 1) * size, ((j - 1) + (i - 1) * size)[both]]) if side > 0 else i - 1
        k, value = (np.append(v, v[both]) if side > 0 else v for v in (k, value))
        F = sp.csr_array((np.where(k == 0, -value, value), (place, k)), (size * size if side > 0 else size, m + 1))
        at = F[:, 1:] @ x + F[:, [0]].toarray().ravel()
        constraints.append(cp.reshape(at, (size, size), order="F") >> 0 if side > 0 else at >= 0)
    return cp.Problem(cp.Minimize(c @ x), constraints)


def _fields(line: str, free: bool) -> list[str]:
    return line.split() if free else [line[first:last].strip() for first, last in FIELDS if line[first:last].strip()]


def _mps(lines: list[str]) -> cp.Problem:
    lines = [line.rstrip() for line in lines if line.strip() and line[0] != "*"]
    # Names of fixed files may have blanks: more words than a line can have, or a line that does not end with a number.
    free = not any(line[0] == " " and len(line.split()) > 5 + (line[1:3].strip() != "") for line in lines)
    section, kinds, columns = "", dict[str, str](), dict[str, int]()
    A: dict[tuple[str, str], float] = {}
    rhs, ranges = defaultdict[str, float](float), dict[str, float]()
    bounds: list[list[str]] = []
    P: dict[tuple[int, int], float] = {}
    maximize = False
    for line in lines:
        if line[0] != " ":
            section = line.split()[0].upper()
            if section not in SECTIONS:
                raise ValueError(f"the section {section} is not known")
            maximize |= section == "OBJSENSE" and "MAX" in line.upper()
            continue
        words = _fields(line, free)
        if section == "OBJSENSE":
            maximize = words[0].upper().startswith("MAX")
        elif section == "ROWS":
            kinds[words[1]] = words[0].upper()
        elif section == "COLUMNS":
            if "'MARKER'" in words:
                raise ValueError("it has integer variables")
            columns.setdefault(words[0], len(columns))
            A |= {(row, words[0]): float(v) for row, v in zip(words[1::2], words[2::2], strict=True)}
        elif section in ("RHS", "RANGES"):
            pairs = words[len(words) % 2 :]
            (rhs if section == "RHS" else ranges).update(zip(pairs[::2], map(float, pairs[1::2]), strict=True))
        elif section == "BOUNDS":
            bounds.append(words)
        elif section == "QUADOBJ":
            i, j = sorted((columns[words[0]], columns[words[1]]))
            P[i, j] = float(words[2])
    return _linear(kinds, columns, A, rhs, ranges, bounds, P, maximize)


def _linear(
    kinds: dict[str, str],
    columns: dict[str, int],
    A: dict[tuple[str, str], float],
    rhs: dict[str, float],
    ranges: dict[str, float],
    bounds: list[list[str]],
    P: dict[tuple[int, int], float],
    maximize: bool,
) -> cp.Problem:
    n, cost = len(columns), next(name for name, kind in kinds.items() if kind == "N")
    rows = {name: k for k, name in enumerate(name for name, kind in kinds.items() if kind != "N")}
    inside = [(rows[row], columns[column], v) for (row, column), v in A.items() if row in rows]
    i, j, v = (np.array(part) for part in zip(*inside, strict=True)) if inside else [np.zeros(0, dtype=np.int64)] * 3
    M = sp.csr_array((v.astype(np.float64), (i, j)), (len(rows), n))
    c, b = np.zeros(n), np.array([rhs.get(name, 0.0) for name in rows])
    for (row, column), value in A.items():
        if row == cost:
            c[columns[column]] = value
    least, most = np.full(len(rows), -np.inf), np.full(len(rows), np.inf)
    for name, k in rows.items():
        kind, width = kinds[name], ranges.get(name)
        up, down = (
            kind == "L" or (kind == "E" and (width or 0.0) >= 0.0),
            kind == "G" or (kind == "E" and (width or 0.0) < 0.0),
        )
        least[k], most[k] = (-np.inf if kind == "L" else b[k]), (np.inf if kind == "G" else b[k])
        if width is not None:
            if kind == "E":
                least[k], most[k] = (b[k], b[k] + width) if up else (b[k] + width, b[k])
            elif up:
                least[k] = b[k] - abs(width)
            elif down:
                most[k] = b[k] + abs(width)
    x = cp.Variable(n, name="x")
    low, high = _limits(bounds, columns, n)
    constraints = []
    for left, lower, upper in ((M, least, most), (sp.eye_array(n, format="csr"), low, high)):
        equal, some, other = (
            lower == upper,
            (lower != upper) & np.isfinite(lower),
            (lower != upper) & np.isfinite(upper),
        )
        constraints += [left[equal] @ x == lower[equal]] if equal.any() else []
        constraints += [left[some] @ x >= lower[some]] if some.any() else []
        constraints += [left[other] @ x <= upper[other]] if other.any() else []
    objective = c @ x - rhs.get(cost, 0.0)
    if P:
        i, j, v = (np.array(part) for part in zip(*((i, j, v) for (i, j), v in P.items()), strict=True))
        half = sp.csc_array((v, (i, j)), (n, n))
        objective = objective + 0.5 * cp.quad_form(x, cp.psd_wrap(half + sp.triu(half, 1).T))
    return cp.Problem(cp.Maximize(objective) if maximize else cp.Minimize(objective), constraints)


def _limits(bounds: list[list[str]], columns: dict[str, int], n: int) -> tuple[FloatArray, FloatArray]:
    """The least and the largest value of each variable."""
    low, high, given = np.zeros(n), np.full(n, np.inf), set[int]()
    for words in bounds:
        kind = words[0].upper()
        numbers = [] if kind in ("FR", "MI", "PL") else [float(words[-1])]
        name = words[-1] if not numbers and words[-1] in columns else words[-2]
        k = columns[name]
        if kind not in ("UP", "LO", "FX", "FR", "MI", "PL"):
            raise ValueError(f"the bound {kind} is not known, or of an integer")
        if kind in ("LO", "FX"):
            low[k] = numbers[0]
            given.add(k)
        if kind in ("UP", "FX"):
            high[k] = numbers[0]
            if kind == "UP" and numbers[0] < 0.0 and k not in given:
                low[k] = -np.inf
        if kind in ("FR", "MI"):
            low[k] = -np.inf
        if kind in ("FR", "PL"):
            high[k] = np.inf
    return low, high
