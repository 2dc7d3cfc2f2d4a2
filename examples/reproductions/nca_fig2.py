"""NCA, Fig. 2
===========

Fig. 2 of Goldberger et al. (2005): data in two dimensions by PCA, LDA and NCA, drawn again.

Run it with ``python examples/reproductions/nca_fig2.py --data DIR``; DIR (or SDPMETRIC_DATA) holds yaleb.npz and
usps.npz. Rows as printed: concentric rings and a feature of noise, those of ``examples/08_nca_rings.py``, whose three
methods are used for all; wine; faces of 18 persons at 28 x 20 pixels, here of Extended Yale, about 64 images each; and
the digits 1 to 5 of USPS at 8 x 8 pixels. 70 % of each for training, the others drawn. It writes nca_fig2.md and
nca_fig2.png into ``--output``. ``--rows rings,wine`` takes a part.

.. image:: /pictures/nca_fig2.png
   :alt: NCA, Fig. 2, as this script draws it
"""

# sphinx_gallery_thumbnail_path = 'pictures/nca_fig2.png'

import runpy
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from printed import EXAMPLES, command, markdown, report, use_data
from scipy import ndimage
from sklearn.model_selection import train_test_split

from sdpmetric import classification, datasets

ROWS = ("rings", "wine", "faces", "digits")


def load(name: str) -> tuple[np.ndarray, np.ndarray, str]:
    """Features, labels and what they are."""
    if name == "rings":
        return *datasets.concentric_rings(random_state=1), "concentric rings and a feature of noise"
    if name == "wine":
        X, y = datasets.load("wine")
        return X / X.std(axis=0), y, "wine, each feature divided by its deviation"
    if name == "faces":
        X, y = datasets.load("yaleb")
        images = X[y < 18].astype(np.float64).reshape(-1, 32, 32)
        small = ndimage.zoom(ndimage.gaussian_filter(images, [0.0, 0.4, 0.5]), (1.0, 28 / 32, 20 / 32), order=1)
        return small.reshape(len(small), -1) / 255, y[y < 18], "faces of 18 persons, 28 x 20 pixels"
    X, y = datasets.load("usps")
    images = X[(y >= 1) & (y <= 5)].astype(np.float64).reshape(-1, 8, 2, 8, 2)
    return images.mean(axis=(2, 4)).reshape(len(images), -1), y[(y >= 1) & (y <= 5)], "USPS's 1 to 5, 8 x 8 pixels"


def main(arguments: list[str] | None = None) -> None:
    parser = command(__doc__, runs=False)
    parser.add_argument("--rows", default=",".join(ROWS), help="some of %(default)s")
    parser.add_argument("--starts", type=int, default=10, help="of NCA, two at least; %(default)s")
    given = parser.parse_args(arguments)
    use_data(given.data)
    planes = runpy.run_path(str(EXAMPLES / "08_nca_rings.py"))["planes"]
    names = given.rows.split(",")
    figure, axes = plt.subplots(len(names), 4, figsize=(12.5, 3 * len(names)), squeeze=False, layout="constrained")
    rows = []
    for line, name in zip(axes, names, strict=True):
        X, y, what = load(name)
        parts = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)
        X, Q, y, asked = parts
        X, Q = X - X.mean(axis=0), Q - X.mean(axis=0)
        cells = []
        for axis, (method, L) in zip(line, planes(X, y, given.starts, tol=1e-3, max_iter=300).items(), strict=True):
            train = np.mean(classification.knn_predict(L, X, y, n_neighbors=1) != y)
            test = np.mean(classification.knn_predict(L, X, y, Q, n_neighbors=1) != asked)
            cells.append(f"{train:.1%} / {test:.1%}")
            axis.scatter(*(Q @ L.T).T, s=9, c=asked, cmap="tab10")
            axis.set(title=f"{method}: error {test:.0%}", xticks=[], yticks=[])
            if name == "rings" and method.startswith("NCA"):
                axis.set_aspect("equal", adjustable="datalim")
        line[0].set_ylabel(name)
        rows.append([f"{what}: {X.shape[1]} dimensions", f"{len(X):,} / {len(Q):,}", *cells])

    def draw(path: Path) -> None:
        figure.savefig(path, dpi=100)
        plt.close(figure)

    text = (
        "Errors of the nearest neighbor in two dimensions, training part (each example left out) / test part. NCA from "
        f"its default start, and from {given.starts} starts, of which the best objective on the training part is kept. "
        "The paper prints pictures and no errors.\n\n"
    )
    heads = ["data", "rows, training / test", "PCA", "LDA", "NCA", f"NCA, best of {given.starts}"]
    text += markdown(heads, rows)
    report("nca_fig2", text, given.output, draw)


if __name__ == "__main__":
    main()
