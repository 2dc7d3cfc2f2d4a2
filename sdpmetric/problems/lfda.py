"""Local Fisher discriminant analysis (LFDA): the statement, its eigenproblem, and the proof that it is solved."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve_triangular

from sdpmetric.arrays import FloatArray
from sdpmetric.bounds.lfda_bounds import Scatters, most, trace_ratio
from sdpmetric.bounds.spans import dimension
from sdpmetric.bounds.well_posed import Ridge, SampleSize, caution
from sdpmetric.core import validation
from sdpmetric.core.certificate import Certificate, DualityCertificate, Multipliers
from sdpmetric.core.problem import Problem
from sdpmetric.core.sample_weight import check_sample_weight
from sdpmetric.linalg import psd
from sdpmetric.linalg.rigorous import above, gamma

Embedding = Literal["weighted", "orthonormalized", "plain"]

# Eigenvalues of the within-class scatter up to this share of the largest one, in whitened data, count as 0.
SINGULAR = 1e-12
# Singular values of a factor up to this share of the largest one, where the within-class scatter is the identity,
# count as 0; the factor of a metric has rounding errors of that size.
RANK = 1e-7
# Of a given metric directions of smaller shares than these are left out, one after the other, where they prove nothing.
COARSER = (1e-6, 1e-5, 1e-4, 1e-3)
UNKNOWN = (
    "the eigenvalues are not known, as the data may vary in more directions than floats can tell: pass a positive "
    "ridge, or leave out features that follow from others"
)


@dataclass(frozen=True, init=False, eq=False, repr=False)
class LFDAProblem(Problem):
    """LFDA as an eigenproblem (Sugiyama 2007) [S2007].

    With ``A_ij = exp(-|x_i - x_j|^2 / (s_i s_j))`` for examples of one class, ``s_i`` the distance to the k-th nearest
    neighbor in the class, and scatter matrices ``1/2 sum_ij w_ij (x_i - x_j)(x_i - x_j)^T`` with the weights

    - within, W: ``v_i v_j A_ij / n_c`` in a class of ``n_c`` members, 0 between classes,
    - between, B: ``v_i v_j A_ij (1/n - 1/n_c)`` in a class, ``v_i v_j / n`` between classes,

    with weights v of the examples, 1 in the paper, n their sum and ``n_c`` that of a class,

    maximize ``trace((L W L^T)^-1 L B L^T)`` over factors L of rank at most r; the objective here is minus that. It
    depends on the row space of L only. Members of a class that are far from each other are not pulled together, so
    classes may have several modes, and more than (number of classes - 1) directions can help.

    The problem is not convex in the metric, but it is solved by the eigenvectors of ``B v = lambda W v`` of the r
    largest positive eigenvalues, and Ky Fan's theorem proves that nothing is better: the lower bound is minus the sum
    of these eigenvalues.

    Parameters
    ----------
    X : (n, d) array
        Finite numbers; float32 stays float32, everything else becomes float64.
    y : (n,) array
        Class labels of any kind; at least two classes.
    n_components : int, optional
        r, between 1 and d; default d.
    n_neighbors : int, default 7
        k; in a class of at most k members, the number of members minus one.
    ridge : float or "auto", default 0
        Added to the diagonal of W. "auto": ``(r / n)^2`` times the mean of W over directions, for n examples that vary
        in r features.
    sample_weight : (n,) array, optional
        ``v``, nonnegative: how often each example counts; scales ``s_i`` are chosen without weights. Default 1.

    Attributes
    ----------
    y : (n,) int32 array
        Number of each example's class in the sorted labels.

    Raises
    ------
    ValueError
        If data or labels are not finite, there is one class only, a parameter is out of range, or the data vary in
        directions in which no class does, so the maximum is infinite.
    """

    statement: ClassVar[str] = "lfda"
    weights: ClassVar[tuple[str, ...]] = ("ridge",)

    X: NDArray[np.floating]
    y: NDArray[np.int32]
    n_components: int
    n_neighbors: int
    ridge: float
    sample_weight: FloatArray | None

    def __init__(
        self,
        X: ArrayLike,
        y: ArrayLike,
        n_components: int | None = None,
        n_neighbors: int = 7,
        ridge: Ridge = 0.0,
        sample_weight: ArrayLike | None = None,
    ) -> None:
        data = validation.check_examples(X)
        index = validation.check_labels(y, len(data))[1]
        d = data.shape[1]
        self._assign(
            X=data,
            y=index,
            n_components=validation.check_integer("n_components", d if n_components is None else n_components, 1, d),
            n_neighbors=validation.check_integer("n_neighbors", n_neighbors),
            sample_weight=check_sample_weight(sample_weight, len(data)),
        )
        self._assign(ridge=self.sample_size.ridge(ridge))
        if not np.isfinite(self.scatters[1]).all():
            raise ValueError(
                f"ridge={self.ridge:g} overflows in units of the data's variance; pass a smaller one, or rescale X."
            )
        if missing := self._singular:
            raise ValueError(
                f"the data vary in {missing} directions in which no class does, so the maximum is infinite: pass "
                "a positive ridge, or reduce the dimension first, for example by PCA."
            )

    @classmethod
    def from_labels(
        cls,
        X: ArrayLike,
        y: ArrayLike,
        n_components: int | None = None,
        n_neighbors: int = 7,
        ridge: Ridge = 0.0,
        *,
        sample_weight: ArrayLike | None = None,
    ) -> LFDAProblem:
        """State LFDA for labeled data, the same as the constructor."""
        return cls(X, y, n_components, n_neighbors, ridge, sample_weight)

    def describe(self) -> str:
        """Say in one sentence what is minimized, over how much data."""
        ridge = f", ridge {self.ridge:g}" if self.ridge else ""
        return (
            f"LFDA (Sugiyama 2007): {self.X.shape[0]:,} examples, {self.X.shape[1]} features, {self.y.max() + 1} "
            f"classes, {self.n_components} components, {self.n_neighbors} neighbors{ridge}"
        )

    # -- the eigenproblem ----------------------------------------------------------------------------------------

    @cached_property
    def _basis(self) -> tuple[FloatArray, FloatArray]:
        """Coordinates in which the data have unit covariance, and the way back."""
        return psd.data_basis(self.centered)

    @cached_property
    def _scatters(self) -> Scatters:
        """B and W in any coordinates, with bounds of their errors."""
        return self._scatters_with(self.ridge)

    def _scatters_with(self, ridge: float) -> Scatters:
        v = np.ones(len(self.X)) if self.sample_weight is None else self.sample_weight
        return Scatters(np.asarray(self.X, dtype=np.float64), self.y, v, self.n_neighbors, ridge)

    @property
    def sample_size(self) -> SampleSize:
        """How many examples W was learned from, and in how many features they vary."""
        n, varying = len(self.X), int((np.ptp(self.X, axis=0) > 0.0).sum())
        within = partial(self._scatters_with(0.0).forms, np.eye(self.X.shape[1]))
        return SampleSize(n, min(varying, n - 1), lambda: float(np.trace(within()[1].matrix)))

    def caution(self, components: NDArray[np.floating], certificate: Certificate) -> str | None:
        """Too few examples for a scatter that is inverted."""
        return super().caution(components, certificate) or caution(certificate, [self.sample_size], self.ridge)

    @cached_property
    def scatters(self) -> tuple[FloatArray, FloatArray]:
        """B and W, (p, p), of the data in whitened coordinates."""
        between, within = self._scatters.forms(self._basis[0])
        return between.matrix, within.matrix

    @cached_property
    def _singular(self) -> int:
        """Directions in which data vary and no class does."""
        values = np.linalg.eigvalsh(self.scatters[1])
        return int(np.count_nonzero(values <= SINGULAR * max(float(values[-1]), 0.0))) if len(values) else 0

    @cached_property
    def _root(self) -> FloatArray:
        """A root of W, lower triangular, (p, p): ``root @ root.T`` is W."""
        return np.asarray(np.linalg.cholesky(self.scatters[1]))

    @cached_property
    def ratio(self) -> FloatArray:
        """B where W is the identity, (p, p)."""
        half = solve_triangular(self._root, self.scatters[0], lower=True)
        return psd.symmetrize(solve_triangular(self._root, half.T, lower=True))

    @cached_property
    def eigenpairs(self) -> tuple[FloatArray, FloatArray]:
        """Eigenvalues of ``B v = lambda W v``, decreasing, (p,), and eigenvectors of `ratio` in columns, (p, p)."""
        values, vectors = np.linalg.eigh(self.ratio)
        return values[::-1], np.ascontiguousarray(vectors[:, ::-1])

    def lift(self, rows: FloatArray) -> FloatArray:
        """Components in the data's own coordinates from rows where W is the identity, (r, p)."""
        back = solve_triangular(self._root, rows.T, lower=True, trans="T")
        return np.ascontiguousarray((self._basis[0] @ back).T)

    def closed_form(self, embedding: Embedding = "weighted") -> FloatArray:
        """The optimum, (at most r, d).

        Parameters
        ----------
        embedding : {"weighted", "orthonormalized", "plain"}, default "weighted"
            Rows are eigenvectors v with ``v^T W v = 1`` times ``sqrt(lambda)``; or an orthonormal basis of their span,
            the leading one first; or these eigenvectors themselves.

        Raises
        ------
        ValueError
            If the embedding is unknown.
        """
        if embedding not in ("weighted", "orthonormalized", "plain"):
            raise ValueError(f"embedding must be 'weighted', 'orthonormalized' or 'plain', got {embedding!r}.")
        values, vectors = self.eigenpairs
        positive = values[: self.n_components] > 0.0
        values, L = values[: self.n_components][positive], self.lift(vectors[:, : self.n_components][:, positive].T)
        if embedding == "weighted":
            return np.sqrt(values)[:, None] * L
        return L if embedding == "plain" or not len(L) else np.ascontiguousarray(np.linalg.qr(L.T)[0].T)

    # -- point and proof -----------------------------------------------------------------------------------------

    def objective(self, components: ArrayLike | None = None, *, metric: ArrayLike | None = None) -> float:
        """Minus ``trace((L W L^T)^+ L B L^T)``, of a factor of rank at most r, rounded up; see `Problem.objective`."""
        L, residual = self.check_point(components, metric)
        return self._highest(L, validation.given_metric(metric, residual))[0]

    def _highest(self, L: FloatArray, metric: FloatArray | None = None) -> tuple[float, float]:
        """A float not below the objective, and how far the factor was from rank r.

        Directions are combined of the rows of the factor, or of a metric near ``L^T L``. Rows whose part in the others'
        span is not told apart may add to the trace, or take at most the least negative eigenvalue from it. Of more rows
        than r, the leading directions are taken.
        """
        white = self._basis[1].T @ self._root
        left, sigma, right = np.linalg.svd(L @ white, full_matrices=False)
        rank = int(np.count_nonzero(sigma > RANK * sigma.max(initial=0.0)))
        if rank > self.n_components:
            raise ValueError(
                f"the components or metric have rank {rank}, and the problem is about n_components="
                f"{self.n_components} at most; keep that many leading directions, or state the problem with more."
            )
        few, lowest = len(L) <= self.n_components, -math.inf
        known = int(np.count_nonzero(sigma > 0.0)) if few else rank
        told = (int(np.count_nonzero(sigma > share * sigma.max(initial=0.0))) for share in COARSER)
        for kept in dict.fromkeys([known, rank, *(told if few and metric is not None else ())]):
            if metric is None:
                A, K = L.T, left[:, :kept] / sigma[:kept]
            else:
                A, K = metric, white @ (right[:kept].T / sigma[:kept] / sigma[:kept])
            lowest = trace_ratio(*self._scatters.forms(A @ K, gamma(len(K) + 4) * (np.abs(A) @ np.abs(K)) + 1e-307))
            if lowest > -math.inf:
                break
        most = len(L) if metric is None else min(self.n_components, self._dimensions)
        others = most - kept if few and L.any() else 0
        lost = above(others * self._extremes[1]) if others else 0.0
        outside = 0.0 if few else float(sigma[rank:].max(initial=0.0) / max(float(sigma.max(initial=0.0)), 1e-300))
        return (math.nextafter(lost - lowest, math.inf) if lowest or lost else 0.0), outside

    @property
    def _dimensions(self) -> int:
        """Dimensions in which the data vary, as far as the proof goes; a ridge is about all features that vary."""
        return int((np.ptp(self.X, axis=0) > 0.0).sum()) if self.ridge else len(self._root)

    @cached_property
    def _extremes(self) -> tuple[float, float]:
        """Floats not below the sum of the r largest positive eigenvalues, and minus the least, of the exact problem.

        Infinite where the data may vary in more directions than the coordinates have, without a ridge.
        """
        T = self.lift(self.eigenpairs[1].T).T
        varying = np.ptp(self.X, axis=0) > 0.0
        others = np.arange(1, len(self.X))
        if self.ridge:  # it is the identity on a complement of the coordinates
            complement = np.zeros((len(T), int(varying.sum()) - T.shape[1]))
            complement[varying] = np.linalg.qr(T[varying], mode="complete")[0][:, T.shape[1] :] / math.sqrt(self.ridge)
            T = np.concatenate([T, complement], axis=1)
        elif dimension(self.X, others, np.zeros_like(others), T.shape[1]) > T.shape[1]:
            return math.inf, math.inf
        return most(*self._scatters.forms(T), self.n_components)

    def certify(
        self, components: ArrayLike | None = None, *, metric: ArrayLike | None = None, dual: Multipliers | None = None
    ) -> DualityCertificate:
        """Certify any point of rank at most r; see `Problem.certify`.

        The lower bound is minus the sum of the r largest positive eigenvalues of ``B v = lambda W v`` (Ky Fan's
        theorem), rounded downward. It needs no multipliers. Affinities are enclosed; see `lfda_bounds`.
        """
        L, primal_residual = self.check_point(components, metric)
        objective, outside = self._highest(L, validation.given_metric(metric, primal_residual))
        bound = -self._extremes[0]
        known = math.isfinite(bound)
        return DualityCertificate(
            objective=objective,
            lower_bound=bound,
            primal_residual=max(primal_residual, outside),
            program="LFDA",
            rigor="float",
            weakness=None if known else UNKNOWN,
        )
