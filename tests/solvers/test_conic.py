"""The exact solver: proven on the full problem, by few rows or by all, plain or with constraints of a user's own."""

import cvxpy as cp
import numpy as np
import pytest
import scipy.optimize
from instances import assert_sandwich, make_instance, rounding

import sdpmetric as sm
from sdpmetric import bound
from sdpmetric.core import run as base
from sdpmetric.core.status import Status
from sdpmetric.formulations import named, to_cvxpy
from sdpmetric.formulations.lmnn import MARGINS, all_triplets
from sdpmetric.problems.lmnn import LMNNProblem
from sdpmetric.solvers.backend import Backend
from sdpmetric.solvers.lmnn import conic, constraint_generation, factored

PROVEN = 1e-6


def solve(problem, tol=PROVEN, max_time=None, max_iter=None, **options):
    budget = base.Budget(max_time, max_iter)
    return base.run(problem, conic.steps(problem, budget, tol, **options), budget, solver="conic", tol=tol)


@pytest.mark.parametrize("kind", ["pure", "listed", "graph"])
def test_few_rows_are_as_good_as_all(kind, monkeypatch):
    problem = make_instance(kind, 2, mu=0.3).problem
    every = solve(problem)
    monkeypatch.setattr(constraint_generation, "SMALL", 8)
    few = solve(problem)
    assert few.status is Status.OPTIMAL
    assert_sandwich(every, few)


def test_a_large_cone_is_proven_on_faces_too(monkeypatch):
    monkeypatch.setattr(constraint_generation, "WHOLE_CONE", 2)
    monkeypatch.setattr(constraint_generation, "FACE_MARGIN", 1)
    X = np.random.default_rng(3).normal(size=(24, 6))
    y = np.repeat([0, 1], [14, 10])
    problem = LMNNProblem.from_labels(X + 0.6 * y[:, None], y, 2, 0.3)
    face = solve(problem, tol=1e-4)
    monkeypatch.setattr(constraint_generation, "WHOLE_CONE", 40)
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


def test_options_reach_the_backend(small):
    assert solve(small.problem, backend_options={"max_iter": 1}).status is not Status.OPTIMAL


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"backend": "NOSUCH"}, ValueError, r"not an installed solver for semidefinite programs.*CLARABEL.*SCS"),
        ({"backend": "OSQP"}, ValueError, r"not an installed solver for semidefinite programs"),
        ({"backend": "SCIPY"}, ValueError, r"not an installed solver for semidefinite programs"),
        ({"backend": 3}, ValueError, r"backend 3 is not an installed solver"),
        ({"backend_options": "max_iter"}, TypeError, "backend_options must be a mapping"),
        ({"backend_options": {"no_such_option": 1}}, TypeError, "CLARABEL does not take .*no_such_option"),
        ({"backend": "SCS", "backend_options": {"no_such_option": 1}}, TypeError, "SCS does not take .*no_such_option"),
    ],
)
def test_bad_options_are_refused_before_any_work(small, monkeypatch, options, error, words):
    def no_work(*args, **kwargs):
        raise AssertionError("work was done")

    monkeypatch.setattr(factored, "steps", no_work)
    monkeypatch.setattr(constraint_generation, "generate", no_work)
    with pytest.raises(error, match=words):
        solve(small.problem, **options)


def test_an_interrupted_backend_leaves_the_point_of_the_start(small, monkeypatch):
    def interrupted(self, program, budget, options):
        raise KeyboardInterrupt

    monkeypatch.setattr(Backend, "run", interrupted)
    solution = solve(small.problem)
    assert solution.status is Status.INTERRUPTED
    assert solution.objective <= small.problem.objective(np.eye(small.d))


# -- an independent witness -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "backend"), [("graph", "CLARABEL"), ("listed", "SCS")])
def test_the_backend_alone_proves_what_is_asked(kind, backend, monkeypatch):
    """The fast solver's refinement has no part in an answer that the backend's own multipliers prove."""

    def never(*args):
        raise AssertionError("multipliers were polished")

    monkeypatch.setattr(conic, "refined_dual", never)
    problem = make_instance(kind, 1, mu=0.3, ridge=0.1).problem
    solution = solve(problem, backend=backend)
    assert solution.status is Status.OPTIMAL
    assert solution.certificate.info["backend_lower_bound"] == solution.lower_bound
    assert not solution.certificate.info["polished"]
    assert solution.lower_bound == problem.certify(solution.components, dual=solution.dual).lower_bound


def test_polishing_is_an_option_and_is_named(small):
    rough = {"tol_gap_rel": 1e-4, "tol_gap_abs": 1e-4, "tol_feas": 1e-4}
    own = solve(small.problem, tol=1e-9, backend_options=rough, polish=False)
    polished = solve(small.problem, tol=1e-9, backend_options=rough)
    assert not own.certificate.info["polished"]
    assert own.certificate.info["backend_lower_bound"] == own.lower_bound
    assert polished.certificate.info["polished"]
    assert polished.certificate.info["backend_lower_bound"] < polished.lower_bound
    assert "polished" in str(polished)
    assert_sandwich(own, polished, solve(small.problem))


# -- programs with further constraints ------------------------------------------------------------------------------


def edited(problem, further, **options):
    program = to_cvxpy(problem)
    constraints = further(named(program)["M"])
    return solve(problem, program=cp.Problem(program.objective, program.constraints + constraints), **options)


def off_diagonal(M):
    return [cp.multiply(1 - np.eye(M.shape[0]), M) == 0]


def linear_program(instance):
    """LMNN over diagonal metrics is a linear program: scipy's optimum."""
    statement = instance.statement
    c = np.diag(statement.cost_matrix())
    B = np.array([np.diag(statement.margin_matrix(t)) for t in statement.triplets])
    w = statement.mu * np.array(statement.weights)
    t = len(w)
    found = scipy.optimize.linprog(
        np.concatenate([c, w]), A_ub=np.concatenate([-B, -np.eye(t)], axis=1), b_ub=-np.ones(t), method="highs"
    )
    return float(found.fun)


@pytest.mark.parametrize(("kind", "backend"), [("duplicates", "CLARABEL"), ("plain", "SCS")])
def test_diagonal_metric_against_linear_programming(kind, backend):
    instance = make_instance(kind, 1, mu=0.4)
    tol = 1e-6 if backend == "CLARABEL" else 1e-4
    solution = edited(instance.problem, off_diagonal, tol=tol, backend=backend)
    expected = linear_program(instance)
    certificate = solution.certificate
    assert solution.status is Status.OPTIMAL
    assert certificate.program == "LMNN with 1 further constraint"
    assert certificate.lower_bound <= expected + rounding(expected)
    assert certificate.lower_bound == pytest.approx(expected, rel=2 * tol)
    assert solution.objective == pytest.approx(expected, rel=2 * tol)
    assert certificate.primal_residual <= 1e-4
    # The free problem is proven to do better: the bound is that of the program with its constraint.
    free = solve(instance.problem)
    assert free.objective < min(solution.lower_bound, expected - 1e-3)
    assert "rigor: rounding" in str(certificate)
    assert "proven lower bound" not in str(certificate)


@pytest.mark.parametrize("eps", [1e-2, 1e-7])
def test_an_assumption_proves_nothing(eps):
    """``diag(0, 2.25 / eps^2)`` is feasible and costs 0, and is far longer than anything the backend finds."""
    X = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, eps], [0.0, -eps]])
    problem = LMNNProblem.from_triplets(X, [[0, 1, 2], [0, 1, 3]], push_weight=0.5)
    solution = edited(problem, lambda M: [M[0, 0] <= 100])
    assert problem.objective(metric=np.diag([0.0, 2.25 / eps**2])) == 0.0
    assert solution.lower_bound <= 0.0
    assert solution.status is not Status.OPTIMAL
    with pytest.raises(ValueError, match=r"no proof|proof files"):
        solution.save_proof("nowhere.npz")
    assert "assumed_lower_bound" not in solution.certificate.info
    assumed = edited(problem, lambda M: [M[0, 0] <= 100], radius=10.0).certificate
    assert assumed.lower_bound <= 0.0
    if "assumed_lower_bound" in assumed.info:
        assert assumed.rigor == "assumption"
        assert "larger than 10" in str(assumed)


@pytest.mark.parametrize(
    "further",
    [
        lambda M: [cp.lambda_max(M) <= 0.2],
        lambda M: [cp.norm(M, "fro") <= 0.3, M[0, 0] == 0.05],
        lambda M: [M[:1, 1:] == 0, M[0, 0] + M[1, 1] >= 0.5],
        lambda M: [],
        lambda M: [cp.log_det(M) >= -8],
    ],
    ids=["eigenvalue", "length", "blocks", "none", "exponential cone"],
)
def test_further_constraints_of_all_sorts(further):
    problem = make_instance("plain", 1, mu=0.4).problem
    solution = edited(problem, further, tol=1e-5)
    certificate, free = solution.certificate, solve(problem)
    assert certificate.primal_residual <= 1e-5
    assert solution.status is Status.OPTIMAL
    assert certificate.rigor == ("rounding" if solution.lower_bound > free.objective else "float")
    assert solution.lower_bound == pytest.approx(solution.objective, rel=1e-5)
    assert solution.objective >= free.lower_bound - rounding(free.objective)


def test_single_precision_keeps_the_name_of_the_program():
    """Components are rounded after the solve and judged again; the bound must not pass for one of LMNN itself."""
    problem = make_instance("float32", 1, mu=0.4).problem
    solution = edited(problem, off_diagonal, tol=1e-5)
    assert solution.components.dtype == np.float32
    assert solution.certificate.program == "LMNN with 1 further constraint"
    assert solution.certificate.rigor == "rounding"
    assert solution.lower_bound > solve(problem, tol=1e-5).objective


def test_violated_constraints_are_owned_up_to(small):
    loose = {"tol_feas": 1e-1, "tol_gap_abs": 1e-1, "tol_gap_rel": 1e-1}
    kept = []

    def further(M):
        kept.append(1e4 * M[0, 1] == 200)
        return kept

    solution = edited(small.problem, further, backend_options=loose)
    missed = abs(1e4 * solution.metric[0, 1] - 200)
    assert missed > 0.1
    assert solution.certificate.primal_residual == pytest.approx(missed)


def test_constraints_that_cannot_hold_are_reported(small):
    with pytest.raises(ValueError, match=r"found no solution of program \(status infeasible"):
        edited(small.problem, lambda M: [cp.trace(M) <= -1])


def test_programs_that_are_something_else_are_refused(small):
    program = to_cvxpy(small.problem)
    M, xi = named(program)["M"], named(program)["xi"]
    own = program.constraints
    wrong = [
        cp.Problem(program.objective, own[1:]),
        cp.Problem(cp.Minimize(2 * program.objective.expr), own),
        cp.Problem(cp.Minimize(program.objective.expr + cp.Variable()), own),
        cp.Problem(cp.Minimize(program.objective.expr + cp.trace(M)), own),
        cp.Problem(cp.Minimize(program.objective.expr + xi[3]), own),
        cp.Problem(cp.Maximize(-program.objective.expr), own),
        cp.Problem(program.objective, [*own, cp.lambda_max(M) >= 1]),
        to_cvxpy(LMNNProblem.from_labels(small.problem.X[:, :2], small.y, 2, 0.3)),
    ]
    for other in wrong:
        with pytest.raises(ValueError, match="program"):
            solve(small.problem, program=other)


def test_a_program_of_fewer_triplets_bounds_from_below(small):
    every = all_triplets(small.problem)
    program = to_cvxpy(small.problem, every[::3])
    assert bound(program).lower_bound <= solve(small.problem).objective
    with pytest.raises(ValueError, match=r"program lacks the variable xi, \("):
        solve(small.problem, program=program)
    assert named(program)[MARGINS].size == len(every[::3])


LABELED = make_instance("plain", 1, mu=0.4)
STATED = {
    "itml": lambda X, y: sm.ITMLProblem.from_labels(X, y, 20),
    "mmc": lambda X, y: sm.MMCProblem.from_labels(X, y, 20),
    "pola": lambda X, y: sm.POLAProblem.from_labels(X, y, 20),
    "lsml": lambda X, y: sm.LSMLProblem.from_labels(X, y, 10),
    "sdml": lambda X, y: sm.SDMLProblem.from_labels(X, y, 20),
    "mcml": lambda X, y: sm.MCMLProblem(X, np.roll(y, 3)),
    "frobenius": lambda X, y: sm.FrobeniusLMNNProblem.from_labels(X, y, 1, 0.5, 0.1),
    "diagonal": lambda X, y: sm.MetricProblem(
        X, sm.terms.Frobenius() + sm.terms.TripletHinge(labels=y, n_neighbors=1), diagonal=True
    ),
}


@pytest.mark.parametrize("name", STATED)
def test_constraints_of_a_users_own_in_every_program(name):
    """The bound is the edited program's own, above that of the statement without the constraint."""
    problem = STATED[name](LABELED.problem.X, LABELED.y)
    program = to_cvxpy(problem)
    own = program.var_dict
    free = sm.solve(problem, tol=1e-6)
    if name == "diagonal":
        further = own["w"][0] <= 0.5 * free.metric[0, 0]
    else:
        M = own.get("M", own.get("A"))
        further = M[0, 0] <= 0.5 * free.metric[0, 0]
    edited = cp.Problem(program.objective, [*program.constraints, further])
    solution = sm.solve(problem, "conic", program=edited, tol=1e-4)
    certificate, between = solution.certificate, bound(edited)
    assert solution.status in (Status.OPTIMAL, Status.OPTIMAL_INACCURATE)
    assert certificate.program.endswith(" with 1 further constraint")
    assert certificate.rigor == "rounding"
    assert certificate.lower_bound > free.lower_bound
    assert certificate.lower_bound <= between.upper_bound + rounding(between.upper_bound)
    assert certificate.objective >= between.lower_bound - 1e-6 * abs(between.lower_bound)
    assert solution.metric[0, 0] <= 0.5 * free.metric[0, 0] + certificate.primal_residual + 1e-9
    with pytest.raises(ValueError, match="objective of program is not the problem's"):
        sm.solve(problem, "conic", program=cp.Problem(cp.Minimize(program.objective.expr * 2), edited.constraints))
