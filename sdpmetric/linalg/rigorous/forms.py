"""Images of points and sums of squares of their differences in floating point, and how far they may be off."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray, IndexArray
from sdpmetric.engine import threads
from sdpmetric.engine.lazy import cached
from sdpmetric.engine.threads import check_deadline
from sdpmetric.linalg import distances as pairs
from sdpmetric.linalg import psd
from sdpmetric.linalg.distances import Blocks, laplacian_form, times
from sdpmetric.linalg.rigorous.directed import (
    TINY,
    U,
    above,
    gamma,
    gram_errors,
    largest_eigenvalue,
    least_eigenvalue,
    log_det,
    norm_above,
    norms_above,
    scaled_above,
)

# By which errors of matrices grow, for underflow.
UNDERFLOW = 2.0**-400
# Smaller numbers are multiplied by a power of 2 first, which makes `UNDERFLOW` negligible.
SMALL_NUMBERS = 2.0**-200
# By which lengths of images grow: underflow takes at most 2^-520 from an image and from the distance of two. The square
# of the rest is a normal number, so it makes up for underflow of squares.
UNDERFLOW_OF_IMAGES = 2.0**-480
# Largest absolute error of a form that is made from points.
ACCURACY = 2e-10
# Rows that are multiplied out at once: 64 kB for 4 features.
ROWS_AT_ONCE = 1 << 11
# Differences of points take many times as long as points: they must err by less than this share of what these do.
WORTHWHILE_SHARE = 0.25


@dataclass(frozen=True, eq=False)
class Form:
    """A symmetric matrix ``sum_q w_q v_q v_q^T`` in floating point, and how far it may be from the exact one."""

    matrix: FloatArray  # (r, r)
    error: float  # at least the spectral norm of the difference to the exact matrix
    size: float  # at least ``sum_q |w_q| |v_q|^2``, which no entry of the exact matrix exceeds

    @classmethod
    def zero(cls, r: int) -> Form:
        return cls(np.zeros((r, r)), 0.0, 0.0)

    @classmethod
    def congruent(cls, A: FloatArray, V: FloatArray) -> Form:
        """Return ``V^T A V`` for a symmetric matrix of floats, its entries rounded once at most."""
        if not A.any():
            return cls.zero(V.shape[1])
        if power := _small_power(A):
            return cls.congruent(np.ldexp(A, -power), V)._shifted(power)
        product, sizes = times(times(A, V).T, V), np.abs(V)
        size = above(norm_above(times(times(np.abs(A), sizes).T, sizes)), 2 * len(V) + 8)
        error = above(gamma(2 * len(V) + 10) * size, 2)
        return cls(0.5 * (product + product.T), error + UNDERFLOW, size + UNDERFLOW)

    def __add__(self, form: Form) -> Form:
        size = above(self.size + form.size)
        return Form(self.matrix + form.matrix, above(self.error + form.error + 2.0 * U * size, 4), size)

    def __sub__(self, form: Form) -> Form:
        return self + Form(-form.matrix, form.error, form.size)

    def _shifted(self, power: int) -> Form:
        error = scaled_above(self.error, power) + len(self.matrix) * TINY
        return Form(np.ldexp(self.matrix, power), error, scaled_above(self.size, power))

    def times(self, weight: float) -> Form:
        size = above(weight * self.size)
        return Form(weight * self.matrix, above(weight * self.error + U * size, 3), size)

    @property
    def smallest_eigenvalue(self) -> float:
        """A float not above the least eigenvalue of the exact matrix."""
        return math.nextafter(least_eigenvalue(self.matrix) - self.error, -math.inf)

    @property
    def largest_eigenvalue(self) -> float:
        """A float not below the largest eigenvalue of the exact matrix."""
        return math.nextafter(largest_eigenvalue(self.matrix) + self.error, math.inf)

    @property
    def log_det(self) -> tuple[float, float]:
        """Floats below and above ``log det`` of the exact matrix, infinite if it is not proven positive definite."""
        return log_det(self.matrix, self.error)

    @property
    def positive_part(self) -> float:
        """A float not below the Frobenius norm of the positive part of the exact matrix.

        It is the distance to the negative semidefinite matrices; minus the computed negative part is such a matrix.
        """
        if not np.isfinite(self.matrix).all():
            return math.inf
        G = np.zeros((0, len(self.matrix)))
        if not psd.is_definite(self.matrix):
            values, vectors = np.linalg.eigh(self.matrix)
            G = (vectors * np.sqrt(np.maximum(-values, 0.0))).T
        rounding = gamma(len(G) + 4) * (float(np.sum(G * G)) + norm_above(self.matrix))
        error = math.sqrt(len(self.matrix)) * self.error
        return above(norm_above(self.matrix + G.T @ G) + rounding + error, len(G) ** 2 + 8)


@dataclass(frozen=True, eq=False)
class Images:
    """Images ``T^T (x_i - m)`` of exact points in floating point, and how far each may be from the exact one."""

    X: NDArray[np.floating]  # (n, d): the exact points
    # (n, d): ``x_i - m`` with a shift m that is the same for all points, in float64: each entry rounded once
    centered: FloatArray
    map: FloatArray  # (d, r): T, whatever made it: it is taken as exact, but for `map_errors`
    # (d, r): largest distance of each entry of the exact T from that of `map`; None if `map` is exact
    map_errors: FloatArray | None = None
    # (d, d): A metric near ``T T^T`` to take distances from, in place of those of the images; `points` remain
    # those of T
    metric: FloatArray | None = None
    span: Span | None = None  # that the map goes through, by coordinates in it
    reduced: FloatArray | None = None  # (k, r)

    def __post_init__(self) -> None:
        object.__setattr__(self, "map", np.ascontiguousarray(self.map, dtype=np.float64))

    @property
    def coordinates(self) -> FloatArray:
        """The coordinates of the features, or of the span, (k, r)."""
        return self.map if self.reduced is None else self.reduced

    @cached
    def points(self) -> FloatArray:
        """The images, (n, r)."""
        return np.ascontiguousarray(times(self.centered, self.map))

    @cached
    def errors(self) -> FloatArray:
        """At least the distance of each image to the exact one, (n,)."""
        d, r = self.map.shape
        errors = np.zeros(len(self.centered))
        if r == 0:
            return errors
        T = self._entry_errors
        for first in range(0, len(errors), ROWS_AT_ONCE):
            rows = np.abs(self.centered[first : first + ROWS_AT_ONCE])
            errors[first : first + ROWS_AT_ONCE] = norms_above(times(rows, T))
        errors *= 1.0 + gamma(d + 6)
        return errors + UNDERFLOW_OF_IMAGES if self.map.any() else errors

    @cached
    def _entry_errors(self) -> FloatArray:
        """The error of each coordinate of an image for a unit in each coordinate of an example, at most, (d, r)."""
        rounding = gamma(len(self.map) + 3) * np.abs(self.map)
        return rounding if self.map_errors is None else rounding + self.map_errors

    @cached
    def metric_errors(self) -> FloatArray:
        """Upper bounds of the differences between the entries of `metric` and those of ``T T^T``, (d, d)."""
        return np.zeros((0, 0)) if self.metric is None else gram_errors(self.map.T, self.metric)

    @cached
    def distance_error(self) -> float:
        """An upper bound of the differences between squared distances under `metric` and those of the images."""
        if self.metric is None:
            return 0.0
        span = np.ptp(self.X, axis=0).astype(np.float64)
        return above(float(span @ self.metric_errors @ span), 2 * len(span) + 16)

    def _distance_errors(self, first: IndexArray, second: IndexArray) -> FloatArray:
        """Return `distance_error` of each pair, (p,)."""
        errors = np.empty(len(first))
        for start in range(0, len(first), ROWS_AT_ONCE):
            block = slice(start, start + ROWS_AT_ONCE)
            V = np.abs(self.X[first[block]].astype(np.float64) - self.X[second[block]].astype(np.float64))
            errors[block] = np.einsum("ij,ij->i", V @ self.metric_errors, V)
        return errors * (1.0 + gamma(2 * len(self.metric_errors) + 16))

    def distances(self, first: IndexArray, second: IndexArray) -> tuple[FloatArray, FloatArray]:
        """Return floats below and above the exact squared distances of pairs of images, each (p,); below: at least 0.

        With ``s`` the computed distance of the images, ``e`` the sum of their errors and g the relative error of s, the
        exact distance lies between ``s (1 - g) - e`` and ``s (1 + g) + e``.
        """
        low, high = np.empty(len(first)), np.empty(len(first))
        g = gamma(self.map.shape[1] + 6)
        rows = (np.ascontiguousarray(first, dtype=np.int32), np.ascontiguousarray(second, dtype=np.int32))
        pairs.distance_bounds(self.points, *rows, self.errors, g, low, high)
        if self.metric is not None:
            metric_errors = self._distance_errors(*rows)
            low = np.maximum(0.0, np.nextafter(low - metric_errors, -np.inf))
            high = np.nextafter(high + metric_errors, np.inf)
        return low, high

    def diagonal(
        self,
        first: IndexArray,
        second: IndexArray,
        weights: FloatArray,
        weight_errors: FloatArray | None = None,
        roundings: int = 0,
    ) -> tuple[FloatArray, FloatArray]:
        """Return ``sum_q w_q (p_a - p_b)_j^2`` for each coordinate j, (r,), and bounds of their errors, (r,).

        If every image is a feature by itself, differences are those of the data, with one rounding each. A
        coordinate without a differing pair is 0 exactly.
        """
        d, r = self.map.shape
        by_feature = d == r and not np.any(self.map[~np.eye(d, dtype=np.bool_)])
        P, E = self.X, np.zeros((0, r))
        if not (by_feature and self.map_errors is None):
            by_feature, P = False, self.points
            E = np.abs(self.centered) @ self._entry_errors
            E = (E + np.where(self.map.any(axis=0), UNDERFLOW_OF_IMAGES, 0.0)) * (1.0 + gamma(2 * d + 12))
        units, starts = np.diag(self.map).copy() if by_feature else np.ones(r), range(0, len(first), ROWS_AT_ONCE)
        sums, differs = np.zeros((3, r)), np.zeros(r, dtype=np.bool_)
        weight_errors = np.zeros(0) if weight_errors is None else weight_errors
        first, second = np.ascontiguousarray(first, dtype=np.int32), np.ascontiguousarray(second, dtype=np.int32)
        for start in starts:
            check_deadline()
            rows, block = slice(start, start + ROWS_AT_ONCE), np.zeros((3, r))
            of_rows = first[rows], second[rows], weights[rows], weight_errors[rows]
            pairs.squares_by_coordinate(P, *of_rows, units, E, block, differs)
            sums += block
        value, size, shift_errors = sums
        n = min(ROWS_AT_ONCE, len(first)) + len(starts) + 16
        error = gamma(n + roundings) * size + (1.0 + gamma(n + 8)) * shift_errors
        underflow = 8.0 * TINY * (len(first) + float(np.abs(weights).sum()))
        return value, np.where(differs, error + underflow, 0.0)

    def form(
        self,
        first: IndexArray,
        second: IndexArray,
        weights: FloatArray,
        *,
        roundings: int = 0,
        accuracy: float = ACCURACY,
    ) -> Form:
        """Return ``sum_q w_q (p_a - p_b)(p_a - p_b)^T`` over pairs of exact images.

        Computed from the images by the graph Laplacian of the pairs. If its error exceeds `accuracy`, it is computed
        from differences of the points, if these err much less, as for images that are long compared with them.
        """
        first, second = np.ascontiguousarray(first, dtype=np.int32), np.ascontiguousarray(second, dtype=np.int32)
        weights = np.ascontiguousarray(weights, dtype=np.float64)
        n, r = self.points.shape
        if r == 0 or not weights.any():
            return Form.zero(r)
        if power := _small_power(weights):
            accuracy = scaled_above(accuracy, -power)
            return self.form(first, second, np.ldexp(weights, -power), roundings=roundings, accuracy=accuracy)._shifted(
                power
            )
        block = max(ROWS_AT_ONCE, -(-n // 32))
        degrees = np.bincount(first, minlength=n) + np.bincount(second, minlength=n)
        # One rounding each of difference, weighting and symmetrizing; then the sums of a row, of a block, of all.
        terms = degrees + float(min(n, block) + 2 * threads.MOST_PARTS + 32 + threads.ACCUMULATORS + 8 + roundings)
        error, size = self._error_and_size(first, second, weights, terms * U / (1.0 - terms * U) * (1.0 + 8.0 * U))
        error = above(error + gamma(roundings) * size, len(first) + r + 16) + UNDERFLOW
        if error > accuracy:
            sampled = np.linspace(0, len(first) - 1, min(256, len(first))).astype(np.int64)
            sample = self._form_of_differences(first[sampled], second[sampled], weights[sampled], roundings)
            if sample.error <= WORTHWHILE_SHARE * error * float(np.abs(weights[sampled]).sum() / np.abs(weights).sum()):
                return self._form_of_differences(first, second, weights, roundings)
        blocks = Blocks(np.unique(np.append(np.arange(0, n, block), n)).astype(np.int64))
        G = laplacian_form(self.points, first, second, weights, blocks).sum(axis=0)
        return Form(0.5 * (G + G.T), error, size)

    def size(self, first: IndexArray, second: IndexArray, weights: FloatArray) -> float:
        """Return the `Form.size` of `form`."""
        if power := _small_power(weights):
            return scaled_above(self.size(first, second, np.ldexp(weights, -power)), power)
        rows = (np.ascontiguousarray(first, dtype=np.int32), np.ascontiguousarray(second, dtype=np.int32))
        return self._error_and_size(*rows, np.ascontiguousarray(weights, dtype=np.float64), np.zeros(len(self.X)))[1]

    @np.errstate(all="ignore")  # a form that is not finite proves nothing
    def _error_and_size(
        self, first: IndexArray, second: IndexArray, weights: FloatArray, relative: FloatArray
    ) -> tuple[float, float]:
        """Sum ``|w| (|p| + e) (l_a + l_b + 2 e)`` over pairs, to nearest, and ``|w| (|p| + e)^2``, upward.

        Here p is the difference of two images, e the sum of their errors, and l are the lengths of images times
        relative errors of rows of a product with the Laplacian.
        """
        P, lengths = self.points, relative * norms_above(self.points)
        errors = self.errors[first] + self.errors[second]
        longest = np.sqrt(pairs.distances(P, first, second)) + errors
        weighted = np.abs(weights) * longest
        error = float(np.sum(weighted * (lengths[first] + lengths[second] + 2.0 * errors)))
        size = float(np.sum(weighted * longest))
        return error, above(size, len(first) + P.shape[1] + 16) + UNDERFLOW

    def _form_of_differences(self, first: IndexArray, second: IndexArray, weights: FloatArray, roundings: int) -> Form:
        d, r = self.map.shape
        T, starts = self._entry_errors * (1.0 + gamma(d + 6)), range(0, len(first), ROWS_AT_ONCE)
        relative_error = gamma(min(ROWS_AT_ONCE, len(first)) + len(starts) + threads.ACCUMULATORS + 8 + roundings)
        n_parts = threads.part_count(
            len(first) * d * r, threads.PRODUCT_WORK, max_parts=min(threads.ACCUMULATORS, len(starts))
        )
        cuts = threads.cuts(len(starts), n_parts)
        totals, sums = np.zeros((n_parts, r, r)), np.zeros((n_parts, 2))

        def add(number: int) -> None:
            for start in starts[cuts[number] : cuts[number + 1]]:
                check_deadline()
                rows = slice(start, start + ROWS_AT_ONCE)
                V = self.X[first[rows]].astype(np.float64) - self.X[second[rows]].astype(np.float64)
                P, w = V @ self.map, np.abs(weights[rows])
                errors, long = norms_above(np.abs(V) @ T) + UNDERFLOW_OF_IMAGES, norms_above(P)
                totals[number] += (P * weights[rows, None]).T @ P
                sums[number] += (
                    w * (2.0 * long + errors) @ errors + relative_error * (w * long @ long),
                    w * (long + errors) @ (long + errors),
                )

        with threads.one_pool():
            threads.run(add, n_parts)
        total, (error, size) = totals.sum(axis=0), (float(total) for total in sums.sum(axis=0))
        error = above(error, len(first) + 2 * d + 16) + UNDERFLOW
        return Form(0.5 * (total + total.T), error, above(size, len(first) + 16) + UNDERFLOW)


@dataclass(frozen=True, eq=False)
class Span:
    """Coordinates ``Q^T (x_i - m)`` of few rows in many features, and how far these may be from all of the rows.

    With Z an exact orthonormal basis of the columns of Q, ``Q = Z H`` for ``H = (Q^T Q)^(1/2)``, and each row is a
    combination of the columns of Z and a rest of at most its distance.
    """

    X: NDArray[np.floating]  # (n, d): the exact rows
    centered: FloatArray  # (n, d): see `Images`
    basis: FloatArray  # (d, r): Q
    multiple: float = 0.0  # of the identity: the metric outside of the span

    @classmethod
    def of(cls, X: NDArray[np.floating], centered: FloatArray, axes: NDArray[np.intp], multiple: float = 0.0) -> Span:
        """Return the span of the rows in all features but some axes, and of these axes."""
        rows = centered.copy()
        rows[:, axes] = 0.0
        Q, R, _ = scipy.linalg.qr(rows.T, mode="economic", pivoting=True, check_finite=False)
        sizes = np.abs(np.diag(R))
        first = int(np.count_nonzero(sizes > 2.0**-50 * len(rows) * sizes.max(initial=0.0)))
        basis = np.zeros((centered.shape[1], first + len(axes)))
        basis[:, :first] = Q[:, :first]
        basis[axes] = 0.0
        basis[axes, np.arange(first, len(basis.T))] = 1.0
        return cls(X, centered, basis, multiple)

    @cached
    def points(self) -> FloatArray:
        """The rows in these coordinates, (n, r)."""
        return times(self.centered, self.basis)

    @cached
    def skew(self) -> float:
        """At least ``||Q^T Q - I||_F``."""
        Q, r = self.basis, self.basis.shape[1]
        return above(norm_above(Q.T @ Q - np.eye(r)) + gamma(len(Q) + 4) * norm_above(np.abs(Q).T @ np.abs(Q)), 4)

    @cached
    def distances(self) -> FloatArray:
        """At least the distance of each exact row to the columns of Q, (n,)."""
        Q, Y, X = self.basis, self.points, self.centered
        rounding = gamma(Q.shape[1] + 6) * (np.abs(X) + np.abs(Y) @ np.abs(Q).T)
        return norms_above(np.abs(X - Y @ Q.T) + rounding)

    def split(self, components: FloatArray) -> tuple[FloatArray, float]:
        """Return about the factor of a metric in the span, and how far the metric is from that one.

        The distance, in the Frobenius norm, is to ``Z N Z^T + c (I - Z Z^T)`` for the metric N of the factor, and
        infinite if the given factor has another shape.
        """
        Q, root, d = self.basis, math.sqrt(self.multiple), len(self.basis)
        if self.multiple and components.shape != (d, d):
            return components @ Q, math.inf
        basis = Q if self.multiple else None
        change = components
        if basis is not None:
            change = components.copy()
            np.fill_diagonal(change, change.diagonal() - root)
        inside = change @ Q if basis is None else basis.T @ (change @ Q)
        length, rests = norm_above(inside), list[float]()
        for first in range(0, len(components), ROWS_AT_ONCE):
            rows = slice(first, first + ROWS_AT_ONCE)
            rests.append(norm_above(change[rows] - (inside[rows] if basis is None else basis[rows] @ inside) @ Q.T))
        rounding = gamma(2 * Q.shape[1] + 8) * norm_above(np.abs(Q).T @ np.abs(Q)) * length
        rounding += gamma(4) * norm_above(change)
        distance = above(norm_above(np.array(rests)) + rounding + 3.0 * self.skew * length, 8)
        factor = inside + root * np.eye(len(inside)) if self.multiple else inside
        size = above(root + length + rounding, 4)
        return factor, above(distance * (2.0 * size + distance) + 8.0 * U * self.multiple * math.sqrt(d + 1), 8)

    def images(self, T: FloatArray, errors: FloatArray | None = None) -> Images:
        """Return the images in coordinates T, (r, p), of the exact rows."""
        sizes = gamma(len(T) + 4) * np.abs(T) if errors is None else gamma(len(T) + 4) * np.abs(T) + 2.0 * errors
        V, errors = times(self.basis, T), times(np.abs(self.basis), sizes)
        return Images(self.X, self.centered, V, errors, span=self, reduced=T)

    def spill(self, first: IndexArray, second: IndexArray, weights: FloatArray) -> tuple[float, float]:
        """Bound ``||Z^T S W||_F`` and ``trace(W^T S W)``, W a basis of all other directions.

        S is ``sum_q w_q v_q v_q^T`` over differences of rows with absolute weights of at most those given.
        """
        rests = self.distances[first] + self.distances[second]
        lengths = norms_above(self.centered)[first] + norms_above(self.centered)[second]
        sums = (float(weights @ (lengths * rests)), float(weights @ (rests * rests)))
        return above(sums[0], len(first) + 16), above(sums[1], len(first) + 16)


def _small_power(A: FloatArray) -> int:
    """Return the power of 2 next to the largest entry of an array of tiny numbers; 0 for other arrays."""
    largest = float(np.abs(A).max(initial=0.0))
    return math.frexp(largest)[1] if 0.0 < largest < SMALL_NUMBERS else 0
