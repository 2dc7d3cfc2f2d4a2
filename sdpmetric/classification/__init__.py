"""Classification under learned metrics: nearest neighbors, energies, and thresholds on distances with a guarantee."""

from sdpmetric.classification.energy import energies, energy_predict
from sdpmetric.classification.guarantees import (
    GuaranteedThreshold,
    binomial_interval,
    disjoint_pairs,
    guaranteed_threshold,
)
from sdpmetric.classification.nearest import knn_predict, nearest_neighbors

__all__ = [
    "GuaranteedThreshold",
    "binomial_interval",
    "disjoint_pairs",
    "energies",
    "energy_predict",
    "guaranteed_threshold",
    "knn_predict",
    "nearest_neighbors",
]
