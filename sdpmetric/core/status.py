"""How a solve ended, in CVXPY's words if it has one, each with advice."""

from __future__ import annotations

import sys
import warnings
from enum import Enum

# Packages between the line of a user and that of a warning: NumPy decorates functions.
BETWEEN = ("sdpmetric", "sklearn", "joblib", "numpy")


class Status(Enum):
    """How a solve ended; every member carries advice."""

    OPTIMAL = ("optimal", "The requested relative gap is proven, at the rigor of the certificate.")
    OPTIMAL_INACCURATE = (
        "optimal_inaccurate",
        "The solver stopped by its own criterion at a gap of at most ten times the requested tolerance: "
        "ask for a larger tol, or pass another solver= by name.",
    )
    STALLED = (
        "stalled",
        "The solver could not close the gap, which says how far at most the point is from the optimum: "
        "scale the features, for example by StandardScaler, choose weights nearer to 1, or pass solver= by name.",
    )
    USER_LIMIT = (
        "user_limit",
        "The limit on time or iterations, or memory, came first; this is the best point so far, or the start: raise "
        "max_time or max_iter, or ask for a larger tol; if memory was too small, try another solver.",
    )
    INFEASIBLE = (
        "infeasible",
        "No point satisfies all constraints: certificate.contradiction lists some that contradict each other; "
        "correct or drop them, or use a soft margin.",
    )
    INTERRUPTED = ("interrupted", "The solve was interrupted; this is the best point so far.")
    STATIONARY = ("stationary", "A stationary point of a non-convex problem; nothing proves that it is a minimum.")
    STREAM_ENDED = (
        "stream_ended",
        "Every item of the stream was taken; the certificate is of its regret, not of optimality.",
    )
    STOPPED_EARLY = (
        "stopped_early",
        "The score on the validation examples stopped rising; this is the point with the best score.",
    )
    NUMERICAL_ERROR = (
        "numerical_error",
        "The iterates stopped being finite numbers; this is the last point of finite numbers: "
        "check the data for extreme values, or standardize the features.",
    )
    SOLVER_ERROR = ("solver_error", "The convex solver gave no answer: try another one, or loosen its tolerances.")

    def __init__(self, word: str, advice: str) -> None:
        self.word = word
        self.advice = advice

    def __str__(self) -> str:
        return self.word

    @property
    def ok(self) -> bool:
        """Whether the certificate closes the gap that was asked for, at its own grade of rigor."""
        return self is Status.OPTIMAL

    @property
    def expected(self) -> bool:
        """Whether the solve ended as requested: with a closed gap, or in a way that has none."""
        return self in (Status.OPTIMAL, Status.STATIONARY, Status.STREAM_ENDED, Status.STOPPED_EARLY)


def warn(words: str, category: type[Warning]) -> None:
    """Warn at the line of the user: the first outside of this package and of those that call it, or that it calls."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).split(".")[0] in BETWEEN:
        frame, level = frame.f_back, level + 1
    warnings.warn(words, category, stacklevel=level)


class UselessOptimumWarning(UserWarning):
    """The optimum fits the training data but is likely to overfit; the warning says why, and what to do."""
