"""The pull cost of one metric: coordinates in which it is the identity, and what its null space tells apart."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
import scipy.sparse as sp
from sklearn.neighbors import NearestNeighbors

from sdpmetric.arrays import FloatArray, IndexArray
from sdpmetric.bounds.well_posed import SampleSize
from sdpmetric.engine.deadline import check_deadline
from sdpmetric.linalg import psd
from sdpmetric.linalg.distances import adjoint, distances, weighted_differences
from sdpmetric.linalg.rigorous import Images, above, product_above, products_above, sum_above, trace_above

# Examples that are this near in the directions without pull (data have unit variance there) count as equal in them.
NULL_TOLERANCE = 1e-10


@dataclass(frozen=True, eq=False)
class PullCost:
    """``<C, M> = weight * sum_p w_p D_M(p) + ridge * trace(M)`` over pairs of examples.

    Attributes
    ----------
    X : (n, d) array
        Centered data.
    first, second : (p,) int32 arrays
        The pairs.
    pair_weights : (p,) array or None
        ``w_p``, positive; None: 1.
    whitening : Whitening, optional
        The coordinates, where another process has made them.
    """

    X: FloatArray
    first: IndexArray
    second: IndexArray
    weight: float
    ridge: float
    pair_weights: FloatArray | None = None
    whitening: psd.Whitening | None = None

    @cached_property
    def scales(self) -> FloatArray:
        """``weight * w_p`` of each pair, (p,)."""
        w = np.ones(len(self.first)) if self.pair_weights is None else self.pair_weights
        return self.weight * w

    @property
    def sample_size(self) -> SampleSize:
        """How many examples the cost was learned from, and in how many directions they vary."""
        return SampleSize.of(self.X, self.first, self.second, self.scales)

    @cached_property
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

    def value(self, components: FloatArray, Z: FloatArray) -> float:
        """``<C, M>`` for a factor of M, (r, d), and the points ``X @ components.T``, (n, r)."""
        pull = float(distances(Z, self.first, self.second) @ self.scales)
        return pull + self.ridge * float(np.sum(components**2))

    def bound(self, components: FloatArray, images: Images) -> float:
        """A float not below ``<C, M>`` at exact components, or the metric, whose images of the data are given."""
        _, highest = images.distances(self.first, self.second)
        pull = above(sum_above(products_above(self.scales, highest)), 4)
        return above(pull + product_above(self.ridge, trace_above(components, images.metric)), 2)

    @cached_property
    def matrix(self) -> FloatArray:
        """``C``, (d, d), in the data's own coordinates."""
        pull = adjoint(self.X, self.first, self.second, self.scales)
        return pull + self.ridge * np.eye(len(pull))

    @cached_property
    def points(self) -> FloatArray:
        """The data in the range of the cost, whitened, (n, rank): there the cost is ``trace(M)``."""
        return np.ascontiguousarray(self.X @ self.coordinates.range)

    @cached_property
    def null_groups(self) -> IndexArray:
        """Groups of examples that agree in the null space, (n,).

        A point of another group can be pushed away at no cost, so that its hinges vanish from the problem.
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
        """The part of components that acts on `points`, (r, rank)."""
        return components @ self.coordinates.inverse[: self.coordinates.rank].T
