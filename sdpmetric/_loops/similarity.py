"""Compiled loops of LORETA and OASIS: bilinear similarities learned from triplets that are drawn or given."""

from __future__ import annotations

import numba as nb
import numpy as np
from numpy.typing import NDArray

from sdpmetric._loops import FAST
from sdpmetric._loops.frml import (
    ITEMS,
    MISTAKES,
    REFRESH,
    SHORTENED,
    UPDATES,
    draw_irrelevant,
    draw_relevant,
    refresh_gram,
    retract,
    uniform,
)  # fmt: skip
from sdpmetric.arrays import FloatArray, IndexArray, LongArray


@nb.njit(cache=True)
def draw_triplet(
    state: NDArray[np.uint64],
    asked: IndexArray,
    which: IndexArray,
    indptr: LongArray,
    indices: IndexArray,
    self_at: LongArray,
    n_items: int,
) -> tuple[int, int, int]:
    """A query, a relevant and an irrelevant item of it, each uniformly; see `sdpmetric._loops.frml`."""
    q = asked[uniform(state, len(asked))]
    members = indices[indptr[which[q]] : indptr[which[q] + 1]]
    return q, draw_relevant(state, members, self_at[q]), draw_irrelevant(state, members, n_items)


@nb.njit(cache=True, fastmath=FAST)
def _embed(components: FloatArray, v: FloatArray, e: FloatArray) -> None:
    for i in range(len(components)):
        s = 0.0
        for k in range(len(v)):
            s += components[i, k] * v[k]
        e[i] = s


@nb.njit(cache=True)
def loreta_step(
    components: FloatArray,
    gram: FloatArray,
    query: FloatArray,
    difference: FloatArray,
    step: float,
    reach: float,
    totals: LongArray,
) -> float:
    """One step of LORETA on PSD matrices of fixed rank; the loss ``[1 - q^T W u]_+`` before it, u the difference.

    The symmetric part of ``q u^T`` is ``(p p^T - m m^T) / 4`` with ``p = q + u`` and ``m = q - u``: two steps of rank
    one, one after the other.
    """
    d, r = len(query), len(components)
    v, e, c = np.empty((1, d)), np.empty((1, r)), np.empty(1)
    left, right = np.empty(r), np.empty(r)
    _embed(components, query, left)
    _embed(components, difference, right)
    score = 0.0
    for k in range(r):
        score += left[k] * right[k]
    if not score < 1.0:
        return 0.0
    totals[UPDATES] += 1
    if not score > 0.0:
        totals[MISTAKES] += 1
    for sign in (1.0, -1.0):
        for k in range(d):
            v[0, k] = query[k] + sign * difference[k]
        _embed(components, v[0], e[0])
        c[0] = 0.25 * sign * step
        if retract(components, gram, v, e, c, reach) < 1.0:
            totals[SHORTENED] += 1
    if totals[UPDATES] % REFRESH == 0:
        refresh_gram(components, gram)
    return 1.0 - score


@nb.njit(cache=True)
def loreta(
    components: FloatArray,
    gram: FloatArray,
    queries: FloatArray,
    items: FloatArray,
    asked: IndexArray,
    which: IndexArray,
    indptr: LongArray,
    indices: IndexArray,
    self_at: LongArray,
    steps: FloatArray,
    reach: float,
    state: NDArray[np.uint64],
    totals: LongArray,
) -> float:
    """One step of LORETA on a drawn triplet for every entry of `steps`; the sum of the losses."""
    loss = 0.0
    for step in steps:
        q, near, far = draw_triplet(state, asked, which, indptr, indices, self_at, len(items))
        loss += loreta_step(components, gram, queries[q], items[near] - items[far], step, reach, totals)
        totals[ITEMS] += 1
    return loss


@nb.njit(cache=True, fastmath=FAST)
def oasis_step(
    similarity: FloatArray, query: FloatArray, difference: FloatArray, aggressiveness: float, totals: LongArray
) -> float:
    """One passive-aggressive step; the loss ``[1 - q^T W u]_+`` before it, u the difference of the items.

    ``W += tau q u^T`` with ``tau = min(aggressiveness, loss / (||q||^2 ||u||^2))``.
    """
    d = len(query)
    score = left = right = 0.0
    for i in range(d):
        s = 0.0
        for j in range(d):
            s += similarity[i, j] * difference[j]
        score += query[i] * s
        left += query[i] ** 2
        right += difference[i] ** 2
    size = left * right
    if not score < 1.0:
        return 0.0
    loss = 1.0 - score
    if not score > 0.0:
        totals[MISTAKES] += 1
    if size > 0.0:
        totals[UPDATES] += 1
        tau = min(aggressiveness, loss / size)
        for i in range(d):
            scaled = tau * query[i]
            for j in range(d):
                similarity[i, j] += scaled * difference[j]
    return loss


@nb.njit(cache=True)
def oasis(
    similarity: FloatArray,
    queries: FloatArray,
    items: FloatArray,
    asked: IndexArray,
    which: IndexArray,
    indptr: LongArray,
    indices: IndexArray,
    self_at: LongArray,
    aggressiveness: float,
    n_triplets: int,
    state: NDArray[np.uint64],
    totals: LongArray,
) -> float:
    """OASIS on drawn triplets; the sum of the losses."""
    loss = 0.0
    for _ in range(n_triplets):
        q, near, far = draw_triplet(state, asked, which, indptr, indices, self_at, len(items))
        loss += oasis_step(similarity, queries[q], items[near] - items[far], aggressiveness, totals)
        totals[ITEMS] += 1
    return loss
