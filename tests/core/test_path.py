"""Paths of weights: one compiled program serves them all, and every point of a path is proven by itself."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from conftest import KINDS, make_instance, rounding

import sdpmetric as sm
from sdpmetric.core import run as base
from sdpmetric.formulations import named
from sdpmetric.solvers.lmnn import conic

PUSH_WEIGHTS = (0.35, 0.1, 0.85)
RIDGES = (0.4, 0.02, 3.0)


def assert_sandwich(one: sm.Solution, other: sm.Solution) -> None:
    assert one.lower_bound <= other.objective + rounding(other.objective)
    assert other.lower_bound <= one.objective + rounding(one.objective)


@pytest.fixture
def sweeps(monkeypatch: pytest.MonkeyPatch) -> list[conic.Sweep]:
    """All sweeps that are made."""
    made: list[conic.Sweep] = []

    class Watched(conic.Sweep):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

    monkeypatch.setattr(conic, "Sweep", Watched)
    return made


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_the_parametric_program_is_the_plain_one_at_every_weight(loss: str) -> None:
    problem = make_instance("plain", 1, loss=loss).problem
    program = sm.to_cvxpy(problem, parametric=True)
    assert program.is_dcp(dpp=True)
    assert {name: p.value for name, p in program.param_dict.items()} == {"push_weight": 0.3, "ridge": 0.0}
    for mu, ridge in zip(PUSH_WEIGHTS, RIDGES, strict=True):
        program.param_dict["push_weight"].value, program.param_dict["ridge"].value = mu, ridge
        here = problem.with_weights(push_weight=mu, ridge=ridge)
        plain = sm.to_cvxpy(here)
        M, xi = np.eye(3) + 0.2, np.linspace(0, 2, named(plain)["xi"].size)
        for stated in (program, plain):
            named(stated)["M"].value, named(stated)["xi"].value = M, xi
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
    assert sm.solve(there, solver="conic", program=edited).status is sm.Status.OPTIMAL
    with pytest.raises(ValueError, match="objective of program is not the problem's"):
        sm.solve(problem, solver="conic", program=edited)


def test_only_lmnn_has_parameters() -> None:
    problem = sm.POLAProblem([[0.0, 1], [1, 0], [3, 1]], [[0, 1], [1, 2]], [True, False])
    with pytest.raises(ValueError, match="parametric=True is for LMNN only"):
        sm.to_cvxpy(problem, parametric=True)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_point_of_a_path_is_proven_by_one_program(kind: str, loss: str, sweeps: list[conic.Sweep]) -> None:
    problem = make_instance(kind, 1, ridge=0.1, loss=loss).problem
    for name, values in (("push_weight", (0.0, *PUSH_WEIGHTS, 1.0)), ("ridge", RIDGES)):
        sweeps.clear()
        solutions = sm.path(problem, **{name: values}, solver="conic")
        assert [getattr(s.problem, name) for s in solutions] == list(values)
        assert all(s.status is sm.Status.OPTIMAL and s.relative_gap <= 1e-6 for s in solutions)
        assert sweeps[0].n_stated == 1
        for solution in solutions:
            assert_sandwich(solution, sm.solve(solution.problem, solver="conic"))


def test_one_compilation_serves_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = []
    original = conic.run_backend

    def spy(program: cp.Problem, *rest: object) -> str:
        status = original(program, *rest)
        compiled.append(program._cache.param_prog)
        return status

    monkeypatch.setattr(conic, "run_backend", spy)
    sm.path(make_instance("plain", 1).problem, push_weight=np.linspace(0.1, 0.9, 5), solver="conic")
    assert len(compiled) >= 5
    assert all(program is compiled[0] for program in compiled)


def test_where_few_triplets_are_stated_more_come_as_they_are_found(
    monkeypatch: pytest.MonkeyPatch, sweeps: list[conic.Sweep]
) -> None:
    monkeypatch.setattr(conic, "SMALL", 8)
    problem = make_instance("plain", 1).problem
    values = (0.3, 0.301, 0.9)
    solutions = sm.path(problem, push_weight=values, solver="conic")
    assert all(s.status is sm.Status.OPTIMAL for s in solutions)
    assert 1 < sweeps[0].n_stated < sum(s.n_iter for s in solutions)
    for solution in solutions:
        assert_sandwich(solution, sm.solve(solution.problem, solver="factored", tol=1e-4))


def test_null_directions_may_come_and_go(sweeps: list[conic.Sweep]) -> None:
    """Without a ridge some directions cost nothing; the program has another dimension there."""
    problem = make_instance("pure", 1).problem
    assert problem.coordinates.null.shape[1] > 0
    solutions = sm.path(problem, ridge=(0.0, 0.3, 0.0), solver="conic")
    assert all(s.status is sm.Status.OPTIMAL for s in solutions)
    assert [s.certificate.null_dimension > 0 for s in solutions] == [True, False, True]
    assert solutions[0].objective == pytest.approx(solutions[2].objective, rel=1e-6)
    assert sweeps[0].n_stated == 3


def test_a_program_that_fails_far_from_its_weights_is_stated_anew(
    monkeypatch: pytest.MonkeyPatch, sweeps: list[conic.Sweep]
) -> None:
    original = conic.run_backend

    def broken(program: cp.Problem, *rest: object) -> str:
        if sweeps[0].n_stated and len(sweeps) == 1 and program.param_dict["pull_over_push"].value < 1:
            return "solver_error"
        return original(program, *rest)

    monkeypatch.setattr(conic, "run_backend", broken)
    solutions = sm.path(make_instance("plain", 1).problem, push_weight=(0.3, 0.8), solver="conic")
    assert len(sweeps) == 2
    assert all(s.status is sm.Status.OPTIMAL for s in solutions)


def test_a_sweep_serves_only_problems_on_the_same_data() -> None:
    one = make_instance("plain", 1).problem
    other = sm.LMNNProblem(one.X * [1.0, 3.0, 0.2], one.source, 0.3)
    sweep = conic.Sweep()
    for problem in (one, other, one):
        budget = base.Budget()
        solution = base.run(problem, conic.steps(problem, budget, 1e-6, sweep=sweep), budget, solver="conic", tol=1e-6)
        assert solution.status is sm.Status.OPTIMAL
    assert sweep.n_stated == 3


@pytest.mark.parametrize("solver", ["factored", "subgradient"])
def test_other_solvers_take_arrays_and_their_own_tolerance(solver: str) -> None:
    problem = make_instance("plain", 1).problem
    solutions = sm.path(problem, push_weight=np.array(PUSH_WEIGHTS), solver=solver)
    assert all(s.solver == solver and s.relative_gap <= 1e-3 for s in solutions)
    with pytest.raises(ValueError, match="unknown solver"):
        sm.path(problem, ridge=[0.1], solver="simplex")
