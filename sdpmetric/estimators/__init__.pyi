"""The public estimators, each with the module that defines it."""

from .adapter import Adapter as Adapter
from .closed import LFDA as LFDA
from .closed import RCA as RCA
from .closed import Covariance as Covariance
from .energy import EnergyClassifier as EnergyClassifier
from .large_margin import LMNN as LMNN
from .large_margin import KernelLMNN as KernelLMNN
from .large_margin import MultiMetricLMNN as MultiMetricLMNN
from .rankings import FRML as FRML
from .soft_neighbors import MLKR as MLKR
from .soft_neighbors import NCA as NCA
from .streams import LEGO as LEGO
from .streams import POLA as POLA
from .sums import ITML as ITML
from .sums import LSML as LSML
from .sums import MMC as MMC
from .sums import SCML as SCML
from .sums import SDML as SDML
from .tuples import PairClassifier as PairClassifier
from .tuples import QuadrupletClassifier as QuadrupletClassifier
from .tuples import TripletClassifier as TripletClassifier
