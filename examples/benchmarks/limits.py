"""Whether ``max_time`` holds: processor seconds of solves and verifications under a limit.

Run it with ``python examples/benchmarks/limits.py [PART OF A NAME ...] [--seconds 0.5]``. A case may take 1.2 times the
limit and a second.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from sklearn.datasets import make_blobs

import sdpmetric as sm

Answer = sm.Solution | sm.Certificate
Statement = Callable[[int, int], sm.Problem]


def blobs(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    X, y, *_ = make_blobs(n, d, centers=10, cluster_std=5, random_state=0)
    return X, y


def of_labels(state: Callable[..., sm.Problem], *arguments: float, **options: float) -> Statement:
    return lambda n, d: state(*blobs(n, d), *arguments, **options)


def of_pairs(state: Callable[..., sm.Problem], **options: float) -> Statement:
    def stated(n: int, d: int) -> sm.Problem:
        X, y = blobs(n, d)
        return state(X, *sm.constraints.pairs(y, n), **options)

    return stated


LMNN = of_labels(sm.LMNNProblem.from_labels)
FROBENIUS = of_labels(sm.LMNNProblem.from_labels, frobenius=1.0)
KERNEL = of_labels(sm.KernelLMNNProblem.from_labels)
POLA = of_pairs(sm.POLAProblem, slack_weight=1.0)
# Name, what states it, rows, features, solver.
CASES: list[tuple[str, Statement, int, int, str]] = [
    ("LMNN", LMNN, 20_000, 20, "factored"),
    ("LMNN", LMNN, 3_000, 200, "factored"),
    ("LMNN", LMNN, 5_000, 20, "factored"),
    ("LMNN", LMNN, 20_000, 20, "subgradient"),
    ("LMNN", LMNN, 800, 2_000, "subgradient"),
    ("LMNN", LMNN, 20_000, 20, "conic"),
    ("LMNN with a Frobenius term", FROBENIUS, 3_000, 200, "dual"),
    ("kernel LMNN", KERNEL, 3_000, 20, "factored"),
    ("kernel LMNN", KERNEL, 3_000, 20, "subgradient"),
    ("several metrics", of_labels(sm.MultiMetricLMNNProblem.from_labels), 20_000, 20, "factored"),
    ("MCML", of_labels(sm.MCMLProblem), 4_000, 20, "factored"),
    ("MCML", of_labels(sm.MCMLProblem), 1_000, 300, "factored"),
    ("NCA", of_labels(sm.NCAProblem), 3_000, 200, "auto"),
    ("MLKR", of_labels(sm.MLKRProblem), 3_000, 200, "auto"),
    ("POLA", POLA, 3_000, 400, "dual"),
    ("POLA", POLA, 20_000, 20, "dual"),
    ("SCML", of_labels(sm.SCMLProblem.from_labels), 5_000, 100, "auto"),
    ("ITML", of_pairs(sm.ITMLProblem), 3_000, 200, "auto"),
    ("MMC", of_pairs(sm.MMCProblem), 3_000, 200, "auto"),
    ("SDML", of_pairs(sm.SDMLProblem), 3_000, 200, "auto"),
    ("LSML", of_labels(sm.LSMLProblem.from_labels), 3_000, 200, "auto"),
    ("MLR", of_labels(sm.MLRProblem), 3_000, 200, "auto"),
    ("FRML", of_labels(sm.FRMLProblem, 5), 3_000, 200, "auto"),
]
# The squared Euclidean distance times this is verified: in another unit nearly every constraint is active.
FOREIGN_UNIT = 1e-6
# No lower bound is known for the first, and the Euclidean metric is no point of the last two.
WITHOUT_VERIFY = (sm.NCAProblem, sm.MLKRProblem, sm.FRMLProblem, sm.SCMLProblem, sm.MultiMetricLMNNProblem)


def answers(problem: sm.Problem, solver: str, limit: float) -> Iterator[tuple[str, Callable[[], Answer]]]:
    """Calls under a limit, by the verb."""
    yield "solve", partial(sm.solve, problem, solver, max_time=limit)
    if not isinstance(problem, WITHOUT_VERIFY):
        point = np.sqrt(FOREIGN_UNIT) * np.eye(problem.X.shape[1])
        yield "verify", partial(sm.verify, problem, point, max_time=limit)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of the names of statements; default: all")
    parser.add_argument("--seconds", type=float, nargs="*", default=[0.5, 2.0])
    options = parser.parse_args()
    print("| statement | data | solver | call | max_time, s | processor seconds | allowed | wall | objective | gap |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, state, n, d, solver in CASES:
        if options.names and not any(part in name for part in options.names):
            continue
        sm.solve(state(200, min(d, 20)), solver, max_time=5.0)  # compiles
        for limit in options.seconds:
            for verb, answer in answers(state(n, d), solver, limit):
                processor, wall = time.process_time(), time.perf_counter()
                found = answer()
                processor, wall = time.process_time() - processor, time.perf_counter() - wall
                certificate = found.certificate if isinstance(found, sm.Solution) else found
                over = " **over**" if processor > 1.2 * limit + 1.0 else ""
                print(
                    f"| {name} | {n:,} x {d:,} | {solver} | {verb} | {limit:g} | {processor:.2f}{over} | "
                    f"{1.2 * limit + 1.0:.1f} | {wall:.2f} | {certificate.objective:.6g} | {certificate.gap:.1e} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
