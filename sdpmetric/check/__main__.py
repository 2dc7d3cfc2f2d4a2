"""``python -m sdpmetric.check DATA PROOF``: exit code 0 if proven, 1 if not, 2 if a file cannot be read."""

from __future__ import annotations

import sys
from pathlib import Path

from sdpmetric.check.files import BadInput, Refused
from sdpmetric.check.statements import check


def main(arguments: list[str]) -> tuple[int, str]:
    """The exit code, and what to print."""
    if len(arguments) != 2:
        return 2, "usage: python -m sdpmetric.check DATA PROOF"
    try:
        return 0, f"Proven. {check(Path(arguments[0]), Path(arguments[1]))}"
    except Refused as refused:
        return 1, f"Not proven. {refused}."
    except BadInput as error:
        return 2, f"Bad input: {error}"


if __name__ == "__main__":
    code, text = main(sys.argv[1:])
    sys.stdout.write(text + "\n")
    raise SystemExit(code)
