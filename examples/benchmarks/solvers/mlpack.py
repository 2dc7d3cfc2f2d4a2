"""mlpack's LMNN: hinge, but only the k nearest impostors of each example. Runs in the peers' environment.

Its `regularization` is the push weight. Shipped: AMSGrad, 50 passes in batches of 50; `mlpack:optimizer=lbfgs` is its
L-BFGS, with up to 100,000 iterations. Matrices cross its Python binding transposed, `distance` and `output` too.
"""

from __future__ import annotations

import numpy as np

PACKAGE = "mlpack"


def fit(X: np.ndarray, y: np.ndarray, k: int, push_weight: float, start: np.ndarray, **options: object) -> np.ndarray:
    """Fit and return the components."""
    from mlpack import lmnn

    begin = np.ascontiguousarray(start.T)
    found = lmnn(input_=X, labels=y, k=k, regularization=push_weight, distance=begin, seed=1, **options)
    return np.asarray(found["output"]).T
