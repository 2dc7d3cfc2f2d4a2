"""A stream of pairs with target distances, as LEGO takes it: losses, the theorem's allowance, a proven least loss.

The batch problem takes all pairs at once: its optimum is the comparator of Theorem 2.2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sdpmetric.arrays import FloatArray, allow_underflow
from sdpmetric.core import validation
from sdpmetric.core.certificate import DualityCertificate, Multipliers, RegretCertificate, check_multipliers
from sdpmetric.core.constraints import Constraints
from sdpmetric.core.named import named_prior
from sdpmetric.core.pairs import check_targets, pairs_of_labels
from sdpmetric.core.problem import Problem
from sdpmetric.core.registry import formulation
from sdpmetric.engine.lazy import cached, published
from sdpmetric.linalg.distances import adjoint, distances
from sdpmetric.linalg.rigorous.directed import above
from sdpmetric.programs.exact_program import ExactProgram
from sdpmetric.sums.conic import state
from sdpmetric.sums.fenchel import NULL_TOLERANCE
from sdpmetric.sums.problem import MetricProblem
from sdpmetric.sums.terms.log_det import LogDet
from sdpmetric.sums.terms.pairs import DistanceTargets

# By how much more than needed multipliers that pull are raised, so rounding does not undo it.
LIFTED = 1.0 + 1e-9


@dataclass(init=False, eq=False, repr=False)
class LEGOProblem(Problem):
    """A stream of pairs for LEGO (Jain, Kulis, Dhillon and Grauman 2008) [JKDG2008].

    With ``z_t`` the difference of pair t and ``y_t`` its target, a metric A loses on it::

        loss_t(A) = 1/2 (z_t^T A z_t - y_t)^2,   0 if a target that is a bound holds

    The online algorithm incurs each pair's loss before it learns from the pair. `objective` is the loss of one fixed
    metric on all pairs; the theorem compares the two.

    Parameters
    ----------
    X : (n, d) array
        Finite numbers; float32 stays float32, everything else becomes float64.
    pairs : (p, 2) integer array
        Row numbers of X in the order of the stream; pairs may repeat; a row paired with itself raises an error.
    targets : (p,) array or float
        Squared distances, at least 0.
    sides : (p,) array or int, optional
        0: the distance should be the target (default); 1: at most; -1: at least.
    learning_rate : float, default 1
        ``eta > 0``; `LEGOStream.pretrained` chooses one.
    prior : {"identity", "covariance", "random"} or (d, d) array, default "identity"
        Positive definite ``A_0``, as in `ITMLProblem`.

    Raises
    ------
    ValueError
        If there are no pairs; a pair is out of range, of a row with itself, or of two equal
        examples that should be parted; a target is negative; or a number is out of range.

    See Also
    --------
    LEGOBatchProblem, LEGOStream, regret, sdpmetric.estimators.LEGO

    Examples
    --------
    >>> import numpy as np
    >>> import sdpmetric as sm
    >>> X, y = sm.datasets.load("iris")
    >>> pairs, similar = sm.constraints.pairs(y, 30)
    >>> stream = sm.LEGOProblem(X, pairs, np.where(similar, 1.0, 9.0), learning_rate=0.1)
    >>> certificate = sm.regret(stream, sm.solve(stream))
    >>> certificate.lower_bound <= certificate.objective <= certificate.regret_bound
    True
    """

    statement: ClassVar[str] = "lego"
    solver_modules: ClassVar[tuple[str, ...]] = ("sdpmetric.lego.stream",)
    weights: ClassVar[tuple[str, ...]] = ("learning_rate",)

    X: NDArray[np.floating]
    pairs: NDArray[np.int32]
    targets: FloatArray
    sides: FloatArray
    learning_rate: float
    prior: FloatArray

    def __init__(
        self,
        X: ArrayLike,
        pairs: ArrayLike,
        targets: ArrayLike,
        sides: ArrayLike | None = None,
        learning_rate: float = 1.0,
        prior: ArrayLike | str = "identity",
    ) -> None:
        data = validation.check_examples(X)
        rows, goals, marks = check_targets(data, pairs, targets, sides)
        if not len(rows):
            raise ValueError("there are no pairs; a stream needs at least one.")
        A0 = validation.check_positive_definite("prior", named_prior(prior, data), data.shape[1])
        self.X, self.pairs, self.targets, self.sides = data, rows, goals, marks
        self.learning_rate = validation.check_positive("learning_rate", learning_rate)
        self.prior = A0

    def describe(self) -> str:
        kinds = (("equal to", 0), ("at most", 1), ("at least", -1))
        counts = [(word, int((self.sides == side).sum())) for word, side in kinds]
        return (
            f"LEGO (Jain et al. 2008): {self.X.shape[0]:,} examples, {self.X.shape[1]} features, a stream of "
            f"{len(self.pairs):,} pairs ({', '.join(f'{n:,} {word} their target' for word, n in counts if n)}); "
            f"learning rate {self.learning_rate:g}"
        )

    @classmethod
    def from_labels(
        cls,
        X: ArrayLike,
        y: ArrayLike,
        n_pairs: int | None = 1000,
        *,
        learning_rate: float = 1.0,
        random_state: int | None = None,
    ) -> LEGOProblem:
        """State a stream for labeled data: upper bounds for similar pairs, lower bounds for dissimilar pairs.

        The targets are the 5th and the 95th percentile of the pairs' squared distances.

        Parameters
        ----------
        X, y, n_pairs
            As in `POLAProblem.from_labels`.
        learning_rate : float, default 1
        random_state : int, optional
            Seed of the draw and of the order; default 0.
        """
        data = validation.check_examples(X)
        _, index = validation.check_labels(y, len(data))
        pairs, similar = pairs_of_labels(index, n_pairs, random_state)
        order = validation.generator(random_state, 0).permutation(len(pairs))
        pairs, similar = pairs[order], similar[order]
        similar_target, dissimilar_target = np.percentile(
            distances(np.asarray(data, dtype=np.float64), pairs[:, 0], pairs[:, 1]), [5, 95]
        )
        return cls(
            data, pairs, np.where(similar, similar_target, dissimilar_target), np.where(similar, 1, -1), learning_rate
        )

    @property
    def start(self) -> FloatArray:
        """See `Problem.start`: a root of ``A_0``, the start of the stream."""
        return self.root

    @published
    def root(self) -> FloatArray:
        """``G_0``, upper triangular, with ``G_0^T G_0 = A_0``."""
        return np.ascontiguousarray(np.linalg.cholesky(self.prior).T)

    @allow_underflow
    def objective(self, components: ArrayLike | None = None, *, metric: ArrayLike | None = None) -> float:
        """Return the loss of one fixed metric on the whole stream; see `Problem.objective`."""
        L, _ = validation.check_point(components, metric, self.X.shape[1])
        return self.losses.total.value(L)[0]

    def allowance(self, reach: float, components: ArrayLike | None = None, *, metric: ArrayLike | None = None) -> float:
        """Return what the corrected Theorem 2.2 lets the online algorithm lose, with this metric as the comparator.

        ``(1 / eta + reach) (D_ld(A, A_0) + eta sum_t loss_t(A))``, valid for every metric A; the solution of
        `LEGOBatchProblem` has the smallest. See docs/methods.md for the proof.

        Parameters
        ----------
        reach : float
            The largest ``p_t max(p_t, y_t)`` of the pairs that missed their target, ``p_t`` the distance before the
            step: `LEGOStream.reach`.
        components, metric
            As in `objective`.
        """
        L, _ = validation.check_point(components, metric, self.X.shape[1])
        weighted = above(self.learning_rate * self.losses.total.upper_bound(self.X, L))
        return above((1.0 / self.learning_rate + reach) * (self.divergence_term.upper_bound(L) + weighted), 6)

    @allow_underflow
    def certify(
        self, components: ArrayLike | None = None, *, metric: ArrayLike | None = None, dual: Multipliers | None = None
    ) -> DualityCertificate:
        """Certify a fixed metric by its loss on the whole stream; see `Problem.certify`.

        Multipliers a prove that every metric loses at least ``-sum a_t y_t - 1/2 sum a_t^2`` if ``sum a_t z_t z_t^T``
        is positive semidefinite, ``a_t >= 0`` for a target that is a largest distance and ``a_t <= 0`` for a
        smallest distance. Any multipliers are repaired to satisfy this, and multiplied by the best number. Default:
        the metric's misses of its targets, which are right for the metric with the least loss.
        """
        L, primal_residual = validation.check_point(components, metric, self.X.shape[1])
        (misses,), clip = self.losses.total.slopes(L), self.losses.total.losses[0].clip
        a = check_multipliers(misses if dual is None else dual, (len(misses),), "multipliers, one for each pair")
        return DualityCertificate(
            objective=self.losses.total.upper_bound(self.X, L, None, validation.given_metric(metric, primal_residual)),
            lower_bound=self.lower_bound(a),
            primal_residual=primal_residual,
            n_active=int(np.count_nonzero(misses)),
            constraints="pairs",
            program="LEGO's stream under a fixed metric",
            rigor="float",
            info={"dual_residual": float(np.abs(a - clip(a)).max() / max(1.0, np.abs(a).max()))},
        )

    def certify_stream(self, loss: float, n_pairs: int, reach: float, components: FloatArray) -> RegretCertificate:
        """Certify an online run over the first pairs, by its cumulative loss, `LEGOStream.reach` and last metric."""
        if not n_pairs:
            return RegretCertificate(objective=0.0, lower_bound=0.0, program="LEGO", regret_bound=0.0, rigor="float")
        head, factors = self, [self.root, components]
        if n_pairs < len(self.pairs):
            first = (self.pairs[:n_pairs], self.targets[:n_pairs], self.sides[:n_pairs])
            head = LEGOProblem(self.X, *first, self.learning_rate, self.prior)
        return RegretCertificate(
            objective=loss,
            lower_bound=max(head.certify(L).lower_bound for L in factors),
            primal_residual=0.0,
            n_active=int(np.count_nonzero(head.losses.total.slopes(components)[0])),
            program="LEGO",
            rigor="float",
            regret_bound=min(head.allowance(reach, L) for L in factors),
        )

    def lower_bound(self, dual: FloatArray) -> float:
        """Return a loss that every metric incurs, proven by any multipliers; at least 0."""
        proof, (loss,) = self.losses.dual, self.losses.total.losses
        a, lifting = loss.clip(dual), np.where(self.sides >= 0.0, 1.0, 0.0)
        a = a / (np.abs(a).max() or 1.0)
        V, null = proof.slack.coordinates(proof.total.pair_weights([lifting]), None)
        first, second = self.pairs.T
        Y, Z = self.centered @ V, self.centered @ null
        parted = np.abs(Z[first] - Z[second]).max(axis=1, initial=0.0) > NULL_TOLERANCE
        signed = np.where(parted, np.maximum(a, 0.0), a)
        S = adjoint(Y, first, second, signed)
        if not np.isfinite(S).all():
            return 0.0
        raised = signed - LIFTED * float(np.linalg.eigvalsh(S).min(initial=0.0)) * lifting
        best = -float(raised @ self.targets) / (float(raised @ raised) or 1.0)
        if not 0.0 < best < np.inf:
            return 0.0
        return max(0.0, proof.prove([best * raised], self.zero).value)

    @cached
    def losses(self) -> MetricProblem:
        """The loss of one fixed metric, as a sum of one term."""
        return MetricProblem(self.X, DistanceTargets(self.pairs, self.targets, self.sides))

    @cached
    def divergence_term(self) -> LogDet:
        """``D_ld(A, A_0) = trace(A A_0^-1) - log det(A A_0^-1) - d``."""
        return LogDet(to=self.prior).bind(self.X)


@dataclass(init=False, eq=False, repr=False)
class LEGOBatchProblem(MetricProblem):
    """The convex program behind LEGO, over all pairs of a stream at once.

    Minimize over positive definite A, with the losses of `LEGOProblem`::

        D_ld(A, A_0) + eta * sum_t loss_t(A)

    a sum of the terms `LogDet` and `DistanceTargets`. Its optimum, times ``1 / eta + reach``, is the tightest allowance
    of the corrected Theorem 2.2. A pair's multiplier is the slope of its loss times ``eta``; those of the wrong sign
    count as 0.

    Parameters
    ----------
    stream : LEGOProblem
        Gives data, pairs, targets, ``eta`` and ``A_0``.

    Examples
    --------
    >>> import numpy as np
    >>> import sdpmetric as sm
    >>> X, y = sm.datasets.load("iris")
    >>> pairs, similar = sm.constraints.pairs(y, 30)
    >>> stream = sm.LEGOProblem(X, pairs, np.where(similar, 1.0, 9.0), learning_rate=0.1)
    >>> bool(sm.solve(sm.LEGOBatchProblem(stream)).relative_gap <= 1e-3)
    True
    """

    weights: ClassVar[tuple[str, ...]] = ("learning_rate",)
    statement: ClassVar[str] = "lego-batch"
    certificate_title: ClassVar[str] = "LEGO in batch"
    counted: ClassVar[str] = "pairs"

    stream: LEGOProblem

    def __init__(self, stream: LEGOProblem) -> None:
        losses = DistanceTargets(stream.pairs, stream.targets, stream.sides)
        super().__init__(stream.X, LogDet(to=stream.prior) + stream.learning_rate * losses)
        self.stream = stream

    def describe(self) -> str:
        return f"all pairs at once of {self.stream.describe()}"

    @classmethod
    def from_labels(
        cls,
        X: ArrayLike,
        y: ArrayLike,
        n_pairs: int | None = 1000,
        *,
        learning_rate: float = 1.0,
        random_state: int | None = None,
    ) -> LEGOBatchProblem:
        """State the program for labeled data; parameters as in `LEGOProblem.from_labels`."""
        return cls(LEGOProblem.from_labels(X, y, n_pairs, learning_rate=learning_rate, random_state=random_state))

    def with_weights(self, **values: float) -> Self:
        """State the same program with another `learning_rate`."""
        return type(self)(self.stream.with_weights(**values))

    def constraints(self, components: np.ndarray, dual: Multipliers | None) -> Constraints:
        """See `Constrained.constraints`; of pairs. A target for equality bounds on the side of its distance."""
        pairs, (u,), sides = super().constraints(components, dual), self.total.excess(components), self.stream.sides
        sign = np.where(sides != 0.0, sides, np.where(u >= 0.0, 1.0, -1.0))
        pair = np.flatnonzero((sign * np.asarray(pairs.dual) > 0.0) | (sign * u > 0.0))
        divergence, loss = pairs.sums.values()
        columns, sums = {"pair": pair, "at_most": sign[pair] > 0}, {"divergence": divergence, "loss": loss}
        return replace(pairs, columns=columns, sums=sums, slopes={"learning_rate": loss})


@formulation(LEGOProblem, exact=False)
def state_comparator(problem: LEGOProblem) -> ExactProgram:
    """Return the program of the comparator of a stream, `LEGOBatchProblem`."""
    return state(LEGOBatchProblem(problem))
