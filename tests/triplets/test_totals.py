"""Sums over all triplets in closed form: against loops, and certificates of the zero metric against listed triplets."""

from __future__ import annotations

import numpy as np
import oracles
import pytest
from instances import assert_close, assert_same

import sdpmetric as sm
from sdpmetric.linalg.rigorous import Images
from sdpmetric.problems import lmnn
from sdpmetric.triplets.listed import ListedTriplets
from sdpmetric.triplets.margins import are_unit_hinges, impostor_counts, impostor_scatter
from sdpmetric.triplets.sources import LabeledTriplets
from sdpmetric.triplets.triplets import Triplets

LOSSES = ("hinge", "squared_hinge")


@pytest.mark.parametrize("seed", [0, 3])
def test_counts_and_scatter_are_those_of_all_pairs(seed):
    rng = np.random.default_rng(seed)
    n = 40
    X = rng.normal(size=(n, 3)) + 50.0 * rng.normal(size=3)
    labels, groups = rng.integers(0, 4, n).astype(np.int32), rng.integers(0, 1 + seed, n).astype(np.int32)
    v, w = rng.integers(0, 3, n).astype(float), rng.uniform(size=n) * (rng.uniform(size=n) < 0.7)
    pairs = (groups[:, None] == groups) & (labels[:, None] != labels)
    assert (impostor_counts(labels, groups, w > 0) == (pairs & (w > 0)).sum(axis=1)).all()
    D = X[:, None] - X[None]
    assert_close(impostor_scatter(X, labels, groups, v, w), np.einsum("ij,ija,ijb->ab", pairs * np.outer(v, w), D, D))


@pytest.mark.parametrize("listed", [False, True])
def test_sums_within_groups_are_those_of_the_triplets(listed, rng):
    y = np.repeat([0, 1, 2], [9, 5, 7])
    X, groups = rng.normal(size=(21, 3)), rng.integers(0, 2, 21).astype(np.int32)
    targets = np.array(oracles.target_neighbors(X, y, 2), dtype=np.int32)
    targets[::4, 1] = -1
    every = oracles.all_triplets(targets, y)
    weights = rng.integers(0, 3, len(every)) * 0.5 if listed else np.ones(len(every))
    source = (
        ListedTriplets.from_triplets(Triplets.from_array(np.array(every)), weights)
        if listed
        else LabeledTriplets(targets, y.astype(np.int32))
    )
    within = [(t, w) for t, w in zip(every, weights, strict=True) if groups[t[0]] == groups[t[2]]]
    total, size = source.totals_within([groups])
    assert_same(total, sum(w for _, w in within))
    assert size == sum(w > 0 for _, w in within)
    B = sum(w * (oracles.outer(X, i, m) - oracles.outer(X, i, j)) for (i, j, m), w in within)
    (form,) = source.forms_within([Images.of(X, X - X.mean(axis=0), np.eye(3))], [groups])
    assert_close(form.matrix, B)
    assert np.linalg.norm(form.matrix - B, 2) <= form.error <= 1e-9 * np.linalg.norm(B, 2)


def test_unit_hinges_need_coinciding_groups_that_are_far_apart():
    groups = np.array([0, 1, 0, 1], dtype=np.int32)
    Z = np.array([[0.0], [1.1], [1e-9], [1.1]])
    assert are_unit_hinges(Z, groups, 0.0)
    assert are_unit_hinges(np.zeros((4, 0)), 0 * groups, 0.0)
    assert not are_unit_hinges(Z, groups, 1e-3)
    assert not are_unit_hinges(0.9 * Z, groups, 0.0)
    assert not are_unit_hinges(Z + np.array([[0.0], [0.0], [1e-3], [0.0]]), groups, 0.0)
    assert not are_unit_hinges(np.zeros((4, 0)), groups, 0.0)


def data(rng, null: bool):
    """Unequal classes; with null, two features without pull cost: an indicator, and a value for two classes."""
    y = np.repeat([0, 1, 2, 3], [14, 9, 11, 8])
    X = rng.normal(size=(len(y), 4)) + 0.7 * y[:, None]
    X[3], X[15] = X[20], X[20]  # differently labelled rows at one place
    return (np.column_stack([X, y == 1, np.array([0.3, 0.3, 0.7, 0.7])[y]]) if null else X), y


def refuse(*_, **__):
    raise AssertionError("a search, where sums have closed forms")


def same(problem, point, monkeypatch):
    with monkeypatch.context() as context:
        context.setattr(LabeledTriplets, "within", refuse)
        context.setattr(ListedTriplets, "near", refuse)
        found = problem.certify(point)
    monkeypatch.setattr(lmnn, "unit_hinges", lambda *_: False)
    listed = problem.certify(point)
    for name in ("objective", "lower_bound", "dual_residual", "complementarity", "n_active", "null_dimension"):
        assert_same(getattr(found, name), getattr(listed, name))
    assert found.lower_bound > 0.0
    return found


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("null", [False, True])
@pytest.mark.parametrize("lifted", [False, True])
def test_certificate_of_the_zero_metric(loss, null, lifted, rng, monkeypatch):
    X, y = data(rng, null)
    problem = sm.LMNNProblem.from_labels(X, y, push_weight=0.3, loss=loss)
    zero = problem.lift(np.zeros((0, problem.points.shape[1]))) if lifted else np.zeros((1, X.shape[1]))
    found = same(problem, zero, monkeypatch)
    if not lifted:
        assert_same(found.objective, 0.3 * problem.source.size)
        assert_same(problem.objective(zero), found.objective)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("null", [False, True])
@pytest.mark.parametrize("lifted", [False, True])
def test_certificate_of_zero_metrics(loss, null, lifted, rng, monkeypatch):
    X, y = data(rng, null)
    problem = sm.MultiMetricLMNNProblem.from_labels(X, y, 2, push_weight=0.3, regions=np.minimum(y, 2), loss=loss)
    rank = problem.points.shape[1]
    zero = problem.lift(np.zeros((3, 0, rank))) if lifted else np.zeros((3, 1, X.shape[1]))
    same(problem, zero, monkeypatch)
