"""Terms: arithmetic, weights of examples, bad arguments."""

import math

import numpy as np
import pytest
from cases import N, data, different

import sdpmetric as sm
from sdpmetric import terms

FOUR = np.random.default_rng(0).normal(size=(4, 3))
ANSWERS = ([[0, 1]], [0, 1, 2], [[0.0, 1.0, 2.0]], [[0, 1, 2, 3]])


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
    rows = {"labels": y, "n_neighbors": 2} if labels else {"triplets": triplets}
    term = terms.TripletHinge(**rows, sample_weight=w).bind(X)
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
        (lambda: sm.MetricProblem(np.eye(3), [terms.Trace()]), "terms"),
        (lambda: sm.MetricProblem(np.eye(3), terms.Trace()).with_weights(push_weight=1.0), "push_weight"),
        # Answers of people
        *[
            (lambda wrong=wrong: terms.odd_one_out(wrong), r"answers must be row numbers of shape \(t, 3\)")
            for wrong in ANSWERS
        ],
        (lambda: sm.MetricProblem(FOUR, terms.TripletHinge([[0, 1, 2]], loss="hard", margin=0.0)), "zero metric satis"),
        # Tasks and domains
        (lambda: sm.MetricProblem(FOUR, terms.Pull([[0, 1]]), tasks=[0, 1, 0, 1]), "two tasks"),
        (lambda: sm.MetricProblem(FOUR, terms.Pull([[0, 2]]), tasks=[0, 1, 0, 1], diagonal=True), "exclude"),
        (lambda: sm.MetricProblem(np.eye(3), terms.Trace(), diagonal=True, bases=np.eye(3)), "exclude"),
        (lambda: sm.MetricProblem(np.eye(3), terms.Trace(), bases=np.eye(2)), "bases"),
        (lambda: sm.MetricProblem(np.eye(3), terms.LogDet(), bases=np.eye(3)[:2]), "log_det"),
        (lambda: sm.MetricProblem(FOUR, terms.Trace(), diagonal=True).certify(np.ones((3, 3))), "domain"),
        (lambda: sm.MetricProblem(FOUR, terms.Trace(), bases=FOUR).certify(np.ones((3, 3))), "domain"),
        # Sums without a minimum
        (lambda: sm.MetricProblem(FOUR, terms.Spread([[0, 1], [1, 2], [2, 3]])), "no minimum"),
        (lambda: sm.MetricProblem(FOUR, terms.Spread([[0, 1], [1, 2], [2, 3]]) + terms.Pull([[0, 1]])), "2 directions"),
    ],
)
def test_bad_arguments_are_refused_by_a_sentence(make, words):
    with pytest.raises((TypeError, ValueError), match=words):
        make()


# Constraints on the corners of a simplex: the first holds at 1.21 I and not at I / 4, the second at neither.
HARD = {
    "bounds": lambda **w: terms.DistanceBounds([[0, 1], [0, 2]], at_least=[1.0, 3.0], **w),
    "triplets": lambda **w: terms.TripletHinge([[0, 1, 4], [0, 1, 2]], loss="hard", **w),
    "quadruplets": lambda **w: terms.QuadrupletHinge([[0, 1, 2, 4], [0, 1, 0, 2]], loss="hard", **w),
}
CORNERS = np.vstack([np.zeros(3), np.eye(3), np.sqrt(2.0) * np.eye(3)[:1] + [[0.0, 1.0, 0.0]]])


@pytest.mark.parametrize("name", HARD)
def test_hard_constraints_have_no_weight(name):
    """Objective, bound, CVXPY program and proof file say the same: a row of weight 0 is none, others hold."""
    make, regularizer, L = HARD[name], terms.Frobenius(to=1.21 * np.eye(3)), 1.1 * np.eye(3)
    for build in (
        lambda: 0 * make() + regularizer,
        lambda: make(weight=0.0) + regularizer,
        lambda: 0 * terms.Budget([[0, 1]]) + regularizer,
        lambda: make(weights=[0.0, 0.0]) + regularizer,
        lambda: make(sample_weight=[0.0, 1.0, 0.0, 1.0, 1.0]) + regularizer,
    ):
        with pytest.raises(ValueError, match="weight"):
            sm.MetricProblem(CORNERS, build())
    small, heavy = (
        sm.MetricProblem(CORNERS, term + regularizer) for term in (make(weights=[2.0, 0.0], weight=5e-3), make())
    )
    assert small.weights == ("frobenius",)
    assert small.certify(L).objective < 1e-20
    assert heavy.certify(L).objective == small.certify(0.5 * np.eye(3)).objective == math.inf
    program = sm.to_cvxpy(small)
    assert program.solve(solver="CLARABEL") == pytest.approx(0.0, abs=1e-6)
    assert sm.to_cvxpy(heavy).solve(solver="CLARABEL") > 0.1
    solution = sm.solve(heavy, tol=1e-4)
    assert solution.lower_bound > 0.1
    assert sm.solve(sm.MetricProblem(CORNERS, 7.0 * make() + regularizer), tol=1e-4).objective == pytest.approx(
        solution.objective, rel=1e-3
    )
    proof = small.proof(L, np.zeros(1))
    assert len(proof.terms[0].arrays["offsets"]) == 1
    assert proof.terms[0].about["weight"] == proof.terms[0].arrays["weights"] == 1.0
