"""NCA beside scikit-learn's: value, gradient, seconds of a fit from the same start, and memory on 60,000 examples.

Run it with ``python examples/benchmarks/nca_against_sklearn.py [--data DIR] [--only digits|mnist]``; DIR, or
the environment's SDPMETRIC_DATA, has mnist.npz. Prints Markdown. Both sides of a row run in this process, in turns,
with the same start, tol and max_iter; seconds are the least of three fits. "small": a random start, times 0.02, since
from the identity on 64 dimensions are at a plateau after a few iterations.
"""

import argparse
import os
import resource
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis

import sdpmetric as sm
from sdpmetric.estimators import NCA

REPEATS = 3


def seconds_of(fit) -> float:
    began = time.perf_counter()
    fit()
    return time.perf_counter() - began


def digits() -> None:
    X, y = load_digits(return_X_y=True)
    problem = sm.NCAProblem(X, y)
    print("| digits, 64 to | init | value differs by | gradient by | final objectives | iterations | seconds | ratio |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    NCA(max_iter=1).fit(X, y)  # compiles
    for r, init in ((2, "auto"), (2, "pca"), (64, "auto"), (64, "small")):
        start = 0.02 * np.random.default_rng(1).normal(size=(r, 64)) if init == "small" else init
        arguments = {"n_components": r, "init": start, "max_iter": 50, "random_state": 0}
        own, theirs = NCA(**arguments), NeighborhoodComponentsAnalysis(**arguments)
        pairs = [[seconds_of(lambda model=model: model.fit(X, y)) for model in (own, theirs)] for _ in range(REPEATS)]
        fast, slow = np.min(pairs, axis=0)
        L = 0.05 * np.random.default_rng(0).normal(size=(r, 64))
        value, gradient = problem.value_and_gradient(L)
        theirs_iterations, theirs.n_iter_ = theirs.n_iter_, 1
        expected, slope = theirs._loss_grad_lbfgs(L.ravel(), X, y[:, None] == y[None, :], -1.0)
        differences = (abs(value / expected - 1), np.abs(gradient.ravel() - slope).max() / np.abs(slope).max())
        ends = [problem.objective(model.components_) for model in (own, theirs)]
        print(
            f"| {r} | {init} | {differences[0]:.0e} | {differences[1]:.0e} | {ends[0]:.3f}, {ends[1]:.3f} | "
            f"{own.n_iter_}, {theirs_iterations} | {fast:.2f}, {slow:.2f} | {slow / fast:.1f} |",
            flush=True,
        )


def mnist(folder: Path) -> None:
    data = np.load(folder / "mnist.npz")
    n = int(data["n_train"])
    pixels, y = data["X"].astype(np.float32) / 255, data["y"]
    X = PCA(50, random_state=0).fit(pixels[:n]).transform(pixels)
    del pixels
    print("| MNIST, 60,000 x 50 to | solver | objective per example | evaluations | seconds | peak GiB | 3-NN error |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    solution = sm.solve(sm.NCAProblem(X[:n], y[:n], 50), max_iter=3)
    L = solution.components
    nearest = KNeighborsClassifier(3, algorithm="brute").fit(X[:n] @ L.T, y[:n])
    error = 1 - nearest.score(X[n:] @ L.T, y[n:])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"| 50 | lbfgs | {solution.objective / n:.4f} | {solution.n_iter} | {solution.seconds:.0f} | "
        f"{peak:.1f} | {error:.2%} |",
        flush=True,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("SDPMETRIC_DATA", "data")))
    parser.add_argument("--only", choices=["digits", "mnist"])
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.only in (None, "digits"):
        digits()
    if given.only in (None, "mnist"):
        mnist(given.data)
