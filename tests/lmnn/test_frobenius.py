"""LMNN with a Frobenius term: both solvers."""

from dataclasses import replace

import numpy as np
import pytest
from instances import KINDS, Instance, assert_sandwich, make_instance
from seeds import blocks

import sdpmetric as sm


def random_problem(seed: int, *, lam: float | None = None) -> tuple[sm.LMNNProblem, Instance]:
    """Every kind of instance in turn, with a Frobenius term between hardly any and almost nothing else."""
    rng = np.random.default_rng([seed, 77])
    kind = KINDS[seed % len(KINDS)]
    instance = make_instance(kind, seed, mu=float(rng.uniform(0.1, 0.9)), ridge=float(rng.choice([0.0, 0.2])))
    size = float(np.mean(instance.problem.centered.astype(float) ** 2)) ** 2
    lam = size * 10 ** rng.uniform(-2, 2.5) if lam is None else lam
    problem = replace(instance.problem, frobenius=lam)
    if seed % 7 == 3:
        problem = problem.with_weights(push_weight=1.0)
    return problem, instance


def check_sandwich(seed: int) -> None:
    problem, instance = random_problem(seed)
    fast, exact = sm.solve(problem), sm.solve(problem, solver="conic")
    single = problem.X.dtype == np.float32
    for solution in (fast, exact):
        tol = 1e-5 if single else 1e-6  # the metric is rounded to single precision
        assert solution.certificate.proves_optimal(tol), f"{seed} {instance.problem}: {solution}"
    assert_sandwich(fast, exact)


@pytest.mark.parametrize("seed", [0, 3, 7, 197])  # 197: more violated triplets than an active set has room for
def test_sandwich(seed: int) -> None:
    check_sandwich(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seeds", blocks(8, 500), ids=str)
def test_sandwich_at_length(seeds: range) -> None:
    for seed in seeds:
        check_sandwich(seed)


def test_no_push_and_no_triplets() -> None:
    problem, _ = random_problem(0, lam=1.0)
    for solver in ("dual", "conic"):
        solution = sm.solve(problem.with_weights(push_weight=0.0), solver=solver)
        assert solution.status.ok
        assert solution.objective <= 1e-12
    empty = sm.LMNNProblem.from_triplets([[0.0], [1.0], [3.0]], np.zeros((0, 3), int), frobenius=1.0)
    for solver in ("dual", "conic"):
        assert sm.solve(empty, solver=solver).objective <= 1e-12
