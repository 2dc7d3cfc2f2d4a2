"""Pairs of labels, target neighbors with their tie rule, and the exact impostor search in all its paths."""

from dataclasses import replace

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdpmetric.core import pairs
from sdpmetric.core.pairs import pairs_of_labels, target_neighbors
from sdpmetric.core.triplets import Candidates, Triplets
from sdpmetric.engine import threads
from sdpmetric.lmnn import impostors as search
from sdpmetric.lmnn.costs import list_triplets
from sdpmetric.lmnn.sources import LabeledTriplets, ListedTriplets

SEEDS = st.integers(0, 2**32 - 1)


def labeled(seed, *, ties):
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1, 2], [5, 9, 24])[rng.permutation(38)]
    d = int(rng.integers(1, 20))
    X = rng.integers(0, 3, (38, d)).astype(float) if ties else rng.normal(size=(38, d))
    return X, y


@given(SEEDS, st.booleans(), st.integers(1, 4), st.sampled_from([1e-100, 1e-6, 1.0, 1e9]), st.sampled_from([0, 1e4]))
def test_target_neighbors_match_a_loop(seed, ties, k, scale, offset):
    X, y = labeled(seed, ties=ties)
    X = X * scale + offset * scale
    neighbors = target_neighbors(X, y, k)
    with pytest.MonkeyPatch.context() as patch:  # larger classes than 7 by a search
        patch.setattr(pairs, "DENSE_ROWS", 7)
        assert np.sort(target_neighbors(X, y, k)).tolist() == np.sort(neighbors).tolist()
    # Among themselves, neighbors at one distance may come in any order.
    assert np.sort(neighbors).tolist() == [sorted(row) for row in oracles.target_neighbors(X, y, k)]
    d = np.linalg.norm(X[:, None] - X[neighbors], axis=2)
    assert (np.diff(d, axis=1) >= -1e-9 * d[:, 1:]).all()


def test_ties_go_to_the_lowest_index_and_rounding_does_not_decide():
    y = np.zeros(5, int)
    X = np.array([[0.0], [1.0], [-1.0], [1.0 + 1e-12], [-1.0 + 1e-12]])
    assert set(target_neighbors(X, y, 2)[0]) == {1, 2}
    assert set(target_neighbors(X + 1e3, y, 2)[0]) == {1, 2}
    # The twin: 1e-6 nearer is nearer.
    X[3] = 1.0 - 1e-6
    assert target_neighbors(X, y, 1)[0].tolist() == [3]
    # The tie rule of the oracle matters on integer data: the highest index gives other neighbors.
    X, y = labeled(0, ties=True)
    turned = [[37 - j for j in row] for row in oracles.target_neighbors(X[::-1], y[::-1], 3)[::-1]]
    assert turned != oracles.target_neighbors(X, y, 3)


def test_more_ties_than_a_first_look_lists():
    """All distances are equal, or all but lost beside the offset: the first list of neighbors cannot be trusted."""
    assert target_neighbors(np.eye(30), np.zeros(30, int), 2).tolist() == [[1, 2], [0, 2]] + [[0, 1]] * 28
    angles = np.random.default_rng(0).permutation(80) * np.pi / 40
    star = np.vstack([np.column_stack([np.cos(angles), np.sin(angles)]), np.zeros((1, 2))])
    assert target_neighbors(star, np.zeros(81, int), 2)[80].tolist() in ([0, 1], [1, 0])
    X = np.random.default_rng(0).normal(size=(30, 20)) + 1e8
    assert target_neighbors(X, np.zeros(30, int), 2).tolist() == oracles.target_neighbors(X, np.zeros(30), 2)


def embedded(seed, n=70, dtype=np.float64):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n).astype(np.int32)
    y[:12] = np.repeat([0, 1, 2], 4)
    r = int(rng.integers(1, 6))
    Z = rng.normal(size=(n, r)) * 10 ** rng.uniform(-1, 1.2)
    Z[20:24] = Z[30:34]
    targets = np.array(oracles.target_neighbors(Z, y, 2), dtype=np.int32)
    targets[rng.random(n) < 0.3, 1] = -1
    targets[rng.random(n) < 0.1] = -1
    return Z.astype(dtype), y, targets


def pairs_of(candidates):
    """As a set of (anchor, impostor), every row with its own targets."""
    result = set()
    for c in candidates:
        for row, (start, stop) in enumerate(zip(c.indptr[:-1], c.indptr[1:], strict=True)):
            pairs = [(int(c.anchors[row]), int(m)) for m in c.impostors[start:stop]]
            assert pairs == sorted(set(pairs)), "each impostor comes once, in increasing order"
            assert not result.intersection(pairs)
            result.update(pairs)
    return result


def check_search(Z, y, targets, method, widen, slack=1e-6, groups=None):
    """Everything within the limit is listed, and nothing that is clearly beyond it."""
    source = LabeledTriplets(targets, y)
    everywhere = np.zeros(len(Z), dtype=np.int32) if groups is None else groups
    candidates = pairs_of(source.candidate_blocks(Z, everywhere, widen=widen, method=method))
    exact = np.asarray(Z, dtype=float)
    eye = np.eye(Z.shape[1])

    def radius(w):
        lists = oracles.impostors(exact, eye, targets, y, w)
        return {(i, m) for i in lists for m in lists[i] if groups is None or groups[i] == groups[m]}

    must, may = radius(widen - slack * (1 + widen) * 1e-3), radius((1 + widen) * (1 + slack) - 1)
    assert must <= candidates
    assert candidates <= may
    return candidates


@given(SEEDS, st.sampled_from(["brute", "ball_tree", "auto"]), st.sampled_from([0.0, 0.35]))
def test_search_matches_a_loop(seed, method, widen):
    check_search(*embedded(seed), method, widen, slack=1e-3)


def test_both_precisions_are_taken_and_agree(monkeypatch):
    """The single-precision path must be taken on ordinary data, and list what double precision lists."""
    used, real = [], search.scan
    monkeypatch.setattr(search, "scan", lambda tiling, block: used.append(tiling.points.dtype) or real(tiling, block))
    Z, y, targets = embedded(1)
    Z = Z / Z.std()
    check_search(Z, y, targets, "brute", 0.0)
    far = np.concatenate([Z, 1e5 * (y == 2)[:, None]], axis=1)
    check_search(far, y, targets, "brute", 0.0, slack=1e-3)
    assert used == [np.float32, np.float64]


@pytest.mark.parametrize("method", ["brute", "ball_tree"])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_search_in_parts_gives_the_same_candidates(method, n_threads, monkeypatch):
    Z, y, targets = embedded(4, n=200)
    candidates = check_search(Z, y, targets, method, 0.2)
    monkeypatch.setattr(search, "OPTIONS", replace(search.OPTIONS, anchors_at_once=17, pairs_at_once=0))
    monkeypatch.setattr(threads, "LOOP_WORK", 1)
    with threads.limited(n_threads):
        blocks = list(
            LabeledTriplets(targets, y).candidate_blocks(Z, np.zeros(len(Z), np.int32), widen=0.2, method=method)
        )
    assert pairs_of(blocks) == candidates
    merged = Candidates.concatenate(blocks)
    assert pairs_of([merged]) == candidates
    assert (np.diff(merged.anchors) > 0).all(), "one row for each anchor, whatever the method"
    assert merged.targets.tolist() == targets[merged.anchors].tolist()


@pytest.mark.parametrize("work", [1, 10**12])
@pytest.mark.parametrize("n", [1500, 2100])
def test_many_tiles_match_a_tree(n, work, monkeypatch):
    """Several tiles in both directions, unequal classes, one class within a single tile; all impostors and some."""
    monkeypatch.setattr(threads, "LOOP_WORK", work)
    rng = np.random.default_rng(n)
    y = np.repeat([2, 0, 1], [n - 1110, 1100, 10]).astype(np.int32)[rng.permutation(n)]
    Z = rng.normal(size=(n, 3)) * 4
    targets = target_neighbors(Z, y, 2)
    source, everywhere = LabeledTriplets(targets, y), np.zeros(n, np.int32)
    for columns in (None, np.sort(rng.permutation(n)[: 2 * n // 3]).astype(np.int32)):
        tree = pairs_of(source.candidate_blocks(Z, everywhere, columns=columns, method="ball_tree"))
        tiles = pairs_of(source.candidate_blocks(Z, everywhere, columns=columns, method="brute"))
        assert tree <= tiles
        assert len(tiles) <= 1.001 * len(tree) + 1
        assert len(tree) > n


@pytest.mark.parametrize("listed", [False, True])
def test_a_sample_of_the_examples_stands_for_all(listed):
    Z, y, targets = embedded(2, n=200)
    source, rng = LabeledTriplets(targets, y), np.random.default_rng(0)
    if listed:
        triplets = list_triplets(next(source.candidate_blocks(0 * Z, 0 * y)))
        source = ListedTriplets.from_triplets(triplets, np.ones(len(triplets)))
    totals = [source.sampled(rng.permutation(200) < 100).total_weight for _ in range(30)]
    assert np.mean(totals) == pytest.approx(source.total_weight, rel=0.04)


def test_triplet_keys_tell_triplets_apart_at_any_size():
    rows = np.array([[0, 1, 2], [0, 2, 1], [2, 1, 0], [0, 1, 2]])
    for n in (3, 5_000_000):
        keys = Triplets.from_array(rows).keys(n)
        assert len(np.unique(keys)) == 3
        assert keys[0] == keys[3]


INDEX = np.array([0, 1, 1, 0, 2, 1, 0, 0, 1, 1], dtype=np.int32)  # 4, 5 and 1


@pytest.mark.parametrize("enumerated", [0, 100])
@pytest.mark.parametrize("n_pairs", [1, 5, 16, 29, 1000])
def test_as_many_of_each_kind_as_asked_for_or_as_there_are(monkeypatch, enumerated, n_pairs):
    monkeypatch.setattr(pairs, "MAX_LISTED", enumerated)
    drawn, similar = pairs_of_labels(INDEX, n_pairs, 3)
    assert (drawn[:, 0] < drawn[:, 1]).all()
    assert len(np.unique(drawn, axis=0)) == len(drawn)
    np.testing.assert_array_equal(similar, INDEX[drawn[:, 0]] == INDEX[drawn[:, 1]])
    assert similar.sum() == min(n_pairs, 16)
    assert (~similar).sum() == min(n_pairs, 29)
    repeated, _ = pairs_of_labels(INDEX, n_pairs, 3)
    np.testing.assert_array_equal(repeated, drawn)


@pytest.mark.parametrize("enumerated", [0, 100])
def test_every_pair_is_drawn_equally_often(monkeypatch, enumerated):
    monkeypatch.setattr(pairs, "MAX_LISTED", enumerated)
    counts = np.zeros((10, 10))
    for seed in range(3000):
        drawn, _ = pairs_of_labels(INDEX, 1, seed)
        counts[drawn[:, 0], drawn[:, 1]] += 1
    same = INDEX[:, None] == INDEX
    above = np.triu(np.ones((10, 10), dtype=bool), 1)
    for kind, number in ((same & above, 16), (~same & above, 29)):
        expected = 3000 / number
        assert counts[kind].sum() == 3000
        assert np.abs(counts[kind] - expected).max() < 4.5 * np.sqrt(expected)


def test_many_examples_need_no_list_of_all_pairs():
    index = np.random.default_rng(0).integers(0, 10, 200_000).astype(np.int32)
    drawn, similar = pairs_of_labels(index, 1000, None)
    assert similar.sum() == (~similar).sum() == 1000
    assert len(drawn) == 2000
