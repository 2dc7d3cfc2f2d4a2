"""``python -m sdpmetric.check DATA PROOF``: exit code 0 if proven, 1 if not, 2 if a file cannot be read."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from sdpmetric.check.files import BadInput, Refused, digest, read_data, read_proof
from sdpmetric.check.statements import STATEMENTS

# What a file claims may be better than what is proven here by this much, relatively: both are rounded outwards.
AGREEMENT = 1e-9


def check(data_path: Path, proof_path: Path) -> str:
    """Prove what the file claims, or raise `Refused`; returns what was proven, as a sentence."""
    proof = read_proof(proof_path)
    statement, columns = str(proof.about["statement"]), proof.array("components", 2).shape[1]
    data = read_data(data_path, statement)
    if digest(data) != proof.about.get("data"):
        raise Refused("data: these are not the data that the proof is about: their hashes differ")
    if columns != (X := np.asarray(data["X"], dtype=np.float64)).shape[1]:
        raise Refused(f"components: the factor has {columns} columns, not {X.shape[1]}")
    high, low, details = STATEMENTS[statement](X, data, proof)
    for name, proven, better in (("objective", high, -1.0), ("lower_bound", low, 1.0)):
        claimed = proof.number(name)
        if better * (claimed - proven) > AGREEMENT * max(abs(claimed), abs(proven)):
            raise Refused(f"{name}: the file claims {claimed!r}, what it holds proves {proven!r}")
    return f"{statement} ({details}): the metric has an objective of at most {high!r}, no metric has one below {low!r}."


def main(arguments: list[str]) -> tuple[int, str]:
    """The exit code, and what to print."""
    if len(arguments) != 2:
        return 2, "usage: python -m sdpmetric.check DATA PROOF"
    try:
        return 0, f"Proven. {check(Path(arguments[0]), Path(arguments[1]))}"
    except Refused as why:
        return 1, f"Not proven. {why}."
    except BadInput as error:
        return 2, f"Bad input: {error}"


if __name__ == "__main__":
    code, text = main(sys.argv[1:])
    sys.stdout.write(text + "\n")
    raise SystemExit(code)
