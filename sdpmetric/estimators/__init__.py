"""Estimators of scikit-learn's kind, thin over the statements and solvers; import them from here.

Each is loaded when it is first used, with what it is about.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sdpmetric.estimators.adapter import Adapter
    from sdpmetric.estimators.closed import LFDA, RCA, Covariance
    from sdpmetric.estimators.energy import EnergyClassifier
    from sdpmetric.estimators.large_margin import LMNN, KernelLMNN, MultiMetricLMNN
    from sdpmetric.estimators.rankings import FRML
    from sdpmetric.estimators.soft_neighbors import MLKR, NCA
    from sdpmetric.estimators.streams import LEGO, POLA
    from sdpmetric.estimators.sums import ITML, LSML, MMC, SCML, SDML
    from sdpmetric.estimators.tuples import PairClassifier, QuadrupletClassifier, TripletClassifier

__all__ = [
    "FRML",
    "ITML",
    "LEGO",
    "LFDA",
    "LMNN",
    "LSML",
    "MLKR",
    "MMC",
    "NCA",
    "POLA",
    "RCA",
    "SCML",
    "SDML",
    "Adapter",
    "Covariance",
    "EnergyClassifier",
    "KernelLMNN",
    "MultiMetricLMNN",
    "PairClassifier",
    "QuadrupletClassifier",
    "TripletClassifier",
]

_HOMES = {
    "adapter": "Adapter",
    "closed": "LFDA, RCA, Covariance",
    "energy": "EnergyClassifier",
    "large_margin": "LMNN, KernelLMNN, MultiMetricLMNN",
    "rankings": "FRML",
    "soft_neighbors": "MLKR, NCA",
    "streams": "LEGO, POLA",
    "sums": "ITML, LSML, MMC, SCML, SDML",
    "tuples": "PairClassifier, QuadrupletClassifier, TripletClassifier",
}


def __getattr__(name: str) -> object:
    for module, names in _HOMES.items():
        if name in names.split(", "):
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
