"""The labeled data of the benchmarks, by PCA and at mean norm 4: ``load("digits:30", None)``.

`name:d` asks for d principal components, `name:d:n` for a sample of n rows, always the same. Iris, wine and
segment are standardized; letters, USPS and MNIST are the training rows of the files that `data.py` builds.
"embeddings" stand in for those of a frozen network: 512 random ReLU features of MNIST in single precision, each row of
norm 1, as they are. ``wide:d:n`` makes n rows of 10 Gaussian classes in d features: wide data whose optimal metric has
rank 9.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits, load_iris, load_wine

from sdpmetric.datasets import reduce, standardize

Arrays = tuple[np.ndarray, np.ndarray]
COMPONENTS = {
    "iris": 4,
    "wine": 13,
    "digits": 61,
    "segment": 18,
    "letters": 16,
    "usps": 256,
    "mnist": 164,
    "embeddings": 512,
    "wide": 0,
}
STANDARDIZED = ("iris", "wine", "segment")
OF_SCIKIT_LEARN = {"iris": load_iris, "wine": load_wine, "digits": load_digits}


def training_rows(name: str, folder: Path | None) -> Arrays:
    """The leading rows of a file, those to learn from."""
    if folder is None:
        raise SystemExit(f"{name} is read from a file: pass --folder, or set SDPMETRIC_DATA.")
    with np.load(folder / f"{name}.npz") as file:
        n = int(file["n_train"]) if "n_train" in file else len(file["X"])
        return file["X"][:n], file["y"][:n]


def embeddings(folder: Path | None) -> Arrays:
    """Nonnegative rows of norm 1 with a fast decaying spectrum."""
    images, y = training_rows("mnist", folder)
    rng, X = np.random.default_rng(0), images.astype(np.float32) / 255.0
    X -= X.mean(axis=0)
    W = rng.normal(size=(X.shape[1], 512)).astype(np.float32)
    Z = np.maximum(X @ W + rng.normal(size=512).astype(np.float32), 0.0)
    return Z / np.linalg.norm(Z, axis=1, keepdims=True), y


def wide(d: int, n: int) -> Arrays:
    """Classes that differ in all features, with noise of standard deviation ``1 / sqrt(k)`` in feature k."""
    rng, y = np.random.default_rng(0), np.arange(n) % 10
    X = rng.normal(size=(10, d))[y] * np.sqrt(6 / d) + rng.normal(size=(n, d)) / np.sqrt(1 + np.arange(d))
    return X * (4 / np.linalg.norm(X, axis=1).mean()), y


def load(spec: str, folder: Path | None) -> Arrays:
    """Examples and labels of a specification."""
    name, components, rows = [*spec.split(":"), "", ""][:3]
    if name not in COMPONENTS:
        raise SystemExit(f"there are no data {name}; choose among {', '.join(COMPONENTS)}.")
    if name == "wide":
        return wide(int(components), int(rows))
    if name in OF_SCIKIT_LEARN:
        X, y = OF_SCIKIT_LEARN[name](return_X_y=True)
    else:
        X, y = embeddings(folder) if name == "embeddings" else training_rows(name, folder)
    if name in STANDARDIZED:
        X = standardize(X)
    if rows:
        some = np.sort(np.random.default_rng(0).permutation(len(X))[: int(rows)])
        X, y = X[some], y[some]
    X = X if name == "embeddings" else reduce(X.astype(np.float64), int(components or COMPONENTS[name]))
    return X, y.astype(np.int64)
