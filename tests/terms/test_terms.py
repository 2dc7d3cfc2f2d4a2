"""Every term by itself: value against loops, slopes, conjugate, smoothing, and the CVXPY expression."""

from __future__ import annotations

import math

import numpy as np
import pytest
from cases import D, N, data, different, one_of_each

import sdpmetric as sm
from sdpmetric import terms

NAMES = list(one_of_each(np.random.default_rng(0)))


def squared(X, M, i, j):
    return float((X[i] - X[j]) @ M @ (X[i] - X[j]))


def case(name, seed=1):
    rng = np.random.default_rng(seed)
    X = data(rng)
    term = one_of_each(rng)[name]
    A = rng.normal(size=(D, D))
    return X, term, A.T @ A, rng


@pytest.mark.parametrize("name", NAMES)
def test_gradient_is_that_of_the_smoothed_value(name):
    X, term, M, rng = case(name)
    problem, H = sm.MetricProblem(X, 0.7 * term), rng.normal(size=(D, D))
    H, width = H + H.T, 0.3
    center = [loss.clip(rng.exponential(size=loss.size)) for loss in problem.total.losses]

    def value(t):
        return problem.total.smoothed(np.linalg.cholesky(M + t * H).T, width, center)[0]

    gradient = problem.total.smoothed(np.linalg.cholesky(M).T, width, center)[2]
    step = 1e-6 / np.abs(H).max()
    slope = (value(step) - value(-step)) / (2 * step)
    assert np.sum(gradient * H) == pytest.approx(slope, rel=1e-5, abs=1e-6 * abs(value(0.0)))


LOSS_TERMS = [name for name, term in one_of_each(np.random.default_rng(0)).items() if isinstance(term, terms.Loss)]


@pytest.mark.parametrize("name", LOSS_TERMS)
def test_fenchel_and_young_with_equality_at_the_slopes(name):
    X, term, M, rng = case(name)
    loss = (0.7 * term).bind(X)
    if loss.entrywise:
        u = loss.offset + loss.entries(M)
    else:
        u = loss.offset + loss.combination @ [squared(X, M, i, j) for i, j in loss.distance_pairs()]
    for a in (rng.exponential(size=loss.size), -rng.exponential(size=loss.size), np.zeros(loss.size)):
        inside = loss.clip(a)
        assert np.allclose(loss.clip(inside), inside)
        assert np.isfinite(loss.conjugates(inside)).all()
        assert loss.value(u) + loss.conjugates(inside).sum() >= inside @ u - 1e-9 * abs(loss.value(u))
        assert np.isfinite(loss.conjugates(loss.anchor(inside))).all()
        end = loss.ceiling(inside, loss.clip(u) - inside)
        beyond = inside + min(end, 1e3) * (loss.clip(u) - inside)
        assert np.allclose(loss.clip(beyond), beyond, rtol=1e-9, atol=1e-9)
    a = loss.smoothed(u, 1e-12)[1]
    assert np.allclose(loss.clip(a), a, rtol=1e-12, atol=1e-15)
    assert loss.value(u) + loss.conjugates(a).sum() == pytest.approx(a @ u, rel=1e-9)


@pytest.mark.parametrize("name", ["frobenius", "frobenius to", "log_det", "log_det to"])
def test_conjugates_of_regularizers(name):
    X, term, M, rng = case(name)
    term = (0.7 * term).bind(X)
    L = np.linalg.cholesky(M).T
    U = term.gradient(L)
    assert term.conjugate(U) == pytest.approx(np.sum(U * M) - term.value(L), rel=1e-9)
    for _ in range(20):
        A, H = rng.normal(size=(D, D)), 0.1 * rng.normal(size=(D, D))
        other = U - A @ A.T + H + H.T
        assert term.value(L) + term.conjugate(other) >= np.sum(other * M) - 1e-9


RATIONAL = ["pull", "trace", "frobenius to", "triplet hinge", "triplet squared_hinge", "pair hinge", "quadruplet"]
RATIONAL += ["bounds hinge", "targets", "off_diagonal"]


def test_arithmetic():
    pull, push = terms.Pull([[0, 1]]), terms.TripletHinge([[0, 1, 2]])
    total = np.float64(0.5) * (pull + 2 * push) + terms.Trace()
    assert [term.weight for term in total.terms] == [0.5, 1.0, 1.0]
    assert [type(term).__name__ for term in sum([pull, push]).terms] == ["Pull", "TripletHinge"]
    X = np.arange(9.0).reshape(3, 3) ** 2
    problem = sm.MetricProblem(X, total + push)
    assert problem.weights == ("pull", "triplet_hinge", "trace", "triplet_hinge_2")
    for word in ("0.5 pull over 1 pairs", "hinge over 1 triplets", "trace", "3 examples"):
        assert word in problem.describe()
    assert problem.with_weights(trace=2.0).total.ridge == 2.0


@pytest.mark.parametrize("labels", [False, True])
def test_weights_of_examples_multiply_those_of_losses(labels):
    rng = np.random.default_rng(3)
    X, y, w = data(rng), np.arange(N) % 3, rng.exponential(size=N)
    triplets = different(rng, 20, 3)
    given = {"labels": y, "n_neighbors": 2} if labels else {"triplets": triplets}
    term = terms.TripletHinge(**given, sample_weight=w).bind(X)
    assert np.array_equal(term.weights, w[np.asarray(term.triplets)[:, 0]])
    pull = terms.Pull(**({"labels": y} if labels else {"pairs": triplets[:, :2]}), sample_weight=w).bind(X)
    assert np.array_equal(pull.weights, w[np.asarray(pull.pairs)[:, 0]])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: -1 * terms.Trace(), "trace"),
        (lambda: terms.Pull([[0, 1]]) * math.nan, "pull"),
        (lambda: sm.MetricProblem(np.eye(3), terms.Pull([[0, 3]])), "pull.*0..2"),
        (lambda: sm.MetricProblem(np.eye(3), terms.Pull([[0, 1]], weights=[-1.0])), "weights of pull"),
        (lambda: sm.MetricProblem(np.eye(3), terms.Pull()), "pairs= or labels="),
        (lambda: sm.MetricProblem(np.eye(3), terms.TripletHinge([[0, 1, 5]])), "triplet_hinge.*0..2"),
        (lambda: sm.MetricProblem(np.eye(3), terms.TripletHinge(np.zeros((0, 3), int))), "empty"),
        (lambda: sm.MetricProblem(np.eye(3), terms.TripletHinge(labels=[0, 0, 1], n_neighbors=3)), "triplet_hinge"),
        (lambda: sm.MetricProblem(np.eye(3), terms.TripletHinge([[0, 1, 2]], loss="square")), "loss of"),
        (lambda: sm.MetricProblem(np.eye(3), terms.TripletHinge([[0, 1, 2]], margin=-1)), "margin"),
        (lambda: sm.MetricProblem(np.eye(3), terms.PairHinge([[0, 1]])), "similar"),
        (lambda: sm.MetricProblem(np.eye(3), terms.PairHinge([[0, 1]], [2])), "similar"),
        (lambda: sm.MetricProblem(np.eye(3), terms.PairSoftmax([[0, 1]], weights=[0.0])), "pair_softmax are all 0"),
        (lambda: sm.MetricProblem(np.eye(3), terms.PairSoftmax([[0, 3]])), "pair_softmax.*0..2"),
        (lambda: sm.MetricProblem(np.eye(3), terms.LogDet(to=np.zeros((3, 3)))), "log_det"),
        (lambda: sm.MetricProblem(np.eye(3), terms.Frobenius(to=np.eye(2))), "frobenius"),
        (lambda: sm.MetricProblem(np.eye(3), 0.0 * terms.Trace()), "weight 0"),
        (lambda: sm.MetricProblem(np.eye(3), terms.Trace()).with_weights(trace=0.0), "trace"),
        (lambda: sm.MetricProblem(np.eye(3), terms.Pull([[0, 1]], sample_weight=[1.0])), "sample_weight"),
    ],
)
def test_bad_arguments_are_refused_by_a_sentence(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_what_is_no_term_is_refused():
    with pytest.raises(TypeError, match="terms"):
        sm.MetricProblem(np.eye(3), [terms.Trace()])
    with pytest.raises(TypeError, match="push_weight"):
        sm.MetricProblem(np.eye(3), terms.Trace()).with_weights(push_weight=1.0)


def test_hard_bounds_of_weight_0_are_left_out():
    X, pairs = np.vstack([np.zeros(3), np.eye(3)]), [[0, 1], [0, 2]]
    near = terms.Frobenius(to=np.eye(3))
    bounds = terms.DistanceBounds(pairs, at_least=[2.0, 3.0], sample_weight=np.ones(4), weights=[1.0, 0.0])
    solution = sm.solve(sm.MetricProblem(X, bounds + near), tol=1e-3)
    assert solution.objective == pytest.approx(0.5, rel=2e-3)  # at diag(2, 1, 1)
    with pytest.raises(ValueError, match="weight is not 0"):
        sm.MetricProblem(X, terms.DistanceBounds(pairs, at_least=2.0, weights=0.0) + near)
