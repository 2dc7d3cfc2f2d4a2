"""RCA and LFDA as estimators: closed forms."""

from __future__ import annotations

from dataclasses import field
from typing import Self, cast

from numpy.typing import ArrayLike

from sdpmetric.core.problem import Problem
from sdpmetric.estimators import routes
from sdpmetric.estimators.base import MetricEstimator
from sdpmetric.estimators.callbacks import with_callbacks
from sdpmetric.estimators.data import Data
from sdpmetric.estimators.options import Count, NotNegative, Ridge, estimator
from sdpmetric.problems.lfda import Embedding, LFDAProblem
from sdpmetric.problems.rca import RCAProblem


@estimator
class RCA(MetricEstimator):
    """Relevant component analysis (Bar-Hillel et al. 2005) [BHSW2005]: whitening within chunklets, in closed form.

    Parameters
    ----------
    n_components : int, optional
        Columns of `transform`: the leading principal components of the transformed examples; `solution_` is the whole
        metric. Default: all.
    ridge : float or "auto", default "auto"
        Added to the diagonal of the covariance within chunklets. "auto": ``(r / n)^2`` times the mean variance of a
        direction, for n members of chunklets that vary in r directions; see docs/useless_optima.md.

    Attributes
    ----------
    components_, metric_, solution_, relative_gap_, ridge_, n_iter_, n_features_in_, feature_names_in_
        As in `LMNN`.

    See Also
    --------
    LFDA : Looks at the scatter between classes, too.
    ITML : Learns from dissimilar pairs, too.

    Notes
    -----
    The statement and what is proven: docs/statements.md.

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

    n_components: Count | None = field(default=None, kw_only=False)
    ridge: Ridge = "auto"
    statement = RCAProblem
    fit_pairs = routes.fit_pairs

    def _problem_of_tuples(self, X: Data, tuples: ArrayLike, about: ArrayLike | None) -> Problem:
        return self._state(RCAProblem.from_pairs, X, tuples, about)

    def _fitted(self, problem: Problem, components: Data) -> dict[str, object]:
        return super()._fitted(problem, components) | {"ridge_": cast(RCAProblem, problem).ridge}

    @with_callbacks
    def fit_chunks(self, X: ArrayLike, chunks: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from chunklets, examples that are known to belong together.

        Parameters
        ----------
        X : (n, d) array
        chunks : (n,) integer array
            Number of each example's chunklet, -1: of none.
        sample_weight : (n,) array, optional
            Nonnegative: an example counts so many times.

        Returns
        -------
        self

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
        Default the number of features; components that no positive eigenvalue belongs to are 0.
    n_neighbors : int, default 7
        The distance to which of the neighbors in its class is an example's scale.
    embedding : {"weighted", "orthonormalized", "plain"}, default "weighted"
        Scale of the components: eigenvectors times the roots of their eigenvalues, an orthonormal basis of their
        span, or the eigenvectors.
    ridge : float, default 0
        Added to the diagonal of the local scatter within classes; needed where data vary in directions in which no
        class does, as with more features than examples.

    Attributes
    ----------
    components_, metric_, solution_, relative_gap_, n_iter_, n_features_in_, feature_names_in_
        As in `LMNN`; the gap is that to the sum of the largest eigenvalues.

    See Also
    --------
    RCA : Whitens within classes or chunklets.

    Notes
    -----
    The statement and what is proven: docs/lfda.md.

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
    ridge: NotNegative = 0.0
    statement = LFDAProblem

    def _options(self, problem: Problem) -> dict[str, object]:
        return {"embedding": self.embedding}
