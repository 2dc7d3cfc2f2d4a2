"""What multipliers of the push term prove about LMNN: best multiples, candidates from slopes, certificates."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sdpmetric.core.certificate import DualityCertificate
from sdpmetric.core.multipliers import Dual
from sdpmetric.linalg import psd
from sdpmetric.problems.push import ClippedMultipliers, Push
from sdpmetric.triplets.margins import hinge_slopes
from sdpmetric.triplets.triplets import Candidates

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.int32]

# Smoothing widths whose slopes are tried as dual candidates where none is given.
SMOOTHINGS = (0.0, 0.003, 0.03, 0.3)
# An objective below this share of that of the zero metric is nothing but rounding.
ZERO = 1e-14
# Absolute error of the matrix of a dual candidate, to be compared with the identity.
DUAL_ACCURACY = 1e-11


def best_multiple_bound(
    total: float, squares: float | None, top: float, push_weight: float, headroom: float = 1.0, coincident: float = 0.0
) -> tuple[float, float]:
    """The best lower bound that multiples of multipliers prove for LMNN, and the multiple.

    With ``S = I - sum a_t B_t`` in whitened coordinates, a multiple t is dual feasible up to ``1 / top``; it proves
    ``t sum a`` for the hinge and ``t sum a - t^2 sum a^2 / (4 mu w)`` for its square.

    Parameters
    ----------
    total : float
        ``sum a``, all multipliers nonnegative.
    squares : float or None
        ``sum a^2 / w`` for the squared hinge.
    top : float
        The largest eigenvalue of ``sum a_t B_t``.
    push_weight : float
    headroom : float, default 1
        The largest multiple that stays in the box of the hinge.
    coincident : float, default 0
        The part of the total that belongs to impostors at the very place of their anchors. Their ``B_t`` is negative
        semidefinite, so that they need not be scaled down with the others: with ``t <= 1`` and N their part of the sum,
        ``I - t (sum - N) - N >= I - t sum``. For the hinge.
    """
    if not total > 0.0:
        return 0.0, 0.0
    limit = 1.0 / (top * (1 + 1e-13)) if top > 0 else math.inf
    if squares is None:
        multiple = min(limit, headroom)
        bound = multiple * total + max(0.0, 1.0 - multiple) * coincident
    else:
        multiple = min(limit, 2 * push_weight * total / squares) if squares > 0 else limit  # a parabola
        bound = multiple * total - multiple**2 * squares / (4 * push_weight)
    return (bound, multiple) if math.isfinite(bound) else (0.0, 0.0)


@dataclass(frozen=True, eq=False)
class DualCandidate:
    """Multipliers ``a >= 0`` of a push term, summed up to what a lower bound needs of them.

    Attributes
    ----------
    push : Push
    total, squares : float
        ``sum a`` and ``sum a^2 / w``.
    matrices : (c, rank, rank) array
        ``sum a_t B_t`` in coordinates in which the linear cost is the identity, one block for each metric.
    coincident : float
        The part of the total that belongs to impostors at the very place of their anchors.
    headroom : float
        The largest multiple that stays in the box of the hinge, at least 1.
    violation : float
        As in `ClippedMultipliers`.
    """

    push: Push
    total: float
    squares: float
    matrices: FloatArray
    coincident: float
    headroom: float = 1.0
    violation: float = 0.0

    @classmethod
    def of(cls, push: Push, multipliers: ClippedMultipliers, matrices: FloatArray) -> DualCandidate:
        """Sum up multipliers whose ``sum a_t B_t`` are known."""
        a, w = multipliers.values, multipliers.weights
        headroom = np.inf if push.squared else float((push.weight * w / a).min(initial=np.inf))
        with np.errstate(over="ignore"):  # a bound that is not finite is taken as 0
            squares = float((a**2 / w).sum())
        coincident = float(a[push.coincident(multipliers.triplets)].sum())
        return cls(push, float(a.sum()), squares, matrices, coincident, max(1.0, headroom), multipliers.violation)

    @cached_property
    def top(self) -> float:
        """The largest eigenvalue of the matrices."""
        return max((psd.largest_eigenvalue(B) for B in self.matrices), default=0.0)

    @cached_property
    def bound(self) -> tuple[float, float]:
        """The best lower bound that multiples of the multipliers prove, and the multiple."""
        push = self.push
        if push.weight == 0.0:
            return 0.0, 0.0
        squares = self.squares if push.squared else None
        return best_multiple_bound(self.total, squares, self.top, push.weight, self.headroom, self.coincident)

    def feasible(self, multipliers: ClippedMultipliers) -> Dual:
        """The multiple that proves the bound, of the multipliers that were summed up."""
        multiple, a = self.bound[1], multipliers.values
        if self.push.squared:
            scaled = multiple * a
        else:  # impostors at the place of their anchors are not scaled down
            factors = np.where(self.push.coincident(multipliers.triplets), max(1.0, multiple), multiple)
            scaled = np.minimum(factors * a, self.push.weight * multipliers.weights)
        return Dual(multipliers.triplets[scaled > 0], scaled[scaled > 0])


class PushSums:
    """Sums over all triplets at a point, gathered part by part, and the dual candidates that the slopes there make.

    Parameters
    ----------
    push : Push
    n_metrics, rank : int
        Shape of the matrices.
    slopes : bool
        Whether dual candidates are wanted: one for each smoothing width.

    Attributes
    ----------
    loss : float
        ``sum w h``, the push weight left out.
    n_active : int
        Triplets with a positive hinge.
    matrices : (g, n_metrics, rank, rank) array
        ``sum a_t B_t`` of each dual candidate, to be filled by the caller of `add`.
    """

    def __init__(self, push: Push, n_metrics: int, rank: int, *, slopes: bool) -> None:
        self._push = push
        self._widths = () if not slopes else (0.0,) if push.squared else SMOOTHINGS
        self._total, self._squares, self._kept = (np.zeros(len(self._widths)) for _ in range(3))
        self.loss, self.n_active = 0.0, 0
        self.matrices = np.zeros((len(self._widths), n_metrics, rank, rank))

    def add(
        self, Z: FloatArray, part: Candidates, groups: IndexArray, near: FloatArray | None = None
    ) -> Iterator[tuple[int, Candidates, FloatArray]]:
        """Add a part of the triplets.

        Parameters
        ----------
        Z, part, near
            As in `sdpmetric.triplets.margins.hinge_slopes`.
        groups : (n,) int32 array
            Pairs of different groups, which cost nothing to push apart, take no part in dual candidates.

        Yields
        ------
        g, part, slopes
            For each dual candidate: its number, the part without separated pairs, and the slopes, whose ``B_t``,
            times the push weight, are to be added to ``matrices[g]``.
        """
        push = self._push
        sums, _ = hinge_slopes(Z, part, 0.0, push.squared, near)
        self.loss += sums.loss
        self.n_active += sums.n_active
        if not self._widths:
            return
        anchors = part.anchors[part.rows]
        if groups.max(initial=0) > 0:
            part = part.select(groups[anchors] == groups[part.impostors])
            anchors = part.anchors[part.rows]
        together = push.duplicate_groups[anchors] == push.duplicate_groups[part.impostors]
        for g, gamma in enumerate(self._widths):
            sums, slopes = hinge_slopes(Z, part, gamma, push.squared, near)
            self._total[g] += push.weight * sums.slopes
            self._squares[g] += push.weight**2 * sums.squares
            self._kept[g] += push.weight * float(slopes[together].sum())
            yield g, part, slopes

    def add_unit_hinges(self, totals: tuple[float, int], within: float, coincident: float) -> float:
        """Add all triplets at a point where their hinges are 1 or 0.

        Parameters
        ----------
        totals : (float, int)
            Weight and number of the triplets with a hinge of 1.
        within, coincident : float
            The weight of those that take part in dual candidates, and of those with the impostor at the place of the
            anchor.

        Returns
        -------
        slope : float
            The multiplier of a triplet of weight 1 in every dual candidate; ``sum_t w_t B_t`` times this is to be added
            to the first of `matrices`, the only one that is left.
        """
        slope = self._push.weight * (2.0 if self._push.squared else 1.0)
        self.loss, self.n_active = self.loss + totals[0], self.n_active + totals[1]
        self._widths, self.matrices = self._widths[:1], self.matrices[:1]
        self._total, self._kept = (np.full(len(self._widths), slope * total) for total in (within, coincident))
        self._squares = slope * self._total
        return slope

    def _candidates(self) -> list[DualCandidate]:
        sums = zip(self._total.tolist(), self._squares.tolist(), self.matrices, self._kept.tolist(), strict=True)
        return [DualCandidate(self._push, *each) for each in sums]

    def certificate(
        self,
        cost: float,
        whitened: FloatArray,
        given: DualCandidate | None,
        *,
        primal_residual: float,
        null_dimension: int,
        program: str = "LMNN",
    ) -> DualityCertificate:
        """Judge the point by the best dual candidate.

        Parameters
        ----------
        cost : float
            The linear cost at the point.
        whitened : (c, r, rank) array
            The point, in coordinates in which the linear cost is the identity.
        given : DualCandidate or None
            The dual candidate; None: those of the slopes.
        primal_residual, null_dimension, program
            As in `DualityCertificate`.
        """
        weight = self._push.weight
        objective = cost + weight * self.loss
        if objective <= ZERO * weight * self._push.source.total_weight:
            objective = 0.0  # the rounding of null directions, whose pull is 0
        tries = self._candidates() if given is None else [given]
        best = tries[int(np.argmax([candidate.bound[0] for candidate in tries]))]
        lower_bound, multiple = best.bound
        aligned = float(np.sum((whitened @ best.matrices) * whitened))
        return DualityCertificate(
            objective=objective,
            lower_bound=lower_bound,
            primal_residual=primal_residual,
            dual_residual=max(0.0, best.top - 1.0, best.violation),
            complementarity=abs(cost - multiple * aligned) / max(1.0, objective),
            n_active=self.n_active,
            null_dimension=null_dimension,
            program=program,
        )
