"""Every term by itself: value against loops, slopes, conjugate, smoothing, and the CVXPY expression."""

from __future__ import annotations

import math
from fractions import Fraction

import cvxpy as cp
import numpy as np
import pytest
from cases import D, N, data, different, one_of_each
from instances import assert_same

import sdpmetric as sm
from sdpmetric import terms
from sdpmetric.losses import LOSSES

NAMES = list(one_of_each(np.random.default_rng(0)))
PHI = {
    "hinge": lambda u: max(u, 0.0),
    "squared_hinge": lambda u: max(u, 0.0) ** 2,
    "smooth_hinge": lambda u: 0.0 if u < 0 else 0.5 * u * u if u < 1 else u - 0.5,
    "logistic": lambda u: math.log(1 + math.exp(u)),
}


def squared(X, M, i, j):
    return float((X[i] - X[j]) @ M @ (X[i] - X[j]))


def by_loops(term, X, M):
    """The value of a term from its formula, one number at a time."""
    if isinstance(term, terms.Pull):
        return sum(w * squared(X, M, i, j) for (i, j), w in zip(term.pairs, term.weights, strict=True))
    if isinstance(term, terms.Trace):
        return sum(M[i, i] for i in range(len(M)))
    if isinstance(term, terms.Frobenius):
        return 0.5 * sum((M[i, j] - term.to[i, j]) ** 2 for i in range(len(M)) for j in range(len(M)))
    if isinstance(term, terms.LogDet):
        ratio = M @ np.linalg.inv(term.to)
        return np.trace(ratio) - math.log(np.linalg.det(ratio)) - len(M)
    if isinstance(term, terms.OffDiagonal):
        return sum(abs(M[i, j]) for i in range(len(M)) for j in range(len(M)) if i != j)
    if isinstance(term, terms.Collapse):
        return collapse(X, M, term)
    if isinstance(term, terms.PairSoftmax):
        every = sum(math.exp(-squared(X, M, c, d)) for c in range(len(X)) for d in range(len(X)) if c != d)
        rows = zip(term.pairs, term.weights, strict=True)
        return -sum(w * math.log(math.exp(-squared(X, M, a, b)) / every) for (a, b), w in rows)
    if isinstance(term, terms.DistanceTargets):
        off = [squared(X, M, i, j) - y for (i, j), y in zip(term.pairs, term.targets, strict=True)]
        costs = [e if s * e >= 0 else 0.0 for e, s in zip(off, term.sides, strict=True)]
        return sum(w * e**2 / 2 for w, e in zip(term.weights, costs, strict=True))
    if isinstance(term, terms.DistanceBounds):
        rows = zip(term.pairs, term.bounds, term.sides, term.weights, strict=True)
        return sum(w * bounded(squared(X, M, i, j), b, s, term.loss) for (i, j), b, s, w in rows)
    if isinstance(term, terms.QuadrupletHinge):
        u = [term.margin + squared(X, M, i, j) - squared(X, M, k, l) for i, j, k, l in term.quadruplets]
    elif isinstance(term, terms.TripletHinge):
        u = [term.margin + squared(X, M, i, j) - squared(X, M, i, l) for i, j, l in term.triplets]
    elif isinstance(term, terms.PairHinge):
        y = [1 if s else -1 for s in term.similar]
        u = [term.margin - y * (term.threshold - squared(X, M, i, j)) for (i, j), y in zip(term.pairs, y, strict=True)]
    return sum(w * PHI[term.loss](each) for w, each in zip(term.weights, u, strict=True))


def bounded(distance, bound, side, loss):
    """The loss of one bound on a distance."""
    if loss == "log_ratio":
        xi = max(bound, distance) if side > 0 else min(bound, distance)
        return xi / bound - math.log(xi / bound) - 1
    return PHI[loss](side * (distance - bound))


def collapse(X, M, term):
    """The objective of MCML, by loops."""
    total, y, n = 0.0, term.index, len(X)
    weights = np.ones(n) if term.sample_weight is None else term.sample_weight
    for i in range(n):
        rows = [j for j in range(n) if j != i] if term.neighbors is None else term.neighbors[i].tolist()
        e = {j: math.exp(-squared(X, M, i, j)) for j in rows}
        same = [j for j in e if y[j] == y[i]]
        total += (
            weights[i]
            * sum(math.log(1 / len(same)) - math.log(e[j] / sum(e.values())) for j in same)
            / max(1, len(same))
        )
    return total


def case(name, seed=1):
    rng = np.random.default_rng(seed)
    X = data(rng)
    term = one_of_each(rng)[name]
    A = rng.normal(size=(D, D))
    return X, term, A.T @ A, rng


@pytest.mark.parametrize("name", NAMES)
def test_value_is_that_of_the_formula(name):
    X, term, M, _ = case(name)
    problem = sm.MetricProblem(X, 0.7 * term)
    assert_same(problem.objective(metric=M), 0.7 * by_loops(term.bind(X), X, M))


@pytest.mark.parametrize("name", NAMES)
def test_cvxpy_has_the_same_value(name):
    X, term, M, _ = case(name)
    problem = sm.MetricProblem(X, 0.7 * term)
    program = sm.to_cvxpy(problem)
    assert program.is_dcp()
    variable = next(v for v in program.variables() if v.name() == "M")
    fixed = cp.Problem(program.objective, [*program.constraints, variable == M])
    assert fixed.solve(solver="CLARABEL") == pytest.approx(problem.objective(metric=M), rel=1e-5)


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


@pytest.mark.parametrize("name", LOSS_TERMS)
def test_anchors_add_something_positive_semidefinite(name):
    X, term, _, rng = case(name)
    if term.inside:
        return
    problem = sm.MetricProblem(X, term)
    (loss,) = problem.total.losses
    S = problem.total.slack_matrix([loss.anchor(loss.clip(rng.exponential(size=loss.size)))])
    assert np.linalg.eigvalsh(S)[0] >= -1e-9 * max(1.0, np.abs(S).max())


@pytest.mark.parametrize("loss", LOSSES)
def test_conjugates_of_scalar_losses_on_a_fine_grid(loss):
    scalar = LOSSES[loss]
    u = np.linspace(-60.0, 60.0, 120_001)
    s = np.linspace(0.0, min(scalar.highest, 4.0), 33)
    values = scalar.values(u)
    assert values[::100] == pytest.approx([PHI[loss](each) for each in u[::100]])
    by_grid = np.array([np.max(each * u - values) for each in s])
    assert scalar.conjugates(s) == pytest.approx(by_grid, abs=1e-5)


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


@pytest.mark.parametrize("name", RATIONAL)
def test_objectives_of_certificates_are_not_below_the_exact_ones(name):
    X, term, _, rng = case(name, 5)
    X = 1e3 + X  # cancellation
    problem = sm.MetricProblem(X, 0.7 * term + 0.01 * terms.Trace())
    exact = np.vectorize(Fraction, otypes=[object])
    for scale in (1e-3, 1.0, 30.0):
        L = scale * rng.normal(size=(2, D))
        M = exact(L).T @ exact(L)
        weight = Fraction(problem.terms[0].weight)
        value = weight * by_loops_exactly(problem.terms[0], exact(X), M) + Fraction(0.01) * sum(np.diag(M))
        found = Fraction(problem.certify(L).objective)
        assert value <= found <= value + abs(value) * Fraction(1, 10**9) + Fraction(1, 10**9)


def by_loops_exactly(term, X, M):
    """`by_loops` in rational arithmetic."""

    def D2(i, j):
        return (X[i] - X[j]) @ M @ (X[i] - X[j])

    def hinge(u):
        return max(u, Fraction(0)) ** (2 if getattr(term, "loss", "") == "squared_hinge" else 1)

    w = [Fraction(float(each)) for each in np.atleast_1d(getattr(term, "weights", 0.0))]
    if isinstance(term, terms.Pull):
        return sum(c * D2(i, j) for (i, j), c in zip(term.pairs, w, strict=True))
    if isinstance(term, terms.Trace):
        return sum(np.diag(M))
    if isinstance(term, terms.Frobenius):
        return Fraction(1, 2) * sum((M[i, j] - Fraction(term.to[i, j])) ** 2 for i in range(D) for j in range(D))
    if isinstance(term, terms.OffDiagonal):
        return sum(abs(M[i, j]) for i in range(D) for j in range(D) if i != j)
    if isinstance(term, terms.DistanceTargets):
        off = [D2(i, j) - Fraction(y) for (i, j), y in zip(term.pairs, term.targets, strict=True)]
        return sum(c * e * e / 2 for c, e in zip(w, off, strict=True))
    if isinstance(term, terms.DistanceBounds):
        rows = zip(term.pairs, term.bounds, term.sides, strict=True)
        u = [int(s) * (D2(i, j) - Fraction(b)) for (i, j), b, s in rows]
    elif isinstance(term, terms.QuadrupletHinge):
        u = [Fraction(term.margin) + D2(i, j) - D2(k, l) for i, j, k, l in term.quadruplets]
    elif isinstance(term, terms.TripletHinge):
        u = [Fraction(term.margin) + D2(i, j) - D2(i, l) for i, j, l in term.triplets]
    else:
        y = [1 if s else -1 for s in term.similar]
        rows = zip(term.pairs, y, strict=True)
        u = [Fraction(term.margin) - s * (Fraction(term.threshold) - D2(i, j)) for (i, j), s in rows]
    return sum(c * hinge(each) for c, each in zip(w, u, strict=True))


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


def test_triplets_of_labels_are_those_of_lmnn():
    rng = np.random.default_rng(4)
    X, y = data(rng), rng.permutation(np.repeat([0, 1, 2], [5, 10, 15]))
    lmnn = sm.LMNNProblem.from_labels(X, y, 2, push_weight=0.3)
    problem = sm.MetricProblem(
        X, 0.7 * terms.Pull(labels=y, n_neighbors=2) + 0.3 * terms.TripletHinge(labels=y, n_neighbors=2)
    )
    assert problem.total.losses[0].size == lmnn.source.size
    A = rng.normal(size=(D, D))
    assert_same(problem.objective(A), lmnn.objective(A))


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
