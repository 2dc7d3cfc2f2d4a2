"""Terms that statements are sums of; see ``docs/terms.md``."""

from sdpmetric.sums.terms.base import Regularizer, Sum, Term
from sdpmetric.sums.terms.comparisons import QuadrupletHinge, TripletHinge
from sdpmetric.sums.terms.linear import Pull, Trace
from sdpmetric.sums.terms.log_det import LogDet
from sdpmetric.sums.terms.margins import MarginLoss, Rows
from sdpmetric.sums.terms.norms import Frobenius, OffDiagonal
from sdpmetric.sums.terms.pairs import Budget, DistanceBounds, DistanceTargets, PairHinge, Repulsion, Spread

__all__ = [
    "Budget",
    "DistanceBounds",
    "DistanceTargets",
    "Frobenius",
    "LogDet",
    "MarginLoss",
    "OffDiagonal",
    "PairHinge",
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
]
