"""Maximally collapsing metric learning (MCML): the statement, its objective, and its certificate."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist
from scipy.special import entr, logsumexp

from sdpmetric.core import validation
from sdpmetric.core.certificate import Certificate, DualityCertificate
from sdpmetric.core.multipliers import Multipliers
from sdpmetric.core.problem import SmoothProblem
from sdpmetric.linalg import psd
from sdpmetric.linalg.distances import distances
from sdpmetric.linalg.rigorous import (
    ACCURACY,
    Images,
    above,
    distributions,
    entropies,
    gamma,
    log_bounds,
    log_sum_exp,
    sum_above,
    sum_below,
)
from sdpmetric.problems.dual_cone import DualCone
from sdpmetric.problems.pull import PullCost
from sdpmetric.problems.well_posed import Spread, caution

FloatArray = NDArray[np.float64]

# Forms of at most so many pairs are made as accurate as they can be.
FEW_PAIRS = 100_000
# Multiples of the mean cost that are added to the metric for dual candidates inside the cone.
SHARPENINGS = (0.01, 0.1, 1.0, 10.0, 100.0)
# Newton steps tried before those, in multiples of the dual infeasibility; steps and accuracy of conjugate gradients.
NEWTON_STEPS = (1.2, 4.0, 16.0, 64.0)
CG_STEPS, CG_ACCURACY = 40, 0.05
# Beyond this the exponential is zero in double precision.
UNDERFLOW = 750.0
# An objective below this share of that of the zero metric is rounding error.
ZERO = 1e-14


@dataclass(frozen=True, init=False, eq=False, repr=False)
class MCMLProblem(SmoothProblem):
    """MCML as a convex program (Globerson and Roweis 2006) [GR2006].

    With ``p0(j | i)`` uniform over the other members of i's class, minimize over PSD matrices M::

        sum_i KL(p0(. | i) || p(. | i)),      p(j | i) = exp(-D(i, j)) / sum_{k != i} exp(-D(i, k))

    where ``D`` is the squared distance under M. Time and memory are quadratic in the number of examples.

    Parameters
    ----------
    X : (n, d) array
        Finite numbers; float32 stays float32, everything else becomes float64.
    y : (n,) array
        Class labels of any kind; at least two classes, each with at least two members.

    Attributes
    ----------
    X : (n, d) array
    index : (n,) int32 array
        Class of each example.
    classes : array
        Sorted class labels.

    Raises
    ------
    ValueError
        If the data are not finite, or there is one class only, or a class with one member.
    """

    statement: ClassVar[str] = "mcml"
    refusals: ClassVar[Mapping[str, str]] = {
        "explain": (
            "it has no constraints that a metric could violate, only a softmax over all examples; for multipliers of "
            "triplets state the same labels as an LMNNProblem."
        )
    }

    X: NDArray[np.floating]
    index: NDArray[np.int32]
    classes: NDArray[np.generic]

    def __init__(self, X: ArrayLike, y: ArrayLike) -> None:
        data = validation.check_examples(X)
        classes, index = validation.check_labels(y, len(data))
        counts = np.bincount(index)
        if counts.min() == 1:
            raise ValueError(
                f"class {classes.tolist()[counts.argmin()]!r} has one member; MCML "
                "needs at least two of each class: merge or drop such classes."
            )
        for name, value in (("X", data), ("index", index), ("classes", classes)):
            object.__setattr__(self, name, value)

    @classmethod
    def from_labels(cls, X: ArrayLike, y: ArrayLike) -> MCMLProblem:
        """State MCML for labelled data, the same as the constructor."""
        return cls(X, y)

    # -- the statement ------------------------------------------------------------------------------------------

    def describe(self) -> str:
        """Say in one sentence what is minimised, over how much data."""
        return (
            f"MCML (Globerson and Roweis 2006): {self.X.shape[0]:,} examples, {self.X.shape[1]} features, "
            f"{len(self.classes)} classes"
        )

    @cached_property
    def ideal(self) -> FloatArray:
        """The ideal distribution ``p0(j | i)``, (n, n), rows sum to 1."""
        same = (self.index[:, None] == self.index[None, :]).astype(np.float64)
        np.fill_diagonal(same, 0.0)
        return np.asarray(same / same.sum(axis=1, keepdims=True))

    @cached_property
    def mates(self) -> FloatArray:
        """How many other members the class of each example has, (n,)."""
        return np.asarray(np.bincount(self.index)[self.index] - 1.0, dtype=np.float64)

    @cached_property
    def ideal_entropy(self) -> float:
        """The sum over i of the entropy of ``p0(. | i)``."""
        return float(np.log(self.mates).sum())

    def caution(self, components: FloatArray, certificate: Certificate) -> str | None:
        """See `Problem.caution`: also too few examples."""
        n, varying = len(self.X), int(self.centered.any(axis=0).sum())
        spread, remedy = Spread(n, min(varying, n - 1), lambda: 0.0), "learn by LMNN, which has a ridge"
        return super().caution(components, certificate) or caution(certificate, [spread], 0.0, remedy=remedy)

    def objective(self, components: ArrayLike | None = None, *, metric: ArrayLike | None = None) -> float:
        """The sum over all examples of the divergence KL(p0 || p).

        Parameters
        ----------
        components : (r, d) array, optional
            Factor L of the metric.
        metric : (d, d) array, optional
            The metric itself; exactly one of the two.
        """
        L, _ = validation.check_point(components, metric, self.X.shape[1])
        return self._value(self._distances(self.centered @ L.T))

    def _distances(self, Z: FloatArray) -> FloatArray:
        D: FloatArray = cdist(Z, Z, "sqeuclidean") if Z.shape[1] else np.zeros((len(Z), len(Z)))
        np.fill_diagonal(D, np.inf)  # no example chooses itself
        return D

    def _value(self, D: FloatArray) -> float:
        pull = np.where(self.ideal > 0, D, 0.0)
        # Beside the nearest pull, so that small divergences keep their digits.
        nearest = np.where(self.ideal > 0, D, np.inf).min(axis=1)
        partition = logsumexp(nearest[:, None] - D, axis=1)
        value = float((self.ideal * (pull - nearest[:, None])).sum()) + float(partition.sum()) - self.ideal_entropy
        return value if value > ZERO * len(D) * math.log(len(D)) else 0.0

    def distribution(self, components: FloatArray) -> FloatArray:
        """The probabilities ``p(j | i)`` under a metric, (n, n), rows sum to 1, 0 on the diagonal."""
        return _softmax(self._distances(self.centered @ components.T))

    # -- coordinates for solvers: there the pull of p0 is the identity ------------------------------------------------

    @cached_property
    def pull_cost(self) -> PullCost:
        """``sum p0(j | i) D_M(i, j)``."""
        first, second = (ends.astype(np.int32) for ends in np.nonzero(np.triu(self.ideal)))
        return PullCost(self.centered, first, second, 1.0, 0.0, pair_weights=2.0 / self.mates[first])

    @property
    def coordinates(self) -> psd.Whitening:
        """Coordinates in which ``sum p0(j | i) v_ij v_ij^T`` is the identity on its range."""
        return self.pull_cost.coordinates

    @cached_property
    def cone(self) -> DualCone:
        """Proves ``sum (p0 - q) v v^T`` positive semidefinite."""
        return DualCone(self.X, self.pull_cost)

    @cached_property
    def points(self) -> FloatArray:
        """The data in the range of that pull, whitened, (n, rank)."""
        return np.ascontiguousarray(self.centered @ self.coordinates.range)

    @property
    def null_groups(self) -> NDArray[np.int32]:
        """Null group of each example, (n,): classes that coincide in the null space share a group."""
        return self.pull_cost.null_groups

    @cached_property
    def _separated(self) -> NDArray[np.bool_]:
        """Pairs of different null groups, and every example with itself: their probability may vanish."""
        return _different(self.null_groups)

    def start(self) -> FloatArray:
        """Starting factor in whitened coordinates, (rank, rank): targets cost one unit each on average."""
        rank = self.coordinates.rank
        return math.sqrt(len(self.X) / max(rank, 1)) * np.eye(rank)

    def smooth(self, factor: FloatArray) -> tuple[float, FloatArray]:
        """The objective without pairs of different null groups, at a factor on `points`, and its gradient."""
        D = self._distances(self.points @ factor.T)
        D[self._separated] = np.inf
        q = _softmax(D)
        return self._value(D), 2 * factor @ (np.eye(len(factor)) - self._pull(q))

    def lift(self, factor: FloatArray) -> FloatArray:
        """Components in the data's own coordinates from a factor on `points`.

        Null directions are added, scaled so that the probabilities of examples that differ there vanish.
        """
        L = factor @ self.coordinates.range.T
        pull = self.pull_cost
        within = float(distances(self.centered @ L.T, pull.first, pull.second).max())
        return np.concatenate([L, pull.separating_rows(within + UNDERFLOW)])

    def _pull(self, q: FloatArray) -> FloatArray:
        """``sum q(j | i) v_ij v_ij^T`` on `points`."""
        W = q + q.T
        A = self.points.T @ (W.sum(axis=1)[:, None] * self.points - W @ self.points)
        return psd.symmetrize(A)

    # -- the certificate --------------------------------------------------------------------------------------------

    def multipliers(self, components: FloatArray) -> FloatArray:
        """The dual candidate of a point: its own probabilities."""
        return self.distribution(components)

    def certify(
        self, components: ArrayLike | None = None, *, metric: ArrayLike | None = None, dual: Multipliers | None = None
    ) -> DualityCertificate:
        """Certify any point.

        The lower bound is ``sum_i H(q_i) - sum_i H(p0_i)`` for distributions q with ``sum (p0 - q) v v^T`` PSD, H the
        entropy. Given distributions are clipped, normalized, and mixed with strictly dual feasible ones until they are
        dual feasible. See ``docs/mcml.md``.

        Parameters
        ----------
        components : (r, d) array, optional
            Factor L of the metric.
        metric : (d, d) array, optional
            The metric itself; exactly one of the two.
        dual : (n, n) array, optional
            Distributions ``q(j | i)`` in rows; default: those of the point.

        Returns
        -------
        DualityCertificate

        Raises
        ------
        ValueError
            If the point has the wrong shape, is not finite, or is not PSD, or the dual is not a finite (n, n) array.
        """
        L, primal_residual = validation.check_point(components, metric, self.X.shape[1])
        D = self._distances(self.centered @ L.T)
        objective = self._highest(L)
        q, violation = self._checked(_softmax(D) if dual is None else np.asarray(dual, dtype=np.float64))
        bound, q, cone_violation = self._bound(q, L @ self.coordinates.inverse[: self.coordinates.rank].T)
        D[~np.isfinite(D)] = 0.0
        aligned = float(((self.ideal - q) * np.where(self._separated & (q == 0), 0.0, D)).sum())
        return DualityCertificate(
            constraints="examples",
            objective=objective,
            lower_bound=bound,
            primal_residual=primal_residual,
            dual_residual=max(violation, cone_violation),
            complementarity=abs(aligned) / max(1.0, objective),
            n_active=int(np.count_nonzero(q)),
            null_dimension=self.coordinates.null.shape[1],
            program="MCML",
            resolution=ZERO * len(D) * math.log(len(D)),
            weakness=self.cone.weakness,
        )

    def _highest(self, components: FloatArray) -> float:
        """A float not below the objective of exact components."""
        images, n = Images.of(self.X, self.centered, components.T), len(self.X)
        low, high = np.empty((n, n)), np.empty((n, n))
        for i in range(n):
            low[i], high[i] = images.distances(np.full(n, i, dtype=np.int32), np.arange(n, dtype=np.int32))
        np.fill_diagonal(low, np.inf)
        np.fill_diagonal(high, np.inf)
        pulls = np.where(self.ideal > 0, high, 0.0).sum(axis=1) / self.mates * (1.0 + gamma(n + 4))
        parts = [pulls, log_sum_exp(-high, -low)[1], -log_bounds(self.mates)[0]]
        return max(0.0, sum_above(np.concatenate(parts)))

    def _checked(self, q: FloatArray) -> tuple[FloatArray, float]:
        """Distributions on pairs that the dual cone allows, and the largest change."""
        n = len(self.X)
        if q.shape != (n, n) or not np.isfinite(q).all():
            raise ValueError(f"dual must be a finite ({n}, {n}) array of probabilities, got shape {q.shape}.")
        projected = np.where(self._apart, 0.0, np.maximum(q, 0.0))
        projected = distributions(np.where(projected.any(axis=1, keepdims=True), projected, self.ideal))
        return projected, float(np.abs(projected - q).max(initial=0.0))

    @cached_property
    def _apart(self) -> NDArray[np.bool_]:
        """Pairs that distributions must leave out for a proof, and every example with itself."""
        return self._separated | _different(self.cone.groups)

    def _top(self, q: FloatArray) -> float:
        """An upper bound of the largest eigenvalue of ``sum q v v^T`` against that of p0, by `DualCone.top`.

        Parameters
        ----------
        q : (n, n) array
            Within two roundings of exact distributions.
        """
        W = np.triu(q + q.T)
        first, second = (ends.astype(np.int32) for ends in np.nonzero(W))
        accuracy = ACCURACY if len(first) <= FEW_PAIRS else np.inf
        return self.cone.top(self.cone.images.form(first, second, W[first, second], roundings=3, accuracy=accuracy))

    def _entropy(self, q: FloatArray, roundings: int) -> float:
        """A float not above the entropies of exact distributions less those of p0."""
        return sum_below(np.concatenate([entropies(q, roundings)[0], -log_bounds(self.mates)[1]]))

    def _bound(self, q: FloatArray, factor: FloatArray) -> tuple[float, FloatArray, float]:
        """The lower bound of dual feasible distributions near q, these distributions, and the infeasibility of q.

        Candidates are compared in floats; the best is proven.
        """
        top = self._top(q)
        if top <= 1.0:
            bound = self._entropy(q, 2)
            return (bound, q, 0.0) if bound > 0 else (0.0, self.ideal, 0.0)
        best, chosen, mixing = 0.0, self.ideal, False
        for inner in self._inner_candidates(q, factor, top - 1.0) if math.isfinite(top) else ():
            slack = 1.0 - psd.largest_eigenvalue(self._pull(inner))
            if slack <= 0.0:
                continue
            # lambda_max is convex: this mixture is at most 1.
            share = (top - 1.0) / (top - 1.0 + slack)
            for mixed in (True, False):
                bound = float(entr((1 - share) * q + share * inner if mixed else inner).sum()) - self.ideal_entropy
                if bound > best:
                    best, chosen, mixing = bound, inner, mixed
        inner = distributions(np.where(self._apart, 0.0, chosen))
        inside = self._top(inner) if best > 0.0 else math.inf
        if not inside <= 1.0:
            return 0.0, self.ideal, top - 1.0
        if mixing:
            share = min(1.0, above((top - 1.0) / (top - inside), 4))
            inner = (1.0 - share) * q + share * inner
        bound = self._entropy(inner, 6)
        return (bound, inner, top - 1.0) if bound > 0.0 else (0.0, self.ideal, top - 1.0)

    def _inner_candidates(self, q: FloatArray, factor: FloatArray, excess: float) -> Iterator[FloatArray]:
        """Candidates for strictly dual feasible distributions: Newton steps from q, and softmaxes of larger metrics."""
        change = self._newton_change(q)
        distances = np.einsum("ij,ij->i", self.points @ change, self.points)
        changes = distances[:, None] + distances[None, :] - 2 * self.points @ change @ self.points.T
        with np.errstate(divide="ignore"):
            D = -np.log(q)
        for multiple in NEWTON_STEPS:
            yield _softmax(D + multiple * excess * changes)
        scale = math.sqrt(len(self.X) / max(1, self.coordinates.rank))
        for sharpening in SHARPENINGS:
            sharper = np.concatenate([factor, math.sqrt(sharpening) * scale * np.eye(factor.shape[1])])
            D = self._distances(self.points @ sharper.T)
            D[self._separated] = np.inf
            yield _softmax(D)

    def _newton_change(self, q: FloatArray) -> FloatArray:
        """The change of the metric that reduces the pull of q by the identity to first order, by conjugate gradients.

        Where q belongs to a metric this is the Newton step for a gradient of minus the identity.
        """
        Y = self.points
        change, residual = np.zeros((Y.shape[1], Y.shape[1])), np.eye(Y.shape[1])
        direction, size = residual.copy(), float(np.sum(residual**2))
        for _ in range(CG_STEPS):
            form = Y @ direction
            squares = np.einsum("ij,ij->i", form, Y)
            D = squares[:, None] + squares[None, :] - 2 * form @ Y.T
            image = self._pull(q * (D - (q * D).sum(axis=1, keepdims=True)))
            curvature = float(np.sum(direction * image))
            if curvature <= 0.0:
                break
            change = change + (size / curvature) * direction
            residual = residual - (size / curvature) * image
            size, before = float(np.sum(residual**2)), size
            if size <= CG_ACCURACY**2 * len(residual):
                break
            direction = residual + (size / before) * direction
        return change


def _different(groups: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Which pairs are of different groups, or of an example with itself."""
    different: NDArray[np.bool_] = groups[:, None] != groups[None, :]
    np.fill_diagonal(different, True)
    return different


def _softmax(D: FloatArray) -> FloatArray:
    q: FloatArray = np.exp(D.min(axis=1, keepdims=True) - D)
    q /= q.sum(axis=1, keepdims=True)
    return q
