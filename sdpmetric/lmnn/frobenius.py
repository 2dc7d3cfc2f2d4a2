"""LMNN with a Frobenius term: the statement and its certificate.

As a sum of terms it would list all triplets and take longer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.core.certificate import Dual, DualityCertificate, Multipliers
from sdpmetric.core.constraints import Constraints
from sdpmetric.core.problem import Problem, StrongConvexity
from sdpmetric.core.proof import Proof
from sdpmetric.core.triplets import Triplets
from sdpmetric.linalg import psd
from sdpmetric.lmnn import proof as lmnn_proof
from sdpmetric.lmnn.problem import LMNNProblem
from sdpmetric.lmnn.pull import QuadraticCone
from sdpmetric.lmnn.push import DualCandidate
from sdpmetric.lmnn.triplets.impostors import SearchMethod
from sdpmetric.lmnn.triplets.margins import margin_adjoint


@dataclass(frozen=True, eq=False)
class DualPoint:
    """What multipliers ``a`` mean: the metric that minimizes the Lagrangian, and the dual value.

    Attributes
    ----------
    components : (r, d) array
        Factor of ``M(a) = [sum a_t B_t - C]_+ / frobenius``.
    value : float
        ``g(a)``, below every objective.
    """

    components: FloatArray
    value: float


@dataclass(eq=False, repr=False)
class FrobeniusLMNNProblem(Problem):
    """LMNN with a Frobenius term, a strongly convex program: exactly one metric attains its minimum.

    Minimize over PSD matrices M, with ``mu`` the push weight and ``lam`` the weight of the new term::

        (1 - mu) sum_{i, j~>i} D(i, j)  +  mu sum_{i, j~>i, l} w_ijl [1 + D(i, j) - D(i, l)]_+
            +  ridge trace(M)  +  lam / 2 ||M||_F^2

    With ``mu = 1`` and ``ridge = 0`` this is the program of Yoshida, Takeuchi and Karasuyama (2018) [YTK2018] for the
    hinge. Unlike LMNN without a ridge, the program depends on the coordinates of the data: scale the features
    first. Make one with `from_labels` or `from_triplets`.

    Attributes
    ----------
    base : LMNNProblem
        Data, triplets and linear terms: the program without the Frobenius term. Its loss is the hinge.
    frobenius : float
        ``lam``, > 0.

    Raises
    ------
    ValueError
        If `frobenius` is not positive, or the loss of `base` is not the hinge.
    """

    statement: ClassVar[str] = "frobenius-lmnn"
    weights: ClassVar[tuple[str, ...]] = ("push_weight", "frobenius")

    base: LMNNProblem
    frobenius: float

    def __post_init__(self) -> None:
        validation.check_made(type(self).__name__, "base", self.base, "pull_cost")
        validation.check_positive("frobenius", self.frobenius, "state LMNN without it as an LMNNProblem")
        if self.base.squared:
            raise ValueError("the Frobenius term is stated with the hinge only; make the base with loss='hinge'.")

    @classmethod
    def from_labels(
        cls,
        X: ArrayLike,
        y: ArrayLike,
        n_neighbors: int = 3,
        push_weight: float = 0.5,
        frobenius: float = 1.0,
        *,
        target_neighbors: ArrayLike | sp.sparray | sp.spmatrix | None = None,
        ridge: float = 0.0,
        search: SearchMethod = "auto",
        sample_weight: ArrayLike | None = None,
    ) -> FrobeniusLMNNProblem:
        """State the problem for labeled data.

        Parameters
        ----------
        X : (n, d) array
        y : (n,) array
        n_neighbors : int, default 3
        push_weight : float, default 0.5
            ``mu``, between 0 and 1; 1 leaves out the pull.
        frobenius : float, default 1
            ``lam``, > 0.
        target_neighbors, ridge, search, sample_weight
            As in `LMNNProblem.from_labels`, like the others.

        Raises
        ------
        ValueError
            As `LMNNProblem.from_labels`, and if `frobenius` is not positive.
        """
        mu = validation.check_number("push_weight", push_weight, 0.0, 1.0)
        base = LMNNProblem.from_labels(
            X,
            y,
            n_neighbors,
            0.5,
            target_neighbors=target_neighbors,
            ridge=ridge,
            search=search,
            sample_weight=sample_weight,
        )
        return cls(replace(base, push_weight=mu), float(frobenius))

    @classmethod
    def from_triplets(
        cls,
        X: ArrayLike,
        triplets: ArrayLike | Triplets,
        weights: ArrayLike | None = None,
        push_weight: float = 0.5,
        frobenius: float = 1.0,
        *,
        ridge: float = 0.0,
    ) -> FrobeniusLMNNProblem:
        """State the problem for an explicit list of triplets.

        Parameters
        ----------
        X : (n, d) array
        triplets : (t, 3) integer array or Triplets
        weights : (t,) array, optional
        push_weight : float, default 0.5
        frobenius : float, default 1
            ``lam``, > 0.
        ridge : float, default 0 As in `LMNNProblem.from_triplets`, like the others.

        Raises
        ------
        ValueError
            As `LMNNProblem.from_triplets`, and if `frobenius` is not positive.
        """
        mu = validation.check_number("push_weight", push_weight, 0.0, 1.0)
        base = LMNNProblem.from_triplets(X, triplets, weights, 0.5, ridge=ridge)
        return cls(replace(base, push_weight=mu), float(frobenius))

    def with_weights(self, **values: float) -> Self:
        """State the same problem with another `push_weight` or `frobenius`; see `Problem.with_weights`."""
        if "push_weight" not in values:
            return super().with_weights(**values)
        mu = validation.check_number("push_weight", values["push_weight"], 0.0, 1.0)
        rest = {name: value for name, value in values.items() if name != "push_weight"}
        return replace(super().with_weights(**rest), base=replace(self.base, push_weight=mu))

    # -- the statement ------------------------------------------------------------------------------------------

    @property
    def X(self) -> NDArray[np.floating]:
        """The data, (n, d)."""
        return self.base.X

    def describe(self) -> str:
        """Say in one sentence what is minimized, over how much data."""
        return f"{self.base.describe()}, Frobenius term {self.frobenius:g}"

    @property
    def linear_cost(self) -> FloatArray:
        """``C``, (d, d): pull and ridge, as a matrix in the data's own coordinates."""
        return self.base.pull_cost.matrix

    @cached_property
    def cone(self) -> QuadraticCone:
        """What multipliers lose to the Frobenius term."""
        return QuadraticCone(self.X, self.base.pull_cost, self.frobenius)

    def penalty(self, components: FloatArray) -> float:
        """``lam / 2 ||L^T L||_F^2``."""
        return 0.5 * self.frobenius * float(np.sum((components @ components.T) ** 2))

    def objective(self, components: ArrayLike | None = None, *, metric: ArrayLike | None = None) -> float:
        """Evaluate the objective over all triplets; see `Problem.objective`."""
        L, _ = validation.check_point(components, metric, self.X.shape[1])
        return self.base.objective(L) + self.penalty(L)

    def strong_convexity(self, components: FloatArray) -> StrongConvexity:
        """With modulus ``lam``; see `Problem.strong_convexity`."""
        return StrongConvexity(self.frobenius, components)

    # -- the certificate --------------------------------------------------------------------------------------------

    def certify(
        self, components: ArrayLike | None = None, *, metric: ArrayLike | None = None, dual: Multipliers | None = None
    ) -> DualityCertificate:
        """Certify any point; see `Problem.certify`.

        Any multipliers in their boxes are dual feasible, and ``sum a - ||[sum a_t B_t - C]_+||_F^2 / (2 lam)`` is then
        below every objective; the best multiple of the given ones is used. Default: the (smoothed) hinge slopes at the
        point, the best of several widths. See ``docs/frobenius.md``.
        """
        L, residual = self.check_point(components, metric)
        found = self.base.certificate(L, residual, validation.given_metric(metric, residual), dual, [self.cone])
        return replace(found, program="LMNN with a Frobenius term")

    def dual_point(self, dual: Dual) -> DualPoint:
        """The metric and the dual value of multipliers, after each is clipped to its box."""
        clipped = self.base.push.clipped(dual)
        B = margin_adjoint(self.base.centered, clipped.triplets, clipped.values)
        excess = psd.factor(B - self.linear_cost)
        value = float(clipped.values.sum()) - 0.5 * float(np.sum((excess @ excess.T) ** 2)) / self.frobenius
        return DualPoint(excess / math.sqrt(self.frobenius), value)

    def feasible_dual(self, dual: Dual) -> Dual:
        """Repair multipliers as `certify` does: in their boxes, scaled to prove the most; positive ones only."""
        return DualCandidate.of(self.base.push, dual, [self.cone]).feasible()

    def proof(self, components: FloatArray, dual: Multipliers | None) -> Proof:
        """What a point and multipliers prove, for `Solution.save_proof`."""
        return lmnn_proof.frobenius_lmnn(self, components, dual)

    def constraints(self, components: FloatArray, dual: Multipliers | None) -> Constraints:
        """The violated triplets and those with a positive multiplier; see `Constrained.constraints`."""
        found = self.base.hinge_constraints(components, dual, self.feasible_dual)
        half = self.penalty(components) / self.frobenius
        slopes = {"push_weight": found.slopes["push_weight"], "frobenius": half}
        return replace(found, sums={**found.sums, "frobenius": half}, slopes=slopes)
