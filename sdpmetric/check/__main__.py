"""``python -m sdpmetric.check DATA PROOF``: exit code 0 if proven, 1 if not, 2 if a file cannot be read."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np

from sdpmetric.check import cones, statements
from sdpmetric.check.arithmetic import ends
from sdpmetric.check.files import BadInput, Refused, digits, number, read

# What a file claims may be better than what is proven here by this much, relatively: both are rounded outward.
AGREEMENT = 1e-9


def check(data_path: Path, proof_path: Path) -> str:
    """Prove what the file claims, or raise `Refused`; returns what was proven, as a sentence."""
    claims, data, (domain, *terms) = read(data_path, proof_path)
    program, point = domain.kind == "cones", claims != [None, None]
    if not point and any(term.loss != "hard" for term in terms):
        raise BadInput("a proof of a contradiction has hard constraints and no other terms.")
    with np.errstate(all="ignore"):
        ball, least, words = cones.prove(data, domain, point) if program else statements.prove(data, domain, terms)
    if not point:
        if not least > 0:
            raise Refused("multipliers: the constraints are not proven to contradict each other")
        return f"{words}: no {'point' if program else 'metric'} satisfies these constraints."
    high, low = ends(ball)[1], max(0.0, ends(least)[0]) if least >= 0 else ends(least)[0]
    if not (math.isfinite(high) and math.isfinite(low)) or low > high:
        raise Refused(f"bounds: {high!r} and {low!r} {'contradict each other' if low > high else 'are not finite'}")
    for name, claim, proven, better in zip(("objective", "lower_bound"), claims, (high, low), (-1.0, 1.0), strict=True):
        claimed = number(name, claim)
        if not better * (claimed - proven) <= AGREEMENT * max(abs(claimed), abs(proven)):
            raise Refused(f"{name}: the file claims {claimed!r}, what it holds proves {proven!r}")
    first, second = digits(low, high)
    if program:
        return f"{words}: the optimum is at most {second}, and at least {first}."
    return f"{words}: the metric has an objective of at most {second}, no metric has one below {first}."


def main(arguments: list[str]) -> tuple[int, str]:
    """The exit code, and what to print."""
    if len(arguments) != 2:
        return 2, "usage: python -m sdpmetric.check DATA PROOF"
    try:
        return 0, f"Proven. {check(Path(arguments[0]), Path(arguments[1]))}"
    except (Refused, np.linalg.LinAlgError, ZeroDivisionError) as why:
        return 1, f"Not proven. {why}."
    except (BadInput, MemoryError) as error:
        return 2, f"Bad input: {error}"


if __name__ == "__main__":
    code, text = main(sys.argv[1:])
    sys.stdout.write(text + "\n")
    raise SystemExit(code)
