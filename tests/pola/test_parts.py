"""A stream learns the same from pairs all at once, one at a time, and in parts with a pickle in between."""

import pickle

import numpy as np
import pytest

import sdpmetric as sm

RNG = np.random.default_rng(6)
X = RNG.normal(size=(20, 3))
PAIRS = np.array([RNG.choice(20, 2, replace=False) for _ in range(60)])
TARGETS, SIMILAR = RNG.exponential(2.0, 60), RNG.random(60) < 0.5
STREAMS = {
    "lego": (lambda: sm.LEGOStream(3, 0.05), TARGETS),
    "lego, kernel": (lambda: sm.KernelLEGOStream(0.3, "rbf", gamma=0.4), TARGETS),
    "pola": (lambda: sm.POLAStream(3), SIMILAR),
    "pola, kernel": (lambda: sm.KernelPOLAStream(3, "rbf"), SIMILAR),
}


@pytest.mark.parametrize("name", STREAMS)
def test_pairs_at_once_one_at_a_time_and_in_parts_are_the_same_stream(name):
    make, given = STREAMS[name]
    whole, single, parts = make().partial_fit(X, PAIRS, given), make(), make().partial_fit(X, PAIRS[:25], given[:25])
    for (i, j), y in zip(PAIRS, given, strict=True):
        single.update(X[i], X[j], y)
    parts = pickle.loads(pickle.dumps(parts)).partial_fit(X, PAIRS[25:], given[25:])
    assert whole.n_updates > 0
    for other in (single, parts):
        assert other.n_updates == whole.n_updates
        assert other.cumulative_loss == pytest.approx(whole.cumulative_loss, rel=1e-12)
    # What is lost by a further pair tells the metric.
    lost = [one.update([1.0, 0.0, 2.0], [0.0, -1.0, 0.5], given[0]) for one in (whole, single, parts)]
    lost = [getattr(outcome, "loss", outcome) for outcome in lost]
    assert lost[0] > 0.0
    assert lost[1:] == pytest.approx(lost[:1] * 2, rel=1e-9)
