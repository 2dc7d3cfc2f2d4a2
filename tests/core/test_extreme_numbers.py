"""Numbers at the ends of what floats hold, and backends that break: a status or a sentence, never another error."""

import math

import cvxpy as cp
import numpy as np
import pytest

import sdpmetric as sm
from sdpmetric import terms

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@pytest.fixture
def data(rng):
    y = np.repeat([0, 1, 2], [9, 8, 7])
    return rng.normal(size=(24, 3)) + 0.7 * y[:, None], y


def check(problem, solver="auto", **options):
    """A solve ends with a status and numbers that do not contradict each other, or a sentence of this package."""
    try:
        solution = sm.solve(problem, solver, max_time=0.3, **options)
    except ValueError as error:
        if type(error) is not ValueError or not str(error).endswith("."):  # LinAlgError is one, too
            raise
        return None
    certificate = solution.certificate
    assert np.isfinite(solution.components).all()
    assert not math.isnan(certificate.objective)
    assert certificate.lower_bound <= certificate.objective
    return solution


@pytest.mark.parametrize("scale", [1e-150, 1e100])
def test_scales_of_data_with_fourth_powers(data, scale):
    X, y = data
    total = terms.LogDet() + terms.Frobenius() + 0.1 * terms.TripletHinge(labels=y, n_neighbors=2)
    check(sm.LMNNProblem.from_labels(scale * X, y, 2, 0.3, frobenius=0.5))
    check(sm.LMNNProblem.from_labels(scale * X, y, 2, 0.3, frobenius=0.5), "conic")
    check(sm.MetricProblem(scale * X, total))


class PanicException(BaseException):
    """As PyO3 raises it where code in Rust panics."""


class NoLicense(Exception):
    """As MOSEK raises it."""

    __module__ = "mosek"


@pytest.mark.parametrize(
    ("statement", "error"),
    [("lmnn", PanicException), ("frobenius", PanicException), ("mmc", NoLicense), ("sum", NoLicense)],
)
def test_an_error_of_the_backend_is_a_solver_error(data, monkeypatch, statement, error):
    X, y = data

    def panic(*args, **options):
        raise error("Eigval error: Eigen(1)")

    problem = {
        "lmnn": lambda: sm.LMNNProblem.from_labels(X, y, 2),
        "frobenius": lambda: sm.LMNNProblem.from_labels(X, y, 2, frobenius=1.0),
        "mmc": lambda: sm.MMCProblem.from_labels(X, y),
        "sum": lambda: sm.MetricProblem(X, terms.Frobenius() + terms.TripletHinge(labels=y)),
    }[statement]()
    with monkeypatch.context() as patched:
        patched.setattr(cp.Problem, "solve", panic)
        with pytest.warns(RuntimeWarning, match="CLARABEL failed: Eigval error"):
            solution = sm.solve(problem, "conic")
    assert solution.status is sm.Status.SOLVER_ERROR
    assert solution.lower_bound <= sm.solve(problem, "conic").objective


def test_another_base_exception_of_a_backend_passes(data, monkeypatch):
    X, y = data

    def leave(*args, **options):
        raise SystemExit

    monkeypatch.setattr(cp.Problem, "solve", leave)
    with pytest.raises(SystemExit):
        sm.solve(sm.MMCProblem.from_labels(X, y), "conic")


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_hinges_whose_distances_overflow_are_infinite_and_not_0(loss):
    X = 1e80 * np.array([[1.0, 0.0], [2.0, 1.0], [0.0, 2.0], [1.0, 3.5], [3.0, 1.0], [2.0, 2.0]])
    problem = sm.LMNNProblem.from_labels(X, [0, 0, 1, 1, 0, 1], 1, push_weight=1.0, ridge=1e-200, loss=loss)
    assert problem.certify(1e80 * np.eye(2)).objective == np.inf
