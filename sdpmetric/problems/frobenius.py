"""LMNN with a Frobenius term: the statement, its certificate, and what it proves about single triplets."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from sdpmetric.core import validation
from sdpmetric.core.certificate import DualityCertificate
from sdpmetric.core.constraints import Constraints
from sdpmetric.core.multipliers import Dual, Multipliers, check_triplet_multipliers
from sdpmetric.core.problem import Extras, Problem
from sdpmetric.linalg import psd
from sdpmetric.linalg.rigorous import Form, Images, above, below, metric_norm_above, sum_above, sum_below
from sdpmetric.problems import screening
from sdpmetric.problems.lmnn import LMNNProblem
from sdpmetric.problems.push_dual import SMOOTHINGS
from sdpmetric.problems.screening import Screening
from sdpmetric.triplets.bounds import largest_hinges, margin_form, silent_beyond, slope_form, target_bounds
from sdpmetric.triplets.margins import hinge_slopes, margin_adjoint
from sdpmetric.triplets.sources import SearchMethod
from sdpmetric.triplets.triplets import Triplets

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class DualPoint:
    """What multipliers ``a`` mean: the metric that minimises the Lagrangian, and the dual value.

    Attributes
    ----------
    components : (r, d) array
        Factor of ``M(a) = [sum a_t B_t - C]_+ / frobenius``.
    value : float
        ``g(a)``, below every objective.
    """

    components: FloatArray
    value: float


@dataclass(frozen=True, eq=False, repr=False)
class FrobeniusLMNNProblem(Problem):
    """LMNN with a Frobenius term, a strongly convex program: its optimal metric is unique.

    Minimize over PSD matrices M, with ``mu`` the push weight and ``lam`` the weight of the new term::

        (1 - mu) sum_{i, j~>i} D(i, j)  +  mu sum_{i, j~>i, l} w_ijl [1 + D(i, j) - D(i, l)]_+
            +  ridge trace(M)  +  lam / 2 ||M||_F^2

    With ``mu = 1`` and ``ridge = 0`` this is the program that Yoshida, Takeuchi and Karasuyama (2018) screen [YTK2018],
    for the hinge. Other than LMNN, the program depends on the coordinates of the data: scale the features first. Make
    one with `from_labels` or `from_triplets`.

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
        if validation.check_number("frobenius", self.frobenius, 0.0) == 0.0:
            raise ValueError("frobenius must be positive; state LMNN without it as an LMNNProblem.")
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
    ) -> FrobeniusLMNNProblem:
        """State the problem for labelled data.

        Parameters
        ----------
        X : (n, d) array
        y : (n,) array
        n_neighbors : int, default 3
        push_weight : float, default 0.5
            ``mu``, between 0 and 1; 1 leaves out the pull.
        frobenius : float, default 1
            ``lam``, > 0.
        target_neighbors, ridge, search
            As in `LMNNProblem.from_labels`, like all the others.

        Raises
        ------
        ValueError
            As `LMNNProblem.from_labels`, and if `frobenius` is not positive.
        """
        mu = validation.check_number("push_weight", push_weight, 0.0, 1.0)
        base = LMNNProblem.from_labels(
            X, y, n_neighbors, 0.5, target_neighbors=target_neighbors, ridge=ridge, search=search
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
        ridge : float, default 0
            The others are as in `LMNNProblem.from_triplets`.

        Raises
        ------
        ValueError
            As `LMNNProblem.from_triplets`, and if `frobenius` is not positive.
        """
        mu = validation.check_number("push_weight", push_weight, 0.0, 1.0)
        base = LMNNProblem.from_triplets(X, triplets, weights, 0.5, ridge=ridge)
        return cls(replace(base, push_weight=mu), float(frobenius))

    def with_weights(self, **values: float) -> Self:
        """State the same problem with another `push_weight` or `frobenius`; data and triplets are shared.

        Parameters
        ----------
        **values : float
            What is not given stays.
        """
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
        """Say in one sentence what is minimised, over how much data."""
        return f"{self.base.describe()}, Frobenius term {self.frobenius:g}"

    @property
    def linear_cost(self) -> FloatArray:
        """``C``, (d, d): pull and ridge, as a matrix in the data's own coordinates."""
        return self.base.pull_cost.matrix

    def penalty(self, components: FloatArray) -> float:
        """``lam / 2 ||L^T L||_F^2``."""
        return 0.5 * self.frobenius * float(np.sum((components @ components.T) ** 2))

    def objective(self, components: ArrayLike | None = None, *, metric: ArrayLike | None = None) -> float:
        """Evaluate the objective over all triplets.

        Parameters
        ----------
        components : (r, d) array, optional
            Factor L of the metric.
        metric : (d, d) array, optional
            The metric itself; exactly one of the two.
        """
        L, _ = validation.check_point(components, metric, self.X.shape[1])
        return self.base.objective(L) + self.penalty(L)

    # -- the certificate --------------------------------------------------------------------------------------------

    def certify(
        self, components: ArrayLike | None = None, *, metric: ArrayLike | None = None, dual: Multipliers | None = None
    ) -> DualityCertificate:
        """Judge any point, whoever made it.

        Any multipliers in their boxes are dual feasible, and ``sum a - ||[sum a_t B_t - C]_+||_F^2 / (2 lam)`` is then
        below every objective; the best multiple of the given ones is taken. See ``docs/frobenius.md``.

        Parameters
        ----------
        components : (r, d) array, optional
            Factor L of the metric.
        metric : (d, d) array, optional
            The metric itself; exactly one of the two.
        dual : Dual, optional
            Multipliers to try; default: the (smoothed) hinge slopes at the point, the best of several widths.

        Raises
        ------
        ValueError
            If the point or the multipliers have the wrong shape or are not finite, or the metric is not PSD.
        """
        base = self.base
        L, primal_residual = validation.check_point(components, metric, self.X.shape[1])
        images, plain = Images.of(base.X, base.centered, L.T), self._plain
        widths = () if dual is not None else SMOOTHINGS
        totals, forms = [0.0] * len(widths), [Form.zero(base.X.shape[1]) for _ in widths]
        losses, n_active = [], 0
        for block in base.push.near(images.points, widen=silent_beyond(images)):
            near, highest = target_bounds(images, block.anchors, block.targets)
            loss, active = largest_hinges(images, block, near, highest, squared=False)
            losses.append(loss)
            n_active += active
            for g, gamma in enumerate(widths):
                sums, slopes = hinge_slopes(images.points, block, gamma, False, near)
                totals[g] = below(totals[g] + below(base.push_weight * sums.slopes, slopes.size + 4))
                forms[g] += slope_form(plain, block, slopes, accuracy=np.inf).times(base.push_weight)
        cost = base.pull_cost.bound(L, images)
        penalty = above(0.5 * self.frobenius * metric_norm_above(L) ** 2, 4)
        objective = above(cost + above(base.push_weight * sum_above(np.array(losses)), 2) + penalty, 3)
        violation = 0.0
        tries = [(total, form, 1.0) for total, form in zip(totals, forms, strict=True)]
        if dual is not None:
            triplets, a, ceilings, violation = self._repaired(check_triplet_multipliers(dual))
            headroom = max(1.0, float((ceilings / a).min(initial=np.inf)))
            tries = [(sum_below(a), margin_form(plain, triplets, a, accuracy=np.inf), headroom)]
        multiples = [self._best_multiple(total, form.matrix, headroom) for total, form, headroom in tries]
        values = [self._value(m, total, form) for m, (total, form, _) in zip(multiples, tries, strict=True)]
        best = int(np.argmax(values))
        aligned = cost + 2.0 * self.penalty(L) - multiples[best] * float(np.sum((L @ tries[best][1].matrix) * L))
        return DualityCertificate(
            objective=objective,
            lower_bound=values[best],
            primal_residual=primal_residual,
            dual_residual=violation,
            complementarity=abs(aligned) / max(1.0, objective),
            n_active=n_active,
            program="LMNN with a Frobenius term",
        )

    def dual_point(self, dual: Dual) -> DualPoint:
        """The metric and the dual value of multipliers, after each is clipped to its box.

        Parameters
        ----------
        dual : Dual
        """
        triplets, a, _, _ = self._repaired(dual)
        return self.dual_point_of(float(a.sum()), margin_adjoint(self.base.centered, triplets, a))

    def dual_point_of(self, total: float, B: FloatArray) -> DualPoint:
        """The same from ``sum a_t`` and ``sum a_t B_t``."""
        excess = psd.factor(B - self.linear_cost)
        value = total - 0.5 * float(np.sum((excess @ excess.T) ** 2)) / self.frobenius
        return DualPoint(excess / math.sqrt(self.frobenius), value)

    def screen(
        self,
        components: ArrayLike | None = None,
        *,
        metric: ArrayLike | None = None,
        lower_bound: float | None = None,
        dual: Dual | None = None,
    ) -> Screening:
        """Which triplets have a multiplier that is proven to be at its bound [YTK2018].

        Strong convexity puts the optimum M* into a ball. With a lower bound only, ``||M* - M||^2 <= 2 gap / lam``.
        Multipliers bring a second point ``M(a)`` and a smaller ball around the middle of the two, with
        ``radius^2 = gap / lam - ||M - M(a)||^2 / 4``.

        Parameters
        ----------
        components : (r, d) array, optional
            Factor of a metric M.
        metric : (d, d) array, optional
            The metric itself; exactly one of the two.
        lower_bound : float, optional
            A proven lower bound, for example that of a certificate.
        dual : Dual, optional
            Multipliers, clipped to their boxes first. At least one of `lower_bound` and `dual`; of two balls the
            smaller one is taken.

        Returns
        -------
        Screening

        Raises
        ------
        ValueError
            If neither is given, or the lower bound is above the objective by more than rounding.
        """
        if lower_bound is None and dual is None:
            raise ValueError("pass lower_bound= (of a certificate) or dual= (multipliers): the ball needs a gap.")
        L, _ = validation.check_point(components, metric, self.X.shape[1])
        if lower_bound is not None and not math.isfinite(lower_bound):
            raise ValueError(f"lower_bound must be a finite number, that of a certificate, got {lower_bound!r}.")
        objective = self.objective(L)
        balls = [] if lower_bound is None else [screening.ball(L, objective, lower_bound, self.frobenius)]
        if dual is not None:
            point = self.dual_point(dual)
            balls.append(screening.ball(L, objective, point.value, self.frobenius, other=point.components))
        return screening.screen(self.base, *min(balls, key=lambda found: found[1]))

    def feasible_dual(self, dual: Dual) -> Dual:
        """Repair multipliers as `certify` does: in their boxes, scaled to prove the most; positive ones only.

        Parameters
        ----------
        dual : Dual
        """
        triplets, a, ceilings, _ = self._repaired(dual)
        headroom = max(1.0, float((ceilings / a).min(initial=np.inf)))
        multiple = self._best_multiple(float(a.sum()), margin_adjoint(self.base.centered, triplets, a), headroom)
        scaled = np.minimum(multiple * a, ceilings)
        return Dual(triplets[scaled > 0], scaled[scaled > 0])

    def constraints(self, components: FloatArray, dual: Multipliers | None, extras: Extras) -> Constraints:
        """The violated triplets and those with a positive multiplier; see `Constrained.constraints`."""
        found = self.base.constraints_with(self.feasible_dual, components, dual)
        half = self.penalty(components) / self.frobenius
        slopes = {"push_weight": found.slopes["push_weight"], "frobenius": half}
        return replace(found, sums={**found.sums, "frobenius": half}, slopes=slopes)

    # -- parts --------------------------------------------------------------------------------------------------

    def _repaired(self, dual: Dual) -> tuple[Triplets, FloatArray, FloatArray, float]:
        """Triplets with a positive multiplier in its box; the boxes; how far the worst was outside."""
        # The term costs every direction something: no two examples are apart for free.
        multipliers = self.base.push.clipped(dual)
        return (
            multipliers.triplets,
            multipliers.values,
            self.base.push_weight * multipliers.weights,
            multipliers.violation,
        )

    def _value(self, multiple: float, total: float, form: Form) -> float:
        """A float not above the dual value of a multiple of multipliers, which may miss their boxes by rounding."""
        if multiple <= 0.0:
            return 0.0  # no multipliers at all prove 0
        lost = (form.times(multiple) - self._cost).positive_part ** 2
        return max(0.0, below(multiple * total, 12) - above(0.5 * lost / self.frobenius, 12))

    @cached_property
    def _plain(self) -> Images:
        """The data as they are."""
        return Images.of(self.base.X, self.base.centered, np.eye(self.base.X.shape[1]))

    @cached_property
    def _cost(self) -> Form:
        """``C`` with its error."""
        pull, d = self.base.pull_cost, self.base.X.shape[1]
        form = Form(pull.ridge * np.eye(d), 0.0, pull.ridge * d)
        if pull.weight > 0.0:
            weights = np.full(len(pull.first), pull.weight)
            form += self._plain.form(pull.first, pull.second, weights, roundings=1, accuracy=np.inf)
        return form

    def _best_multiple(self, total: float, B: FloatArray, headroom: float) -> float:
        """The multiple of a dual candidate with the largest dual value, which is concave along it."""
        if total <= 0.0 or not math.isfinite(headroom):
            return 0.0

        def slope(multiple: float) -> float:
            L = psd.factor(multiple * B - self.linear_cost)
            return total - float(np.sum((L @ B) * L)) / self.frobenius

        return headroom if slope(headroom) >= 0.0 else float(brentq(slope, 0.0, headroom, xtol=1e-15, rtol=1e-9))
