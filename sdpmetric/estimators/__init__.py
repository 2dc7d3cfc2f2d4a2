"""Estimators of scikit-learn's kind, thin over the statements and solvers; import them from here."""

from sdpmetric.estimators.energy import EnergyClassifier
from sdpmetric.estimators.frml import FRML
from sdpmetric.estimators.kernel_lmnn import KernelLMNN
from sdpmetric.estimators.lego import LEGO
from sdpmetric.estimators.lfda import LFDA
from sdpmetric.estimators.lmnn import LMNN
from sdpmetric.estimators.mcml import MCML
from sdpmetric.estimators.mlkr import MLKR
from sdpmetric.estimators.mlr import MLR
from sdpmetric.estimators.multi_metric import MultiMetricLMNN
from sdpmetric.estimators.nca import NCA
from sdpmetric.estimators.pair_classifier import PairClassifier
from sdpmetric.estimators.pairs import ITML, MMC
from sdpmetric.estimators.pola import POLA
from sdpmetric.estimators.rca import RCA
from sdpmetric.estimators.sums import LSML, SCML, SDML
from sdpmetric.estimators.tuples import QuadrupletClassifier, TripletClassifier

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
    "PairClassifier",
    "QuadrupletClassifier",
    "TripletClassifier",
]
