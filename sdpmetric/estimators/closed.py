"""Covariance, RCA and LFDA as estimators: closed forms."""

from __future__ import annotations

import warnings
from dataclasses import field
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import Tags

from sdpmetric.core.problem import Problem
from sdpmetric.estimators import routes
from sdpmetric.estimators.base import MetricEstimator
from sdpmetric.estimators.callbacks import with_callbacks
from sdpmetric.estimators.data import Data, weighed
from sdpmetric.estimators.options import Count, Ridge, Seed, estimator
from sdpmetric.problems.lfda import Embedding, LFDAProblem
from sdpmetric.problems.rca import RCAProblem


@estimator
class Covariance(MetricEstimator):
    """The Mahalanobis distance of the data [M1936]: the inverse of their covariance, a baseline without labels.

    This is RCA with a single chunklet of all examples; the covariance is divided by n.

    Parameters
    ----------
    ridge : float or "auto", default 0
        Added to the diagonal of the covariance. "auto": ``(r / n)^2`` times the mean variance of a direction, for n
        examples that vary in r directions.

    Attributes
    ----------
    components_, metric_, solution_, relative_gap_, ridge_, n_iter_, n_features_in_, feature_names_in_
        As in `LMNN`.

    Warns
    -----
    UserWarning
        If the examples vary in fewer directions than there are features: then the metric is a pseudo-inverse, and
        differences along the other directions do not count.
    UselessOptimumWarning
        If the examples are too few for the directions in which they vary.

    See Also
    --------
    RCA : Whitens within classes or chunklets.

    Notes
    -----
    The program, and what is proven: docs/statements.md.

    References
    ----------
    [M1936] P. C. Mahalanobis. On the generalised distance in statistics. Proceedings of the National Institute of
        Sciences of India 2:49-55, 1936.

    Examples
    --------
    >>> import numpy as np
    >>> from sdpmetric.estimators import Covariance
    >>> X = np.array([[0.0, 0.0], [1.0, 2.0], [1.0, 0.0], [0.0, 2.0]])
    >>> Covariance().fit(X).metric_.round(6).tolist()
    [[4.0, 0.0], [0.0, 1.0]]
    """

    ridge: Ridge = field(default=0.0, kw_only=False)
    statement = RCAProblem

    @with_callbacks
    def fit(self, X: ArrayLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from examples.

        Parameters
        ----------
        X : (n, d) array or sparse matrix
        y : ignored
        sample_weight : (n,) array, optional
            Nonnegative: how often each example counts.

        Raises
        ------
        ValueError
            If all examples are equal.
        """
        data = self._checked(X)
        weights, rows = weighed(sample_weight, len(data))
        problem = RCAProblem(data[rows], np.zeros(len(data[rows]), dtype=np.int64), self.ridge, weights)
        rank, d = problem.coordinates.rank, data.shape[1]
        if rank < d:
            warnings.warn(
                f"the examples vary in {rank} of {d} directions: the metric is a pseudo-inverse, and differences along "
                "the others do not count. Reduce the dimension, for example by PCA, or pass more examples.",
                UserWarning,
                stacklevel=3,
            )
        return self._learn(problem, data)

    def __sklearn_tags__(self) -> Tags:
        """No labels are needed."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        return tags


@estimator
class RCA(MetricEstimator):
    """Relevant component analysis (Bar-Hillel et al. 2005) [BHSW2005]: whitening within chunklets, in closed form.

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
    components_, metric_, solution_, relative_gap_, ridge_, n_iter_, n_features_in_, feature_names_in_
        As in `LMNN`.

    See Also
    --------
    LFDA : Also uses the scatter between classes.
    ITML : Also learns from dissimilar pairs.

    Notes
    -----
    The program, and what is proven: docs/statements.md.

    References
    ----------
    [BHSW2005] A. Bar-Hillel, T. Hertz, N. Shental and D. Weinshall. Learning a Mahalanobis metric from equivalence
        constraints. Journal of Machine Learning Research 6:937-965, 2005.

    Examples
    --------
    >>> import numpy as np
    >>> from sdpmetric.estimators import RCA
    >>> X = np.array([[0.0, 0.0], [0.1, 2.0], [1.0, 0.1], [1.2, 1.9]])
    >>> RCA().fit_chunks(X, [0, 0, 1, 1]).transform(X).shape
    (4, 2)
    """

    ridge: Ridge = "auto"
    n_chunks: Count | None = None
    chunk_size: Count = 2
    random_state: Seed = None
    statement = RCAProblem
    fit_pairs = routes.fit_pairs

    def _problem_of_tuples(self, X: Data, tuples: ArrayLike, about: ArrayLike | None) -> Problem:
        return self._state(RCAProblem.from_pairs, X, tuples, about)

    @with_callbacks
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
            As the problem raises it.
        """
        data = self._checked(X)
        return self._learn(RCAProblem(data, chunks, self.ridge, sample_weight), data)


@estimator
class LFDA(MetricEstimator):
    """Local Fisher discriminant analysis (Sugiyama 2007) [S2007]: an eigenproblem, solved in closed form.

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
    components_, metric_, solution_, relative_gap_, ridge_, n_iter_, n_features_in_, feature_names_in_
        As in `LMNN`; the gap is that to the sum of the largest eigenvalues.

    See Also
    --------
    RCA : Whitens within classes or chunklets.

    Notes
    -----
    The program, and what is proven: docs/lfda.md.

    References
    ----------
    [S2007] M. Sugiyama. Dimensionality reduction of multimodal labeled data by local Fisher discriminant analysis.
        Journal of Machine Learning Research 8:1027-1061, 2007.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sdpmetric.estimators import LFDA
    >>> X, y = load_iris(return_X_y=True)
    >>> LFDA(n_components=2).fit(X, y).transform(X).shape
    (150, 2)
    """

    n_components: Count | None = field(default=None, kw_only=False)
    n_neighbors: Count = 7
    embedding: Embedding = "weighted"
    ridge: Ridge = "auto"
    statement = LFDAProblem

    def _options(self, problem: Problem) -> dict[str, object]:
        return {"embedding": self.embedding}
