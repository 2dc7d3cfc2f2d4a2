"""Shared by the tests of estimators."""

import pytest


@pytest.fixture(scope="module")
def data():
    """Three classes of unequal size in unequal units."""
    import numpy as np

    rng = np.random.default_rng(11)
    y = rng.choice(3, 60, p=[0.5, 0.3, 0.2])
    X = (rng.normal(size=(60, 4)) + np.outer(y, [1.5, 0.0, 1.0, 0.0])) * [1.0, 10.0, 0.5, 2.0]
    return X, np.array(["ape", "bee", "cow"])[y]
