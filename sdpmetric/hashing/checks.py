"""Checks of an index's arguments and of its files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TypedDict, cast

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from sdpmetric.core import validation
from sdpmetric.core.schemas import TEXT, Part, check_arrays, check_values, read_json
from sdpmetric.hashing.upkeep import Counters
from sdpmetric.streams.step import MetricStep

FloatArray = NDArray[np.float64]

# Larger entries of a factor or a step are refused: squares of its normals times squares of examples would overflow.
LARGEST = 1e60
# No Gaussian number is as large.
LARGEST_DIRECTION = 100.0
# What the arrays and the JSON text of an index's file have to be.
ARRAYS = {
    "about": TEXT,
    "components": Part("f8", ("r d",)),
    "directions": Part("f8", ("b r",)),
    "center": Part("f8", ("d",)),
    "rows": Part("f4 f8", ("n d",)),
    "ids": Part("i8", ("n",)),
}
SETTINGS = {"rehash_share": "float", "search_share": "float", "max_pending": "int", "random_state": "int"}
ABOUT = SETTINGS | {"next_id": "int", "counters": "dict"}


class Settings(TypedDict):
    """Arguments of an index, by name."""

    rehash_share: float
    search_share: float
    max_pending: int
    random_state: int


def check_file(arrays: Mapping[str, NDArray[np.generic]]) -> tuple[Settings, Counters, int]:
    """Settings, counters and next id of an index's file whose arrays fit each other."""
    check_arrays(arrays, ARRAYS)
    about = read_json(arrays, "about")
    check_values(about, ABOUT, "about", frozenset(ABOUT))
    counters = cast(dict[str, int], about["counters"])
    check_values(counters, {f.name: f.type for f in fields(Counters)}, "counters")
    if arrays["directions"].size and np.abs(cast(FloatArray, arrays["directions"])).max() > LARGEST_DIRECTION:
        raise ValueError("its directions are no Gaussian vectors.")
    next_id = validation.check_integer("next_id", cast(int, about["next_id"]), 0)
    return cast(Settings, {name: about[name] for name in SETTINGS}), Counters(**counters), next_id


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


def check_dtype(given: DTypeLike) -> np.dtype[np.floating]:
    """float32 or float64."""
    try:
        dtype = np.dtype(given)
    except TypeError as error:
        raise ValueError(f"dtype must be float32 or float64, got {given!r}.") from error
    if dtype not in (np.float32, np.float64):
        raise ValueError(f"dtype must be float32 or float64, got {dtype}.")
    return cast("np.dtype[np.floating]", dtype)


def check_steps(steps: Sequence[MetricStep], components: FloatArray) -> list[MetricStep]:
    """Finite steps that fit a factor (r, d) and cannot make squares of its entries overflow."""
    checked, largest, (r, d) = [], float(np.abs(components).max()), components.shape
    for step in steps:
        if not isinstance(step, MetricStep):
            raise TypeError(
                f"update takes steps, as MetricStep(left, right) or as *result.steps of a stream's update, "
                f"got {type(step).__name__}."
            )
        if np.shape(step.left) != (r,) or np.shape(step.right) != (d,):
            raise ValueError(
                f"a step has vectors of shapes {np.shape(step.left)} and {np.shape(step.right)}, but the factor "
                f"of this index is ({r}, {d})."
            )
        try:
            left, right = (np.array(side, dtype=np.float64) for side in (step.left, step.right))
        except (TypeError, ValueError) as error:
            raise ValueError(f"a step of the metric must have vectors of real numbers ({error}).") from error
        if not (np.isfinite(left).all() and np.isfinite(right).all()):
            raise ValueError("a step of the metric contains NaN or infinity; the index stays where it was.")
        checked.append(MetricStep(left, right))
        longer, shorter = sorted((float(np.abs(left).max()), float(np.abs(right).max())), reverse=True)
        largest += longer * shorter  # an upper bound of the factor's entries after the steps
        if max(longer, largest) > LARGEST:
            raise ValueError(
                f"a step of the metric makes entries of {max(longer, largest):.3g}, whose squares would overflow "
                "in distances; the index stays where it was."
            )
    return checked
