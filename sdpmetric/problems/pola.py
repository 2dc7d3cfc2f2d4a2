"""POLA as a batch problem: a metric and a threshold between similar and dissimilar pairs; objective and certificate."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sdpmetric.core import pairs as pair_checks
from sdpmetric.core import validation
from sdpmetric.core.certificate import Certificate, DualityCertificate, InfeasibilityCertificate, RegretCertificate
from sdpmetric.core.constraints import Constraints, Hinge
from sdpmetric.core.multipliers import Multipliers, check_multipliers
from sdpmetric.core.problem import Extras, Problem
from sdpmetric.core.proof import Proof
from sdpmetric.linalg import psd
from sdpmetric.linalg.rigorous import Images, U, above, metric_norm_above, sum_above, sum_below
from sdpmetric.problems import contradiction, proofs, rays
from sdpmetric.problems.pair_margins import PairMargins

FloatArray = NDArray[np.float64]

# A margin may be missed by this much, relative to the threshold, and count as kept up to rounding.
ROUNDING = 1e-9
# A point that misses a hard margin by more than this, relative to the threshold, is not repaired: it is infeasible.
REPAIRABLE = 1e-3
# A hard constraint counts as active within this distance of its margin, relative to the threshold.
ACTIVE = 1e-6


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


@dataclass(frozen=True, init=False, eq=False, repr=False)
class POLAProblem(Problem):
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

    statement: ClassVar[str] = "pola"
    weights: ClassVar[tuple[str, ...]] = ("slack_weight",)

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

    @classmethod
    def from_labels(
        cls,
        X: ArrayLike,
        y: ArrayLike,
        n_pairs: int | None = 1000,
        *,
        slack_weight: float | None = 1.0,
        initial_threshold: float = 1.0,
        random_state: int | None = None,
    ) -> POLAProblem:
        """State POLA for labelled data: pairs of equal labels are similar, all others dissimilar.

        Parameters
        ----------
        X : (n, d) array
        y : (n,) array
            Class labels of any kind; at least two classes.
        n_pairs : int or None, default 1000
            Pairs of each kind at most, drawn at random; None: all pairs ``a < b``.
        slack_weight : float or None, default 1
        initial_threshold : float, default 1
        random_state : int, optional
            Seed of the draw; default 0.
        """
        data = validation.check_examples(X)
        _, index = validation.check_labels(y, len(data))
        pairs, similar = pair_checks.pairs_of_labels(index, n_pairs, random_state)
        return cls(data, pairs, similar, slack_weight, initial_threshold)

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

    @cached_property
    def margins(self) -> PairMargins:
        """What the objective says about squared distances of the pairs."""
        return PairMargins(self.similar, self.slack_weight, self.initial_threshold)

    @property
    def signs(self) -> FloatArray:
        """``y_t``: 1 for similar pairs and -1 for dissimilar ones, (p,)."""
        return self.margins.signs

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
        b = self._threshold(q, threshold)
        rounding = ROUNDING * max(1.0, abs(b))
        if b < 1.0 - rounding or (self.slack_weight is None and self.margins.missed(q, b) > rounding):
            return math.inf
        return self.margins.objective(rays.squared_norm(L), q, b)

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
        b = self.margins.best_threshold(q) if threshold is None else max(1.0, threshold)
        if self.slack_weight is not None or self.margins.missed(q, b) <= 0.0:
            return L, b
        scale = self.margins.best_multiple(rays.squared_norm(L), q)
        return math.sqrt(scale) * L, self.margins.best_threshold(scale * q)

    def best_scale(self, components: FloatArray) -> float:
        """The best multiple of a factor, for the hard margin that of `repair`.

        Parameters
        ----------
        components : (r, d) array
        """
        if self.slack_weight is not None:
            return super().best_scale(components)
        scale = self.margins.best_multiple(rays.squared_norm(components), self._distances(components))
        return math.sqrt(scale)

    # -- the certificate --------------------------------------------------------------------------------------------

    def certify(
        self,
        components: ArrayLike | None = None,
        *,
        metric: ArrayLike | None = None,
        dual: Multipliers | None = None,
        threshold: float | None = None,
    ) -> Certificate:
        """Judge any point, whoever made it.

        A point that nearly keeps the hard margins is judged after `repair`, so that the objective is one of a feasible
        point; one that misses a margin by more than 1e-3 of the threshold has an infinite objective. Multipliers are
        clipped to their box and replaced by their best multiple; each then bounds every objective from below. For a
        hard margin whose pairs contradict each other, and multipliers that prove it, objective and lower bound are
        infinite and `InfeasibilityCertificate.contradiction` lists the pairs.

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
        b = self._threshold(q, threshold)
        primal_residual = max(primal_residual, 1.0 - b)
        if self.slack_weight is None:
            primal_residual = max(primal_residual, self.margins.missed(q, b) / max(1.0, b))
        L, b = self.repair(L, b)
        q = self._distances(L)
        feasible = self.slack_weight is not None or (primal_residual <= REPAIRABLE and self.margins.separated(q))
        objective = self._highest(L, b) if feasible else math.inf
        if dual is None:
            tries = self._candidates(q, b)
        else:
            tries = [check_multipliers(dual, len(self.pairs), "numbers, one per pair")]
        clipped = [np.clip(a, 0.0, self.margins.ceiling) for a in tries]
        for a in clipped:
            if self.contradicts(a):
                pairs = tuple(int(t) for t in np.flatnonzero(a > contradiction.NEGLIGIBLE * a.max()))
                return InfeasibilityCertificate(program="POLA", constraints="pairs", contradiction=pairs)
        scaled = [np.minimum(self.best_multiple(a) * a, self.margins.ceiling) for a in clipped]
        bounds = [self._lowest(a) for a in scaled]
        best = int(np.argmax(bounds))
        a, point = scaled[best], self.dual_point(scaled[best])
        slacks = np.maximum(0.0, 1.0 - self.margins.of(q, b))
        aligned = float(a @ np.abs(self.margins.of(q, b) - 1.0 + slacks)) + abs(self._conflict(a, L, point))
        return DualityCertificate(
            objective=objective,
            constraints="pairs",
            lower_bound=bounds[best],
            primal_residual=primal_residual,
            dual_residual=float(np.abs(tries[best] - clipped[best]).max(initial=0.0) / max(1.0, a.max(initial=0.0))),
            complementarity=aligned / max(1.0, objective) if feasible else math.inf,
            n_active=int(np.count_nonzero(self.margins.of(q, b) < 1.0 + ACTIVE * b)),
            program="POLA",
        )

    def proof(self, components: FloatArray, dual: Multipliers | None, extras: Extras) -> Proof:
        """What a point and multipliers prove, for `Solution.save_proof`; see `sdpmetric.problems.proofs.pola`."""
        return proofs.pola(
            self, components, dual, self._threshold(self._distances(components), extras.get("threshold"))
        )

    def certify_with(
        self,
        extras: Extras,
        components: ArrayLike | None = None,
        *,
        metric: ArrayLike | None = None,
        dual: Multipliers | None = None,
    ) -> Certificate:
        """Judge a point with its threshold.

        Parameters
        ----------
        extras : Extras
            With the ``threshold``, or without.
        components, metric, dual
            As in `certify`.
        """
        return self.certify(components, metric=metric, dual=dual, threshold=extras.get("threshold"))

    def judge_stream(self, loss: float, n_pairs: int, n_updates: int) -> RegretCertificate:
        """The certificate of online POLA over the first pairs of the stream.

        Parameters
        ----------
        loss : float
            Its cumulative loss, the squared hinges before each update.
        n_pairs : int
            Pairs that it has taken.
        n_updates : int
            Pairs that it lost on.
        """
        return RegretCertificate(
            objective=loss,
            lower_bound=pair_checks.contradiction_loss(self.pairs[:n_pairs], self.similar[:n_pairs]),
            primal_residual=0.0,
            n_active=n_updates,
            program="POLA online",
        )

    def _highest(self, components: FloatArray, threshold: float) -> float:
        """A float not below the objective of exact components; of a hard margin, of their least feasible multiple."""
        images = Images.of(self.X, self._centered, components.T)
        low, high = images.distances(self.pairs[:, 0], self.pairs[:, 1])
        y, b = self.signs, max(1.0, threshold)
        margins = np.where(y > 0, b - high, low - b)
        size, multiple, slack = metric_norm_above(components), 1.0, 0.0
        if self.slack_weight is not None:
            hinges = np.maximum(0.0, 1.0 - margins + 4.0 * U * (1.0 + b + np.where(y > 0, high, low)))
            slack = above(self.slack_weight * sum_above(hinges), 4)
        elif len(margins):
            least = float((margins - 4.0 * U * (b + np.where(y > 0, high, low))).min())
            if least <= 0.0:
                return math.inf
            multiple = above(1.0 / least, 2) if least < 1.0 else 1.0
        rounding = 4.0 * U * (multiple * b + self.initial_threshold) if multiple != 1.0 else 0.0
        excess = above(abs(multiple * b - self.initial_threshold) + rounding)
        return above(0.5 * (multiple * size) ** 2 + 0.5 * excess**2 + slack, 8)

    def _lowest(self, dual: FloatArray) -> float:
        """A float not above the dual value of multipliers in their box."""
        used = np.flatnonzero(dual)
        a, y, first, second = dual[used], self.signs[used], *self.pairs[used].T
        images = Images.of(self.X, self._centered, np.eye(self.X.shape[1]))
        size = images.form(first, second, -a * y, accuracy=0.0).positive_part
        value = sum_below(a) - above(0.5 * size * size, 2)
        start = self.initial_threshold
        least = math.inf
        for total in (sum_below(a * y), sum_above(a * y)):  # concave in the total: least at an end
            if start + total < 1.0:
                parts = np.array([value, 0.5 * (1.0 - start) ** 2, -total])
            else:
                parts = np.array([value, -0.5 * total * total, -total * start])
            least = min(least, math.fsum(parts) - 8.0 * U * float(np.abs(parts).sum()))
        return least

    @cached_property
    def _centered(self) -> FloatArray:
        X = np.asarray(self.X, dtype=np.float64)
        return np.asarray(X - X.mean(axis=0))

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
        ceiling = self.margins.ceiling / largest if largest > 0.0 else math.inf
        total, summed = float(dual @ self.signs), float(dual.sum())
        return rays.best_dual_multiple(total, summed, size, self.initial_threshold, ceiling)

    def contradicts(self, dual: FloatArray) -> bool:
        """Whether nonnegative multipliers prove that no point keeps all hard margins; see `contradiction.contradicts`.

        Parameters
        ----------
        dual : (p,) array
        """
        return self.slack_weight is None and contradiction.contradicts(self.differences, self.signs, dual)

    def constraints(self, components: FloatArray, dual: Multipliers | None, extras: Extras) -> Constraints:
        """All pairs; see `Constrained.constraints`. A point that misses hard margins is taken after `repair`.

        Raises
        ------
        ValueError
            If the multipliers prove that the pairs contradict each other.
        """
        L, b = self.repair(components, self._threshold(self._distances(components), extras.get("threshold")))
        q = self._distances(L)
        given = check_multipliers(dual, len(self.pairs), "numbers, one per pair") if dual is not None else None
        tries = [np.clip(a, 0.0, self.margins.ceiling) for a in (self._candidates(q, b) if given is None else [given])]
        if any(self.contradicts(a) for a in tries):
            raise ValueError("the pairs contradict each other and there is no optimum; see certificate.contradiction.")
        a = max((self.best_multiple(a) * a for a in tries), key=lambda a: self.dual_point(a).value)
        excess = 1.0 - self.margins.of(q, b)
        if self.slack_weight is None:  # a hard margin that is missed by rounding only is met
            excess = np.where(excess <= ROUNDING * max(1.0, b), np.minimum(excess, 0.0), excess)
        sums = {"frobenius": 0.5 * rays.squared_norm(L), "threshold": 0.5 * (b - self.initial_threshold) ** 2}
        slack, soft = float(np.maximum(excess, 0.0).sum()), self.slack_weight is not None
        return Constraints(
            dual=a,
            roles={"first": self.pairs[:, 0], "second": self.pairs[:, 1]},
            columns={"pair": np.arange(len(a)), "similar": self.similar},
            multipliers=a,
            excess=excess,
            loss=Hinge(np.full(len(a), self.margins.ceiling)),
            stretch=[(self.pairs[:, 0], self.pairs[:, 1], -self.signs * q)],
            sums=sums | ({"slack": slack} if soft else {}),
            slopes={"slack_weight": slack} if soft else {},
            margin=True,
        )

    # -- parts --------------------------------------------------------------------------------------------------

    def _distances(self, components: FloatArray) -> FloatArray:
        return np.asarray(np.sum((self.differences @ components.T) ** 2, axis=1))

    def _candidates(self, q: FloatArray, b: float) -> list[FloatArray]:
        slopes = [*self.margins.slopes(q, b), 0.0 * q]
        if self.slack_weight is not None:
            return slopes
        return [contradiction.repeated(self.differences, self.signs), *slopes]

    def _threshold(self, q: FloatArray, given: float | None) -> float:
        return self.margins.best_threshold(q) if given is None else validation.check_number("threshold", given, -np.inf)

    def _conflict(self, dual: FloatArray, components: FloatArray, point: DualPoint) -> float:
        """``<S, A>`` with the slack matrix ``S = A(a) + sum_t a_t y_t v_t v_t^T``, PSD."""
        q = self._distances(components)
        return float(np.sum((point.components @ components.T) ** 2)) + float(dual @ (self.signs * q))
