"""A stand-in for embeddings: random ReLU features of MNIST images, 512 in single precision, each row of norm 1.

Like the embeddings of a frozen network they are nonnegative, of fast decaying spectrum and on a
sphere. They are taken as they are: no PCA, no scaling. `embeddings::10000` is a sample of 10,000 rows.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

DIMENSION, AS_THEY_ARE = 512, True


def load(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Rows and labels of the training images."""
    with np.load(folder / "mnist.npz") as file:
        n = int(file["n_train"])
        X, y = file["X"][:n].astype(np.float32) / 255.0, file["y"][:n]
    rng = np.random.default_rng(0)
    X -= X.mean(axis=0)
    W = rng.normal(size=(X.shape[1], DIMENSION)).astype(np.float32)
    Z = np.maximum(X @ W + rng.normal(size=DIMENSION).astype(np.float32), 0.0)
    Z /= np.linalg.norm(Z, axis=1, keepdims=True)
    return Z, y
