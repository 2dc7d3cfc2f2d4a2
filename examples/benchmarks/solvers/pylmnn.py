"""PyLMNN: SciPy's L-BFGS-B in the factor, *squared* hinge. Runs in the peers' environment.

Its `weight_push_loss` is the push weight (it minimizes our objective divided by it); shipped limits: 50 iterations,
500,000 pairs of an example and its impostor, sampled where there are more.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import OptimizeResult, minimize

PACKAGE = "pylmnn"


def fit(X: np.ndarray, y: np.ndarray, k: int, push_weight: float, start: np.ndarray, **options: object) -> np.ndarray:
    """Fit and return the components."""
    import pylmnn.lmnn

    def flat(x0: np.ndarray, **arguments: object) -> OptimizeResult:
        return minimize(x0=np.ravel(x0), **arguments)

    # It hands SciPy a matrix to start from, which SciPy refuses since 1.11; nothing else is changed.
    pylmnn.lmnn.minimize = flat
    model = pylmnn.lmnn.LargeMarginNearestNeighbor(
        k, init=start, weight_push_loss=push_weight, random_state=0, **options
    )
    return model.fit(X, y).components_
