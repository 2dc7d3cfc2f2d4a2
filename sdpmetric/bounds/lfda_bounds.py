"""LFDA's scatter matrices in any coordinates, and sums of their eigenvalues, with bounds of all rounding.

With ``W = I + E``, ``||E|| <= e < 1``, and ``B`` within ``h`` of a diagonal D in the spectral norm, the k-th largest
eigenvalue of ``B v = lambda W v`` is at most ``(D_k + h) / (1 - e)`` where that is positive; the coordinates of the
computed eigenvectors make e and h small, and no property of them is assumed but that they are as many as the
dimensions in which the data vary.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from sdpmetric.arrays import FloatArray
from sdpmetric.linalg.rigorous import (
    Form,
    Images,
    U,
    above,
    all_above,
    exp_bounds,
    gamma,
    norm_above,
    norms_above,
    square,
    sum_above,
    sum_below,
)
from sdpmetric.linalg.rigorous.forms import UNDERFLOW

# Affinities that stand in memory at once, unless one example has more.
BLOCK = 4_000_000
# Squared scales below this, in units of the data's range, may have underflown: nothing is known of their affinities.
SMALLEST_SCALE = 2.0**-900
# Exponents beyond the first count as it; what underflow may change of an exponent is below the second.
LARGEST, UNDERFLOWN = 800.0, 1e-50


@dataclass(frozen=True, eq=False)
class Scatters:
    """Data, classes, weights and affinities of LFDA, and its scatter matrices; see `LFDAProblem`.

    Attributes
    ----------
    X : (n, d) array
    y : (n,) array
        Numbers of classes.
    weights : (n,) array
    n_neighbors : int
    ridge : float
    """

    X: FloatArray
    y: NDArray[np.int32]
    weights: FloatArray
    n_neighbors: int
    ridge: float

    def forms(self, T: FloatArray, errors: FloatArray | None = None) -> tuple[Form, Form]:
        """``T^T B T`` and ``T^T W T``."""
        long, off = norm_above(T), 0.0 if errors is None else norm_above(errors)
        size = above(self.ridge * square(long + off), 4)
        error = above(gamma(len(T) + 8) * size + self.ridge * (2.0 * long + off) * off, 6)
        within = Form(self.ridge * (T.T @ T), error + UNDERFLOW, size + UNDERFLOW)
        between, n = self._between(T, errors), math.fsum(self.weights)
        for c in range(int(self.y.max()) + 1):
            members = np.flatnonzero((self.y == c) & (self.weights > 0.0))
            if len(members) > 1:
                local, total = self._local(T, errors, members), math.fsum(self.weights[members])
                within = within + local.times(1.0 / total)
                between = between - local.times(1.0 / total) + local.times(1.0 / n)
        return between, within

    def _between(self, T: FloatArray, errors: FloatArray | None) -> Form:
        """Half the sum over pairs of different classes, ``v_i v_j / n`` times the square of their difference.

        It is the scatter of all examples around their mean less ``n_c / n`` times that of each class around its own.
        Scatters around computed means are more by the squares of how far these are off.
        """
        X, v, n = self.X, self.weights, math.fsum(self.weights)
        middle = X.mean(axis=0)
        rows, shifted, lost = [X], X - middle, []
        sizes = np.abs(T) if errors is None else np.abs(T) + errors
        first, second, scales = [], [], []
        for number, part in enumerate([np.arange(len(X)), *(np.flatnonzero(self.y == c) for c in np.unique(self.y))]):
            w = v[part]
            if not (total := math.fsum(w)) > 0.0:
                continue
            share = total / n
            off = w @ shifted[part] / total
            mean = middle + off
            away = gamma(len(part) + 16) * (w @ np.abs(shifted[part]) / total) + 4.0 * U * np.abs(mean)
            rows.append(mean[None])
            lost.append(above(total * share * float(np.sum((away @ sizes) ** 2)), len(T) + T.shape[1] + 16))
            first.append(part)
            second.append(np.full(len(part), len(X) + len(rows) - 2))
            scales.append(w if number == 0 else -w * share)
        every = np.concatenate(rows)
        images = Images.of(every, every - middle, T, errors)
        form = images.form(np.concatenate(first), np.concatenate(second), np.concatenate(scales), roundings=8)
        return replace(form, error=above(form.error + sum_above(np.array(lost))) + UNDERFLOW)

    def _local(self, T: FloatArray, errors: FloatArray | None, members: NDArray[np.intp]) -> Form:
        """Half the sum over pairs of a class, ``v_i v_j A_ij`` times the square of their difference.

        With Z the images and S the sums of the rows of the weights w, it is ``Z^T (diag(S) - w) Z``.
        """
        X, m = self.X[members], len(members)
        images = Images.of(X, X - X.mean(axis=0), T, errors)
        Z, e, z = images.points, images.errors, norms_above(images.points)
        total, long, moved, unknown = np.zeros((T.shape[1],) * 2), 0.0, 0.0, 0.0
        for part, w, off in self._affinities(members):
            sums = w.sum(axis=1)
            total += (Z[part].T * sums) @ Z[part] - Z[part].T @ (w @ Z)
            long += float(sums @ z[part] ** 2)
            moved += float(sums @ (e * (2.0 * z + e))[part] + (2.0 * z + e)[part] @ (w @ e))
            unknown += 2.0 * float(off @ (z + e)[part] ** 2)
        size = above(2.0 * (long + moved) + unknown, 2 * m + 32)
        error = above(gamma(2 * m + 96) * size + moved + unknown, 2 * m + 32)
        return Form(0.5 * (total + total.T), error + UNDERFLOW, size + UNDERFLOW)

    @cached_property
    def _kept(self) -> dict[int, list[tuple[slice, FloatArray, FloatArray]]]:
        """Affinities by the first member of a class, where all of them fit into memory."""
        return {}

    def _affinities(self, members: NDArray[np.intp]) -> Iterator[tuple[slice, FloatArray, FloatArray]]:
        """``v_i v_j A_ij`` of a class in blocks of rows, and sums of how far the entries of a row may be off."""
        if int((np.bincount(self.y).astype(float) ** 2).sum()) > BLOCK:
            yield from self._blocks(members)
            return
        if (key := int(members[0])) not in self._kept:
            self._kept[key] = list(self._blocks(members))
        yield from self._kept[key]

    def _blocks(self, members: NDArray[np.intp]) -> Iterator[tuple[slice, FloatArray, FloatArray]]:
        X, v, m = self.X[self.y == self.y[members[0]]], self.weights[self.y == self.y[members[0]]], len(members)
        same = np.unique(X, axis=0, return_inverse=True)[1].ravel()
        X = np.ldexp(X, -int(np.frexp(max(float(np.ptp(X, axis=0).max()), 1e-300))[1]))
        height, k, d = max(1, BLOCK // len(X)), min(self.n_neighbors, len(X) - 1), X.shape[1]
        parts = [slice(first, first + height) for first in range(0, len(X), height)]
        squares = np.concatenate([np.partition(cdist(X[part], X, "sqeuclidean"), k, axis=1)[:, k] for part in parts])
        copied, used = np.bincount(same)[same] > k, v > 0.0  # copies of an example have no scale
        scale, vague = np.sqrt(squares), (squares < SMALLEST_SCALE) & ~copied
        v, scale, copied, vague, Y = v[used], scale[used], copied[used], vague[used], X[used]
        relative = gamma(2 * d + 32)
        for first in range(0, m, height):
            part = slice(first, first + height)
            with np.errstate(divide="ignore", invalid="ignore"):
                t = cdist(Y[part], Y, "sqeuclidean") / (scale[part, None] * scale)
            t = np.where(t < LARGEST, t, LARGEST)
            low, high = exp_bounds(-t)
            A, off = 0.5 * (low + high), (high - low) + high * (2.0 * relative * t + UNDERFLOWN)
            unknown, absent = vague[part, None] | vague, copied[part, None] | copied
            A, off = np.where(unknown, 0.5, A), np.where(unknown, 0.5, off)
            A, off = np.where(absent, 0.0, A), np.where(absent, 0.0, off)
            A[np.arange(len(A)), np.arange(part.start, part.start + len(A))] = 0.0
            products = v[part, None] * v
            yield part, A * products, all_above((off * products).sum(axis=1), m + 8)


def most(between: Form, within: Form, count: int) -> tuple[float, float]:
    """Floats not below the sum of the `count` largest positive eigenvalues, and minus the least if that is negative.

    Infinite where the second matrix is not proven to be near the identity.
    """
    e = above(norm_above(within.matrix - np.eye(len(within.matrix))) + within.error, 2)
    if not e < 0.5:
        return math.inf, math.inf
    D = np.diag(between.matrix)
    h = above(norm_above(between.matrix - np.diag(D)) + between.error, 2)
    largest = np.maximum(np.nextafter(np.sort(D)[::-1][:count] + h, np.inf), 0.0)
    least = max(0.0, math.nextafter(h - float(D.min(initial=0.0)), math.inf))
    return above(sum_above(largest) / (1.0 - e), 4), above(least / (1.0 - e), 4)


def trace_ratio(between: Form, within: Form) -> float:
    """A float not above ``trace(W^-1 B)``; minus infinity where W is not proven to be near the identity.

    With ``W = I + E``, ``||E|| <= e``, it is off the trace of B by at most ``e / (1 - e)`` times B's nuclear norm.
    """
    k = len(within.matrix)
    e = above(norm_above(within.matrix - np.eye(k)) + within.error, 2)
    if not e < 0.5:
        return -math.inf
    nuclear = above(math.sqrt(k) * norm_above(between.matrix) + k * between.error, 6)
    return sum_below(np.append(np.diag(between.matrix), -above(e / (1.0 - e) * nuclear + k * between.error, 8)))
