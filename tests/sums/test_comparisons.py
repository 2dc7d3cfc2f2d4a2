"""Comparisons: what answers of other kinds say, pairs that repeat, and hard ones that contradict each other."""

import cvxpy as cp
import numpy as np
import pytest

import sdpmetric as sm
from sdpmetric import terms


def test_an_odd_one_out_is_two_triplets_and_a_ranking_is_a_chain():
    assert terms.odd_one_out([[3, 1, 2], [0, 4, 1]]).tolist() == [[3, 1, 2], [1, 3, 2], [0, 4, 1], [4, 0, 1]]
    assert terms.ranked([[5, 0, 1, 2], [6, 2, 0, 1]]).tolist() == [[5, 0, 1], [5, 1, 2], [6, 2, 0], [6, 0, 1]]
    every = terms.ranked([[5, 0, 1, 2]], all_pairs=True)
    assert every.tolist() == [[5, 0, 1], [5, 0, 2], [5, 1, 2]]


def test_comparisons_of_one_pair_many_times_and_with_itself_count_as_often(rng):
    X, L = rng.normal(size=(6, 3)), rng.normal(size=(2, 3))
    rows = np.array([[0, 1, 1, 0], [0, 1, 2, 3], [1, 0, 3, 2], [2, 3, 0, 1], [4, 5, 0, 1], [4, 5, 4, 5]])
    D = np.sum(((X[:, None] - X[None]) @ L.T) ** 2, axis=2)
    weights = np.arange(1.0, 7.0)
    expected = weights @ np.maximum(0.0, 0.5 + D[rows[:, 0], rows[:, 1]] - D[rows[:, 2], rows[:, 3]])
    problem = sm.MetricProblem(X, terms.QuadrupletHinge(rows, margin=0.5, weights=weights))
    assert problem.objective(L) == pytest.approx(expected, rel=1e-12)
    assert len(problem.total.pairs) == 3 + 2  # two far pairs are their own near ones


def satisfiable(X: np.ndarray, triplets: np.ndarray) -> bool:
    """Whether some metric satisfies the triplets, by an interior-point method."""
    i, j, l = triplets.T
    M, margin = cp.Variable((X.shape[1], X.shape[1]), PSD=True), cp.Variable()
    target_rows, impostor_rows = X[i] - X[j], X[i] - X[l]
    margins = cp.sum(cp.multiply(impostor_rows @ M, impostor_rows), axis=1) - cp.sum(
        cp.multiply(target_rows @ M, target_rows), axis=1
    )
    return cp.Problem(cp.Maximize(margin), [margins >= margin, cp.trace(M) <= 1]).solve(solver=cp.CLARABEL) > 1e-6


def named(X: np.ndarray, triplets: np.ndarray) -> list[int]:
    """The hard triplets that are proven to contradict each other."""
    problem = sm.MetricProblem(X, terms.TripletHinge(triplets, loss="hard") + 0.01 * terms.Trace())
    solution = sm.solve(problem, max_time=60.0)
    assert solution.status.word == "infeasible"
    assert solution.certificate.rigor == "float"
    return list(solution.certificate.contradiction)


def assert_irreducible(X: np.ndarray, triplets: np.ndarray) -> None:
    assert not satisfiable(X, triplets)
    for k in range(len(triplets)):
        assert len(triplets) == 1 or satisfiable(X, np.delete(triplets, k, axis=0))


@pytest.mark.parametrize("seed", [0, 1, 5])
def test_contradictions_that_features_make_are_named(seed):
    """In few dimensions comparisons contradict each other without going round in a circle."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(15, 2 + seed % 4))
    triplets = np.array([rng.permutation(15)[:3] for _ in range(45)])
    assert_irreducible(X, triplets[named(X, triplets)])


def test_multipliers_of_a_circle_are_a_proof_and_those_of_a_part_are_none():
    problem = sm.MetricProblem(
        np.eye(4), terms.TripletHinge([[0, 1, 2], [2, 0, 1], [1, 2, 0]], loss="hard") + terms.Trace()
    )
    nothing = np.zeros((0, 4))
    assert problem.certify(nothing, dual=np.ones(3)).contradiction == (0, 1, 2)
    open_chain = sm.MetricProblem(np.eye(4), terms.TripletHinge([[0, 1, 2], [2, 0, 1]], loss="hard") + terms.Trace())
    assert open_chain.certify(nothing, dual=np.ones(2)).kind == "duality"
