"""ONNX graphs of fitted estimators compute what the estimators compute, in another runtime."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sdpmetric.estimators import ITML, LMNN, NCA, POLA, RCA, Adapter, KernelLMNN, MultiMetricLMNN


@pytest.fixture(scope="module")
def to_onnx():
    pytest.importorskip("skl2onnx")
    pytest.importorskip("onnxruntime")
    return pytest.importorskip("sdpmetric.adapters.onnx").to_onnx


def outputs(model, X):
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: X})


@pytest.mark.parametrize(
    ("estimator", "dtype"),
    [
        *((kind, np.float64) for kind in (LMNN(), ITML(n_pairs=50), POLA(n_pairs=50), RCA(), Adapter(metric="cosine"))),
        (LMNN(n_components=2), np.float32),
        (NCA(), np.float32),
    ],
)
def test_the_embedding_is_the_same(estimator, dtype, to_onnx):
    X, y = load_iris(return_X_y=True)
    X = X.astype(dtype)
    fitted = estimator.fit(X, y)
    (Z,) = outputs(to_onnx(fitted, X), X)
    assert Z.dtype == dtype
    assert Z.shape == fitted.transform(X).shape
    np.testing.assert_allclose(Z, fitted.transform(X), rtol=1e-3, atol=1e-4 * np.abs(Z).max())


def test_a_pipeline_with_a_classifier_predicts_alike(to_onnx):
    X, y = load_iris(return_X_y=True)
    X = X.astype(np.float32)
    pipe = make_pipeline(StandardScaler(), PCA(3), LMNN(), KNeighborsClassifier(3)).fit(X[::2], y[::2])
    labels = outputs(to_onnx(pipe, X), X[1::2])[0]
    assert np.mean(labels == pipe.predict(X[1::2])) > 0.98  # float32 there, and ties


@pytest.mark.parametrize("estimator", [KernelLMNN(), MultiMetricLMNN()], ids=lambda e: type(e).__name__)
def test_what_is_no_linear_map_is_refused(estimator, to_onnx):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(TypeError, match="only estimators with one linear map"):
        to_onnx(estimator.fit(X[::3], y[::3]), X)
