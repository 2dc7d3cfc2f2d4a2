"""Priors, starts and ridges: by name in place of arrays, and whether data determine a metric without a ridge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.core.certificate import Certificate, DualityCertificate
from sdpmetric.linalg.distances import distances, mean_squared_distance

Prior = Literal["identity", "covariance", "random"]
Init = Literal["auto", "identity", "covariance", "random", "pca", "lda"]

RandomState = np.random.RandomState | int | None


def named_prior(
    prior: ArrayLike | str, X: NDArray[np.floating], random_state: RandomState = 0, *, scaled: bool = False
) -> FloatArray:
    """Return a metric to stay near, given or by name; if `scaled`, the identity is divided by the largest variance."""
    if not isinstance(prior, str):
        return validation.real_array("prior", prior)
    validation.check_choice("prior, where it is no matrix,", prior, get_args(Prior))
    d = X.shape[1]
    if prior == "covariance":
        if len(X) <= d + 1:
            raise ValueError(
                f"prior='covariance' of {len(X)} examples with {d} features: under the inverse of their covariance so "
                "few examples are all equally far from each other, whatever their labels. Pass prior='identity', "
                f"reduce the dimension first, for example by PCA, or pass more than {d + 1} examples."
            )
        roots = _whitening(X)
        return roots.T @ roots
    largest = _largest_variance(X) if scaled or prior == "random" else 1.0
    if prior == "identity":
        return np.eye(d) / largest
    G = _generator(random_state).standard_normal(size=(d, 2 * d)) / np.sqrt(2 * d)
    return np.asarray(G @ G.T / largest)


def named_components(
    init: Init,
    X: NDArray[np.floating],
    index: NDArray[np.integer] | None,
    n_components: int,
    random_state: RandomState = 0,
) -> FloatArray:
    """Return components to begin with; "auto" by the rules of scikit-learn's ``NeighborhoodComponentsAnalysis``."""
    validation.check_spread(X)
    n, d = X.shape
    if init == "auto":
        n_classes = 0 if index is None else len(np.unique(index))
        init = "lda" if n_components <= min(d, n_classes - 1) else "pca" if n_components < min(d, n) else "identity"
    if init == "identity":
        return np.eye(n_components, d)
    if init == "random":
        return np.asarray(_generator(random_state).standard_normal(size=(n_components, d)))
    if init == "covariance":
        return np.ascontiguousarray(_whitening(X)[::-1][:n_components])
    if init == "pca":
        from sklearn.decomposition import PCA

        rows = PCA(n_components, random_state=random_state).fit(X).components_
    else:
        if index is None:
            raise ValueError("init='lda' needs labels; learn from labels, or pass another init.")
        if n <= len(np.unique(index)):
            raise ValueError(
                "every class has one member, so there are no discriminants to start from; merge classes, or pass init=."
            )
        from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

        rows = LinearDiscriminantAnalysis(n_components=n_components).fit(X, index).scalings_.T[:n_components]
    return np.array(rows, dtype=np.float64, order="C")


def scaled_identity(X: NDArray[np.floating], rank: int) -> FloatArray:
    """Return the rows of the identity for the features of the widest range, scaled to a mean squared distance of 1."""
    features = np.sort(np.argsort(-np.ptp(X, axis=0), kind="stable")[:rank])
    spread = mean_squared_distance(X[:, features])
    return np.asarray(np.eye(X.shape[1])[features] / np.sqrt(spread if spread > 0.0 else 1.0))


def _largest_variance(X: NDArray[np.floating]) -> float:
    if len(X) >= X.shape[1]:
        return float(_variances(X)[0][-1])
    validation.check_spread(X)
    rows = np.asarray(X, dtype=np.float64)
    return float(np.linalg.norm(rows - rows.mean(axis=0), 2) ** 2 / len(rows))


def _variances(X: NDArray[np.floating]) -> tuple[FloatArray, FloatArray]:
    validation.check_spread(X)
    C = np.cov(np.asarray(X, dtype=np.float64), rowvar=False, bias=True).reshape(X.shape[1], X.shape[1])
    variances, axes = np.linalg.eigh(C)
    return np.maximum(variances, 0.0), axes


def _whitening(X: NDArray[np.floating]) -> FloatArray:
    """Return components under which the data have the identity for their covariance, the largest variance last."""
    variances, axes = _variances(X)
    return np.asarray((axes / np.sqrt(variances + 1e-3 * variances.mean())).T)  # so the covariance has an inverse


def _generator(random_state: RandomState) -> np.random.RandomState:
    if isinstance(random_state, np.random.RandomState):
        return random_state
    return np.random.RandomState(validation.seed(random_state, high=2**32 - 1))


Ridge = float | Literal["auto"]


@dataclass(frozen=True, eq=False)
class SampleSize:
    """The examples that the cost of a metric was learned from."""

    examples: int
    directions: int
    cost: Callable[[], float]

    @classmethod
    def of(
        cls, X: FloatArray, first: NDArray[np.integer], second: NDArray[np.integer], weights: FloatArray
    ) -> SampleSize:
        """Return the sample of ``sum_p w_p D_M(p)`` over pairs of examples."""
        examples = len(np.unique(np.concatenate([first, second])))
        directions = min(int(X.any(axis=0).sum()), max(examples - 1, 0))
        return cls(examples, directions, lambda: float(distances(X, first, second) @ weights))

    @property
    def crowding(self) -> float:
        return self.directions / max(self.examples, 1)

    def ridge(self, ridge: Ridge) -> float:
        """Return the ridge that is asked for; "auto" is the mean cost of a direction times the square of `crowding`."""
        if isinstance(ridge, str):
            if ridge != "auto":
                raise ValueError(f"ridge must be a number of at least 0 or 'auto', got {ridge!r}.")
            return self.crowding**2 * self.cost() / max(self.directions, 1)
        return validation.check_weight("ridge", ridge)


def caution(
    certificate: Certificate | None,
    sample_sizes: Sequence[SampleSize],
    ridge: float,
    separated: float = 0.0,
    *,
    remedy: str = "pass ridge='auto'",
) -> str | None:
    """Say why the optimum is likely to be useless for other data than the training data, or return None."""
    advice = f"reduce the dimension (PCA), or {remedy}."
    if separated > 0.5:
        return f"directions of the data that cost no pull separate {separated:.0%} of the triplets: {advice}"
    if isinstance(certificate, DualityCertificate) and 0.0 <= certificate.objective <= certificate.resolution:
        return f"the objective is 0, up to its resolution, so the labels hardly constrain the metric: {advice}"
    worst = max(sample_sizes, key=lambda sample_size: sample_size.crowding)
    if ridge == 0.0 and worst.crowding > 0.25:  # docs/measured/methods.md has the measurements
        return (
            f"{worst.examples} examples in {worst.directions} directions are too few to know what each direction "
            f"costs: {advice}"
        )
    return None
