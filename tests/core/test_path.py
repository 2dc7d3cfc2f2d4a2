"""Paths of weights: a parametric program is compiled once, and every point of a path is proven by itself."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from instances import KINDS, make_instance, rounding

import sdpmetric as sm
from sdpmetric.formulations import named
from sdpmetric.solvers.lmnn import constraint_generation

PUSH_WEIGHTS = (0.35, 0.1, 0.85)
RIDGES = (0.4, 0.02, 3.0)


def assert_sandwich(one: sm.Solution, other: sm.Solution) -> None:
    assert one.lower_bound <= other.objective + rounding(other.objective)
    assert other.lower_bound <= one.objective + rounding(one.objective)


@pytest.mark.parametrize(("loss", "several"), [("hinge", False), ("squared_hinge", False), ("hinge", True)])
def test_the_parametric_program_is_the_plain_one_at_every_weight(loss: str, several: bool) -> None:
    problem = make_instance("plain", 1, loss=loss).problem
    if several:
        problem = sm.MultiMetricLMNNProblem(problem, (np.arange(len(problem.X)) % 2).astype(np.int32), np.arange(2))
    program = sm.to_cvxpy(problem, parametric=True)
    assert program.is_dcp(dpp=True)
    assert {name: p.value for name, p in program.param_dict.items()} == {"push_weight": 0.3, "ridge": 0.0}
    for mu, ridge in zip(PUSH_WEIGHTS, RIDGES, strict=True):
        program.param_dict["push_weight"].value, program.param_dict["ridge"].value = mu, ridge
        here = problem.with_weights(push_weight=mu, ridge=ridge)
        plain = sm.to_cvxpy(here)
        for stated in (program, plain):
            for k, name in enumerate(["M0", "M1"] if several else ["M"]):
                named(stated)[name].value = np.eye(3) + 0.2 + k
            named(stated)["xi"].value = np.linspace(0, 2, named(plain)["xi"].size)
        assert program.objective.value == pytest.approx(plain.objective.value, rel=1e-12)
        assert program.solve(solver="CLARABEL") == pytest.approx(plain.solve(solver="CLARABEL"), rel=1e-6)
        proven = sm.solve(here, solver="conic")
        assert proven.lower_bound - 1e-5 <= program.value <= proven.objective + 1e-5


def test_the_parametric_program_is_compiled_once() -> None:
    program = sm.to_cvxpy(make_instance("plain", 1).problem, parametric=True)
    program.solve(solver="CLARABEL")
    compiled = program._cache.param_prog
    program.param_dict["push_weight"].value = 0.7
    program.solve(solver="CLARABEL")
    assert compiled is not None
    assert program._cache.param_prog is compiled


def test_an_edited_parametric_program_is_proven_at_its_weight() -> None:
    problem = make_instance("plain", 1).problem
    program = sm.to_cvxpy(problem, parametric=True)
    M = program.var_dict["M"]
    edited = cp.Problem(program.objective, [*program.constraints, cp.multiply(1 - np.eye(3), M) == 0])
    program.param_dict["push_weight"].value = 0.6
    there = problem.with_weights(push_weight=0.6)
    found = sm.solve(there, solver="conic", program=edited)
    assert found.certificate.assumed_lower_bound == pytest.approx(found.objective, rel=1e-5)
    with pytest.raises(ValueError, match="objective of program is not the problem's"):
        sm.solve(problem, solver="conic", program=edited)


def test_only_lmnn_has_parameters() -> None:
    problem = sm.POLAProblem([[0.0, 1], [1, 0], [3, 1]], [[0, 1], [1, 2]], [True, False])
    with pytest.raises(TypeError, match="parametric"):
        sm.to_cvxpy(problem, parametric=True)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_point_of_an_exact_path_is_proven(kind: str, loss: str) -> None:
    problem = make_instance(kind, 1, ridge=0.1, loss=loss).problem
    for name, values in (("push_weight", (0.0, *PUSH_WEIGHTS, 1.0)), ("ridge", RIDGES)):
        solutions = sm.path(problem, **{name: values}, solver="conic")
        assert [getattr(s.problem, name) for s in solutions] == list(values)
        assert all(s.status is sm.Status.OPTIMAL and s.relative_gap <= 1e-6 for s in solutions)
        for solution in solutions:
            assert_sandwich(solution, sm.solve(solution.problem, solver="conic"))


def test_a_path_of_reduced_programs_is_proven_point_by_point(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constraint_generation, "SMALL", 8)
    problem = make_instance("plain", 1).problem
    solutions = sm.path(problem, push_weight=(0.3, 0.301, 0.9), solver="conic")
    assert all(s.status is sm.Status.OPTIMAL for s in solutions)
    for solution in solutions:
        assert_sandwich(solution, sm.solve(solution.problem, solver="factored", tol=1e-4))


def test_null_directions_may_come_and_go() -> None:
    """Without a ridge some directions cost nothing; the program has another dimension there."""
    problem = make_instance("pure", 1).problem
    assert problem.coordinates.null.shape[1] > 0
    solutions = sm.path(problem, ridge=(0.0, 0.3, 0.0), solver="conic")
    assert all(s.status is sm.Status.OPTIMAL for s in solutions)
    assert [s.certificate.null_dimension > 0 for s in solutions] == [True, False, True]
    assert solutions[0].objective == pytest.approx(solutions[2].objective, rel=1e-6)


@pytest.mark.parametrize("solver", ["factored", "subgradient"])
def test_other_solvers_take_arrays_and_their_own_tolerance(solver: str) -> None:
    problem = make_instance("plain", 1).problem
    solutions = sm.path(problem, push_weight=np.array(PUSH_WEIGHTS), solver=solver)
    assert all(s.solver == solver and s.relative_gap <= 1e-3 for s in solutions)
    with pytest.raises(ValueError, match="unknown solver"):
        sm.path(problem, ridge=[0.1], solver="simplex")
