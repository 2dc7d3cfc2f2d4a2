"""Data by name, from files and made up: what is read is what was written, what is made shows what it was made for."""

import codecs
import pickle
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.ndimage import affine_transform
from sklearn.datasets import _openml
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.utils import Bunch

import sdpmetric as sm
from sdpmetric import classification, datasets

TABLE = 'width,"species",height\n1.5,setosa,2\n\n-3e2, virginica ,0.25\n'


@pytest.fixture(autouse=True)
def no_folder(monkeypatch):
    monkeypatch.delenv("SDPMETRIC_DATA", raising=False)


@pytest.fixture
def write(tmp_path):
    def write(text):
        path = tmp_path / "table.csv"
        path.write_bytes(text.encode())
        return path

    return write


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of NPZ files, named by the environment."""
    monkeypatch.setenv("SDPMETRIC_DATA", str(tmp_path))
    X = np.arange(14, dtype=np.float32).reshape(7, 2)
    np.savez(tmp_path / "seven.npz", X=X, y=np.arange(7) % 3, n_train=5)
    np.savez(tmp_path / "whole.npz", X=X, y=np.arange(7) % 3)
    np.savez(tmp_path / "wrong.npz", X=X, y=np.arange(7) % 3, n_train=7)
    np.savez(tmp_path / "short.npz", X=X, y=np.arange(6), n_train=3)
    np.savez(tmp_path / "text.npz", X=X, y=np.arange(7), n_train="five")
    np.savez(tmp_path / "iris.npz", X=X, y=np.arange(7))
    return X


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Where scikit-learn keeps what it downloaded; empty, and without a network."""
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "home"))

    def no_network(request):
        raise URLError("no route to host")

    monkeypatch.setattr(_openml, "urlopen", no_network)
    monkeypatch.setattr(_openml.time, "sleep", lambda seconds: None)
    return tmp_path / "home"


def test_csv_with_a_byte_order_mark_and_windows_line_ends(write):
    X, y = datasets.load(write("\ufeff" + TABLE.replace("\n", "\r\n")), label="species")
    assert X.shape == (2, 2)
    assert list(y) == ["setosa", "virginica"]
    assert datasets.load(write("\ufefflabel,a\nx,1\n"), label="label")[1] == ["x"]


FOUR = "id,a,b,kind\nx1,1,2,u\nx2,3,4,v\n"
REFUSED = [
    (TABLE, {}, r"name the label column .* width, species, height"),
    ("a,a,b\n1,2,3\n", {"label": "a"}, r"more than one column 'a'"),
    ("a,y\n1,x\nfast,x\n", {"label": "y"}, r"row 2 of .* \(line 3\), column 'a', holds 'fast'; expected a finite"),
    ("a,y,b\n1,x,\n", {"label": "y"}, r"row 1 of .* \(line 2\), column 'b', is empty"),
    ("id,y,place,b\np,x,here,1\n", {"label": "y"}, r"row 1 of .*, columns 'id', 'place', hold text such as 'p'; drop"),
    ("a,y\n1,x\n-inf,z\n", {"label": "y"}, r"column 'a', holds '-inf'"),
    ("a,y\n1,x,7\n", {"label": "y"}, r"row 1 of .* \(line 2\) has 3 cells; the header has 2 columns"),
    ("a,y\n1,x\n2,\n", {"label": "y"}, r"row 2 of .* \(line 3\), column 'y', is empty; 1 such rows"),
    ("a,y\n", {"label": "y"}, r"a header line but no rows"),
    ("y\nx\n", {"label": "y"}, r"the label column 'y' only"),
    ("", {"label": "y"}, r"is empty; expected a header line"),
    ('a,y\n1,"x\n', {"label": "y"}, r"line 2 of .* is not valid CSV"),
    ("é,y\n1,x\n".encode("latin-1"), {"label": "y"}, "not UTF-8 text"),
    (FOUR, {"label": "kind", "features": ["c"]}, "has no column 'c'; its columns are id, a, b, kind"),
    (FOUR, {"label": "kind", "features": ["a"], "drop": ["b"]}, "not both"),
    (FOUR, {"label": "kind", "features": ["a", "kind"]}, "'kind' holds the labels"),
    (FOUR, {"label": "kind", "delimiter": "::"}, "delimiter must be one character"),
    (FOUR, {"label": "kind", "decimal": "x"}, "decimal must be"),
    ({"data": np.zeros(3), "labels": np.zeros(3)}, {}, r"holds the arrays data, labels; expected 'X' and 'y'"),
    ({"X": np.array([object()]), "y": np.zeros(1)}, {}, r"the array 'X' of .* holds Python objects"),
    ({"X": np.array(1.0), "feature_names": np.array("a"), "y": 0}, {}, "a row for each example|a label per row"),
    ({"X": np.eye(3), "y": [0, 1]}, {}, r"X of shape \(3, 3\) and y of shape \(2,\); expected a label per row"),
    (Path("fake.npz"), {}, "is not an NPZ file"),
    (Path("table.xls"), {}, r"is not a \.csv, \.parquet or \.npz file"),
    (None, {}, r"irsi is neither a data set \(iris, .* openml:NAME\), nor .* SDPMETRIC_DATA"),
    (Path("iris"), {"label": "species"}, "has its own labels"),
    (Path("iris"), {"drop": ["a"]}, "columns can be chosen for such files only"),
]


@pytest.mark.parametrize(("content", "columns", "sentence"), REFUSED)
def test_what_cannot_be_read_is_explained(tmp_path, monkeypatch, content, columns, sentence):
    monkeypatch.chdir(tmp_path)
    for name in ("fake.npz", "table.xls"):
        Path(name).write_text(TABLE)
    if isinstance(content, str | bytes):
        Path("data.csv").write_bytes(content.encode() if isinstance(content, str) else content)
    elif isinstance(content, dict):
        np.savez("data.npz", **content)
    name = {str: "data.csv", bytes: "data.csv", dict: "data.npz", type(None): "irsi"}.get(type(content), content)
    with pytest.raises(ValueError, match=sentence):
        datasets.load_table(str(name), datasets.Columns(**columns))


def test_reduce_keeps_the_largest_components_at_the_asked_mean_norm():
    X = np.random.default_rng(0).normal(size=(40, 5)) * [1, 9, 2, 3, 0.1]
    Z = datasets.reduce(X, 2, mean_norm=4.0)
    assert Z.shape == (40, 2)
    np.testing.assert_allclose(np.linalg.norm(Z, axis=1).mean(), 4.0)
    # The same plane that the eigenvectors of the covariance span: equal inner products up to one factor.
    _, vectors = np.linalg.eigh(np.cov(X.T))
    P = (X - X.mean(axis=0)) @ vectors[:, -2:]
    np.testing.assert_allclose(Z @ Z.T / np.trace(Z @ Z.T), P @ P.T / np.trace(P @ P.T), atol=1e-12)


def test_a_folder_of_files_is_loaded_by_name(folder):
    X, y = datasets.load("seven")
    np.testing.assert_array_equal(X, folder)
    assert X.dtype == np.float32
    np.testing.assert_array_equal(y, [0, 1, 2, 0, 1, 2, 0])
    assert {"seven", "whole", "iris", "20newsgroups"} < set(datasets.names())
    assert len(datasets.names()) == len(set(datasets.names()))
    assert datasets.load("iris")[0].shape == (150, 4)  # scikit-learn's own goes first
    with pytest.raises(ValueError, match=r"eight is neither a data set \(.*seven.*\) nor the path of a file.*\.$"):
        datasets.load("eight")


def test_a_folder_that_is_none_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("SDPMETRIC_DATA", str(tmp_path / "gone"))
    with pytest.raises(ValueError, match=r"SDPMETRIC_DATA names .*gone, which is not a folder"):
        datasets.load("letters")


def test_a_random_split_is_a_partition_that_the_seed_repeats(folder):
    draws = [datasets.load_split("whole", test_share=0.3, random_state=seed) for seed in (3, 3, 4)]
    X_train, y_train, X_test, y_test = draws[0]
    assert (len(X_train), len(y_train), len(X_test), len(y_test)) == (4, 4, 3, 3)
    rows = np.concatenate([X_train, X_test])[:, 0].astype(int) // 2
    np.testing.assert_array_equal(np.sort(rows), np.arange(7))
    np.testing.assert_array_equal(np.concatenate([y_train, y_test]), rows % 3)
    np.testing.assert_array_equal(draws[1].X_test, X_test)
    assert not np.array_equal(draws[2].X_test, X_test)


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("whole", {}, "whole has no customary split; pass test_share"),
        ("wrong", {}, "wrong says n_train=7; expected a number between 1 and 6"),
        ("short", {}, r"short.npz has X of shape \(7, 2\) and y of shape \(6,\)"),
        ("text", {}, r"n_train of .*text\.npz must be one integer"),
        ("whole", {"test_share": 1.0}, "test_share"),
        ("whole", {"test_share": "a"}, "test_share"),
        ("whole", {"label": "y"}, "whole has its own labels"),
    ],
)
def test_a_bad_split_is_explained(folder, name, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        datasets.load_split(name, **options)


def test_openml_is_asked_by_name_version_number_and_label_and_mnist_has_its_split(monkeypatch):
    requests = []

    def fetched(**request):
        requests.append(request)
        target = None if request["target_column"] == "none" else np.arange(60002)
        return Bunch(data=sp.csr_array((60002, 1)), target=target, feature_names=["a"], target_names=["b"])

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetched)
    assert len(datasets.load_split("openml:mnist_784/3").y_train) == 60000
    X, y = datasets.load("openml:61", label="color")
    assert X.shape == (60002, 1)
    assert y[-1] == 60001
    assert (requests[0]["name"], requests[0]["version"]) == ("mnist_784", 3)
    assert (requests[1]["data_id"], requests[1]["target_column"]) == (61, "color")
    assert "version" not in requests[1]
    with pytest.raises(ValueError, match="openml:tiny has no customary split"):
        datasets.load_split("openml:tiny")
    with pytest.raises(ValueError, match="openml:tiny has no single column of labels; name one of a, b"):
        datasets.load("openml:tiny", label="none")


@pytest.mark.filterwarnings("ignore:A network error occurred")
def test_without_a_network_the_sentence_says_what_to_do(home):
    with pytest.raises(ConnectionError, match=r"openml:letter is not in .*home and cannot be .*no route.*copy"):
        datasets.load("openml:letter")
    with pytest.raises(ValueError, match="20newsgroups has its own labels"):
        datasets.load("20newsgroups", label="group")


def test_newsgroups_are_counts_of_words_in_random_splits_or_by_date(home):
    groups = ["rec.autos", "sci.space"]
    texts = ["Engine wheel brake, wheel 42!", "orbit rocket moon", "wheel engine road", "moon launch orbit"]
    subsets = {"train": (texts, [0, 1, 0, 1]), "test": (["engine road", "rocket unseen", "orbit moon"], [0, 1, 1])}
    bunches = {
        subset: Bunch(data=data, target=np.array(target), target_names=groups, filenames=np.array(data))
        for subset, (data, target) in subsets.items()
    }
    home.mkdir()
    (home / "20news-bydate_py3.pkz").write_bytes(codecs.encode(pickle.dumps(bunches), "zlib_codec"))
    X, y = datasets.load("20newsgroups")
    words = ["brake", "engine", "launch", "moon", "orbit", "road", "rocket", "unseen", "wheel"]
    assert X.shape == (7, len(words))
    assert X.dtype == np.uint16
    # scikit-learn shuffles each part; the counts are those of the texts all the same.
    everything = [*texts, *subsets["test"][0]]
    expected = [[text.lower().count(word) for word in words] for text in everything]
    assert sorted(X.tolist()) == sorted(expected)
    by_text = dict(zip(map(tuple, expected), [0, 1, 0, 1, 0, 1, 1], strict=True))
    assert [groups[by_text[tuple(row)]] for row in X.tolist()] == y.tolist()
    by_date = datasets.load_split("20newsgroups")
    assert (len(by_date.X_train), len(by_date.X_test)) == (4, 3)
    drawn = [datasets.load_split("20newsgroups", test_share=0.3, random_state=seed) for seed in range(4)]
    assert {(len(split.X_train), len(split.X_test)) for split in drawn} == {(4, 3)}
    assert len({split.X_test.tobytes() for split in drawn}) > 1


def test_the_commonest_words_are_counted():
    counts = datasets.word_counts(["b b a", "c b a2 a_d", "Éa éa I"], 2)
    np.testing.assert_array_equal(datasets.word_counts(["bb bb aa", "cc bb", "aa"], 2), [[1, 2], [0, 1], [1, 0]])
    np.testing.assert_array_equal(datasets.word_counts(["bb aa", "cc"], 2), [[1, 1], [0, 0]])  # the first of equals
    np.testing.assert_array_equal(counts, [[0], [0], [2]])  # words of two letters or more


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_recognized_or_given(write, delimiter):
    path = write(TABLE.replace(",", delimiter))
    for argument in (None, delimiter):
        table = datasets.load_table(path, datasets.Columns("species", delimiter=argument))
        np.testing.assert_array_equal(table.X, [[1.5, 2.0], [-300.0, 0.25]])
        assert table.features == ("width", "height")
        assert table.label == "species"


def test_decimal_commas_and_words_for_delimiters(write):
    path = write("a;b;y\n1,5;2;x\n-0,25;1e3;z\n")
    np.testing.assert_array_equal(
        datasets.load_table(path, datasets.Columns("y", decimal=",")).X, [[1.5, 2], [-0.25, 1000]]
    )
    tabbed = write("a\ty\n1\tx\n")
    assert datasets.load_table(tabbed, datasets.Columns("y", delimiter="tab")).features == ("a",)


def test_columns_are_taken_in_order_or_dropped(write):
    path = write("id,a,b,kind\nx1,1,2,u\nx2,3,4,v\n")
    dropped = datasets.load_table(path, datasets.Columns("kind", drop=["id"]))
    assert dropped.features == ("a", "b")
    reordered = datasets.load_table(path, datasets.Columns("kind", features=["b", "a"]))
    np.testing.assert_array_equal(reordered.X, dropped.X[:, ::-1])
    unlabeled = datasets.load_table(write("b,a\n1,2\n"), datasets.Columns("kind", features=["a", "b"], labeled=False))
    assert unlabeled.y is None
    np.testing.assert_array_equal(unlabeled.X, [[2, 1]])


def test_parquet_is_read_by_pandas_and_says_which_column_is_no_number(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    path = tmp_path / "data.parquet"
    pandas.DataFrame({"a": [1, 2], "kind": ["u", "v"], "b": [0.5, 1.5], "when": ["x", "y"]}).to_parquet(path)
    table = datasets.load_table(path, datasets.Columns("kind", drop=["when"]))
    np.testing.assert_array_equal(table.X, [[1, 0.5], [2, 1.5]])
    assert list(table.y) == ["u", "v"]
    with pytest.raises(ValueError, match=r"column 'when' of .*: could not convert .*; encode text"):
        datasets.load_table(path, datasets.Columns("kind"))


def test_named_sets_and_npz_files_bring_names(tmp_path):
    assert datasets.load_table("iris").features[0] == "sepal length (cm)"
    np.savez(tmp_path / "d.npz", X=np.ones((2, 2)), feature_names=["u", "v"])
    for name in ("d.npz", "d"):
        assert datasets.load_table(tmp_path / name, datasets.Columns(labeled=False)).features == ("u", "v")


def test_rows_with_empty_cells_are_counted_or_left_out(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("a,b,y\n1,2,x\n,3,x\n2,,y\n3,4,y\n0,1,\n")
    with pytest.raises(ValueError, match=r"column 'a', is empty; 3 such rows: .* --skip-missing"):
        datasets.load_table(path, datasets.Columns("y"))
    table = datasets.load_table(path, datasets.Columns("y", skip_missing=True))
    assert table.n_skipped == 3
    np.testing.assert_array_equal(table.X, [[1, 2], [3, 4]])
    assert table.labels.tolist() == ["x", "y"]


def error(L, X, y):
    return np.mean(classification.knn_predict(L, X, y, n_neighbors=1) != y)


def test_zebra_stripes_need_the_direction_of_small_variance():
    X, y = datasets.zebra_stripes(random_state=np.random.default_rng(0))
    assert X.shape == (540, 2)
    np.testing.assert_array_equal(np.bincount(y), [300, 240])
    assert X[:, 0].var() > 30 * X[:, 1].var()
    assert error(np.eye(2), X, y) > 0.15
    assert error(np.eye(2)[:1], X, y) > 0.4
    assert error(LinearDiscriminantAnalysis().fit(X, y).scalings_.T, X, y) > 0.4
    learned = sm.solve(sm.LMNNProblem.from_labels(X, y, 3))
    assert learned.status.ok
    assert error(learned.components, X, y) < 0.01
    assert learned.metric[0, 0] < 0.2 * learned.metric[1, 1]


def moments(images):
    """Mass, center and second central moments of images, pixel by pixel."""
    values = []
    for image in np.asarray(images, dtype=float):
        mass = image.sum()
        down, across = np.mgrid[: image.shape[0], : image.shape[1]]
        a, b = (image * down).sum() / mass, (image * across).sum() / mass
        values.append((mass, a, b, (image * (down - a) ** 2).sum(), (image * (down - a) * (across - b)).sum()))
    return np.array(values).T


def test_deskew_moves_the_center_of_mass_to_the_middle(rng):
    images = np.zeros((4, 12, 21))
    images[:, 2:7, 5:11] = rng.random((4, 5, 6))
    images[2] = 0
    images[2, 4, 5:8] = 2.0  # without extent along its columns
    images[3] = 0
    deskewed = datasets.deskew(images, center=True)
    before, after = moments(images[:3]), moments(deskewed[:3])
    np.testing.assert_allclose(after[0], before[0])
    np.testing.assert_allclose(after[1], 5.5)
    np.testing.assert_allclose(after[2], 10.0)
    assert (np.abs(after[4]) <= 0.15 * np.abs(before[4]) + 1e-9).all()
    np.testing.assert_array_equal(deskewed[3], 0)
    # The same affine map in one bilinear interpolation, away from the edges.
    _, down, across, spread, mixed = before[:, 0]
    shear, center = np.array([[1.0, 0.0], [mixed / spread, 1.0]]), np.array([5.5, 10.0])
    expected = affine_transform(images[0], shear, [down, across] - shear @ center, order=1)
    np.testing.assert_allclose(deskewed[0], expected, atol=1e-9)
    assert (datasets.deskew(images) != deskewed).any()


def test_rings_begin_at_radius_1_and_norms_are_those_asked_for():
    X, ring = datasets.concentric_rings(random_state=np.random.RandomState(0))
    radii = np.linalg.norm(X[:, :2], axis=1)
    np.testing.assert_allclose([np.median(radii[ring == k]) for k in range(5)], [1, 2, 3, 4, 5], atol=0.05)
    assert np.linalg.norm(datasets.reduce(X, 2, mean_norm=2.5), axis=1).mean() == pytest.approx(2.5)
