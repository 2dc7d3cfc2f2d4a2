"""`sm.bound`: intervals of programs with planted or published optima; wrong multipliers prove less, never more."""

import math
import pickle
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

import sdpmetric as sm
from sdpmetric.programs.canonical import ConeProgram, Cones, Solver, ask
from sdpmetric.programs.compilation import Canonical
from sdpmetric.programs.enclosure import Equations, lacks, lower_bound, upper_bound
from sdpmetric.programs.reach import reach


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
        wrong, proven = programs.judged(bound, case.optimum)
        assert not wrong, f"seed {seed}, {case.kind}"
        assert bound.rigor == "float"
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


def diagonal():
    x = cp.Variable(3, name="x")
    return x, cp.Problem(cp.Minimize(cp.sum(x)), [x >= 1, cp.norm(x) <= 9])


def test_what_an_interval_says():
    x, problem = diagonal()
    bound = sm.bound(problem)
    assert bound.lower_bound <= 3 <= bound.upper_bound
    assert np.allclose(bound.point["x"], 1.0, atol=1e-6)
    assert x.value is None
    assert str(bound).startswith("The minimum is between ")
    low, high = (Fraction(word.rstrip(",")) for word in str(bound).split()[4:7:2])
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
        wrong, both = programs.judged(bound, case.optimum)
        assert not wrong, f"seed {seed}"
        assert math.isfinite(bound.lower_bound)
        proven.append(both)
    assert np.mean(proven) >= 0.9


def test_equations_determine_variables_only_exactly():
    """``x = 1/4, 3 x + y = 2`` and a row that follows; a third is no float, and its equation stays one."""
    A = np.array([[1.0, 0, 0, 0], [3, 1, 0, 0], [4, 1, 0, 0], [0, 0, 3, 0], [0, 0, 1, 1]])
    b = np.array([0.25, 2.0, 2.25, 1.0, 1.0])
    cones, sparse = Cones(zero=5), sp.csr_array(A)
    equations = Equations.of(ConeProgram(sp.csr_array((4, 4)), np.zeros(4), sparse, b, cones))
    assert equations.values[:2].tolist() == [0.25, 1.25]
    assert np.isnan(equations.values[2:]).all()
    assert equations.rows.tolist() == [3, 4]
    b[2] += 2.0**-50  # which contradicts the others
    program = ConeProgram(sp.csr_array((4, 4)), np.zeros(4), sparse, b, cones)
    assert Equations.of(program).definite is None
    assert upper_bound(program, np.array([0.25, 1.25, 1 / 3, 2 / 3])).value == math.inf


def test_wrong_multipliers_and_points_prove_less_never_more(programs, rng):
    for seed in (0, 1, 2, 3, 4, 5, 6):
        case = programs.planted(seed)
        canonical = Canonical.of(case.problem)
        program, units = canonical.program.equilibrated()
        answer, nowhere = ask(program, Solver(), 1e-8, 1e-8), np.full(len(program.c), np.inf)
        optimum = Fraction(canonical.sign) * case.optimum - Fraction(canonical.offset)
        for size in (0.0, 1e-9, 1e-3, 1.0):
            z, x = (v + size * rng.normal(size=len(v)) * (1.0 + np.abs(v)) for v in (answer.z, answer.x))
            for region in (nowhere, reach(program, math.inf)):
                low = lower_bound(program, z, x, region).value
                assert low == -math.inf or Fraction(low) * Fraction(2) ** units.objective <= optimum
            high = upper_bound(program, x).value
            assert high == math.inf or Fraction(high) * Fraction(2) ** units.objective >= optimum


@pytest.mark.parametrize("dual", [True, False])
def test_points_on_the_boundary_are_in_no_cone_with_errors(dual):
    cones = Cones(nonneg=1, soc=(3,), psd=(2,), exp=1, power=(0.5,))
    e = math.exp(1.0)
    third = [-1.0, -1.0, 1.0 + 1e-15] if dual else [1.0, 1.0, e * (1 + 1e-15)]
    inside = np.array([0.0, 5.0, 3.0, 4.0, 1.0, 1.0 if dual else 2.0, 1.0, *third, 1.0, 1.0, 0.999999])
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


def test_curvature_that_is_not_proven_gives_no_bound():
    x = cp.Variable(2)
    problem = cp.Problem(cp.Minimize(cp.quad_form(x, np.eye(2)) + x[0]))
    canonical = Canonical.of(problem).program
    answer = ask(canonical, Solver())
    bent = replace(canonical, P=(canonical.P - 2.5 * canonical.P).tocsr(), proofs={})
    assert lower_bound(canonical, answer.z, answer.x, np.full(2, np.inf)).value == pytest.approx(-0.25)
    assert lower_bound(bent, answer.z, answer.x, np.full(2, np.inf)).value == -math.inf
    bounded = lower_bound(bent, answer.z, answer.x, np.full(2, 1.0)).value
    assert bounded <= -1.5 * 2 - 1.0 + 1e-9


def test_time_ends(programs):
    """No time proves nothing, a little proves what it can, and time that is none is an error."""
    problem = programs.large("SDP", np.random.default_rng(0))
    bound = sm.bound(problem, max_time=1e-9)
    assert (bound.lower_bound, bound.upper_bound) == (-math.inf, math.inf)
    unlimited, some = sm.bound(problem, max_time=1e9), sm.bound(problem, max_time=0.05)
    assert some.lower_bound <= unlimited.upper_bound
    assert unlimited.lower_bound <= some.upper_bound
    with pytest.raises(ValueError, match="max_time"):
        sm.bound(problem, max_time=-1)


def attacks():
    """Programs whose compilation rounds, approximates or drops what was written, with their exact optima."""
    x, y = cp.Variable(5), cp.Variable(2)
    u, v, X = cp.Variable(), cp.Variable(), cp.Variable((2, 2), PSD=True)
    S = cp.bmat([[1, 0.1 * u + 0.15000000000000002 * v], [0.2 * u + 0.15000000000000002 * v, 1]])
    same = [cp.mean(x) == 1, cp.sum(x) == 5]
    return {
        "mean": (cp.Problem(cp.Minimize(x[0]), [*same, x >= 0]), 0),
        "division": (cp.Problem(cp.Minimize(x[0]), [(x / 49) * 49 >= x, x >= 1, x <= 2]), 1),
        "unbounded by division": (cp.Problem(cp.Maximize(u), [(u / 49) * 49 >= u]), math.inf),
        "sums of two entries": (cp.Problem(cp.Minimize(u + v), [S >> 0]), -math.inf),
        "feasible far away": (cp.Problem(cp.Minimize(0), [S >> 0, u + v == 10]), 0),
        "no interior": (cp.Problem(cp.Maximize(X[0, 0] + X[0, 1]), [X[1, 1] <= 0, X[0, 0] <= 1]), 1),
        "infinite bounds": (cp.Problem(cp.Maximize(y[0]), [y <= np.array([3, np.inf]), y >= 0]), 3),
        "a constant": (cp.Problem(cp.Minimize(cp.Constant(3))), 3),
        "an impossible constant": (cp.Problem(cp.Minimize(cp.Constant(3)), [cp.Constant(1) <= 0]), math.inf),
        "thirds": (cp.Problem(cp.Minimize(cp.sum_squares(x - 3) / 3), [cp.sum(x) == 0]), 15),
        "deviation": (cp.Problem(cp.Minimize(cp.std(x)), [x[0] == 0, x[1] == 5, cp.sum(x[2:]) == 7.5]), None),
    }


@pytest.mark.parametrize("name", attacks())
def test_claims_are_about_the_program_as_it_is_written(name):
    problem, optimum = attacks()[name]
    bound = sm.bound(problem)
    assert bound.rigor == "float"
    if optimum is None:  # the deviation of 0, 5, 2.5, 2.5, 2.5 has the square 2.5
        assert Fraction(bound.lower_bound) ** 2 <= Fraction(5, 2) <= Fraction(bound.upper_bound) ** 2
    else:
        assert bound.lower_bound <= optimum <= bound.upper_bound
    assert math.isfinite(bound.lower_bound) or not math.isfinite(optimum) or bound.reason


def test_what_compilation_drops_or_approximates_is_refused():
    class Subclass(cp.SOC):
        pass

    x, y, z = cp.Variable(2, name="x"), cp.Variable(), cp.Variable()
    for constraints, words in (
        ([cp.FiniteSet(x, [1.5, 2.0])], "FiniteSet"),
        ([Subclass(cp.Constant(1), x)], "Subclass"),
        ([cp.constraints.power.PowCone3DApprox(x[0], y, z, 0.5)], "PowCone3DApprox"),
        ([cp.RelEntrConeQuad(x[0], y, z, 5, 5)], "RelEntrConeQuad"),
        ([cp.power(y, 3.3333) <= 2], "approx=False"),
        ([cp.pnorm(x, math.pi) <= 2], "approx=False"),
        ([cp.geo_mean(x, [2**0.5, 1.0]) >= 1], "approx=False"),
        ([cp.quad_form(x, np.diag([1, 1e-10])) <= 1], "eigenvalue"),
        ([cp.quad_form(x, sp.diags_array([1, 1e-10]).tocsc()) <= 1], "eigenvalue"),
    ):
        with pytest.raises(ValueError, match=words):
            sm.bound(cp.Problem(cp.Minimize(cp.sum(x) + y - z), constraints))
    compiled = sm.bound(cp.Problem(cp.Minimize(y), [cp.power(y, 0.3, approx=False) >= 2]))
    assert (compiled.rigor, "of the compiled cone program" in str(compiled)) == ("compiled", True)
    for constraint in (cp.power(y, 3) >= 8, cp.quad_form(x, np.eye(2)) <= 1):
        if constraint.is_dcp():
            assert sm.bound(cp.Problem(cp.Minimize(cp.sum(x) + y), [constraint, y >= 0])).rigor == "compiled"


def test_multipliers_points_and_reasons_are_the_users():
    x, y = cp.Variable(3, name="a"), cp.Variable(2, name="a")
    cost = np.array([1.0, 2.0, 3.0])
    problem = cp.Problem(cp.Maximize(-cost @ x - cp.norm(y - 1)), [cp.sum(x) == 1, x >= 0, cp.norm(y) <= 1])
    problem.solve(solver="CLARABEL")
    bound = pickle.loads(pickle.dumps(sm.bound(problem)))
    for constraint, values in zip(problem.constraints, bound.multipliers.values(), strict=True):
        assert np.allclose(values, constraint.dual_value, atol=1e-5)
    assert {*bound.point} == {"a", "a (2)"}
    assert bound.value(cp.sum(x)) == pytest.approx(1.0)
    assert x.value is not None
    nowhere = sm.bound(cp.Problem(cp.Minimize(x[0]), [x[0] + x[1] <= -1, x >= 0]))
    assert nowhere.margin == pytest.approx(1 / 3, rel=1e-3)
    assert next(iter(nowhere.multipliers.values())) > 0
    ray = sm.bound(cp.Problem(cp.Maximize(x[0] - x[1]), [x >= 0])).direction["a"]
    assert ray[0] > ray[1] >= 0
    flat = sm.bound(cp.Problem(cp.Minimize(x[0]), [cp.sum_squares(x - 3) <= 0]))
    assert "second-order cone" in str(flat) or "inequality" in str(flat)


def fractions(v):
    return np.vectorize(Fraction, otypes=[object])(np.asarray(v, dtype=np.float64))


AFFINE = {
    "product": lambda x, A, b, c, mean: A @ x - b,
    "quotient": lambda x, A, b, c, mean: (A @ x) / 49 - b / 7,
    "mean": lambda x, A, b, c, mean: A @ x - mean(x) * c + b * 3,
    "nested": lambda x, A, b, c, mean: A @ (A[:4] @ x - c[:4]) / 3 + (x[0] / 49) * 49 - x[0],
    "powers of 2": lambda x, A, b, c, mean: (A @ x) / 2 - b * 4,
}


@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
@pytest.mark.parametrize("name", AFFINE)
def test_radii_contain_the_coefficients_in_fractions(name, scale, rng):
    make, A, b, c = AFFINE[name], rng.normal(size=(6, 4)) * scale, rng.normal(size=6), rng.normal(size=6)
    x = cp.Variable(4)
    problem = cp.Problem(cp.Minimize(cp.sum(x)), [make(x, *map(cp.Constant, (A, b, c)), cp.mean) == 0])
    program = Canonical.of(problem).program
    exact = [fractions(v) for v in (A, b, c)]
    values_at = [make(point, *exact, lambda v: sum(v) / 4) for point in fractions(np.vstack([np.zeros(4), np.eye(4)]))]
    radii = program.radii
    for i in range(6):
        assert abs(Fraction(float(program.b[i])) - values_at[0][i]) <= Fraction(float(radii.b[i]))
        for j in range(4):
            slope = values_at[j + 1][i] - values_at[0][i]
            assert abs(Fraction(float(program.A[i, j])) + slope) <= Fraction(float(radii.A[i, j]))
    if name in ("product", "powers of 2"):
        assert program.uncertainty is None
