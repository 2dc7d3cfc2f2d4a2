"""What early stopping holds back from a fit, and how metrics are scored on it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from sdpmetric.arrays import FloatArray
from sdpmetric.estimators.data import Data, Labels
from sdpmetric.linalg.distances import distances

IndexArray = NDArray[np.int64]
# The two pairs of examples that pairs, triplets and quadruplets compare.
ENDS = {2: [(0, 1)], 3: [(0, 1), (0, 2)], 4: [(0, 1), (2, 3)]}


def divide(n: int, share: float, seed: int, groups: Labels | None = None) -> tuple[IndexArray, IndexArray]:
    """Rows to learn from, and a share of each group to hold back, both in order; one member alone is learned from."""
    rows = np.arange(n)
    classes, index, counts = np.unique(
        np.zeros(n) if groups is None else groups, return_inverse=True, return_counts=True
    )
    others = rows[counts[index] > 1]
    try:
        _, held = train_test_split(
            others, test_size=float(share), random_state=seed, stratify=None if groups is None else index[others]
        )
    except ValueError as error:
        what = f"{n} examples of {len(classes)} classes" if groups is not None else f"{n} items"
        raise ValueError(
            f"validation_fraction={share!r} of {what} leaves classes without examples to learn from or to hold back "
            f"({error}); choose another share, or more examples."
        ) from error
    held = np.sort(held)
    return np.setdiff1d(rows, held), held


def tuple_distances(Z: FloatArray, tuples: NDArray[np.integer]) -> tuple[FloatArray, ...]:
    """Squared distances of the one pair of pairs, and of the two that triplets and quadruplets compare."""
    points = np.ascontiguousarray(Z, dtype=np.float64)
    return tuple(
        distances(points, *(tuples[:, end].astype(np.int32) for end in ends)) for ends in ENDS[tuples.shape[1]]
    )


def tuple_score(
    X: Data, tuples: NDArray[np.integer], similar: NDArray[np.bool_] | None, components: FloatArray
) -> float:
    """How well distances agree with tuples: the area under the ROC curve of pairs, else the share in order."""
    apart = tuple_distances(X @ components.T, tuples)
    if similar is None:
        return float(np.mean(apart[0] < apart[1]))
    return float(roc_auc_score(similar, -apart[0])) if 0 < similar.sum() < len(similar) else 0.5
