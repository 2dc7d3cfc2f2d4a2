"""What multipliers mean: every number is checked by hand, by loops, or by proven optima of other problems."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from instances import KINDS, Instance, assert_close, assert_same, make_instance, rounding

import sdpmetric as sm
from sdpmetric.core.explanation import Slacks, Support
from sdpmetric.formulations.lmnn import all_triplets
from sdpmetric.linalg.distances import distances
from sdpmetric.triplets.margins import margins

TIGHT = 1e-9
SOLVERS = ("conic", "factored", "subgradient")


def tight(problem: sm.LMNNProblem) -> sm.Solution:
    """A solution with a gap that finite differences can bear."""
    solution = sm.solve(problem, solver="conic", tol=TIGHT)
    assert solution.relative_gap <= 1e-8
    return solution


def bracket(below: sm.Solution, here: sm.Solution, above: sm.Solution, step: float) -> tuple[float, float]:
    """The proven slopes of the secants to both sides, the smaller first for a concave function."""
    return (above.lower_bound - here.objective) / step, (here.objective - below.lower_bound) / step


def triplets_of(table: Support | Slacks) -> sm.Triplets:
    return sm.Triplets(*(table.columns[role].astype(np.int32) for role in ("anchor", "target", "impostor")))


def multipliers_of(dual: sm.Dual, triplets: sm.Triplets, n: int) -> np.ndarray:
    values = dict(zip(dual.triplets.keys(n).tolist(), dual.values.tolist(), strict=True))
    return np.array([values.get(key, 0.0) for key in triplets.keys(n).tolist()])


# -- by hand and by loops -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", SOLVERS)
def test_one_triplet_by_hand(solver: str) -> None:
    """Points 0, 1, 3: f(m) = (1 - mu) m + mu [1 - 8 m]_+, so that m = 1/8, a = (1 - mu) / 8, optimum (1 - mu) / 8."""
    problem = sm.LMNNProblem.from_triplets([[0.0], [1], [3]], [[0, 1, 2]], push_weight=0.3)
    found = sm.explain(sm.solve(problem, solver=solver, tol=1e-6))
    a, m, near = 0.7 / 8, 1 / 8, pytest.approx
    assert found.support.multipliers == near([a], rel=1e-5)
    assert found.support.ceilings == near([0.3])
    assert found.support.inside.tolist() == [True]
    assert found.sensitivity.margin == near(a, rel=1e-5)
    assert found.sensitivity.weights["push_weight"] == near(-m, rel=1e-3)
    assert found.sensitivity.weights["ridge"] == near(m, rel=1e-5)
    influence = found.influence
    roles = influence.by_role
    assert (roles["anchor"][0], roles["target"][1], roles["impostor"][2]) == near((a, a, a), rel=1e-5)
    assert influence.total.sum() == near(3 * a, rel=1e-5)
    assert influence.contribution == near([a * (9 - 1) * m / 2, -a * m / 2, a * 9 * m / 2], rel=1e-4)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("kind", KINDS)
def test_slacks_and_influence_agree_with_loops(kind: str, loss: str) -> None:
    instance = make_instance(kind, 1, ridge=0.1, loss=loss)
    solution = sm.solve(instance.problem, solver="conic")
    found, problem, n = sm.explain(solution), instance.problem, len(instance.y)
    X, M = instance.statement.X, solution.metric.astype(float)

    def D(a: int, b: int) -> float:
        return float((X[a] - X[b]) @ M @ (X[a] - X[b]))

    every = all_triplets(problem)
    weights = dict(zip(map(tuple, every.to_array().tolist()), problem.source.weights_of(every).tolist(), strict=True))
    slacks = {t: 1 + D(t[0], t[1]) - D(t[0], t[2]) for t in weights}
    power = 2 if loss == "squared_hinge" else 1
    losses = {t: 0.3 * weights[t] * u**power for t, u in slacks.items() if u > 0}
    by_anchor = np.zeros(n)
    for (i, _, _), value in losses.items():
        by_anchor[i] += value
    assert_close(found.slacks.by_role["anchor"], by_anchor, max(1.0, 1e3 * by_anchor.max()))
    listed = {
        tuple(t): u for t, u in zip(triplets_of(found.slacks).to_array().tolist(), found.slacks.values, strict=True)
    }
    assert all(abs(slacks[t] - u) < 1e-6 for t, u in listed.items())
    assert all(t in listed for t, u in slacks.items() if u > 1e-6)
    assert (np.diff(found.slacks.values) <= 0).all()
    total = 0.7 * found.slacks.sums["pull"] + 0.3 * found.slacks.sums["push"] + 0.1 * found.sensitivity.weights["ridge"]
    assert_same(total, found.certificate.objective)

    roles, contribution = np.zeros((3, n)), np.zeros(n)
    for (i, j, l), a in zip(found.dual.triplets.to_array().tolist(), found.dual.values, strict=True):
        roles[[0, 1, 2], [i, j, l]] += a
        contribution[[i, l]] += a * D(i, l) / 2
        contribution[[i, j]] -= a * D(i, j) / 2
    influence = found.influence
    assert_close(np.array(list(influence.by_role.values())), roles, 1.0)
    assert_close(influence.contribution, contribution, 1e4 * max(1.0, np.abs(contribution).max()))
    cost = 0.7 * found.slacks.sums["pull"] + 0.1 * found.sensitivity.weights["ridge"]
    shortfall = cost - influence.contribution.sum()
    assert -rounding(cost) <= shortfall <= found.certificate.gap + rounding(cost)


# -- what the gap proves --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_multipliers_are_feasible_and_prove_the_bound(kind: str, solver: str, loss: str) -> None:
    problem = make_instance(kind, 2, loss=loss).problem
    solution = sm.solve(problem, solver=solver, tol=1e-1 if solver == "subgradient" else None)
    found = sm.explain(solution)
    a, w = found.dual.values, problem.source.weights_of(found.dual.triplets)
    value = a.sum() - ((a**2 / w).sum() / (4 * 0.3) if loss == "squared_hinge" else 0.0)
    assert_same(found.certificate.lower_bound, value)
    assert_same(found.certificate.objective, solution.objective)
    assert found.certificate.dual_residual <= 1e-9
    assert (a > 0).all()
    assert loss == "squared_hinge" or (a <= 0.3 * w).all()
    assert found.certificate.gap <= solution.certificate.gap + 1e-6 * solution.objective


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("kind", ["plain", "listed", "pure", "graph"])
def test_every_optimal_multiplier_is_where_a_loose_solution_says(kind: str, loss: str) -> None:
    problem = make_instance(kind, 1, loss=loss).problem
    best = sm.explain(tight(problem))
    for tol in (1e-1, 1e-2, 1e-3):
        found = sm.explain(sm.solve(problem, solver="factored", tol=tol)).support
        a = multipliers_of(best.dual, triplets_of(found), len(problem.X))
        assert (a >= found.lower - 1e-5).all()
        assert (a <= found.upper + 1e-5).all()
        assert (found.multipliers >= found.lower * (1 - 1e-9)).all()
        assert (found.multipliers <= found.upper * (1 + 1e-9)).all()
    assert best.support.proven.any()
    assert (best.support.upper - best.support.lower).min() < 1e-3


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


def test_support_is_sorted_and_splits_at_the_bound() -> None:
    problem = make_instance("plain", 1).problem
    found = sm.explain(tight(problem))
    support, u = found.support, 1 - margins(problem.embed(tight(problem).components), triplets_of(found.support))
    assert (np.diff(support.multipliers) <= 0).all()
    assert (support.at_bound ^ support.inside).all()
    assert support.at_bound.any()
    assert support.inside.any()
    assert (u[support.at_bound] > -1e-6).all()
    assert np.abs(u[support.inside]).max() < 1e-3
    every = all_triplets(problem)
    violated = 1 - margins(problem.embed(tight(problem).components), every) > 1e-4
    n = len(problem.X)
    assert set(every[violated].keys(n).tolist()) <= set(triplets_of(support)[support.at_bound].keys(n).tolist())


# -- sensitivities, by proven optima of other problems --------------------------------------------------------------


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("name", ["push_weight", "ridge"])
@pytest.mark.parametrize("kind", ["listed", pytest.param("float32", marks=pytest.mark.slow)])
def test_weights_by_finite_differences(kind: str, name: str, loss: str) -> None:
    problem = make_instance(kind, 1, ridge=0.1, loss=loss).problem
    if kind == "float32":
        problem = sm.LMNNProblem(problem.X.astype(float), problem.source, 0.3, 0.1, problem.loss)
    here, step = tight(problem), 1e-3
    found = sm.explain(here).sensitivity
    at, derivative = getattr(problem, name), found.weights[name]
    below, above = (tight(problem.with_weights(**{name: at + s * step})) for s in (-1, 1))
    low, high = bracket(below, here, above, step)
    assert low <= derivative <= high
    assert high - low <= 0.05 * max(1.0, abs(derivative))
    # The tangent is above the optimum, however far away.
    for value in (0.0, 0.05, 0.7, 1.0):
        there = tight(problem.with_weights(**{name: value}))
        assert there.lower_bound <= found.at_most(**{name: value}) + rounding(here.objective)
    both = tight(problem.with_weights(push_weight=0.5, ridge=0.4))
    assert both.lower_bound <= found.at_most(push_weight=0.5, ridge=0.4) + rounding(here.objective)


@pytest.mark.parametrize("solver", ["factored", "subgradient"])
def test_tangents_hold_for_loose_solutions_too(solver: str) -> None:
    problem = make_instance("plain", 1, ridge=0.1).problem
    for tol in (0.3, 0.03):
        found = sm.explain(sm.solve(problem, solver=solver, tol=tol)).sensitivity
        for value in (0.1, 0.29, 0.32, 0.8):
            there = tight(problem.with_weights(push_weight=value))
            assert there.lower_bound <= found.at_most(push_weight=value) + rounding(there.objective)


@pytest.mark.parametrize("loss", ["hinge", pytest.param("squared_hinge", marks=pytest.mark.slow)])
def test_weights_of_triplets_by_finite_differences(loss: str) -> None:
    X = np.random.default_rng(4).normal(size=(9, 2))
    rows = np.array([[0, 1, 5], [0, 1, 6], [1, 2, 7], [2, 0, 8], [3, 4, 5], [4, 3, 0], [5, 6, 1], [7, 8, 2]])
    weights = np.array([1.0, 0.4, 2.0, 1.5, 0.7, 1.0, 3.0, 0.9])

    def solved(changed: np.ndarray) -> sm.Solution:
        return tight(sm.LMNNProblem.from_triplets(X, rows, changed, 0.3, ridge=0.1, loss=loss))

    here, step = solved(weights), 1e-4
    found = sm.explain(here)
    gradient = multipliers_of(
        sm.Dual(triplets_of(found.slacks), found.sensitivity.constraint_weights), sm.Triplets.from_array(rows), len(X)
    )
    assert (gradient > 1e-3).sum() >= 3
    for t in range(len(rows)):
        unit = step * np.eye(len(rows))[t]
        low, high = bracket(solved(weights - unit), here, solved(weights + unit), step)
        assert low - 1e-6 <= gradient[t] <= high + 1e-6
        assert high - low <= 0.02
    far = np.random.default_rng(5).exponential(size=len(rows))
    tangent = here.objective + gradient @ (far - weights)
    assert solved(far).lower_bound <= tangent + rounding(tangent)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_margin_by_proven_optima(loss: str) -> None:
    """With M = m N, LMNN of margin m is LMNN of margin 1 with other weights: m for the linear terms, m or m^2."""
    problem = make_instance("plain", 1, ridge=0.1, loss=loss).problem
    here, step = tight(problem), 1e-3
    found = sm.explain(here).sensitivity

    def at(margin: float) -> tuple[float, float]:
        push = 0.3 * margin ** (2 if loss == "squared_hinge" else 1)
        scale = 0.7 * margin + push
        there = tight(problem.with_weights(push_weight=push / scale, ridge=0.1 * margin / scale))
        return scale * there.lower_bound, scale * there.objective

    (_, below), (_, above) = at(1 - step), at(1 + step)
    low, high = (here.lower_bound - below) / step, (above - here.lower_bound) / step  # the optimum is convex in m
    assert low <= found.margin <= high
    assert high - low <= 0.01 * found.margin
    for margin in (0.2, 0.9, 1.5, 4.0):
        assert found.at_least(margin=margin) <= at(margin)[1] + rounding(here.objective)
    if loss == "hinge":
        assert_same(found.margin, found.lower_bound)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_margins_of_single_triplets_in_a_program_of_their_own(loss: str) -> None:
    problem = make_instance("plain", 1, ridge=0.1, loss=loss).problem
    every = all_triplets(problem)
    margin = cp.Parameter(len(every), value=np.ones(len(every)))
    M, cone = sm.metric_variable(3)
    xi = cp.Variable(len(every), nonneg=True)
    pairs = np.stack(problem.target_pairs, axis=1)
    pull = cp.sum(sm.squared_distances(M, problem.X, pairs))
    push = cp.sum_squares(xi) if loss == "squared_hinge" else cp.sum(xi)
    program = cp.Problem(
        cp.Minimize(0.7 * pull + 0.1 * cp.trace(M) + 0.3 * push),
        [sm.triplet_margins(M, problem.X, every) >= margin - xi, cone],
    )
    options = {"tol_gap_rel": 1e-10, "tol_gap_abs": 1e-10, "tol_feas": 1e-10}
    here = program.solve(solver="CLARABEL", **options)
    solution = tight(problem)
    assert here == pytest.approx(solution.objective, rel=1e-7)
    support = sm.explain(solution).support
    chosen = [*np.flatnonzero(support.inside)[:3], *np.flatnonzero(support.at_bound)[:1]]
    keys, step = every.keys(len(problem.X)), 1e-3
    for s in chosen:
        slopes = []
        for sign in (-1, 1):
            margin.value = 1 + sign * step * (keys == triplets_of(support).keys(len(problem.X))[s])
            slopes.append(sign * (program.solve(solver="CLARABEL", **options) - here) / step)
        assert slopes[0] - 1e-3 <= support.multipliers[s] <= slopes[1] + 1e-3
        assert slopes[1] - slopes[0] <= 0.05


# -- the interface --------------------------------------------------------------------------------------------------


def test_tables_and_words(small: Instance) -> None:
    found = sm.explain(sm.solve(small.problem, solver="conic"))
    for part in (found.support, found.influence, found.slacks):
        frame = pd.DataFrame(part.to_dict())
        assert len(frame) == (len(small.y) if part is found.influence else len(part))
    assert list(pd.DataFrame(found.support.to_dict()).columns[:4]) == ["anchor", "target", "impostor", "multiplier"]
    assert set(found.sensitivity.to_dict()) == {"margin", "push_weight", "ridge"}
    for word in ("support triplets", "examples have influence", "violated triplets", "optimum by margin"):
        assert word in str(found)
    assert repr(found).startswith("<Explanation LMNN: objective")


def test_a_loaded_solution_needs_its_problem(small: Instance, tmp_path: Path) -> None:
    solution = sm.solve(small.problem, solver="conic")
    solution.save(tmp_path / "solution.npz")
    loaded = sm.Solution.load(tmp_path / "solution.npz")
    with pytest.raises(ValueError, match="pass it as explain"):
        sm.explain(loaded)
    assert_same(sm.explain(loaded, small.problem).sensitivity.margin, sm.explain(solution).sensitivity.margin)


def test_without_multipliers_the_slopes_at_the_metric_speak(small: Instance) -> None:
    solution = sm.solve(small.problem, solver="conic")
    found = sm.explain(replace(solution, dual=None))
    assert 0 < found.certificate.lower_bound <= solution.lower_bound + rounding(solution.lower_bound)
    assert len(found.support) == len(found.slacks)


def test_nothing_to_explain_is_no_error(small: Instance) -> None:
    for problem in (
        small.problem.with_weights(push_weight=0.0),
        sm.LMNNProblem.from_triplets(small.problem.X, np.zeros((0, 3), int), push_weight=0.3),
    ):
        found = sm.explain(sm.solve(problem, solver="conic"))
        assert found.certificate.objective == found.sensitivity.margin == 0.0
        assert len(found.support) == 0
        assert str(found)


def test_coinciding_points_are_all_support() -> None:
    """No metric parts the impostors from their anchors: the hinges cost 0.3 * 8 whatever the metric is."""
    X = np.array([[0.0, 0], [0, 0], [1, 2], [1, 2], [0, 0], [0, 0]])
    problem = sm.LMNNProblem.from_labels(X, np.array([0, 0, 1, 1, 2, 2]), 1, 0.3)
    found = sm.explain(sm.solve(problem, solver="conic"))
    assert found.certificate.gap <= 1e-9
    assert len(found.support) == int(found.support.at_bound.sum()) == 8
    assert found.sensitivity.weights["push_weight"] == pytest.approx(8.0)
    assert distances(X, triplets_of(found.slacks).anchors, triplets_of(found.slacks).impostors).max() == 0.0
