"""The LMNN statement against loops over Eq. 14, and the identities it must obey."""

import numpy as np
import oracles
import pytest
from instances import KINDS, Instance, assert_same, make_instance

from sdpmetric.core.triplets import Triplets
from sdpmetric.lmnn.problem import LMNNProblem

SETTINGS = [
    {"mu": 0.3},
    {"mu": 0.3, "loss": "squared_hinge"},
    {"mu": 0.8, "ridge": 0.7},
    {"mu": 1.0, "ridge": 0.2, "loss": "squared_hinge"},
]


def check_against_loops(case: Instance, statement: oracles.Statement, L) -> None:
    M = L.T @ L
    objective = statement.objective(M)
    assert_same(case.problem.objective(L), objective)
    assert_same(case.problem.objective(metric=M), objective)
    certificate = case.problem.certify(L)
    assert_same(certificate.objective, objective)
    assert certificate.n_active == statement.n_active(M)


@pytest.mark.parametrize("options", SETTINGS[2:], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_objective_matches_the_paper(kind, options):
    case = make_instance(kind, 1, **options)
    rng = np.random.default_rng(5)
    for _ in range(2):
        check_against_loops(case, case.statement, case.random_factor(rng))


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


def test_rows_labels_and_origin_do_not_matter(data, rng):
    X, y, L = data
    expected = judged(LMNNProblem.from_labels(X, y, 2, 0.3), L)
    order = rng.permutation(len(y))
    assert_judged_same(judged(LMNNProblem.from_labels(X[order], y[order], 2, 0.3), L), expected)
    for names in (["wren", "auk", "owl"], [7, -3, 0], [1.0, 5.0, 2.0]):
        assert_judged_same(judged(LMNNProblem.from_labels(X, np.array(names)[y], 2, 0.3), L), expected)
    translated = LMNNProblem.from_labels(X + np.array([3.0, -40.0, 0.0, 1e3]), y, 2, 0.3)
    assert_judged_same(judged(translated, L), expected)
    rotation = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    assert_judged_same(judged(LMNNProblem.from_labels(X @ rotation, y, 2, 0.3), L @ rotation), expected)
    # The twin: one label changed matters.
    y = y.copy()
    y[0] = 1
    assert abs(judged(LMNNProblem.from_labels(X, y, 2, 0.3), L)[0] - expected[0]) > 1e-3


def test_all_triplets_listed_state_the_same_problem(data):
    X, y, L = data
    for loss, ridge in (("hinge", 0.0), ("squared_hinge", 0.2)):
        by_labels = LMNNProblem.from_labels(X, y, 2, 0.3, loss=loss, ridge=ridge)
        every = np.array(oracles.all_triplets(by_labels.source.targets, y))
        for rows in (every, Triplets.from_array(every[::-1])):
            by_list = LMNNProblem.from_triplets(X, rows, None, 0.3, loss=loss, ridge=ridge)
            assert by_list.source.size == by_labels.source.size
            assert_judged_same(judged(by_list, L), judged(by_labels, L))
