"""Classification under learned metrics: nearest neighbors and energies."""

from sdpmetric.classification.energy import energies, energy_predict
from sdpmetric.classification.nearest import knn_predict, nearest_neighbors

__all__ = [
    "energies",
    "energy_predict",
    "knn_predict",
    "nearest_neighbors",
]
