"""LEGO, Fig. 2
============

Fig. 2 of Jain et al. (2008): recall while the metric is learned, by an index and by a linear scan, drawn again.

Run it with ``python examples/reproductions/lego_fig2.py``, or with ``--files usps.npz`` for other data than
scikit-learn's digits. It runs ``examples/07_online_hashing.py`` and writes lego_fig2.md and lego_fig2.png (for further
files lego_fig2_NAME.png) into ``--output``. Times are measured by ``examples/benchmarks/online_hashing.py``.
"""

import re
from pathlib import Path

from printed import command, markdown, printed, report

PATTERN = re.compile(r"recall at (\d+): linear scan ([\d.]+%), index ([\d.]+%) with (\d+%) of the examples ranked")


def main(arguments: list[str] | None = None) -> None:
    parser = command(__doc__)
    parser.add_argument("--files", type=Path, nargs="*", default=[], help=".npz files with X and y")
    given = parser.parse_args(arguments)
    given.output.mkdir(parents=True, exist_ok=True)
    rows = []
    for file in [None, *given.files]:
        name = "digits" if file is None else file.stem
        picture = given.output / ("lego_fig2.png" if file is None else f"lego_fig2_{name}.png")
        asked = [str(picture), *([] if file is None else ["--data", str(file)])]
        kept = given.output / "printed" / f"07_online_hashing_{name}.txt"
        found = PATTERN.findall(printed("07_online_hashing.py", asked, kept, given.printed))
        rows += [[name, *found[0], "not printed"]]
    heads = ["data", "items retrieved", "recall, linear scan", "recall, index", "examples ranked", "paper's recall"]
    report("lego_fig2", markdown(heads, rows), given.output)


if __name__ == "__main__":
    main()
