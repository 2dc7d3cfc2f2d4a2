"""Large margin nearest neighbor (LMNN) with one metric or several: the statement, its objective, its certificate.

Over PSD matrices M it minimizes ``<C, M> + mu sum_t w_t h(1 - <B_t, M>)``, with C the pull cost and hinges over
triplets t (`sdpmetric.lmnn.costs`), and ``<B_t, M> = D_M(i, l) - D_M(i, j)``. `sdpmetric.lmnn.bound`
derives the bound of multipliers, and `sdpmetric.lmnn.cone` proves dual slacks PSD.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Literal, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from sdpmetric.arrays import FloatArray, IndexArray, allow_underflow
from sdpmetric.core import pairs, validation
from sdpmetric.core.certificate import (
    Certificate,
    Dual,
    DualityCertificate,
    Multipliers,
    check_triplet_multipliers,
)
from sdpmetric.core.constraints import Constraints
from sdpmetric.core.files import Proof
from sdpmetric.core.named import Ridge, caution
from sdpmetric.core.problem import NOT_STATED
from sdpmetric.core.sample_weight import check_sample_weight, check_weights
from sdpmetric.core.triplets import Triplets
from sdpmetric.engine.lazy import cached, published
from sdpmetric.lazy import cvxpy as cp
from sdpmetric.linalg import psd
from sdpmetric.linalg.distances import distances
from sdpmetric.linalg.rigorous.directed import above, product_above, sum_above
from sdpmetric.linalg.rigorous.forms import Images
from sdpmetric.lines import Lines
from sdpmetric.lmnn import written
from sdpmetric.lmnn.bound import DualCandidate, PushSums
from sdpmetric.lmnn.cone import DualCone
from sdpmetric.lmnn.costs import SAMPLE, PullCost, Push, list_triplets, stacked_points
from sdpmetric.lmnn.impostors import SearchMethod
from sdpmetric.lmnn.margins import are_unit_hinges, with_error
from sdpmetric.lmnn.sources import LabeledTriplets, ListedTriplets, TripletSource
from sdpmetric.losses import Hinge, SquaredHinge, Weighted
from sdpmetric.programs.exact_program import PrintedProblem
from sdpmetric.sums.feasibility import RESOLUTION
from sdpmetric.sums.problem import MetricProblem
from sdpmetric.sums.terms.comparisons import TripletHinge, labeled_triplets
from sdpmetric.sums.terms.linear import Pull, Trace

Loss = Literal["hinge", "squared_hinge"]


class LargeMarginProblem(PrintedProblem):
    """LMNN with one metric for each of c >= 1 regions: a pair is measured by the metric of its second member's region.

    Statements with one metric show it as (r, d), else the metrics are (c, r, d). Solvers take *factors*, (c, r, rank),
    on `points`: the data in coordinates that whiten the cost of each metric, one after the other.
    """

    weights: ClassVar[tuple[str, ...]] = ("push_weight", "ridge")
    solver_modules: ClassVar[tuple[str, ...]] = (
        "sdpmetric.lmnn.solvers.reduced_program",
        "sdpmetric.lmnn.solvers.conic",
        "sdpmetric.lmnn.solvers.factored",
        "sdpmetric.lmnn.solvers.low_rank",
        "sdpmetric.lmnn.solvers.gradient_projection",
    )

    if TYPE_CHECKING:

        @property
        def tied(self) -> LMNNProblem:
            """The same problem with a single metric."""

        @property
        def push(self) -> Push:
            """The hinges of the objective."""

    @property
    def classes(self) -> NDArray[np.generic] | None:
        return self.tied.classes

    @property
    def push_weight(self) -> float:
        return self.tied.push_weight

    @property
    def ridge(self) -> float:
        return self.tied.ridge

    @property
    def title(self) -> str:
        return "LMNN"

    @property
    def squared(self) -> bool:
        return self.push.squared

    @property
    def n_regions(self) -> int:
        return self.push.n_regions

    @published
    def target_pairs(self) -> tuple[IndexArray, IndexArray]:
        """The (anchor, target) pairs of the pull term, each once."""
        return self.push.source.target_pairs()

    def describe(self) -> str:
        classes = "" if self.classes is None else f", {len(self.classes)} classes"
        ridge = f", ridge {self.ridge:g}" if self.ridge else ""
        return (
            f"LMNN (Weinberger and Saul 2009, Eq. 14): {self.X.shape[0]:,} examples, {self.X.shape[1]} features"
            f"{classes}, {len(self.target_pairs[0]):,} target pairs, {self.push.source.size:,} triplets; "
            f"push weight {self.push_weight:g}, {'squared hinge' if self.squared else 'hinge'}{ridge}"
        )

    # -- as in the paper ----------------------------------------------------------------------------------------------

    def lines(self) -> Lines:
        """See `PrintedProblem.lines`."""
        return written.lines(self.push, self.ridge)

    def dual_program(self) -> cp.Problem:
        """See `PrintedProblem.dual_program`: the multipliers of ``margins``, in the order of the triplets."""
        costs, triplets = [cost.matrix for cost in self.pull_costs], written.chosen_triplets(self.push, None)
        return written.dual_program(self.push, self.centered, costs, self.ridge, triplets)

    # -- one metric or several ----------------------------------------------------------------------------------------

    def stack(self, matrices: FloatArray) -> FloatArray:
        """Return components or metrics of the statement, for all metrics: (r, d) become (1, r, d)."""
        return matrices[None] if matrices.ndim == 2 else matrices

    def squeeze(self, matrices: FloatArray) -> FloatArray:
        """Return components of the statement from those of all metrics, (c, r, d)."""
        return matrices

    @property
    def euclidean(self) -> FloatArray:
        return self.squeeze(np.stack([np.eye(self.X.shape[1])] * self.n_regions))

    @property
    def start(self) -> FloatArray:
        """See `Problem.start`: the identity for every metric, at its best multiple for a sample of triplets."""
        push, cost = self.tied.push, float(distances(self.centered, *self.target_pairs) @ self._pull_scales)
        cost += self.ridge * self.n_regions * self.X.shape[1]
        sample = push.source.sample(SAMPLE, validation.generator(0))
        multiple = push.best_multiple(self.centered, cost, *sample)[0] if cost > 0.0 and len(sample[0]) else 1.0
        return math.sqrt(multiple) * self.euclidean

    # -- the objective ------------------------------------------------------------------------------------------------

    def embed(self, components: FloatArray) -> FloatArray:
        """Return all examples under each metric, centered, (c n, r), float64."""
        return stacked_points([self.centered @ L.T for L in self.stack(components)])

    @allow_underflow
    def objective(self, components: ArrayLike | None = None, *, metric: ArrayLike | None = None) -> float:
        """Evaluate the objective over all triplets (Weinberger and Saul 2009, Eqs. 14, 16); see `Problem.objective`."""
        L, _ = self.check_point(components, metric)
        Z = self.embed(L)
        return self._cost(L, Z) + self.push_weight * self.push.loss(Z)

    def _cost(self, L: FloatArray, Z: FloatArray) -> float:
        """Return the linear part of the objective at a point, Z being the embedded data."""
        pull = distances(Z, *self.push.point_pairs(*self.target_pairs)) @ self._pull_scales
        return float(pull) + self.ridge * float(np.sum(L**2))

    def _along(self, components: FloatArray) -> Callable[[float], float]:
        """Return the objective of multiples of a point, by the hinges of at most 1000 examples."""
        Z, n = self.embed(components), len(self.X)
        cost, push = self._cost(components, Z), self.push.sampled(np.linspace(0, n - 1, min(1000, n)).astype(np.int32))
        return lambda scale: scale**2 * cost + self.push_weight * push.loss(scale * Z)

    # -- coordinates for solvers: there the cost is the trace ---------------------------------------------------------

    @cached
    def _pull_scales(self) -> FloatArray:
        """The cost of a unit of distance of each target pair."""
        return (1 - self.push_weight) * self.push.source.target_weights()

    @cached
    def pull_costs(self) -> list[PullCost]:
        """The linear cost of each metric."""
        first, second = self.target_pairs
        regions, scales, ridge = self.push.regions[second], self._pull_scales, self.ridge
        members = [regions == region for region in range(self.n_regions)]
        return [PullCost(self.centered, first[m], second[m], scales[m], ridge) for m in members]

    @property
    def rank(self) -> int:
        """Number of directions with a cost, of the metric that has most."""
        return max(cost.coordinates.rank for cost in self.pull_costs)

    @property
    def points(self) -> FloatArray:
        """The data in the coordinates that whiten each cost, (c n, rank), padded with zeros to one rank; not kept."""
        rank = self.rank
        blocks = [np.ascontiguousarray(self.centered @ cost.coordinates.range) for cost in self.pull_costs]
        return stacked_points(
            [P if P.shape[1] == rank else np.pad(P, ((0, 0), (0, rank - P.shape[1]))) for P in blocks]
        )

    @property
    def null_groups(self) -> IndexArray:
        """Groups of examples that agree in the null space of each pull cost, (c n,); see `PullCost.null_groups`."""
        return stacked_points([cost.null_groups for cost in self.pull_costs])

    @property
    def null_dimension(self) -> int:
        """Number of directions without cost, of all metrics."""
        return sum(cost.coordinates.null.shape[1] for cost in self.pull_costs)

    def whitened(self, components: FloatArray) -> FloatArray:
        """Return factors on `points`, (c, r, rank), of components."""
        rank, costs = self.rank, self.pull_costs
        factors = [cost.whitened(L) for cost, L in zip(costs, self.stack(components), strict=True)]
        return np.stack([np.pad(F, ((0, 0), (0, rank - F.shape[1]))) for F in factors])

    def lift(self, factors: FloatArray) -> FloatArray:
        """Return components in the data's own coordinates from factors on `points`.

        Null directions of the costs are added, scaled so that impostors of other groups lose their hinges.
        """
        costs = self.pull_costs
        components = [
            F[:, : cost.coordinates.rank] @ cost.coordinates.range.T
            for cost, F in zip(costs, self.stack(factors), strict=True)
        ]
        if self.push_weight and self.null_dimension:
            Z = self.embed(psd.stack(components))
            furthest = float(distances(Z, *self.push.point_pairs(*self.target_pairs)).max(initial=0.0))
            components = [
                np.concatenate([L, cost.separating_rows(furthest)]) for cost, L in zip(costs, components, strict=True)
            ]
        return self.squeeze(psd.stack(components))

    # -- the certificate ----------------------------------------------------------------------------------------------

    @cached
    def cones(self) -> list[DualCone]:
        """Where the dual slack of each metric is proven to be PSD."""
        return [DualCone(self.X, cost) for cost in self.pull_costs]

    @allow_underflow
    def certify(
        self, components: ArrayLike | None = None, *, metric: ArrayLike | None = None, dual: Multipliers | None = None
    ) -> DualityCertificate:
        """Certify any point; see `Problem.certify`.

        Multipliers ``a`` in their box, scaled so that ``C - sum a_t B_t`` is PSD, are dual feasible, and ``sum a_t`` is
        then below every objective. With several metrics the dual slack is block diagonal. Default: the (smoothed) hinge
        slopes at the point, the best of several widths. See ``docs/certificates.md``.
        """
        L, residual = self.check_point(components, metric)
        images = self._images(L, validation.given_metric(metric, residual))
        push, cones = self.push, self.cones
        at_point = self._push_sums(images, slopes=dual is None)
        objective = self._objective_above(L, images, at_point)
        del images  # as large as the data, and so are those of the cones
        candidates = [] if dual is None else [DualCandidate.of(push, check_triplet_multipliers(dual), cones)]
        proof = max(candidates or at_point.candidates(push, cones), key=lambda candidate: candidate.value)
        return DualityCertificate(
            objective=objective,
            lower_bound=proof.value,
            primal_residual=residual,
            n_active=at_point.n_active,
            program=self.title,
            rigor="float",
            resolution=self._resolution if proof.value == 0.0 else 0.0,
            weakness=next((cone.weakness for cone in cones if cone.weakness is not None), None),
            info={"dual_residual": proof.residual, "null_dimension": self.null_dimension},
        )

    def _images(self, components: FloatArray, metric: FloatArray | None) -> list[Images]:
        """Return the exact data under each metric; a given metric is meant in place of its factor."""
        factors = self.stack(components)
        metrics = [None] * len(factors) if metric is None else self.stack(metric)
        return [Images(self.X, self.centered, F.T, metric=M) for F, M in zip(factors, metrics, strict=True)]

    def _objective_above(self, components: FloatArray, images: Sequence[Images], at_point: PushSums) -> float:
        """Return a float not below the objective."""
        pulls = zip(self.pull_costs, self.stack(components), images, strict=True)
        cost = above(sum(pull.bound(F, image) for pull, F, image in pulls), self.n_regions)
        return above(cost + product_above(self.push.weight, sum_above(np.array(at_point.losses))), 3)

    @property
    def _resolution(self) -> float:
        """See `DualityCertificate`; 0 unless all triplets are pushed apart along directions that cost nothing.

        The infimum is 0 then, and rounding leaves a little of the objective of these directions.
        """
        source, separated = self.push.source, [cone.separated_groups for cone in self.cones]
        has_no_push = source.weight_and_count(separated, self.push.regions)[1] == 0
        return RESOLUTION * self.push.weight * source.smallest_weight if has_no_push else 0.0

    def _push_sums(self, images: Sequence[Images], *, slopes: bool) -> PushSums:
        """Return sums over all triplets: in closed form if every hinge is 1 or 0, else by a search."""
        push, cones, n = self.push, self.cones, len(self.X)
        sums = PushSums.none(push, [cone.rank for cone in cones], slopes=slopes)
        costs = zip(self.pull_costs, images, strict=True)
        furthest = np.max([image.distances(c.first, c.second)[1].max(initial=0.0) for c, image in costs])
        furthest_target = float(with_error(furthest, max(image.distance_error for image in images)))
        if not math.isfinite(furthest_target):  # hinges are no floats
            sums.losses.append(math.inf)
            return sums
        one_group = [np.zeros(n, dtype=np.int32)] * len(cones)
        for groups in (one_group, [cost.null_groups for cost in self.pull_costs]):
            if all(
                are_unit_hinges(image.points, group, furthest_target, float(image.errors.max(initial=0.0)))
                for image, group in zip(images, groups, strict=True)
            ):
                sums.add_unit_hinges(push, cones, furthest_target, groups)
                return sums
        sums.add_by_search(push, images, cones)
        return sums

    def feasible_dual(self, dual: Dual) -> Dual:
        """Repair multipliers as `certify` does: scaled to prove the most, in their box, with ``S(a)`` PSD.

        Parameters
        ----------
        dual : Dual
            Multipliers of foreign triplets become 0; positive multipliers are returned. Their sum, minus ``sum a^2
            / (4 mu w)`` for the squared hinge, is the bound of `certify`.
        """
        return DualCandidate.of(self.push, dual, self.cones).feasible()

    def caution(self, components: NDArray[np.floating], certificate: Certificate) -> str | None:
        """See `Problem.caution`: also directions without pull cost, an objective of 0, and too few examples."""
        warning = super().caution(components, certificate)
        if warning:
            return warning
        source, groups = self.push.source, [cost.null_groups for cost in self.pull_costs]
        weight, total = source.weight_and_count(groups, self.push.regions)[0], source.total_weight
        sizes = [cost.sample_size for cost in self.pull_costs]
        separated = 1.0 - weight / total if total and self.push_weight else 0.0
        return caution(certificate, sizes, self.ridge, separated)

    def proof(self, components: FloatArray, dual: Multipliers | None) -> Proof:
        """Return what a point and multipliers prove, for `Solution.save_proof`."""
        if dual is None:
            raise ValueError("there is no proof to write: this solution has no multipliers; use another solver.")
        feasible = self.feasible_dual(check_triplet_multipliers(dual))
        objective = self.certify(components, dual=dual).objective
        return written.of_dual(self.push, self.ridge, feasible, objective, self.stack(components))

    def constraints(self, components: FloatArray, dual: Multipliers | None) -> Constraints:
        """Return the violated triplets and those with a positive multiplier; see `Constrained.constraints`."""
        push, source, Z = self.push, self.push.source, self.embed(components)
        active = Triplets.join(*[block.triplets(slopes)[0] for _, block, slopes in push.hinges(Z)])
        loss = SquaredHinge() if push.squared else Hinge()
        if dual is None:
            dual = Dual(active, Weighted(loss, push.ceilings(active)).slopes(1.0 - push.margins(Z, active)))
        feasible = self.feasible_dual(check_triplet_multipliers(dual))
        triplets = Triplets.join(active, feasible.triplets)
        _, first, inverse = np.unique(triplets.keys(len(self.X)), return_index=True, return_inverse=True)
        T, values = triplets[first], np.concatenate([np.zeros(len(active)), feasible.values])
        impostor_D, target_D = (distances(Z, *push.point_pairs(T.anchors, rows)) for rows in (T.impostors, T.targets))
        excess, weights = 1.0 - (impostor_D - target_D), source.weights_of(T)
        pull = float(distances(Z, *push.point_pairs(*self.target_pairs)) @ source.target_weights())
        trace, hinges = float(np.sum(components**2)), float(Weighted(loss, weights).values(excess).sum())
        return Constraints(
            dual=feasible,
            roles={"anchor": T.anchors, "target": T.targets, "impostor": T.impostors},
            multipliers=np.bincount(inverse.ravel(), values, minlength=len(first)).astype(np.float64),
            excess=excess,
            loss=Weighted(loss, push.weight * weights),
            stretch=[(T.anchors, T.impostors, impostor_D), (T.anchors, T.targets, -target_D)],
            weights=weights,
            sums={"pull": pull, "push": hinges, "trace": trace},
            slopes={"push_weight": hinges - pull, "ridge": trace},
            margin=True,
        )


@dataclass(eq=False, repr=False)
class LMNNProblem(LargeMarginProblem):
    """LMNN as a convex program (Weinberger and Saul 2009, Eq. 14) [WS2009].

    Minimize over PSD matrices M, with ``D`` the squared distance under M and ``mu`` the push weight::

        (1 - mu) sum_{i, j~>i} w_i D(i, j)  +  mu sum_{i, j~>i, l} w_ijl h(1 + D(i, j) - D(i, l))  +  ridge trace(M)

    with h the hinge or its square. Make one with `from_labels` or `from_triplets`. With further terms, such as a
    Frobenius term, it is a sum: see `MetricProblem`.

    Attributes
    ----------
    X : (n, d) array
        The data, float64 or float32.
    source : TripletSource
        The triplets, listed or implied by labels.
    push_weight : float
        ``mu``, in [0, 1].
    ridge : float
        Weight of the trace term, >= 0.
    loss : {"hinge", "squared_hinge"}
    classes : array or None
        Sorted class labels, for a problem made from labels.
    search : {"auto", "brute", "ball_tree"}
        How impostors are searched for; every choice is exact.

    See Also
    --------
    KernelLMNNProblem, MetricProblem, MultiMetricLMNNProblem, solve, sdpmetric.estimators.LMNN

    Examples
    --------
    >>> import sdpmetric as sm
    >>> problem = sm.LMNNProblem.from_labels(*sm.datasets.load("iris"), n_neighbors=3, push_weight=0.5)
    >>> solution = sm.solve(problem, tol=1e-3)
    >>> solution.status.word, solution.certificate.kind
    ('optimal', 'duality')
    >>> solution.lower_bound <= solution.objective
    True
    >>> solution.components.shape[1], solution.metric.shape
    (4, (4, 4))
    """

    statement: ClassVar[str] = "lmnn"

    X: NDArray[np.floating]
    source: TripletSource
    push_weight: float = 0.5
    ridge: float = 0.0
    loss: Loss = "hinge"
    classes: NDArray[np.generic] | None = field(default=None, metadata=NOT_STATED)
    search: SearchMethod = field(default="auto", metadata=NOT_STATED)

    def __post_init__(self) -> None:
        validation.check_made(type(self).__name__, "source", self.source, "target_pairs")
        self.source.check(len(self.X))

    @classmethod
    def from_labels(
        cls,
        X: ArrayLike,
        y: ArrayLike,
        n_neighbors: int = 3,
        push_weight: float = 0.5,
        *,
        target_neighbors: ArrayLike | sp.sparray | sp.spmatrix | None = None,
        ridge: Ridge = 0.0,
        loss: Loss = "hinge",
        search: SearchMethod = "auto",
        sample_weight: ArrayLike | None = None,
    ) -> LMNNProblem:
        """State LMNN for labeled data.

        Parameters
        ----------
        X : (n, d) array
            Finite numbers; float32 stays float32, everything else becomes float64.
        y : (n,) array
            Class labels of any kind; at least two classes.
        n_neighbors : int, default 3
            Target neighbors per example: Euclidean, within the class, itself left out; distances that agree to a
            relative 1e-9 are tied, ties go to the lowest index. Every class needs more members than this.
        push_weight : float, default 0.5
            ``mu`` in ``(1 - mu) pull + mu push``; between 0 and 1, and 1 only with a positive `ridge`.
        target_neighbors : (n, k) integer array or (n, n) sparse array, optional
            Target neighbors to use instead: row numbers, padded with -1, or a graph with the pairs as stored entries.
        ridge : float or "auto", default 0
            Weight of ``trace(M)``. "auto": ``(r / n)^2`` times the mean pull cost of a direction, for n examples that
            vary in r directions: little if there are many examples, and enough if there are few.
        loss : {"hinge", "squared_hinge"}, default "hinge"
        search : {"auto", "brute", "ball_tree"}, default "auto"
            Impostor search, exact in every case.
        sample_weight : (n,) array, optional
            Weights of the examples, nonnegative; default 1. A weight of 2 counts as a second copy of the example, as
            anchor and as impostor, with the same target neighbors: pulls are weighed by ``w_i``, hinges by
            ``w_i w_l``. Target neighbors are chosen without weights.

        Raises
        ------
        ValueError
            If there is only one class, a class is too small, target neighbors are out of range
            or of another class, or a weight is out of range.
        """
        data = validation.check_examples(X)
        classes, index = validation.check_labels(y, len(data))
        if target_neighbors is None:
            validation.check_class_sizes(classes, index, n_neighbors)
            targets = pairs.target_neighbors(np.asarray(data, dtype=np.float64), index, int(n_neighbors))
        else:
            targets = validation.check_target_neighbors(target_neighbors, index)
        weights = check_sample_weight(sample_weight, len(data))
        source = LabeledTriplets.weighted(targets, index, weights)
        return cls(data, source, push_weight, 0.0, loss, classes, search)._checked(ridge)

    @classmethod
    def from_triplets(
        cls,
        X: ArrayLike,
        triplets: ArrayLike | Triplets,
        weights: ArrayLike | None = None,
        push_weight: float = 0.5,
        *,
        ridge: Ridge = 0.0,
        loss: Loss = "hinge",
    ) -> LMNNProblem:
        """State LMNN for an explicit list of triplets.

        Parameters
        ----------
        X : (n, d) array
        triplets : (t, 3) integer array or Triplets
            Columns anchor, target, impostor: row numbers of X. Repeated triplets add up their weights.
        weights : (t,) array, optional
            Nonnegative weights of the hinges; default 1. The pull term counts each (anchor, target) once.
        push_weight, ridge, loss
            As in `from_labels`.
        """
        data = validation.check_examples(X)
        checked = validation.check_triplets(triplets, len(data))
        values = (
            np.ones(len(checked)) if weights is None else check_weights("weights", weights, len(checked), "triplet")
        )
        source = ListedTriplets.from_triplets(checked, values)
        return cls(data, source, push_weight, 0.0, loss)._checked(ridge)

    def _checked(self, ridge: Ridge | None = None) -> Self:
        mu = validation.check_share("push_weight", self.push_weight)
        ridge = self.ridge if ridge is None else ridge
        if isinstance(ridge, str):
            ridge = replace(self, push_weight=mu).pull_cost.sample_size.ridge(ridge)
        ridge = validation.check_weight("ridge", ridge)
        if mu == 1.0 and ridge == 0.0:
            raise ValueError("push_weight=1 leaves nothing to minimize but hinges; pass a positive ridge with it.")
        validation.check_choice("loss", self.loss, ("hinge", "squared_hinge"))
        validation.check_choice("search", self.search, ("auto", "brute", "ball_tree"))
        return replace(self, push_weight=mu, ridge=ridge)

    def with_weights(self, **values: float) -> Self:
        """State LMNN with another `push_weight` or `ridge`; see `Problem.with_weights`."""
        return super().with_weights(**values)._checked()

    # -- the statement ------------------------------------------------------------------------------------------

    def as_sum(self) -> MetricProblem:
        """State the same as a sum of terms with listed triplets.

        Parts of a sum have names and weights, and a sum takes further terms, other losses and domains. Its solvers are
        slower from about 50,000 triplets, because they list them all.

        Returns
        -------
        MetricProblem
            ``(1 - push_weight) * Pull + push_weight * TripletHinge + ridge * Trace``, without terms of weight 0.

        Raises
        ------
        ValueError
            If there are more than 8,000,000 triplets, or no term costs anything.

        Examples
        --------
        >>> import sdpmetric as sm
        >>> X, y = [[0.0, 0.0], [1.0, 0.0], [0.0, 2.0], [1.0, 2.0]], [0, 0, 1, 1]
        >>> problem = sm.LMNNProblem.from_labels(X, y, n_neighbors=1)
        >>> problem.as_sum()
        <0.5 pull over 4 pairs + 0.5 hinge over 8 triplets: 4 examples, 2 features>
        """
        source, mu = self.source, self.push_weight
        pull = Pull(np.stack(self.target_pairs, axis=1), source.target_weights(), weight=1.0 - mu)
        if isinstance(source, LabeledTriplets) and source.example_weights is None and (source.targets >= 0).all():
            labels, targets = source.labels, source.targets
            push = TripletHinge(labels=labels, target_neighbors=targets, loss=self.loss, weight=mu)
        else:
            if isinstance(source, LabeledTriplets):
                triplets = labeled_triplets("as_sum", source.labels, source.targets)
            else:
                triplets = list_triplets(source.candidates)
            push = TripletHinge(triplets, loss=self.loss, weights=source.weights_of(triplets), weight=mu)
        return MetricProblem(self.X, pull + push + Trace(weight=self.ridge))

    @property
    def tied(self) -> LMNNProblem:
        return self

    @cached
    def push(self) -> Push:
        one_region = np.zeros(len(self.X), dtype=np.int32)
        return Push(self.X, self.source, self.push_weight, self.loss == "squared_hinge", self.search, one_region)

    def squeeze(self, matrices: FloatArray) -> FloatArray:
        """Return components, (r, d), from (1, r, d)."""
        single: FloatArray = matrices[0]
        return single

    @property
    def pull_cost(self) -> PullCost:
        """The linear part ``<C, M>`` of the objective."""
        return self.pull_costs[0]

    @property
    def coordinates(self) -> psd.Whitening:
        """Coordinates that make the cost ``C`` the identity on its range; null directions come last."""
        return self.pull_cost.coordinates
