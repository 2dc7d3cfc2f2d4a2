"""Data and proof files: what is read, how much at most, and the hashes that tie them to each other."""

from __future__ import annotations

import csv
import hashlib
import json
import math
import re
import struct
import sys
import zlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.int64]
Arrays = dict[str, NDArray[np.generic]]

# The format that is read, and at most: members, bytes of an array, pairs or triplets, and bytes of a header.
FORMAT, MEMBERS, BYTES, LISTED, HEAD = 2, 32, 2**30, 2**24, 2**12
# Of each statement: its data, its parameters, and the arrays of its proofs.
PARTS = {
    "LMNN": ("X y", "push_weight ridge squared", "components coordinates multipliers targets triplets"),
    "POLA": ("X pairs similar", "initial_threshold slack_weight threshold", "components multipliers"),
    "MMC": ("X pairs similar", "theta", "components coordinates weights"),
}
# The header of an NPY file, as NumPy and others write it: byte order, kind and size of a number, order, shape.
HEADER = re.compile(
    r"\{'descr': '([<>|=][fiub][1248]|[<>|=][US]\d{1,5})', 'fortran_order': (True|False), "
    r"'shape': \(([\d, ]{0,60})\),? ?\}\s*"
)
# What zipfile, zlib and NumPy raise where a file is damaged, or was made to do harm.
PYTHON = (ValueError, OSError, LookupError, RuntimeError, MemoryError, ArithmeticError, EOFError)
DAMAGED = (*PYTHON, csv.Error, struct.error, BadZipFile, zlib.error)


class BadInput(Exception):
    """A file that cannot be read, or lacks what a check needs."""


class Refused(Exception):
    """What the proof does not prove: the step that fails, and why."""


@dataclass(frozen=True)
class Member:
    """An array of an NPZ file of which the header was read, and nothing else."""

    path: Path
    name: str
    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]
    fortran: bool
    start: int

    def read(self, kinds: str, *most: int) -> NDArray[np.generic]:
        """The array, unless it is of another kind or larger than `most` in a dimension."""
        size = math.prod(self.shape) * self.dtype.itemsize
        fits = len(self.shape) == len(most) and all(has <= may for has, may in zip(self.shape, most, strict=True))
        if self.dtype.kind not in kinds or not fits or size > BYTES:
            found = f"{self.name!r} in {self.path} is of type {self.dtype} and shape {self.shape}"
            raise BadInput(f"{found}; expected a type of kind {kinds!r}, a shape of at most {most}, {BYTES} bytes.")
        try:
            with ZipFile(self.path) as file, file.open(self.name + ".npy") as member:
                member.read(self.start)
                array = np.frombuffer(member.read(size), dtype=self.dtype)
            if self.dtype.kind == "U":
                str(array.tolist()).encode()  # refuses what is no text
            return array.reshape(self.shape, order="F" if self.fortran else "C")
        except DAMAGED as error:
            raise BadInput(f"{self.name!r} in {self.path} is damaged: {error}.") from error

    def numbers(self, *most: int) -> FloatArray:
        """The array in float64, unless a number is not finite or not a float64."""
        array = self.read("fiub", *most)
        numbers = array.astype(np.float64)
        if not np.isfinite(numbers).all() or (array.dtype.kind in "iu" and (np.abs(numbers) >= 2.0**53).any()):
            raise BadInput(f"{self.name!r} in {self.path} holds numbers that are not finite, or integers from 2^53.")
        return numbers


def members(path: Path, needed: tuple[str, ...], others: bool) -> dict[str, Member]:
    """The headers of the arrays in an NPZ file; with `others` it may hold more, which is not read."""
    try:
        with ZipFile(path) as file:
            names = [entry.filename.removesuffix(".npy") for entry in file.infolist()]
            missing, foreign = set(needed) - set(names), [] if others else sorted(set(names) - set(needed))
            if len(names) > MEMBERS or len(set(names)) < len(names) or missing or foreign:
                raise ValueError(f"it holds {', '.join(names[:MEMBERS])}; expected {', '.join(needed)}, each once")
            return {name: _header(path, file, name) for name in needed}
    except DAMAGED as error:
        raise BadInput(f"{path} is not an NPZ file of this kind: {error}.") from error


def _header(path: Path, file: ZipFile, name: str) -> Member:
    info = file.getinfo(name + ".npy")
    if info.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
        raise ValueError(f"{name!r} is compressed by a method that NumPy does not use")
    with file.open(info) as member:
        magic = member.read(8)
        wide = 4 if magic[6:7] in (b"\x02", b"\x03") else 2
        length = int.from_bytes(member.read(wide), "little")
        found = HEADER.fullmatch(member.read(min(length, HEAD)).decode("latin-1"))
    if magic[:6] != b"\x93NUMPY" or found is None:
        raise ValueError(f"{name!r} is not an array of real numbers or text")
    shape, dtype = tuple(int(size) for size in found[3].split(",") if size.strip()), np.dtype(found[1])
    start = 8 + wide + length
    if info.file_size != start + math.prod(shape) * dtype.itemsize:
        raise ValueError(f"{name!r} is not as long as its header says")
    return Member(path, name, dtype, shape, found[2] == "True", start)


@dataclass(frozen=True)
class Proof:
    """A proof file: what it claims, and the arrays that are to prove it."""

    statement: str
    about: dict[str, object]
    arrays: dict[str, FloatArray]

    def number(self, name: str) -> float:
        """A parameter or a claim."""
        value = self.about[name]
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


def read(data_path: Path, proof_path: Path) -> tuple[Arrays, Proof]:
    """Data and a proof about them whose seal, a digest of all it says, is unbroken; no array larger than they need."""
    texts = members(proof_path, ("about", "seal"), others=True)
    text, seal = str(texts["about"].read("U")), str(texts["seal"].read("U"))
    try:
        about = json.loads(text)
    except DAMAGED as error:
        raise BadInput(f"{proof_path} is not a proof: what it says of itself is not JSON: {error}.") from error
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise BadInput(f"{proof_path} is not a proof of format {FORMAT}, which this checker reads; save it again.")
    if (statement := str(about.get("statement"))) not in PARTS:
        raise BadInput(f"{proof_path} proves none of {', '.join(PARTS)}.")
    needed, parameters, names = (tuple(names.split()) for names in PARTS[statement])
    if set(about) != {"format", "statement", "objective", "lower_bound", "data", *parameters}:
        raise BadInput(f"{proof_path} states {', '.join(about)}; expected claims, data and {', '.join(parameters)}.")
    found = members(proof_path, (*names, "about", "seal"), others=False)
    data = read_csv(data_path) if data_path.suffix.lower() == ".csv" and "y" in needed else read_npz(data_path, needed)
    if digest(data) != about["data"]:
        raise Refused("data: these are not the data that the proof is about: their hashes differ")
    n, d = data["X"].shape
    most = {"components": (max(n, d), d), "coordinates": (d, d), "targets": (n, n - 1), "triplets": (LISTED, 3)}
    arrays = {name: found[name].numbers(*most.get(name, (LISTED,))) for name in names}
    if arrays["components"].shape[1] != d:
        raise BadInput(f"'components' in {proof_path} has {arrays['components'].shape[1]} columns; expected {d}.")
    if seal != digest({**arrays}, text):
        raise Refused("seal: the file was changed after it was written")
    return data, Proof(statement, about, arrays)


def read_npz(path: Path, needed: tuple[str, ...]) -> Arrays:
    """X and what the statement needs beside it."""
    found = members(path, needed, others=True)
    X = found["X"].numbers(BYTES, BYTES)
    if "y" in found:
        y = found["y"].read("fiubUS", *(len(X), 1)[: len(found["y"].shape)]).ravel()
        return _labelled(path, X, y.tolist())
    pairs, similar = found["pairs"].numbers(LISTED, 2), found["similar"].numbers(LISTED)
    if pairs.shape != (len(similar), 2) or len(X) < 2 or not X.shape[1]:
        raise BadInput(f"{path} has {len(similar)} entries of similar, pairs of shape {pairs.shape}, X of {X.shape}.")
    return {"X": X, "pairs": indices("pairs", pairs, 0, len(X)), "similar": similar > 0}


def read_csv(path: Path) -> Arrays:
    """Features and, in the last column, labels; a first line that does not begin with a number is a header."""
    try:
        if path.stat().st_size > BYTES:
            raise ValueError(f"it has more than {BYTES} bytes")
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = [cells for row in csv.reader(file) if any(cells := [cell.strip() for cell in row])]
        rows = rows[isinstance(_parsed(rows[0][:1])[0], str) :]
        X = np.array([[float(cell) for cell in row[:-1]] for row in rows], dtype=np.float64)
        if X.ndim != 2 or not np.isfinite(X).all():
            raise ValueError("features are not finite numbers, as many in each row")
    except DAMAGED as error:
        raise BadInput(f"{path} is not a CSV file of features and a last column of labels: {error}.") from error
    return _labelled(path, X, _parsed([row[-1] for row in rows]))


def _parsed(cells: list[str]) -> list[object]:
    """The cells as whole numbers, else as numbers, else as they are."""
    for kind in (int, float):
        with suppress(ValueError):
            return [kind(cell) for cell in cells]
    return [*cells]


def _labelled(path: Path, X: FloatArray, labels: list[object]) -> Arrays:
    """Labels become 0, 1, ... as they appear."""
    if len(X) < 2 or not X.shape[1] or len(labels) != len(X) or any(label != label for label in labels):
        raise BadInput(f"{path} has {len(labels)} labels for X of shape {X.shape}, or there are too few, or NaN.")
    seen: dict[object, int] = {}
    return {"X": X, "y": np.array([seen.setdefault(label, len(seen)) for label in labels])}
