"""What the exact layer proves with a backend's own multipliers, and after polishing, as a Markdown table.

    python examples/benchmarks/exact_gaps.py                                # iris, wine, digits30 by CLARABEL and SCS
    python examples/benchmarks/exact_gaps.py --data digits61 --backends SCS

Each problem is solved once without polishing, so that no optimization code of the fast solvers has a part in the bound.
Its multipliers are polished afterwards. Data are prepared as for `run.py`.
"""

from __future__ import annotations

import argparse
import time

from sets import load

import sdpmetric as sm
from sdpmetric.lmnn.solvers.refinement import refined_dual


def main() -> None:
    """Solve each problem by each backend and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", default=["iris", "wine", "digits30"])
    parser.add_argument("--backends", nargs="+", default=["CLARABEL", "SCS"])
    parser.add_argument("--push-weight", type=float, default=0.5)
    parser.add_argument("--tol", type=float, default=1e-6, help="relative gap at which a solve ends")
    parser.add_argument("--max-time", type=float, help="seconds for each solve")
    given = parser.parse_args()
    print(f"Push weight {given.push_weight:g}, asked gap {given.tol:g}.\n")
    print("| data | backend | status | objective | backend's own multipliers | polished | programs | CPU seconds |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name in given.data:
        problem = sm.LMNNProblem.from_labels(*load(name.replace("digits", "digits:"), None), 3, given.push_weight)
        for backend in given.backends:
            began = time.process_time()
            s = sm.solve(problem, solver="conic", backend=backend, polish=False, tol=given.tol, max_time=given.max_time)
            seconds, polished = time.process_time() - began, "-"
            if isinstance(s.dual, sm.Dual):
                L = problem.whitened(s.components)
                after = problem.certify(s.components, dual=refined_dual(problem, L, s.dual))
                polished = f"{min(after.relative_gap, s.relative_gap):.1e}"
            print(
                f"| {name} | {backend} | {s.status} | {s.objective:.6f} | {s.relative_gap:.1e} | {polished} "
                f"| {s.n_iter} | {seconds:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
