"""LORETA and OASIS: single steps against their dense formulas, streams, and what they learn."""

import pickle

import numpy as np
import oracles
import pytest

import sdpmetric as sm
from sdpmetric import ranking
from sdpmetric._loops import frml as loops
from sdpmetric.ranking.scores import expected_rank, expected_weights


def labeled(seed=0, d=6):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat([0, 1, 2], [60, 50, 40]))
    X = rng.normal(size=(len(y), d))
    X[:, 1] += 2.0 * (y == 1)
    X[:, 4] += 2.0 * (y == 2)
    return X, y


def test_a_loreta_step_is_two_retractions_of_rank_one():
    rng = np.random.default_rng(0)
    start, (q, near, far) = rng.normal(size=(3, 7)) + 2 * np.eye(3, 7), 0.4 * rng.normal(size=(3, 7))
    stream = sm.LORETAStream(7, 3, step=0.2, init=start)
    u = near - far
    loss = stream.update(q, near, far)
    assert loss == pytest.approx(1.0 - q @ start.T @ start @ u)
    assert loss > 0
    W = oracles.retraction(start.T @ start, 0.05 * np.outer(q + u, q + u))
    W = oracles.retraction(W, -0.05 * np.outer(q - u, q - u))
    np.testing.assert_allclose(stream.metric, W, atol=1e-12)
    # To first order it moves along the tangent part of the symmetric part of q u^T.
    stream = sm.LORETAStream(7, 3, step=1e-6, init=start)
    stream.update(q, near, far)
    P = np.linalg.pinv(start) @ start
    Z = 0.5 * (np.outer(q, u) + np.outer(u, q))
    tangent = Z - (np.eye(7) - P) @ Z @ (np.eye(7) - P)
    np.testing.assert_allclose((stream.metric - start.T @ start) / 1e-6, tangent, atol=1e-4)


def test_an_oasis_step_is_the_passive_aggressive_one():
    rng = np.random.default_rng(1)
    S, (q, near, far) = rng.normal(size=(4, 4)), rng.normal(size=(3, 4))
    u = near - far
    loss = max(0.0, 1.0 - q @ S @ u)
    assert loss > 0
    large = sm.OASISStream(4, aggressiveness=1e9, init=S)
    assert large.update(q, near, far) == pytest.approx(loss)
    assert q @ large.similarity @ u == pytest.approx(1.0)  # the loss is gone, by the smallest change
    assert large.update(q, near, far) == pytest.approx(0.0, abs=1e-12)
    small = sm.OASISStream(4, aggressiveness=1e-3, init=S)
    small.update(q, near, far)
    np.testing.assert_allclose(small.similarity, S + 1e-3 * np.outer(q, u), atol=1e-15)


@pytest.mark.parametrize("made", [lambda: sm.LORETAStream(6, 2, step=0.05), lambda: sm.OASISStream(6)])
def test_streams_pickle_repeat_and_count(made):
    X, y = labeled()
    stream = made().partial_fit(X, y, n_steps=500)
    copy = pickle.loads(pickle.dumps(stream))
    for one in (stream, copy):
        one.partial_fit(X, y)
    again = made().partial_fit(X, y, n_steps=500).partial_fit(X, y)
    name = "components" if hasattr(stream, "components") else "similarity"
    np.testing.assert_array_equal(getattr(stream, name), getattr(copy, name))
    np.testing.assert_array_equal(getattr(stream, name), getattr(again, name))
    assert stream.n_items == 650
    assert 0 < stream.mistakes <= stream.n_updates <= 650
    assert stream.cumulative_loss > 0


def test_both_learn_to_rank_by_their_own_similarity():
    X, y = labeled(2)
    X -= X.mean(axis=0)  # a similarity by inner products has an origin
    start = ranking.evaluate(X, y, similarity=np.eye(6)).map
    loreta = sm.LORETAStream(6, 2, step=0.02)
    unlearned = ranking.evaluate(X, y, similarity=loreta.metric).map
    loreta.partial_fit(X, y, n_steps=20_000)
    oasis = sm.OASISStream(6, aggressiveness=0.001).partial_fit(X, y, n_steps=20_000)
    assert ranking.evaluate(X, y, similarity=loreta.metric).map > max(start, unlearned + 0.03)
    assert ranking.evaluate(X, y, similarity=oasis.similarity).map > start + 0.05
    assert np.linalg.matrix_rank(loreta.metric) == 2


def drift(n_steps):
    X, y = labeled(3)
    for step, size in ((10.0, 1.0), (1e-3, 1.0), (1.0, 1e3)):
        stream = sm.LORETAStream(6, 3, step=step).partial_fit(size * X, y, n_steps=n_steps)
        sigma = np.linalg.svd(stream.components, compute_uv=False)
        assert np.isfinite(sigma).all()
        assert sigma[-1] > 1e-7 * sigma[0], "the rank was lost"
        oasis = sm.OASISStream(6, aggressiveness=step).partial_fit(size * X, y, n_steps=n_steps)
        assert np.isfinite(oasis.similarity).all()
        assert oasis.n_items == n_steps


def test_long_streams_stay_finite():
    drift(20_000)


@pytest.mark.slow
def test_ten_million_updates_stay_finite():
    drift(10_000_000)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: sm.LORETAStream(3, 4), "n_components must be a positive integer and at most 3"),
        (lambda: sm.LORETAStream(3, 2, step=-1.0), "step must be a finite number"),
        (lambda: sm.LORETAStream(3, 2).update(np.ones(3), np.ones(2), np.ones(3)), "3 features, a number"),
        (lambda: sm.OASISStream(3, init=np.eye(2)), "shape"),
        (lambda: sm.OASISStream(3).update(np.ones(3), np.ones(3), np.full(3, np.nan)), "NaN or infinity"),
        (lambda: sm.OASISStream(3).partial_fit(np.eye(4), [0, 0, 1, 1]), "cannot change its dimension"),
        (lambda: sm.OASISStream(3).partial_fit(np.eye(3), [0, 0, 1]), "has no relevant item"),
        (lambda: sm.OASISStream(3).partial_fit(np.eye(3), [0, 0, 1, 1]), "has 4 items, but X has 3"),
        (lambda: sm.LORETAStream(3, 1).partial_fit(np.eye(3), [0, 0, 1], n_steps=0), "no relevant item"),
    ],
)
def test_bad_input_is_refused_with_a_sentence(call, match):
    with pytest.raises(ValueError, match=match):
        call()


# -- FRML's draws are uniform, and the loss that its truncated search has on average is what the problem sums up -------


def test_draws_are_uniform_and_leave_the_query_out():
    relevance = sm.Relevance.from_lists([[1, 4, 5], [2], [1], [0], [0], [5, 3], [2]], 7, leave_one_out=True)
    state = np.array([3], dtype=np.uint64)
    members = relevance.indices[: relevance.indptr[1]]
    near = np.bincount([loops.draw_relevant(state, members, relevance.self_at[0]) for _ in range(6000)], minlength=7)
    far = np.bincount([loops.draw_irrelevant(state, members, 7) for _ in range(6000)], minlength=7)
    assert np.flatnonzero(near).tolist() == [1, 4, 5]
    assert np.flatnonzero(far).tolist() == [2, 3, 6]
    assert np.abs(near[[1, 4, 5]] - 2000).max() < 200
    assert np.abs(far[[2, 3, 6]] - 2000).max() < 200


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


def test_the_estimate_of_a_rank_is_biased():
    """Rank 1 of 50 is estimated as 3.5 on average; rank 50 of 50 is never missed."""
    assert expected_rank(50, 1) == pytest.approx(3.5, abs=0.05)
    assert expected_rank(50, 50) == 50.0
    rng = np.random.default_rng(0)
    draws = rng.geometric(1 / 50, 200_000)
    assert np.where(draws <= 50, 50 // draws, 0).mean() == pytest.approx(expected_rank(50, 1), abs=0.05)
