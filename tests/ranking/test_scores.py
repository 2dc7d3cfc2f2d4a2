"""Measures of rankings against scikit-learn; relevance; the expected loss of FRML."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import average_precision_score, dcg_score, ndcg_score, roc_auc_score

import sdpmetric as sm
from sdpmetric import ranking
from sdpmetric.ranking.scores import expected_weights, rank_weights


def grid(seed=0, n=37, d=3, classes=3):
    """Points on a coarse grid, so that distances tie and points repeat; classes of unequal sizes."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 4, size=(n, d)).astype(float)
    y = np.concatenate([np.arange(classes).repeat(2), np.minimum(rng.geometric(0.5, n - 2 * classes) - 1, classes - 1)])
    return X, rng.permutation(y)


def sklearn_values(scores, truth, ks):
    """AUC, average precision and tie-averaged precision at k; DCG adds ``p_k / log2(k + 1)`` at each place."""
    gains = np.diff([0.0] + [dcg_score([truth], [scores], k=k) for k in range(1, max(ks) + 1)])
    shares = gains * np.log2(np.arange(2, max(ks) + 2))
    whole = roc_auc_score(truth, scores), average_precision_score(truth, scores), ndcg_score([truth], [scores])
    return [*whole, *(shares[:k].mean() for k in ks)]


@pytest.mark.parametrize("seed", range(4))
def test_leave_one_out_values_are_scikit_learns(seed):
    X, y = grid(seed)
    L = np.random.default_rng(seed).integers(-2, 3, size=(2, 3)).astype(float)
    evaluation = ranking.evaluate(X, y, components=L, ks=(1, 3, 7))
    Z = X @ L.T
    for row, q in enumerate(evaluation.queries):
        rest_rows = np.delete(np.arange(len(X)), q)
        scores = -np.sum((Z[rest_rows] - Z[q]) ** 2, axis=1)
        assert len(np.unique(scores)) < len(scores)
        expected = sklearn_values(scores, (y[rest_rows] == y[q]).astype(int), (1, 3, 7))
        got = [m[row] for m in (evaluation.auc_of, evaluation.average_precision_of, evaluation.ndcg_of)]
        got += [*evaluation.precision_of[row]]
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)
    assert evaluation.map == pytest.approx(np.mean(evaluation.average_precision_of), abs=1e-15)
    assert evaluation.ndcg == pytest.approx(np.mean(evaluation.ndcg_of), abs=1e-15)
    assert evaluation.recall(3) == np.mean(evaluation.precision_of[:, 1] > 0.0)
    assert evaluation.precision(3) == pytest.approx(evaluation.precision_of[:, 1].mean(), abs=1e-15)


def test_values_for_queries_apart_and_for_a_similarity_that_is_no_metric():
    X, y = grid(5)
    Q, query_labels = grid(6, n=9)
    S = np.random.default_rng(1).integers(-2, 3, size=(3, 3)).astype(float)
    scores = ranking.evaluate(X, sm.Relevance.from_labels(y, query_labels), Q, similarity=S, ks=(2,))
    for row, q in enumerate(scores.queries):
        expected = sklearn_values(Q[q] @ S @ X.T, (y == query_labels[q]).astype(int), (2,))
        got = [scores.auc_of[row], scores.average_precision_of[row], scores.ndcg_of[row], *scores.precision_of[row]]
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)
    metric = ranking.evaluate(X, sm.Relevance.from_labels(y, query_labels), Q, metric=S.T @ S)
    factor = ranking.evaluate(X, sm.Relevance.from_labels(y, query_labels), Q, components=S)
    assert metric.auc == pytest.approx(factor.auc, abs=0.02)  # ties may break by rounding of the factor


@pytest.mark.parametrize("leave_one_out", [True, False])
def test_relevance_says_the_same_from_labels_lists_and_matrices(leave_one_out):
    _, y = grid(3, n=20)
    same = y[:, None] == y[None, :]
    lists = [np.flatnonzero(row)[::-1] for row in same]
    of_lists = sm.Relevance.from_lists(lists, 20, leave_one_out=leave_one_out)
    of_matrix = sm.Relevance.from_matrix(sp.csr_array(same), leave_one_out=leave_one_out)
    of_labels = sm.Relevance.from_labels(y, None if leave_one_out else y)
    for made in (of_lists, of_matrix, of_labels):
        for q in range(20):
            expected = np.flatnonzero(same[q] & ((np.arange(20) != q) | (not leave_one_out)))
            np.testing.assert_array_equal(made.relevant(q), expected)
            np.testing.assert_array_equal(made.irrelevant(q), np.flatnonzero(~same[q]))
            assert made.n_relevant[q] == len(expected)
            assert made.n_irrelevant[q] == 20 - same[q].sum()
            position = made.self_position[q]
            assert (
                position == -1
                if not leave_one_out
                else made.indices[made.indptr[made.list_of_query[q]] + position] == q
            )
        np.testing.assert_array_equal(made.mask(np.array([4, 1])), same[[4, 1]])


def test_a_part_of_a_relation_is_renumbered():
    _, y = grid(4, n=24)
    relation = sm.Relevance.from_labels(y, unanswerable="exclude")
    items, held = np.arange(0, 24, 2), np.arange(1, 24, 4)
    subrelation = relation.subset(held, items)
    assert not subrelation.leave_one_out
    np.testing.assert_array_equal(subrelation.relevant(2), np.flatnonzero(y[items] == y[held[2]]))
    diagonal_part = relation.subset(items, items)
    assert diagonal_part.leave_one_out
    np.testing.assert_array_equal(diagonal_part.relevant(3), np.setdiff1d(np.flatnonzero(y[items] == y[items[3]]), [3]))
    with pytest.raises(ValueError, match="disjoint or equal"):
        relation.subset(np.arange(3), items)


@pytest.mark.parametrize("power", [-190, -100, 100, 190])
def test_units_change_no_ranking(power):
    X, y = grid(3)
    Q, query_labels = grid(6, n=9)
    related = sm.Relevance.from_labels(y, query_labels)
    for metric in ({}, {"components": np.diag([1.0, 3.0, 0.5])}):
        reference, scaled = (ranking.evaluate(s * X, related, s * Q, **metric) for s in (1.0, 2.0**power))
        np.testing.assert_array_equal(reference.auc_of, scaled.auc_of)
        np.testing.assert_array_equal(reference.average_precision_of, scaled.average_precision_of)
    assert ranking.evaluate(2.0**power * X, y).auc == ranking.evaluate(X, y).auc


@pytest.mark.parametrize("gamma", [1, 10, 25])
@pytest.mark.parametrize("n", [50, 200, 1000])
def test_expected_loss_is_increasing_and_concave(n, gamma):
    E = expected_weights("warp", n, gamma)
    increments = np.diff(E)
    assert E[0] == 0.0
    assert increments.min() >= -1e-14
    assert np.diff(increments).max() <= 1e-12
    assert E[n] == pytest.approx(rank_weights("warp", n)[n], rel=1e-12)
    # The sum that the proof ends with.
    weights = np.append(rank_weights("warp", n)[n // np.arange(1, n // gamma + 1)], 0.0)
    probabilities = 1 - (1 - np.arange(n + 1)[:, None] / n) ** np.arange(1, n // gamma + 1)
    np.testing.assert_allclose(probabilities @ -np.diff(weights), E, atol=1e-12)
