"""Where the dual slack of one metric is proven to be PSD: ``S(a) = C - sum_t a_t B_t``, with C the pull cost.

Let V have coordinates in which ``V^T C V`` is about the identity, and let kappa > 0 be a proven lower bound of its
eigenvalues. With ``T = V^T (sum_t a_t B_t) V`` every multiple ``t a`` with ``t lambda_max(T) <= kappa`` has ``V^T S(t
a) V`` PSD. That proves S itself PSD if the differences of all pairs with a multiplier lie in a space of dimension
at most the rank of ``V^T C V``, which is full if kappa > 0: then each x has a y for which ``V y`` has the
same products with all differences.

So V must have as many columns as the differences span dimensions, which is decided exactly if possible:

* the features vary in as many directions as the cost has rank;
* with a ridge and more features than examples, what differences have outside of V costs next to nothing: see below;
* a ridge costs something in every direction, so an orthonormal complement of V completes it;
* the features with different values on target pairs vary in as many directions as the cost has rank;
* elimination in whole numbers finds as many null directions as floats do; only pairs within their groups, which agree
  in these directions, may have a multiplier;
* otherwise the null directions of the floats are taken to cost very little, and the bound may be weak.

With a ridge rho and few examples each difference is ``v = V b + e``, e orthogonal to the columns of V, with ``|e| <=
theta |V^T v|``, theta of the size of rounding. With ``x = V u + z``, z orthogonal to these columns, too, and n at least
``sum_q |w_q| |V^T v_q|^2`` over all pairs of the cost and of the multipliers::

    x^T S x >= u^T (V^T S V) u - 2 theta n |u| |z| + (rho - theta^2 n) |z|^2

which is nonnegative if the least eigenvalue of ``V^T S V`` is at least ``(theta n)^2 / (rho - theta^2 n)``. So a small
share h of kappa is left for it: ``t lambda_max(T) <= (1 - h) kappa`` and ``theta n <= sqrt(h kappa rho / 2)`` suffice.

`sdpmetric.sums.domains` has coordinates for the same purpose, and they cannot serve here. There pairs and multipliers
are listed: V whitens the pairs with positive weights, and the dimension that all pairs with a nonzero weight span
decides whether S is proven PSD. Here multipliers are never listed: searches hand over nothing but the p x p form
``V^T (sum_t a_t B_t) V``, so V, and the pairs that it decides about, must be settled from the cost alone before any
multiplier is known. C is PSD by itself, which makes that possible, and the best multiple a closed form.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from sdpmetric.arrays import BoolArray, FloatArray, IndexArray
from sdpmetric.engine.lazy import cached
from sdpmetric.linalg import psd
from sdpmetric.linalg.exact import differing, null_directions, refined, separated
from sdpmetric.linalg.rigorous.directed import above, below, gamma, product_above, squares_above
from sdpmetric.linalg.rigorous.forms import Form, Images, Span
from sdpmetric.lmnn.costs import PullCost

# The share h of kappa that is left for directions outside of the span of few examples.
SHARE_OUTSIDE = 1e-6


@dataclass(frozen=True, eq=False)
class Coordinates:
    """The data in coordinates V, the cost there, and which pairs they decide about."""

    images: Images
    cost: Form  # V^T C V
    groups: IndexArray  # (n,): only pairs within a group may have a multiplier
    weakness: str | None = None  # why the bound may be weak; None without a known cause
    outside: float = 0.0  # of few examples: multipliers times it times their n in the head of this file may be 1


@dataclass(frozen=True, eq=False)
class DualCone:
    """The multipliers w of pairs q of examples that provably make ``C - sum_q w_q v_q v_q^T`` PSD."""

    X: NDArray[np.floating]  # the exact data
    pull: PullCost

    @property
    def images(self) -> Images:
        return self.coordinates.images

    @property
    def groups(self) -> IndexArray:
        return self.coordinates.groups

    @property
    def weakness(self) -> str | None:
        return self.coordinates.weakness

    @property
    def rank(self) -> int:
        return len(self.images.map.T)

    @cached
    def smallest_cost(self) -> float:
        """``kappa``, or 0 if none is proven positive."""
        smallest = self.coordinates.cost.smallest_eigenvalue
        return smallest if 0.0 < smallest < math.inf else 0.0

    def largest_ratio(self, form: Form) -> float:
        """Return an upper bound of ``<T, N> / <C, N>`` over PSD N: ``C - t T`` is PSD for t up to its inverse.

        Return infinity if nothing is proven, 0 if every multiple is feasible.
        """
        if self.rank == 0:
            return 0.0  # no pair that counts differs at all
        if self.smallest_cost == 0.0:
            return math.inf
        ratio = above(max(0.0, form.largest_eigenvalue) / self.smallest_cost, 2)
        if outside := self.coordinates.outside:
            ratio = max(above(ratio / (1.0 - SHARE_OUTSIDE), 4), above(outside * form.size))
        return ratio

    @cached
    def separated_groups(self) -> IndexArray:
        """Groups of examples, (n,): two groups provably differ in a direction that costs nothing."""
        pull = self.pull
        if pull.ridge or pull.coordinates.null.shape[1] == 0:
            return np.zeros(len(self.X), dtype=np.int32)
        return separated(self.X, pull.first, pull.second)

    def _cost(self, images: Images) -> Form:
        pull, V = self.pull, images.coordinates
        cost = Form.zero(V.shape[1])
        if pull.scales.any():
            cost = images.form(pull.first, pull.second, pull.scales, roundings=2)
        if pull.ridge:
            size = above(product_above(pull.ridge, squares_above(V)), 4)
            skew = 0.0 if images.span is None else images.span.skew
            cost = cost + Form(pull.ridge * (V.T @ V), above((gamma(len(V) + 4) + skew) * size, 3), 2.0 * size)
        return cost

    @cached
    def coordinates(self) -> Coordinates:
        """The coordinates of the first case that applies; the head of this file names all."""
        return (
            self._of_all_features()
            or self._of_few_examples()
            or self._completed_by_ridge()
            or self._of_pulled_features()
            or self._without_exact_null_directions()
            or self._with_small_costs()
        )

    def _of_all_features(self) -> Coordinates | None:
        """Take all features, if they vary in as many directions as the cost has rank."""
        pull = self.pull
        if pull.coordinates.rank != int(self._varying.sum()):
            return None
        return self._of(pull.coordinates.range, self._varying, pull.null_groups)

    def _of_few_examples(self) -> Coordinates | None:
        """Take the range of the cost, if it has a ridge and there are more features than examples."""
        pull, varying = self.pull, self._varying
        if not pull.ridge or len(self.X) >= int(varying.sum()):
            return None
        V = np.where(varying[:, None], pull.coordinates.range, 0.0)
        span = Span(self.X, pull.X, np.linalg.qr(V)[0])
        coordinates = self._of(span.basis.T @ V, varying, pull.null_groups, span)
        points, rows = np.unique(self.X, axis=0, return_index=True)
        first, second = (index.astype(np.int32) for index in rows[np.stack(np.triu_indices(len(points), 1))])
        shortest = np.sqrt(coordinates.images.distances(first, second)[0])
        rests = span.distances[first] + span.distances[second]
        with np.errstate(divide="ignore"):
            theta = above(float((rests / shortest).max(initial=0.0)), 4)
        smallest = coordinates.cost.smallest_eigenvalue
        if not (span.skew < 0.5 and smallest > 0.0 and theta < math.inf):
            return None
        limit = below(math.sqrt(0.5 * SHARE_OUTSIDE * smallest * pull.ridge), 4)
        room = below(limit - above(theta * coordinates.cost.size, 2), 2)
        is_enough = room > 0.0 and theta * limit < 0.5 * pull.ridge
        return replace(coordinates, outside=above(theta / room, 2)) if is_enough else None

    def _completed_by_ridge(self) -> Coordinates | None:
        """Complete the range of the cost by its orthonormal complement, in which a ridge costs the same everywhere."""
        pull, varying = self.pull, self._varying
        V, rank = pull.coordinates.range, pull.coordinates.rank
        if not pull.ridge:
            return None
        Q = np.linalg.qr(V[varying], mode="complete")[0][:, rank:]
        complement = np.zeros((len(V), Q.shape[1]))
        complement[varying] = Q / math.sqrt(pull.ridge)
        return self._of(np.concatenate([V, complement], axis=1), varying, pull.null_groups)

    def _of_pulled_features(self) -> Coordinates | None:
        """Take the features that differ on target pairs, if they vary in as many directions as the cost has rank."""
        pulled, groups = self._pulled
        rank, n_pulled = self.pull.coordinates.rank, int(pulled.sum())
        n_distinct = len(np.unique(self.X[:, pulled], axis=0)) if rank < n_pulled else 0
        return self._of(self.pull.coordinates.range, pulled, groups) if rank >= min(n_pulled, n_distinct - 1) else None

    def _without_exact_null_directions(self) -> Coordinates | None:
        """Leave null directions out, if exact elimination finds as many as floats do."""
        pulled, groups = self._pulled
        null_and_images = null_directions(self.X[:, pulled], self.pull.first, self.pull.second)
        if null_and_images is None or null_and_images[0] != int(pulled.sum()) - self.pull.coordinates.rank:
            return None
        groups = refined(groups, null_and_images[1])
        return self._of(self.pull.coordinates.range, pulled, groups)

    def _with_small_costs(self) -> Coordinates:
        """Take the null directions of floats to cost very little."""
        pulled, groups = self._pulled
        extended = self._extended(pulled)
        if not np.isfinite(extended).all():
            return self._nothing(groups, "some features are too small for coordinates in floats, so the bound is 0")
        rank = self.pull.coordinates.rank
        count = int(pulled.sum()) - rank
        weakness = (
            f"pass ridge='auto', or reduce the features to {rank:,} by PCA: {count} "
            f"{'direction costs' if count == 1 else 'directions cost'} nothing up to rounding, which cannot be decided "
            "exactly"
        )
        return replace(self._of(extended, pulled, groups), weakness=weakness)

    @cached
    def _varying(self) -> BoolArray:
        """The features that are not the same for all examples, (d,)."""
        return np.asarray(self.pull.X.any(axis=0))

    @cached
    def _pulled(self) -> tuple[BoolArray, IndexArray]:
        """The features that differ on target pairs, (d,), and groups of examples that agree in all others, (n,)."""
        pulled = self._varying & differing(self.X, self.pull.first, self.pull.second)
        unpulled = self.X[:, self._varying & ~pulled].astype(np.float64)
        return pulled, refined(self.pull.null_groups, unpulled)

    def _of(self, V: FloatArray, used: BoolArray, groups: IndexArray, span: Span | None = None) -> Coordinates:
        """Return coordinates V of the `used` features; the others are equal within groups. V may be that of a span."""

        def mapped(V: FloatArray) -> Images:
            return Images(self.X, self.pull.X, np.where(used[:, None], V, 0.0)) if span is None else span.images(V)

        images = mapped(V)
        cost = self._cost(images)
        # Coordinates are whitened once more if the cost differs from the identity by more than this.
        if 0.0 < cost.smallest_eigenvalue < 1.0 - 1e-11 - cost.error:
            # The whitening itself was rounded: what it left is whitened again.
            root = np.linalg.cholesky(cost.matrix)
            images = mapped(scipy.linalg.solve_triangular(root, images.coordinates.T, lower=True).T)
            cost = self._cost(images)
        return Coordinates(images, cost, groups)

    def _nothing(self, groups: IndexArray, weakness: str) -> Coordinates:
        """Return a single zero coordinate, which proves nothing."""
        none = np.zeros((self.X.shape[1], 1))
        return replace(self._of(none, np.zeros(len(none), dtype=bool), groups), weakness=weakness)

    def _extended(self, pulled: BoolArray) -> FloatArray:
        """Return coordinates of all pulled features that make even the smallest costs about 1, as far as floats go."""
        X = self.X[:, pulled].astype(np.float64)
        differences = [
            X[self.pull.first[start : start + 4096]] - X[self.pull.second[start : start + 4096]]
            for start in range(0, len(self.pull.first), 4096)
        ]
        scale = np.max([np.abs(block).max(axis=0) for block in differences], axis=0)
        weight = math.sqrt(float(self.pull.scales.max(initial=0.0)))
        V = np.zeros((len(pulled), X.shape[1]))
        with np.errstate(over="ignore"):
            V[pulled] = psd.smallest_whitened(differences, scale, weight)
        return V
