"""POLA as a batch problem: a metric and a threshold between similar and dissimilar pairs; objective and certificate.

As a sum, `QuadrupletHinge` and `Frobenius`, it takes 0.9 to 27 times as long (docs/benchmarks.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sdpmetric.arrays import FloatArray
from sdpmetric.bounds import contradiction, rays
from sdpmetric.core import pairs as pair_checks
from sdpmetric.core import validation
from sdpmetric.core.certificate import Certificate, RegretCertificate
from sdpmetric.core.constraints import Constraints
from sdpmetric.core.multipliers import Multipliers
from sdpmetric.core.owned import owned
from sdpmetric.core.problem import Extras, Problem, StrongConvexity
from sdpmetric.core.proof import Proof
from sdpmetric.core.sample_weight import check_pair_weights
from sdpmetric.linalg import exact, psd
from sdpmetric.linalg.rigorous import above
from sdpmetric.problems import pola_certificate, proofs
from sdpmetric.problems.pair_margins import PairMargins


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
    pair_weights : (p,) array, optional
        Positive: the slack of a pair counts so many times, of a soft margin; default 1.

    Raises
    ------
    ValueError
        If data are not finite, a pair is out of range or of a row with itself, or `similar` or a number does not fit.
    """

    statement: ClassVar[str] = "pola"
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
        slack_weight: float | None = None,
        initial_threshold: float = 1.0,
        pair_weights: ArrayLike | None = None,
    ) -> None:
        data = owned(validation.check_data(X), X)
        validation.check_entries("X", data)
        rows = pair_checks.check_pairs(pairs, len(data))
        weight = None if slack_weight is None else validation.check_number("slack_weight", slack_weight, 0.0)
        if weight == 0.0:
            raise ValueError("slack_weight must be positive; pass None for the hard margin.")
        weights = check_pair_weights(pair_weights, len(rows))
        if weight is None and weights is not None:
            raise ValueError("hard margins hold whatever a pair weighs; pass a slack_weight, or no weights.")
        self._assign(
            X=data,
            pairs=rows,
            similar=pair_checks.check_similar(similar, len(rows)),
            slack_weight=weight,
            initial_threshold=validation.check_number("initial_threshold", initial_threshold, 1.0),
            pair_weights=weights,
        )

    @classmethod
    def from_labels(
        cls,
        X: ArrayLike,
        y: ArrayLike,
        n_pairs: int | None = 1000,
        *,
        slack_weight: float | None = 1.0,
        initial_threshold: float = 1.0,
        sample_weight: ArrayLike | None = None,
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
        sample_weight : (n,) array, optional
            Nonnegative; a pair has the product of its examples' weights. Whole weights are repeated rows.
        random_state : int, optional
            Seed of the draw; default 0.
        """
        data = validation.check_examples(X)
        drawn = pair_checks.weighted_pairs_of_labels(y, len(data), n_pairs, random_state, sample_weight)
        return cls(data, *drawn[:2], slack_weight, initial_threshold, drawn[2])

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
        return PairMargins(self.similar, self.slack_weight, self.initial_threshold, self.pair_weights)

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
    def difference_rests(self) -> FloatArray:
        """What rounding took from each difference, (p, d)."""
        return exact.differences(self.X, *self.pairs.T)[1]

    @cached_property
    def radius(self) -> float:
        """``R = max_t ||v_t||^4 + 1`` of the paper's Theorem 1, rounded upwards."""
        longest = above(float(np.sum(self.differences**2, axis=1).max(initial=0.0)), 3 * self.X.shape[1] + 2)
        return above(longest * longest + 1.0, 2)

    def distances(self, components: FloatArray) -> FloatArray:
        """Squared distances of the pairs under a factor (r, d), (p,)."""
        return np.asarray(np.sum((self.differences @ components.T) ** 2, axis=1))

    def given_threshold(self, q: FloatArray, given: float | None) -> float:
        """A given threshold, checked, or the best one for squared distances (p,)."""
        return self.margins.best_threshold(q) if given is None else validation.check_number("threshold", given, -np.inf)

    def update_bound(self, objective: float, loss: float = 1.0) -> float:
        """How many updates with a loss of at least `loss` online POLA can make on these pairs (Theorem 1).

        Parameters
        ----------
        objective : float
            Hard-margin objective of any feasible point, ``1/2 (||A||^2 + (b - b_1)^2)``; the optimum is tightest.
        loss : float, default 1
            1 bounds the mistakes; beta bounds the updates of the batch conversion.
        """
        return above(2.0 * self.radius * objective / loss / loss, 5)

    def objective(
        self, components: ArrayLike | None = None, *, metric: ArrayLike | None = None, threshold: float | None = None
    ) -> float:
        """Evaluate the objective; infinity where a hard margin or ``b >= 1`` is missed by more than rounding.

        Parameters
        ----------
        components, metric
            As in `Problem.objective`.
        threshold : float, optional
            b; default: the best one for this metric.
        """
        L, _ = validation.check_point(components, metric, self.X.shape[1])
        q = self.distances(L)
        b = self.given_threshold(q, threshold)
        rounding = pola_certificate.ROUNDING * max(1.0, abs(b))
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
        components, metric : arrays, optional
            Exactly one of the two.
        threshold : float, optional
            Default: the best one.

        Returns
        -------
        components : (r, d) array
        threshold : float
        """
        L, _ = validation.check_point(components, metric, self.X.shape[1])
        q = self.distances(L)
        b = self.margins.best_threshold(q) if threshold is None else max(1.0, threshold)
        if self.slack_weight is not None or self.margins.missed(q, b) <= 0.0:
            return L, b
        scale = self.margins.best_multiple(rays.squared_norm(L), q)
        return math.sqrt(scale) * L, self.margins.best_threshold(scale * q)

    def best_scale(self, components: FloatArray) -> float:
        """The best multiple of a factor, for the hard margin that of `repair`."""
        if self.slack_weight is not None:
            return super().best_scale(components)
        scale = self.margins.best_multiple(rays.squared_norm(components), self.distances(components))
        return math.sqrt(scale)

    def strong_convexity(self, components: FloatArray, extras: Extras) -> StrongConvexity:
        """With modulus 1; of a hard margin, `repair` is right up to rounding. See `Problem.strong_convexity`."""
        L, b = self.repair(components, self.given_threshold(self.distances(components), extras.get("threshold")))
        return StrongConvexity(1.0, L, b, "float" if self.slack_weight is not None else "rounding")

    # -- the certificate --------------------------------------------------------------------------------------------

    def certify(
        self,
        components: ArrayLike | None = None,
        *,
        metric: ArrayLike | None = None,
        dual: Multipliers | None = None,
        threshold: float | None = None,
    ) -> Certificate:
        """Certify any point; see `Problem.certify`.

        A point that nearly satisfies the hard margins is certified after `repair`; one that misses a margin by more
        than 1e-3 of the threshold has an infinite objective. Multipliers are clipped to their box and replaced by their
        best multiple. For a hard margin whose pairs contradict each other, and multipliers that prove it, objective and
        lower bound are infinite and `InfeasibilityCertificate.contradiction` lists the pairs.

        Parameters
        ----------
        components, metric, dual
            As there; default multipliers: soft minima over the margins of the point.
        threshold : float, optional
            b; default: the best one for this metric.
        """
        L, residual = self.check_point(components, metric)
        given = validation.given_metric(metric, residual)
        return pola_certificate.certificate(self, L, residual, dual, threshold, given)

    def proof(self, components: FloatArray, dual: Multipliers | None, extras: Extras) -> Proof:
        """What a point and multipliers prove, for `Solution.save_proof`; see `sdpmetric.problems.proofs.pola`."""
        return proofs.pola(
            self, components, dual, self.given_threshold(self.distances(components), extras.get("threshold"))
        )

    def certify_with(
        self,
        extras: Extras,
        components: ArrayLike | None = None,
        *,
        metric: ArrayLike | None = None,
        dual: Multipliers | None = None,
    ) -> Certificate:
        """Certify a point with its ``threshold``; see `Problem.certify_with`."""
        return self.certify(components, metric=metric, dual=dual, threshold=extras.get("threshold"))

    def certify_stream(self, loss: float, n_pairs: int, n_updates: int) -> RegretCertificate:
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
            rigor="float",
        )

    def dual_point(self, dual: FloatArray) -> pola_certificate.DualPoint:
        """The primal point and the dual value of multipliers (p,) in their box, ``0 <= a <= margins.ceilings``."""
        return pola_certificate.dual_point(self, dual)

    def matrix(self, dual: FloatArray) -> FloatArray:
        """``sum_t a_t y_t v_t v_t^T``, (d, d)."""
        used = np.flatnonzero(dual)
        V = self.differences[used]
        return psd.symmetrize((V * (dual * self.signs)[used, None]).T @ V)

    def best_multiple(self, dual: FloatArray) -> float:
        """The multiple of multipliers in their box with the largest dual value, in closed form; see docs/pola.md."""
        size, used = rays.squared_norm(psd.factor(self.matrix(-dual))), dual > 0.0
        ceiling = float((self.margins.ceilings[used] / dual[used]).min(initial=math.inf))
        total, summed = float(dual @ self.signs), float(dual.sum())
        return rays.best_dual_multiple(total, summed, size, self.initial_threshold, ceiling)

    def contradicts(self, dual: FloatArray) -> bool:
        """Whether multipliers (p,) prove that no point satisfies all hard margins; see `contradiction.contradicts`."""
        rest = self.difference_rests
        return self.slack_weight is None and contradiction.contradicts(self.differences, self.signs, dual, rest)

    def constraints(self, components: FloatArray, dual: Multipliers | None, extras: Extras) -> Constraints:
        """All pairs; see `Constrained.constraints`. A point that misses hard margins is taken after `repair`.

        Raises
        ------
        ValueError
            If the multipliers prove that the pairs contradict each other.
        """
        return pola_certificate.constraints(self, components, dual, extras)
