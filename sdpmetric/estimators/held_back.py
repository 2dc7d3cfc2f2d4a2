"""What early stopping holds back from a fit, and how metrics are scored on it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from sdpmetric.core import validation
from sdpmetric.estimators.data import Data, Labels
from sdpmetric.linalg.distances import distances

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.int64]
# The two pairs of examples that pairs, triplets and quadruplets compare.
ENDS = {2: [(0, 1)], 3: [(0, 1), (0, 2)], 4: [(0, 1), (2, 3)]}


@dataclass(frozen=True)
class Examples:
    """The examples of a fit, divided into training and validation examples.

    Attributes
    ----------
    X : (n, d) array, or (n, n) kernel matrix
    y : (n,) array
    rows : (m,) integer array
        Training examples.
    validation : (h,) integer array
        Validation examples, for early stopping.
    pairwise : bool
        Whether X is a kernel matrix.
    """

    X: Data
    y: Labels
    rows: IndexArray
    validation: IndexArray
    pairwise: bool = False

    @property
    def learned(self) -> tuple[Data, Labels]:
        """Training examples and their labels."""
        return self._part(self.rows)

    @property
    def held_back(self) -> tuple[Data, Labels]:
        """Validation examples and their labels."""
        return self._part(self.validation)

    def _part(self, rows: IndexArray) -> tuple[Data, Labels]:
        if len(rows) == len(self.y):
            return self.X, self.y
        X: Data = self.X[rows]
        return (np.ascontiguousarray(X[:, self.rows]) if self.pairwise else X), self.y[rows]


def divide(n: int, share: float, seed: int, groups: Labels | None = None) -> tuple[IndexArray, IndexArray]:
    """Rows to learn from, and rows to hold back, both in order.

    Parameters
    ----------
    n : int
    share : float
        Of all rows, held back.
    seed : int
    groups : (n,) array, optional
        Each is held back in that share; the only member of one is learned from.

    Raises
    ------
    ValueError
        If the share is not between 0 and 1, or leaves a group, or either part, without rows.
    """
    if not 0.0 < validation.check_number("validation_fraction", share, 0.0, 1.0) < 1.0:
        raise ValueError(f"validation_fraction must lie between 0 and 1, for example 0.3, got {share!r}.")
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
    """Squared distances of the one pair of pairs, and of the two that triplets and quadruplets compare.

    Parameters
    ----------
    Z : (n, r) array
        The embedded examples.
    tuples : (t, 2), (t, 3) or (t, 4) integer array
    """
    points = np.ascontiguousarray(Z, dtype=np.float64)
    return tuple(
        distances(points, *(tuples[:, end].astype(np.int32) for end in ends)) for ends in ENDS[tuples.shape[1]]
    )


def tuple_score(Z: FloatArray, tuples: NDArray[np.integer], similar: NDArray[np.bool_] | None) -> float:
    """How well distances agree with tuples: the area under the ROC curve of pairs, else the share in order.

    Parameters
    ----------
    Z : (n, r) array
        The embedded examples.
    tuples : (t, 2), (t, 3) or (t, 4) integer array
    similar : (t,) bool array or None
        Of pairs.
    """
    apart = tuple_distances(Z, tuples)
    if similar is None:
        return float(np.mean(apart[0] < apart[1]))
    return float(roc_auc_score(similar, -apart[0])) if 0 < similar.sum() < len(similar) else 0.5
