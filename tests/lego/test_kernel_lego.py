"""LEGO in a feature space is LEGO on coordinates of that space."""

import numpy as np
import pytest
from lego_streams import make_stream

import sdpmetric as sm


def test_linear_kernel_is_lego():
    problem = make_stream(7, d=3, p=80)
    rows = (problem.X, problem.pairs, problem.targets, problem.sides)
    linear = sm.LEGOStream(3, problem.learning_rate, 0.7 * np.eye(3)).partial_fit(*rows)
    kernel = sm.KernelLEGOStream(problem.learning_rate, initial_scale=0.7).partial_fit(*rows)
    kernelized = sm.KernelLEGOStream(problem.learning_rate, lambda X, Y: X @ Y.T, initial_scale=0.7)
    outcomes = [
        kernelized.update(problem.X[a], problem.X[b], y, int(side))
        for (a, b), y, side in zip(problem.pairs, problem.targets, problem.sides, strict=True)
    ]
    assert sum(outcome.loss for outcome in outcomes) == pytest.approx(linear.cumulative_loss, rel=1e-9)
    Z = problem.differences @ linear.components.T
    for stream in (kernel, kernelized):
        assert stream.cumulative_loss == pytest.approx(linear.cumulative_loss, rel=1e-9)
        assert stream.n_updates == linear.n_updates
        np.testing.assert_allclose(stream.distances(problem.X, problem.pairs), np.sum(Z**2, axis=1), rtol=1e-8)
        metric = 0.7 * (np.eye(3) + stream.support.T @ stream.coefficients @ stream.support)
        np.testing.assert_allclose(metric, linear.metric, atol=1e-9 * np.abs(linear.metric).max())
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


def test_kernels_that_are_none_are_seen_one_example_at_a_time():
    def lorentz(A, B):
        return A @ np.diag([1.0, -1.0]) @ B.T

    stream = sm.KernelLEGOStream(0.1, lorentz)
    stream.update([1.0, 0.2], [0.0, 0.0], 1.0)  # of these two alone the kernel is positive semidefinite
    with pytest.raises(ValueError, match="not positive semidefinite"):
        stream.update([2.0, 1.9], [0.0, 0.0], 1.0)
    assert len(stream.support) == 2
    stream.update([1.0, 0.2], [0.0, 0.0], 0.5)


def test_what_came_before_a_pair_that_overflows_has_been_taken():
    X = [[1e120, 0.0], [0.0, 0.0], [1.0, 2.0], [3.0, 1.0]]
    stream = sm.KernelLEGOStream(0.3)
    with pytest.raises(ValueError, match=r"pair \[0, 1\]"):
        stream.partial_fit(X, [[2, 3], [1, 2], [0, 1]], 2.0)
    twin = sm.KernelLEGOStream(0.3).partial_fit(X[1:], [[1, 2], [0, 1]], 2.0)
    assert stream.n_items == 2
    for learner in (stream, twin):
        learner.update(X[2], [0.5, 0.5], 3.0)
    np.testing.assert_array_equal(stream.support, twin.support)
    np.testing.assert_array_equal(stream.coefficients, twin.coefficients)
