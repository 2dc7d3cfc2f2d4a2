"""Data of any scale and numbers at the ends of what floats hold, and backends that break: a status or a sentence."""

import pickle

import cvxpy as cp
import numpy as np
import pytest

import sdpmetric as sm
from sdpmetric import estimators, terms


def labeled(seed=0, sizes=(15, 25), d=4):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    return rng.normal(size=(len(y), d)) + 0.8 * y[:, None], y


@pytest.mark.parametrize("exponent", [-498, -265, 265, 498])
@pytest.mark.parametrize("with_queries", [False, True])
def test_frml_takes_the_same_steps_in_any_unit(exponent, with_queries):
    X, y = labeled()
    Q, relevance = (X[:9] + 0.1, sm.Relevance.from_labels(y, y[:9])) if with_queries else (None, y)
    start = np.array([[0.5, 0.1, -0.2, 0.3], [0.0, 0.4, 0.3, -0.1]])
    unit = 2.0**exponent
    for chosen in (None, start):
        reference = sm.solve(sm.FRMLProblem(X, relevance, 2, queries=Q), passes=4, init=chosen)
        scaled_queries = None if Q is None else unit * Q
        scaled = sm.solve(
            sm.FRMLProblem(unit * X, relevance, 2, queries=scaled_queries),
            passes=4,
            init=None if chosen is None else chosen / unit,
        )
        np.testing.assert_allclose(scaled.components * unit, reference.components, rtol=1e-9)
        assert scaled.objective == pytest.approx(reference.objective, rel=1e-9)
        assert scaled.certificate.stationarity == pytest.approx(reference.certificate.stationarity, rel=1e-9)


def unit(X):
    return X / np.abs(X).max()


# Methods of squared distances; those of one kind with the same checks.
DISTANCES = ("LMNN", "MultiMetricLMNN", "MMC", "ITML", "RCA", "KernelLMNN")
SQUARES = {
    **{f"{name}'s estimator": lambda X, y, name=name: getattr(estimators, name)().fit(X, y) for name in DISTANCES},
    "FRML's estimator": lambda X, y: estimators.FRML().fit(X, y),
    "NCA's estimator": lambda X, y: estimators.NCA().fit(X, y),
    "diagonal NCA": lambda X, y: sm.solve(sm.NCAProblem(X, y, diagonal=True)),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", SQUARES)
def test_squares_that_are_no_numbers_and_equal_examples_are_refused(name):
    X, y = labeled()
    for size, match in ((1e160, "overflow"), (1e305, "overflow"), (1e-160, "underflow"), (1e-320, "underflow")):
        with pytest.raises(ValueError, match=f"squared distances of the examples {match}; scale the features"):
            SQUARES[name](size * unit(X), y)
    if name.removesuffix("'s estimator") not in DISTANCES:
        with pytest.raises(ValueError, match="all 40 examples are equal"):
            SQUARES[name](np.full_like(X, 0.1), y)


def test_streams_of_triplets_refuse_what_overflows_and_stay_as_they_were():
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
        with pytest.raises(ValueError, match="fourth powers of distances would overflow; scale the features"):
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


@pytest.mark.parametrize(
    ("statement", "error"),
    [("lmnn", PanicException), ("mmc", NoLicense), ("sum", NoLicense)],
)
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


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_hinges_whose_distances_overflow_are_infinite_and_not_0(loss):
    X = 1e80 * np.array([[1.0, 0.0], [2.0, 1.0], [0.0, 2.0], [1.0, 3.5], [3.0, 1.0], [2.0, 2.0]])
    problem = sm.LMNNProblem.from_labels(X, [0, 0, 1, 1, 0, 1], 1, push_weight=1.0, ridge=1e-200, loss=loss)
    assert problem.certify(1e80 * np.eye(2)).objective == np.inf
