"""Losses of single numbers, each once: value, slope, conjugate, both rounded outwards, and CVXPY form."""

from sdpmetric.losses.scalar import (
    CHECKED,
    LOSSES,
    Absolute,
    Expression,
    HalfSquare,
    Hard,
    Hinge,
    Linear,
    Logistic,
    LogRatio,
    NegativeRoot,
    ScalarLoss,
    SmoothHinge,
    SquaredHinge,
    Weighted,
    find_loss,
)

__all__ = [
    "CHECKED",
    "LOSSES",
    "Absolute",
    "Expression",
    "HalfSquare",
    "Hard",
    "Hinge",
    "Linear",
    "LogRatio",
    "Logistic",
    "NegativeRoot",
    "ScalarLoss",
    "SmoothHinge",
    "SquaredHinge",
    "Weighted",
    "find_loss",
]
