"""POLA, Fig. 3, other panels
==========================

Fig. 3 of Shalev-Shwartz, Singer and Ng (2004), the other panels: POLA against FDA and RCA, and a plane of 0 and 8.

Run it with ``python examples/reproductions/pola_fig3_rivals.py --data DIR``; DIR (or SDPMETRIC_DATA) holds mnist.npz.
It takes data, pairs and POLA from ``examples/benchmarks/mnist_pairs.py``, and writes pola_fig3_rivals.md and .png
into ``--output``; ``--every 3`` takes every third of the 45 problems. RCA whitens the mean covariance within the
similar ones of the same 1,000 pairs, without and with 40 principal components before (the paper chose 40 on the test
set); FDA has one direction, from the labels of all training rows, and POLA beside it its leading eigenvector.

.. image:: /pictures/pola_fig3_rivals.png
   :alt: POLA, Fig. 3, other panels, as this script draws it
"""

# sphinx_gallery_thumbnail_path = 'pictures/pola_fig3_rivals.png'

import runpy
from itertools import combinations
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from printed import EXAMPLES, command, markdown, report, use_data
from sklearn.decomposition import PCA

from sdpmetric import datasets

# Problems of 45 on which the paper has POLA below each rival.
PAPER = {"RCA": "45 of 45", "RCA after 40 components": "44 of 45", "FDA, one direction": "45 of 45"}
RIDGE = 1e-3


def whitened(V: np.ndarray) -> np.ndarray:
    """The inverse root of the mean square of differences, with a ridge of a share of its mean eigenvalue."""
    C = V.T @ V / (2 * len(V))
    values, vectors = np.linalg.eigh(C)
    return (vectors / np.sqrt(values + RIDGE * values.mean())).T


def factors(Z: np.ndarray, y: np.ndarray, pairs: np.ndarray, similar: np.ndarray, pola: np.ndarray) -> dict:
    """The factor of each metric on the training rows of a problem."""
    V = Z[pairs[similar, 0]] - Z[pairs[similar, 1]]
    forty = PCA(40, random_state=0).fit(Z).components_
    within = Z - np.stack([Z[~y].mean(axis=0), Z[y].mean(axis=0)])[y.astype(int)]
    C = within.T @ within / len(Z)
    shift = Z[y].mean(axis=0) - Z[~y].mean(axis=0)
    fisher = np.linalg.solve(C + RIDGE * np.trace(C) / len(C) * np.eye(len(C)), shift)
    return {
        "POLA": pola,
        "RCA": whitened(V),
        "RCA after 40 components": whitened(V @ forty.T) @ forty,
        "POLA, one direction": pola[:1],
        "FDA, one direction": fisher[None],
    }


def main(arguments: list[str] | None = None) -> None:
    parser = command(__doc__, runs=False)
    parser.add_argument("--scaling", choices=["standard", "pixels"], default="standard")
    parser.add_argument("--every", type=int, default=1, help="take every so many of the problems")
    given = parser.parse_args(arguments)
    use_data(given.data)
    bench = runpy.run_path(str(EXAMPLES / "benchmarks" / "mnist_pairs.py"))
    split = datasets.load_split("mnist")
    X, Q = (np.asarray(P, dtype=np.float64) / 255 for P in (split.X_train[: bench["N_TRAIN"]], split.X_test))
    y, asked = split.y_train[: bench["N_TRAIN"]], split.y_test
    every = list(combinations(range(10), 2))
    counts: dict[str, list[np.ndarray]] = {}
    plane: list[np.ndarray] = []
    for number, (a, b) in enumerate(every):
        if number % given.every and (a, b) != (0, 8):
            continue
        rows, queries = np.isin(y, (a, b)), np.isin(asked, (a, b))
        Z, T = bench["scale"](X[rows], Q[queries], given.scaling)
        labels, truth = y[rows] == a, asked[queries] == a
        pairs, similar = bench["draw_pairs"](labels, np.random.default_rng(number))
        unit = np.sqrt(bench["DISTANCE"] / np.median(np.sum((Z[pairs[:, 0]] - Z[pairs[:, 1]]) ** 2, axis=1)))
        pola = bench["pola"](unit * Z, pairs, similar)
        if (a, b) == (0, 8):
            some = np.random.default_rng(0).permutation(len(Z))[:100]
            plane = [PCA(2).fit(Z).transform(Z[some]), Z[some] @ pola[:2].T, labels[some]]
        if number % given.every:
            continue
        for name, L in factors(Z, labels, pairs, similar, pola).items():
            wrong = bench["errors"](Z @ L.T, labels, T @ L.T, truth)
            counts.setdefault(name, []).append(wrong)
    table = {name: np.array(found) for name, found in counts.items()}
    rows_of = []
    for rival, paper in PAPER.items():
        ours = table["POLA, one direction" if "one direction" in rival else "POLA"]
        cells = [f"{np.sum(a < b)}, {np.sum(a == b)} equal" for a, b in zip(ours.T, table[rival].T, strict=True)]
        rows_of.append([rival, paper, str(len(ours)), *cells])
    neighbors = [f"k = {k}" for k in bench["NEIGHBORS"]]
    sums = [[name, *(str(total) for total in found.sum(axis=0))] for name, found in table.items()]
    text = "\n\n".join(
        [
            markdown(["POLA below", "paper", "problems here", *neighbors], rows_of),
            markdown(["errors among all test rows", *neighbors], sums),
        ]
    )

    def draw(path: Path) -> None:
        figure, axes = plt.subplots(1, 4, figsize=(15, 4), layout="constrained")
        for axis, (rival, _) in zip(axes, PAPER.items(), strict=False):
            name = "POLA, one direction" if "one direction" in rival else "POLA"
            first, second = table[name][:, 0], table[rival][:, 0]
            end = 1.05 * max(first.max(), second.max(), 1)
            axis.plot([0, end], [0, end], color="0.6", linewidth=1)
            axis.scatter(second, first, s=18, color="#1f5f99")
            axis.set(xlabel=f"{rival}: errors", ylabel=f"{name}: errors", title="1-NN", xlim=(0, end), ylim=(0, end))
        P = plane[1] / np.abs(plane[1]).max()
        for shown, marker, name in (
            (plane[0] / np.abs(plane[0]).max(), "x", "PCA"),
            (P + np.array([2.4, 0.0]), "o", "POLA"),
        ):
            for flag, color in ((True, "#1f5f99"), (False, "#c0392b")):
                axes[3].scatter(*shown[plane[2] == flag].T, marker=marker, s=16, color=color)
            axes[3].annotate(name, (shown[:, 0].mean(), 1.15), ha="center")
        axes[3].set(title="0 and 8 on two directions", xticks=[], yticks=[], ylim=(-1.1, 1.3))
        figure.savefig(path, dpi=110)
        plt.close(figure)

    report("pola_fig3_rivals", text, given.output, draw)


if __name__ == "__main__":
    main()
