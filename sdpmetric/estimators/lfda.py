"""Local Fisher discriminant analysis (LFDA) as an estimator."""

from __future__ import annotations

from dataclasses import field

from sdpmetric.core.problem import Problem
from sdpmetric.estimators.base import MetricEstimator
from sdpmetric.estimators.options import Count, NotNegative, estimator
from sdpmetric.problems.lfda import Embedding, LFDAProblem


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
