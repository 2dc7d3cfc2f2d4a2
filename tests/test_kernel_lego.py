"""LEGO in a feature space is LEGO on coordinates of that space."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from lego_streams import make_stream

import sdpmetric as sm


def test_linear_kernel_is_lego():
    problem = make_stream(7, d=3, p=80)
    given = (problem.X, problem.pairs, problem.targets, problem.sides)
    plain = sm.LEGOStream(3, problem.learning_rate, 0.7 * np.eye(3)).partial_fit(*given)
    kernel = sm.KernelLEGOStream(problem.learning_rate, initial_scale=0.7).partial_fit(*given)
    one = sm.KernelLEGOStream(problem.learning_rate, lambda X, Y: X @ Y.T, initial_scale=0.7)
    outcomes = [
        one.update(problem.X[a], problem.X[b], y, int(side))
        for (a, b), y, side in zip(problem.pairs, problem.targets, problem.sides, strict=True)
    ]
    assert sum(outcome.loss for outcome in outcomes) == pytest.approx(plain.cumulative_loss, rel=1e-9)
    Z = problem.differences @ plain.components.T
    for stream in (kernel, one):
        assert stream.cumulative_loss == pytest.approx(plain.cumulative_loss, rel=1e-9)
        assert stream.n_updates == plain.n_updates
        np.testing.assert_allclose(stream.distances(problem.X, problem.pairs), np.sum(Z**2, axis=1), rtol=1e-8)
        metric = 0.7 * (np.eye(3) + stream.support.T @ stream.coefficients @ stream.support)
        np.testing.assert_allclose(metric, plain.metric, atol=1e-9 * np.abs(plain.metric).max())
    assert len(kernel.support) == len(np.unique(problem.pairs))


def test_rbf_kernel_is_lego_in_its_feature_space(rng):
    X = rng.normal(size=(12, 2))
    pairs = np.array([rng.choice(12, 2, replace=False) for _ in range(50)])
    targets = rng.uniform(0.2, 2.0, 50)
    K = np.exp(-0.4 * np.sum((X[:, None] - X[None]) ** 2, axis=2))
    stream = sm.KernelLEGOStream(0.8, "rbf", gamma=0.4).partial_fit(X[:8], pairs[(pairs < 8).all(axis=1)], 0.5)
    stream.partial_fit(X, pairs, targets)
    coordinates = np.linalg.cholesky(K)  # their inner products are the kernel's values
    twin = sm.LEGOStream(12, 0.8).partial_fit(coordinates[:8], pairs[(pairs < 8).all(axis=1)], 0.5)
    twin.partial_fit(coordinates, pairs, targets)
    assert stream.cumulative_loss == pytest.approx(twin.cumulative_loss, rel=1e-9)
    again = pickle.loads(pickle.dumps(stream))
    np.testing.assert_array_equal(again.distances(X, pairs), stream.distances(X, pairs))


def test_kernels_that_are_none_are_refused(rng):
    X = rng.normal(size=(8, 2))
    pairs = [[0, 1], [2, 3], [4, 5], [6, 7]]
    with pytest.raises(ValueError, match="not positive semidefinite"):
        sm.KernelLEGOStream(0.1, "sigmoid", gamma=3.0).partial_fit(X, pairs, 1.0)
    with pytest.raises(ValueError, match="not symmetric"):
        sm.KernelLEGOStream(0.1, lambda A, B: A @ np.array([[1.0, 0.3], [0.0, 1.0]]) @ B.T).partial_fit(X, pairs, 1.0)
    with pytest.raises(ValueError, match="not positive semidefinite"):
        sm.KernelLEGOStream(0.1, lambda A, B: -A @ B.T).update(X[0], X[1], 1.0)
    with pytest.raises(ValueError, match="kernel must be callable or one of"):
        sm.KernelLEGOStream(0.1, "gauss")
    with pytest.raises(ValueError, match="finite values of shape"):
        sm.KernelLEGOStream(0.1, lambda A, B: A @ B.T * np.inf).update(X[0], X[1], 1.0)
    stream = sm.KernelLEGOStream(0.1).partial_fit(X, pairs, 1.0)
    with pytest.raises(ValueError, match="began with 2"):
        stream.partial_fit(rng.normal(size=(8, 3)), pairs, 1.0)
    with pytest.raises(ValueError, match="began with"):
        stream.update([1.0, 2.0, 3.0], [1.0, 0.0, 0.0], 1.0)
