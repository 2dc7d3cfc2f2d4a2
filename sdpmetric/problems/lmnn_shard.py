"""The sums over triplets that a certificate of LMNN takes, over all of them or shard by shard."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sdpmetric.arrays import FloatArray, IndexArray
from sdpmetric.bounds.push_dual import PartOfSums, PushSums
from sdpmetric.engine.interface import Part, ShardLost, current
from sdpmetric.linalg.rigorous import Images
from sdpmetric.triplets.bounds import inactive_beyond, slope_form
from sdpmetric.triplets.limits import deadline, only_part, remaining

if TYPE_CHECKING:
    from sdpmetric.problems.lmnn import LMNNProblem

# How often shards are placed anew before a certificate is given up.
ATTEMPTS = 8


@dataclass(frozen=True, eq=False)
class LMNNShard:
    """A part of the triplets of a problem, whose rows are all here.

    Attributes
    ----------
    part : (float, float)
        See `sdpmetric.triplets.limits.only_part`.
    """

    problem: LMNNProblem
    part: Part

    def sums(
        self,
        T: FloatArray,
        metric: FloatArray | None,
        V: FloatArray,
        groups: IndexArray | None,
        slopes: bool,
        left: float,
    ) -> PartOfSums:
        """Sums over the triplets of this part at a point."""
        problem, own = self.problem, np.zeros(len(self.problem.X), dtype=np.int32) if groups is None else groups
        sums = PushSums(problem.push, [V.shape[1]], slopes=slopes)
        images = Images.of(problem.X, problem.centered, T, metric=metric)
        cone = Images.of(problem.X, problem.centered, V)
        with deadline(time.perf_counter() + left), only_part(self.part):
            add_triplets(sums, problem, images, cone, own)
        return sums.part()


def add_triplets(sums: PushSums, problem: LMNNProblem, images: Images, cone: Images, groups: IndexArray) -> None:
    """Add the triplets that a search lists to sums."""
    for block in problem.push.near(images.points, widen=inactive_beyond(images)):
        for g, part, values in sums.add(images, block, groups):
            sums.forms[g][0] += slope_form(cone, part, values).times(problem.push_weight)


def add_all_triplets(
    sums: PushSums, problem: LMNNProblem, images: Images, cone: Images, groups: IndexArray, *, slopes: bool
) -> None:
    """Add all triplets to sums, wherever the engine in use holds them; see `add_triplets`."""
    engine = current()
    if engine.local:
        add_triplets(sums, problem, images, cone, groups)
        return
    n, d = problem.X.shape
    size = problem.X.nbytes + 8 * n * (d + images.map.shape[1] + cone.map.shape[1])
    sent = groups if groups.any() else None
    for _ in range(ATTEMPTS):
        try:
            shards = engine.place(LMNNShard, problem, size)
            parts = shards.each(LMNNShard.sums, images.map, images.metric, cone.map, sent, slopes, remaining())
        except ShardLost as error:
            lost = error
            continue
        for part in parts:
            sums.include(part)
        return
    raise ShardLost("workers of the engine were lost again and again; see to them, or leave engine= out.") from lost
