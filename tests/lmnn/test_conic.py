"""The exact solver, and bounds with further constraints."""

import cvxpy as cp
import numpy as np
import pytest
from instances import assert_sandwich, make_instance

import sdpmetric as sm
from sdpmetric import bound
from sdpmetric.core.status import Status
from sdpmetric.lmnn.problem import LMNNProblem
from sdpmetric.lmnn.solvers import reduced_program
from sdpmetric.lmnn.solvers.reduced_program import ReductionOptions
from sdpmetric.lmnn.written import metric_names
from sdpmetric.programs import named, to_cvxpy

PROVEN = 1e-6


def solve(problem, tol=PROVEN, **options):
    return sm.solve(problem, "conic", tol=tol, **options)


def test_a_large_cone_is_proven_on_faces_too(monkeypatch):
    monkeypatch.setattr(reduced_program, "OPTIONS", ReductionOptions(full_cone=2, face_margin=1))
    X = np.random.default_rng(3).normal(size=(24, 6))
    y = np.repeat([0, 1], [14, 10])
    problem = LMNNProblem.from_labels(X + 0.6 * y[:, None], y, 2, 0.3)
    face = solve(problem, tol=1e-4)
    monkeypatch.setattr(reduced_program, "OPTIONS", ReductionOptions(full_cone=40))
    assert_sandwich(face, solve(problem))


def test_a_cost_of_rank_zero_is_proven():
    """Targets coincide with their anchors: everything else can be pushed away at no cost, except what coincides."""
    X = np.array([[0.0, 0], [0, 0], [1, 2], [1, 2], [0, 0], [0, 0]])
    y = np.array([0, 0, 1, 1, 2, 2])
    problem = LMNNProblem.from_labels(X, y, 1, 0.3)
    assert problem.coordinates.rank == 0
    solution = solve(problem)
    assert solution.status is Status.OPTIMAL
    assert solution.objective == pytest.approx(0.3 * 8)


def test_polishing_is_an_option_and_is_named(small):
    rough = {"tol_gap_rel": 1e-4, "tol_gap_abs": 1e-4, "tol_feas": 1e-4}
    unpolished = solve(small.problem, tol=1e-9, backend_options=rough, polish=False)
    polished = solve(small.problem, tol=1e-9, backend_options=rough)
    assert not unpolished.certificate.info["polished"]
    assert unpolished.certificate.info["backend_lower_bound"] == unpolished.lower_bound
    assert polished.certificate.info["polished"]
    assert polished.certificate.info["backend_lower_bound"] < polished.lower_bound
    assert "polished" in str(polished)
    assert_sandwich(unpolished, polished, solve(small.problem))


LABELED = make_instance("plain", 1, mu=0.4)


@pytest.mark.parametrize("kind", [sm.ITMLProblem, sm.MMCProblem, sm.POLAProblem, sm.SDMLProblem])
def test_constraints_of_a_users_own_in_every_program(kind):
    """The bound is above that of the statement without the constraint, and below what a metric within it costs."""
    problem = kind.from_labels(LABELED.problem.X, LABELED.y, 20)
    program, free = to_cvxpy(problem), sm.solve(problem, tol=1e-6)
    M = program.var_dict.get("M", program.var_dict.get("A"))
    edited = cp.Problem(program.objective, [*program.constraints, M[0, 0] <= 0.5 * free.metric[0, 0]])
    proven = bound(edited)
    edited.solve(solver="CLARABEL")
    assert free.lower_bound < proven.lower_bound <= edited.value + 1e-6 * abs(edited.value)
    assert edited.value <= proven.upper_bound + 1e-6 * abs(edited.value)


def whole(problem, constraints):
    """The program with all triplets, which CVXPY solves at once."""
    program = to_cvxpy(problem)
    metrics = [named(program)[name] for name in metric_names(problem.push)]
    edited = cp.Problem(program.objective, [*program.constraints, *constraints(*metrics)])
    return edited.solve(solver="CLARABEL", tol_gap_rel=1e-10, tol_gap_abs=1e-10, tol_feas=1e-10)


FURTHER = {
    "trace": lambda M: [cp.trace(M) <= 0.5],
    "diagonal": lambda M: [M - cp.diag(cp.diag(M)) == 0],
    "fixed entry": lambda M: [M[0, 0] == 0.3, M[0, 1] >= 0.1],
    "norm": lambda M: [cp.norm(M, "fro") <= 0.4],
    "inactive": lambda M: [cp.trace(M) <= 1e3],
}


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("name", FURTHER)
def test_constraints_of_ones_own_are_kept_and_the_optimum_is_that_of_all_triplets(name, loss):
    problem = make_instance("plain", 3, mu=0.6, loss=loss).problem
    solution = sm.solve(problem, "conic", constraints=FURTHER[name])
    value = whole(problem, FURTHER[name])
    assert solution.relative_gap <= 1e-5
    assert solution.lower_bound <= value * (1 + 1e-7)
    assert solution.objective >= value * (1 - 1e-7)
    assert solution.certificate.rigor == "compiled"
    assert solution.objective == pytest.approx(problem.objective(solution.components), rel=1e-9)
    M = cp.Variable((3, 3), symmetric=True)
    M.value = solution.metric
    assert max(np.max(constraint.violation()) for constraint in FURTHER[name](M)) <= 1e-9
    if name == "inactive":
        assert solution.objective == pytest.approx(sm.solve(problem, tol=1e-7).objective, rel=1e-5)


def test_metrics_that_have_to_be_equal_are_one():
    tied = make_instance("plain", 4, mu=0.5).problem
    several = sm.MultiMetricLMNNProblem(tied, (np.arange(len(tied.X)) % 2).astype(np.int32), np.arange(2))
    one, two = sm.solve(tied, "conic"), sm.solve(several, "conic", constraints=lambda M, N: [M == N])
    assert two.lower_bound <= one.objective * (1 + 1e-7)
    assert two.objective >= one.lower_bound * (1 - 1e-7)
    assert two.relative_gap <= 1e-5


def test_directions_without_a_cost_cost_something_within_a_trace():
    """More features than examples: without the constraint the optimum is 0, along directions of no cost."""
    X = np.random.default_rng(0).normal(size=(8, 12))
    problem = LMNNProblem.from_labels(X, [0, 0, 0, 0, 1, 1, 1, 1], 1)
    within = FURTHER["trace"]
    solution = sm.solve(problem, "conic", constraints=within)
    assert solution.objective == pytest.approx(whole(problem, within), rel=1e-4)
    assert solution.objective > 0.1
    assert solution.relative_gap <= 1e-4


def test_constraints_that_no_metric_satisfies_or_that_are_not_convex_are_errors():
    problem = make_instance("plain", 1).problem
    with pytest.raises(ValueError, match="no metric satisfies"):
        sm.solve(problem, "conic", constraints=lambda M: [cp.trace(M) <= -1])
    with pytest.raises(ValueError, match="not convex"):
        sm.solve(problem, "conic", constraints=lambda M: [cp.norm(M) >= 1])
    with pytest.raises(TypeError, match="constraints"):
        sm.solve(problem, "factored", constraints=FURTHER["trace"])
