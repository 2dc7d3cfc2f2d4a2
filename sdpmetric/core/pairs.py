"""Similar and dissimilar pairs, checked or made from labels, and target neighbors, the nearest pairs of one class."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist
from sklearn.neighbors import NearestNeighbors

from sdpmetric.arrays import BoolArray, FloatArray, IndexArray
from sdpmetric.core import validation
from sdpmetric.core.sample_weight import check_sample_weight
from sdpmetric.core.validation import unmasked
from sdpmetric.engine import threads
from sdpmetric.linalg.distances import distances

# Up to this number of examples, pairs are drawn from a list of all pairs.
MAX_LISTED = 2000


def check_labeled_pairs(pairs: ArrayLike, similar: ArrayLike, n: int) -> tuple[IndexArray, BoolArray]:
    """Return pairs of two different rows below n, none of them both similar and dissimilar."""
    rows = check_pairs(pairs, n)
    flags = check_similar(similar, len(rows))
    ordered = np.sort(rows, axis=1).astype(np.int64)
    keys = ordered[:, 0] * n + ordered[:, 1]
    is_checked = np.isin(keys, np.intersect1d(keys[flags], keys[~flags]))
    if is_checked.any():
        raise ValueError(
            f"pair {rows[is_checked][0].tolist()} is listed both as similar and as dissimilar "
            f"({len(np.unique(keys[is_checked]))} such pairs); keep one of the two."
        )
    return rows, flags


def check_targets(
    data: NDArray[np.floating], pairs: ArrayLike, targets: ArrayLike, sides: ArrayLike | None
) -> tuple[IndexArray, FloatArray, FloatArray]:
    """Return pairs of two different rows, the target of each squared distance, and the side on which it binds."""
    rows = check_pairs(pairs, len(data))
    values = validation.check_column("targets", targets, len(rows), "pair")
    if not (is_distance := np.isfinite(values) & (values >= 0)).all():
        raise ValueError(f"targets must be finite squared distances of at least 0, got {values[~is_distance][0]:g}.")
    marks = np.zeros(len(rows)) if sides is None else validation.check_column("sides", sides, len(rows), "pair")
    if not np.isin(marks, (-1, 0, 1)).all():
        raise ValueError("sides must be 1 (at most the target), -1 (at least the target) or 0 (the target itself).")
    must_differ = (values > 0) & (marks <= 0)
    same = np.zeros(len(rows), dtype=bool)
    same[must_differ] = (data[rows[must_differ, 0]] == data[rows[must_differ, 1]]).all(axis=1)
    if same.any():
        raise ValueError(
            f"pair {rows[same][0].tolist()} has two equal examples, whose distance is 0 under every metric and cannot "
            f"reach its target {values[same][0]:g} ({int(same.sum())} such pairs); leave it out."
        )
    return rows, values, marks


def pairs_of_labels(index: IndexArray, n_pairs: int | None, random_state: int | None) -> tuple[IndexArray, BoolArray]:
    """Return all pairs ``a < b`` of examples, similar if the labels agree, or a random sample of each kind."""
    if n_pairs is not None:
        validation.check_integer("n_pairs", n_pairs)
    rng = validation.generator(random_state, 0)
    if n_pairs is not None and len(index) > MAX_LISTED:
        return _drawn_pairs(index, n_pairs, rng)
    first, second = np.triu_indices(len(index), 1)
    similar = index[first] == index[second]
    chosen = np.arange(len(first))
    if n_pairs is not None:
        kinds = (np.flatnonzero(similar), np.flatnonzero(~similar))
        chosen = np.sort(np.concatenate([rng.permutation(kind)[:n_pairs] for kind in kinds]))
    pairs = np.stack([first[chosen], second[chosen]], axis=1).astype(np.int32)
    return pairs, similar[chosen]


def weighted_pairs_of_labels(
    y: ArrayLike, n: int, n_pairs: int | None, random_state: int | None, sample_weight: ArrayLike | None
) -> tuple[IndexArray, BoolArray, FloatArray | None]:
    """Return `pairs_of_labels` of examples of positive weight, and products of these weights, None without any."""
    _, index = validation.check_labels(y, n)
    weights = check_sample_weight(sample_weight, n)
    if weights is None:
        return *pairs_of_labels(index, n_pairs, random_state), None
    used = np.flatnonzero(weights).astype(np.int32)
    pairs, similar = pairs_of_labels(index[used], n_pairs, random_state)
    return used[pairs], similar, weights[used[pairs]].prod(axis=1)


def _drawn_pairs(index: IndexArray, n_pairs: int, rng: np.random.Generator) -> tuple[IndexArray, BoolArray]:
    """Draw pairs of each kind without listing all: anchors by their number of partners, then a partner."""
    n = len(index)
    order = np.argsort(index, kind="stable")  # each class is a contiguous range of this order
    _, starts, sizes = np.unique(index[order], return_index=True, return_counts=True)
    start, size = np.repeat(starts, sizes), np.repeat(sizes, sizes)
    keys = []
    for similar, partners in ((True, size - 1), (False, n - size)):
        wanted, kind = min(n_pairs, int(partners.sum()) // 2), np.zeros(0, dtype=np.int64)
        while len(kind) < wanted:
            group = rng.choice(n, 2 * (wanted - len(kind)), p=partners / partners.sum())
            second_group = rng.integers(0, partners[group])
            # Partners: the own class without the example itself, or all examples of other classes.
            if similar:
                second_group += start[group] + (second_group >= group - start[group])
            else:
                second_group += np.where(second_group >= start[group], size[group], 0)
            counts = np.sort(order[np.stack([group, second_group])], axis=0)
            kind = np.unique(np.concatenate([kind, counts[0] * n + counts[1]]))
        keys.append(rng.permutation(kind)[:wanted])
    chosen = np.sort(np.concatenate(keys))
    pairs = np.stack([chosen // n, chosen % n], axis=1).astype(np.int32)
    return pairs, index[pairs[:, 0]] == index[pairs[:, 1]]


def weight_of_slacks(
    X: NDArray[np.floating],
    pairs: IndexArray,
    similar: BoolArray,
    weights: FloatArray | None,
    largest: float,
    total: float,
) -> float:
    """Return `most`, or less: together the slacks of all pairs weigh `total` at most; weighted by their own weights.

    Similar pairs of equal examples cost nothing under any metric and do not count. So whole weights of examples, with
    products as the pairs' weights, act like repeated rows.
    """
    costs = ~similar | (X[pairs[:, 0]] != X[pairs[:, 1]]).any(axis=1)
    size = float(np.count_nonzero(costs)) if weights is None else math.fsum(weights[costs])
    return min(largest, total / size) if size > 0.0 else largest


def check_pairs(pairs: ArrayLike, n: int, *, distinct: bool = True, required: bool = False) -> IndexArray:
    """Return pairs of rows below n, (p, 2), by default of different rows; at least one pair if `required`."""
    rows = validation.check_rows("pairs", pairs, n, ("p", 2), distinct=distinct)
    if required and len(rows) == 0:
        raise ValueError("pairs is empty; pass at least one pair of row numbers of X.")
    return rows


def check_similar(similar: ArrayLike, n_pairs: int) -> BoolArray:
    """Return flags of pairs, bool or +1 and -1, as bool; (p,)."""
    flags = np.asarray(unmasked("similar", similar))
    if flags.shape != (n_pairs,):
        raise ValueError(f"similar must have shape ({n_pairs},), one flag for each pair, got {flags.shape}.")
    if flags.dtype.kind == "b":
        return flags.copy()
    if flags.dtype.kind not in "iuf" or not np.isin(flags, (-1, 1)).all():
        raise ValueError(
            "similar must be bool, or +1 for similar and -1 for dissimilar pairs; similarities in between are target "
            "distances: LEGO.fit_targets, or terms.DistanceTargets in a sum."
        )
    return np.asarray(flags > 0)


def contradiction_loss(pairs: IndexArray, similar: BoolArray) -> float:
    """Return a lower bound on the squared hinges of every fixed metric and threshold, from pairs with both labels.

    Where a pair is listed m times as similar and n times as dissimilar, the squared hinges add up to
    ``m [1 - z]_+^2 + n [1 + z]_+^2`` with ``z = b - v^T A v``, which is ``4 m n / (m + n)`` at least.
    """
    names, index = np.unique(np.sort(pairs, axis=1), axis=0, return_inverse=True)
    m, n = (np.bincount(index.ravel()[similar == kind], minlength=len(names)) for kind in (True, False))
    return float(np.sum(4.0 * m * n / np.maximum(m + n, 1)))


def drawn_chunks(index: IndexArray, n_chunks: int, chunk_size: int, random_state: int | None) -> NDArray[np.int64]:
    """Draw chunklets of `chunk_size` members of one class; return the number of each example's, or -1 for none."""
    validation.check_integer("n_chunks", n_chunks)
    validation.check_integer("chunk_size", chunk_size, 2)
    rng = validation.generator(random_state, 0)
    groups = [np.zeros((0, chunk_size), dtype=np.intp)]
    for c in range(int(index.max()) + 1):
        members = rng.permutation(np.flatnonzero(index == c))
        groups.append(members[: len(members) // chunk_size * chunk_size].reshape(-1, chunk_size))
    possible = np.concatenate(groups)
    if n_chunks > len(possible):
        raise ValueError(
            f"the classes have {len(possible)} chunklets of {chunk_size} examples, and n_chunks={n_chunks}; ask for "
            "fewer or smaller ones."
        )
    chunks = np.full(len(index), -1, dtype=np.int64)
    chunks[rng.permutation(possible)[:n_chunks]] = np.arange(n_chunks)[:, None]
    return chunks


# Relative precision up to which squared distances of target neighbors count as tied.
TIE_TOLERANCE = 1e-9
# Most rows of a class for which all distances take less time than a search structure.
DENSE_ROWS = 200


def target_neighbors(X: FloatArray, y: NDArray[np.generic], n_neighbors: int) -> IndexArray:
    """Return the nearest neighbors of every example within its class, itself left out, padded with -1.

    Distances that agree to a relative 1e-9 count as tied, so the choice does not depend on rounding; ties go to
    the lowest index. The optimum of LMNN depends on this rule if features are integers.
    """
    classes, sizes = np.unique(y, return_counts=True)
    targets = np.full((len(X), min(n_neighbors, int(sizes.max()) - 1)), -1, dtype=np.int32)

    def search(c: int) -> None:
        members = np.flatnonzero(y == classes[c])
        if k := min(n_neighbors, len(members) - 1):
            with threads.without_openmp():
                targets[members, :k] = members[_nearest_others(X[members], k)]

    work = float(np.sum(sizes.astype(np.float64) ** 2)) * X.shape[1]
    with threads.one_pool():
        threads.run(search, len(classes), threads.part_count(work, threads.PRODUCT_WORK))
    return targets


def _nearest_others(P: FloatArray, k: int) -> NDArray[np.int64]:
    """Return the k nearest other rows of each row of P under the tie rule."""
    n = len(P)
    if n <= DENSE_ROWS:
        return _nearest_of_all(P, np.arange(n), k)
    n_candidates = min(n, k + 5)
    candidates = np.sort(NearestNeighbors(n_neighbors=n_candidates).fit(P).kneighbors(P, return_distance=False), axis=1)
    distance = distances(P, np.repeat(np.arange(n), n_candidates), candidates.ravel()).reshape(candidates.shape)
    distance[candidates == np.arange(n)[:, None]] = np.inf
    result = _pick(candidates, distance, k)
    # A row is settled if everything that was not listed is strictly farther than the ties of its k-th neighbor.
    kth = np.sort(distance, axis=1)[:, k - 1]
    finite = np.where(np.isfinite(distance), distance, -np.inf)
    noise = 1e-12 * np.einsum("ij,ij->i", P, P).max()
    unsettled = np.flatnonzero(finite.max(axis=1) <= kth * (1 + 2 * TIE_TOLERANCE) + noise)
    for start in range(0, len(unsettled), DENSE_ROWS):
        rows = unsettled[start : start + DENSE_ROWS]
        result[rows] = _nearest_of_all(P, rows, k)
    return result


def _nearest_of_all(P: FloatArray, rows: NDArray[np.integer], k: int) -> NDArray[np.int64]:
    """Return the k nearest other rows of some rows of P, from their distances to all."""
    D = cdist(P[rows], P, "sqeuclidean")
    D[np.arange(len(rows)), rows] = np.inf
    return _pick(np.broadcast_to(np.arange(len(P)), D.shape), D, k)


def _pick(index: NDArray[np.integer], distance: FloatArray, k: int) -> NDArray[np.int64]:
    """Pick from candidates sorted by index: those clearly nearer than the k-th, then its ties by lowest index."""
    kth = np.partition(distance, k - 1, axis=1)[:, k - 1 : k]
    is_nearer, is_near = distance < kth * (1 - TIE_TOLERANCE), distance <= kth * (1 + TIE_TOLERANCE)
    # Bytes are sorted by counting them.
    chosen = np.argsort(np.int8(2) - is_nearer - is_near, axis=1, kind="stable")[:, :k]
    order = np.argsort(np.take_along_axis(distance, chosen, axis=1), axis=1, kind="stable")
    return np.take_along_axis(index, np.take_along_axis(chosen, order, axis=1), axis=1).astype(np.int64)
