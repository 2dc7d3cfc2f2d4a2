"""The certificate: gaps, weak duality for arbitrary points and multipliers, hand-solved optima, repairs."""

import math
from dataclasses import replace

import numpy as np
import oracles
import pytest
from instances import KINDS, assert_same, check_weak_duality, make_instance

import sdpmetric as sm
from sdpmetric.cli import results
from sdpmetric.core.certificate import Dual, absolute_gap, excess, relative_gap
from sdpmetric.core.triplets import Triplets
from sdpmetric.linalg import psd
from sdpmetric.lmnn.problem import LMNNProblem

INF, NAN = math.inf, math.nan


def made(objective, lower_bound, **options):
    return sm.DualityCertificate(objective=objective, lower_bound=lower_bound, program="LMNN", **options)


@pytest.mark.parametrize(
    ("objective", "lower_bound", "gap", "relative", "above"),
    [
        (0.0, 0.0, 0.0, 0.0, "at most 0"),
        (4.0, 3.0, 1.0, 0.25, "at most 34 %"),  # 33.3, rounded up
        (8.84, 1.0, 7.84, 7.84 / 8.84, "at most 790 %"),
        (5.0, 0.0, 5.0, 1.0, None),
        (1.0, -3.0, 4.0, 4 / 3, "at most 4"),
        (-1.0, -1.001, 0.001, 0.001 / 1.001, "at most 0.001"),
        (1e300, 1e-300, 1e300, 1.0, "at most 1.1e+602 %"),  # 1e-300 is a little less than its decimals
        (2.0, 2.0 + 1e-12, 0.0, 0.0, "at most 0 %"),
        (0.0, -INF, INF, INF, None),
        (INF, 0.0, INF, INF, None),
        (NAN, 0.0, INF, INF, None),
        (1.0, NAN, INF, INF, None),
        (-INF, INF, INF, INF, None),
        (1.0, 1.1, INF, INF, None),
    ],
)
def test_gap_and_missing_or_contradictory_evidence(objective, lower_bound, gap, relative, above):
    assert (above or "nothing is proven about") in excess(objective, lower_bound)
    certificate = made(objective, lower_bound)
    assert certificate.gap == absolute_gap(objective, lower_bound) == pytest.approx(gap)
    assert certificate.relative_gap == relative_gap(objective, lower_bound) == pytest.approx(relative)
    assert certificate.proves_optimal(0.3) is (relative <= 0.3)


def test_only_lower_bounds_prove_optimality_and_unknown_residuals_are_infinite():
    assert made(2.0, 2.0).proves_optimal(1e-6)
    same = {"objective": 2.0, "lower_bound": 2.0, "program": "p"}
    assert not sm.RegretCertificate(**same).proves_optimal(1e-6)
    assert not sm.StationarityCertificate(**same, stationarity=0.0).proves_optimal(1e-6)
    c = made(1.0, -INF)
    assert c.primal_residual == INF
    assert c.info == {}
    assert "relative gap 2.50e-01: the objective is at most 34 % above the smallest" in str(made(4.0, 3.0))
    assert "relative gap 1.00e+00: the lower bound is 0, so nothing is proven about how" in str(made(4.0, 0.0))
    assert "relative gap 6.67e-03, 0 active" in str(made(3.0, 2.98001))  # 0.6663 % of the objective
    assert "12 active triplets" in str(made(4.0, 3.0, n_active=12))


@pytest.mark.parametrize(
    ("grade", "words"), [({"rigor": "float"}, ""), ({}, "rounding is not fully accounted for (rigor: rounding)")]
)
def test_the_grade_is_said_wherever_a_bound_is(small, grade, words):
    """A certificate of a foreign statement is of grade "rounding" unless it says otherwise."""
    solved = sm.solve(small.problem, tol=1e-3)
    certificate = made(4.0, 4.0 - 1e-4, **grade)
    solution = replace(solved, certificate=certificate)
    better = replace(solved, certificate=made(4.0, 4.0 - 1e-4, rigor="float"))
    texts = [str(solution), sm.compare(better, solution).verdict, results.sentence(certificate, 1e-3)]
    for text in texts:
        assert ("proven" in text.lower()) is (not words)
        assert words in text
    assert words in results.sentence(certificate, 1e-9)
    assert sm.Certificate.from_dict(certificate.to_dict()) == certificate
    assert solution.status.advice == "The requested relative gap is proven, at the rigor of the certificate."
    if words:
        with pytest.raises(ValueError, match="is no proof"):
            solution.save_proof("nowhere.npz")


def test_every_kind_comes_back_from_its_fields_and_says_how_a_solve_ended():
    same = {"objective": 4.0, "lower_bound": 3.0, "program": "p"}
    kinds = [
        (made(4.0, 3.0, info={"polished": True, "backend_lower_bound": 2.0}), sm.Status.OPTIMAL_INACCURATE),
        (sm.RelaxationCertificate.of(made(4.0, 3.0)), sm.Status.STATIONARY),
        (sm.InfeasibilityCertificate(program="p", contradiction=(1, 4)), sm.Status.INFEASIBLE),
        (sm.RegretCertificate(**same, regret_bound=9.0), sm.Status.STREAM_ENDED),
        (sm.StationarityCertificate(**same, stationarity=0.5), sm.Status.STALLED),
    ]
    for certificate, status in kinds:
        assert sm.Certificate.from_dict(certificate.to_dict()) == certificate
        assert certificate.status(0.1) is status
    assert made(4.0, 3.0).status(0.02) is sm.Status.STALLED  # above ten times the tolerance
    assert made(4.0, 3.9).settles(0.1)
    assert not sm.RelaxationCertificate.of(made(4.0, 3.0)).settles(0.1)
    assert kinds[2][0].settles(0.1)
    with pytest.raises(ValueError, match="not a certificate"):
        sm.Certificate.from_dict({"kind": "nonsense"})


@pytest.mark.parametrize(("kind", "loss"), [*zip(KINDS, ["hinge", "squared_hinge"] * len(KINDS), strict=False)])
def test_the_bound_is_tight_near_the_optimum_and_an_excess_is_noticed(kind, loss):
    """A bound of 0 would pass weak duality; a bound that is 10 percent too high must not."""
    case = make_instance(kind, 1, mu=0.3, ridge=0.05, loss=loss)
    bound, best = check_weak_duality(case, np.random.default_rng(0))
    assert best > 1e-3
    assert bound >= 0.95 * best
    with pytest.raises(AssertionError):
        check_weak_duality(case, np.random.default_rng(0), wrong=1.1)


LINE = np.array([[0.0], [1.0], [3.0], [4.0]])


def line(mu, ridge=0.0, loss="hinge"):
    """Four points on a line: the cost is (4 (1 - mu) + ridge) m; margins are 3 m twice, 8 m four times, 15 m twice."""
    return LMNNProblem.from_labels(LINE, [0, 0, 1, 1], 1, mu, ridge=ridge, loss=loss)


def by_margin(a3, a8, a15):
    """The multipliers of the eight triplets on the line, in the order of `oracles.all_triplets`."""
    rows = oracles.all_triplets([[1], [0], [3], [2]], [0, 0, 1, 1])
    margins = [(LINE[i, 0] - LINE[m, 0]) ** 2 - 1 for i, _, m in rows]
    return rows, [{3.0: a3, 8.0: a8, 15.0: a15}[m] for m in margins]


def line_case(mu, ridge, loss, m, a3, a8, a15, value):
    return line(mu, ridge, loss), np.array([[m]]), *by_margin(a3, a8, a15), value


def squared_line():
    # 2.8 - 3.6 (1 - 3 m) - 19.2 (1 - 8 m) = 0, between the kinks at 1/15 and 1/8; a = 2 mu u.
    m = 20 / 164.4
    value = 2.8 * m + 0.3 * (2 * (1 - 3 * m) ** 2 + 4 * (1 - 8 * m) ** 2)
    return line_case(0.3, 0.0, "squared_hinge", m, 0.6 * (1 - 3 * m), 0.6 * (1 - 8 * m), 0.0, value)


def rectangle(ridge):
    """Two classes are the short sides of a turned rectangle: only the long direction u pays, at ridge / h^2."""
    h, mu, angle = 1.5, 0.4, 0.7
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    X = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, h], [1.0, h]]) @ turn.T
    problem = LMNNProblem.from_labels(X, [0, 0, 1, 1], 1, mu, ridge=ridge)
    rows = oracles.all_triplets([[1], [0], [3], [2]], [0, 0, 1, 1])
    if ridge >= 8 * mu * h**2:
        return problem, np.zeros((2, 2)), rows, [mu] * 8, 8 * mu
    u = turn[:, 1]
    return problem, np.outer(u, u) / h**2, rows, [ridge / (8 * h**2)] * 8, ridge / h**2


SOLVED = {
    "line, kink at 1/8": line_case(0.3, 0.0, "hinge", 1 / 8, 0.3, 1 / 32, 0.0, 0.725),
    "line, ridge": line_case(0.3, 0.5, "hinge", 1 / 8, 0.3, 0.046875, 0.0, 0.7875),
    "line, squared hinge": squared_line(),
    "plane, rank one": rectangle(0.9),
    "plane, zero metric": rectangle(8.0),
}


@pytest.mark.parametrize("case", SOLVED)
def test_hand_solved_optimum_is_certified_to_rounding(case):
    problem, M, rows, a, value = SOLVED[case]
    c = problem.certify(metric=M, dual=Dual(Triplets.from_array(np.array(rows)), np.array(a)))
    assert_same(c.objective, value)
    assert_same(c.lower_bound, value)
    assert c.relative_gap <= 1e-12
    assert c.info["dual_residual"] <= 1e-12
    assert c.primal_residual <= 1e-15


def test_a_tiny_negative_eigenvalue_is_repaired_and_reported(small, rng):
    Q = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    M = Q @ np.diag([2.0, 0.5, -1e-8]) @ Q.T
    c = small.problem.certify(metric=M)
    assert c.primal_residual == pytest.approx(0.5e-8, rel=1e-3)
    assert_same(c.objective, small.statement.objective(psd.project(M)))
    assert small.problem.certify(metric=Q @ np.diag([2.0, 0.5, 0.1]) @ Q.T).primal_residual == 0.0
    assert small.problem.certify(Q).primal_residual == 0.0


@pytest.mark.parametrize("solver", ["factored", "conic", "subgradient"])
def test_impostors_at_the_place_of_their_anchors_do_not_loosen_the_bound(solver: str) -> None:
    """All of two classes at one place: most of the objective is hinges that no metric changes, and none scales down."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(3), [12, 9, 15])
    X = rng.normal(size=(36, 3)) + 0.5 * y[:, None]
    X[y < 2] = 1.0
    problem = sm.LMNNProblem.from_labels(X, y, 2, 0.3)
    constant_hinges = 0.3 * 2 * (12 * 9 + 9 * 12)
    assert problem.certify(np.eye(3)).lower_bound >= constant_hinges
    assert problem.certify(0.01 * np.eye(3)).lower_bound >= constant_hinges
    solution = sm.solve(problem, solver=solver, tol=1e-3)
    assert solution.status is sm.Status.OPTIMAL
    assert solution.objective > constant_hinges
    larger = replace(solution.dual, values=np.minimum(3.0 * solution.dual.values, 0.3))
    assert problem.feasible_dual(larger).values.sum() >= problem.certify(np.eye(3), dual=larger).lower_bound
    several = sm.MultiMetricLMNNProblem(problem, (y == 2).astype(np.int32), np.array([0, 1]))
    assert several.certify(np.stack([np.eye(3)] * 2)).lower_bound >= constant_hinges
    assert several.certify(np.stack([np.eye(3)] * 2)).lower_bound <= solution.objective * (1 + 1e-9)
