"""LEGO's pairs all at once: a metric near the first one that loses little, the comparator of Theorem 2.2."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from sdpmetric.core import validation
from sdpmetric.core.certificate import DualityCertificate
from sdpmetric.core.constraints import Constraints, SquaredHinge
from sdpmetric.core.multipliers import Multipliers, check_multipliers
from sdpmetric.core.problem import Extras, SmoothProblem
from sdpmetric.linalg import psd
from sdpmetric.linalg.rigorous import Images, U, above, sum_above, sum_below
from sdpmetric.problems.lego import LEGOProblem

FloatArray = NDArray[np.float64]

# Singular values are taken as at least this where a solver looks at them.
SMALLEST = 1e-100
# Near a pole of the dual nothing is proven: multiples are then made shorter by these shares.
SHORTER = (1e-9, 1e-6, 1e-3)


@dataclass(frozen=True, eq=False, repr=False)
class LEGOBatchProblem(SmoothProblem):
    """The program that LEGO takes one pair at a time, for all pairs of a stream at once.

    Minimize over positive definite A, with the losses of `LEGOProblem`::

        D_ld(A, A_0) + eta * sum_t loss_t(A)

    Its optimum, times ``1 / eta + reach``, is the tightest allowance of the corrected Theorem 2.2; as a learner it is
    an offline one.

    Parameters
    ----------
    stream : LEGOProblem
        Gives data, pairs, targets, ``eta`` and ``A_0``.
    """

    statement: ClassVar[str] = "lego-batch"
    weights: ClassVar[tuple[str, ...]] = ("learning_rate",)

    stream: LEGOProblem

    @property
    def X(self) -> NDArray[np.floating]:
        """The data, (n, d)."""
        return self.stream.X

    def describe(self) -> str:
        """Say in one sentence what is minimised, over how much data."""
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
        """State the program for labelled data; parameters as in `LEGOProblem.from_labels`."""
        return cls(LEGOProblem.from_labels(X, y, n_pairs, learning_rate=learning_rate, random_state=random_state))

    def with_weights(self, **values: float) -> Self:
        """State the same program with another `learning_rate`.

        Parameters
        ----------
        **values : float
        """
        return replace(self, stream=self.stream.with_weights(**values))

    def objective(self, components: ArrayLike | None = None, *, metric: ArrayLike | None = None) -> float:
        """Divergence and weighted losses of a metric; infinite for a singular one.

        Parameters
        ----------
        components : (r, d) array, optional
            Factor L of the metric.
        metric : (d, d) array, optional
            The metric itself; exactly one of the two.
        """
        L, _ = validation.check_point(components, metric, self.X.shape[1])
        return self.stream.divergence(L) + self.stream.learning_rate * self.stream.objective(L)

    @cached_property
    def differences(self) -> FloatArray:
        """The pairs' differences in coordinates in which the first metric is the identity, (p, d)."""
        return np.ascontiguousarray(self.stream.differences @ self.stream.root.T)

    # -- for solvers ------------------------------------------------------------------------------------------------

    def start(self) -> FloatArray:
        """Where a solver begins, (d, d): the first metric, made smaller where distances are far over their targets."""
        sizes = np.sum(self.differences**2, axis=1)
        middle = float(self.stream.targets.mean()) or float(sizes.mean()) or 1.0
        values, vectors = np.linalg.eigh(self._sum(np.full(len(sizes), 1.0 / (len(sizes) * middle))))
        return np.asarray((vectors / np.sqrt(1.0 + np.maximum(values, 0.0))) @ vectors.T)

    def smooth(self, factor: FloatArray) -> tuple[float, FloatArray]:
        """The objective at a square factor where the first metric is the identity, and its gradient."""
        misses = self.stream.misses(self.lift(factor))
        U, sigma, Vt = np.linalg.svd(factor)
        sigma = np.maximum(sigma, SMALLEST)
        rate = self.stream.learning_rate
        value = float(np.sum(sigma**2 - 2.0 * np.log(sigma) - 1.0)) + 0.5 * rate * float(misses @ misses)
        return value, 2.0 * (factor - (U / sigma) @ Vt + rate * factor @ self._sum(misses))

    def lift(self, factor: FloatArray) -> FloatArray:
        """Components in the data's own coordinates."""
        return factor @ self.stream.root

    def multipliers(self, components: FloatArray) -> FloatArray:
        """The slopes of a point's losses, a dual candidate."""
        return self.stream.misses(components)

    # -- the certificate --------------------------------------------------------------------------------------------

    def certify(
        self, components: ArrayLike | None = None, *, metric: ArrayLike | None = None, dual: Multipliers | None = None
    ) -> DualityCertificate:
        """Judge any point, whoever made it.

        As ``1/2 m^2 >= a m - 1/2 a^2`` for every miss m, multipliers a of the right signs prove ``log det(I + eta sum
        a_t w_t w_t^T) - eta sum (a_t y_t + 1/2 a_t^2)``, w the differences where ``A_0`` is the identity; the best of
        all their multiples is taken.

        Parameters
        ----------
        components : (r, d) array, optional
            Factor L of the metric.
        metric : (d, d) array, optional
            The metric itself; exactly one of the two.
        dual : (p,) array, optional
            A multiplier for each pair; those of the wrong sign are taken as 0. Default: the slopes of the point's
            losses.

        Raises
        ------
        ValueError
            If the point or the multipliers have the wrong shape or are not finite, or the metric is not PSD.
        """
        L, primal_residual = validation.check_point(components, metric, self.X.shape[1])
        tried = self.multipliers(L) if dual is None else dual
        given = check_multipliers(tried, len(self.stream.pairs), "multipliers, one for each pair")
        a = self.stream.clip(given)
        bound, multiple = self._bound(a)
        objective = sum_above(
            np.array([self.stream.prior.divergence(L), above(self.stream.learning_rate * self.stream.loss_above(L), 2)])
        )
        apart = np.abs(self.stream.misses(L) - multiple * a).max()
        return DualityCertificate(
            objective=objective,
            constraints="pairs",
            lower_bound=bound,
            primal_residual=primal_residual,
            dual_residual=float(np.abs(given - a).max() / max(1.0, np.abs(a).max())),
            complementarity=float(apart / max(1.0, np.abs(a).max())),
            n_active=int(np.count_nonzero(self.stream.misses(L))),
            program="LEGO in batch",
        )

    def constraints(self, components: FloatArray, dual: Multipliers | None, extras: Extras) -> Constraints:
        """All pairs; see `Constrained.constraints`. A target to be equal to is two constraints, one for each side."""
        stream, rate = self.stream, self.stream.learning_rate
        tried = self.multipliers(components) if dual is None else dual
        a = stream.clip(check_multipliers(tried, len(stream.pairs), "multipliers, one for each pair"))
        a = self._bound(a)[1] * a
        sides = [(side, np.flatnonzero(stream.sides != -side)) for side in (1.0, -1.0)]
        pair, sign = (
            np.concatenate([rows for _, rows in sides]),
            np.concatenate([np.full(len(rows), side) for side, rows in sides]),
        )
        first, second = stream.pairs[pair].T
        D = np.sum((stream.differences @ components.T) ** 2, axis=1)[pair]
        divergence, lost = stream.divergence(components), stream.objective(components)
        return Constraints(
            dual=a,
            roles={"first": first, "second": second},
            columns={"pair": pair, "at_most": sign > 0},
            multipliers=rate * np.maximum(sign * a[pair], 0.0),
            excess=sign * (D - stream.targets[pair]),
            loss=SquaredHinge(np.full(len(pair), 0.5 * rate)),
            stretch=[(first, second, -sign * D)],
            sums={"divergence": divergence, "loss": lost},
            slopes={"learning_rate": lost},
        )

    def _sum(self, weights: FloatArray) -> FloatArray:
        """``sum_t weights_t w_t w_t^T``."""
        return psd.symmetrize((self.differences * weights[:, None]).T @ self.differences)

    def _bound(self, a: FloatArray) -> tuple[float, float]:
        """The largest dual value along the multiples of given multipliers, and the multiple; 0 at 0, and concave."""
        rate = self.stream.learning_rate
        eigenvalues, vectors = np.linalg.eigh(rate * self._sum(a))
        linear, square = rate * float(a @ self.stream.targets), rate * float(a @ a)

        def slope(multiple: float) -> float:
            return float(np.sum(eigenvalues / (1.0 + multiple * eigenvalues))) - linear - multiple * square

        if not np.isfinite(eigenvalues).all() or not 0.0 < square < math.inf or slope(0.0) <= 0.0:
            return 0.0, 0.0
        lowest = float(eigenvalues.min())
        end = (1.0 - 1e-12) / -lowest if lowest < 0.0 else 1.0
        while lowest >= 0.0 and slope(end) > 0.0:
            end *= 2.0
        best = end if slope(end) >= 0.0 else float(brentq(slope, 0.0, end, xtol=1e-300, rtol=1e-14))
        for multiple in (best, *(best * (1.0 - less) for less in SHORTER)):
            white = vectors / np.sqrt(np.maximum(1.0 + multiple * eigenvalues, SMALLEST))
            value = self._lowest(multiple * a, np.ascontiguousarray(self.stream.root.T @ white))
            if value > 0.0:
                return value, multiple
        return 0.0, 0.0

    def _lowest(self, a: FloatArray, P: FloatArray) -> float:
        """A float not above the dual value of multipliers; P as in `LogDetPrior.log_det`."""
        stream = self.stream
        first, second = stream.pairs.T
        form = Images.of(stream.X, stream.centered, P).form(first, second, stream.learning_rate * a, roundings=1)
        volume = stream.prior.log_det(P, form)
        parts = np.concatenate([a * stream.targets, 0.5 * a * a])
        costs = sum_above(parts) + 4.0 * U * sum_above(np.abs(parts))
        costs = stream.learning_rate * costs + 4.0 * U * stream.learning_rate * abs(costs)
        return sum_below(np.array([volume, -costs])) if math.isfinite(volume) and math.isfinite(costs) else -math.inf
