"""LMNN with several metrics, one for each region of examples: the statement, and how examples are divided."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from sdpmetric.arrays import FloatArray, IndexArray
from sdpmetric.core import validation
from sdpmetric.core.named import Ridge
from sdpmetric.core.problem import NOT_STATED
from sdpmetric.engine.lazy import cached
from sdpmetric.linalg import psd
from sdpmetric.lmnn.costs import Push
from sdpmetric.lmnn.problem import LargeMarginProblem, LMNNProblem, Loss
from sdpmetric.lmnn.sources import LabeledTriplets

Regions = Literal["class", "kmeans", "spectral"]


@dataclass(eq=False, repr=False)
class MultiMetricLMNNProblem(LargeMarginProblem):
    """LMNN with one metric for each region (Weinberger and Saul 2009, section 5.2, Eq. 16) [WS2009].

    A pair is measured by the metric of its second member's region. Minimize over PSD matrices M^1 to M^c, with
    ``D^r`` the squared distance under M^r and ``r_j`` the region of example j::

        (1 - mu) sum_{i, j~>i} D^{r_j}(i, j)  +  mu sum_{i, j~>i, l} h(1 + D^{r_j}(i, j) - D^{r_l}(i, l))
            +  ridge sum_r trace(M^r)

    Make one with `from_labels`.

    Attributes
    ----------
    tied : LMNNProblem
        The same problem with a single metric: its optimum is an upper bound.
    regions : (n,) int32 array
        Region of each example, 0 to c - 1.
    region_names : (c,) array

    See Also
    --------
    LMNNProblem, sdpmetric.estimators.MultiMetricLMNN

    Examples
    --------
    >>> import sdpmetric as sm
    >>> several = sm.MultiMetricLMNNProblem.from_labels(*sm.datasets.load("iris"))  # a metric for each class
    >>> sm.solve(several, tol=1e-2).metrics.shape
    (3, 4, 4)
    """

    statement: ClassVar[str] = "multi-metric-lmnn"

    tied: LMNNProblem
    regions: IndexArray
    region_names: NDArray[np.generic] = field(metadata=NOT_STATED)

    def __post_init__(self) -> None:
        validation.check_made(type(self).__name__, "tied", self.tied, "pull_cost")

    @classmethod
    def from_labels(
        cls,
        X: ArrayLike,
        y: ArrayLike,
        n_neighbors: int = 3,
        push_weight: float = 0.5,
        *,
        regions: Regions | ArrayLike = "class",
        n_regions: int | None = None,
        target_neighbors: ArrayLike | sp.sparray | sp.spmatrix | None = None,
        ridge: Ridge = 0.0,
        loss: Loss = "hinge",
        random_state: int = 0,
        sample_weight: ArrayLike | None = None,
    ) -> MultiMetricLMNNProblem:
        """State multi-metric LMNN for labeled data.

        Parameters
        ----------
        X, y, n_neighbors, push_weight, target_neighbors, ridge, loss, sample_weight
            As in `LMNNProblem.from_labels`; ``ridge="auto"`` is the largest of the values for each metric.
        regions : {"class", "kmeans", "spectral"} or (n,) array, default "class"
            One metric for each class, for each cluster of k-means or of spectral clustering (nearest-neighbor graph),
            or for each distinct value of an array.
        n_regions : int, optional
            Number of clusters; default: as many as classes.
        random_state : int, default 0
            Seed of the clustering.

        Raises
        ------
        ValueError
            As `LMNNProblem.from_labels`; or if a region has `n_neighbors` or fewer members, or none that is a target
            neighbor, so its metric would have no pull.
        """
        tied = LMNNProblem.from_labels(
            X,
            y,
            n_neighbors,
            push_weight,
            target_neighbors=target_neighbors,
            ridge=0.0 if ridge == "auto" else ridge,
            loss=loss,
            sample_weight=sample_weight,
        )
        index, names = divide_into_regions(regions, tied.centered, y, n_regions, random_state)
        check_members(index, names, tied.target_pairs[1], n_neighbors, pulled=tied.ridge == 0)
        problem = cls(tied, index, names)
        if ridge != "auto":
            return problem
        return problem.with_weights(ridge=max(cost.sample_size.ridge("auto") for cost in problem.pull_costs))

    # -- the statement ------------------------------------------------------------------------------------------

    @property
    def X(self) -> NDArray[np.floating]:
        return self.tied.X

    @property
    def centered(self) -> FloatArray:
        return self.tied.centered

    @property
    def source(self) -> LabeledTriplets:
        assert isinstance(self.tied.source, LabeledTriplets)
        return self.tied.source

    @cached
    def push(self) -> Push:
        return replace(self.tied.push, regions=self.regions, n_regions=len(self.region_names))

    @property
    def title(self) -> str:
        return "Multi-metric LMNN"

    @property
    def zero(self) -> FloatArray:
        return np.zeros((self.n_regions, 0, self.X.shape[1]))

    def describe(self) -> str:
        return f"{self.n_regions} metrics (section 5.2, Eq. 16), {self.tied.describe()}"

    def with_weights(self, **values: float) -> Self:
        """State the same problem with another `push_weight` or `ridge`; see `Problem.with_weights`."""
        return replace(self, tied=self.tied.with_weights(**values))

    def check_point(self, components: ArrayLike | None, metric: ArrayLike | None) -> tuple[FloatArray, float]:
        """Return factors (c, r, d) from either keyword, and how far the metrics were from the cone, relatively."""
        matrices = components if metric is None else metric
        if matrices is None or (components is None) == (metric is None):
            raise ValueError("pass exactly one of components= (factors, (c, r, d)) and metric= ((c, d, d)).")
        if np.ndim(matrices) != 3 or len(np.asarray(matrices)) != self.n_regions:
            raise ValueError(
                f"expected one matrix for each of {self.n_regions} regions, an array of three dimensions; "
                f"got shape {np.shape(matrices)}."
            )
        points = [(A, None) if metric is None else (None, A) for A in np.asarray(matrices)]
        checked = [validation.check_point(L, M, self.X.shape[1]) for L, M in points]
        return psd.stack([L for L, _ in checked]), max(residual for _, residual in checked)


def divide_into_regions(
    regions: Regions | ArrayLike, X: FloatArray, y: ArrayLike, n_regions: int | None, random_state: int
) -> tuple[IndexArray, NDArray[np.generic]]:
    """Return the region of each example, by class, by clusters, or as an array says, and the names of the regions."""
    if isinstance(regions, str):
        regions = _named(regions, X, np.asarray(y).ravel(), n_regions, random_state)
    array = np.asarray(regions)
    if array.shape != (len(X),):
        raise ValueError(f"regions has shape {array.shape}; pass one region for each of {len(X)} examples.")
    validation.check_names("regions", array)
    names, index = np.unique(array, return_inverse=True)
    return index.astype(np.int32), names


def _named(method: str, X: FloatArray, y: NDArray[np.generic], n_regions: int | None, random_state: int) -> ArrayLike:
    if method == "class":
        if n_regions is not None:
            raise ValueError("n_regions is for clusters; regions='class' has one region for each class.")
        return y
    validation.check_choice("regions", method, ("class", "kmeans", "spectral"))
    count = len(np.unique(y)) if n_regions is None else n_regions
    validation.check_integer("n_regions", count, high=len(X))
    from sklearn.cluster import KMeans, SpectralClustering

    clusters = (
        KMeans(int(count), random_state=random_state)
        if method == "kmeans"
        else SpectralClustering(int(count), affinity="nearest_neighbors", random_state=random_state)
    )
    return np.asarray(clusters.fit_predict(X))


def check_members(
    index: IndexArray, names: NDArray[np.generic], targets: IndexArray, n_neighbors: int, *, pulled: bool
) -> None:
    sizes = np.bincount(index)
    pairs = np.bincount(index[targets], minlength=len(sizes))
    for name, size, pulls in zip(names.tolist(), sizes.tolist(), pairs.tolist(), strict=True):
        if size <= n_neighbors:
            raise ValueError(
                f"region {name!r} has {size} members, at least {n_neighbors + 1} are needed for a metric of its "
                "own; merge it with another region, or ask for fewer regions."
            )
        if pulls == 0 and pulled:
            raise ValueError(
                f"no member of region {name!r} is a target neighbor, so its metric would have no pull; merge "
                "it with another region, or pass a positive ridge."
            )
