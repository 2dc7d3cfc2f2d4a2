"""What it costs that certificates hold in floating point: quality of the bound, and time, against float64 as it comes.

    SDPMETRIC_DATA=DATA python examples/benchmarks/certify_cost.py [iris wine digits letters usps mnist]

solves LMNN (three target neighbors, push weight 0.5) to a gap of 1e-3, and judges the metric and the multipliers twice:
by `certify`, and by the same formulas in float64 without regard to rounding: the objective over all triplets, and the
best multiple of the multipliers by the largest eigenvalue of their matrix. Printed are, relative to the float64
numbers, what the bound loses and what the objective gains, and the processor seconds of both, each the least of three;
"passes" is the difference in units of one evaluation of the objective, which searches all triplets once.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sets import load

import sdpmetric as sm
from sdpmetric.linalg import psd
from sdpmetric.linalg.distances import adjoint
from sdpmetric.lmnn.margins import signed_pairs

NAMES = ("iris", "wine", "digits", "letters", "usps", "mnist")


def float_bound(problem: sm.LMNNProblem, dual: sm.Dual) -> float:
    """The lower bound of multipliers in float64, rounding left as it comes."""
    i, _, l = dual.triplets.to_array().T
    groups = problem.null_groups
    used = groups[i] == groups[l]
    a = np.minimum(np.where(used, dual.values, 0.0), problem.push_weight)
    together = used & ~(problem.points[i] - problem.points[l]).any(axis=1)
    top = psd.largest_eigenvalue(adjoint(problem.points, *signed_pairs(dual.triplets, a)))
    multiple = min(1.0 / top, problem.push_weight / a.max())
    return float(multiple * a.sum() + max(0.0, 1.0 - multiple) * a[together].sum())


def timed(what: Callable[[], object], times: int = 3) -> tuple[float, object]:
    """The least processor seconds of several runs, and what the last one returned."""
    seconds, result = [], None
    for _ in range(times):
        began = time.process_time()
        result = what()
        seconds.append(time.process_time() - began)
    return min(seconds), result


def row(problem: sm.LMNNProblem) -> str:
    """The figures of one problem, as cells of a table."""
    solution = sm.solve(problem, tol=1e-3)
    L, dual = np.asarray(solution.components, dtype=np.float64), solution.dual
    problem.certify(L, dual=dual)  # what is made once for all certificates of a problem
    one_pass, objective = timed(lambda: problem.objective(L))
    more, bound = timed(lambda: float_bound(problem, dual))
    seconds, certificate = timed(lambda: problem.certify(L, dual=dual))
    lost, gained = 1.0 - certificate.lower_bound / bound, certificate.objective / objective - 1.0
    before = one_pass + more
    passes = (seconds - before) / one_pass
    return f"{lost:.1e} | {gained:.1e} | {before:.3g} | {seconds:.3g} | {seconds / before:.2f} | {passes:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=NAMES, help="as in run.py: a name, name:d or name:d:n")
    folder = Path(os.environ["SDPMETRIC_DATA"]) if "SDPMETRIC_DATA" in os.environ else None
    print("| data | bound loses | objective gains | float64, s | certify, s | ratio | passes |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name in parser.parse_args().names:
        print(f"| {name} | {row(sm.LMNNProblem.from_labels(*load(name, folder)))} |", flush=True)


if __name__ == "__main__":
    main()
