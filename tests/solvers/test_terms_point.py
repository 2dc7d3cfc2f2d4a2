"""Weights of rank-one metrics: the table of losses says what distances say."""

from __future__ import annotations

import numpy as np
import pytest
from instances import assert_same

import sdpmetric as sm
from sdpmetric import terms
from sdpmetric.solvers import terms_point


@pytest.mark.parametrize("domain", ["diagonal", "bases"])
def test_a_table_of_losses_by_weights_says_what_distances_say(domain, monkeypatch):
    rng = np.random.default_rng(0)
    X, rows = rng.normal(size=(40, 3)), rng.permuted(np.tile(np.arange(40), (25, 1)), axis=1)
    total = (
        terms.Pull(rows[:, :2])
        + 0.5 * terms.TripletHinge(rows[:, :3])
        + terms.PairHinge(rows[:, 3:5], np.arange(25) % 2 == 0, loss="logistic")
        + terms.DistanceBounds(rows[:, 5:7], at_least=0.01)
        + 0.2 * terms.OffDiagonal()
        + 0.3 * terms.Trace()
        + 0.1 * terms.LogDet()
    )
    where = {"diagonal": True} if domain == "diagonal" else {"bases": rng.normal(size=(6, 3))}
    problem = sm.MetricProblem(X, total, **where)
    tabled = terms_point.Point.of(problem, None)
    assert isinstance(tabled, terms_point.Weights)
    assert tabled.tables is not None
    monkeypatch.setattr(terms_point, "LARGEST_TABLE", 0)
    summed = terms_point.Point.of(problem, None)
    for point in (tabled, summed):
        point.total = problem.total.stiffened(2.0, 0.1)  # hard constraints have room in both
    F = rng.normal(size=tabled.F.shape)
    center = [rng.random(loss.size) for loss in problem.total.losses]
    assert isinstance(summed, terms_point.Weights)
    assert summed.tables is None
    found, expected = (point.smoothed(F, 0.3, center) for point in (tabled, summed))
    assert_same(found[0], expected[0])
    np.testing.assert_allclose(np.concatenate(found[1]), np.concatenate(expected[1]), rtol=0, atol=1e-12)
    np.testing.assert_allclose(found[2], expected[2], rtol=1e-9, atol=1e-9)
    solution = sm.solve(problem, tol=1e-4)  # by distances
    assert solution.relative_gap <= 1e-4
