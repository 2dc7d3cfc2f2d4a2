"""``python -m sdpmetric.check DATA PROOF``: exit code 0 if proven, 1 if not, 2 if a file cannot be read."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
from flint import arb, ctx

from sdpmetric.check import statements
from sdpmetric.check.arithmetic import bounds
from sdpmetric.check.files import DAMAGED, BadInput, Refused, digits, number, printable, read

# Binary digits of the midpoints of balls: more of them only if the first do not suffice.
PRECISIONS = (320, 1280)
# Characters of a sentence about a file that is not accepted.
MAX_CHARACTERS = 2000


def check(data_path: Path, proof_path: Path) -> str:
    """Prove what the file claims, or raise `Refused`; return what was proven, as a sentence.

    Without claims of both sides the file claims that no metric satisfies the constraints.
    """
    claims, data, (domain, *terms) = read(data_path, proof_path)
    is_contradiction = claims == [None, None]
    if is_contradiction and any(term.loss != "hard" for term in terms):
        raise BadInput("a proof of a contradiction has hard constraints and no other terms.")
    for bits in PRECISIONS:
        try:
            with np.errstate(all="ignore"), ctx.workprec(bits):
                return verdict(claims, *statements.prove(data, domain, terms, bits // PRECISIONS[0]))
        except (Refused, ZeroDivisionError) as why:
            refusal = why
        except BadInput:
            if bits == PRECISIONS[0]:
                raise
    raise refusal


def verdict(claims: list[object], high: arb, low: arb, words: str) -> str:
    """Compare what a file claims with the balls that were proven, or raise `Refused`."""
    if claims == [None, None]:
        if not low > 0:
            raise Refused("multipliers: the constraints are not proven to contradict each other")
        return f"{words}: no metric satisfies these constraints."
    top, bottom = bounds(high)[1], bounds(low)[0]
    bottom = max(0.0, bottom) if low >= 0 else bottom
    if not math.isfinite(top) or not math.isfinite(bottom) or bottom > top:
        raise Refused(f"bounds: {top!r} and {bottom!r} {'contradict each other' if bottom > top else 'are not finite'}")
    for name, claim, proven, better in zip(("objective", "lower_bound"), claims, (top, bottom), (-1, 1), strict=True):
        claimed = number(name, claim)
        # Claims of a file may be better by this share, or for claims of about 0 by this number: both are rounded.
        if not better * (claimed - proven) <= 1e-9 * max(abs(claimed), abs(proven)) + 1e-300:
            raise Refused(f"{name}: the file claims {claimed!r}, what it holds proves {proven!r}")
    below, above = digits(bottom, top)
    return f"{words}: the metric has an objective of at most {above}, no metric has one below {below}."


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
