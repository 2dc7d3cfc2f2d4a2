"""MLR by all rankings, its sandwich with triplets; ranking metrics against scikit-learn; relevance."""

from itertools import permutations

import numpy as np
import pytest
import scipy.sparse as sp
from instances import assert_same, assert_sandwich
from sklearn.metrics import average_precision_score, dcg_score, ndcg_score, roc_auc_score

import sdpmetric as sm
from sdpmetric import ranking
from sdpmetric.ranking.scores import expected_weights, rank_weights

N = 7
Y = np.array([0, 0, 0, 1, 1, 1, 1])


def data(seed=0, d=2):
    return np.random.default_rng(seed).normal(size=(N, d)) * 10 ** np.linspace(-0.3, 0.3, d)


def make(loss, seed=0, C=3.0, d=2):
    return sm.MLRProblem.from_labels(data(seed, d), Y, loss, C)


def loop_objective(X, related, Q, loss, C, M):
    """Every ranking of every query, feature by feature as the paper states it."""
    total, queries = 0.0, related.queries.tolist()
    for q in queries:
        relevant, irrelevant = related.relevant(q).tolist(), related.irrelevant(q).tolist()
        phi = {x: -np.outer(Q[q] - X[x], Q[q] - X[x]) for x in relevant + irrelevant}

        def psi(y, relevant=relevant, irrelevant=irrelevant, phi=phi):
            place = {x: k for k, x in enumerate(y)}
            signs = [(1 if place[i] < place[j] else -1) * (phi[i] - phi[j]) for i in relevant for j in irrelevant]
            return sum(signs) / len(signs)

        ideal = psi(relevant + irrelevant)
        worst = 0.0
        for y in permutations(relevant + irrelevant):
            place = {x: k for k, x in enumerate(y)}
            if loss == "auc":
                loss_of_ranking = np.mean([place[i] > place[j] for i in relevant for j in irrelevant])
            else:
                hits = sorted(place[i] for i in relevant)
                loss_of_ranking = 1 - np.mean([(k + 1) / (rank + 1) for k, rank in enumerate(hits)])
            worst = max(worst, loss_of_ranking - float(np.sum(M * (ideal - psi(y)))))
        total += worst
    return float(np.trace(M)) + C / len(queries) * total


@pytest.mark.parametrize("loss", ["auc", "map"])
@pytest.mark.parametrize("scale", [0.3, 2.0])
def test_objective_is_that_of_all_rankings(loss, scale):
    problem = make(loss)
    L = scale * np.random.default_rng(4).normal(size=(2, 2))
    expected = loop_objective(problem.X, problem.relevance, problem.X, loss, 3.0, L.T @ L)
    assert_same(problem.objective(L), expected)
    cut = problem.separate(L)
    assert_same(float(np.sum(L**2)) + 3.0 * (cut.offset + float(np.sum(cut.slope * (L.T @ L)))), expected)


@pytest.mark.parametrize("loss", ["auc", "map"])
def test_queries_apart_lists_and_ties(loss):
    X = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 2.0], [2.0, 1.0]])
    Q = np.array([[0.5, 0.0], [0.0, 0.0], [9.0, 9.0]])
    related = sm.Relevance.from_lists([[0, 1], [2, 3, 4], []], 5, leave_one_out=False, unanswerable="exclude")
    problem = sm.MLRProblem(X, related, loss, 2.0, Q)
    for M in (np.eye(2), np.diag([0.1, 0.7]), np.zeros((2, 2))):
        assert_same(problem.objective(metric=M), loop_objective(X, related, Q, loss, 2.0, M))


@pytest.mark.parametrize("C", [30.0])
def test_the_auc_is_a_hinge_over_triplets(C):
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], [12, 9, 6])
    X = rng.normal(size=(27, 3)) + y[:, None]
    problem = sm.MLRProblem.from_labels(X, y, "auc", C)
    L = rng.normal(size=(2, 3))
    assert_same(problem.objective(L), problem.triplets.objective(L))
    ranking, triplets = sm.solve(problem, tol=1e-4), sm.solve(problem.triplets, solver="conic")
    assert ranking.relative_gap <= 1e-4
    assert_sandwich(ranking, triplets)
    assert ranking.objective == pytest.approx(triplets.objective, rel=2e-4)


@pytest.mark.parametrize("C", [1e-250, 1e60, 1e210])
@pytest.mark.parametrize("separated", [1.0, 1e8])
def test_a_solve_ends_by_itself_whatever_the_slack_weight(C, separated):
    """Far queries are more than floats can prove anything of; a solve says so."""
    rng = np.random.default_rng(1)
    X, y = separated + rng.normal(size=(12, 2)), np.repeat([0, 1], 6)
    related = sm.Relevance.from_labels(y, y[:6])
    problem = sm.MLRProblem(X, related, "auc", C, rng.normal(size=(6, 2)))
    solution = sm.solve(problem, tol=1e-7, max_iter=1000)
    proven = solution.certificate.proves_optimal(1e-7)
    assert solution.status.ok == proven
    assert 0.0 <= solution.lower_bound <= solution.objective <= C * (1.0 + 1e-9)
    assert proven or separated == 1e8


def test_where_nothing_is_worth_its_trace_the_zero_metric_is_optimal():
    problem = make("map", C=1e-3)
    solution = sm.solve(problem)
    assert solution.status is sm.Status.OPTIMAL
    assert_same(solution.objective, problem.objective(np.zeros((1, 2))))


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


@pytest.mark.parametrize("power", [-560, -1000, 530, 1000])
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
