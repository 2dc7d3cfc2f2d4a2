"""USPS handwritten digits, the 7291 training rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np

DIMENSION = 256


def load(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Read ``usps.npz``: arrays ``X`` and ``y``, and ``n_train``, the number of leading rows to learn from."""
    with np.load(folder / "usps.npz") as file:
        n = int(file["n_train"])
        return file["X"][:n].astype(np.float64), file["y"][:n]
