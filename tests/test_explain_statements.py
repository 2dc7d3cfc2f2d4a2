"""What multipliers mean: by hand, by loops, intervals and proven optima, for every statement that has them."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from instances import Instance, assert_close, assert_same, rounding

import sdpmetric as sm

N = 14
RNG = np.random.default_rng(3)
y = np.repeat([0, 1, 2], [5, 5, 4])[RNG.permutation(N)]
X = RNG.normal(size=(N, 3)) + 0.4 * y[:, None]
PAIRS = np.array([RNG.choice(N, 2, replace=False) for _ in range(24)])
EUCLIDEAN = np.sum((X[PAIRS[:, 0]] - X[PAIRS[:, 1]]) ** 2, axis=1)
# Only the first feature matters, and a metric tells them apart.
SIMILAR = np.abs(X[PAIRS[:, 0], 0] - X[PAIRS[:, 1], 0]) < 0.7
SIDES = np.arange(24) % 3 - 1
TARGETS = EUCLIDEAN * RNG.uniform(0.5, 1.5, 24)


def pola(slack_weight: float | None) -> sm.POLAProblem:
    return sm.POLAProblem(X, PAIRS, SIMILAR, slack_weight, initial_threshold=4.0)


def lego() -> sm.LEGOBatchProblem:
    return sm.LEGOBatchProblem(sm.LEGOProblem(X, PAIRS, TARGETS, SIDES, 0.3))


CASES: dict[str, Callable[[], sm.Problem]] = {
    "several": lambda: sm.MultiMetricLMNNProblem.from_labels(X, y, 2, 0.3, ridge=0.1),
    "squared": lambda: sm.LMNNProblem.from_labels(X, y, 2, 0.3, ridge=0.1, loss="squared_hinge"),
    "pola": lambda: pola(0.3),
    "hard": lambda: pola(None),
    "itml": lambda: sm.ITMLProblem(X, PAIRS, SIMILAR, 1.0, 3.0, gamma=0.4, prior=np.diag([1.0, 2.0, 0.5])),
    "lego": lego,
}
TRIPLETS = ("several", "squared")
EVERY = pytest.mark.parametrize("name", CASES)


@cache
def solved(name: str) -> sm.Solution:
    """The optimum of a case."""
    return tight(CASES[name]())


def tight(problem: sm.Problem) -> sm.Solution:
    """A solution with a gap that finite differences can bear."""
    exact = isinstance(problem, sm.LMNNProblem | sm.MultiMetricLMNNProblem)
    solution = sm.solve(problem, "conic" if exact else "auto", tol=1e-9)
    assert solution.relative_gap <= 1e-7
    return solution


def loosened(solution: sm.Solution, seed: int, size: float) -> sm.Solution:
    """Another point and other multipliers, at some distance from the optimum."""
    rng, L, dual = np.random.default_rng(seed), solution.components, solution.dual
    if isinstance(solution.problem, sm.POLAProblem) and solution.problem.slack_weight is None:
        L = (1 + size) * L  # any other change might miss the hard margins
    else:
        L = L + size * rng.normal(size=L.shape) * np.abs(L).mean()
    if isinstance(dual, sm.Dual):
        dual = replace(dual, values=dual.values * rng.uniform(1 - size, 1 + size, len(dual)))
    elif dual is not None:
        dual = dual * rng.uniform(1 - size, 1 + size, len(dual))
    return replace(solution, components=L, dual=dual, extras={})


# What the sums of a program are multiplied by in its objective.
FACTORS = {
    "several": {"pull": 0.7, "push": 0.3, "trace": 0.1},
    "squared": {"pull": 0.7, "push": 0.3, "trace": 0.1},
    "pola": {"frobenius": 1.0, "threshold": 1.0, "slack": 0.3},
    "hard": {"frobenius": 1.0, "threshold": 1.0},
    "itml": {"divergence": 1.0, "slack": 0.4},
    "lego": {"divergence": 1.0, "loss": 0.3},
}


@EVERY
def test_sums_influence_and_slacks_agree_with_loops(name: str) -> None:
    solution = loosened(solved(name), 3, 0.2)
    explanation, problem = sm.explain(solution), solution.problem
    sums, objective = explanation.slacks.sums, explanation.certificate.objective
    assert set(sums) == set(FACTORS[name])
    assert_same(sum(factor * sums[key] for key, factor in FACTORS[name].items()), objective)
    constraints = problem.constraints(np.asarray(solution.components, float), solution.dual)
    metrics, n = solution.metrics.astype(float), N
    regions = problem.regions if isinstance(problem, sm.MultiMetricLMNNProblem) else np.zeros(n, int)

    def D(a: int, b: int) -> float:
        return float((problem.X[a] - problem.X[b]) @ metrics[regions[b]] @ (problem.X[a] - problem.X[b]))

    contribution, roles = np.zeros(n), {role: np.zeros(n) for role in constraints.roles}
    slack_roles = {role: np.zeros(n) for role in constraints.roles}
    costs = 0.0
    losses = constraints.loss.values(constraints.excess)
    for t, a in enumerate(constraints.multipliers):
        rows = {role: int(values[t]) for role, values in constraints.roles.items()}
        for role, row in rows.items():
            roles[role][row] += a
            slack_roles[role][row] += losses[t]
        if name in TRIPLETS:
            i, j, l = rows["anchor"], rows["target"], rows["impostor"]
            signed, excess = [(i, l, D(i, l)), (i, j, -D(i, j))], 1 - D(i, l) + D(i, j)
        else:
            i, j, t_pair = rows["first"], rows["second"], int(constraints.columns.get("pair", np.arange(N))[t])
            if name == "lego":
                sign = -1.0 if constraints.columns["at_most"][t] else 1.0
                excess = -sign * (D(i, j) - TARGETS[t_pair])
            else:
                sign = -1.0 if SIMILAR[t_pair] else 1.0
                b = problem.repair(solution.components)[1] if name in ("pola", "hard") else 0.0
                excess = 1 - sign * (D(i, j) - b) if b else -sign * (D(i, j) - (1.0 if SIMILAR[t_pair] else 3.0))
            signed = [(i, j, sign * D(i, j))]
        assert name == "hard" or abs(excess - constraints.excess[t]) <= 1e-7 * max(1, abs(excess))
        for first, second, value in signed:
            contribution[[first, second]] += a * value / 2
        costs += losses[t]
    assert_close(explanation.influence.contribution, contribution, 1e3 * max(1, np.abs(contribution).max()))
    for role in constraints.roles:
        assert_close(explanation.influence.by_role[role], roles[role], 10.0 * max(1, roles[role].max()))
        assert_close(explanation.slacks.by_role[role], slack_roles[role], 10.0 * max(1, slack_roles[role].max()))
        # Listing moves multipliers to their best multiple once more, which the flat dual fixes to half the digits.
        assert explanation.influence.by_role[role].sum() == pytest.approx(
            float(constraints.multipliers.sum()), rel=1e-6
        )
    assert_same(explanation.slacks.losses.sum(), costs)
    assert (np.diff(explanation.slacks.values) <= 0).all()
    assert (np.diff(explanation.support.multipliers) <= 0).all()


@EVERY
def test_weights_by_proven_optima(name: str) -> None:
    solution, step = solved(name), 1e-3
    problem = solution.problem
    sensitivity = sm.explain(solution).sensitivity
    assert set(sensitivity.weights) == (set() if name == "hard" else set(problem.weights))
    for weight, derivative in sensitivity.weights.items():
        value = {"gamma": 0.4, "ridge": 0.1}.get(weight, 0.3)
        above, below = (tight(problem.with_weights(**{weight: value + s * step})) for s in (1, -1))
        low, high = (above.lower_bound - solution.objective) / step, (solution.objective - below.lower_bound) / step
        assert low <= derivative <= high
        assert high - low <= 0.1 * max(1.0, abs(derivative))
        linear = sensitivity.at_most(**{weight: value + 0.2}) - sensitivity.at_most(**{weight: value - 0.05})
        assert linear == pytest.approx(0.25 * derivative, rel=1e-6, abs=1e-9)
        moved_optimum = tight(problem.with_weights(**{weight: 0.6}))
        assert moved_optimum.lower_bound <= sensitivity.at_most(**{weight: 0.6}) + rounding(moved_optimum.objective)
    assert sensitivity.at_most() == sensitivity.objective
    with pytest.raises(TypeError, match="does not take color"):
        sensitivity.at_most(color=1.0)
    if name in ("itml", "lego"):
        assert sensitivity.margin is None
        with pytest.raises(TypeError, match="has no margin"):
            sensitivity.at_least(margin=2.0)


@EVERY
@pytest.mark.parametrize("size", [0.0, 1e-9, 1e6])
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_points_that_prove_nothing_have_intervals_that_say_nothing_wrong(name: str, size: float) -> None:
    """Singular, tiny and huge metrics: the gap may be infinite, and no number is NaN."""
    problem = CASES[name]()
    L = np.stack([size * np.eye(3)] * 3) if name.startswith("several") else size * np.eye(3)
    certificate = problem.certify(L)
    explanation = sm.explain(sm.Solution(L, certificate, certificate.status(1.0), "none", problem=problem))
    best = sm.explain(solved(name)).sensitivity
    assert explanation.certificate.lower_bound <= best.objective + rounding(best.objective)
    assert not np.isnan([*explanation.support.lower, *explanation.support.upper, *explanation.slacks.losses]).any()
    assert (explanation.support.lower <= explanation.support.upper + rounding(1.0)).all()
    assert str(explanation)


@pytest.mark.parametrize("solver", ["conic", "factored", "subgradient"])
def test_one_triplet_by_hand(solver: str) -> None:
    """Points 0, 1, 3: f(m) = (1 - mu) m + mu [1 - 8 m]_+, so that m = 1/8, a = (1 - mu) / 8, optimum (1 - mu) / 8."""
    problem = sm.LMNNProblem.from_triplets([[0.0], [1], [3]], [[0, 1, 2]], push_weight=0.3)
    explanation = sm.explain(sm.solve(problem, solver=solver, tol=1e-6))
    a, m, close = 0.7 / 8, 1 / 8, pytest.approx
    assert explanation.support.multipliers == close([a], rel=1e-5)
    assert explanation.support.ceilings == close([0.3])
    assert explanation.support.inside.tolist() == [True]
    assert explanation.sensitivity.margin == close(a, rel=1e-5)
    assert explanation.sensitivity.at_least(margin=2.5) == close(2.5 * a, rel=1e-5)
    assert explanation.sensitivity.weights["push_weight"] == close(-m, rel=1e-3)
    assert explanation.sensitivity.weights["ridge"] == close(m, rel=1e-5)
    influence = explanation.influence
    roles = influence.by_role
    assert (roles["anchor"][0], roles["target"][1], roles["impostor"][2]) == close((a, a, a), rel=1e-5)
    assert influence.total.sum() == close(3 * a, rel=1e-5)
    assert influence.contribution == close([a * (9 - 1) * m / 2, -a * m / 2, a * 9 * m / 2], rel=1e-4)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_the_interval_is_tight_on_one_triplet(loss: str) -> None:
    """With S(a) = 0 the gap belongs to one hinge alone, so that the optimal multiplier is an end of the interval."""
    problem = sm.LMNNProblem.from_triplets([[0.0], [1], [3]], [[0, 1, 2]], push_weight=0.3, loss=loss)
    a = 0.7 / 8
    solution = replace(sm.solve(problem), dual=sm.Dual(sm.Triplets.from_array(np.array([[0, 1, 2]])), np.array([a])))

    def interval(m: float) -> tuple[float, float]:
        support = sm.explain(replace(solution, components=np.array([[np.sqrt(m)]]))).support
        return float(support.lower[0]), float(support.upper[0])

    low, high = interval(0.05)  # slack 0.6
    assert low == pytest.approx(a, rel=1e-6)
    if loss == "squared_hinge":
        assert high == pytest.approx(4 * 0.3 * 0.6 - a, rel=1e-6)
    else:
        assert high == pytest.approx(0.3)
    low, high = interval(0.2)  # beyond the margin by 0.6
    assert low == 0.0
    assert high == pytest.approx(a + (a**2 / (4 * 0.3) / 0.6 if loss == "squared_hinge" else 0.0), rel=1e-6)


def test_weights_of_triplets_by_finite_differences() -> None:
    X = np.random.default_rng(4).normal(size=(9, 2))
    rows = np.array([[0, 1, 5], [0, 1, 6], [1, 2, 7], [2, 0, 8], [3, 4, 5], [4, 3, 0], [5, 6, 1], [7, 8, 2]])
    weights = np.array([1.0, 0.4, 2.0, 1.5, 0.7, 1.0, 3.0, 0.9])

    def solved(changed: np.ndarray) -> sm.Solution:
        return tight(sm.LMNNProblem.from_triplets(X, rows, changed, 0.3, ridge=0.1))

    solution, step = solved(weights), 1e-4
    explanation = sm.explain(solution)
    keys = zip(*(explanation.slacks.columns[role].tolist() for role in ("anchor", "target", "impostor")), strict=True)
    slopes = dict(zip(keys, explanation.sensitivity.constraint_weights.tolist(), strict=True))
    gradient = np.array([slopes.get(tuple(row), 0.0) for row in rows.tolist()])
    assert (gradient > 1e-3).sum() >= 3
    for t, unit in enumerate(step * np.eye(len(rows))):
        low = (solved(weights + unit).lower_bound - solution.objective) / step
        high = (solution.objective - solved(weights - unit).lower_bound) / step
        assert low - 1e-6 <= gradient[t] <= high + 1e-6
        assert high - low <= 0.02
    far = np.random.default_rng(5).exponential(size=len(rows))
    tangent = solution.objective + gradient @ (far - weights)
    assert solved(far).lower_bound <= tangent + rounding(tangent)


def test_nothing_to_push_costs_nothing_and_has_nothing_to_explain(small: Instance) -> None:
    nothing = sm.LMNNProblem.from_triplets(small.problem.X, np.zeros((0, 3), int), push_weight=0.3)
    for problem, solver in (
        (small.problem.with_weights(push_weight=0.0), "conic"),
        *((nothing, solver) for solver in ("conic", "factored")),
    ):
        explanation = sm.explain(sm.solve(problem, solver=solver))
        assert explanation.certificate.objective == explanation.sensitivity.margin == 0.0
        assert len(explanation.support) == 0
        assert str(explanation)
