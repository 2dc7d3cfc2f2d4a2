"""Arguments out of range are refused by one sentence before any work."""

from __future__ import annotations

import math

import numpy as np
import pytest
from test_contract import FACTORIES, data, make, point

import sdpmetric as sm
from sdpmetric.estimators import LMNN
from sdpmetric.linalg.rigorous import sum_above, sum_below
from sdpmetric.streams.lego import LEGOStream


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
@pytest.mark.parametrize("name", FACTORIES)
def test_huge_points_have_an_infinite_objective_or_are_refused(name):
    problem = make(name)
    for size in (1e77, 1e100, 1e145, 1e154, 1e200, 1e300):
        L = size * point(problem)
        with np.errstate(over="ignore"):
            M = np.swapaxes(L, -1, -2) @ L
        for given in ({"components": L}, {"metric": M}) if np.isfinite(M).all() else ({"components": L},):
            if size > 1e150:
                with pytest.raises(ValueError, match="too large"):
                    sm.certify(problem, **given)
                continue
            certificate = sm.certify(problem, **given)
            assert certificate.objective == math.inf or np.isfinite(certificate.objective)
            assert certificate.lower_bound < math.inf
            assert certificate.gap >= 0.0


def test_sums_that_overflow_are_infinite():
    assert sum_above(np.full(3, 1e308)) == math.inf
    assert sum_below(np.full(3, -1e308)) == -math.inf
    assert sum_below(np.full(3, 1e308)) <= sum_above(np.full(3, 1e308))


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"max_iter": math.inf}, ValueError, "max_iter must be a positive integer or None"),
        ({"max_iter": 1.5}, ValueError, "max_iter must be a positive integer or None"),
        ({"callback": 3}, TypeError, "callback must be a function or None, got 3"),
        ({"score": 3}, TypeError, "score must be a function or None, got 3"),
    ],
)
def test_solve_refuses_before_any_work(options, error, sentence, monkeypatch):
    problem = make("lmnn")
    monkeypatch.setattr(type(problem), "objective", None)
    with pytest.raises(error, match=sentence):
        sm.solve(problem, **options)


@pytest.mark.parametrize("values", [0.5, "half", [0.1, "half"], [0.1, None]])
def test_path_refuses_values_that_are_no_list_of_numbers(values):
    with pytest.raises(ValueError, match="push_weight must be a list of numbers, the values along the path"):
        sm.path(make("lmnn"), push_weight=values)


def test_masked_entries_are_refused():
    X, y = data()
    hidden = np.ma.masked_greater(X, 1.0)
    with pytest.raises(ValueError, match="X has masked entries"):
        sm.LMNNProblem.from_labels(hidden, y)
    with pytest.raises(ValueError, match="X has masked entries"):
        LMNN().fit(hidden, y)
    with pytest.raises(ValueError, match="y has masked entries"):
        sm.MLKRProblem(X, np.ma.masked_greater(X[:, 0], 1.0))
    with pytest.raises(ValueError, match="y has masked entries"):
        sm.LMNNProblem.from_labels(X, np.ma.masked_equal(y, 1))
    with pytest.raises(ValueError, match="sample_weight has masked entries"):
        sm.MCMLProblem(X, y, np.ma.masked_greater(1.0 + y, 2.0))
    with pytest.raises(ValueError, match="pairs has masked entries"):
        sm.MMCProblem(X, np.ma.masked_equal([[0, 1], [0, 12]], 12), [True, False])
    with pytest.raises(ValueError, match="components has masked entries"):
        sm.certify(make("lmnn"), np.ma.masked_equal(np.eye(3), 0.0))
    nothing = np.ma.masked_greater(X, 1e9)
    assert sm.LMNNProblem.from_labels(nothing, y).fingerprint() == sm.LMNNProblem.from_labels(X, y).fingerprint()


def test_a_learning_rate_that_is_too_large_is_named():
    rng = np.random.default_rng(0)
    rows, four = rng.normal(size=(200, 3)), np.array([rng.choice(200, 4, replace=False) for _ in range(2000)])
    with pytest.raises(ValueError, match=r"learning_rate=1e\+200"):
        LEGOStream(3, 1e200).partial_fit_comparisons(rows, four)
