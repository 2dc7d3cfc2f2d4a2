"""FRML against its dense formulas, its relaxation and stream; measures of rankings against scikit-learn's."""

import pickle

import numpy as np
import oracles
import pytest
import scipy.sparse as sp
from sklearn.metrics import average_precision_score, dcg_score, ndcg_score, roc_auc_score

import sdpmetric as sm
from sdpmetric import ranking
from sdpmetric.ranking import loops as loops
from sdpmetric.ranking.scores import expected_weights, rank_weights


def labeled(seed=0, sizes=(12, 9, 7), d=5):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    X = rng.normal(size=(len(y), d))
    X[:, 0] += 1.5 * y
    return X, y


def random_step(seed, d=9, r=4, k=3, size=0.02):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(r, d)), rng.normal(size=(k, d)), size * rng.normal(size=k)


def retracted(L, V, c, reach=1.0):
    factor, gram = L.copy(), L @ L.T
    share = loops.retract(factor, gram, V, V @ L.T, c.copy(), reach)
    return factor, gram, share


@pytest.mark.parametrize("seed", range(5))
def test_algorithm_1_is_lemma_3_2_evaluated_densely(seed):
    L, V, c = random_step(seed)
    factor, gram, share = retracted(L, V, c)
    assert share == 1.0
    dense = oracles.retraction(L.T @ L, (V.T * c) @ V)
    np.testing.assert_allclose(factor.T @ factor, dense, atol=1e-12 * np.abs(dense).max())
    np.testing.assert_allclose(gram, factor @ factor.T, atol=1e-12 * np.abs(gram).max())
    assert np.abs(oracles.retraction(L.T @ L, (V.T * c) @ V, wrong=True) - factor.T @ factor).max() > 0.1


def test_steps_beyond_the_reach_of_the_retraction_are_shortened():
    L, V, c = random_step(1, size=50.0)
    factor, _, share = retracted(L, V, c)
    assert 0 < share < 1
    np.testing.assert_allclose(factor, retracted(L, V, share * c, np.inf)[0], atol=1e-10)
    H = np.linalg.solve(L @ L.T, L @ V.T)
    assert share * np.sum(np.abs(c) * np.sum(H**2, axis=0)) == pytest.approx(1.0)
    assert retracted(np.zeros((2, 9)), V, c)[2] == 0.0


def loop_objective(problem, X, Q, L, weights_of):
    """The statement, written as loops."""
    total, R = 0.0, problem.relevance
    for q in R.queries:
        for relevant in R.relevant(q):
            d_near = np.sum((L @ (Q[q] - X[relevant])) ** 2)
            h = [1.0 + d_near - np.sum((L @ (Q[q] - X[far])) ** 2) for far in R.irrelevant(q)]
            v = sum(value > 0 for value in h)
            hinge = weights_of(len(h))[v] / v * sum(value for value in h if value > 0) if v else 0.0
            total += (hinge + problem.lam * d_near) / R.n_relevant[q]
    return total


@pytest.mark.parametrize("with_queries", [False, True])
@pytest.mark.parametrize(("loss", "gamma"), [("warp", 1.0), ("warp", 3.0), ("auc", 1.0)])
def test_objective_is_the_statement_and_gradient_its_derivative(with_queries, loss, gamma):
    X, y = labeled()
    rng = np.random.default_rng(1)
    Q = rng.normal(size=(6, 5)) if with_queries else None
    relevance = sm.Relevance.from_labels(y, [0, 1, 2, 2, 1, 0]) if with_queries else y
    problem = sm.FRMLProblem(X, relevance, 2, loss, gamma, 0.05, Q)
    L = 0.5 * rng.normal(size=(2, 5))
    expected = loop_objective(problem, X, X if Q is None else Q, L, lambda n: expected_weights(loss, n, gamma))
    assert problem.objective(L) == pytest.approx(expected, rel=1e-11)
    E = rng.normal(size=(2, 5))
    h = 1e-8
    slope = (problem.objective(L + h * E) - problem.objective(L - h * E)) / (2 * h)
    assert 2.0 * np.sum((L @ problem.gradient(L)) * E) == pytest.approx(slope, rel=1e-5)


def test_a_large_rank_is_cut():
    X, y = labeled()
    L = 0.5 * np.random.default_rng(2).normal(size=(2, 5))
    cut = sm.FRMLProblem(X, y, 1).certify(L)
    _, s, vt = np.linalg.svd(L)
    assert cut.primal_residual == pytest.approx((s[1] / s[0]) ** 2)
    assert cut.objective == pytest.approx(sm.FRMLProblem(X, y, 1).objective(s[:1, None] * vt[:1]))


def test_relaxation_gap_of_the_auc_loss():
    X, y = labeled(4, sizes=(9, 7, 5), d=4)
    problem = sm.FRMLProblem(X, y, 2, "auc", regularization=0.02)
    relaxed = sm.solve(problem, solver="relaxed", tol=5e-3)
    assert relaxed.certificate.kind == "relaxation"
    assert len(relaxed.components) <= 2
    exact = sm.solve(problem.relaxation, solver="conic")
    assert relaxed.lower_bound <= exact.objective * (1 + 1e-9)
    assert relaxed.lower_bound >= exact.objective * (1 - 1e-3)
    assert relaxed.objective >= exact.lower_bound * (1 - 1e-9)
    drawn = sm.solve(problem, passes=300, step=0.3, decay=0.3, validation_share=0.0, init=relaxed.components)
    judged = problem.certify(drawn.components, dual=relaxed.dual)
    assert judged.kind == "relaxation"
    assert judged.lower_bound <= judged.objective == pytest.approx(drawn.objective, rel=1e-9)
    with pytest.raises(ValueError, match="only the AUC loss"):
        sm.FRMLProblem(X, y, 2).certify(drawn.components, dual=relaxed.dual)
    with pytest.raises(ValueError, match="positive regularization"):
        _ = sm.FRMLProblem(X, y, 2, "auc", regularization=0.0).relaxation


def test_a_limit_leaves_the_relaxation_s_bound():
    problem = sm.FRMLProblem.from_labels(*labeled(4, sizes=(9, 7, 5), d=4), 2, "auc", regularization=0.02)
    optimum = sm.solve(problem.relaxation, solver="conic").objective
    stop = {"max_time": 1e-9}, {"max_iter": 1}, {"max_iter": 20}, {"callback": lambda row: True}
    for limit in stop:
        solution = sm.solve(problem, "relaxed", **limit)
        assert (solution.status, solution.certificate.kind) == (sm.Status.USER_LIMIT, "relaxation")
        assert 0.0 < solution.lower_bound <= optimum * (1 + 1e-9)
        assert solution.lower_bound <= problem.certify(solution.components, dual=solution.dual).lower_bound * (1 + 1e-9)


def test_update_takes_batches_and_the_loop_does_the_same_steps():
    X, y = labeled(7)
    stream = sm.FRMLStream(5, 2, batch_size=2, step=0.02, regularization=0.1, scale=1.0, init=np.eye(5)[:2])
    before = stream.components.copy()
    loss = stream.update(X[0], X[1], X[2:9])
    np.testing.assert_array_equal(stream.components, before)
    loss += stream.update(X[3], X[4], X[5:9])
    assert (stream.n_updates, stream.n_items) == (1, 2)
    assert stream.cumulative_loss == pytest.approx(loss)
    assert np.abs(stream.components - before).max() > 0
    copy = pickle.loads(pickle.dumps(stream))
    for learner in (stream, copy):
        learner.partial_fit(X, y, n_steps=50)
    np.testing.assert_array_equal(stream.components, copy.components)
    assert (stream.n_updates, stream.n_items) == (51, 102)
    assert stream.n_evaluations > stream.n_items


def test_a_single_step_is_the_retraction_along_the_gradient_of_the_sampled_loss():
    query, relevant, irrelevant = np.array([[0.3, -1.0, 0.5], [1.0, 0.2, 0.1], [0.2, -0.7, 0.9]])
    start = np.array([[0.7, 0.1, -0.3], [0.2, 0.9, 0.4]])
    stream = sm.FRMLStream(3, 2, batch_size=1, step=0.05, regularization=0.2, scale=2.0, init=start)
    loss = stream.update(query, relevant, [irrelevant])
    u, v = query - relevant, query - irrelevant
    hinge = 1.0 + np.sum((start @ u) ** 2) - np.sum((start @ v) ** 2)
    assert hinge > 0
    assert loss == pytest.approx(0.5 * hinge + 0.2 * np.sum((start @ u) ** 2))
    dense = oracles.retraction(start.T @ start, -0.05 * ((0.5 + 0.2) * np.outer(u, u) - 0.5 * np.outer(v, v)))
    np.testing.assert_allclose(stream.metric, dense, atol=1e-12)


def test_long_streams_neither_overflow_nor_lose_their_rank():
    """Long random streams with steps far too long, and with very small ones."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 6)), rng.integers(0, 4, 200)
    for step, size in ((10.0, 1.0), (1e-3, 1.0), (1.0, 1e3), (1e-6, 1e-3)):
        stream = sm.FRMLStream(6, 3, step=step, batch_size=3, random_state=1)
        stream.partial_fit(size * X, y, n_steps=20_000)
        sigma = np.linalg.svd(stream.components, compute_uv=False)
        assert np.isfinite(sigma).all()
        assert np.isfinite(stream.cumulative_loss)
        assert sigma[-1] > 1e-7 * sigma[0], "the rank was lost"
        exact = stream.components @ stream.components.T
        assert np.abs(stream._gram - exact).max() < 1e-6 * np.abs(exact).max()
        assert stream.n_updates == 20_000


def test_expected_weights_are_the_means_of_the_compiled_sampling():
    """One query, one relevant item, v of n irrelevant items violate: the mean loss is ``E(v)`` times the mean hinge."""
    n, v = 40, 6
    x = np.concatenate([[0.0, 1.0], np.full(v, 0.5), np.full(n - v, 9.0)])[:, None]
    for loss, gamma in (("warp", 1.0), ("warp", 5.0), ("warp", 100.0), ("auc", 1.0)):
        stream = sm.FRMLStream(
            1, 1, loss=loss, gamma=gamma, regularization=0.0, step=0.0, scale=1.0, init=[[1.0]], random_state=1
        )
        for _ in range(2000):
            stream.update(x[0], x[1], x[2:])
        expected = expected_weights(loss, n, gamma)[v] * (1.0 + 1.0 - 0.25)
        assert stream.cumulative_loss / 2000 == pytest.approx(expected, rel=0.1)
        assert stream.n_items == 2000


def grid(seed=0, n=37, d=3, classes=3):
    """Points on a coarse grid, so that distances tie and points repeat; classes of unequal sizes."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 4, size=(n, d)).astype(float)
    y = np.concatenate([np.arange(classes).repeat(2), np.minimum(rng.geometric(0.5, n - 2 * classes) - 1, classes - 1)])
    return X, rng.permutation(y)


def assert_values_of_scikit_learn(evaluation, row, scores, truth):
    """AUC, average precision and tie-averaged precision at k; DCG adds ``p_k / log2(k + 1)`` at each place."""
    most = max(evaluation.ks)
    gains = np.diff([0.0] + [dcg_score([truth], [scores], k=k) for k in range(1, most + 1)])
    shares = gains * np.log2(np.arange(2, most + 2))
    whole = roc_auc_score(truth, scores), average_precision_score(truth, scores), ndcg_score([truth], [scores])
    values = [of[row] for of in (evaluation.auc_of, evaluation.average_precision_of, evaluation.ndcg_of)]
    expected = [*whole, *(shares[:k].mean() for k in evaluation.ks)]
    np.testing.assert_allclose([*values, *evaluation.precision_of[row]], expected, rtol=1e-12, atol=1e-12)


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
        assert_values_of_scikit_learn(evaluation, row, scores, (y[rest_rows] == y[q]).astype(int))
    assert evaluation.map == pytest.approx(np.mean(evaluation.average_precision_of), abs=1e-15)
    assert evaluation.ndcg == pytest.approx(np.mean(evaluation.ndcg_of), abs=1e-15)
    assert evaluation.recall(3) == np.mean(evaluation.precision_of[:, 1] > 0.0)
    assert evaluation.precision(3) == pytest.approx(evaluation.precision_of[:, 1].mean(), abs=1e-15)


def test_values_for_queries_apart():
    X, y = grid(5)
    Q, query_labels = grid(6, n=9)
    S, related = np.random.default_rng(1).integers(-2, 3, size=(3, 3)), sm.Relevance.from_labels(y, query_labels)
    evaluation = ranking.evaluate(X, related, Q, components=S, ks=(2,))
    for row, q in enumerate(evaluation.queries):
        scores = -np.sum(((X - Q[q]) @ S.T) ** 2, axis=1)
        assert_values_of_scikit_learn(evaluation, row, scores, (y == query_labels[q]).astype(int))
    metric = ranking.evaluate(X, related, Q, metric=S.T @ S)
    assert metric.auc == pytest.approx(evaluation.auc, abs=0.02)  # ties may break by rounding of the factor


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
            assert (made.n_relevant[q], made.n_irrelevant[q]) == (len(expected), 20 - same[q].sum())
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
