"""Data and proof files: what is read, how much at most, and the hashes that tie them to each other."""

from __future__ import annotations

import csv
import hashlib
import json
import math
import struct
import sys
import tokenize
import zlib
from contextlib import suppress
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.int64]
Arrays = dict[str, NDArray[np.generic]]

# The format that is read, and at most: members, bytes of an array, pairs or triplets.
FORMAT, MEMBERS, BYTES, LISTED = 4, 128, 2**30, 2**24
# Of terms and domains: what the text says, and arrays; of some losses, more of these.
PARTS = {
    "labels": ("loss offset pull weight", "multipliers targets triplets weights"),
    "rows": ("loss weight", "entries multipliers offsets weights"),
    "collapse": ("weight", "distributions neighbors weights"),
    "softmax": ("weight", "distributions pairs"),
    "trace": ("weight", ""),
    **dict.fromkeys(("frobenius", "log_det"), ("weight", "slope to")),
    **dict.fromkeys(("off_diagonal", "volume"), ("weight", "slope")),
    **dict.fromkeys(("all", "diagonal", "threshold"), ("", "components")),
    "bases": ("", "components map"),
    "regions": ("", "components groups"),
    "tasks": ("sharing", "components groups"),
    "cones": ("exp nonneg power psd soc zero", "columns multipliers point rows"),
}
MORE = {"half square": " sides", "log ratio": " bounds sides"}
# What data may hold: names of groups, of which only equality matters, and numbers, with so many columns.
NAMES, WHOLE = ("y", "tasks", "regions"), ("pairs", "triplets", "quadruplets")
DATA = {"X": (BYTES, BYTES), "pairs": (LISTED, 2), "similar": (LISTED,), "triplets": (LISTED, 3)}
DATA |= {"quadruplets": (LISTED, 4), "A": (LISTED, 3), "P": (LISTED, 3), "b": (LISTED,), "c": (LISTED,)}
# What zipfile, zlib, NumPy and what reads JSON raise where a file is damaged, or was made to do harm.
PYTHON = (ValueError, OSError, LookupError, RuntimeError, MemoryError, ArithmeticError, EOFError)
ODD = (TypeError, AttributeError, SyntaxError, tokenize.TokenError)
DAMAGED = (*PYTHON, *ODD, csv.Error, struct.error, BadZipFile, zlib.error)


def digits(low: float, high: float) -> tuple[str, str]:
    """Two bounds rounded outward to eight digits, or to as many as keep the gap from more than doubling."""
    for count in range(8, 18):
        first, second = _rounded(low, count, ROUND_FLOOR), _rounded(high, count, ROUND_CEILING)
        if low == high or float(second) - float(first) <= 2.0 * (high - low):
            break
    return first, second


def _rounded(value: float, count: int, rounding: str) -> str:
    if count > 15 or not math.isfinite(value):
        return f"{value!r}"
    return f"{float(Context(prec=count, rounding=rounding).create_decimal(repr(value))):.{count}g}"


class BadInput(Exception):
    """A file that cannot be read, or lacks what a check needs."""


class Refused(Exception):
    """What the proof does not prove: the step that fails, and why."""


def read_npz(path: Path, needed: tuple[str, ...], others: bool = False) -> Arrays:
    """Arrays of an NPZ file, numbers or text, in all at most BYTES; with `others` it may hold more, not read."""
    try:
        with ZipFile(path) as file:
            names = [entry.filename.removesuffix(".npy") for entry in file.infolist()]
            missing, foreign = set(needed) - set(names), [] if others else sorted(set(names) - set(needed))
            if len(names) > MEMBERS or len(set(names)) < len(names) or missing or foreign:
                raise ValueError(f"it holds {', '.join(names[:MEMBERS])}; expected {', '.join(needed)}, each once")
            infos = {name: file.getinfo(name + ".npy") for name in needed}
            if sum(info.file_size for info in infos.values()) > BYTES:
                raise ValueError(f"its arrays have more than {BYTES} bytes")
            return {name: _array(file, info) for name, info in infos.items()}
    except DAMAGED as error:
        raise BadInput(f"{path} is not an NPZ file of this kind: {error}.") from error


def _array(file: ZipFile, info: ZipInfo) -> NDArray[np.generic]:
    """An array whose header is compared with the size of the member before anything is allocated."""
    if info.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
        raise ValueError(f"{info.filename!r} is compressed by a method that NumPy does not use")
    with file.open(info) as member:
        reader = npy.read_array_header_1_0 if npy.read_magic(member) == (1, 0) else npy.read_array_header_2_0
        shape, fortran, dtype = reader(member)
        size = math.prod(shape) * dtype.itemsize
        if dtype.kind not in "fiubUS" or info.file_size != member.tell() + size:
            raise ValueError(f"{info.filename!r} holds {dtype}, or is not as long as its header says")
        array = np.frombuffer(member.read(size), dtype=dtype).reshape(shape, order="F" if fortran else "C")
    if dtype.kind == "U":
        if (array.reshape(-1).view(f"{dtype.byteorder}u4") > sys.maxunicode).any():
            raise ValueError(f"{info.filename!r} holds what is no text")
        str(array.tolist()).encode()  # refuses halves of characters
    return array


def numbers(name: str, array: NDArray[np.generic], *most: int) -> FloatArray:
    """The array in float64, if all numbers are finite float64, and no dimension is larger than `most`."""
    exact = most[0] == LISTED  # rows of exactly so many numbers
    fits = array.ndim == len(most) and all(has <= may for has, may in zip(array.shape, most, strict=True))
    if array.dtype.kind not in "fiub" or not fits or (exact and array.shape[1:] != most[1:]):
        what = f"{name!r} is of type {array.dtype} and shape {array.shape}"
        raise BadInput(f"{what}; expected numbers, and a shape of at most {most}.")
    found = array.astype(np.float64)
    if not np.isfinite(found).all() or (array.dtype.kind in "iu" and (np.abs(found) >= 2.0**53).any()):
        raise BadInput(f"{name!r} holds numbers that are not finite, or integers from 2^53.")
    return found


@dataclass(frozen=True)
class Said:
    """A part of what a proof says, its claims, its domain or a term: numbers and words, and arrays."""

    about: dict[str, object]
    arrays: dict[str, FloatArray]


def number(name: str, value: object) -> float:
    """A finite number of the text of a proof."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= sys.float_info.max:
        raise BadInput(f"{name!r} of the proof is not a finite number.")
    return float(value)


def indices(name: str, array: FloatArray, least: int, end: int) -> IndexArray:
    """Whole numbers from `least`, below `end`."""
    if ((array < least) | (array >= end) | (array != np.floor(array))).any():
        raise BadInput(f"{name!r} holds what is not a whole number from {least} to {end - 1}.")
    return array.astype(np.int64)


def digest(arrays: Arrays, text: str = "") -> str:
    """SHA-256 of a text and of arrays in the order of their names: shapes, and numbers as 8-byte floats."""
    state = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name], dtype="<f8")
        state.update(f"{name}{array.shape}".encode() + array.tobytes())
    return state.hexdigest()


def read(data_path: Path, proof_path: Path) -> tuple[Arrays, list[Said]]:
    """Data, and the claims, the domain and the terms of a proof about them whose seal is unbroken."""
    text, seal = (str(array) for array in read_npz(proof_path, ("about", "seal"), others=True).values())
    try:
        about = json.loads(text)
        if about["format"] != FORMAT or {*about} != {"format", "objective", "lower_bound", "data", "domain", "terms"}:
            raise ValueError(f"it is not of format {FORMAT}, which this checker reads; save it again")
        names, texts = list[str](), [about["domain"], *about["terms"]]
        for k, said in enumerate(texts):
            kind = "term" if k else "domain"
            parameters, own = PARTS[said[kind]]
            if set(said) != {kind, *parameters.split()} or ("weight" in parameters) != (k > 0):
                raise ValueError(f"it says {said!r}; expected {kind} {parameters}")
            names += [f"{k}.{name}" for name in (own + MORE.get(str(said.get("loss")), "")).split()]
        members, cones = tuple(about["data"]["members"]), about["domain"]["domain"] == "cones"
        fits = set(members) == {*"APbc"} and len(texts) == 1 if cones else "X" in members and len(texts) > 1
        if set(about["data"]) != {"members", "sha256"} or not fits:
            raise ValueError(f"it says of its data {about['data']!r}, or has no terms")
        data = read_data(data_path, members)
    except DAMAGED as error:
        raise BadInput(f"{proof_path} is not a proof, or {data_path} not its data: {error}.") from error
    if digest(data) != about["data"]["sha256"]:
        raise Refused("data: these are not the data that the proof is about: their hashes differ")
    held, (n, d) = read_npz(proof_path, (*names, "about", "seal")), (0, 0) if cones else data["X"].shape
    d += about["domain"]["domain"] == "threshold"
    q = held["0.map"].shape[-1] if "0.map" in held else d
    most = {"components": (n, n * q + n, q), "map": (d, q), "targets": (n, n - 1), "triplets": (LISTED, 3)}
    most |= {"entries": (LISTED, 4), "pairs": (LISTED, 3), "distributions": (n, n * n), "neighbors": (n, n - 1)}
    most |= dict.fromkeys(("slope", "to"), (n * d, n * d))
    arrays = {name: numbers(name, held[name], *most.get(name.split(".")[1], (LISTED,))) for name in names}
    if not cones and (arrays["0.components"].shape[2] != q or len(arrays.get("0.map", np.empty(d))) != d):
        raise BadInput(f"components or map in {proof_path} have other sizes; expected {q} columns.")
    if seal != digest({**arrays}, text):
        raise Refused("seal: the file was changed after it was written")
    parts: list[dict[str, FloatArray]] = [{} for _ in texts]
    for name, array in arrays.items():
        parts[int(name.split(".")[0])][name.split(".")[1]] = array
    return data, [Said(about, {}), *map(Said, texts, parts)]


def read_data(path: Path, names: tuple[str, ...]) -> Arrays:
    """X or a cone program, and what the proof says that it needs beside it."""
    if path.suffix.lower() == ".csv" and set(names) == {"X", "y"}:
        return read_csv(path)
    found, data = read_npz(path, names, others=True), Arrays()
    for name, array in found.items():
        data[name] = numbered(array.ravel().tolist()) if name in NAMES else numbers(name, array, *DATA[name])
    if "X" not in data:
        return data
    n, d = data["X"].shape
    for name in set(WHOLE) & set(data):
        data[name] = indices(name, np.asarray(data[name], dtype=np.float64), 0, n)
    if "similar" in data:
        data["similar"] = np.asarray(data["similar"], dtype=np.float64) > 0
    fit = all(len(data[name]) == n for name in NAMES if name in data)
    if n < 2 or not d or not fit or len(data.get("similar", ())) != len(data.get("pairs", ())):
        raise BadInput(f"{path} has X of shape {(n, d)}, too small, or not as many names or pairs as expected.")
    return data


def read_csv(path: Path) -> Arrays:
    """Features and, in the last column, labels; a first line that does not begin with a number is a header."""
    if path.stat().st_size > BYTES:
        raise ValueError(f"{path} has more than {BYTES} bytes")
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = [cells for row in csv.reader(file) if any(cells := [cell.strip() for cell in row])]
    rows = rows[isinstance(_parsed(rows[0][:1])[0], str) :]
    X = np.array([[float(cell) for cell in row[:-1]] for row in rows], dtype=np.float64)
    return {"X": numbers("X", X, BYTES, BYTES), "y": numbered(_parsed([row[-1] for row in rows]))}


def _parsed(cells: list[str]) -> list[object]:
    """The cells as whole numbers, else as numbers, else as they are."""
    for kind in (int, float):
        with suppress(ValueError):
            return [kind(cell) for cell in cells]
    return [*cells]


def numbered(names: list[object]) -> IndexArray:
    """Names become 0, 1, ... as they appear."""
    if any(name != name for name in names):
        raise BadInput("a label is not a number.")
    seen: dict[object, int] = {}
    return np.array([seen.setdefault(name, len(seen)) for name in names], dtype=np.int64)
