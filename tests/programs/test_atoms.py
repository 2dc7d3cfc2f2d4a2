"""Distance atoms against loops, for every kind of expression that may stand for a metric."""

import cvxpy as cp
import numpy as np
import pytest
from instances import assert_close

import sdpmetric as sm


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
