"""Proofs that the optimum of a sum of terms is at most 0, so small gaps need not be relative to it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sdpmetric.linalg import psd
from sdpmetric.linalg.rigorous.directed import U, above, norm_above
from sdpmetric.linalg.rigorous.forms import Form
from sdpmetric.linalg.spans import separated
from sdpmetric.sums.bound_terms import BoundTerms
from sdpmetric.sums.domains import Domain

# Where the optimum is at most 0, gaps of this share of what the lightest constraint costs, missed by its margin, count
# as closed.
RESOLUTION = 1e-9


def resolution(X: NDArray[np.floating], total: BoundTerms, domain: Domain) -> float:
    """See `sdpmetric.DualityCertificate`; 0 where the optimum is not proven to be at most 0.

    That is shown at the zero metric; at the metric that the only regularizer is a distance from; or along a direction
    in which no pulled pair differs.
    """
    is_free = total.upper_bound(X, np.zeros((0, X.shape[1]))) <= 0.0
    if not is_free and domain.is_full_cone:
        is_free = _free_at_target(X, total) if total.regularizers else _free_in_null_directions(X, total)
    return RESOLUTION * smallest_cost(total) if is_free else 0.0


def smallest_cost(total: BoundTerms) -> float:
    """What the lightest summand costs where it is missed by its margin; 0 where nothing sets a scale."""
    distances, traces = [loss.distance_scale for loss in total.losses], list[float]()
    for target in (regularizer.zero for regularizer in total.regularizers):
        if target is not None and target.any():
            lengths = total.distances(psd.factor(target))
            distances.append(float(lengths[lengths > 0.0].min(initial=np.inf)))
            traces.append(float(np.trace(target)))
    if min([*distances, *traces], default=np.inf) == np.inf:
        return 0.0
    distance, squared_range = min(1.0, *distances), float(np.sum(np.ptp(total.centered, axis=0) ** 2))
    trace = min(1.0, *traces, distance / squared_range if squared_range else 1.0)
    return min(term.smallest_cost(distance, trace) for term in total.terms)


def _free_at_target(X: NDArray[np.floating], total: BoundTerms) -> bool:
    """Whether everything but the one regularizer costs nothing at its target.

    With ``R = M0 - L^T L``, ``(I + Y)^(1/2) L`` is a factor of M0 where ``|Y| <= |R| / sigma^2``, sigma being the
    smallest singular value of L.
    """
    target = total.regularizers[0].zero
    if len(total.regularizers) != 1 or target is None:
        return False
    losses = replace(total, terms=tuple(term for term in total.terms if not term.regularizers))
    values, vectors = np.linalg.eigh(target)
    L = (vectors * np.sqrt(np.maximum(values, 0.0))).T
    gram = Form.congruent(np.eye(len(L)), L)
    residual = above(norm_above(gram.matrix - target) + gram.error + U * norm_above(target), 4)
    relative = above(residual / gram.smallest_eigenvalue, 2) if gram.smallest_eigenvalue > 0.0 else math.inf
    if not relative < 0.5:
        return False
    errors = np.full(L.shape, above(relative * norm_above(L), 2))
    return not losses.terms or losses.upper_bound(X, L, errors) <= 0.0


def _free_in_null_directions(X: NDArray[np.floating], total: BoundTerms) -> bool:
    """Whether distances in directions in which no pulled pair differs reduce all losses to 0."""
    if total.ridge or total.depends_on_entries:
        return False
    pulled = [loss.pulled_pairs() for loss in total.losses]
    pairs = np.concatenate([total.costs[0][total.costs[1] != 0.0], *pulled])
    groups = separated(X, pairs[:, 0], pairs[:, 1])
    return all(loss.vanishes(groups) for loss in total.losses)
