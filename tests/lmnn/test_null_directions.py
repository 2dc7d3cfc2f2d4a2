"""Directions in which the data vary at (nearly) no pull cost: the lift separates groups."""

from functools import partial

import numpy as np
import oracles
import pytest
import scipy.sparse as sp
from instances import assert_same

import sdpmetric as sm
from sdpmetric import terms
from sdpmetric.core.certificate import Dual
from sdpmetric.core.triplets import Triplets
from sdpmetric.lmnn.problem import LMNNProblem


def test_two_null_groups_as_near_as_rounding_are_still_separate(rng):
    """A difference of 1e-8 without pull is a difference; an equal value after another computation is none."""
    y = np.repeat([0, 1, 2], [5, 6, 7])
    X = rng.normal(size=(18, 2))
    for values, null_groups in (([1.0, 1.0 + 1e-8, 4.0], 3), ([0.3, 0.1 + 0.2, 4.0], 2)):
        problem = LMNNProblem.from_labels(np.column_stack([X, np.array(values)[y]]), y, 2, 0.3)
        assert problem.null_groups.max() + 1 == null_groups


def test_many_null_directions_keep_equal_rows_in_one_group(rng):
    """Regression: expanded squared distances told equal rows apart in 16 and more dimensions."""
    prototypes = 50 * rng.normal(size=(20, 18))
    group = np.arange(60) % 20
    y = (np.arange(60) // 20) % 2
    X = np.column_stack([rng.normal(size=60), prototypes[group]])
    graph = sp.csr_array((y[:, None] == y) & (group[:, None] == group) & ~np.eye(60, dtype=bool))
    problem = LMNNProblem.from_labels(X, y, push_weight=0.3, target_neighbors=graph)
    assert problem.coordinates.null.shape[1] == 18
    assert problem.null_groups.max() + 1 == 20


def test_examples_far_apart_do_not_blur_what_is_near(rng):
    """Pairs and multipliers stay within two groups: how far apart the groups are must not enter the bound."""
    y, group = np.arange(24) % 2, np.arange(24) // 12
    X = np.round(rng.normal(size=(24, 3)) * 2**20) / 2**20  # adding a power of two is exact
    graph = sp.csr_array(
        (y[:, None] == y) & (group[:, None] == group) & (rng.random((24, 24)) < 0.3) & ~np.eye(24, dtype=bool)
    )
    targets = [graph[[i]].nonzero()[1] for i in range(24)]
    rows = np.array([t for t in oracles.all_triplets(targets, y) if group[t[0]] == group[t[2]]])
    dual = Dual(Triplets.from_array(rows), 0.3 * rng.random(len(rows)))
    bounds = []
    for distance in (0.0, 2.0**25):
        far = X + np.outer(group, [0.0, 0.0, distance])
        bounds.append(
            LMNNProblem.from_labels(far, y, push_weight=0.3, target_neighbors=graph).certify(np.eye(3), dual=dual)
        )
    assert bounds[0].lower_bound > 1.0
    assert_same(bounds[1].lower_bound, bounds[0].lower_bound)


STAMPS = np.array([[1e15, 0.0], [1e15 + 8.0, 0.0], [1e15, 1.0], [1e15 + 4.0, 2.0]])
BESIDE_OFFSETS = {
    "comparisons": lambda X, y: sm.MetricProblem(STAMPS, terms.TripletHinge([[0, 2, 1]]) + terms.Trace(weight=0.1)),
    "diagonal": lambda X, y: sm.MetricProblem(
        STAMPS, terms.TripletHinge([[0, 2, 1]]) + terms.Trace(weight=0.1), diagonal=True
    ),
    "lmnn": sm.LMNNProblem.from_labels,
    "mcml": sm.MCMLProblem.from_labels,
    "frobenius": partial(sm.LMNNProblem.from_labels, frobenius=1.0),
}


@pytest.mark.parametrize("name", BESIDE_OFFSETS)
def test_a_feature_beside_a_large_offset_is_learned_and_proven(name, rng):
    """Time stamps and identifiers: the optimum is that of the same feature without its offset."""
    y = np.repeat([0, 1, 2], 12)
    numbers = rng.integers(0, 5, size=36) + y
    X = np.round(rng.normal(size=(36, 2)), 2)
    offset_problem, centered = (
        BESIDE_OFFSETS[name](np.column_stack([X, offset + numbers]), y) for offset in (1e15, 0.0)
    )
    solution = sm.solve(offset_problem, tol=1e-3)
    assert solution.status is sm.Status.OPTIMAL
    if len(offset_problem.X) == len(STAMPS):
        assert solution.objective <= 0.003125 * 1.001  # at diag(1/32, 0)
    else:
        assert solution.lower_bound <= sm.solve(centered, tol=1e-3).objective
        assert centered.certify(solution.components).objective == pytest.approx(solution.objective, rel=1e-9)
