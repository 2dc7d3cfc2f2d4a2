"""Hashes that identify statements."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

# Metadata of a dataclass field that controls the computation and is not part of the statement.
NOT_STATED = {"stated": False}


class Hash(Protocol):
    """What `hashlib` makes."""

    def update(self, data: bytes | memoryview, /) -> None:
        """Take some bytes."""


def digest(*values: object) -> str:
    """SHA-256 of values and of everything in them, as hexadecimal digits."""
    state = hashlib.sha256()
    for value in values:
        _add(state, value)
    return state.hexdigest()


def _add(state: Hash, value: object) -> None:
    if value is None or isinstance(value, str | bool | int | float | np.generic):
        state.update(repr(value.item() if isinstance(value, np.generic) else value).encode() + b"\0")
    elif isinstance(value, np.ndarray):
        _add_array(state, value)
    elif sp.issparse(value):
        matrix = sp.csr_array(value)
        for item in (matrix.indptr, matrix.indices, matrix.data):
            _add_array(state, item)
    elif isinstance(value, Mapping):
        _add(state, sorted(value.items()))
    elif isinstance(value, tuple | list):
        state.update(f"{len(value)} values\0".encode())
        for item in value:
            _add(state, item)
    elif is_dataclass(value):
        state.update(f"{type(value).__name__}\0".encode())
        for f in fields(value):
            if f.metadata.get("stated", True):
                _add(state, (f.name, getattr(value, f.name)))
    else:
        raise TypeError(f"a {type(value).__name__} cannot be hashed; expected arrays, numbers, texts or dataclasses.")


def _add_array(state: Hash, array: NDArray[np.generic]) -> None:
    state.update(f"{array.dtype.str} {array.shape}\0".encode())
    if array.dtype.hasobject:
        state.update(repr(array.tolist()).encode())
    elif array.size:
        state.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
