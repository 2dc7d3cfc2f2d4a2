"""Maximally collapsing metric learning (MCML): the statement, its objective, and its certificate.

`terms.Collapse` states the same; it lists all pairs and takes three times as long, so this statement keeps its loops.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist
from scipy.special import logsumexp

from sdpmetric.core import validation
from sdpmetric.core.certificate import Certificate, DualityCertificate
from sdpmetric.core.multipliers import Multipliers
from sdpmetric.core.problem import SmoothProblem
from sdpmetric.core.sample_weight import check_sample_weight
from sdpmetric.linalg import psd
from sdpmetric.linalg.distances import distances
from sdpmetric.problems import mcml_certificate as judge
from sdpmetric.problems.dual_cone import DualCone
from sdpmetric.problems.pull import PullCost
from sdpmetric.problems.well_posed import SampleSize, caution

FloatArray = NDArray[np.float64]

# Beyond this the exponential is zero in double precision.
UNDERFLOW = 750.0


@dataclass(frozen=True, init=False, eq=False, repr=False)
class MCMLProblem(SmoothProblem):
    """MCML as a convex program (Globerson and Roweis 2006) [GR2006].

    With ``p0(j | i)`` uniform over the other members of i's class, minimize over PSD matrices M::

        sum_i w_i KL(p0(. | i) || p(. | i)),      p(j | i) = exp(-D(i, j)) / sum_{k != i} exp(-D(i, k))

    where ``D`` is the squared distance under M, and all weights w are 1 in the paper. Time and memory are quadratic in
    the number of examples.

    Parameters
    ----------
    X : (n, d) array
        Finite numbers; float32 stays float32, everything else becomes float64.
    y : (n,) array
        Class labels of any kind; at least two classes, each with at least two members.
    sample_weight : (n,) array, optional
        ``w``, nonnegative: the divergence of an example counts so many times. In ``p0`` and p all count alike.

    Attributes
    ----------
    X : (n, d) array
    index : (n,) int32 array
        Class of each example.
    classes : array
        Sorted class labels.
    sample_weight : (n,) array or None

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
    sample_weight: FloatArray | None

    def __init__(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> None:
        data = validation.check_examples(X)
        classes, index = validation.check_labels(y, len(data))
        counts = np.bincount(index)
        if counts.min() == 1:
            raise ValueError(
                f"class {classes.tolist()[counts.argmin()]!r} has one member; MCML "
                "needs at least two of each class: merge or drop such classes."
            )
        weights = check_sample_weight(sample_weight, len(data))
        for name, value in (("X", data), ("index", index), ("classes", classes), ("sample_weight", weights)):
            object.__setattr__(self, name, value)

    @classmethod
    def from_labels(cls, X: ArrayLike, y: ArrayLike, *, sample_weight: ArrayLike | None = None) -> MCMLProblem:
        """State MCML for labelled data, the same as the constructor."""
        return cls(X, y, sample_weight)

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
    def example_weights(self) -> FloatArray:
        """``w``, (n,)."""
        return np.ones(len(self.X)) if self.sample_weight is None else self.sample_weight

    @cached_property
    def ideal_entropy(self) -> float:
        """The weighted sum over i of the entropy of ``p0(. | i)``."""
        return float(self.example_weights @ np.log(self.mates))

    @cached_property
    def resolution(self) -> float:
        """An objective below it is rounding error."""
        return judge.ZERO * float(self.example_weights.sum()) * math.log(len(self.X))

    def caution(self, components: NDArray[np.floating], certificate: Certificate) -> str | None:
        """See `Problem.caution`: also too few examples."""
        n, varying = len(self.X), int(self.centered.any(axis=0).sum())
        sample_size, remedy = SampleSize(n, min(varying, n - 1), lambda: 0.0), "learn by LMNN, which has a ridge"
        return super().caution(components, certificate) or caution(certificate, [sample_size], 0.0, remedy=remedy)

    def objective(self, components: ArrayLike | None = None, *, metric: ArrayLike | None = None) -> float:
        """The weighted sum over all examples of the divergence KL(p0 || p).

        Parameters
        ----------
        components : (r, d) array, optional
            Factor L of the metric.
        metric : (d, d) array, optional
            The metric itself; exactly one of the two.
        """
        L, _ = validation.check_point(components, metric, self.X.shape[1])
        return self._value(self.all_distances(self.centered @ L.T))

    def all_distances(self, Z: FloatArray) -> FloatArray:
        """Squared distances between all rows of embedded examples, (n, n), infinite on the diagonal."""
        D: FloatArray = cdist(Z, Z, "sqeuclidean") if Z.shape[1] else np.zeros((len(Z), len(Z)))
        np.fill_diagonal(D, np.inf)  # no example chooses itself
        return D

    def _value(self, D: FloatArray) -> float:
        pull = np.where(self.ideal > 0, D, 0.0)
        # Beside the nearest pull, so that small divergences keep their digits.
        nearest = np.where(self.ideal > 0, D, np.inf).min(axis=1)
        partition = logsumexp(nearest[:, None] - D, axis=1)
        costs = (self.ideal * (pull - nearest[:, None])).sum(axis=1) + partition
        value = float(self.example_weights @ costs) - self.ideal_entropy
        return value if value > self.resolution else 0.0

    def distribution(self, components: FloatArray) -> FloatArray:
        """The probabilities ``p(j | i)`` under a metric, (n, n), rows sum to 1, 0 on the diagonal."""
        return judge.softmax(self.all_distances(self.centered @ components.T))

    # -- coordinates for solvers: there the pull of p0 is the identity ------------------------------------------------

    @cached_property
    def pull_cost(self) -> PullCost:
        """``sum w_i p0(j | i) D_M(i, j)``."""
        w = self.example_weights
        both = np.triu(self.ideal) * (w[:, None] + w > 0.0)
        first, second = (ends.astype(np.int32) for ends in np.nonzero(both))
        return PullCost(self.centered, first, second, 1.0, 0.0, pair_weights=(w[first] + w[second]) / self.mates[first])

    @property
    def coordinates(self) -> psd.Whitening:
        """Coordinates in which ``sum w_i p0(j | i) v_ij v_ij^T`` is the identity on its range."""
        return self.pull_cost.coordinates

    @cached_property
    def cone(self) -> DualCone:
        """Proves ``sum w (p0 - q) v v^T`` positive semidefinite."""
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
    def separated(self) -> NDArray[np.bool_]:
        """Pairs of different null groups, and every example with itself: their probability may vanish."""
        return judge.different(self.null_groups)

    def start(self) -> FloatArray:
        """Starting factor in whitened coordinates, (rank, rank): targets cost one unit each on average."""
        rank = self.coordinates.rank
        return math.sqrt(float(self.example_weights.sum()) / max(rank, 1)) * np.eye(rank)

    def smooth(self, factor: FloatArray) -> tuple[float, FloatArray]:
        """The objective without pairs of different null groups, at a factor on `points`, and its gradient."""
        D = self.all_distances(self.points @ factor.T)
        D[self.separated] = np.inf
        q = judge.softmax(D)
        return self._value(D), 2 * factor @ (np.eye(len(factor)) - self.pull(q))

    def lift(self, factor: FloatArray) -> FloatArray:
        """Components in the data's own coordinates from a factor on `points`.

        Null directions are added, scaled so that the probabilities of examples that differ there vanish.
        """
        L = factor @ self.coordinates.range.T
        pull = self.pull_cost
        within = float(distances(self.centered @ L.T, pull.first, pull.second).max())
        return np.concatenate([L, pull.separating_rows(within + UNDERFLOW)])

    def pull(self, q: FloatArray) -> FloatArray:
        """``sum w_i q(j | i) v_ij v_ij^T`` on `points`."""
        q = self.example_weights[:, None] * q
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

        The lower bound is ``sum_i w_i (H(q_i) - H(p0_i))`` for distributions q with ``sum_i w_i (p0 - q) v v^T`` PSD, H
        the entropy. Given distributions are clipped, normalized, and mixed with strictly dual feasible ones until they
        are dual feasible. See ``docs/mcml.md``.

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
        return judge.certificate(self, *self.check_point(components, metric), dual)
