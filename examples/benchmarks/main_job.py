"""The bars of the main job: proven gap and seconds of every solver on iris, wine and digits, as a Markdown table.

    python examples/benchmarks/main_job.py            # everything but digits in 61 dimensions by the conic solver
    python examples/benchmarks/main_job.py --all

Every figure is of one run after a first small one, which compiles.
"""

from __future__ import annotations

import argparse
import platform
import resource
from collections.abc import Iterator

import cvxpy
import numpy as np
import scipy
import sklearn
from sets import load

import sdpmetric as sm


def data(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Standardised iris and wine; digits by PCA. All at mean norm 4."""
    return load(name.replace("digits", "digits:"), None)


def jobs(everything: bool) -> Iterator[tuple[str, float, str, float, float]]:
    """Data set, push weight, solver, tolerance, scale of the data."""
    for push_weight in (0.5, 0.3):
        for name in ("iris", "wine", "digits30"):
            yield name, push_weight, "conic", 1e-6, 1.0
            yield name, push_weight, "subgradient", 1e-3, 1.0
            yield name, push_weight, "factored", 1e-3, 1.0
        yield "digits61", push_weight, "subgradient", 1e-3, 1.0
        yield "digits61", push_weight, "factored", 1e-3, 1.0
        if everything:
            yield "digits61", push_weight, "conic", 1e-5, 1.0
    for scale in (1e-3, 1e3):
        for solver in ("conic", "subgradient", "factored"):
            yield "wine", 0.5, solver, 1e-3, scale


def main() -> None:
    """Run the jobs and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="digits in 61 dimensions by the conic solver too")
    everything = parser.parse_args().all
    some = np.random.default_rng(0).permutation(1797)[:600]
    X, y = data("digits30")
    for solver in ("subgradient", "factored", "conic"):
        sm.solve(sm.LMNNProblem.from_labels(X[some], y[some], 3), solver=solver, tol=1e-2)
    versions = f"NumPy {np.__version__}, SciPy {scipy.__version__}, scikit-learn {sklearn.__version__}"
    print(f"{platform.machine()}, Python {platform.python_version()}, {versions}, CVXPY {cvxpy.__version__}\n")
    print("| data | push weight | solver | asked | status | objective | lower bound | proven gap | seconds |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    found: dict[tuple[str, float], list[sm.Solution]] = {}
    for name, push_weight, solver, tol, scale in jobs(everything):
        X, y = data(name)
        problem = sm.LMNNProblem.from_labels(scale * X, y, 3, push_weight)
        solution = sm.solve(problem, solver=solver, tol=tol)
        found.setdefault((name, push_weight), []).append(solution)
        label = name if scale == 1 else f"{name} times {scale:g}"
        print(
            f"| {label} | {push_weight} | {solver} | {tol:.0e} | {solution.status} | {solution.objective:.4f} "
            f"| {solution.lower_bound:.4f} | {solution.relative_gap:.1e} | {solution.seconds:.2f} |",
            flush=True,
        )
    print()
    for (name, push_weight), solutions in found.items():
        print(f"- {name}, push weight {push_weight}: {sm.Comparison(tuple(solutions)).verdict}")
    print(f"- peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")


if __name__ == "__main__":
    main()
