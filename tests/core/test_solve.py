"""The verbs, of any fitted estimator too, the solvers that "auto" tries one after another, and what notebooks show."""

from dataclasses import replace
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest
from instances import rounding
from sklearn.datasets import load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sdpmetric as sm
from sdpmetric.core.registry import Solver, solvers_to_try
from sdpmetric.core.run import EarlyStopping, Run, attempts
from sdpmetric.core.steps import Budget, Step
from sdpmetric.core.verbs import linear_map
from sdpmetric.engine.threads import BudgetSpent
from sdpmetric.estimators import LMNN


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(3)
    y = rng.choice(3, 80, p=[0.5, 0.3, 0.2])
    return sm.LMNNProblem.from_labels(rng.normal(size=(80, 5)) + 0.8 * np.outer(y, [1, 0, 1, 0, 0]), y, 2, 0.3)


@pytest.fixture(scope="module")
def exact(problem):
    return sm.solve(problem, solver="conic")


def test_progress_is_logged_only_when_asked(problem, caplog):
    sm.solve(problem)
    assert not caplog.messages
    solution = sm.solve(problem, verbose=True)
    assert "lower bound" in caplog.messages[0]
    assert caplog.messages[-1] == str(solution)
    assert " inf" not in caplog.text


def test_verify_judges_any_metric(problem, exact):
    tol, eye = 1e-3, np.eye(5)
    poor = sm.verify(problem, components=eye, tol=tol)
    assert poor.objective == pytest.approx(problem.objective(eye))
    assert exact.objective * (1 - 2 * tol) <= poor.lower_bound <= exact.objective + rounding(exact.objective)
    fitted = SimpleNamespace(components_=eye)
    for point in ({"metric": eye}, {"estimator": fitted}):
        assert sm.verify(problem, **point, tol=tol).objective == pytest.approx(poor.objective)
    assert sm.verify(problem, components=exact.components, tol=tol).proves_optimal(tol)
    rescaled = sm.verify(problem, components=1e-3 * eye, rescale=True)
    assert "multiplied by" in rescaled.program
    best = min(problem.objective(s * eye) for s in np.geomspace(0.05, 2, 60))
    assert rescaled.objective <= best * (1 + 1e-3)
    for point in ({}, {"components": eye, "estimator": fitted}):
        with pytest.raises(ValueError, match="exactly one"):
            sm.verify(problem, **point)


def test_a_callback_sees_every_row_and_may_end_a_solve(problem):
    ended_early = sm.solve(problem, tol=1e-14, callback=lambda row: True)
    assert (ended_early.status, len(ended_early.trace)) == (sm.Status.USER_LIMIT, 1)
    seen = []
    solution = sm.solve(problem, callback=seen.append)
    assert solution.status is sm.Status.OPTIMAL
    assert seen == solution.trace.rows
    stopped = sm.solve(problem, callback=lambda row: row.iteration == seen[-1].iteration)
    assert stopped.status is sm.Status.OPTIMAL  # what is proven is no limit


FLOWERS, KINDS = load_iris(return_X_y=True)
PROBLEM = sm.LMNNProblem.from_labels(FLOWERS, KINDS)
OPTIMUM = sm.solve(PROBLEM, tol=1e-4)


def stalls(problem, budget, tol):
    yield Step.certified(problem, np.eye(4))


def fails(problem, budget, tol):
    yield Step.certified(problem, np.eye(4))
    raise FloatingPointError


def closes(problem, budget, tol, *, init=None, multipliers=None):
    assert np.array_equal(init, np.eye(4))
    yield Step.certified(problem, OPTIMUM.components, OPTIMUM.dual)


def entry(steps, *options: str) -> Solver:
    return Solver(steps.__name__, steps, 1e-3, frozenset(options))


def solved(*solvers: Solver, tol: float = 1e-3) -> tuple[sm.Solution, str]:
    run = Run(PROBLEM, Budget(), tol)
    solution = run.over(attempts(run, solvers, {}))
    return solution, solution.solver


@pytest.mark.parametrize("first", [stalls, fails])
def test_the_next_solver_goes_on_from_the_best_point(first):
    solution, name = solved(entry(first), entry(closes, "init", "multipliers"))
    assert solution.status is sm.Status.OPTIMAL
    assert name == "closes"


def divides(problem, budget, tol):
    yield Step.certified(problem, np.eye(4))
    yield Step(np.eye(4), objective=1.0 / budget.spent)


@pytest.mark.parametrize("solvers", [(entry(divides),), (entry(divides), entry(stalls))])
def test_a_division_by_zero_in_a_solver_is_not_hidden(solvers):
    with pytest.raises(ZeroDivisionError):
        solved(*solvers)


def test_no_other_solver_runs_once_the_tolerance_is_proven():
    solution, name = solved(Solver("closes", lambda *_: iter([PROVEN]), 1e-3, frozenset()), entry(fails))
    assert (solution.status, name) == (sm.Status.OPTIMAL, "closes")


EYE, PROVEN = Step.certified(PROBLEM, np.eye(4)), Step.certified(PROBLEM, OPTIMUM.components, OPTIMUM.dual)


@pytest.mark.parametrize(
    ("steps", "scores", "status"),
    [
        ([EYE, EYE], [0, 1], "stalled"),  # the solver ends by itself
        ([EYE, EYE, EYE, EYE], [1, 0, 0, 2], "stopped_early"),
        ([PROVEN, EYE], [1, 2], "optimal"),
        ([EYE, PROVEN, EYE], [1, 0, 2], "stopped_early"),  # the gap is closed at another point than the best
    ],
)
def test_a_solve_is_stopped_early_only_if_its_score_cannot_rise_any_more(steps, scores, status):
    given, early = iter(scores), EarlyStopping(patience=2)
    run = Run(PROBLEM, Budget(), 1e-3, score=lambda _: next(given), early_stopping=early)
    assert run.over(iter(steps)).status.word == status


def test_of_equal_scores_the_latest_step_is_the_best():
    early, latest = EarlyStopping(patience=2), replace(PROVEN, score=1.0)
    assert [early(replace(EYE, score=1.0)), early(latest)] == [False, False]
    assert early.best is latest


def test_a_point_that_is_proven_after_a_limit_is_optimal():
    def steps():
        yield Step(OPTIMUM.components, objective=OPTIMUM.objective, multipliers=lambda: OPTIMUM.dual)
        raise BudgetSpent

    assert Run(PROBLEM, Budget(), 1e-3).over(steps()).status is sm.Status.OPTIMAL


def test_a_bound_that_one_point_proves_holds_for_all():
    bound, L = OPTIMUM.lower_bound, 0.9 * OPTIMUM.components
    elsewhere = Step.of_certificate(np.eye(4), replace(EYE.certificate, lower_bound=bound))
    solution = Run(PROBLEM, Budget(), 1e-9).over(iter([elsewhere, Step(L, objective=PROBLEM.objective(L))]))
    assert (solution.lower_bound, PROBLEM.certify(L).lower_bound < bound) == (bound, True)


def test_after_a_wrong_estimate_half_its_gap_is_certified_next(monkeypatch):
    certify, certified = type(PROBLEM).certify, []
    monkeypatch.setattr(type(PROBLEM), "certify", lambda *a, **options: certified.append(a) or certify(*a, **options))
    objectives = EYE.objective * np.array([0.9, 0.8, 0.7])
    claims = [Step(np.eye(4), objective=v, lower_bound=(1.0 - 9e-4) * v) for v in objectives]
    Run(PROBLEM, Budget(), 1e-3).over(iter(claims))
    assert len(certified) == 2  # the first claim, and the answer


def test_the_exact_solver_follows_the_factored_one_if_a_problem_is_small():
    assert [entry.name for entry in solvers_to_try(PROBLEM, "auto")] == ["factored", "conic"]
    large = sm.LMNNProblem.from_labels(np.random.default_rng(0).normal(size=(90, 30)), np.arange(90) % 3)
    assert [entry.name for entry in solvers_to_try(large, "auto")] == ["factored"]


def test_a_solve_that_no_solver_closes_is_stalled():
    for last in (stalls, fails):  # a failure of a later solver says nothing about the point of an earlier one
        solution, _ = solved(entry(stalls), entry(last))
        assert solution.status is sm.Status.STALLED
        assert solution.objective == pytest.approx(PROBLEM.objective(np.eye(4)), rel=1e-12)


@pytest.fixture(scope="module")
def solution():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 15)
    return sm.solve(sm.LMNNProblem.from_labels(rng.normal(size=(45, 3)) + y[:, None], y, ridge=0.25), "subgradient")


def test_notebooks_show_what_is_printed(solution):
    for shown in (solution, solution.problem, solution.certificate, sm.compare(solution), solution.trace):
        assert ElementTree.fromstring(f"<div>{shown._repr_html_()}</div>")[0].text == str(shown)


def test_a_trace_shows_no_empty_columns(solution):
    assert not {"mistakes", "score"} & set(str(solution.trace).splitlines()[0].split())
    assert str(sm.Trace()) == ""


def test_a_printed_trace_says_why_rounds_ended():
    solution = sm.solve(sm.NCAProblem(FLOWERS, KINDS))
    head, *rows = str(solution.trace).splitlines()
    assert head.split()[-1] == "stop"
    assert rows[-1].split()[-1] == str(solution.trace[-1].stop) == "tolerance"
    assert len(rows) == len(solution.trace)


WINE, WINES = load_wine(return_X_y=True)
AFFINE = [
    StandardScaler(),
    PCA(3, whiten=True),
    LinearDiscriminantAnalysis(),
    LinearDiscriminantAnalysis(solver="eigen"),
    NeighborhoodComponentsAnalysis(2, max_iter=5),
    make_pipeline(StandardScaler(), PCA(5), LMNN()),
    make_pipeline(StandardScaler(), LMNN(n_components=2), KNeighborsClassifier()),
]


@pytest.mark.parametrize("estimator", AFFINE, ids=lambda e: "-".join(s[0] for s in getattr(e, "steps", [(str(e), 0)])))
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_distances_under_the_map_are_those_of_the_embedding(estimator):
    fitted = estimator.fit(WINE, WINES)
    L = linear_map(fitted, WINE)
    Z = (fitted if hasattr(fitted, "transform") else fitted[:-1]).transform(WINE)
    expected = ((Z[:50] - Z[50:100]) ** 2).sum(axis=1)
    np.testing.assert_allclose((((WINE[:50] - WINE[50:100]) @ L.T) ** 2).sum(axis=1), expected, rtol=1e-6)
    problem = sm.LMNNProblem.from_labels(WINE, WINES)
    certificate = sm.verify(problem, estimator=fitted, rescale=True)
    assert certificate.objective == pytest.approx(problem.objective(problem.best_scale(L) * L), rel=1e-6)
    assert certificate.lower_bound <= certificate.objective


def test_pipelines_fitted_to_frames_find_their_columns(recwarn):
    frame = load_wine(as_frame=True).data
    fitted = make_pipeline(StandardScaler(), LMNN()).set_output(transform="pandas").fit(frame, WINES)
    pipeline = make_pipeline(StandardScaler(), LMNN()).fit(WINE, WINES)
    np.testing.assert_allclose(linear_map(fitted, WINE), linear_map(pipeline, WINE))
    assert not [w for w in recwarn if "feature names" in str(w.message)]
