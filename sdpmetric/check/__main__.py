"""``python -m sdpmetric.check DATA PROOF``: exit code 0 if proven, 1 if not, 2 if a file cannot be read."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
from flint import arb

from sdpmetric.check import cones, statements
from sdpmetric.check.arithmetic import bounds
from sdpmetric.check.files import DAMAGED, BadInput, Refused, digits, number, printable, read

# Characters of a sentence about a file that is not accepted.
MAX_CHARACTERS = 2000


def check(data_path: Path, proof_path: Path) -> str:
    """Prove what the file claims, or raise `Refused`; returns what was proven, as a sentence."""
    claims, data, (domain, *terms) = read(data_path, proof_path)
    if domain.kind == "cones":
        return check_cones(claims, *cones.prove(data, domain, claims))
    point = claims != [None, None]
    if not point and any(term.loss != "hard" for term in terms):
        raise BadInput("a proof of a contradiction has hard constraints and no other terms.")
    with np.errstate(all="ignore"):
        ball, low_ball, words = statements.prove(data, domain, terms)
    if not point:
        if not low_ball > 0:
            raise Refused("multipliers: the constraints are not proven to contradict each other")
        return f"{words}: no metric satisfies these constraints."
    high, low = bounds(ball)[1], max(0.0, bounds(low_ball)[0]) if low_ball >= 0 else bounds(low_ball)[0]
    if not (math.isfinite(high) and math.isfinite(low)) or low > high:
        raise Refused(f"bounds: {high!r} and {low!r} {'contradict each other' if low > high else 'are not finite'}")
    for name, claim, proven, better in zip(("objective", "lower_bound"), claims, (high, low), (-1.0, 1.0), strict=True):
        agree(name, claim, proven, better)
    first, second = digits(low, high)
    return f"{words}: the metric has an objective of at most {second}, no metric has one below {first}."


def agree(name: str, claim: object, proven: float, better: float) -> None:
    """Refuse a claim that is better than what is proven."""
    claimed = number(name, claim)
    # What a file claims may be better by this share, or for claims of about 0 by this number: both are rounded outward.
    if not better * (claimed - proven) <= 1e-9 * max(abs(claimed), abs(proven)) + 1e-300:
        raise Refused(f"{name}: the file claims {claimed!r}, what it holds proves {proven!r}")


def check_cones(claims: list[Any], high: arb | None, low: arb | None, words: str) -> str:
    """The same of a cone program, of which a file may claim one end, or that it has no point."""
    if high is None and low is not None and claims == [None, None]:
        if not low > 0:
            raise Refused("multipliers: the constraints are not proven to contradict each other")
        return f"{words}: no point satisfies these constraints."
    top, bottom = math.inf if high is None else bounds(high)[1], -math.inf if low is None else bounds(low)[0]
    if not (math.isfinite(top) or high is None) or not (math.isfinite(bottom) or low is None) or bottom > top:
        raise Refused(f"bounds: {top!r} and {bottom!r} are not finite, or contradict each other")
    for name, claim, proven, better in (("objective", claims[0], top, -1.0), ("lower_bound", claims[1], bottom, 1.0)):
        if claim is not None:
            agree(name, claim, proven, better)
    first, second = digits(bottom, top)
    claims_in_words = [f"at most {second}"] * (high is not None) + [f"at least {first}"] * (low is not None)
    return f"{words}: the optimum is {', and '.join(claims_in_words)}."


def main(arguments: list[str]) -> tuple[int, str]:
    if len(arguments) != 2:
        return 2, "usage: python -m sdpmetric.check DATA PROOF"
    try:
        return 0, f"Proven. {check(Path(arguments[0]), Path(arguments[1]))}"
    except (Refused, ZeroDivisionError) as why:
        return 1, f"Not proven. {printable(why, MAX_CHARACTERS)}."
    except BadInput as error:
        return 2, f"Bad input: {printable(error, MAX_CHARACTERS)}"
    except DAMAGED as error:
        return 2, f"Bad input: these files cannot be checked ({type(error).__name__}: {printable(error)})."


if __name__ == "__main__":
    code, text = main(sys.argv[1:])
    sys.stdout.write(text + "\n")
    raise SystemExit(code)
