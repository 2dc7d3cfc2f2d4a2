"""LEGO in the feature space of a kernel, by kernel values only."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.core.kernels import PSD_TOLERANCE, Kernel, KernelFunction, check_positive, check_symmetric
from sdpmetric.core.pairs import check_targets
from sdpmetric.lego import loops as logdet
from sdpmetric.lego.logdet import LogDetCounts, LogDetUpdate


class KernelLEGOStream(LogDetCounts):
    """LEGO with the metric ``A = s (I + sum_lm S_lm phi(x_l) phi(x_m)^T)`` in a feature space [JKDG2008].

    The first metric is s times the identity of the feature space. A step adds a multiple of ``(A z)(A z)^T``, and ``A
    z`` is a combination of z and of the differences before it; so every later metric has the form above, with x_l the
    examples of the pairs so far. With the linear kernel this is `LEGOStream` with ``prior = s I``.

    A pair costs O(m^2) for m different examples so far; memory is 2 m^2 numbers.

    Parameters
    ----------
    learning_rate : float
        ``eta > 0``.
    kernel : str or callable, default "linear"
        As in `KernelFunction`. The stream can be pickled if a callable can.
    gamma, degree, coef0 : float, optional
        Parameters of the kernel; default: scikit-learn's.
    initial_scale : float, default 1
        s, positive.

    Raises
    ------
    ValueError
        If a number is out of range or the kernel is unknown.
    """

    def __init__(
        self,
        learning_rate: float,
        kernel: Kernel = "linear",
        *,
        gamma: float | None = None,
        degree: float | None = None,
        coef0: float | None = None,
        initial_scale: float = 1.0,
    ) -> None:
        super().__init__(learning_rate)
        self.initial_scale = validation.check_positive("initial_scale", initial_scale)
        self.kernel = KernelFunction.of(kernel, {"gamma": gamma, "degree": degree, "coef0": coef0})
        self._support: FloatArray | None = None
        self._rows: dict[bytes, int] = {}
        self._K, self._S = np.zeros((0, 0)), np.zeros((0, 0))

    # -- what is known ------------------------------------------------------------------------------------------

    @property
    def support(self) -> FloatArray:
        """The examples x_l that pairs were made of, (m, d), each once."""
        return np.zeros((0, 0)) if self._support is None else self._support.copy()

    @property
    def coefficients(self) -> FloatArray:
        """S, symmetric, (m, m)."""
        return self._S * self.initial_scale

    def distances(self, X: ArrayLike, pairs: ArrayLike) -> FloatArray:
        """Squared distances of pairs of rows under the metric.

        Parameters
        ----------
        X : (n, d) array
        pairs : (p, 2) integer array

        Returns
        -------
        distances : (p,) array
        """
        data = self._data(X)
        rows = validation.check_pairs(pairs, len(data))
        used, index = np.unique(rows, return_inverse=True)
        first, second = index.reshape(rows.shape).T
        plain = self._values(data[used], data[used])
        found = np.diag(plain)[first] + np.diag(plain)[second] - 2.0 * plain[first, second]
        if self._support is not None:
            values = self._values(data[used], self._support)
            z = values[first] - values[second]
            found = found + np.einsum("ij,ij->i", z @ self._S, z)
        return np.asarray(np.maximum(found, 0.0))

    # -- learning -----------------------------------------------------------------------------------------------

    def update(self, u: ArrayLike, v: ArrayLike, target: float, side: int = 0) -> LogDetUpdate:
        """Take one pair.

        Parameters
        ----------
        u, v, target, side
            As in `LEGOStream.update`.

        Returns
        -------
        LogDetUpdate
            Without steps: there is no factor.

        Raises
        ------
        ValueError
            As `LEGOStream.update`; or if the kernel is seen not to be positive semidefinite: the inner product of a new
            example with another one is larger than theirs with themselves allow, or a distance comes out negative.
            `partial_fit` checks the whole kernel matrix, which here would cost O(m^3) for each example.
        """
        d = None if self._support is None else self._support.shape[1]
        first = validation.check_vector("an example", u, d)
        both = np.stack([first, validation.check_vector("an example", v, len(first))])
        if (both[0] == both[1]).all():
            raise ValueError("the two examples are equal, 0 apart under every metric; leave the pair out.")
        rows, targets, sides = check_targets(both, [[0, 1]], target, side)
        losses = self.cumulative_loss
        distance = self._take(both, rows, targets, sides, strict=False)
        return LogDetUpdate(distance, self.cumulative_loss - losses, ())

    def partial_fit(self, X: ArrayLike, pairs: ArrayLike, targets: ArrayLike, sides: ArrayLike | None = None) -> Self:
        """Take pairs of rows in turn, in one compiled loop.

        Parameters
        ----------
        X, pairs, targets, sides
            As in `LEGOStream.partial_fit`.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            As `LEGOStream.partial_fit`; or if the kernel matrix is not symmetric or not positive semidefinite.
        """
        data = self._data(X)
        checked = check_targets(data, pairs, targets, sides)
        if len(checked[0]):
            self._take(data, *checked, strict=True)
        return self

    # -- parts --------------------------------------------------------------------------------------------------

    def _data(self, X: ArrayLike) -> FloatArray:
        data: FloatArray = np.ascontiguousarray(validation.check_data(X), dtype=np.float64)
        if self._support is not None:
            validation.check_width("X", data, self._support.shape[1], "this stream")
        return data

    def _take(
        self, X: FloatArray, pairs: NDArray[np.int32], targets: FloatArray, sides: FloatArray, *, strict: bool
    ) -> float:
        """Take checked pairs; return the last pair's distance before its step."""
        used, index = np.unique(pairs, return_inverse=True)
        known = len(self._K)
        indices = self._indices(X[used], strict)
        rows = indices[index.reshape(pairs.shape)].astype(np.int32)
        same = (rows[:, 0] == rows[:, 1]) & (targets > 0.0) & (sides <= 0.0)
        if same.any():  # 0.0 and -0.0 have different bytes
            raise ValueError(f"pair {pairs[same][0].tolist()} has two equal examples; leave it out.")
        taken, distance = logdet.take_kernel_pairs(
            self._S, self._K, rows, targets, sides, self.learning_rate, self._totals
        )
        self._n_items += taken
        if taken < len(pairs):
            self._shrink(np.union1d(np.arange(known), rows[:taken]).astype(np.int64))
            raise ValueError(
                f"the squared distance of pair {pairs[taken].tolist()} came out as {distance:g}: the kernel is not "
                "positive semidefinite, or its values or the target are too large; use another kernel, or scale the "
                "features."
            )
        return float(distance)

    def _indices(self, X: FloatArray, strict: bool) -> NDArray[np.int64]:
        """Row numbers of examples in the support, which grows by new examples."""
        known = dict(self._rows)
        indices = np.array([known.setdefault((row + 0.0).tobytes(), len(known)) for row in X])
        first = np.unique(indices, return_index=True)
        new = X[first[1][first[0] >= len(self._rows)]]
        if len(new):
            old = self._support
            support = new if old is None else np.concatenate([old, new])
            block = self._values(new, support)
            m = len(support)
            K, S = np.empty((m, m)), np.zeros((m, m))
            K[: len(self._K), : len(self._K)], S[: len(self._S), : len(self._S)] = self._K, self._S
            K[len(self._K) :], K[:, len(self._K) :] = block, block.T
            check_symmetric(block[:, len(self._K) :])
            if strict:
                check_positive(K)
            else:
                _check_rows(K, len(self._K))
            self._support, self._rows, self._K, self._S = support, known, K, S
        return indices

    def _shrink(self, retained: NDArray[np.int64]) -> None:
        """Forget the examples of pairs that were not taken."""
        assert self._support is not None
        self._rows = {(row + 0.0).tobytes(): place for place, row in enumerate(self._support[retained])}
        self._support = self._support[retained] if len(retained) else None
        self._K, self._S = self._K[np.ix_(retained, retained)], self._S[np.ix_(retained, retained)]

    def _values(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        return self.kernel(X, Y) * self.initial_scale


def _check_rows(K: FloatArray, known: int) -> None:
    """Refuse new rows with an inner product larger than the two lengths allow: O(m) for each, and no full proof."""
    lengths = np.diag(K)
    size = np.maximum(np.maximum(lengths[known:, None], lengths), np.finfo(float).tiny)
    room = lengths[known:, None] / size * (lengths / size) + PSD_TOLERANCE
    wrong = (K[known:] / size) ** 2 > room
    if wrong.any() or (lengths[known:] < -PSD_TOLERANCE * np.abs(lengths).max()).any():
        raise ValueError(
            "the kernel is not positive semidefinite: two examples violate the Cauchy-Schwarz inequality; use another "
            "kernel."
        )
