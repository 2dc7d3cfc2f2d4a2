"""The 1797 small digits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

DIMENSION = 61


def load(folder: Path | None) -> tuple[np.ndarray, np.ndarray]:
    """Comes with scikit-learn; needs no folder. Three of its 64 pixels are constant."""
    return load_digits(return_X_y=True)
