"""The metric of any fitted estimator: pipelines, PCA, LDA, and what is no affine map."""

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sdpmetric as sm
from sdpmetric.core.verbs import linear_map
from sdpmetric.estimators import LMNN

X, y = load_wine(return_X_y=True)

AFFINE = [
    StandardScaler(),
    PCA(3, whiten=True),
    LinearDiscriminantAnalysis(),
    LinearDiscriminantAnalysis(solver="eigen"),
    NeighborhoodComponentsAnalysis(2, max_iter=5),
    make_pipeline(StandardScaler(), PCA(5), LMNN()),
    make_pipeline(StandardScaler(), LMNN(n_components=2), KNeighborsClassifier()),
]


@pytest.mark.parametrize("estimator", AFFINE, ids=lambda e: "-".join(s[0] for s in getattr(e, "steps", [(str(e), 0)])))
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_distances_under_the_map_are_those_of_the_embedding(estimator):
    fitted = estimator.fit(X, y)
    L = linear_map(fitted, X)
    Z = (fitted if hasattr(fitted, "transform") else fitted[:-1]).transform(X)
    expected = ((Z[:50] - Z[50:100]) ** 2).sum(axis=1)
    np.testing.assert_allclose((((X[:50] - X[50:100]) @ L.T) ** 2).sum(axis=1), expected, rtol=1e-6)
    problem = sm.LMNNProblem.from_labels(X, y)
    certificate = sm.verify(problem, estimator=fitted, rescale=True)
    assert certificate.objective == pytest.approx(problem.objective(problem.best_scale(L) * L), rel=1e-6)
    assert certificate.lower_bound <= certificate.objective


def test_pipelines_fitted_to_frames_find_their_columns(recwarn):
    frame = load_wine(as_frame=True).data
    fitted = make_pipeline(StandardScaler(), LMNN()).set_output(transform="pandas").fit(frame, y)
    pipeline = make_pipeline(StandardScaler(), LMNN()).fit(X, y)
    np.testing.assert_allclose(linear_map(fitted, X), linear_map(pipeline, X))
    assert not [w for w in recwarn if "feature names" in str(w.message)]
