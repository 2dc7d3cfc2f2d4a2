"""Frames with columns that are no numbers: errors name the column and say what to do; what are numbers passes."""

import datetime

import numpy as np
import pytest

import sdpmetric as sm
from sdpmetric.estimators import LMNN

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
