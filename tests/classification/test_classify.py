"""Neighbors of learned metrics by every algorithm, and least energies against Eq. 15 written out."""

import sys

import numpy as np
import pytest

from sdpmetric import classification
from sdpmetric.classification import energy
from sdpmetric.linalg import distances as partial

rng = np.random.default_rng(0)
X, Q = rng.normal(size=(60, 4)), rng.normal(size=(9, 4))
L = rng.normal(size=(3, 4))


@pytest.mark.parametrize("algorithm", ["auto", "ball_tree", "kd_tree", "brute", "partial", "faiss"])
@pytest.mark.parametrize("queries", [Q, None])
def test_every_algorithm_finds_the_same_neighbors(algorithm, queries):
    query_rows = X if queries is None else queries
    D = np.sum(((query_rows[:, None] - X[None]) @ L.T) ** 2, axis=2)
    if queries is None:
        np.fill_diagonal(D, np.inf)
    expected = np.argsort(D, axis=1)[:, :5]
    distances, rows = classification.nearest_neighbors(L, X, queries, 5, algorithm=algorithm)
    assert np.array_equal(rows, expected)
    assert np.allclose(distances, np.take_along_axis(D, expected, axis=1), rtol=1e-5 if algorithm == "faiss" else 1e-10)


def test_partial_distances_look_at_fewer_coordinates_and_miss_nothing():
    train, queries = (np.random.default_rng(1).normal(size=(n, 40)) * 0.9 ** np.arange(40) for n in (500, 20))
    for turned in (train, np.round(train)):  # with ties, too
        distances, rows, spent = partial.nearest(turned, queries, turned, queries, 0.0, 3)
        D = np.sum((queries[:, None] - turned) ** 2, axis=2)
        np.testing.assert_allclose(distances, np.sort(D, axis=1)[:, :3], rtol=1e-12)
        np.testing.assert_allclose(np.take_along_axis(D, rows, axis=1), distances, rtol=1e-12)
        assert spent < 0.5 * D.size * 40


def test_a_library_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(ImportError, match=r"sdpmetric\[faiss\]"):
        classification.knn_predict(L, X, X[:, 0] > 0, Q, algorithm="faiss")


def voted(D, labels, k):
    """The papers' rule, a query at a time: the neighborhood shrinks until one label has most votes."""
    order = list(np.lexsort((np.arange(len(D)), D)))
    while True:
        votes = {label: sum(labels[i] == label for i in order[:k]) for label in labels}
        winners = [label for label in votes if votes[label] == max(votes.values())]
        if len(winners) == 1:
            return winners[0]
        k -= 1


@pytest.mark.parametrize("n_metrics", [1, 3])
@pytest.mark.parametrize("k", [1, 4, 59])
@pytest.mark.parametrize("queries", [Q, None])
def test_votes_are_counted_by_the_papers_rule(n_metrics, k, queries):
    draw = np.random.default_rng(k)
    labels = np.array(["b", "a", "d", "c"])[draw.integers(0, 4, 60)]
    factors, regions = draw.normal(size=(n_metrics, 2, 4)), draw.integers(0, n_metrics, 60)
    rows = X if queries is None else queries
    D = np.array([[np.sum((factors[regions[i]] @ (q - X[i])) ** 2) for i in range(60)] for q in rows])
    if queries is None:
        np.fill_diagonal(D, np.inf)
    expected = [voted(row, labels, k) for row in D]
    metric = {"components": factors[0]} if n_metrics == 1 else {"components": factors, "regions": regions}
    chosen = classification.knn_predict(X_train=X, y_train=labels, X=queries, n_neighbors=k, **metric)
    assert chosen.tolist() == expected


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("algorithm", "d"), [("auto", 2), ("auto", 20), ("ball_tree", 20), ("brute", 2), ("faiss", 2)])
def test_neighbors_do_not_depend_on_origin_and_unit(algorithm, d):
    draw = np.random.default_rng(d)
    train, queries, factor = draw.normal(size=(80, d)), draw.normal(size=(30, d)), draw.normal(size=(d, d))
    neighbors = classification.nearest_neighbors(factor, train, queries, 4, algorithm=algorithm)
    for unit, offset in ((1.0, 2.0**27), (2.0**-600, 0.0), (2.0**400, 0.0)):
        D, rows = classification.nearest_neighbors(
            factor, unit * train + offset, unit * queries + offset, 4, algorithm=algorithm
        )
        assert (rows == neighbors[1]).mean() > 0.99
        if unit**2 > 1e-300:
            np.testing.assert_allclose(D, unit**2 * neighbors[0], rtol=1e-4)


def test_ties_among_whole_numbers_go_to_the_first_row():
    X = np.random.default_rng(7).integers(0, 4, (47, 3))  # means are no whole numbers
    exact = np.square(X[:, None] - X).sum(axis=2)
    exact[np.arange(47), np.arange(47)] = exact.max() + 1
    D, R = classification.nearest_neighbors(np.eye(3), X + 5, n_neighbors=46)
    np.testing.assert_array_equal(R, np.argsort(exact, axis=1, kind="stable")[:, :46])
    np.testing.assert_allclose(D, np.take_along_axis(exact, R, axis=1))


def written_out(components, regions, X, label, targets, mu, query, tried, k, euclidean=False):
    """Eq. 15 for one query and one label, term by term; distances lead to examples of the other's metric."""

    def distance(a, b, metric):
        return float(np.sum((components[metric] @ (a - b)) ** 2))

    metric_of = {int(c): int(regions[label == c][0]) for c in np.unique(label)}
    to = [distance(query, X[i], regions[i]) for i in range(len(X))]
    by = [float(np.sum((query - x) ** 2)) for x in X] if euclidean else to
    nearest_targets = [to[i] for i in sorted((i for i in range(len(X)) if label[i] == tried), key=by.__getitem__)[:k]]
    cost = (1 - mu) * sum(nearest_targets)
    for target in nearest_targets:
        cost += mu * sum(max(0.0, 1 + target - to[i]) for i in range(len(X)) if label[i] != tried)
    for i in range(len(X)):
        if label[i] == tried:
            continue
        squared = distance(X[i], query, metric_of[tried])
        for j in targets[i]:
            if j >= 0:
                cost += mu * max(0.0, 1 + distance(X[i], X[j], regions[j]) - squared)
    return cost


@pytest.fixture
def unequal():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(19, 3))
    label = np.repeat([0, 1, 2], [4, 6, 9])
    X[label == 1, 0] += 1.0
    targets = np.full((19, 4), -1)
    for i in range(19):
        mates = [j for j in np.flatnonzero(label == label[i]) if j != i][: rng.integers(1, 4)]
        targets[i, : len(mates)] = mates
    return X, label, targets, rng.normal(size=(7, 3))


@pytest.mark.parametrize(
    ("query_neighbors", "several", "dtype"),
    [
        ("metric", False, np.float64),
        ("metric", True, np.float64),
        ("euclidean", True, np.float64),
        ("euclidean", False, np.float32),
    ],
)
def test_energies_are_equation_15(unequal, several, dtype, query_neighbors):
    X, label, targets, queries = unequal
    rng = np.random.default_rng(0)
    components = rng.normal(size=(3 if several else 1, 2, 3))
    regions = np.array([2, 0, 1])[label] if several else np.zeros(len(X), dtype=int)
    X, queries = X.astype(dtype), queries.astype(dtype)
    names = np.array(["b", "a", "c"])[label]
    options = {"push_weight": 0.3, "regions": regions if several else None, "query_neighbors": query_neighbors}
    energies = classification.energies(components, X, names, queries, target_neighbors=targets, **options)
    assert np.array_equal(
        classification.energy_predict(components, X, names, queries, target_neighbors=targets, **options),
        np.array(["a", "b", "c"])[energies.argmin(axis=1)],
    )
    for column, name in enumerate("abc"):
        tried = "bac".index(name)
        for t, query in enumerate(queries):
            setting = (0.3, query, tried, 3, query_neighbors == "euclidean")
            expected = written_out(components, regions, X, label, targets, *setting)
            assert energies[t, column] == pytest.approx(expected, rel=1e-9 if dtype is np.float64 else 2e-5, abs=1e-5)


def test_labels_of_one_energy_go_to_the_first():
    stated = [[1.0]], [[1], [0], [1], [1], [1], [2]], [0, 1, 2, 0, 1, 2], [[1]]
    targets = np.roll(np.arange(6), 3)[:, None]
    assert classification.energies(*stated, target_neighbors=targets).tolist() == [[4.0, 4.0, 4.0]]
    assert classification.energy_predict(*stated, target_neighbors=targets).tolist() == [0]


def test_classes_of_many_tiles_and_queries_of_many_blocks(monkeypatch):
    rng = np.random.default_rng(8)
    sizes, k, mu = [2300, 1024, 129, 5], 3, 0.3
    label = np.repeat(np.arange(4), sizes)
    X = rng.normal(size=(len(label), 4)) + label[:, None] * [0.4, 0.0, 0.0, 0.0]
    order = rng.permutation(len(X))
    X, label, queries = X[order], label[order], rng.normal(size=(3, 4))
    targets = np.stack(
        [rng.permutation(np.flatnonzero((label == c) & (np.arange(len(X)) != i)))[:k] for i, c in enumerate(label)]
    )
    L, none = rng.normal(size=(2, 4)) * 0.5, np.zeros(len(X), dtype=int)
    expected = np.array(
        [[written_out(L[None], none, X, label, targets, mu, q, c, k) for c in range(4)] for q in queries]
    )
    monkeypatch.setattr(energy, "ENTRIES_AT_ONCE", 3 * len(X))
    options = {"target_neighbors": targets, "push_weight": mu}
    np.testing.assert_allclose(classification.energies(L, X, label, queries, **options), expected, rtol=1e-10)
    assert (classification.energy_predict(L, X, label, queries, **options) == expected.argmin(axis=1)).all()
    single = classification.energies(L, X.astype(np.float32), label, queries.astype(np.float32), **options)
    np.testing.assert_allclose(single, expected, rtol=1e-4)
