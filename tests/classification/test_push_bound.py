"""Push bounds the leave-one-out error of nearest neighbors: Weinberger and Saul 2009, section 3.2, and our proof."""

import numpy as np
import pytest

import sdpmetric as sm
from sdpmetric import classification
from sdpmetric.triplets.neighbors import target_neighbors


def push_by_example(D, y, targets):
    """``sum_j sum_l [1 + D_ij - D_il]_+`` for each example i."""
    return np.array(
        [
            sum(max(0.0, 1 + D[i, j] - D[i, far]) for j in targets[i] for far in np.flatnonzero(y != y[i]))
            for i in range(len(y))
        ]
    )


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("seed", range(6))
def test_push_is_at_least_one_where_neighbors_are_wrong(seed, k):
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1, 2], [6, 9, 12])
    X = rng.normal(size=(27, 3)) + y[:, None] * [1.0, 0, 0]
    targets = target_neighbors(X, y, k)
    for L in (np.eye(3), rng.normal(size=(2, 3)), 0.1 * rng.normal(size=(3, 3)), 30 * rng.normal(size=(3, 3))):
        wrong = classification.knn_predict(L, X, y, n_neighbors=k) != y
        D = np.sum(((X[:, None] - X) @ L.T) ** 2, axis=2)
        push = push_by_example(D, y, targets)
        assert np.all(push[wrong] >= 1 - 1e-12)
        problem = sm.LMNNProblem.from_labels(X, y, k, 0.5, target_neighbors=targets)
        pull = sum(D[i, j] for i in range(len(y)) for j in targets[i])
        assert problem.objective(L) == pytest.approx(0.5 * pull + 0.5 * push.sum())
        assert wrong.sum() <= push.sum() * (1 + 1e-12)


def test_the_bound_is_attained():
    """An impostor as far away as the target neighbor costs 1, and the lower row wins."""
    X, y = np.array([[0.0], [-3.0], [3.0], [100.0]]), np.array([1, 0, 1, 0])
    wrong = classification.knn_predict(np.eye(1), X, y, n_neighbors=1) != y
    assert wrong[0]
    assert push_by_example(np.square(X - X.T), y, target_neighbors(X, y, 1))[0] == 1.0


def test_fewer_target_neighbors_than_votes_bound_nothing():
    """Two votes of three are those of other classes, whatever the one target neighbor's margin."""
    X, y = np.array([[0.0], [0.1], [5.0], [5.1], [5.2]]), np.array([0, 0, 1, 1, 1])
    wrong = classification.knn_predict(np.eye(1), X, y, n_neighbors=3) != y
    push = push_by_example(np.square(X - X.T), y, target_neighbors(X, y, 1))
    assert wrong[:2].all()
    assert push[:2].max() == 0.0
