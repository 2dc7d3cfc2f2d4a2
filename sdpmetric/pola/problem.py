"""POLA as a batch problem: a metric and a threshold between similar and dissimilar pairs, certified as a sum."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray

from sdpmetric.arrays import FloatArray, allow_underflow
from sdpmetric.core import pairs as pair_checks
from sdpmetric.core import validation
from sdpmetric.core.certificate import (
    Certificate,
    DualityCertificate,
    InfeasibilityCertificate,
    Multipliers,
    RegretCertificate,
)
from sdpmetric.core.constraints import Constraints
from sdpmetric.core.files import Proof
from sdpmetric.core.problem import InSpan
from sdpmetric.core.sample_weight import check_pair_weights
from sdpmetric.engine.lazy import cached, published
from sdpmetric.lazy import cvxpy as cp
from sdpmetric.linalg import exact
from sdpmetric.linalg.rigorous.directed import (
    U,
    above,
    metric_norm_above,
    product_above,
    products_above,
    square,
    sum_above,
)
from sdpmetric.linalg.rigorous.forms import Images, Span
from sdpmetric.lines import Lines
from sdpmetric.losses import Hard, Hinge
from sdpmetric.pola import forms
from sdpmetric.pola.forms import margins_to_threshold
from sdpmetric.programs.exact_program import PrintedProblem
from sdpmetric.sums import feasibility
from sdpmetric.sums import written as proofs
from sdpmetric.sums.fenchel import Proven
from sdpmetric.sums.problem import MetricProblem
from sdpmetric.sums.written import CONSTRAINT_SLACK


@dataclass(frozen=True)
class Tolerances:
    """Of hard margins, relative to the threshold."""

    rounding: float = 1e-9  # a margin that is missed by up to this counts as met
    repairable: float = 1e-3  # a point that misses a margin by more is not repaired: it is infeasible
    active: float = 1e-6  # a constraint counts as active within this distance of its margin


TOLERANCES = Tolerances()


@dataclass(init=False, eq=False, repr=False)
class POLAProblem(PrintedProblem):
    """Batch POLA as a convex program (Shalev-Shwartz, Singer and Ng 2004) [SSN2004].

    With ``v_t`` the difference of pair t, ``y_t = 1`` if it is similar and -1 if it is not, minimize over PSD
    matrices A and thresholds ``b >= 1``, with ``b_1`` the initial threshold::

        1/2 ||A||_F^2 + 1/2 (b - b_1)^2      subject to   y_t (b - v_t^T A v_t) >= 1 for every pair

    That is the hard margin. The soft margin adds ``slack_weight * sum_t [1 - y_t (b - v_t^T A v_t)]_+`` instead of the
    constraints. The hard optimum is half the comparator's term in the paper's Theorem 1.

    Parameters
    ----------
    X : (n, d) array
        Finite numbers; float32 stays float32, everything else becomes float64.
    pairs : (p, 2) integer array
        Row numbers of X; pairs may repeat; a row paired with itself raises an error.
    similar : (p,) array
        bool, or +1 for similar and -1 for dissimilar.
    slack_weight : float or "auto", optional
        Weight of the slacks, > 0; "auto": 0.01 if the pairs' weights add up to at most 200, else 2 divided by
        their sum; similar pairs of equal examples do not count. For hard margins pass None.
    initial_threshold : float, default 1
        ``b_1``, between 1 and 1e15. Fig. 1 of the paper allows any real number; below 1 the threshold could stay below
        1 (docs/errata.md).
    pair_weights : (p,) array, optional
        For a soft margin: positive weights of the pairs' slacks; default 1.

    Raises
    ------
    ValueError
        If a pair is out of range or of a row with itself, or `similar` or a number does not fit.

    See Also
    --------
    ITMLProblem, POLAStream, regret, sdpmetric.estimators.POLA

    Examples
    --------
    >>> import sdpmetric as sm
    >>> X, y = sm.datasets.load("iris")
    >>> pairs, similar = sm.constraints.pairs(y, 30)
    >>> pola = sm.POLAProblem(X, pairs, similar, slack_weight=1.0)
    >>> found = sm.solve(pola)
    >>> bool(found.relative_gap <= 1e-3), found.extras["threshold"] >= 1
    (True, True)
    """

    statement: ClassVar[str] = "pola"
    solver_modules: ClassVar[tuple[str, ...]] = ("sdpmetric.pola.program", "sdpmetric.pola.solvers")
    weights: ClassVar[tuple[str, ...]] = ("slack_weight",)

    X: NDArray[np.floating]
    pairs: NDArray[np.int32]
    similar: NDArray[np.bool_]
    slack_weight: float | None
    initial_threshold: float
    pair_weights: FloatArray | None

    def __init__(
        self,
        X: ArrayLike,
        pairs: ArrayLike,
        similar: ArrayLike,
        slack_weight: float | Literal["auto"] | None = None,
        initial_threshold: float = 1.0,
        pair_weights: ArrayLike | None = None,
    ) -> None:
        data = validation.check_examples(X)
        rows = pair_checks.check_pairs(pairs, len(data), required=True)
        flags = pair_checks.check_similar(similar, len(rows))
        weights = check_pair_weights(pair_weights, len(rows))
        if slack_weight == "auto":
            slack_weight = pair_checks.weight_of_slacks(data, rows, flags, weights, largest=0.01, total=2.0)
        remedy = "pass None for the hard margin"
        weight = None if slack_weight is None else validation.check_positive("slack_weight", slack_weight, remedy)
        if weight is None and weights is not None:
            raise ValueError("hard margins hold whatever a pair weighs; pass a slack_weight, or no weights.")
        self.X, self.pairs, self.similar = data, rows, flags
        self.slack_weight, self.pair_weights = weight, weights
        # Up to 1e15 a threshold less 1 is exact.
        self.initial_threshold = validation.check_number("initial_threshold", initial_threshold, 1.0, 1e15)

    @classmethod
    def from_labels(
        cls,
        X: ArrayLike,
        y: ArrayLike,
        n_pairs: int | None = 1000,
        *,
        slack_weight: float | Literal["auto"] | None = 1.0,
        initial_threshold: float = 1.0,
        sample_weight: ArrayLike | None = None,
        random_state: int | None = None,
    ) -> POLAProblem:
        """State POLA for labeled data: pairs of equal labels are similar, all others dissimilar.

        Parameters
        ----------
        X : (n, d) array
        y : (n,) array
            Class labels of any kind; at least two classes.
        n_pairs : int or None, default 1000
            The largest number of pairs of each kind, drawn at random; all pairs ``a < b`` if None.
        slack_weight : float, "auto" or None, default 1
        initial_threshold : float, default 1
        sample_weight : (n,) array, optional
            Nonnegative; a pair has the product of its examples' weights. Whole weights are repeated rows.
        random_state : int, optional
            Seed of the draw; default 0.
        """
        data = validation.check_examples(X)
        drawn = pair_checks.weighted_pairs_of_labels(y, len(data), n_pairs, random_state, sample_weight)
        return cls(data, *drawn[:2], slack_weight, initial_threshold, drawn[2])

    @property
    def start(self) -> FloatArray:
        """See `Problem.start`: with hard margins the multiple of the identity that keeps them, if there is one."""
        return self.repair(super().start)[0]

    @cached
    def in_span(self) -> InSpan[POLAProblem] | None:
        """See `Problem.in_span`, and `MetricProblem.in_span` for the theorem; M0 is 0 but for the threshold."""
        if len(self.X) >= self.X.shape[1] or (self.slack_weight is None and self.repeated.any()):
            return None
        span = Span.of(self.X, self.centered, np.zeros(0, dtype=np.intp))
        if not span.basis.shape[1]:
            return None
        return InSpan(replace(self, X=span.points.astype(self.X.dtype)), span.basis, span.basis, 0.0)

    def lines(self) -> Lines:
        """See `PrintedProblem.lines`."""
        return forms.lines(self)

    def dual_program(self) -> cp.Problem:
        """See `PrintedProblem.dual_program`: the multipliers of ``margins``, ``cone`` and ``floor``."""
        return forms.dual_program(self)

    def describe(self) -> str:
        n_similar = int(self.similar.sum())
        margin = "hard margin" if self.slack_weight is None else f"slack weight {self.slack_weight:g}"
        return (
            f"POLA in batch (Shalev-Shwartz, Singer and Ng 2004): {self.X.shape[0]:,} examples, "
            f"{self.X.shape[1]} features, {n_similar:,} similar and {len(self.pairs) - n_similar:,} dissimilar pairs; "
            f"{margin}, initial threshold {self.initial_threshold:g}"
        )

    @published
    def signs(self) -> FloatArray:
        """``y_t``: 1 for similar and -1 for dissimilar pairs, (p,)."""
        return np.where(self.similar, 1.0, -1.0)

    @published
    def ceilings(self) -> FloatArray:
        """The largest multipliers, (p,): the slack weight times those of the pairs, or infinity."""
        return (math.inf if self.slack_weight is None else self.slack_weight) * self.slack_shares

    @property
    def slack_shares(self) -> FloatArray:
        """The weights of the pairs, (p,)."""
        return np.ones(len(self.pairs)) if self.pair_weights is None else self.pair_weights

    def as_sum(self) -> MetricProblem:
        """Return the same statement as a sum of terms, with the threshold as the weight of one more feature.

        A metric and a threshold are one metric there; see `lifted`.
        """
        return self._sum

    @cached
    def _sum(self) -> MetricProblem:
        soft, start = self.slack_weight is not None, self.initial_threshold
        loss, weights = (Hinge(), self.ceilings) if soft else (Hard(), np.ones(len(self.pairs)))
        return margins_to_threshold(self.X, self.pairs, self.signs, loss, weights, start)

    def lifted(self, components: FloatArray, threshold: float) -> FloatArray:
        """Return a factor of ``diag(A, b - 1)``, (r + 1, d + 1): a metric and a threshold as a point of `as_sum`."""
        return np.asarray(scipy.linalg.block_diag(components, [[math.sqrt(threshold - 1.0)]]))

    @published
    def differences(self) -> FloatArray:
        """``v_t``, the difference of each pair, (p, d)."""
        X = np.asarray(self.X, dtype=np.float64)
        return X[self.pairs[:, 0]] - X[self.pairs[:, 1]]

    @cached
    def radius(self) -> float:
        """``R = max_t ||v_t||^4 + 1`` of the paper's Theorem 1, rounded upward."""
        longest = above(float(np.sum(self.differences**2, axis=1).max(initial=0.0)), 3 * self.X.shape[1] + 2)
        return above(longest * longest + 1.0, 2)

    def distances(self, components: FloatArray) -> FloatArray:
        """Return squared distances of the pairs under a factor (r, d), (p,)."""
        return np.asarray(np.sum((self.differences @ components.T) ** 2, axis=1))

    def update_bound(self, objective: float, loss: float = 1.0) -> float:
        """Return how many updates with a loss of at least `loss` online POLA can make on these pairs (Theorem 1).

        Parameters
        ----------
        objective : float
            Hard-margin objective of any feasible point, ``1/2 (||A||^2 + (b - b_1)^2)``; the optimum is tightest.
        loss : float, default 1
            1 bounds the mistakes; beta bounds the updates of the batch conversion.
        """
        return above(2.0 * self.radius * objective / loss / loss, 5)

    @allow_underflow
    def objective(
        self, components: ArrayLike | None = None, *, metric: ArrayLike | None = None, threshold: float | None = None
    ) -> float:
        """Evaluate the objective, infinity if a hard margin or ``b >= 1`` is missed by more than rounding.

        Parameters
        ----------
        components, metric
            As in `Problem.objective`.
        threshold : float, optional
            b; default: the best one for this metric.
        """
        L, _ = validation.check_point(components, metric, self.X.shape[1])
        q = self.distances(L)
        b = self.best_threshold(q) if threshold is None else validation.check_number("threshold", threshold, -np.inf)
        missed = np.maximum(0.0, 1.0 - self._margins(q, b))
        rounding = TOLERANCES.rounding * max(1.0, abs(b))
        if b < 1.0 - rounding or (self.slack_weight is None and missed.max(initial=0.0) > rounding):
            return math.inf
        slack = 0.0 if self.slack_weight is None else float(self.ceilings @ missed)
        return 0.5 * _squared_norm(L) + 0.5 * square(b - self.initial_threshold) + slack

    def _margins(self, q: FloatArray, b: float) -> FloatArray:
        """Return ``y_t (b - q_t)`` for squared distances, (p,)."""
        return self.signs * (b - q)

    def _extremes(self, q: FloatArray) -> tuple[float, float]:
        """Return the largest distance of a similar pair, or 0, and the smallest of a dissimilar pair, or infinity."""
        return float(q[self.similar].max(initial=0.0)), float(q[~self.similar].min(initial=math.inf))

    def best_threshold(self, q: FloatArray) -> float:
        """Return the threshold that is best for squared distances (p,); with hard margins, with the smallest violation.

        The soft objective is convex and piecewise quadratic in b: its slope jumps by a weight at each ``q_t + y_t``.
        """
        start, w = self.initial_threshold, self.ceilings
        if self.slack_weight is None:
            similar_max, dissimilar_min = self._extremes(q)
            return max(1.0, min(max(start, similar_max + 1.0), dissimilar_min - 1.0))
        order = np.argsort(q + self.signs, kind="stable")
        corners = (q + self.signs)[order]
        slopes = np.concatenate([[0.0], np.cumsum(w[order])]) - float(w[self.similar].sum())
        place = int(np.searchsorted(corners - start + slopes[:-1], 0.0))  # slopes just left of each corner
        return max(1.0, float(corners[place - 1]) if place else -math.inf, start - float(slopes[place]))

    def beside(self, components: FloatArray) -> dict[str, float]:
        """Return the best threshold; see `Problem.beside`."""
        return {"threshold": self.best_threshold(self.distances(components))}

    def _best_multiple(self, components: FloatArray, q: FloatArray) -> float:
        """Return the multiple of a metric within the hard margins with the smallest objective; see docs/methods.md."""
        similar_max, dissimilar_min = self._extremes(q)
        if dissimilar_min <= similar_max or dissimilar_min == math.inf:
            return 1.0 if dissimilar_min <= similar_max else 0.0
        squared_length = _squared_norm(components) + dissimilar_min * dissimilar_min
        unconstrained = (self.initial_threshold + 1.0) * dissimilar_min / max(squared_length, 5e-324)
        multiple = max(2.0 / (dissimilar_min - similar_max), unconstrained)
        return multiple if multiple < math.inf else 1.0

    def repair(self, components: ArrayLike, threshold: float | None = None) -> tuple[FloatArray, float]:
        """Return the best feasible point on the ray of a metric, or the given point if it is feasible.

        For the soft margin only ``b >= 1`` is restored. For the hard margin ``(c A, b)`` is feasible for some b exactly
        if ``c (far - near) >= 2`` and so on, with ``far`` the smallest distance of a dissimilar pair and ``near`` the
        largest one of a similar pair; see ``docs/methods.md``. A metric that does not separate the pairs is returned
        with its best threshold, as it is.

        Parameters
        ----------
        components : (r, d) array
        threshold : float, optional
            Default: the best one.

        Returns
        -------
        components : (r, d) array
        threshold : float
        """
        L, _ = validation.check_point(components, None, self.X.shape[1])
        q = self.distances(L)
        b = self.best_threshold(q) if threshold is None else max(1.0, threshold)
        if self.slack_weight is not None or float((1.0 - self._margins(q, b)).max(initial=0.0)) <= 0.0:
            return L, b
        scale = self._best_multiple(L, q)
        return math.sqrt(scale) * L, self.best_threshold(scale * q)

    def best_scale(self, components: FloatArray) -> float:
        """Return the best multiple of a factor, for the hard margin that of `repair`."""
        if self.slack_weight is not None:
            return super().best_scale(components)
        return math.sqrt(self._best_multiple(components, self.distances(components)))

    @allow_underflow
    def certify(
        self,
        components: ArrayLike | None = None,
        *,
        metric: ArrayLike | None = None,
        dual: Multipliers | None = None,
        threshold: float | None = None,
    ) -> Certificate:
        """Certify any point; see `Problem.certify`. Multipliers are those of `as_sum`, which proves the lower bound.

        A point that nearly satisfies the hard margins gets the certificate of its `repair`, and its objective is that
        of a multiple of metric and threshold that is proven to satisfy them. A point that misses a margin by more than
        1e-3 of the threshold has an infinite objective. If the pairs of hard margins contradict each other, and
        multipliers prove it, objective and lower bound are infinite and `InfeasibilityCertificate.contradiction` lists
        the pairs.

        Parameters
        ----------
        components, metric, dual
            As there; default multipliers: slopes of the losses at the point.
        threshold : float, optional
            b; default: the best one for this metric.
        """
        L, residual = self.check_point(components, metric)
        exact_metric, q = validation.given_metric(metric, residual), self.distances(L)
        b = self.best_threshold(q) if threshold is None else validation.check_number("threshold", threshold, -np.inf)
        residual = max(residual, 1.0 - b)
        if self.slack_weight is None:
            residual = max(residual, float((1.0 - self._margins(q, b)).max(initial=0.0)) / max(1.0, b))
        repaired, b = self.repair(L, b)
        q = self.distances(repaired)
        similar_max, dissimilar_min = self._extremes(q)
        feasible = self.slack_weight is not None or (residual <= TOLERANCES.repairable and dissimilar_min > similar_max)
        if not np.array_equal(L, repaired):
            exact_metric = None
        objective = self._objective_above(repaired, b, exact_metric) if feasible else math.inf
        if (contradiction := self._contradiction(repaired, b, dual, objective)) is not None:
            rows = tuple(np.sort(feasibility.used(self.as_sum().dual, contradiction)).tolist())
            return InfeasibilityCertificate(program="POLA", constraints="pairs", contradiction=rows, rigor="float")
        proven = self.as_sum().prove(self.lifted(repaired, b), dual)
        return DualityCertificate(
            objective=objective,
            constraints="pairs",
            lower_bound=max(0.0, proven.value),
            primal_residual=residual,
            n_active=int(np.count_nonzero(self._margins(q, b) < 1.0 + TOLERANCES.active * b)),
            program="POLA",
            rigor="float",
            info={} if dual is None else {"dual_residual": proven.residual},
        )

    def _contradiction(
        self, components: FloatArray, threshold: float, dual: Multipliers | None, objective: float
    ) -> Proven | None:
        """Return multipliers that may prove that no point satisfies all hard margins: given, or the point's misses."""
        if math.isfinite(objective):
            return None
        total = self.as_sum()
        if dual is not None:
            return feasibility.contradiction(total.dual, total.read_dual(dual))
        return feasibility.proof(total.dual, self.lifted(components, threshold), [self.repeated])

    def _objective_above(self, components: FloatArray, threshold: float, metric: FloatArray | None) -> float:
        """Return an upper bound of the objective of exact components; of a hard margin, of `_feasible_multiple`."""
        start, b, size = self.initial_threshold, max(1.0, threshold), metric_norm_above(components, metric)
        multiple, slack = 1.0, 0.0
        if self.slack_weight is not None:
            margins, far = self._enclosed_margins(components, b, metric)
            hinges = np.maximum(0.0, 1.0 - margins + 4.0 * U * (1.0 + b + far))
            slack = above(sum_above(products_above(self.ceilings, hinges)), 5)
        elif (multiple := self._feasible_multiple(components, b, metric)) == math.inf:
            return math.inf
        rounding = 4.0 * U * (multiple * b + start) if multiple != 1.0 else 0.0
        excess = above(abs(multiple * b - start) + rounding)
        return above(product_above(0.5, multiple, size, multiple, size) + product_above(0.5, excess, excess) + slack, 8)

    def _enclosed_margins(
        self, components: FloatArray, threshold: float, metric: FloatArray | None
    ) -> tuple[FloatArray, FloatArray]:
        """Return lower bounds of margins, but for the rounding of the last difference, and the distances."""
        low, high = Images(self.X, self.centered, components.T, metric=metric).distances(*self.pairs.T)
        return np.where(self.similar, threshold - high, low - threshold), np.where(self.similar, high, low)

    def _feasible_multiple(self, components: FloatArray, threshold: float, metric: FloatArray | None = None) -> float:
        """Return a multiple of metric and threshold, at least 1, that keeps the hard margins exactly; or infinity."""
        margins, far = self._enclosed_margins(components, threshold, metric)
        smallest_margin = float((margins - 4.0 * U * (threshold + far)).min())
        return 1.0 if smallest_margin >= 1.0 else above(1.0 / smallest_margin, 2) if smallest_margin > 0.0 else math.inf

    def proof(self, components: FloatArray, dual: Multipliers | None) -> Proof:
        """Return the proof of `as_sum`, for `Solution.save_proof`. A hard margin is exceeded by a little."""
        total, (L, b) = self.as_sum(), self.repair(components)
        data = {"X": self.X, "pairs": self.pairs, "similar": self.similar}
        if self.slack_weight is None:
            L, b = math.sqrt(1.0 + CONSTRAINT_SLACK) * L, (1.0 + CONSTRAINT_SLACK) * b
        if (contradiction := self._contradiction(L, b, dual, self.objective(L, threshold=b))) is not None:
            proof = proofs.of_contradiction(total.dual, contradiction, data)
        else:
            lifted = self.lifted(L, b)
            proof = total.proof_of(lifted, total.prove(lifted, dual), data)
        return replace(proof, domain={"domain": "threshold"})

    def certify_stream(self, loss: float, n_pairs: int, n_updates: int) -> RegretCertificate:
        """Certify online POLA over the first pairs, by the squared hinges before each update, and by its updates."""
        return RegretCertificate(
            objective=loss,
            lower_bound=pair_checks.contradiction_loss(self.pairs[:n_pairs], self.similar[:n_pairs]),
            primal_residual=0.0,
            n_active=n_updates,
            program="POLA online",
            rigor="float",
        )

    @published
    def repeated(self) -> FloatArray:
        """Multipliers (p,) of the contradictions that need no search, or zeros.

        Those are pairs with the same difference, up to its sign, that are similar and dissimilar, and dissimilar pairs
        of equal points.
        """
        V, remainders = exact.differences(self.X, *self.pairs.T)
        group = exact.alike(V, remainders)
        counts = [np.bincount(group[kind], minlength=len(V))[group] for kind in (self.similar, ~self.similar)]
        a = np.where(self.similar, *counts[::-1]).astype(np.float64)  # whole numbers, which cancel exactly
        return np.where(~V.any(axis=1), (~self.similar).astype(np.float64), a)

    def constraints(self, components: FloatArray, dual: Multipliers | None) -> Constraints:
        """See `Constrained.constraints`; of `as_sum`. A point that misses hard margins is taken after `repair`.

        Raises
        ------
        ValueError
            If the multipliers prove that the pairs contradict each other.
        """
        total, (L, b) = self.as_sum(), self.repair(components)
        if self._contradiction(L, b, dual, self.objective(L, threshold=b)) is not None:
            raise ValueError("the pairs contradict each other and there is no optimum; see certificate.contradiction.")
        lifted = self.lifted(L, b)
        margins = total.constraints(lifted, dual)
        (excess,) = total.total.excess(lifted)
        pair = np.flatnonzero((np.asarray(margins.dual) > 0.0) | (excess > 0.0))
        costs = {"frobenius": 0.5 * _squared_norm(L), "threshold": 0.5 * square(b - self.initial_threshold)}
        slack = {}
        if self.slack_weight is not None:
            slack = {"slack": float(self.ceilings @ np.maximum(excess, 0.0)) / self.slack_weight}
        return replace(
            margins,
            columns={"pair": pair, "similar": self.similar[pair]},
            stretch=margins.stretch[:1],  # the threshold is the distance of no examples
            sums=costs | slack,
            slopes={"slack_weight": sum(slack.values())} if slack else {},
            margin=True,
        )


def _squared_norm(components: FloatArray) -> float:
    """Return ``||A||_F^2`` of the metric with this factor."""
    r, d = components.shape
    return float(np.sum((components @ components.T if r < d else components.T @ components) ** 2))
