"""An interior point method for batch POLA as a sum: hinges, or hard constraints, beside one Frobenius term.

With the notation of `sdpmetric.sums.dual`, u the excess of the pairs at a metric M, xi their slacks, s their rooms and
h the largest multipliers, the optimum is the limit, as mu falls to 0, of the points with::

    w M - Q(a) = Z,    u - xi + s = 0,    M Z = mu I,    a s = mu,    (h - a) xi = mu

Here M and Z are positive definite, and a, s, xi and ``h - a`` are positive; hard constraints have no xi and no h. Each
step is one of Newton's method, scaled after Nesterov and Todd, with Mehrotra's predictor and corrector. In coordinates
G with ``G^T Z G = G^-1 M G^-T = diag(sigma)``, and then in those of the eigenvectors of ``G^T G``, the curvature of the
Frobenius term is diagonal. The equations for the multipliers have the matrix ``F F^T + diag(s / a + xi / (h - a))``.
About 8 to 25 steps are enough, and the cost of each is that of the product of F with itself.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy.linalg

from sdpmetric.arrays import FloatArray
from sdpmetric.sums.dual import SumDual

# Share of the step at which a number or an eigenvalue would become 0.
SHARE = 0.98


class Direction(NamedTuple):
    """Changes of the multipliers, rooms and slacks, (m,), and of metric and slack matrix in coordinates G, (d, d)."""

    multipliers: FloatArray
    rooms: FloatArray
    slacks: FloatArray
    metric: FloatArray
    matrix: FloatArray


class InteriorPoint:
    """A point near the central path, which `advance` moves on along it.

    Attributes
    ----------
    metric, matrix : (d, d) arrays
        M and Z.
    multipliers : (m,) array
        a.
    """

    def __init__(self, dual: SumDual, signs: FloatArray) -> None:
        """Start near the center: between the bounds, or from small multipliers of hard constraints."""
        self.dual, self.signs, self.soft = dual, signs, np.isfinite(dual.high).astype(np.float64)
        Y, first, second = dual.total.points
        self.differences = (Y[first] - Y[second]).T
        is_soft = np.isfinite(dual.high)
        a = self.multipliers = np.where(is_soft, 0.5 * dual.high, dual.units**2 / np.sqrt(len(is_soft)))
        values, V = np.linalg.eigh(dual.target - dual.matrix(a))
        excess = dual.offset + dual.numbers((V * (np.maximum(values, 0.0) / dual.weight)) @ V.T)
        room = max(1.0, float(np.mean(np.abs(excess))))
        mu = room * float(np.mean(a))
        larger_roots = np.sqrt(0.25 * values**2 + dual.weight * mu) + 0.5 * np.abs(values)
        eigenvalues = np.where(values > 0.0, larger_roots / dual.weight, mu / larger_roots)
        self.metric, self.matrix = (V * eigenvalues) @ V.T, (V * (mu / eigenvalues)) @ V.T
        excess = dual.offset + dual.numbers(self.metric)
        self.rooms, self.slacks = np.maximum(-excess, 0.0) + room, np.maximum(excess, 0.0) + room

    @property
    def lower_bound(self) -> float:
        """The dual value of a and Z."""
        dual, a = self.dual, self.multipliers
        square = float(np.sum((dual.target - dual.matrix(a) + self.matrix) ** 2))
        return float(a @ dual.offset) + dual.constant - 0.5 * square / dual.weight

    def advance(self) -> float:
        """Take a step; return its share of the full one. Raise LinAlgError if rounding leaves the cone."""
        dual, soft, a, s, xi = self.dual, self.soft, self.multipliers, self.rooms, self.slacks
        below = np.where(soft, dual.high - a, 1.0)
        L, R = np.linalg.cholesky(self.metric), np.linalg.cholesky(self.matrix)
        U, sigma, V_transposed = np.linalg.svd(R.T @ L)
        G, G_inverse = (L @ V_transposed.T) / np.sqrt(sigma), (R @ U / np.sqrt(sigma)).T
        lengths, E = np.linalg.eigh(G.T @ G)
        H, curvature = G @ E, 1.0 + dual.weight * np.outer(lengths, lengths)
        equations = Equations(self._derivative(H, curvature), s / a + soft * xi / below)
        residual = dual.offset + dual.numbers(self.metric) - soft * xi + s
        matrix_residual = H.T @ (dual.weight * self.metric - dual.target + dual.matrix(a) - self.matrix) @ H
        gap = float(np.sum(sigma**2) + a @ s + soft @ (below * xi))
        mu = gap / (len(sigma) + len(a) + float(soft.sum()))

        def direction(center: float, of_rooms: FloatArray, of_slacks: FloatArray, of_matrix: FloatArray) -> Direction:
            """Return the step to products of the size `center`, less products of changes."""
            to_room = (center - a * s - of_rooms) / a
            to_slack = soft * (center - xi * below - of_slacks) / below
            metric_and_matrix = 2.0 * (np.diag(center - sigma**2) - of_matrix) / np.add.outer(sigma, sigma)
            metric = (E.T @ metric_and_matrix @ E - matrix_residual) / curvature  # if multipliers stay
            da = equations.solve(residual + dual.numbers(H @ metric @ H.T) + to_room - to_slack)
            metric = E @ (metric - H.T @ dual.matrix(da) @ H / curvature) @ E.T
            slacks = to_slack + soft * xi / below * da
            return Direction(da, to_room - s / a * da, slacks, metric, metric_and_matrix - metric)

        def length(change: Direction, share: float) -> float:
            roots = np.sqrt(np.outer(sigma, sigma))
            falls = [-change.multipliers / a, -change.rooms / s, -change.slacks / xi, soft * change.multipliers / below]
            eigenvalues = [float(np.linalg.eigvalsh(matrix / roots)[0]) for matrix in (change.metric, change.matrix)]
            largest = max(float(np.concatenate(falls).max()), -min(eigenvalues))
            if not math.isfinite(largest):
                raise np.linalg.LinAlgError("a step overflows")
            return min(1.0, share / max(largest, 0.5 * share))

        change = direction(0.0, 0.0 * a, 0.0 * a, np.zeros_like(E))
        t, product = length(change, 1.0), change.metric @ change.matrix
        gap_ahead = float((a + t * change.multipliers) @ (s + t * change.rooms))
        gap_ahead += float((soft * (below - t * change.multipliers)) @ (xi + t * change.slacks))
        gap_ahead += float(np.sum((np.diag(sigma) + t * change.metric) * (np.diag(sigma) + t * change.matrix)))
        products = change.multipliers * change.rooms, -change.slacks * change.multipliers, 0.5 * (product + product.T)
        change = direction(min(1.0, max(gap_ahead / gap, 0.0) ** 3) * mu, *products)
        t = length(change, SHARE)
        self.multipliers, self.rooms = a + t * change.multipliers, s + t * change.rooms
        self.slacks = xi + t * change.slacks
        self.metric = self.metric + t * (G @ change.metric @ G.T)
        self.matrix = self.matrix + t * (G_inverse.T @ change.matrix @ G_inverse)
        return t

    def _derivative(self, H: FloatArray, curvature: FloatArray) -> FloatArray:
        """Return ``F^T``, (k, m): the excess by the entries of the metric in coordinates H, over their curvature."""
        images, d = H.T @ self.differences, len(H)
        F, first = np.empty((d * (d + 1) // 2, images.shape[1])), 0
        for i in range(d):
            rows = slice(first, first + d - i)
            np.multiply(images[i], images[i:], out=F[rows])
            F[rows] *= np.sqrt(np.where(np.arange(i, d) == i, 1.0, 2.0) / curvature[i, i:])[:, None]
            first = rows.stop
        F = F[:, :-1] - F[:, -1:]  # the last pair is that of the threshold
        F *= self.signs
        return F


class Equations:
    """Equations with the matrix ``F F^T + diag(diagonal)`` for ``F^T`` (k, m), solved in the smaller dimension."""

    def __init__(self, F_transposed: FloatArray, diagonal: FloatArray) -> None:
        self.roots, self.scaled = np.sqrt(diagonal), F_transposed
        self.scaled /= self.roots
        self.is_tall = self.scaled.shape[0] < self.scaled.shape[1]
        gram = self.scaled @ self.scaled.T if self.is_tall else self.scaled.T @ self.scaled
        gram[np.diag_indices(len(gram))] += 1.0
        self.factor = scipy.linalg.cho_factor(gram, check_finite=False)

    def solve(self, b: FloatArray) -> FloatArray:
        scaled = b / self.roots
        if not self.is_tall:
            return np.asarray(scipy.linalg.cho_solve(self.factor, scaled, check_finite=False) / self.roots)
        inner = scipy.linalg.cho_solve(self.factor, self.scaled @ scaled, check_finite=False)
        return np.asarray((scaled - inner @ self.scaled) / self.roots)
