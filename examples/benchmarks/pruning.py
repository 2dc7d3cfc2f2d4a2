"""What bounds before products would save in the search for impostors: MNIST, 60,000 rows in 50 dimensions.

    SDPMETRIC_DATA=DATA python examples/benchmarks/pruning.py

Under the metric of 4,000 rows, all examples of a class are divided into tiles by a k-d tree, the best case for bounds.
A tile of the distance matrix is inactive if a lower bound of all its distances is above the largest limit of its rows:
the distance of bounding boxes in principal coordinates, of balls, or of intervals of norms. The second table asks when
the candidates of one search over all anchors would hold the next one's: if the least eigenvalue of the new metric
relative to the old one, times how much wider the old search was than its limits, is above the growth of the limits. The
last column asks of a search that remembers all distances of the one before: which pairs are in tiles of 16 x 64 that
the bounds on how far the metric and the points have moved prove inactive.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from run import load

import sdpmetric as sm
from sdpmetric.lmnn.solvers.working_set import WorkingSet

ROWS, TILES = 4000, ((64, 1024), (64, 64), (16, 64))


def leaves(P: np.ndarray, rows: np.ndarray, size: int) -> list[np.ndarray]:
    """Rows divided at the median of their widest coordinate, until at most `size` are together."""
    if len(rows) <= size:
        return [rows]
    order = rows[np.argsort(P[rows, np.argmax(np.ptp(P[rows], axis=0))])]
    half = -(-len(order) // size) // 2 * size
    return leaves(P, order[:half], size) + leaves(P, order[half:], size)


def limits(problem: sm.LMNNProblem, Z: np.ndarray) -> np.ndarray:
    """``1 + max_j D_ij`` of each example."""
    targets = problem.source.targets
    return 1.0 + np.max([np.sum((Z - Z[targets[:, k]]) ** 2, axis=1) for k in range(targets.shape[1])], axis=0)


def inactive(P: np.ndarray, y: np.ndarray, limit: np.ndarray, height: int, width: int) -> tuple[float, float, float]:
    """Shares of pairs of other classes in tiles that boxes, balls and norms prove inactive, of every tenth row tile."""
    classes = [np.flatnonzero(y == label) for label in np.unique(y)]
    columns = [tile for members in classes for tile in leaves(P, members, width)]
    label, size = y[[tile[0] for tile in columns]], np.array([len(tile) for tile in columns])
    low, high = (np.array([side(P[tile], axis=0) for tile in columns]) for side in (np.min, np.max))
    centers, norms = np.array([P[tile].mean(axis=0) for tile in columns]), np.linalg.norm(P, axis=1)
    radii = np.array([np.linalg.norm(P[tile] - c, axis=1).max() for tile, c in zip(columns, centers, strict=True)])
    near, far = (np.array([side(norms[tile]) for tile in columns]) for side in (np.min, np.max))
    total, pruned = 0, np.zeros(3)
    for tile in [tile for members in classes for tile in leaves(P, members, height)][::10]:
        own, center = P[tile], P[tile].mean(axis=0)
        radius = np.linalg.norm(own - center, axis=1).max()
        gaps = (
            np.linalg.norm(np.maximum(0.0, np.maximum(low - own.max(axis=0), own.min(axis=0) - high)), axis=1),
            np.linalg.norm(centers - center, axis=1) - radius - radii,
            np.maximum(near - norms[tile].max(), norms[tile].min() - far),
        )
        other = label != y[tile[0]]
        total += len(tile) * size[other].sum()
        for k, gap in enumerate(gaps):
            pruned[k] += len(tile) * size[other & (np.maximum(gap, 0.0) ** 2 > limit[tile].max())].sum()
    return tuple(pruned / total)


def still(before: np.ndarray, after: np.ndarray, y: np.ndarray, limit: np.ndarray, least: float) -> float:
    """Share of pairs of other classes in tiles that cannot have become active since the points were at `before`."""
    size = max(before.shape[1], after.shape[1])
    A, B = (np.pad(Z, ((0, 0), (0, size - Z.shape[1]))) for Z in (before, after))
    U, _, V = np.linalg.svd(B.T @ A)
    moved = np.linalg.norm(B @ (U @ V) - A, axis=1)
    classes = [np.flatnonzero(y == label) for label in np.unique(y)]
    order = np.concatenate([tile for members in classes for tile in leaves(A, members, 64)])
    starts = np.arange(0, len(order), 64)
    norms, total, proven = np.sum(A**2, axis=1), 0, 0
    for tile in [tile for members in classes for tile in leaves(A, members, 16)][::200]:
        D = np.maximum(norms[tile][:, None] + norms[order] - 2.0 * A[tile] @ A[order].T, 0.0)
        near = np.maximum(np.sqrt(D) - moved[tile][:, None] - moved[order], 0.0) ** 2
        inactive = (np.maximum(near, least * D) > limit[tile][:, None]) | (y[order] == y[tile[0]])
        all_of = np.logical_and.reduceat(inactive.all(axis=0), starts)
        other = np.add.reduceat((y[order] != y[tile[0]]).astype(int), starts) * len(tile)
        total, proven = total + other.sum(), proven + other[all_of].sum()
    return proven / total


def watch(problem: sm.LMNNProblem, searches: list[np.ndarray]) -> None:
    """Solve, and keep the factors of the searches over all anchors."""
    search = WorkingSet.search

    def watched(self: WorkingSet, L: np.ndarray, widen: float) -> np.ndarray:
        found = search(self, L, widen)
        if self.whole:
            searches.append(found[0])
        return found

    WorkingSet.search = watched
    try:
        sm.solve(problem, solver="factored")
    finally:
        WorkingSet.search = search


def main() -> None:
    X, y = load("mnist:50", Path(os.environ["SDPMETRIC_DATA"]))
    some = np.sort(np.random.default_rng(0).permutation(len(X))[:ROWS])
    small = sm.LMNNProblem.from_labels(X[some], y[some])
    searches: list[np.ndarray] = []
    watch(small, searches)
    problem = sm.LMNNProblem.from_labels(X, y)
    Z = X @ small.lift(searches[-1]).T
    P = (Z - Z.mean(axis=0)) @ np.linalg.svd(Z - Z.mean(axis=0), full_matrices=False)[2].T
    print("| rows x columns of a tile | inactive by boxes | by balls | by norms |\n| --- | --- | --- | --- |")
    for height, width in TILES:
        shares = inactive(P, y, limits(problem, Z), height, width)
        print(f"| {height} x {width} | " + " | ".join(f"{share:.1%}" for share in shares) + " |", flush=True)
    print("\n| search | least eigenvalue against the one before | largest growth of a limit | still inactive |")
    print("| --- | --- | --- | --- |")
    for k in range(1, len(searches)):
        before, after = searches[k - 1], searches[k]
        values, V = np.linalg.eigh(before.T @ before)
        kept = values > 1e-9 * values[-1]
        seen = np.linalg.svd(after @ (V[:, kept] / np.sqrt(values[kept])), compute_uv=False) ** 2
        least = seen[-1] if len(after) >= kept.sum() else 0.0
        growth = limits(small, small.points @ after.T) / limits(small, small.points @ before.T)
        old, new = X @ small.lift(before).T, X @ small.lift(after).T
        print(f"| {k + 1} | {least:.3f} | {growth.max():.2f} | {still(old, new, y, limits(problem, new), least):.1%} |")


if __name__ == "__main__":
    main()
