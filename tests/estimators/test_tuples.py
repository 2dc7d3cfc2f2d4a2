"""Pairs, triplets and quadruplets as data of scikit-learn: fit, predict, scores, thresholds, cross-validation."""

import pickle

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import accuracy_score, fbeta_score, roc_auc_score
from sklearn.model_selection import cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sdpmetric import constraints
from sdpmetric.estimators import (
    ITML,
    LEGO,
    LMNN,
    MMC,
    POLA,
    RCA,
    SCML,
    KernelLMNN,
    MultiMetricLMNN,
    PairClassifier,
    QuadrupletClassifier,
    TripletClassifier,
)
from sdpmetric.estimators.tuples import best_threshold

X, LABELS = load_iris(return_X_y=True)
RNG = np.random.default_rng(0)
PAIRS = RNG.integers(0, 150, size=(90, 2))
PAIRS = PAIRS[PAIRS[:, 0] != PAIRS[:, 1]]
SIMILAR = np.where(LABELS[PAIRS[:, 0]] == LABELS[PAIRS[:, 1]], 1, -1)
TRIPLETS = np.array([[0, 1, 60], [61, 62, 3], [120, 121, 70], [5, 9, 130], [77, 78, 140], [11, 20, 90]])
QUADRUPLETS = np.column_stack([PAIRS[SIMILAR == 1][:20], PAIRS[SIMILAR == -1][:20]])

LEARNERS = [
    ITML(),
    MMC(),
    POLA(slack_weight=0.1),
    LEGO(),
    RCA(),
    PCA(2),
    make_pipeline(StandardScaler(), ITML()),
    FrozenEstimator(LMNN(tol=0.1).fit(X, LABELS)),
]


def name_of(estimator) -> str:
    return (
        "+".join(type(step).__name__ for step in estimator) if hasattr(estimator, "steps") else type(estimator).__name__
    )


def pair_classifier(pairs, y) -> PairClassifier:
    """A classifier of pairs under the Euclidean distance, as metric-learn's tests have one."""
    return PairClassifier(StandardScaler(with_mean=False, with_std=False)).fit(pairs, y)


@pytest.mark.parametrize("by", ["numbers", "examples"])
@pytest.mark.parametrize("learner", LEARNERS, ids=name_of)
def test_every_learner_classifies_pairs_in_both_forms(learner, by):
    pairs = PAIRS if by == "numbers" else X[PAIRS]
    examples = X if by == "numbers" else None
    train, test, y_train, y_test = train_test_split(pairs, SIMILAR, random_state=0)
    classifier = PairClassifier(clone(learner), examples=examples)
    assert classifier.fit(train, y_train) is classifier
    predicted, scores = classifier.predict(test), classifier.pair_score(test)
    assert set(predicted) <= {-1, 1}
    assert classifier.classes_.tolist() == [-1, 1]
    assert classifier.n_features_in_ == 4
    np.testing.assert_array_equal(predicted == 1, -scores <= classifier.threshold_)
    np.testing.assert_array_equal(predicted == 1, classifier.decision_function(test) >= 0)
    embedded = [classifier.estimator_.transform(X[PAIRS[:, column]]) for column in (0, 1)]
    distances = np.linalg.norm(embedded[0] - embedded[1], axis=1)
    np.testing.assert_allclose(-classifier.pair_score(pairs), distances, rtol=1e-6, atol=1e-9)
    assert classifier.score(test, y_test) == roc_auc_score(y_test, scores) > 0.6


def test_a_callable_looks_names_up():
    def photograph(names):
        return X[[int(name.removeprefix("flower")) for name in names]]

    named = np.array([[f"flower{i}", f"flower{j}"] for i, j in PAIRS])
    by_name = PairClassifier(MMC(), examples=photograph).fit(named, SIMILAR)
    np.testing.assert_array_equal(by_name.predict(named), by_name.predict(X[PAIRS]))


def test_the_threshold_of_pola_is_its_own_unless_another_is_asked_for():
    pola = PairClassifier(POLA(slack_weight=0.1), examples=X).fit(PAIRS, SIMILAR)
    assert pola.threshold_**2 == pytest.approx(pola.estimator_.threshold_)
    chosen = PairClassifier(POLA(slack_weight=0.1), examples=X, strategy="accuracy").fit(PAIRS, SIMILAR)
    assert np.mean(chosen.predict(PAIRS) == SIMILAR) >= np.mean(pola.predict(PAIRS) == SIMILAR)


def test_what_learns_from_labels_gets_them():
    lmnn = PairClassifier(LMNN(push_weight=0.3), examples=X)
    lmnn.fit(PAIRS, SIMILAR, labels=LABELS)
    used = np.unique(PAIRS)
    learner = LMNN(push_weight=0.3).fit(X[used], LABELS[used])
    np.testing.assert_array_equal(lmnn.estimator_.metric_, learner.metric_)


STRATEGIES = [
    ({"strategy": "accuracy"}, accuracy_score),
    *(({"strategy": "f_beta", "beta": b}, lambda y, p, b=b: fbeta_score(y, p, beta=b)) for b in (0.1, 1.0)),
    ({"strategy": "f_beta", "beta": 0.0}, lambda y, p: np.mean(y[p == 1] == 1) if (p == 1).any() else 0.0),
    *(({"strategy": "max_tpr", "min_rate": r}, lambda y, p, r=r: rate(y, p, 1, r)) for r in (0.0, 0.5, 1.0)),
    *(({"strategy": "max_tnr", "min_rate": r}, lambda y, p, r=r: rate(y, p, -1, r)) for r in (0.0, 0.5, 1.0)),
]


def rate(y, predicted, kind, low):
    """The share of one kind that is recognized, or -1 where less than `low` of the other kind is."""
    true_rate, false_rate = (np.mean(predicted[y == k] == k) for k in (kind, -kind))
    return true_rate if false_rate >= low else -1.0


@pytest.mark.parametrize(("arguments", "scoring"), STRATEGIES)
def test_no_threshold_is_better_than_the_calibrated_one(arguments, scoring):
    rng = np.random.default_rng(42)
    pairs, y = rng.normal(size=(50, 2, 5)), rng.choice([-1, 1], size=50)
    pairs[6:10], y[6:9] = pairs[10:14], y[10:13]  # one of them with the other label
    classifier = pair_classifier(pairs, y)
    assert classifier.calibrate_threshold(pairs, y, **arguments) is classifier
    best = scoring(y, classifier.predict(pairs))
    scores = classifier.pair_score(pairs)
    thresholds = set()
    for threshold in -np.concatenate([[scores.min() - 1], scores, [scores.max() + 1, 1.0]]):
        thresholds.add(scoring(y, classifier.set_threshold(threshold).predict(pairs)))
    assert max(thresholds) <= best
    assert len(thresholds) > 1


def test_a_threshold_parts_adjacent_floats():
    below = np.nextafter(1.0, 2.0)
    distances = np.array([below, np.nextafter(below, 2.0)])
    assert best_threshold(distances, np.array([True, False]), "accuracy", None, 1.0) == below


def test_examples_and_labels_are_metadata():
    with sklearn.config_context(enable_metadata_routing=True):
        classifier = PairClassifier(LMNN(tol=0.1)).set_fit_request(examples=True, labels=True)
        classifier = classifier.set_score_request(examples=True)
        metadata = {"examples": X, "labels": LABELS}
        scores = cross_val_score(classifier, PAIRS, SIMILAR, cv=3, params=metadata)
    same = cross_val_score(PairClassifier(LMNN(tol=0.1), examples=X), PAIRS, SIMILAR, cv=3, params={"labels": LABELS})
    np.testing.assert_array_equal(scores, same)


@pytest.mark.parametrize(
    ("classifier", "tuples", "y"),
    [
        (PairClassifier(ITML()), PAIRS, SIMILAR),
        (TripletClassifier(LMNN(ridge=0.1)), TRIPLETS, None),
        (QuadrupletClassifier(SCML(bases=np.eye(4))), QUADRUPLETS, None),
    ],
    ids=["pairs", "triplets", "quadruplets"],
)
def test_the_checks_of_estimators_for_tuples_of_examples(classifier, tuples, y):
    """What `check_estimator` asks, for samples that it does not make: arrays of several examples."""
    data = X[tuples]
    original = data.copy()
    fitted = clone(classifier)
    with pytest.raises(NotFittedError):
        fitted.predict(data)
    assert fitted.fit(data, y) is fitted
    assert repr(fitted.get_params()) == repr(classifier.get_params())  # no parameter is changed
    np.testing.assert_array_equal(data, original)
    before = {name: repr(value) for name, value in vars(fitted).items()}
    scores = fitted.decision_function(data)
    assert {name: repr(value) for name, value in vars(fitted).items()} == before
    assert scores.shape == fitted.predict(data).shape == (len(data),)
    assert set(fitted.predict(data)) <= set(fitted.classes_)
    assert 0.0 <= fitted.score(data, y) <= 1.0
    one_by_one = [fitted.decision_function(data[[i]])[0] for i in range(len(data))]
    np.testing.assert_allclose(one_by_one, scores, rtol=1e-9, atol=1e-12)
    for same in (clone(classifier).fit(data, y), pickle.loads(pickle.dumps(fitted))):
        np.testing.assert_array_equal(same.decision_function(data), scores)
    data.setflags(write=False)
    for same in (data, data.tolist()):
        refitted = clone(classifier).fit(same, None if y is None else y.tolist())
        np.testing.assert_allclose(refitted.decision_function(same), scores, rtol=1e-6, atol=1e-9)
    broken = np.where(np.arange(4) == 2, np.nan, original)
    for call in (fitted.predict, lambda Z: clone(classifier).fit(Z, y)):
        with pytest.raises(ValueError, match=r"NaN"):
            call(broken)
    for wrong in (data[:, :, :3], data[:, :-1], data[0], data[:0]):
        with pytest.raises(ValueError, match=r"feature|shape|minimum"):
            fitted.predict(wrong)


@pytest.mark.parametrize(
    ("classifier", "tuples"),
    [
        (TripletClassifier(LMNN(ridge=0.1), examples=X), TRIPLETS),
        (QuadrupletClassifier(SCML(bases=np.eye(4)), examples=X), QUADRUPLETS),
    ],
    ids=["triplets", "quadruplets"],
)
def test_weights_of_comparisons_reach_the_learner_and_the_score(classifier, tuples):
    weights = np.linspace(0.1, 3.0, len(tuples))
    weighted, reversed_weights = (clone(classifier).fit(X[tuples], sample_weight=w) for w in (weights, weights[::-1]))
    learn = getattr(clone(classifier.estimator), f"fit_{classifier.name}")
    same = learn(X[tuples].reshape(-1, 4), np.arange(tuples.size).reshape(tuples.shape), weights)
    np.testing.assert_array_equal(weighted.estimator_.components_, same.components_)
    problems = (fitted.estimator_.solution_.problem for fitted in (weighted, reversed_weights))
    assert len({problem.fingerprint() for problem in problems}) == 2
    swapped = np.concatenate([tuples[:2], tuples[2:, [0, 2, 1, 3][: tuples.shape[1]]]])
    correct = weighted.predict(swapped) == 1
    assert weighted.score(swapped, sample_weight=weights) == pytest.approx(weights[correct].sum() / weights.sum())
    with pytest.raises(ValueError, match="sample_weight"):
        clone(classifier).set_params(estimator=PCA()).fit(tuples, sample_weight=np.ones(len(tuples)))


@pytest.mark.parametrize("learner", [ITML(), LMNN(n_components=2), KernelLMNN()], ids=name_of)
def test_the_metric_as_a_function(learner):
    learner = clone(learner).fit(X, LABELS)
    metric = learner.get_metric()
    assert metric(X[0], X[70]) == pytest.approx(learner.pair_distance(X, [[0, 70]])[0], rel=1e-6)
    assert pickle.loads(pickle.dumps(metric))(X[0], X[70]) == metric(X[0], X[70])
    assert metric(X[0], X[70], squared=True) == pytest.approx(metric(X[0], X[70]) ** 2)
    before = metric(X[0], X[70])
    learner.fit(3.0 * X, LABELS)
    assert metric(X[0], X[70]) == before
    with pytest.raises(ValueError, match="features"):
        metric(X[0, :3], X[1, :3])
    with pytest.raises(NotFittedError):
        ITML().get_metric()
    with pytest.raises(ValueError, match="region"):
        MultiMetricLMNN().fit(X, LABELS).get_metric()


def test_impostors_are_drawn_among_the_nearest_of_other_classes():
    rows = constraints.triplets(X, LABELS, 3, near=4, random_state=1)
    assert len(rows) == len({(i, j) for i, j, _ in rows.tolist()}) == 3 * len(X)
    assert (LABELS[rows[:, 0]] == LABELS[rows[:, 1]]).all()
    squared = np.where(LABELS[:, None] == LABELS, np.inf, ((X[:, None] - X) ** 2).sum(axis=2))
    ranks = (squared[rows[:, 0]] < squared[rows[:, 0], rows[:, 2]][:, None] - 1e-12).sum(axis=1)
    assert (ranks.max(), (np.bincount(ranks) > 50).all()) == (3, True)
    assert (rows == constraints.triplets(X, LABELS, 3, near=4, random_state=1)).all()
