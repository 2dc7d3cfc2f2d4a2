"""SCML as a sum of terms: a few of many given directions, weighted so that triplets hold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike
from sklearn.neighbors import NearestNeighbors

from sdpmetric.arrays import FloatArray, IndexArray
from sdpmetric.core import validation
from sdpmetric.core.sample_weight import check_mean_weights, check_sample_weight
from sdpmetric.engine import threads
from sdpmetric.sums import terms
from sdpmetric.sums.problem import MetricProblem

SCALES = (10, 20)  # nearest members of each class around a center that make a local discriminant
SHRINKAGE = 1e-3  # share of the mean variance in the covariances of discriminants


@dataclass(init=False, eq=False, repr=False)
class SCMLProblem(MetricProblem):
    """Sparse compositional metric learning (Shi, Bellet and Sha 2014) [SBS2014].

    The metric is ``sum_k w_k b_k b_k^T`` with ``w >= 0`` for given unit vectors b. Minimize over w::

        mean_t [ 1 + D(i, j) - D(i, l) ]_+  +  sparsity * sum_k w_k

    over triplets (i, j, l), or over the near and the far pairs of quadruplets. The sum of w is the trace of the metric;
    most weights are 0 at the optimum.

    Parameters
    ----------
    X : (n, d) array
    triplets : (t, 3) or (t, 4) integer array
        Row numbers of X: anchor, target, impostor; or quadruplets, the near pair and then the far one.
    bases : (k, d) array
        Directions; they are scaled to length 1.
    sparsity : float, default 1e-3
        Positive.
    weights : (t,) array, optional
        Nonnegative weights of the mean over triplets; default 1.

    Raises
    ------
    ValueError
        If a row of `bases` is 0.

    Examples
    --------
    >>> import numpy as np
    >>> import sdpmetric as sm
    >>> X, y = sm.datasets.load("iris")
    >>> found = sm.solve(sm.SCMLProblem(X, [[0, 1, 60], [50, 51, 120]], bases=np.eye(4)))
    >>> bool(found.relative_gap <= 1e-3)
    True
    """

    statement: ClassVar[str] = "scml"
    title: ClassVar[str] = "SCML (Shi et al. 2014)"

    def __init__(
        self,
        X: ArrayLike,
        triplets: ArrayLike,
        bases: ArrayLike,
        sparsity: float = 1e-3,
        weights: ArrayLike | None = None,
    ) -> None:
        rows, B = np.asarray(triplets), validation.check_matrix("bases", bases, ("k", "d"))
        lengths = np.linalg.norm(B, axis=-1, keepdims=True)
        if not (lengths > 0.0).all():
            raise ValueError("bases must be directions; some row of it is 0.")
        trace = validation.check_positive("sparsity", sparsity) * terms.Trace()
        w = np.ones(len(rows)) if weights is None else check_mean_weights("weights", weights, len(rows), "triplet")
        hinge = terms.QuadrupletHinge if rows.shape[1:] == (4,) else terms.TripletHinge
        mean = (1.0 / float(w.sum())) * hinge(rows, weights=weights)
        super().__init__(X, mean + trace, bases=B / lengths)

    @classmethod
    def from_labels(
        cls,
        X: ArrayLike,
        y: ArrayLike,
        n_bases: int | None = None,
        n_neighbors: int = 3,
        n_impostors: int = 10,
        sparsity: float = 1e-3,
        *,
        bases: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        random_state: int | None = None,
    ) -> SCMLProblem:
        """State SCML for labeled data: triplets of near examples, and bases that discriminate locally.

        Parameters
        ----------
        X : (n, d) array
        y : (n,) array
            Class labels of any kind; at least two classes.
        n_bases : int, optional
            About how many; default 20 d, or fewer if there are few examples.
        n_neighbors, n_impostors : int
            The nearest members of the class, and of other classes, that make an example's triplets.
        sparsity : float, default 1e-3
        bases : (k, d) array, optional
            In place of local discriminants.
        sample_weight : (n,) array, optional
            Nonnegative; a triplet has the product of its anchor's and its impostor's weights, as in `LMNNProblem`.
        random_state : int, optional
            Seed of the clusters; default 0.
        """
        data = validation.check_examples(X)
        _, index = validation.check_labels(y, len(data))
        w, rows = check_sample_weight(sample_weight, len(data)), np.asarray(data, dtype=np.float64)
        triplets = nearest_triplets(rows, index, n_neighbors, n_impostors)
        directions = local_discriminants(rows, index, n_bases, random_state) if bases is None else bases
        products = None if w is None else w[triplets[:, 0]] * w[triplets[:, 2]]
        return cls(data, triplets, directions, sparsity, products)


def nearest_triplets(X: FloatArray, index: IndexArray, n_neighbors: int, n_impostors: int) -> IndexArray:
    """Return each example with the nearest of its class and the nearest of other classes, (t, 3)."""
    for name, count in (("n_neighbors", n_neighbors), ("n_impostors", n_impostors)):
        validation.check_integer(name, count)
    triplets_by_class = [np.zeros((0, 3), dtype=np.int32)]
    for c in range(int(index.max()) + 1):
        members, foreign = np.flatnonzero(index == c), np.flatnonzero(index != c)
        n_targets, n_foreign = min(n_neighbors, len(members) - 1), min(n_impostors, len(foreign))
        if n_targets < 1:
            continue
        targets = members[NearestNeighbors(n_neighbors=n_targets).fit(X[members]).kneighbors(return_distance=False)]
        search = NearestNeighbors(n_neighbors=n_foreign).fit(X[foreign])
        impostors = foreign[search.kneighbors(X[members], return_distance=False)]
        i, j, l = np.broadcast_arrays(members[:, None, None], targets[:, :, None], impostors[:, None, :])
        triplets_by_class.append(np.stack([i, j, l], axis=-1).reshape(-1, 3).astype(np.int32))
    triplets = np.concatenate(triplets_by_class)
    if not len(triplets):
        raise ValueError("every class has one member, so there are no triplets; merge classes.")
    return triplets


def local_discriminants(X: FloatArray, index: IndexArray, n_bases: int | None, random_state: int | None) -> FloatArray:
    """Return unit vectors from linear discriminant analysis around cluster centers (section 3.1 of [SBS2014]), (k, d).

    Around each center of k-means, the nearest 10, and the nearest 20, members of each class are discriminated.
    """
    (n, d), n_classes = X.shape, int(index.max()) + 1
    n_directions = min(n_classes - 1, d)  # of one discriminant
    wanted = min(20 * d, 2 * n * n_directions) if n_bases is None else validation.check_integer("n_bases", n_bases)
    clusters = min(max(1, math.ceil(wanted / (2 * n_directions))), len(np.unique(X, axis=0)))
    seed = 0 if random_state is None else random_state
    from sklearn.cluster import KMeans  # takes long to import

    centers = KMeans(clusters, n_init=1, random_state=seed).fit(X).cluster_centers_
    bases = [np.zeros((0, d))]
    for scale in SCALES:
        nearest = []
        for c in range(n_classes):
            members = np.flatnonzero(index == c)
            search = NearestNeighbors(n_neighbors=min(scale, len(members))).fit(X[members])
            nearest.append(members[search.kneighbors(centers, return_distance=False)])
        with threads.one_pool():  # small matrices: with more threads BLAS takes ten times the processor time
            for rows_by_class in zip(*nearest, strict=True):
                with suppress(np.linalg.LinAlgError):  # no class varies there
                    bases.append(discriminants([X[rows] for rows in rows_by_class])[:n_directions])
    directions = np.concatenate(bases)
    lengths = np.linalg.norm(directions, axis=1)
    valid = np.isfinite(lengths) & (lengths > 0.0)
    if not valid.any():
        raise ValueError(
            "X has no neighborhood in which a class varies, so there is nothing to discriminate; pass bases."
        )
    return np.asarray(directions[valid] / lengths[valid, None])


def discriminants(classes: Sequence[FloatArray]) -> FloatArray:
    """Return the directions of linear discriminant analysis of the rows of some classes, the best first, (k, d).

    With fewer rows than features they are those in the span of the rows, k of them; a direction outside has no scatter.

    They are those of scikit-learn's ``LinearDiscriminantAnalysis(solver="eigen")``, which takes ten times as long to
    check so few rows.
    """
    rows, d = np.concatenate(classes), classes[0].shape[1]
    if len(rows) < d:
        Q = np.linalg.qr((rows - rows.mean(axis=0)).T)[0]
        rows, classes = rows @ Q, [members @ Q for members in classes]
    covariance = sum((len(members) / len(rows)) * _shrunk_covariance(members, d) for members in classes)
    _, vectors = scipy.linalg.eigh(_shrunk_covariance(rows, d) - covariance, covariance)
    return np.asarray(vectors.T[::-1] if rows.shape[1] == d else vectors.T[::-1] @ Q.T)


def _shrunk_covariance(X: FloatArray, d: int) -> FloatArray:
    """Return the covariance of rows, shrunk toward its mean over d features."""
    deviations = X - X.mean(axis=0)
    C = deviations.T @ deviations / len(X)
    return np.asarray((1.0 - SHRINKAGE) * C + SHRINKAGE * np.trace(C) / d * np.eye(len(C)))
