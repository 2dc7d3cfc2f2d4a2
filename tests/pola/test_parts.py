"""A stream learns the same from pairs all at once, one at a time, and in parts; how pairs are drawn from labels."""

import pickle

import numpy as np
import pytest

import sdpmetric as sm
from sdpmetric.core import pairs as module
from sdpmetric.core.pairs import pairs_of_labels

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


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_can_be_read_before_its_first_pair(name):
    stream = STREAMS[name][0]()
    assert (stream.cumulative_loss, stream.n_updates) == (0.0, 0)
    if name == "lego":
        assert (stream.metric == np.eye(3)).all()
    elif name == "lego, kernel":  # the distances of the kernel's feature space
        squares = np.sum((X[PAIRS[:, 0]] - X[PAIRS[:, 1]]) ** 2, axis=1)
        assert stream.distances(X, PAIRS) == pytest.approx(2.0 - 2.0 * np.exp(-0.4 * squares))
    else:  # the zero metric
        assert not stream.distances(X, PAIRS).any()
        assert stream.predict(X, PAIRS).all()
        assert stream.transform(X).shape == (20, 0)
        assert not stream.metric.any()
        assert len(stream.components) == 0


INDEX = np.array([0, 1, 1, 0, 2, 1, 0, 0, 1, 1], dtype=np.int32)  # 4, 5 and 1


@pytest.mark.parametrize("enumerated", [0, 100])
@pytest.mark.parametrize("n_pairs", [1, 5, 16, 29, 1000])
def test_as_many_of_each_kind_as_asked_for_or_as_there_are(monkeypatch, enumerated, n_pairs):
    monkeypatch.setattr(module, "MAX_LISTED", enumerated)
    pairs, similar = pairs_of_labels(INDEX, n_pairs, 3)
    assert (pairs[:, 0] < pairs[:, 1]).all()
    assert len(np.unique(pairs, axis=0)) == len(pairs)
    np.testing.assert_array_equal(similar, INDEX[pairs[:, 0]] == INDEX[pairs[:, 1]])
    assert similar.sum() == min(n_pairs, 16)
    assert (~similar).sum() == min(n_pairs, 29)
    repeated, _ = pairs_of_labels(INDEX, n_pairs, 3)
    np.testing.assert_array_equal(repeated, pairs)


@pytest.mark.parametrize("enumerated", [0, 100])
def test_every_pair_is_drawn_equally_often(monkeypatch, enumerated):
    monkeypatch.setattr(module, "MAX_LISTED", enumerated)
    counts = np.zeros((10, 10))
    for seed in range(3000):
        pairs, _ = pairs_of_labels(INDEX, 1, seed)
        counts[pairs[:, 0], pairs[:, 1]] += 1
    same = INDEX[:, None] == INDEX
    above = np.triu(np.ones((10, 10), dtype=bool), 1)
    for kind, number in ((same & above, 16), (~same & above, 29)):
        expected = 3000 / number
        assert counts[kind].sum() == 3000
        assert np.abs(counts[kind] - expected).max() < 4.5 * np.sqrt(expected)


def test_many_examples_need_no_list_of_all_pairs():
    index = np.random.default_rng(0).integers(0, 10, 200_000).astype(np.int32)
    pairs, similar = pairs_of_labels(index, 1000, None)
    assert similar.sum() == (~similar).sum() == 1000
    assert len(pairs) == 2000
