"""FRML, Table 2
=============

Table 2 of Lim and Lanckriet (2014): rankings of covertype, measured again.

Run it with ``python examples/reproductions/frml_table2.py --data DIR``; DIR (or SDPMETRIC_DATA) holds covtype_20k.npz.
It runs ``examples/benchmarks/frml_covertype.py`` (15 to 30 minutes; options that it does not know itself, such as
``--folds 2 --methods OASIS``, are passed on) and writes frml_table2.md and frml_table2.png into ``--output``.

.. image:: /pictures/frml_table2.png
   :alt: FRML, Table 2, as this script draws it
"""

# sphinx_gallery_thumbnail_path = 'pictures/frml_table2.png'

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from printed import command, markdown, number, printed, report, table, use_data

MEASURES = ("MAP", "P@1", "P@10")
# The paper's table, whole; there is no Euclidean row, and MLR-MAP did not converge.
PAPER = {
    name: dict(zip(("AUC", "MAP", "P@1", "P@10"), values, strict=True))
    for name, values in {
        "FRML-WARP": (0.843, 0.511, 0.811, 0.689),
        "FRML-AUC": (0.852, 0.477, 0.749, 0.648),
        "LORETA": (0.823, 0.427, 0.804, 0.671),
        "MLR-AUC": (0.851, 0.481, 0.762, 0.665),
        "OASIS": (0.792, 0.417, 0.792, 0.674),
        "LMNN": (0.661, 0.307, 0.782, 0.666),
        "ITML": (0.835, 0.458, 0.762, 0.663),
    }.items()
}


def printed_row(method: str) -> dict[str, float] | None:
    """The paper's row of a method; similarities rank by similarity there, so that LORETA by its distance has none."""
    name = method.split(",")[0].split(" (")[0]
    return None if method.endswith("by its distance") else PAPER.get(name)


def main(arguments: list[str] | None = None) -> None:
    given, others = command(__doc__).parse_known_args(arguments)
    use_data(given.data)
    kept = given.output / "printed" / "frml_covertype.txt"
    rows = table(printed("benchmarks/frml_covertype.py", others, kept, given.printed), "method")
    cells = []
    for row in rows:
        paper = printed_row(row["method"])
        known = ["not printed"] * 4 if paper is None else [f"{paper[name]:.3f}" for name in (*MEASURES, "AUC")]
        both = [cell for name, theirs in zip((*MEASURES, "AUC"), known, strict=True) for cell in (row[name], theirs)]
        cells.append([row["method"], *both])
    left = [name for name in PAPER if not any(printed_row(row["method"]) is PAPER[name] for row in rows)]
    for name in left:
        theirs = [f"{PAPER[name][measure]:.3f}" for measure in (*MEASURES, "AUC")]
        cells.append([name, *(cell for value in theirs for cell in ("not measured", value))])
    text = markdown(["method", *(head for name in (*MEASURES, "AUC") for head in (name, "paper"))], cells)

    def draw(path: Path) -> None:
        figure, axes = plt.subplots(1, 3, figsize=(12, 0.9 + 0.42 * len(rows)), sharey=True, layout="constrained")
        places = np.arange(len(rows))[::-1]
        for axis, name in zip(axes, MEASURES, strict=True):
            means, errors = zip(*(number(row[name]) for row in rows), strict=True)
            axis.barh(places, means, xerr=np.nan_to_num(errors), color="#8fb0d3", label="here")
            papers = [(printed_row(row["method"]), p) for row, p in zip(rows, places, strict=True)]
            known = [(paper[name], p) for paper, p in papers if paper is not None]
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
