"""LMNN with one metric for each region of examples, as the solvers see it; the ordinary problem has one region."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sdpmetric.arrays import FloatArray, IndexArray
from sdpmetric.bounds.pull import PullCost
from sdpmetric.bounds.push import Push
from sdpmetric.core.certificate import DualityCertificate
from sdpmetric.core.multipliers import Multipliers
from sdpmetric.core.run import Step
from sdpmetric.engine.interface import Held, Part, Shards, current
from sdpmetric.problems.lmnn import LMNNProblem
from sdpmetric.problems.multi_lmnn import MultiMetricLMNNProblem
from sdpmetric.triplets.limits import TooManyCandidates
from sdpmetric.triplets.triplets import Candidates


@dataclass(frozen=True, eq=False)
class OneRegion:
    """LMNN with a single metric by the names of `MultiMetricLMNNProblem`: all examples are of one region."""

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
    def pull_costs(self) -> list[PullCost]:
        """The linear cost."""
        return [self.problem.pull_cost]

    @property
    def null_groups(self) -> list[IndexArray]:
        """See `LMNNProblem.null_groups`."""
        return [self.problem.null_groups]

    @property
    def regional_points(self) -> list[FloatArray]:
        """The whitened data, (n, rank)."""
        return [self.problem.points]

    def regional_near(
        self,
        embedded: Sequence[NDArray[np.floating]],
        *,
        widen: float = 0.0,
        among: IndexArray | None = None,
        together: bool = False,
    ) -> Iterator[tuple[int, Candidates]]:
        """See `MultiMetricLMNNProblem.regional_near`."""
        groups = None if together else self.problem.null_groups
        return ((0, part) for part in self.push.near(embedded[0], groups, widen=widen, among=among))

    def whitened(self, components: FloatArray) -> FloatArray:
        """A factor on `regional_points`, (1, r, rank), of components (r, d)."""
        return self.problem.pull_cost.whitened(components)[None]

    def lift_regional(self, whitened: FloatArray) -> FloatArray:
        """Components in the data's own coordinates, (r', d), from a factor (1, r, rank)."""
        return self.problem.lift(whitened[0])

    def unstacked(self, factors: FloatArray) -> FloatArray:
        """Components, (r, d), from factors (1, r, d)."""
        components: FloatArray = factors[0]
        return components

    def certify(
        self, components: ArrayLike | None = None, *, metric: ArrayLike | None = None, dual: Multipliers | None = None
    ) -> DualityCertificate:
        """See `LMNNProblem.certify`."""
        return self.problem.certify(components, metric=metric, dual=dual)

    def place(self, make: Callable[[OneRegion, Part], Held], size: int) -> Shards[Held]:
        """Let the engine in use place shards of this problem; see `Engine.place`."""
        return current().place(partial(_one_region, make), self.problem, size)


def _one_region(make: Callable[[OneRegion, Part], Held], problem: LMNNProblem, part: Part) -> Held:
    return make(OneRegion(problem), part)


RegionalProblem = OneRegion | MultiMetricLMNNProblem


def regional_candidates(
    problem: RegionalProblem,
    embedded: Sequence[NDArray[np.floating]],
    *,
    widen: float = 0.0,
    among: IndexArray | None = None,
    most: float = math.inf,
) -> list[Candidates]:
    """Search exhaustively for the triplets that can cost anything near the metrics, for each region."""
    parts: list[list[Candidates]] = [[] for _ in embedded]
    count = 0
    for region, part in problem.regional_near(embedded, widen=widen, among=among):
        parts[region].append(part)
        count += len(part.impostors)
        if count > most:
            raise TooManyCandidates([(r, block) for r, found in enumerate(parts) for block in found])
    width = next((part.targets.shape[1] for found in parts for part in found), 1)
    return [Candidates.concatenate(found) if found else Candidates.none(width) for found in parts]


def solved_by_zero(problem: RegionalProblem, tol: float) -> Step | None:
    """The answer where nothing pushes, or where null directions of the costs separate anchors from all impostors."""
    push, rank = problem.push, problem.regional_points[0].shape[1]
    idle = push.weight == 0.0 or push.source.size == 0
    if not idle and rank and not any(cost.coordinates.null.shape[1] for cost in problem.pull_costs):
        return None
    zero = problem.lift_regional(np.zeros((len(problem.pull_costs), 0, rank)))
    zero = zero[..., :0, :] if idle else zero
    certificate = problem.certify(zero)
    if not idle and rank and not certificate.proves_optimal(tol):
        return None
    return Step(zero, certificate.objective, certificate.lower_bound, certificate=certificate)
