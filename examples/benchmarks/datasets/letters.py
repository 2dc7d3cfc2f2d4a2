"""Letter Recognition (UCI), the first 16000 rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np

DIMENSION = 16


def load(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Read ``letters.npz``: arrays ``X`` and ``y``, and ``n_train``, the number of leading rows to learn from."""
    with np.load(folder / "letters.npz") as file:
        n = int(file["n_train"])
        return file["X"][:n].astype(np.float64), file["y"][:n]
