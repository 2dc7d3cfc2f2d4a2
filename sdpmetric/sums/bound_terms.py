"""Terms bound to data, as one function of the metric: its value, its slopes, and its part in the dual."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray, IndexArray
from sdpmetric.core import validation
from sdpmetric.engine.lazy import cached
from sdpmetric.engine.threads import check_deadline
from sdpmetric.linalg import exact
from sdpmetric.linalg.distances import Blocks, adjoint, distances, pair_forms, times
from sdpmetric.linalg.rigorous.directed import RIGORS, TINY, Rigor, above, gamma, product_above, sum_above, trace_above
from sdpmetric.linalg.rigorous.forms import Images, Span
from sdpmetric.sums.terms.base import ROUNDINGS, Regularizer, Term
from sdpmetric.sums.terms.margins import MarginLoss

# Room that solvers leave to hard constraints of float64 data, in their units.
ROOM = 1e-7
# The same for float32 data.
ROOM_SINGLE = 5e-7
# Products of a pass over the data from which solvers work in float32, whose products take half as long.
SINGLE_PRODUCTS = 1e7
# The least tolerance with float32.
SINGLE_TOL = 1e-5
# The largest entry of such data, and the inverse of the least.
SINGLE_RANGE = 1e9
# Entries of matrices of multipliers that are kept, whose products take less time than calls of loops over pairs: 2 MB.
SMALL_TABLE = 3 * 10**5
# Products of whole numbers that decide about hard constraints next to their bounds, which take about 0.2 s.
MAX_EXACT_PRODUCTS = 10**6


@dataclass(frozen=True, eq=False)
class BoundTerms:
    """A sum of terms over given data."""

    centered: FloatArray  # (n, d): the data minus their mean
    terms: tuple[Term, ...]  # bound to the data
    room: float = 0.0  # for solvers: hard constraints must hold with this room, in their units
    span: Span | None = None  # of few rows, if the data are coordinates in it

    def images(
        self,
        X: NDArray[np.floating],
        T: FloatArray,
        errors: FloatArray | None = None,
        metric: FloatArray | None = None,
    ) -> Images:
        """Return images of the exact data X in coordinates T (d, r) with the given errors; see `Images`."""
        if self.span is not None:
            return self.span.images(T, errors)
        return Images(X, self.centered, T, errors, metric)

    @cached
    def losses(self) -> tuple[MarginLoss, ...]:
        return tuple(loss for term in self.terms for loss in term.losses)

    @cached
    def regularizers(self) -> tuple[Regularizer, ...]:
        return tuple(regularizer for term in self.terms for regularizer in term.regularizers)

    @property
    def rigor(self) -> Rigor:
        """The weakest of the terms' grades."""
        return max((term.rigor for term in self.terms), key=RIGORS.index)

    def stiffened(self, scale: float, room: float) -> BoundTerms:
        """See `Term.stiffened`; and hard constraints get room, so points keep them exactly."""
        return replace(self, terms=tuple(term.stiffened(scale) for term in self.terms), room=room)

    @cached
    def kinked(self) -> bool:
        return any(loss.kinked for loss in self.losses)

    @cached
    def barrier(self) -> bool:
        """Whether a regularizer is infinite for singular metrics, as LogDet is."""
        zero = np.zeros((0, self.centered.shape[1]))
        return any(math.isinf(term.value(zero)) for term in self.regularizers)

    @cached
    def depends_on_entries(self) -> bool:
        return any(loss.depends_on_entries for loss in self.losses)

    @cached
    def ridge(self) -> float:
        return math.fsum(term.ridge for term in self.terms)

    @cached
    def costs(self) -> tuple[IndexArray, FloatArray]:
        """Pairs of all linear terms, (p, 2), and their costs (p,)."""
        rows, costs = zip(*(term.pair_costs() for term in self.terms), strict=True)
        return np.concatenate(rows), np.concatenate(costs)

    @cached
    def pairs(self) -> IndexArray:
        """The pairs of all terms, (p, 2): those of the linear terms first, then loss by loss."""
        return np.concatenate([self.costs[0], *(loss.distance_pairs() for loss in self.losses)])

    @cached
    def pair_slices(self) -> list[slice]:
        """Where the pairs of each loss are among `pairs`."""
        bounds = len(self.costs[0]) + np.cumsum([0, *(loss.combination.shape[1] for loss in self.losses)])
        return [slice(start, stop) for start, stop in pairwise(bounds.tolist())]

    @cached
    def signed_combinations(self) -> list[tuple[sp.csr_array, sp.csr_array, int, int]]:
        """The positive and the negative entries of each loss's combination, and its fullest row and column."""
        signed: list[tuple[sp.csr_array, sp.csr_array, int, int]] = []
        for K in (loss.combination.tocsr() for loss in self.losses):
            up, down = sp.csr_array(K.maximum(0.0)), sp.csr_array((-K).maximum(0.0))
            in_rows = np.diff(up.indptr) + np.diff(down.indptr)
            in_columns = np.bincount(up.indices, minlength=K.shape[1]) + np.bincount(down.indices, minlength=K.shape[1])
            signed.append((up, down, int(in_rows.max(initial=0)), int(in_columns.max(initial=0))))
        return signed

    @cached
    def n_multipliers(self) -> int:
        return sum(loss.size for loss in self.losses)

    def split(self, a: FloatArray) -> list[FloatArray]:
        """Return multipliers loss by loss."""
        stops = np.cumsum([loss.size for loss in self.losses])
        return [np.asarray(multipliers) for multipliers in np.split(a, stops[:-1])] if self.losses else []

    def offset(self, loss: MarginLoss) -> FloatArray:
        """Return what a loss is a function of at the zero metric, (m,), with the room of a hard constraint."""
        return loss.offset + self.room * loss.unit if self.room and loss.hard else loss.offset

    def excess(self, components: FloatArray, D: FloatArray | None = None) -> list[FloatArray]:
        """Return what each loss is a function of, at a factor of the metric; D are the distances of `pairs`."""
        D = self.distances(components) if D is None else D
        M = components.T @ components if self.depends_on_entries else np.zeros((0, 0))
        losses = zip(self.losses, self.pair_slices, strict=True)
        return [self.offset(loss) + loss.combination @ D[pairs] + loss.entries(M) for loss, pairs in losses]

    def pair_weights(self, a: list[FloatArray], costs: bool = True) -> FloatArray:
        """Return weights of `pairs` in the dual slack matrix for multipliers, loss by loss."""
        linear = self.costs[1] if costs else np.zeros(len(self.costs[1]))
        return np.concatenate([linear, *(K @ x for K, x in zip(self._transposed, a, strict=True))])

    @cached
    def _transposed(self) -> list[sp.csc_array]:
        return [loss.combination.T for loss in self.losses]

    def weight_errors(self, a: list[FloatArray]) -> FloatArray | None:
        """Return errors of `pair_weights` besides `ROUNDINGS` roundings, (p,), or None without any."""
        pair_errors, losses = np.zeros(len(self.pairs)), zip(a, self.pair_slices, self.signed_combinations, strict=True)
        for multipliers, pairs, (up, down, _, count) in losses:
            if count > 1:  # sums of numbers of any signs
                errors = gamma(count + ROUNDINGS) * np.abs(multipliers)
                pair_errors[pairs] = (up.T @ errors + down.T @ errors) * (1.0 + gamma(count + 5))
        return pair_errors if pair_errors.any() else None

    def entry_matrix(self, a: list[FloatArray]) -> FloatArray:
        """Return what losses of entries add to the dual slack matrix, (d, d)."""
        d = self.centered.shape[1]
        matrices = [loss.entry_matrix(multipliers) for loss, multipliers in zip(self.losses, a, strict=True)]
        return np.asarray(sum(matrices, np.zeros((d, d))))

    def slack_matrix(self, a: list[FloatArray]) -> FloatArray:
        """Return ``S = C + sum_i a_i A_i``, (d, d), in the data's coordinates."""
        S, weights = self.entry_matrix(a) + self.ridge * np.eye(self.centered.shape[1]), self.pair_weights(a)
        if not weights.any():
            return S
        return np.asarray(S + adjoint(*self.points, weights))

    @cached
    def points(self) -> tuple[FloatArray, IndexArray, IndexArray]:
        """The examples that pairs name, and both rows of each pair among them."""
        is_named = np.zeros(len(self.centered), dtype=bool)
        is_named[self.pairs] = True
        pairs = self.pairs if is_named.all() else (np.cumsum(is_named, dtype=np.int32) - 1)[self.pairs]
        first, second = np.ascontiguousarray(pairs.T)
        return np.ascontiguousarray(self.centered[is_named]), first, second

    def distances(self, components: FloatArray) -> FloatArray:
        """Return the squared distances of `pairs` at a factor (r, d) of the metric, (p,)."""
        check_deadline()
        X, first, second = self.points
        return distances(times(X, components.T.astype(X.dtype, copy=False)), first, second)

    def forms(self, N: FloatArray, Y: FloatArray | None = None) -> FloatArray:
        """Return ``<N, v v^T>`` for the differences v of `pairs`, N symmetric in coordinates Y of `points`, (p,)."""
        check_deadline()
        X, first, second = self.points
        Y = X if Y is None else np.ascontiguousarray(Y)
        return pair_forms(Y, N[None], Blocks.one(len(Y)), first, second)

    def in_single_precision(self, tol: float) -> BoundTerms:
        """Return the sum over data in float32 if that saves time and a tolerance allows it, else itself."""
        X, size = self.centered, float(np.abs(self.centered).max(initial=0.0))
        is_large = X.shape[1] * X.size >= SINGLE_PRODUCTS and tol >= SINGLE_TOL
        if not (is_large and 1.0 / SINGLE_RANGE < size < SINGLE_RANGE):
            return self
        return replace(self, centered=X.astype(np.float32))

    def value(self, L: FloatArray, D: FloatArray | None = None) -> tuple[float, list[FloatArray]]:
        """Return the sum at a factor (r, d) of the metric, with distances D, and the excess of each loss."""
        D = self.distances(L) if D is None else D
        u = self.excess(L, D)
        losses = list(zip(self.losses, u, strict=True))
        if self.room and any(loss.violation(excess) > 0.5 * self.room for loss, excess in losses):
            return math.inf, u
        values = [self._linear(L, D), *(loss.value(excess) for loss, excess in losses)]
        values += [term.value(L) for term in self.regularizers]
        return math.inf if math.inf in values else math.fsum(values), u

    def _linear(self, L: FloatArray, D: FloatArray) -> float:
        trace = self.ridge * float(np.sum(L * L)) if self.ridge else 0.0
        return float(self.costs[1] @ D[: len(self.costs[1])]) + trace

    def upper_bound(
        self,
        X: NDArray[np.floating],
        components: FloatArray,
        errors: FloatArray | None = None,
        metric: FloatArray | None = None,
    ) -> float:
        """Return a float not below the sum at a factor of floats, infinity unless all hard constraints are proven."""
        sizes = np.abs(components) if errors is None else np.abs(components) + errors
        values = [above(product_above(self.ridge, trace_above(sizes, metric)), 6)]
        images = self.images(X, components.T, None if errors is None else errors.T, metric)
        values += self._losses_above(images, components, sizes, errors)
        if metric is None:
            values += [term.upper_bound(components, errors) for term in self.regularizers]
        else:
            values += [term.upper_bound_at(metric, components) for term in self.regularizers]
        return math.inf if math.inf in values else sum_above(np.array(values))

    def _losses_above(
        self, images: Images, components: FloatArray, sizes: FloatArray, errors: FloatArray | None
    ) -> list[float]:
        """Return floats not below the costs of pairs, and below each loss."""
        low, high = images.distances(*self.pairs.T)
        costs = self.costs[1]
        linear = np.where(costs >= 0.0, costs * high[: len(costs)], costs * low[: len(costs)])
        underflow = TINY * np.count_nonzero(costs * (high[: len(costs)] > 0.0))
        values: list[float] = [sum_above(linear) + gamma(4) * float(np.abs(linear).sum()) + underflow]
        M, error = np.zeros((0, 0)), np.zeros((0, 0))
        if self.depends_on_entries:
            M, r = components.T @ components, len(components)
            error = gamma(r + 4) * (sizes.T @ sizes) + (r * TINY if components.any() else 0.0)
            if errors is not None:
                products = sizes.T @ errors
                error += (products + products.T) * (1.0 + gamma(r + 4))
            if images.metric is not None:
                error += images.metric_errors
        losses = zip(self.losses, self.pair_slices, self.signed_combinations, strict=True)
        is_exact = errors is None
        for loss, pairs, (up, down, count, _) in losses:
            smallest, largest, entries = low[pairs], high[pairs], loss.entries(M)
            gain, fall = up @ largest, down @ largest
            excess_low = loss.offset + up @ smallest - fall + entries
            excess_high = loss.offset + gain - down @ smallest + entries
            size = np.abs(loss.offset) + gain + fall + np.abs(loss.entries(np.abs(M)))
            rounding = gamma(count + 8) * size + np.abs(loss.entries(error))
            excess_low, excess_high = excess_low - rounding, excess_high + rounding
            if loss.hard and is_exact and not loss.depends_on_entries:
                undecided = np.flatnonzero((excess_low <= 0.0) & (excess_high > 0.0))
                if len(undecided):
                    excess_high[undecided] = self._exact_signs(loss, undecided, images, components)
            values.append(loss.upper_bound(excess_low, excess_high))
        return values

    def _exact_signs(
        self, loss: MarginLoss, rows: NDArray[np.intp], images: Images, components: FloatArray
    ) -> FloatArray:
        """Return the signs of hard constraints at an exact point, by rational arithmetic, or 1 if that is too much."""
        offsets, K = loss.exact_rows(rows)
        used = np.unique(K.indices)
        r, d = components.shape if images.metric is None else images.metric.shape
        if len(used) * r * d > MAX_EXACT_PRODUCTS or self.span is not None:
            return np.ones(len(rows))
        first, second = loss.distance_pairs()[used].T
        squares = exact.exact_distances(images.X, first, second, components, images.metric)
        u, products = exact.rationals(offsets), exact.rationals(K.data) * squares[np.searchsorted(used, K.indices)]
        for k in range(len(rows)):
            u[k] += products[K.indptr[k] : K.indptr[k + 1]].sum()
        return np.array([(value > 0) - (value < 0) for value in u.tolist()], dtype=np.float64)

    def smoothed(
        self, components: FloatArray, width: float, center: list[FloatArray] | None = None
    ) -> tuple[float, list[FloatArray], FloatArray]:
        """Return the sum with smoothed losses, their slopes, and the gradient by the metric, (d, d)."""
        value, a = self.smoothed_losses(components, self.distances(components), width, center)
        gradient = self.slack_matrix(a)
        for term in self.regularizers:
            term_value, term_gradient = term.slope(components)
            value, gradient = value + term_value, gradient + term_gradient
        return value, a, gradient

    def slopes(self, components: FloatArray, width: float = 1e-9) -> list[FloatArray]:
        """Return the slopes of `smoothed`."""
        return self.smoothed_losses(components, self.distances(components), width)[1]

    def smoothed_losses(
        self, components: FloatArray, D: FloatArray, width: float, center: list[FloatArray] | None = None
    ) -> tuple[float, list[FloatArray]]:
        """Return the linear terms and the smoothed losses, and the slopes of these; see `smoothed`."""
        value = self._linear(components, D)
        a: list[FloatArray] = []
        for k, (loss, u) in enumerate(zip(self.losses, self.excess(components, D), strict=True)):
            loss_value, slopes = loss.smoothed(u, width, None if center is None else center[k])
            value, a = value + loss_value, [*a, slopes]
        return value, a


def check_bound_term(term: Term, n: int) -> Term:
    """Return a bound term; raise an error if its rows, shapes or numbers do not fit n examples."""
    rows, costs = term.pair_costs()
    validation.check_rows(f"pair_costs() of {term.name}", rows, n, (len(rows), 2))
    validation.check_matrix(f"the costs of {term.name}", costs, (len(rows),))
    validation.check_weight(f"ridge of {term.name}", term.ridge)
    for loss in term.losses:
        _check_loss(loss, n)
    return term


def _check_loss(loss: MarginLoss, n: int) -> None:
    pairs, name = np.asarray(loss.distance_pairs()), loss.name
    validation.check_rows(f"distance_pairs() of {name}", pairs, n, (len(pairs), 2))
    if (validation.check_matrix(f"weights of {name}", loss.item_weights, ("m",)) < 0.0).any():
        raise ValueError(f"weights of {name} must be at least 0.")
    for role, rows in loss.roles().items():
        validation.check_rows(f"{role!r} in roles() of {name}", rows, n, (loss.size,))
    validation.check_matrix(f"offset of {name}", loss.offset, (loss.size,))
    combination = loss.combination
    if not sp.issparse(combination) or combination.shape != (loss.size, len(pairs)):
        raise ValueError(
            f"combination of {name} must be a sparse array of shape {(loss.size, len(pairs))}, its numbers by its "
            f"pairs, got {type(combination).__name__} of shape {np.shape(combination)}."
        )
    validation.check_matrix(f"combination of {name}", combination.data, ("m",))


class MarginSum:
    """The losses of a sum, and of all of them the excess at the zero metric, and the interval of multipliers, (m,)."""

    def __init__(self, total: BoundTerms) -> None:
        self.total = total
        self.losses = total.losses
        self.offset = concatenated(total.offset(loss) for loss in self.losses)
        self.low, self.high = (concatenated(loss.box[side] for loss in self.losses) for side in (0, 1))

    @cached
    def costs(self) -> FloatArray:
        """The slack matrix without multipliers, (d, d)."""
        return self.total.slack_matrix(self.total.split(np.zeros(len(self.offset))))

    @cached
    def table(self) -> FloatArray | None:
        """The matrix of each multiplier, (m, d^2), if these are few numbers."""
        X, d = self.total.centered, self.total.centered.shape[1]
        if len(self.offset) * d * d > SMALL_TABLE:
            return None
        V = X[self.total.pairs[:, 0]] - X[self.total.pairs[:, 1]]
        squares = (V[:, :, None] * V[:, None, :]).reshape(len(V), d * d)
        products = [
            loss.combination @ squares[pairs] for loss, pairs in zip(self.losses, self.total.pair_slices, strict=True)
        ]
        return np.concatenate([np.zeros((0, d * d)), *products])

    def matrix(self, a: FloatArray) -> FloatArray:
        """Return what multipliers add to the slack matrix, (d, d)."""
        if self.table is not None:
            return np.asarray((a @ self.table).reshape(self.costs.shape))
        return np.asarray(self.total.slack_matrix(self.total.split(a)) - self.costs)

    def numbers(self, N: FloatArray, Y: FloatArray | None = None) -> FloatArray:
        """Return what a symmetric matrix adds to the numbers of the losses, in coordinates Y of the points, (m,)."""
        if self.table is not None and Y is None:
            return np.asarray(self.table @ N.ravel())
        excess = self.total.excess(np.zeros((0, len(self.costs))), self.total.forms(N, Y))
        return concatenated(excess) - self.offset

    @cached
    def conjugate_curvatures(self) -> FloatArray:
        """The second derivatives of the conjugates in the middle of the interval, (m,)."""
        return concatenated(loss.conjugate_curvatures(0.5 * loss.item_weights) for loss in self.losses)


def concatenated(values_by_loss: Iterable[FloatArray]) -> FloatArray:
    return np.concatenate([np.zeros(0), *values_by_loss])
