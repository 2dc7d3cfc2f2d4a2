"""Terms that statements are sums of; each file is one term. See ``docs/terms.md``."""

from sdpmetric.terms.base import Loss, Regularizer, Sum, Term
from sdpmetric.terms.budget import Budget
from sdpmetric.terms.collapse import Collapse
from sdpmetric.terms.distance_bounds import DistanceBounds
from sdpmetric.terms.distance_targets import DistanceTargets
from sdpmetric.terms.frobenius import Frobenius
from sdpmetric.terms.log_det import LogDet
from sdpmetric.terms.margins import MarginLoss
from sdpmetric.terms.off_diagonal import OffDiagonal
from sdpmetric.terms.pair_hinge import PairHinge
from sdpmetric.terms.pair_softmax import PairSoftmax
from sdpmetric.terms.pull import Pull
from sdpmetric.terms.quadruplet_hinge import QuadrupletHinge
from sdpmetric.terms.repulsion import Repulsion
from sdpmetric.terms.spread import Spread
from sdpmetric.terms.trace import Trace
from sdpmetric.terms.triplet_hinge import TripletHinge

__all__ = [
    "Budget",
    "Collapse",
    "DistanceBounds",
    "DistanceTargets",
    "Frobenius",
    "LogDet",
    "Loss",
    "MarginLoss",
    "OffDiagonal",
    "PairHinge",
    "PairSoftmax",
    "Pull",
    "QuadrupletHinge",
    "Regularizer",
    "Repulsion",
    "Spread",
    "Sum",
    "Term",
    "Trace",
    "TripletHinge",
]
