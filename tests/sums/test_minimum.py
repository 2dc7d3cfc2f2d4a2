"""The minimum of ``<S, M> + r(M)`` over PSD M, in closed form for regularizers, and the search along a segment."""

import numpy as np
import pytest
from cases import data, different, one_of_each

import sdpmetric as sm
from sdpmetric import terms
from sdpmetric.sums.segment import Segment, best_multiple


@pytest.mark.parametrize("name", ["frobenius", "frobenius to", "log_det", "log_det to"])
@pytest.mark.parametrize("seed", range(3))
def test_a_regularizer_attains_its_minimum_at_its_minimizer(name, seed):
    rng = np.random.default_rng([seed, 21])
    X = data(rng)
    triplets = terms.TripletHinge(different(rng, 60, 3))
    slack = sm.MetricProblem(X, triplets + 0.7 * one_of_each(rng)[name]).dual.slack
    (regularizer,) = slack.total.regularizers
    segment = Segment(slack, [np.zeros(60)], [rng.random(60) / 60])
    t, bound = regularizer.minimum(segment).proven(0.8)
    assert t == 0.8
    S = segment.matrix(t)

    def value(L):
        return float(np.sum(S * (L.T @ L))) + regularizer.value(L)

    attained = value(regularizer.minimizer(S, lambda A: A))
    assert bound <= attained <= bound + 1e-9 * max(1.0, abs(bound))
    assert all(value(rng.normal(size=S.shape)) >= bound for _ in range(50))


@pytest.mark.parametrize("best", [1e-3, 0.9, 1.0, 1.00001, 40.0])
@pytest.mark.parametrize("furthest", [0.5, 3.0, np.inf])
def test_the_best_multiple_of_a_concave_value(best, furthest):
    def value(t):
        return 2.0 - abs(t - best) - (t - best) ** 2

    assert best_multiple(value, furthest) == pytest.approx(min(best, furthest), rel=1e-6)
