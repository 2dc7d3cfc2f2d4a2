"""Terms: arithmetic, comparisons of several kinds, and terms of others, which are checked before loops read them."""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
import scipy.sparse as sp

import sdpmetric as sm
from sdpmetric import terms
from sdpmetric.core.triplets import Triplets
from sdpmetric.lmnn.sources import LabeledTriplets, ListedTriplets
from sdpmetric.losses import LOSSES


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


def test_comparisons_of_one_pair_many_times_and_with_itself_count_as_often(rng):
    X, L = rng.normal(size=(6, 3)), rng.normal(size=(2, 3))
    rows = np.array([[0, 1, 1, 0], [0, 1, 2, 3], [1, 0, 3, 2], [2, 3, 0, 1], [4, 5, 0, 1], [4, 5, 4, 5]])
    D = np.sum(((X[:, None] - X[None]) @ L.T) ** 2, axis=2)
    weights = np.arange(1.0, 7.0)
    expected = weights @ np.maximum(0.0, 0.5 + D[rows[:, 0], rows[:, 1]] - D[rows[:, 2], rows[:, 3]])
    problem = sm.MetricProblem(X, terms.QuadrupletHinge(rows, margin=0.5, weights=weights))
    assert problem.objective(L) == pytest.approx(expected, rel=1e-12)
    assert len(problem.total.pairs) == 3 + 2  # two far pairs are their own near ones


def test_multipliers_of_a_circle_are_a_proof_and_those_of_a_part_are_none():
    problem = sm.MetricProblem(
        np.eye(4), terms.TripletHinge([[0, 1, 2], [2, 0, 1], [1, 2, 0]], loss="hard") + terms.Trace()
    )
    nothing = np.zeros((0, 4))
    assert problem.certify(nothing, dual=np.ones(3)).contradiction == (0, 1, 2)
    open_chain = sm.MetricProblem(np.eye(4), terms.TripletHinge([[0, 1, 2], [2, 0, 1]], loss="hard") + terms.Trace())
    assert open_chain.certify(nothing, dual=np.ones(2)).kind == "duality"


N = 40


@dataclass(frozen=True, eq=False, repr=False)
class Apart(terms.MarginLoss):
    pairs: np.ndarray = None

    name = "apart"

    def bind(self, X):
        return replace(self, weights=np.ones(len(self.pairs)))

    def describe(self):
        return "pairs that should be apart"

    @property
    def rows(self):
        return terms.Rows.of_pairs(LOSSES["hinge"], self.pairs, signs=-1.0, offset=1.0)


@pytest.fixture
def X(rng):
    return rng.normal(size=(N, 3))


@pytest.mark.parametrize("row", [N, -1, 10**9])
def test_a_row_that_is_not_there_is_refused(X, rng, row):
    pairs = rng.integers(0, N, size=(30, 2))
    assert sm.MetricProblem(X, terms.Trace() + 0.1 * Apart(pairs)).total.n_multipliers == 30
    pairs[3, 1] = row
    with pytest.raises(ValueError, match=r"distance_pairs\(\) of apart has indices outside 0\.\.39"):
        sm.MetricProblem(X, terms.Trace() + 0.1 * Apart(pairs))


@pytest.mark.parametrize(
    ("attribute", "value", "match"),
    [
        ("distance_pairs", lambda self: self.pairs.astype(float), r"distance_pairs\(\) of apart must be an integer"),
        ("distance_pairs", lambda self: self.pairs.ravel(), r"distance_pairs\(\) of apart must be an int"),
        ("offset", property(lambda self: np.ones(29)), "offset of apart must have shape"),
        ("offset", property(lambda self: np.full(30, np.nan)), "offset of apart contains NaN"),
        ("combination", property(lambda self: -np.eye(30)), "combination of apart must be a sparse array"),
        ("combination", property(lambda self: -sp.eye_array(29)), "combination of apart must be a sparse array"),
        ("combination", property(lambda self: np.inf * sp.eye_array(30, format="csr")), "combination of apart c"),
        ("bind", lambda self, X: replace(self, weights=-np.ones(30)), "weights of apart must be at least 0"),
        ("bind", lambda self, X: replace(self, weights=np.full(30, np.inf)), "weights of apart contains NaN"),
        ("roles", lambda self: {"first": np.full(30, N)}, r"'first' in roles\(\) of apart has indices outside 0\.\.39"),
    ],
)
def test_what_does_not_fit_is_refused_by_a_sentence(X, rng, attribute, value, match):
    changed = dataclass(frozen=True, eq=False, repr=False)(type("Changed", (Apart,), {attribute: value}))
    with pytest.raises(ValueError, match=match):
        sm.MetricProblem(X, terms.Trace() + changed(rng.integers(0, N, size=(30, 2))))


def test_pairs_with_costs_are_checked_too(X):
    class Cost(terms.Pull):
        def pair_costs(self):
            return np.array([[0, N]]), np.ones(1)

    with pytest.raises(ValueError, match=r"pair_costs\(\) of pull has indices outside 0\.\.39"):
        sm.MetricProblem(X, Cost([[0, 1]]))


def test_triplet_sources_of_others_are_checked(X):
    labels, targets = np.zeros(N, dtype=np.int32), np.full((N, 1), N, dtype=np.int32)
    for source in (
        LabeledTriplets(targets, labels),
        LabeledTriplets(targets - 2 - N, labels),
        LabeledTriplets(targets[1:] - 1, labels),
        LabeledTriplets(targets - 1.0, labels),
        LabeledTriplets(targets - 1, labels - 1),
        ListedTriplets.from_triplets(Triplets.from_array(np.array([[0, 1, N]])), np.ones(1)),
    ):
        with pytest.raises(ValueError, match=r"triplets|targets must be row numbers"):
            sm.LMNNProblem(X, source)
