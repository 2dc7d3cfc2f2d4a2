"""Data of any scale and numbers at the ends of what floats hold, and backends that break: a status or a sentence."""

import pickle
import re

import cvxpy as cp
import numpy as np
import pytest
import statements
from statements import FACTORIES

import sdpmetric as sm
from sdpmetric import estimators, terms
from sdpmetric.core import validation


def labeled(seed=0, sizes=(15, 25), d=4):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    return rng.normal(size=(len(y), d)) + 0.8 * y[:, None], y


@pytest.mark.parametrize("exponent", [-180, -100, 100, 190])
@pytest.mark.parametrize("with_queries", [False, True])
def test_frml_takes_the_same_steps_in_any_unit(exponent, with_queries):
    X, y = labeled()
    Q, relevance = (X[:9] + 0.1, sm.Relevance.from_labels(y, y[:9])) if with_queries else (None, y)
    start = np.array([[0.5, 0.1, -0.2, 0.3], [0.0, 0.4, 0.3, -0.1]])

    def solved(unit, chosen):
        queries, init = (None if Q is None else unit * Q), (None if chosen is None else chosen / unit)
        return sm.solve(sm.FRMLProblem(unit * X, relevance, 2, queries=queries), passes=4, init=init)

    for chosen in (None, start):
        reference, scaled = solved(1.0, chosen), solved(2.0**exponent, chosen)
        np.testing.assert_allclose(scaled.components * 2.0**exponent, reference.components, rtol=1e-9)
        assert scaled.objective == pytest.approx(reference.objective, rel=1e-9)
        assert scaled.certificate.stationarity == pytest.approx(reference.certificate.stationarity, rel=1e-9)


LEARNED = {
    "RCA": lambda X, y: estimators.RCA().fit(X, y),
    "LFDA": lambda X, y: estimators.LFDA().fit(X, y),
    "a stream": lambda X, y: sm.FRMLStream(3, 2).partial_fit(X, y),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", [*sorted({*FACTORIES} - {"pola, hard"}), *LEARNED])  # which moves its examples
def test_differences_of_data_out_of_range_are_refused_with_a_scale(name):
    X, y = statements.data()
    tiny = np.where(X > 2.0, 1e-70 * X, X)
    for bad in (1e61 * X, 1e160 * X, 1e305 * X, 1e-62 * X, 1e-320 * X, tiny):
        with pytest.raises(ValueError, match="so that fourth powers of distances are floats: scale them") as error:
            (LEARNED | FACTORIES)[name](bad, y)
        feature, power = re.search(r"feature (\d) of X .* by 2\.0\*\*(-?\d+)", str(error.value)).groups()
        scaled = bad[:, [int(feature)]] * 2.0 ** int(power)
        validation.check_differences("X", scaled)  # does what the sentence says it does


def test_differences_in_range_are_taken_whatever_the_type():
    X, _ = labeled()
    for rows in (1e-56 * X, 1e58 * X, (1e-38 * X).astype(np.float32), np.where(X > 0.0, 0.0, 1.0), 1e50 + 0.0 * X):
        validation.check_differences("X", rows)
    with pytest.raises(ValueError, match="set the smallest ones to 0"):
        validation.check_differences("X", np.array([[1e-300], [0.0], [1e50]]))


@pytest.mark.parametrize("name", ["FRML", "NCA"])
def test_equal_examples_are_refused(name):
    X, y = labeled()
    with pytest.raises(ValueError, match="all 40 examples are equal"):
        getattr(estimators, name)().fit(np.full_like(X, 0.1), y)


def test_streams_of_triplets_refuse_large_numbers_and_stay_as_they_were():
    X, y = labeled()
    stream = sm.FRMLStream(4, 2).partial_fit(X, y)
    before, queries, relevant, far = pickle.dumps(stream), 1e160 * X[:3], X[:2], 1e160 * X[:2]
    for call in (
        lambda: stream.partial_fit(1e160 * X, y),
        lambda: stream.partial_fit(X, sm.Relevance.from_labels(y, y[:3]), queries),
        lambda: stream.update(1e160 * X[0], X[1], relevant),
        lambda: stream.update(X[0], 1e160 * X[1], relevant),
        lambda: stream.update(X[0], X[1], far),
    ):
        with pytest.raises(ValueError, match="so that fourth powers of distances are floats: scale them"):
            call()
        assert pickle.dumps(stream) == before


def test_kernels_of_differences_know_no_origin():
    X, y = labeled()
    centered, far = (estimators.KernelLMNN(gamma=0.3).fit(X + offset, y) for offset in (0.0, 2.0**25))
    assert centered.solution_.objective == pytest.approx(far.solution_.objective, rel=2e-3)
    K = sm.KernelLMNNProblem.from_labels(np.arange(5.0)[:, None], [0, 0, 1, 1, 1], 1, kernel="rbf", gamma=0.5).space
    np.testing.assert_allclose(K.rows([[1.5]])[0], np.exp(-0.5 * (1.5 - np.arange(5.0)) ** 2))


pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@pytest.fixture
def data(rng):
    y = np.repeat([0, 1, 2], [9, 8, 7])
    return rng.normal(size=(24, 3)) + 0.7 * y[:, None], y


class PanicException(BaseException):
    """As PyO3 raises it where code in Rust panics."""


class NoLicense(Exception):
    """As MOSEK raises it."""

    __module__ = "mosek"


@pytest.mark.parametrize(("statement", "error"), [("lmnn", PanicException), ("mmc", NoLicense), ("sum", NoLicense)])
def test_an_error_of_the_backend_is_a_solver_error(data, monkeypatch, statement, error):
    X, y = data

    def panic(*args, **options):
        raise error("Eigval error: Eigen(1)")

    problem = {
        "lmnn": lambda: sm.LMNNProblem.from_labels(X, y, 2),
        "mmc": lambda: sm.MMCProblem.from_labels(X, y),
        "sum": lambda: sm.MetricProblem(X, terms.Frobenius() + terms.TripletHinge(labels=y)),
    }[statement]()
    with monkeypatch.context() as patched:
        patched.setattr(cp.Problem, "solve", panic)
        with pytest.warns(RuntimeWarning, match="CLARABEL failed: Eigval error"):
            solution = sm.solve(problem, "conic")
    assert solution.status is sm.Status.SOLVER_ERROR
    assert solution.lower_bound <= sm.solve(problem, "conic").objective


@pytest.mark.filterwarnings("error")
def test_a_start_that_overflows_is_refused_in_a_sentence():
    X, y = sm.datasets.load("iris")
    with pytest.raises(ValueError, match="init put examples up to inf apart"):
        sm.solve(sm.SDMLProblem.from_labels(X, y, 30), init=1e308 * np.eye(4))
