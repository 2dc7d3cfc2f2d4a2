"""Weights of examples: what they mean, and that solvers and certificates take them."""

from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from instances import assert_sandwich

import sdpmetric as sm
from sdpmetric import terms

RNG = np.random.default_rng(8)
Y = np.repeat([0, 1, 2], [7, 6, 5])
X = RNG.normal(size=(18, 3)) + np.outer(Y, [1.2, -0.8, 0.0])
T = X[:, 0] + 0.3 * RNG.normal(size=18)
COUNTS = RNG.integers(1, 4, size=18)
WEIGHTS = RNG.uniform(0.2, 3.0, size=18)
LS = [scale * RNG.normal(size=(3, 3)) for scale in (0.3, 1.0, 3.0)]

LMNN = {"lmnn": sm.LMNNProblem, "several": sm.MultiMetricLMNNProblem}
# Statements in which whole weights are repeated rows.
COUNTED = {
    "mmc": sm.MMCProblem.from_labels,
    "itml": lambda X, y, **w: sm.ITMLProblem.from_labels(X, y, upper=1.0, lower=4.0, gamma=0.5, **w),
    "pola": lambda X, y, **w: sm.POLAProblem.from_labels(X, y, None, slack_weight=0.3, **w),
} | {
    f"{name}, {loss}": partial(kind.from_labels, n_neighbors=2, push_weight=0.4, loss=loss)
    for name, kind in LMNN.items()
    for loss in ("hinge", "squared_hinge")
}
TERMS = {
    "nca": sm.NCAProblem.from_labels,
    "log": lambda X, y, **w: sm.NCAProblem.from_labels(X, y, objective="log", **w),
    "soft": lambda X, y, **w: sm.NCAProblem(X, T, targets="continuous", **w),
    "mlkr": lambda X, y, **w: sm.MLKRProblem.from_labels(X, T, **w),
    "sdml": lambda X, y, **w: sm.SDMLProblem.from_labels(X, y, None, distance_weight=0.05, **w),
    "lsml": sm.LSMLProblem.from_labels,
    "scml": lambda X, y, **w: sm.SCMLProblem.from_labels(X, y, bases=np.eye(3), **w),
}
ALL = COUNTED | TERMS


@pytest.mark.parametrize("name", COUNTED)
def test_whole_weights_are_repeated_rows(name):
    state, copies, options = COUNTED[name], np.repeat(np.arange(18), COUNTS), {}
    weighted = state(X, Y, sample_weight=COUNTS)
    if "hinge" in name:  # each copy has the target neighbors of its row
        options["target_neighbors"] = np.searchsorted(copies, np.arange(18))[state(X, Y).source.targets[copies]]
    copied = state(X[copies], Y[copies], **options)
    for L in LS:
        L = np.stack([L, 0.5 * L, 2.0 * L]) if "several" in name else L
        of_weighted, of_copied = weighted.certify(L), copied.certify(L)
        assert weighted.objective(L) == pytest.approx(copied.objective(L), rel=1e-9)
        assert of_weighted.objective == pytest.approx(of_copied.objective, rel=1e-9)
        assert of_weighted.lower_bound == pytest.approx(of_copied.lower_bound, rel=1e-5, abs=1e-7)
    solution, solution_of_copied = sm.solve(weighted, tol=1e-3), sm.solve(copied, tol=1e-3)
    assert solution.status.ok
    assert_sandwich(solution_of_copied, solution)


def softmax(L, i):
    p = np.array([np.exp(-np.sum((L @ (X[i] - x)) ** 2)) for x in X])
    p[i] = 0.0
    return p / p.sum()


def terms_of(name, L):
    """The term of each example, one at a time."""
    terms = []
    for i in range(18):
        p, mates = softmax(L, i), (Y[i] == Y) & (np.arange(18) != i)
        if name == "mlkr":
            terms.append((T[i] - p @ T) ** 2)
        elif name == "soft":
            width = T.std() * 18**-0.2
            terms.append(-p @ np.exp(-((T[i] - T) ** 2) / (2 * width**2)))
        else:
            terms.append(-p[mates].sum() if name == "nca" else -np.log(p[mates].sum()))
    return np.array(terms)


@pytest.mark.parametrize("name", ["nca", "log", "soft", "mlkr"])
def test_a_weight_counts_the_term_of_its_example(name):
    for L in [0.2 * LS[1], 0.5 * LS[1], LS[1]]:
        for weights in (np.ones(18), WEIGHTS, np.eye(18)[5], np.where(np.arange(18) % 3, WEIGHTS, 0.0)):
            problem = TERMS[name](X, Y, sample_weight=weights)
            expected = pytest.approx(float(weights @ terms_of(name, L)), rel=1e-8, abs=1e-8)
            assert problem.objective(L) == expected
    problem, step = TERMS[name](X, Y, sample_weight=WEIGHTS), 1e-6 * RNG.normal(size=(3, 3))
    L = 0.5 * LS[1]
    change = (problem.objective(L + step) - problem.objective(L - step)) / 2
    assert change == pytest.approx(float(np.sum(problem.value_and_gradient(L)[1] * step)), rel=1e-5)


@pytest.mark.parametrize("name", ALL)
def test_bad_weights_are_refused(name):
    rounded = np.array([Fraction(1, 3)] * 18, dtype=object), ["1"] * 18, np.full(18, 1 + 1j), np.full(18, 2**53 + 1)
    finite = np.ones(17), -np.ones(18), np.zeros(18), np.geomspace(1e-9, 1e101, 18)
    for weights in (*finite, np.full(18, np.nan), *rounded):
        with pytest.raises(ValueError, match="sample_weight"):
            ALL[name](X, Y, sample_weight=weights)
    for size in (1e150, 1e-310):
        with pytest.raises(ValueError, match=r"sample_weight .*multiply all by 2\.0\*\*"):
            ALL[name](X, Y, sample_weight=np.full(18, size))


BASES, TRIPLET, QUADRUPLET = np.eye(3), [[0, 1, 9], [2, 3, 10]], [[0, 1, 2, 9], [2, 3, 4, 10]]
EXTREME = {
    "scml": lambda w: sm.SCMLProblem(X, TRIPLET, BASES, weights=w),
    "scml of quadruplets": lambda w: sm.SCMLProblem(X, QUADRUPLET, BASES, weights=w),
    "lsml": lambda w: sm.LSMLProblem(X, QUADRUPLET, w),
    "lmnn": lambda w: sm.LMNNProblem.from_triplets(X, TRIPLET, w),
    "mmc": lambda w: sm.MMCProblem(X[:, :1], [[0, 1], [0, 9]], [True, False], w),
    "pola": lambda w: sm.POLAProblem(X, [[0, 1], [0, 9]], [True, False], 1.0, pair_weights=w),
    "itml": lambda w: sm.ITMLProblem(X, [[0, 1], [0, 9]], [True, False], gamma=1.0, pair_weights=w),
    "sdml": lambda w: sm.SDMLProblem(X, [[0, 1], [0, 9]], [True, False], distance_weight=0.01, pair_weights=w),
    "triplets": lambda w: sm.MetricProblem(X, terms.TripletHinge(TRIPLET, weights=w) + terms.Trace()),
    "pull": lambda w: sm.MetricProblem(X, terms.Pull([[0, 1], [0, 9]], weights=w) + terms.Trace()),
    "spread": lambda w: sm.MetricProblem(X, terms.Spread([[0, 1], [0, 9]], weights=w) + terms.Trace()),
    "budget": lambda w: sm.MetricProblem(X, terms.Budget([[0, 1], [0, 9]], costs=w) + terms.Frobenius(np.eye(3))),
}


@pytest.mark.parametrize("name", EXTREME)
def test_weights_whose_sums_are_no_floats_are_refused(name):
    for size in (1e308, 1e250, 1e-310):
        with pytest.raises(ValueError, match=r"(weights|costs) .*between .* multiply all by 2\.0\*\*"):
            EXTREME[name]([size, size])
    for odd in (["1", "1"], [1j, 1.0], [Fraction(1, 3), 1], [np.inf, 1.0], [np.nan, 1.0]):
        with pytest.raises(ValueError, match=r"weights|costs"):
            EXTREME[name](odd)
    EXTREME[name]([1e-50, 1e-50])


def test_a_mean_does_not_depend_on_the_scale_of_its_weights():
    L = np.diag([0.3, 2.0, 0.7])
    for name in ("scml", "lsml"):
        reference, scaled = (EXTREME[name]([v, 3.0 * v]) for v in (1.0, 2.0**-190))
        assert scaled.objective(L) == pytest.approx(reference.objective(L), rel=1e-12)


def test_weights_of_terms_are_numbers_whose_products_are_floats():
    hinge = terms.TripletHinge(TRIPLET, weights=[1e-50, 1.0])
    for bad in (-1.0, np.nan, np.inf, "1", 1j, 5e-324, Fraction(1, 3)):
        with pytest.raises(ValueError, match="weight"):
            sm.MetricProblem(X, terms.Trace(weight=bad) + hinge)
        with pytest.raises(ValueError, match="weight"):
            bad * terms.Trace()
    for build in (
        lambda: 1e200 * (1e200 * terms.Trace()),
        lambda: 1e-200 * (1e-200 * terms.Trace()),
        lambda: sm.MetricProblem(X, 1e-200 * hinge),
        lambda: sm.MetricProblem(X, hinge + terms.Trace()).with_weights(triplet_hinge=1e-200),
        lambda: sm.ITMLProblem(X, [[0, 1], [0, 9]], [True, False], gamma=1e200, pair_weights=[1e50, 1.0]),
        lambda: sm.POLAProblem(X, [[0, 1], [0, 9]], [True, False], 1e-200, pair_weights=[1e-50, 1.0]),
    ):
        with pytest.raises(ValueError, match=r"must be 0 or between 1e-120 and 1e\+120: scale the features"):
            build()


def test_what_weights_do_not_reach_says_so():
    with pytest.raises(ValueError, match="hard margins"):
        sm.POLAProblem.from_labels(X, Y, slack_weight=None, sample_weight=WEIGHTS)
    for weights in ([1.0], [0.0, 1.0], "a"):
        with pytest.raises(ValueError, match="pair_weights"):
            sm.MMCProblem(X, [[0, 1], [0, 8]], [True, False], weights)
    derivative = sm.explain(sm.solve(ALL["itml"](X, Y, sample_weight=WEIGHTS), tol=1e-6)).sensitivity.weights["gamma"]
    assert derivative > 0.0
