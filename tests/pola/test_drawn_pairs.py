"""Pairs that are drawn from labels, with and without a list of all of them."""

import numpy as np
import pytest

from sdpmetric.core import pairs as module
from sdpmetric.core.pairs import pairs_of_labels

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
