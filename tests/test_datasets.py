"""Data by name and from files: what is read is what was written, and what cannot be read is said in a sentence."""

import numpy as np
import pytest
from sklearn.datasets import load_wine

from sdpmetric import datasets

TABLE = 'width,"species",height\n1.5,setosa,2\n\n-3e2, virginica ,0.25\n'


@pytest.fixture
def write(tmp_path):
    def write(text, name="table.csv", encoding="utf-8"):
        path = tmp_path / name
        path.write_bytes(text.encode(encoding))
        return path

    return write


@pytest.mark.parametrize(
    ("name", "shape"), [("iris", (150, 4)), ("wine", (178, 13)), ("digits", (1797, 64)), ("breast_cancer", (569, 30))]
)
def test_named_data_sets(name, shape):
    X, y = datasets.load(name)
    assert X.shape == shape
    assert y.shape == shape[:1]


def test_csv_keeps_the_order_of_columns_and_skips_blank_lines(write):
    X, y = datasets.load(write(TABLE), label="species")
    np.testing.assert_array_equal(X, [[1.5, 2.0], [-300.0, 0.25]])
    assert list(y) == ["setosa", "virginica"]


def test_csv_with_a_byte_order_mark_and_windows_line_ends(write):
    X, y = datasets.load(write("\ufeff" + TABLE.replace("\n", "\r\n")), label="species")
    assert X.shape == (2, 2)
    assert list(y) == ["setosa", "virginica"]
    assert datasets.load(write("\ufefflabel,a\nx,1\n"), label="label")[1] == ["x"]


def test_csv_that_pandas_writes_is_read_back_exactly(tmp_path):
    pandas = pytest.importorskip("pandas")
    X, y = load_wine(return_X_y=True)
    frame = pandas.DataFrame(X, columns=[f"f{c}" for c in range(13)]).assign(**{"a, b": y})
    frame.to_csv(tmp_path / "wine.csv", index=False)
    read, labels = datasets.load(tmp_path / "wine.csv", label="a, b")
    np.testing.assert_array_equal(read, X)
    np.testing.assert_array_equal(labels, y.astype(str))


@pytest.mark.parametrize(
    ("text", "label", "sentence"),
    [
        (TABLE, None, r"name the label column .* width, species, height"),
        (TABLE, "kind", r"no column 'kind'; its columns are width, species, height"),
        ("a,a,b\n1,2,3\n", "a", r"more than one column 'a'"),
        ("a,y\n1,x\nfast,x\n", "y", r"row 2 of .* \(line 3\), column 'a', holds 'fast'; expected a finite number"),
        ("a,y,b\n1,x,\n", "y", r"row 1 of .* \(line 2\), column 'b', is empty"),
        ("a,y\n1,x\nnan,z\n", "y", r"row 2 of .* \(line 3\), column 'a', holds 'nan'"),
        ("a,y\n1,x\n-inf,z\n", "y", r"column 'a', holds '-inf'"),
        ("a,y\n1,x,7\n", "y", r"row 1 of .* \(line 2\) has 3 cells; the header has 2 columns"),
        ("a,y\n1,x\n2,\n", "y", r"row 2 of .* \(line 3\) has no label in column 'y'"),
        ("a,y\n", "y", r"a header line but no rows"),
        ("y\nx\n", "y", r"the label column 'y' only"),
        ("", "y", r"is empty; expected a header line"),
        ('a,y\n1,"x\n', "y", r"line 2 of .* is not valid CSV"),
    ],
)
def test_a_bad_csv_is_explained(write, text, label, sentence):
    with pytest.raises(ValueError, match=sentence):
        datasets.load(write(text), label=label)


def test_a_csv_in_another_encoding_is_explained(write):
    with pytest.raises(ValueError, match="not UTF-8 text"):
        datasets.load(write("é,y\n1,x\n", encoding="latin-1"), label="y")


def test_npz_is_returned_as_it_is(tmp_path):
    X = np.arange(12, dtype=np.float32).reshape(4, 3)
    np.savez(tmp_path / "data.npz", X=X, y=["a", "b", "a", "b"], extra=1)
    read, y = datasets.load(tmp_path / "data.npz")
    assert read.dtype == np.float32
    np.testing.assert_array_equal(read, X)
    assert list(y) == ["a", "b", "a", "b"]


def test_a_bad_npz_is_explained(tmp_path, write):
    np.savez(tmp_path / "other.npz", data=np.zeros(3), labels=np.zeros(3))
    with pytest.raises(ValueError, match=r"holds the arrays data, labels; expected 'X' and 'y'"):
        datasets.load(tmp_path / "other.npz")
    np.savez(tmp_path / "objects.npz", X=np.array([object()]), y=np.zeros(1))
    with pytest.raises(ValueError, match=r"the array 'X' of .* holds Python objects"):
        datasets.load(tmp_path / "objects.npz")
    with pytest.raises(ValueError, match="is not an NPZ file"):
        datasets.load(write("X", name="fake.npz"))


def test_what_is_neither_name_nor_file_is_explained(write, tmp_path):
    with pytest.raises(ValueError, match=r"irsi is neither a data set \(iris, wine, digits, breast_cancer\) nor"):
        datasets.load("irsi")
    with pytest.raises(ValueError, match="neither"):
        datasets.load(tmp_path)
    with pytest.raises(ValueError, match=r"is not a \.csv or \.npz file"):
        datasets.load(write(TABLE, name="table.tsv"))
    with pytest.raises(ValueError, match="brings its own labels"):
        datasets.load("iris", label="species")


def test_standardize_has_unit_variance_and_leaves_constant_features_at_zero():
    X = np.column_stack([np.arange(5.0) * 1e3, np.full(5, 7.0)])
    Z = datasets.standardize(X)
    np.testing.assert_allclose(Z[:, 0].std(), 1.0)
    np.testing.assert_array_equal(Z[:, 1], 0.0)


def test_reduce_keeps_the_largest_components_at_the_asked_mean_norm():
    X = np.random.default_rng(0).normal(size=(40, 5)) * [1, 9, 2, 3, 0.1]
    Z = datasets.reduce(X, 2, mean_norm=4.0)
    assert Z.shape == (40, 2)
    np.testing.assert_allclose(np.linalg.norm(Z, axis=1).mean(), 4.0)
    # The same plane that the eigenvectors of the covariance span: equal inner products up to one factor.
    _, vectors = np.linalg.eigh(np.cov(X.T))
    P = (X - X.mean(axis=0)) @ vectors[:, -2:]
    np.testing.assert_allclose(Z @ Z.T / np.trace(Z @ Z.T), P @ P.T / np.trace(P @ P.T), atol=1e-12)


@pytest.mark.parametrize("n_components", [0, 6])
def test_reduce_refuses_what_the_data_do_not_have(n_components):
    with pytest.raises(ValueError, match="keep between 1 and 5"):
        datasets.reduce(np.eye(9, 5), n_components)


@pytest.mark.parametrize("prepare", [datasets.standardize, lambda X: datasets.reduce(X, 1)])
def test_preparations_refuse_data_that_are_not_finite(prepare):
    with pytest.raises(ValueError, match="NaN"):
        prepare(np.array([[1.0, np.nan], [2.0, 3.0]]))
