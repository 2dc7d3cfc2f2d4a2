"""Table 2 of Lim and Lanckriet (2014): rankings of covertype, measured again.

Run it with ``python examples/reproductions/frml_table2.py --data DIR``; DIR (or SDPMETRIC_DATA) holds covtype_20k.npz.
It runs ``examples/benchmarks/frml_covertype.py`` (10 to 15 minutes; options that it does not know itself, such as
``--folds 2 --methods FRML-WARP``, are passed on) and writes frml_table2.md and frml_table2.png into ``--output``.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from printed import command, markdown, number, printed, report, table, use_data

MEASURES = ("MAP", "P@1", "P@10")
# The paper's figures that are at hand.
PAPER = {"FRML-WARP": {"MAP": 0.511, "P@1": 0.811, "P@10": 0.689}}


def main(arguments: list[str] | None = None) -> None:
    given, others = command(__doc__).parse_known_args(arguments)
    use_data(given.data)
    kept = given.output / "printed" / "frml_covertype.txt"
    rows = table(printed("benchmarks/frml_covertype.py", others, kept, given.printed), "method")
    cells = []
    for row in rows:
        paper = PAPER.get(row["method"])
        known = "not at hand" if paper is None else ", ".join(f"{paper[name]:.3f}" for name in MEASURES)
        cells.append([row["method"], *(row[name] for name in (*MEASURES, "AUC")), known])
    text = markdown(["method", *MEASURES, "AUC", f"paper: {', '.join(MEASURES)}"], cells)

    def draw(path: Path) -> None:
        figure, axes = plt.subplots(1, 3, figsize=(12, 0.9 + 0.42 * len(rows)), sharey=True, layout="constrained")
        places = np.arange(len(rows))[::-1]
        for axis, name in zip(axes, MEASURES, strict=True):
            means, errors = zip(*(number(row[name]) for row in rows), strict=True)
            axis.barh(places, means, xerr=np.nan_to_num(errors), color="#8fb0d3", label="here")
            known = [
                (PAPER[row["method"]][name], p) for row, p in zip(rows, places, strict=True) if row["method"] in PAPER
            ]
            if known:
                axis.plot(*zip(*known, strict=True), "x", color="#c0392b", ms=8, mew=2, label="paper")
            axis.set(title=name, xlim=(0, 1))
        axes[0].set_yticks(places, [row["method"] for row in rows])
        axes[-1].legend(frameon=False, loc="lower right")
        figure.savefig(path, dpi=110)
        plt.close(figure)

    report("frml_table2", text, given.output, draw)


if __name__ == "__main__":
    main()
