"""The factored solver at known optima, warm and with bounded rank; the subgradient method is Algorithm 1."""

from collections.abc import Iterator

import numpy as np
import pytest
from instances import OPTIMA, assert_close, standardized
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_blobs
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

import sdpmetric as sm
from sdpmetric.core import pairs
from sdpmetric.core.steps import Budget
from sdpmetric.datasets import reduce
from sdpmetric.linalg import psd
from sdpmetric.linalg.search import Stop
from sdpmetric.lmnn.solvers import factored, working_set
from sdpmetric.lmnn.solvers.active_set import Coordinates
from sdpmetric.lmnn.solvers.gradient_projection import PAPER, PaperStep, gradient_projection
from sdpmetric.lmnn.solvers.hinges import Hinges
from sdpmetric.lmnn.solvers.refinement import least_change


def blobs(seed: int = 0, n: int = 90, d: int = 6, push_weight: float = 0.3) -> sm.LMNNProblem:
    rng = np.random.default_rng(seed)
    y = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    X = rng.normal(size=(n, d)) + np.outer(y, np.linspace(0, 1, d))
    return sm.LMNNProblem.from_labels(X, y, 2, push_weight)


@pytest.mark.parametrize(("solver", "tol"), [("factored", 1e-6), ("subgradient", 1e-3)])
@pytest.mark.parametrize(("name", "push_weight"), [("iris", 0.5), ("wine", 0.3)])
def test_gaps_at_known_optima(name: str, push_weight: float, solver: str, tol: float) -> None:
    solution = sm.solve(standardized(name, push_weight), solver, tol=tol)
    assert solution.status is sm.Status.OPTIMAL
    assert solution.relative_gap <= tol
    assert solution.lower_bound <= OPTIMA[name, push_weight] * (1 + 1e-7)
    assert solution.objective >= OPTIMA[name, push_weight] * (1 - 1e-7)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("load", "powers", "reached"),
    [
        (load_iris, (3, 8, 12), 1e-8),
        *(
            pytest.param(load, range(3, 13), reached, marks=pytest.mark.slow)
            for load, reached in ((load_iris, 1e-8), (load_wine, 1e-8), (load_breast_cancer, 1e-8), (load_digits, 1e-7))
        ),
    ],
)
def test_the_gap_does_not_grow_when_the_tolerance_shrinks(load, powers, reached: float) -> None:
    X, y = load(return_X_y=True)
    some = np.random.default_rng(0).permutation(len(X))[:600]
    X = reduce(X[some], 30) if load is load_digits else StandardScaler().fit_transform(X[some])
    problem, proven = sm.LMNNProblem.from_labels(X, y[some]), np.inf
    for tol in (10.0**-power for power in powers):
        solution = sm.solve(problem, "factored", tol=tol)
        assert solution.relative_gap <= proven
        proven = tol if solution.relative_gap <= tol else proven
    assert proven <= reached


def test_bounded_rank_goes_on_from_a_full_solution_that_is_handed_in() -> None:
    problem = blobs(n=150)
    full = sm.solve(problem, tol=1e-4)
    low = sm.solve(problem, n_components=2, tol=1e-4)
    for stated in (problem, blobs(n=150)):  # the same data and parameters
        handed = sm.solve(stated, n_components=2, full=full, tol=1e-4)
        assert handed.objective == pytest.approx(low.objective, rel=1e-9)
        assert handed.lower_bound == pytest.approx(full.lower_bound, rel=1e-9)
        assert handed.certificate.kind == "relaxation"
        assert handed.n_iter == low.n_iter - full.n_iter
    unbounded = sm.solve(problem, n_components=6, full=full)  # which has no more rows than that
    assert (unbounded.objective, unbounded.certificate.kind) == (full.objective, "duality")
    for wrong, options, words in (
        (full, {"n_components": 2, "init": full.components}, "leave it or init= out"),
        (
            sm.Solution(full.components, full.certificate, full.status, "factored"),
            {"n_components": 2},
            "solve this problem",
        ),
        (sm.solve(problem, n_components=3, full=full), {"n_components": 2}, "no bound on the rank"),
    ):
        with pytest.raises(ValueError, match=words):
            sm.solve(problem, full=wrong, **options)
    with pytest.raises(ValueError, match="the same data and parameters"):
        sm.solve(problem.with_weights(push_weight=0.2), n_components=2, full=full)


def test_bounded_rank_begins_at_the_leading_eigenvectors_and_only_improves():
    rank = 2
    X, y = load_wine(return_X_y=True)
    problem = sm.LMNNProblem.from_labels(StandardScaler().fit_transform(X), y, 3, push_weight=0.3)
    full = sm.solve(problem)
    low = sm.solve(problem, n_components=rank)
    cut = full.leading(rank)
    assert cut.shape == (rank, X.shape[1])
    values = np.linalg.eigvalsh(full.metric)[::-1][:rank]
    assert np.allclose(np.linalg.eigvalsh(cut @ cut.T)[::-1], values)
    assert low.objective < problem.objective(cut)
    known = low.trace["objective"][np.isfinite(low.trace["objective"])]
    assert (np.diff(known) <= 1e-6 * low.objective).all()
    assert low.lower_bound <= full.objective
    assert (low.certificate.kind, low.status) == ("relaxation", sm.Status.STATIONARY)
    assert not low.certificate.proves_optimal(1e-4)
    with pytest.raises(ValueError, match=r"n_components must be .* at most 13"):
        full.leading(14)


def test_a_warm_start_that_loses_sight_of_all_impostors_does_not_end_at_zero():
    # The third pass over these rows once descended to the zero metric, where no candidate was left to hold it off.
    X, y = load_iris(return_X_y=True)
    X, _, y, _ = train_test_split(X, y, test_size=0.3, random_state=52)
    fit, _ = train_test_split(np.arange(len(y)), test_size=0.3, random_state=52, stratify=y)
    X, y = X[np.sort(fit)], y[np.sort(fit)]
    solution = sm.solve(sm.LMNNProblem.from_labels(X, y, 3))
    for _ in range(2):
        targets = pairs.target_neighbors(X @ solution.components.T, y, 3)
        problem = sm.LMNNProblem.from_labels(X, y, 3, target_neighbors=targets)
        solution = sm.solve(problem, init=solution.components)
        assert solution.status is sm.Status.OPTIMAL


def test_a_factor_that_fell_to_nearly_zero_is_taken_up_again() -> None:
    # Two tight classes: the first candidates are soon out of sight, and then the trace alone is minimized.
    X, y = make_blobs(30, centers=[[0, 0, 0], [1, 1, 1]], random_state=0, cluster_std=0.1)
    for offset in (0.0, 0.1, 0.2):
        solution = sm.solve(sm.KernelLMNNProblem.from_labels(X + offset, y, ridge=0.1), tol=1e-3)
        assert solution.status is sm.Status.OPTIMAL
        assert solution.objective < 1.0


def test_leading_principal_components_of_the_transformed_inputs():
    """LMNN-S of section 5.4: the two readings agree where the inputs are whitened, and nowhere else."""
    X, y = load_wine(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    solution = sm.solve(sm.LMNNProblem.from_labels(X, y))
    cut = solution.leading(2, X)
    Z = PCA(2).fit_transform(X @ solution.components.T)
    np.testing.assert_allclose(np.abs((X - X.mean(axis=0)) @ cut.T), np.abs(Z), atol=1e-8)
    assert not np.allclose(cut.T @ cut, solution.leading(2).T @ solution.leading(2), atol=1e-3)
    values, vectors = np.linalg.eigh(np.cov(X.T, ddof=0))
    white = X @ (vectors / np.sqrt(values))
    solution = sm.solve(sm.LMNNProblem.from_labels(white, y))
    first, second = solution.leading(2), solution.leading(2, white)
    np.testing.assert_allclose(first.T @ first, second.T @ second, atol=1e-8)


@pytest.mark.parametrize("several", [False, True])
def test_directions_that_the_start_lacks_are_found(several, monkeypatch):
    monkeypatch.setattr(factored, "OPTIONS", factored.FactoredOptions(full=2, leading=2))
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(4), 60)
    X = np.column_stack([0.5 * rng.normal(size=(240, 8)) + 0.8 * rng.normal(size=(4, 8))[y], rng.normal(size=(240, 4))])
    statement = sm.MultiMetricLMNNProblem if several else sm.LMNNProblem
    solution = sm.solve(statement.from_labels(X, y), solver="factored", tol=1e-3)
    assert solution.relative_gap <= 1e-3
    assert np.linalg.matrix_rank(solution.components, tol=1e-3).max() > 2


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
    """Algorithm 1 line by line, its sets as sets of triplets: the metric and the listed objective of each iteration."""
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
    iterates = list(algorithm_1(problem, 41))
    for (M, value), step in zip(iterates[::10], steps, strict=False):
        assert_close(step.components.T @ step.components, M, 1.0)
        assert step.objective == pytest.approx(value, rel=1e-9)
    for k in (1, 5, 37):  # the objective falls from search to search
        solution = sm.solve(problem, solver="subgradient", step="paper", max_iter=k)
        assert (solution.extras["iterate"], solution.n_iter) == (k, k)
        assert_close(solution.metric, iterates[k - 1][0], 1.0)


def test_the_trace_says_why_each_round_stopped():
    problem = sm.LMNNProblem.from_labels(*load_wine(return_X_y=True))
    reasons = {row.stop for row in sm.solve(problem, "factored", tol=1e-6).trace}
    assert Stop.SMOOTHING in reasons  # at the first widths the smoothing is most of the gap
    assert reasons & {Stop.TOLERANCE, Stop.STALLED}


def test_multipliers_without_room_stay():
    problem = blobs(n=20)
    hinges = Hinges.of_triplets(problem.push, problem.points, problem.push.all_triplets())
    assert not least_change(hinges, np.zeros(hinges.shape), np.eye(6)[None], 0.0).any()


@pytest.mark.parametrize("spread", [0.1, 0.01])
def test_candidates_that_are_too_few_do_not_end_a_solve(spread):
    """Distant clusters have no impostor near the margin, so a metric that shrinks soon has others than its search."""
    X, y = make_blobs(n_samples=30, random_state=0, cluster_std=spread)
    X = sm.datasets.standardize(X)
    solution = sm.solve(sm.LMNNProblem.from_labels(X, y, ridge="auto"), "factored", tol=1e-3)
    assert solution.status is sm.Status.OPTIMAL
    assert solution.relative_gap <= 1e-3


def test_lists_of_few_pairs_do_not_mislead_a_descent(monkeypatch):
    """Pairs at random hold off a metric that would merge the classes that are far from every margin."""
    rng, y = np.random.default_rng(0), np.arange(1500) % 10
    X = rng.normal(size=(10, 200))[y] * np.sqrt(6 / 200) + rng.normal(size=(1500, 200)) / np.sqrt(1 + np.arange(200))
    X *= 4 / np.linalg.norm(X, axis=1).mean()
    monkeypatch.setattr(working_set, "OPTIONS", working_set.SearchOptions(pairs_per_row=16, fewest_pairs=1))
    assert sm.solve(sm.LMNNProblem.from_labels(X, y), "factored", tol=1e-3, max_iter=600).relative_gap <= 1e-2
