"""Wine, every feature standardized."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.datasets import load_wine

from sdpmetric.datasets import standardize

DIMENSION = 13


def load(folder: Path | None) -> tuple[np.ndarray, np.ndarray]:
    """Comes with scikit-learn; needs no folder."""
    X, y = load_wine(return_X_y=True)
    return standardize(X), y
