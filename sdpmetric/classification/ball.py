"""Distances and neighbors under every metric of a ball, rounded outward: what `near_optimal` rests on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sdpmetric.arrays import BoolArray, FloatArray, LongArray
from sdpmetric.classification.nearest import majority, nearest_neighbors
from sdpmetric.core import validation
from sdpmetric.linalg.distances import distances
from sdpmetric.linalg.rigorous.directed import U, gamma, norm_above, norms_above

MAX_CANDIDATES = 128  # queries with more possible neighbors are open
BLOCK_SIZE = 1 << 22  # distances of queries to examples in memory at once
FLOOR = 2.0**-400  # more than underflow takes from a product where data and images are at most about 1


@dataclass(frozen=True, eq=False)
class Space:
    """Examples and their images in units, powers of 2, in which they are at most about 1, and their errors."""

    raw: FloatArray  # (n, d)
    raw_errors: FloatArray  # at least the distance of each to the exact one, (n,)
    points: FloatArray  # (n, r)
    image_errors: FloatArray
    power: int  # distances are 2 to this power as large
    radius: float  # of the ball of metrics

    @classmethod
    def of(cls, components: FloatArray, radius: float, X: ArrayLike) -> Self:
        """From a factor of floats, a radius in its units, and examples."""
        data = np.asarray(validation.check_data(X), dtype=np.float64)
        L = validation.check_factors(components, data.shape[1])[0]
        small, flat = (math.frexp(float(np.abs(A).max(initial=0.0)))[1] for A in (data, L))
        data, L = np.ldexp(data, -small), np.ldexp(L, -flat)
        raw = data - data.mean(axis=0)
        lengths = norms_above(raw) * (1.0 + 8.0 * U)
        image_errors = gamma(L.shape[1] + 8) * norm_above(L) * lengths * (1.0 + 8.0 * U)
        with np.errstate(over="ignore", under="ignore"):
            scaled = float(np.nextafter(np.ldexp(radius, -2 * flat), np.inf))
        points = np.ascontiguousarray(raw @ L.T)
        return cls(raw, U * lengths + FLOOR, points, image_errors + FLOOR, 2 * (small + flat), scaled)

    def squared_distances(
        self, first: LongArray, second: LongArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Bounds on exact squared distances, of images and of examples, (p,) each."""
        pairs = ((self.points, self.image_errors), (self.raw, self.raw_errors))
        return *_bounds(*pairs[0], first, second), *_bounds(*pairs[1], first, second)

    def intervals(self, queries: LongArray, examples: LongArray) -> tuple[FloatArray, FloatArray]:
        """Bounds on squared distances under all metrics of the ball of the query, (p,) each."""
        low, high, _, longest = self.squared_distances(queries, examples)
        slack = self.radius * longest * (1.0 + 4.0 * U)
        return np.maximum(0.0, low - slack * (1.0 + 4.0 * U) - 4.0 * U * low), (high + slack) * (1.0 + 4.0 * U)

    def nearer(self, queries: LongArray, first: LongArray, second: LongArray) -> BoolArray:
        """Where one example is nearer than another under every metric of the ball, (t,).

        With ``B = u u^T - v v^T`` for the differences u and v, ``<B, M>`` varies by ``radius ||B||_F``, and
        ``||B||^2 = (|u + v|^2 |u - v|^2 + (|u|^2 - |v|^2)^2) / 2``: less than the two intervals do.
        """
        low, _, second_shortest, second_longest = self.squared_distances(queries, second)
        _, high, first_shortest, first_longest = self.squared_distances(queries, first)
        between, total = _bounds(self.raw, self.raw_errors, first, second), second_longest + first_longest
        plus = np.maximum(0.0, 2.0 * total - between[0]) + 16.0 * U * total
        change = np.maximum(second_longest - first_shortest, first_longest - second_shortest) + 4.0 * U * total
        size = np.sqrt(0.5 * (plus * between[1] + change * change)) * (1.0 + 16.0 * U) + FLOOR
        slack = self.radius * size
        return low - high - slack > 16.0 * U * (low + high + slack) + FLOOR


@dataclass(frozen=True, eq=False)
class Neighbors:
    """The nearest examples of queries, and what is certain about them under every metric of a ball."""

    nearest: LongArray  # row numbers of examples, (m, k)
    certain: BoolArray  # which of them are among the k nearest under every metric
    ordered: BoolArray  # whether they are the k nearest in this order under every metric, (m,)
    crowded: BoolArray  # queries about which nothing is certain
    queries: LongArray  # of every example that may be among the k nearest under a metric, (c,)
    possible: LongArray  # and its row number

    @classmethod
    def of(cls, components: FloatArray, radius: float, X_train: ArrayLike, X: ArrayLike | None, k: int) -> Self:
        """For queries X, or for each example by all others."""
        nearest = nearest_neighbors(components, X_train, X, k)[1]
        n, m = len(np.asarray(X_train)), len(nearest)
        rows = X_train if X is None else np.concatenate([np.asarray(X_train), np.asarray(X)])
        space, shift = Space.of(components, radius, rows), 0 if X is None else n
        # Whoever the k examples are: what is surely farther than all of them is not among the nearest.
        repeated_queries = np.repeat(np.arange(m), k) + shift
        farthest = space.intervals(repeated_queries, nearest.ravel())[1].reshape(m, k).max(axis=1)
        q, l, crowded = _candidates(space, np.arange(m) + shift, n, farthest)
        keep = (l != q) & (space.intervals(q, l)[0] <= farthest[q - shift])
        q, l = q[keep] - shift, l[keep]
        # Queries with more possible neighbors are compared by intervals only.
        compared = ~crowded & (np.bincount(q, minlength=m) <= 16 + 4 * k)
        i, differs = nearest[q], nearest[q] != l[:, None]
        comparable = np.nonzero(differs & compared[q, None])
        nearer = np.zeros(differs.shape, dtype=bool)
        nearer[comparable] = space.nearer(q[comparable[0]] + shift, i[comparable], l[comparable[0]])
        rivals = np.stack([np.bincount(q, differs[:, t] & ~nearer[:, t], m) for t in range(k)], axis=1)
        member = (l[:, None] == i).any(axis=1)
        inside = np.bincount(q, nearer.sum(axis=1) * member, m)
        certain, possible = (rivals <= k - 1) & compared[:, None], nearer.sum(axis=1) <= k - 1
        ordered = certain.all(axis=1) & (inside == k * (k - 1) // 2)
        return cls(nearest, certain, ordered, crowded, q[possible], l[possible])

    def labels(self, y: ArrayLike) -> tuple[NDArray[np.generic], BoolArray]:
        """The labels by majority, and which of them are the same under every metric."""
        k = self.nearest.shape[1]
        classes, codes = validation.check_labels(y, len(np.asarray(y)), n_classes=1)
        votes, c = codes[self.nearest], len(classes)
        winner = majority(votes, c)
        rows = np.arange(len(votes))
        sure, maybe = np.zeros((len(votes), c)), np.zeros((len(votes), c))
        np.add.at(sure, (rows[:, None], votes), self.certain)
        np.add.at(maybe, (self.queries, codes[self.possible]), 1.0)
        own_sure, own_maybe = sure[rows, winner], maybe[rows, winner]
        winner_votes = np.maximum(own_sure, k - (maybe.sum(axis=1) - own_maybe))
        rival_votes = np.minimum(maybe, k - (sure.sum(axis=1, keepdims=True) - sure))
        rival_votes[rows, winner] = -1.0
        return classes[winner], self.ordered | (~self.crowded & (winner_votes > rival_votes.max(axis=1)))


def _bounds(P: FloatArray, errors: FloatArray, first: LongArray, second: LongArray) -> tuple[FloatArray, FloatArray]:
    """Bounds on the squared distances of exact points near those of floats."""
    root, g = np.sqrt(distances(P, first, second)), gamma(P.shape[1] + 8)
    error = (errors[first] + errors[second]) * (1.0 + U)
    smallest, largest = np.maximum(0.0, root * (1.0 - g) - error), root * (1.0 + g) + error
    return smallest**2 * (1.0 - 4.0 * U), largest**2 * (1.0 + 4.0 * U)


def _candidates(
    space: Space, queries: LongArray, n: int, farthest: FloatArray
) -> tuple[LongArray, LongArray, BoolArray]:
    """Queries with every example whose least distance may be at most a limit, and queries with too many of them."""
    P, C = space.points, space.raw
    sizes, longs = np.einsum("ij,ij->i", P, P), np.einsum("ij,ij->i", C, C)
    maxima = np.sqrt(sizes), np.sqrt(longs), space.image_errors, space.raw_errors
    top = [float(values.max(initial=0.0)) for values in maxima]
    g = gamma(P.shape[1] + C.shape[1] + 16)
    radius = min(space.radius, 2.0**200)
    rounding = 32.0 * g * (top[0] ** 2 + radius * top[1] ** 2) + FLOOR
    rounding += 16.0 * (top[0] * top[2] + radius * top[1] * top[3])
    limit, crude = farthest - sizes[queries] + rounding, 4.1 * radius * top[1] ** 2
    if (crude <= 0.02 * farthest).all():  # the product is narrower without the examples themselves
        limit += crude
        query_rows, example_columns = P[queries], np.concatenate([-2.0 * P[:n].T, sizes[None, :n]])
    else:
        limit += radius * longs[queries]
        query_rows = np.concatenate([P[queries], radius * C[queries], np.full((len(queries), 1), radius)], axis=1)
        example_columns = np.concatenate([-2.0 * P[:n].T, 2.0 * C[:n].T, -longs[None, :n], sizes[None, :n]])
    query_rows = np.concatenate([query_rows, np.ones((len(query_rows), 1))], axis=1)
    flat_indices, step, crowded = [], max(1, BLOCK_SIZE // n), np.zeros(len(queries), dtype=bool)
    for start in range(0, len(queries), step):
        rows = slice(start, start + step)
        possible = query_rows[rows] @ example_columns <= limit[rows, None]
        crowded[rows] = np.count_nonzero(possible, axis=1) > MAX_CANDIDATES
        possible[crowded[rows]] = False
        flat_indices.append(np.flatnonzero(possible) + start * n)
    q, l = np.divmod(np.concatenate(flat_indices), n)
    return queries[q], l, crowded
