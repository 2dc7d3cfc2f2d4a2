"""Online POLA: a metric and a threshold from pairs that come one after another, of features or of kernel values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Self

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.core.kernels import Kernel, KernelFunction, check_symmetric
from sdpmetric.core.pairs import check_pairs, check_similar
from sdpmetric.linalg import psd
from sdpmetric.pola import loops

# Longer differences raise an error, so the loss times the square of their squared length does not overflow.
LONGEST = math.sqrt(validation.RANGES.largest)


class PairStream:
    """The state of online POLA in any coordinates: counts, losses, the threshold, and a metric."""

    def __init__(self, n_features: int, initial_threshold: float, gamma: float | None) -> None:
        self.n_features = validation.check_integer("n_features", n_features)
        self.initial_threshold = validation.check_number("initial_threshold", initial_threshold, 1.0)
        remedy = "pass None for the separable version"
        self.gamma = None if gamma is None else validation.check_positive("gamma", gamma, remedy)
        self._state = loops.new_state(0, self.initial_threshold)
        self._rank = 0

    @property
    def metric(self) -> FloatArray:
        """The metric A, PSD; a copy."""
        A: FloatArray = psd.symmetrize(self._state.metric[: self._rank, : self._rank])
        return A

    @property
    def components(self) -> FloatArray:
        """Factor of the metric with orthogonal rows, the longest first, without rows that are rounding errors."""
        return psd.factor(self.metric, tolerance=psd.RANK_TOLERANCE)

    @property
    def threshold(self) -> float:
        """``b``: pairs nearer than this are predicted to be similar."""
        return float(self._state.totals[loops.THRESHOLD])

    @property
    def cumulative_loss(self) -> float:
        """Sum of the squared hinges ``[1 - y (b - v^T A v)]_+^2``, each before its update."""
        return float(self._state.totals[loops.LOSS])

    @property
    def radius(self) -> float:
        """``R``, the largest ``||v||^4 + 1`` so far."""
        return float(self._state.totals[loops.RADIUS])

    @property
    def n_items(self) -> int:
        """Pairs taken so far."""
        return int(self._state.totals[loops.ITEMS])

    @property
    def n_updates(self) -> int:
        """Number of pairs with a loss so far; each changed metric and threshold."""
        return int(self._state.totals[loops.UPDATES])

    @property
    def mistakes(self) -> int:
        """Pairs so far that were predicted wrongly before their update; a distance at the threshold is wrong."""
        return int(self._state.totals[loops.MISTAKES])

    def bound(self, objective: float) -> float:
        """Return the bound of Theorem 1 on `cumulative_loss`, given a comparator.

        Parameters
        ----------
        objective : float
            ``1/2 ||A*||^2 + 1/2 (b* - b_1)^2`` of a metric and threshold without loss on the stream; with `gamma`, of
            any metric and threshold, plus ``1 / (2 gamma)`` times the sum of its squared losses.
        """
        return 2.0 * (self.radius + (self.gamma or 0.0)) * objective

    def predict(self, X: ArrayLike, pairs: ArrayLike) -> NDArray[np.bool_]:
        """Return whether pairs (p, 2) of rows of X are nearer than the threshold, (p,)."""
        return self.distances(X, pairs) < self.threshold

    def distances(self, X: ArrayLike, pairs: ArrayLike) -> FloatArray:
        """Return squared distances of pairs of rows of X, (p,); arguments as in `predict`."""
        Z = self.transform(X)
        rows = check_pairs(pairs, len(Z), required=True)
        q: FloatArray = np.sum((Z[rows[:, 0]] - Z[rows[:, 1]]) ** 2, axis=1)
        return q

    def transform(self, X: ArrayLike) -> FloatArray:
        """Return points with the metric's squared distances, (n, r)."""
        return self._coordinates(self._check_data(X)) @ self.components.T

    def update(self, u: ArrayLike, v: ArrayLike, similar: bool | int) -> float:
        """Take one pair.

        Parameters
        ----------
        u, v : (d,) arrays
            Two examples. If they are equal, only the threshold changes.
        similar : bool
            Or +1 and -1.

        Returns
        -------
        loss : float
            The hinge before the update: 0 if nothing changed, at least 1 if the pair was predicted wrongly.

        Raises
        ------
        ValueError
            If the examples are not of length d, or too far apart, or `similar` has another value.
        """
        X = np.stack([validation.check_vector(name, x, self.n_features) for name, x in (("u", u), ("v", v))])
        pairs = np.array([[0, 1]], dtype=np.int32)
        return float(self._take(X, pairs, check_similar([similar], 1))[0])

    def partial_fit(self, X: ArrayLike, pairs: ArrayLike, similar: ArrayLike) -> Self:
        """Take pairs of rows of X in their order.

        Parameters
        ----------
        X : (n, d) array
        pairs : (p, 2) integer array
            Row numbers of X.
        similar : (p,) array
            bool, or +1 and -1.

        Raises
        ------
        ValueError
            If the data have another dimension, a pair is out of range or of a row with itself, or
            `similar` has other values or another length; nothing was taken then. Also if a pair shows that a kernel is
            not PSD; the pairs before it were taken.
        """
        data = self._check_data(X)
        rows = check_pairs(pairs, len(data), required=True)
        self._take(data, rows, check_similar(similar, len(rows)))
        return self

    def _check_data(self, X: ArrayLike) -> NDArray[np.floating]:
        data = validation.check_data(X)
        validation.check_width("X", data, self.n_features, "this stream")
        return data

    def _take(self, X: NDArray[np.floating], pairs: NDArray[np.int32], similar: NDArray[np.bool_]) -> FloatArray:
        """Take checked pairs; their losses."""
        raise NotImplementedError

    def _coordinates(self, X: NDArray[np.floating]) -> FloatArray:
        """Return points in the coordinates of the metric, (n, r)."""
        raise NotImplementedError


class POLAStream(PairStream):
    """Online POLA (Shalev-Shwartz, Singer and Ng 2004, Fig. 1) [SSN2004].

    For each pair with difference v and sign y, the metric A and the threshold b are projected onto ``y (b - v^T A v) >=
    1`` and then onto PSD metrics and thresholds of at least 1. If some metric and threshold have no loss on the stream,
    the iterates stay bounded (Lemma 3; docs/methods.md has the form that holds). The units of the features matter:
    scale them so that squared distances are around 1.

    Parameters
    ----------
    n_features : int
        d.
    initial_threshold : float, default 1
        ``b_1``, at least 1. Fig. 1 of the paper allows any real number; below 1 the threshold could stay below 1
        (docs/errata.md).
    gamma : float, optional
        For pairs that no metric separates: every step is shortened to ``loss / (||v||^4 + 1 + gamma)``. Default:
        the separable version.

    See Also
    --------
    KernelPOLAStream, POLAProblem, regret

    Examples
    --------
    >>> import sdpmetric as sm
    >>> X, y = sm.datasets.load("iris")
    >>> pairs, similar = sm.constraints.pairs(y, 30)
    >>> stream = sm.POLAStream(4).partial_fit(X, pairs, similar)
    >>> stream.n_items, stream.metric.shape
    (60, (4, 4))
    """

    def __init__(self, n_features: int, initial_threshold: float = 1.0, gamma: float | None = None) -> None:
        super().__init__(n_features, initial_threshold, gamma)
        self._rank = self.n_features
        self._state = loops.new_state(self.n_features, self.initial_threshold)

    def _take(self, X: NDArray[np.floating], pairs: NDArray[np.int32], similar: NDArray[np.bool_]) -> FloatArray:
        validation.check_entries("an example", X, LONGEST / (2 * np.sqrt(self.n_features)))
        losses, alphas = np.zeros((2, len(pairs)))
        data = np.asarray(X, dtype=np.float64), pairs, similar
        loops.run(data, 0, len(pairs), self.gamma or 0.0, 0.0, self._state, losses, alphas)
        return losses

    def _coordinates(self, X: NDArray[np.floating]) -> FloatArray:
        return np.asarray(X, dtype=np.float64)


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
        """The pairs of examples that have the basis as differences, (r, 2, d)."""
        return self._support[: self._rank]

    def expansion(self) -> FloatArray:
        """Return the matrix C of ``A = sum_st C_st v_s v_t^T`` over the differences of the support, (r, r)."""
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
            check_symmetric(G)
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
        """Make room for a basis of `size` differences, half as much again if there is too little."""
        if (missing := size - len(self._R)) > 0:
            missing = max(missing, len(self._R) // 2)
            square = ((0, missing), (0, missing))
            metric, inverse = np.pad(self._state.metric, square), np.pad(self._state.inverse, square)
            self._state, self._R = loops.State(metric, inverse, self._state.totals), np.pad(self._R, square)
            self._support = np.pad(self._support, ((0, missing), (0, 0), (0, 0)))

    def _inner(self, X: FloatArray) -> FloatArray:
        """Return the inner products with the differences of the basis, (n, r)."""
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
