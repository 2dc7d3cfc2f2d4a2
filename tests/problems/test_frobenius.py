"""LMNN with a Frobenius term: both solvers, and safe screening against exact multipliers."""

import numpy as np
import pytest
from instances import KINDS, Instance, assert_sandwich, make_instance
from seeds import blocks
from sklearn.datasets import load_iris

import sdpmetric as sm
from sdpmetric import datasets
from sdpmetric.formulations.lmnn import all_triplets


def random_problem(seed: int, *, lam: float | None = None) -> tuple[sm.FrobeniusLMNNProblem, Instance]:
    """Every kind of instance in turn, with a Frobenius term between hardly any and almost nothing else."""
    rng = np.random.default_rng([seed, 77])
    kind = KINDS[seed % len(KINDS)]
    instance = make_instance(kind, seed, mu=float(rng.uniform(0.1, 0.9)), ridge=float(rng.choice([0.0, 0.2])))
    size = float(np.mean(instance.problem.centered.astype(float) ** 2)) ** 2
    lam = size * 10 ** rng.uniform(-2, 2.5) if lam is None else lam
    problem = sm.FrobeniusLMNNProblem(instance.problem, lam)
    if seed % 7 == 3:
        problem = problem.with_weights(push_weight=1.0)
    return problem, instance


def check_sandwich_and_screening(seed: int) -> int:
    problem, instance = random_problem(seed)
    fast, exact = sm.solve(problem), sm.solve(problem, solver="conic")
    single = problem.X.dtype == np.float32
    for solution in (fast, exact):
        tol = 1e-5 if single else 1e-6  # the metric is rounded to single precision
        assert solution.certificate.proves_optimal(tol), f"{seed} {instance.problem}: {solution}"
    assert_sandwich(fast, exact)
    # Exact multipliers: unique wherever the margin of the unique metric is not 1.
    base = problem.base
    every = all_triplets(base)
    ceilings = base.push_weight * base.source.weights_of(every)
    n = len(problem.X)
    assert exact.dual is not None
    known = dict(zip(exact.dual.triplets.keys(n).tolist(), exact.dual.values.tolist(), strict=True))
    a = np.array([known.get(key, 0.0) for key in every.keys(n).tolist()])
    rng = np.random.default_rng(seed)
    loose = [sm.solve(problem, tol=tol) for tol in (0.5, 1e-2, 1e-4)] + [fast, exact]
    points = [(s.components.astype(float), s.dual) for s in loose] + [(instance.random_factor(rng), None)]
    screened = 0
    for components, dual in points:
        bound = problem.certify(components, dual=dual).lower_bound
        found = [problem.screen(components, lower_bound=bound)]
        if dual is not None:
            found.append(problem.screen(components, dual=dual))
        for each in found:
            violated = np.isin(every.keys(n), each.violated.keys(n))
            inactive = each.is_inactive(every, n)
            assert (a[inactive] <= 1e-4 * ceilings[inactive] + 1e-7).all(), (
                f"{seed}: an inactive triplet has a multiplier"
            )
            assert (a[violated] >= (1 - 1e-4) * ceilings[violated] - 1e-7).all(), f"{seed}: a violated one is free"
            assert not (inactive & violated).any()
            assert each.n_inactive >= inactive.sum()
            assert len(each.violated) == violated.sum()
            screened += int(inactive.sum() + violated.sum())
    return screened


@pytest.mark.parametrize("seed", [0, 3, 7, 197])  # 197: more violated triplets than an active set has room for
def test_sandwich_and_safe_screening(seed: int) -> None:
    assert check_sandwich_and_screening(seed) > 0


@pytest.mark.slow
@pytest.mark.parametrize("seeds", blocks(8, 500), ids=str)
def test_sandwich_and_safe_screening_at_length(seeds: range) -> None:
    for seed in seeds:
        check_sandwich_and_screening(seed)


def test_the_ball_holds_the_optimum() -> None:
    """Both balls, around points that are nowhere near: the optimum is inside, and the radius is no larger than said."""
    problem, _ = random_problem(10, lam=0.9)
    best = sm.solve(problem, solver="conic", tol=1e-10)
    for tol in (0.5, 1e-1, 1e-3):
        loose = sm.solve(problem, tol=tol)
        plain = problem.screen(loose.components, lower_bound=loose.lower_bound)
        assert plain.radius == pytest.approx(np.sqrt(2 * loose.certificate.gap / 0.9), rel=1e-3)
        assert np.linalg.norm(best.metric - loose.metric) <= plain.radius
        point = problem.dual_point(loose.dual)
        other = point.components.T @ point.components
        radius = problem.screen(loose.components, dual=loose.dual).radius
        gap = loose.objective - point.value
        assert radius**2 == pytest.approx(gap / 0.9 - np.sum((other - loose.metric) ** 2) / 4, rel=1e-3, abs=1e-9)
        assert np.linalg.norm(best.metric - 0.5 * (other + loose.metric)) <= radius


def test_most_triplets_of_real_data_are_screened() -> None:
    X, y = load_iris(return_X_y=True)
    problem = sm.FrobeniusLMNNProblem.from_labels(datasets.standardize(X), y, 3, 0.5, 1.0)
    fast, exact = sm.solve(problem), sm.solve(problem, solver="conic")
    assert fast.status.ok
    assert exact.status.ok
    assert_sandwich(fast, exact)
    # At a gap of 1e-6, with the lower bound alone.
    assert problem.screen(exact.components, lower_bound=(1 - 1e-6) * exact.objective).share > 0.5
    assert problem.screen(fast.components, dual=fast.dual).share > 0.5
    assert fast.trace["screened"][-1] > 0.5


def test_no_push_and_no_triplets() -> None:
    problem, _ = random_problem(0, lam=1.0)
    for solver in ("dual", "conic"):
        solution = sm.solve(problem.with_weights(push_weight=0.0), solver=solver)
        assert solution.status.ok
        assert solution.objective <= 1e-12
    empty = sm.FrobeniusLMNNProblem.from_triplets([[0.0], [1.0], [3.0]], np.zeros((0, 3), int))
    for solver in ("dual", "conic"):
        assert sm.solve(empty, solver=solver).objective <= 1e-12
