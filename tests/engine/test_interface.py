"""Several shards in one process: the same proofs as with one, whatever is lost on the way; what engines are refused."""

import pickle
from dataclasses import dataclass, field

import numpy as np
import pytest
from instances import rounding
from sklearn.datasets import make_blobs

import sdpmetric as sm
from sdpmetric.engine import interface
from sdpmetric.engine.interface import LocalShards, ShardLost, shares_of


@dataclass
class Unreliable(LocalShards):
    engine: object = None

    def call(self, method, *args, **kwargs):
        self.engine.calls += 1
        if self.engine.calls in self.engine.fails_at:
            raise ShardLost("a test")
        return super().call(method, *args, **kwargs)


@dataclass
class Pieces(interface.Threads):
    """Shards that have been sent somewhere, as far as they can tell."""

    local = False
    shares: tuple = (1.0, 1.0, 2.0)
    fails_at: tuple = ()
    calls: int = 0
    placed: list = field(default_factory=list)

    def place(self, make, shared, size):
        sent = pickle.dumps(shared)
        self.placed.append((len(sent), size))
        return Unreliable([make(pickle.loads(sent), share) for share in shares_of(self.shares)], self)


def blobs(n=300, loss="hinge", **options):
    X, y = make_blobs(n, 6, centers=4, cluster_std=3.0, random_state=0)
    X[:3] = X[-3:]  # impostors at the very place of their anchors
    return sm.LMNNProblem.from_labels(X, y, 3, 0.5, loss=loss, **options)


@pytest.mark.parametrize(
    ("kind", "fails_at"),
    [("hinge", (1, 2)), ("squared_hinge", ()), ("single precision", ()), ("null directions", (1, 2))],
)
def test_certificates_over_shards_agree_with_those_over_the_whole(kind, fails_at):
    problem = blobs(loss="squared_hinge") if kind == "squared_hinge" else blobs()
    if kind == "single precision":
        problem = sm.LMNNProblem.from_labels(problem.X.astype(np.float32), problem.source.labels, 3, 0.5)
    if kind == "null directions":
        y = problem.source.labels
        problem = sm.LMNNProblem.from_labels(np.column_stack([problem.X, y == 0]), y, 3, 0.5)
    L = problem.lift(2.0 * np.eye(problem.coordinates.rank))
    dual = sm.solve(problem, tol=1e-2).dual
    for multipliers in (None, dual):
        local = problem.certify(L, dual=multipliers)
        with interface.using(Pieces(fails_at=fails_at)):
            over_shards = problem.certify(L, dual=multipliers)
        assert abs(local.objective - over_shards.objective) <= rounding(local.objective)
        assert abs(local.lower_bound - over_shards.lower_bound) <= rounding(local.lower_bound)
        assert local.n_active == over_shards.n_active
        assert local.lower_bound > 0.0


@pytest.mark.parametrize("fractions", [(0.02,), (0.2, 0.21, 0.5, 0.95)])
def test_a_solve_goes_on_after_shards_were_lost(fractions):
    reference = Pieces()
    sm.solve(blobs(), tol=1e-4, engine=reference)
    fails_at = tuple(int(fraction * reference.calls) for fraction in fractions)
    engine = Pieces(fails_at=fails_at)
    solution = sm.solve(blobs(), tol=1e-4, engine=engine)
    assert engine.calls > max(fails_at)
    assert solution.status is sm.Status.OPTIMAL


def test_shards_that_are_lost_again_and_again_end_the_solve():
    with pytest.raises(ShardLost, match="again and again"):
        sm.solve(blobs(), engine=Pieces(fails_at=tuple(range(10, 10_000))))


def test_several_metrics_and_bounded_ranks_over_shards():
    X, y = make_blobs(150, 4, centers=3, cluster_std=3.0, random_state=0)
    several = sm.solve(sm.MultiMetricLMNNProblem.from_labels(X, y, 3, 0.5), tol=1e-2, engine=Pieces())
    assert several.status is sm.Status.OPTIMAL
    low = sm.solve(blobs(), tol=1e-3, n_components=2, engine=Pieces())
    assert low.components.shape == (2, 6)
    assert low.lower_bound <= low.objective
