"""The pull cost of one metric, ``<C, M> = weight sum_p w_p D_M(p) + ridge trace(M)``, and coordinates that whiten it.

A direction of the null space of C costs nothing. Pairs of the cost do not differ there, so examples fall into *null
groups* that agree in it. Along it every two groups can be pushed apart, and hinges across groups vanish from the
problem.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import chain

import numpy as np
import scipy.sparse as sp
from sklearn.neighbors import NearestNeighbors

from sdpmetric.arrays import FloatArray, IndexArray
from sdpmetric.core.named import SampleSize
from sdpmetric.engine.cached import cached, published
from sdpmetric.engine.threads import check_deadline
from sdpmetric.linalg import psd
from sdpmetric.linalg.distances import adjoint, weighted_differences
from sdpmetric.linalg.rigorous.directed import above, product_above, products_above, sum_above, trace_above
from sdpmetric.linalg.rigorous.forms import Images


@dataclass(frozen=True, eq=False)
class PullCost:
    """``weight * sum_p w_p D_M(p) + ridge * trace(M)`` over pairs of examples."""

    X: FloatArray  # centered data
    first: IndexArray
    second: IndexArray
    scales: FloatArray  # ``weight * w_p`` of each pair, (p,)
    ridge: float

    @property
    def sample_size(self) -> SampleSize:
        return SampleSize.of(self.X, self.first, self.second, self.scales)

    @cached
    def coordinates(self) -> psd.Whitening:
        """Coordinates in which the cost is the identity on its range; null directions come last."""
        basis, inverse = psd.data_basis(self.X)
        check_deadline()
        rows = [np.sqrt(self.ridge) * basis] if self.ridge else []
        pulls = weighted_differences(self.X @ basis, self.first, self.second, np.sqrt(self.scales))
        root = psd.triangle(chain(rows, pulls))
        check_deadline()
        return psd.whiten(basis, inverse, root)

    def bound(self, components: FloatArray, images: Images) -> float:
        """A float not below ``<C, M>`` at exact components, or the metric, whose images of the data are given."""
        _, distances_above = images.distances(self.first, self.second)
        pull = above(sum_above(products_above(self.scales, distances_above)), 4)
        return above(pull + product_above(self.ridge, trace_above(components, images.metric)), 2)

    @cached
    def matrix(self) -> FloatArray:
        """``C``, (d, d), in the data's own coordinates."""
        pull = adjoint(self.X, self.first, self.second, self.scales)
        return pull + self.ridge * np.eye(len(pull))

    def whitened(self, components: FloatArray) -> FloatArray:
        """The factor on the whitened data, (r, rank), of components."""
        return components @ self.coordinates.inverse[: self.coordinates.rank].T

    @published
    def null_groups(self) -> IndexArray:
        n = len(self.X)
        null = self.coordinates.null
        if null.shape[1] == 0:
            return np.zeros(n, dtype=np.int32)
        # Pairs do not differ there, so one member represents each connected component of their graph.
        values = self.X @ null
        noise = float(np.abs(values[self.first] - values[self.second]).max(initial=0.0))
        graph = sp.coo_array((np.ones(len(self.first)), (self.first, self.second)), shape=(n, n))
        _, component = sp.csgraph.connected_components(graph, directed=False)
        _, representative = np.unique(component, return_index=True)
        # A tree takes differences; expanded squares would tell equal rows apart.
        # Examples that are this near in the directions without pull (data have unit variance there) count as equal in
        # them.
        search = NearestNeighbors(radius=1e-10 + 4 * noise, algorithm="kd_tree").fit(values[representative])
        neighbors = search.radius_neighbors_graph(values[representative])
        _, group = sp.csgraph.connected_components(neighbors, directed=False)
        null_groups: IndexArray = group[component].astype(np.int32)
        return null_groups

    def separating_rows(self, furthest_target: float) -> FloatArray:
        """Rows to add to the components, (q, d), that put every two null groups beyond every margin."""
        null = self.coordinates.null
        if null.shape[1] == 0 or self.null_groups.max(initial=0) == 0:
            return np.zeros((0, self.X.shape[1]))
        _, representative = np.unique(self.null_groups, return_index=True)
        values = (self.X @ null)[representative]
        distances, _ = NearestNeighbors(n_neighbors=2, algorithm="kd_tree").fit(values).kneighbors(values)
        rows: FloatArray = math.sqrt(1.01 * (1.0 + furthest_target)) / float(distances[:, 1].min()) * null.T
        return rows
