"""Copies that nobody can write to: they keep the certificate of a statement true.

The flag of a read-only array is no promise: an older view, another process that writes a mapped file, or
``setflags(write=True)`` changes it. The memory of a `bytes` object cannot change, so arrays are copied into one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

ValueT = TypeVar("ValueT")


def read_only(value: ValueT) -> ValueT:
    """Return the value with read-only copies of the arrays in it; arrays that were copied before are shared."""
    return cast(ValueT, _read_only(value))


def _read_only(value: object) -> object:
    if isinstance(value, np.ndarray):
        return _copied(value)
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return tuple(map(_read_only, value))
    if isinstance(value, list):
        return [_read_only(item) for item in value]
    if isinstance(value, Mapping):
        return {name: _read_only(item) for name, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        before = {f.name: getattr(value, f.name) for f in fields(value) if f.init}
        after = {name: _read_only(item) for name, item in before.items()}
        changes = {name: item for name, item in after.items() if item is not before[name]}
        return replace(value, **changes) if changes else value
    return value


def _copied(array: NDArray[np.generic]) -> NDArray[np.generic]:
    base: object = array
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, bytes):
        return array
    if array.dtype.hasobject:
        array = array.copy()
        array.setflags(write=False)
        return array
    return np.ndarray(array.shape, array.dtype, buffer=array.tobytes())
