"""Estimators of scikit-learn's kind, thin over the statements and solvers; import them from here.

Each is loaded when it is first used, with what it is about.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sdpmetric.estimators.adapter import Adapter as Adapter
    from sdpmetric.estimators.closed import LFDA as LFDA
    from sdpmetric.estimators.closed import RCA as RCA
    from sdpmetric.estimators.closed import Covariance as Covariance
    from sdpmetric.estimators.energy import EnergyClassifier as EnergyClassifier
    from sdpmetric.estimators.large_margin import LMNN as LMNN
    from sdpmetric.estimators.large_margin import KernelLMNN as KernelLMNN
    from sdpmetric.estimators.large_margin import MultiMetricLMNN as MultiMetricLMNN
    from sdpmetric.estimators.rankings import FRML as FRML
    from sdpmetric.estimators.soft_neighbors import MLKR as MLKR
    from sdpmetric.estimators.soft_neighbors import NCA as NCA
    from sdpmetric.estimators.streams import LEGO as LEGO
    from sdpmetric.estimators.streams import POLA as POLA
    from sdpmetric.estimators.sums import ITML as ITML
    from sdpmetric.estimators.sums import LSML as LSML
    from sdpmetric.estimators.sums import MMC as MMC
    from sdpmetric.estimators.sums import SCML as SCML
    from sdpmetric.estimators.sums import SDML as SDML
    from sdpmetric.estimators.tuples import PairClassifier as PairClassifier
    from sdpmetric.estimators.tuples import QuadrupletClassifier as QuadrupletClassifier
    from sdpmetric.estimators.tuples import TripletClassifier as TripletClassifier

HOMES = {
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
HOME_OF = {name: home for home, names in HOMES.items() for name in names.split(", ")}
__all__ = sorted(HOME_OF)


def __getattr__(name: str) -> object:
    if name not in HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
