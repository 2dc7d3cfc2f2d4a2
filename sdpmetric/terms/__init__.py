"""Terms that statements are sums of; see ``docs/terms.md``."""

from sdpmetric.terms.base import Loss, Regularizer, Sum, Term
from sdpmetric.terms.comparisons import QuadrupletHinge, TripletHinge, odd_one_out, ranked
from sdpmetric.terms.frobenius import Frobenius
from sdpmetric.terms.linear import Pull, Trace
from sdpmetric.terms.log_det import LogDet
from sdpmetric.terms.margins import MarginLoss, Rows
from sdpmetric.terms.off_diagonal import OffDiagonal
from sdpmetric.terms.pairs import Budget, DistanceBounds, DistanceTargets, PairHinge, Repulsion, Spread
from sdpmetric.terms.softmax import Collapse, PairSoftmax

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
    "Rows",
    "Spread",
    "Sum",
    "Term",
    "Trace",
    "TripletHinge",
    "odd_one_out",
    "ranked",
]
