"""Estimators: scikit-learn's own checks, and what this package promises beyond them."""

import pickle

import numpy as np
import pytest
from instances import assert_close, assert_same
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import has_fit_parameter

import sdpmetric as sm
from sdpmetric import estimators
from sdpmetric.estimators import LMNN, MLKR, MMC, NCA

TUPLES = ("PairClassifier", "TripletClassifier", "QuadrupletClassifier")  # learn from tuples alone
EVERY = [getattr(estimators, name)() for name in estimators.__all__ if name not in TUPLES]
COMPARING = [getattr(estimators, name)(LMNN()) for name in TUPLES]
ALL = [e for e in EVERY if hasattr(e, "transform")]
SOLVED = ("ITML", "LMNN", "MMC", "POLA", "LSML", "SDML", "SCML", "KernelLMNN", "Adapter")
PROVEN = [e for e in ALL if type(e).__name__ in SOLVED]
CLOSED = ("Covariance", "LFDA", "RCA")  # closed forms, without a solution
LABELS = np.array(["ape", "bee", "cow"])


def name_of(estimator) -> str:
    return type(estimator).__name__


def fit(estimator, X, y):
    """A clone, fitted to labels, or to numbers where it learns from numbers."""
    return clone(estimator).fit(X, np.searchsorted(LABELS, y) + X[:, 0] if name_of(estimator) == "MLKR" else y)


@pytest.fixture(scope="module", params=ALL, ids=name_of)
def fitted(request, data):
    """Each estimator, fitted once."""
    return fit(request.param, *data)


def unlike_repeated_rows(estimator) -> dict[str, str]:
    """Where whole weights are repeated rows, the metric is the same up to the tolerance, and the embedding is turned.

    tests/problems/test_example_weights.py compares objectives and certificates in the check's place.
    """
    counted = ("MMC", "ITML", "POLA", "RCA", "LFDA", "Covariance")
    reason = "the embedding is turned" if name_of(estimator) in counted else "neighbors are chosen without weights"
    checks = [f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")]
    failed = dict.fromkeys(checks, reason) if has_fit_parameter(estimator, "sample_weight") else {}
    if name_of(estimator) == "MMC":  # on the data of these checks:
        names = ("check_sample_weights_shape", "check_sample_weights_not_overwritten")
        failed |= dict.fromkeys(names, "no finite maximum, said by an error")
    return failed


# NCA and MLKR otherwise than by default.
OTHERWISE = [
    NCA(max_iter=5, objective="log", random_state=0),
    NCA(targets="continuous"),
    MLKR(init="random", random_state=0),
]


@pytest.mark.sklearn_checks
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([*EVERY, *OTHERWISE, *COMPARING], expected_failed_checks=unlike_repeated_rows)
def test_passes_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    ("estimator", "dtype"), [*((e, np.float64) for e in PROVEN), (LMNN(), np.float32), (MMC(), np.float32)]
)
def test_a_fit_is_proven_and_says_so(estimator, dtype, data):
    X, y = data[0].astype(dtype), data[1]
    fitted = clone(estimator).fit(X, y)
    problem = fitted.solution_.problem
    assert fitted.solution_.status is sm.Status.OPTIMAL
    assert fitted.relative_gap_ == fitted.solution_.relative_gap <= 1e-3
    assert fitted.n_iter_ == fitted.solution_.n_iter >= 1
    assert fitted.components_.dtype == problem.X.dtype
    assert_close(fitted.metric_, fitted.components_.T @ fitted.components_, 1e3 * np.abs(fitted.metric_).max())
    Z = fitted.transform(X)
    assert Z.dtype == dtype
    assert Z.shape == (60, len(fitted.components_))
    assert next(iter(fitted.get_feature_names_out())) == name_of(estimator).lower() + "0"
    assert len(fitted.get_feature_names_out()) == Z.shape[1]
    distance = fitted.pair_distance(X, [[0, 1], [5, 9]])
    np.testing.assert_allclose(distance, [np.linalg.norm(Z[0] - Z[1]), np.linalg.norm(Z[5] - Z[9])], rtol=1e-4)


def test_a_pickle_transforms_alike_and_leaves_the_data_out(fitted, data):
    restored = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(restored.transform(data[0]), fitted.transform(data[0]))
    if name_of(fitted) in CLOSED:
        return
    assert restored.solution_.problem is None
    assert fitted.solution_.problem is not None
    proven = isinstance(fitted.solution_.certificate, sm.DualityCertificate)
    assert hasattr(fitted, "relative_gap_") == proven
    assert vars(restored).get("relative_gap_") == vars(fitted).get("relative_gap_")


def test_no_training_row_is_among_the_bytes_of_a_pickle(fitted, data):
    needed = {"X_fit_", "space_"}  # what classifies, or computes kernel values, by its training examples
    for name, value in fitted.__getstate__().items():
        pickled = pickle.dumps(value)
        rows = [row.tobytes() in pickled for row in data[0]]
        assert all(rows) if name in needed else not any(rows), name
    assert not {"X_fit_", "space_"}.intersection(vars(LMNN(n_passes=2).fit(*data)))


def test_skops_keeps_an_estimator_without_pickle(fitted, data):
    skops = pytest.importorskip("skops.io")
    dumped = skops.dumps(fitted)
    strangers = skops.get_untrusted_types(data=dumped)
    assert {name.rsplit(".", 1)[1] for name in strangers} <= {name_of(fitted), "Solution", "FeatureSpace"}
    restored = skops.loads(dumped, trusted=strangers)
    np.testing.assert_array_equal(restored.transform(data[0]), fitted.transform(data[0]))
    assert clone(restored).get_params() == fitted.get_params()
    if name_of(fitted) not in CLOSED:
        assert restored.solution_.certificate == fitted.solution_.certificate
        assert restored.solution_.status is fitted.solution_.status


@pytest.mark.parametrize("verbose", [False, True])
def test_a_missing_proof_is_warned_of_with_advice(verbose, data):
    with pytest.warns(ConvergenceWarning, match=r"LMNN ended with status user_limit .* raise max_time or max_iter"):
        lmnn = LMNN(max_iter=2, tol=1e-9, verbose=verbose).fit(*data)
    assert lmnn.relative_gap_ > 1e-9
    with pytest.warns(ConvergenceWarning, match="MMC ended with status user_limit"):
        MMC(max_iter=1, tol=1e-12).fit(*data)


def test_small_classes_get_fewer_target_neighbors_and_a_warning(data):
    X, y = data[0], data[1].copy()
    y[np.flatnonzero(y == "bee")[2:]] = "ape"  # two bees
    y[np.flatnonzero(y == "cow")[1:]] = "ape"  # one cow
    with pytest.warns(UserWarning, match=r"n_neighbors=3 or fewer members: bee \(2\), cow \(1\)"):
        lmnn = LMNN(push_weight=0.3).fit(X, y)
    anchors, targets = lmnn.solution_.problem.target_pairs
    counts = np.bincount(anchors, minlength=60)
    assert (counts[y == "ape"] == 3).all()
    assert (counts[y == "bee"] == 1).all()
    assert (counts[y == "cow"] == 0).all()
    assert (y[anchors] == y[targets]).all()
    D = cdist(X, X)
    ape = np.flatnonzero(y == "ape")[0]
    nearest = [j for j in np.argsort(D[ape]) if y[j] == "ape" and j != ape][:3]
    assert set(targets[anchors == ape]) == set(nearest)


def test_each_pass_takes_the_neighbors_under_the_metric_before_and_is_certified(data):
    X, y = data
    lmnn = LMNN(n_neighbors=2, push_weight=0.3, n_passes=3, tol=1e-4).fit(X, y)
    assert len(lmnn.solutions_) == 3
    assert lmnn.solution_ is lmnn.solutions_[-1]
    metric = np.eye(4)
    for solution in lmnn.solutions_:
        L = np.linalg.cholesky(metric + 1e-14 * np.trace(metric) * np.eye(4)).T
        D = cdist(X @ L.T, X @ L.T, "sqeuclidean") + np.where(y[:, None] == y, 0, np.inf) + np.diag([np.inf] * 60)
        anchors, targets = solution.problem.target_pairs
        of = [set(targets[anchors == i]) for i in range(60)]
        assert of == [set(row) for row in np.argsort(D, axis=1, kind="stable")[:, :2]]
        certificate = solution.problem.certify(solution.components, dual=solution.dual)
        assert_same(solution.objective, certificate.objective)
        assert solution.relative_gap <= 1e-4
        metric = solution.metric
    first = LMNN(n_neighbors=2, push_weight=0.3, tol=1e-4).fit(X, y)
    assert_same(lmnn.solutions_[0].objective, first.solution_.objective)
    assert lmnn.solution_.problem.fingerprint() != first.solution_.problem.fingerprint()


def test_asked_components_are_given_whatever_the_rank():
    X = np.array([[0.0, 0.0], [1.0, 0.01], [2.0, 0.0], [0.0, 9.0], [1.0, 9.0], [2.0, 9.01]])
    lmnn = LMNN(2, n_neighbors=1, ridge=1.0).fit(X, [0, 0, 0, 1, 1, 1])
    assert len(lmnn.solution_.components) == 1
    assert lmnn.transform(X).shape == (6, 2)
    default = LMNN(n_neighbors=1, ridge=1.0).fit(X, [0, 0, 0, 1, 1, 1])  # as many in every fold
    np.testing.assert_array_equal(default.transform(X), lmnn.transform(X))


def test_the_only_member_of_a_class_is_not_held_back(data):
    X, y = data[0], data[1].astype("U5")
    y[7] = "alone"
    with pytest.warns(UserWarning, match=r"fewer members: alone \(1\)"):
        lmnn = LMNN(early_stopping=True, tol=0.1, random_state=np.random.default_rng(4)).fit(X, y)
    assert 0.85 * 60 < len(lmnn.solution_.problem.X) < 0.95 * 60
    assert np.all(X[7] == lmnn.solution_.problem.X, axis=1).sum() == 1
