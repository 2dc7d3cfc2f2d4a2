"""Online POLA in the feature space of a kernel, by inner products only."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray
from sdpmetric.core.kernels import Kernel, KernelFunction, check_symmetric
from sdpmetric.pola import loops
from sdpmetric.pola.stream import LONGEST, PairStream

# Pairs that share one matrix of inner products.
BLOCK = 256


class KernelPOLAStream(PairStream):
    """Online POLA in the feature space of a kernel (section 3.3 of the paper) [SSN2004].

    The metric is a combination of products of the differences that caused an update. It is stored in coordinates of an
    orthonormal basis of their span, which grows up to the dimension of the feature space; `transform` applies them.
    Only kernel values of the data are used. Parts of a difference outside the basis that are shorter than 1e-5 of its
    points are dropped.

    Parameters
    ----------
    n_features : int
    kernel : str or callable, default "rbf"
        As in `KernelFunction`.
    initial_threshold : float, default 1
    gamma : float, optional
        As in `POLAStream`; a parameter of the kernel that has this name goes into `kernel_params`.
    kernel_params : dict, optional
        Parameters of the kernel, for example ``{"gamma": 0.1}``.

    Raises
    ------
    ValueError
        If the kernel is unknown or a parameter is out of range.

    Examples
    --------
    >>> import sdpmetric as sm
    >>> X, y = sm.datasets.load("iris")
    >>> pairs, similar = sm.constraints.pairs(y, 30)
    >>> stream = sm.KernelPOLAStream(4, "rbf").partial_fit(X, pairs, similar)
    >>> stream.n_pairs
    60
    """

    def __init__(
        self,
        n_features: int,
        kernel: Kernel = "rbf",
        initial_threshold: float = 1.0,
        gamma: float | None = None,
        kernel_params: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__(n_features, initial_threshold, gamma)
        self.kernel = KernelFunction.of(kernel, kernel_params)
        self._support = np.zeros((0, 2, self.n_features))
        self._R = np.zeros((0, 0))

    @property
    def support(self) -> FloatArray:
        """The pairs of examples whose differences are the basis, (r, 2, d)."""
        return self._support[: self._rank]

    def expansion(self) -> FloatArray:
        """The matrix C of ``A = sum_st C_st v_s v_t^T`` over the differences of the support, (r, r)."""
        R, A = self._R[: self._rank, : self._rank], self.metric
        half = scipy.linalg.solve_triangular(R, A, lower=True, trans="T")
        C: FloatArray = scipy.linalg.solve_triangular(R, half.T, lower=True, trans="T")
        return C

    def _take(self, X: NDArray[np.floating], pairs: NDArray[np.int32], similar: NDArray[np.bool_]) -> FloatArray:
        losses = np.zeros(len(pairs))
        for begin in range(0, len(pairs), BLOCK):
            block = slice(begin, begin + BLOCK)
            rows, local = np.unique(pairs[block], return_inverse=True)
            Z = np.asarray(X[rows], dtype=np.float64)
            G = self.kernel(Z, Z)
            check_symmetric(G, loops.INDEFINITE)
            if np.abs(np.diagonal(G)).max() > LONGEST**2:
                raise ValueError(
                    f"the kernel has values of {np.abs(np.diagonal(G)).max():.3g}, whose squares would overflow; "
                    "scale the features."
                )
            ordered = local.reshape(-1, 2).astype(np.int64)
            first, p = self._rank, len(ordered)
            self._grow(first + p)
            data, support = (G, self._inner(Z), ordered, similar[block]), np.zeros(p, dtype=np.int64)
            n_taken, self._rank = loops.run_kernel(
                data, self.gamma or 0.0, self._R, self._state, losses[block], support
            )
            self._support[first : self._rank] = Z[ordered[support[: self._rank - first]]]
            if n_taken < p:
                raise ValueError(
                    f"the kernel is not positive semidefinite: the difference of pair {begin + n_taken} would have a "
                    "negative squared length outside the span of the pairs before it, which were processed; use "
                    "another kernel."
                )
        return losses

    def _grow(self, size: int) -> None:
        """Make room for a basis of `size` differences, half as much again where there is too little."""
        A, numbers, counts, B = self._state
        if size > len(A):
            capacity = max(size, 3 * len(A) // 2)
            grown = [np.zeros((capacity, capacity)) for _ in range(3)]
            for copy, matrix in zip(grown, (A, self._R, B), strict=True):
                copy[: len(matrix), : len(matrix)] = matrix
            self._state, self._R = (grown[0], numbers, counts, grown[2]), grown[1]
            support = np.zeros((capacity, 2, self.n_features))
            support[: len(self._support)] = self._support
            self._support = support

    def _inner(self, X: FloatArray) -> FloatArray:
        """Inner products with the differences of the basis, (n, r)."""
        if not self._rank:
            return np.zeros((len(X), 0))
        return self.kernel(X, self.support[:, 0]) - self.kernel(X, self.support[:, 1])

    def _coordinates(self, X: NDArray[np.floating]) -> FloatArray:
        inner = self._inner(np.asarray(X, dtype=np.float64))
        if not self._rank:
            return inner
        R = self._R[: self._rank, : self._rank]
        coordinates: FloatArray = scipy.linalg.solve_triangular(R, inner.T, lower=True).T
        return coordinates
