"""The threshold on distances below which pairs are called similar, chosen on labelled pairs."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sdpmetric.core import validation

FloatArray = NDArray[np.float64]
Strategy = Literal["accuracy", "f_beta", "max_tpr", "max_tnr"]


def best_threshold(
    distances: FloatArray,
    similar: NDArray[np.bool_],
    strategy: Strategy = "accuracy",
    min_rate: float | None = None,
    beta: float = 1.0,
) -> float:
    """The threshold that serves labelled pairs best; pairs at most so far apart are called similar.

    Half way between two distances, of equally good ones the smallest. Errors are those of
    `PairClassifier.calibrate_threshold`.
    """
    if strategy not in get_args(Strategy):
        known = ", ".join(repr(name) for name in get_args(Strategy))
        raise ValueError(f"strategy must be one of {known}, got {strategy!r}.")
    if strategy == "f_beta":
        validation.check_number("beta", beta, 0.0)
    if strategy in ("max_tpr", "max_tnr"):
        validation.check_number("min_rate", np.nan if min_rate is None else min_rate, 0.0, 1.0)
    if not len(distances):
        raise ValueError("there are no pairs to choose a threshold by; pass at least one.")
    positive, negative = int(similar.sum()), int((~similar).sum())
    if strategy != "accuracy" and not (positive and negative):
        kind = "similar" if positive == 0 else "dissimilar"
        raise ValueError(f"strategy={strategy!r} needs pairs of both kinds, and none is {kind}; use 'accuracy'.")
    order = np.argsort(distances, kind="stable")
    ordered = distances[order]
    # cut c calls the first c pairs similar; equal distances are on one side
    cuts = np.concatenate([[0], 1 + np.flatnonzero(np.diff(ordered) > 0), [len(ordered)]])
    tp = np.concatenate([[0], np.cumsum(similar[order])])[cuts]
    tn = negative - (cuts - tp)
    if strategy == "accuracy":
        quality = (tp + tn).astype(np.float64)
    elif strategy == "f_beta":
        weighted = (1.0 + beta**2) * tp
        total = weighted + beta**2 * (positive - tp) + (negative - tn)
        quality = np.divide(weighted, total, out=np.zeros(len(cuts)), where=total > 0)
    else:
        rates = (tp / positive, tn / negative)
        wanted, other = rates if strategy == "max_tpr" else rates[::-1]
        # of equally good cuts, the one with the better other rate
        quality = np.where(other >= float(min_rate or 0.0), wanted + 1e-12 * other, -1.0)
    return _between(ordered, int(cuts[int(np.argmax(quality))]))


def _between(ordered: FloatArray, cut: int) -> float:
    """A number that is above exactly the first `cut` of the ordered distances, or equal to the last of them."""
    if cut == len(ordered):
        return float(ordered[-1])
    below = float(ordered[cut - 1]) if cut else (0.0 if ordered[0] > 0.0 else -1.0)
    half = below + (float(ordered[cut]) - below) / 2.0
    return half if half < ordered[cut] else below
