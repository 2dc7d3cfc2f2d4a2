"""Domains, LMNN as a sum, hard constraints and contradictions: exact and fast solvers prove each other."""

import numpy as np
import pytest
from cases import data, different, random_hard_problem
from instances import assert_same, assert_sandwich, few_and_many

import sdpmetric as sm
from sdpmetric import terms
from sdpmetric.sums import bound_terms


def rows_of_classes(labels, rng, m, k):
    rows = different(rng, 40 * m, k, len(labels))
    return rows[(labels[rows] == labels[rows[:, :1]]).all(axis=1)][:m]


def lmnn_problems(rng, X, y, loss):
    weights, masked = rng.exponential(size=len(X)), np.where(rng.random(len(X)) < 0.3, 0.0, 1.0)
    triplets = rows_of_classes(y, rng, 90, 2)
    triplets = np.column_stack([triplets, (triplets[:, 0] + 1) % len(X)])
    labeled = {"push_weight": 0.7, "loss": loss}
    return {
        "labels": sm.LMNNProblem.from_labels(X, y, **labeled),
        "ridge": sm.LMNNProblem.from_labels(X, y, 2, ridge=0.4, **labeled),
        "weights": sm.LMNNProblem.from_labels(X, y, sample_weight=weights, **labeled),
        "zero weights": sm.LMNNProblem.from_labels(X, y, sample_weight=masked, **labeled),
        "push alone": sm.LMNNProblem.from_labels(X, y, 1, 1.0, ridge=2.0, loss=loss),
        "triplets": sm.LMNNProblem.from_triplets(X, triplets, rng.exponential(size=len(triplets)), **labeled),
    }


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("name", ["labels", "ridge", "weights", "zero weights", "push alone", "triplets"])
def test_lmnn_and_its_sum_are_the_same_problem(name, loss):
    rng = np.random.default_rng(1)
    X, y = data(rng, 45, 4), np.arange(45) % 3
    lmnn = lmnn_problems(rng, X, y, loss)[name]
    total = lmnn.as_sum()
    for scale in (0.0, 0.1, 1.0, 10.0):
        L = scale * rng.normal(size=(3, 4))
        assert_same(total.objective(L), lmnn.objective(L))
        assert_sandwich(total.certify(L), lmnn.certify(L))
    fast, summed = sm.solve(lmnn, tol=1e-6), sm.solve(total, "factored", tol=1e-5)
    assert_sandwich(fast, summed)
    assert summed.objective - summed.lower_bound <= 1e-4 * summed.objective
    # Each certifies the metric of the other.
    assert_sandwich(total.certify(fast.components), lmnn.certify(summed.components), fast)


def test_a_sum_of_many_labeled_triplets_names_the_problem_without_a_list():
    rng = np.random.default_rng(1)
    X, y = data(rng, 200, 2), np.arange(200) % 2
    pull, push = 0.6 * terms.Pull(labels=y), 1.4 * terms.TripletHinge(labels=y, loss="squared_hinge")
    problem, L = sm.MetricProblem(X, pull + push + terms.Trace()), rng.normal(size=(2, 2))
    assert "push_weight=0.7, ridge=0.5, loss='squared_hinge'" in problem.easier()
    lmnn = sm.LMNNProblem.from_labels(X, y, push_weight=0.7, ridge=0.5, loss="squared_hinge")
    assert_same(problem.objective(L), 2.0 * lmnn.objective(L))
    for total in (pull + push + terms.LogDet(), pull + terms.TripletHinge(labels=y, n_neighbors=2), pull + push + push):
        assert "LMNNProblem" not in sm.MetricProblem(X, total).easier()
    assert "LMNNProblem" not in sm.MetricProblem(X, pull + push, diagonal=True).easier()


@pytest.mark.parametrize(("solver", "domain"), [("conic", None), ("factored", "diagonal"), ("factored", "bases")])
def test_constraints_that_are_named_contradict_each_other_and_are_needed_for_it(solver, domain):
    """Two pairs with the same difference, one 1 apart at most and one 2 at least, among bounds that hold anyway."""
    rng = np.random.default_rng(0)
    X = rng.integers(-9, 10, size=(12, 3)).astype(float)
    X[1] = X[0] + X[4] - X[3]
    pairs = np.array([[0, 1], [3, 4], [5, 6], [5, 7], [6, 7], [8, 9], [10, 11], [0, 5]])
    upper, lower = np.full(8, 900.0), np.full(8, 1e-3)
    upper[0], lower[1] = 1.0, 2.0  # the contradiction
    domain_option = {None: {}, "diagonal": {"diagonal": True}, "bases": {"bases": rng.normal(size=(12, 3))}}[domain]
    problem = sm.MetricProblem(X, terms.Trace() + terms.DistanceBounds(pairs, upper, lower), **domain_option)
    solution = sm.solve(problem, solver)
    assert solution.status is sm.Status.INFEASIBLE
    assert solution.certificate.contradiction == (0, 9)
    # Also of multipliers that spread a proof over constraints that it does not need.
    weights = np.where(np.isin(np.arange(16), [0, 9]), 1.0, 1e-5)
    assert problem.certify(problem.zero, dual=weights).contradiction == (0, 9)


@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize("apart", [1e-2, 1e-3, 1e-5])
def test_constraints_with_tiny_multipliers_are_named(apart, diagonal):
    """A pair `apart` is at most as far as under the identity, and one 1 apart at least ten times as far."""
    X, pairs = [[0.0], [apart], [1.0]], [[0, 1], [0, 2]]
    bounds = terms.DistanceBounds(pairs, [apart**2, np.inf], [0.0, 10.0])
    problem = sm.MetricProblem(X, terms.Trace() + bounds, diagonal=diagonal)
    dual = np.array([1.0, 1.1 * apart**2 / 10.0 * 9.0])
    certificate = problem.certify(problem.zero, dual=dual)
    assert certificate.kind == "infeasibility"
    assert certificate.contradiction == (0, 1)
    if apart >= 1e-3:  # closer pairs are beyond the solver's digits
        assert sm.solve(problem, "conic").certificate.contradiction == (0, 1)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_the_dual_of_a_frobenius_term_proves_what_other_solvers_do(loss):
    rng = np.random.default_rng(5)
    X, triplets = rng.normal(size=(40, 12)), different(rng, 60, 3, 40)
    total = terms.TripletHinge(triplets, loss=loss) + 2.0 * terms.Frobenius(to=np.eye(12)) + 0.1 * terms.Trace()
    problem = sm.MetricProblem(X, total)
    by_dual, by_factors = sm.solve(problem, "dual", tol=1e-6), sm.solve(problem, "factored", tol=1e-5)
    assert by_dual.certificate.proves_optimal(1e-6)
    assert_sandwich(by_dual, by_factors)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("strength", [10.0, 1.0])
def test_the_span_of_slopes_proves_what_other_solvers_do(strength, dtype, monkeypatch):
    """Also with costs, weights, and products in float32, and from a metric with its multipliers."""
    monkeypatch.setattr(bound_terms, "SINGLE_PRODUCTS", 1e4)
    rng = np.random.default_rng(5)
    X, triplets = (rng.normal(size=(90, 24)) / np.arange(1, 25)).astype(dtype), different(rng, 200, 3, 90)
    loss = terms.TripletHinge(triplets, loss="logistic", weights=rng.uniform(size=200))
    costs = 0.1 * terms.Trace() + 0.1 * terms.Pull(triplets[:30, :2])
    problem = sm.MetricProblem(X, loss + costs + strength * terms.Frobenius(to=np.eye(24) + 0.1))
    assert next(entry.name for entry in sm.solvers_of(problem)) == "span"
    by_span, by_factors = sm.solve(problem, "span", tol=1e-4), sm.solve(problem, "factored", tol=1e-4)
    assert by_span.certificate.proves_optimal(1e-4)
    assert_sandwich(by_span, by_factors)
    again = sm.solve(problem, "span", tol=1e-4, init=by_span.components, multipliers=by_span.dual)
    assert again.certificate.proves_optimal(1e-4)


def test_a_span_that_stalls_hands_its_point_on():
    """Costs leave the metric 0 at first, and few directions at the optimum."""
    rng = np.random.default_rng(5)
    X, triplets = rng.normal(size=(90, 12)), different(rng, 70, 3, 90)
    loss = terms.TripletHinge(triplets, loss="logistic") + terms.Pull(triplets[:30, :2])
    problem = sm.MetricProblem(X, loss + 0.1 * terms.Frobenius(to=np.eye(12)))
    assert sm.solve(problem, tol=1e-3).status is sm.Status.OPTIMAL


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_newtons_steps_take_the_gap_to_rounding(loss):
    rng = np.random.default_rng(8)
    X, triplets = rng.normal(size=(60, 8)), different(rng, 500, 3, 60)
    i, j, l = triplets.T
    target_gap, impostor_gap = (np.sum((X[i, :2] - X[column, :2]) ** 2, axis=1) for column in (j, l))
    triplets[target_gap > impostor_gap] = triplets[target_gap > impostor_gap][:, [0, 2, 1]]  # two features decide
    problem = sm.MetricProblem(X, terms.TripletHinge(triplets, loss=loss) + terms.Frobenius())
    assert sm.solve(problem, "dual", tol=1e-9, max_iter=1000).certificate.proves_optimal(1e-9)


def test_hard_bounds_beside_a_frobenius_term_hold_or_contradict_on_the_dual():
    rng = np.random.default_rng(7)
    X, pairs = rng.normal(size=(30, 8)), different(rng, 20, 2, 30)
    D = np.sum((X[pairs[:, 0]] - X[pairs[:, 1]]) ** 2, axis=1)
    regularizer = terms.Frobenius(to=np.eye(8))
    solution = sm.solve(
        sm.MetricProblem(X, regularizer + terms.DistanceBounds(pairs, 0.7 * D, 0.6 * D)), "dual", tol=1e-4
    )
    assert solution.status.word == "optimal"
    wrong = terms.DistanceBounds(
        np.concatenate([pairs, pairs]),
        np.concatenate([0.5 * D, np.full(20, np.inf)]),
        np.concatenate([0.0 * D, 0.9 * D]),
    )
    assert sm.solve(sm.MetricProblem(X, regularizer + wrong), "dual").status.word == "infeasible"


@pytest.mark.parametrize("seeds", few_and_many(range(3), 412), ids=str)
def test_sums_with_hard_bounds_are_proven(seeds):
    """Multipliers of hard bounds are of any size, and penalties become as steep as these ask for."""
    for seed in seeds:
        solution = sm.solve(random_hard_problem(seed), tol=1e-4)
        assert solution.status in (sm.Status.OPTIMAL, sm.Status.INFEASIBLE), (seed, solution)


def test_an_open_gap_says_which_sum_is_easier():
    rng = np.random.default_rng(5)
    X, triplets = rng.normal(size=(40, 6)), different(rng, 200, 3, 40)
    hinge, logistic = (terms.TripletHinge(triplets, loss=loss) for loss in ("hinge", "logistic"))
    for loss, advised in ((hinge, True), (logistic, False)):
        problem = sm.MetricProblem(X, loss + 0.1 * terms.Trace())
        solution = sm.solve(problem, tol=1e-9, max_iter=3)
        assert solution.status.word == "user_limit"
        assert solution.advice.startswith(solution.status.advice)
        assert ("loss='logistic'" in solution.advice) == advised
    assert sm.solve(problem, tol=0.1).advice == "The requested relative gap is proven, at the rigor of the certificate."


@pytest.mark.parametrize("regularizer", [terms.Trace(), terms.Frobenius(to=np.eye(4)), terms.LogDet()], ids=str)
def test_the_best_scale_is_that_of_the_smallest_objective(regularizer):
    rng = np.random.default_rng(0)
    X, L = rng.normal(size=(30, 4)), 7.0 * np.eye(4)
    problem = sm.MetricProblem(X, terms.TripletHinge(different(rng, 60, 3)) + regularizer)
    best = problem.best_scale(L)
    objectives = [problem.objective(multiple * best * L) for multiple in (1.0, 0.9, 1.1)]
    assert objectives[0] <= min(objectives) * (1.0 + 1e-9)


def test_programs_of_a_large_metric_have_an_answer():
    """A feature of 1e-55 has room for metrics of 1e110."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(12, 2)), 1e-55 * rng.normal(size=12)])
    labels = np.arange(12) % 2
    pull, push = terms.Pull(labels=labels, n_neighbors=1), terms.TripletHinge(labels=labels, n_neighbors=1)
    solution = sm.solve(sm.MetricProblem(X, pull + push), "conic")
    assert np.isfinite(solution.components).all()
    assert np.isfinite(sm.explain(solution).certificate.objective)


def test_sums_without_constraints_on_examples_have_nothing_to_explain():
    problem = sm.MetricProblem(np.eye(3), terms.Pull([[0, 1]]) + terms.LogDet())
    with pytest.raises(TypeError, match="none of its terms has constraints on single examples"):
        sm.explain(sm.solve(problem))


@pytest.mark.parametrize("name", ["itml", "lsml", "mmc", "pola", "hard", "frobenius", "trace"])
def test_few_rows_in_many_features_are_solved_in_their_span_and_certified_in_all_features(name, monkeypatch):
    random = np.random.default_rng(5)
    X, y = (random.normal(size=(10, 24)) + np.arange(10)[:, None] % 2).astype(np.float64), np.arange(10) % 2
    path, seen = [[i, i + 1] for i in range(9)] + [[0, 5], [2, 7], [1, 8]], list[tuple[int, ...]]()
    statements = {
        "itml": lambda: sm.ITMLProblem.from_labels(X, y, 12, gamma=0.1),
        "lsml": lambda: sm.LSMLProblem.from_labels(X, y, 20, comparison_weight=30.0),
        "mmc": lambda: sm.MMCProblem(X, path, np.arange(12) < 9),
        "pola": lambda: sm.POLAProblem.from_labels(X, y, 12, slack_weight=0.1, initial_threshold=2.0),
        "hard": lambda: sm.POLAProblem.from_labels(X, y, 12, slack_weight=None),
        "frobenius": lambda: sm.MetricProblem(
            X, terms.TripletHinge(labels=y, n_neighbors=1) + terms.Frobenius(to=0.1 * np.eye(24))
        ),
        "trace": lambda: sm.MetricProblem(X, terms.TripletHinge(labels=y, n_neighbors=1) + terms.Trace()),
    }
    problem = statements[name]()
    within = problem.in_span.problem
    assert within.X.shape[1] <= 10

    def score(L):
        seen.append(L.shape)
        return 1.0

    solution = sm.solve(problem, tol=1e-4, score=score)
    assert solution.problem is problem
    assert {shape[1] for shape in seen} == {24} == {solution.components.shape[1]}
    assert solution.relative_gap <= 1e-4
    if name == "pola":
        assert sm.solve(problem, "online").certificate.kind == "regret"
    for statement in (sm.MetricProblem, sm.POLAProblem):
        monkeypatch.setattr(statement, "in_span", None)
    restated = statements[name]()
    whole = sm.solve(restated, tol=1e-4)
    assert solution.lower_bound <= whole.objective
    assert whole.lower_bound <= solution.objective
    at_point = (sm.certify(stated, solution.components).lower_bound for stated in (problem, restated))
    assert next(at_point) == pytest.approx(next(at_point), rel=1e-3, abs=1e-2)
    certificate = sm.certify(restated, solution.components, dual=solution.dual)  # in all features
    assert certificate.objective == pytest.approx(solution.objective, rel=1e-6)
    assert certificate.lower_bound == pytest.approx(solution.lower_bound, rel=1e-6)


@pytest.mark.parametrize("regularizer", [terms.LogDet(), terms.Frobenius(to=np.eye(20))])
def test_a_trace_lowers_the_metric_outside_of_the_span_of_few_rows(regularizer):
    """Trace and regularizer together are least at less than M0 there, so the span alone has no optimum."""
    X, pairs = np.random.default_rng(0).normal(size=(6, 20)), [[0, 1], [1, 2], [3, 4], [0, 3], [1, 5], [2, 4]]
    hinge = terms.PairHinge(pairs, np.arange(6) < 3, threshold=3.0)
    solution = sm.solve(sm.MetricProblem(X, hinge + 0.5 * terms.Trace() + regularizer), tol=1e-3)
    assert solution.relative_gap <= 1e-3
