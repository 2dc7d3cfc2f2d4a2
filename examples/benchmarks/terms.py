"""Sums of terms that are no shipped statement: the solver in the factor against CVXPY with Clarabel, a Markdown table.

Usage: python examples/benchmarks/terms.py [--n 2000] [--d 20] [--size 20000] [--tol 1e-3] [--sums NAME ..] [--limit S]

Clarabel solves the same program as `sdpmetric.to_cvxpy` states it, to its own default accuracy; its seconds include
CVXPY's compilation, as a user waits for both. Every metric is judged by the problem's own certificate.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import time
from collections.abc import Callable

import cvxpy as cp
import numpy as np

import sdpmetric as sm
from sdpmetric import terms
from sdpmetric.linalg import psd


def data(n: int, d: int, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Ten classes that overlap, in units that differ; triplets and pairs drawn at random."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, n)
    X = rng.normal(size=(n, d)) + 1.2 * rng.normal(size=(10, d))[y]
    X *= 10 ** rng.uniform(-0.3, 0.3, d)
    X /= np.sqrt(np.mean(np.sum((X - X.mean(axis=0)) ** 2, axis=1)))
    anchors = rng.integers(0, n, size)
    same = np.array([rng.choice(np.flatnonzero((y == y[i]) & (np.arange(n) != i))) for i in anchors])
    other = np.array([rng.choice(np.flatnonzero(y != y[i])) for i in anchors])
    triplets = np.stack([anchors, same, other], axis=1)
    half = np.where(np.arange(size) % 2 == 0, same, other)
    return X, y, triplets, np.stack([anchors, half], axis=1), np.arange(size) % 2 == 0


def sums(n: int, d: int, size: int) -> dict[str, Callable[[], sm.MetricProblem]]:
    """The sums, by name."""
    X, _, triplets, pairs, similar = data(n, d, size)
    push, weight = terms.TripletHinge(triplets), 1.0 / size
    logistic = terms.TripletHinge(triplets, loss="logistic")
    hinge = terms.PairHinge(pairs, similar)
    return {
        "hinge of triplets + LogDet": lambda: sm.MetricProblem(X, weight * push + 0.01 * terms.LogDet()),
        "hinge of triplets + trace": lambda: sm.MetricProblem(X, weight * push + 0.01 * terms.Trace()),
        "squared hinge of triplets + trace": lambda: sm.MetricProblem(
            X, weight * terms.TripletHinge(triplets, loss="squared_hinge") + 0.01 * terms.Trace()
        ),
        "logistic of triplets + Frobenius": lambda: sm.MetricProblem(X, weight * logistic + 1e-3 * terms.Frobenius()),
        "hinge of pairs + Frobenius + trace": lambda: sm.MetricProblem(
            X, weight * hinge + 1e-3 * terms.Frobenius() + 1e-3 * terms.Trace()
        ),
        "hinge of triplets, weights of features": lambda: sm.MetricProblem(
            X, weight * push + 0.01 * terms.Trace(), diagonal=True
        ),
    }


def by_clarabel(problem: sm.MetricProblem, limit: float) -> tuple[float, float]:
    """Seconds and objective of Clarabel through CVXPY, the metric judged by the problem; infinity after the limit."""
    began = time.perf_counter()
    program = sm.to_cvxpy(problem)
    with contextlib.suppress(cp.SolverError):
        program.solve(solver="CLARABEL", time_limit=limit)
    seconds = time.perf_counter() - began
    variable = next(v for v in program.variables() if v.name() in ("M", "w"))
    if variable.value is None or program.status != "optimal":
        return seconds, np.inf
    metric = np.diag(np.maximum(variable.value, 0.0)) if variable.ndim == 1 else variable.value
    return seconds, problem.objective(psd.factor(metric))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("--n", 2000), ("--d", 20), ("--size", 20_000)):
        parser.add_argument(name, type=int, default=default)
    parser.add_argument("--tol", type=float, default=1e-3)
    parser.add_argument("--sums", nargs="+", default=None)
    parser.add_argument("--limit", type=float, default=600.0, help="seconds for Clarabel; 0: without it")
    given = parser.parse_args()
    print(
        f"n = {given.n}, d = {given.d}, {given.size} pairs or triplets; {os.cpu_count()} cores, {platform.machine()}\n"
    )
    print("| sum | factored, s | proven gap | Clarabel, s | its objective less ours, relative | times faster |")
    print("| --- | --- | --- | --- | --- | --- |")
    small = sums(200, 5, 100)
    for name, state in sums(given.n, given.d, given.size).items():
        if given.sums is not None and name not in given.sums:
            continue
        sm.solve(small[name](), "factored", max_iter=50)  # compiled loops are loaded
        problem = state()
        began = time.perf_counter()
        fast = sm.solve(problem, "factored", tol=given.tol)
        seconds = time.perf_counter() - began
        row = f"| {name} | {seconds:.2f} | {fast.relative_gap:.1e} |"
        if not given.limit:
            print(f"{row} - | - | - |", flush=True)
            continue
        slow, objective = by_clarabel(problem, given.limit)
        more = "" if np.isfinite(objective) else "more than "
        off = (objective - fast.objective) / abs(fast.objective)
        print(f"{row} {more}{slow:.1f} | {'-' if more else f'{off:+.1e}'} | {more}{slow / seconds:.0f} |", flush=True)


if __name__ == "__main__":
    main()
