"""The index that follows a metric: exact where it must be, and the same whatever the order of what was done to it."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sdpmetric as sm
from sdpmetric.lego import hash_index

D, R, BITS = 7, 5, 70  # two words in a key, and a rectangular factor


@pytest.fixture
def rng():
    return np.random.default_rng(4)


def points(rng, n=300):
    return rng.normal(size=(n, D)) * [3, 2, 1, 1, 0.5, 0.3, 0.1]


def step(rng, size=0.05):
    return sm.MetricStep(size * rng.normal(size=R), rng.normal(size=D))


def brute_force(X, components, q, k):
    distances = (((X - q) @ components.T) ** 2).sum(axis=1)
    order = np.argsort(distances, kind="stable")[:k]
    return order, distances[order]


def bits(index, X, center, seed=0):
    planes = np.random.default_rng(seed).standard_normal((index.n_bits, len(index.components))) @ index.components
    return (X - center) @ planes.T > 0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("unit", [2.0**-100, 1.0, 2.0**100])
def test_images_leave_no_nearest_example_out_at_rest_or_in_motion(rng, dtype, unit):
    """Whole numbers far from the origin, many of them equal, in any unit: images are coarse, and differences exact."""
    X = np.repeat(rng.integers(0, 12, size=(300, D)), 2, axis=0) + (2.0**20 if dtype == "float32" else 2.0**40)
    G = rng.integers(-(2**16), 2**16, size=(R, D))
    index = sm.HashIndex(G / unit, BITS, dtype=dtype).add(X[:500] * unit)
    index.add(X[500:] * unit)
    for turn in range(30):
        q = X[rng.integers(len(X))] + rng.integers(-2, 3, size=D)
        order, wanted = brute_force(X, G, q, 15)
        ids, distances = index.query(q * unit, 15, share=1.0)
        assert (ids == order).all()
        assert (distances == wanted).all()
        some = index.query(q * unit, 5, share=0.1)[0]
        assert (index.query(q * unit, 40, share=0.1)[0][:5] == some).all()
        if turn % 10 == 9:
            column, row = rng.integers(-(2**12), 2**12, R), rng.integers(-1, 2, D)
            index.update(sm.MetricStep(column / unit, row))
            G = G + np.outer(column, row)


def test_a_feature_too_small_for_its_type_is_refused_where_it_matters(rng):
    X, G = points(rng, 50), np.eye(D)
    with pytest.raises(ValueError, match=r"feature 0 minus its center is at most .*e-50, too small for float32: d"):
        sm.HashIndex(G, BITS).add(X * 1e-50).query(X[0] * 1e-50, 3, share=1.0)
    ids = sm.HashIndex(G, BITS, dtype="float64").add(X * 1e-50).query(X[0] * 1e-50, 3, share=1.0)[0]
    assert (ids == brute_force(X, G, X[0], 3)[0]).all()
    with pytest.raises(ValueError, match="too small for float64: scale"):
        sm.HashIndex(G, BITS, dtype="float64").add(X * 1e-150).query(X[0] * 1e-150, 3)
    units = np.array([1.0] * (D - 1) + [1e-42])  # one tiny feature, as a probability that is nearly 0
    index = sm.HashIndex(G, BITS).add(X * units)
    assert (index.query(X[0] * units, 3, share=1.0)[0] == brute_force(X[:, :-1], G[:, :-1], X[0, :-1], 3)[0]).all()
    index.update(sm.MetricStep(np.eye(D)[0], 1e40 * np.eye(D)[-1]))
    with pytest.raises(ValueError, match=f"feature {D - 1} minus its center"):
        index.query(X[0] * units, 3)


@pytest.mark.parametrize("n_bits", [9, 64, 70])
def test_bits_that_are_tracked_and_made_anew_are_those_made_from_scratch(rng, n_bits, monkeypatch):
    monkeypatch.setattr(hash_index, "OPTIONS", replace(hash_index.OPTIONS, search_share=0.0))
    X = points(rng, 2000)
    center = X.mean(axis=0)
    index = sm.HashIndex(rng.normal(size=(R, D)), n_bits, center=center, rehash_share=0.3, dtype=np.float64).add(X)
    wrong = []
    for _ in range(12):
        index.update(step(rng, 0.0003))
        wrong.append(np.mean(index.keys() != bits(index, X, center)))
    # The search looks at what is within two root mean squares, so that few flips escape it.
    assert index.counters.searches > 0
    start = sm.HashIndex(index.components, n_bits, center=center).add(X).keys()
    assert max(wrong) < 2e-4
    assert (index.rehash().keys() == bits(index, X, center)).all()
    assert (start == index.keys()).mean() > 0.9999


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.sampled_from(["add", "update", "query", "rehash"]), max_size=25), st.integers(0, 99))
def test_any_interleaving_answers_as_an_index_built_anew(monkeypatch, todo, seed):
    monkeypatch.setattr(hash_index, "OPTIONS", replace(hash_index.OPTIONS, max_pending=4))
    rng = np.random.default_rng(seed)
    G, held = rng.normal(size=(R, D)), {}
    index = sm.HashIndex(G, 20, dtype=np.float64, rehash_share=0.3)
    for action in ["add", *todo, "query"]:
        if action == "add":
            X = points(rng, 15)
            names = rng.choice(10_000, 15, replace=False) + 10_000 * index.counters.updates
            fresh = np.array([i not in held for i in names.tolist()])
            if fresh.any():
                index.add(X[fresh], names[fresh])
                held |= dict(zip(names[fresh].tolist(), X[fresh], strict=True))
        elif action == "update":
            metric_step = step(rng)
            G = metric_step.apply(G)
            index.update(metric_step)
        elif action == "rehash":
            index.rehash()
        q = rng.normal(size=D)
        names, X = np.array(list(held)), np.array(list(held.values()))
        assert len(index) == len(held)
        assert (index.ids == names).all()
        order, distances = brute_force(X, G, q, 3)
        answer = index.query(q, 3, share=1.0)
        assert (answer[0] == names[order]).all()
        assert answer[1] == pytest.approx(distances, rel=1e-8, abs=1e-9)
    anew = sm.HashIndex(G, 20, dtype=np.float64).add(X, names)
    some = index.rehash().query(q, 3, share=0.3), anew.query(q, 3, share=0.3)
    assert (some[0][0] == some[1][0]).all()


def test_a_bad_step_leaves_those_before_it_untaken_and_lists_are_vectors():
    index = sm.HashIndex(np.eye(2), 8).add([[0.0, 1.0], [1.0, 0.0]])
    good, bad = sm.MetricStep([0.5, 0.0], [1.0, 2.0]), sm.MetricStep(np.array([np.nan, 0.0]), np.ones(2))
    with pytest.raises(ValueError, match="column of a step contains NaN"):
        index.update(good, bad)
    assert (index.components == np.eye(2)).all()
    assert (index.update(good).components == [[1.5, 1.0], [0.0, 1.0]]).all()
    assert index.query([0.0, 0.0], 2, share=1.0)[1] == pytest.approx([2.0, 2.25])


def test_many_updates_without_a_query_are_caught_up_with(rng, monkeypatch):
    monkeypatch.setattr(hash_index, "OPTIONS", replace(hash_index.OPTIONS, max_pending=500))
    X = points(rng, 50)
    index, G = sm.HashIndex(np.eye(R, D), 20, dtype=np.float64).add(X[:40]), np.eye(R, D)
    for _ in range(40):  # more than D, past which steps are not remembered
        metric_step = step(rng)
        G = metric_step.apply(G)
        index.update(metric_step)
    index.add(X[40:])
    assert index.query(X[3], 50, share=1.0)[1] == pytest.approx(brute_force(X, G, X[3], 50)[1], rel=1e-9, abs=1e-9)
