"""Fig. 4: which training images come among the three nearest of a test image, and which leave, on faces."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA
from table1.columns import COLUMNS

import sdpmetric as sm
from sdpmetric import datasets
from sdpmetric.classification import knn_predict, nearest_neighbors

K, EIGENFACES, SHOWN = 3, 200, 8


def figure4(output: Path) -> str:
    """Write lmnn_figure4.md and .png; return the Markdown."""
    X, y = datasets.load("olivetti")
    small = COLUMNS["olivetti"].load()[0].astype(np.float64)
    train, test = COLUMNS["olivetti"].rows(y, None, 0)
    turn = PCA(min(EIGENFACES, len(train) - 1), svd_solver="full").fit(small[train])
    Z = turn.transform(small)
    Z *= 4.0 / np.linalg.norm(Z[train], axis=1).mean()
    solution = sm.solve(sm.LMNNProblem.from_labels(Z[train], y[train], K, 0.5))
    factors = (np.eye(Z.shape[1]), solution.components)
    before, after = (train[nearest_neighbors(L, Z[train], Z[test], K)[1]] for L in factors)
    rows = list(zip(test.tolist(), before.tolist(), after.tolist(), strict=True))
    gained = [[row for row in now if row not in was and y[row] == y[t]] for t, was, now in rows]
    lost = [[row for row in was if row not in now and y[row] != y[t]] for t, was, now in rows]
    both = [t for t in range(len(test)) if gained[t] and lost[t]]
    errors = [100 * np.mean(knn_predict(L, Z[train], y[train], Z[test], K) != y[test]) for L in factors]
    impostors = [int(np.sum(y[near] != y[test][:, None])) for near in (before, after)]
    lines = [
        f"Olivetti faces, {Z.shape[1]} eigenfaces of images of 38 x 31 pixels, {len(train)} images for learning, "
        f"{len(test)} for testing (split 0 of Table 1), {K} target neighbors, push weight 0.5; neighbors are the {K} "
        f"nearest training images. LMNN's proven gap is {solution.relative_gap:.0e}. The paper shows images and counts "
        "none.",
        "",
        f"| of {len(test)} test images | |",
        "| --- | --- |",
        f"| images of the same subject that come among the {K} nearest | {sum(map(len, gained))} |",
        f"| impostors that leave them | {sum(map(len, lost))} |",
        f"| test images with both, the columns of the figure | {len(both)} |",
        f"| impostors among the {K} nearest before | {impostors[0]} |",
        f"| impostors among the {K} nearest after | {impostors[1]} |",
        f"| kNN error (k = {K}) before, % | {errors[0]:.2f} |",
        f"| kNN error (k = {K}) after, % | {errors[1]:.2f} |",
    ]
    shown = [[int(test[t]), gained[t][0], lost[t][0]] for t in both[:SHOWN]]
    draw(X.reshape(-1, 64, 64), shown, output / "lmnn_figure4.png")
    text = "\n".join(lines)
    (output / "lmnn_figure4.md").write_text(text + "\n")
    return text


def draw(images: np.ndarray, columns: list[list[int]], path: Path) -> None:
    """Test image, image of the same subject that came, impostor that left, from top to bottom."""
    figure, axes = plt.subplots(3, max(1, len(columns)), figsize=(1.4 * max(1, len(columns)) + 1, 4.6), squeeze=False)
    for ax in axes.flat:
        ax.set(xticks=[], yticks=[])
    for place, column in enumerate(columns):
        for ax, row in zip(axes[:, place], column, strict=True):
            ax.imshow(images[row], cmap="gray")
    said = ("test image", "same subject,\na neighbor now", "impostor,\nno neighbor now")
    for ax, label in zip(axes[:, 0], said, strict=True):
        ax.set_ylabel(label, fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
