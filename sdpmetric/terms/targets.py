"""Pairs, triplets and target neighbors of terms, checked against data."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sdpmetric.core import pairs as pair_checks
from sdpmetric.core import validation
from sdpmetric.triplets import neighbors
from sdpmetric.triplets.triplets import Triplets

IndexArray = NDArray[np.int32]

# Triplets of labels that a term lists; an LMNNProblem needs no list.
MOST_TRIPLETS = 8_000_000


def check_term_pairs(name: str, pairs: ArrayLike | None, n: int) -> IndexArray:
    """Pairs of two different rows, (p, 2); at least one."""
    try:
        return pair_checks.check_pairs([] if pairs is None else pairs, n)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def target_pairs(
    name: str, X: NDArray[np.floating], labels: ArrayLike, n_neighbors: int, target_neighbors: ArrayLike | None
) -> tuple[IndexArray, IndexArray]:
    """Class of each example (n,) and its target neighbors (n, k), padded with -1; see `LMNNProblem.from_labels`."""
    try:
        classes, index = validation.check_labels(labels, len(X))
        if target_neighbors is not None:
            return index, validation.check_target_neighbors(target_neighbors, index)
        validation.check_class_sizes(classes, index, n_neighbors)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    return index, neighbors.target_neighbors(np.asarray(X, dtype=np.float64), index, int(n_neighbors))


def labelled_triplets(name: str, index: IndexArray, targets: IndexArray) -> Triplets:
    """All triplets of an example, a target neighbor and an example of another class."""
    i, slot = np.nonzero(targets >= 0)
    counts = len(index) - np.bincount(index)[index[i]]
    if counts.sum() > MOST_TRIPLETS:
        raise ValueError(
            f"{name}: the labels make {int(counts.sum()):,} triplets, more than the {MOST_TRIPLETS:,} that a term "
            "lists; state pull and push alone as an LMNNProblem, which needs no list, or pass fewer triplets."
        )
    order = np.argsort(index, kind="stable")
    sorted_classes = index[order]
    # The others of each example: the order without the range of its own class.
    own = np.stack([np.searchsorted(sorted_classes, index[i], side) for side in ("left", "right")], axis=1)
    place = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    place += np.where(place >= np.repeat(own[:, 0], counts), np.repeat(own[:, 1] - own[:, 0], counts), 0)
    repeated = np.repeat(np.arange(len(i)), counts)
    return Triplets(i[repeated].astype(np.int32), targets[i, slot][repeated], order[place].astype(np.int32))
