"""What early stopping holds back from a fit, and how metrics are scored on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from sdpmetric.classification.nearest import knn_predict
from sdpmetric.core import validation
from sdpmetric.core.pairs import check_similar
from sdpmetric.core.problem import Problem
from sdpmetric.core.run import Score
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
    X : (n, d) array
    y : (n,) array
    rows : (m,) integer array
        Training examples.
    validation : (h,) integer array
        Validation examples, for early stopping.
    """

    X: Data
    y: Labels
    rows: IndexArray
    validation: IndexArray

    @property
    def learned(self) -> tuple[Data, Labels]:
        """Training examples and their labels."""
        return (self.X[self.rows], self.y[self.rows]) if len(self.validation) else (self.X, self.y)

    @property
    def held_back(self) -> tuple[Data, Labels]:
        """Validation examples and their labels."""
        return self.X[self.validation], self.y[self.validation]


class HoldsBack:
    """What estimators with and without early stopping do alike: divide what they learn from, and score metrics."""

    early_stopping: bool = False  # of those without
    validation_fraction: float
    n_iter_no_change: int
    validation_score_: float

    def _seed(self) -> int:
        """A seed from ``random_state``."""
        raise NotImplementedError

    def _stops_early(self) -> bool:
        return bool(self.early_stopping)

    def _divided(self, n: int, groups: Labels | None) -> tuple[IndexArray, IndexArray]:
        """Rows to learn from, and rows that early stopping holds back."""
        if not self._stops_early():
            return np.arange(n), np.arange(0)
        validation.check_integer("n_iter_no_change", self.n_iter_no_change)
        return divide(n, self.validation_fraction, self._seed(), groups)

    def _examples(self, X: Data, y: Labels) -> Examples:
        """The examples, some of each class held back where the solve is to stop early."""
        return Examples(X, y, *self._divided(len(y), y))

    def _measure(self, problem: Problem, examples: Examples) -> Score | None:
        """What scores components on the examples held back; None without any."""
        return partial(self._score, problem, examples) if self._stops_early() else None

    def _score(self, problem: Problem, examples: Examples, components: FloatArray) -> float:
        X, y = examples.held_back
        return float(np.mean(self._predict(problem, components, examples.learned[1], X) == y))

    def _predict(self, problem: Problem, components: FloatArray, y: Labels, X: Data) -> Labels:
        """Labels of further examples by their nearest neighbors among the examples of the problem."""
        return knn_predict(components, problem.X, y, X, min(getattr(self, "n_neighbors", 3), len(y)))

    def _stated_and_measured(
        self, state: Callable[..., Problem], tuples: ArrayLike, about: tuple[ArrayLike | None, ...]
    ) -> tuple[Problem, Score | None]:
        """The problem ``state(tuples, *about)``, and what scores components on the tuples held back."""
        problem = state(tuples, *about)
        if not self._stops_early():
            return problem, None
        rows = np.asarray(tuples)
        similar = check_similar(about[0], len(rows)) if rows.shape[1] == 2 and about[0] is not None else None
        learned, held = self._divided(len(rows), similar)
        problem = state(rows[learned], *(None if one is None else np.asarray(one)[learned] for one in about))
        return problem, partial(tuple_score, problem.X, rows[held], None if similar is None else similar[held])


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


def tuple_score(
    X: Data, tuples: NDArray[np.integer], similar: NDArray[np.bool_] | None, components: FloatArray
) -> float:
    """How well distances agree with tuples: the area under the ROC curve of pairs, else the share in order.

    Parameters
    ----------
    X : (n, d) array
    tuples : (t, 2), (t, 3) or (t, 4) integer array
    similar : (t,) bool array or None
        Of pairs.
    components : (r, d) array
    """
    apart = tuple_distances(X @ components.T, tuples)
    if similar is None:
        return float(np.mean(apart[0] < apart[1]))
    return float(roc_auc_score(similar, -apart[0])) if 0 < similar.sum() < len(similar) else 0.5
