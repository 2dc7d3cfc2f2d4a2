"""Certificates of the zero metric in closed form against listed triplets."""

import numpy as np
import pytest
from instances import assert_same

import sdpmetric as sm
from sdpmetric.lmnn import problem as lmnn
from sdpmetric.lmnn.triplets.listed import ListedTriplets
from sdpmetric.lmnn.triplets.sources import LabeledTriplets

LOSSES = ("hinge", "squared_hinge")


def data(rng, null: bool):
    """Unequal classes; with null, two features without pull cost: an indicator, and a value for two classes."""
    y = np.repeat([0, 1, 2, 3], [14, 9, 11, 8])
    X = rng.normal(size=(len(y), 4)) + 0.7 * y[:, None]
    X[3], X[15] = X[20], X[20]  # differently labeled rows at one place
    return (np.column_stack([X, y == 1, np.array([0.3, 0.3, 0.7, 0.7])[y]]) if null else X), y


def refuse(*_, **__):
    raise AssertionError("a search, where sums have closed forms")


def same(problem, point, monkeypatch):
    with monkeypatch.context() as context:
        context.setattr(LabeledTriplets, "candidate_blocks", refuse)
        context.setattr(ListedTriplets, "candidate_blocks", refuse)
        certificate = problem.certify(point)
    monkeypatch.setattr(lmnn, "are_unit_hinges", lambda *_: False)
    certificate_by_triplets = problem.certify(point)
    for name in ("objective", "lower_bound", "n_active"):
        assert_same(getattr(certificate, name), getattr(certificate_by_triplets, name))
    for name, value in certificate.info.items():
        assert_same(value, certificate_by_triplets.info[name])
    assert certificate.lower_bound > 0.0
    return certificate


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("null", [False, True])
@pytest.mark.parametrize("lifted", [False, True])
@pytest.mark.parametrize("several", [False, True])
def test_certificate_of_the_zero_metric(loss, null, lifted, several, rng, monkeypatch):
    X, y = data(rng, null)
    state, options = (sm.MultiMetricLMNNProblem, {"regions": np.minimum(y, 2)}) if several else (sm.LMNNProblem, {})
    problem = state.from_labels(X, y, 2 if several else 3, 0.3, loss=loss, **options)
    shape = (3,) if several else ()
    zero = problem.lift(np.zeros((*shape, 0, problem.points.shape[1]))) if lifted else np.zeros((*shape, 1, X.shape[1]))
    certificate = same(problem, zero, monkeypatch)
    if not lifted:
        assert_same(certificate.objective, 0.3 * problem.source.size)
        assert_same(problem.objective(zero), certificate.objective)
