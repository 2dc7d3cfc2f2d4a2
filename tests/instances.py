"""What tests share: the repository's measure of rounding, and small instances."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import oracles
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris, load_wine
from sklearn.preprocessing import StandardScaler

from sdpmetric.core.certificate import Dual
from sdpmetric.core.triplets import Triplets
from sdpmetric.lmnn.problem import LMNNProblem
from sdpmetric.pola.problem import POLAProblem

# Optima of LMNN with three target neighbors on standardized data, by name and push weight.
OPTIMA = {("iris", 0.5): 234.33451, ("iris", 0.3): 201.99893, ("wine", 0.5): 208.91116, ("wine", 0.3): 217.49151}

# Nine rows of three features in different units, their labels, and pairs, one of them twice.
NINE_LABELS = np.array([0, 0, 0, 1, 1, 1, 1, 2, 2])
PAIRS = np.array([[0, 1], [2, 3], [4, 5], [0, 6], [1, 7], [2, 5], [6, 7], [3, 8], [3, 8]])
SIMILAR = np.array([1, 1, 1, -1, -1, -1, 1, -1, -1])


def nine_rows(seed: int = 0, d: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(9, d)) * np.array([1.0, 10.0, 0.3])[:d]


def standardized(name: str, push_weight: float) -> LMNNProblem:
    X, y = (load_iris if name == "iris" else load_wine)(return_X_y=True)
    return LMNNProblem.from_labels(StandardScaler().fit_transform(X), y, 3, push_weight)


def rounding(value: float) -> float:
    """What "up to rounding" means in this package."""
    return 1e-9 * max(1.0, abs(value))


def assert_same(value: float, expected: float) -> None:
    """Two numbers agree up to rounding."""
    assert np.isfinite(value)
    assert abs(value - expected) <= rounding(expected), f"{value!r} is not {expected!r}"


def assert_sandwich(*solutions) -> None:
    """Every lower bound is below every objective, up to rounding."""
    upper = min(solution.objective for solution in solutions)
    assert max(solution.lower_bound for solution in solutions) <= upper + rounding(upper), solutions


def assert_close(array: np.ndarray, expected: np.ndarray, scale: float | None = None) -> None:
    """Two arrays agree up to rounding of their largest entry, or of `scale`."""
    scale = max(np.abs(expected).max(initial=0.0), 1e-300) if scale is None else scale
    assert array.shape == expected.shape
    assert np.abs(array - expected).max(initial=0.0) <= 1e-9 * scale


@dataclass(frozen=True)
class Instance:
    """A problem of the package beside its plain statement."""

    problem: LMNNProblem
    statement: oracles.Statement
    y: np.ndarray

    @property
    def d(self) -> int:
        return self.statement.X.shape[1]

    def random_factor(self, rng: np.random.Generator) -> np.ndarray:
        """A factor of random rank and scale, in the units of the data."""
        spread = self.statement.X.std(axis=0)
        units = np.where(spread > 0, spread, 1.0)
        return rng.normal(size=(rng.integers(1, self.d + 2), self.d)) * 10 ** rng.uniform(-1.5, 1) / units

    def random_dual(self, rng: np.random.Generator) -> Dual:
        """Nonnegative multipliers, also outside the box, of foreign triplets, and of one triplet twice."""
        n, triplets = len(self.y), np.array(self.statement.triplets).reshape(-1, 3)
        chosen = triplets[rng.integers(0, len(triplets), rng.integers(0, 2 * len(triplets)))]
        foreign = rng.integers(0, n, (rng.integers(0, 4), 3))
        rows = np.concatenate([chosen, foreign])
        rows = rows[rng.permutation(len(rows))]
        return Dual(Triplets.from_array(rows), rng.exponential(10 ** rng.uniform(-3, 1), len(rows)))


KINDS = ("plain", "line", "wide", "pure", "constant", "duplicates", "graph", "listed", "jitter", "float32")


def make_instance(kind: str, seed: int, *, mu: float = 0.3, ridge: float = 0.0, loss: str = "hinge") -> Instance:
    """One small asymmetric problem of each kind that has ever made trouble.

    wide: fewer examples than features, in different units. pure: a feature is constant within each class, another
    within all but one. graph: unequal numbers of target neighbors, some without any. listed: own triplets with weights,
    some repeated, some of weight 0. jitter: a feature of two values and a little noise, so that it has hardly any pull.
    """
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    sizes = (6, 8) if kind == "jitter" else (4, 6, 3) if seed % 2 else (5, 7)
    y = np.repeat(np.arange(len(sizes)), sizes)[rng.permutation(sum(sizes))]
    n, k = len(y), 2
    d = {"line": 1, "wide": n + 3}.get(kind, 3)
    X = rng.normal(size=(n, d)) + 0.5 * y[:, None]
    options = {"ridge": ridge, "loss": loss}
    shared = (mu, ridge, loss == "squared_hinge")
    targets = None
    if kind == "wide":
        X *= 10 ** rng.uniform(-1, 1, d)
    elif kind == "pure":
        X[:, 1] = np.array([0.0, 1.0, 1.0])[y]
        X[:, 2] = np.where(y == 0, X[:, 2], 0.25)
    elif kind == "constant":
        X[:, 1] = 0.1
    elif kind == "duplicates":
        X[np.flatnonzero(y == 0)[:2]] = X[np.flatnonzero(y == 1)[:2]]
        X[np.flatnonzero(y == 1)[3]] = X[np.flatnonzero(y == 1)[4]]
    elif kind == "float32":
        X = X.astype(np.float32)
    elif kind == "jitter":
        group = np.array([np.sum(y[:i] == y[i]) % 2 for i in range(n)])
        X[:, 2] = group + 1e-6 * X[:, 2]
        X[:, 2] -= X[:, 2].mean()
        stretched = X * [1, 1, 100]
        targets = np.array(oracles.target_neighbors(stretched, y, k))
    if kind == "graph":
        graph = sp.dok_array((n, n))
        for i in range(n):
            same = [j for j in np.flatnonzero(y == y[i]) if j != i]
            for j in same[: rng.integers(0, 4)]:
                graph[i, j] = 1.0
        targets = [sorted(graph.tocsr()[[i]].nonzero()[1]) for i in range(n)]
        problem = LMNNProblem.from_labels(X, y, push_weight=mu, target_neighbors=graph.tocsr(), **options)
        return Instance(problem, oracles.Statement.from_targets(X, y, targets, *shared), y)
    if kind == "listed":
        every = np.array(oracles.all_triplets(oracles.target_neighbors(X, y, k), y))
        rows = every[rng.integers(0, len(every), 40)]
        weights = rng.exponential(size=len(rows)) * (rng.random(len(rows)) < 0.9)
        problem = LMNNProblem.from_triplets(X, rows, weights, mu, **options)
        triplets = [tuple(map(int, row)) for row in rows]
        return Instance(problem, oracles.Statement.from_triplets(X, triplets, weights, *shared), y)
    problem = LMNNProblem.from_labels(X, y, k, mu, target_neighbors=targets, **options)
    if targets is None:
        targets = oracles.target_neighbors(X.astype(float), y, k)
    return Instance(problem, oracles.Statement.from_targets(X, y, targets, *shared), y)


def check_weak_duality(case, rng, wrong=1.0):
    """Every bound, from whatever multipliers, is below every objective, from whatever metric."""
    problem, statement = case.problem, case.statement
    good = statement.good_factor()
    points = [good, case.random_factor(rng), 0 * good, problem.lift(np.zeros((0, problem.points.shape[1])))]
    objectives = [statement.objective_at(L) for L in points]
    certificates = [problem.certify(L) for L in points]
    certificates += [problem.certify(points[1], dual=case.random_dual(rng)) for _ in range(3)]
    best = min(objectives)
    for c in certificates:
        assert np.isfinite(c.lower_bound)
        assert c.lower_bound * wrong <= best + rounding(best), c
        assert c.relative_gap <= 1.0 or c.objective == np.inf
    return max(c.lower_bound for c in certificates), best


def few_and_many(few: Iterable[int], stop: int, *before: object) -> list:
    """Seeds for a test, after other arguments: a few, and all below `stop` in slow tests of 50 each."""
    many = (range(first, min(first + 50, stop)) for first in range(0, stop, 50))
    return [pytest.param(*before, few), *(pytest.param(*before, seeds, marks=pytest.mark.slow) for seeds in many)]


def separable(seed: int, weight: float | None = None, p: int = 25, start: float = 1.5) -> POLAProblem:
    """A hard margin that can be kept, with a planted metric of rank 2 in 3 dimensions."""
    rng = np.random.default_rng(seed)
    X, L = rng.normal(size=(15, 3)), rng.normal(size=(2, 3))
    pairs = np.array([rng.choice(15, 2, replace=False) for _ in range(p)])
    q = np.sum(((X[pairs[:, 0]] - X[pairs[:, 1]]) @ L.T) ** 2, axis=1)
    return POLAProblem(X, pairs, q < np.quantile(q, 0.4), weight, start)
