"""The sandwich for MMC, MCML and ITML: bounds below objectives, and every solver proves what it promises."""

from __future__ import annotations

import numpy as np
import pytest
from instances import rounding
from seeds import blocks

import sdpmetric as sm
from sdpmetric.core.registry import solvers_of

KINDS = ("mmc", "mcml", "itml")
PROMISES = {"conic": 1e-6, "factored": 1e-6, "bregman": 1e-3}


def random_problem(kind: str, seed: int) -> sm.MMCProblem | sm.MCMLProblem | sm.ITMLProblem:
    """Small and asymmetric: unequal classes, features in different units, sampled pairs, integer features."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    n, d = int(rng.integers(8, 25)), int(rng.integers(1, 5))
    X = rng.normal(size=(n, d)) * 10 ** rng.uniform(-1, 1, d)
    y = np.repeat([0, 1, 2], [n // 3, n - n // 3 - 2, 2])
    X[y == 1] += rng.normal(size=d) * X.std(axis=0)
    if rng.random() < 0.2:
        X = np.round(3 * X / X.std(axis=0)) + 1e-3 * rng.normal(size=X.shape)
    n_pairs = None if rng.random() < 0.3 else int(rng.integers(3 * d + 5, 60))
    if kind == "mmc":
        return sm.MMCProblem.from_labels(X, y, n_pairs, random_state=seed)
    if kind == "mcml":
        return sm.MCMLProblem.from_labels(X, y)
    near, far = rng.uniform(5, 45), rng.uniform(55, 95)
    D = ((X[:, None] - X[None]) ** 2).sum(axis=2)[np.triu_indices(n, 1)]
    upper, lower = np.percentile(D, [near, far])
    gamma = 10 ** rng.uniform(-1, 1)
    A = rng.normal(size=(d, d))
    prior = "identity" if rng.random() < 0.5 else A @ A.T + 0.1 * np.eye(d)
    return sm.ITMLProblem.from_labels(
        X, y, n_pairs, upper=upper, lower=lower, gamma=gamma, prior=prior, random_state=seed
    )


def check_sandwich(problem) -> None:
    names = [name for name in PROMISES if name in {entry.name for entry in solvers_of(problem)}]
    solutions = {name: sm.solve(problem, solver=name, tol=PROMISES[name]) for name in names}
    collapsed = False
    if isinstance(problem, sm.MCMLProblem):
        # Where classes can be collapsed altogether the infimum is 0 and is not attained: no relative gap can be proven.
        top = problem.objective(np.zeros((1, problem.X.shape[1])))
        collapsed = max(solution.objective for solution in solutions.values()) <= 1e-6 * top
    for name, solution in solutions.items():
        if collapsed:
            continue
        assert solution.certificate.proves_optimal(PROMISES[name]), f"{name}: {solution}"
        assert solution.status is sm.Status.OPTIMAL
        again = problem.certify(solution.components, dual=solution.dual)
        assert abs(again.objective - solution.objective) <= rounding(again.objective)
    for below in solutions.values():
        for above in solutions.values():
            assert below.lower_bound <= above.objective + rounding(above.objective), sm.compare(below, above)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", KINDS)
def test_sandwich(kind: str, seed: int) -> None:
    check_sandwich(random_problem(kind, seed))


@pytest.mark.slow
@pytest.mark.parametrize("seeds", blocks(2, 1000), ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_sandwich_at_length(kind: str, seeds: range) -> None:
    for seed in seeds:
        check_sandwich(random_problem(kind, seed))


@pytest.mark.parametrize("kind", KINDS)
def test_single_precision(kind: str) -> None:
    """Rounding a metric to single precision costs what it costs: the certificate is of the rounded one."""
    plain = random_problem(kind, 3)
    X = plain.X.astype(np.float32)
    labels = plain.index if kind == "mcml" else None
    rest = {} if kind != "itml" else {"upper": plain.upper, "lower": plain.lower, "gamma": plain.gamma}
    problem = type(plain)(X, labels) if kind == "mcml" else type(plain)(X, plain.pairs, plain.similar, **rest)
    solution = sm.solve(problem, tol=1e-4)
    assert solution.components.dtype == np.float32
    assert solution.status is sm.Status.OPTIMAL


@pytest.mark.parametrize("kind", KINDS)
def test_solutions_are_saved_with_their_multipliers(kind: str, tmp_path) -> None:
    problem = random_problem(kind, 2)
    solution = sm.solve(problem)
    solution.save(tmp_path / "solution.npz")
    loaded = sm.Solution.load(tmp_path / "solution.npz", problem)
    assert loaded.certificate == solution.certificate
    assert np.array_equal(loaded.dual, solution.dual)


@pytest.mark.parametrize("kind", KINDS)
def test_programs_in_the_data_s_own_coordinates_agree(kind: str) -> None:
    problem = random_problem(kind, 5)
    program = sm.to_cvxpy(problem)
    program.solve(solver="CLARABEL")
    assert abs(program.value - sm.solve(problem, tol=1e-9).objective) <= 1e-5 * abs(program.value)
    with pytest.raises(TypeError, match="triplets"):
        sm.to_cvxpy(problem, triplets=sm.Triplets.from_array(np.array([[0, 1, 2]])))
