"""A statement as a sum of terms: its objective, what solvers need of it, and its certificate by Fenchel duality."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import ClassVar, Self

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray

from sdpmetric.arrays import LARGEST_VALUE, FloatArray, allow_underflow
from sdpmetric.core import validation
from sdpmetric.core.certificate import Certificate, DualityCertificate, Multipliers, check_multipliers
from sdpmetric.core.constraints import Constraints, joined_constraints
from sdpmetric.core.files import Proof
from sdpmetric.core.problem import LOG_SCALES, NOT_STATED, InSpan
from sdpmetric.core.read_only import read_only
from sdpmetric.core.sample_weight import check_term_weight
from sdpmetric.engine.lazy import cached, published
from sdpmetric.lazy import cvxpy as cp
from sdpmetric.linalg import psd
from sdpmetric.linalg.distances import adjoint, mean_squared_distance
from sdpmetric.linalg.rigorous.directed import sum_above
from sdpmetric.linalg.rigorous.forms import Span
from sdpmetric.linalg.search import best_log_scale
from sdpmetric.lines import Lines
from sdpmetric.programs.exact_program import PrintedProblem
from sdpmetric.sums import feasibility, written
from sdpmetric.sums import written as proofs
from sdpmetric.sums.bound_terms import BoundTerms, check_bound_term
from sdpmetric.sums.domains import Domain, Slack
from sdpmetric.sums.feasibility import resolution
from sdpmetric.sums.fenchel import FenchelDual, Proven
from sdpmetric.sums.terms.base import Sum, Term
from sdpmetric.sums.terms.comparisons import TripletHinge
from sdpmetric.sums.terms.linear import Pull, Trace

# Smoothing widths, in units of the terms, to take dual candidates of a point from.
WIDTHS = (1e-9, 1e-4, 1e-2, 1.0)
# Triplets of labels that make LMNNProblem, which lists none, several times faster (digits: 0.2 s for 10.8 s).
MANY_TRIPLETS = 50_000
# Coordinates of solvers are scaled until the mean distance under the identity is at least the square of this.
SMALLEST_MEAN_DISTANCE = 0.3
# Multiples of M0 are starts if the mean distance under M0 is below this; else the features have other units than M0.
LARGEST_MEAN_DISTANCE = 100.0
# Sums beyond this, or below its inverse, set no scale.
LARGEST_SCALE = 1e250


@dataclass(init=False, eq=False, repr=False)
class MetricProblem(PrintedProblem):
    """Minimize a sum of terms over the metrics of a domain.

    Parameters
    ----------
    X : (n, d) array
        Finite numbers; float32 stays float32, everything else becomes float64.
    terms : Term or Sum
        For example ``0.5 * terms.Pull(pairs) + 0.5 * terms.TripletHinge(triplets) + 0.1 * terms.LogDet()``. A term
        of weight 0 is left out.
    diagonal : bool, default False
        Only diagonal metrics, weights of features.
    bases : (k, d) array, optional
        Only nonnegative combinations of ``b_j b_j^T`` with these rows.

    Attributes
    ----------
    X : (n, d) array
    terms : tuple of Term
        Bound to the data: indices are arrays, weights are those of the objective.
    domain : Domain
    names : tuple of str
        Names of the terms, as in `weights` and the exact program.
    weights : tuple of str
        Names of the terms, for `path`: ``sm.path(problem, triplet_hinge=[0.1, 1.0])`` varies the weight of that term.
        The second term of the same name is called ``triplet_hinge_2``.

    Raises
    ------
    TypeError
        If `terms` is no sum of terms.
    ValueError
        If a term does not fit them, or no term costs anything.

    See Also
    --------
    LMNNProblem, solve, solvers_of

    Examples
    --------
    >>> import sdpmetric as sm
    >>> from sdpmetric import terms
    >>> X = [[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]]
    >>> problem = sm.MetricProblem(X, terms.Trace() + terms.TripletHinge([[0, 1, 2]]))
    >>> round(sm.solve(problem, tol=1e-6).objective, 6)
    0.25
    """

    statement: ClassVar[str] = ""
    solver_modules: ClassVar[tuple[str, ...]] = (
        "sdpmetric.sums.descent",
        "sdpmetric.sums.dual",
        "sdpmetric.sums.weights",
        "sdpmetric.sums.conic",
    )
    # Of statements that are sums: their name and paper, what certificates call them, and what has a multiplier.
    title: ClassVar[str] = ""
    certificate_title: ClassVar[str] = "sum of terms"
    counted: ClassVar[str] = "multipliers"

    X: NDArray[np.floating]
    terms: tuple[Term, ...]
    domain: Domain = field(repr=False)
    names: tuple[str, ...] = field(repr=False, metadata=NOT_STATED)

    def __init__(
        self,
        X: ArrayLike,
        terms: Term | Sum,
        *,
        diagonal: bool = False,
        bases: ArrayLike | None = None,
    ) -> None:
        data = validation.check_examples(X)
        domain = Domain.of(data.shape[1], diagonal, bases)
        if not isinstance(terms, Term | Sum):
            raise TypeError(
                f"terms must be a term or a sum of terms such as terms.Trace() + terms.TripletHinge(triplets), got "
                f"{type(terms).__name__}."
            )
        summands = (terms,) if isinstance(terms, Term) else terms.terms
        bound = tuple(bound for term in summands if (bound := _bound(term, data)) is not None)
        if not bound:
            raise ValueError("all terms have weight 0, so there is nothing to minimize; give one a weight.")
        self._set(data, bound, domain)
        self._check()

    @allow_underflow
    def _check(self) -> None:
        """Raise an error for sums without a minimum, and for domains that make a term infinite everywhere."""
        if unbounded := feasibility.unbounded(self.dual):
            raise ValueError(
                f"the sum has no minimum: {', '.join(t.name for t in self.terms if not t.nonnegative)} falls without "
                f"bound in {unbounded} directions in which no other term costs anything; add terms.Trace(), or a "
                "Budget over pairs that differ there, or reduce the dimension first, for example by PCA."
            )
        if self.domain.has_identity_basis or not self.total.barrier:
            return
        rank = np.linalg.matrix_rank(self.domain.basis)
        if rank < self.X.shape[1]:
            raise ValueError(
                f"log_det is infinite for every metric of the domain, whose rank is at most {rank}: leave it out, or "
                "state the problem without bases=."
            )

    def _set(self, X: NDArray[np.floating], terms: tuple[Term, ...], domain: Domain) -> None:
        names: list[str] = []
        for term in terms:
            count = sum(earlier.name == term.name for earlier in terms[: len(names)])
            names.append(term.name if not count else f"{term.name}_{count + 1}")
        self.X, self.terms, self.domain, self.names = X, terms, domain, tuple(names)

    @property
    def weights(self) -> tuple[str, ...]:
        """The names of the terms with weights that `path` may vary; hard constraints have none."""
        named = zip(self.names, self.terms, strict=True)
        return tuple(name for name, term in named if not any(loss.hard for loss in term.losses))

    @allow_underflow
    def with_weights(self, **values: float) -> Self:
        """State the same problem with other weights of terms, positive, by the names of `weights`."""
        validation.check_known("with_weights of this sum, whose hard constraints have none,", values, self.weights)
        for name, value in values.items():
            validation.check_positive(f"the weight {name}", value, "leave the term out for 0")
        new = copy.copy(self)
        vars(new).clear()  # also of what was computed for the other weights
        named = [(replace(t, weight=values.get(n, t.weight)), n) for n, t in zip(self.names, self.terms, strict=True)]
        bound = tuple(check_bound_term(term, len(self.X)) if name in values else term for term, name in named)
        new._set(self.X, bound, self.domain)
        return new

    # -- the statement ------------------------------------------------------------------------------------------

    def lines(self) -> Lines:
        """See `PrintedProblem.lines`: each term says its line."""
        return written.lines(self)

    def dual_program(self) -> cp.Problem:
        """See `PrintedProblem.dual_program`: the multipliers of each loss, and a slope of each strictly convex term."""
        return written.dual_program(self)

    def describe(self) -> str:
        """Say in one sentence what is minimized, over how much data."""
        summands = [("" if t.weight == 1.0 else f"{t.weight:g} ") + t.describe() for t in self.terms]
        domain = f"; over {self.domain.kind}" if self.domain.diagonal else ""
        total = f"{' + '.join(summands)}: {self.X.shape[0]:,} examples, {self.X.shape[1]} features{domain}"
        return f"{self.title}: {total}" if self.title else total

    @cached
    def total(self) -> BoundTerms:
        return BoundTerms(self.centered, self.terms)

    @cached
    def in_span(self) -> InSpan[MetricProblem] | None:
        """See `Problem.in_span`.

        Let V hold the differences of the rows, P project to their span, and let the regularizer, if there is one, be
        near c I, or near a matrix that is c I but for some features, which then count to the span. Losses depend on
        ``P M P`` alone. A regularizer, or the trace if c = 0, costs no more at ``P M P + c (I - P)``, c = 0 without
        a regularizer: the blocks of M - M0 between the span and the rest cost something, and so do determinants
        (Fischer's inequality) and traces. So an optimum N in orthonormal coordinates Q of the span is one of all
        metrics, ``Q N Q^T + c (I - Q Q^T)``, with the same multipliers. Floats know the span up to rounding: `Span`
        bounds how far off it is, and the certificate of all metrics accounts for that.
        """
        (n, d), total = self.X.shape, self.total
        if n >= d or self.domain.diagonal or total.depends_on_entries or len(total.regularizers) > 1:
            return None
        multiple, axes = 0.0, np.zeros(0, dtype=np.intp)
        for term in total.regularizers:
            if (outside := term.outside) is None:
                return None
            multiple, axes = outside
        if total.ridge and multiple:  # together they are least at less than c outside
            return None
        if total.ridge or total.regularizers:
            span = Span.of(self.X, self.centered, axes, multiple)
            inverse = span.basis
        else:  # in units of the data
            T, rows = psd.data_basis(self.centered)
            span, inverse = Span(self.X, self.centered, T), rows.T
        return InSpan(self._stated_in(span, axes), span.basis, inverse, multiple) if 0 < len(inverse.T) < d else None

    def _stated_in(self, span: Span, axes: NDArray[np.intp]) -> Self:
        """State the same in coordinates of a span; its certificates are about the exact rows."""
        r, terms = span.basis.shape[1], list[Term]()
        first = r - len(axes)
        for term in self.terms:
            for regularizer in term.regularizers:
                target = span.multiple * np.eye(r)
                target[first:, first:] = regularizer.zero[np.ix_(axes, axes)]
                term = regularizer.toward(target)
            terms.append(term)
        new = copy.copy(self)
        vars(new).clear()
        parameters = {f.name for f in fields(self)} - {f.name for f in fields(MetricProblem)}
        vars(new).update({name: vars(self)[name] for name in parameters})
        new._set(span.points.astype(self.X.dtype), tuple(terms), Domain.of(r))
        vars(new).update(centered=span.points, total=BoundTerms(span.points, tuple(terms), span=span), in_span=None)
        return new

    @property
    def start(self) -> FloatArray:
        """See `Problem.start`: M0 of a Frobenius or log det term, else the identity or all directions of the domain."""
        starts = [start for term in self.total.regularizers if (start := term.start) is not None]
        if self.total.barrier and starts and not self.domain.diagonal:
            return starts[0]
        root = None if self.domain.diagonal or self.total.barrier else self._target_root
        if root is not None:
            return root.T
        if self.domain.has_identity_basis:
            return super().start
        triangle = np.asarray(np.linalg.qr(self.domain.basis, mode="r"))  # a factor of the same metric with fewer rows
        spread = mean_squared_distance(self.centered @ triangle.T)
        return self.domain.basis / math.sqrt(spread if spread > 0.0 else 1.0)

    @allow_underflow
    def objective(self, components: ArrayLike | None = None, *, metric: ArrayLike | None = None) -> float:
        """Return the sum of all terms, infinite if a hard constraint is violated by more than 1e-7 of its unit."""
        L, _ = self.check_point(components, metric)
        return self.total.value(L)[0]

    def check_point(self, components: ArrayLike | None, metric: ArrayLike | None) -> tuple[FloatArray, float]:
        """See `Problem.check_point`; a metric outside the domain raises an error."""
        L, residual = super().check_point(components, metric)
        return L, max(residual, self.domain.check(L)) if self.domain.diagonal else residual

    def easier(self) -> str:
        """See `Problem.easier`: the same with a minimum, or with losses without kinks, near a given metric."""
        if type(self) is not MetricProblem:
            return ""
        if advice := self._labeled_advice():
            return advice
        steep = any(loss.scalar.steep for loss in self.total.losses)
        if steep and not (self.total.regularizers or self.total.ridge or self.total.costs[1].any()):
            return (
                "A logistic loss alone has no minimum where a metric satisfies all comparisons: it falls without end "
                "as that grows. Add terms.Trace() or terms.Frobenius(to=M0), or take loss='hinge'."
            )
        if not any(loss.kinked and not loss.hard for loss in self.total.losses):
            return ""
        return (
            "Losses without kinks and one Frobenius term, such as terms.TripletHinge(triplets, loss='logistic') + "
            "0.01 * terms.Frobenius(to=M0), are solved faster."
        )

    def _labeled_advice(self) -> str:
        """Advise LMNNProblem, which lists no triplets, if the labels of this sum make many."""
        pulls = [term for term in self.terms if isinstance(term, Pull)]
        pushes = [term for term in self.terms if isinstance(term, TripletHinge) and term.targets is not None]
        if self.domain.diagonal or len(pulls) != 1 or len(pushes) != 1 or pushes[0].size <= MANY_TRIPLETS:
            return ""
        traces = [term for term in self.terms if isinstance(term, Trace)]
        (pull,), (push,) = pulls, pushes
        if len(self.terms) > 2 + len(traces) or push.margin != 1.0 or push.loss not in ("hinge", "squared_hinge"):
            return ""
        total = pull.weight + push.weight
        ridge = sum(term.weight for term in traces) / total
        return (
            f"The sum lists the {push.size:,} triplets of its labels. Without a list, and faster, this is "
            f"LMNNProblem.from_labels(X, y, push_weight={push.weight / total:.12g}, ridge={ridge:.12g}, "
            f"loss={push.loss!r}) with the n_neighbors or target_neighbors of the terms, if both have the same; its "
            f"objective is that of the sum divided by {total:.12g}."
        )

    # -- for solvers --------------------------------------------------------------------------------------------

    @published
    def descent_start(self) -> tuple[FloatArray, float, float]:
        """Coordinates T, (k, p), for descent, the multiple of T to start at, and the objective's size.

        In coordinates that whiten the costs, f is the objective of the best multiple of the identity, V the
        differences of n pairs, and ``T T^T = (I / f + V^T V / n)^(-1)``: a direction is as long as an objective of f
        or a mean distance of 1 allows, whatever the units of the features. Near a definite M0, as of a term
        Frobenius(to=M0), with a moderate mean distance, ``T T^T = M0`` conditions the term well.
        """
        root = None if self.domain.diagonal or self.total.barrier else self._target_root
        if root is not None and 1.0 < LARGEST_MEAN_DISTANCE * self._mean_distance(root) < LARGEST_MEAN_DISTANCE**2:
            size = self._objective_by_log_scale(root)(0.0)
            if 1.0 / LARGEST_SCALE < size < LARGEST_SCALE:
                return root, 1.0, size
        T = self.dual.slack.descent_coordinates
        multiple, objective = self._best_multiple(T)
        scaled = None if self.domain.diagonal else self._scaled_by_pairs(T, objective)
        if scaled is not None:
            scaled_multiple, scaled_objective = self._best_multiple(scaled)
            if scaled_objective < LARGEST_SCALE:  # else distances of about 1 are not those that the losses are about
                T, multiple, objective = scaled, scaled_multiple, scaled_objective
        mean_distance, smallest = self._mean_distance(T), 0.0
        if not self.total.barrier and mean_distance > 0.0:  # the zero metric may be the best
            smallest = SMALLEST_MEAN_DISTANCE / math.sqrt(mean_distance)
        scale = max(multiple, smallest)
        return scale * T, multiple / scale, objective if 1.0 / LARGEST_SCALE < objective < LARGEST_SCALE else 1.0

    def _mean_distance(self, T: FloatArray) -> float:
        """Return the mean distance of pairs under the metric ``T T^T``."""
        D = self.total.distances(T.T @ self.domain.basis)
        return float(D.mean()) if len(D) else 0.0

    def _best_multiple(self, T: FloatArray) -> tuple[float, float]:
        """Return the multiple s of coordinates T with ``s^2 T T^T`` about minimizing the sum, and the sum there."""
        objective, unit = (
            self._objective_by_log_scale(T),
            -0.5 * math.log(min(self._mean_distance(T), LARGEST_VALUE) or 1.0),
        )
        bounds = min(LOG_SCALES[0], unit), LOG_SCALES[1]  # distances of 1 are in reach, however little a metric costs
        log_scale, value = best_log_scale(objective, bounds, 1e-2)
        return math.exp(log_scale), abs(value)

    def _objective_by_log_scale(self, T: FloatArray) -> Callable[[float], float]:
        """Return the sum, smoothed at width 1, as a function of the logarithm of a multiple of coordinates T."""
        L = T.T @ self.domain.basis
        D, regularizers = self.total.distances(L), [term.along(L) for term in self.total.regularizers]

        def objective(log_scale: float) -> float:
            scale = math.exp(log_scale)
            losses = self.total.smoothed_losses(scale * L, scale * scale * D, 1.0)[0]
            return min(losses + sum(value(scale) for value in regularizers), LARGEST_VALUE)

        return objective

    @property
    def _target_root(self) -> FloatArray | None:
        """A root R of the first regularizer's target ``M0 = R R^T``, (k, k), or None unless M0 is definite."""
        zeros = [term.zero for term in self.total.regularizers if term.zero.any()]
        try:
            return np.asarray(np.linalg.cholesky(zeros[0])) if zeros else None
        except np.linalg.LinAlgError:
            return None

    def _scaled_by_pairs(self, T: FloatArray, objective: float) -> FloatArray | None:
        """Return ``T`` of `descent_start`, or None if the matrix is not numerically definite."""
        first, second = self.total.pairs.T
        if not (len(first) and 0.0 < objective < LARGEST_SCALE):
            return None
        H = adjoint(self.dual.slack.points @ T, first, second, np.full(len(first), 1.0 / len(first)))
        is_whitened = self.total.ridge or self.total.costs[1].any() or self.total.barrier
        weight = 0.0 if is_whitened else sum(term.weight for term in self.total.regularizers if term.superlinear)
        H = H + np.eye(len(H)) / (objective / (min(weight, 1.0) or 1.0))  # the cost of a metric of the unit size of f
        size = np.sqrt(np.diag(H))
        try:
            root = np.linalg.cholesky(H / np.outer(size, size)) * size[:, None]
        except np.linalg.LinAlgError:
            return None
        return np.asarray(scipy.linalg.solve_triangular(root, T.T, lower=True).T)

    def normalized(self, components: FloatArray) -> FloatArray:
        """Return what a solver reports for a point that it found; some statements fix what their sum leaves free."""
        return components

    def multipliers(self, components: FloatArray, width: float = 1e-9) -> FloatArray:
        """Return the slopes of the smoothed losses at a point, a dual candidate."""
        return self.state_dual(self.total.slopes(components, width))

    def state_dual(self, a: list[FloatArray]) -> FloatArray:
        """Return multipliers, loss by loss, in the form that `certify` takes."""
        return np.concatenate([np.zeros(0), *a])

    def read_dual(self, dual: Multipliers) -> list[FloatArray]:
        """Return multipliers, loss by loss, from the form that `certify` takes."""
        return self.total.split(check_multipliers(dual, (self.total.n_multipliers,), "multipliers of the losses"))

    # -- the certificate ----------------------------------------------------------------------------------------

    @cached
    def dual(self) -> FenchelDual:
        X = self.X if self.total.span is None else self.total.span.X
        return FenchelDual(self.total, Slack(X, self.total, self.domain))

    @allow_underflow
    def certify(
        self, components: ArrayLike | None = None, *, metric: ArrayLike | None = None, dual: Multipliers | None = None
    ) -> Certificate:
        """Certify any point by Fenchel duality; see `Problem.certify` and ``docs/terms.md``.

        Multipliers are those of all losses in the order of the terms; those out of range are clipped, and all are moved
        toward feasible multipliers as far as needed. Default: slopes of the losses at the point.
        """
        L, residual = self.check_point(components, metric)
        span = self.in_span
        stated, point = (self, L) if span is None else (span.problem, span.coordinates(L))
        value, u = stated.total.value(point)
        has_hard, objective = any(loss.hard for loss in self.total.losses), math.inf
        if metric is None and span is not None:
            objective = self._bound_in_span(L)
        if objective == math.inf and (math.isfinite(value) or has_hard):  # also at a near metric exactly in the domain
            points = ((L, None, validation.given_metric(metric, residual)), self.domain.member_beside(L))
            objective = max(self.total.upper_bound(self.X, *point) for point in points if point is not None)
        if not math.isfinite(value) and not math.isfinite(objective):
            proof = feasibility.certificate(self.dual, L, None if dual is None else self.read_dual(dual))
            if proof is not None:
                return proof
        proven = stated.prove(point, dual)
        violation = max(
            (loss.violation(excess) for loss, excess in zip(self.total.losses, u, strict=True)), default=0.0
        )
        if has_hard and not math.isfinite(objective):
            weakness = f"hard constraints are not proven to hold, by {violation:.2g} of a unit, so it is infinite"
            proven = replace(proven, weakness=weakness)
        return self.certificate_of(objective, proven, max(residual, violation))

    def certificate_of(self, objective: float, proven: Proven, residual: float) -> DualityCertificate:
        """Return the certificate of a proven objective and lower bound, and of how far the point was from feasible."""
        return DualityCertificate(
            objective=objective,
            lower_bound=proven.value if not all(t.nonnegative for t in self.terms) else max(0.0, proven.value),
            program=self.certificate_title,
            rigor=self.total.rigor,
            primal_residual=residual,
            n_active=int(sum(np.count_nonzero(a) for a in proven.multipliers)),
            constraints=self.counted,
            resolution=self._resolution if objective >= 0.0 >= proven.value else 0.0,
            weakness=proven.weakness,
            info={"dual_residual": proven.residual, "null_dimension": proven.null_dimension},
        )

    def _bound_in_span(self, components: FloatArray) -> float:
        """Return a float not below the sum at a metric that is about ``c I`` outside of the span, or infinity."""
        if self.in_span is None or (reduced := self.in_span.problem.total).span is None or not reduced.regularizers:
            return math.inf
        factor, distance = reduced.span.split(components)
        losses = replace(self.total, terms=tuple(term for term in self.terms if not term.regularizers))
        values = [term.upper_bound_near(factor, distance) for term in reduced.regularizers]
        values += [losses.upper_bound(self.X, components)] if losses.terms else []
        return math.inf if math.inf in values else sum_above(np.array(values))

    @cached
    def _resolution(self) -> float:
        """See `DualityCertificate.resolution`."""
        return resolution(self.X, self.total, self.domain)

    def constraints(self, components: FloatArray, dual: Multipliers | None) -> Constraints:
        """Return the constraints of all losses that are about single examples; see `Constrained.constraints`."""
        total, D = self.total, self.total.distances(components)
        multipliers = self.prove(components, dual).multipliers
        sums = [BoundTerms(self.centered, (term,)).value(components)[0] / term.weight for term in self.terms]
        names = [name for name, term in zip(self.names, self.terms, strict=True) for _ in term.losses]
        losses = zip(names, total.losses, multipliers, total.excess(components, D), total.pair_slices, strict=True)
        by_loss = {name: loss.listed_constraints(a, u, D[pairs]) for name, loss, a, u, pairs in losses}
        on_examples = {name: constraints for name, constraints in by_loss.items() if constraints is not None}
        if not on_examples:
            raise TypeError("explain does not take this sum: none of its terms has constraints on single examples.")
        return joined_constraints(on_examples, self.state_dual(multipliers), dict(zip(self.names, sums, strict=True)))

    def proof(self, components: FloatArray, dual: Multipliers | None) -> Proof:
        """Return what a point and multipliers prove, for `Solution.save_proof`."""
        if not math.isfinite(self.total.value(components)[0]) and any(loss.hard for loss in self.total.losses):
            multipliers = None if dual is None else self.read_dual(dual)
            if (contradiction := feasibility.proof(self.dual, components, multipliers)) is not None:
                return proofs.of_contradiction(self.dual, contradiction, self.lists() or None)
        return self.proof_of(components, self.prove(components, dual), self.lists() or None)

    def proof_of(self, components: FloatArray, proven: Proven, data: proofs.Arrays | None) -> Proof:
        """Return a lower bound, and the objective of a point, for a file with some lists of examples."""
        objective = self.certify(components, dual=self.state_dual(proven.multipliers)).objective
        return proofs.of_sum(self.dual, components, objective, proven, data)

    def lists(self) -> dict[str, NDArray[np.generic]]:
        """Return pairs and whether they are similar, if data files of the statement hold them."""
        return {}

    def prove(self, components: FloatArray, dual: Multipliers | None = None) -> Proven:
        """Return the best lower bound from given multipliers, or from the slopes of the losses at a point."""
        if (span := self.in_span) is not None:
            return span.problem.prove(span.coordinates(components), dual)
        if dual is not None:
            return self.dual.prove(self.read_dual(dual), components)
        depends_on_width = self.total.kinked or any(loss.has_infinite_slopes for loss in self.total.losses)
        widths = WIDTHS if depends_on_width else WIDTHS[:1]
        candidates = (self.total.slopes(components, width) for width in widths)
        return max((self.dual.prove(a, components) for a in candidates), key=lambda proven: proven.value)


def _bound(term: Term, X: NDArray[np.floating]) -> Term | None:
    """Return the term bound to data, with a weight of 1 if it is a hard constraint; None for a weight of 0."""
    weight = check_term_weight(term.name, term.weight)
    if not weight and not term.losses:
        return None
    bound = read_only(term.bind(X))
    if any(loss.hard for loss in bound.losses):
        if not weight:
            raise ValueError(
                f"the weight of {term.name} is 0, but hard constraints have no weight: they hold, or the term is left "
                "out of the sum. Leave it out, or take a loss such as 'hinge'."
            )
        bound = replace(bound, weight=1.0)
    return check_bound_term(bound, len(X)) if weight else None
