"""Sums of terms against exact arithmetic: scalar losses, hard constraints, directions without cost, minima."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from cases import data, different, one_of_each
from exact import Distances, definite, divergence, fraction, metric, number, rational, square
from flint import arb, ctx

import sdpmetric as sm
from sdpmetric import terms
from sdpmetric.linalg.rigorous.directed import log1p_bounds
from sdpmetric.linalg.rigorous.forms import Span
from sdpmetric.losses import LOSSES, LogRatio, ScalarLoss
from sdpmetric.sums.bound_terms import BoundTerms
from sdpmetric.sums.segment import Segment

rng = np.random.default_rng(0)
ctx.prec = 256
SIZES = 10.0 ** rng.uniform(-300, 4, 300)
U = np.concatenate([3.0 * rng.normal(size=200), SIZES, -SIZES, [0.0, 1.0, -1.0]])
S = np.concatenate([rng.random(200), 10.0 ** rng.uniform(-300, 0, 200), 1.0 - 10.0 ** rng.uniform(-16, 0, 200), [0, 1]])


def entropy(s):
    return sum((p * p.log() for p in (arb(s), 1 - arb(s)) if p > 0), arb(0))


VALUES = {
    "hinge": lambda u: max(arb(u), arb(0)),
    "squared_hinge": lambda u: max(arb(u), arb(0)) ** 2,
    "logistic": lambda u: (1 + arb(u).exp()).log(),
}
CONJUGATES = {
    "hinge": lambda s: arb(0),
    "squared_hinge": lambda s: arb(s) ** 2 / 4,
    "logistic": entropy,
}


@pytest.mark.parametrize("name", LOSSES)
def test_scalar_losses_are_bounded_above(name):
    for argument, bounds, exact in (
        (U, LOSSES[name].values_above(U), VALUES[name]),
        (S, LOSSES[name].conjugates_above(S), CONJUGATES[name]),
    ):
        values = [exact(u) for u in argument.tolist()]
        assert not any(arb(bound) < value for bound, value in zip(bounds.tolist(), values, strict=True))
        size = np.array([float(value) for value in values])
        assert (bounds <= size + 1e-14 * (1.0 + np.abs(size))).all()


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_ratios_are_bounded_above(side):
    for b in (1.0, 0.3, 7e5):
        loss = LogRatio(np.array([side]), np.array([b]))
        values = [side * arb(max(u, 0.0)) / arb(b) for u in U.tolist()], loss.values_above(U)
        conjugates = [-side * arb(s) * arb(b) for s in S.tolist()], loss.conjugates_above(S)
        for exact, bounds in (values, conjugates):
            for value, bound in zip(exact, bounds.tolist(), strict=True):
                assert bound == np.inf or not arb(bound) < value - (1 + value).log()
                assert bound < np.inf or not value > -1.0 + 1e-14


def test_logarithms_of_one_and_a_little():
    x = np.concatenate([np.abs(U), -S[S < 1.0], [0.25, -0.25, -1.0 + 2.0**-53]])
    for point, low, high in zip(x.tolist(), *(bound.tolist() for bound in log1p_bounds(x)), strict=True):
        exact = (1 + arb(point)).log()
        assert not arb(low) > exact
        assert not arb(high) < exact
        assert high - low <= 4e-14 * abs(math.log1p(point)) + 1e-320


def test_sums_of_entries_bound_every_factor_within_given_errors():
    """An entry ``sum_k L_ki L_kj`` is off by errors in the column i too, here of a column that is 0."""
    X, L, errors = np.eye(2), np.array([[0.0, 1.0]]), np.array([[1e-3, 1e-12]])
    total = BoundTerms(X - X.mean(axis=0), (terms.OffDiagonal().bind(X),))
    assert total.upper_bound(X, L, errors) >= total.value(L + errors)[0] > 1e-3


@pytest.mark.parametrize("rows", [3, 5])
@pytest.mark.parametrize("share", [1e-15, 1e-6, 1e-2])
def test_divergences_bound_every_factor_within_given_errors(rows, share):
    A = rng.normal(size=(3, 3))
    term = terms.LogDet(to=A.T @ A + 0.1 * np.eye(3), weight=0.7).bind(np.eye(3))
    for size in (1e-40, 1.0, 1e40):
        L = size * rng.normal(size=(rows, 3))
        errors = share * size * rng.random((rows, 3))
        bound = term.upper_bound(L, errors)
        corners = [L + sign * errors * rng.choice([-1.0, 1.0], L.shape) for sign in [0.0, *20 * (1.0,)]]
        assert not any(arb(bound) < number(0.7) * divergence(metric(F), term.target) for F in corners)
        assert share > 1e-6 or bound <= term.upper_bound(L) * (1.0 + 1e-3) + 1e-3


def test_the_conjugate_of_a_frobenius_term_of_one_feature_is_rounded_upwards():
    for U, M0, weight in 10.0 ** rng.uniform(-3, 3, (3000, 3)):
        conjugate = terms.Frobenius(to=[[M0]], weight=weight).conjugate(np.array([[U]]))
        assert Fraction(conjugate) >= Fraction(U) ** 2 / (2 * Fraction(weight)) + Fraction(U) * Fraction(M0)


class Cubes(ScalarLoss):
    """``[u]_+^3``, without bounds of its own."""

    name = "cubes"

    def values(self, u):
        return np.maximum(u, 0.0) ** 3

    def slopes(self, u, width):
        return 3.0 * np.maximum(u, 0.0) ** 2

    def conjugates(self, s):
        return 2.0 * (s / 3.0) ** 1.5

    def expression(self, u, cp):
        raise NotImplementedError


class CubedHinge(terms.PairHinge):
    name = "cubed_hinge"

    @property
    def rows(self):
        return replace(super().rows, scalar=Cubes())


def test_a_sum_has_the_weakest_grade_of_its_terms():
    """A loss without bounds of its own is allowed for by a guess; every term of the package is bounded."""
    X, y = np.random.default_rng(0).normal(size=(12, 3)), np.arange(12) % 2
    losses = terms.Pull(labels=y, n_neighbors=2) + terms.TripletHinge(labels=y, n_neighbors=1, loss="logistic")
    assert sm.MetricProblem(X, losses).certify(np.eye(3)).rigor == "float"
    cubed = CubedHinge([[0, 1], [0, 2]], [True, False])
    certificate = sm.MetricProblem(X, losses + terms.Frobenius() + cubed).certify(np.eye(3))
    assert certificate.rigor == "rounding"
    assert "proven lower bound" not in str(certificate)
    for term in one_of_each(np.random.default_rng(0)).values():
        assert sm.MetricProblem(data(rng), term + terms.Trace()).total.rigor == "float"


@pytest.mark.parametrize("size", [1e-60, 1e60])
@pytest.mark.parametrize("diagonal", [False, True])
def test_divergences_from_a_metric_of_any_size_are_bounded(size, diagonal):
    X, A = rng.normal(size=(20, 3)), rng.normal(size=(3, 3))
    pairs = np.array([(i, (i + 7) % 20) for i in range(20)])
    intervals = []
    for unit in (1.0, size):
        bounds = terms.DistanceBounds(pairs, at_most=0.5 * unit, loss="log_ratio")
        total = terms.LogDet(to=unit * (A.T @ A + np.eye(3))) + bounds
        intervals.append(sm.solve(sm.MetricProblem(X, total, diagonal=diagonal), tol=1e-6))
    assert intervals[1].relative_gap <= 1e-6
    assert intervals[1].objective == pytest.approx(intervals[0].objective, rel=1e-5)


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
@pytest.mark.parametrize("domain", [{}, {"diagonal": True}, {"bases": [[1.0]]}], ids=["all", "diagonal", "bases"])
def test_differences_that_vanish_beside_others_are_not_zero(domain, loss):
    """The pair is 1e-60 apart, which counts under large enough metrics: the infimum is 0."""
    X = np.array([[0.0], [1e-60], [1e60]])
    problem = sm.MetricProblem(X, terms.PairHinge([[0, 1]], [False], 1.0, loss=loss), **domain)
    for dual in (1.0, 0.5, 1e-9):
        assert problem.certify(problem.zero, dual=np.full(1, dual)).lower_bound <= 0.0


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

    attained = value(regularizer.minimizer(S))
    assert bound <= attained <= bound + 1e-9 * max(1.0, abs(bound))
    assert all(value(rng.normal(size=S.shape)) >= bound for _ in range(50))


def test_bounds_near_a_definite_metric_count_the_errors_of_long_differences():
    """Differences of 1000 nearly cancel, and all hinges are positive, so the optimum is a rational number."""
    weight, d, n, n_bounds = 20.0, 2, 20, 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        V = 1e3 * rng.normal(size=(n, d))
        X = np.concatenate([np.zeros((1, d)), V, V + 1e-4 * rng.normal(size=(n, d))])
        triplets = [[0, 1 + i, 1 + n + i] for i in range(n)]
        sum_of_terms = terms.Frobenius(weight=weight, to=np.eye(d)) + terms.TripletHinge(triplets=triplets)
        near, far = rational(X[1 : n + 1]), rational(X[n + 1 :])
        slope = near.transpose() * near - far.transpose() * far
        M = rational(np.eye(d)) - slope / number(weight)
        D = Distances(X, M=M)
        hinges = [1 + D(0, j) - D(0, k) for _, j, k in triplets]
        if definite(M) and min(hinges) > 0:
            optimum = sum(hinges) + square(slope) / (2 * number(weight))
            L = np.linalg.cholesky([[float(fraction(M[i, j])) for j in range(d)] for i in range(d)]).T
            assert number(sm.MetricProblem(X, sum_of_terms).certify(L).lower_bound) <= optimum
            n_bounds += 1
    assert n_bounds >= 4


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
@pytest.mark.parametrize("domain", [{}, {"bases": np.random.default_rng(3).normal(size=(5, 3))}], ids=["all", "bases"])
def test_tiny_weights_are_as_good_as_others_and_no_warning_leaves(domain, loss):
    X, rows = np.random.default_rng(1).normal(size=(12, 3)), different(np.random.default_rng(2), 8, 3, 12)
    for prior in (terms.Frobenius(), terms.Trace(), terms.LogDet()):
        total = terms.TripletHinge(rows, loss=loss) + prior
        light, plain = (sm.solve(sm.MetricProblem(X, scale * total, **domain), tol=1e-4) for scale in (1e-110, 1.0))
        assert light.status is plain.status is sm.Status.OPTIMAL
        assert 1e110 * light.objective == pytest.approx(plain.objective, rel=1e-4)
    light = 1e-110 * terms.TripletHinge(rows, loss=loss) + 1e-110 * terms.Frobenius()
    lightest = sm.solve(sm.MetricProblem(X, 1e-9 * light, **domain), "factored")
    assert lightest.lower_bound <= lightest.objective
    beside = sm.MetricProblem(X, light + 1e-110 * terms.Frobenius(to=np.eye(3)), **domain)
    assert sm.certify(beside, lightest.components).lower_bound <= sm.solve(beside, tol=1e-6).objective


@pytest.mark.parametrize("blur", [0.0, 1e-9, 1e-4, 1e-2])
@pytest.mark.parametrize("orthonormal", [True, False])
@pytest.mark.parametrize("similar", [11, 6])
@pytest.mark.parametrize("name", ["log_det", "near", "frobenius", "toward", "threshold", "trace"])
def test_bounds_in_the_span_of_few_rows_hold_for_all_metrics_even_if_the_span_is_wrong(
    name, similar, orthonormal, blur
):
    """The bound of all features is exact to 1e-10 here, and coordinates that are off by 1e-2 would be seen."""
    random = np.random.default_rng(3)
    X, pairs = random.normal(size=(8, 24)), np.argsort(random.random((12, 8)), axis=1)[:, :2]
    X[0] = 0.5 * (X[1] + X[2])
    regularizer = {
        "log_det": terms.LogDet(),
        "near": 0.3 * terms.LogDet(to=4.0 * np.eye(24)),
        "frobenius": terms.Frobenius(weight=30.0),
        "toward": terms.Frobenius(to=0.1 * np.eye(24), weight=30.0),
        "threshold": terms.Frobenius(to=np.diag([*np.zeros(23), 0.3]), weight=30.0),
        "trace": 20.0 * terms.Trace(),
    }[name]
    problem = sm.MetricProblem(X, terms.PairHinge(pairs, np.arange(12) < similar, 3.0) + regularizer)
    axes = np.array([23] if name == "threshold" else [], dtype=int)
    span = Span.of(problem.X, problem.centered, axes, problem.in_span.multiple)
    for _ in range(5):
        wrong = random.normal(size=span.basis.shape)
        if len(axes):
            wrong[23] = wrong[:, -1] = 0.0
        basis = span.basis + blur * wrong / np.sqrt(24)
        blurred = replace(span, basis=np.linalg.qr(basis)[0] if orthonormal and not len(axes) else basis)
        within, a = problem._stated_in(blurred, axes).dual, [0.02 * random.random(12)]
        L = random.normal(size=(3, 24))
        whole, bound = problem.dual.prove(a, L).value, within.prove(a, L @ blurred.basis).value
        assert bound <= whole + 1e-9 * abs(whole) + 1e-10
        if blur <= 1e-9:
            assert bound >= whole - 1e-5 * abs(whole) - 1e-5
        # A point: its value is not above the bound, either.
        root = np.linalg.cholesky(0.3 * np.eye(24) + L.T @ L).T if problem.in_span.multiple else L
        assert problem._bound_in_span(root) >= problem.objective(root) * (1.0 - 1e-12)
