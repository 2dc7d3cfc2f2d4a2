"""Losses of soft neighbors: divergences of given distributions from a softmax of minus squared distances.

A row u of such distances and a distribution p cost ``log sum_j exp u_j - <p, u> - h``. With h the entropy of p this is
``KL(p || q(u))`` for the softmax ``q(u)_j = exp(u_j) / sum_k exp(u_k)``. It is convex, its slope is ``q(u) - p``, and
its conjugate at ``q - p`` is ``h - H(q)`` for every distribution q with entropy H(q), and infinite elsewhere.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import ModuleType
from typing import ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.special import entr

from sdpmetric.arrays import BoolArray, FloatArray, IndexArray
from sdpmetric.core import validation
from sdpmetric.core.constraints import TermConstraints
from sdpmetric.core.proof import ProofTerm
from sdpmetric.core.sample_weight import check_sample_weight
from sdpmetric.engine.cached import cached
from sdpmetric.engine.interface import check_last, check_time_for
from sdpmetric.linalg.rigorous.directed import (
    above,
    all_above,
    distributions,
    entropies,
    gamma,
    log_bounds,
    log_sum_exp,
    sum_above,
    sum_below,
)
from sdpmetric.losses import Between, Expression
from sdpmetric.sums.terms.base import Loss, errors_of
from sdpmetric.sums.terms.margins import check_term_pairs, item_weights

# Exponential cones beyond which no program is stated.
MAX_CONES = 200_000
# Numbers whose exponentials are in memory at once: 0.5 MB, as much as is near the processor.
NUMBERS_AT_ONCE = 1 << 16
# Multiplications in the 40 ns that half of the lists of one number take.
LISTING_WORK = 1000.0


@dataclass(frozen=True, eq=False, repr=False)
class _Softmax(Loss):
    """``sum_g w_g (log sum_j exp u_gj - <p_g, u_g> - h_g)``; multipliers are ``w_g (q_g - p_g)``, row by row."""

    has_interior: ClassVar[bool] = True
    has_own_lists: ClassVar[bool] = True

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """The shape (g, m) of P: rows, and numbers of each."""

    @property
    @abstractmethod
    def n(self) -> int:
        """Number of examples."""

    @property
    @abstractmethod
    def row_weights(self) -> FloatArray:
        """W, the term's weight included, (g, 1)."""

    @property
    @abstractmethod
    def ideal(self) -> FloatArray:
        """P, rows that sum to 1, (g, m)."""

    @property
    @abstractmethod
    def counts(self) -> FloatArray:
        """Numbers of which h are the logarithms, (g,)."""

    @property
    @abstractmethod
    def roundings(self) -> int:
        """At least how many relative roundings weights and p are off by."""

    @cached
    def _logs(self) -> tuple[FloatArray, FloatArray]:
        """Floats below and above the exact h."""
        return log_bounds(self.counts)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def offset(self) -> FloatArray:
        """Zeros that share one element."""
        return np.broadcast_to(0.0, self.size)

    def distance_pairs(self) -> IndexArray:
        check_time_for(LISTING_WORK * self.size)
        rows = np.arange(self.n, dtype=np.int32)
        n_later = rows[::-1]  # how many rows come after each
        pairs = np.empty((self.n * (self.n - 1) // 2, 2), dtype=np.int32)
        pairs[:, 0] = np.repeat(rows, n_later)
        pairs[:, 1] = np.arange(len(pairs)) - np.repeat(np.cumsum(n_later) - n_later - rows - 1, n_later)
        return pairs

    def ordered_pairs(self) -> IndexArray:
        """The pair of each number, (m, 2)."""
        return self.distance_pairs()

    def smallest_cost(self, distance: float, trace: float) -> float:
        """See `Term.smallest_cost`: the smallest positive weight of a divergence."""
        return float(self.row_weights[self.row_weights > 0.0].min(initial=np.inf))

    def value(self, u: FloatArray) -> float:
        return self.smoothed(u, 0.0)[0]

    def value_at_zero(self) -> float:
        divergences = np.log(float(self.shape[1])) - np.log(self.counts)
        return float(self.row_weights[:, 0] @ np.maximum(divergences, 0.0))

    def upper_bound_at_zero(self) -> float:
        zeros = np.zeros((1, self.shape[1]))
        return self._divergences_above(log_sum_exp(zeros, zeros)[1], np.zeros(1), np.zeros(1))

    @property
    def distance_scale(self) -> float:
        """1: that of the exponentials."""
        return 1.0

    def upper_bound(self, low: FloatArray, high: FloatArray) -> float:
        """Largest partition functions less smallest pulls; see `Loss.upper_bound`."""
        low, high, ideal = low.reshape(self.shape), high.reshape(self.shape), self.ideal
        partition, pull, size = np.empty((3, len(ideal)))
        for rows in self._row_blocks():
            pulls = ideal[rows] * low[rows]
            partition[rows], pull[rows] = log_sum_exp(low[rows], high[rows])[1], pulls.sum(axis=1)
            size[rows] = np.abs(pulls).sum(axis=1)
        return self._divergences_above(partition, pull, size)

    def _divergences_above(self, partition: FloatArray, pull: FloatArray, pull_size: FloatArray) -> float:
        """A float not below the sum, from bounds of logarithms of partition functions, and pulls with their sizes."""
        sizes = pull_size + np.abs(partition) + np.abs(self._logs).max(axis=0)
        error = gamma(self.shape[1] + self.roundings + 8) * sizes
        divergences = np.maximum(partition - pull - self._logs[0] + error, 0.0)
        return above(sum_above(self.row_weights[:, 0] * divergences), self.roundings + 4)

    def _row_blocks(self) -> Iterator[slice]:
        """Blocks of rows of bounded memory; raises `BudgetSpent` once the time is over."""
        step = max(1, NUMBERS_AT_ONCE // self.shape[1])
        for first in range(0, self.shape[0], step):
            check_last()
            yield slice(first, first + step)

    def probabilities(self, a: FloatArray) -> FloatArray:
        """The numbers q of given multipliers, 0 where they are negative, (g, m)."""
        rows, w = a.reshape(self.shape), self.row_weights
        return np.maximum(np.divide(rows, w, out=np.zeros_like(rows), where=w > 0.0) + self.ideal, 0.0)

    def dual_value(self, a: FloatArray) -> float:
        """See `Loss.dual_value`: the exact multipliers are those of distributions."""
        summands = np.stack([entropies(self._distributions(a), 2)[0], -self._logs[1]])
        values = (self.row_weights[:, 0] * summands).ravel()
        return sum_below(values - all_above(gamma(self.roundings + 4) * np.abs(values)))

    def errors(self, a: FloatArray) -> FloatArray:
        q = self._distributions(a)
        distance = np.abs(self.row_weights * (q - self.ideal) - a.reshape(self.shape))
        return np.asarray(distance + gamma(2 * self.roundings + 14) * self.row_weights * (q + self.ideal)).ravel()

    def _distributions(self, a: FloatArray) -> FloatArray:
        """`probabilities` as `distributions` rounds them."""
        q = self.probabilities(a)
        for rows in self._row_blocks():
            q[rows] = distributions(q[rows])
        return q

    def smoothed(self, u: FloatArray, width: float, center: FloatArray | None = None) -> tuple[float, FloatArray]:
        """There is no kink; the slopes are ``w (q - p)`` for the softmax q."""
        u, ideal, w = u.reshape(self.shape), self.ideal, self.row_weights
        divergences, slopes, log_counts = np.empty(len(u)), np.empty(self.shape), np.log(self.counts)
        for rows in self._row_blocks():
            v, p = u[rows], ideal[rows]
            top, nearest = v.max(axis=1, keepdims=True), np.where(p > 0.0, v, -np.inf).max(axis=1)
            q = np.exp(v - top)
            sums = q.sum(axis=1, keepdims=True)
            # Relative to the nearest number with p > 0, which keeps the digits of small divergences.
            pull = np.einsum("ij,ij->i", p, v - nearest[:, None])
            divergences[rows] = np.log(sums[:, 0]) + (top[:, 0] - nearest) - pull - log_counts[rows]
            slopes[rows] = w[rows] * (q / sums - p)
        return float(w[:, 0] @ np.maximum(divergences, 0.0)), slopes.ravel()

    def listed_constraints(self, a: FloatArray, u: FloatArray, D: FloatArray) -> TermConstraints:
        """Pairs that are pushed apart, by ``w q``, or pulled together, by up to ``w p``."""
        used = np.flatnonzero(a)
        pair = self.combination.tocsr().indices[used]
        first, second = self.ordered_pairs()[used].T
        w, p = (np.broadcast_to(values, self.shape).ravel()[used] for values in (self.row_weights, self.ideal))
        highest = w * np.where(a[used] > 0.0, 1.0 - p, p)
        stretch = [(first, second, np.sign(a[used]) * D[pair])]
        return TermConstraints({"first": first, "second": second}, np.abs(a[used]), -D[pair], Between(highest), stretch)

    def conjugates(self, a: FloatArray) -> FloatArray:
        """H minus the entropy of q, for each row at its first number."""
        conjugates = np.zeros(self.shape)
        conjugates[:, 0] = self.row_weights[:, 0] * (np.log(self.counts) - entr(self.probabilities(a)).sum(axis=1))
        return conjugates.ravel()

    def clip(self, a: FloatArray) -> FloatArray:
        q = self.probabilities(a)
        sums = q.sum(axis=1, keepdims=True)
        q = np.where(sums > 0.0, q / np.where(sums > 0.0, sums, 1.0), self.ideal)
        return np.asarray(self.row_weights * (q - self.ideal)).ravel()

    def max_step(self, a: FloatArray, step: FloatArray) -> float:
        """The largest t at which no probability is negative."""
        q, down = (self.row_weights * self.ideal).ravel() + a, step < 0.0
        return max(0.0, float((q[down] / -step[down]).min(initial=np.inf)))

    def expression(self, u: Expression, cp: ModuleType) -> tuple[Expression | float, list[object]]:
        if self.size > MAX_CONES:
            raise ValueError(
                f"the program would have {self.size:,} exponential cones; it is stated up to {MAX_CONES:,}. Solve with "
                "solver='factored', or use fewer examples."
            )
        rows, w = cp.reshape(u, self.shape, order="C"), self.row_weights[:, 0]
        pull = cp.sum(cp.multiply(self.row_weights * self.ideal, rows)) + float(w @ np.log(self.counts))
        return w @ cp.log_sum_exp(rows, axis=1) - pull, []


@dataclass(frozen=True, eq=False, repr=False)
class Collapse(_Softmax):
    """``sum_i w_i KL(p0(. | i) || p(. | i))`` with ``p(j | i)`` a softmax of ``-D(i, j)``, MCML's objective [GR2006].

    ``p0(. | i)`` is uniform over the other members of i's class. Without `neighbors`, j runs over all other examples:
    time and memory are quadratic in their number. Multipliers are ``w_i (q(j | i) - p0(j | i))`` for distributions q,
    row by row, without the diagonal.

    Parameters
    ----------
    labels : (n,) array
        Class labels of any kind; at least two classes, each with at least two members.
    neighbors : (n, m) integer array, optional
        Row numbers of the m different examples j of each i, so time and memory are linear in n; ``p0`` is uniform
        over those of i's class. A row with none of its class costs nothing.
    sample_weight : (n,) array, optional
        ``w``, nonnegative; default 1.
    weight : float, default 1

    Attributes
    ----------
    index : (n,) int32 array
        The class of each example, for a bound term.

    See Also
    --------
    PairSoftmax, TripletHinge

    Examples
    --------
    >>> import sdpmetric as sm
    >>> from sdpmetric import terms
    >>> X, y = sm.datasets.load("iris")
    >>> stated = sm.MetricProblem(X[::5], terms.Collapse(labels=y[::5]) + 0.1 * terms.Trace())
    >>> bool(sm.solve(stated).relative_gap <= 1e-3)
    True
    """

    labels: ArrayLike | None = None
    neighbors: ArrayLike | None = None
    sample_weight: ArrayLike | None = None
    index: IndexArray | None = None

    name: ClassVar[str] = "collapse"
    roundings: ClassVar[int] = 2

    def bind(self, X: NDArray[np.floating]) -> Self:
        with errors_of(self.name):
            classes, index = validation.check_labels([] if self.labels is None else self.labels, len(X))
        counts, neighbors = np.bincount(index), self.neighbors
        if neighbors is not None:
            neighbors = self._checked(neighbors, len(X))
            if not (index[neighbors] == index[:, None]).any():
                raise ValueError(f"{self.name}: no row of neighbors= has a member of the example's class; add some.")
        elif counts.min() == 1:
            raise ValueError(
                f"{self.name}: class {classes.tolist()[counts.argmin()]!r} has one member; each class needs two at "
                "least: merge or drop such classes."
            )
        weights = check_sample_weight(self.sample_weight, len(X))
        return replace(self, labels=None, index=index, sample_weight=weights, neighbors=neighbors)

    def _checked(self, neighbors: ArrayLike, n: int) -> IndexArray:
        """Row numbers of different other examples, (n, m)."""
        rows = validation.check_rows(f"neighbors of {self.name}", neighbors, n, (n, "m"))
        with_itself = np.sort(np.column_stack([rows, np.arange(n)]), axis=1)
        if (repeated := (with_itself[:, 1:] == with_itself[:, :-1]).any(axis=1)).any():
            first = int(repeated.argmax())
            raise ValueError(f"neighbors of {self.name} name an example twice, or itself, in row {first}; name others.")
        return rows

    def describe(self) -> str:
        return f"divergence of soft neighbors from the classes of {self.n:,} examples"

    @property
    def n(self) -> int:
        return len(self._classes)

    @property
    def shape(self) -> tuple[int, int]:
        return (self.n, self.n - 1) if self.neighbors is None else np.shape(self.neighbors)

    @property
    def _classes(self) -> IndexArray:
        return np.asarray(self.index, dtype=np.int32)

    @cached
    def neighbor_rows(self) -> IndexArray:
        if self.neighbors is None:
            check_time_for(LISTING_WORK * self.size)
            numbers = np.arange(self.n - 1, dtype=np.int32)
            return numbers + (numbers >= np.arange(self.n)[:, None])
        return np.asarray(self.neighbors, dtype=np.int32)

    @cached
    def _mates(self) -> BoolArray:
        """Which of them are of i's class, (n, m)."""
        return np.asarray(self._classes[self.neighbor_rows] == self._classes[:, None])

    @cached
    def _used(self) -> FloatArray:
        """``w_i``, 0 where no member of i's class is listed, (n,)."""
        w = np.ones(self.n) if self.sample_weight is None else np.asarray(self.sample_weight, dtype=np.float64)
        return np.where(self._n_mates > 0, w, 0.0)

    @cached
    def _n_mates(self) -> IndexArray:
        """How many members of i's class are listed, (n,)."""
        if self.neighbors is None:
            return np.asarray(np.bincount(self._classes)[self._classes] - 1, dtype=np.int32)
        return np.asarray(self._mates.sum(axis=1), dtype=np.int32)

    @cached
    def row_weights(self) -> FloatArray:
        """``weight * w_i``, (n, 1)."""
        return self.weight * self._used[:, None]

    def distance_pairs(self) -> IndexArray:
        """All pairs a < b, or those of i and its neighbors."""
        return super().distance_pairs() if self.neighbors is None else self.ordered_pairs()

    @cached
    def combination(self) -> sp.csr_array:
        """Minus the squared distance of each ordered pair, example by example."""
        if self.neighbors is not None:
            return -sp.eye_array(self.size, format="csr")
        place = _place(np.arange(self.n, dtype=np.int32)[:, None], self.neighbor_rows, self.n).ravel()
        starts = np.arange(self.size + 1, dtype=place.dtype)
        return sp.csr_array((np.full(self.size, -1.0), place, starts), shape=(self.size, self.size // 2))

    def proof_term(self, a: FloatArray) -> ProofTerm:
        pairs = self.ordered_pairs().reshape(*self.neighbor_rows.shape, 2)
        arrays: dict[str, NDArray[np.generic]] = {"pairs": pairs, "weights": self._used, "ideal": self._mates}
        arrays |= {"distributions": self.probabilities(a)}
        return ProofTerm({"term": "softmax", "loss": "divergence", "weight": self.weight}, arrays, {"y": self._classes})

    def ordered_pairs(self) -> IndexArray:
        first = np.repeat(np.arange(self.n, dtype=np.int32), self.neighbor_rows.shape[1])
        return np.stack([first, self.neighbor_rows.ravel()], axis=1)

    @cached
    def ideal(self) -> FloatArray:
        """``p0``, (n, m); of rows that cost nothing, uniform."""
        has_mates, n_listed = self._n_mates > 0, self.shape[1]
        shares = 1.0 / np.where(has_mates, self._n_mates, n_listed)
        return np.where(self._mates | ~has_mates[:, None], shares[:, None], 0.0)

    def pulled_pairs(self) -> IndexArray:
        pairs = self.distance_pairs()
        return np.asarray(pairs[self._classes[pairs[:, 0]] == self._classes[pairs[:, 1]]])

    def vanishes(self, groups: IndexArray) -> bool:
        """Where examples of different classes are in different groups."""
        first, second = self.distance_pairs().T
        return bool((groups[first] != groups[second])[self._classes[first] != self._classes[second]].all())

    @cached
    def counts(self) -> FloatArray:
        """Numbers of the members of the class that are listed, (n,)."""
        return np.maximum(self._n_mates, 1.0)


@dataclass(frozen=True, eq=False, repr=False)
class PairSoftmax(_Softmax):
    """``-sum_(a, b) w_ab log( exp(-D(a, b)) / sum_(c, d) exp(-D(c, d)) )``, Eq. 8 of [GRHS2005].

    Given pairs should be near, according to their weights; (c, d) are all ordered pairs of different examples, so all
    others are pushed apart. The paper learns a network. For a linear map the function is convex in the metric: the
    distances are linear in it, and the logarithm of a sum of exponentials is convex. All pairs are listed: time and
    memory are quadratic in the number of examples.

    Parameters
    ----------
    pairs : (p, 2) integer array
        Row numbers of X; a repeated pair counts each time.
    weights : (p,) array, optional
        ``w_ab >= 0``, not all 0; default 1.
    sample_weight : (n,) array, optional
        Weights of examples; each pair is multiplied by that of its first row.
    weight : float, default 1

    Attributes
    ----------
    shares : (n (n - 1) / 2,) array
        For a bound term, the weights of all pairs c < d divided by their sum `total`.

    See Also
    --------
    Collapse

    Examples
    --------
    >>> import sdpmetric as sm
    >>> from sdpmetric import terms
    >>> X, y = sm.datasets.load("iris")
    >>> stated = sm.MetricProblem(X[::5], terms.PairSoftmax([[0, 1], [10, 11], [20, 21]]) + 0.1 * terms.Trace())
    >>> bool(sm.solve(stated).relative_gap <= 1e-3)
    True
    """

    pairs: ArrayLike | None = None
    weights: ArrayLike | None = None
    sample_weight: ArrayLike | None = None
    n: int = 0
    shares: FloatArray | None = None
    total: float = 0.0

    name: ClassVar[str] = "pair_softmax"

    def bind(self, X: NDArray[np.floating]) -> Self:
        n = len(X)
        rows = check_term_pairs(self.name, self.pairs, n)
        w = item_weights(self.name, self.weights, self.sample_weight, rows[:, 0], n)
        total = float(w.sum())
        if not total > 0.0:
            raise ValueError(f"the weights of {self.name} are all 0, so no pair should be near; give one a weight.")
        place = _place(rows[:, 0], rows[:, 1], n)
        shares = np.bincount(place, w, n * (n - 1) // 2) / total
        return replace(self, pairs=rows, weights=w, sample_weight=None, n=n, shares=shares, total=total)

    def describe(self) -> str:
        count = len(np.asarray(self.pairs))
        return f"softmax of {count:,} pairs among all pairs of {self.n:,} examples"

    def proof_term(self, a: FloatArray) -> ProofTerm:
        first, second = np.triu_indices(self.n, 1)
        pairs = np.stack([np.append(first, second), np.append(second, first)], axis=1)[None]
        ideal = np.append(np.asarray(self.shares) * self.total, np.zeros(len(first)))[None]
        arrays = {"distributions": np.tile(self.probabilities(a), 2), "pairs": pairs, "weights": np.ones(1)}
        return ProofTerm({"term": "softmax", "loss": "cross entropy", "weight": self.weight}, arrays | {"ideal": ideal})

    @property
    def shape(self) -> tuple[int, int]:
        return 1, self.n * (self.n - 1) // 2

    @property
    def row_weights(self) -> FloatArray:
        return np.full((1, 1), self.weight * self.total)

    @cached
    def ideal(self) -> FloatArray:
        """`shares` as one row."""
        return np.asarray(self.shares)[None]

    @property
    def counts(self) -> FloatArray:
        """1 / 2: ordered pairs are twice as many."""
        return np.full(1, 0.5)

    @property
    def roundings(self) -> int:
        """Those of sums over the pairs."""
        return 2 * len(np.asarray(self.pairs)) + 16

    @cached
    def combination(self) -> sp.csr_array:
        return -sp.eye_array(self.size, format="csr")


def _place(first: IndexArray, second: IndexArray, n: int) -> NDArray[np.integer]:
    """The numbers of pairs among all pairs a < b, row by row."""
    rows = np.arange(n)
    starts = (rows * (2 * n - rows - 1) // 2 - rows - 1).astype(np.int32 if n < 2**15 else np.int64)
    return np.asarray(starts[np.minimum(first, second)] + np.maximum(first, second))
