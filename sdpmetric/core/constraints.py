"""Constraints and the meaning of their multipliers, the cost of violation, and the claims of a duality gap.

See ``docs/duals.md`` for the inequalities.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray
from sdpmetric.core.certificate import Multipliers

IndexArray = NDArray[np.integer]


class Cost(Protocol):
    """The cost of violated constraints, convex in their excess and 0 if they hold; see `sdpmetric.losses.Weighted`."""

    @property
    def ceilings(self) -> FloatArray:
        """The largest multipliers, (p,); infinite if there is no upper bound."""

    def values(self, excess: FloatArray) -> FloatArray:
        """Return what each constraint costs, (p,)."""

    def intervals(self, excess: FloatArray, gap: float) -> tuple[FloatArray, FloatArray]:
        """Enclose every optimal multiplier, if a point with this excess is within a gap of the optimum."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Constraints:
    """Constraints of a statement at a point, with feasible multipliers: what `explain` sets out.

    Every violated constraint is listed, and every one with a positive multiplier.

    Attributes
    ----------
    dual : Dual or (p,) array
        The feasible multipliers as the statement's `certify` takes them.
    roles : mapping of str to (m,) int array
        Row numbers of X by role, for example ``anchor``, ``target`` and ``impostor``, or ``first`` and ``second``.
    columns : mapping of str to (m,) array
        Further attributes of the constraints, for example ``similar``.
    multipliers : (m,) array
        ``a_t >= 0``, derivatives of the optimum by a tightening of the single constraints.
    excess : (m,) array
        ``u_t``, in squared distances: by how much the point violates the constraint, negative if the constraint
        holds strictly.
    loss : Cost
        What that costs.
    stretch : sequence of ((m,) int array, (m,) int array, (m,) array)
        First rows, second rows and ``+D`` or ``-D``, the squared distances that each constraint asks to be larger or
        smaller.
    weights : (m,) array or None
        Factors of the single losses in the objective; all 1 if None.
    sums : mapping of str to float
        The sums that the objective is made of, by name.
    slopes : mapping of str to float
        Derivatives of the objective at the point by the statement's weights (`Problem.weights`).
    margin : bool
        Whether the constraints have a margin of 1; then ``sum_t a_t`` is the derivative of the optimum by it.
    """

    dual: Multipliers
    roles: Mapping[str, IndexArray]
    columns: Mapping[str, NDArray[np.generic]] = field(default_factory=dict)
    multipliers: FloatArray
    excess: FloatArray
    loss: Cost
    stretch: Sequence[tuple[IndexArray, IndexArray, FloatArray]]
    weights: FloatArray | None = None
    sums: Mapping[str, float] = field(default_factory=dict)
    slopes: Mapping[str, float] = field(default_factory=dict)
    margin: bool = False


@dataclass(frozen=True, eq=False)
class TermConstraints:
    """Constraints of one part of a sum; see `Constraints`."""

    roles: Mapping[str, IndexArray]
    multipliers: FloatArray
    excess: FloatArray
    loss: Cost
    stretch: Sequence[tuple[IndexArray, IndexArray, FloatArray]]


@dataclass(frozen=True, eq=False)
class TermCosts:
    """The costs of the constraints of several parts, one after the other."""

    terms: Sequence[TermConstraints]

    def _by_term(self, excess: FloatArray) -> Iterator[tuple[Cost, FloatArray]]:
        cuts = np.cumsum([len(term.excess) for term in self.terms])[:-1]
        return zip((term.loss for term in self.terms), np.split(excess, cuts), strict=True)

    @property
    def ceilings(self) -> FloatArray:
        return np.concatenate([term.loss.ceilings for term in self.terms])

    def values(self, excess: FloatArray) -> FloatArray:
        return np.concatenate([loss.values(term_excess) for loss, term_excess in self._by_term(excess)])

    def intervals(self, excess: FloatArray, gap: float) -> tuple[FloatArray, FloatArray]:
        bounds = [loss.intervals(term_excess, gap) for loss, term_excess in self._by_term(excess)]
        return np.concatenate([low for low, _ in bounds]), np.concatenate([high for _, high in bounds])


def joined_constraints(
    terms: Mapping[str, TermConstraints], dual: Multipliers, sums: Mapping[str, float]
) -> Constraints:
    """Return the constraints of all parts by name; a role that a part has not is -1 there."""
    blocks, sizes = list(terms.values()), [len(term.excess) for term in terms.values()]
    stretch = list[tuple[IndexArray, IndexArray, FloatArray]]()
    for k, term in enumerate(blocks):
        before, after = sum(sizes[:k]), sum(sizes[k + 1 :])
        stretch += [
            (np.pad(first, (before, after)), np.pad(second, (before, after)), np.pad(D, (before, after)))
            for first, second, D in term.stretch
        ]
    names = dict.fromkeys(name for term in blocks for name in term.roles)
    return Constraints(
        dual=dual,
        roles={
            name: np.concatenate([term.roles.get(name, np.full(len(term.excess), -1)) for term in blocks])
            for name in names
        },
        columns={"term": np.repeat([*terms], sizes)} if len(terms) > 1 else {},
        multipliers=np.concatenate([np.zeros(0), *(term.multipliers for term in blocks)]),
        excess=np.concatenate([np.zeros(0), *(term.excess for term in blocks)]),
        loss=blocks[0].loss if len(blocks) == 1 else TermCosts(blocks),
        stretch=stretch,
        sums=sums,
        slopes=sums,
    )
