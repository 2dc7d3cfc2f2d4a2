"""What no metric can do without on a stream of pairs with targets: lower bounds of LEGO's loss, from multipliers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray
from sdpmetric.linalg import exact
from sdpmetric.linalg.rigorous import Images, U, above, below, gamma, sum_above


@dataclass(frozen=True, eq=False)
class LeastLoss:
    """Pairs with targets, and what multipliers prove about the least loss of a fixed metric."""

    X: NDArray[np.floating]
    centered: FloatArray
    pairs: NDArray[np.int32]
    targets: FloatArray
    sides: FloatArray

    def bound(self, dual: FloatArray) -> float:
        """A float not above the least loss, at least 0, from multipliers of the right signs, about 1 at most."""
        return max(self._spanned_bound(dual), self._doubled_bound(dual))

    def _spanned_bound(self, a: FloatArray) -> float:
        """A proven bound where the pairs that may be lifted span every feature in which they differ at all."""
        images, usable = self._lifted
        if not images.map.shape[1]:
            return 0.0
        lifting = self.sides >= 0.0
        a = np.where(usable, a, 0.0)
        first, second = self.pairs.T
        room, low = (images.form(first, second, w, accuracy=0.0).least for w in (lifting.astype(np.float64), a))
        if not room > 0.0 or not math.isfinite(low):
            return 0.0
        return self._value(np.where(lifting, np.nextafter(a + above(max(0.0, -low) / room, 2), np.inf), a))

    def _doubled_bound(self, a: FloatArray) -> float:
        """A proven bound by pairs with the very same difference, whose multipliers must add up to 0 at least."""
        alike, lifting = self._alike, self.sides >= 0.0
        able = np.bincount(alike, lifting)[alike]
        a = np.where((a < 0.0) & (able == 0.0), 0.0, a)
        rounding = 2.0 * gamma(2 * len(a) + 8) * np.bincount(alike, np.abs(a))
        lack = np.maximum(0.0, rounding - np.bincount(alike, a))[alike]
        return self._value(a + np.where(lifting, lack / np.maximum(able, 1.0), 0.0))

    def _value(self, a: FloatArray) -> float:
        """What multipliers prove, at the best of their multiples, rounded downwards."""
        linear = a * self.targets
        rise, size = -sum_above(linear) - 4.0 * U * sum_above(np.abs(linear)), above(sum_above(a * a), 2)
        return below(rise / size * rise / 2.0, 8) if rise > 0.0 and 0.0 < size < math.inf else 0.0

    @cached_property
    def _alike(self) -> NDArray[np.int64]:
        """A number for each difference, the same where exact differences are equal or opposite, (p,)."""
        Z = np.concatenate(exact.differences(self.X, *self.pairs.T), axis=1)
        first = np.take_along_axis(Z, np.argmax(Z != 0.0, axis=1)[:, None], axis=1)
        return np.unique(np.where(first < 0.0, -Z, Z) + 0.0, axis=0, return_inverse=True)[1].ravel()

    @cached_property
    def _lifted(self) -> tuple[Images, NDArray[np.bool_]]:
        """Coordinates in which differences with ``side >= 0`` have about unit sum, and whose multipliers count.

        The map must be one to one on the features in which a pair with ``side >= 0`` differs; `_spanned_bound` sees
        that it is. A pair that differs in another feature, by however little, can be parted by a metric at no cost to
        these, and proves nothing.
        """
        X = np.asarray(self.X, dtype=np.float64)
        Z, lifting = X[self.pairs[:, 0]] - X[self.pairs[:, 1]], self.sides >= 0.0
        used = (Z[lifting] != 0.0).any(axis=0)
        # Powers of two, so that features of any scale count alike and nothing is rounded.
        usable = lifting | ~Z[:, ~used].any(axis=1)
        powers = -np.frexp(np.abs(Z[lifting][:, used]).max(axis=0, initial=0.0))[1]
        lifted = np.ldexp(Z[lifting][:, used], powers)
        _, sigma, Vt = np.linalg.svd(np.linalg.qr(lifted, mode="r"), full_matrices=False)
        regular = len(sigma) == used.sum() and bool((sigma > 0.0).all())
        T = np.zeros((Z.shape[1], len(sigma) if regular else 0))
        if regular:
            T[used] = np.ldexp(Vt.T / sigma, powers[:, None])
        return Images.of(self.X, self.centered, T), usable
