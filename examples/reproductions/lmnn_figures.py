"""LMNN, Figs. 2 to 13
===================

Figures of Weinberger and Saul (2009), drawn again: 2, 6, 7, 9, 10, 12 and 13.

Run it with ``python examples/reproductions/lmnn_figures.py --figures 2,7 --data DIR``; DIR holds mnist.npz,
letters.npz and isolet_1_5.npz, and the environment variable SDPMETRIC_DATA may name it instead. Each figure is a
Markdown table and a picture in ``--output``, where those metrics of MNIST are kept, too, that several figures use.
Figs. 1 and 11 are drawings, Figs. 4, 5 and 8 are pictures without numbers, and the bars of Fig. 3 are the picture of
lmnn_table1.py.

Fig. 2: zebra stripes and the dominant axes of the metrics.

.. image:: /pictures/lmnn_figure2.png
   :alt: Fig. 2, zebra stripes and the dominant axes of the metrics

Fig. 6: errors against the number of passes.

.. image:: /pictures/lmnn_figure6.png
   :alt: Fig. 6, errors against the number of passes

Fig. 7: concentric circles under one, four and six metrics.

.. image:: /pictures/lmnn_figure7.png
   :alt: Fig. 7, concentric circles under one, four and six metrics

Fig. 9: errors against the number of metrics.

.. image:: /pictures/lmnn_figure9.png
   :alt: Fig. 9, errors against the number of metrics

Fig. 10: speed-up of ball trees when examples are classified.

.. image:: /pictures/lmnn_figure10.png
   :alt: Fig. 10, speed-up of ball trees when examples are classified

Fig. 12: speed-up of ball trees while the metric is learned.

.. image:: /pictures/lmnn_figure12.png
   :alt: Fig. 12, speed-up of ball trees while the metric is learned

Fig. 13: test error against the number of dimensions.

.. image:: /pictures/lmnn_figure13.png
   :alt: Fig. 13, test error against the number of dimensions
"""

# sphinx_gallery_thumbnail_path = 'pictures/lmnn_figure2.png'

import argparse
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

from lmnn_figs.circles import figure7
from lmnn_figs.clusters import figure9
from lmnn_figs.digits import Digits
from lmnn_figs.dimensions import figure13
from lmnn_figs.passes import figure6
from lmnn_figs.sets import DataSet, data_set
from lmnn_figs.stripes import figure2
from lmnn_figs.trees import figure10, figure12

# The paper's Fig. 13 has 15 to 50.
RANKS = (15, 20, 25, 30, 40, 50)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--figures", default="2,6,7,9,10,12,13", help="some of %(default)s")
    parser.add_argument("--data", help="folder of .npz files; default: SDPMETRIC_DATA")
    parser.add_argument("--output", type=Path, default=Path("reproduction_results") / "lmnn_figures")
    parser.add_argument(
        "--digits", default="mnist", choices=["mnist", "digits"], help="for all but Figs. 2 and 7: %(default)s"
    )
    parser.add_argument("--rows", type=int, default=10_000, help="training rows of them, %(default)s")
    parser.add_argument("--test-rows", type=int, default=10_000, help="test rows of them, %(default)s")
    parser.add_argument("--components", type=int, default=350, help="their principal components, %(default)s")
    parser.add_argument("--ranks", type=int, nargs="+", default=list(RANKS), help="dimensions, %(default)s")
    parser.add_argument("--sets", default="letters,isolet,digits", help="data sets of Figs. 6 and 9, %(default)s")
    given = parser.parse_args(arguments)
    if given.data:
        os.environ["SDPMETRIC_DATA"] = given.data
    given.output.mkdir(parents=True, exist_ok=True)

    @cache
    def digits() -> Digits:
        return Digits(given.digits, given.rows, given.test_rows, given.components, given.output / "models")

    @cache
    def sets() -> list[DataSet]:
        return [data_set(name, digits()) for name in given.sets.split(",")]

    figures: dict[str, Callable[[], str]] = {
        "2": lambda: figure2(given.output),
        "6": lambda: figure6(sets(), given.output),
        "7": lambda: figure7(given.output),
        "9": lambda: figure9(sets(), given.output),
        "10": lambda: figure10(digits(), given.ranks, given.output),
        "12": lambda: figure12(digits(), given.ranks, given.output),
        "13": lambda: figure13(digits(), given.ranks, given.output),
    }
    chosen = given.figures.split(",")
    if foreign := [name for name in chosen if name not in figures]:
        raise SystemExit(f"there is no figure {', '.join(foreign)} here; choose among {', '.join(figures)}.")
    for name in chosen:
        print(f"\n## Fig. {name}\n\n{figures[name]()}", flush=True)


if __name__ == "__main__":
    main()
