"""LMNN with one metric for each region of examples, as the solvers see it; the ordinary problem has one region."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sdpmetric.core.certificate import Certificate
from sdpmetric.core.multipliers import Multipliers
from sdpmetric.engine.interface import Held, Part, Shards, current
from sdpmetric.problems.lmnn import LMNNProblem
from sdpmetric.problems.push import Push
from sdpmetric.triplets.triplets import Candidates

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.int32]


class RegionalProblem(Protocol):
    """LMNN with one metric for each region of examples; the ordinary problem has one region."""

    @property
    def push(self) -> Push:
        """The hinges."""

    @property
    def X(self) -> NDArray[np.floating]:
        """The data, (n, d)."""

    @property
    def regions(self) -> IndexArray:
        """Region of each example, (n,)."""

    @property
    def null_groups(self) -> list[IndexArray]:
        """For each region, the groups of examples that agree in the null space of its pull cost, (n,) each."""

    @property
    def regional_points(self) -> list[FloatArray]:
        """The whitened data of each region, each (n, rank): there its pull cost is the trace of its metric."""

    def regional_candidates(
        self,
        embedded: Sequence[NDArray[np.floating]],
        *,
        widen: float = 0.0,
        among: IndexArray | None = None,
        most: float = math.inf,
    ) -> list[Candidates]:
        """Candidates for each region, whose metric embeds the data so; see `LMNNProblem.candidates`."""

    def lift_regional(self, whitened: FloatArray) -> FloatArray:
        """Components in the data's own coordinates from factors on `regional_points`, (c, r, rank)."""

    def certify(
        self, components: ArrayLike | None = None, *, metric: ArrayLike | None = None, dual: Multipliers | None = None
    ) -> Certificate:
        """The problem's certificate of components; see `LMNNProblem.certify`."""

    def place(self, make: Callable[[RegionalProblem, Part], Held], size: int) -> Shards[Held]:
        """Let the engine in use place shards of this problem; see `Engine.place`."""


@dataclass(frozen=True, eq=False)
class OneRegion:
    """LMNN with a single metric as a `RegionalProblem`: all examples are of one region."""

    problem: LMNNProblem

    @property
    def push(self) -> Push:
        """The hinges."""
        return self.problem.push

    @property
    def X(self) -> NDArray[np.floating]:
        """The data, (n, d)."""
        return self.problem.X

    @property
    def regions(self) -> IndexArray:
        """Region 0 for every example, (n,)."""
        return np.zeros(len(self.problem.X), dtype=np.int32)

    @property
    def null_groups(self) -> list[IndexArray]:
        """See `LMNNProblem.null_groups`."""
        return [self.problem.null_groups]

    @property
    def regional_points(self) -> list[FloatArray]:
        """The whitened data, (n, rank)."""
        return [self.problem.points]

    def regional_candidates(
        self,
        embedded: Sequence[NDArray[np.floating]],
        *,
        widen: float = 0.0,
        among: IndexArray | None = None,
        most: float = math.inf,
    ) -> list[Candidates]:
        """See `LMNNProblem.candidates`."""
        return [self.problem.candidates(embedded[0], widen=widen, among=among, most=most)]

    def lift_regional(self, whitened: FloatArray) -> FloatArray:
        """Components in the data's own coordinates, (r', d), from a factor (1, r, rank)."""
        return self.problem.lift(whitened[0])

    def certify(
        self, components: ArrayLike | None = None, *, metric: ArrayLike | None = None, dual: Multipliers | None = None
    ) -> Certificate:
        """See `LMNNProblem.certify`."""
        return self.problem.certify(components, metric=metric, dual=dual)

    def place(self, make: Callable[[RegionalProblem, Part], Held], size: int) -> Shards[Held]:
        """See `RegionalProblem.place`."""
        return current().place(partial(_one_region, make), self.problem, size)


def _one_region(make: Callable[[RegionalProblem, Part], Held], problem: LMNNProblem, part: Part) -> Held:
    return make(OneRegion(problem), part)
