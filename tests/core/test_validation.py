"""Bad input at the public edge: every error is a sentence that says what was wrong and what to do; odd input works."""

import math
from decimal import Decimal
from fractions import Fraction
from functools import partial

import numpy as np
import pandas as pd
import polars
import pytest
import scipy.sparse as sp
from instances import assert_same
from statements import FACTORIES, make, point

import sdpmetric as sm
from sdpmetric.estimators import LMNN, MLKR
from sdpmetric.lmnn.problem import LMNNProblem

N = 13
Y = np.repeat([0, 1, 2], [4, 6, 3])
X = np.random.default_rng(20090).normal(size=(N, 3)) + Y[:, None]
L = np.random.default_rng(1).normal(size=(2, 3))
RING = np.array([1, 2, 3, 0, 5, 6, 7, 8, 9, 4, 11, 12, 10])[:, None]  # everyone's next one of its class


def state(X=X, y=Y, k=2, mu=0.3, **options):
    return LMNNProblem.from_labels(X, y, k, mu, **options)


def with_entry(array, place, value):
    array = array.copy()
    array[place] = value
    return array


def one_missing(missing):
    return [missing, *["a"] * 6, *["b"] * 6]


def neighbors(*entries, shape=(N, N)):
    rows, columns = np.array(entries).T
    return sp.coo_array((np.ones(len(rows)), (rows, columns)), shape=shape)


# What float64 would round, in every dress.
ROUNDED = (
    np.full((N, 1), 2**53 + 1),
    np.full((N, 1), 2**64 - 1, dtype=np.uint64),
    pd.DataFrame({"a": pd.array([2**53 + 1] * N, dtype="Int64")}),
    np.full((N, 1), 1 + np.longdouble(2) ** -60, dtype=np.longdouble),
    [[Fraction(1, 3)]] * N,
    [[Decimal("0.1")]] * N,
)
# What is wrong with an argument of LMNN: words of the error, by values of the argument.
REFUSED = {
    "X": {
        "NaN": [with_entry(X, (2, 1), np.nan)],
        "infinity": [with_entry(X, (2, 1), np.inf).astype(np.float32)],
        "text": [np.array([["1", "2"]] * N), np.array([[1.0, "2"]] * N, dtype=object)],
        "float64 would round.*power of 2": ROUNDED if np.finfo(np.longdouble).nmant > 52 else ROUNDED[:3] + ROUNDED[4:],
        "2D array|dim 3|minimum of 1": [X[:, 0], X[None], np.zeros((N, 0))],
        "real numbers": [X * 1j],
        "dense data is required.*toarray": [sp.csr_array(X)],
        "masked": [np.ma.masked_greater(X, 1.0)],
    },
    "y": {
        "one class only": [["a"] * N, np.full(N, 7)],
        "12 entries|1d array": [Y[:-1], np.stack([Y, Y], axis=1)],
        "NaN or infinity": [np.where(Y == 0, np.inf, Y)],
        "missing labels": [one_missing(None), pd.Series(one_missing(pd.NA), dtype="string")],
        "no order.*convert": [np.array([1] * 6 + ["b"] * 7, dtype=object)],
        "continuous": [np.linspace(0, 1, N)],
        "bytes is not supported": [np.array([b"x", b"y", b"z"])[Y]],
        "1 member,.*; drop the class": [np.where(np.arange(N) == 0, 2, np.minimum(Y, 1))],
        "masked": [np.ma.masked_equal(Y, 1)],
        "missing dates; drop those rows": [np.where(Y == 0, np.datetime64("NaT"), Y.astype("M8[D]"))],
    },
    "target_neighbors": {
        "indices outside": [with_entry(RING, 3, N), with_entry(RING, 3, -2)],
        "its own target neighbor": [with_entry(RING, 3, 3), neighbors((4, 4))],
        "has another label": [with_entry(RING, 3, 7), neighbors((2, 8))],
        "twice in one row": [np.repeat(RING, 2, axis=1)],
        "integer array of shape|rows of equal length": [RING.astype(float), RING[:-1], RING.ravel(), [[1], [0, 1]]],
        r"must be \(13, 13\)": [neighbors((0, 1), shape=(N, N + 1))],
    },
    "push_weight": {"push_weight must be": [1.1], "positive ridge": [1.0]},
    "ridge": {"ridge must be": [-1e-9, "some"]},
    "loss": {"loss must be": ["log"]},
    "search": {"search must be": ["kd"]},
    "n_neighbors": {"n_neighbors must be": [0]},
}


@pytest.mark.parametrize(
    ("argument", "value", "words"),
    [(a, value, words) for a, rows in REFUSED.items() for words, values in rows.items() for value in values],
)
def test_an_argument_is_refused_for_what_it_is(argument, value, words):
    with pytest.raises((ValueError, TypeError), match=words) as caught:
        LMNNProblem.from_labels(**({"X": X, "y": Y, "n_neighbors": 1} | {argument: value}))
    assert "\n" not in str(caught.value).strip() or "array" in str(caught.value)


def test_data_in_every_dress_state_the_same_problem():
    expected = state().objective(L)
    wide = np.zeros((2 * N, 6))
    wide[::2, ::2] = X
    frame = pd.DataFrame(X, columns=["a", "b", "c"], index=range(100, 100 + N))
    exact = X.astype(np.longdouble), [[Fraction(x) for x in row] for row in X.tolist()]
    arrays = np.ma.masked_greater(X, 1e9), np.asfortranarray(X), wide[::2, ::2], X[::-1][::-1], X.astype(object)
    for dress in (X.tolist(), frame, *arrays, *exact):
        problem = state(dress)
        assert_same(problem.objective(L), expected)
        assert problem.X.dtype == np.float64
        assert problem.X.flags.c_contiguous
    large = np.arange(3 * N).reshape(N, 3) ** 2
    for dress in (large << 40, (large << 40).astype(object), [[2.0**40 * x for x in row] for row in large.tolist()]):
        np.testing.assert_array_equal(state(dress).X, 2.0**40 * large)
    assert state(np.round(4 * X).astype(int)).X.dtype == state(X > 0.5).X.dtype == np.float64
    assert state(np.asfortranarray(X, dtype=np.float32)).X.dtype == np.float32
    assert abs(state(X.astype(np.float32)).objective(L) - expected) < 1e-4 * expected


NUMBERED = [[True, False, False], [-5, -7, 0], [2.0, 1.0, -1.0], np.array([1, 2, 3], dtype=np.uint8)]


@pytest.mark.parametrize("names", [["finch", "crow", "gull"], np.array([*"abc"], dtype=object), *NUMBERED], ids=str)
def test_label_types(names):
    y = np.asarray(names)[Y]
    assert state(y=y).classes.tolist() == sorted(set(y.tolist()))
    expected = state(y=np.unique(y, return_inverse=True)[1]).objective(L)
    for dress in (y, y.tolist(), pd.Series(y, index=range(50, 50 + N)), y[:, None], pd.Series(y).astype("category")):
        assert_same(state(y=dress).objective(L), expected)


def test_given_target_neighbors_in_every_dress():
    expected = state(target_neighbors=RING).objective(L)
    graph = sp.coo_array((np.full(N, 0.5), (np.arange(N), RING[:, 0])), shape=(N, N))
    for dress in (RING.tolist(), RING.astype(np.uint16), np.asfortranarray(RING), graph, graph.tocsc(), graph.tolil()):
        assert_same(state(target_neighbors=dress).objective(L), expected)
    # given neighbors need no class to be large
    problem = state(y=np.array([0] * 6 + [1] * 7), k=50, target_neighbors=neighbors((0, 1)))
    assert problem.source.size == 7
    assert [rows.tolist() for rows in problem.target_pairs] == [[0], [1]]
    nothing = state(target_neighbors=sp.csr_array((N, N))).certify(np.eye(3))
    assert (nothing.objective, nothing.lower_bound, nothing.n_active) == (0.0, 0.0, 0)
    assert state(mu=1.0, ridge=0.1).push_weight == 1.0


def test_a_graph_is_left_as_it_was():
    """Regression: stored zeros were dropped from the caller's own matrix, in place."""
    graph = sp.csr_array(
        (np.array([0.0, 1.0, 1.0]), np.array([2, 1, 0]), np.array([0, 2] + [3] * (N - 1))), shape=(N, N)
    )
    before = [array.copy() for array in (graph.data, graph.indices, graph.indptr)]
    problem = state(target_neighbors=graph)
    for array, copy in zip((graph.data, graph.indices, graph.indptr), before, strict=True):
        assert np.array_equal(array, copy)
    assert [array.tolist() for array in problem.target_pairs] == [[0, 1], [1, 0]]


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
@pytest.mark.parametrize("name", FACTORIES)
def test_huge_points_have_an_infinite_objective_or_are_refused(name):
    problem = make(name)
    for size in (1e30, 1e60, 1e77, 1e154, 1e300):
        L = size * point(problem)
        with np.errstate(over="ignore"):
            M = np.swapaxes(L, -1, -2) @ L
        metric = np.isfinite(M).all()
        for point_argument in ({"components": L}, {"metric": M}) if metric else ({"components": L},):
            if size > 1e70:
                with pytest.raises(ValueError, match="too large"):
                    sm.certify(problem, **point_argument)
                continue
            certificate = sm.certify(problem, **point_argument)
            assert certificate.objective == math.inf or np.isfinite(certificate.objective)
            assert certificate.lower_bound < math.inf
            assert certificate.gap >= 0.0


y = [0, 0, 0, 0, 1, 1, 1, 1]
numbers = {"a": np.arange(8.0), "b": np.arange(8.0) ** 2 % 5}

BAD = {
    "text": (["x"] * 8, "could not convert .*'x'; encode text with .*OneHotEncoder in a ColumnTransformer"),
    "category": (pd.Categorical(list("ababcdcd")), "could not convert .*'a'; encode text"),
    "day": (pd.date_range("2020-01-01", periods=8), "dates and durations are no numbers; make numbers of it"),
    "lasts": (pd.to_timedelta(range(8), unit="s"), "dates and durations are no numbers"),
    "nullable": (pd.array([1, 2, None, 4, 5, 6, 7, 8], dtype="Int64"), "Input contains NaN; fill it with .*Imputer"),
    "flag": (pd.array([True, None] * 4, dtype="boolean"), "Input contains NaN"),
    "gaps": ([1, 2, np.nan, 4, 5, 6, 7, 8], "Input contains NaN"),
    "inf": ([1, 2, np.inf, 4, 5, 6, 7, 8], "Input contains infinity.*; replace such values"),
    "vectors": ([np.ones(3)] * 8, r"setting an array .*; make a matrix of its vectors, X = np.stack"),
    "complex": ([1j] * 8, "Complex data not supported; take real and imaginary part"),
}


@pytest.mark.parametrize("name", BAD)
def test_the_column_is_in_the_message(name):
    values, sentence = BAD[name]
    fitted = LMNN(n_neighbors=1).fit(pd.DataFrame({**numbers, name: np.arange(8.0)}), y)
    frame = pd.DataFrame({**numbers, name: values})
    in_polars = (
        [polars.DataFrame({**numbers, name: list(values)}, strict=False)] if name in ("text", "gaps", "day") else []
    )
    for call in (
        *(partial(fitted.fit, other, y) for other in in_polars),
        lambda: fitted.transform(frame),
        lambda: LMNN(n_neighbors=1).fit(frame, y),
        lambda: sm.LMNNProblem.from_labels(frame[[name]], y),
    ):
        with pytest.raises(ValueError, match=f"^column '{name}' of X: {sentence}"):
            call()


DAYS = np.arange(3 * N).reshape(N, 3).astype("M8[D]")
MISSING = with_entry(DAYS, (0, 0), np.datetime64("NaT"))


@pytest.mark.parametrize(
    "dates", [DAYS, MISSING, DAYS - DAYS[0], DAYS.astype(object), np.array([[*row] for row in DAYS], dtype=object)]
)
def test_dates_in_arrays_are_no_numbers(dates):
    """NumPy makes counts of days of them, and -9.2e18 of a missing one."""
    learned = LMNN(n_neighbors=1).fit(X, Y)
    labels, pairs = Y.astype(float), [[0, 1], [2, 3]]
    for use in (
        lambda: LMNN(n_neighbors=1).fit(dates, Y),
        lambda: sm.LMNNProblem.from_labels(dates, Y, 1),
        lambda: learned.transform(dates),
        lambda: LMNN(n_neighbors=1).fit(X, Y, sample_weight=dates[:, 0]),
        lambda: MLKR().fit(X, dates[:, 0]),
        lambda: MLKR().fit(dates, labels),
        lambda: sm.certify(sm.LMNNProblem.from_labels(X, Y, 1), metric=dates[:3]),
        lambda: sm.POLAStream(3).update(dates[0], dates[1], True),
        lambda: sm.LEGOStream(3, learning_rate=0.1).update(dates[0], dates[1], 1.0),
        lambda: sm.datasets.standardize(dates),
        lambda: sm.MetricProblem(X, sm.terms.DistanceBounds(pairs, dates[:2, 0])),
        lambda: sm.HashIndex(np.eye(3), 8).add(dates),
    ):
        with pytest.raises((ValueError, TypeError), match=r"dates|durations|datetime"):
            use()


def test_tables_that_are_no_arrays_say_what_makes_one():
    lazy = polars.DataFrame(X, schema=["a", "b", "c"]).lazy()
    table = type("Table", (), {"__module__": "pyarrow.lib"})()
    for make_problem in (LMNN(n_neighbors=1).fit, lambda X, y: sm.LMNNProblem.from_labels(X, y, 1)):
        with pytest.raises(TypeError, match=r"X is a polars.LazyFrame; pass X.collect\(\)"):
            make_problem(lazy, Y)
        with pytest.raises(TypeError, match=r"X is a pyarrow.Table; pass X.to_pandas\(\)"):
            make_problem(table, Y)
