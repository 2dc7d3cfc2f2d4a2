"""The exact solver, bounds with further constraints, and small programs that print as the paper does."""

import re
from html import unescape

import cvxpy as cp
import numpy as np
import pytest
import scipy.optimize
from instances import assert_sandwich, make_instance, rounding

import sdpmetric as sm
from sdpmetric import bound
from sdpmetric.core.status import Status
from sdpmetric.lmnn import readable
from sdpmetric.lmnn.problem import LMNNProblem
from sdpmetric.lmnn.program import MARGINS
from sdpmetric.lmnn.solvers import reduced_program
from sdpmetric.lmnn.solvers.reduced_program import ReductionOptions
from sdpmetric.programs import named, to_cvxpy

PROVEN = 1e-6


def solve(problem, tol=PROVEN, **options):
    return sm.solve(problem, "conic", tol=tol, **options)


def test_a_large_cone_is_proven_on_faces_too(monkeypatch):
    monkeypatch.setattr(reduced_program, "OPTIONS", ReductionOptions(full_cone=2, face_margin=1))
    X = np.random.default_rng(3).normal(size=(24, 6))
    y = np.repeat([0, 1], [14, 10])
    problem = LMNNProblem.from_labels(X + 0.6 * y[:, None], y, 2, 0.3)
    face = solve(problem, tol=1e-4)
    monkeypatch.setattr(reduced_program, "OPTIONS", ReductionOptions(full_cone=40))
    assert_sandwich(face, solve(problem))


def test_a_cost_of_rank_zero_is_proven():
    """Targets coincide with their anchors: everything else can be pushed away at no cost, except what coincides."""
    X = np.array([[0.0, 0], [0, 0], [1, 2], [1, 2], [0, 0], [0, 0]])
    y = np.array([0, 0, 1, 1, 2, 2])
    problem = LMNNProblem.from_labels(X, y, 1, 0.3)
    assert problem.coordinates.rank == 0
    solution = solve(problem)
    assert solution.status is Status.OPTIMAL
    assert solution.objective == pytest.approx(0.3 * 8)


def test_polishing_is_an_option_and_is_named(small):
    rough = {"tol_gap_rel": 1e-4, "tol_gap_abs": 1e-4, "tol_feas": 1e-4}
    unpolished = solve(small.problem, tol=1e-9, backend_options=rough, polish=False)
    polished = solve(small.problem, tol=1e-9, backend_options=rough)
    assert not unpolished.certificate.info["polished"]
    assert unpolished.certificate.info["backend_lower_bound"] == unpolished.lower_bound
    assert polished.certificate.info["polished"]
    assert polished.certificate.info["backend_lower_bound"] < polished.lower_bound
    assert "polished" in str(polished)
    assert_sandwich(unpolished, polished, solve(small.problem))


def linear_program(instance):
    """LMNN over diagonal metrics is a linear program: scipy's optimum."""
    statement = instance.statement
    c = np.diag(statement.cost_matrix())
    B = np.array([np.diag(statement.margin_matrix(t)) for t in statement.triplets])
    w = statement.mu * np.array(statement.weights)
    t = len(w)
    result = scipy.optimize.linprog(
        np.concatenate([c, w]), A_ub=np.concatenate([-B, -np.eye(t)], axis=1), b_ub=-np.ones(t), method="highs"
    )
    return float(result.fun)


@pytest.mark.parametrize("kind", ["duplicates", "plain"])
def test_diagonal_metric_against_linear_programming(kind):
    instance = make_instance(kind, 1, mu=0.4)
    program = to_cvxpy(instance.problem)
    M = named(program)["M"]
    diagonal = cp.Problem(program.objective, [*program.constraints, cp.upper_tri(M) == 0])
    proven, expected = bound(diagonal), linear_program(instance)
    assert proven.lower_bound <= expected + rounding(expected)
    assert proven.lower_bound == pytest.approx(expected, rel=2e-6)
    assert expected <= proven.upper_bound + rounding(expected)
    # The problem without the constraint does better.
    assert solve(instance.problem).objective < min(proven.lower_bound, expected - 1e-3)


def test_a_program_of_fewer_triplets_bounds_from_below(small):
    every = small.problem.push.all_triplets()
    program = to_cvxpy(small.problem, every[::3])
    assert bound(program).lower_bound <= solve(small.problem).objective
    assert named(program)[MARGINS].size == len(every[::3])


LABELED = make_instance("plain", 1, mu=0.4)
STATED = {
    "itml": lambda X, y: sm.ITMLProblem.from_labels(X, y, 20),
    "mmc": lambda X, y: sm.MMCProblem.from_labels(X, y, 20),
    "pola": lambda X, y: sm.POLAProblem.from_labels(X, y, 20),
    "lsml": lambda X, y: sm.LSMLProblem.from_labels(X, y, 10),
    "sdml": lambda X, y: sm.SDMLProblem.from_labels(X, y, 20),
    "diagonal": lambda X, y: sm.MetricProblem(
        X, sm.terms.Frobenius() + sm.terms.TripletHinge(labels=y, n_neighbors=1), diagonal=True
    ),
}


@pytest.mark.parametrize("name", STATED)
def test_constraints_of_a_users_own_in_every_program(name):
    """The bound is above that of the statement without the constraint, and below what a metric within it costs."""
    problem = STATED[name](LABELED.problem.X, LABELED.y)
    program = to_cvxpy(problem)
    variables = program.var_dict
    free = sm.solve(problem, tol=1e-6)
    if name == "diagonal":
        constraint = variables["w"][0] <= 0.5 * free.metric[0, 0]
    else:
        M = variables.get("M", variables.get("A"))
        constraint = M[0, 0] <= 0.5 * free.metric[0, 0]
    edited = cp.Problem(program.objective, [*program.constraints, constraint])
    proven = bound(edited)
    edited.solve(solver="CLARABEL")
    assert proven.lower_bound > free.lower_bound
    assert proven.lower_bound <= edited.value + 1e-6 * abs(edited.value)
    assert edited.value <= proven.upper_bound + 1e-6 * abs(edited.value)


LINE = np.array([0.0, 1.0, 2.0, 3.5, 4.5, 5.5])[:, None]
PLANE = np.array([[0, 0], [1, 2], [3, 1], [4, 4], [2, 5], [5, 2.5]])
LABELS = [0, 0, 0, 1, 1, 1]
SMALL = {
    "line": lambda: sm.LMNNProblem.from_labels(LINE, LABELS, 1, 0.5),
    "plane": lambda: sm.LMNNProblem.from_labels(PLANE, LABELS, 1, 0.3, ridge=0.1),
    "squared": lambda: sm.LMNNProblem.from_labels(PLANE, LABELS, 1, 0.3, loss="squared_hinge"),
    "weights": lambda: sm.LMNNProblem.from_labels(PLANE, LABELS, 1, 0.6, sample_weight=[1, 2, 0.5, 1, 3, 1]),
    "several": lambda: sm.MultiMetricLMNNProblem.from_labels(PLANE, LABELS, 1, 0.6, ridge=0.01),
    "triplets": lambda: sm.LMNNProblem.from_triplets(PLANE, [[0, 1, 3], [3, 4, 0]], push_weight=0.7),
}


@pytest.mark.parametrize("name", SMALL)
def test_a_small_program_has_the_optimum_and_multipliers_of_the_large_one(name, monkeypatch):
    problem = SMALL[name]()
    small = problem.program()
    assert type(small).__name__ == "ReadableProgram"
    assert small.is_dcp(dpp=True)
    solution = sm.solve(problem, tol=1e-7, solver="conic")
    monkeypatch.setattr(readable, "MAX_TRIPLETS", 0)
    large = problem.program()
    assert "margins" in {constraint.label for constraint in large.constraints}
    for program in (small, large):
        program.solve(solver="CLARABEL", tol_gap_rel=1e-10, tol_gap_abs=1e-10, tol_feas=1e-10)
        assert program.value == pytest.approx(solution.objective, rel=1e-6)
    assert sm.bound(small).lower_bound <= solution.objective * (1 + 1e-9)
    assert sm.bound(small).upper_bound >= solution.lower_bound * (1 - 1e-9)


def test_six_points_are_equation_14_term_by_term():
    problem, mu = SMALL["line"](), 0.5
    program = problem.program()
    head, *rows = str(program).splitlines()
    pull, push = re.fullmatch(r"minimize \(1 - mu\) \* \((.*)\) \+ mu \* (.*)", head).groups()
    number = r"trace\(\[\[([\d.]+)\]\] @ M\)"
    i, j = problem.target_pairs
    assert [float(found) for found in re.findall(number, pull)] == ((LINE[i] - LINE[j]) ** 2).ravel().tolist()
    assert pull.count("+") == len(i) - 1
    assert push == "sum(xi)"
    triplets = problem.push.all_triplets().to_array().tolist()
    for t, ((i, j, l), row) in enumerate(zip(triplets, rows, strict=False)):
        B = (LINE[i] - LINE[l]).item() ** 2 - (LINE[i] - LINE[j]).item() ** 2
        assert row.removeprefix("subject to").strip() == f"push[{i},{j},{l}]: trace([[{B:.4g}]] @ M) >= 1 - xi[{t}]"
    assert [row.strip() for row in rows[len(triplets) :]] == ["slacks: xi >= 0", "cone: M >> 0"]
    assert program.param_dict["mu"].value == mu
    assert program.param_dict["(1 - mu)"].value == 1 - mu
    assert program.solve(solver="CLARABEL") == pytest.approx(4 / 3)


def test_latex_has_every_pull_and_every_slack():
    problem = SMALL["line"]()
    text = problem.to_latex()
    assert text.count(r"\xi_{") == 2 * problem.source.size
    assert text.startswith(r"\begin{aligned}")
    assert f"$${text}$$" in unescape(problem._repr_html_())
    large = sm.LMNNProblem.from_labels(*sm.datasets.load("iris"))
    assert r"\sum_{(i, j, l)} \xi_{ijl}" in large.to_latex()
    assert r"M^{r_l}" in sm.MultiMetricLMNNProblem.from_labels(*sm.datasets.load("iris"), ridge=0.1).to_latex()
