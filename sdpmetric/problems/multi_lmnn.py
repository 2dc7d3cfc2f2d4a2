"""LMNN with several metrics, one for each region of examples: the statement, its objective, and its certificate."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from sdpmetric.core import validation
from sdpmetric.core.certificate import DualityCertificate
from sdpmetric.core.constraints import Constraints
from sdpmetric.core.digest import NOT_STATED
from sdpmetric.core.multipliers import Dual, Multipliers, check_triplet_multipliers
from sdpmetric.core.problem import Extras, Problem
from sdpmetric.linalg import psd
from sdpmetric.linalg.distances import distances
from sdpmetric.linalg.rigorous import Form, Images, above
from sdpmetric.problems.dual_cone import DualCone
from sdpmetric.problems.lmnn import LMNNProblem, Loss
from sdpmetric.problems.pull import PullCost
from sdpmetric.problems.push import ClippedMultipliers, Push
from sdpmetric.problems.push_dual import DualCandidate, PushSums
from sdpmetric.problems.regions import Regions, check_members, divide
from sdpmetric.problems.triplet_constraints import triplet_constraints, violated_in
from sdpmetric.triplets.bounds import scatter_form, silent_beyond, unit_hinges
from sdpmetric.triplets.limits import TooManyCandidates
from sdpmetric.triplets.margins import hinge_slopes, slope_pairs
from sdpmetric.triplets.sources import LabeledTriplets
from sdpmetric.triplets.totals import impostor_counts
from sdpmetric.triplets.triplets import Candidates, Triplets

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.int32]


@dataclass(frozen=True, eq=False, repr=False)
class MultiMetricLMNNProblem(Problem):
    """LMNN with one metric for each region (Weinberger and Saul 2009, section 5.2, Eq. 16) [WS2009].

    A pair is measured by the metric of its second member's region. Minimize over PSD matrices M^1 to M^c, with
    ``D^r`` the squared distance under M^r and ``r_j`` the region of example j::

        (1 - mu) sum_{i, j~>i} D^{r_j}(i, j)  +  mu sum_{i, j~>i, l} h(1 + D^{r_j}(i, j) - D^{r_l}(i, l))
            +  ridge sum_r trace(M^r)

    Make one with `from_labels`.

    Attributes
    ----------
    tied : LMNNProblem
        The same problem with a single metric: its optimum is an upper bound.
    regions : (n,) int32 array
        Region of each example, 0 to c - 1.
    region_names : (c,) array
    """

    statement: ClassVar[str] = "multi-metric-lmnn"
    weights: ClassVar[tuple[str, ...]] = ("push_weight", "ridge")

    tied: LMNNProblem
    regions: IndexArray
    region_names: NDArray[np.generic] = field(metadata=NOT_STATED)

    @classmethod
    def from_labels(
        cls,
        X: ArrayLike,
        y: ArrayLike,
        n_neighbors: int = 3,
        push_weight: float = 0.5,
        *,
        regions: Regions | ArrayLike = "class",
        n_regions: int | None = None,
        target_neighbors: ArrayLike | sp.sparray | sp.spmatrix | None = None,
        ridge: float = 0.0,
        loss: Loss = "hinge",
        random_state: int = 0,
    ) -> MultiMetricLMNNProblem:
        """State multi-metric LMNN for labelled data.

        Parameters
        ----------
        X, y, n_neighbors, push_weight, target_neighbors, ridge, loss
            As in `LMNNProblem.from_labels`.
        regions : {"class", "kmeans", "spectral"} or (n,) array, default "class"
            One metric for each class, for each cluster of k-means or of spectral clustering (nearest-neighbor graph),
            or for each distinct value of an array.
        n_regions : int, optional
            Number of clusters; default: as many as classes.
        random_state : int, default 0
            Of the clustering.

        Raises
        ------
        ValueError
            As `LMNNProblem.from_labels`; or if a region has `n_neighbors` or fewer members, or none that is a target
            neighbor, so that its metric would have no pull.
        """
        tied = LMNNProblem.from_labels(
            X, y, n_neighbors, push_weight, target_neighbors=target_neighbors, ridge=ridge, loss=loss
        )
        index, names = divide(regions, tied.centered, y, n_regions, random_state)
        check_members(index, names, tied.target_pairs[1], n_neighbors, pulled=tied.ridge == 0)
        return cls(tied, index, names)

    # -- the statement ----------------------------------------------------------------------------------------------

    @property
    def X(self) -> NDArray[np.floating]:
        """The data, (n, d)."""
        return self.tied.X

    @property
    def classes(self) -> NDArray[np.generic] | None:
        """Sorted class labels."""
        return self.tied.classes

    @property
    def push_weight(self) -> float:
        """``mu``, the weight of the hinges."""
        return self.tied.push_weight

    @property
    def ridge(self) -> float:
        """Weight of the traces."""
        return self.tied.ridge

    @property
    def squared(self) -> bool:
        """Whether the loss is the squared hinge."""
        return self.tied.squared

    @property
    def source(self) -> LabeledTriplets:
        """All triplets."""
        assert isinstance(self.tied.source, LabeledTriplets)
        return self.tied.source

    @property
    def target_pairs(self) -> tuple[IndexArray, IndexArray]:
        """The (anchor, target) pairs of the pull term, each once."""
        return self.tied.target_pairs

    @property
    def push(self) -> Push:
        """The triplets, weights and places of the hinges, which are those of `tied`."""
        return self.tied.push

    @property
    def n_regions(self) -> int:
        """Number of regions, and of metrics."""
        return len(self.region_names)

    def describe(self) -> str:
        """Say in one sentence what is minimised, over how much data."""
        return f"{self.n_regions} metrics (section 5.2, Eq. 16), {self.tied.describe()}"

    def with_weights(self, **values: float) -> Self:
        """State the same problem with another `push_weight` or `ridge`; data, triplets and regions are shared.

        Parameters
        ----------
        **values : float
            As in `from_labels`; what is not given stays.
        """
        return replace(self, tied=self.tied.with_weights(**values))

    def check_point(self, components: ArrayLike | None, metric: ArrayLike | None) -> tuple[FloatArray, float]:
        """Factors (c, r, d) from either keyword, and how far the metrics were from the cone, relatively."""
        given = components if metric is None else metric
        if given is None or (components is None) == (metric is None):
            raise ValueError("pass exactly one of components= (factors, (c, r, d)) and metric= ((c, d, d)).")
        if np.ndim(given) != 3 or len(np.asarray(given)) != self.n_regions:
            raise ValueError(
                f"expected one matrix for each of {self.n_regions} regions, an array of three dimensions; "
                f"got shape {np.shape(given)}."
            )
        d = self.X.shape[1]
        if metric is None:
            checked = [validation.check_point(L, None, d) for L in np.asarray(given)]
        else:
            checked = [validation.check_point(None, M, d) for M in np.asarray(given)]
        return psd.stack([L for L, _ in checked]), max(residual for _, residual in checked)

    def embed(self, components: FloatArray) -> list[FloatArray]:
        """All examples under each metric, centered, each (n, r)."""
        return [self.tied.embed(L) for L in components]

    def objective(self, components: ArrayLike | None = None, *, metric: ArrayLike | None = None) -> float:
        """Evaluate the objective over all triplets (Weinberger and Saul 2009, Eq. 16).

        Parameters
        ----------
        components : (c, r, d) array, optional
            Factors of the metrics.
        metric : (c, d, d) array, optional
            The metrics themselves; exactly one of the two.
        """
        L, _ = self.check_point(components, metric)
        embedded = self.embed(L)
        near = self.near(embedded)
        loss = sum(
            hinge_slopes(embedded[region], part, 0.0, self.squared, near[part.anchors])[0].loss
            for region, part in self._found(embedded, near)
        )
        return self._cost(L, near) + self.push_weight * loss

    def near(self, embedded: Sequence[NDArray[np.floating]]) -> FloatArray:
        """Squared distance from each example to its target neighbors under their metrics, (n, K), padded with -1."""
        targets = self.source.targets
        near = np.full(targets.shape, -1.0)
        row, slot = np.nonzero(targets >= 0)
        region = self.regions[targets[row, slot]]
        for r, Z in enumerate(embedded):
            i, k = row[region == r], slot[region == r]
            near[i, k] = distances(Z, i, targets[i, k])
        return near

    def _cost(self, components: FloatArray, near: FloatArray) -> float:
        return (1 - self.push_weight) * float(near[near > 0].sum()) + self.ridge * float(np.sum(components**2))

    def _found(
        self,
        embedded: Sequence[NDArray[np.floating]],
        near: FloatArray,
        *,
        null_groups: list[IndexArray] | None = None,
        widen: float = 0.0,
        among: IndexArray | None = None,
    ) -> Iterator[tuple[int, Candidates]]:
        """Every region with its possible impostors, in bounded parts."""
        anchors = self.source.anchors(among)
        limits = (1.0 + near[anchors].max(axis=1, initial=0.0)) * (1.0 + widen)
        everywhere = np.zeros(len(self.X), dtype=np.int32)
        for region, Z in enumerate(embedded):
            members = np.flatnonzero(self.regions == region).astype(np.int32)
            own = everywhere if null_groups is None else null_groups[region]
            for part in self.source.within(Z, own, anchors, limits, columns=members):
                yield region, part

    # -- for solvers ------------------------------------------------------------------------------------------------

    @cached_property
    def pull_costs(self) -> list[PullCost]:
        """The linear cost of each metric."""
        first, second = self.target_pairs
        own = [self.regions[second] == region for region in range(self.n_regions)]
        return [PullCost(self.tied.centered, first[o], second[o], 1 - self.push_weight, self.ridge) for o in own]

    @cached_property
    def regional_points(self) -> list[FloatArray]:
        """The data in the coordinates that whiten each cost, (n, rank) with one rank for all, padded with zeros."""
        rank = max(cost.coordinates.rank for cost in self.pull_costs)
        return [np.pad(cost.points, ((0, 0), (0, rank - cost.coordinates.rank))) for cost in self.pull_costs]

    @property
    def null_groups(self) -> list[IndexArray]:
        """For each metric, the examples that its null directions do not separate; see `PullCost.null_groups`."""
        return [cost.null_groups for cost in self.pull_costs]

    def regional_near(
        self, embedded: Sequence[NDArray[np.floating]], *, widen: float = 0.0, among: IndexArray | None = None
    ) -> Iterator[tuple[int, Candidates]]:
        """What `regional_candidates` finds, in bounded parts, each with its region."""
        return self._found(embedded, self.near(embedded), null_groups=self.null_groups, widen=widen, among=among)

    def regional_candidates(
        self,
        embedded: Sequence[NDArray[np.floating]],
        *,
        widen: float = 0.0,
        among: IndexArray | None = None,
        most: float = math.inf,
    ) -> list[Candidates]:
        """Search exhaustively for the triplets that can cost anything near the metrics; see `LMNNProblem.candidates`.

        Parameters
        ----------
        embedded : list of (n, r) arrays
            All examples under each metric.
        widen, among, most
            As in `LMNNProblem.candidates`.
        """
        parts: list[list[Candidates]] = [[] for _ in embedded]
        count = 0
        for region, part in self.regional_near(embedded, widen=widen, among=among):
            parts[region].append(part)
            count += len(part.impostors)
            if count > most:
                raise TooManyCandidates([(r, block) for r, found in enumerate(parts) for block in found])
        nothing = Candidates.none(self.source.targets.shape[1])
        return [Candidates.concatenate(found) if found else nothing for found in parts]

    def whitened(self, components: FloatArray) -> FloatArray:
        """Factors on `regional_points`, (c, r, rank), of components (c, r, d)."""
        rank = self.regional_points[0].shape[1]
        parts = [cost.whitened(L) for cost, L in zip(self.pull_costs, components, strict=True)]
        return np.stack([np.pad(part, ((0, 0), (0, rank - part.shape[1]))) for part in parts])

    def lift_regional(self, whitened: FloatArray) -> FloatArray:
        """Components in the data's own coordinates, (c, r', d), from factors on `regional_points`.

        Null directions of the costs are added, scaled so that impostors of other groups lose their hinges.
        """
        costs = self.pull_costs
        parts = [L[:, : c.coordinates.rank] @ c.coordinates.range.T for c, L in zip(costs, whitened, strict=True)]
        furthest = float(self.near(self.embed(psd.stack(parts))).max(initial=0.0))
        if self.push_weight == 0:
            return psd.stack(parts)
        return psd.stack([np.concatenate([L, c.separating_rows(furthest)]) for c, L in zip(costs, parts, strict=True)])

    # -- the certificate --------------------------------------------------------------------------------------------

    def certify(
        self, components: ArrayLike | None = None, *, metric: ArrayLike | None = None, dual: Multipliers | None = None
    ) -> DualityCertificate:
        """Judge any point, whoever made it; see `LMNNProblem.certify`.

        The dual slack is block diagonal: one eigenvalue for each metric decides the multiple of the multipliers.

        Parameters
        ----------
        components : (c, r, d) array, optional
        metric : (c, d, d) array, optional
            Exactly one of the two.
        dual : Dual, optional
            Multipliers to try; default: the (smoothed) hinge slopes at the point, the best of several widths.
        """
        L, primal_residual = self.check_point(components, metric)
        images = [Images.of(self.X, self.tied.centered, factor.T) for factor in L]
        cost = sum(c.bound(factor, own) for c, factor, own in zip(self.pull_costs, L, images, strict=True))
        given = None if dual is None else self.push.clipped(check_triplet_multipliers(dual), self.separated)
        return self._push_sums(images, slopes=dual is None).certificate(
            above(cost, self.n_regions),
            [cone.whitened(factor) for cone, factor in zip(self.cones, L, strict=True)],
            None if given is None else self._candidate(given),
            primal_residual=primal_residual,
            null_dimension=sum(c.coordinates.null.shape[1] for c in self.pull_costs),
            program="Multi-metric LMNN",
        )

    @cached_property
    def cones(self) -> list[DualCone]:
        """Where the dual slack of each metric is proven to be PSD."""
        return [DualCone(self.X, cost) for cost in self.pull_costs]

    def _push_sums(self, images: list[Images], *, slopes: bool) -> PushSums:
        """One exhaustive pass; slopes of the targets, which may belong to another metric, are summed up at its end."""
        mu, n = self.push_weight, len(self.X)
        embedded = [own.points for own in images]
        near, highest = self.near(embedded), self._highest(images)
        sums = PushSums(self.push, self.cones, slopes=slopes)
        whole, furthest = np.zeros(n, dtype=np.int32), float(highest.max(initial=0.0))
        for active in ([whole] * self.n_regions, self.null_groups):
            if all(unit_hinges(own, group, furthest) for own, group in zip(images, active, strict=True)):
                self._add_unit_hinges(sums, active, furthest)
                return sums
        pull, most = np.zeros((len(sums.forms), *near.shape)), 0
        widen = max(silent_beyond(own) for own in images)
        for region, found in self._found(embedded, near, widen=widen):
            cone, own = self.cones[region], (near[found.anchors], highest[found.anchors])
            for g, part, values in sums.add(images[region], found, cone.groups, own):
                first, second, weights = slope_pairs(part, values)
                push = weights > 0
                form = cone.images.form(first[push], second[push], weights[push], roundings=near.shape[1])
                sums.forms[g][region] += form.times(mu)
                rows = part.anchors[part.rows]
                most += int(np.bincount(rows).max(initial=0)) if g == 0 else 0
                for k in range(near.shape[1]):
                    pull[g, :, k] += np.bincount(rows, values[:, k], minlength=n)
        row, slot = np.nonzero(self.source.targets >= 0)
        for forms, weights in zip(sums.forms, pull, strict=True):
            parts = self._by_region(
                row, self.source.targets[row, slot], weights[row, slot], roundings=most + self.n_regions
            )
            forms[:] = [form - part.times(mu) for form, part in zip(forms, parts, strict=True)]
        return sums

    def _add_unit_hinges(self, sums: PushSums, active: list[IndexArray], highest: float) -> None:
        """Sums over all triplets where those within the given groups of each metric have hinges of 1, the others 0."""
        source, counts = self.source, self.source.target_counts
        forms, totals = [], np.zeros(3, dtype=np.int64)
        pull = np.zeros(len(self.X), dtype=np.int64)
        for region, cone in enumerate(self.cones):
            members, groups = self.regions == region, (active[region], cone.groups, self.push.duplicate_groups)
            impostors = np.stack([impostor_counts(source.labels, each, members) for each in groups])
            totals += impostors @ counts
            pull += impostors[1]
            anchors, others = counts.astype(np.float64), members.astype(np.float64)
            forms.append(scatter_form(cone.images, source.labels, cone.groups, anchors, others))
        slope = sums.add_unit_hinges((float(totals[0]), int(totals[0])), float(totals[1]), float(totals[2]), highest)
        if len(sums.forms):
            first, second = self.target_pairs
            targets = self._by_region(first, second, pull[first].astype(np.float64))
            sums.forms[0] = [(push - own).times(slope) for push, own in zip(forms, targets, strict=True)]

    def _highest(self, images: list[Images]) -> FloatArray:
        """Upper bounds of the squared distances to the target neighbors, (n, K), padded with -1; see `near`."""
        targets = self.source.targets
        highest = np.full(targets.shape, -1.0)
        row, slot = np.nonzero(targets >= 0)
        region = self.regions[targets[row, slot]]
        for r, own in enumerate(images):
            i, k = row[region == r], slot[region == r]
            highest[i, k] = own.distances(i, targets[i, k])[1]
        return highest

    def _by_region(
        self, first: NDArray[np.integer], second: IndexArray, weights: FloatArray, *, roundings: int = 0
    ) -> list[Form]:
        """``D*(w)`` of pairs, each under the metric of its second member, in the coordinates of its dual cone."""
        parts = []
        for region, cone in enumerate(self.cones):
            own = self.regions[second] == region
            parts.append(cone.images.form(first[own], second[own], weights[own], roundings=roundings))
        return parts

    def separated(self, triplets: Triplets) -> NDArray[np.bool_]:
        """Whether the null directions of the impostor's metric separate it from the anchor."""
        groups = np.stack([cone.groups for cone in self.cones])
        region = self.regions[triplets.impostors]
        apart: NDArray[np.bool_] = groups[region, triplets.anchors] != groups[region, triplets.impostors]
        return apart

    def feasible_dual(self, dual: Dual) -> Dual:
        """Repair multipliers as `certify` does; see `LMNNProblem.feasible_dual`."""
        multipliers = self.push.clipped(dual, self.separated)
        return self._candidate(multipliers).feasible(multipliers)

    def constraints(self, components: FloatArray, dual: Multipliers | None, extras: Extras) -> Constraints:
        """The violated triplets and those with a positive multiplier; see `Constrained.constraints`."""
        embedded = self.embed(components)
        near = self.near(embedded)

        def distance(first: IndexArray, second: IndexArray) -> FloatArray:
            D = np.empty(len(first))
            for region, Z in enumerate(embedded):
                own = self.regions[second] == region
                D[own] = distances(Z, first[own], second[own])
            return D

        violated = [
            violated_in(embedded[r], part, self.squared, near[part.anchors]) for r, part in self._found(embedded, near)
        ]
        pull, trace = float(distance(*self.target_pairs).sum()), float(np.sum(components**2))
        return triplet_constraints(self.push, distance, violated, dual, self.feasible_dual, pull=pull, trace=trace)

    def _candidate(self, multipliers: ClippedMultipliers) -> DualCandidate:
        T, a = multipliers.triplets, multipliers.values
        push, pull = self._by_region(T.anchors, T.impostors, a), self._by_region(T.anchors, T.targets, a)
        forms = [plus - minus for plus, minus in zip(push, pull, strict=True)]
        return DualCandidate.of(self.push, multipliers, self.cones, forms)
