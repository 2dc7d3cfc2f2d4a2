"""SDML beside scikit-learn's graphical lasso, at the same gap.

    OPENBLAS_NUM_THREADS=1 NUMBA_NUM_THREADS=1 python examples/benchmarks/small_duals.py

prints Markdown: processor milliseconds, medians of some runs, on one thread. Both sides get the same problem, stated
already; ours ends with a proven gap, and scikit-learn's tolerances are those that ours calls it with.
"""

import statistics
import time
from collections.abc import Callable

import numpy as np
from sklearn import datasets
from sklearn.covariance import graphical_lasso
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import sdpmetric as sm

REPEATS = 15


def milliseconds(task: Callable[[], object], repeats: int = REPEATS) -> float:
    """Processor time, the median of some runs after one that compiles."""
    task()
    spent = []
    for _ in range(repeats):
        began = time.process_time()
        task()
        spent.append(time.process_time() - began)
    return 1e3 * statistics.median(spent)


def tables() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Standardized, and 30 principal components of digits."""
    loads = {"iris": datasets.load_iris, "wine": datasets.load_wine, "breast cancer": datasets.load_breast_cancer}
    made = {name: load(return_X_y=True) for name, load in loads.items()}
    made = {name: (StandardScaler().fit_transform(X), y) for name, (X, y) in made.items()}
    X, y = datasets.load_digits(return_X_y=True)
    return made | {"digits:30": (PCA(30, random_state=0).fit_transform(X / 16), y)}


def sdml() -> None:
    print("| SDML | proven gap | ours | graphical_lasso | ratio |\n| --- | ---: | ---: | ---: | ---: |")
    for name, (X, y) in tables().items():
        problem = sm.SDMLProblem.from_labels(X, y)
        options = {"tol": 1e-5, "enet_tol": 1e-6}
        theirs = milliseconds(lambda S=problem.linear, options=options: graphical_lasso(S, 0.01, **options))
        ours, gap = milliseconds(lambda problem=problem: sm.solve(problem)), sm.solve(problem).relative_gap
        print(f"| {name} | {gap:.0e} | {ours:.2f} | {theirs:.2f} | {ours / theirs:.1f} |", flush=True)


if __name__ == "__main__":
    with threadpool_limits(limits=1):
        sdml()
