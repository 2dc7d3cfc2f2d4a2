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
    make, answers = STREAMS[name]
    at_once, single, in_pieces = (
        make().partial_fit(X, PAIRS, answers),
        make(),
        make().partial_fit(X, PAIRS[:25], answers[:25]),
    )
    for (i, j), y in zip(PAIRS, answers, strict=True):
        single.update(X[i], X[j], y)
    in_pieces = pickle.loads(pickle.dumps(in_pieces)).partial_fit(X, PAIRS[25:], answers[25:])
    assert at_once.n_updates > 0
    for copy in (single, in_pieces):
        assert copy.n_updates == at_once.n_updates
        assert copy.cumulative_loss == pytest.approx(at_once.cumulative_loss, rel=1e-12)
    # What is lost by a further pair tells the metric.
    losses = [learner.update([1.0, 0.0, 2.0], [0.0, -1.0, 0.5], answers[0]) for learner in (at_once, single, in_pieces)]
    losses = [getattr(outcome, "loss", outcome) for outcome in losses]
    assert losses[0] > 0.0
    assert losses[1:] == pytest.approx(losses[:1] * 2, rel=1e-9)
