"""Terms bound to data, as one function of the metric: its value, its slopes, and its part in the dual."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sdpmetric.linalg.distances import adjoint, distances
from sdpmetric.linalg.rigorous import Images, U, above, gamma, sum_above
from sdpmetric.terms.base import ROUNDINGS, EntryLoss, Loss, PairCost, PairLoss, Regularizer, Term
from sdpmetric.terms.trace import Trace

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.int32]

# Room that solvers leave to hard constraints, in their units: where data are float64, and float32.
ROOM, ROOM_SINGLE = 1e-7, 5e-7


@dataclass(frozen=True, eq=False)
class BoundTerms:
    """A sum of terms over given data.

    Attributes
    ----------
    centered : (n, d) array
        The data less their mean.
    terms : tuple of Term
        Bound to the data.
    room : float, default 0
        For solvers: hard constraints are to hold with so much room, in their units.
    """

    centered: FloatArray
    terms: tuple[Term, ...]
    room: float = 0.0

    @cached_property
    def losses(self) -> tuple[Loss, ...]:
        """The terms with multipliers."""
        return tuple(term for term in self.terms if isinstance(term, Loss))

    @cached_property
    def regularizers(self) -> tuple[Regularizer, ...]:
        """The terms that are strictly convex in the metric."""
        return tuple(term for term in self.terms if isinstance(term, Regularizer))

    def stiffened(self, scale: float, room: float) -> BoundTerms:
        """See `Loss.stiffened`; and hard constraints get room, so that points keep them exactly."""
        terms = tuple(t.stiffened(scale) if isinstance(t, Loss) else t for t in self.terms)
        return replace(self, terms=terms, room=room)

    @cached_property
    def kinked(self) -> bool:
        """Whether a loss has to be smoothed."""
        return any(loss.kinked for loss in self.losses)

    @property
    def whole(self) -> bool:
        """Whether terms look at the metric itself, and not at distances alone."""
        return bool(self.ridge or self.regularizers or any(isinstance(loss, EntryLoss) for loss in self.losses))

    @cached_property
    def ridge(self) -> float:
        """The weight of the trace."""
        return math.fsum(term.weight for term in self.terms if isinstance(term, Trace))

    @cached_property
    def costs(self) -> tuple[IndexArray, FloatArray]:
        """Pairs of all linear terms, (p, 2), and their costs (p,)."""
        parts = [term.costs() for term in self.terms if isinstance(term, PairCost)]
        rows = np.concatenate([np.zeros((0, 2), dtype=np.int32), *(rows for rows, _ in parts)])
        return rows, np.concatenate([np.zeros(0), *(costs for _, costs in parts)])

    @cached_property
    def pairs(self) -> IndexArray:
        """The pairs of all terms, (p, 2): those of the linear terms first, then loss by loss."""
        own = [loss.distance_pairs() for loss in self.losses if isinstance(loss, PairLoss)]
        return np.concatenate([self.costs[0], *own])

    @cached_property
    def n_multipliers(self) -> int:
        """How many multipliers there are: those of all losses, in the order of the terms."""
        return sum(loss.size for loss in self.losses)

    def split(self, a: FloatArray) -> list[FloatArray]:
        """Multipliers loss by loss."""
        cuts = np.cumsum([loss.size for loss in self.losses])
        return [np.asarray(part) for part in np.split(a, cuts[:-1])] if self.losses else []

    def offset(self, loss: Loss) -> FloatArray:
        """What a loss is a function of at the zero metric, (m,), with the room of a hard constraint."""
        return loss.offset + self.room * loss.unit if self.room and loss.hard else loss.offset

    def excess(self, components: FloatArray, D: FloatArray | None = None) -> list[FloatArray]:
        """What each loss is a function of, at a factor of the metric; D are the distances of `pairs`."""
        D = self.distances(components) if D is None else D
        found, first = [], len(self.costs[0])
        for loss in self.losses:
            if isinstance(loss, PairLoss):
                size = loss.combination.shape[1]
                found.append(self.offset(loss) + loss.combination @ D[first : first + size])
                first += size
            elif isinstance(loss, EntryLoss):
                found.append(loss.offset + loss.entries(components.T @ components))
        return found

    def pair_weights(self, a: list[FloatArray], costs: bool = True) -> FloatArray:
        """Weights of `pairs` in the dual slack matrix for multipliers, loss by loss."""
        own = [
            loss.combination.T @ part for loss, part in zip(self.losses, a, strict=True) if isinstance(loss, PairLoss)
        ]
        return np.concatenate([self.costs[1] if costs else np.zeros(len(self.costs[1])), *own])

    def weight_errors(self, a: list[FloatArray]) -> FloatArray | None:
        """How far the exact `pair_weights` may be off besides `ROUNDINGS` roundings, (p,); None: not at all."""
        parts, some = [np.zeros(len(self.costs[1]))], False
        for loss, part in zip(self.losses, a, strict=True):
            if isinstance(loss, PairLoss):
                K, errors = abs(loss.combination), loss.errors(part)
                if (K != 0).sum(axis=0).max(initial=0) > 1:  # sums of numbers of any signs
                    errors = errors + gamma(len(part) + ROUNDINGS) * np.abs(part)
                some = some or bool(errors.any())
                parts.append(K.T @ errors * (1.0 + gamma(len(part) + 4)))
        return np.concatenate(parts) if some else None

    def entry_matrix(self, a: list[FloatArray]) -> FloatArray:
        """What losses of entries add to the dual slack matrix, (d, d)."""
        d = self.centered.shape[1]
        parts = [loss.matrix(part) for loss, part in zip(self.losses, a, strict=True) if isinstance(loss, EntryLoss)]
        return np.asarray(sum(parts, np.zeros((d, d))))

    def slack_matrix(self, a: list[FloatArray]) -> FloatArray:
        """``S = C + sum_i a_i A_i``, (d, d), in the data's coordinates."""
        S = adjoint(self.centered, self.pairs[:, 0], self.pairs[:, 1], self.pair_weights(a)) + self.entry_matrix(a)
        return S + self.ridge * np.eye(len(S))

    def distances(self, components: FloatArray) -> FloatArray:
        """The squared distances of `pairs` at a factor (r, d) of the metric, (p,)."""
        return distances(self.centered @ components.T, self.pairs[:, 0], self.pairs[:, 1])

    def value(self, L: FloatArray, D: FloatArray | None = None) -> tuple[float, list[FloatArray]]:
        """The sum at a factor (r, d) of the metric, with distances D, and the excess of each loss."""
        D = self.distances(L) if D is None else D
        u, costs = self.excess(L, D), self.costs[1]
        parts = [float(costs @ D[: len(costs)]), self.ridge * float(np.sum(L * L))]
        parts += [loss.value(part) for loss, part in zip(self.losses, u, strict=True)]
        if self.room and any(loss.violation(part) > 0.5 * self.room for loss, part in zip(self.losses, u, strict=True)):
            return math.inf, u
        parts += [term.value(L) for term in self.regularizers]
        return (math.inf if math.inf in parts else math.fsum(parts)), u

    def highest(self, X: NDArray[np.floating], components: FloatArray, errors: FloatArray | None = None) -> float:
        """A float not below the sum at a factor of floats, infinity where a hard constraint is not proven to hold.

        Parameters
        ----------
        X : (n, d) array
            The exact data.
        components : (r, d) array
        errors : (r, d) array, optional
            The float is not below the sum at any factor within these of the given one, entry by entry.
        """
        images = Images.of(X, self.centered, components.T, None if errors is None else errors.T)
        low, high = images.distances(*self.pairs.T)
        costs, sizes = self.costs[1], np.abs(components) if errors is None else np.abs(components) + errors
        linear = np.where(costs >= 0.0, costs * high[: len(costs)], costs * low[: len(costs)])
        squares = self.ridge * float(np.sum(sizes * sizes))
        parts = [sum_above(linear) + gamma(4) * float(np.abs(linear).sum()), above(squares, components.size + 6)]
        first, M = len(costs), components.T @ components
        error = gamma(len(components) + 4) * (sizes.T @ sizes)
        if errors is not None:
            more = sizes.T @ errors
            error += (more + more.T) * (1.0 + gamma(len(components) + 4))
        for loss in self.losses:
            if isinstance(loss, PairLoss):
                K, own = loss.combination, slice(first, first + loss.combination.shape[1])
                up, down = K.maximum(0.0), (-K).maximum(0.0)
                ends = [loss.offset + up @ a[own] - down @ b[own] for a, b in ((low, high), (high, low))]
                size = gamma(int((K != 0).sum(axis=1).max(initial=0)) + 6) * (np.abs(loss.offset) + abs(K) @ high[own])
                parts.append(loss.highest(ends[0] - size, ends[1] + size))
                first = own.stop
            elif isinstance(loss, EntryLoss):
                off = np.abs(loss.entries(error)) + 2.0 * U * np.abs(loss.entries(np.abs(M)))
                u = loss.offset + loss.entries(M)
                parts.append(loss.highest(u - off, u + off))
        parts += [term.highest(components, errors) for term in self.regularizers]
        return math.inf if math.inf in parts else sum_above(np.array(parts))

    def smoothed(
        self, components: FloatArray, width: float, center: list[FloatArray] | None = None
    ) -> tuple[float, list[FloatArray], FloatArray]:
        """The sum with smoothed losses, their slopes, and the gradient by the metric, (d, d).

        Parameters
        ----------
        components : (r, d) array
        width : float
            See `Loss.smoothed`.
        center : list of arrays, optional
            Multipliers, loss by loss.
        """
        value, a = self.smoothed_losses(components, self.distances(components), width, center)
        gradient = self.slack_matrix(a)
        for term in self.regularizers:
            part, own = term.slope(components)
            value, gradient = value + part, gradient + own
        return value, a, gradient

    def smoothed_losses(
        self, components: FloatArray, D: FloatArray, width: float, center: list[FloatArray] | None = None
    ) -> tuple[float, list[FloatArray]]:
        """The linear terms and the smoothed losses, and the slopes of these; see `smoothed`."""
        costs = self.costs[1]
        value = float(costs @ D[: len(costs)]) + self.ridge * float(np.sum(components * components))
        a: list[FloatArray] = []
        for k, (loss, u) in enumerate(zip(self.losses, self.excess(components, D), strict=True)):
            part, slopes = loss.smoothed(u, width, None if center is None else center[k])
            value, a = value + part, [*a, slopes]
        return value, a
