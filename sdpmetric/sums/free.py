"""Proofs that the optimum of a sum of terms is at most 0, so small gaps need not be relative to it."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import singledispatch

import numpy as np
from numpy.typing import NDArray

from sdpmetric.linalg import psd
from sdpmetric.linalg.rigorous import Form, U, above, norm_above
from sdpmetric.linalg.spans import separated
from sdpmetric.sums.bound_terms import BoundTerms
from sdpmetric.sums.domains import Domain
from sdpmetric.sums.terms.base import Loss
from sdpmetric.sums.terms.margins import MarginLoss
from sdpmetric.sums.terms.softmax import Collapse, PairSoftmax

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.int32]

# Where the optimum is at most 0, gaps of this share of what the lightest constraint costs, missed by its margin, count
# as closed.
RESOLUTION = 1e-9


def resolution(X: NDArray[np.floating], total: BoundTerms, domain: Domain) -> float:
    """See `sdpmetric.DualityCertificate`; arguments as in `optimum_is_free`."""
    return RESOLUTION * smallest_cost(total) if optimum_is_free(X, total, domain) else 0.0


def smallest_cost(total: BoundTerms) -> float:
    """What the lightest part of a sum costs where it is missed by its margin; 0 where nothing sets a scale."""
    distances, traces = [np.inf], [np.inf]
    for loss in total.losses:
        if isinstance(loss, Collapse | PairSoftmax):
            distances.append(1.0)  # of which the exponentials are
        elif isinstance(loss, MarginLoss) and loss.offset.any():
            sizes = abs(loss.combination).max(axis=1).toarray().ravel()
            used = (loss.offset != 0.0) & (sizes > 0.0)
            distances.append(float((np.abs(loss.offset[used]) / sizes[used]).min(initial=np.inf)))
    for target in (regularizer.zero for regularizer in total.regularizers):
        if target is not None and target.any():
            lengths = total.distances(psd.factor(target))
            distances.append(float(lengths[lengths > 0.0].min(initial=np.inf)))
            traces.append(float(np.trace(target)))
    if min(distances) == min(traces) == np.inf:
        return 0.0
    distance, squared_range = min(1.0, *distances), float(np.sum(np.ptp(total.centered, axis=0) ** 2))
    trace = min(1.0, *traces, distance / squared_range if squared_range else 1.0)
    return min(term.smallest_cost(distance, trace) for term in total.terms)


def optimum_is_free(X: NDArray[np.floating], total: BoundTerms, domain: Domain) -> bool:
    """Whether the optimum is proven to be at most 0.

    At the zero metric; at the metric that the only regularizer is a distance from; or along a direction in which no
    pulled pair differs.
    """
    if total.upper_bound(X, np.zeros((0, X.shape[1]))) <= 0.0:
        return True
    if not domain.is_full_cone:
        return False
    return _free_at_target(X, total) if total.regularizers else _free_in_null_directions(X, total)


def _free_at_target(X: NDArray[np.floating], total: BoundTerms) -> bool:
    """Whether everything but the one regularizer costs nothing at its target."""
    target = total.regularizers[0].zero
    if len(total.regularizers) != 1 or target is None:
        return False
    rest = replace(total, terms=tuple(term for term in total.terms if not term.regularizers))
    values, vectors = np.linalg.eigh(target)
    L = (vectors * np.sqrt(np.maximum(values, 0.0))).T
    gram = Form.congruent(np.eye(len(L)), L)
    # With R = M0 - L'L, (I + Y)^(1/2) L is a factor of M0 where |Y| <= |R| / sigma^2, sigma the least singular value.
    off = above(norm_above(gram.matrix - target) + gram.error + U * norm_above(target), 4)
    share = above(off / gram.least, 2) if gram.least > 0.0 else math.inf
    if not share < 0.5:
        return False
    return not rest.terms or rest.upper_bound(X, L, np.full(L.shape, above(share * norm_above(L), 2))) <= 0.0


def _free_in_null_directions(X: NDArray[np.floating], total: BoundTerms) -> bool:
    """Whether distances in directions in which no pulled pair differs reduce all losses to 0."""
    if total.ridge or total.depends_on_entries:
        return False
    pulled = [_pulled(loss) for loss in total.losses]
    pairs = np.concatenate([total.costs[0][total.costs[1] != 0.0], *pulled])
    groups = separated(X, pairs[:, 0], pairs[:, 1])
    return all(_vanishes(loss, groups) for loss in total.losses)


@singledispatch
def _pulled(loss: Loss) -> IndexArray:
    """Pairs whose distances have to stay 0 for a loss to vanish, (p, 2)."""
    return np.zeros((0, 2), dtype=np.int32)


@singledispatch
def _vanishes(loss: Loss, groups: IndexArray) -> bool:
    """Whether a loss is 0 in the limit where pairs within groups have distances of 0, and others grow."""
    return False


@_pulled.register
def _(loss: MarginLoss) -> IndexArray:
    used = loss.combination.multiply(loss.item_weights[:, None] > 0.0)
    return loss.distance_pairs()[np.asarray((used > 0.0).sum(axis=0)).ravel() > 0]


@_vanishes.register
def _(loss: MarginLoss, groups: IndexArray) -> bool:
    nothing, (first, second) = np.zeros(loss.size), loss.distance_pairs().T
    if np.any(np.asarray(loss.scalar.lowest) != 0.0) or np.any(loss.scalar.conjugates(nothing) != 0.0):
        return False  # it does not fall to 0
    falls = (loss.combination < 0.0) @ (groups[first] != groups[second]).astype(np.float64) > 0.0
    stays = (loss.offset <= 0.0) & (loss.scalar.values_above(nothing) <= 0.0)
    return bool((falls | stays | (loss.item_weights == 0.0)).all())


@_pulled.register
def _(loss: Collapse) -> IndexArray:
    pairs, index = loss.distance_pairs(), np.asarray(loss.index, dtype=np.int32)
    return np.asarray(pairs[index[pairs[:, 0]] == index[pairs[:, 1]]])


@_vanishes.register
def _(loss: Collapse, groups: IndexArray) -> bool:
    pairs, index = loss.distance_pairs(), np.asarray(loss.index, dtype=np.int32)
    first, second = pairs[index[pairs[:, 0]] != index[pairs[:, 1]]].T
    return bool((groups[first] != groups[second]).all())
