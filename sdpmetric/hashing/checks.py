"""Checks of what an index is given. Every error is a sentence."""

from __future__ import annotations

from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]


def check_count(name: str, given: int, high: int | None = None) -> int:
    """A positive integer."""
    if isinstance(given, bool) or not isinstance(given, int | np.integer) or given < 1:
        raise ValueError(f"{name} must be a positive integer, got {given!r}.")
    if high is not None and given > high:
        raise ValueError(f"{name} must be at most {high}, got {given}.")
    return int(given)


def check_vector(name: str, given: ArrayLike, d: int) -> FloatArray:
    """A finite (d,) vector in float64."""
    try:
        vector = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be a vector of real numbers ({error}).") from error
    if vector.shape != (d,):
        raise ValueError(f"{name} must be a vector with {d} features, as the index was made for, got {vector.shape}.")
    if not np.isfinite(vector).all():
        raise ValueError(f"{name} contains NaN or infinity.")
    return vector


def check_names(ids: ArrayLike) -> NDArray[np.int64]:
    """A list of integers, each once."""
    names = np.asarray(ids)
    if names.size == 0:
        return np.empty(0, np.int64)
    if names.ndim != 1 or names.dtype.kind not in "iu":
        raise ValueError(f"ids must be a list of integers, got shape {names.shape} and dtype {names.dtype}.")
    if names.dtype.kind == "u" and int(names.max()) > np.iinfo(np.int64).max:
        raise ValueError("ids must fit into 64-bit integers with a sign.")
    values, counts = np.unique(names, return_counts=True)
    if len(values) < len(names):
        raise ValueError(f"id {values[counts > 1][0]} is named twice; each example has an id of its own.")
    return names.astype(np.int64)


def read_archive(path: str | Path, what: str, expected: tuple[str, ...]) -> dict[str, NDArray[np.generic]]:
    """The arrays of an NPZ file, read without pickles."""
    try:
        file = np.load(Path(path), allow_pickle=False)
    except (ValueError, EOFError, BadZipFile) as error:
        raise ValueError(f"{path} is not a saved index: expected an NPZ file that {what}.save wrote.") from error
    if not isinstance(file, np.lib.npyio.NpzFile):
        raise ValueError(f"{path} is not a saved index but a single array; expected what {what}.save wrote.")
    with file:
        if missing := sorted(set(expected).difference(file.files)):
            raise ValueError(f"{path} is not a saved index: it lacks {', '.join(missing)}.")
        return {name: file[name] for name in expected}
