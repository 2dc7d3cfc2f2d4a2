"""Numbers as text, rounded up or outward, and tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from html import escape


def rounded(value: Fraction) -> str:
    """Return a finite number with two significant digits, rounded up."""
    context = Context(prec=2, rounding=ROUND_CEILING)
    short = context.divide(Decimal(value.numerator), Decimal(value.denominator))
    is_decimal = value == 0 or 1e-4 <= abs(short) < 1e6
    return f"{short.normalize():,f}" if is_decimal else f"{short:.1e}"


def scientific(value: float, digits: int) -> str:
    """Return a number with that many significant digits and an exponent, rounded up."""
    if not math.isfinite(value):
        return f"{value}"
    return f"{float(Context(prec=digits, rounding=ROUND_CEILING).create_decimal(repr(float(value)))):.{digits - 1}e}"


def digits(low: float, high: float) -> tuple[str, str]:
    """Return two bounds rounded outward to eight digits, or to as many as keep the gap from more than doubling."""
    for count in range(8, 18):
        first, second = _rounded(low, count, ROUND_FLOOR), _rounded(high, count, ROUND_CEILING)
        if low == high or float(second) - float(first) <= 2.0 * (high - low):
            break
    return first, second


def _rounded(value: float, count: int, rounding: str) -> str:
    if count > 15 or not math.isfinite(value):
        return f"{value!r}"
    return f"{float(Context(prec=count, rounding=rounding).create_decimal(repr(value))):.{count}g}"


def cell(value: object) -> str:
    """Return a value as text: numbers short, nothing for what is unknown."""
    if isinstance(value, float):
        return f"{value:.6g}" if math.isfinite(value) else ""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "" if value is None else str(value)


class Printed:
    """Base of values that notebooks show as `print` does."""

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


def aligned(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return rows below a head, in columns as wide as their cells, all of them to the right."""
    lines = [list(head), *([cell(value) for value in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = ("  ".join(f"{value:>{width}}" for value, width in zip(line, widths, strict=True)) for line in lines)
    return "\n".join(line.rstrip() for line in padded)
