"""The adapter near frozen embeddings: what is stated, how its strength is chosen, and what it transforms."""

from collections import Counter

import numpy as np
import pytest

import sdpmetric as sm
from sdpmetric import terms
from sdpmetric.estimators import Adapter
from sdpmetric.estimators.adapter import comparisons

RNG = np.random.default_rng(3)
Y = np.repeat([0, 1, 2, 3], [20, 14, 8, 1])
X = RNG.normal(size=(43, 6)) + np.outer(Y, [1.0, -0.7, 0.0, 0.0, 0.3, 0.0])
TRIPLETS = np.array([(i, j, l) for i, j, l in RNG.integers(0, 43, (900, 3)) if i != j and Y[i] == Y[j] != Y[l]])
PAIRS = np.stack(np.triu_indices(43, 1), axis=1)[::5]
SIMILAR = Y[PAIRS[:, 0]] == Y[PAIRS[:, 1]]


def mean_square(data):
    return np.mean([np.sum((a - b) ** 2) for k, a in enumerate(data) for b in data[:k]])


def test_comparisons_are_of_the_nearest_of_the_class_in_turn_with_the_nearest_others():
    for m in (2, 4, 10, 30, 42):
        triplets = comparisons(X, Y, m)
        for i in range(len(X)):
            near, far = triplets[triplets[:, 0] == i, 1:].T.tolist()
            away = np.sum((X - X[i]) ** 2, axis=1)
            mates = [j for j in np.argsort(away) if Y[j] == Y[i] and j != i]
            strangers = [j for j in np.argsort(away) if Y[j] != Y[i]]
            quota = max(min(len(mates), max(1, m // 4)), m - len(strangers))
            assert sorted(far) == sorted(strangers[: m - quota] if mates else [])
            assert set(near) <= set(mates[:quota])
            assert np.ptp([*Counter(near).values()] or [0]) <= 1


def test_the_statement_is_that_of_its_help():
    d, scale = 6, 10.0 / mean_square(X)
    regularizer = terms.Frobenius(to=scale * np.eye(d))
    adapter = Adapter(strength=2.0, n_candidates=9).fit(X, Y)
    loss = terms.TripletHinge(comparisons(X, Y, 9), margin=0.0, loss="logistic", weight=1 / 43)
    stated = sm.MetricProblem(X, loss + 2.0 / (np.sqrt(43 * d) * scale**2) * regularizer)
    assert str(adapter.solution_.certificate).startswith("Adapter: objective")
    assert repr(adapter.solution_.problem).startswith("<Adapter: ")
    L = RNG.normal(size=(d, d))
    assert adapter.solution_.problem.objective(L) == pytest.approx(stated.objective(L), rel=1e-9)
    t = len(TRIPLETS)
    adapter = Adapter().fit_triplets(X, TRIPLETS)
    loss = terms.TripletHinge(TRIPLETS, margin=0.0, loss="logistic", weight=1 / t)
    stated = sm.MetricProblem(X, loss + 1.0 / (np.sqrt(t * d) * scale**2) * regularizer)
    assert adapter.solution_.problem.objective(L) == pytest.approx(stated.objective(L), rel=1e-9)
    four = Adapter().fit_quadruplets(X, TRIPLETS[:, [0, 1, 0, 2]])
    assert four.solution_.problem.objective(L) == pytest.approx(stated.objective(L), rel=1e-9)
    away = scale * np.sum((X[PAIRS[:, 0]] - X[PAIRS[:, 1]]) ** 2, axis=1)
    threshold = 0.5 * (away[SIMILAR].mean() + away[~SIMILAR].mean())
    loss = terms.PairHinge(PAIRS, SIMILAR, threshold, margin=0.0, loss="logistic", weight=1 / len(PAIRS))
    stated = sm.MetricProblem(X, loss + 1.0 / (np.sqrt(len(PAIRS) * d) * scale**2) * regularizer)
    adapter = Adapter().fit_pairs(X, PAIRS, SIMILAR)
    assert adapter.solution_.problem.objective(L) == pytest.approx(stated.objective(L), rel=1e-9)


@pytest.mark.parametrize("options", [{}, {"metric": "cosine"}, {"strength": "cv"}])
def test_fewer_rows_than_features_are_solved_in_their_span_and_proven_in_the_whole_space(options, monkeypatch):
    wide = np.random.default_rng(0).normal(size=(43, 60)) + Y[:, None] * np.linspace(-1.0, 1.0, 60)
    adapter = Adapter(tol=1e-8, **options).fit(wide, Y)
    monkeypatch.setattr(sm.MetricProblem, "in_span", None)
    whole = Adapter(tol=1e-8, **options)
    whole.fit(wide, Y)
    assert adapter.solution_.objective == pytest.approx(whole.solution_.objective, rel=1e-7)
    proven = sm.certify(whole.solution_.problem, adapter.components_, dual=adapter.solution_.dual)
    assert proven.relative_gap < 1e-7
    pairs = Adapter(tol=1e-6).fit_pairs(wide, PAIRS, SIMILAR)
    assert pairs.components_.shape == (60, 60)


def test_cosine_is_of_rows_divided_by_their_lengths():
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    cosine, euclidean = Adapter(metric="cosine").fit(X, Y), Adapter().fit(unit, Y)
    np.testing.assert_allclose(cosine.transform(5.0 * X), cosine.transform(unit), atol=1e-12)
    np.testing.assert_allclose(cosine.pair_distance(3.0 * X, PAIRS), euclidean.pair_distance(unit, PAIRS), rtol=1e-6)


@pytest.mark.parametrize("kind", ["labels", "pairs", "triplets"])
def test_the_strength_is_chosen_by_held_out_scores(kind):
    adapter = Adapter(strength="cv", random_state=2)
    if kind == "labels":
        adapter.fit(X, Y)
    elif kind == "pairs":
        adapter.fit_pairs(X, PAIRS, SIMILAR)
    else:
        adapter.fit_triplets(X, TRIPLETS)
    assert adapter.strength_ == adapter.strengths_[np.argmax(adapter.scores_)]
    assert np.all(np.diff(adapter.strengths_) < 0.0)
    assert np.all((adapter.scores_ > 0.3) & (adapter.scores_ <= 1.0))
    fixed = Adapter(strength=adapter.strength_)
    assert fixed.fit(X, Y).strengths_.size == 0
    if kind == "labels":
        assert fixed.solution_.problem.fingerprint() == adapter.solution_.problem.fingerprint()


@pytest.mark.parametrize(
    ("fit", "given", "sentence"),
    [
        (Adapter().fit, [np.arange(43)], "^every class of y has one member"),
        (Adapter(prior=-np.eye(6)).fit, [Y], "^prior is not positive semidefinite"),
        (Adapter(prior=np.eye(6, k=1)).fit, [Y], "^prior is not symmetric; pass a symmetric matrix or 'identity'"),
        (Adapter(prior=np.eye(5)).fit, [Y], r"^prior must have shape \(6, 6\)"),
        (Adapter(strength="cv").fit_triplets, [TRIPLETS[:1]], "^strength='cv' holds back some .*, and there is 1"),
        (Adapter().fit_triplets, [[[0, 1, 50]]], r"^triplets has indices outside 0\.\.42"),
        (Adapter().fit_triplets, [[[0, 1, 1]]], "^triplets names a row twice"),
        (Adapter().fit_triplets, [[[0.5, 1, 2]]], "^triplets must be .*: an example, one that is to be near it"),
        (Adapter().fit_triplets, [np.zeros((0, 3), dtype=int)], "^triplets is empty"),
        (Adapter().fit_triplets, [[[0, 1, 2]], [-1.0]], "^weights must be finite and at least 0"),
        (Adapter().fit_quadruplets, [[[0, 1, 2, 2]]], "^a pair of quadruplets names a row twice"),
        (Adapter().fit_quadruplets, [[[0, 1, 2, 3]], [np.nan]], "^weights must be finite"),
        (Adapter().fit_pairs, [[[0, 0]], [True]], "^pairs names a row twice"),
        (Adapter().fit_pairs, [[[0, 1]], [0.7]], "LEGO.fit_targets"),
    ],
)
def test_errors_speak_of_what_was_passed(fit, given, sentence):
    with pytest.raises(ValueError, match=sentence):
        fit(X, *given)


def test_noisy_labels_do_not_start_at_zero():
    """Where the zero metric is better than the prior, descent starts at a multiple of the prior."""
    rng = np.random.default_rng(0)
    noisy = 0.02 * rng.normal(size=(120, 60)) + np.eye(60)[np.arange(120) % 60]
    assert Adapter().fit(noisy, rng.integers(0, 30, 120)).solution_.status.ok
