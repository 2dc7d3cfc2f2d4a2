"""Distance atoms against loops, parametric programs, and reduced ones."""

import cvxpy as cp
import numpy as np
import pytest
from instances import assert_close, make_instance

import sdpmetric as sm
from sdpmetric.lmnn import written as formulations
from sdpmetric.lmnn.solvers.reduced_program import ReducedProgram
from sdpmetric.programs import named, to_cvxpy


def test_too_many_triplets_are_refused_with_advice(small, monkeypatch):
    monkeypatch.setattr(formulations, "MAX_ROWS", small.problem.source.size - 1)
    with pytest.raises(ValueError, match=r"triplets.*solver='conic'"):
        to_cvxpy(small.problem)
    assert to_cvxpy(small.problem, small.problem.push.all_triplets()[:5]).is_dcp()


def test_multipliers_of_the_squared_hinge_have_no_bound():
    problem = make_instance("plain", 1, loss="squared_hinge").problem
    every = problem.push.all_triplets()
    with pytest.raises(ValueError, match="no upper bound"):
        assert ReducedProgram(problem, every[:5], every[5:], [np.eye(3)]).program


@pytest.mark.parametrize(("loss", "several"), [("hinge", False), ("squared_hinge", False), ("hinge", True)])
def test_the_parametric_program_is_the_plain_one_at_every_weight(loss, several):
    problem = make_instance("plain", 1, loss=loss).problem
    if several:
        problem = sm.MultiMetricLMNNProblem(problem, (np.arange(len(problem.X)) % 2).astype(np.int32), np.arange(2))
    program = sm.to_cvxpy(problem, parametric=True)
    assert program.is_dcp(dpp=True)
    assert {name: p.value for name, p in program.param_dict.items()} == {"push_weight": 0.3, "ridge": 0.0}
    for mu, ridge in ((0.35, 0.4), (0.1, 0.02)):
        program.param_dict["push_weight"].value, program.param_dict["ridge"].value = mu, ridge
        weighted = problem.with_weights(push_weight=mu, ridge=ridge)
        fixed_program = sm.to_cvxpy(weighted)
        for stated in (program, fixed_program):
            for k, name in enumerate(["M_1", "M_2"] if several else ["M"]):
                named(stated)[name].value = np.eye(3) + 0.2 + k
            named(stated)["xi"].value = np.linspace(0, 2, named(fixed_program)["xi"].size)
        assert program.objective.value == pytest.approx(fixed_program.objective.value, rel=1e-12)
        assert program.solve(solver="CLARABEL") == pytest.approx(fixed_program.solve(solver="CLARABEL"), rel=1e-6)
        proven = sm.solve(weighted, solver="conic")
        assert proven.lower_bound - 1e-5 <= program.value <= proven.objective + 1e-5


@pytest.fixture
def data(rng):
    return rng.normal(size=(9, 3)) + 100.0, np.array([[0, 1], [4, 2], [2, 4], [3, 3], [8, 0]])


TRIPLETS = np.array([[0, 1, 2], [4, 2, 7], [8, 0, 1], [0, 1, 2]])


def loops(X, A, pairs):
    return np.array([(X[a] - X[b]) @ A @ (X[a] - X[b]) for a, b in pairs])


def metrics(rng):
    """Expressions with a value, symmetric by construction, by declaration, or only in fact."""
    A = rng.normal(size=(3, 3))
    symmetric = cp.Variable((3, 3), symmetric=True)
    symmetric.value = A + A.T
    variable = cp.Variable((3, 3))
    variable.value = A  # not symmetric: the quadratic form is what it is
    small = cp.Variable((2, 2), symmetric=True)
    small.value = np.array([[2.0, -0.3], [-0.3, 1.0]])
    P = rng.normal(size=(3, 2))
    weights = cp.Variable(3)
    weights.value = rng.normal(size=3)
    scale = cp.Parameter(nonneg=True, value=0.7)
    constant = cp.Constant(A @ A.T)
    return [symmetric, variable, P @ small @ P.T, cp.diag(weights), scale * symmetric, symmetric + constant, constant]


@pytest.mark.parametrize("atom", range(7))
def test_atoms_are_what_loops_find(data, rng, atom):
    X, pairs = data
    M = metrics(rng)[atom]
    A = M.value.toarray() if hasattr(M.value, "toarray") else M.value
    assert_close(sm.squared_distances(M, X, pairs).value, loops(X, A, pairs), 1.0)
    expected = loops(X, A, TRIPLETS[:, [0, 2]]) - loops(X, A, TRIPLETS[:, [0, 1]])
    assert_close(sm.triplet_margins(M, X, TRIPLETS).value, expected, 1.0)
    assert_close(sm.triplet_margins(M, X, sm.Triplets.from_array(TRIPLETS)).value, expected, 1.0)
    assert sm.squared_distances(M, X, pairs).is_affine()


def test_the_cone_has_a_dual_value_and_names_of_its_own():
    M, cone = sm.metric_variable(2)
    N, second = sm.metric_variable(2, name="N")
    program = cp.Problem(cp.Minimize(cp.trace(M + N)), [cone, second, M[0, 0] - N[1, 1] >= 1])
    program.solve(solver="CLARABEL")
    assert program.value == pytest.approx(1.0, abs=1e-6)
    assert cone.dual_value == pytest.approx(np.diag([0.0, 1.0]), abs=1e-6)
    assert [cone.label, second.label, M.name(), N.name()] == ["cone", "cone_N", "M", "N"]


def test_lifted_distances_are_the_same_in_fewer_numbers(data, rng):
    X, pairs = data
    A = rng.normal(size=(3, 3))
    M = cp.Constant(A @ A.T)
    lifted = sm.LiftedDistances(M, X)
    for constraint in lifted.constraints:  # its left side is a variable
        constraint.args[0].value = constraint.args[1].value
    assert_close(lifted.squared_distances(pairs).value, loops(X, A @ A.T, pairs), 1.0)
    assert_close(lifted.triplet_margins(TRIPLETS).value, sm.triplet_margins(M, X, TRIPLETS).value, 1.0)
    with pytest.raises(ValueError, match="outside"):
        lifted.squared_distances([[0, 9]])
