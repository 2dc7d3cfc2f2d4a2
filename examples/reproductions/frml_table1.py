"""FRML, Table 1
=============

After Table 1 of Lim and Lanckriet (2014): rankings of data sets of ours with classes as relevance.

Run it with ``python examples/reproductions/frml_table1.py --data DIR``; DIR (or SDPMETRIC_DATA) holds usps.npz and the
others. It runs ``examples/benchmarks/frml_digits.py`` (options that it does not know itself, such as ``--only digits
--passes 1``, are passed on) and writes frml_table1.md and frml_table1.png into ``--output``.

.. image:: /pictures/frml_table1.png
   :alt: FRML, Table 1, as this script draws it
"""

# sphinx_gallery_thumbnail_path = 'pictures/frml_table1.png'

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from printed import command, markdown, number, printed, report, table, use_data

MEASURES = ("MAP", "P@1", "P@10")
# The paper's Table 1, whole: precision at 1 and at 10, the rank chosen by validation.
METHODS = (
    "FRML-AUC",
    "FRML-WARP 1",
    "FRML-WARP 10",
    "FRML-WARP 25",
    "LORETA",
    "OASIS",
    "MLR-AUC",
    "MLR-MAP",
    "LMNN",
    "ITML",
)
PAPER = {
    ("ImageNet", "P@1"): (0.366, 0.377, 0.380, 0.378, 0.339, 0.271, 0.354, 0.375, 0.355, 0.292),
    ("ImageNet", "P@10"): (0.344, 0.357, 0.359, 0.356, 0.324, 0.280, 0.330, 0.357, 0.320, 0.264),
    ("CAL10K", "P@1"): (0.262, 0.328, 0.297, 0.292, 0.221, 0.182, 0.271, None, None, None),
    ("CAL10K", "P@10"): (0.226, 0.294, 0.262, 0.256, 0.193, 0.160, 0.241, None, None, None),
    ("MagnaTagATune", "P@1"): (0.470, 0.521, 0.524, 0.519, 0.444, 0.460, 0.467, None, None, None),
    ("MagnaTagATune", "P@10"): (0.414, 0.485, 0.489, 0.480, 0.412, 0.408, 0.425, None, None, None),
}
COLORS = ("#7f7f7f", "#c0392b", "#1f5f99", "#7fa8d1")


def main(arguments: list[str] | None = None) -> None:
    given, others = command(__doc__).parse_known_args(arguments)
    use_data(given.data)
    kept = given.output / "printed" / "frml_digits.txt"
    rows = table(printed("benchmarks/frml_digits.py", others, kept, given.printed), "data")
    heads = [head for head in rows[0] if head != "chosen"]
    theirs = [[name, what, *("" if v is None else f"{v:.3f}" for v in row)] for (name, what), row in PAPER.items()]
    text = "\n\n".join(
        [
            markdown(heads, [[row[head] for head in heads] for row in rows]),
            "The paper's table, other data; empty: not run or not converged there.",
            markdown(["data", "", *METHODS], theirs),
        ]
    )
    sets, methods = (list(dict.fromkeys(row[key] for row in rows)) for key in ("data", "method"))

    def draw(path: Path) -> None:
        figure, axes = plt.subplots(
            3, 1, figsize=(max(7.0, 2.5 + 1.6 * len(sets)), 8), sharex=True, layout="constrained"
        )
        for axis, name in zip(axes, MEASURES, strict=True):
            for place, (method, color) in enumerate(zip(methods, COLORS, strict=True)):
                found = {row["data"]: number(row[name])[0] for row in rows if row["method"] == method}
                where = [sets.index(data) + (place - 1.5) * 0.2 for data in found]
                axis.plot(where, list(found.values()), "o", color=color, label=method)
            axis.set(ylabel=name)
            axis.grid(axis="y", alpha=0.3)
        axes[-1].set_xticks(np.arange(len(sets)), [name.replace(", ", ",\n") for name in sets])
        axes[0].legend(frameon=False, ncols=4, fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0))
        figure.savefig(path, dpi=100)
        plt.close(figure)

    report("frml_table1", text, given.output, draw)


if __name__ == "__main__":
    main()
