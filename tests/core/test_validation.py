"""Bad input at the public edge: every error is a sentence that says what was wrong and what to do; odd input works."""

from __future__ import annotations

import datetime
import math

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from instances import assert_same
from test_contract import FACTORIES, data, make, point

import sdpmetric as sm
from sdpmetric.estimators import LMNN
from sdpmetric.linalg.rigorous import sum_above, sum_below
from sdpmetric.problems.lmnn import LMNNProblem
from sdpmetric.streams.lego import LEGOStream
from sdpmetric.triplets.triplets import Triplets

N = 13
Y = np.repeat([0, 1, 2], [4, 6, 3])


@pytest.fixture
def X(rng):
    return rng.normal(size=(N, 3)) + Y[:, None]


@pytest.fixture
def L(rng):
    return rng.normal(size=(2, 3))


def state(X, y=Y, k=2, mu=0.3, **options):
    return LMNNProblem.from_labels(X, y, k, mu, **options)


def refused(words, X, y=Y, k=2, mu=0.3, error=ValueError, **options):
    with pytest.raises(error, match=words) as caught:
        state(X, y, k, mu, **options)
    text = str(caught.value).strip()
    assert "\n" not in text or "array" in text, "one sentence"
    return text


# -- data -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "words"), [(np.nan, "X contains NaN"), (np.inf, "X contains infinity")])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_numbers_that_are_none(X, value, words, dtype):
    X = X.astype(dtype)
    X[2, 1] = value
    refused(words, X)
    with pytest.raises(ValueError, match=words):
        LMNNProblem.from_triplets(X, [[0, 1, 5]])


@pytest.mark.parametrize("text", [np.array([["a", "b"]] * N), np.array([[1.0, "b"]] * N, dtype=object)])
def test_text_in_the_data(text):
    refused(r"X contains text.*encode those columns as numbers, or drop them\.", text)
    refused(r"column 'a' of X holds text: encode it", pd.DataFrame({"a": ["u"] * N}))


def test_shapes_and_kinds_that_are_no_data(X):
    refused("2D array", X[:, 0])
    refused("2D array|dim 3", X[None])
    refused("minimum of 1", np.zeros((N, 0)))
    refused("X contains complex numbers.*pass real ones", X * 1j)
    for sparse in (sp.csr_array(X), sp.csr_matrix(X), sp.coo_array(X)):
        refused("[Ss]parse data was passed for X, but dense data is required.*toarray", sparse, error=TypeError)


def test_data_in_every_dress_state_the_same_problem(X, L):
    expected = state(X).objective(L)
    columns = ["a", "b", "c"]
    wide = np.zeros((2 * N, 6))
    wide[::2, ::2] = X
    same = [
        X.tolist(),
        np.asfortranarray(X),
        wide[::2, ::2],
        X[::-1][::-1],
        X.astype(object),
        pd.DataFrame(X, columns=columns, index=range(100, 100 + N)),
    ]
    for dress in same:
        problem = state(dress)
        assert_same(problem.objective(L), expected)
        assert problem.X.dtype == np.float64
        assert problem.X.flags.c_contiguous
    assert state(np.round(4 * X).astype(int)).X.dtype == np.float64
    assert state(X > 0.5).X.dtype == np.float64
    assert state(X.astype(np.float32)).X.dtype == np.float32
    assert state(np.asfortranarray(X, dtype=np.float32)).X.dtype == np.float32
    assert abs(state(X.astype(np.float32)).objective(L) - expected) < 1e-4 * expected


def test_small_flat_and_repeated_data_are_fine():
    # n < 5, d = 1
    tiny = LMNNProblem.from_labels([[0.0], [1.0], [2.0], [5.0]], ["a", "a", "b", "b"], 1, 0.3)
    assert_same(tiny.objective([[1.0]]), 0.7 * (1 + 1 + 9 + 9) + 0.3 * (0 + 0 + 1 + 0 + 6 + 9 + 0 + 0))
    # duplicates across classes: their hinges can never close, whatever the metric
    X = np.array([[0.0, 1.0], [1.0, 1.0], [3.0, 0.0], [0.0, 1.0], [1.0, 1.5], [4.0, 2.0]])
    twins = LMNNProblem.from_labels(X, [0, 0, 0, 1, 1, 1], 1, 0.3)
    c = twins.certify(1e3 * np.eye(2))
    assert c.n_active >= 2
    assert twins.certify(np.zeros((0, 2))).lower_bound >= 0.3 * 2 * (1 - 1e-12)
    # constant features, also with an offset that rounding smears over, change nothing
    flat = np.column_stack([X, np.full(6, 1e6), np.full(6, 0.1)])
    more = LMNNProblem.from_labels(flat, [0, 0, 0, 1, 1, 1], 1, 0.3)
    K = np.array([[0.4, -0.3], [0.1, 0.8]])
    judged, expected = more.certify(np.column_stack([K, np.ones((2, 2))])), twins.certify(K)
    assert_same(judged.objective, expected.objective)
    assert_same(judged.lower_bound, expected.lower_bound)
    assert judged.null_dimension == 0


# -- labels -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "names",
    [
        ["finch", "crow", "gull"],
        [True, False, False],
        [-5, -7, 0],
        [2.0, 1.0, -1.0],
        np.array(["a", "b", "c"], dtype=object),
        np.array([1, 2, 3], dtype=np.uint8),
    ],
    ids=str,
)
def test_label_types(X, L, names):
    names = np.asarray(names)
    y = names[Y]
    problem = state(X, y)
    index = np.unique(y, return_inverse=True)[1]
    assert problem.classes.tolist() == sorted(set(y.tolist()))
    expected = state(X, index).objective(L)
    for dress in (y, y.tolist(), pd.Series(y, index=range(50, 50 + N)), y[:, None], pd.Series(y).astype("category")):
        assert_same(state(X, dress).objective(L), expected)


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (["a"] * N, r"one class only \('a'\).*at least two"),
        (np.full(N, 7), r"one class only \(7\)"),
        (Y[:-1], "12 labels for 13 rows"),
        (np.stack([Y, Y], axis=1), "1d array"),
        (np.where(Y == 0, np.nan, Y), "y contains NaN.*drop"),
        (np.where(Y == 0, np.inf, Y), "y contains NaN or infinity"),
        ([None, *["a"] * 6, *["b"] * 6], "missing labels.*drop"),
        (np.array([np.nan, *["a"] * 6, *["b"] * 6], dtype=object), "missing labels"),
        (pd.Series([pd.NA, *["a"] * 6, *["b"] * 6]), "missing labels"),
        (pd.Series([pd.NA, *["a"] * 6, *["b"] * 6], dtype="string"), "missing labels"),
        (np.array([1, 1, 1, 1, 1, 1, *["b"] * 7], dtype=object), "mixes labels that have no order.*convert"),
        (np.linspace(0, 1, N), "continuous"),
    ],
)
def test_labels_that_are_none(X, y, words):
    refused(words, X, y)


@pytest.mark.parametrize(
    "names", [["p", "q", "rare"], np.array(["p", "q", "rare"], dtype=object), [4, 5, 6], [1.0, 2, 3]]
)
def test_a_class_with_k_members_is_named_with_the_remedy(X, names):
    y = np.asarray(names)[Y]
    state(X, y, 2)
    last = np.asarray(names).tolist()[2]
    text = refused(f"class {last!r} has 3 members.*n_neighbors=3.*at least 4.*n_neighbors=2 or fewer.*drop", X, y, 3)
    assert "np." not in text
    alone = np.where(np.arange(N) == 0, 2, np.minimum(Y, 1))
    assert "fewer" not in refused(r"class 2 has 1 member,.*drop the class\.", X, alone, 1)


def test_bytes_are_no_labels(X):
    refused("bytes is not supported. Convert", X, np.array([b"x", b"y", b"z"])[Y], error=TypeError)


@pytest.mark.parametrize("k", [0, -1, 2.5, "3", None, True])
def test_n_neighbors_is_a_positive_integer(X, k):
    refused("n_neighbors must be a positive integer", X, k=k)


# -- target neighbors -------------------------------------------------------------------------------------------------


def ring():
    """Everyone's next one of its class."""
    targets = np.arange(N) + 1
    for label in range(3):
        members = np.flatnonzero(label == Y)
        targets[members[-1]] = members[0]
    return targets[:, None]


def with_entry(row, value):
    targets = ring()
    targets[row, 0] = value
    return targets


@pytest.mark.parametrize(
    ("targets", "words"),
    [
        (with_entry(3, N), r"indices outside 0\.\.12; they are row numbers"),
        (with_entry(3, -1), "indices outside"),
        (with_entry(3, 3), "example 3 is its own target neighbor"),
        (with_entry(3, 7), "target neighbor 7 of example 3 has another label"),
        (np.repeat(ring(), 2, axis=1), "twice in one row"),
        (ring().astype(float), "integer index array of shape.*float64"),
        (ring()[:-1], r"\(13, k\)"),
        (ring().ravel(), "index array of shape"),
        (sp.csr_array((N, N + 1)), r"\(13, 14\).*must be \(13, 13\)"),
        (sp.eye_array(N), "its own target neighbor"),
        (sp.coo_array(([1.0], ([2], [8])), shape=(N, N)), "target neighbor 8 of example 2 has another label"),
    ],
)
def test_target_neighbors_that_are_none(X, targets, words):
    refused(words, X, target_neighbors=targets)


def test_given_target_neighbors_in_every_dress(X, L):
    targets = ring()
    expected = state(X, target_neighbors=targets).objective(L)
    graph = sp.coo_array((np.full(N, 0.5), (np.arange(N), targets[:, 0])), shape=(N, N))
    for dress in (
        targets.tolist(),
        targets.astype(np.uint16),
        np.asfortranarray(targets),
        graph,
        graph.tocsc(),
        graph.tolil(),
    ):
        assert_same(state(X, target_neighbors=dress).objective(L), expected)
    # given neighbors need no class to be large
    small = np.array([0] * 6 + [1] * 7)
    lone = sp.coo_array(([1.0], ([0], [1])), shape=(N, N))
    problem = state(X, small, 50, target_neighbors=lone)
    assert problem.source.size == 7
    assert [part.tolist() for part in problem.target_pairs] == [[0], [1]]


def test_a_graph_is_left_as_it_was(X):
    """Regression: stored zeros were dropped from the caller's own matrix, in place."""
    graph = sp.csr_array(
        (np.array([0.0, 1.0, 1.0]), np.array([2, 1, 0]), np.array([0, 2] + [3] * (N - 1))), shape=(N, N)
    )
    before = [part.copy() for part in (graph.data, graph.indices, graph.indptr)]
    problem = state(X, target_neighbors=graph)
    for part, copy in zip((graph.data, graph.indices, graph.indptr), before, strict=True):
        assert np.array_equal(part, copy)
    assert [part.tolist() for part in problem.target_pairs] == [[0, 1], [1, 0]]


def test_a_graph_without_edges_has_nothing_to_pull(X):
    problem = state(X, target_neighbors=sp.csr_array((N, N)))
    c = problem.certify(np.eye(3))
    assert (c.objective, c.lower_bound, c.n_active) == (0.0, 0.0, 0)


# -- triplets ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("triplets", "words"),
    [
        ([[0, 1, N]], r"indices outside 0\.\.12"),
        ([[0, -1, 5]], "indices outside"),
        ([[0, 0, 5]], r"triplet \[0, 0, 5\] names an example twice"),
        ([[0, 1, 2], [5, 1, 5]], r"triplet \[5, 1, 5\] names an example twice"),
        ([[0, 1, 1]], "twice.*must differ"),
        ([[0.0, 1.0, 5.0]], "integer array of shape.*float64"),
        ([[0, 1]], r"\(t, 3\).*anchor, target, impostor.*\(1, 2\)"),
        ([0, 1, 5], r"\(t, 3\)"),
    ],
)
def test_triplets_that_are_none(X, triplets, words):
    with pytest.raises(ValueError, match=words):
        LMNNProblem.from_triplets(X, triplets)


@pytest.mark.parametrize("weights", [[1.0], [1.0, -1e-9], [1.0, np.nan], [1.0, np.inf], [[1.0, 1.0]], 2.0])
def test_weights_that_are_none(X, weights):
    with pytest.raises(ValueError, match="weights must be 2 finite nonnegative numbers"):
        LMNNProblem.from_triplets(X, [[0, 1, 5], [1, 2, 6]], weights)


def test_triplets_in_every_dress(X, L):
    rows = np.array([[0, 1, 5], [1, 2, 6], [7, 8, 0]])
    expected = LMNNProblem.from_triplets(X, rows, None, 0.3).objective(L)
    assert expected > 0
    for dress in (rows.tolist(), rows.astype(np.uint8), np.asfortranarray(rows), Triplets.from_array(rows)):
        assert_same(LMNNProblem.from_triplets(X, dress, [1, 1, 1], 0.3).objective(L), expected)


# -- options ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mu", [-0.1, 1.1, np.nan, np.inf, "half", None])
def test_push_weight_lies_between_0_and_1(X, mu):
    refused("push_weight must be a finite number of at least 0 and at most 1", X, mu=mu)


@pytest.mark.parametrize("ridge", [-1e-9, np.inf, np.nan, "some"])
def test_ridge_is_not_negative(X, ridge):
    refused("ridge must be a .*number of at least 0", X, ridge=ridge)


def test_push_weight_1_needs_a_ridge(X):
    refused("push_weight=1.*pass a positive ridge", X, mu=1.0)
    assert state(X, mu=1.0, ridge=0.1).push_weight == 1.0


def test_words_for_loss_and_search(X):
    refused("loss must be 'hinge' or 'squared_hinge', got 'log'", X, loss="log")
    refused("search must be .*'ball_tree', got 'kd'", X, search="kd")


def test_rows_of_unequal_length_and_weights_of_words_are_refused():
    X, y = np.eye(4), [0, 0, 1, 1]
    with pytest.raises(ValueError, match="pairs must have rows of equal length"):
        sm.MMCProblem(X, [[0, 1], [2]], [True, False])
    with pytest.raises(ValueError, match="triplets must have rows of equal length"):
        sm.LMNNProblem.from_triplets(X, [[0, 1, 2], [2]])
    with pytest.raises(ValueError, match="target_neighbors must have rows of equal length"):
        sm.LMNNProblem.from_labels(X, y, target_neighbors=[[1], [0, 1], [3], [2]])
    with pytest.raises(ValueError, match="weights must be a dense array of real numbers"):
        sm.LMNNProblem.from_triplets(X, [[0, 1, 2]], weights=["a"])


# -- Arguments out of range are refused by one sentence before any work ------------------------------------------------


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
@pytest.mark.parametrize("name", FACTORIES)
def test_huge_points_have_an_infinite_objective_or_are_refused(name):
    problem = make(name)
    for size in (1e77, 1e100, 1e145, 1e154, 1e200, 1e300):
        L = size * point(problem)
        with np.errstate(over="ignore"):
            M = np.swapaxes(L, -1, -2) @ L
        for given in ({"components": L}, {"metric": M}) if np.isfinite(M).all() else ({"components": L},):
            if size > 1e150:
                with pytest.raises(ValueError, match="too large"):
                    sm.certify(problem, **given)
                continue
            certificate = sm.certify(problem, **given)
            assert certificate.objective == math.inf or np.isfinite(certificate.objective)
            assert certificate.lower_bound < math.inf
            assert certificate.gap >= 0.0


def test_sums_that_overflow_are_infinite():
    assert sum_above(np.full(3, 1e308)) == math.inf
    assert sum_below(np.full(3, -1e308)) == -math.inf
    assert sum_below(np.full(3, 1e308)) <= sum_above(np.full(3, 1e308))


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"max_iter": math.inf}, ValueError, "max_iter must be a positive integer or None"),
        ({"max_iter": 1.5}, ValueError, "max_iter must be a positive integer or None"),
        ({"callback": 3}, TypeError, "callback must be a function or None, got 3"),
        ({"score": 3}, TypeError, "score must be a function or None, got 3"),
    ],
)
def test_solve_refuses_before_any_work(options, error, sentence, monkeypatch):
    problem = make("lmnn")
    monkeypatch.setattr(type(problem), "objective", None)
    with pytest.raises(error, match=sentence):
        sm.solve(problem, **options)


@pytest.mark.parametrize("values", [0.5, "half", [0.1, "half"], [0.1, None]])
def test_path_refuses_values_that_are_no_list_of_numbers(values):
    with pytest.raises(ValueError, match="push_weight must be a list of numbers, the values along the path"):
        sm.path(make("lmnn"), push_weight=values)


def test_masked_entries_are_refused():
    X, y = data()
    hidden = np.ma.masked_greater(X, 1.0)
    with pytest.raises(ValueError, match="X has masked entries"):
        sm.LMNNProblem.from_labels(hidden, y)
    with pytest.raises(ValueError, match="X has masked entries"):
        LMNN().fit(hidden, y)
    with pytest.raises(ValueError, match="y has masked entries"):
        sm.MLKRProblem(X, np.ma.masked_greater(X[:, 0], 1.0))
    with pytest.raises(ValueError, match="y has masked entries"):
        sm.LMNNProblem.from_labels(X, np.ma.masked_equal(y, 1))
    with pytest.raises(ValueError, match="sample_weight has masked entries"):
        sm.MCMLProblem(X, y, np.ma.masked_greater(1.0 + y, 2.0))
    with pytest.raises(ValueError, match="pairs has masked entries"):
        sm.MMCProblem(X, np.ma.masked_equal([[0, 1], [0, 12]], 12), [True, False])
    with pytest.raises(ValueError, match="components has masked entries"):
        sm.certify(make("lmnn"), np.ma.masked_equal(np.eye(3), 0.0))
    nothing = np.ma.masked_greater(X, 1e9)
    assert sm.LMNNProblem.from_labels(nothing, y).fingerprint() == sm.LMNNProblem.from_labels(X, y).fingerprint()


def test_a_learning_rate_that_is_too_large_is_named():
    rng = np.random.default_rng(0)
    rows, four = rng.normal(size=(200, 3)), np.array([rng.choice(200, 4, replace=False) for _ in range(2000)])
    with pytest.raises(ValueError, match=r"learning_rate=1e\+200"):
        LEGOStream(3, 1e200).partial_fit_comparisons(rows, four)


# -- Frames with columns that are no numbers: errors name the column and say what to do; what are numbers passes -------


pandas = pytest.importorskip("pandas")
y = [0, 0, 0, 0, 1, 1, 1, 1]
numbers = {"a": np.arange(8.0), "b": np.arange(8.0) ** 2 % 5}

BAD = {
    "text": (["x"] * 8, "text: encode it with .*OneHotEncoder in a ColumnTransformer"),
    "category": (pandas.Categorical(list("ababcdcd")), "text"),
    "day": (pandas.date_range("2020-01-01", periods=8), "dates: make numbers of it"),
    "lasts": (pandas.to_timedelta(range(8), unit="s"), "durations"),
    "nullable": (pandas.array([1, 2, None, 4, 5, 6, 7, 8], dtype="Int64"), "missing values: fill them with .*Imputer"),
    "flag": (pandas.array([True, None] * 4, dtype="boolean"), "missing values"),
    "gaps": ([1, 2, np.nan, 4, 5, 6, 7, 8], "missing values"),
    "inf": ([1, 2, np.inf, 4, 5, 6, 7, 8], "infinite values: replace them"),
    "complex": ([1j] * 8, "complex numbers: take real and imaginary part"),
}
GOOD = {
    "flag": [True, False] * 4,
    "count": pandas.array(range(8), dtype="Int64"),
    "rank": pandas.Categorical([1, 2] * 4),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("alone", [True, False])
def test_the_column_is_in_the_message(name, alone):
    values, sentence = BAD[name]
    frame = pandas.DataFrame({name: values} if alone else {**numbers, name: values})
    for check in (LMNN(n_neighbors=1).fit, sm.LMNNProblem.from_labels):
        with pytest.raises(ValueError, match=f"^column '{name}' of X holds {sentence}"):
            check(frame, y)
    if not alone:
        fitted = LMNN(n_neighbors=1).fit(pandas.DataFrame({**numbers, name: np.arange(8.0)}), y)
        with pytest.raises(ValueError, match=f"^column '{name}' of X holds {sentence}"):
            fitted.transform(frame)


@pytest.mark.parametrize("name", GOOD)
def test_columns_of_numbers_are_taken(name):
    frame = pandas.DataFrame({**numbers, name: GOOD[name]})
    assert LMNN(n_neighbors=1).fit(frame, y).components_.shape[1] == 3


def test_several_columns_are_counted():
    frame = pandas.DataFrame({**numbers, **{f"t{i}": ["x"] * 8 for i in range(7)}, "gaps": BAD["gaps"][0]})
    with pytest.raises(ValueError, match=r"columns 't0', .* 't4' and 2 more of X hold text: .* \(and 1 with"):
        LMNN(n_neighbors=1).fit(frame, y)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (["x"] * 8, "text"),
        ([datetime.date(2020, 1, i + 1) for i in range(8)], "dates"),
        ([1, None] * 4, "missing values"),
    ],
)
def test_polars_frames_too(values, sentence):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({**numbers, "c": values})
    with pytest.raises(ValueError, match=f"^column 'c' of X holds {sentence}"):
        LMNN(n_neighbors=1).fit(frame, y)
