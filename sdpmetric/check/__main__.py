"""``python -m sdpmetric.check DATA PROOF``: exit code 0 if proven, 1 if not, 2 if a file cannot be read."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
from flint import arb

from sdpmetric.check import cones
from sdpmetric.check.arithmetic import ends
from sdpmetric.check.files import BadInput, Refused, digits, read, read_npz
from sdpmetric.check.statements import program

# What a file claims may be better than what is proven here by this much, relatively: both are rounded outwards.
AGREEMENT = 1e-9


def check(data_path: Path, proof_path: Path) -> str:
    """Prove what the file claims, or raise `Refused`; returns what was proven, as a sentence."""
    if '"cones"' in str(read_npz(proof_path, ("about",), others=True)["about"]):
        *claims, ball, least, words = cones.program(data_path, proof_path)
        return _agreed(claims, ball, least, f"{words}: the optimum is", "at most {}, and at least {}.")
    data, proof = read(data_path, proof_path)
    with np.errstate(all="ignore"):
        ball, least, words = program(data, proof)
    if proof.about["objective"] is None and proof.about["lower_bound"] is None:
        if not least > 0:
            raise Refused("multipliers: the constraints are not proven to contradict each other")
        return f"{words}: no metric satisfies these constraints."
    claims = [proof.number("objective"), proof.number("lower_bound")]
    bounds = "an objective of at most {}, no metric has one below {}."
    return _agreed(claims, ball, least, f"{words}: the metric has", bounds)


def _agreed(claims: list[float], ball: arb, least: arb, words: str, bounds: str) -> str:
    """What is proven, unless it is less than what is claimed."""
    high, low = ends(ball)[1], max(0.0, ends(least)[0]) if least >= 0 else ends(least)[0]
    if not (math.isfinite(high) and math.isfinite(low)) or low > high:
        raise Refused(f"bounds: {high!r} and {low!r} {'contradict each other' if low > high else 'are not finite'}")
    for name, claimed, proven, better in (("objective", claims[0], high, -1.0), ("lower_bound", claims[1], low, 1.0)):
        if not better * (claimed - proven) <= AGREEMENT * max(abs(claimed), abs(proven)):
            raise Refused(f"{name}: the file claims {claimed!r}, what it holds proves {proven!r}")
    first, second = digits(low, high)
    return f"{words} {bounds.format(second, first)}"


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
