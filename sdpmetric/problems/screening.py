"""Safe triplet screening: which multipliers are proven to be at a bound, from a ball that contains the optimum."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray
from sdpmetric.linalg import psd
from sdpmetric.linalg.distances import distances
from sdpmetric.problems.lmnn import LMNNProblem
from sdpmetric.triplets.impostors import TooManyCandidates
from sdpmetric.triplets.triplets import Triplets

# Relative allowance for rounding in margins, norms and gaps; it can only reduce what is screened.
ROUNDING = 1e-12


@dataclass(frozen=True, eq=False, repr=False)
class Screening:
    """What a ball around the optimum proves about the optimal multipliers (Yoshida et al. 2018) [YTK2018].

    Attributes
    ----------
    violated : Triplets
        Their margin is below 1 in the whole ball: every optimal multiplier is push weight times weight.
    undecided : Triplets
        All others that are not inactive. *Inactive* triplets are those in neither list: their margin is above 1 in the
        whole ball, and every optimal multiplier is 0. Most triplets are inactive; they are not listed.
    size : int
        Number of triplets of the problem.
    radius : float
        Radius of the ball, in the Frobenius norm.
    """

    violated: Triplets
    undecided: Triplets
    size: int
    radius: float

    @property
    def n_inactive(self) -> int:
        """Number of inactive triplets."""
        return self.size - len(self.violated) - len(self.undecided)

    @property
    def share(self) -> float:
        """Share of all triplets that are screened, inactive or violated."""
        return 1.0 - len(self.undecided) / self.size if self.size else 1.0

    def is_inactive(self, triplets: Triplets, n: int) -> NDArray[np.bool_]:
        """Which of some triplets of the problem are inactive, (t,).

        Parameters
        ----------
        triplets : Triplets
        n : int
            Number of examples.
        """
        listed = np.concatenate([self.violated.keys(n), self.undecided.keys(n)])
        return ~np.isin(triplets.keys(n), listed)

    def __repr__(self) -> str:
        return (
            f"<Screening of {self.size:,} triplets: {self.n_inactive:,} inactive, {len(self.violated):,} violated, "
            f"{len(self.undecided):,} undecided; radius {self.radius:.3g}>"
        )


def ball(
    L: FloatArray, objective: float, lower_bound: float, frobenius: float, *, other: FloatArray | None = None
) -> tuple[FloatArray, float]:
    """A ball around the optimum of a problem with a Frobenius term: the factor of its center, and its radius."""
    rounding = ROUNDING * max(abs(objective), abs(lower_bound))
    if lower_bound > objective + 1e3 * rounding:
        raise ValueError(
            f"the lower bound {lower_bound!r} is above the objective {objective!r}: pass a proven one, for example "
            "certificate.lower_bound of this problem."
        )
    gap = max(objective - lower_bound, 0.0) + rounding
    if other is None:
        return L, math.sqrt(2.0 * gap / frobenius)
    both, cross = np.concatenate([L, other]), L @ other.T
    apart = sum(float(np.sum((F @ F.T) ** 2)) for F in (L, other)) - 2.0 * float(np.sum(cross**2))
    # Between nearly equal metrics the computed distance is rounding error.
    rounding = ROUNDING * float(np.sum((both @ both.T) ** 2))
    radius = math.sqrt(max(gap / frobenius - 0.25 * max(apart, 0.0), 0.0) + rounding)
    return psd.factor(0.5 * both.T @ both), radius


def screen(problem: LMNNProblem, center: FloatArray, radius: float, most: float = math.inf) -> Screening:
    """Sort all triplets of a problem by their margins over a ball of metrics.

    The extremes of ``<B_t, M>`` over the ball are ``<B_t, center> -+ radius ||B_t||_F`` (the sphere rule of Yoshida et
    al. 2018).
    """
    X, Z = problem.centered, problem.embed(center)
    n = len(X)
    violated: list[NDArray[np.int32]] = [np.zeros((0, 3), np.int32)]
    undecided: list[NDArray[np.int32]] = [np.zeros((0, 3), np.int32)]
    count = 0
    # Where all points coincide every triplet violates its margin: the exhaustive search lists them all.
    for block in problem.source.near(np.zeros((n, 1)), np.zeros(n, dtype=np.int32), method="brute"):
        rows = block.rows
        i, l = block.anchors[rows], block.impostors
        weighted = np.ones(len(l), dtype=bool) if block.weights is None else block.weights > 0.0
        far, raw_far = distances(Z, i, l), distances(X, i, l)
        for slot in range(block.targets.shape[1]):
            targets = block.targets[:, slot]
            some = np.where(targets >= 0, targets, block.anchors)
            near, raw_near = distances(Z, block.anchors, some)[rows], distances(X, block.anchors, some)[rows]
            j = targets[rows]
            size = norms(raw_far, raw_near, distances(X, np.where(j >= 0, j, l), l))
            middle, slack = far - near, radius * size + ROUNDING * (1.0 + far + near)
            listed = weighted & (j >= 0) & (middle - slack <= 1.0)
            above = middle + slack < 1.0
            for parts, which in ((violated, listed & above), (undecided, listed & ~above)):
                at = np.flatnonzero(which)
                parts.append(np.stack([i[at], j[at], l[at]], axis=1))
                count += len(at)
            if count > most:
                raise TooManyCandidates([])
    lists = [Triplets.from_array(np.concatenate(parts)) for parts in (violated, undecided)]
    return Screening(lists[0], lists[1], problem.source.size, radius)


def norms(far: FloatArray, near: FloatArray, between: FloatArray) -> FloatArray:
    """Upper bounds of ``||B_t||_F``, equal to it up to rounding.

    With u and v the differences of anchor to impostor and target, ``B = u u^T - v v^T = (p q^T + q p^T) / 2`` for
    ``p = u + v`` and ``q = u - v``, so ``||B||^2 = (|p|^2 |q|^2 + (p^T q)^2) / 2``.
    """
    total = far + near
    plus = np.maximum(2.0 * total - between, 0.0) + ROUNDING * total
    size: FloatArray = np.sqrt(0.5 * (plus * between + (far - near) ** 2)) + ROUNDING * total
    return size
