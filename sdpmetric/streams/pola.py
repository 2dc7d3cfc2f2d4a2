"""Online POLA: a metric and a threshold from pairs that come one after another, and the same in a feature space."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS, pairwise_kernels

from sdpmetric import psd, validation
from sdpmetric.kernels import pola
from sdpmetric.problems.pairs import check_pairs, check_similar

FloatArray = NDArray[np.float64]
Kernel = str | Callable[[FloatArray, FloatArray], float]

# Differences longer than this are refused: the square of their squared length, times a loss as large, must be a number.
LONGEST = 1e30
# Pairs of a kernel stream that share one matrix of inner products.
BLOCK = 256


class _PairStream:
    """What online POLA keeps, whatever the coordinates: counts, losses, the threshold, and a metric."""

    def __init__(self, n_features: int, initial_threshold: float, gamma: float | None) -> None:
        if isinstance(n_features, bool) or not isinstance(n_features, int | np.integer) or n_features < 1:
            raise ValueError(f"n_features must be a positive integer, got {n_features!r}.")
        self.n_features = int(n_features)
        self.initial_threshold = validation.check_number("initial_threshold", initial_threshold, 1.0)
        self.gamma = None if gamma is None else validation.check_number("gamma", gamma, 0.0)
        if self.gamma == 0.0:
            raise ValueError("gamma must be positive; pass None for the separable version.")
        self._state = np.zeros(pola.N_STATE)
        self._state[pola.THRESHOLD] = self.initial_threshold
        self._state[pola.RADIUS] = 1.0
        self._counts = np.zeros(pola.N_COUNTS, dtype=np.int64)
        self._A, self._B = np.zeros((0, 0)), np.zeros((0, 0))
        self._rank = 0

    @property
    def metric(self) -> FloatArray:
        """The metric A, PSD; a copy."""
        A: FloatArray = psd.symmetrize(self._A[: self._rank, : self._rank])
        return A

    @property
    def components(self) -> FloatArray:
        """Factor of the metric, its rows orthogonal and the longest first; directions of rounding are left out."""
        return psd.factor(self.metric, tolerance=psd.RANK_TOLERANCE)

    @property
    def threshold(self) -> float:
        """``b``: pairs nearer than this are predicted to be similar."""
        return float(self._state[pola.THRESHOLD])

    @property
    def cumulative_loss(self) -> float:
        """Sum of the squared hinges ``[1 - y (b - v^T A v)]_+^2``, each before its update."""
        return float(self._state[pola.LOSS])

    @property
    def radius(self) -> float:
        """``R``, the largest ``||v||^4 + 1`` so far."""
        return float(self._state[pola.RADIUS])

    @property
    def n_pairs(self) -> int:
        """Pairs taken so far."""
        return int(self._counts[pola.ITEMS])

    @property
    def n_updates(self) -> int:
        """Pairs with a loss so far, each of which changed metric and threshold."""
        return int(self._counts[pola.UPDATES])

    @property
    def mistakes(self) -> int:
        """Pairs so far that the metric before them predicted wrongly; on the threshold is wrong."""
        return int(self._counts[pola.MISTAKES])

    def bound(self, objective: float) -> float:
        """What Theorem 1 allows `cumulative_loss` to be, given a comparator.

        Parameters
        ----------
        objective : float
            ``1/2 ||A*||^2 + 1/2 (b* - b_1)^2`` of a metric and threshold without loss on the stream; with `gamma`, of
            any metric and threshold, plus ``1 / (2 gamma)`` times the sum of its squared losses.
        """
        return 2.0 * (self.radius + (self.gamma or 0.0)) * objective

    def predict(self, X: ArrayLike, pairs: ArrayLike) -> NDArray[np.bool_]:
        """Whether pairs of rows of X are nearer than the threshold.

        Parameters
        ----------
        X : (n, d) array
        pairs : (p, 2) integer array

        Returns
        -------
        similar : (p,) bool array
        """
        return self.distances(X, pairs) < self.threshold

    def distances(self, X: ArrayLike, pairs: ArrayLike) -> FloatArray:
        """Squared distances of pairs of rows of X, (p,); arguments as in `predict`."""
        Z = self.transform(X)
        rows = check_pairs(pairs, len(Z))
        q: FloatArray = np.sum((Z[rows[:, 0]] - Z[rows[:, 1]]) ** 2, axis=1)
        return q

    def transform(self, X: ArrayLike) -> FloatArray:
        """Points whose squared distances are the metric's, (n, r).

        Parameters
        ----------
        X : (n, d) array
        """
        return self._coordinates(self._check_data(X)) @ self.components.T

    def update(self, u: ArrayLike, v: ArrayLike, similar: bool | int) -> float:
        """Take one pair.

        Parameters
        ----------
        u, v : (d,) arrays
            Two examples. Where they are equal nothing can be learned but the threshold.
        similar : bool
            Or +1 and -1.

        Returns
        -------
        loss : float
            The hinge before the update, 0 where nothing changed, at least 1 where the pair was mistaken.

        Raises
        ------
        ValueError
            If the examples are not finite, not of length d, or too far apart, or `similar` is something else.
        """
        points = []
        for name, given in (("u", u), ("v", v)):
            point = np.asarray(given, dtype=np.float64)
            if point.shape != (self.n_features,):
                raise ValueError(
                    f"{name} must be one example of {self.n_features} numbers, as in the stream so far, "
                    f"got shape {point.shape}."
                )
            points.append(point)
        X = np.stack(points)
        if not np.isfinite(X).all():
            raise ValueError("u and v must be finite numbers, got NaN or infinity.")
        pairs = np.array([[0, 1]], dtype=np.int32)
        return float(self._take(X, pairs, check_similar([similar], 1))[0])

    def _check_data(self, X: ArrayLike) -> NDArray[np.floating]:
        data = validation.check_data(X)
        if data.shape[1] != self.n_features:
            raise ValueError(f"X has {data.shape[1]} features, but this stream has {self.n_features}; pass those.")
        return data

    def _fit(self, X: ArrayLike, pairs: ArrayLike, similar: ArrayLike) -> None:
        data = self._check_data(X)
        rows = check_pairs(pairs, len(data))
        self._take(data, rows, check_similar(similar, len(rows)))

    def _take(self, X: NDArray[np.floating], pairs: NDArray[np.int32], similar: NDArray[np.bool_]) -> FloatArray:
        raise NotImplementedError

    def _coordinates(self, X: NDArray[np.floating]) -> FloatArray:
        raise NotImplementedError


class POLAStream(_PairStream):
    """Online POLA (Shalev-Shwartz, Singer and Ng 2004, Fig. 1) [SSN2004].

    For each pair with difference v and sign y, the metric A and the threshold b are projected onto
    ``y (b - v^T A v) >= 1`` and then onto PSD metrics and thresholds of at least 1. Data in any units are accepted, but
    they matter: features scaled so that squared distances are around 1 are a good start.

    Parameters
    ----------
    n_features : int
        d.
    initial_threshold : float, default 1
        ``b_1``, at least 1.
    gamma : float, optional
        For pairs that no metric separates: every step is shortened to ``loss / (||v||^4 + 1 + gamma)``. None: the
        separable version.

    Attributes
    ----------
    components : (r, d) array
    metric : (d, d) array
    threshold : float
    cumulative_loss : float
    radius : float
    n_pairs, n_updates, mistakes : int

    Raises
    ------
    ValueError
        If a parameter is out of range.
    """

    def __init__(self, n_features: int, initial_threshold: float = 1.0, gamma: float | None = None) -> None:
        super().__init__(n_features, initial_threshold, gamma)
        self._rank = self.n_features
        self._A, self._B = np.zeros((self._rank, self._rank)), np.zeros((self._rank, self._rank))

    def partial_fit(self, X: ArrayLike, pairs: ArrayLike, similar: ArrayLike) -> POLAStream:
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
            If the data are not finite or have another dimension, a pair is out of range or of a row with itself, or
            `similar` has other values or another length. Nothing was taken then.
        """
        self._fit(X, pairs, similar)
        return self

    def _take(self, X: NDArray[np.floating], pairs: NDArray[np.int32], similar: NDArray[np.bool_]) -> FloatArray:
        if float(np.abs(X).max()) > LONGEST / (2 * np.sqrt(self.n_features)):
            raise ValueError(
                f"an example has an entry of {np.abs(X).max():.3g}, and fourth powers of distances would overflow; "
                "scale the features, for example to [0, 1]."
            )
        losses, gamma = np.zeros(len(pairs)), self.gamma or 0.0
        state, counts = self._state, self._counts
        A, B = self._A, self._B
        pola.run(X, pairs, similar, 0, len(pairs), gamma, 0.0, A, B, state, counts, losses, np.zeros(len(pairs)))
        return losses

    def _coordinates(self, X: NDArray[np.floating]) -> FloatArray:
        return np.asarray(X, dtype=np.float64)


class KernelPOLAStream(_PairStream):
    """Online POLA in the feature space of a kernel (section 3.3 of the paper) [SSN2004].

    The metric is a combination of products of those differences that brought an update. It is kept in the coordinates
    of the basis that these span, which grows with them and stops growing where the feature space ends; the data enter
    through values of the kernel alone. Parts of a difference outside the basis that are shorter than 1e-5 of its points
    are dropped.

    Parameters
    ----------
    n_features : int
    kernel : str or callable, default "rbf"
        A name as in `sklearn.metrics.pairwise.pairwise_kernels`, or a function of two examples. It must be PSD.
    initial_threshold : float, default 1
    gamma : float, optional
        As in `POLAStream`; a parameter of the kernel that has this name goes into `kernel_params`.
    kernel_params : dict, optional
        Parameters of the kernel, for example ``{"gamma": 0.1}``.

    Attributes
    ----------
    components, metric : arrays
        In the coordinates of the basis; `transform` applies them.
    support : (r, 2, d) array
        The pairs of examples whose differences are the basis.
    threshold, cumulative_loss, radius, n_pairs, n_updates, mistakes
        As in `POLAStream`.

    Raises
    ------
    ValueError
        If the kernel is unknown or a parameter is out of range.
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
        if not callable(kernel) and kernel not in PAIRWISE_KERNEL_FUNCTIONS:
            known = ", ".join(sorted(PAIRWISE_KERNEL_FUNCTIONS))
            raise ValueError(f"kernel must be a function of two examples or one of {known}, got {kernel!r}.")
        self.kernel = kernel
        self.kernel_params = dict(kernel_params or {})
        self.support = np.zeros((0, 2, self.n_features))
        self._R = np.zeros((0, 0))

    def partial_fit(self, X: ArrayLike, pairs: ArrayLike, similar: ArrayLike) -> KernelPOLAStream:
        """Take pairs of rows of X in their order; arguments and errors as in `POLAStream.partial_fit`.

        Raises
        ------
        ValueError
            Also if a pair shows that the kernel is not PSD; the pairs before it were taken.
        """
        self._fit(X, pairs, similar)
        return self

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
            G = self._values(Z, Z)
            if np.abs(np.diagonal(G)).max() > LONGEST**2:
                raise ValueError(
                    f"the kernel has values of {np.abs(np.diagonal(G)).max():.3g}, whose squares would overflow; "
                    "scale the features."
                )
            ordered = local.reshape(-1, 2).astype(np.int64)
            first, p = self._rank, len(ordered)
            self._reserve(first + p)
            support = np.zeros(p, dtype=np.int64)
            taken, self._rank = pola.run_kernel(
                G,
                self._inner(Z),
                ordered,
                similar[block],
                first,
                self.gamma or 0.0,
                self._R,
                self._A,
                self._B,
                self._state,
                self._counts,
                losses[block],
                support,
            )
            self.support = np.concatenate([self.support, Z[ordered[support[: self._rank - first]]]])
            if taken < p:
                raise ValueError(
                    f"the kernel is not positive semidefinite: the difference of pair {begin + taken} would have a "
                    "negative squared length outside the span of the pairs before it, which were taken; use another "
                    "kernel."
                )
        return losses

    def _reserve(self, size: int) -> None:
        if size > len(self._A):
            capacity = max(size, 3 * len(self._A) // 2)
            for name in ("_A", "_B", "_R"):
                old = getattr(self, name)
                new = np.zeros((capacity, capacity))
                new[: len(old), : len(old)] = old
                setattr(self, name, new)

    def _values(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        K = np.asarray(pairwise_kernels(X, Y, metric=self.kernel, **self.kernel_params), dtype=np.float64)
        if not np.isfinite(K).all():
            raise ValueError("the kernel gave NaN or infinity; scale the features, or use another kernel.")
        if X is Y and np.abs(K - K.T).max() > pola.INDEFINITE * np.abs(K).max():
            raise ValueError("the kernel is not symmetric: k(x, x') differs from k(x', x); use one that is.")
        return np.ascontiguousarray(K)

    def _inner(self, X: FloatArray) -> FloatArray:
        """Inner products with the differences of the basis, (n, r)."""
        if not self._rank:
            return np.zeros((len(X), 0))
        return self._values(X, self.support[:, 0]) - self._values(X, self.support[:, 1])

    def _coordinates(self, X: NDArray[np.floating]) -> FloatArray:
        inner = self._inner(np.asarray(X, dtype=np.float64))
        if not self._rank:
            return inner
        R = self._R[: self._rank, : self._rank]
        coordinates: FloatArray = scipy.linalg.solve_triangular(R, inner.T, lower=True).T
        return coordinates
