"""Covariance, RCA and LFDA as estimators: closed forms on SciPy, with no solver and no gap to prove.

Both need coordinates that make the covariance of the data plus the ridge the identity: there a feature with a tiny
spread has numbers like any other's, and the ranks below are decided without regard to units.
"""

from __future__ import annotations

from dataclasses import field
from typing import Literal, Self

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import cdist
from sklearn.utils import Tags, gen_batches

from sdpmetric.arrays import ENTRIES_AT_ONCE, BoolArray, FloatArray
from sdpmetric.core import validation
from sdpmetric.core.named import SampleSize, caution
from sdpmetric.core.pairs import check_labeled_pairs, drawn_chunks
from sdpmetric.core.run import in_dtype
from sdpmetric.core.sample_weight import check_sample_weight
from sdpmetric.core.status import UselessOptimumWarning, warn
from sdpmetric.estimators import base
from sdpmetric.estimators.base import MetricEstimator
from sdpmetric.estimators.data import Count, Data, Labels, Ridge, Seed, Weights, estimator, weighed
from sdpmetric.linalg import psd

Embedding = Literal["weighted", "orthonormalized", "plain"]


def centered(X: Data) -> tuple[FloatArray, BoolArray]:
    """Return the features that vary, minus their means, and which these are; constant features are found exactly."""
    differences = np.asarray(X, dtype=np.float64) - np.asarray(X[0], dtype=np.float64)
    varying: BoolArray = np.any(differences, axis=0)
    if not varying.any():
        raise ValueError(f"all {len(X)} examples are equal; pass examples that differ.")
    differences = differences[:, varying]
    return differences - differences.mean(axis=0), varying


def basis_with_ridge(D: FloatArray, basis: FloatArray, inverse: FloatArray, ridge: float) -> FloatArray:
    """Return coordinates (d, p) that make ``D^T D + ridge I`` a multiple of the identity, on the row space of D.

    `basis` and `inverse` are those of `psd.data_basis`. Its coordinates stretch a direction of spread 1e-8 by 1e8,
    and with it a ridge by 1e16, which would hide everything else.
    """
    if not ridge:
        return basis
    d = D.shape[1]
    span = np.eye(d) if len(inverse) == d else np.linalg.qr(inverse.T)[0]
    return span @ psd.data_basis(np.concatenate([D @ span, np.sqrt(ridge) * np.eye(span.shape[1])]))[0]


def advice_on_ridge(ridge: float) -> str:
    """Return the advice for data that vary although their classes do not."""
    size = f"a larger ridge than {ridge:.3g}" if ridge else "a positive ridge"
    return f"pass {size}, or reduce the dimension first, for example by PCA."


class ClosedForm(MetricEstimator):
    """The base: keeps components, and warns if examples are too few."""

    def _keep_formula(
        self, components: FloatArray, varying: BoolArray, ridge: float, sample_size: SampleSize, X: Data
    ) -> Self:
        L = np.zeros((len(components), X.shape[1]))
        L[:, varying] = components
        self.components_ = self._padded(in_dtype(L, X.dtype))
        self.ridge_ = ridge
        if words := caution(None, [sample_size], ridge):
            warn(f"{type(self).__name__}: {words}", UselessOptimumWarning)
        return self

    def _whiten(self, X: Data, chunks: NDArray[np.integer], ridge: Ridge, weights: Weights) -> int:
        """Whiten within chunklets; return the rank of their covariance C.

        With ``R^T R = C + ridge I`` in the coordinates T, and ``R = U diag(s) V^T``, the components are
        ``diag(1 / s) V^T T^T``.
        """
        data = validation.check_examples(X)
        w = np.ones(len(data)) if weights is None else weights
        rows = np.flatnonzero((chunks >= 0) & (w > 0.0))
        _, index, sizes = np.unique(chunks[rows], return_inverse=True, return_counts=True)
        rows = rows[sizes[index] > 1]
        D, varying = centered(data)
        shares = w[rows] / w[rows].sum()
        index = np.unique(chunks[rows], return_inverse=True)[1]
        sums = sp.csr_array((shares, (index, np.arange(len(rows)))), shape=(index.max(initial=-1) + 1, len(rows)))
        means = sums @ D[rows] / sums.sum(axis=1)[:, None]
        deviations = np.sqrt(shares)[:, None] * (D[rows] - means[index])
        if not deviations.any():
            raise ValueError("no chunklet has two different members, so no covariance is known; pass larger chunklets.")
        n_varying = int(deviations.any(axis=0).sum())
        sample_size = SampleSize(len(rows), min(n_varying, len(rows)), lambda: float(np.sum(deviations**2)))
        number = sample_size.ridge(ridge)
        D /= np.sqrt(len(D))
        T = basis_with_ridge(D, *psd.data_basis(D), number)
        root = psd.triangle([np.concatenate([deviations @ T, np.sqrt(number) * T])])
        _, s, Vt = scipy.linalg.svd(root)
        rank = int(np.count_nonzero(s > psd.RANK_TOLERANCE * s[0]))
        if missing := len(Vt) - rank:
            raise ValueError(
                f"the data vary in {missing} directions in which no chunklet does, so no metric is optimal: "
                f"{advice_on_ridge(number)}"
            )
        self._keep_formula((T @ (Vt.T / s)).T, varying, number, sample_size, X)
        return rank


@estimator
class Covariance(ClosedForm):
    """The Mahalanobis distance of the data [M1936]: the inverse of their covariance, a baseline without labels.

    This is RCA with a single chunklet of all examples; the covariance is divided by n.

    Parameters
    ----------
    ridge : float or "auto", default 0
        Added to the diagonal of the covariance. "auto": ``(r / n)^2`` times the mean variance of a direction, for n
        examples that vary in r directions.

    Attributes
    ----------
    components_, metric_, ridge_, n_features_in_, feature_names_in_
        As in `LMNN`. A closed form has no gap to prove: there is no ``solution_``, ``relative_gap_`` or certificate.

    Warns
    -----
    UserWarning
        If the examples vary in fewer directions than there are features: then the metric is a pseudo-inverse, and
        differences along the other directions do not count.
    UselessOptimumWarning
        If the examples are too few for their dimension.
    """

    ridge: Ridge = field(default=0.0, kw_only=False)

    def fit(self, X: ArrayLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from examples.

        Parameters
        ----------
        X : (n, d) array or sparse matrix
        y : ignored
        sample_weight : (n,) array, optional
            Nonnegative: how often each example counts.
        """
        data = self._checked(X)
        weights, rows = weighed(sample_weight, len(data))
        chunks = np.zeros(len(data), dtype=np.int64)
        rank, d = self._whiten(data[rows], chunks[rows], self.ridge, weights), data.shape[1]
        if rank < d:
            warn(
                f"the examples vary in {rank} of {d} directions: the metric is a pseudo-inverse, and differences along "
                "the others do not count. Reduce the dimension, for example by PCA, or pass more examples.",
                UserWarning,
            )
        return self

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        return tags


@estimator
class RCA(ClosedForm):
    """Relevant component analysis (Bar-Hillel et al. 2005) [BHSW2005]: whitening within chunklets, in closed form.

    C is the weighted covariance of the members of all chunklets around the means of their chunklets, plus the ridge on
    the diagonal. ``metric_`` is ``C^-1``, the unique minimum of ``<C, M> - log det M``. Chunklets of one member have no
    effect. With a ridge the inverse is that on the span of the centered data.

    Parameters
    ----------
    ridge : float or "auto", default "auto"
        Added to the diagonal of the covariance within chunklets. "auto": ``(r / n)^2`` times the mean variance of a
        direction, for n members of chunklets that vary in r directions; see docs/useless_optima.md.
    n_chunks : int, optional
        With labels: how many chunklets are drawn within classes; default: every class is one.
    chunk_size : int, default 2
        Examples of each chunklet that is drawn.
    random_state : int, RandomState, Generator or None, default None
        Seed of the draw; None is 0.

    Attributes
    ----------
    components_, metric_, ridge_, n_features_in_, feature_names_in_
        As in `LMNN`. A closed form has no gap to prove: there is no ``solution_``, ``relative_gap_`` or certificate.
    """

    ridge: Ridge = "auto"
    n_chunks: Count | None = None
    chunk_size: Count = 2
    random_state: Seed = None
    fit_pairs = base.fit_pairs

    def _fit(self, X: Data, y: Labels, weights: Weights = None) -> Self:
        """Learn from the classes as chunklets, or from chunklets that are drawn within classes."""
        index = validation.check_labels(y, len(X))[1]
        drawn = None if self.n_chunks is None else drawn_chunks(index, self.n_chunks, self.chunk_size, self._seed())
        self._whiten(X, index if drawn is None else drawn, self.ridge, weights)
        return self

    def _fit_tuples(self, X: Data, tuples: ArrayLike, annotations: ArrayLike | None, state: object = None) -> Self:
        """Learn from chunklets of the examples that similar pairs connect; dissimilar pairs are not used."""
        rows, similar = check_labeled_pairs(tuples, np.asarray(annotations), len(X))
        first, second = rows[similar].T
        graph = sp.csr_array((np.ones(len(first)), (first, second)), shape=(len(X), len(X)))
        self._whiten(X, connected_components(graph, directed=False)[1], self.ridge, None)
        return self

    def fit_chunks(self, X: ArrayLike, chunks: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from chunklets, examples that are known to belong together.

        Parameters
        ----------
        X : (n, d) array
        chunks : (n,) integer array
            Number of each example's chunklet; -1 for none.
        sample_weight : (n,) array, optional
            Nonnegative: how often each example counts.

        Raises
        ------
        ValueError
            If `chunks` are no integers of at least -1, one for each example.
        """
        data = self._checked(X)
        try:
            numbers = np.asarray(chunks)
        except ValueError as error:
            raise ValueError(
                "chunks must be one integer for each example, the number of its chunklet or -1, got lists of unequal "
                "length: chunks = np.full(len(X), -1), then chunks[rows] = k for the row numbers of each list k."
            ) from error
        if numbers.shape != (len(data),) or numbers.dtype.kind not in "iu" or numbers.min() < -1:
            raise ValueError(
                f"chunks must be {len(data)} integers of at least -1, one for each example, got shape {numbers.shape} "
                f"and dtype {numbers.dtype}."
            )
        self._whiten(data, numbers.astype(np.int64), self.ridge, check_sample_weight(sample_weight, len(data)))
        return self


@estimator
class LFDA(ClosedForm):
    """Local Fisher discriminant analysis (Sugiyama 2007) [S2007]: an eigenproblem, solved in closed form.

    The eigenproblem, and what it maximizes: docs/methods.md.

    Parameters
    ----------
    n_components : int, optional
        Default: the number of features; components without a positive eigenvalue are 0.
    n_neighbors : int, default 7
        An example's scale is its distance to the neighbor of this rank in its class.
    embedding : {"weighted", "orthonormalized", "plain"}, default "weighted"
        Scale of the components: eigenvectors times the roots of their eigenvalues, an orthonormal basis of their
        span, or the eigenvectors.
    ridge : float or "auto", default "auto"
        Added to the diagonal of the local scatter within classes. "auto": ``(r / n)^2`` times the mean of that scatter
        over directions, for n examples that vary in r features; see docs/useless_optima.md.

    Attributes
    ----------
    components_, metric_, ridge_, n_features_in_, feature_names_in_
        As in `LMNN`. A closed form has no gap to prove: there is no ``solution_``, ``relative_gap_`` or certificate.
    """

    n_components: Count | None = field(default=None, kw_only=False)
    n_neighbors: Count = 7
    embedding: Embedding = "weighted"
    ridge: Ridge = "auto"

    def _fit(self, X: Data, y: Labels, weights: Weights = None) -> Self:
        """Return the leading eigenvectors of ``B v = lambda (W + ridge I) v``."""
        data, index = validation.check_examples(X), validation.check_labels(y, len(X))[1]
        D, varying = centered(data)
        n, r = len(D), self._rows(X.shape[1])
        basis, inverse = psd.data_basis(D)
        v = np.ones(n) if weights is None else weights
        between_class, within_class = scatters(D, D @ basis, index, v, self.n_neighbors)
        sample_size = SampleSize(n, min(D.shape[1], n - 1), lambda: float(np.sum(inverse * (within_class @ inverse))))
        ridge = sample_size.ridge(self.ridge)
        T = basis_with_ridge(D, basis, inverse, ridge)
        whitened_map = inverse @ T
        B, W = (psd.symmetrize(whitened_map.T @ A @ whitened_map) for A in (between_class, within_class))
        W += ridge * (T.T @ T)
        spectrum = scipy.linalg.eigvalsh(W)
        # Eigenvalues of the scatter within classes up to this share of the largest one count as 0.
        if missing := int(np.count_nonzero(spectrum <= 1e-12 * spectrum[-1])):
            raise ValueError(
                f"the data vary in {missing} directions in which no class does, so the maximum is infinite: "
                f"{advice_on_ridge(ridge)}"
            )
        values, vectors = scipy.linalg.eigh(B, W)
        values, vectors = values[::-1][:r], vectors[:, ::-1][:, :r]
        L = (T @ vectors[:, values > 0.0]).T
        if self.embedding == "weighted":
            L *= np.sqrt(values[values > 0.0])[:, None]
        elif self.embedding == "orthonormalized":
            L = np.linalg.qr(L.T)[0].T
        return self._keep_formula(L, varying, ridge, sample_size, X)


def scatters(
    X: FloatArray, Z: FloatArray, y: NDArray[np.integer], v: FloatArray, n_neighbors: int
) -> tuple[FloatArray, FloatArray]:
    """Return LFDA's scatter matrices between and within classes of Z, with the affinities of X and weights v.

    Pairs of different classes with weights ``v_i v_j / n`` have the scatter of all examples, less ``n_c / n`` times
    that of each class.
    """
    n = v.sum()
    between_class, within_class = scatter(Z, v), np.zeros((Z.shape[1],) * 2)
    for c in range(int(y.max()) + 1):
        members = y == c
        n_c, local = v[members].sum(), local_scatter(X[members], Z[members], v[members], n_neighbors)
        between_class += (1.0 / n - 1.0 / n_c) * local - n_c / n * scatter(Z[members], v[members])
        within_class += local / n_c
    return between_class, within_class


def scatter(Z: FloatArray, v: FloatArray) -> FloatArray:
    """Return ``sum_i v_i (z_i - m)(z_i - m)^T`` around the weighted mean m."""
    D = Z - np.average(Z, axis=0, weights=v)
    return np.asarray((D.T * v) @ D)


def local_scatter(X: FloatArray, Z: FloatArray, v: FloatArray, n_neighbors: int) -> FloatArray:
    """Return ``1/2 sum_ij v_i v_j A_ij (z_i - z_j)(z_i - z_j)^T`` with ``A_ij = exp(-|x_i - x_j|^2 / (s_i s_j))``.

    The scale ``s_i`` is the distance to the k-th nearest neighbor, 0 for an example with k copies: then ``A_ij`` is 0.
    With S the sums of the rows of the weights w, the sum is ``Z^T (diag(S) - w) Z``.
    """
    k = min(n_neighbors, len(X) - 1)
    blocks = list(gen_batches(len(X), max(1, ENTRIES_AT_ONCE // len(X))))
    s = np.concatenate([np.partition(cdist(X[rows], X), k, axis=1)[:, k] for rows in blocks])
    Z, total = Z - Z.mean(axis=0), np.zeros((Z.shape[1],) * 2)
    for rows in blocks:
        distances = cdist(X[rows], X)
        with np.errstate(divide="ignore", invalid="ignore"):
            exponents = (distances / s[rows, None]) * (distances / s)
        w = v[rows, None] * v * np.nan_to_num(np.exp(-exponents))
        total += (Z[rows].T * w.sum(axis=1)) @ Z[rows] - Z[rows].T @ (w @ Z)
    return psd.symmetrize(total)
