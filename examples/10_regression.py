"""Regression: two directions of ten
=================================

A metric for continuous targets: MLKR finds the two directions, of ten, on which the target
depends.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import r2_score
from sklearn.neighbors import KNeighborsRegressor

from sdpmetric.estimators import MLKR
from sdpmetric.plotting import STYLE

plt.style.use(STYLE)


def draw(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Examples, targets, and the two directions that tell."""
    W = np.linalg.qr(np.random.default_rng(7).normal(size=(10, 2)))[0].T
    X = rng.normal(size=(n, 10))
    a, b = W @ X.T
    return X, np.sin(2 * a) + np.cos(2 * b) + 0.05 * rng.normal(size=n), W


def gaussian(d: np.ndarray) -> np.ndarray:
    """Weights of the kernel regression, ``exp(-d^2)``, minus the nearest distance."""
    return np.exp(d.min(axis=1, keepdims=True) ** 2 - d**2)


# %%
# Learn on 600 examples, predict 600 others.
rng = np.random.default_rng(0)
X, y, W = draw(600, rng)
T, truth, _ = draw(600, rng)
model = MLKR(n_components=2, random_state=0).fit(X, y)
kernel = KNeighborsRegressor(100, weights=gaussian)
raw = KNeighborsRegressor(5).fit(X, y).predict(T)
learned = kernel.fit(model.transform(X), y).predict(model.transform(T))
angles = np.linalg.svd(np.linalg.qr(model.components_.T)[0].T @ W.T, compute_uv=False)
print(model.solution_.certificate)
print(
    f"R2 on new examples: {r2_score(truth, raw):.2f} by Euclidean neighbors, "
    f"{r2_score(truth, learned):.2f} by MLKR"
)
print(
    "cosines of the angles between the plane that was "
    f"found and the one that tells: {angles.round(3)}"
)

# %%
# The targets over two of the features, and over the two components.
figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for axis, Z, title in (
    (axes[0], T[:, :2], "two features"),
    (axes[1], model.transform(T), "two components of MLKR"),
):
    shown = axis.scatter(*Z.T, c=truth, s=8, cmap="viridis")
    axis.set(title=title, xticks=[], yticks=[])
figure.colorbar(shown, ax=axes, label="target")
plt.show()
