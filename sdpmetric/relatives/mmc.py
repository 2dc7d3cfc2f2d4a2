"""Mahalanobis metric for clustering (MMC), as a sum of terms that leaves the scale of the metric free.

With ``C`` the cost of the similar pairs and ``g(M)`` the sum of the dissimilar pairs' distances, the least value of
``<C, M> - g(M)`` along the multiples of a metric is ``-g^2 / (4 <C, M>)``: the sum ``Pull + Spread``, which has no
constraint, is solved by multiples of the metrics that solve MMC, and a lower bound b of it proves ``-2 sqrt(-b)``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sdpmetric.arrays import FloatArray, allow_underflow
from sdpmetric.core import validation
from sdpmetric.core.certificate import Certificate, DualityCertificate, Multipliers, check_multipliers
from sdpmetric.core.constraints import Constraints, joined_constraints
from sdpmetric.core.files import Proof
from sdpmetric.core.named import SampleSize, caution
from sdpmetric.core.pairs import check_labeled_pairs, weighted_pairs_of_labels
from sdpmetric.core.problem import NOT_STATED
from sdpmetric.core.registry import formulation, solver
from sdpmetric.core.sample_weight import check_pair_weights
from sdpmetric.engine.lazy import cached
from sdpmetric.lazy import cvxpy as cp
from sdpmetric.linalg import psd
from sdpmetric.linalg.rigorous.directed import above, below, products_above, sum_above, sum_below
from sdpmetric.linalg.rigorous.forms import Span
from sdpmetric.lines import Lines
from sdpmetric.programs.exact_program import ExactProgram, Point
from sdpmetric.sums import descent, feasibility
from sdpmetric.sums.bound_terms import BoundTerms
from sdpmetric.sums.conic import state
from sdpmetric.sums.domains import Domain
from sdpmetric.sums.fenchel import Proven
from sdpmetric.sums.problem import MetricProblem
from sdpmetric.sums.terms.base import Term
from sdpmetric.sums.terms.linear import Pull
from sdpmetric.sums.terms.pairs import Budget, Spread
from sdpmetric.sums.written import CONSTRAINT_SLACK


@dataclass(init=False, eq=False, repr=False)
class MMCProblem(MetricProblem):
    """MMC as a convex program (Xing, Ng, Jordan and Russell 2002 [XNJR2002]; section 2.3.1 of [WS2009]).

    Maximize over PSD matrices M, with ``D`` the squared distance under M::

        sum_{(a, b) dissimilar} w_ab sqrt(D(a, b))      subject to   sum_{(a, b) similar} w_ab D(a, b) <= 1

    with all weights w 1 in the paper. The objective is minus that sum, since this package minimizes. An
    error is raised if the maximum is infinite: dissimilar pairs differ in a direction that no similar pair has.

    Parameters
    ----------
    X : (n, d) array
        Finite numbers; float32 stays float32, everything else becomes float64.
    pairs : (p, 2) integer array
        Row numbers of X. A repeated pair counts each time.
    similar : (p,) array
        bool, or +1 for similar and -1 for dissimilar.
    pair_weights : (p,) array, optional
        ``w``, positive: how often each pair counts; default 1.
    diagonal : bool, default False
        Only diagonal metrics, weights of features (section 2.1 of [XNJR2002]).

    Raises
    ------
    ValueError
        If pairs of a kind are missing, all dissimilar pairs coincide, or the maximum is infinite.

    Examples
    --------
    >>> import sdpmetric as sm
    >>> X, y = sm.datasets.load("iris")
    >>> pairs, similar = sm.constraints.pairs(y, 30)
    >>> mmc = sm.MMCProblem(X, pairs, similar)
    >>> bool(sm.solve(mmc).relative_gap <= 1e-3)
    True
    """

    weights: ClassVar[tuple[str, ...]] = ()
    statement: ClassVar[str] = "mmc"

    terms: tuple[Term, ...] = field(init=False, metadata=NOT_STATED)
    domain: Domain = field(init=False, metadata=NOT_STATED)
    pairs: NDArray[np.int32]
    similar: NDArray[np.bool_]
    pair_weights: FloatArray | None

    def __init__(
        self,
        X: ArrayLike,
        pairs: ArrayLike,
        similar: ArrayLike,
        pair_weights: ArrayLike | None = None,
        *,
        diagonal: bool = False,
    ) -> None:
        data = validation.check_examples(X)
        rows, flags = check_labeled_pairs(pairs, similar, len(data))
        weights = check_pair_weights(pair_weights, len(rows))
        for kind, none in (("similar", not flags.any()), ("dissimilar", flags.all())):
            if none:
                raise ValueError(f"there are no {kind} pairs; MMC needs pairs of both kinds.")
        if (data[rows[~flags, 0]] == data[rows[~flags, 1]]).all():
            raise ValueError("all dissimilar pairs coincide, so every metric has objective 0; check the data.")
        self.pairs, self.similar, self.pair_weights = rows, flags, weights
        w = np.ones(len(rows)) if weights is None else weights
        pull, spread = Pull(rows[flags], weights=w[flags]), Spread(rows[~flags], weights=w[~flags])
        self._set(data, (pull.bind(data), spread.bind(data)), Domain.of(data.shape[1], diagonal))
        if unbounded := feasibility.unbounded(self.dual):
            raise ValueError(
                f"the maximum is infinite: dissimilar pairs differ in {unbounded} directions in which no similar pair "
                "does, and distances along them cost nothing. Add similar pairs, or reduce the dimension first, for "
                "example by PCA."
            )

    @classmethod
    def from_labels(
        cls,
        X: ArrayLike,
        y: ArrayLike,
        n_pairs: int | None = None,
        *,
        diagonal: bool = False,
        sample_weight: ArrayLike | None = None,
        random_state: int | None = None,
    ) -> MMCProblem:
        """State MMC for labeled data: pairs of equal labels are similar, all others dissimilar.

        Parameters
        ----------
        X : (n, d) array
        y : (n,) array
            Class labels of any kind; at least two classes.
        n_pairs : int, optional
            The largest number of pairs of each kind, drawn at random; default: all pairs ``a < b``.
        diagonal : bool, default False
        sample_weight : (n,) array, optional
            Nonnegative; a pair has the product of its examples' weights. Whole weights are repeated rows.
        random_state : int, optional
            Seed of the draw; default 0.
        """
        data = validation.check_examples(X)
        drawn = weighted_pairs_of_labels(y, len(data), n_pairs, random_state, sample_weight)
        return cls(data, *drawn, diagonal=diagonal)

    def describe(self) -> str:
        return (
            f"MMC (Xing et al. 2002): {self.X.shape[0]:,} examples, {self.X.shape[1]} features, "
            f"{int(self.similar.sum()):,} similar and {int((~self.similar).sum()):,} dissimilar pairs"
        )

    @cached
    def budgeted(self) -> MetricProblem:
        """The statement as printed, with its constraint, for programs and proofs."""
        (similar_pairs, costs), spread = self.terms[0].pair_costs(), self.terms[1]
        return MetricProblem(self.X, spread + Budget(similar_pairs, costs=costs), diagonal=self.domain.diagonal)

    def lines(self) -> Lines:
        """Return those of `budgeted`."""
        return self.budgeted.lines()

    def dual_program(self) -> cp.Problem:
        """Return that of `budgeted`."""
        return self.budgeted.dual_program()

    @allow_underflow
    def objective(self, components: ArrayLike | None = None, *, metric: ArrayLike | None = None) -> float:
        """Return minus the sum over dissimilar pairs of distances, the square roots; the constraint is not checked."""
        (loss,), (u,) = self.total.losses, self.total.excess(self.check_point(components, metric)[0])
        return loss.value(u)

    def spent(self, components: FloatArray) -> float:
        """Return the left side of the constraint, the sum over similar pairs of squared distances."""
        return BoundTerms(self.centered, self.terms[:1]).value(components)[0]

    def best_scale(self, components: FloatArray) -> float:
        """Return the multiple of a factor that makes the constraint active; 1 if similar pairs do not differ."""
        spent = self.spent(components)
        return 1.0 / math.sqrt(spent) if spent > 0.0 else 1.0

    @property
    def start(self) -> FloatArray:
        """See `Problem.start`: the multiple of the domain's identity that makes the constraint tight."""
        return self.normalized(self.domain.basis)

    def normalized(self, components: FloatArray) -> FloatArray:
        """See `MetricProblem.normalized`: the constraint is active."""
        return self.best_scale(components) * components

    def state_dual(self, a: list[FloatArray]) -> FloatArray:
        """Return multipliers of all dissimilar pairs in their order, 0 for two equal examples."""
        multipliers = np.zeros(len(self._differ))
        multipliers[self._differ] = a[0]
        return multipliers

    def read_dual(self, dual: Multipliers) -> list[FloatArray]:
        """Return multipliers of different examples, at about the multiple of them that proves most."""
        a = check_multipliers(dual, (len(self._differ),), "multipliers, one per dissimilar pair")[self._differ]
        if not (largest := float(a.max())) > 0.0:
            return [np.zeros_like(a)]
        T = self.dual.slack.descent_coordinates
        D, rank = self.total.distances(T.T)[len(self.total.costs[1]) :], T.shape[1]
        return [a / largest * (rank / float(np.maximum(a / largest, 0.0) @ D))]

    def _stated_in(self, span: Span, axes: NDArray[np.intp]) -> Self:
        new = super()._stated_in(span, axes)
        vars(new)["_differ"] = self._differ
        return new

    @cached
    def _differ(self) -> NDArray[np.bool_]:
        """Dissimilar pairs of different examples; the distance of all others is 0 under every metric."""
        first, second = self.pairs[~self.similar].T
        return np.asarray((self.X[first] != self.X[second]).any(axis=1))

    @allow_underflow
    def certify(
        self, components: ArrayLike | None = None, *, metric: ArrayLike | None = None, dual: Multipliers | None = None
    ) -> DualityCertificate:
        """Certify any point.

        A metric that violates the constraint is divided by its left side first. The lower bound comes from multipliers
        a > 0 of the dissimilar pairs: minus ``sqrt(lambda_max(B(a)) * sum w_p^2 / a_p)``, ``B(a) = sum a_p v_p v_p^T``
        whitened by the similar pairs' cost, is below every objective. Multipliers are in the order of the dissimilar
        pairs, and only their proportions matter. See ``docs/methods.md``.
        """
        L, residual = self.check_point(components, metric)
        images = self.total.images(self.X, L.T, None, validation.given_metric(metric, residual))
        (low, high), costs, (loss,) = images.distances(*self.total.pairs.T), self.total.costs[1], self.total.losses
        spent = sum_above(products_above(costs, high[: len(costs)]))
        objective = -below(-loss.upper_bound(-high[len(costs) :], -low[len(costs) :]) / math.sqrt(max(1.0, spent)), 3)
        proven = self.prove(self.normalized(L), dual)
        bound = -above(2.0 * math.sqrt(-proven.value), 2) if math.isfinite(proven.value) else -math.inf
        return DualityCertificate(
            objective=objective,
            constraints="pairs",
            lower_bound=bound,
            primal_residual=max(residual, spent - 1.0),
            n_active=int(np.count_nonzero(low[len(costs) :] > 0.0)),
            program="MMC",
            rigor="float",
            weakness=proven.weakness,
            info={"null_dimension": proven.null_dimension},
        )

    def budget_dual(self, components: FloatArray, dual: Multipliers | None) -> Proven:
        """Return the multipliers that `certify` proves with, scaled, and that of the budget, with what they prove.

        With ``B(a) <= C`` for the similar pairs' cost C, the bound of ``s a`` and the budget's ``theta = s`` is
        ``-(s + sum_p w_p^2 / (4 s a_p))``, largest at ``s^2 = sum_p w_p^2 / (4 a_p)``.
        """
        proven = self.prove(components, dual)
        if not math.isfinite(proven.value):
            return replace(proven, multipliers=[*proven.multipliers, np.zeros(1)])
        scale = math.sqrt(-proven.value)
        a, theta = scale * proven.multipliers[0], (1.0 + CONSTRAINT_SLACK) * scale
        value = sum_below(np.array([self.total.losses[0].dual_value(a), -theta]))
        return replace(proven, value=value, multipliers=[a, np.array([theta])])

    def constraints(self, components: FloatArray, dual: Multipliers | None) -> Constraints:
        """See `Constrained.constraints`; of the dissimilar pairs. Multipliers are those of the constrained program."""
        a = self.budget_dual(self.normalized(components), dual).multipliers[0]
        D = self.budgeted.total.distances(components)[: len(a)]
        spread = self.budgeted.terms[0].losses[0].listed_constraints(a, -D, D)
        assert spread is not None
        return joined_constraints({"spread": spread}, self.state_dual([a]), {"spread": self.objective(components)})

    def proof(self, components: FloatArray, dual: Multipliers | None) -> Proof:
        """Return a point that spends a little less than 1, and multipliers of the pairs and the budget."""
        L = components * math.sqrt((1.0 - CONSTRAINT_SLACK) / max(1.0, self.spent(components)))
        data = {"X": self.X, "pairs": self.pairs, "similar": self.similar}
        return self.budgeted.proof_of(L, self.budget_dual(L, dual), data)

    def caution(self, components: NDArray[np.floating], certificate: Certificate) -> str | None:
        """See `Problem.caution`: also too few examples in similar pairs."""
        (rows, costs), remedy = self.total.costs, "learn by ITML, whose prior is such a ridge"
        sample_size = SampleSize.of(self.centered, rows[:, 0], rows[:, 1], costs)
        return super().caution(components, certificate) or caution(certificate, [sample_size], 0.0, remedy=remedy)


@formulation(MMCProblem)
def state_mmc(problem: MMCProblem, *, scaled: bool = False) -> ExactProgram:
    """Return MMC as section 2.3.1 of Weinberger and Saul (2009) prints it: its constraint is named ``budget``."""
    stated = state(problem.budgeted, scaled=scaled)

    def read() -> Point:
        point = stated.read()
        scale = problem.best_scale(psd.factor(point.metric))
        spread_multipliers = problem.budgeted.total.split(np.asarray(point.dual))[:1]
        return Point(scale**2 * point.metric, problem.state_dual(spread_multipliers))

    return ExactProgram(stated.program, read)


solver(MMCProblem, "factored", tol=1e-6, rank=3)(descent.steps)  # without kinks, descent proves more
