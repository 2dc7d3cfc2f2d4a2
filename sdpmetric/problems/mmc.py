"""Mahalanobis metric for clustering (MMC): the statement, its objective, and its certificate.

As a sum, `terms.Spread` with `terms.Budget`, it takes 6 to 12 times as long (iris 0.12 s in place of 0.01, digits 0.38
in place of 0.06) and proves 1e-7 in place of 1e-13: here the scale of the metric is eliminated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sdpmetric.bounds.dual_cone import DualCone
from sdpmetric.bounds.pull import PullCost
from sdpmetric.bounds.well_posed import SampleSize, caution
from sdpmetric.core import validation
from sdpmetric.core.certificate import Certificate, DualityCertificate
from sdpmetric.core.multipliers import Multipliers, check_multipliers
from sdpmetric.core.pairs import check_labelled_pairs, weighted_pairs_of_labels
from sdpmetric.core.problem import SmoothProblem
from sdpmetric.core.proof import Proof
from sdpmetric.core.sample_weight import check_pair_weights
from sdpmetric.linalg import psd
from sdpmetric.linalg.distances import distances, weighted_differences
from sdpmetric.linalg.rigorous import Images, above, below, products_above, sum_above, sum_below
from sdpmetric.problems import proofs

FloatArray = NDArray[np.float64]

# Differences below this, in units of the data's standard deviation in that direction, count as 0.
NULL_TOLERANCE = 1e-9
# Shares of the largest distance that are added to all distances before their weights are tried as a dual candidate.
SMOOTHINGS = (0.0, 1e-8, 1e-4, 1e-2)
# Weights are at least this share of the largest: any positive weights prove something.
SMALLEST_WEIGHT = 1e-12


@dataclass(frozen=True, init=False, eq=False, repr=False)
class MMCProblem(SmoothProblem):
    """MMC as a convex program (Xing, Ng, Jordan and Russell 2002 [XNJR2002]; section 2.3.1 of [WS2009]).

    Maximize over PSD matrices M, with ``D`` the squared distance under M::

        sum_{(a, b) dissimilar} w_ab sqrt(D(a, b))      subject to   sum_{(a, b) similar} w_ab D(a, b) <= 1

    with all weights w 1 in the paper. The objective here is minus that sum, so that it is minimised as every objective
    of this package is.

    Parameters
    ----------
    X : (n, d) array
        Finite numbers; float32 stays float32, everything else becomes float64.
    pairs : (p, 2) integer array
        Row numbers of X. A repeated pair counts each time.
    similar : (p,) array
        bool, or +1 for similar and -1 for dissimilar.
    pair_weights : (p,) array, optional
        ``w``, positive: a pair counts so many times; default 1.

    Attributes
    ----------
    X : (n, d) array
    pairs : (p, 2) int32 array
    similar : (p,) bool array
    pair_weights : (p,) array or None

    Raises
    ------
    ValueError
        If the data are not finite; a pair is out of range, of a row with itself, or both similar and dissimilar; there
        are no similar or no dissimilar pairs; or the maximum is infinite, because dissimilar pairs differ in a
        direction in which no similar pair does.
    """

    statement: ClassVar[str] = "mmc"
    refusals: ClassVar[Mapping[str, str]] = {
        "explain": (
            "its single constraint sets the scale of the metric, and its multiplier is always half the objective; for "
            "multipliers of single pairs state them as an ITMLProblem or a POLAProblem."
        )
    }

    X: NDArray[np.floating]
    pairs: NDArray[np.int32]
    similar: NDArray[np.bool_]
    pair_weights: FloatArray | None

    def __init__(
        self, X: ArrayLike, pairs: ArrayLike, similar: ArrayLike, pair_weights: ArrayLike | None = None
    ) -> None:
        data = validation.check_examples(X)
        rows, flags = check_labelled_pairs(pairs, similar, len(data))
        weights = check_pair_weights(pair_weights, len(rows))
        self._assign(X=data, pairs=rows, similar=flags, pair_weights=weights)
        for kind, none in (("similar", not flags.any()), ("dissimilar", flags.all())):
            if none:
                raise ValueError(f"there are no {kind} pairs; MMC needs pairs of both kinds.")
        if not self._live.any():
            raise ValueError("all dissimilar pairs coincide, so that every metric has objective 0; check the data.")
        unbounded = self._unbounded()
        if unbounded:
            raise ValueError(
                f"the maximum is infinite: dissimilar pairs differ in {unbounded} directions in which no similar pair "
                "does, and distances along them cost nothing. Add similar pairs, or reduce the dimension first, for "
                "example by PCA."
            )

    @classmethod
    def from_labels(
        cls,
        X: ArrayLike,
        y: ArrayLike,
        n_pairs: int | None = None,
        *,
        sample_weight: ArrayLike | None = None,
        random_state: int | None = None,
    ) -> MMCProblem:
        """State MMC for labelled data: pairs of equal labels are similar, all others dissimilar.

        Parameters
        ----------
        X : (n, d) array
        y : (n,) array
            Class labels of any kind; at least two classes.
        n_pairs : int, optional
            Pairs of each kind at most, drawn at random; default: all pairs ``a < b``.
        sample_weight : (n,) array, optional
            Nonnegative; a pair has the product of its examples' weights. Whole weights are repeated rows.
        random_state : int, optional
            Seed of the draw; default 0.
        """
        data = validation.check_examples(X)
        return cls(data, *weighted_pairs_of_labels(y, len(data), n_pairs, random_state, sample_weight))

    # -- the statement ------------------------------------------------------------------------------------------

    def describe(self) -> str:
        """Say in one sentence what is minimised, over how much data."""
        return (
            f"MMC (Xing et al. 2002): {self.X.shape[0]:,} examples, {self.X.shape[1]} features, "
            f"{int(self.similar.sum()):,} similar and {int((~self.similar).sum()):,} dissimilar pairs"
        )

    @cached_property
    def similar_pairs(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """First and second rows of the similar pairs."""
        return self.pairs[self.similar, 0], self.pairs[self.similar, 1]

    @cached_property
    def dissimilar_pairs(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """First and second rows of the dissimilar pairs; multipliers are in their order."""
        return self.pairs[~self.similar, 0], self.pairs[~self.similar, 1]

    @cached_property
    def similar_weights(self) -> FloatArray:
        """Weights of the similar pairs."""
        return np.ones(int(self.similar.sum())) if self.pair_weights is None else self.pair_weights[self.similar]

    @cached_property
    def dissimilar_weights(self) -> FloatArray:
        """Weights of the dissimilar pairs."""
        return np.ones(int((~self.similar).sum())) if self.pair_weights is None else self.pair_weights[~self.similar]

    def spent(self, components: FloatArray) -> float:
        """The left side of the constraint, the sum over similar pairs of squared distances."""
        return float(self.similar_weights @ distances(self.centered @ components.T, *self.similar_pairs))

    def objective(self, components: ArrayLike | None = None, *, metric: ArrayLike | None = None) -> float:
        """Minus the sum over dissimilar pairs of distances, the square roots; the constraint is not checked.

        Parameters
        ----------
        components, metric
            As in `Problem.objective`.
        """
        L, _ = validation.check_point(components, metric, self.X.shape[1])
        return -float(self.dissimilar_weights @ np.sqrt(distances(self.centered @ L.T, *self.dissimilar_pairs)))

    def best_scale(self, components: FloatArray) -> float:
        """The multiple of a factor that makes the constraint active; 1 where similar pairs do not differ."""
        spent = self.spent(components)
        return 1.0 / math.sqrt(spent) if spent > 0.0 else 1.0

    # -- coordinates for solvers: there the constraint is trace(M) <= 1 ------------------------------------------

    @cached_property
    def coordinates(self) -> psd.Whitening:
        """Coordinates in which the similar pairs' cost is the identity on its range."""
        basis, inverse = psd.data_basis(self.centered)
        pulls = weighted_differences(self.centered @ basis, *self.similar_pairs, np.sqrt(self.similar_weights))
        return psd.whiten(basis, inverse, psd.triangle(pulls))

    @cached_property
    def points(self) -> FloatArray:
        """The data in the range of the similar pairs' cost, whitened, (n, rank)."""
        return np.ascontiguousarray(self.centered @ self.coordinates.range)

    @cached_property
    def _live(self) -> NDArray[np.bool_]:
        """Dissimilar pairs of different examples; the distance of all others is 0 under every metric."""
        first, second = self.dissimilar_pairs
        live: NDArray[np.bool_] = (np.asarray(self.X)[first] != np.asarray(self.X)[second]).any(axis=1)
        return live

    def _unbounded(self) -> int:
        null = self.centered @ self.coordinates.null
        first, second = self.dissimilar_pairs
        parts = null[first] - null[second]
        sizes = np.linalg.svd(parts[np.abs(parts).max(axis=1, initial=0.0) > NULL_TOLERANCE], compute_uv=False)
        return int(np.count_nonzero(sizes > NULL_TOLERANCE))

    def start(self) -> FloatArray:
        """Starting factor in whitened coordinates, (rank, rank): every direction costs the same."""
        return np.eye(self.coordinates.rank) / math.sqrt(self.coordinates.rank)

    def smooth(self, factor: FloatArray) -> tuple[float, FloatArray]:
        """A smooth function of a factor on `points`, minimal where the problem is solved, and its gradient.

        The function is ``log ||L|| - log sum_p w_p ||L v_p||``; the problem is the same for every multiple of L.
        """
        value = 0.0
        gradient = np.zeros_like(factor)
        first, second = (rows[self._live] for rows in self.dissimilar_pairs)
        for V in weighted_differences(self.points, first, second, self.dissimilar_weights[self._live]):
            images = V @ factor.T
            lengths = np.maximum(np.linalg.norm(images, axis=1), np.finfo(float).tiny)
            value += float(lengths.sum())
            gradient += (images / lengths[:, None]).T @ V
        size = float(np.sum(factor**2))
        return 0.5 * math.log(size) - math.log(value), factor / size - gradient / value

    def lift(self, factor: FloatArray) -> FloatArray:
        """Components in the data's own coordinates from a factor on `points`, scaled to make the constraint active."""
        L = factor @ self.coordinates.range.T
        spent = self.spent(L)
        return L / math.sqrt(spent) if spent > 0 else L

    # -- the certificate --------------------------------------------------------------------------------------------

    def multipliers(self, components: FloatArray, smoothing: float = 0.0) -> FloatArray:
        """The multipliers ``w_p / sqrt(D_p)`` of the dissimilar pairs at a point, a dual candidate.

        Parameters
        ----------
        components : (r, d) array
        smoothing : float, default 0
            Share of the largest squared distance that is added to all of them.
        """
        D = distances(self.centered @ components.T, *self.dissimilar_pairs)
        top = float(D.max(initial=0.0))
        if top == 0.0:
            return self.dissimilar_weights
        return self.dissimilar_weights / np.sqrt(np.maximum(D + smoothing * top, SMALLEST_WEIGHT**2 * top))

    def certify(
        self, components: ArrayLike | None = None, *, metric: ArrayLike | None = None, dual: Multipliers | None = None
    ) -> DualityCertificate:
        """Certify any point.

        A metric that violates the constraint is divided by its left side first. The lower bound comes from multipliers
        a > 0 of the dissimilar pairs: minus ``sqrt(lambda_max(B(a)) * sum w_p^2 / a_p)``, ``B(a) = sum a_p v_p v_p^T``
        whitened by the similar pairs' cost, is below every objective. See ``docs/mmc.md``.

        Parameters
        ----------
        components, metric
            As in `Problem.objective`.
        dual : (p,) array, optional
            Multipliers of the dissimilar pairs in their order; only their proportions matter. Default: those of the
            point.

        Returns
        -------
        DualityCertificate
            Its primal residual includes the violation of the constraint.

        Raises
        ------
        ValueError
            If the point has the wrong shape, is not finite, or is not PSD, or the multipliers are not finite or not one
            per dissimilar pair.
        """
        L, primal_residual = validation.check_point(components, metric, self.X.shape[1])
        images = Images.of(self.X, self.centered, L.T, metric=validation.given_metric(metric, primal_residual))
        spent = sum_above(products_above(self.similar_weights, images.distances(*self.similar_pairs)[1]))
        lengths = self.dissimilar_weights * np.sqrt(images.distances(*self.dissimilar_pairs)[0])
        objective = -below(sum_below(lengths) / math.sqrt(max(1.0, spent)), 5)
        if spent > 1.0:
            primal_residual = max(primal_residual, spent - 1.0)
            L = L / math.sqrt(spent)
        if dual is None:
            tries = [self.multipliers(L, s) for s in SMOOTHINGS]
        else:
            what = "multipliers, one per dissimilar pair"
            tries = [check_multipliers(dual, len(self.dissimilar_pairs[0]), what)]
        bounds = [self._bound(w) for w in tries]
        best = int(np.argmax([bound for bound, _ in bounds]))
        bound, scale = bounds[best]
        w = scale * np.maximum(tries[best], SMALLEST_WEIGHT * tries[best].max())
        D = distances(self.centered @ L.T, *self.dissimilar_pairs)
        slack = 0.5 * abs(bound) * min(spent, 1.0) - float(w @ D) if math.isfinite(bound) else math.inf
        return DualityCertificate(
            objective=objective,
            constraints="pairs",
            lower_bound=bound,
            primal_residual=primal_residual,
            dual_residual=0.0 if math.isfinite(bound) else math.inf,
            complementarity=abs(slack) / max(1.0, abs(objective)),
            n_active=int(np.count_nonzero(D)),
            null_dimension=self.coordinates.null.shape[1],
            program="MMC",
            rigor="float",
        )

    def proof(self, components: FloatArray, dual: Multipliers | None) -> Proof:
        """What a point and weights prove, for `Solution.save_proof`; see `sdpmetric.problems.proofs.mmc`."""
        return proofs.mmc(self, components, dual)

    def _bound(self, dual: FloatArray) -> tuple[float, float]:
        """The lower bound of multipliers, and the multiple of them that proves it."""
        largest = float(dual[self._live].max())
        if largest <= 0.0:
            return -math.inf, 0.0
        a = np.maximum(dual / largest, SMALLEST_WEIGHT)[self._live]
        first, second = (rows[self._live] for rows in self.dissimilar_pairs)
        if (self.cone.groups[first] != self.cone.groups[second]).any():
            return -math.inf, 0.0  # apart at no cost, as far as is proven
        top = self.cone.top(self.cone.images.form(first, second, a))
        inverse = above(sum_above(self.dissimilar_weights[self._live] ** 2 / a), 4)
        if not 0.0 < top < math.inf:
            return -math.inf, 0.0
        return -above(math.sqrt(top * inverse), 3), 0.5 * math.sqrt(inverse / top) / largest

    def caution(self, components: NDArray[np.floating], certificate: Certificate) -> str | None:
        """See `Problem.caution`: also too few examples in similar pairs."""
        first, second = self.similar_pairs
        sample_size = SampleSize.of(self.centered, first, second, self.similar_weights)
        remedy = "learn by ITML, whose prior is such a ridge"
        return super().caution(components, certificate) or caution(certificate, [sample_size], 0.0, remedy=remedy)

    @cached_property
    def cone(self) -> DualCone:
        """Where multiples of the similar pairs' cost are proven to be above sums over dissimilar pairs."""
        return DualCone(self.X, PullCost(self.centered, *self.similar_pairs, 1.0, 0.0, self.similar_weights))
