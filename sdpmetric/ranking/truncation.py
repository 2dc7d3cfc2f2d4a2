"""Losses of ranks, and their expectation under the truncated sampling of FRML."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
RankLoss = Literal["warp", "auc"]


def rank_weights(loss: RankLoss, n: int) -> FloatArray:
    """The loss of ranks 0 to n: ``L(k) = 1 + 1/2 + .. + 1/k`` for "warp", ``L(k) = k`` for "auc"."""
    ranks = np.arange(1.0, n + 1)
    return np.concatenate([[0.0], np.cumsum(1.0 / ranks) if loss == "warp" else ranks])


def _first_violator(
    n_irrelevant: int, gamma: float, violators: NDArray[np.integer]
) -> tuple[NDArray[np.int64], FloatArray]:
    """Draw numbers 1 to m, and the probability that the first violator is met at each: (m,) and (len, m) arrays."""
    draws = np.arange(1, max(1, int(n_irrelevant / gamma)) + 1, dtype=np.int64)
    p = np.asarray(violators, dtype=np.float64)[:, None] / n_irrelevant
    return draws, p * (1.0 - p) ** (draws - 1)


def expected_weights(loss: RankLoss, n_irrelevant: int, gamma: float = 1.0) -> FloatArray:
    """The expected weight of the sampled hinge for every number of violators (Lim and Lanckriet 2014, section 2.2).

    With v violators among n irrelevant items, WARP with draws up to ``m = n / gamma`` (at least one) weighs by::

        E(v) = sum_{N=1}^{m}  v/n (1 - v/n)^{N-1}  L(floor(n / N))

    and AUC, which draws once, by ``v / n * L(n) = v``. The sampled gradient has the mean ``E(v)`` times the mean
    gradient of the v violated hinges.
    """
    weights = rank_weights(loss, n_irrelevant)
    if loss == "auc":
        return weights
    expected = np.empty(n_irrelevant + 1)
    height = max(1, (1 << 21) // n_irrelevant)
    for first in range(0, n_irrelevant + 1, height):
        violators = np.arange(first, min(first + height, n_irrelevant + 1))
        draws, probabilities = _first_violator(n_irrelevant, gamma, violators)
        expected[violators] = probabilities @ weights[n_irrelevant // draws]
    return expected


def expected_rank(n_irrelevant: int, violators: int, gamma: float = 1.0) -> float:
    """The mean of the rank estimate ``floor(n / N)`` where a violator is met: biased upwards for small ranks."""
    draws, probabilities = _first_violator(n_irrelevant, gamma, np.array([violators]))
    return float(probabilities[0] @ (n_irrelevant // draws))
