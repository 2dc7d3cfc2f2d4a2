"""What every statement promises at every verb, with every solver: one factory a statement, one test a promise."""

from functools import cache

import numpy as np
import pytest
from instances import rounding
from typer.testing import CliRunner

import sdpmetric as sm
from sdpmetric import terms, testing
from sdpmetric.cli import app
from sdpmetric.core.problem import statements
from sdpmetric.core.registry import Solver
from sdpmetric.relatives.scml import nearest_triplets

N, D = 26, 3


def data(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Unequal classes that overlap, features in different units."""
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1, 2], [11, 8, 7])
    X = rng.normal(size=(N, D)) + 0.7 * y[:, None] * np.array([1.0, -1.0, 0.3])
    return X * np.array([1.0, 0.5, 2.0]), y


def targets(X, y):
    pairs = np.array([[i, (i + 5) % N] for i in range(N)] + [[i, (i + 9) % N] for i in range(N)])
    return sm.LEGOProblem(X, pairs, np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1.0, 4.0), learning_rate=0.3)


def pairs_of(y):
    pairs = np.array([[i, (i + 5) % N] for i in range(N)] + [[i, (i + 9) % N] for i in range(N)])
    return pairs, y[pairs[:, 0]] == y[pairs[:, 1]]


BASES = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [1, -1, 0], [0, 1, 1], [0, 1, -1], [1, 0, 1]])
# One line adds a statement: how to make one of labeled data.
FACTORIES = {
    "lmnn": lambda X, y: sm.LMNNProblem.from_labels(X, y, 2, 0.3),
    "kernel-lmnn": lambda X, y: sm.KernelLMNNProblem.from_labels(X, y, 2, 0.3, kernel="poly", degree=2, ridge=0.01),
    "multi-metric-lmnn": lambda X, y: sm.MultiMetricLMNNProblem.from_labels(X, y, 2, 0.3),
    "lmnn, frobenius": lambda X, y: sm.LMNNProblem.from_labels(X, y, 2, 0.3, frobenius=0.5),
    "pola": lambda X, y: sm.POLAProblem.from_labels(X, y, 30, slack_weight=0.3),
    "pola, hard": lambda X, y: sm.POLAProblem.from_labels(
        X + (9 * y[:, None]).astype(X.dtype), y, 20, slack_weight=None
    ),
    "mmc": lambda X, y: sm.MMCProblem.from_labels(X, y, 40),
    "mcml": lambda X, y: sm.MCMLProblem.from_labels(X, y),
    "itml": lambda X, y: sm.ITMLProblem.from_labels(X, y, 30, gamma=0.7),
    "lego": targets,
    "lego-batch": lambda X, y: sm.LEGOBatchProblem(targets(X, y)),
    "nca": lambda X, y: sm.NCAProblem(X, y),
    "mlkr": lambda X, y: sm.MLKRProblem(X, y + 0.3 * X[:, 0]),
    "lsml": lambda X, y: sm.LSMLProblem.from_labels(X, y, 30),
    "sdml": lambda X, y: sm.SDMLProblem.from_labels(X, y, 30),
    "scml": lambda X, y: sm.SCMLProblem(X, sm.constraints.triplets(X, y, 2, 2), BASES, 0.1),
    "mlr": lambda X, y: sm.MLRProblem.from_labels(X, y, "map", 4.0),
    "mlr, auc": lambda X, y: sm.MLRProblem.from_labels(X, y, "auc", 4.0),
    "frml": lambda X, y: sm.FRMLProblem.from_labels(X, y, 2, "auc", regularization=0.1),
    "queries": lambda X, y: sm.QueryProblem(X, nearest_triplets(X, y, 2, 3), 0.1),
    "queries, hinge": lambda X, y: sm.QueryProblem(X, nearest_triplets(X, y, 2, 3), 0.1, loss="hinge", margin=1.0),
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
        X, terms.TripletHinge(labels=y, n_neighbors=2, loss="smooth_hinge") + terms.Frobenius(), diagonal=True
    ),
}
QUERIES = {"queries", "queries, hinge"}
# The verbs of the table in docs/statements.md: what does not work is refused by a sentence.
WORKS = {
    "verify": {*FACTORIES} - {"lego", "nca", "mlkr", "frml"},
    "path": {*FACTORIES} - {"mmc", "mcml", "lego", "nca", "mlkr"},
    "explain": {*FACTORIES} - {"lego", "nca", "mlkr", "frml"},
    "to_cvxpy": {*FACTORIES} - {"nca", "mlkr", "mlr", "mlr, auc"},
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
    return testing.check_solver(make(name), entry_of(name, solver), TOLERANCES.get(solver))


def solutions_of(name: str) -> list[sm.Solution]:
    return [solved(statement, solver) for statement, solver in EXAMPLES if statement == name]


def test_every_statement_has_a_factory():
    assert {name for name, kind in statements().items() if kind.__module__.startswith("sdpmetric.")} <= set(FACTORIES)


@pytest.mark.parametrize("name", FACTORIES)
def test_solvers_agree_and_lower_bounds_are_below_objectives(name):
    testing.check_sandwich(solutions_of(name))


@pytest.mark.parametrize(("name", "solver"), EXAMPLES)
def test_save_and_load(name, solver, tmp_path):
    testing.check_saving(solved(name, solver))
    solved(name, solver).save(tmp_path / "solution.npz")
    with pytest.raises(ValueError, match=r"solution\.npz"):
        sm.Solution.load(tmp_path / "solution.npz", make(name, 1))


@pytest.mark.parametrize(("name", "solver"), EXAMPLES)
def test_limits_and_interruption_return_a_certified_point(name, solver):
    testing.check_limits(make(name), entry_of(name, solver))


@pytest.mark.parametrize("name", FACTORIES)
def test_equal_statements_are_equal_and_others_are_not(name):
    testing.check_identity(lambda: make(name))
    X, y = data()
    assert FACTORIES[name](X + 1e-9, y).fingerprint() != make(name).fingerprint()


@pytest.mark.parametrize("name", FACTORIES)
def test_bad_input_is_refused_by_a_sentence_before_any_work(name, monkeypatch):
    testing.check_bad_arguments(make(name))
    if name != "multi-metric-lmnn":  # whose points have three dimensions
        testing.check_bad_points(make(name))


@pytest.mark.parametrize("name", sorted({*FACTORIES} - {"kernel-lmnn"}))
def test_single_precision_in_single_precision_out(name):
    X, y = data()
    solution = sm.solve(FACTORIES[name](X.astype(np.float32), y), tol=1e-2, max_time=30)
    assert solution.components.dtype == np.float32


@pytest.mark.parametrize("name", ["lmnn", "kernel-lmnn", "multi-metric-lmnn", "lmnn, frobenius", "mcml", "mmc"])
def test_the_optimum_does_not_depend_on_the_order_of_rows_or_the_names_of_classes(name):
    X, y = data()
    state = {**FACTORIES, "mmc": lambda X, y: sm.MMCProblem.from_labels(X, y)}[name]
    order = np.random.default_rng(3).permutation(N)
    names = np.array(["c", "a", "b"])
    testing.check_sandwich([sm.solve(state(X, y)), sm.solve(state(X[order], names[y[order]]))])


def point(problem):
    """Components of the right shape, near the identity."""
    r = problem.X.shape[1]
    L = problem.domain.basis if problem.statement == "scml" else np.eye(r)[: getattr(problem, "n_components", r)]
    return np.stack([L] * 3) if problem.statement == "multi-metric-lmnn" else L


@pytest.mark.parametrize("name", FACTORIES)
def test_certify(name):
    problem = make(name)
    certificate = sm.certify(problem, point(problem))
    assert certificate.lower_bound <= certificate.objective
    if name == "frml" or name in QUERIES:
        return
    L = point(problem)
    assert abs(sm.certify(problem, metric=np.swapaxes(L, -1, -2) @ L).objective - certificate.objective) <= rounding(
        certificate.objective
    )


@pytest.mark.parametrize("name", FACTORIES)
def test_verify(name):
    problem = make(name)
    if name not in WORKS["verify"]:
        with pytest.raises(TypeError, match=type(problem).__name__):
            sm.verify(problem, point(problem))
        return
    for rescale in (False, True):
        certificate = sm.verify(problem, point(problem), rescale=rescale, tol=1e-2)
        assert certificate.lower_bound <= certificate.objective + rounding(certificate.objective)
        assert certificate.lower_bound >= sm.certify(problem, point(problem)).lower_bound - rounding(
            certificate.objective
        )


@pytest.mark.parametrize("name", FACTORIES)
def test_path(name):
    problem = make(name)
    if name not in WORKS["path"]:
        values = {weight: [0.5] for weight in problem.weights[:1]} or {"ridge": [0.5]}
        with pytest.raises((TypeError, ValueError)):
            sm.path(problem, **values)
        return
    for weight in problem.weights:
        solutions = sm.path(problem, tol=1e-2, max_time=30, **{weight: VALUES.get(weight, [0.3, 0.6])})
        assert [getattr(s.problem, weight, None) for s in solutions] in (VALUES.get(weight, [0.3, 0.6]), [None, None])
        assert len({s.problem.fingerprint() for s in solutions}) == 2
        assert all(s.status.expected for s in solutions)
    with pytest.raises(ValueError, match=problem.weights[0]):
        sm.path(problem)
    with pytest.raises(ValueError, match="nonsense"):
        sm.path(problem, nonsense=[1.0])


@pytest.mark.parametrize("name", FACTORIES)
def test_explain(name):
    for solution in solutions_of(name):
        if name not in WORKS["explain"] or solution.certificate.kind == "regret":
            with pytest.raises(TypeError, match="explain does not take"):
                sm.explain(solution)
            continue
        explanation = sm.explain(solution)
        certificate, sensitivity = explanation.certificate, explanation.sensitivity
        assert certificate.lower_bound <= solution.objective + rounding(solution.objective)
        assert certificate.objective == pytest.approx(sensitivity.at_most(), rel=1e-9)
        assert certificate.constraints in repr(explanation)
        for table in (explanation.support, explanation.influence, explanation.slacks):
            assert len({len(column) for column in table.to_dict().values()}) <= 1
        roles = {role: values.sum() for role, values in explanation.influence.by_role.items()}
        assert all(len(values) == N for values in explanation.influence.by_role.values())
        for kind in (("first", "second"), ("anchor", "target", "impostor"), ("near_first", "far_second")):
            sums = [roles[role] for role in kind if role in roles]
            assert sums == pytest.approx([sensitivity.margin or sums[0]] * len(sums) if sums else [], rel=1e-9)
        support, size = explanation.support, explanation.support.multipliers.max(initial=1e-9)
        assert (support.lower <= support.multipliers + 1e-9 * size).all()
        assert (support.multipliers <= support.upper + 1e-9 * size).all()
        assert (explanation.slacks.values > 0).all()


@pytest.mark.parametrize("name", FACTORIES)
def test_to_cvxpy(name):
    problem = make(name)
    if name not in WORKS["to_cvxpy"]:
        with pytest.raises(TypeError, match=type(problem).__name__):
            sm.to_cvxpy(problem)
        return
    program = sm.to_cvxpy(problem)
    assert program.is_dcp()
    if name not in ("lmnn", "lmnn, frobenius", "kernel-lmnn", "multi-metric-lmnn"):
        with pytest.raises(TypeError, match="parametric"):
            sm.to_cvxpy(problem, parametric=True)


@pytest.mark.parametrize("name", FACTORIES)
def test_compare_sets_equals_side_by_side_and_refuses_the_rest(name):
    solutions = solutions_of(name)
    alike = [s for s in solutions if type(s.certificate) is type(solutions[0].certificate)]
    alike = [s for s in alike if s.certificate.program == solutions[0].certificate.program]
    assert sm.compare(*alike).consistent
    assert solutions[0].solver in str(sm.compare(*alike))
    for second in solutions:
        if type(second.certificate) is not type(solutions[0].certificate):
            with pytest.raises(ValueError, match="certificates"):
                sm.compare(solutions[0], second)
    elsewhere = solved("itml" if name != "itml" else "mmc", "conic")
    with pytest.raises(ValueError, match="different problems"):
        sm.compare(solutions[0], elsewhere)


@pytest.mark.parametrize("name", sorted(statements()))
def test_command_line(name, tmp_path):
    X, y = data()
    np.savez(tmp_path / "data.npz", X=X, y=y)
    settings = ["--set", "n_pairs=20"] if name in ("pola", "mmc", "itml", "lego", "lego-batch") else []
    settings += ["--set", "ridge=0.1"] if name == "kernel-lmnn" else []
    arguments = [str(tmp_path / "data.npz"), "--statement", name, *settings]
    result = CliRunner().invoke(app, ["solve", *arguments, "--output", str(tmp_path / "metric.npz")])
    assert result.exit_code == 0, result.output
    result = CliRunner().invoke(app, ["verify", *arguments[:1], str(tmp_path / "metric.npz"), *arguments[1:]])
    assert result.exit_code == (0 if name in WORKS["verify"] else 2), result.output
    result = CliRunner().invoke(app, ["solve", *arguments, "--set", "nonsense=1"])
    assert result.exit_code == 2
    assert "nonsense" in result.output


@pytest.mark.parametrize("name", FACTORIES)
def test_bad_multipliers_are_refused_by_a_sentence(name):
    problem = make(name)
    if name in ("nca", "mlkr", "frml", "mcml"):  # their lower bounds need none
        return
    for bad in (np.zeros(1), np.full(10_000, np.nan)):
        with pytest.raises((TypeError, ValueError), match="dual"):
            sm.certify(problem, point(problem), dual=bad)
