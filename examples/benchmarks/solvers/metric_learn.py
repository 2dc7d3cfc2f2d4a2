"""metric-learn's LMNN: gradient descent in the factor, hinge, all impostors. Runs in the peers' environment.

Its `regularization` is the weight of the *pull* term; shipped limits: 1000 iterations, first step 1e-7.
"""

from __future__ import annotations

import numpy as np

PACKAGE = "metric_learn"


def fit(X: np.ndarray, y: np.ndarray, k: int, push_weight: float, start: np.ndarray, **options: object) -> np.ndarray:
    """Fit and return the components."""
    from metric_learn import LMNN

    model = LMNN(init=start, n_neighbors=k, regularization=1.0 - push_weight, **options)
    return model.fit(X, y).components_
