"""LEGO, Fig. 1
============

Fig. 1 of Jain et al. (2008): errors of nearest neighbors under LEGO and its rivals, measured again.

Run it with ``python examples/reproductions/lego_fig1.py --data DIR``; DIR (or SDPMETRIC_DATA) holds balance.npz,
ionosphere.npz and mnist.npz. It runs ``examples/benchmarks/pair_accuracy.py`` (small data sets; options that it does
not know itself, such as ``--sets iris --splits holdouts``, are passed on) and ``examples/benchmarks/mnist_pairs.py``
(three minutes; ``--digits-scaling standard`` standardizes the pixels, ``--no-digits`` leaves it out), and writes
lego_fig1.md and lego_fig1.png into ``--output``.

.. image:: /pictures/lego_fig1.png
   :alt: LEGO, Fig. 1, as this script draws it
"""

# sphinx_gallery_thumbnail_path = 'pictures/lego_fig1.png'

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from pola_fig3 import NEIGHBORS, count, problems, scatter
from printed import command, markdown, number, printed, report, table, use_data

COLORS = {
    "Euclidean": "#7f7f7f",
    "LEGO": "#1f5f99",
    "POLA": "#c0392b",
    "ITML online": "#d68910",
    "LogDet offline": "#2e8b57",
}
# Problems of 45 where the paper's LEGO has at most as many errors as POLA.
PAPER = 33


def main(arguments: list[str] | None = None) -> None:
    parser = command(__doc__)
    parser.add_argument("--no-digits", action="store_true", help="leave out the pairs of MNIST's digits")
    parser.add_argument("--digits-scaling", choices=["pixels", "standard"], default="pixels")
    given, others = parser.parse_known_args(arguments)
    use_data(given.data)
    kept = given.output / "printed"
    text = printed("benchmarks/pair_accuracy.py", others, kept / "pair_accuracy.txt", given.printed)
    small = table(text, "data")
    tables = [markdown([*small[0], "paper"], [[*row.values(), "not printed"] for row in small])]
    pairs = []
    if not given.no_digits:
        scaling = ["--scaling", given.digits_scaling]
        pairs = problems(printed("benchmarks/mnist_pairs.py", scaling, kept / "mnist_pairs.txt", given.printed))
        rows = [
            [f"{name} against {rival}", paper, *count(pairs, name, rival)]
            for name, rival, paper in (
                ("LEGO", "POLA", f"{PAPER} of 45 below or equal"),
                ("LEGO", "Euclid", "not printed"),
                ("ITML online", "POLA", "not printed"),
                ("POLA", "Euclid", "45 of 45 below (POLA's paper)"),
            )
        ]
        heads = [f"{len(pairs)} problems of two digits", "paper", *(f"k = {k}" for k in NEIGHBORS)]
        tables.append(markdown(heads, rows))

    def draw(path: Path) -> None:
        figure, axes = plt.subplots(1, 1 + bool(pairs), figsize=(7 + 5 * bool(pairs), 4.4), layout="constrained")
        left = np.atleast_1d(axes)[0]
        for place, (name, color) in enumerate(COLORS.items()):
            means, errors = zip(*(number(row[name]) for row in small), strict=True)
            where = np.arange(len(small)) + (place - 2) * 0.16
            left.bar(where, means, 0.16, yerr=errors, color=color, label=name)
        left.set_xticks(np.arange(len(small)), [row["data"] for row in small])
        left.set(ylabel="error, %", title="small data sets")
        left.legend(frameon=False)
        if pairs:
            scatter(axes[1], pairs, "LEGO", "POLA", 3)
        figure.savefig(path, dpi=110)
        plt.close(figure)

    report("lego_fig1", "\n\n".join(tables), given.output, draw)


if __name__ == "__main__":
    main()
