"""How well a model tells classes apart on labelled data, beside the prepared features without it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from sdpmetric.classification import knn_predict
from sdpmetric.core import validation
from sdpmetric.core.pairs import pairs_of_labels
from sdpmetric.linalg.distances import distances

FloatArray = NDArray[np.float64]
Labels = NDArray[np.generic]
# Pairs of each kind that are drawn at most.
N_PAIRS = 10_000


def scores(
    Z: FloatArray, y: Labels, n_neighbors: int, train: tuple[FloatArray, Labels] | None, seed: int
) -> tuple[int, float | None]:
    """Score an embedding."""
    identity = np.eye(Z.shape[1])
    predicted = knn_predict(identity, *((Z, y) if train is None else train), None if train is None else Z, n_neighbors)
    _, index = validation.check_labels(y, len(Z), n_classes=1)
    pairs, similar = pairs_of_labels(index, N_PAIRS, seed)
    squared = distances(np.ascontiguousarray(Z), pairs[:, 0], pairs[:, 1])
    both = bool(similar.any() and not similar.all())
    return int(np.count_nonzero(predicted == y)), float(roc_auc_score(~similar, squared)) if both else None
