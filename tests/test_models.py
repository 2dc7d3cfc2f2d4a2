"""Models: what was saved applies to raw data as the metric does to prepared ones, and holds no example."""

import json

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, Normalizer, QuantileTransformer, RobustScaler

import sdpmetric as sm
from sdpmetric import datasets
from sdpmetric.models import Model

X, y = load_wine(return_X_y=True)
NAMES = tuple(load_wine().feature_names)


def learned(preparation, **options):
    problem = sm.LMNNProblem.from_labels(datasets.prepare(preparation, X), y)
    return Model(sm.solve(problem), preparation, **options)


PIPELINES = {
    "standardized": datasets.pipeline(),
    "raw": datasets.pipeline(standardize=False),
    "pca": datasets.pipeline(standardize=True, pca=4),
    "scalers": make_pipeline(MinMaxScaler(), RobustScaler(), Normalizer()),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_a_model_applies_alike_when_it_was_loaded(name, tmp_path):
    model = learned(PIPELINES[name], features=NAMES, label="kind", statement="lmnn", parameters={"ridge": 0.5})
    expected = model.preparation.transform(X) @ model.solution.components.T
    np.testing.assert_array_equal(model.transform(X), expected)
    model.save(tmp_path / "model.npz")
    loaded = Model.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.transform(X), expected)
    np.testing.assert_array_equal(loaded.prepare(X), model.prepare(X))
    assert (loaded.features, loaded.label, loaded.statement) == (NAMES, "kind", "lmnn")
    assert loaded.parameters == {"ridge": 0.5}
    assert loaded.n_features == 13
    assert loaded.solution.certificate == model.solution.certificate
    problem = model.solution.problem
    assert sm.Solution.load(tmp_path / "model.npz", problem).objective == model.solution.objective


def test_the_file_holds_no_example_and_no_pickle(tmp_path):
    model = learned(datasets.pipeline())
    model.save(tmp_path / "model.npz")
    with np.load(tmp_path / "model.npz", allow_pickle=False) as file:
        content = b"".join(file[name].tobytes() for name in file.files)
        assert json.loads(str(file["model"]))["steps"][0]["kind"] == "StandardScaler"
    for row in (*X, *model.prepare(X)):
        assert row.tobytes() not in content


def test_features_are_taken_by_name_in_any_order():
    pandas = pytest.importorskip("pandas")
    model = learned(datasets.pipeline(), features=NAMES)
    frame = pandas.DataFrame(X, columns=NAMES).assign(id=1)[["id", *NAMES[::-1]]]
    np.testing.assert_array_equal(model.transform(frame), model.transform(X))
    with pytest.raises(ValueError, match=r"X lacks alcohol; the model's features are alcohol, malic_acid"):
        model.transform(frame.drop(columns="alcohol"))
    with pytest.raises(ValueError, match=r"X has 12 features, and the model .*alcohol"):
        model.transform(X[:, 1:])


def test_what_a_model_cannot_keep_or_apply_is_refused(tmp_path):
    with pytest.raises(
        TypeError, match=r"a model supports the steps StandardScaler, .*, not QuantileTransformer; use skops"
    ):
        learned(make_pipeline(QuantileTransformer(n_quantiles=20))).save(tmp_path / "model.npz")
    kernel = Model(learned(datasets.pipeline()).solution, statement="kernel-lmnn", linear=False)
    with pytest.raises(ValueError, match="needs the training examples to embed others"):
        kernel.transform(X)
    kernel.solution.save(tmp_path / "solution.npz")
    with pytest.raises(ValueError, match="is no model; write one with"):
        Model.load(tmp_path / "solution.npz")
