"""Multi-metric LMNN beside the single metric, to the same proven gap: seconds and their ratio, as a Markdown table.

    python examples/benchmarks/several_metrics.py --folder DATA

One metric for each class: letters has 26 of them in 16 dimensions, USPS 10 in 64. Figures are medians of the repeats.
Data whose name ends with "+constant" have a feature that is constant in the first class.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np
from sets import load

import sdpmetric as sm

DATA = ["letters", "usps:64", "usps:16", "usps:16+constant", "mnist:16:7500"]


def main() -> None:
    """Run the jobs and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=os.environ.get("SDPMETRIC_DATA"))
    parser.add_argument("--data", nargs="+", default=DATA)
    parser.add_argument("--tol", type=float, default=5e-3)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    print("| data | metrics | objective: one, several | proven gap: one, several | seconds: one, several | ratio |")
    print("| --- | --- | --- | --- | --- | --- |")
    for data in args.data:
        X, y = load(data.removesuffix("+constant"), args.folder)
        if data.endswith("+constant"):
            X[y == y.min(), 3] = 0.0
        some = np.random.default_rng(0).permutation(len(X))[:1500]
        sm.solve(sm.MultiMetricLMNNProblem.from_labels(X[some], y[some]), tol=0.05, max_time=30)  # compiles
        pairs = []
        for _ in range(args.repeats):
            one = sm.solve(sm.LMNNProblem.from_labels(X, y), tol=args.tol)
            pairs.append((one, sm.solve(sm.MultiMetricLMNNProblem.from_labels(X, y), tol=args.tol)))
        one, several = pairs[-1]
        seconds = np.median([[a.seconds, b.seconds] for a, b in pairs], axis=0)
        print(
            f"| {data} | {len(several.metrics)} | {one.objective:.6g}, {several.objective:.6g} "
            f"| {one.relative_gap:.1e}, {several.relative_gap:.1e} | {seconds[0]:.2f}, {seconds[1]:.2f} "
            f"| {seconds[1] / seconds[0]:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
