"""LMNN with several metrics, one for each region of examples: the statement, its objective, and its certificate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from sdpmetric.arrays import FloatArray, IndexArray
from sdpmetric.bounds.dual_cone import DualCone
from sdpmetric.bounds.pull import PullCost
from sdpmetric.bounds.push import Push
from sdpmetric.bounds.regions import Regions, check_members, divide
from sdpmetric.bounds.well_posed import Ridge, caution
from sdpmetric.core import validation
from sdpmetric.core.certificate import Certificate, DualityCertificate
from sdpmetric.core.constraints import Constraints
from sdpmetric.core.digest import NOT_STATED
from sdpmetric.core.multipliers import Dual, Multipliers
from sdpmetric.core.problem import Problem
from sdpmetric.engine.interface import Held, Part, Shards, current
from sdpmetric.linalg import psd
from sdpmetric.linalg.distances import distances
from sdpmetric.problems import multi_lmnn_certificate
from sdpmetric.problems.lmnn import LMNNProblem, Loss
from sdpmetric.triplets.margins import hinge_slopes
from sdpmetric.triplets.sources import LabeledTriplets
from sdpmetric.triplets.triplets import Candidates


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
        ridge: Ridge = 0.0,
        loss: Loss = "hinge",
        random_state: int = 0,
        sample_weight: ArrayLike | None = None,
    ) -> MultiMetricLMNNProblem:
        """State multi-metric LMNN for labelled data.

        Parameters
        ----------
        X, y, n_neighbors, push_weight, target_neighbors, ridge, loss, sample_weight
            As in `LMNNProblem.from_labels`; ``ridge="auto"`` is the largest of the metrics'.
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
            X,
            y,
            n_neighbors,
            push_weight,
            target_neighbors=target_neighbors,
            ridge=0.0 if ridge == "auto" else ridge,
            loss=loss,
            sample_weight=sample_weight,
        )
        index, names = divide(regions, tied.centered, y, n_regions, random_state)
        check_members(index, names, tied.target_pairs[1], n_neighbors, pulled=tied.ridge == 0)
        problem = cls(tied, index, names)
        if ridge != "auto":
            return problem
        return problem.with_weights(ridge=max(cost.sample_size.ridge("auto") for cost in problem.pull_costs))

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

    @property
    def zero(self) -> FloatArray:
        """Components of zero metrics, (c, 0, d)."""
        return np.zeros((self.n_regions, 0, self.X.shape[1]))

    def describe(self) -> str:
        """Say in one sentence what is minimised, over how much data."""
        return f"{self.n_regions} metrics (section 5.2, Eq. 16), {self.tied.describe()}"

    def with_weights(self, **values: float) -> Self:
        """State the same problem with another `push_weight` or `ridge`; see `Problem.with_weights`."""
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
        each = [(L, None) if metric is None else (None, L) for L in np.asarray(given)]
        checked = [validation.check_point(L, M, self.X.shape[1]) for L, M in each]
        return psd.stack([L for L, _ in checked]), max(residual for _, residual in checked)

    def embed(self, components: FloatArray) -> list[FloatArray]:
        """All examples under each metric, centered, each (n, r)."""
        return [self.tied.embed(L) for L in components]

    def objective(self, components: ArrayLike | None = None, *, metric: ArrayLike | None = None) -> float:
        """Evaluate the objective at factors (c, r, d) or metrics (c, d, d) over all triplets (Eq. 16) [WS2009]."""
        L, _ = self.check_point(components, metric)
        embedded = self.embed(L)
        near = self.near(embedded)
        loss = sum(
            hinge_slopes(embedded[region], part, 0.0, self.squared, near[part.anchors])[0].loss
            for region, part in self.found(embedded, near)
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
        pull = float(np.maximum(near, 0.0).sum(axis=1) @ self.source.scales)
        return (1 - self.push_weight) * pull + self.ridge * float(np.sum(components**2))

    def found(
        self,
        embedded: Sequence[NDArray[np.floating]],
        near: FloatArray,
        *,
        null_groups: list[IndexArray] | None = None,
        widen: float = 0.0,
        among: IndexArray | None = None,
    ) -> Iterator[tuple[int, Candidates]]:
        """Every region with its possible impostors, in bounded parts; arguments as in `LMNNProblem.candidates`."""
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
        data, mu, w = self.tied.centered, self.push_weight, self.source.target_weights()
        return [PullCost(data, first[o], second[o], 1 - mu, self.ridge, None if w is None else w[o]) for o in own]

    def caution(self, components: NDArray[np.floating], certificate: Certificate) -> str | None:
        """See `Problem.caution`: also an objective of 0, and too few examples for some metric."""
        sample_sizes = [cost.sample_size for cost in self.pull_costs]
        return super().caution(components, certificate) or caution(certificate, sample_sizes, self.ridge)

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
        self,
        embedded: Sequence[NDArray[np.floating]],
        *,
        widen: float = 0.0,
        among: IndexArray | None = None,
        together: bool = False,
    ) -> Iterator[tuple[int, Candidates]]:
        """Yield, in bounded parts, each region with the triplets that can cost anything near the metrics.

        Parameters
        ----------
        embedded : list of (n, r) arrays
            All examples under each metric.
        widen, among
            As in `LMNNProblem.candidates`.
        together : bool, default False
            Take null directions of the costs as all other directions.
        """
        groups = None if together else self.null_groups
        return self.found(embedded, self.near(embedded), null_groups=groups, widen=widen, among=among)

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
        if self.push_weight == 0 or not any(c.coordinates.null.shape[1] for c in costs):
            return psd.stack(parts)
        furthest = float(self.near(self.embed(psd.stack(parts))).max(initial=0.0))
        return psd.stack([np.concatenate([L, c.separating_rows(furthest)]) for c, L in zip(costs, parts, strict=True)])

    def unstacked(self, factors: FloatArray) -> FloatArray:
        """Components, (c, r, d), from factors of all metrics: the same."""
        return factors

    def place(self, make: Callable[[MultiMetricLMNNProblem, Part], Held], size: int) -> Shards[Held]:
        """Let the engine in use place shards of this problem; see `sdpmetric.engine.interface.Engine.place`."""
        return current().place(make, self, size)

    # -- the certificate --------------------------------------------------------------------------------------------

    def certify(
        self, components: ArrayLike | None = None, *, metric: ArrayLike | None = None, dual: Multipliers | None = None
    ) -> DualityCertificate:
        """Certify factors (c, r, d) or metrics (c, d, d); see `LMNNProblem.certify`.

        The dual slack is block diagonal: one eigenvalue for each metric decides the multiple of the multipliers.
        """
        L, residual = self.check_point(components, metric)
        return multi_lmnn_certificate.certificate(self, L, residual, dual, validation.given_metric(metric, residual))

    @cached_property
    def cones(self) -> list[DualCone]:
        """Where the dual slack of each metric is proven to be PSD."""
        return [DualCone(self.X, cost) for cost in self.pull_costs]

    def feasible_dual(self, dual: Dual) -> Dual:
        """Repair multipliers as `certify` does; see `LMNNProblem.feasible_dual`."""
        return multi_lmnn_certificate.candidate(self, dual).feasible()

    def constraints(self, components: FloatArray, dual: Multipliers | None) -> Constraints:
        """The violated triplets and those with a positive multiplier; see `Constrained.constraints`."""
        return multi_lmnn_certificate.constraints(self, components, dual)
