"""Data and proof files: reading them, and the hashes that tie them to each other."""

from __future__ import annotations

import csv
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[np.generic]]
EXPECTED = {"LMNN": ("y",), "POLA": ("pairs", "similar"), "MMC": ("pairs", "similar")}


class BadInput(Exception):
    """A file that cannot be read, or lacks what a check needs."""


class Refused(Exception):
    """What the proof does not prove: the step that fails, and why."""

    def __init__(self, step: str, why: str) -> None:
        super().__init__(f"{step}: {why}")


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
        if name not in self.arrays or self.arrays[name].ndim != dimensions:
            raise BadInput(f"the proof has no array {name!r} of {dimensions} dimensions.")
        array = np.asarray(self.arrays[name], dtype=np.float64)
        if not np.isfinite(array).all():
            raise BadInput(f"the array {name!r} of the proof is not finite.")
        return array


def digest(arrays: Arrays, text: str = "") -> str:
    """SHA-256 of a text and of arrays in the order of their names: shapes, and numbers as 8-byte floats."""
    state = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name], dtype="<f8")
        state.update(f"{name}{array.shape}".encode())
        state.update(array.tobytes())
    return state.hexdigest()


def read_npz(path: Path) -> Arrays:
    """All arrays of an NPZ file."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, BadZipFile, AttributeError) as error:
        raise BadInput(f"{path} is not an NPZ file: {error}") from error


def read_proof(path: Path) -> Proof:
    """A proof file whose seal, a digest of all it says, is unbroken."""
    arrays = read_npz(path)
    try:
        text = str(arrays.pop("about"))
        about = json.loads(text)
        seal = str(arrays.pop("seal"))
    except (KeyError, ValueError) as error:
        raise BadInput(f"{path} is not a proof: it says nothing about itself.") from error
    if not isinstance(about, dict) or about.get("statement") not in EXPECTED:
        raise BadInput(f"{path} proves none of {', '.join(EXPECTED)}.")
    if seal != digest(arrays, text):
        raise Refused("seal", "the file was changed after it was written")
    return Proof(about, arrays)


def read_data(path: Path, statement: str) -> Arrays:
    """X and what the statement needs beside it; of a CSV file the last column is y. Labels become numbers 0, 1, ..."""
    data = read_csv(path) if path.suffix.lower() == ".csv" else read_npz(path)
    names = ("X", *EXPECTED[statement])
    if missing := [name for name in names if name not in data]:
        raise BadInput(f"{path} has no {' and no '.join(missing)}; a check of {statement} needs {', '.join(names)}.")
    data = {name: data[name] for name in names}
    if "y" in data:
        data["y"] = np.unique(data["y"], return_inverse=True)[1].ravel()
    if "similar" in data:
        data["similar"] = np.asarray(data["similar"], dtype=np.float64) > 0
    if data["X"].ndim != 2 or not np.isfinite(np.asarray(data["X"], dtype=np.float64)).all():
        raise BadInput(f"X in {path} is not a matrix of finite numbers.")
    return data


def read_csv(path: Path) -> Arrays:
    """Features and, in the last column, labels; a first line that is not of numbers is a header."""
    try:
        with path.open(newline="") as file:
            rows = [row for row in csv.reader(file) if row]
        rows = rows if _numbers(rows[0][:-1]) is not None else rows[1:]
        X, labels = [[float(value) for value in row[:-1]] for row in rows], [row[-1] for row in rows]
        return {"X": np.array(X), "y": np.array(_numbers(labels) or labels)}
    except (OSError, ValueError, IndexError) as error:
        raise BadInput(f"{path} is not a CSV file of features and a last column of labels: {error}") from error


def _numbers(cells: list[str]) -> list[float] | None:
    try:
        return [float(cell) for cell in cells]
    except ValueError:
        return None
