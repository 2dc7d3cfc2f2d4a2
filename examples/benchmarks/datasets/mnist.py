"""MNIST, the 60000 training rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np

DIMENSION = 164


def load(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Read ``mnist.npz``: arrays ``X`` and ``y``, and ``n_train``, the number of leading rows to learn from."""
    with np.load(folder / "mnist.npz") as file:
        n = int(file["n_train"])
        return file["X"][:n].astype(np.float64), file["y"][:n]
