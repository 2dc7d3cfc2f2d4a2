"""LEGO: its step is the exact minimum, its books are right, and bad input gets a sentence."""

import math

import numpy as np
import pytest
from lego_streams import definite, divergence, make_stream, pair_loss

import sdpmetric as sm


@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize("rate", [1e-4, 50.0])
@pytest.mark.parametrize(("side", "share"), [(0, 0.3), (0, 2.5), (0, 0.0), (1, 0.3), (-1, 2.5)])
def test_step_is_the_minimum_of_divergence_and_loss(d, rate, side, share):
    rng = np.random.default_rng([d, int(share * 10), side + 1])
    A0, (u, v) = definite(rng, d), rng.normal(size=(2, d))
    z = u - v
    p = float(z @ A0 @ z)
    y = share * p
    stream = sm.LEGOStream(d, rate, A0)
    before = stream.components
    outcome = stream.update(u, v, y, side)
    assert outcome.prediction == pytest.approx(p, rel=1e-12)
    assert outcome.loss == pytest.approx(pair_loss(p, y, side), rel=1e-12)
    # Stationarity, to rounding: the gradient at the new metric is 0.
    A = stream.metric
    new = float(z @ A @ z)
    expected = np.linalg.inv(A0) + rate * (new - y) * np.outer(z, z)
    np.testing.assert_allclose(np.linalg.inv(A) / np.abs(expected).max(), expected / np.abs(expected).max(), atol=1e-9)
    # Eq. 2.2 and 2.3 as printed.
    root = rate * y * p - 1
    bar = (root + math.sqrt(root**2 + 4 * rate * p**2)) / (2 * rate * p)
    assert new == pytest.approx(bar, rel=1e-8)
    printed = A0 - rate * (bar - y) / (1 + rate * (bar - y) * p) * A0 @ np.outer(z, z) @ A0
    np.testing.assert_allclose(A, printed, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(outcome.step.apply(before), stream.components, atol=1e-12)
    objective = divergence(A, A0) + rate * pair_loss(z @ A @ z, y, side)
    for M in (1.001 * A, 0.999 * A):
        assert divergence(M, A0) + rate * pair_loss(z @ M @ z, y, side) > objective


@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize("rate", [1e-3, 30.0])
@pytest.mark.parametrize("margin", [0.0, 3.7])
def test_comparison_step_is_the_minimum(d, rate, margin):
    rng = np.random.default_rng([d, int(margin)])
    A0, examples = definite(rng, d), rng.normal(size=(4, d))
    examples[:2] *= 2.0
    first, second = examples[0] - examples[1], examples[2] - examples[3]
    if first @ A0 @ first < second @ A0 @ second:
        first, second, examples = second, first, examples[[2, 3, 0, 1]]
    stream = sm.LEGOStream(d, rate, A0)
    before = stream.components
    outcome = stream.update_comparison(*examples, margin=margin)
    missed = first @ A0 @ first - second @ A0 @ second + margin
    assert outcome.loss == pytest.approx(0.5 * missed**2, rel=1e-9)
    A = stream.metric
    gradient = (
        rate * (first @ A @ first - second @ A @ second + margin) * (np.outer(first, first) - np.outer(second, second))
    )
    expected = np.linalg.inv(A0) + gradient
    np.testing.assert_allclose(np.linalg.inv(A) / np.abs(expected).max(), expected / np.abs(expected).max(), atol=1e-8)
    for step in outcome.steps:
        before = step.apply(before)
    np.testing.assert_allclose(before, stream.components, atol=1e-12)
    assert stream.drift() < 1e-10


def test_comparisons_in_one_loop():
    rng = np.random.default_rng(2)
    X, rows = rng.normal(size=(12, 3)), np.array([rng.choice(12, 4, replace=False) for _ in range(40)])
    batch_stream = sm.LEGOStream(3, 0.05).partial_fit_comparisons(X, rows, 0.4)
    single_stream = sm.LEGOStream(3, 0.05)
    for row in rows:
        single_stream.update_comparison(*X[row], margin=0.4)
    np.testing.assert_array_equal(single_stream.components, batch_stream.components)
    assert 0 < single_stream.n_updates == batch_stream.n_updates < 40


def test_pretraining_takes_the_rate_with_the_least_loss():
    problem = make_stream(5, d=3, p=80)
    stream = (problem.X, problem.pairs, problem.targets, problem.sides)
    rates = [1e-5, 1e-3, 1e-1]
    losses = [sm.LEGOStream(3, rate).partial_fit(*stream).cumulative_loss for rate in rates]
    chosen = sm.LEGOStream.pretrained(*stream, rates=rates)
    assert chosen.learning_rate == rates[int(np.argmin(losses))]
    assert chosen.n_items == 0
    # The default rates go with the units of the data.
    default = sm.LEGOStream.pretrained(*stream)
    scaled = sm.LEGOStream.pretrained(10 * problem.X, problem.pairs, 100 * problem.targets, problem.sides)
    assert scaled.learning_rate == pytest.approx(default.learning_rate / 1e4, rel=1e-9)


def drift(n, seed=0):
    """A long stream of targets that contradict each other; what is left of the factor."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, 4)) * np.array([1.0, 3.0, 0.1, 1.0])
    stream = sm.LEGOStream(4, 0.03)
    for _ in range(10):
        pairs = rng.integers(0, 300, (n // 10, 2))
        pairs[:, 1] = np.where(pairs[:, 0] == pairs[:, 1], (pairs[:, 0] + 1) % 300, pairs[:, 1])
        stream.partial_fit(X, pairs, rng.exponential(3.0, len(pairs)), rng.integers(-1, 2, len(pairs)))
    values = np.linalg.eigvalsh(stream.metric)
    assert np.isfinite(values).all()
    assert values[0] > 1e-6 * values[-1]
    assert np.isfinite(stream.cumulative_loss)
    assert stream.n_items == n
    return stream.drift()


def test_a_long_stream_stays_definite():
    assert 0.0 < drift(100_000) < 1e-9


@pytest.mark.slow
def test_ten_million_updates_stay_definite():
    assert drift(10_000_000) < 1e-7


def state(stream):
    """All that a stream learns."""
    return (*stream.components.ravel(), *stream._totals, stream.n_items)


@pytest.mark.parametrize(
    ("size", "target", "side"), [(1e80, 2.0, 0), (1e80, 2.0, 1), (1.0, 1e200, 0), (1.0, 1e200, -1)]
)
def test_a_pair_whose_loss_overflows_changes_nothing(size, target, side):
    stream = sm.LEGOStream(2, 0.3)
    stream.update([1.0, 0.5], [0.0, 0.0], 2.0)
    before = state(stream)
    with pytest.raises(ValueError, match="too large to learn from"):
        stream.update([size, 0.0], [0.0, 0.0], target, side)
    with pytest.raises(ValueError, match=r"pair \[0, 1\] is too large to learn from"):
        stream.partial_fit([[0.0, 0.0], [size, 0.0]], [[0, 1]], target, side)
    assert state(stream) == before
    assert np.isfinite(stream.update([1.0, 0.0], [0.0, 0.0], 1.0).loss)


@pytest.mark.parametrize("rate", [1e-300, 1e-3, 1e300])
def test_a_comparison_that_overflows_changes_nothing(rate):
    stream = sm.LEGOStream(2, rate, [[1.0, 0.3], [0.3, 2.0]])
    before = state(stream)
    for size in (1e78, 1e120):
        X = np.array([[size, 0.0], [0.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
        with pytest.raises(ValueError, match="too large to learn from"):
            stream.update_comparison(*X)
        with pytest.raises(ValueError, match=r"comparison \[0, 1, 2, 3\] are too large"):
            stream.partial_fit_comparisons(X, [[0, 1, 2, 3]])
    with pytest.raises(ValueError, match="too large to learn from"):
        stream.update_comparison([1.0, 0.0], [0.0, 0.0], [0.0, 1.0], [0.0, 0.0], margin=1e200)
    assert state(stream) == before
    assert np.isfinite(state(stream)).all()
