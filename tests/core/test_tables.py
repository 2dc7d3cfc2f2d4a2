"""Tables in CSV files as people have them: every way to write one table reads as the same table, or is refused."""

import csv

import numpy as np
import pandas as pd
import pytest

from sdpmetric.cli.inputs import read_table
from sdpmetric.cli.options import ProblemOptions

ROWS = [("1.25", "-3.5", "oak"), ("1e-3", "1034.5", "fir"), ("0.1", "7", "oak"), ("12", "0.30000000000000004", "fir")]
X = np.array([[float(a), float(b)] for a, b, _ in ROWS])
Y = np.array([label for _, _, label in ROWS])


@pytest.fixture
def write(tmp_path):
    def write(text, encoding="utf-8"):
        path = tmp_path / "table.csv"
        path.write_bytes(text.encode(encoding))
        return path

    return write


def lines(rows, delimiter=",", quoted=False):
    cells = [[f'"{cell}"' if quoted and not cell[:1].isdigit() else cell for cell in row] for row in rows]
    return "".join(delimiter.join(row) + "\n" for row in cells)


@pytest.mark.parametrize("hint", ["", "sep=;\n"])
def test_decimal_commas_and_the_hint_of_excel(write, hint):
    rows = [("height", "width", "tree"), *[(a.replace(".", ","), b.replace(".", ","), y) for a, b, y in ROWS]]
    path = write(hint + lines(rows, ";"))
    np.testing.assert_array_equal(read_table(path, ProblemOptions(label="tree", decimal=",")).X, X)
    with pytest.raises(
        ValueError, match=r"'height' .* holds '1,25'; expected numbers: say what its mark is: --decimal , reads 1\.25"
    ):
        read_table(path, ProblemOptions(label="tree"))


@pytest.mark.parametrize("seed", range(30))
def test_what_pandas_writes_is_read_back(tmp_path, seed):
    """Any numbers and labels, with any delimiter, quotes, decimal point, index, order, missing cells and encoding."""
    rng = np.random.default_rng(seed)
    n, d = rng.integers(2, 40), rng.integers(1, 6)
    X = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-200, 200, d)
    X[:, rng.random(d) < 0.3] = rng.integers(-(2**53), 2**53, size=(n, 1))
    kinds = (["a b", "x,y", 'q"u', "ß;"], [3, -1, 0, 12], [0.5, 2.25, -1.0, 3.0])
    y = np.array(kinds[seed % 3])[rng.integers(0, 4, n)]
    names = [f"feature {k}, {'ä|'[k % 2]}" for k in range(d)]
    frame = pd.DataFrame(X, columns=names)
    frame.insert(int(rng.integers(0, d + 1)), "kind;", y)
    holes = rng.random(n) < 0.2
    holes[0] = False
    frame.loc[holes, names[0]] = np.nan
    decimal = str(rng.choice([".", ","]))
    is_indexed = bool(rng.random() < 0.5)
    path = tmp_path / "written.csv"
    frame.to_csv(
        path,
        sep=str(rng.choice([c for c in ",;\t|" if c != decimal])),
        decimal=decimal,
        index=is_indexed,
        na_rep=str(rng.choice(["", "NA", "?", "NaN"])),
        quoting=int(rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_NONNUMERIC])),
        encoding=str(rng.choice(["utf-8", "utf-8-sig"])),
        lineterminator=str(rng.choice(["\n", "\r\n"])),
    )
    table = read_table(path, ProblemOptions(label="kind;", decimal=decimal, skip_missing=True))
    np.testing.assert_array_equal(table.X, X[~holes])
    assert np.array_equal(np.unique(table.y, return_inverse=True)[1], np.unique(y[~holes], return_inverse=True)[1])
    assert len(table.remarks) == is_indexed + bool(holes.any())


def test_thousands_are_read_on_request_and_never_guessed(write):
    path = write('height,tree\n412,oak\n"1,037",fir\n"1,234,567.5",oak\n')
    assert read_table(path, ProblemOptions(label="tree", thousands=",")).X.ravel().tolist() == [412, 1037, 1234567.5]
    with pytest.raises(ValueError, match=r"--thousands , reads 1037, and --decimal , reads 1\.037"):
        read_table(path, ProblemOptions(label="tree"))
    with pytest.raises(ValueError, match="groups of 3 digits"):
        read_table(write('a,y\n"1,2",oak\n3,fir\n'), ProblemOptions(label="y", thousands=","))


@pytest.mark.parametrize("marker", ["", "NA", "NaN", "?", "null", "N/A", "None"])
def test_rows_with_missing_cells_are_counted_or_left_out(write, marker):
    header, *rows = [("height", "width", "tree"), *ROWS]
    with_holes = [header, *rows[:2], (marker, "1", "oak"), ("2", marker, "fir"), *rows[2:], ("3", "4", marker)]
    path = write(lines(with_holes))
    with pytest.raises(ValueError, match=r"row 3 .* column 'height', is missing; 3 of 7 rows"):
        read_table(path, ProblemOptions(label="tree"))
    table = read_table(path, ProblemOptions(label="tree", skip_missing=True))
    np.testing.assert_array_equal(table.X, X)
    assert table.remarks == ("3 of 7 rows with missing cells are left out.",)


@pytest.mark.parametrize("first", [0, 1])
def test_the_numbers_of_rows_are_no_feature(write, first):
    rows = [(str(first + k), *row) for k, row in enumerate(ROWS)]
    table = read_table(
        write(lines([("", "height", "width", "tree"), *rows], quoted=first == 1)), ProblemOptions(label="tree")
    )
    np.testing.assert_array_equal(table.X, X)
    assert "numbers the rows" in table.remarks[0]
    with pytest.raises(ValueError, match=r"column 1 .* has no name"):
        read_table(write(lines([("", "height", "width", "tree"), *rows[::-1]])), ProblemOptions(label="tree"))


def test_labels_that_are_one_number_are_one_label(write):
    for labels in (["0", "1", "0", "1"], ["0.0", "1.0", "0", "1"], ["0", "1", "0.0", "1e0"]):
        table = read_table(
            write("a,y\n" + "".join(f"{k},{y}\n" for k, y in enumerate(labels))), ProblemOptions(label="y")
        )
        assert table.y.tolist() == [0, 1, 0, 1]
        assert table.y.dtype.kind == "i"
    assert read_table(write("a,y\n1,0.5\n2,0.25\n"), ProblemOptions(label="y")).y.tolist() == [0.5, 0.25]
    assert read_table(write("a,y\n1,0\n2,no\n"), ProblemOptions(label="y")).y.tolist() == ["0", "no"]


def test_columns_are_taken_in_order_or_dropped(write):
    path = write("id,height,width,tree\na7,1,2,oak\nb2,3,4,fir\n")
    assert read_table(path, ProblemOptions(label="tree", drop=["id"])).X.tolist() == [[1, 2], [3, 4]]
    assert read_table(path, ProblemOptions(label="tree", columns=["width", "height"])).X.tolist() == [[2, 1], [4, 3]]
    assert read_table(path, ProblemOptions(label="id", drop=["tree"])).y.tolist() == ["a7", "b2"]


def test_an_empty_last_column_is_none(write):
    for text in ("a,y,\n1,x,\n2,z,\n", "a,y\n1,x,\n2,z,\n"):
        assert read_table(write(text), ProblemOptions(label="y")).X.tolist() == [[1], [2]]


def test_wide_tables_are_read(write):
    names = ",".join(f"marker{k:0400}" for k in range(400))  # a header of 160,000 characters
    path = write(f"{names},y\n" + "".join(",".join(["1.5"] * 400) + f",{k}\n" for k in range(3)))
    assert read_table(path, ProblemOptions(label="y")).X.shape == (3, 400)


@pytest.mark.parametrize(
    ("text", "options", "sentence"),
    [
        ("", {}, "is empty"),
        ("a,y\n", {}, "a header line but no rows"),
        ("a,a,y\n1,2,x\n", {}, "more than one column 'a'"),
        ("a,y\n1,x\n2,3,z\n", {}, "as many cells as the header"),
        ("a,y\n1,x,9\n2,z,8\n", {}, "as many cells as the header"),
        (",a,y\n4,1,x\n2,2,z\n", {}, "column 1 of .* has no name"),
        ("a,y\n1\n2,z\n", {}, "'y', is missing"),
        ("a,y\nfast,x\n2,z\n", {}, "column 'a' .* holds 'fast'; expected numbers"),
        ("a,y\n2020-01-01,x\n", {}, "holds '2020-01-01'"),
        ("a,y\n1_000,x\n", {}, "holds '1_000'"),
        ("a,y\ninf,x\n", {}, "'a' of X: Input contains infinity"),
        (f"a,y\n{2**53 + 1},x\n", {}, "above 2\\^53"),
        ("a,y\n1,x\n", {"label": "kind"}, "no column 'kind'; its columns are a, y"),
        ("a,y\n1,x\n", {"label": None}, "name the column .* it has a, y"),
        ("1.5,2,oak\n1,2,fir\n", {"label": None}, "holds data"),
        ("y\nx\n", {}, "at least one feature"),
    ],
)
def test_what_cannot_be_read_is_explained(write, text, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        read_table(write(text), ProblemOptions(**({"label": "y"} | options)))
