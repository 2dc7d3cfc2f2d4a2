"""Relevant component analysis (RCA): the statement, its objective, and its certificate.

It is no sum of the terms there are: `terms.LogDet` adds the trace, and from a computed inverse of the covariance it
proves nothing about the covariance itself. As pairs of a `terms.Pull`, chunklets grow with the square of their size:
digits have 160,596 in place of 1,797 members, and a certificate takes 62 ms in place of 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.csgraph import connected_components

from sdpmetric.bounds.spans import dimension
from sdpmetric.bounds.well_posed import Ridge, SampleSize, caution
from sdpmetric.core import validation
from sdpmetric.core.certificate import Certificate, DualityCertificate, Multipliers
from sdpmetric.core.pairs import check_labeled_pairs, drawn_chunks
from sdpmetric.core.problem import Problem
from sdpmetric.core.proof import Proof
from sdpmetric.core.sample_weight import check_sample_weight
from sdpmetric.linalg import psd
from sdpmetric.linalg.rigorous import (
    Form,
    Images,
    U,
    above,
    gamma,
    log_det,
    log_det_balanced,
    log_det_gram,
    norms_above,
    product_above,
    products_above,
    squares_above,
    sum_above,
    sum_below,
    trace_above,
)
from sdpmetric.problems import proofs

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, init=False, eq=False, repr=False)
class RCAProblem(Problem):
    """RCA as a convex program (Bar-Hillel, Hertz, Shental and Weinshall 2005) [BHSW2005].

    With C the weighted covariance of the members of all chunklets around the means of their chunklets, minimize over
    positive definite matrices M::

        <C, M> - log det(C M)

    which is, but for a constant, minus twice the mean log-likelihood of chunklets that are Gaussian with the
    covariance ``M^-1`` in common. The optimum is the whitening ``M = C^-1``, and the objective there is the dimension.

    Parameters
    ----------
    X : (n, d) array
        Finite numbers; float32 stays float32, everything else becomes float64.
    chunks : (n,) integer array
        Chunklet of each example, a group of examples known to belong together; -1: none. A chunklet of one member has
        no effect.
    ridge : float or "auto", default 0
        Added to the diagonal of C. "auto": ``(r / n)^2`` times the mean variance of a direction, for n members of
        chunklets that vary in r directions. With a ridge ``log det`` is of the r largest eigenvalues of ``C M``, for
        data that vary in r directions by more than 1e-10 of the most, in units of their standard deviations; r is in
        `describe` if it is less than the number of features that vary.
    sample_weight : (n,) array, optional
        Nonnegative: how often each example counts, in the means too, so whole weights are repeated rows. Default 1.

    Raises
    ------
    ValueError
        If the data are not finite, chunks are not one integer of at least -1 per example, no chunklet has two
        different members, or the data vary in a direction in which no chunklet does, so there is no optimum.
    """

    statement: ClassVar[str] = "rca"
    weights: ClassVar[tuple[str, ...]] = ("ridge",)

    X: NDArray[np.floating]
    chunks: NDArray[np.int64]
    ridge: float
    sample_weight: FloatArray | None

    def __init__(
        self, X: ArrayLike, chunks: ArrayLike, ridge: Ridge = 0.0, sample_weight: ArrayLike | None = None
    ) -> None:
        data = validation.check_examples(X)
        given = np.asarray(chunks)
        if given.shape != (len(data),) or given.dtype.kind not in "iu" or given.min() < -1:
            raise ValueError(
                f"chunks must be {len(data)} integers of at least -1, one for each example, got shape {given.shape} "
                f"and dtype {given.dtype}."
            )
        weights = check_sample_weight(sample_weight, len(data))
        self._assign(X=data, chunks=given.astype(np.int64), sample_weight=weights)
        self._assign(ridge=self.sample_size.ridge(ridge))
        if not self.coordinates.rank or not len(self.members[0]):
            raise ValueError("no chunklet has two different members, so no covariance is known; pass larger chunklets.")
        if missing := self.coordinates.null.shape[1]:
            raise ValueError(
                f"the data vary in {missing} directions in which no chunklet does, so no metric is optimal: "
                "pass a positive ridge, or reduce the dimension first, for example by PCA."
            )

    @classmethod
    def from_labels(
        cls,
        X: ArrayLike,
        y: ArrayLike,
        ridge: Ridge = 0.0,
        *,
        n_chunks: int | None = None,
        chunk_size: int = 2,
        sample_weight: ArrayLike | None = None,
        random_state: int | None = None,
    ) -> RCAProblem:
        """State RCA for labeled data: every class is a chunklet, or chunklets are drawn within classes.

        Parameters
        ----------
        X : (n, d) array
        y : (n,) array
            Class labels of any kind; at least two classes.
        ridge : float or "auto", default 0
        n_chunks : int, optional
            Chunklets that are drawn; default: every class is one.
        chunk_size : int, default 2
            Examples of each chunklet that is drawn.
        sample_weight : (n,) array, optional
            As in the constructor.
        random_state : int, optional
            Seed of the draw; default 0.
        """
        data = validation.check_examples(X)
        _, index = validation.check_labels(y, len(data))
        chunks = index if n_chunks is None else drawn_chunks(index, n_chunks, chunk_size, random_state)
        return cls(data, chunks, ridge, sample_weight)

    @classmethod
    def from_pairs(cls, X: ArrayLike, pairs: ArrayLike, similar: ArrayLike, ridge: Ridge = 0.0) -> RCAProblem:
        """State RCA for pairs: examples that similar pairs connect are a chunklet; dissimilar pairs are not used.

        Parameters
        ----------
        X : (n, d) array
        pairs : (p, 2) integer array
            Row numbers of X.
        similar : (p,) array
            bool, or +1 for similar and -1 for dissimilar.
        ridge : float or "auto", default 0
        """
        data = validation.check_examples(X)
        rows, flags = check_labeled_pairs(pairs, similar, len(data))
        first, second = rows[flags].T
        graph = sp.csr_array((np.ones(len(first)), (first, second)), shape=(len(data), len(data)))
        return cls(data, connected_components(graph, directed=False)[1].astype(np.int64), ridge)

    # -- the statement ------------------------------------------------------------------------------------------

    def describe(self) -> str:
        """Say in one sentence what is minimized, over how much data."""
        sizes = np.unique(self.chunks[self.chunks >= 0], return_counts=True)[1]
        rank, varying = self.coordinates.rank, int(self._varying.sum())
        ridge = f", ridge {self.ridge:g}" if self.ridge else ""
        ridge += f", {rank} largest eigenvalues of {varying}" if self.ridge and rank < varying else ""
        return (
            f"RCA (Bar-Hillel et al. 2005): {self.X.shape[0]:,} examples, {self.X.shape[1]} features, "
            f"{int((sizes > 1).sum()):,} chunklets with {int(sizes[sizes > 1].sum()):,} members{ridge}"
        )

    @property
    def sample_size(self) -> SampleSize:
        """How many examples the covariance was learned from, and in how many directions they vary."""
        parts = self.parts
        return SampleSize(len(parts), min(int(parts.any(axis=0).sum()), len(parts)), lambda: float(np.sum(parts**2)))

    def caution(self, components: NDArray[np.floating], certificate: Certificate) -> str | None:
        """See `Problem.caution`: also too few examples."""
        return super().caution(components, certificate) or caution(certificate, [self.sample_size], self.ridge)

    @cached_property
    def root(self) -> FloatArray:
        """A root of C, (m, d): ``root.T @ root`` is C."""
        return np.concatenate([self.parts, math.sqrt(self.ridge) * np.eye(self.X.shape[1])])

    @cached_property
    def parts(self) -> FloatArray:
        """Members minus the means of their chunklets, times the roots of their shares, (m, d)."""
        rows, number, shares = self.members
        X = np.asarray(self.X, dtype=np.float64)
        X = (X - X.mean(axis=0))[rows]
        sums = sp.csr_array((shares, (number, np.arange(len(rows)))), shape=(number.max(initial=-1) + 1, len(rows)))
        means = sums @ X / sums.sum(axis=1)[:, None]
        return np.asarray(np.sqrt(shares)[:, None] * (X - means[number]))

    @cached_property
    def members(self) -> tuple[NDArray[np.intp], NDArray[np.intp], FloatArray]:
        """Examples in chunklets of several, the numbers of these chunklets, and their shares of the whole weight."""
        w = np.ones(len(self.X)) if self.sample_weight is None else self.sample_weight
        rows = np.flatnonzero((self.chunks >= 0) & (w > 0.0))
        _, index, sizes = np.unique(self.chunks[rows], return_inverse=True, return_counts=True)
        rows = rows[sizes[index] > 1]
        number = np.unique(self.chunks[rows], return_inverse=True)[1]
        return rows, number, w[rows] / math.fsum(w[rows])

    @cached_property
    def coordinates(self) -> psd.Whitening:
        """Coordinates in which C is the identity on its range."""
        X = np.asarray(self.X, dtype=np.float64)
        basis, inverse = psd.data_basis(X - X.mean(axis=0))
        return psd.whiten(basis, inverse, psd.triangle([self.root @ basis]))

    def objective(self, components: ArrayLike | None = None, *, metric: ArrayLike | None = None) -> float:
        """``<C, M> - log det(C M)``, on the directions in which data vary; infinite for a metric singular there."""
        L, _ = validation.check_point(components, metric, self.X.shape[1])
        if self._dependence is not None:
            return math.inf
        rank = self.coordinates.rank
        sigma: FloatArray = np.asarray(np.linalg.svd(L @ self.coordinates.inverse[:rank].T, compute_uv=False))
        if len(sigma) < rank or not (sigma > 0).all():
            return math.inf
        return float(np.sum(sigma**2 - 2.0 * np.log(sigma)))

    def closed_form(self) -> FloatArray:
        """The optimum in closed form: components that whiten the chunklets, (rank, d)."""
        return np.ascontiguousarray(self.coordinates.range.T)

    def certify(
        self, components: ArrayLike | None = None, *, metric: ArrayLike | None = None, dual: Multipliers | None = None
    ) -> DualityCertificate:
        """Certify any point.

        With ``s_k > 0`` the eigenvalues of ``C M`` the objective is ``sum_k (s_k - log s_k)``, and ``s - log s >= 1``:
        the dimension of the data is below every objective, whatever C is. The objective is rounded upward. It is
        infinite where features depend on each other up to rounding and not exactly, unless there is a ridge.
        """
        L, primal_residual = validation.check_point(components, metric, self.X.shape[1])
        given = validation.given_metric(metric, primal_residual)
        objective = self._highest(L, given) if self._dependence is None else math.inf
        rank = self.coordinates.rank if self.ridge or self._range_form.least > 0.0 else 0
        return DualityCertificate(
            objective=objective,
            lower_bound=float(rank),
            primal_residual=primal_residual,
            program="RCA",
            rigor="float",
            weakness=self._dependence,
        )

    def proof(self, components: FloatArray, dual: Multipliers | None) -> Proof:
        """What a point proves, for `Solution.save_proof`."""
        return proofs.rca(self, components)

    # -- bounds in floating point -------------------------------------------------------------------------------------

    @cached_property
    def _varying(self) -> NDArray[np.bool_]:
        """Features that are not constant."""
        return np.asarray(np.ptp(self.X, axis=0) > 0.0)

    @cached_property
    def _dependence(self) -> str | None:
        """Why C is not known on all directions in which data vary, decided without rounding; None where it is."""
        rank, others = self.coordinates.rank, np.arange(1, len(self.X))
        if self.ridge or dimension(self.X, others, np.zeros_like(others), rank) <= rank:
            return None
        return (
            f"the data vary in {rank} directions up to rounding, and are not proven to vary in no others, so the "
            "objective is infinite; pass a positive ridge, or leave out features that follow from others"
        )

    @cached_property
    def _deviations(self) -> tuple[NDArray[np.float64], NDArray[np.int32], NDArray[np.int32]]:
        """Examples and, below them, means of chunklets rounded twice; members of chunklets and rows of their means."""
        members, number, _ = self.members
        X = np.asarray(self.X, dtype=np.float64)
        groups = [members[number == k] for k in range(number.max() + 1)]
        if self.sample_weight is None:
            means = [[math.fsum(feature) / len(group) for feature in X[group].T.tolist()] for group in groups]
        else:
            means = [_mean(X[group], self.sample_weight[group]) for group in groups]
        return np.concatenate([X, means]), members.astype(np.int32), (len(X) + number).astype(np.int32)

    def _images(self, T: FloatArray, metric: FloatArray | None = None) -> Images:
        X, used = self._deviations[0], self._varying
        meant = None if metric is None else np.where(used[:, None] & used, metric, 0.0)
        return Images.of(X, X - X.mean(axis=0), np.ascontiguousarray(np.where(used[:, None], T, 0.0)), metric=meant)

    def _form(self, T: FloatArray) -> Form:
        """``T^T C T``.

        Deviations are taken from computed means m. With the exact means, ``sum_i (x_i - m)(x_i - m)^T`` is less by the
        weight of the members times the square of the difference of the means.
        """
        X, members, means = self._deviations
        images, shares = self._images(T), self.members[2]
        form = images.form(members, means, shares, roundings=2)
        off = norms_above(3.0 * U * np.abs(X[means]) @ np.abs(images.map))
        form = replace(form, error=above(form.error + float(shares @ off**2), len(members) + 10))
        if not self.ridge:
            return form
        R = images.map
        size = above(product_above(self.ridge, squares_above(R)), 4)
        return form + Form(self.ridge * (R.T @ R), above(gamma(len(R) + 4) * size), size)

    @cached_property
    def _range_form(self) -> Form:
        """C in the coordinates of its range."""
        return self._form(self.coordinates.range)

    @cached_property
    def _volume(self) -> float:
        """A float not above ``log det C``, on the features that vary; minus infinity where nothing is proven."""
        low, scale = self._range_form.log_det[0], log_det_gram(self.coordinates.range[self._varying])[1]
        return sum_below(np.array([low, -scale])) if math.isfinite(scale) else -math.inf

    def _highest(self, components: FloatArray, metric: FloatArray | None = None) -> float:
        """A float not below ``<C, M>`` minus the logarithms of the `rank` largest eigenvalues of ``C M``."""
        _, members, means = self._deviations
        images, rank, used = self._images(components.T, metric), self.coordinates.rank, self._varying
        trace = above(sum_above(products_above(self.members[2], images.distances(members, means)[1])), 6)
        trace = above(trace + product_above(self.ridge, trace_above(images.map, images.metric)), 4)
        if rank == int(used.sum()):
            own = log_det_gram(components[:, used]) if metric is None else log_det_balanced(metric[np.ix_(used, used)])
            volume = sum_below(np.array([self._volume, own[0]]))
        else:
            form, error = self._form(components.T), 0.0
            if metric is not None:  # of eigenvalues of C M, as C_jk^2 <= C_jj C_kk
                C = self._form(np.eye(len(used)))
                sizes = np.sqrt(np.maximum(np.diag(C.matrix), 0.0) + C.error)
                error = above(float(sizes @ images.off @ sizes), 2 * len(sizes) + 8)
            volume = log_det(form.matrix, above(form.error + error), rank=rank)[0]
        return math.nextafter(trace - volume, math.inf) if volume > -math.inf else math.inf


def _mean(X: FloatArray, weights: FloatArray) -> list[float]:
    """The weighted mean of rows, rounded once."""
    exact = [Fraction(w) for w in weights.tolist()]
    total = sum(exact, Fraction())
    return [
        float(sum((w * Fraction(x) for w, x in zip(exact, feature, strict=True)), Fraction()) / total)
        for feature in X.T.tolist()
    ]
