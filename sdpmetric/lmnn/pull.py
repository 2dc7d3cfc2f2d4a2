"""The pull cost of one metric, coordinates in which it is the identity, and the cone of dual slacks below it.

With a Frobenius term beside the cost no slack has to be PSD: what multipliers lose is a quadratic function of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import chain

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import brentq
from sklearn.neighbors import NearestNeighbors

from sdpmetric.arrays import FloatArray, IndexArray
from sdpmetric.core.well_posed import SampleSize
from sdpmetric.engine.cached import cached
from sdpmetric.engine.interface import check_deadline
from sdpmetric.linalg import exact, psd
from sdpmetric.linalg.distances import adjoint, weighted_differences
from sdpmetric.linalg.rigorous import (
    Form,
    Images,
    above,
    below,
    gamma,
    metric_norm_above,
    product_above,
    products_above,
    squares_above,
    sum_above,
    trace_above,
)
from sdpmetric.linalg.spans import DIMENSIONS, ENTRIES, differing, forest, null_space, refined, separated

# Examples that are this near in the directions without pull (data have unit variance there) count as equal in them.
NULL_TOLERANCE = 1e-10
# Complements of so many features are made.
COMPLEMENT = 1500
# Coordinates in which the cost differs from the identity by more than this are whitened once more.
WHITE = 1e-11


@dataclass(frozen=True, eq=False)
class PullCost:
    """``<C, M> = weight * sum_p w_p D_M(p) + ridge * trace(M)`` over pairs of examples."""

    X: FloatArray  # centered data
    first: IndexArray
    second: IndexArray
    weight: float
    ridge: float
    pair_weights: FloatArray | None = None  # w_p, positive; None: 1
    whitening: psd.Whitening | None = None  # the coordinates, where another process has made them

    @cached
    def scales(self) -> FloatArray:
        """``weight * w_p`` of each pair, (p,)."""
        w = np.ones(len(self.first)) if self.pair_weights is None else self.pair_weights
        return self.weight * w

    @property
    def sample_size(self) -> SampleSize:
        """How many examples the cost was learned from, and in how many directions they vary."""
        return SampleSize.of(self.X, self.first, self.second, self.scales)

    @cached
    def coordinates(self) -> psd.Whitening:
        """Coordinates in which the cost is the identity on its range; null directions come last."""
        if self.whitening is not None:
            return self.whitening
        check_deadline()  # each of the three factorizations is as long as one of n x d
        basis, inverse = psd.data_basis(self.X)
        check_deadline()
        rows = [np.sqrt(self.ridge) * basis] if self.ridge else []
        pulls = weighted_differences(self.X @ basis, self.first, self.second, np.sqrt(self.scales))
        root = psd.triangle(chain(rows, pulls))
        check_deadline()
        return psd.whiten(basis, inverse, root)

    def bound(self, components: FloatArray, images: Images) -> float:
        """A float not below ``<C, M>`` at exact components, or the metric, whose images of the data are given."""
        _, highest = images.distances(self.first, self.second)
        pull = above(sum_above(products_above(self.scales, highest)), 4)
        return above(pull + product_above(self.ridge, trace_above(components, images.metric)), 2)

    @cached
    def matrix(self) -> FloatArray:
        """``C``, (d, d), in the data's own coordinates."""
        pull = adjoint(self.X, self.first, self.second, self.scales)
        return pull + self.ridge * np.eye(len(pull))

    @cached
    def null_groups(self) -> IndexArray:
        """Groups of examples that agree in the null space, (n,).

        A point of another group can be pushed away at no cost, so its hinges vanish from the problem.
        """
        n = len(self.X)
        null = self.coordinates.null
        if null.shape[1] == 0:
            return np.zeros(n, dtype=np.int32)
        # Pairs do not differ there, so one member represents each connected component of their graph.
        free = self.X @ null
        noise = float(np.abs(free[self.first] - free[self.second]).max(initial=0.0))
        graph = sp.coo_array((np.ones(len(self.first)), (self.first, self.second)), shape=(n, n))
        _, component = sp.csgraph.connected_components(graph, directed=False)
        _, representative = np.unique(component, return_index=True)
        values = free[representative]
        # A tree takes differences; expanded squares would tell equal rows apart.
        search = NearestNeighbors(radius=NULL_TOLERANCE + 4 * noise, algorithm="kd_tree").fit(values)
        _, group = sp.csgraph.connected_components(search.radius_neighbors_graph(values), directed=False)
        null_groups: IndexArray = group[component].astype(np.int32)
        return null_groups

    def separating_rows(self, furthest: float) -> FloatArray:
        """Rows to add to the components, (q, d), that put every two groups more than ``1 + furthest`` apart."""
        null = self.coordinates.null
        if null.shape[1] == 0 or self.null_groups.max(initial=0) == 0:
            return np.zeros((0, self.X.shape[1]))
        _, representative = np.unique(self.null_groups, return_index=True)
        values = (self.X @ null)[representative]
        nearest, _ = NearestNeighbors(n_neighbors=2, algorithm="kd_tree").fit(values).kneighbors(values)
        rows: FloatArray = math.sqrt(1.01 * (1.0 + furthest)) / float(nearest[:, 1].min()) * null.T
        return rows

    def whitened(self, components: FloatArray) -> FloatArray:
        """The part of components that acts on the whitened data, (r, rank)."""
        return components @ self.coordinates.inverse[: self.coordinates.rank].T


@dataclass(frozen=True, eq=False)
class DualCone:
    """Proves ``C - sum_q w_q v_q v_q^T`` positive semidefinite over pairs q of examples, C the pull cost.

    With V any matrix, ``V^T S V`` is PSD if its least eigenvalue is. That proves S itself PSD where the differences of
    all pairs that count lie in a space whose dimension is at most the rank of ``V^T C V``, which is full if `floor` is
    positive: then each x has a y for which ``V y`` has the same products with all differences.
    """

    X: NDArray[np.floating]  # the exact data
    pull: PullCost

    @property
    def quadratic(self) -> Quadratic | None:
        """What there is beside the cost."""
        return None

    @property
    def images(self) -> Images:
        """The data in coordinates in which the cost is about the identity, (n, rank), with their errors."""
        return self._coordinates_and_groups[0][0]

    @property
    def groups(self) -> IndexArray:
        """Groups of examples, (n,): only pairs within a group may have a multiplier."""
        return self._coordinates_and_groups[1]

    @cached
    def apart(self) -> IndexArray:
        """Groups of examples, (n,), every two of which are proven to differ in a direction that costs nothing."""
        pull = self.pull
        if pull.ridge or pull.coordinates.null.shape[1] == 0:
            return np.zeros(len(self.X), dtype=np.int32)
        return separated(self.X, pull.first, pull.second)

    @property
    def weakness(self) -> str | None:
        """Why the bound may be weak, in words; None where nothing is known to weaken it."""
        return self._coordinates_and_groups[2]

    @property
    def rank(self) -> int:
        """Number of coordinates."""
        return len(self.images.map.T)

    @cached
    def floor(self) -> float:
        """A number below the least eigenvalue of the cost in these coordinates; 0 where none is proven positive."""
        least = self._coordinates_and_groups[0][1].least
        return least if 0.0 < least < math.inf else 0.0

    def _cost(self, images: Images) -> Form:
        """``V^T C V``."""
        pull, V = self.pull, images.map
        cost = Form.zero(V.shape[1])
        if pull.weight > 0.0:
            cost = images.form(pull.first, pull.second, pull.scales, roundings=2)
        if pull.ridge:
            size = above(product_above(pull.ridge, squares_above(V)), 4)
            cost = cost + Form(pull.ridge * (V.T @ V), above(gamma(len(V) + 4) * size, 2), size)
        return cost

    def top(self, form: Form) -> float:
        """An upper bound of the largest eigenvalue of a form against the cost; ``C - t form`` is PSD up to its inverse.

        Infinity where nothing is proven; 0 where every multiple is feasible.
        """
        if self.rank == 0:
            return 0.0  # no pair that counts differs at all
        if self.floor == 0.0:
            return math.inf
        return above(max(0.0, form.largest) / self.floor, 2)

    def whitened(self, components: FloatArray) -> FloatArray:
        """The part of components that acts on the images, (r, rank)."""
        if self.images.map.shape[1] == self.pull.coordinates.rank:
            return self.pull.whitened(components)
        return np.asarray(components @ np.linalg.pinv(self.images.map).T)

    @cached
    def _coordinates_and_groups(self) -> tuple[tuple[Images, Form], IndexArray, str | None]:
        pull = self.pull
        varying = np.asarray(pull.X.any(axis=0))
        V, rank = pull.coordinates.range, pull.coordinates.rank
        groups = pull.null_groups
        if rank == int(varying.sum()):
            return self._images(V, varying), groups, None
        if pull.ridge and varying.sum() > COMPLEMENT:
            many = int(varying.sum())
            weakness = (
                f"of {many:,} features {many - rank:,} depend on others up to rounding; that a ridge covers such "
                f"directions is tested for at most {COMPLEMENT:,} features, so the bound is 0"
            )
            return self._images(np.zeros((len(V), 1)), varying), groups, weakness
        if pull.ridge:
            return self._images(self._complemented(varying), varying), groups, None
        live = varying & differing(self.X, self.pull.first, self.pull.second)
        groups = refined(groups, self.X[:, varying & ~live].astype(np.float64))
        distinct = len(np.unique(self.X[:, live], axis=0)) if rank < live.sum() else 0
        if rank >= min(int(live.sum()), distinct - 1):
            return self._images(V, live), groups, None
        integral = self._eliminated(live)
        if integral is not None and integral.shape[1] == live.sum() - rank:
            return self._images(V, live), refined(groups, exact.integers(self.X[:, live]) @ integral), None
        count = int(live.sum()) - rank
        weakness = (
            f"{count} direction{'s cost' if count > 1 else ' costs'} nothing up to rounding, which is not proven "
            f"exactly: {'they are' if count > 1 else 'it is'} taken to cost very little"
        )
        extended = self._extended(live)
        if not np.isfinite(extended).all():
            weakness = "some features are too small for coordinates in floats, so the bound is 0"
            return self._images(np.zeros((len(V), 1)), varying), groups, weakness
        return self._images(extended, live), groups, weakness

    def _images(self, V: FloatArray, used: NDArray[np.bool_]) -> tuple[Images, Form]:
        """Images and their cost; features outside `used` are equal within groups, and no difference has them."""
        images = Images.of(self.X, self.pull.X, np.where(used[:, None], V, 0.0))
        cost = self._cost(images)
        if not 0.0 < cost.least < 1.0 - WHITE - cost.error:
            return images, cost
        # The whitening itself was rounded: what it left is whitened again.
        root = np.linalg.cholesky(cost.matrix)
        images = Images.of(self.X, self.pull.X, scipy.linalg.solve_triangular(root, images.map.T, lower=True).T)
        return images, self._cost(images)

    def _eliminated(self, live: NDArray[np.bool_]) -> NDArray[np.object_] | None:
        """All directions in which no pair of the cost differs, in whole numbers; None where that is too much work."""
        if self.X[:, live].size > ENTRIES or live.sum() > DIMENSIONS:
            return None
        first, second = forest(self.pull.first, self.pull.second, len(self.X))
        whole = exact.integers(self.X[:, live])
        return null_space(whole[first] - whole[second])

    def _extended(self, live: NDArray[np.bool_]) -> FloatArray:
        """Coordinates of all live features, in which even the smallest costs are about 1, as far as floats go."""
        X = self.X[:, live].astype(np.float64)
        blocks = [
            X[self.pull.first[start : start + 4096]] - X[self.pull.second[start : start + 4096]]
            for start in range(0, len(self.pull.first), 4096)
        ]
        scale = np.max([np.abs(block).max(axis=0) for block in blocks], axis=0)
        _, sigma, Vt = np.linalg.svd(psd.triangle(block / scale for block in blocks), full_matrices=True)
        sizes = np.full(len(Vt), np.finfo(float).tiny)
        sizes[: len(sigma)] = sigma
        sizes = np.maximum(sizes, 1e-18 * sizes.max()) * math.sqrt(float(self.pull.scales.max(initial=0.0)))
        V = np.zeros((len(live), len(Vt)))
        with np.errstate(over="ignore"):
            V[live] = Vt.T / sizes / scale[:, None]
        return V

    def _complemented(self, varying: NDArray[np.bool_]) -> FloatArray:
        """The range of the cost, and an orthonormal complement in which a ridge is the identity."""
        V = self.pull.coordinates.range
        Q = np.linalg.qr(V[varying], mode="complete")[0][:, V.shape[1] :]
        complement = np.zeros((len(V), Q.shape[1]))
        complement[varying] = Q / math.sqrt(self.pull.ridge)
        return np.concatenate([V, complement], axis=1)


@dataclass(frozen=True, eq=False)
class Quadratic:
    """``<C, M> + weight / 2 ||M||_F^2`` in the data's own coordinates."""

    weight: float
    cost: Form  # C

    def above(self, components: FloatArray, metric: FloatArray | None) -> float:
        """A float not below the quadratic part."""
        size = metric_norm_above(components, metric)
        return product_above(0.5, self.weight, size, size)

    def best(self, total: float, form: Form, headroom: float) -> tuple[float, float]:
        """The best lower bound that multiples of multipliers prove, and the multiple.

        A multiple t proves ``t sum a - ||[t sum a_t B_t - C]_+||_F^2 / (2 weight)``, which is concave in t.
        """
        multiple = self._multiple(total, form.matrix, headroom)
        if multiple <= 0.0:
            return 0.0, 0.0
        part = (form.times(multiple) - self.cost).positive_part
        lost = product_above(0.5, part, part, above(1.0 / self.weight))
        return max(0.0, below(multiple * total, 12) - above(lost, 12)), multiple

    def _multiple(self, total: float, B: FloatArray, headroom: float) -> float:
        if total <= 0.0 or not math.isfinite(headroom):
            return 0.0

        def slope(multiple: float) -> float:
            L = psd.factor(multiple * B - self.cost.matrix)
            return total - float(np.sum((L @ B) * L)) / self.weight

        ends = slope(0.0), slope(headroom)
        # Rounding of the linear cost is more than the Frobenius term, or fourth powers of the data overflow.
        if not (0.0 < ends[0] < math.inf and math.isfinite(ends[1])):
            return 0.0
        return headroom if ends[1] >= 0.0 else float(brentq(slope, 0.0, headroom, xtol=1e-15, rtol=1e-9, disp=False))


@dataclass(frozen=True, eq=False)
class QuadraticCone(DualCone):
    """All slacks are dual feasible; coordinates are the data's own, and every direction costs something."""

    weight: float

    @cached
    def quadratic(self) -> Quadratic:
        """The cost with the Frobenius term."""
        return Quadratic(self.weight, self._coordinates_and_groups[0][1])

    @cached
    def apart(self) -> IndexArray:
        """One group."""
        return np.zeros(len(self.X), dtype=np.int32)

    def top(self, form: Form) -> float:
        """0."""
        return 0.0

    def whitened(self, components: FloatArray) -> FloatArray:
        """Components themselves."""
        return components

    @cached
    def _coordinates_and_groups(self) -> tuple[tuple[Images, Form], IndexArray, str | None]:
        images = Images.of(self.X, self.pull.X, np.eye(self.X.shape[1]))
        return (images, self._cost(images)), self.apart, None
