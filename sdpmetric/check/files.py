"""Data and proof files: reading them, and the hashes that tie them to each other."""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[np.generic]]
# What zipfile and NumPy raise where bytes of an archive are damaged.
DAMAGED = (ValueError, OSError, EOFError, RuntimeError, struct.error, BadZipFile, zlib.error)
EXPECTED = {"LMNN": ("y",), "POLA": ("pairs", "similar"), "MMC": ("pairs", "similar")}


class BadInput(Exception):
    """A file that cannot be read, or lacks what a check needs."""


class Refused(Exception):
    """What the proof does not prove: the step that fails, and why."""


@dataclass(frozen=True)
class Proof:
    """A proof file: what it claims, and the arrays that are to prove it."""

    about: dict[str, object]
    arrays: Arrays

    def number(self, name: str) -> float:
        """A parameter or a claim."""
        value = self.about.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise BadInput(f"the proof gives no number for {name!r}.")
        return float(value)

    def array(self, name: str, dimensions: int) -> NDArray[np.float64]:
        """An array of finite numbers, in float64."""
        array = np.asarray(self.arrays.get(name, np.nan), dtype=np.float64)
        if array.ndim != dimensions or not np.isfinite(array).all():
            raise BadInput(f"the proof has no array {name!r} of finite numbers and {dimensions} dimensions.")
        return array


def digest(arrays: Arrays, text: str = "") -> str:
    """SHA-256 of a text and of arrays in the order of their names: shapes, and numbers as 8-byte floats."""
    state = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name], dtype="<f8")
        state.update(f"{name}{array.shape}".encode() + array.tobytes())
    return state.hexdigest()


def read_npz(path: Path) -> Arrays:
    """All arrays of an NPZ file."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (*DAMAGED, AttributeError) as error:
        raise BadInput(f"{path} is not an NPZ file: {error}") from error


def read_proof(path: Path) -> Proof:
    """A proof file whose seal, a digest of all it says, is unbroken."""
    arrays = read_npz(path)
    try:
        text, seal = str(arrays.pop("about")), str(arrays.pop("seal"))
        about = json.loads(text)
    except (KeyError, ValueError) as error:
        raise BadInput(f"{path} is not a proof: it says nothing about itself.") from error
    if not isinstance(about, dict) or about.get("statement") not in EXPECTED:
        raise BadInput(f"{path} proves none of {', '.join(EXPECTED)}.")
    if seal != digest(arrays, text):
        raise Refused("seal: the file was changed after it was written")
    return Proof(about, arrays)


def read_data(path: Path, statement: str) -> Arrays:
    """X and what the statement needs beside it; of a CSV file the last column is y. Labels become numbers 0, 1, ..."""
    data, names = read_csv(path) if path.suffix.lower() == ".csv" else read_npz(path), ("X", *EXPECTED[statement])
    if not set(names) <= set(data):
        raise BadInput(f"{path} has {', '.join(data)}; a check of {statement} needs {', '.join(names)}.")
    data = {name: data[name] for name in names}
    if "y" in data:
        data["y"] = np.unique(data["y"], return_inverse=True)[1].ravel()
    else:
        data["similar"] = np.asarray(data["similar"], dtype=np.float64) > 0
    if data["X"].ndim != 2 or not np.isfinite(np.asarray(data["X"], dtype=np.float64)).all():
        raise BadInput(f"X in {path} is not a matrix of finite numbers.")
    return data


def read_csv(path: Path) -> Arrays:
    """Features and, in the last column, labels; a first line that does not begin with a number is a header."""
    try:
        cells = np.loadtxt(path, delimiter=",", dtype=str, ndmin=2, quotechar='"', comments=None)
        cells = cells[0 if _parsed(cells[0, :1]).dtype.kind == "f" else 1 :]
        return {"X": cells[:, :-1].astype(float), "y": _parsed(cells[:, -1])}
    except (OSError, ValueError, IndexError) as error:
        raise BadInput(f"{path} is not a CSV file of features and a last column of labels: {error}") from error


def _parsed(cells: NDArray[np.str_]) -> NDArray[np.generic]:
    try:
        return cells.astype(float)
    except ValueError:
        return cells
