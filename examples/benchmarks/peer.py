"""The peers of `run.py`: ``python -P peer.py NAME IN.npz OUT.npz``, in the environment that `peers.sh` builds.

Each function fits one package's LMNN and returns the components. Their `options` change the shipped limits.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import sys
import time

import numpy as np


def metric_learn(X: np.ndarray, y: np.ndarray, k: int, push_weight: float, start: np.ndarray, **options: object):
    """Gradient descent in the factor, hinge, all impostors. Shipped limits: 1000 iterations, first step 1e-7.

    Its `regularization` is the weight of the *pull* term.
    """
    from metric_learn import LMNN

    model = LMNN(init=start, n_neighbors=k, regularization=1.0 - push_weight, **options)
    return model.fit(X, y).components_


def mlpack(X: np.ndarray, y: np.ndarray, k: int, push_weight: float, start: np.ndarray, **options: object):
    """Hinge, but only the k nearest impostors of each example. Its `regularization` is the push weight.

    Shipped: AMSGrad, 50 passes in batches of 50; `mlpack:optimizer=lbfgs` is its L-BFGS, with up to 100,000 iterations.
    Matrices cross its Python binding transposed, `distance` and `output` too.
    """
    from mlpack import lmnn

    begin = np.ascontiguousarray(start.T)
    found = lmnn(input_=X, labels=y, k=k, regularization=push_weight, distance=begin, seed=1, **options)
    return np.asarray(found["output"]).T


def pylmnn(X: np.ndarray, y: np.ndarray, k: int, push_weight: float, start: np.ndarray, **options: object):
    """SciPy's L-BFGS-B in the factor, *squared* hinge.

    Its `weight_push_loss` is the push weight (it minimizes our objective divided by it); shipped limits: 50 iterations,
    500,000 pairs of an example and its impostor, sampled if there are more.
    """
    import pylmnn.lmnn
    from scipy.optimize import minimize

    # It hands SciPy a matrix to start from, which SciPy refuses since 1.11; nothing else is changed.
    pylmnn.lmnn.minimize = lambda x0, **arguments: minimize(x0=np.ravel(x0), **arguments)
    learner = pylmnn.lmnn.LargeMarginNearestNeighbor
    model = learner(k, init=start, weight_push_loss=push_weight, random_state=0, **options)
    return model.fit(X, y).components_


PEERS = {"metric_learn": metric_learn, "mlpack": mlpack, "pylmnn": pylmnn}


def main(name: str, given: str, found: str) -> None:
    """Fit the peer; only its fit is timed, after its imports."""
    with np.load(given) as file:
        X, y, start, settings = file["X"], file["y"], file["start"], json.loads(str(file["settings"]))
    importlib.import_module(name)
    began = time.perf_counter()
    components = PEERS[name](X, y, settings["k"], settings["push_weight"], start, **settings["options"])
    seconds = time.perf_counter() - began
    version = f"{name} {importlib.metadata.version(name)}"
    np.savez(found, components=components, seconds=seconds, version=version)


if __name__ == "__main__":
    main(*sys.argv[1:])
