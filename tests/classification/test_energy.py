"""Energy-based classification against Eq. 15 written out, for one metric and for several."""

import numpy as np
import pytest
import scipy.sparse as sp

from sdpmetric import classification
from sdpmetric.classification import energy


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
    targets = np.full((19, 3), -1)
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


def test_classes_of_many_tiles_and_queries_of_many_blocks(monkeypatch):
    rng = np.random.default_rng(8)
    sizes, k, mu = [2300, 1024, 129, 5], 3, 0.3
    label = np.repeat(np.arange(4), sizes)
    X = rng.normal(size=(len(label), 4)) + label[:, None] * [0.4, 0.0, 0.0, 0.0]
    order = rng.permutation(len(X))
    X, label, queries = X[order], label[order], rng.normal(size=(11, 4))
    targets = np.stack(
        [rng.permutation(np.flatnonzero((label == c) & (np.arange(len(X)) != i)))[:k] for i, c in enumerate(label)]
    )
    L = rng.normal(size=(2, 4)) * 0.5
    D = ((queries[:, None] @ L.T - X @ L.T) ** 2).sum(axis=2)
    reach = 1 + ((X[:, None] @ L.T - X[targets] @ L.T) ** 2).sum(axis=2)
    expected = np.empty((11, 4))
    for c in range(4):
        nearest = np.sort(D[:, label == c], axis=1)[:, :k]
        away = D[:, label != c]
        push = np.maximum(0.0, 1 + nearest[:, :, None] - away[:, None]).sum(axis=(1, 2))
        invaded = np.maximum(0.0, reach[label != c] - away[:, :, None]).sum(axis=(1, 2))
        expected[:, c] = (1 - mu) * nearest.sum(axis=1) + mu * (push + invaded)
    monkeypatch.setattr(energy, "BLOCK", 3 * len(X))
    options = {"target_neighbors": targets, "push_weight": mu}
    np.testing.assert_allclose(classification.energies(L, X, label, queries, **options), expected, rtol=1e-10)
    assert (classification.energy_predict(L, X, label, queries, **options) == expected.argmin(axis=1)).all()
    single = classification.energies(L, X.astype(np.float32), label, queries.astype(np.float32), **options)
    np.testing.assert_allclose(single, expected, rtol=1e-4)


def test_target_neighbors_as_a_graph(unequal):
    X, label, targets, queries = unequal
    row, slot = np.nonzero(targets >= 0)
    graph = sp.csr_array((np.ones(len(row)), (row, targets[row, slot])), shape=(19, 19))
    energies, expected = (
        classification.energies(np.eye(3), X, label, queries, target_neighbors=t) for t in (graph, targets)
    )
    np.testing.assert_allclose(energies, expected, rtol=1e-12)
