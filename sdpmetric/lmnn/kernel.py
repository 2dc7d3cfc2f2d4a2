"""LMNN in the feature space of a kernel: in kernel PCA coordinates it is exactly LMNN again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import ClassVar, Literal

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from sdpmetric.arrays import FloatArray, allow_underflow
from sdpmetric.core import validation
from sdpmetric.core.kernels import NAMES, PSD_TOLERANCE, KernelFunction, check_semidefinite, check_symmetric
from sdpmetric.core.named import Ridge
from sdpmetric.core.read_only import read_only
from sdpmetric.core.triplets import Triplets
from sdpmetric.linalg import psd
from sdpmetric.lmnn.impostors import SearchMethod
from sdpmetric.lmnn.problem import LMNNProblem, Loss

Kernel = Literal["linear", "poly", "rbf", "laplacian", "sigmoid", "cosine", "precomputed"]

# Eigenvalues up to this share of the largest one are the rounding of zeros.
ZERO = 1e-12


@dataclass(frozen=True, eq=False)
class FeatureSpace:
    """Coordinates of the part of a kernel's feature space that the training examples span.

    Attributes
    ----------
    kernel : str
    parameters : dict
        ``gamma``, ``degree`` and ``coef0`` as given.
    data : (n, d) array
        The training examples; for "precomputed" the (n, n) kernel matrix.
    weights : (n, r) array
        ``T`` with coordinates ``(k(x, .) - mean) @ T``; its columns add up to 0.
    mean : (n,) array
        Mean of the rows of the kernel matrix.

    Examples
    --------
    >>> import sdpmetric as sm
    >>> X, y = sm.datasets.load("iris")
    >>> bent = sm.KernelLMNNProblem.from_labels(X[::3], y[::3], kernel="rbf", gamma=0.1, ridge=0.01)
    >>> type(bent.space).__name__
    'FeatureSpace'
    """

    kernel: str
    parameters: dict[str, float]
    data: NDArray[np.floating]
    weights: FloatArray
    mean: FloatArray

    @classmethod
    @allow_underflow
    def of(cls, X: ArrayLike, kernel: Kernel, options: Mapping[str, float | None]) -> tuple[FeatureSpace, FloatArray]:
        """Return the space of some examples, and their coordinates in it, (n, r), centered.

        Parameters
        ----------
        X : (n, d) array
            For "precomputed" the (n, n) kernel matrix.
        kernel : str
        options : mapping
            ``gamma``, ``degree`` and ``coef0``; those that are None are left out.

        Raises
        ------
        ValueError
            If a precomputed kernel is not square, or all examples coincide in the feature space.
        """
        parameters = {name: validation.check_number(name, x, -np.inf) for name, x in options.items() if x is not None}
        validation.check_choice("kernel", kernel, (*NAMES, "precomputed"))
        data = read_only(validation.check_data(X)) if kernel == "precomputed" else validation.check_examples(X)
        kernel_values = data if kernel == "precomputed" else KernelFunction.of(kernel, parameters)(data, data)
        if kernel_values.shape[0] != kernel_values.shape[1]:
            raise ValueError(f"a precomputed kernel must be a square (n, n) matrix, got shape {kernel_values.shape}.")
        K = psd.symmetrize(np.asarray(kernel_values, dtype=np.float64))
        # Kernel values in single precision have its rounding errors.
        rounding = PSD_TOLERANCE if kernel_values.dtype == np.float64 else 1e-5
        check_symmetric(np.asarray(kernel_values, dtype=np.float64), rounding)
        check_semidefinite(K, rounding)
        mean = K.mean(axis=0)
        centered = psd.symmetrize(K - mean - mean[:, None] + mean.mean())
        values, vectors = scipy.linalg.eigh(centered)
        positive = np.flatnonzero(values > ZERO * max(values[-1], float(np.abs(K).max()) * len(K) * ZERO))[::-1]
        if not len(positive):
            raise ValueError(
                "all examples coincide in the feature space of the kernel; there is nothing to learn: scale the "
                "features, or choose another kernel or gamma."
            )
        # For a column v with eigenvalue s the coordinates of the examples are sqrt(s) v = centered v / sqrt(s).
        vectors = vectors[:, positive] - vectors[:, positive].mean(axis=0)
        roots = np.sqrt(values[positive])
        return cls(kernel, parameters, data, vectors / roots, mean), vectors * roots

    def rows(self, X: ArrayLike | None = None) -> FloatArray:
        """Return kernel values of examples with the training examples, (m, n).

        Parameters
        ----------
        X : (m, d) array, optional
            For "precomputed" these values themselves; default: the training examples.

        Raises
        ------
        ValueError
            If X has another number of columns than in training.
        """
        n, d = self.data.shape
        data = self.data if X is None else validation.check_data(X)
        if data.shape[1] != d:
            columns = f"kernel values with the {n} training examples" if self.kernel == "precomputed" else "features"
            raise ValueError(f"X has {data.shape[1]} columns; expected {d} {columns}, as in training.")
        if self.kernel == "precomputed":
            return np.asarray(data, dtype=np.float64)
        return KernelFunction(self.kernel, self.parameters)(data, self.data)

    def transform(self, X: ArrayLike | None = None) -> FloatArray:
        """Return coordinates of examples, (m, r), with the mean of the training examples at the origin."""
        coordinates: FloatArray = (self.rows(X) - self.mean) @ self.weights
        return coordinates


@dataclass(eq=False, repr=False)
class KernelLMNNProblem(LMNNProblem):
    """LMNN in the feature space of a kernel (Weinberger and Saul 2009, section 5.3) [WS2009].

    The metric there is ``M = sum_lm A_lm phi(x_l) phi(x_m)^T``. With all coordinates of kernel PCA that are not zero as
    features the program is LMNN again, with the same distances, the same trace, and the same optimum: this is an
    `LMNNProblem` with these coordinates as data `X`, and every solver accepts it. Target neighbors are those in the
    feature space. Make one with `from_labels`.

    If the examples are linearly independent in the feature space, as distinct examples are for the RBF kernel, the
    optimum without a `ridge` is 0: some metric pulls every chain of target neighbors into a point at no cost. A
    `ridge`, which weighs the trace in the feature space, makes the problem meaningful.

    Certificates are about the coordinates, which are computed from the kernel and taken as exact.

    Attributes
    ----------
    X : (n, r) array
        Coordinates in the feature space, float64, centered.
    space : FeatureSpace
        Maps other examples there.

    See Also
    --------
    FeatureSpace, LMNNProblem, sdpmetric.estimators.KernelLMNN

    Examples
    --------
    >>> import sdpmetric as sm
    >>> X, y = sm.datasets.load("iris")
    >>> bent = sm.KernelLMNNProblem.from_labels(X[::3], y[::3], kernel="rbf", gamma=0.1, ridge=0.01)
    >>> solution = sm.solve(bent, tol=1e-2)
    >>> bent.transform(X, solution.components).shape[0]
    150
    """

    statement: ClassVar[str] = "kernel-lmnn"

    space: FeatureSpace = field(kw_only=True)

    @classmethod
    def from_labels(
        cls,
        X: ArrayLike,
        y: ArrayLike,
        n_neighbors: int = 3,
        push_weight: float = 0.5,
        *,
        kernel: Kernel = "rbf",
        gamma: float | None = None,
        degree: float | None = None,
        coef0: float | None = None,
        target_neighbors: ArrayLike | sp.sparray | sp.spmatrix | None = None,
        ridge: Ridge = 0.0,
        loss: Loss = "hinge",
        search: SearchMethod = "auto",
        sample_weight: ArrayLike | None = None,
    ) -> KernelLMNNProblem:
        """State LMNN in the feature space of a kernel.

        Parameters
        ----------
        X : (n, d) array
            For ``kernel="precomputed"`` the (n, n) kernel matrix: symmetric and PSD, up to rounding.
        y : (n,) array
        n_neighbors, push_weight
            As in `LMNNProblem.from_labels`; target neighbors are the nearest in the feature space.
        kernel : {"rbf", "poly", "linear", "laplacian", "sigmoid", "cosine", "precomputed"}, default "rbf"
            As in `sklearn.metrics.pairwise.pairwise_kernels`.
        gamma, degree, coef0 : float, optional
            Parameters of the kernels that have them; defaults are scikit-learn's: 1 / d, 3 and 1.
        target_neighbors, ridge, loss, search, sample_weight
            As in `LMNNProblem.from_labels`.

        Raises
        ------
        ValueError
            As `LMNNProblem.from_labels`, and if the kernel is unknown, or its matrix is not square, not symmetric or
            not PSD.
        """
        space, coordinates = FeatureSpace.of(X, kernel, {"gamma": gamma, "degree": degree, "coef0": coef0})
        stated = LMNNProblem.from_labels(
            coordinates,
            y,
            n_neighbors,
            push_weight,
            target_neighbors=target_neighbors,
            ridge=ridge,
            loss=loss,
            search=search,
            sample_weight=sample_weight,
        )
        return cls._in(stated, space)

    @classmethod
    def from_triplets(
        cls,
        X: ArrayLike,
        triplets: ArrayLike | Triplets,
        weights: ArrayLike | None = None,
        push_weight: float = 0.5,
        *,
        kernel: Kernel = "rbf",
        gamma: float | None = None,
        degree: float | None = None,
        coef0: float | None = None,
        ridge: Ridge = 0.0,
        loss: Loss = "hinge",
    ) -> KernelLMNNProblem:
        """State LMNN in the feature space of a kernel for an explicit list of triplets.

        Parameters
        ----------
        X, kernel, gamma, degree, coef0
            As in `from_labels`.
        triplets, weights, push_weight, ridge, loss
            As in `LMNNProblem.from_triplets`.
        """
        space, coordinates = FeatureSpace.of(X, kernel, {"gamma": gamma, "degree": degree, "coef0": coef0})
        stated = LMNNProblem.from_triplets(coordinates, triplets, weights, push_weight, ridge=ridge, loss=loss)
        return cls._in(stated, space)

    @classmethod
    def _in(cls, stated: LMNNProblem, space: FeatureSpace) -> KernelLMNNProblem:
        return cls(**{f.name: getattr(stated, f.name) for f in fields(stated)}, space=space)

    def describe(self) -> str:
        parameters = "".join(f", {name} {value:g}" for name, value in self.space.parameters.items())
        return f"{super().describe()}; in the feature space of kernel {self.space.kernel!r}{parameters}"

    @property
    def title(self) -> str:
        """The statement that certificates prove: the coordinates `X` were computed from the kernel."""
        return f"{super().title} on coordinates computed from a kernel, taken as exact"

    # -- from coordinates to kernels ------------------------------------------------------------------------------

    def transform(self, X: ArrayLike | None = None, components: ArrayLike | None = None) -> FloatArray:
        """Return examples, in the training data or not, as points with the metric's distances as Euclidean distances.

        Parameters
        ----------
        X : (m, d) array, optional
            For "precomputed" the kernel values with the training examples, (m, n); default: the training examples.
        components : (r', r) array, optional
            Factor of the metric, for example `Solution.components`; default: the identity, which gives coordinates.

        Returns
        -------
        points : (m, r') array
        """
        coordinates = self.space.transform(X)
        if components is None:
            return coordinates
        L, _ = validation.check_point(components, None, self.X.shape[1])
        return coordinates @ L.T

    def expansion(self, components: ArrayLike | None = None, *, metric: ArrayLike | None = None) -> FloatArray:
        """Return the matrix A of ``M = sum_lm A_lm phi(x_l) phi(x_m)^T``, the paper's section 5.3.

        Parameters
        ----------
        components : (r', r) array, optional
            Factor of the metric on the coordinates.
        metric : (r, r) array, optional
            The metric itself; exactly one of the two.

        Returns
        -------
        A : (n, n) array
            PSD. With ``k = k(x, .)`` and ``k' = k(x', .)``, the kernel values with the training examples,
            ``D(x, x') = (k - k')^T A (k - k')``.
        """
        L, _ = validation.check_point(components, metric, self.X.shape[1])
        root = self.space.weights @ L.T
        return root @ root.T
