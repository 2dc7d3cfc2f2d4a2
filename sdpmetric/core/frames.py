"""Columns of data frames that are no numbers, in sentences that name them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from typing import Protocol, TypeVar, cast, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

GivenT = TypeVar("GivenT")

# What arrays of a kind that is no number hold.
KINDS = {"M": "dates", "m": "durations", "c": "complex numbers", "U": "text", "S": "text", "T": "text"}

# How dtypes that hold dates or durations begin.
DATES = ("date", "time", "period", "duration")
# What to do about a column, by what it holds.
ADVICE = {
    "text": "encode it with sklearn.preprocessing.OneHotEncoder in a ColumnTransformer, or drop it",
    "dates": "make numbers of it, for example days since the first, in a ColumnTransformer, or drop it",
    "durations": "make numbers of it, for example seconds, in a ColumnTransformer, or drop it",
    "complex numbers": "take real and imaginary part as two columns",
    "missing values": "fill them with sklearn.impute.SimpleImputer in a ColumnTransformer, or drop the rows",
    "infinite values": "replace them, or drop the rows",
}


class Column(Protocol):
    """A column of a pandas frame; one of polars has ``is_null`` instead of ``isna``."""

    def isna(self) -> ArrayLike:
        """Where values are missing."""

    def is_null(self) -> ArrayLike:
        """Where values are missing."""

    def __array__(self) -> NDArray[np.generic]: ...


class Frame(Protocol):
    """A pandas or polars frame."""

    columns: Iterable[str]

    @overload
    def __getitem__(self, name: str) -> Column: ...
    @overload
    def __getitem__(self, name: list[str]) -> ArrayLike: ...


def unmasked(name: str, given: GivenT) -> GivenT:
    """What is given, refused where it is a masked array with masked entries, whose hidden numbers would be used."""
    if np.ma.is_masked(given):
        raise ValueError(f"{name} has masked entries; drop them, or fill them in with filled().")
    return given


@contextmanager
def columns_in_errors(X: ArrayLike, what: str = "X") -> Iterator[None]:
    """Let an error of a check of X name the columns that it is about, where X is a pandas or polars frame."""
    dtypes = [str(dtype).lower() for dtype in getattr(X, "dtypes", [])] if hasattr(X, "columns") else []
    if any(dtype.startswith(DATES) for dtype in dtypes):
        check_frame(X, what)
    try:
        yield
    except (TypeError, ValueError):
        check_frame(X, what)
        raise


def check_frame(X: ArrayLike, what: str = "X") -> None:
    """Refuse a pandas or polars frame with a column that is not of finite numbers; see `columns_in_errors`."""
    columns = getattr(X, "columns", None)
    if columns is None or not hasattr(X, "__getitem__"):
        return
    frame = cast(Frame, X)
    bad: dict[str, list[str]] = {}
    for name in frame.columns:
        holds = _problem(frame[name])
        if holds is not None:
            bad.setdefault(holds, []).append(repr(name))
    if bad:
        holds, names = next(iter(bad.items()))
        listed = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        others = sum(map(len, bad.values())) - len(names)
        more = f" (and {others} with other trouble)" if others else ""
        subject, verb = ("columns", "hold") if len(names) > 1 else ("column", "holds")
        raise ValueError(f"{subject} {listed} of {what} {verb} {holds}: {ADVICE[holds]}{more}.")


def _problem(column: Column) -> str | None:
    """What a column holds other than finite numbers; None where it holds only those."""
    missing = np.asarray(column.isna() if hasattr(column, "isna") else column.is_null(), dtype=bool)
    values = np.asarray(column)
    if values.dtype.kind == "O":
        present = values[~missing]
        if any(isinstance(value, date) for value in present):
            return "dates"
        if any(isinstance(value, timedelta) for value in present):
            return "durations"
        try:
            values = np.array(present, dtype=np.complex128 if _complex(present) else np.float64)
        except (TypeError, ValueError):
            return "text"
    if values.dtype.kind in KINDS:
        return KINDS[values.dtype.kind]
    if missing.any() or np.isnan(values).any():
        return "missing values"
    return None if np.isfinite(values).all() else "infinite values"


def _complex(values: Iterable[object]) -> bool:
    return any(isinstance(value, complex) for value in values)
