"""Fig. 3: nearest neighbors of images before and after the metric was learned, on faces."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split

import sdpmetric as sm
from sdpmetric import datasets
from sdpmetric.classification import knn_predict, nearest_neighbors
from sdpmetric.plotting import NeighborsDisplay

K, EIGENFACES = 3, 200
# Test images shown, by whether the nearest training image is of the same person before and after.
SHOWN = {(False, True): 4, (False, False): 1, (True, False): 1}
SAID = {
    (True, True): "right before and after",
    (False, True): "wrong before, right after",
    (True, False): "right before, wrong after",
    (False, False): "wrong before and after",
}


def figure3(output: Path) -> str:
    """Write lmnn_figure3.md and .png; return the Markdown."""
    X, y = datasets.load("olivetti")
    train, test = train_test_split(np.arange(len(y)), test_size=0.3, random_state=0, stratify=y)
    turn = PCA(EIGENFACES, svd_solver="full").fit(X[train])
    Z = turn.transform(X)
    Z *= 4.0 / np.linalg.norm(Z[train], axis=1).mean()
    solution = sm.solve(sm.LMNNProblem.from_labels(Z[train], y[train], K, 0.5))
    near = [train[nearest_neighbors(L, Z[train], Z[test], K)[1]] for L in (np.eye(EIGENFACES), solution.components)]
    right = [y[rows[:, 0]] == y[test] for rows in near]
    kinds = {kind: np.flatnonzero((right[0] == kind[0]) & (right[1] == kind[1])) for kind in SAID}
    votes = [
        100 * np.mean(knn_predict(L, Z[train], y[train], Z[test], K) != y[test])
        for L in (np.eye(EIGENFACES), solution.components)
    ]
    lines = [
        f"Olivetti faces, {EIGENFACES} eigenfaces, {len(train)} images for learning, {len(test)} for testing (by "
        f"subject, seed 0), {K} target neighbors, push weight 0.5; neighbors are training images. LMNN's proven gap is "
        f"{solution.relative_gap:.0e}.",
        "",
        "| of the test images | paper | ours |",
        "| --- | --- | --- |",
        *(f"| nearest neighbor {SAID[kind]} | not at hand | {len(rows)} |" for kind, rows in kinds.items()),
        f"| kNN error (k = {K}) before, % | not at hand | {votes[0]:.2f} |",
        f"| kNN error (k = {K}) after, % | not at hand | {votes[1]:.2f} |",
    ]
    shown = np.concatenate([kinds[kind][:count] for kind, count in SHOWN.items()])
    images = X.reshape(-1, 64, 64).astype(np.float64)
    images = images.max() - images  # the display draws ink on paper; faces are light
    display = NeighborsDisplay(images, y, test[shown], near[0][shown], near[1][shown]).plot()
    display.ax_.set_ylabel("subject")
    chosen = "; ".join(f"{min(n, len(kinds[kind]))} of {len(kinds[kind])} {SAID[kind]}" for kind, n in SHOWN.items())
    display.figure_.suptitle(f"test images, chosen: {chosen}", fontsize=10)
    display.figure_.savefig(output / "lmnn_figure3.png", dpi=120)
    plt.close(display.figure_)
    text = "\n".join(lines)
    (output / "lmnn_figure3.md").write_text(text + "\n")
    return text
