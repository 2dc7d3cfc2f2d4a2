"""Who is compared with whom: target neighbors, triplets, and the candidates among them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from sklearn.neighbors import NearestNeighbors

from sdpmetric.kernels import triplets as kernels
from sdpmetric.search import search_tiles, search_trees

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.int32]
SearchMethod = Literal["auto", "brute", "ball_tree"]

# Target neighbors whose squared distances agree to this relative precision count as tied.
TIE_TOLERANCE = 1e-9
# Up to this dimension a ball tree per class is the faster search (examples/benchmarks/impostor_search.py).
TREE_DIMENSION = 4


@dataclass(frozen=True, eq=False, repr=False)
class Triplets:
    """A list of (anchor, target neighbor, impostor) triplets, as three index arrays of one length.

    Attributes
    ----------
    anchors, targets, impostors : (t,) int32 arrays
        Row indices into the data.
    """

    anchors: IndexArray
    targets: IndexArray
    impostors: IndexArray

    def __len__(self) -> int:
        return len(self.anchors)

    def __getitem__(self, which: NDArray[np.bool_] | NDArray[np.integer]) -> Triplets:
        return Triplets(self.anchors[which], self.targets[which], self.impostors[which])

    @classmethod
    def from_array(cls, array: NDArray[np.integer]) -> Triplets:
        """Read a (t, 3) integer array whose columns are anchor, target and impostor."""
        columns = np.asarray(array).reshape(-1, 3).astype(np.int32)
        return cls(*(np.ascontiguousarray(columns[:, c]) for c in range(3)))

    def to_array(self) -> IndexArray:
        """Return the (t, 3) array whose columns are anchor, target and impostor."""
        return np.stack([self.anchors, self.targets, self.impostors], axis=1)

    def keys(self, n: int) -> NDArray[np.void] | NDArray[np.int64]:
        """One sortable key per triplet, distinct for distinct triplets of row indices below n."""
        if n < 2_000_000:  # n ** 3 fits in 63 bits
            return (self.anchors.astype(np.int64) * n + self.targets) * n + self.impostors
        fields = np.ascontiguousarray(self.to_array())
        return fields.view([("anchor", np.int32), ("target", np.int32), ("impostor", np.int32)]).ravel()


@dataclass(frozen=True, eq=False, repr=False)
class Candidates:
    """Triplets in compressed rows: one impostor pair serves every target neighbor of its row.

    Attributes
    ----------
    anchors : (m,) int32 array
        The anchor of each row; an anchor may own several rows.
    targets : (m, K) int32 array
        Target neighbors of each row, padded at the end with -1.
    indptr : (m + 1,) int64 array
        Row r owns ``impostors[indptr[r]:indptr[r + 1]]``.
    impostors : (nnz,) int32 array
        Possible impostors.
    weights : (nnz,) float64 array or None
        Weight of the triplets of each pair; None means 1.
    """

    anchors: IndexArray
    targets: IndexArray
    indptr: NDArray[np.int64]
    impostors: IndexArray
    weights: FloatArray | None = None

    @property
    def rows(self) -> NDArray[np.int64]:
        """Row of each candidate pair, (nnz,)."""
        return np.repeat(np.arange(len(self.anchors)), np.diff(self.indptr))

    def bounds(self, n_threads: int) -> NDArray[np.int64]:
        """Split the rows into `n_threads` runs of about equal work."""
        work = self.indptr + np.arange(len(self.indptr)) * self.targets.shape[1]
        cuts = np.searchsorted(work, np.linspace(0, work[-1], n_threads + 1)[1:-1])
        return np.concatenate([[0], cuts, [len(self.anchors)]]).astype(np.int64)

    def select(self, keep: NDArray[np.bool_]) -> Candidates:
        """Keep the candidate pairs where `keep`, (nnz,), is true; rows stay."""
        counts = np.concatenate([[0], np.cumsum(keep)])
        weights = None if self.weights is None else self.weights[keep]
        return Candidates(self.anchors, self.targets, counts[self.indptr], self.impostors[keep], weights)

    def triplets(self, values: FloatArray) -> tuple[Triplets, FloatArray]:
        """List the triplets with a nonzero entry in `values`, (nnz, K), and those entries."""
        pair, slot = np.nonzero(values)
        row = self.rows[pair]
        triplets = Triplets(self.anchors[row], self.targets[row, slot], self.impostors[pair])
        return triplets, values[pair, slot]

    @classmethod
    def concatenate(cls, parts: list[Candidates]) -> Candidates:
        """Stack the rows of several candidate sets; those that have the same rows are put together row by row."""
        if len(parts) > 1 and all(part.anchors is parts[0].anchors for part in parts):
            rows = np.concatenate([part.rows for part in parts])
            order = np.argsort(rows, kind="stable")
            impostors = np.concatenate([part.impostors for part in parts])[order]
            return cls(parts[0].anchors, parts[0].targets, np.sum([part.indptr for part in parts], axis=0), impostors)
        counts = np.concatenate([np.diff(part.indptr) for part in parts])
        weights = [part.weights for part in parts if part.weights is not None]
        return cls(
            np.concatenate([part.anchors for part in parts]),
            np.concatenate([part.targets for part in parts]),
            np.concatenate([[0], np.cumsum(counts)]),
            np.concatenate([part.impostors for part in parts]),
            np.concatenate(weights) if weights else None,
        )


def target_neighbors(X: FloatArray, y: NDArray[np.integer], n_neighbors: int) -> IndexArray:
    """Nearest neighbors of every example within its class, itself left out.

    Distances that agree to a relative 1e-9 count as tied, so that the choice does not depend on rounding; ties go to
    the lowest index. The optimum of LMNN depends on this rule where features are integers.

    Parameters
    ----------
    X : (n, d) array
    y : (n,) integer array
        Every class must have more than `n_neighbors` members.
    n_neighbors : int

    Returns
    -------
    targets : (n, n_neighbors) int32 array
        Each row nearest first.
    """
    targets = np.empty((len(X), n_neighbors), dtype=np.int32)
    for label in np.unique(y):
        members = np.flatnonzero(y == label)
        targets[members] = members[_nearest_others(X[members], n_neighbors)]
    return targets


def _nearest_others(P: FloatArray, k: int) -> NDArray[np.int64]:
    """The k nearest other rows of each row of P under the tie rule."""
    n = len(P)
    found = min(n, k + 5)
    near = np.sort(NearestNeighbors(n_neighbors=found).fit(P).kneighbors(P, return_distance=False), axis=1)
    distance = _row_distances(P, np.arange(n), near)
    distance[near == np.arange(n)[:, None]] = np.inf
    if found < n:
        # A row is settled if everything that was not listed is strictly farther than the ties of its k-th neighbor.
        kth = np.sort(distance, axis=1)[:, k - 1]
        finite = np.where(np.isfinite(distance), distance, -np.inf)
        noise = 1e-12 * np.einsum("ij,ij->i", P, P).max()
        unsettled = np.flatnonzero(finite.max(axis=1) <= kth * (1 + 2 * TIE_TOLERANCE) + noise)
    else:
        unsettled = np.zeros(0, dtype=np.int64)
    result = _pick(near, distance, k)
    for start in range(0, len(unsettled), 256):
        rows = unsettled[start : start + 256]
        full = cdist(P[rows], P, "sqeuclidean")
        full[np.arange(len(rows)), rows] = np.inf
        result[rows] = _pick(np.broadcast_to(np.arange(n), full.shape), full, k)
    return result


def _row_distances(P: FloatArray, rows: NDArray[np.integer], columns: NDArray[np.integer]) -> FloatArray:
    first = np.repeat(rows, columns.shape[1]).astype(np.int32)
    out = np.empty(first.size)
    kernels.pair_distances(P, first, columns.ravel().astype(np.int32), out)
    return out.reshape(columns.shape)


def _pick(index: NDArray[np.integer], distance: FloatArray, k: int) -> NDArray[np.int64]:
    """From rows of candidates sorted by index: those clearly nearer than the k-th, then its ties by lowest index."""
    kth = np.partition(distance, k - 1, axis=1)[:, k - 1 : k]
    rank = np.where(distance < kth * (1 - TIE_TOLERANCE), 0, np.where(distance <= kth * (1 + TIE_TOLERANCE), 1, 2))
    chosen = np.argsort(rank, axis=1, kind="stable")[:, :k]
    order = np.argsort(np.take_along_axis(distance, chosen, axis=1), axis=1, kind="stable")
    return np.take_along_axis(index.astype(np.int64), np.take_along_axis(chosen, order, axis=1), axis=1)


class TripletSource(Protocol):
    """A set of triplets that can be searched, however it is stored."""

    @property
    def size(self) -> int:
        """Number of triplets in all."""

    @property
    def total_weight(self) -> float:
        """Sum of the weights of all triplets."""

    def target_pairs(self) -> tuple[IndexArray, IndexArray]:
        """The (anchor, target) pairs, each once."""

    def weights_of(self, triplets: Triplets) -> FloatArray:
        """Weight of each triplet, (t,); 0 for those that are not in the set."""

    def arrays(self) -> tuple[NDArray[np.generic], ...]:
        """The arrays that define the set."""

    def sample(self, size: int, rng: np.random.Generator) -> tuple[Triplets, float]:
        """Draw about `size` triplets uniformly; also their share of all."""

    def near(
        self,
        Z: NDArray[np.floating],
        strata: IndexArray,
        *,
        widen: float = 0.0,
        among: IndexArray | None = None,
        method: SearchMethod = "auto",
    ) -> Iterator[Candidates]:
        """Yield, block by block, all candidates that can violate their margin.

        Parameters
        ----------
        Z : (n, r) array
            Embedded points: squared Euclidean distances are the metric's.
        strata : (n,) int32 array
            Only impostors in the anchor's stratum are listed.
        widen : float, default 0
            List impostors up to ``(1 + max_j D_ij) * (1 + widen)``.
        among : (m,) int32 array, optional
            Only rows of these anchors.
        method : {"auto", "brute", "ball_tree"}
            How to search.
        """


@dataclass(frozen=True, eq=False, repr=False)
class LabeledTriplets:
    """All triplets (i, j, l) with j a target neighbor of i and l of another class than i.

    Attributes
    ----------
    targets : (n, K) int32 array
        Padded at the end with -1.
    labels : (n,) int32 array
    """

    targets: IndexArray
    labels: IndexArray

    @property
    def size(self) -> int:
        """Number of triplets in all."""
        counts = np.bincount(self.labels)
        others = len(self.labels) - counts[self.labels]
        return int(np.sum((self.targets >= 0).sum(axis=1) * others))

    @property
    def total_weight(self) -> float:
        """Sum of the weights of all triplets: their number."""
        return float(self.size)

    def target_pairs(self) -> tuple[IndexArray, IndexArray]:
        """The (anchor, target) pairs, each once."""
        anchors, slots = np.nonzero(self.targets >= 0)
        return anchors.astype(np.int32), self.targets[anchors, slots]

    def weights_of(self, triplets: Triplets) -> FloatArray:
        """Weight of each triplet: 1, or 0 for those that are not in the set."""
        member = (self.targets[triplets.anchors] == triplets.targets[:, None]).any(axis=1)
        other = self.labels[triplets.anchors] != self.labels[triplets.impostors]
        return np.asarray(member & other, dtype=np.float64)

    def arrays(self) -> tuple[NDArray[np.generic], ...]:
        """The arrays that define the set."""
        return self.targets, self.labels

    def sample(self, size: int, rng: np.random.Generator) -> tuple[Triplets, float]:
        """Draw `size` triplets or a few fewer uniformly, with repetition; also their share of all."""
        anchors, targets = self.target_pairs()
        pair, impostors = rng.integers(len(anchors), size=size), rng.integers(len(self.labels), size=size)
        valid = self.labels[anchors[pair]] != self.labels[impostors]
        drawn = Triplets(anchors[pair], targets[pair], impostors.astype(np.int32))[valid]
        return drawn, len(drawn) / max(self.size, 1)

    def near(
        self,
        Z: NDArray[np.floating],
        strata: IndexArray,
        *,
        widen: float = 0.0,
        among: IndexArray | None = None,
        method: SearchMethod = "auto",
    ) -> Iterator[Candidates]:
        """Search exhaustively; see `TripletSource.near`."""
        anchors = self.anchors(among)
        limits = (1.0 + furthest_target(Z, anchors, self.targets[anchors])) * (1.0 + widen)
        yield from self.within(Z, strata, anchors, limits, method=method)

    def anchors(self, among: IndexArray | None = None) -> IndexArray:
        """The examples that have target neighbors, in order; those of `among` where it is given."""
        anchors = np.arange(len(self.labels), dtype=np.int32) if among is None else among
        return anchors[(self.targets[anchors] >= 0).any(axis=1)]

    def within(
        self,
        Z: NDArray[np.floating],
        strata: IndexArray,
        anchors: IndexArray,
        limits: FloatArray,
        *,
        columns: IndexArray | None = None,
        method: SearchMethod = "auto",
    ) -> Iterator[Candidates]:
        """Yield the impostors within given limits.

        Parameters
        ----------
        Z, strata, method
            As in `near`.
        anchors : (m,) int32 array
            From `anchors`.
        limits : (m,) array
            Squared distances.
        columns : (p,) int32 array, optional
            Possible impostors, in order; default: all examples.
        """
        columns = np.arange(len(Z), dtype=np.int32) if columns is None else columns
        if not len(anchors) or not len(columns):
            return
        if method == "auto":
            method = "ball_tree" if 0 < Z.shape[1] <= TREE_DIMENSION else "brute"
        # The zero metric embeds into no dimension at all, which trees refuse.
        search = search_trees if method == "ball_tree" and Z.shape[1] > 0 else search_tiles
        for own, indptr, impostors in search(Z, self.labels, strata, anchors, limits, columns):
            yield Candidates(own, self.targets[own], indptr, impostors)


@dataclass(frozen=True, eq=False, repr=False)
class ListedTriplets:
    """An explicit list of triplets with weights, grouped by target pair.

    Attributes
    ----------
    candidates : Candidates
        One row per (anchor, target) pair, K = 1, with weights; rows sorted.
    """

    candidates: Candidates

    @classmethod
    def from_triplets(cls, triplets: Triplets, weights: FloatArray) -> ListedTriplets:
        """Group triplets by target pair; weights of repeated triplets add up."""
        order = np.lexsort((triplets.impostors, triplets.targets, triplets.anchors))
        array, weights = triplets.to_array()[order], weights[order]
        new = np.ones(len(array), dtype=bool)
        new[1:] = (array[1:] != array[:-1]).any(axis=1)
        sums = np.add.reduceat(weights, np.flatnonzero(new)) if len(array) else weights
        array = array[new]
        head = np.ones(len(array), dtype=bool)
        head[1:] = (array[1:, :2] != array[:-1, :2]).any(axis=1)
        starts = np.flatnonzero(head)
        columns = np.ascontiguousarray(array.T)
        return cls(
            Candidates(
                columns[0][starts],
                np.ascontiguousarray(columns[1][starts][:, None]),
                np.concatenate([starts, [len(array)]]).astype(np.int64),
                columns[2],
                sums,
            )
        )

    @property
    def size(self) -> int:
        """Number of distinct triplets."""
        return len(self.candidates.impostors)

    @property
    def total_weight(self) -> float:
        """Sum of the weights of all triplets."""
        weights = self.candidates.weights
        return float(weights.sum()) if weights is not None else 0.0

    def target_pairs(self) -> tuple[IndexArray, IndexArray]:
        """The (anchor, target) pairs, each once."""
        return self.candidates.anchors, self.candidates.targets[:, 0]

    def weights_of(self, triplets: Triplets) -> FloatArray:
        """Weight of each triplet, (t,); 0 for those that are not in the set."""
        C, weights = self.candidates, np.zeros(len(triplets))
        if self.size and C.weights is not None:
            n = 1 + max(
                int(part.max()) for part in (C.anchors, C.targets, C.impostors, *triplets.to_array().T) if part.size
            )
            rows = C.rows
            own = Triplets(C.anchors[rows], C.targets[rows, 0], C.impostors).keys(n)
            asked = triplets.keys(n)
            at = np.minimum(np.searchsorted(own, asked), len(own) - 1)
            weights = np.where(own[at] == asked, C.weights[at], 0.0)
        return weights

    def arrays(self) -> tuple[NDArray[np.generic], ...]:
        """The arrays that define the set."""
        C = self.candidates
        return C.anchors, C.targets, C.indptr, C.impostors, C.weights if C.weights is not None else np.zeros(0)

    def sample(self, size: int, rng: np.random.Generator) -> tuple[Triplets, float]:
        """All triplets where they are at most `size`, else a uniform draw; also their share of all. Ignores weights."""
        C = self.candidates
        chosen = np.arange(self.size) if self.size <= size else np.sort(rng.choice(self.size, size, replace=False))
        rows = C.rows[chosen]
        return Triplets(C.anchors[rows], C.targets[rows, 0], C.impostors[chosen]), len(chosen) / max(self.size, 1)

    def near(
        self,
        Z: NDArray[np.floating],
        strata: IndexArray,
        *,
        widen: float = 0.0,
        among: IndexArray | None = None,
        method: SearchMethod = "auto",
    ) -> Iterator[Candidates]:
        """Measure every listed triplet; see `TripletSource.near`."""
        C = self.candidates
        if not len(C.impostors):
            return
        limits = (1.0 + furthest_target(Z, C.anchors, C.targets)) * (1.0 + widen)
        rows = C.rows
        distances = np.empty(len(C.impostors))
        kernels.pair_distances(Z, C.anchors[rows], C.impostors, distances)
        keep = (distances <= limits[rows]) & (strata[C.anchors[rows]] == strata[C.impostors])
        if among is not None:
            keep &= np.isin(C.anchors[rows], among)
        yield C.select(keep)


def furthest_target(Z: NDArray[np.floating], anchors: IndexArray, targets: IndexArray) -> FloatArray:
    """Largest squared distance from each anchor to its target neighbors, (m,) float64."""
    furthest = np.zeros(len(anchors))
    out = np.empty(len(anchors))
    for column in targets.T:
        kernels.pair_distances(Z, anchors, np.where(column >= 0, column, anchors), out)
        np.maximum(furthest, out, out=furthest)
    return furthest
