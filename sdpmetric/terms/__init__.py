"""Terms that statements are sums of; each file is one term. See ``docs/terms.md``."""

from sdpmetric.terms.base import EntryLoss, Loss, PairCost, PairLoss, Regularizer, Sum, Term
from sdpmetric.terms.frobenius import Frobenius
from sdpmetric.terms.log_det import LogDet
from sdpmetric.terms.margins import MarginLoss
from sdpmetric.terms.pair_hinge import PairHinge
from sdpmetric.terms.pull import Pull
from sdpmetric.terms.trace import Trace
from sdpmetric.terms.triplet_hinge import TripletHinge

__all__ = [
    "EntryLoss",
    "Frobenius",
    "LogDet",
    "Loss",
    "MarginLoss",
    "PairCost",
    "PairHinge",
    "PairLoss",
    "Pull",
    "Regularizer",
    "Sum",
    "Term",
    "Trace",
    "TripletHinge",
]
