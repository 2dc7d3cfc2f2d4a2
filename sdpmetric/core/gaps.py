"""The gap between an objective and a lower bound, and what it says in words, rounded up."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction


def absolute_gap(objective: float, lower_bound: float) -> float:
    """The gap ``primal - dual``, at least 0; infinity where evidence is missing or contradicts itself."""
    if not (math.isfinite(objective) and math.isfinite(lower_bound)):
        return math.inf
    gap = objective - lower_bound
    # A lower bound may exceed an objective by this share of the larger one where rounding is estimated, as in solvers
    # and in statements whose bounds are not enclosed; a larger excess is a contradiction.
    return max(gap, 0.0) if gap >= -1e-12 * max(abs(objective), abs(lower_bound)) else math.inf


def excess(objective: float, lower_bound: float) -> str | None:
    """How far above the smallest possible objective this one is at most; None if nothing is proven.

    It is relative to the lower bound, in percent, where that is positive, and a difference where it is negative. The
    gap that solvers close is relative to the objective, the larger of the two, and at most 1: at a relative gap of 0.89
    the objective may be 810 % above the smallest possible one.
    """
    if not absolute_gap(objective, lower_bound) < math.inf or lower_bound == 0.0 < objective:
        return None
    gap = max(Fraction(objective) - Fraction(lower_bound), Fraction(0))
    if lower_bound > 0.0:
        return f"at most {rounded(100 * gap / Fraction(lower_bound))} %"
    return f"at most {rounded(gap)}"


def excess_sentence(objective: float, lower_bound: float) -> str:
    """The same as a clause with its subject."""
    amount = excess(objective, lower_bound)
    if amount is not None:
        return f"the objective is {amount} above the smallest possible one"
    if lower_bound == 0.0:
        return "the lower bound is 0, so nothing is proven about how much better another metric could be"
    return "nothing is proven about how much better another metric could be"


def rounded(value: float | Fraction, digits: int = 2, *, up: bool = True) -> str:
    """A finite number with that many significant digits, rounded up or down."""
    exact = Fraction(repr(float(value))) if isinstance(value, float) else value  # a float by its digits
    context = Context(prec=digits, rounding=ROUND_CEILING if up else ROUND_FLOOR)
    short = context.divide(Decimal(exact.numerator), Decimal(exact.denominator))
    is_decimal = exact == 0 or 1e-4 <= abs(short) < 1e6
    return f"{short.normalize():,f}" if is_decimal else f"{short:.{digits - 1}e}"


def scientific(value: float, digits: int) -> str:
    """A number with that many significant digits and an exponent, rounded up."""
    if not math.isfinite(value):
        return f"{value}"
    return f"{float(Context(prec=digits, rounding=ROUND_CEILING).create_decimal(repr(float(value)))):.{digits - 1}e}"
