"""POLA, Fig. 3
============

Fig. 3 of Shalev-Shwartz, Singer and Ng (2004), top left: POLA on pairs of MNIST digits, measured again.

Run it with ``python examples/reproductions/pola_fig3.py --data DIR``; DIR (or SDPMETRIC_DATA) holds mnist.npz. It runs
``examples/benchmarks/mnist_pairs.py`` (three minutes; options that it does not know itself, such as ``--scaling
pixels``, ``--digits 49,35`` or ``--batch``, are passed on) and writes pola_fig3.md and pola_fig3.png into ``--output``.

.. image:: /pictures/pola_fig3.png
   :alt: POLA, Fig. 3, as this script draws it
"""

# sphinx_gallery_thumbnail_path = 'pictures/pola_fig3.png'

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from printed import Rows, command, markdown, number, printed, report, table, use_data

NEIGHBORS = (1, 3, 5)
# Problems of 45 where the paper's POLA has fewer errors than the Euclidean distance.
PAPER = 45


def problems(text: str) -> Rows:
    return [row for row in table(text, "digits") if row["digits"] != "all"]


def rates(rows: Rows, learner: str, k: int) -> np.ndarray:
    """Errors in per cent of the test rows of each problem."""
    return np.array([100 * number(row[f"{learner}, k = {k}"])[0] / number(row["test rows"])[0] for row in rows])


def count(rows: Rows, learner: str, rival: str) -> list[str]:
    """For each number of neighbors, on how many problems the learner has fewer errors than its rival, and as many."""
    cells = []
    for k in NEIGHBORS:
        a, b = rates(rows, learner, k), rates(rows, rival, k)
        cells.append(f"{np.sum(a < b)} below, {np.sum(a == b)} equal")
    return cells


def scatter(axis: plt.Axes, rows: Rows, learner: str, rival: str, k: int) -> None:
    """A dot for each problem; below the diagonal the learner is better."""
    a, b = rates(rows, learner, k), rates(rows, rival, k)
    end = 1.05 * max(a.max(), b.max())
    axis.plot([0, end], [0, end], color="0.6", linewidth=1)
    axis.scatter(b, a, s=18, color="#1f5f99")
    axis.set(xlim=(0, end), ylim=(0, end), xlabel=f"{rival}: error, %", ylabel=f"{learner}: error, %")
    axis.set(title=f"{k}-NN: below on {np.sum(a < b)} of {len(a)}, equal on {np.sum(a == b)}")
    axis.set_aspect("equal")


def main(arguments: list[str] | None = None) -> None:
    given, others = command(__doc__).parse_known_args(arguments)
    use_data(given.data)
    kept = given.output / "printed" / "mnist_pairs.txt"
    rows = problems(printed("benchmarks/mnist_pairs.py", others, kept, given.printed))
    learners = [name for name in ("POLA", "POLA in batch") if f"{name}, k = 1" in rows[0]]
    cells = [
        [f"{name} against Euclid", f"{PAPER} of 45 below", str(len(rows)), *count(rows, name, "Euclid")]
        for name in learners
    ]
    errors = [
        [name, *(str(sum(int(row[f"{name}, k = {k}"]) for row in rows)) for k in NEIGHBORS)]
        for name in ("Euclid", *learners)
    ]
    text = "\n\n".join(
        [
            markdown(["problems of two digits", "paper", "run here", *(f"k = {k}" for k in NEIGHBORS)], cells),
            markdown(["errors among all test rows", *(f"k = {k}" for k in NEIGHBORS)], errors),
        ]
    )

    def draw(path: Path) -> None:
        figure, axes = plt.subplots(1, 3, figsize=(12, 4.2), layout="constrained")
        for axis, k in zip(axes, NEIGHBORS, strict=True):
            scatter(axis, rows, "POLA", "Euclid", k)
        figure.savefig(path, dpi=110)
        plt.close(figure)

    report("pola_fig3", text, given.output, draw)


if __name__ == "__main__":
    main()
