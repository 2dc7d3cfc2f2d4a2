"""POLA as a batch problem: a metric and a threshold between similar and dissimilar pairs; objective and certificate."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sdpmetric import psd, validation
from sdpmetric.certificate import Certificate
from sdpmetric.problems import contradiction, rays
from sdpmetric.problems import pairs as pair_checks

FloatArray = NDArray[np.float64]

# A margin may be missed by this much, relative to the threshold, and count as kept up to rounding.
ROUNDING = 1e-9
# A point that misses a hard margin by more than this, relative to the threshold, is not repaired: it is infeasible.
REPAIRABLE = 1e-3
# A hard constraint counts as active within this distance of its margin, relative to the threshold.
ACTIVE = 1e-6
# Widths, in units of the margin, of the multipliers that are tried where none are given.
WIDTHS = (1e-3, 1e-2, 1e-1, 1.0, 10.0)


@dataclass(frozen=True)
class DualPoint:
    """What multipliers ``a`` mean: the primal point that minimises the Lagrangian, and the dual value.

    Attributes
    ----------
    components : (r, d) array
        Factor of ``A(a) = proj_PSD(-sum a_t y_t v_t v_t^T)``.
    threshold : float
        ``b(a) = max(1, b_1 + sum a_t y_t)``.
    value : float
        ``g(a)``, below every objective.
    """

    components: FloatArray
    threshold: float
    value: float


@dataclass(frozen=True, init=False, eq=False)
class POLAProblem:
    """Batch POLA as a convex program (Shalev-Shwartz, Singer and Ng 2004) [SSN2004].

    With ``v_t`` the difference of pair t, ``y_t = 1`` where it is similar and -1 where it is not, minimize over PSD
    matrices A and thresholds ``b >= 1``, with ``b_1`` the initial threshold::

        1/2 ||A||_F^2 + 1/2 (b - b_1)^2      subject to   y_t (b - v_t^T A v_t) >= 1 for every pair

    That is the hard margin. The soft margin adds ``slack_weight * sum_t [1 - y_t (b - v_t^T A v_t)]_+`` instead of the
    constraints. The hard optimum is half the comparator's term in the paper's Theorem 1.

    Parameters
    ----------
    X : (n, d) array
        Finite numbers; float32 stays float32, everything else becomes float64.
    pairs : (p, 2) integer array
        Row numbers of X; pairs may repeat, a row with itself is refused.
    similar : (p,) array
        bool, or +1 for similar and -1 for dissimilar.
    slack_weight : float, optional
        Weight of the slacks, > 0; None: hard margin.
    initial_threshold : float, default 1
        ``b_1``, at least 1.

    Attributes
    ----------
    X : (n, d) array
    pairs : (p, 2) int32 array
    similar : (p,) bool array
    slack_weight : float or None
    initial_threshold : float

    Raises
    ------
    ValueError
        If the data are not finite, a pair is out of range or of a row with itself, `similar` has other values or
        another length, or a number is out of range.
    """

    X: NDArray[np.floating]
    pairs: NDArray[np.int32]
    similar: NDArray[np.bool_]
    slack_weight: float | None
    initial_threshold: float

    def __init__(
        self,
        X: ArrayLike,
        pairs: ArrayLike,
        similar: ArrayLike,
        slack_weight: float | None = None,
        initial_threshold: float = 1.0,
    ) -> None:
        data = validation.check_data(X)
        validation.check_entries("X", data)
        rows = pair_checks.check_pairs(pairs, len(data))
        weight = None if slack_weight is None else validation.check_number("slack_weight", slack_weight, 0.0)
        if weight == 0.0:
            raise ValueError("slack_weight must be positive; pass None for the hard margin.")
        values = {
            "X": data,
            "pairs": rows,
            "similar": pair_checks.check_similar(similar, len(rows)),
            "slack_weight": weight,
            "initial_threshold": validation.check_number("initial_threshold", initial_threshold, 1.0),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    # -- the statement ------------------------------------------------------------------------------------------

    def describe(self) -> str:
        """Say in one sentence what is minimised, over how much data."""
        n_similar = int(self.similar.sum())
        margin = "hard margin" if self.slack_weight is None else f"slack weight {self.slack_weight:g}"
        return (
            f"POLA in batch (Shalev-Shwartz, Singer and Ng 2004): {self.X.shape[0]:,} examples, "
            f"{self.X.shape[1]} features, {n_similar:,} similar and {len(self.pairs) - n_similar:,} dissimilar pairs; "
            f"{margin}, initial threshold {self.initial_threshold:g}"
        )

    def __repr__(self) -> str:
        return f"<{self.describe()}>"

    def fingerprint(self) -> str:
        """Return a hash of data, pairs and parameters."""
        about = ("POLA", self.X.shape, str(self.X.dtype), self.slack_weight, self.initial_threshold)
        digest = hashlib.sha256(repr(about).encode())
        for array in (self.X, self.pairs, self.similar):
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    @cached_property
    def signs(self) -> FloatArray:
        """``y_t``: 1 for similar pairs and -1 for dissimilar ones, (p,)."""
        return np.where(self.similar, 1.0, -1.0)

    @cached_property
    def differences(self) -> FloatArray:
        """``v_t``, the difference of each pair, (p, d)."""
        X = np.asarray(self.X, dtype=np.float64)
        return X[self.pairs[:, 0]] - X[self.pairs[:, 1]]

    @cached_property
    def radius(self) -> float:
        """``R = max_t ||v_t||^4 + 1`` of the paper's Theorem 1."""
        return float(np.sum(self.differences**2, axis=1).max(initial=0.0)) ** 2 + 1.0

    def update_bound(self, objective: float, loss: float = 1.0) -> float:
        """How many updates with a loss of at least `loss` online POLA can make on these pairs (Theorem 1).

        Parameters
        ----------
        objective : float
            Hard-margin objective of any feasible point, ``1/2 (||A||^2 + (b - b_1)^2)``; the optimum is tightest.
        loss : float, default 1
            1 bounds the mistakes; beta bounds the updates of the batch conversion.
        """
        return 2.0 * self.radius * objective / loss**2

    def objective(
        self, components: ArrayLike | None = None, *, metric: ArrayLike | None = None, threshold: float | None = None
    ) -> float:
        """Evaluate the objective; infinity where a hard margin or ``b >= 1`` is missed by more than rounding.

        Parameters
        ----------
        components : (r, d) array, optional
            Factor of the metric A.
        metric : (d, d) array, optional
            The metric itself; exactly one of the two.
        threshold : float, optional
            b; default: the best one for this metric.
        """
        L, _ = validation.check_point(components, metric, self.X.shape[1])
        q = self._distances(L)
        b = self._best_threshold(q) if threshold is None else validation.check_number("threshold", threshold, -np.inf)
        rounding = ROUNDING * max(1.0, abs(b))
        if b < 1.0 - rounding or (self.slack_weight is None and self._violation(q, b) > rounding):
            return math.inf
        return self._value(rays.squared_norm(L), q, b)

    def repair(
        self, components: ArrayLike | None = None, threshold: float | None = None, *, metric: ArrayLike | None = None
    ) -> tuple[FloatArray, float]:
        """The best feasible point on the ray of a metric, or the given point where it is feasible.

        For the soft margin only ``b >= 1`` is restored. For the hard margin ``(c A, b)`` is feasible for some b exactly
        if ``c (far - near) >= 2`` and so on, with ``far`` the least distance of a dissimilar pair and ``near`` the
        largest one of a similar pair; see ``docs/pola.md``. A metric that does not separate the pairs is returned
        with its best threshold, infeasible as it is.

        Parameters
        ----------
        components : (r, d) array, optional
        threshold : float, optional
            Default: the best one.
        metric : (d, d) array, optional
            Exactly one of `components` and `metric`.

        Returns
        -------
        components : (r, d) array
        threshold : float
        """
        L, _ = validation.check_point(components, metric, self.X.shape[1])
        q = self._distances(L)
        b = self._best_threshold(q) if threshold is None else max(1.0, threshold)
        if self.slack_weight is not None or self._violation(q, b) <= 0.0:
            return L, b
        near, far = rays.extremes(q, self.similar)
        scale = rays.best_multiple(rays.squared_norm(L), near, far, self.initial_threshold)
        return math.sqrt(scale) * L, self._best_threshold(scale * q)

    # -- the certificate --------------------------------------------------------------------------------------------

    def certify(
        self,
        components: ArrayLike | None = None,
        *,
        metric: ArrayLike | None = None,
        dual: ArrayLike | None = None,
        threshold: float | None = None,
    ) -> Certificate:
        """Judge any point, whoever made it.

        A point that nearly keeps the hard margins is judged after `repair`, so that the objective is one of a feasible
        point; one that misses a margin by more than 1e-3 of the threshold has an infinite objective. Multipliers are
        clipped to their box and replaced by their best multiple; each then bounds every objective from below. For a
        hard margin whose pairs contradict each other, and multipliers that prove it, objective and lower bound are
        infinite and `Certificate.contradiction` names the pairs.

        Parameters
        ----------
        components : (r, d) array, optional
        metric : (d, d) array, optional
            Exactly one of the two.
        dual : (p,) array, optional
            A multiplier for each pair; default: soft minima over the margins of the point.
        threshold : float, optional
            b; default: the best one for this metric.

        Raises
        ------
        ValueError
            If the point or the multipliers have the wrong shape or are not finite, or the metric is not PSD.
        """
        L, primal_residual = validation.check_point(components, metric, self.X.shape[1])
        q = self._distances(L)
        b = self._best_threshold(q) if threshold is None else validation.check_number("threshold", threshold, -np.inf)
        primal_residual = max(primal_residual, 1.0 - b)
        if self.slack_weight is None:
            missed = self._violation(q, b) / max(1.0, b)
            primal_residual = max(primal_residual, missed)
        L, b = self.repair(L, b)
        q = self._distances(L)
        feasible = self.slack_weight is not None or (primal_residual <= REPAIRABLE and self._separates(q))
        objective = self._value(rays.squared_norm(L), q, b) if feasible else math.inf
        tries = self._candidates(q, b) if dual is None else [self._check_dual(dual)]
        clipped = [np.clip(a, 0.0, self._ceiling) for a in tries]
        for a in clipped:
            if self.contradicts(a):
                pairs = tuple(int(t) for t in np.flatnonzero(a > contradiction.NEGLIGIBLE * a.max()))
                return Certificate(math.inf, math.inf, program="POLA", contradiction=pairs, dual_residual=0.0)
        scaled = [self.best_multiple(a) * a for a in clipped]
        points = [self.dual_point(a) for a in scaled]
        best = int(np.argmax([point.value for point in points]))
        a, point = scaled[best], points[best]
        slacks = np.maximum(0.0, 1.0 - self._margins(q, b))
        aligned = float(a @ np.abs(self._margins(q, b) - 1.0 + slacks)) + abs(self._conflict(a, L, point))
        return Certificate(
            objective=objective,
            lower_bound=point.value,
            primal_residual=primal_residual,
            dual_residual=float(np.abs(tries[best] - clipped[best]).max(initial=0.0) / max(1.0, a.max(initial=0.0))),
            complementarity=aligned / max(1.0, objective) if feasible else math.inf,
            n_active=int(np.count_nonzero(self._margins(q, b) < 1.0 + ACTIVE * b)),
            program="POLA",
        )

    def dual_point(self, dual: FloatArray) -> DualPoint:
        """The primal point and the dual value of multipliers that lie in their box.

        Parameters
        ----------
        dual : (p,) array
            ``0 <= a``, and at most `slack_weight` for the soft margin.
        """
        L = psd.factor(self.matrix(-dual))
        total = float(dual @ self.signs)
        b = max(1.0, self.initial_threshold + total)
        # Rounding may take this much from the PSD part, which a longer negative part swamps.
        scale = float(dual @ np.einsum("ij,ij->i", self.differences, self.differences))
        rounding = 4 * L.shape[1] * float(np.finfo(float).eps) * scale
        size = math.sqrt(rays.squared_norm(L)) + rounding
        value = float(dual.sum()) - 0.5 * size**2 + 0.5 * (b - self.initial_threshold) ** 2 - total * b
        return DualPoint(L, b, value)

    def matrix(self, dual: FloatArray) -> FloatArray:
        """``sum_t a_t y_t v_t v_t^T``, (d, d)."""
        used = np.flatnonzero(dual)
        V = self.differences[used]
        return psd.symmetrize((V * (dual * self.signs)[used, None]).T @ V)

    def best_multiple(self, dual: FloatArray) -> float:
        """The multiple of multipliers in their box with the largest dual value, in closed form; see docs/pola.md."""
        size = rays.squared_norm(psd.factor(self.matrix(-dual)))
        largest = float(dual.max(initial=0.0))
        ceiling = self._ceiling / largest if largest > 0.0 else math.inf
        total, summed = float(dual @ self.signs), float(dual.sum())
        return rays.best_dual_multiple(total, summed, size, self.initial_threshold, ceiling)

    def contradicts(self, dual: FloatArray) -> bool:
        """Whether nonnegative multipliers prove that no point keeps all hard margins; see `contradiction.contradicts`.

        Parameters
        ----------
        dual : (p,) array
        """
        return self.slack_weight is None and contradiction.contradicts(self.differences, self.signs, dual)

    # -- parts --------------------------------------------------------------------------------------------------

    @property
    def _ceiling(self) -> float:
        return math.inf if self.slack_weight is None else self.slack_weight

    def _distances(self, components: FloatArray) -> FloatArray:
        q: FloatArray = np.sum((self.differences @ components.T) ** 2, axis=1)
        return q

    def _margins(self, q: FloatArray, b: float) -> FloatArray:
        return self.signs * (b - q)

    def _violation(self, q: FloatArray, b: float) -> float:
        return max(0.0, float((1.0 - self._margins(q, b)).max(initial=0.0)))

    def _value(self, size: float, q: FloatArray, b: float) -> float:
        value = 0.5 * size + 0.5 * (b - self.initial_threshold) ** 2
        if self.slack_weight is not None:
            value += self.slack_weight * float(np.maximum(0.0, 1.0 - self._margins(q, b)).sum())
        return value

    def _separates(self, q: FloatArray) -> bool:
        near, far = rays.extremes(q, self.similar)
        return far > near

    def _best_threshold(self, q: FloatArray) -> float:
        if self.slack_weight is None:
            return rays.best_hard_threshold(*rays.extremes(q, self.similar), self.initial_threshold)
        return rays.best_soft_threshold(q, self.signs, self.initial_threshold, self.slack_weight)

    def _candidates(self, q: FloatArray, b: float) -> list[FloatArray]:
        missing = 1.0 - self._margins(q, b)
        if self.slack_weight is not None:
            smoothed: list[FloatArray] = [np.clip(0.5 + missing / width, 0.0, 1.0) for width in WIDTHS]
            return [*(self.slack_weight * slopes for slopes in smoothed), 0.0 * q]
        worst = missing.max(initial=-math.inf)
        shifted: list[FloatArray] = [np.exp((missing - worst) / width) for width in WIDTHS]
        return [contradiction.repeated(self.differences, self.signs), *shifted, 0.0 * q]

    def _check_dual(self, dual: ArrayLike) -> FloatArray:
        a = np.asarray(dual, dtype=np.float64)
        if a.shape != (len(self.pairs),) or not np.isfinite(a).all():
            raise ValueError(f"dual must be {len(self.pairs)} finite numbers, one per pair, got shape {a.shape}.")
        return a

    def _conflict(self, dual: FloatArray, components: FloatArray, point: DualPoint) -> float:
        """``<S, A>`` with the slack matrix ``S = A(a) + sum_t a_t y_t v_t v_t^T``, PSD."""
        q = self._distances(components)
        return float(np.sum((point.components @ components.T) ** 2)) + float(dual @ (self.signs * q))
