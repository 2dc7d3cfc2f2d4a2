"""Solutions on disk: what is saved comes back, without pickle, and only to its own problem."""

import numpy as np
import pytest
from instances import KINDS, assert_sandwich, make_instance

import sdpmetric as sm
from sdpmetric.core.certificate import Dual
from sdpmetric.core.solution import Solution
from sdpmetric.core.status import Status
from sdpmetric.core.trace import Trace, TraceRow
from sdpmetric.core.triplets import Triplets
from sdpmetric.programs import named


@pytest.fixture
def solution(small):
    L = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)
    dual = Dual(Triplets.from_array(np.array(small.statement.triplets[:5])), np.linspace(0, 0.3, 5))
    return Solution(
        components=L,
        certificate=small.problem.certify(L, dual=dual),
        status=Status.USER_LIMIT,
        solver="subgradient",
        dual=dual,
        trace=Trace([TraceRow(0, 0.5, np.inf, -np.inf), TraceRow(7, 1.25, 3.5, 1.0, 0.01, 12)]),
        n_iter=7,
        seconds=1.5,
        problem=small.problem,
        extras={"threshold": 1.5},
    )


PUSH_WEIGHTS = (0.35, 0.1, 0.85)
RIDGES = (0.4, 0.02, 3.0)


@pytest.mark.parametrize(("loss", "several"), [("hinge", False), ("squared_hinge", False), ("hinge", True)])
def test_the_parametric_program_is_the_plain_one_at_every_weight(loss, several):
    problem = make_instance("plain", 1, loss=loss).problem
    if several:
        problem = sm.MultiMetricLMNNProblem(problem, (np.arange(len(problem.X)) % 2).astype(np.int32), np.arange(2))
    program = sm.to_cvxpy(problem, parametric=True)
    assert program.is_dcp(dpp=True)
    assert {name: p.value for name, p in program.param_dict.items()} == {"push_weight": 0.3, "ridge": 0.0}
    for mu, ridge in zip(PUSH_WEIGHTS[:2], RIDGES[:2], strict=True):
        program.param_dict["push_weight"].value, program.param_dict["ridge"].value = mu, ridge
        weighted = problem.with_weights(push_weight=mu, ridge=ridge)
        fixed_program = sm.to_cvxpy(weighted)
        for stated in (program, fixed_program):
            for k, name in enumerate(["M0", "M1"] if several else ["M"]):
                named(stated)[name].value = np.eye(3) + 0.2 + k
            named(stated)["xi"].value = np.linspace(0, 2, named(fixed_program)["xi"].size)
        assert program.objective.value == pytest.approx(fixed_program.objective.value, rel=1e-12)
        assert program.solve(solver="CLARABEL") == pytest.approx(fixed_program.solve(solver="CLARABEL"), rel=1e-6)
        proven = sm.solve(weighted, solver="conic")
        assert proven.lower_bound - 1e-5 <= program.value <= proven.objective + 1e-5


# Three kinds with one of the losses; the rest at length.
QUICK = {("plain", "hinge"), ("constant", "squared_hinge"), ("listed", "hinge")}
PATHS = [
    pytest.param(kind, loss, marks=[] if (kind, loss) in QUICK else [pytest.mark.slow])
    for kind in KINDS
    for loss in ("hinge", "squared_hinge")
]


@pytest.mark.parametrize(("kind", "loss"), PATHS)
def test_every_point_of_an_exact_path_is_proven(kind, loss):
    problem = make_instance(kind, 1, ridge=0.1, loss=loss).problem
    for name, values in (("push_weight", (0.0, *PUSH_WEIGHTS, 1.0)), ("ridge", RIDGES)):
        solutions = sm.path(problem, **{name: values}, solver="conic")
        assert [getattr(s.problem, name) for s in solutions] == list(values)
        assert all(s.status is sm.Status.OPTIMAL and s.relative_gap <= 1e-6 for s in solutions)
        for solution in solutions[:-1:2]:
            assert_sandwich(solution, sm.solve(solution.problem, solver="conic"))
