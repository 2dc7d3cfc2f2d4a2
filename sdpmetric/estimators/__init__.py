"""Estimators of scikit-learn's kind, thin over the statements and solvers; import them from here."""

from sdpmetric.estimators.closed import LFDA, RCA
from sdpmetric.estimators.energy import EnergyClassifier
from sdpmetric.estimators.large_margin import LMNN, KernelLMNN, MultiMetricLMNN
from sdpmetric.estimators.ordinal import OrdinalEmbedding
from sdpmetric.estimators.rankings import FRML, MLR
from sdpmetric.estimators.soft_neighbors import MLKR, NCA
from sdpmetric.estimators.streams import LEGO, POLA
from sdpmetric.estimators.sums import ITML, LSML, MCML, MMC, SCML, SDML
from sdpmetric.estimators.tuples import PairClassifier, QuadrupletClassifier, TripletClassifier

__all__ = [
    "FRML",
    "ITML",
    "LEGO",
    "LFDA",
    "LMNN",
    "LSML",
    "MCML",
    "MLKR",
    "MLR",
    "MMC",
    "NCA",
    "POLA",
    "RCA",
    "SCML",
    "SDML",
    "EnergyClassifier",
    "KernelLMNN",
    "MultiMetricLMNN",
    "OrdinalEmbedding",
    "PairClassifier",
    "QuadrupletClassifier",
    "TripletClassifier",
]
