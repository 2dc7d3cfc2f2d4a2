"""The projected subgradient method: its steps are those of Algorithm 1, and the paper's step stalls."""

from collections.abc import Iterator

import numpy as np
import pytest
from instances import OPTIMA, assert_close, standardized
from sklearn.datasets import make_blobs

import sdpmetric as sm
from sdpmetric.core.steps import Budget
from sdpmetric.linalg import psd
from sdpmetric.lmnn.solvers.active_set import Coordinates
from sdpmetric.lmnn.solvers.gradient_projection import PAPER, PaperStep, gradient_projection


def test_separable_classes_keep_their_lists_short() -> None:
    """A step toward the zero metric, where all triplets are active, is taken back."""
    X, y = make_blobs(1000, 10, centers=6, cluster_std=0.5, random_state=0)
    problem = sm.LMNNProblem.from_labels(X, y, 3)
    solution = sm.solve(problem, solver="subgradient", tol=1e-2, max_iter=60)
    assert solution.trace["n_active"].max() < problem.source.size / 8
    assert solution.objective < 1e-3 * problem.objective(np.zeros((1, 10)))


def test_the_step_of_the_paper_stalls_above_the_optimum() -> None:
    problem = standardized("wine", 0.5)
    solution = sm.solve(problem, solver="subgradient", step="paper", tol=1e-6, max_iter=2000)
    steps = solution.trace["step_size"]
    assert steps[-1] < 1e-8 * np.nanmax(steps)
    assert solution.objective > OPTIMA["wine", 0.5] * (1 + 1e-5)
    assert solution.status is not sm.Status.OPTIMAL


def test_a_start_is_only_rescaled() -> None:
    """One iteration evaluates the start: a good metric costs what it costs, and a tenth of it is scaled back."""
    problem = standardized("iris", 0.3)
    L = sm.solve(problem, solver="subgradient", tol=1e-3).components
    for factor in (1.0, 0.1):
        first = sm.solve(problem, solver="subgradient", init=factor * L, max_iter=1)
        assert first.objective == pytest.approx(problem.objective(L), rel=1e-3)
    turned = sm.solve(problem, solver="subgradient", init=np.zeros((1, 4)), tol=1e-3)
    assert turned.status is sm.Status.OPTIMAL


def algorithm_1(problem: sm.LMNNProblem, iterations: int) -> Iterator[tuple[np.ndarray, float]]:
    """Algorithm 1 line by line, its sets as sets of triplets: the metrics and objectives of every tenth iteration."""
    X, mu, y = np.asarray(problem.X), problem.push_weight, problem.source.labels
    pull = [(i, j) for i, j in zip(*problem.target_pairs, strict=True)]
    triplets = [(i, j, k) for i, j in pull for k in range(len(X)) if y[k] != y[i]]
    C = np.einsum("abi,abj->abij", *2 * [X[:, None] - X])
    M, working_set, active = np.eye(X.shape[1]), set(), set()
    G = C0 = (1 - mu) * sum(C[i, j] for i, j in pull)
    step, before = 0.0, np.inf
    for t in range(iterations):
        D = np.einsum("abij,ij->ab", C, M)
        among = triplets if t % 10 == 0 else working_set
        now = {(i, j, k) for i, j, k in among if 1 + D[i, j] - D[i, k] > 0}
        working_set = working_set | now
        G = G - mu * sum(C[i, j] - C[i, k] for i, j, k in active - now)
        G = G + mu * sum(C[i, j] - C[i, k] for i, j, k in now - active)
        active = now
        value = np.sum(C0 * M) + mu * sum(1 + D[i, j] - D[i, k] for i, j, k in now)
        if t % 10 == 0:
            yield M, value
        # The paper does not print the first step.
        first = PAPER.first_move * np.linalg.norm(M) / np.linalg.norm(G)
        step = first if t == 0 else step * (PAPER.grow if value < before else PAPER.shrink)
        before = value
        M = psd.project(M - step * G)


@pytest.mark.parametrize("n_neighbors", [1, 3])
def test_the_steps_of_the_paper_are_those_of_algorithm_1(n_neighbors: int) -> None:
    """A target neighbor joins the list where its own hinge is positive, not with others of the same impostor."""
    rng = np.random.default_rng(n_neighbors)
    X, y = rng.normal(size=(40, 3)) * [1.0, 2.0, 0.5], np.arange(40) % 3
    problem = sm.LMNNProblem.from_labels(X, y, n_neighbors, 0.5)
    start, coordinates = np.eye(3)[None], Coordinates(problem, whitened=False)
    steps = gradient_projection(coordinates, start, Budget(), PaperStep())
    for (M, value), step in zip(algorithm_1(problem, 41), steps, strict=False):
        assert_close(step.components.T @ step.components, M, 1.0)
        assert step.objective == pytest.approx(value, rel=1e-9)
