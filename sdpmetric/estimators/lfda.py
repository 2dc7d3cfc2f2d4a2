"""Local Fisher discriminant analysis (LFDA) as an estimator."""

from __future__ import annotations

from sdpmetric.core.solution import Solution
from sdpmetric.estimators.labelled import WeightedEstimator
from sdpmetric.estimators.options import Reduced, options
from sdpmetric.estimators.watcher import Watcher
from sdpmetric.problems.lfda import Embedding, LFDAProblem


@options
class LFDA(WeightedEstimator, Reduced):
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
    dual_gap_ : float
        To the sum of the largest eigenvalues.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sdpmetric.estimators import LFDA
    >>> X, y = load_iris(return_X_y=True)
    >>> LFDA(n_components=2).fit(X, y).transform(X).shape
    (150, 2)
    """

    n_neighbors: int = 7
    embedding: Embedding = "weighted"
    ridge: float = 0.0
    _statement = LFDAProblem

    def _solve(self, watcher: Watcher, **options: object) -> Solution:
        return super()._solve(watcher, n_components=None, embedding=self.embedding, **options)
