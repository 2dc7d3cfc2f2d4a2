"""Seconds of the two exact impostor searches against the dimension, for the choice that `search="auto"` makes.

python examples/benchmarks/impostor_search.py
"""

from __future__ import annotations

import time

import numpy as np

from sdpmetric.core.pairs import target_neighbors
from sdpmetric.lmnn.impostors import SearchMethod
from sdpmetric.lmnn.sources import LabeledTriplets


def seconds(source: LabeledTriplets, Z: np.ndarray, method: SearchMethod) -> tuple[float, int]:
    """Best of three exhaustive searches, and the pairs they find."""
    best, pairs, groups = np.inf, 0, np.zeros(len(Z), np.int32)
    for _ in range(3):
        began = time.perf_counter()
        pairs = sum(len(block.impostors) for block in source.candidate_blocks(Z, groups, method=method))
        best = min(best, time.perf_counter() - began)
    return best, pairs


def main() -> None:
    """Print the table."""
    print("| examples | classes | dimension | pairs | brute | ball tree |\n| --- | --- | --- | --- | --- | --- |")
    rng = np.random.default_rng(0)
    for n, classes in ((2000, 3), (16000, 3), (16000, 26)):
        for d in (1, 2, 3, 4, 6, 8):
            y = rng.integers(0, classes, n).astype(np.int32)
            X = rng.normal(size=(n, d)) + 2.0 * rng.normal(size=(classes, d))[y]
            source = LabeledTriplets(target_neighbors(X, y, 3), y)
            # At a scale where an anchor has about ten impostors within reach, as near an optimum.
            Z = X * {1: n / 20, 2: (n / 40) ** 0.5}.get(d, (n / 60) ** (1 / d))
            (brute, pairs), (tree, same) = seconds(source, Z, "brute"), seconds(source, Z, "ball_tree")
            print(f"| {n} | {classes} | {d} | {pairs} | {brute:.3f} | {tree:.3f} |", flush=True)
            assert same <= pairs  # blocks allow for the rounding of their products


if __name__ == "__main__":
    main()
