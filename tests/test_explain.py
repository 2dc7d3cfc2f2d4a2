"""What multipliers of LMNN mean, by hand and by proven optima of other problems."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from instances import Instance, assert_same, rounding

import sdpmetric as sm
from sdpmetric.core.explanation import Slacks, Support

TIGHT = 1e-9
SOLVERS = ("conic", "factored", "subgradient")


def tight(problem: sm.LMNNProblem) -> sm.Solution:
    """A solution with a gap that finite differences can bear."""
    solution = sm.solve(problem, solver="conic", tol=TIGHT)
    assert solution.relative_gap <= 1e-8
    return solution


def bracket(below: sm.Solution, center: sm.Solution, above: sm.Solution, step: float) -> tuple[float, float]:
    """The proven slopes of the secants to both sides, the smaller first for a concave function."""
    return (above.lower_bound - center.objective) / step, (center.objective - below.lower_bound) / step


def triplets_of(table: Support | Slacks) -> sm.Triplets:
    return sm.Triplets(*(table.columns[role].astype(np.int32) for role in ("anchor", "target", "impostor")))


def multipliers_of(dual: sm.Dual, triplets: sm.Triplets, n: int) -> np.ndarray:
    values = dict(zip(dual.triplets.keys(n).tolist(), dual.values.tolist(), strict=True))
    return np.array([values.get(key, 0.0) for key in triplets.keys(n).tolist()])


@pytest.mark.parametrize("solver", SOLVERS)
def test_one_triplet_by_hand(solver: str) -> None:
    """Points 0, 1, 3: f(m) = (1 - mu) m + mu [1 - 8 m]_+, so that m = 1/8, a = (1 - mu) / 8, optimum (1 - mu) / 8."""
    problem = sm.LMNNProblem.from_triplets([[0.0], [1], [3]], [[0, 1, 2]], push_weight=0.3)
    explanation = sm.explain(sm.solve(problem, solver=solver, tol=1e-6))
    a, m, close = 0.7 / 8, 1 / 8, pytest.approx
    assert explanation.support.multipliers == close([a], rel=1e-5)
    assert explanation.support.ceilings == close([0.3])
    assert explanation.support.inside.tolist() == [True]
    assert explanation.sensitivity.margin == close(a, rel=1e-5)
    assert explanation.sensitivity.weights["push_weight"] == close(-m, rel=1e-3)
    assert explanation.sensitivity.weights["ridge"] == close(m, rel=1e-5)
    influence = explanation.influence
    roles = influence.by_role
    assert (roles["anchor"][0], roles["target"][1], roles["impostor"][2]) == close((a, a, a), rel=1e-5)
    assert influence.total.sum() == close(3 * a, rel=1e-5)
    assert influence.contribution == close([a * (9 - 1) * m / 2, -a * m / 2, a * 9 * m / 2], rel=1e-4)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_the_interval_is_tight_on_one_triplet(loss: str) -> None:
    """With S(a) = 0 the gap belongs to one hinge alone, so that the optimal multiplier is an end of the interval."""
    problem = sm.LMNNProblem.from_triplets([[0.0], [1], [3]], [[0, 1, 2]], push_weight=0.3, loss=loss)
    a = 0.7 / 8
    solution = replace(sm.solve(problem), dual=sm.Dual(sm.Triplets.from_array(np.array([[0, 1, 2]])), np.array([a])))

    def interval(m: float) -> tuple[float, float]:
        support = sm.explain(replace(solution, components=np.array([[np.sqrt(m)]]))).support
        return float(support.lower[0]), float(support.upper[0])

    low, high = interval(0.05)  # slack 0.6
    assert low == pytest.approx(a, rel=1e-6)
    if loss == "squared_hinge":
        assert high == pytest.approx(4 * 0.3 * 0.6 - a, rel=1e-6)
    else:
        assert high == pytest.approx(0.3)
    low, high = interval(0.2)  # beyond the margin by 0.6
    assert low == 0.0
    assert high == pytest.approx(a + (a**2 / (4 * 0.3) / 0.6 if loss == "squared_hinge" else 0.0), rel=1e-6)


def test_weights_of_triplets_by_finite_differences() -> None:
    X = np.random.default_rng(4).normal(size=(9, 2))
    rows = np.array([[0, 1, 5], [0, 1, 6], [1, 2, 7], [2, 0, 8], [3, 4, 5], [4, 3, 0], [5, 6, 1], [7, 8, 2]])
    weights = np.array([1.0, 0.4, 2.0, 1.5, 0.7, 1.0, 3.0, 0.9])

    def solved(changed: np.ndarray) -> sm.Solution:
        return tight(sm.LMNNProblem.from_triplets(X, rows, changed, 0.3, ridge=0.1))

    solution, step = solved(weights), 1e-4
    explanation = sm.explain(solution)
    gradient = multipliers_of(
        sm.Dual(triplets_of(explanation.slacks), explanation.sensitivity.constraint_weights),
        sm.Triplets.from_array(rows),
        len(X),
    )
    assert (gradient > 1e-3).sum() >= 3
    for t in range(len(rows)):
        unit = step * np.eye(len(rows))[t]
        low, high = bracket(solved(weights - unit), solution, solved(weights + unit), step)
        assert low - 1e-6 <= gradient[t] <= high + 1e-6
        assert high - low <= 0.02
    far = np.random.default_rng(5).exponential(size=len(rows))
    tangent = solution.objective + gradient @ (far - weights)
    assert solved(far).lower_bound <= tangent + rounding(tangent)


def test_a_loaded_solution_needs_its_problem(small: Instance, tmp_path: Path) -> None:
    solution = sm.solve(small.problem, solver="conic")
    solution.save(tmp_path / "solution.npz")
    loaded = sm.Solution.load(tmp_path / "solution.npz")
    with pytest.raises(ValueError, match="pass it as explain"):
        sm.explain(loaded)
    assert_same(sm.explain(loaded, small.problem).sensitivity.margin, sm.explain(solution).sensitivity.margin)


def test_nothing_to_push_costs_nothing_and_has_nothing_to_explain(small: Instance) -> None:
    nothing = sm.LMNNProblem.from_triplets(small.problem.X, np.zeros((0, 3), int), push_weight=0.3)
    curved = replace(nothing, frobenius=1.0)
    for problem, solver in (
        (small.problem.with_weights(push_weight=0.0), "conic"),
        *((nothing, solver) for solver in ("conic", "factored")),
        *((curved, solver) for solver in ("conic", "dual")),
        *((curved.with_weights(push_weight=0.0), solver) for solver in ("conic", "dual")),
    ):
        explanation = sm.explain(sm.solve(problem, solver=solver))
        assert explanation.certificate.objective == explanation.sensitivity.margin == 0.0
        assert len(explanation.support) == 0
        assert str(explanation)
