"""Losses of single numbers with a weight each: the shared part of hinges over pairs, triplets and quadruplets.

By default their numbers are affine in squared distances; `OffDiagonal` alone looks at entries of the metric.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from sdpmetric.arrays import SMALLEST_DIVISOR, FloatArray, IndexArray
from sdpmetric.core import pairs as pair_checks
from sdpmetric.core.constraints import TermConstraints
from sdpmetric.core.files import ProofTerm
from sdpmetric.core.sample_weight import LARGEST_EXAMPLE_WEIGHT, LARGEST_WEIGHT, check_weights
from sdpmetric.engine.lazy import cached
from sdpmetric.linalg.rigorous.directed import TINY, Rigor, all_above, gamma, sum_above, sum_below
from sdpmetric.lines import boxes, distance, number, times, total
from sdpmetric.losses import Expression, ScalarLoss, Weighted
from sdpmetric.sums.terms.base import ROUNDINGS, DualText, Term, errors_of


@dataclass(frozen=True, eq=False)
class Rows:
    """Arguments of a term's losses: ``u = offset + K D`` for the squared distances D of some pairs.

    Attributes
    ----------
    scalar : ScalarLoss
        l.
    pairs : (p, 2) int array
    combination : (m, p) sparse array
        K.
    offset : (m,) array or float
    unit : float
        A size of u that counts as large.
    roles : mapping of str to (m,) int array
        Row numbers of X by their role in each loss.

    Examples
    --------
    >>> from sdpmetric import losses, terms
    >>> apart = terms.Rows.of_pairs(losses.Hinge(), [[0, 1], [0, 2]], signs=-1.0, offset=1.0)
    >>> apart.offset + apart.combination @ [0.5, 3.0]
    array([ 0.5, -2. ])
    """

    scalar: ScalarLoss
    pairs: IndexArray
    combination: sp.csr_array
    offset: FloatArray | float
    unit: float = 1.0
    roles: Mapping[str, IndexArray] = field(default_factory=dict)

    @classmethod
    def of_pairs(
        cls,
        scalar: ScalarLoss,
        pairs: ArrayLike | None,
        signs: FloatArray | float = 1.0,
        offset: FloatArray | float = 0.0,
        unit: float = 1.0,
    ) -> Rows:
        """Return one pair for each loss, ``u = offset + signs D``."""
        rows = np.asarray(pairs, dtype=np.int32)
        K = sp.csr_array(sp.diags_array(np.broadcast_to(signs, len(rows)).astype(np.float64)))
        return cls(scalar, rows, K, offset, unit, dict(zip(("first", "second"), rows.T, strict=True)))


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class MarginLoss(Term):
    """``weight * sum_i w_i l(u_i)`` with one scalar loss l, u affine in the metric; multipliers a are its slopes.

    Attributes
    ----------
    weights : (m,) array or None
        ``w_i >= 0``; None before the term is bound: 1.
    sample_weight : (n,) array or None
        Weights of examples: each loss is multiplied by that of its first row.
    depends_on_entries : bool
        Class attribute: whether u depends on the metric beyond distances of pairs.
    has_infinite_slopes : bool
        Class attribute: whether slopes are infinite somewhere; then those of `smoothed` at several widths are tried.

    Examples
    --------
    >>> from sdpmetric import terms
    >>> issubclass(terms.TripletHinge, terms.MarginLoss), issubclass(terms.Trace, terms.MarginLoss)
    (True, False)
    """

    depends_on_entries: ClassVar[bool] = False
    has_infinite_slopes: ClassVar[bool] = False

    weights: ArrayLike | None = None
    sample_weight: ArrayLike | None = None

    @property
    @abstractmethod
    def rows(self) -> Rows:
        """The scalar loss of a bound term, and what its numbers are; see `Rows`."""

    @property
    def losses(self) -> tuple[MarginLoss, ...]:
        return (self,)

    @property
    def scalar(self) -> ScalarLoss:
        return self.rows.scalar

    @property
    def unit(self) -> float:
        """A size of u that counts as large."""
        return self.rows.unit

    @property
    def offset(self) -> FloatArray:
        """``u`` at the zero metric, (m,)."""
        return np.broadcast_to(self.rows.offset, self.size)

    def distance_pairs(self) -> IndexArray:
        """Return the pairs with squared distances in a bound term, (p, 2)."""
        return self.rows.pairs

    @property
    def combination(self) -> sp.csr_array:
        """The matrix K, (m, p), with ``u = offset + K D + entries(M)`` for the distances D of those pairs."""
        return self.rows.combination

    def entries(self, M: FloatArray) -> FloatArray:
        """Return the part of u that depends on entries of M, (m,), or of k metrics (d, d, k), (m, k). Default: 0."""
        return np.zeros(())

    def entry_matrix(self, a: FloatArray) -> FloatArray:
        """Return the adjoint of `entries`: a symmetric matrix (d, d) from multipliers (m,), or 0."""
        return np.zeros(())

    def entry_expression(self, M: Expression, cp: ModuleType) -> Expression | float:
        """Return `entries` of a CVXPY matrix."""
        return 0.0

    def roles(self) -> Mapping[str, IndexArray]:
        """Return row numbers of X by their role in each number, (m,)."""
        return self.rows.roles

    def weighted(self, X: NDArray[np.floating], first: IndexArray) -> Self:
        """Return the term with weights of the losses from the given weights and those of their first rows."""
        w = item_weights(self.name, self.weights, self.sample_weight, first, len(X))
        return replace(self, weights=w, sample_weight=None)

    @property
    def rigor(self) -> Rigor:
        return self.scalar.rigor

    @property
    def kinked(self) -> bool:
        """Whether slopes jump, so `smoothed` depends on the width."""
        return self.scalar.kinked

    @property
    def hard(self) -> bool:
        """Whether it is a hard constraint, with multipliers of at least 0."""
        return self.scalar.hard

    @property
    def size(self) -> int:
        """How many numbers u has, and how many multipliers there are."""
        return len(self.item_weights)

    @cached
    def item_weights(self) -> FloatArray:
        """``weight * w_i``, (m,); of hard constraints `weight`, a unit for solvers, whatever w is."""
        w = np.asarray(self.weights, dtype=np.float64)
        return np.full(len(w), self.weight) if self.scalar.hard else self.weight * w

    def smallest_cost(self, distance: float, trace: float) -> float:
        """Return a weight times the loss at its margin, at half of it if that is infinite."""
        if self.hard:
            return np.inf
        margin = np.where(self.offset != 0.0, np.abs(self.offset), trace if self.depends_on_entries else distance)
        with np.errstate(over="ignore", invalid="ignore"):
            losses = np.abs([self.scalar.values(u) for u in (margin, -margin, 0.5 * margin, -0.5 * margin)])
        at_margin, at_half = losses[:2], losses[2:]
        costs = self.item_weights * np.where(np.isfinite(at_margin), at_margin, at_half).max(axis=0)
        return float(costs[self.item_weights > 0.0].min(initial=np.inf))

    @cached
    def box(self) -> tuple[FloatArray, FloatArray]:
        """The lowest and the highest multipliers, (m,) each."""
        w = self.item_weights
        slopes = (np.broadcast_to(slope, w.shape) for slope in (self.scalar.lowest, self.scalar.highest))
        lowest, highest = (np.where(w > 0.0, slope, 0.0) * np.maximum(w, SMALLEST_DIVISOR) for slope in slopes)
        return lowest, highest

    def value(self, u: FloatArray) -> float:
        """Return ``weight * sum_i w_i l(u_i)``, infinity if a hard constraint is violated."""
        # A hard constraint may be violated by this much, relative to its unit, and count as satisfied.
        if self.violation(u) > 1e-7:
            return np.inf
        return float(self.item_weights @ self.scalar.values(u))

    def upper_bound(self, low: FloatArray, high: FloatArray) -> float:
        """Return a float not below the exact `value` of all u between two arrays.

        As each loss is convex, it is largest at an end, at `high` without negative slopes. Return infinity unless all
        hard constraints are proven to hold.
        """
        if self.scalar.hard:
            return 0.0 if float(high.max(initial=0.0)) <= 0.0 else np.inf
        values = self.scalar.values_above(high)
        if not np.all(np.asarray(self.scalar.lowest) >= 0.0):
            values = np.maximum(self.scalar.values_above(low), values)
        used = self.item_weights > 0.0
        costs = values[used] * self.item_weights[used]
        costs += all_above(gamma(ROUNDINGS) * np.abs(costs))
        costs = np.append(costs, TINY * np.count_nonzero(values[used]))
        return sum_above(costs) if np.isfinite(costs).all() else np.inf

    def violation(self, u: FloatArray) -> float:
        """Return the largest positive u in its unit for a hard constraint, else 0."""
        return float(u.max(initial=0.0)) / self.unit if self.scalar.hard else 0.0

    def exact_rows(self, rows: NDArray[np.intp]) -> tuple[FloatArray, sp.csr_array]:
        """Return offsets and rows of `combination`, free of rounding, of hard constraints that have the same signs."""
        return self.offset[rows], sp.csr_array(self.combination.tocsr()[rows])

    def smoothed(self, u: FloatArray, width: float, center: FloatArray | None = None) -> tuple[float, FloatArray]:
        """Return the largest ``<a, u> - l*(a) - width / 2 |a - center|^2``, suitably scaled, and the a that attains it.

        It is smooth in u, and a, its gradient, is in the domain of the conjugate whatever u is. Losses without kinks
        need no width, which is in units of the term; the center is 0 by default.
        """
        w, scalar = self.item_weights, self.scalar
        if not scalar.kinked:
            return float(w @ scalar.values(u)), w * scalar.slopes(u, width)
        width_of_u = width * self.unit
        center_slopes = np.zeros_like(w) if center is None else _ratio(center, w)
        s = scalar.slopes(u + width_of_u * center_slopes, width_of_u)
        return float(w @ (s * u - scalar.conjugates(s) - 0.5 * width_of_u * (s - center_slopes) ** 2)), w * s

    def conjugates(self, a: FloatArray) -> FloatArray:
        """Return ``w_i l*(a_i / w_i)``."""
        return self.item_weights * self.scalar.conjugates(_ratio(a, self.item_weights))

    def conjugate_slopes(self, a: FloatArray) -> FloatArray:
        """Return the excess that has each multiplier as its slope, (m,)."""
        return self.scalar.conjugate_slopes(_ratio(a, self.item_weights))

    def conjugate_curvatures(self, a: FloatArray) -> FloatArray:
        """Return the second derivatives of the conjugates, (m,)."""
        return _ratio(self.scalar.conjugate_curvatures(_ratio(a, self.item_weights)), self.item_weights)

    def dual_value(self, a: FloatArray) -> float:
        """Return a float not above ``sum_i (a_i c_i - l_i*(a_i))`` of some exact multipliers near clipped values.

        These are slopes of floats, ``a_i / w_i`` rounded, times weights, within `ROUNDINGS` relative roundings of a.
        """
        s = np.clip(_ratio(a, self.item_weights), self.scalar.lowest, self.scalar.highest)
        values = self.scalar.dual_values_below(s, self.offset)
        if values is not None:
            values = self.item_weights * values
        else:
            values = np.concatenate([a * self.offset, -self.item_weights * self.scalar.conjugates_above(s)])
        if not np.isfinite(values).all():
            return -np.inf
        return sum_below(values - all_above(gamma(ROUNDINGS + 1) * np.abs(values)))

    def clip(self, a: FloatArray) -> FloatArray:
        """Return multipliers in the domain of the conjugates, near given multipliers."""
        return np.clip(a, *self.box)

    @cached
    def _signs(self) -> FloatArray:
        """The sign of each row of the combination: 1 or -1 if no entry has the other sign, else 0, (m,)."""
        K = self.combination
        low, high = (extreme.toarray().ravel() for extreme in (K.min(axis=1), K.max(axis=1)))
        return np.where(low >= 0.0, 1.0, np.where(high <= 0.0, -1.0, 0.0))

    def anchor(self, a: FloatArray) -> FloatArray:
        """Return the multipliers that add a positive semidefinite matrix, and 0 for all others.

        Given multipliers are moved toward these until the dual slack matrix is positive semidefinite.
        """
        return np.where(self._signs * a > 0.0, a, 0.0)

    def listed_constraints(self, a: FloatArray, u: FloatArray, D: FloatArray) -> TermConstraints | None:
        """Return the constraints on examples with multipliers a, at distances D, or None without roles of examples."""
        if not self.rows.roles:
            return None
        rows = np.flatnonzero((a > 0.0) | (u > 0.0))
        cost = Weighted(self.scalar.of_rows(rows), self.item_weights[rows])
        K, pairs = self.combination.tocsr(), self.distance_pairs()
        columns, signs = (entries.reshape(self.size, -1)[rows].T for entries in (K.indices, K.data))
        stretch = [(*pairs[column].T, -sign * D[column]) for column, sign in zip(columns, signs, strict=True)]
        return TermConstraints(
            {role: index[rows] for role, index in self.roles().items()}, a[rows], u[rows], cost, stretch
        )

    def proof_term(self, a: FloatArray) -> ProofTerm:
        """See `Term.proof_term`; multipliers are an ulp below their upper limits, which are rounded."""
        if not self.scalar.is_in_proof_files(self.offset):
            raise ValueError(f"proof files support the losses of this package; that of {self.name} is not one of them.")
        K, pairs, (lowest, highest) = self.combination.tocoo(), self.distance_pairs(), self.box
        is_free = lowest < highest  # slopes of linear losses are their weights
        limits = highest - 4e-16 * np.where(np.isfinite(highest), highest, 0.0)
        arrays = {
            "places": K.row,
            "pairs": pairs[K.col],
            "factors": K.data,
            "offsets": self.offset,
            "weights": np.ones(self.size) if self.weights is None or self.scalar.hard else np.asarray(self.weights),
            "multipliers": np.clip(a, lowest, limits) * is_free,
        }
        return ProofTerm({"term": "rows", "loss": self.scalar.name, "weight": self.weight}, arrays, self.lists)

    @property
    def lists(self) -> Mapping[str, NDArray[np.generic]]:
        """Lists that a data file may hold: pairs and whether they are similar, triplets, or quadruplets."""
        return {}

    def stiffened(self, scale: float) -> Self:
        """Smooth a hard constraint's multipliers in units of `scale`, the size of the objective."""
        return replace(self, weight=scale / self.unit) if self.scalar.hard else self

    def max_step(self, a: FloatArray, step: FloatArray) -> float:
        """Return the largest t that keeps ``a + t step`` in the domain, at least 0; possibly infinity."""
        up, down, (lowest, highest) = step > 0, step < 0, self.box
        limits = [(highest[up] - a[up]) / step[up], (a[down] - lowest[down]) / -step[down]]
        return max(0.0, float(np.concatenate(limits).min(initial=np.inf)))

    def expression(self, u: Expression, cp: ModuleType) -> tuple[Expression | float, list[object]]:
        """Return the weighted losses of a CVXPY vector u, or the constraint ``u <= 0``, cp being the module cvxpy."""
        losses, constraints = self.scalar.expression(u, cp)
        return (0.0 if losses is None else cp.sum(cp.multiply(self.item_weights, losses))), constraints

    def dual_expression(self, a: Expression, cp: ModuleType) -> tuple[Expression, list[object]]:
        """Return ``sum_i (a_i c_i - l_i*(a_i))`` of a CVXPY vector of multipliers and its domain's constraints."""
        (lowest, highest), w = self.box, self.item_weights
        slopes, entries = cp.multiply(_ratio(np.ones_like(w), w), a), cp.vec(a, order="C")
        value = cp.sum(cp.multiply(w, self.scalar.dual_expression(slopes, self.offset, cp)))
        at_least, at_most = np.flatnonzero(lowest > -np.inf), np.flatnonzero(highest < np.inf)
        return value, [entries[at_least] >= lowest[at_least], entries[at_most] <= highest[at_most]]

    def text(self) -> tuple[float, str]:
        """See `Term.text`: the sum of the losses, after their common weight."""
        if self.hard:
            return 1.0, ""
        w = self.item_weights.tolist()
        common = w[0] if len(set(w)) == 1 else 1.0
        return common, total(((w_t / common, self.row_text(t)) for t, w_t in enumerate(w)), len(w))

    def row_text(self, t: int) -> str:
        """Return the loss of number t."""
        return self.scalar.form.format(u=self.excess_text(t), v=self.excess_text(t, -1))

    def excess_text(self, t: int, sign: int = 1, symbol: str = "D") -> str:
        """Return u_t, or -u_t for a sign of -1; with another symbol than D the part without the offset."""
        c, terms = sign * float(self.offset[t]) if symbol == "D" else 0.0, self._row(t, sign, symbol)
        constant = [(math.copysign(1.0, c), number(abs(c)))] if c else []
        return total([*constant, *terms] if c > 0.0 else [*terms, *constant])

    def _row(self, t: int, sign: float, symbol: str) -> list[tuple[float, str]]:
        """Return coefficients and distances of row t, positive coefficients first."""
        K = self.combination
        entries = slice(K.indptr[t], K.indptr[t + 1])
        pairs = self.distance_pairs()[K.indices[entries]].tolist()
        row = [(sign * k, distance(i, j, symbol)) for k, (i, j) in zip(K.data[entries].tolist(), pairs, strict=True)]
        return sorted(row, key=lambda summand: summand[0] < 0.0)

    def constraint_text(self) -> list[str]:
        """See `Term.constraint_text`: those of hard constraints, with the bound on the right."""
        return [self._bound_text(t) for t in range(self.size)] if self.hard else []

    def _bound_text(self, t: int) -> str:
        c = float(self.offset[t])
        return f"{total(self._row(t, -1.0 if c > 0.0 else 1.0, 'D'))} {'>=' if c > 0.0 else '<='} {number(abs(c))}"

    def dual_text(self, name: str) -> DualText:
        """See `Term.dual_text`."""
        w, signs, rows = self.item_weights.tolist(), np.where(self._signs < 0.0, -1, 1).tolist(), range(self.size)
        a = [f"{name}[{t}]" for t in rows] if self.size > 1 else [name]
        texts = (self.scalar.dual_text(a[t], w[t], float(self.offset[t])) for t in rows)
        value = total(((1.0, text) for text in texts if text), self.size)
        matrix = total(((signs[t], times(a[t], self.excess_text(t, signs[t], "V"))) for t in rows), self.size)
        low, high = (limits.tolist() for limits in self.box)
        constraints = boxes(name, "==", low) if low == high else boxes(name, ">=", low) + boxes(name, "<=", high)
        return DualText(value, matrix, constraints)

    @property
    def distance_scale(self) -> float:
        """The smallest squared distance that the margins set as a scale, or infinity."""
        if not self.offset.any():
            return np.inf
        sizes = abs(self.combination).max(axis=1).toarray().ravel()
        used = (self.offset != 0.0) & (sizes > 0.0)
        return float((np.abs(self.offset[used]) / sizes[used]).min(initial=np.inf))

    def pulled_pairs(self) -> IndexArray:
        """Return the pairs with distances that must stay 0 for the loss to vanish, (p, 2)."""
        used = self.combination.multiply(self.item_weights[:, None] > 0.0)
        return self.distance_pairs()[np.asarray((used > 0.0).sum(axis=0)).ravel() > 0]

    def vanishes(self, groups: IndexArray) -> bool:
        """Return whether it tends to 0 when pairs within groups have distances of 0, and others grow.

        Each number then falls without end, or is at most 0 from the start.
        """
        zeros, (first, second) = np.zeros(self.size), self.distance_pairs().T
        if np.any(np.asarray(self.scalar.lowest) != 0.0) or np.any(self.scalar.conjugates(zeros) != 0.0):
            return False  # the loss does not fall to 0
        falls = (self.combination < 0.0) @ (groups[first] != groups[second]).astype(np.float64) > 0.0
        stays = (self.offset <= 0.0) & (self.scalar.values_above(zeros) <= 0.0)
        return bool((falls | stays | (self.item_weights == 0.0)).all())


def _ratio(a: FloatArray, weights: FloatArray) -> FloatArray:
    """Return ``a / weights``, 0 for weights of 0."""
    return np.divide(a, weights, out=np.zeros_like(a), where=weights > 0)


def check_term_pairs(name: str, pairs: ArrayLike | None, n: int) -> IndexArray:
    """Return pairs of two different rows, (p, 2); at least one."""
    with errors_of(name):
        return pair_checks.check_pairs([] if pairs is None else pairs, n, required=True)


def item_weights(
    name: str, weights: ArrayLike | None, sample_weight: ArrayLike | None, first: IndexArray, n: int
) -> FloatArray:
    """Return weights of the losses of a term from those given for losses and for examples, (m,)."""
    product = np.ones(len(first))
    for argument, values, size in (("weights", weights, len(first)), ("sample_weight", sample_weight, n)):
        if values is None:
            continue
        is_of_examples = argument == "sample_weight"
        largest, kind = (LARGEST_EXAMPLE_WEIGHT, "example") if is_of_examples else (LARGEST_WEIGHT, "constraint")
        numbers = check_weights(f"{argument} of {name}", values, size, kind, largest=largest)
        product = product * (numbers[first] if is_of_examples else numbers)
    return product
