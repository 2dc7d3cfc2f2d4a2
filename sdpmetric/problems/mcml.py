"""Maximally collapsing metric learning (MCML): the statement, its objective, and its certificate."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist
from scipy.special import entr, logsumexp

from sdpmetric.core import validation
from sdpmetric.core.certificate import DualityCertificate
from sdpmetric.core.multipliers import Multipliers
from sdpmetric.core.problem import SmoothProblem
from sdpmetric.linalg import psd
from sdpmetric.linalg.distances import differences

FloatArray = NDArray[np.float64]

# Distances in the null space, where data have unit variance, up to this one count as 0.
NULL_TOLERANCE = 1e-8
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
    def ideal_entropy(self) -> float:
        """The sum over i of the entropy of ``p0(. | i)``."""
        return float(np.log(np.bincount(self.index)[self.index] - 1.0).sum())

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
    def coordinates(self) -> psd.Whitening:
        """Coordinates in which ``sum p0(j | i) v_ij v_ij^T`` is the identity on its range."""
        basis, inverse = psd.data_basis(self.centered)
        first, second = np.nonzero(self.ideal)
        weights = np.sqrt(self.ideal[first, second])
        rows = np.concatenate(list(differences(self.centered @ basis, first, second)))
        return psd.whiten(basis, inverse, psd.triangle([weights[:, None] * rows]))

    @cached_property
    def points(self) -> FloatArray:
        """The data in the range of that pull, whitened, (n, rank)."""
        return np.ascontiguousarray(self.centered @ self.coordinates.range)

    @cached_property
    def _null_distances(self) -> FloatArray:
        """Squared distances in the null space, in which no class varies; rounding errors are set to 0."""
        D = self._distances(self.centered @ self.coordinates.null)
        np.fill_diagonal(D, 0.0)
        return np.where(D > NULL_TOLERANCE**2, D, 0.0)

    @cached_property
    def _separated(self) -> NDArray[np.bool_]:
        """Pairs of different null groups, and every example with itself: their probability may vanish."""
        separated: NDArray[np.bool_] = self.null_groups[:, None] != self.null_groups[None, :]
        np.fill_diagonal(separated, True)
        return separated

    @cached_property
    def null_groups(self) -> NDArray[np.int32]:
        """Null group of each example, (n,): classes that coincide in the null space share a group."""
        _, groups = sp.csgraph.connected_components(sp.csr_array(self._null_distances == 0), directed=False)
        return np.asarray(groups, dtype=np.int32)

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
        apart = self._null_distances[self.null_groups[:, None] != self.null_groups[None, :]]
        if not len(apart):
            return L
        within = np.where(self.ideal > 0, self._distances(self.centered @ L.T), 0.0).max()
        return np.concatenate([L, math.sqrt((within + UNDERFLOW) / apart.min()) * self.coordinates.null.T])

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
        objective = self._value(D)
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
        )

    def _checked(self, q: FloatArray) -> tuple[FloatArray, float]:
        """Distributions projected onto pairs of one null group, and the largest change."""
        n = len(self.X)
        if q.shape != (n, n) or not np.isfinite(q).all():
            raise ValueError(f"dual must be a finite ({n}, {n}) array of probabilities, got shape {q.shape}.")
        projected = np.where(self._separated, 0.0, np.maximum(q, 0.0))
        sums = projected.sum(axis=1, keepdims=True)
        projected = np.where(sums > 0, projected / np.where(sums > 0, sums, 1.0), self.ideal)
        return projected, float(np.abs(projected - q).max(initial=0.0))

    def _bound(self, q: FloatArray, factor: FloatArray) -> tuple[float, FloatArray, float]:
        """The lower bound of dual feasible distributions near q, these distributions, and the infeasibility of q."""
        top = psd.largest_eigenvalue(self._pull(q)) * (1 + 1e-13)
        best, chosen = 0.0, self.ideal  # feasible; it proves that divergences are not negative
        if top <= 1.0:
            bound = float(entr(q).sum()) - self.ideal_entropy
            return (bound, q, 0.0) if bound > 0 else (best, chosen, 0.0)
        for inner in self._inner_candidates(q, factor, top - 1.0):
            slack = 1.0 - psd.largest_eigenvalue(self._pull(inner)) * (1 + 1e-13)
            if slack < 0.0:
                continue
            # lambda_max is convex: this mixture is at most 1.
            share = (top - 1.0) / (top - 1.0 + slack)
            mixed = (1 - share) * q + share * inner
            for candidate in (mixed, inner):
                bound = float(entr(candidate).sum()) - self.ideal_entropy
                if bound > best:
                    best, chosen = bound, candidate
        return best, chosen, top - 1.0

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


def _softmax(D: FloatArray) -> FloatArray:
    q: FloatArray = np.exp(D.min(axis=1, keepdims=True) - D)
    q /= q.sum(axis=1, keepdims=True)
    return q
