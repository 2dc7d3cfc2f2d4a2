"""The LMNN statement against loops over Eq. 14, and the identities it must obey."""

import numpy as np
import oracles
import pytest
from instances import assert_same

import sdpmetric as sm
from sdpmetric.core.triplets import Triplets
from sdpmetric.lmnn.problem import LMNNProblem


def judged(problem, L, dual=None):
    c = problem.certify(L, dual=dual)
    return c.objective, c.lower_bound, c.n_active


def assert_judged_same(certificate, expected):
    assert_same(certificate[0], expected[0])
    assert_same(certificate[1], expected[1])
    assert certificate[2] == expected[2]


@pytest.fixture
def data(rng):
    y = np.repeat([0, 1, 2], [6, 9, 5])
    X = rng.normal(size=(20, 4)) * [1, 2, 0.5, 3] + y[:, None]
    return X, y, rng.normal(size=(3, 4)) * 0.4


@pytest.mark.parametrize("ridge", [0.0, 0.4])
@pytest.mark.parametrize("scale", [1e-100, 7.0, 1e100])
def test_scaling_the_data_scales_the_metric(data, scale, ridge):
    X, y, L = data
    expected = judged(LMNNProblem.from_labels(X, y, 2, 0.3, ridge=ridge), L)
    scaled = LMNNProblem.from_labels(X * scale, y, 2, 0.3, ridge=ridge * scale**2)
    assert_judged_same(judged(scaled, L / scale), expected)


def test_scaling_one_feature_scales_the_factor(data):
    X, y, L = data
    units = np.array([1e-6, 1.0, 1e4, 10.0])
    problem = LMNNProblem.from_labels(X, y, 2, 0.3)
    targets = problem.source.targets
    scaled = LMNNProblem.from_labels(X * units, y, push_weight=0.3, target_neighbors=targets)
    assert_judged_same(judged(scaled, L / units), judged(problem, L))


def test_all_triplets_listed_state_the_same_problem(data):
    X, y, L = data
    for loss, ridge in (("hinge", 0.0), ("squared_hinge", 0.2)):
        by_labels = LMNNProblem.from_labels(X, y, 2, 0.3, loss=loss, ridge=ridge)
        every = np.array(oracles.all_triplets(by_labels.source.targets, y))
        for rows in (every, Triplets.from_array(every[::-1])):
            by_list = LMNNProblem.from_triplets(X, rows, None, 0.3, loss=loss, ridge=ridge)
            assert by_list.source.size == by_labels.source.size
            assert_judged_same(judged(by_list, L), judged(by_labels, L))


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_hinges_whose_distances_overflow_are_infinite_and_not_0(loss):
    X = 1e80 * np.array([[1.0, 0.0], [2.0, 1.0], [0.0, 2.0], [1.0, 3.5], [3.0, 1.0], [2.0, 2.0]])
    problem = sm.LMNNProblem.from_labels(X, [0, 0, 1, 1, 0, 1], 1, push_weight=1.0, ridge=1e-200, loss=loss)
    assert problem.certify(1e80 * np.eye(2)).objective == np.inf
