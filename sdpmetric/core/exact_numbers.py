"""Numbers that float64 would change raise an error: a certificate is about the numbers that were passed."""

from __future__ import annotations

import math
from decimal import Decimal
from numbers import Rational
from typing import TypeVar, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

ValueT = TypeVar("ValueT")

# Integers up to this are floats.
LARGEST_EXACT = 2**53
# What to do with a number that float64 would change.
REMEDY = (
    "subtract an offset in its own type (the smallest value of each column), divide by a power of 2, or pass "
    ".astype(numpy.float64) if the rounded numbers are meant"
)


def check_exact(name: str, values: ValueT) -> ValueT:
    """Return `values`, real numbers in any container, unless float64 would change one of them.

    Parameters
    ----------
    name : str
        The argument, for the error.
    values : array-like, frame, sparse array or number

    Returns
    -------
    array-like, frame, sparse array or number
        The same object.

    Raises
    ------
    ValueError
        If an integer beyond 2**53, a long double, a fraction or a decimal would be rounded, or a number is complex or
        text.

    Examples
    --------
    >>> from sdpmetric.core.exact_numbers import check_exact
    >>> check_exact("X", [[2**53, 0.5]])
    [[9007199254740992, 0.5]]
    """
    if hasattr(values, "columns") and hasattr(values, "__getitem__"):
        for column in values.columns:
            entries = _unrounded(values[column])
            if entries.dtype.kind == "O":  # text and dates are named by the check of frames
                entries = np.array([value for value in entries if isinstance(value, Rational | Decimal)], dtype=object)
            if entries.dtype.kind in "iufO":
                _check_array(f"column {column!r} of {name}", entries)
    elif sp.issparse(values):
        _check_array(name, np.asarray(getattr(values, "data", ())))
    else:
        try:
            array = _unrounded(values)
        except (TypeError, ValueError):
            return values  # ragged: the caller names what it expects
        _check_array(name, array)
    return values


def _unrounded(values: object) -> NDArray[np.generic]:
    """An array of `values`, of objects where NumPy would round integers that stand beside floats or missing values."""
    array = np.asarray(values)
    if isinstance(values, np.ndarray) or array.dtype != np.float64 or not array.size:
        return array
    return np.array(values, dtype=object) if (np.abs(array) >= LARGEST_EXACT).any() else array


def _check_array(name: str, array: NDArray[np.generic]) -> None:
    kind = array.dtype.kind
    if kind == "c":
        raise ValueError(f"{name}: Complex data not supported; pass real numbers, such as both parts as two columns.")
    if kind in "iu" and array.dtype.itemsize == 8:
        integers = cast("NDArray[np.integer]", array)
        array = array[(integers > LARGEST_EXACT) | (integers < -LARGEST_EXACT)]
    elif kind == "f" and array.dtype.itemsize > 8:
        with np.errstate(over="ignore"):
            array = array[(array != array.astype(np.float64)) & (array == array)]
    elif kind in "US":
        array = array.ravel()[:1]
    elif kind != "O":
        return
    for value in array.ravel().tolist():
        if isinstance(value, str | bytes):
            raise ValueError(f"{name} contains text ({value!r}); encode it as numbers, or drop it.")
        if _is_changed(value):
            raise ValueError(f"{name} contains {str(value)[:40]}, which float64 would round: {REMEDY}.")


def _is_changed(value: object) -> bool:
    """Whether float64 changes an element of an array of objects; missing values are another check's."""
    if isinstance(value, np.integer):
        value = int(value)
    if isinstance(value, Decimal | np.floating) and not math.isfinite(value):
        return False
    if not isinstance(value, Rational | Decimal | np.floating):
        return False
    try:
        return bool(float(value) != value)
    except OverflowError:
        return True
