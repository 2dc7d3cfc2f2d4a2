"""POLA, Fig. 2
============

Fig. 2 of Shalev-Shwartz, Singer and Ng (2004): two digits with noise on columns or rows, drawn again.

Run it with ``python examples/reproductions/pola_fig2.py``; it writes pola_fig2.md and pola_fig2.png into ``--output``.
The two images are ours; printed are 12 x 12 pixels, 64 noisy images, zero-mean Gaussian noise on all odd columns or on
all odd rows, a signal-to-noise ratio of 1, and POLA on all pairs. The paper calls the noise biased; whether pixels,
columns or the whole pattern share one draw is not printed, and all three are measured.

.. image:: /pictures/pola_fig2.png
   :alt: POLA, Fig. 2, as this script draws it
"""

# sphinx_gallery_thumbnail_path = 'pictures/pola_fig2.png'

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from printed import command, markdown, report

import sdpmetric as sm
from sdpmetric.classification import knn_predict

IMAGES = 64
TWO = """
............
...######...
..########..
..##....##..
........##..
.......##...
......##....
.....##.....
....##......
...#######..
..########..
............
"""
FIVE = """
............
..########..
..########..
..##........
..##........
..#######...
...#######..
........##..
........##..
..##...###..
...######...
............
"""
# Which pixels of the noisy columns (or rows, turned) share a draw: shape of the draws for 12 x 6 pixels.
SHARED = {"pixel": (12, 6), "column": (1, 6), "pattern": (1, 1)}
# The data are scaled so that the mean squared distance is this; POLA's margins are 1 about a threshold of at least 1.
SCALE = 4.0


def noisy_images(shared: str = "pattern", seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The two digits, (2, 144); noisy images of them, (64, 144); and which of the two each is."""
    clean = np.array([[[float(c == "#") for c in row] for row in drawn.split()] for drawn in (TWO, FIVE)])
    rng = np.random.default_rng(seed)
    which = np.arange(IMAGES) % 2
    noise = np.zeros((IMAGES, 12, 12))
    for image in range(IMAGES):
        # Odd columns or odd rows, 72 pixels, with the power of the signal, which is on all 144.
        deviation = np.sqrt(np.sum(clean[which[image]] ** 2) / 72)
        drawn = deviation * np.broadcast_to(rng.normal(size=SHARED[shared]), (12, 6))
        if image // 2 % 2:
            noise[image, :, ::2] = drawn
        else:
            noise[image, ::2] = drawn.T
    return clean.reshape(2, -1), clean.reshape(2, -1)[which] + noise.reshape(IMAGES, -1), which


def measured(shared: str) -> tuple[dict[str, np.ndarray], np.ndarray, list[list[str]]]:
    """Noisy and reconstructed images, which digit each is, and a line of the table for each kind."""
    clean, X, y = noisy_images(shared)
    rows, columns = np.triu_indices(IMAGES, 1)
    pairs = np.random.default_rng(0).permutation(np.stack([rows, columns], axis=1))
    size = np.sqrt(SCALE / np.mean(np.sum((X[pairs[:, 0]] - X[pairs[:, 1]]) ** 2, axis=1)))
    stream = sm.POLAStream(X.shape[1]).partial_fit(size * X, pairs, y[pairs[:, 0]] == y[pairs[:, 1]])
    centered = X - X.mean(axis=0)
    directions = {
        "principal component": np.linalg.svd(centered, full_matrices=False)[2][:1],
        "eigenvector of POLA's metric": stream.components[:1] / np.linalg.norm(stream.components[0]),
    }
    images = {"noisy images": X} | {
        f"from the leading {name}": X.mean(axis=0) + centered @ u.T @ u for name, u in directions.items()
    }
    table = []
    for name, shown in images.items():
        # An image is legible, in one number: it is more like its own digit, up to brightness, than like the other.
        unit = [(P - P.mean(axis=1, keepdims=True)) / P.std(axis=1, keepdims=True) for P in (shown, clean)]
        legible = np.mean((unit[0] @ unit[1].T).argmax(axis=1) == y)
        D = np.sum((shown[:, None] - shown) ** 2, axis=2)
        same = y[:, None] == y
        ratio = D[same & ~np.eye(IMAGES, dtype=bool)].mean() / D[~same].mean()
        errors = np.mean(knn_predict(np.eye(144), shown, y, n_neighbors=1) != y)
        table.append([f"{shared}: {name}", f"{legible:.0%}", f"{ratio:.2f}", f"{errors:.0%}"])
    return images, y, table


def main(arguments: list[str] | None = None) -> None:
    given = command(__doc__, runs=False).parse_args(arguments)
    found = {shared: measured(shared) for shared in SHARED}
    heads = ["noise shared by a ..", "more like their own digit", "mean distance within over between", "1-NN error"]
    note = (
        f"{IMAGES} images of a 2 and a 5 of 12 x 12 pixels, {IMAGES * (IMAGES - 1) // 2:,} pairs. The paper prints no "
        "errors; it says that nearly all images are legible after POLA, that its distances fall into two blocks, and "
        "that neither holds of principal components. The picture has noise that the pattern shares."
    )

    def draw(path: Path) -> None:
        images, y, _ = found["pattern"]
        figure, axes = plt.subplots(2, 3, figsize=(11, 7.6), layout="constrained")
        order = np.argsort(y, kind="stable")
        for (name, shown), (top, bottom) in zip(images.items(), axes.T, strict=True):
            mosaic = shown[order].reshape(8, 8, 12, 12).swapaxes(1, 2).reshape(96, 96)
            low, high = np.percentile(mosaic, [2, 98])
            top.imshow(mosaic, cmap="gray_r", vmin=low, vmax=high)
            top.set_title(name, fontsize=10)
            bottom.imshow(np.sum((shown[order, None] - shown[order]) ** 2, axis=2), cmap="viridis")
            bottom.set_title("squared distances", fontsize=9)
        for axis in axes.flat:
            axis.set(xticks=[], yticks=[])
        figure.savefig(path, dpi=110)
        plt.close(figure)

    rows = [row for _, _, table in found.values() for row in table]
    report("pola_fig2", f"{note}\n\n{markdown(heads, rows)}", given.output, draw)


if __name__ == "__main__":
    main()
