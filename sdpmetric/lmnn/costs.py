"""The two costs of LMNN: pulls, which are linear in a metric, and pushes, hinges over triplets.

The pull cost of one metric is ``<C, M> = weight sum_p w_p D_M(p) + ridge trace(M)``. A direction of the null space of C
costs nothing. Pairs of the cost do not differ there, so examples fall into *null groups* that agree in it. Along it
every two groups can be pushed apart, and hinges across groups vanish from the problem.

There may be several metrics in a push. A pair is measured by the metric of its second member's region. Example i under
metric r is *point* ``r n + i``: with several metrics, candidates name points, and triplets and multipliers
name examples.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import itemgetter
from typing import TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from sdpmetric.arrays import BoolArray, FloatArray, IndexArray
from sdpmetric.core import validation
from sdpmetric.core.certificate import Dual
from sdpmetric.core.named import SampleSize
from sdpmetric.core.triplets import Candidates, Triplets
from sdpmetric.engine.lazy import cached, published
from sdpmetric.engine.threads import check_deadline
from sdpmetric.linalg import psd
from sdpmetric.linalg.distances import Blocks, adjoint, distances, weighted_differences
from sdpmetric.linalg.rigorous.directed import above, product_above, products_above, sum_above, trace_above
from sdpmetric.linalg.rigorous.forms import Images
from sdpmetric.lmnn.impostors import SearchMethod, collect
from sdpmetric.lmnn.margins import are_unit_hinges, hinge_slopes, target_distances
from sdpmetric.lmnn.sources import LabeledTriplets, TripletSource


@dataclass(frozen=True, eq=False)
class PullCost:
    """``weight * sum_p w_p D_M(p) + ridge * trace(M)`` over pairs of examples."""

    X: FloatArray  # centered data
    first: IndexArray
    second: IndexArray
    scales: FloatArray  # ``weight * w_p`` of each pair, (p,)
    ridge: float

    @property
    def sample_size(self) -> SampleSize:
        return SampleSize.of(self.X, self.first, self.second, self.scales)

    @cached
    def coordinates(self) -> psd.Whitening:
        """Coordinates that make the cost the identity on its range; null directions come last."""
        basis, inverse = psd.data_basis(self.X)
        check_deadline()
        rows, P = [np.sqrt(self.ridge) * basis] if self.ridge else [], self.X @ basis
        root = psd.clear_root(
            lambda: chain(rows, weighted_differences(P, self.first, self.second, np.sqrt(self.scales)))
        )
        check_deadline()
        return psd.whiten(basis, inverse, root)

    def bound(self, components: FloatArray, images: Images) -> float:
        """Return a float not below ``<C, M>`` at exact components, or the metric, with given images of the data."""
        _, distances_above = images.distances(self.first, self.second)
        pull = above(sum_above(products_above(self.scales, distances_above)), 4)
        return above(pull + product_above(self.ridge, trace_above(components, images.metric)), 2)

    @cached
    def matrix(self) -> FloatArray:
        """``C``, (d, d), in the data's own coordinates."""
        pull = adjoint(self.X, self.first, self.second, self.scales)
        return pull + self.ridge * np.eye(len(pull))

    def whitened(self, components: FloatArray) -> FloatArray:
        """Return the factor on the whitened data, (r, rank), of components."""
        return components @ self.coordinates.inverse[: self.coordinates.rank].T

    @published
    def null_groups(self) -> IndexArray:
        n = len(self.X)
        null = self.coordinates.null
        if null.shape[1] == 0:
            return np.zeros(n, dtype=np.int32)
        # Pairs do not differ there, so one member represents each connected component of their graph.
        values = self.X @ null
        noise = float(np.abs(values[self.first] - values[self.second]).max(initial=0.0))
        graph = sp.coo_array((np.ones(len(self.first)), (self.first, self.second)), shape=(n, n))
        _, component = sp.csgraph.connected_components(graph, directed=False)
        _, representative = np.unique(component, return_index=True)
        # A tree takes differences; expanded squares would tell equal rows apart.
        # Examples that are this near in the directions without pull (data have unit variance there) count as equal in
        # them.
        search = NearestNeighbors(radius=1e-10 + 4 * noise, algorithm="kd_tree").fit(values[representative])
        neighbors = search.radius_neighbors_graph(values[representative])
        _, group = sp.csgraph.connected_components(neighbors, directed=False)
        null_groups: IndexArray = group[component].astype(np.int32)
        return null_groups

    def separating_rows(self, furthest_target: float) -> FloatArray:
        """Return rows to add to the components, (q, d), that put every two null groups beyond every margin."""
        null = self.coordinates.null
        if null.shape[1] == 0 or self.null_groups.max(initial=0) == 0:
            return np.zeros((0, self.X.shape[1]))
        _, representative = np.unique(self.null_groups, return_index=True)
        values = (self.X @ null)[representative]
        distances, _ = NearestNeighbors(n_neighbors=2, algorithm="kd_tree").fit(values).kneighbors(values)
        rows: FloatArray = math.sqrt(1.01 * (1.0 + furthest_target)) / float(distances[:, 1].min()) * null.T
        return rows


ScalarT = TypeVar("ScalarT", bound=np.generic)
# Multiples of a metric of cost 1 among which `Push.best_multiple` chooses.
MULTIPLES = np.geomspace(1e-4, 1e8, 49)
# Triplets that it goes by.
SAMPLE = 30_000


def stacked_points(arrays: Sequence[NDArray[ScalarT]]) -> NDArray[ScalarT]:
    """Return points of all metrics, one after the other; those of a single one are not copied."""
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def list_triplets(candidates: Candidates) -> Triplets:
    """Return every triplet of a candidate set, one by one."""
    present = (candidates.targets >= 0)[candidates.rows]
    return candidates.triplets(present.astype(np.float64))[0]


@dataclass(frozen=True, eq=False)
class ClippedMultipliers:
    """Multipliers in their boxes, each triplet once, none of them 0."""

    triplets: Triplets
    values: FloatArray
    weights: FloatArray  # of their hinges
    violation: float  # distance of the given multipliers from their boxes, relative to the weight of the push term


@dataclass(frozen=True, eq=False)
class Push:
    """``weight * sum_t w_t h(1 - <B_t, M>)`` over triplets, with h the hinge or its square."""

    X: NDArray[np.floating]  # the exact data
    source: TripletSource
    weight: float
    squared: bool
    method: SearchMethod
    regions: IndexArray
    n_regions: int = 1  # c; listed triplets have one

    @cached
    def duplicate_groups(self) -> IndexArray:
        """A number for each place that examples lie at, (n,): equal rows of X have equal numbers."""
        rows = self.X + 0.0  # there is no -0
        bits: NDArray[np.unsignedinteger] = rows.view(np.uint64 if rows.dtype == np.float64 else np.uint32)
        hashes = np.matmul(bits, np.random.default_rng(0).integers(1 << 63, size=bits.shape[1], dtype=np.uint64))
        _, first, group = np.unique(hashes, return_index=True, return_inverse=True)
        if not np.array_equal(rows, rows[first[group]]):  # two rows have the same hash
            group = np.unique(rows, axis=0, return_inverse=True)[1].ravel()
        groups: IndexArray = group.astype(np.int32)
        return groups

    def sampled(self, rows: IndexArray) -> Push:
        """Return the push of a sample of the examples, as anchors and as impostors, weighted to stand for all."""
        is_sampled = np.zeros(len(self.X), dtype=bool)
        is_sampled[rows] = True
        return self if is_sampled.all() else replace(self, source=self.source.sampled(is_sampled))

    def coincident(self, triplets: Triplets) -> BoolArray:
        same: BoolArray = self.duplicate_groups[triplets.anchors] == self.duplicate_groups[triplets.impostors]
        return same

    # -- points: examples under their metrics -------------------------------------------------------------------------

    @cached
    def blocks(self) -> Blocks:
        return Blocks(len(self.X) * np.arange(self.n_regions + 1, dtype=np.int64))

    def point_pairs(self, first: IndexArray, second: IndexArray) -> tuple[IndexArray, IndexArray]:
        if self.n_regions == 1:
            return first, second
        shift = np.int32(len(self.X)) * self.regions[second]
        return first + shift, second + shift

    def target_points(self, targets: IndexArray) -> IndexArray:
        """Return target neighbors by numbers of points, padded with -1."""
        return np.where(targets >= 0, targets + np.int32(len(self.X)) * self.regions[targets], np.int32(-1))

    def anchors_by_target(self, candidates: Candidates) -> IndexArray:
        """Return the anchor of each row under the metric of each target, (m, K); negative if there is no target."""
        n = np.int32(len(self.X))
        anchors: IndexArray = candidates.targets // n * n + candidates.anchors[:, None] % n
        return anchors

    def as_points(self, region: int, candidates: Candidates) -> Candidates:
        """Return candidates with impostors of a region by numbers of points."""
        if self.n_regions == 1:
            return candidates
        C, shift = candidates, np.int32(region * len(self.X))
        return Candidates(C.anchors + shift, self.target_points(C.targets), C.indptr, C.impostors + shift, C.weights)

    def margins(self, Z: NDArray[np.floating], triplets: Triplets) -> FloatArray:
        """Return ``<B_t, M>`` of triplets at embedded points."""
        impostor_distances = distances(Z, *self.point_pairs(triplets.anchors, triplets.impostors))
        return impostor_distances - distances(Z, *self.point_pairs(triplets.anchors, triplets.targets))

    def best_multiple(
        self, Z: NDArray[np.floating], cost: float, triplets: Triplets, share: float
    ) -> tuple[float, float]:
        """Return the multiple of a metric that minimizes its cost plus the hinges, and the sum there.

        Triplets are a sample, with the share of all triplets that it stands for.
        """
        margins, weight = self.margins(Z, triplets), self.weight / share

        def value(s: float) -> float:
            losses = np.maximum(0.0, 1.0 - s * margins)
            return s * cost + weight * float(np.sum(losses**2 if self.squared else losses))

        def slope(s: float) -> float:
            u = 1.0 - s * margins
            return cost - weight * float(margins @ (2.0 * np.maximum(0.0, u) if self.squared else u > 0.0))

        multiples = (MULTIPLES / cost).tolist()
        rising = bisect_left(multiples, 0.0, key=slope)  # the sum is convex
        return min(((s, value(s)) for s in multiples[max(rising - 1, 0) : rising + 1]), key=itemgetter(1))

    def all_triplets(self) -> Triplets:
        """Return all triplets that have a weight."""
        # Where all points coincide, as under the zero metric, every triplet violates its margin.
        Z, one_group = np.zeros((len(self.X), 1)), np.zeros(len(self.X), dtype=np.int32)
        blocks = list(self.source.candidate_blocks(Z, one_group, method=self.method))
        triplets = list_triplets(Candidates.concatenate(blocks)) if blocks else Triplets.join()
        return triplets[self.source.weights_of(triplets) > 0]

    # -- the exhaustive search ----------------------------------------------------------------------------------------

    def blocks_by_region(
        self,
        Z: NDArray[np.floating],
        groups: IndexArray | None = None,
        *,
        widen: float = 0.0,
    ) -> Iterator[tuple[int, Candidates]]:
        """Yield regions and all candidates with impostors there that can violate a margin, wider by a share.

        Z holds embedded points, (c n, r); only impostors of the anchor's group, (c n,), are listed. Candidates name
        examples.
        """
        n, source = len(self.X), self.source
        groups = np.zeros(len(Z), dtype=np.int32) if groups is None else groups
        if self.n_regions == 1:
            for block in source.candidate_blocks(Z, groups, widen=widen, method=self.method):
                yield 0, block
            return
        assert isinstance(source, LabeledTriplets)
        anchors = source.anchors
        targets = self.target_points(source.targets[anchors])
        bases = targets // np.int32(n) * np.int32(n) + anchors[:, None]
        limits = 1.0 + target_distances(Z, bases, targets).max(axis=1, initial=0.0)
        for region in range(self.n_regions):
            columns = np.flatnonzero(self.regions == region).astype(np.int32)
            rows = slice(region * n, (region + 1) * n)
            for block in source.candidate_blocks(
                Z[rows], groups[rows], widen=widen, method=self.method, limits=limits, columns=columns
            ):
                yield region, block

    def candidates(
        self,
        Z: NDArray[np.floating],
        groups: IndexArray | None = None,
        *,
        widen: float = 0.0,
        max_pairs: float = math.inf,
    ) -> Candidates:
        """Return all blocks of the search in one, by numbers of points; too many pairs raise `TooManyCandidates`."""
        search = self.blocks_by_region(Z, groups, widen=widen)
        blocks = collect((self.as_points(region, block) for region, block in search), max_pairs)
        return Candidates.concatenate(blocks) if blocks else Candidates.none()

    def drawn(self, per_anchor: int, groups: IndexArray) -> Candidates:
        """Draw about so many impostors of each anchor, by numbers of points, in its group."""
        drawn, blocks = self.source.drawn(per_anchor), []
        for region in range(self.n_regions):
            C = self.as_points(region, drawn.select(self.regions[drawn.impostors] == region))
            blocks.append(C.select(groups[C.anchors[C.rows]] == groups[C.impostors]))
        return Candidates.concatenate(blocks)

    def hinges(self, Z: FloatArray) -> Iterator[tuple[float, Candidates, FloatArray]]:
        """Yield by block: the loss without push weight, candidates by numbers of examples, slopes, (nnz, K)."""
        rows, n = Candidates.none(), len(self.X)
        for region, block in self.blocks_by_region(Z):
            if not block.has_rows_of(rows):
                points = self.as_points(region, block)
                rows, target_D = block, target_distances(Z, self.anchors_by_target(points), points.targets)
            losses, slopes = hinge_slopes(Z[region * n : (region + 1) * n], block, 0.0, self.squared, target_D)
            yield float(losses.sum()), block, slopes

    def loss(self, Z: FloatArray) -> float:
        """Return ``sum_t w_t h(1 - <B_t, M>)`` at embedded points, without the push weight."""
        furthest = float(distances(Z, *self.point_pairs(*self.source.target_pairs())).max(initial=0.0))
        one_group = np.zeros(len(self.X), dtype=np.int32)
        if all(are_unit_hinges(P, one_group, furthest) for P in np.split(Z, self.n_regions)):
            return self.source.total_weight
        return sum(loss for loss, _, _ in self.hinges(Z))

    # -- multipliers --------------------------------------------------------------------------------------------------

    def ceilings(self, triplets: Triplets) -> FloatArray:
        """Return the upper ends of the boxes of the hinge's multipliers, (t,); 0 for foreign triplets."""
        return self.weight * self.source.weights_of(triplets)

    def clipped(self, dual: Dual, groups: Sequence[IndexArray] = ()) -> ClippedMultipliers:
        """Repair multipliers: each triplet once, in its box, and 0 across the groups of the impostor's metric."""
        array = validation.check_rows("dual.triplets", dual.triplets.to_array(), len(self.X), ("t", 3))
        values = validation.check_matrix("dual.values", dual.values, (len(array),), "one for each triplet")
        _, first, inverse = np.unique(dual.triplets.keys(len(self.X)), return_index=True, return_inverse=True)
        triplets = dual.triplets[first]
        values = np.bincount(inverse.ravel(), values, minlength=len(first)).astype(np.float64)
        weights = self.source.weights_of(triplets)
        if groups:
            group, region = np.stack(groups), self.regions[triplets.impostors]
            weights[group[region, triplets.anchors] != group[region, triplets.impostors]] = 0.0
        ceiling = np.inf * np.ones(len(weights)) if self.squared else self.weight * weights
        ceiling[weights == 0] = 0.0
        clipped = np.clip(values, 0.0, ceiling)
        excess = float(np.abs(values - clipped).max(initial=0.0))
        violation = excess / self.weight if self.weight > 0 else np.inf if excess > 0 else 0.0
        used = clipped > 0
        return ClippedMultipliers(triplets[used], clipped[used], weights[used], violation)
