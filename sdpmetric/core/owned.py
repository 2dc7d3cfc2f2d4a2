"""What a statement keeps belongs to it alone: arrays of its own that nobody can write to."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from mmap import mmap
from typing import TypeVar, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

ValueT = TypeVar("ValueT")


def owned(value: ValueT, made_of: object = None) -> ValueT:
    """The same value, with each array in it replaced by a read-only copy unless nobody can write to it."""
    made = isinstance(made_of, np.ndarray | list | tuple) and value is not made_of
    if made and isinstance(value, np.ndarray) and value.base is None:
        _frozen(value)
    return cast(ValueT, _owned(value))


def _owned(value: object) -> object:
    if isinstance(value, np.ndarray):
        return value if _is_owned(value) else _frozen(value.copy())
    if sp.issparse(value):
        if not all(_is_owned(part) for part in _arrays(value)):
            value = copy.deepcopy(value)
            for part in _arrays(value):
                _frozen(part)
        return value
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return tuple(_owned(part) for part in value)
    if isinstance(value, list):
        return [_owned(part) for part in value]
    if isinstance(value, Mapping):
        return {name: _owned(part) for name, part in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        for f in fields(value):
            part = getattr(value, f.name)
            if (own := _owned(part)) is not part:
                object.__setattr__(value, f.name, own)
    return value


def _is_owned(array: NDArray[np.generic]) -> bool:
    base: object = array
    while isinstance(base, np.ndarray):
        if base.flags.writeable:
            return False
        base = base.base
    return base is None or isinstance(base, bytes | mmap)


def _frozen(array: NDArray[np.generic]) -> NDArray[np.generic]:
    array.setflags(write=False)
    return array


def _arrays(matrix: object) -> list[NDArray[np.generic]]:
    return [part for part in vars(matrix).values() if isinstance(part, np.ndarray)]
