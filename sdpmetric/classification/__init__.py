"""Classification under learned metrics: nearest neighbors, energies, and thresholds on distances with a guarantee."""

from sdpmetric.classification.energy import energies, energy_predict
from sdpmetric.classification.guarantees import GuaranteedThreshold, guaranteed_threshold
from sdpmetric.classification.nearest import knn_predict, nearest_neighbors

__all__ = [
    "GuaranteedThreshold",
    "energies",
    "energy_predict",
    "guaranteed_threshold",
    "knn_predict",
    "nearest_neighbors",
]
