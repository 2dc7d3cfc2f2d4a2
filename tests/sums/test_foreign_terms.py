"""Terms of others are checked before compiled loops read the rows that they name."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import scipy.sparse as sp

import sdpmetric as sm
from sdpmetric import terms
from sdpmetric.core.triplets import Triplets
from sdpmetric.lmnn.triplets.listed import ListedTriplets
from sdpmetric.lmnn.triplets.sources import LabeledTriplets
from sdpmetric.losses import LOSSES

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
        (
            "distance_pairs",
            lambda self: self.pairs.astype(float),
            r"distance_pairs\(\) of apart must be an integer array",
        ),
        ("distance_pairs", lambda self: self.pairs.ravel(), r"distance_pairs\(\) of apart must be an int"),
        ("offset", property(lambda self: np.ones(29)), "offset of apart must have shape"),
        ("offset", property(lambda self: np.full(30, np.nan)), "offset of apart contains NaN"),
        ("combination", property(lambda self: -np.eye(30)), "combination of apart must be a sparse array"),
        ("combination", property(lambda self: -sp.eye_array(29)), "combination of apart must be a sparse array"),
        (
            "combination",
            property(lambda self: np.inf * sp.eye_array(30, format="csr")),
            "combination of apart contains",
        ),
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
