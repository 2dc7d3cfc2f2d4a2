"""Rows of Table 1 of Lim and Lanckriet (2014): rankings of data at hand with classes as relevance, measured again.

Run it with ``python examples/reproductions/frml_table1.py --data DIR``; DIR (or SDPMETRIC_DATA) holds usps.npz and the
others. It runs ``examples/benchmarks/frml_digits.py`` (options that it does not know itself, such as ``--only digits
--passes 1``, are passed on) and writes frml_table1.md and frml_table1.png into ``--output``.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from printed import command, markdown, number, printed, report, table, use_data

MEASURES = ("MAP", "P@1", "P@10")
COLORS = ("#7f7f7f", "#c0392b", "#1f5f99", "#7fa8d1")


def main(arguments: list[str] | None = None) -> None:
    given, others = command(__doc__).parse_known_args(arguments)
    use_data(given.data)
    kept = given.output / "printed" / "frml_digits.txt"
    rows = table(printed("benchmarks/frml_digits.py", others, kept, given.printed), "data")
    heads = [head for head in rows[0] if head != "chosen"]
    text = markdown([*heads, "paper"], [[*(row[head] for head in heads), "not at hand"] for row in rows])
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
