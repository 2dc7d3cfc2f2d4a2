"""Data by name, from files and made up: what is read is what was written, what is made shows what it was made for."""

from pathlib import Path

import numpy as np
import pytest
from scipy.ndimage import affine_transform
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

import sdpmetric as sm
from sdpmetric import classification, datasets


@pytest.fixture(autouse=True)
def no_folder(monkeypatch):
    monkeypatch.delenv("SDPMETRIC_DATA", raising=False)


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


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"data": np.zeros(3), "labels": np.zeros(3)}, r"holds the arrays data, labels; expected X and y"),
        ({"X": np.array([object()]), "y": np.zeros(1)}, r"the array 'X' of .* holds Python objects"),
        ({"X": np.eye(3), "y": [0, 1]}, r"X of shape \(3, 3\) and y of shape \(2,\); expected"),
    ],
)
def test_what_cannot_be_read_is_explained(tmp_path, arrays, sentence):
    np.savez(tmp_path / "data.npz", **arrays)
    with pytest.raises(ValueError, match=sentence):
        datasets.load(tmp_path / "data.npz")


def test_unknown_names_and_other_files_are_explained(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("fake.npz").write_text("X,y")
    with pytest.raises(ValueError, match="is not an NPZ file"):
        datasets.load("fake.npz")
    with pytest.raises(ValueError, match=r"no data set 'irsi' \(did you mean 'iris'\?\); choose from iris, wine"):
        datasets.load("irsi")


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
    assert datasets.load("iris")[0].shape == (150, 4)  # scikit-learn's own goes first
    with pytest.raises(ValueError, match=r"there is no data set 'eight'.*; choose from .*rings.*, seven"):
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
        ("wrong", {}, "n_train of wrong must be a positive integer and at most 6, got 7"),
        ("short", {}, r"X of shape \(7, 2\) and y of shape \(6,\)"),
        ("text", {}, "n_train of text must be a positive integer"),
        ("whole", {"test_share": 1.0}, "test_share"),
        ("whole", {"test_share": "a"}, "test_share"),
    ],
)
def test_a_bad_split_is_explained(folder, name, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        datasets.load_split(name, **options)


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
