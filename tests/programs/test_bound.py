"""`sm.bound`: intervals of programs with planted or published optima; wrong multipliers prove less, never more."""

import math
import pickle
import re
import sys
from fractions import Fraction
from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

import sdpmetric as sm
from sdpmetric.programs.canonical import Canonical, ConeProgram, Cones, ConeSolver, ask
from sdpmetric.programs.enclosure import DualEnclosure, Obstacle, PrimalEnclosure, lacks


@pytest.fixture(scope="module")
def programs():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parents[2] / "examples" / "benchmarks")
        import programs

        yield programs
    sys.modules.pop("programs", None)


@pytest.mark.parametrize("group", range(2))
def test_planted_optima_are_within(programs, group):
    missed, widths = [], []
    for seed in range(696 + 24 * group, 720 + 24 * group):
        case = programs.planted(seed)
        bound = sm.bound(case.problem)
        wrong, proven = programs.judged(bound, case)
        assert not wrong, f"seed {seed}, {case.kind}"
        if case.interior and math.isfinite(case.optimum):
            missed += [] if proven else [seed]
            widths.append(bound.relative_width)
    assert len(missed) <= 0.05 * len(widths)
    assert np.median(widths) <= 1e-6


def test_published_values_are_within(programs):
    for make, value in programs.KNOWN.values():
        if value is None:
            continue
        bound = sm.bound(make())
        assert bound.lower_bound <= value * (1 - 1e-15 * np.sign(-value)) if value < math.inf else bound.lower_bound
        assert bound.upper_bound >= value * (1 - 1e-15)
        assert math.isinf(value) or bound.relative_width <= 1e-5


def test_chsh_and_theta_in_rational_numbers(programs):
    for problem, square in ((programs.chsh(), 8), (programs.theta(5), 5)):
        bound = sm.bound(problem)
        assert Fraction(bound.lower_bound) ** 2 <= square <= Fraction(bound.upper_bound) ** 2


def test_contradictions_are_proven_that_the_solver_does_not_report():
    M, rng = cp.Variable((4, 4), PSD=True), np.random.default_rng(0)
    small = [cp.trace((B + B.T) @ M) == 2e-8 * np.trace(B) for B in rng.normal(size=(5, 4, 4))]
    assert "infeasible" in str(sm.bound(cp.Problem(cp.Minimize(cp.trace(M)), [*small, cp.trace(M) <= -1e-11])))


def test_what_an_interval_says():
    x = cp.Variable(3, name="x")
    bound = sm.bound(cp.Problem(cp.Minimize(cp.sum(x)), [x >= 1, cp.norm(x) <= 9]))
    assert bound.lower_bound <= 3 <= bound.upper_bound
    assert np.allclose(bound.point["x"], 1.0, atol=1e-6)
    assert x.value is None
    assert str(bound).startswith("The minimum of the compiled cone program is between ")
    low, high = (Fraction(word.rstrip(",")) for word in str(bound).split()[9:12:2])
    assert low <= Fraction(bound.lower_bound) <= Fraction(bound.upper_bound) <= high
    assert "infeasible" in str(sm.bound(cp.Problem(cp.Minimize(x[0]), [x >= 1, x <= 0])))
    assert "infeasible" in str(sm.bound(cp.Problem(cp.Maximize(x[0]), [x >= 1, x <= 0])))
    maximum = sm.bound(cp.Problem(cp.Maximize(x[0]), [x >= 1]))
    assert maximum.lower_bound == maximum.upper_bound == math.inf
    assert "unbounded" in str(maximum)


def test_degenerate_linear_programs_are_proven_from_both_sides(programs):
    """Without an interior, with dependent equations, fixed variables and rays along which the cost is 0."""
    proven = []
    for seed in range(40):
        case = programs.degenerate(np.random.default_rng(seed))
        bound = sm.bound(case.problem)
        wrong, both = programs.judged(bound, case)
        assert not wrong, f"seed {seed}"
        assert math.isfinite(bound.lower_bound)
        proven.append(both)
    assert np.mean(proven) >= 0.9


def test_equations_determine_variables_only_exactly():
    """``x = 1/4, 3 x + y = 2`` and a row that follows; a third is no float, and its equation stays one."""
    A = np.array([[1.0, 0, 0, 0], [3, 1, 0, 0], [4, 1, 0, 0], [0, 0, 3, 0], [0, 0, 1, 1]])
    b = np.array([0.25, 2.0, 2.25, 1.0, 1.0])
    cones, sparse = Cones(zero=5), sp.csr_array(A)
    equations = PrimalEnclosure.of(ConeProgram(np.zeros(4), sparse, b, cones))
    assert equations.failure is None
    assert equations.values[:2].tolist() == [0.25, 1.25]
    assert np.isnan(equations.values[2:]).all()
    assert equations.rows.tolist() == [3, 4]
    b[2] += 2.0**-50  # which contradicts the others
    program = ConeProgram(np.zeros(4), sparse, b, cones)
    bound = PrimalEnclosure.of(program).bound(np.array([0.25, 1.25, 1 / 3, 2 / 3]))
    assert (bound.value, bound.obstacle) == (math.inf, Obstacle.DEPENDENT_EQUATIONS)


def test_wrong_multipliers_and_points_prove_less_never_more(programs, rng):
    for seed in (0, 1, 2, 3, 4, 5, 6):
        case = programs.planted(seed)
        canonical = Canonical.of(case.problem)
        program, units = canonical.program.equilibrated()
        answer = ask(program, ConeSolver(), 1e-8, 1e-8)
        primal, dual = PrimalEnclosure.of(program), DualEnclosure.of(program)
        optimum = Fraction(canonical.sign) * case.optimum - Fraction(canonical.offset)
        unit, room = Fraction(units.size_b) * Fraction(units.size_c), case.room
        for size in (0.0, 1e-9, 1e-3, 1.0):
            z, x = (v + size * rng.normal(size=len(v)) * (1.0 + np.abs(v)) for v in (answer.z, answer.x))
            low, high = dual.bound(z).value, primal.bound(x).value
            assert low == -math.inf or Fraction(low) * unit <= optimum + room
            assert high == math.inf or Fraction(high) * unit >= optimum - room


def solved_exactly(A, b):
    """The solution of a square system in fractions, by elimination; None if it is singular."""
    rows = [[Fraction(v) for v in row] + [Fraction(side)] for row, side in zip(A.tolist(), b.tolist(), strict=True)]
    for k in range(len(rows)):
        pivot = next((i for i in range(k, len(rows)) if rows[i][k]), None)
        if pivot is None:
            return None
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [v / rows[k][k] for v in rows[k]]
        for i in range(len(rows)):
            if i != k:
                rows[i] = [v - rows[i][k] * w for v, w in zip(rows[i], rows[k], strict=True)]
    return [row[-1] for row in rows]


@pytest.mark.parametrize("spread", [0.0, 6.0])
def test_square_systems_in_fractions(spread):
    """One solution, and multipliers that rounding makes less than 0: no bound is beyond the optimum in fractions."""
    rng, proven, refused = np.random.default_rng(11), 0, 0
    for _ in range(150):
        A = rng.normal(size=(3, 3)) * 10.0 ** rng.uniform(-spread, 0.0, (3, 3))
        z = np.append(rng.uniform(0.1, 2.0, 2), 0.0)
        c, b = -(A.T @ z), rng.normal(size=3)
        multipliers, point = solved_exactly(A.T, -c), solved_exactly(A, b)
        dual = DualEnclosure.of(ConeProgram(c, sp.csr_array(A), b, Cones(nonneg=3))).bound(z)
        if dual.value > -math.inf:
            assert min(multipliers) >= 0
            assert Fraction(dual.value) <= -sum(Fraction(v) * w for v, w in zip(b, multipliers, strict=True))
        refused += min(multipliers) < 0
        c = rng.normal(size=3)
        free = ConeProgram(c, sp.csr_array(A), b, Cones(zero=3))
        value = sum(Fraction(v) * w for v, w in zip(c, point, strict=True))
        low, high = DualEnclosure.of(free).bound(z).value, PrimalEnclosure.of(free).bound(np.zeros(3)).value
        assert low == -math.inf or Fraction(low) <= value
        assert high == math.inf or Fraction(high) >= value
        proven += math.isfinite(high - low)
    assert proven > 100
    assert refused > 10


def test_equal_rows_whose_sides_are_no_floats_are_not_redundant():
    """``x = 0.1, 3 x + y = 1`` and the same with another side in the last digit, which no point satisfies."""
    A, b = np.array([[1.0, 0], [3, 1], [3, 1]]), np.array([0.1, 1.0, 1.0 + 2.0**-52])
    bound = PrimalEnclosure.of(ConeProgram(np.zeros(2), sp.csr_array(A), b, Cones(zero=3))).bound(np.array([0.1, 0.7]))
    assert bound.value == math.inf


def test_the_constant_of_an_objective_is_added_outward(rng):
    x = cp.Variable()
    for offset in rng.normal(size=20):
        canonical = Canonical.of(cp.Problem(cp.Minimize(x + offset), [x >= 1]))
        for value in rng.normal(size=20) * 1e3:
            exact = Fraction(value) + Fraction(canonical.offset)
            assert Fraction(canonical.total(value, up=False)) <= exact <= Fraction(canonical.total(value, up=True))


@pytest.mark.parametrize("dual", [True, False])
def test_points_on_the_boundary_are_in_no_cone_with_errors(dual):
    cones = Cones(nonneg=1, soc=(3,), psd=(2,), exp=1, power=((0.5, 0.5),))
    e = math.exp(1.0)
    third = [-1.0, -1.0, 1.0 + 1e-15] if dual else [1.0, 1.0, e * (1 + 1e-15)]
    inside = np.array([0.0, 5.0, 3.0, 4.0, 1.0, 2.0**0.5, 1.0, *third, 1.0, 1.0, 0.999999])
    free = np.zeros(int(cones.block[-1]) + 1)
    shifted = inside + 1e-9 * (cones.dual_interior if dual else cones.interior)
    assert lacks(cones, shifted, free, dual=dual).max() <= 0.0
    for block in range(len(free)):
        some = cones.block == block
        ball = np.where(np.arange(len(free)) == block, 1e-5 if block < 4 else 3.0, 0.0)
        assert lacks(cones, shifted, ball, dual=dual)[some].min() > 0.0
        outside = np.where(some, inside - 1e-6 * (cones.dual_interior if dual else cones.interior), shifted)
        if block < 4:
            assert lacks(cones, outside, free, dual=dual)[some].min() > 0.0


@pytest.mark.parametrize("factor", [1 / 3, 0.1, 7.0, 1 / 15])
def test_quadratic_objectives_that_compilation_rounds_have_both_bounds(factor, rng):
    """Scaled forms, of low rank too, sums of two and quotients: no matrix is that of the data times a power of 2."""
    F, G, x = rng.normal(size=(6, 6)), rng.normal(size=(9, 6)), cp.Variable(6)
    S, T = F @ F.T + np.eye(6), F.T @ F
    for objective in (
        factor * cp.quad_form(x, S),
        cp.quad_form(x, S) + factor * cp.quad_form(x, T),
        cp.sum_squares(F @ x) / 15 + factor * cp.sum_squares(x),
        factor * cp.quad_form(x - 1, S) + cp.sum_squares(x),
        factor * cp.quad_form(x, cp.psd_wrap(F[:, :2] @ F[:, :2].T)),
    ):
        bound = sm.bound(cp.Problem(cp.Minimize(objective + cp.sum(x)), [G @ x <= 1, x >= -9]))
        assert bound.relative_width <= 1e-6, str(bound)


def test_time_ends(programs):
    """No time proves nothing, a little proves what it can, and time that is none is an error."""
    problem = programs.theta(31)
    bound = sm.bound(problem, max_time=1e-9)
    assert (bound.lower_bound, bound.upper_bound) == (-math.inf, math.inf)
    unlimited, some = sm.bound(problem, max_time=1e9), sm.bound(problem, max_time=0.05)
    assert some.lower_bound <= unlimited.upper_bound
    assert unlimited.lower_bound <= some.upper_bound
    with pytest.raises(ValueError, match="max_time"):
        sm.bound(problem, max_time=-1)


def attacks():
    """Programs whose compilation rounds, approximates or drops what was written, with the optima that were written."""
    x, y = cp.Variable(5), cp.Variable(2)
    X = cp.Variable((2, 2), PSD=True)
    same = [cp.mean(x) == 1, cp.sum(x) == 5]
    return {
        "mean": (cp.Problem(cp.Minimize(x[0]), [*same, x >= 0]), 0),
        "division": (cp.Problem(cp.Minimize(x[0]), [(x / 49) * 49 >= x, x >= 1, x <= 2]), 1),
        "no interior": (cp.Problem(cp.Maximize(X[0, 0] + X[0, 1]), [X[1, 1] <= 0, X[0, 0] <= 1]), 1),
        "infinite bounds": (cp.Problem(cp.Maximize(y[0]), [y <= np.array([3, np.inf]), y >= 0]), 3),
        "a constant": (cp.Problem(cp.Minimize(cp.Constant(3))), 3),
        "an impossible constant": (cp.Problem(cp.Minimize(cp.Constant(3)), [cp.Constant(1) <= 0]), math.inf),
        "thirds": (cp.Problem(cp.Minimize(cp.sum_squares(x - 3) / 3), [cp.sum(x) == 0]), 15),
        "deviation": (cp.Problem(cp.Minimize(cp.std(x)), [x[0] == 0, x[1] == 5, cp.sum(x[2:]) == 7.5]), None),
    }


@pytest.mark.parametrize("name", attacks())
def test_what_compilation_rounds_changes_the_interval_by_a_rounding(name):
    problem, optimum = attacks()[name]
    bound = sm.bound(problem)
    optimum = 2.5**0.5 if optimum is None else optimum
    room = 1e-12 * abs(optimum) if math.isfinite(optimum) else 0.0
    assert bound.lower_bound <= optimum + room
    assert bound.upper_bound >= optimum - room
    assert math.isfinite(bound.lower_bound) or not math.isfinite(optimum) or bound.reason


def test_what_compilation_makes_another_program_is_claimed_of_the_compiled_one():
    """Written, u is not bounded; CVXPY rounds ``u / 49 * 49 - u`` to a multiple of u, and nothing shows that."""
    u = cp.Variable()
    bound = sm.bound(cp.Problem(cp.Maximize(u), [(u / 49) * 49 >= u]))
    assert bound.rigor == "compiled"
    assert "of the compiled cone program" in str(bound)


def miscompiled():
    """Programs that CVXPY 1.9.3 compiles to others, with the place where they differ."""
    x, z, y = cp.Variable((2, 3)), cp.Variable(complex=True), cp.Variable((2, 3, 2))
    Y, rows = np.random.default_rng(0).normal(size=y.shape), cp.norm1(x, axis=1, keepdims=True)
    least, most = cp.sum_squares(y - Y), cp.Maximize(cp.real(z))
    quotient = cp.real(z / (3 + 4j))
    from_below = [quotient >= 1, cp.imag(z) == 0]
    return {
        "rows": (cp.Problem(cp.Maximize(cp.sum(x)), [rows <= [[1.0], [2.0]]]), "shape"),
        "infeasible": (cp.Problem(cp.Minimize(0), [rows <= [[1.0], [2.0]], x[:, 0] >= [0.9, 1.9]]), "shape"),
        "quotient": (cp.Problem(cp.Minimize(quotient), [z == 3 + 4j]), "the objective is 1, and 0"),
        "bound": (cp.Problem(cp.Minimize(cp.real(z)), from_below), r"constraints\[0\] is violated"),
        "size": (cp.Problem(most, [(cp.abs(z / (3 + 4j)) <= 1).set_label("size")]), "'size' is not tight"),
        "deviation": (cp.Problem(cp.Minimize(cp.sum(cp.std(y, axis=1))), [y == Y]), "three dimensions"),
        "norms": (cp.Problem(cp.Minimize(least), [cp.sum(cp.pnorm(y, 2, axis=1)) <= 1]), "three dimensions"),
    }


@pytest.mark.parametrize("name", miscompiled())
def test_a_program_that_is_compiled_to_another_is_an_error_that_says_where(name):
    """If this fails with a later CVXPY, the fault may be mended there: compare the values by hand."""
    problem, words = miscompiled()[name]
    with pytest.raises(ValueError, match=words):
        sm.bound(problem)


def test_feasibility_is_proven_or_open():
    x, X = cp.Variable(3), cp.Variable((3, 3), symmetric=True)
    A = np.array([[-2.0, 1, 0], [0, -1, 1], [0, 0, -3]])
    lyapunov = [X >> np.eye(3), A.T @ X + X @ A << -np.eye(3)]
    for constraints in ([x >= 1, x <= 2], lyapunov, [cp.norm(x) <= 2, x[0] >= 1]):
        for objective in (cp.Minimize(0), cp.Maximize(3)):
            bound = sm.bound(cp.Problem(objective, constraints))
            assert bound.lower_bound == bound.upper_bound == objective.args[0].value
            assert "proven to be feasible" in str(bound)
            assert bound.point
    flat = sm.bound(cp.Problem(cp.Minimize(0), [cp.sum_squares(x) <= 0]))
    assert (flat.lower_bound, flat.upper_bound) == (0.0, math.inf)
    assert "at least 0" in str(flat)


def test_what_compilation_drops_or_approximates_is_refused():
    class Subclass(cp.SOC):
        pass

    x, y, z = cp.Variable(2, name="x"), cp.Variable(), cp.Variable()
    for constraints, words in (
        ([cp.FiniteSet(x, [1.5, 2.0])], "FiniteSet"),
        ([Subclass(cp.Constant(1), x)], "Subclass"),
        ([cp.constraints.power.PowCone3DApprox(x[0], y, z, 0.5)], "PowCone3DApprox"),
        ([cp.RelEntrConeQuad(x[0], y, z, 5, 5)], "RelEntrConeQuad"),
    ):
        with pytest.raises(ValueError, match=words):
            sm.bound(cp.Problem(cp.Minimize(cp.sum(x) + y - z), constraints))


def unproven():
    """Programs with an end that is not proven: words of the reason, and constraints with the remedy that it names."""
    rng = np.random.default_rng(3)
    T, c, x = cp.Variable((3, 4), nonneg=True), cp.Variable(12, name="c"), cp.Variable(3)
    X = cp.Variable((2, 2), PSD=True, name="X")
    a, b, C = rng.random(3), rng.random(4), rng.random((3, 4))
    a, b, t = a / a.sum(), b / b.sum(), np.linspace(0.0, 1.0, 40)
    rows, columns = cp.sum(T, axis=1), cp.sum(T, axis=0)
    cost, missed = cp.Minimize(cp.sum(cp.multiply(C, T))), cp.sum_squares(np.vander(t, 12) @ c - np.exp(np.sin(9 * t)))
    flat = (cp.sum_squares(x - 3) <= 0).set_label("ball")
    tied, sums = [X[0, 1] == 1], [rows == a, columns == b]
    return {
        "marginals": (cost, sums, "entry .* of problem.constraints", [sums[0], columns[:3] == b[:3]]),
        "fit": (cp.Minimize(missed), [], "variable c only", [cp.norm(c) <= 1e5]),
        "infimum": (cp.Minimize(X[0, 0]), tied, "attribute of the variable X", [*tied, cp.trace(X) <= 9]),
        "ball": (cp.Minimize(x[0]), [x[1] >= 0, flat], "the constraint 'ball'", [cp.sum_squares(x - 3) <= 1e-4]),
    }


@pytest.mark.parametrize("name", unproven())
def test_a_reason_names_the_users_constraint_and_a_remedy_that_works(name):
    objective, constraints, words, mended = unproven()[name]
    bound = sm.bound(cp.Problem(objective, constraints))
    assert re.search(words, bound.reason), bound.reason
    assert math.isinf(bound.upper_bound - bound.lower_bound)
    assert math.isfinite(sm.bound(cp.Problem(objective, mended)).relative_width)


def test_multipliers_points_and_reasons_are_the_users():
    x, y = cp.Variable(3, name="a"), cp.Variable(2, name="a")
    cost = np.array([1.0, 2.0, 3.0])
    problem = cp.Problem(cp.Maximize(-cost @ x - cp.norm(y - 1)), [cp.sum(x) == 1, x >= 0, cp.norm(y) <= 1])
    problem.solve(solver="CLARABEL")
    bound = pickle.loads(pickle.dumps(sm.bound(problem)))
    for constraint, values in zip(problem.constraints, bound.multipliers.values(), strict=True):
        assert np.allclose(values, constraint.dual_value, atol=1e-5)
    assert {*bound.point} == {"a", "a (2)"}
    assert x.value is not None
    nowhere = sm.bound(cp.Problem(cp.Minimize(x[0]), [x[0] + x[1] <= -1, x >= 0]))
    assert nowhere.margin == pytest.approx(1 / 3, rel=1e-3)
    assert next(iter(nowhere.multipliers.values())) > 0
    ray = sm.bound(cp.Problem(cp.Maximize(x[0] - x[1]), [x >= 0])).direction["a"]
    assert ray[0] > ray[1] >= 0
    flat = sm.bound(cp.Problem(cp.Minimize(x[0]), [cp.sum_squares(x - 3) <= 0]))
    assert "no point is inside problem.constraints[0]" in flat.reason
