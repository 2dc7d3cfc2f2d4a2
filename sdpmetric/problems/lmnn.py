"""Large margin nearest neighbor (LMNN): the statement, its objective, and its certificate."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import ClassVar, Literal, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from sdpmetric.arrays import FloatArray, IndexArray
from sdpmetric.bounds.dual_cone import DualCone
from sdpmetric.bounds.pull import PullCost
from sdpmetric.bounds.push import Push
from sdpmetric.bounds.well_posed import Ridge, caution
from sdpmetric.core import validation
from sdpmetric.core.certificate import Certificate, DualityCertificate
from sdpmetric.core.constraints import Constraints
from sdpmetric.core.digest import NOT_STATED
from sdpmetric.core.multipliers import Dual, Multipliers
from sdpmetric.core.problem import Problem
from sdpmetric.core.proof import Proof
from sdpmetric.core.sample_weight import check_sample_weight
from sdpmetric.linalg import psd
from sdpmetric.linalg.distances import distances
from sdpmetric.problems import lmnn_certificate, proofs
from sdpmetric.triplets import neighbors
from sdpmetric.triplets.impostors import SearchMethod
from sdpmetric.triplets.listed import ListedTriplets
from sdpmetric.triplets.sources import LabeledTriplets, TripletSource
from sdpmetric.triplets.triplets import Candidates, Triplets

Loss = Literal["hinge", "squared_hinge"]


@dataclass(frozen=True, eq=False, repr=False)
class LMNNProblem(Problem):
    """LMNN as a convex program (Weinberger and Saul 2009, Eq. 14) [WS2009].

    Minimize over PSD matrices M, with ``D`` the squared distance under M and ``mu`` the push weight::

        (1 - mu) sum_{i, j~>i} w_i D(i, j)  +  mu sum_{i, j~>i, l} w_ijl h(1 + D(i, j) - D(i, l))  +  ridge trace(M)

    where h is the hinge or its square. Make one with `from_labels` or `from_triplets`.

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
    """

    statement: ClassVar[str] = "lmnn"
    weights: ClassVar[tuple[str, ...]] = ("push_weight", "ridge")

    X: NDArray[np.floating]
    source: TripletSource
    push_weight: float = 0.5
    ridge: float = 0.0
    loss: Loss = "hinge"
    classes: NDArray[np.generic] | None = field(default=None, metadata=NOT_STATED)
    search: SearchMethod = field(default="auto", metadata=NOT_STATED)

    def __post_init__(self) -> None:
        super().__post_init__()
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
        """State LMNN for labelled data.

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
            Target neighbors to use instead: row numbers, or a graph whose stored entries are the pairs.
        ridge : float or "auto", default 0
            Weight of ``trace(M)``. "auto": ``(r / n)^2`` times the mean pull cost of a direction, for n examples that
            vary in r directions: little where examples are many, and enough where they are few.
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
            If the data are not finite, there is one class only, a class is too small, target neighbors are out of
            range or foreign, or a weight is out of range.
        """
        data = validation.check_examples(X)
        classes, index = validation.check_labels(y, len(data))
        if target_neighbors is None:
            validation.check_class_sizes(classes, index, n_neighbors)
            targets = neighbors.target_neighbors(np.asarray(data, dtype=np.float64), index, int(n_neighbors))
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
        checked, values = validation.check_triplets(triplets, weights, len(data))
        return cls(data, ListedTriplets.from_triplets(checked, values), push_weight, 0.0, loss)._checked(ridge)

    def _checked(self, ridge: Ridge | None = None) -> Self:
        mu = validation.check_number("push_weight", self.push_weight, 0.0, 1.0)
        asked = self.ridge if ridge is None else ridge
        if isinstance(asked, str):
            asked = replace(self, push_weight=mu).pull_cost.sample_size.ridge(asked)
        ridge = validation.check_number("ridge", asked, 0.0)
        if mu == 1.0 and ridge == 0.0:
            raise ValueError("push_weight=1 leaves nothing to minimise but hinges; pass a positive ridge with it.")
        if self.loss not in ("hinge", "squared_hinge"):
            raise ValueError(f"loss must be 'hinge' or 'squared_hinge', got {self.loss!r}.")
        if self.search not in ("auto", "brute", "ball_tree"):
            raise ValueError(f"search must be 'auto', 'brute' or 'ball_tree', got {self.search!r}.")
        return replace(self, push_weight=mu, ridge=ridge)

    def with_weights(self, **values: float) -> Self:
        """State the same problem with another `push_weight` or `ridge`; see `Problem.with_weights`."""
        return super().with_weights(**values)._checked()

    # -- the statement ------------------------------------------------------------------------------------------

    def describe(self) -> str:
        """Say in one sentence what is minimised, over how much data."""
        classes = "" if self.classes is None else f", {len(self.classes)} classes"
        ridge = f", ridge {self.ridge:g}" if self.ridge else ""
        return (
            f"LMNN (Weinberger and Saul 2009, Eq. 14): {self.X.shape[0]:,} examples, {self.X.shape[1]} features"
            f"{classes}, {len(self.target_pairs[0]):,} target pairs, {self.source.size:,} triplets; "
            f"push weight {self.push_weight:g}, {self.loss.replace('_', ' ')}{ridge}"
        )

    @property
    def squared(self) -> bool:
        """Whether the loss is the squared hinge."""
        return self.loss == "squared_hinge"

    @property
    def row_labels(self) -> NDArray[np.generic] | None:
        """The label of each example, (n,); None for a problem made from triplets."""
        if self.classes is None or not isinstance(self.source, LabeledTriplets):
            return None
        return self.classes[self.source.labels]

    @cached_property
    def target_pairs(self) -> tuple[IndexArray, IndexArray]:
        """The (anchor, target) pairs of the pull term, each once."""
        return self.source.target_pairs()

    def embed(self, components: FloatArray) -> FloatArray:
        """Embedded points ``X @ L.T``, centered, float64."""
        return self.centered @ components.T

    def cost(self, components: FloatArray, Z: FloatArray) -> float:
        """The linear part ``<C, M>``: pull and trace."""
        return self.pull_cost.value(components, Z)

    def objective(self, components: ArrayLike | None = None, *, metric: ArrayLike | None = None) -> float:
        """Evaluate the objective over all triplets (Weinberger and Saul 2009, Eq. 14); see `Problem.objective`."""
        L, _ = validation.check_point(components, metric, self.X.shape[1])
        Z = self.embed(L)
        return self.cost(L, Z) + self.push_weight * self.push.loss(Z)

    def partial_objective(self, Z: FloatArray, components: FloatArray, among: IndexArray) -> float:
        """The part of the objective that belongs to the given anchors, at embedded points Z."""
        anchors, targets = self.target_pairs
        own = np.isin(anchors, among)
        pull = float(distances(Z, anchors[own], targets[own]) @ self.pull_cost.scales[own])
        ridge = self.ridge * float(np.sum(components**2)) * len(among) / len(Z)
        return pull + ridge + self.push_weight * self.push.loss(Z, among)

    def _along(self, components: FloatArray) -> Callable[[float], float]:
        """Of at most 1000 anchors, evenly spread, with every example as a possible impostor."""
        Z = self.embed(components)
        among = np.unique(np.linspace(0, len(Z) - 1, min(1000, len(Z))).astype(np.int32))
        return lambda scale: self.partial_objective(scale * Z, scale * components, among)

    @cached_property
    def push(self) -> Push:
        """The hinges of the objective."""
        return Push(self.X, self.source, self.push_weight, self.squared, self.search)

    # -- coordinates for solvers: there C is the identity -----------------------------------------------------------

    @cached_property
    def pull_cost(self) -> PullCost:
        """The linear part ``<C, M>`` of the objective."""
        whitening, weights = vars(self).get("_whitening"), self.source.target_weights()
        return PullCost(self.centered, *self.target_pairs, 1 - self.push_weight, self.ridge, weights, whitening)

    def __getstate__(self) -> dict[str, object]:
        """The fields, and the coordinates, which all who work on the problem share; the rest is made again."""
        state = {part.name: getattr(self, part.name) for part in fields(self)}
        return state | ({"_whitening": self.coordinates} if {"pull_cost", "_whitening"} & vars(self).keys() else {})

    def caution(self, components: NDArray[np.floating], certificate: Certificate) -> str | None:
        """See `Problem.caution`: also directions without pull cost, an objective of 0, and too few examples."""
        total, (within, _) = self.source.total_weight, self.source.totals_within(self.null_groups)
        free = 1.0 - within / total if total and self.push_weight else 0.0
        zero = super().caution(components, certificate)
        return zero or caution(certificate, [self.pull_cost.sample_size], self.ridge, free)

    @cached_property
    def cone(self) -> DualCone:
        """Where dual slacks are proven to be PSD."""
        return DualCone(self.X, self.pull_cost)

    @property
    def coordinates(self) -> psd.Whitening:
        """Coordinates in which the cost ``C`` is the identity on its range; null directions come last."""
        return self.pull_cost.coordinates

    @property
    def points(self) -> FloatArray:
        """The data in the range of the cost, whitened, (n, rank): there ``<C, M>`` is ``trace(M)``."""
        return self.pull_cost.points

    @property
    def null_groups(self) -> IndexArray:
        """Groups of examples that agree in the null space of the pull cost, (n,); see `PullCost.null_groups`."""
        return self.pull_cost.null_groups

    def candidates(
        self,
        Z: NDArray[np.floating],
        *,
        widen: float = 0.0,
        among: IndexArray | None = None,
        most: float = math.inf,
    ) -> Candidates:
        """Search exhaustively for the triplets that can cost anything near a metric.

        Parameters
        ----------
        Z, widen, among
            As in `LabeledTriplets.near`.
        most : float, default infinity
            Candidate pairs that may be listed; `TooManyCandidates` is raised for more.
        """
        return self.push.candidates(Z, self.null_groups, widen=widen, among=among, most=most)

    def lift(self, whitened: FloatArray) -> FloatArray:
        """Components in the data's own coordinates from a factor on `points`.

        Null directions of the cost are added, scaled so that impostors of other groups lose their hinges.

        Parameters
        ----------
        whitened : (r, rank) array
        """
        L = whitened @ self.coordinates.range.T
        if self.push_weight == 0:
            return L
        furthest = distances(self.embed(L), *self.target_pairs).max(initial=0.0)
        return np.concatenate([L, self.pull_cost.separating_rows(float(furthest))])

    # -- the certificate --------------------------------------------------------------------------------------------

    def certify(
        self, components: ArrayLike | None = None, *, metric: ArrayLike | None = None, dual: Multipliers | None = None
    ) -> DualityCertificate:
        """Certify any point; see `Problem.certify`.

        Multipliers ``a`` in their box, scaled so that ``C - sum a_t B_t`` is PSD, are dual feasible, and ``sum a_t`` is
        then below every objective. Default: the (smoothed) hinge slopes at the point, the best of several widths. See
        ``docs/certificates.md``.
        """
        L, residual = self.check_point(components, metric)
        return lmnn_certificate.certificate(self, L, residual, dual, validation.given_metric(metric, residual))

    def feasible_dual(self, dual: Dual) -> Dual:
        """Repair multipliers as `certify` does: scaled to prove the most, in their box, with ``S(a)`` PSD.

        Parameters
        ----------
        dual : Dual
            Those of foreign triplets become 0; positive ones are returned. Their sum, less ``sum a^2 / (4 mu w)`` for
            the squared hinge, is the bound of `certify`.
        """
        return lmnn_certificate.candidate(self, dual).feasible()

    def constraints(self, components: FloatArray, dual: Multipliers | None) -> Constraints:
        """The violated triplets and those with a positive multiplier; see `Constrained.constraints`."""
        return lmnn_certificate.constraints(self, self.feasible_dual, components, dual)

    def proof(self, components: FloatArray, dual: Multipliers | None) -> Proof:
        """What a point and multipliers prove, for `Solution.save_proof`; see `sdpmetric.problems.proofs.lmnn`."""
        return proofs.lmnn(self, components, dual)
