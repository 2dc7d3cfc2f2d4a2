"""One list of statements behind the contract, the checker, the tests of interruption and of read-only data, and pages.

`FACTORIES` has every statement; `PROVEN` those with proof files, also of options that change the proof.
"""

from functools import cache

import contract
import numpy as np

import sdpmetric as sm
from sdpmetric import terms
from sdpmetric.core.registry import Solver

N, D = 26, 3


def data(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Unequal classes that overlap, features in different units."""
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1, 2], [11, 8, 7])
    X = rng.normal(size=(N, D)) + 0.7 * y[:, None] * np.array([1.0, -1.0, 0.3])
    return X * np.array([1.0, 0.5, 2.0]), y


def pairs_of(y):
    pairs = np.array([[i, (i + step) % N] for step in (5, 9) for i in range(N)])
    return pairs, y[pairs[:, 0]] == y[pairs[:, 1]]


def targets(X, y):
    pairs, same = pairs_of(y)
    return sm.LEGOProblem(X, pairs, np.where(same, 1.0, 4.0), learning_rate=0.3)


BASES = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [1, -1, 0], [0, 1, 1], [0, 1, -1], [1, 0, 1]])
# One line adds a statement: how to make one of labeled data.
FACTORIES = {
    "lmnn": lambda X, y: sm.LMNNProblem.from_labels(X, y, 2, 0.3),
    "kernel-lmnn": lambda X, y: sm.KernelLMNNProblem.from_labels(X, y, 2, 0.3, kernel="poly", degree=2, ridge=0.01),
    "multi-metric-lmnn": lambda X, y: sm.MultiMetricLMNNProblem.from_labels(X, y, 2, 0.3),
    "pola": lambda X, y: sm.POLAProblem.from_labels(X, y, 30, slack_weight=0.3),
    "pola, hard": lambda X, y: sm.POLAProblem.from_labels(
        X + (9 * y[:, None]).astype(X.dtype), y, 20, slack_weight=None
    ),
    "mmc": lambda X, y: sm.MMCProblem.from_labels(X, y, 40),
    "itml": lambda X, y: sm.ITMLProblem.from_labels(X, y, 30, gamma=0.7),
    "lego": targets,
    "lego-batch": lambda X, y: sm.LEGOBatchProblem(targets(X, y)),
    "nca": lambda X, y: sm.NCAProblem(X, y),
    "mlkr": lambda X, y: sm.MLKRProblem(X, y + 0.3 * X[:, 0]),
    "lsml": lambda X, y: sm.LSMLProblem.from_labels(X, y, 30),
    "sdml": lambda X, y: sm.SDMLProblem.from_labels(X, y, 30),
    "scml": lambda X, y: sm.SCMLProblem(X, sm.constraints.triplets(X, y, 2, 2), BASES, 0.1),
    "frml": lambda X, y: sm.FRMLProblem.from_labels(X, y, 2, "auc", regularization=0.1),
    "terms, triplets": lambda X, y: sm.MetricProblem(
        X, 0.7 * terms.Pull(labels=y, n_neighbors=2) + 0.3 * terms.TripletHinge(labels=y, n_neighbors=2) + terms.Trace()
    ),
    "terms, regularizers": lambda X, y: sm.MetricProblem(
        X,
        terms.LogDet(weight=0.5)
        + 2 * terms.Frobenius(to=np.eye(D))
        + 0.1 * terms.PairHinge(*pairs_of(y))
        + 0.1 * terms.TripletHinge(labels=y, n_neighbors=2, loss="logistic"),
    ),
    "terms, weights": lambda X, y: sm.MetricProblem(
        X, terms.TripletHinge(labels=y, n_neighbors=2, loss="squared_hinge") + terms.Frobenius(), diagonal=True
    ),
}
# The verbs of the table in docs/methods.md: what does not work is refused by a sentence.
WORKS = {
    "verify": {*FACTORIES} - {"lego", "nca", "mlkr", "frml"},
    "path": {*FACTORIES} - {"mmc", "lego", "nca", "mlkr"},
    "explain": {*FACTORIES} - {"lego", "nca", "mlkr", "frml"},
    "to_cvxpy": {*FACTORIES} - {"nca", "mlkr"},
}
EXAMPLES = [(name, entry.name) for name, make in FACTORIES.items() for entry in sm.solvers_of(make(*data()))]
# Values along a path, where others are out of range.
VALUES = {"gamma": [1.0, 2.0], "repulsion": [1e-4, 2e-4]}
# Relative gaps to ask for, where they are not those of the solvers.
TOLERANCES = {"conic": 1e-5, "subgradient": 1e-2, "batch": 0.9}


def make(name: str, seed: int = 0) -> sm.Problem:
    return FACTORIES[name](*data(seed))


def entry_of(name: str, solver: str) -> Solver:
    return next(entry for entry in sm.solvers_of(make(name)) if entry.name == solver)


@cache
def solved(name: str, solver: str) -> sm.Solution:
    """A statement solved by a solver, once, and checked."""
    return contract.check_solver(make(name), entry_of(name, solver), TOLERANCES.get(solver))


def solutions_of(name: str) -> list[sm.Solution]:
    return [solved(statement, solver) for statement, solver in EXAMPLES if statement == name]


def point(problem):
    """Components of the right shape, near the identity."""
    r = problem.X.shape[1]
    L = problem.domain.basis if problem.statement == "scml" else np.eye(r)[: getattr(problem, "n_components", r)]
    return np.stack([L] * 3) if problem.statement == "multi-metric-lmnn" else L


X, Y = data()
PAIRS = np.array([[i, (i + 5) % len(X)] for i in range(len(X))])
SAME = Y[PAIRS[:, 0]] == Y[PAIRS[:, 1]]
WEIGHTS = np.linspace(0.0, 2.0, len(X))
FIVE_PAIRS = np.array([[0, 1], [2, 3], [11, 12], [13, 14], [19, 20]])
M0 = np.eye(3) + 0.3
SIMILAR = [True, False, True, False, True]
FAR = np.array([[0, 1], [1, 2], [0, 2]])
# Statements whose proofs are not those of a factory.
SPECIAL = {
    "weights": lambda: sm.LMNNProblem.from_labels(X, Y, 2, 0.3, sample_weight=WEIGHTS, loss="squared_hinge"),
    "constant feature": lambda: sm.LMNNProblem.from_labels(np.column_stack([X, 0.0 * Y + 0.1]), Y, 2, 0.3),
    "listed": lambda: sm.LMNNProblem.from_triplets(X, [[0, 1, 12], [0, 2, 13], [12, 13, 2]], [1.0, 2.0, 3.0]),
    "pair weights": lambda: sm.MMCProblem(X, PAIRS, SAME, WEIGHTS + 0.1),
    "diagonal": lambda: sm.MetricProblem(X, terms.Frobenius(to=M0) + terms.TripletHinge(labels=Y), diagonal=True),
    "diagonal, LogDet": lambda: sm.MetricProblem(
        X, terms.LogDet(to=M0) + 0.1 * terms.TripletHinge(labels=Y, loss="squared_hinge"), diagonal=True
    ),
    "pairs": lambda: sm.MetricProblem(
        X, terms.LogDet() + terms.PairHinge(FIVE_PAIRS, SIMILAR, weights=[1, 2, 3, 4, 5])
    ),
    "regularizers": lambda: sm.MetricProblem(
        X,
        terms.LogDet() + terms.Frobenius() + 0.1 * terms.OffDiagonal() + terms.PairHinge(PAIRS, SAME, loss="logistic"),
    ),
    "bounds": lambda: sm.MetricProblem(
        X, terms.Trace() + terms.DistanceBounds(FAR, at_most=[3.0, 3.0, np.inf], at_least=[0.0, 0.0, 2.0])
    ),
    "contradiction": lambda: sm.MetricProblem(
        X, terms.Trace() + terms.DistanceBounds(FAR, at_most=[1.0, 1.0, np.inf], at_least=[0.0, 0.0, 9.0])
    ),
    "frml's relaxation": lambda: FACTORIES["frml"](X, Y).relaxation,
    "zero metric": lambda: sm.MetricProblem(np.eye(3), terms.Pull([[0, 1], [1, 2]])),
    "contradicting pairs": lambda: sm.POLAProblem(X, [[0, 1], [1, 0]], [True, False], None),
}
WITHOUT_PROOF = {"lego", "nca", "mlkr", "frml"}
PROVEN = {name: lambda make=make: make(X, Y) for name, make in FACTORIES.items() if name not in WITHOUT_PROOF} | SPECIAL
