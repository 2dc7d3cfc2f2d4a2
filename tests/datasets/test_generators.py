"""Made-up data show what they were made for, and deskewed images stand upright."""

import numpy as np
import pytest
from scipy.ndimage import affine_transform
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

import sdpmetric as sm
from sdpmetric import classification, datasets


def error(L, X, y):
    return np.mean(classification.knn_predict(L, X, y, n_neighbors=1) != y)


def test_zebra_stripes_need_the_direction_of_small_variance():
    X, y = datasets.zebra_stripes(random_state=0)
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
    X, ring = datasets.concentric_rings(random_state=0)
    radii = np.linalg.norm(X[:, :2], axis=1)
    np.testing.assert_allclose([np.median(radii[ring == k]) for k in range(5)], [1, 2, 3, 4, 5], atol=0.05)
    assert np.linalg.norm(datasets.reduce(X, 2, mean_norm=2.5), axis=1).mean() == pytest.approx(2.5)
