"""FRML's draws are uniform, and the loss that its truncated search has on average is what the problem sums up."""

import numpy as np
import pytest

import sdpmetric as sm
from sdpmetric.ranking import frml_loops as loops
from sdpmetric.ranking.scores import expected_rank, expected_weights


def test_draws_are_uniform_and_leave_the_query_out():
    relevance = sm.Relevance.from_lists([[1, 4, 5], [2], [1], [0], [0], [5, 3], [2]], 7, leave_one_out=True)
    state = np.array([3], dtype=np.uint64)
    members = relevance.indices[: relevance.indptr[1]]
    counts = np.bincount(
        [loops.draw_relevant(state, members, relevance.self_position[0]) for _ in range(6000)], minlength=7
    )
    far = np.bincount([loops.draw_irrelevant(state, members, 7) for _ in range(6000)], minlength=7)
    assert np.flatnonzero(counts).tolist() == [1, 4, 5]
    assert np.flatnonzero(far).tolist() == [2, 3, 6]
    assert np.abs(counts[[1, 4, 5]] - 2000).max() < 200
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
