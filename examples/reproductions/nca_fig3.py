"""NCA, Fig. 3
===========

Fig. 3 of Goldberger et al. (2005): a network that finds orientation and size from pairs of images, drawn again.

Run it with ``python examples/reproductions/nca_fig3.py``; it writes nca_fig3.md and nca_fig3.png into ``--output``. As
printed: pairs of faces of two persons with the same rotation, uniform within 45 degrees, and the same height, uniform
in 25 to 35 pixels, up to Gaussian noise of 1.22 degrees and 1.5 pixels, whose density over its maximum is the weight of
the pair; 35 x 35 pixels; a network with one hidden layer of 100 logistic units and two outputs; Eq. 8, one softmax over
all pairs of faces. The faces of FERET-B are drawn ones here, a head, eyes,
nose and mouth of random shape; L-BFGS is in place of plain backpropagation.

.. image:: /pictures/nca_fig3.png
   :alt: NCA, Fig. 3, as this script draws it
"""

# sphinx_gallery_thumbnail_path = 'pictures/nca_fig3.png'

from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from printed import command, markdown, report
from scipy.optimize import minimize
from scipy.spatial.distance import pdist, squareform
from scipy.special import expit, logsumexp, softmax
from sklearn.decomposition import PCA
from sklearn.neighbors import KNeighborsRegressor

SIDE, HIDDEN, ANGLE, HEIGHTS, NOISE = 35, 100, 45.0, (25.0, 35.0), (1.22, 1.5)
# Weight of the squared norm of the network's weights; the paper prints none.
DECAY = 1e-3


def face(rng: np.random.Generator, angle: float, height: float) -> np.ndarray:
    """A face of a new person, rotated by degrees and of a height in pixels, (1225,)."""
    down, across = (np.mgrid[:SIDE, :SIDE] - (SIDE - 1) / 2) * (2 / height)
    c, s = np.cos(np.radians(angle)), np.sin(np.radians(angle))
    x, y = c * across + s * down, c * down - s * across

    def spot(x0: float, y0: float, wide: float, high: float) -> np.ndarray:
        return np.exp(-(((x - x0) / wide) ** 2) - ((y - y0) / high) ** 2)

    width, eyes, level, mouth = rng.normal([0.72, 0.3, -0.2, 0.5], [0.05, 0.03, 0.04, 0.04])
    inside = expit(12 * (1 - np.hypot(x / width, y)))
    dark = spot(-eyes, level, 0.12, 0.08) + spot(eyes, level, 0.12, 0.08) + spot(0, mouth, 0.28, 0.07)
    image = inside * (rng.normal(0.8, 0.05) - 0.6 * dark - 0.2 * spot(0, 0.15, 0.06, 0.2))
    return np.asarray(image.ravel() + 0.02 * rng.normal(size=image.size))


@dataclass(frozen=True)
class Faces:
    """Images (n, 1225), their angles in degrees and heights in pixels (n, 2), pairs (n / 2, 2) and their weights."""

    images: np.ndarray
    pose: np.ndarray
    pairs: np.ndarray
    weights: np.ndarray


def faces(n_pairs: int, seed: int) -> Faces:
    rng = np.random.default_rng(seed)
    first = np.stack([rng.uniform(-ANGLE, ANGLE, n_pairs), rng.uniform(*HEIGHTS, n_pairs)], axis=1)
    noise = rng.normal(size=first.shape)
    pose = np.concatenate([first, first + noise * NOISE])
    images = np.stack([face(rng, angle, height) for angle, height in pose])
    pairs = np.stack([np.arange(n_pairs), n_pairs + np.arange(n_pairs)], axis=1)
    return Faces(images, pose, pairs, np.exp(-0.5 * np.sum(noise**2, axis=1)))


def eq_8(Y: np.ndarray, shares: np.ndarray) -> tuple[float, np.ndarray]:
    """The cost of an embedding and its gradient: minus the weighted log-probabilities of all pairs."""
    near = -pdist(Y, "sqeuclidean")
    value = shares.sum() * (logsumexp(near) + np.log(2.0)) - shares @ near  # ordered pairs are twice as many
    P = squareform(shares - shares.sum() * softmax(near))
    return float(value), 2 * (P.sum(axis=1)[:, None] * Y - P @ Y)


class Network:
    """One hidden layer of logistic units; weights as one vector."""

    def __init__(self, n_inputs: int, hidden: int = HIDDEN, outputs: int = 2) -> None:
        self.shapes = [(n_inputs + 1, hidden), (hidden + 1, outputs)]
        self.cut = self.shapes[0][0] * hidden

    def start(self, seed: int) -> np.ndarray:
        rng = np.random.default_rng(seed)
        return np.concatenate([rng.normal(size=shape).ravel() / np.sqrt(shape[0]) for shape in self.shapes])

    def forward(self, flat: np.ndarray, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        first, second = flat[: self.cut].reshape(self.shapes[0]), flat[self.cut :].reshape(self.shapes[1])
        H = expit(X @ first[:-1] + first[-1])
        return H @ second[:-1] + second[-1], H

    def cost(self, flat: np.ndarray, X: np.ndarray, shares: np.ndarray) -> tuple[float, np.ndarray]:
        Y, H = self.forward(flat, X)
        value, dY = eq_8(Y, shares)
        second = flat[self.cut :].reshape(self.shapes[1])
        dH = (dY @ second[:-1].T) * H * (1 - H)
        gradient = np.concatenate(
            [np.vstack([X.T @ dH, dH.sum(axis=0)]).ravel(), np.vstack([H.T @ dY, dY.sum(axis=0)]).ravel()]
        )
        return value + 0.5 * DECAY * float(flat @ flat), gradient + DECAY * flat


def explained(train: np.ndarray, pose: np.ndarray, test: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """Share of the variance of angle and height that the 10 nearest training faces in the plane explain, in %."""
    left = KNeighborsRegressor(10).fit(train, pose).predict(test) - asked
    return 100 * (1 - np.mean(left**2, axis=0) / np.var(asked, axis=0))


def main(arguments: list[str] | None = None) -> None:
    parser = command(__doc__, runs=False)
    parser.add_argument("--pairs", type=int, default=600)
    parser.add_argument("--iterations", type=int, default=300)
    given = parser.parse_args(arguments)
    train, test = faces(given.pairs, 0), faces(max(50, given.pairs // 4), 1)
    mean, size = train.images.mean(axis=0), train.images.std()
    X, Q = ((part.images - mean) / size for part in (train, test))
    network = Network(X.shape[1])
    options = {"maxiter": given.iterations}
    shares = np.zeros((len(X), len(X)))
    shares[tuple(train.pairs.T)] = shares[tuple(train.pairs.T[::-1])] = train.weights
    inputs = X, squareform(shares)
    found = minimize(network.cost, network.start(0), inputs, jac=True, method="L-BFGS-B", options=options)
    Y, shown = network.forward(found.x, X)[0], network.forward(found.x, Q)[0]
    pca = PCA(2).fit(X)
    rows = []
    for name, A, B in (
        ("network by Eq. 8", Y, shown),
        ("two principal components", pca.transform(X), pca.transform(Q)),
    ):
        rows.append([name, *(f"{share:.0f}" for share in explained(A, train.pose, B, test.pose))])
    note = (
        f"{len(train.pairs):,} pairs for training, {len(test.images):,} faces of other persons for test; cost of Eq. 8 "
        f"{found.fun:,.0f} after {found.nit} iterations. The paper prints no figures; it says that the network finds "
        "polar coordinates, orientation and size."
    )

    def draw(path: Path) -> None:
        figure, axes = plt.subplots(1, 3, figsize=(13, 4.4), layout="constrained", width_ratios=[1, 1.4, 1.4])
        four = test.images[:4].reshape(2, 2, SIDE, SIDE)
        axes[0].imshow(np.block([list(row) for row in four]), cmap="gray")
        axes[0].set(xticks=[], yticks=[], title="four test faces")
        angle = np.radians(test.pose[:, 0])
        axes[1].quiver(*shown.T, np.sin(angle), np.cos(angle), pivot="mid", headwidth=0, headlength=0, headaxislength=0)
        axes[1].set_title("segments have the orientation of the face")
        axes[2].scatter(*shown.T, s=(test.pose[:, 1] - 20) ** 2 / 2, facecolors="none", edgecolors="#1f5f99")
        axes[2].set_title("circles have the size of the face")
        figure.savefig(path, dpi=110)
        plt.close(figure)

    heads = ["plane", "variance of the angle explained, %", "of the height, %"]
    report("nca_fig3", f"{note}\n\n{markdown(heads, rows)}", given.output, draw)


if __name__ == "__main__":
    main()
