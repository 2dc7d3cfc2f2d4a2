"""LEGO in the feature space of a kernel, by kernel values only."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.core.kernels import PSD_TOLERANCE, Kernel, KernelFunction, check_positive, check_symmetric
from sdpmetric.core.pairs import check_targets
from sdpmetric.lego import loops
from sdpmetric.lego.logdet import LogDetStream, LogDetUpdate, check_different


class KernelLEGOStream(LogDetStream):
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

    Examples
    --------
    >>> import numpy as np
    >>> import sdpmetric as sm
    >>> X, y = sm.datasets.load("iris")
    >>> pairs, similar = sm.constraints.pairs(y, 30)
    >>> stream = sm.KernelLEGOStream(0.1, "rbf").partial_fit(X, pairs, np.where(similar, 0.5, 1.5))
    >>> stream.n_items
    60
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
        data = self._check_data(X)
        rows = validation.check_pairs(pairs, len(data))
        used, index = np.unique(rows, return_inverse=True)
        first, second = index.reshape(rows.shape).T
        inner = self._values(data[used], data[used])
        squares = np.diag(inner)[first] + np.diag(inner)[second] - 2.0 * inner[first, second]
        if self._support is not None:
            values = self._values(data[used], self._support)
            z = values[first] - values[second]
            squares = squares + np.einsum("ij,ij->i", z @ self._S, z)
        return np.asarray(np.maximum(squares, 0.0))

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
        example = validation.check_vector("an example", u, d)
        examples = np.stack([example, validation.check_vector("an example", v, len(example))])
        check_different(*examples)
        losses = self.cumulative_loss
        distance = self._take(examples, check_targets(examples, [[0, 1]], target, side), strict=False)
        return LogDetUpdate(distance, self.cumulative_loss - losses, ())

    def _check_data(self, X: ArrayLike) -> FloatArray:
        data: FloatArray = np.ascontiguousarray(validation.check_data(X), dtype=np.float64)
        if self._support is not None:
            validation.check_width("X", data, self._support.shape[1], "this stream")
        return data

    def _take(self, X: FloatArray, goals: loops.Goals, *, strict: bool = True) -> float:
        """Take checked pairs; return the last pair's distance before its step."""
        pairs, targets, sides = goals
        used, index = np.unique(pairs, return_inverse=True)
        n_support = len(self._K)
        indices = self._indices(X[used], strict)
        rows = indices[index.reshape(pairs.shape)].astype(np.int32)
        same = (rows[:, 0] == rows[:, 1]) & (targets > 0.0) & (sides <= 0.0)
        if same.any():  # 0.0 and -0.0 have different bytes
            raise ValueError(f"pair {pairs[same][0].tolist()} has two equal examples; leave it out.")
        goals = rows, targets, sides
        n_taken, distance = loops.take_kernel_pairs(self._S, self._K, goals, self.learning_rate, self._totals)
        self._n_items += n_taken
        if n_taken < len(pairs):
            self._shrink(np.union1d(np.arange(n_support), rows[:n_taken]).astype(np.int64))
            raise ValueError(
                f"the squared distance of pair {pairs[n_taken].tolist()} came out as {distance:g}: the kernel is not "
                "positive semidefinite, or its values or the target are too large; use another kernel, or scale the "
                "features."
            )
        return float(distance)

    def _indices(self, X: FloatArray, strict: bool) -> NDArray[np.int64]:
        """Row numbers of examples in the support, which grows by new examples."""
        numbers_by_row = dict(self._rows)
        indices = np.array([numbers_by_row.setdefault((row + 0.0).tobytes(), len(numbers_by_row)) for row in X])
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
            self._support, self._rows, self._K, self._S = support, numbers_by_row, K, S
        return indices

    def _shrink(self, retained: NDArray[np.int64]) -> None:
        assert self._support is not None
        self._rows = {(row + 0.0).tobytes(): place for place, row in enumerate(self._support[retained])}
        self._support = self._support[retained] if len(retained) else None
        self._K, self._S = self._K[np.ix_(retained, retained)], self._S[np.ix_(retained, retained)]

    def _values(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        return self.kernel(X, Y) * self.initial_scale


def _check_rows(K: FloatArray, n_support: int) -> None:
    """Refuse new rows with an inner product larger than the two lengths allow: O(m) for each, and no full proof."""
    lengths = np.diag(K)
    size = np.maximum(np.maximum(lengths[n_support:, None], lengths), np.finfo(float).tiny)
    largest = lengths[n_support:, None] / size * (lengths / size) + PSD_TOLERANCE
    wrong = (K[n_support:] / size) ** 2 > largest
    if wrong.any() or (lengths[n_support:] < -PSD_TOLERANCE * np.abs(lengths).max()).any():
        raise ValueError(
            "the kernel is not positive semidefinite: two examples violate the Cauchy-Schwarz inequality; use another "
            "kernel."
        )
