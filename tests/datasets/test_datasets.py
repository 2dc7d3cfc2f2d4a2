"""Data by name, from files and made up: what is read is what was written, what is made shows what it was made for."""

import numpy as np
import pytest
from scipy.ndimage import affine_transform, center_of_mass

from sdpmetric import datasets
from sdpmetric.datasets.preparation import preparer


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
    np.savez(tmp_path / "other.npz", data=np.zeros(3), labels=np.zeros(3))
    np.savez(tmp_path / "objects.npz", X=np.array([object()]), y=np.zeros(1))
    (tmp_path / "fake.npz").write_text("X,y")
    return X


@pytest.mark.parametrize(
    ("read", "name", "sentence"),
    [
        (datasets.load, "other", "holds the arrays data, labels; expected X and y"),
        (datasets.load, "objects", "the array 'X' of .* holds Python objects"),
        (datasets.load, "short", r"X of shape \(7, 2\) and y of shape \(6,\); expected"),
        (datasets.load, "fake", "is not an NPZ file"),
        (datasets.load, "irsi", r"no data set 'irsi' \(did you mean 'iris'\?\); choose from iris, wine"),
        (datasets.load, "eight", r"there is no data set 'eight'.*; choose from .*rings.*, seven"),
        (datasets.load_split, "whole", "whole has no customary split; sklearn.model_selection.train_test_split draws"),
        (datasets.load_split, "wrong", "n_train of wrong must be a positive integer and at most 6, got 7"),
        (datasets.load_split, "short", r"X of shape \(7, 2\) and y of shape \(6,\)"),
        (datasets.load_split, "text", "n_train of text must be a positive integer"),
    ],
)
def test_what_cannot_be_read_is_explained(folder, monkeypatch, tmp_path, read, name, sentence):
    with pytest.raises(ValueError, match=sentence):
        read(name)
    monkeypatch.setenv("SDPMETRIC_DATA", str(tmp_path / "gone"))
    with pytest.raises(ValueError, match=r"SDPMETRIC_DATA names .*gone, which is not a folder"):
        datasets.load("letters")


def test_a_folder_of_files_is_loaded_by_name(folder):
    X, y = datasets.load("seven")
    np.testing.assert_array_equal(X, folder)
    assert X.dtype == np.float32
    np.testing.assert_array_equal(y, [0, 1, 2, 0, 1, 2, 0])
    assert datasets.load("iris")[0].shape == (150, 4)  # scikit-learn's own goes first


def test_the_customary_split_is_that_of_the_file(folder):
    X_train, y_train, X_test, y_test = datasets.load_split("seven")
    np.testing.assert_array_equal(np.concatenate([X_train, X_test]), folder)
    assert (y_train.tolist(), y_test.tolist()) == ([0, 1, 2, 0, 1], [2, 0])


def test_deskew_moves_the_center_of_mass_to_the_middle(rng):
    images = np.zeros((4, 12, 21))
    images[:, 2:7, 5:11] = rng.random((4, 5, 6))
    images[2] = 0
    images[2, 4, 5:8] = 2.0  # without extent along its columns
    images[3] = 0
    deskewed = datasets.deskew(images, center=True)
    for image in deskewed[:3]:
        np.testing.assert_allclose(center_of_mass(image), [5.5, 10.0])
    np.testing.assert_array_equal(deskewed[3], 0)
    # The same affine map in one bilinear interpolation, away from the edges.
    middle, grid = np.array(center_of_mass(images[0])), np.moveaxis(np.mgrid[:12, :21], 0, -1)
    spread, mixed = np.einsum("ij,ij,ijk->k", images[0], grid[..., 0] - middle[0], grid - middle)
    shear = np.array([[1.0, 0.0], [mixed / spread, 1.0]])
    expected = affine_transform(images[0], shear, middle - shear @ [5.5, 10.0], order=1)
    np.testing.assert_allclose(deskewed[0], expected, atol=1e-9)
    assert (datasets.deskew(images) != deskewed).any()


def test_rings_begin_at_radius_1():
    X, ring = datasets.concentric_rings(random_state=np.random.RandomState(0))
    radii = np.linalg.norm(X[:, :2], axis=1)
    np.testing.assert_allclose([np.median(radii[ring == k]) for k in range(5)], [1, 2, 3, 4, 5], atol=0.05)


@pytest.mark.parametrize(
    "options", [{}, {"standardize": False}, {"n_components": 3}, {"standardize": False, "n_components": 2}]
)
def test_a_preparation_treats_other_examples_as_those_it_was_fitted_to(rng, options):
    X = 1e6 + rng.normal(size=(30, 5)) * [1, 9, 2, 3, 0.1]  # an offset that costs digits
    prepare = preparer(X, **options)
    np.testing.assert_allclose(prepare(X[3:7]), prepare(X)[3:7], rtol=1e-12)
    centered = X - X.mean(axis=0)
    if options.get("standardize", True):
        centered /= X.std(axis=0)
    Z = prepare(X)
    if "n_components" not in options:
        np.testing.assert_allclose(Z, centered if options.get("standardize", True) else X, atol=1e-8)
        return
    *_, turn = np.linalg.svd(centered, full_matrices=False)
    P = centered @ turn[: options["n_components"]].T
    P *= 4.0 / np.linalg.norm(P, axis=1).mean()
    np.testing.assert_allclose(Z @ Z.T, P @ P.T, atol=1e-8)
