"""Losses of single numbers with a weight each: the shared part of hinges over pairs, triplets and quadruplets."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from sdpmetric.arrays import FloatArray
from sdpmetric.core import pairs as pair_checks
from sdpmetric.core.constraints import Listed
from sdpmetric.core.proof import Part
from sdpmetric.core.sample_weight import LARGEST_EXAMPLE_WEIGHT, LARGEST_WEIGHT, check_weights
from sdpmetric.engine.cached import cached
from sdpmetric.linalg.rigorous import TINY, Rigor, all_above, gamma, sum_above, sum_below
from sdpmetric.losses import CHECKED, Expression, LogRatio, ScalarLoss, Weighted
from sdpmetric.sums.terms.base import Loss

IndexArray = NDArray[np.int32]

# A hard constraint may be violated by this much, relative to its unit, and count as satisfied.
FEASIBLE = 1e-7
# Roundings between exact weights of losses and computed ones.
WEIGHTED = 3


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

    See Also
    --------
    MarginLoss

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
        """One pair for each loss, ``u = offset + signs D``."""
        rows = np.asarray(pairs, dtype=np.int32)
        K = sp.csr_array(sp.diags_array(np.broadcast_to(signs, len(rows)).astype(np.float64)))
        return cls(scalar, rows, K, offset, unit, dict(zip(("first", "second"), rows.T, strict=True)))


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class MarginLoss(Loss):
    """``weight * sum_i w_i l(u_i)`` with one scalar loss l.

    Attributes
    ----------
    weights : (m,) array or None
        ``w_i >= 0``; None before the term is bound: 1.
    sample_weight : (n,) array or None
        Weights of examples: each loss is multiplied by that of its first row.

    See Also
    --------
    Loss, Rows

    Examples
    --------
    >>> from sdpmetric import terms
    >>> issubclass(terms.TripletHinge, terms.MarginLoss)
    True
    """

    weights: ArrayLike | None = None
    sample_weight: ArrayLike | None = None

    @property
    @abstractmethod
    def rows(self) -> Rows:
        """The scalar loss of a bound term, and what its numbers are; see `Rows`."""

    @property
    def scalar(self) -> ScalarLoss:
        """The scalar loss l."""
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
        """The pairs of the rows."""
        return self.rows.pairs

    @property
    def combination(self) -> sp.csr_array:
        """That of the rows."""
        return self.rows.combination

    def roles(self) -> Mapping[str, IndexArray]:
        """Row numbers of X by their role in each loss, (m,)."""
        return self.rows.roles

    def weighted(self, X: NDArray[np.floating], first: IndexArray) -> Self:
        """With weights of the losses from given ones and those of their first rows."""
        w = item_weights(self.name, self.weights, self.sample_weight, first, len(X))
        return replace(self, weights=w, sample_weight=None)

    @property
    def rigor(self) -> Rigor:
        """That of the scalar loss."""
        return self.scalar.rigor

    @property
    def kinked(self) -> bool:
        """Whether the scalar loss is."""
        return self.scalar.kinked

    @property
    def steep(self) -> bool:
        return self.scalar.steep

    @property
    def hard(self) -> bool:
        """Whether the scalar loss is."""
        return self.scalar.hard

    @property
    def size(self) -> int:
        """The number of losses."""
        return len(self.item_weights)

    @cached
    def item_weights(self) -> FloatArray:
        """``weight * w_i``, (m,); of hard constraints `weight`, a unit for solvers, whatever w is."""
        w = np.asarray(self.weights, dtype=np.float64)
        return np.full(len(w), self.weight) if self.scalar.hard else self.weight * w

    def smallest_cost(self, distance: float, trace: float) -> float:
        """See `Term.smallest_cost`: a weight times the loss at its margin, at half of it where that is infinite."""
        if self.hard:
            return np.inf
        missed = np.where(self.offset != 0.0, np.abs(self.offset), trace if self.depends_on_entries else distance)
        with np.errstate(over="ignore", invalid="ignore"):
            losses = np.abs([self.scalar.values(u) for u in (missed, -missed, 0.5 * missed, -0.5 * missed)])
        at_margin, at_half = losses[:2], losses[2:]
        costs = self.item_weights * np.where(np.isfinite(at_margin), at_margin, at_half).max(axis=0)
        return float(costs[self.item_weights > 0.0].min(initial=np.inf))

    @cached
    def box(self) -> tuple[FloatArray, FloatArray]:
        """The lowest and the highest multipliers, (m,) each."""
        c, scalar = self.item_weights, self.scalar
        ends = (np.broadcast_to(end, c.shape) for end in (scalar.lowest, scalar.highest))
        lowest, highest = (np.where(c > 0.0, end, 0.0) * np.maximum(c, 1e-300) for end in ends)
        return lowest, highest

    def value(self, u: FloatArray) -> float:
        """``weight * sum_i w_i l(u_i)``; infinity where a hard constraint is violated by more than rounding."""
        if self.violation(u) > FEASIBLE:
            return np.inf
        return float(self.item_weights @ self.scalar.values(u))

    def upper_bound(self, low: FloatArray, high: FloatArray) -> float:
        """As each loss is convex, it is largest at an end, at `high` without negative slopes.

        Infinity where a hard constraint is not proven to hold.
        """
        if self.scalar.hard:
            return 0.0 if float(high.max(initial=0.0)) <= 0.0 else np.inf
        values = self.scalar.values_above(high)
        if not np.all(np.asarray(self.scalar.lowest) >= 0.0):
            values = np.maximum(self.scalar.values_above(low), values)
        used = self.item_weights > 0.0
        parts = values[used] * self.item_weights[used]
        parts += all_above(gamma(WEIGHTED + 2) * np.abs(parts))
        parts = np.append(parts, TINY * np.count_nonzero(values[used]))
        return sum_above(parts) if np.isfinite(parts).all() else np.inf

    def violation(self, u: FloatArray) -> float:
        """The largest positive u in its unit for a hard constraint, else 0."""
        return float(u.max(initial=0.0)) / self.unit if self.scalar.hard else 0.0

    def smoothed(self, u: FloatArray, width: float, center: FloatArray | None = None) -> tuple[float, FloatArray]:
        """See `Loss.smoothed`."""
        c, scalar = self.item_weights, self.scalar
        if not scalar.kinked:
            return float(c @ scalar.values(u)), c * scalar.slopes(u, width)
        g = width * self.unit
        middle = np.zeros_like(c) if center is None else _ratio(center, c)
        s = scalar.slopes(u + g * middle, g)
        return float(c @ (s * u - scalar.conjugates(s) - 0.5 * g * (s - middle) ** 2)), c * s

    def conjugates(self, a: FloatArray) -> FloatArray:
        """``w_i l*(a_i / w_i)``."""
        return self.item_weights * self.scalar.conjugates(_ratio(a, self.item_weights))

    def conjugate_slopes(self, a: FloatArray) -> FloatArray:
        """The excess at which each multiplier is the slope, (m,)."""
        return self.scalar.conjugate_slopes(_ratio(a, self.item_weights))

    def conjugate_curvatures(self, a: FloatArray) -> FloatArray:
        """The second derivatives of the conjugates, (m,)."""
        return _ratio(self.scalar.conjugate_curvatures(_ratio(a, self.item_weights)), self.item_weights)

    def dual_value(self, a: FloatArray) -> float:
        """See `Loss.dual_value`: the exact multipliers are slopes of floats, ``a_i / w_i`` rounded, times weights."""
        s = np.clip(_ratio(a, self.item_weights), self.scalar.lowest, self.scalar.highest)
        if isinstance(self.scalar, LogRatio) and not (self.scalar.sides * self.scalar.bounds + self.offset).any():
            parts = self.item_weights * self.scalar.dual_values_below(s)
        else:
            parts = np.concatenate([a * self.offset, -self.item_weights * self.scalar.conjugates_above(s)])
        if not np.isfinite(parts).all():
            return -np.inf
        return sum_below(parts - all_above(gamma(WEIGHTED + 4) * np.abs(parts)))

    def clip(self, a: FloatArray) -> FloatArray:
        """Between the lowest and the highest multipliers."""
        return np.clip(a, *self.box)

    @cached
    def _signs(self) -> FloatArray:
        """1 where all entries of a row of the combination are at least 0, -1 where at most 0, else 0, (m,)."""
        low, high = (found.toarray().ravel() for found in (self.combination.min(axis=1), self.combination.max(axis=1)))
        return np.where(low >= 0.0, 1.0, np.where(high <= 0.0, -1.0, 0.0))

    def anchor(self, a: FloatArray) -> FloatArray:
        """The multipliers that add something positive semidefinite, and 0 for the others."""
        return np.where(self._signs * a > 0.0, a, 0.0)

    def listed_constraints(self, a: FloatArray, u: FloatArray, D: FloatArray) -> Listed | None:
        """See `Loss.listed_constraints`; a row without roles is about no single examples."""
        if not self.rows.roles:
            return None
        listed = np.flatnonzero((a > 0.0) | (u > 0.0))
        cost = Weighted(self.scalar.at(listed), self.item_weights[listed])
        return self._listed(listed, a[listed], u[listed], D, cost)

    def _listed(
        self, rows: NDArray[np.intp], a: FloatArray, u: FloatArray, D: FloatArray, cost: Weighted, sign: float = 1.0
    ) -> Listed:
        K, pairs = self.combination.tocsr(), self.distance_pairs()
        columns, signs = (part.reshape(self.size, -1)[rows].T for part in (K.indices, K.data))
        each = zip(columns, signs, strict=True)
        stretch = [(*pairs[column].T, -sign * own * D[column]) for column, own in each]
        return Listed({name: index[rows] for name, index in self.roles().items()}, a, u, cost, stretch)

    def proof_part(self, a: FloatArray) -> Part:
        """See `Term.proof_part`; multipliers are an ulp below their upper limits, which are rounded."""
        own = self.scalar.parameters  # of ratios, which are of the offsets
        if not isinstance(self.scalar, CHECKED) or (own and (own["sides"] * own["bounds"] + self.offset).any()):
            raise ValueError(f"proof files support the losses of this package; that of {self.name} is not one of them.")
        K, rows, (lowest, highest) = self.combination.tocoo(), self.distance_pairs(), self.box
        free = lowest < highest  # slopes of linear losses are their weights
        arrays = {
            "places": K.row,
            "pairs": rows[K.col],
            "factors": K.data,
            "offsets": self.offset,
            "weights": np.ones(self.size) if self.weights is None or self.scalar.hard else np.asarray(self.weights),
            "multipliers": np.clip(a, lowest, highest - 4e-16 * np.where(np.isfinite(highest), highest, 0.0)) * free,
        }
        return Part({"term": "rows", "loss": self.scalar.name, "weight": self.weight}, arrays, self.listed)

    @property
    def listed(self) -> Mapping[str, NDArray[np.generic]]:
        """Lists that a data file may hold: pairs and whether they are similar, triplets, or quadruplets."""
        return {}

    def stiffened(self, scale: float) -> Self:
        """With a hard constraint's multipliers smoothed in units of `scale`, the size of the objective."""
        return replace(self, weight=scale / self.unit) if self.scalar.hard else self

    def max_step(self, a: FloatArray, step: FloatArray) -> float:
        """The largest t with ``a + t step`` between the lowest and the highest multipliers."""
        up, down, (lowest, highest) = step > 0, step < 0, self.box
        rooms = [(highest[up] - a[up]) / step[up], (a[down] - lowest[down]) / -step[down]]
        return max(0.0, float(min(rooms[0].min(initial=np.inf), rooms[1].min(initial=np.inf))))

    def expression(self, u: Expression, cp: ModuleType) -> tuple[Expression | float, list[object]]:
        """The weighted losses, or the constraint ``u <= 0``."""
        each, constraints = self.scalar.expression(u, cp)
        return (0.0 if each is None else cp.sum(cp.multiply(self.item_weights, each))), constraints


def _ratio(a: FloatArray, weights: FloatArray) -> FloatArray:
    """``a / weights``, 0 where the weight is 0."""
    return np.divide(a, weights, out=np.zeros_like(a), where=weights > 0)


def check_term_pairs(name: str, pairs: ArrayLike | None, n: int) -> IndexArray:
    """Pairs of two different rows, (p, 2); at least one."""
    try:
        return pair_checks.check_pairs([] if pairs is None else pairs, n)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def item_weights(
    name: str, weights: ArrayLike | None, sample_weight: ArrayLike | None, first: IndexArray, n: int
) -> FloatArray:
    """Weights of the losses of a term from those given for losses and for examples, (m,)."""
    found = np.ones(len(first))
    for what, given, size in (("weights", weights, len(first)), ("sample_weight", sample_weight, n)):
        if given is None:
            continue
        largest = LARGEST_EXAMPLE_WEIGHT if what == "sample_weight" else LARGEST_WEIGHT
        kind = "example" if what == "sample_weight" else "constraint"
        values = check_weights(f"{what} of {name}", given, size, kind, largest=largest)
        found = found * (values[first] if what == "sample_weight" else values)
    return found
