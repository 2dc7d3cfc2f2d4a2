"""What the parts of a file have to be: arrays by type, shape and finiteness, JSON by the types of its values."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

# What code raises that meets a value it does not expect, besides ValueError and TypeError, which are sentences here.
FOREIGN = (AttributeError, LookupError, ArithmeticError, MemoryError, RecursionError)
# Of annotations: what JSON has for them.
JSON_KINDS: dict[str, tuple[type, ...]] = {
    "float": (float, int),
    "int": (int,),
    "str": (str,),
    "Rigor": (str,),
    "bool": (bool,),
    "dict": (dict,),
    "list": (list,),
    "None": (type(None),),
    "tuple[int, ...]": (list, tuple),
}


@dataclass(frozen=True)
class Part:
    """What an array of a file has to be."""

    types: str  # Types it may have, as in ``numpy.dtype.str`` without the byte order, or kinds of types
    shapes: tuple[str, ...] = ("",)  # Shapes it may have, each the names of its sizes, or numbers
    finite: bool = True  # Whether its numbers have to be finite
    optional: bool = False  # Whether it may be missing


TEXT = Part("U")


def check_arrays(arrays: Mapping[str, NDArray[np.generic]], schema: Mapping[str, Part]) -> dict[str, int]:
    """Refuse arrays that are not what a schema says; returns the sizes by their names."""
    needed = [name for name, part in schema.items() if "*" not in name and not part.optional]
    if missing := sorted(set(needed) - set(arrays)):
        raise ValueError(f"it lacks {', '.join(missing)}.")
    sizes: dict[str, int] = {}
    for pattern, part in schema.items():
        taken = [name for name in arrays if next((p for p in schema if fnmatchcase(name, p)), None) == pattern]
        for name in taken:
            _check_part(name, arrays[name], part, sizes)
    return sizes


def _check_part(name: str, array: NDArray[np.generic], part: Part, sizes: dict[str, int]) -> None:
    code = array.dtype.str.lstrip("<>=|")
    if not any(code == known or code[0] == known for known in part.types.split()):
        raise ValueError(f"{name} has the type {array.dtype}.")
    for shape in part.shapes:
        named = shape.split()
        here = dict(sizes)
        if len(named) == array.ndim and all(
            size == (int(key) if key.isdigit() else here.setdefault(key, size))
            for key, size in zip(named, array.shape, strict=True)
        ):
            sizes |= here
            break
    else:
        known = ", ".join(f"{key} = {size}" for key, size in sizes.items())
        wanted = " or ".join(f"({', '.join(shape.split())})" for shape in part.shapes)
        raise ValueError(f"{name} has shape {array.shape}, not {wanted}{f' with {known}' if known else ''}.")
    if part.finite and array.dtype.kind in "fc" and not np.isfinite(array).all():
        raise ValueError(f"{name} contains NaN or infinity.")


def read_json(arrays: Mapping[str, NDArray[np.generic]], name: str) -> dict[str, object]:
    """The JSON object that an array of text holds."""
    check_arrays(arrays, {name: TEXT})
    try:
        values = json.loads(str(arrays[name]))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name} is no JSON text.") from error
    if not isinstance(values, dict):
        raise ValueError(f"{name} is no JSON object.")
    return values


def check_values(values: object, types: Mapping[str, object], what: str, needed: frozenset[str] = frozenset()) -> None:
    """Refuse JSON that is no object with values of the given types."""
    if not isinstance(values, dict):
        raise ValueError(f"{what} is no JSON object.")
    if missing := sorted(needed - set(values)):
        raise ValueError(f"{what} lacks {', '.join(missing)}.")
    for name, value in values.items():
        kinds = [JSON_KINDS[kind] for kind in str(types.get(name, "")).split(" | ") if kind]
        flat = tuple(kind for each in kinds for kind in each)
        if not isinstance(value, flat) or (isinstance(value, bool) and bool not in flat):
            raise ValueError(f"{name} of {what} must be {types.get(name, 'absent')}, got {str(value)[:40]!r}.")
        if isinstance(value, list | tuple) and types[name] != "list" and not all(type(one) is int for one in value):
            raise ValueError(f"{name} of {what} must be integers.")
        if "float" in str(types[name]) and isinstance(value, int) and abs(value) > 1 << 1000:
            raise ValueError(f"{name} of {what} is too large a number.")


@contextlib.contextmanager
def expected(path: str | Path, what: str, writer: str) -> Iterator[None]:
    """Say of a file what it was expected to be, whatever is wrong with its contents."""
    try:
        yield
    except (ValueError, TypeError, *FOREIGN) as error:
        said = str(error) if isinstance(error, ValueError | TypeError) else f"{type(error).__name__}: {error}."
        raise ValueError(f"{path} is not {what}: expected an NPZ file that {writer} wrote; {said}") from error
