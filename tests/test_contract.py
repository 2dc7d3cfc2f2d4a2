"""What every statement promises at every verb, with every solver: one factory a statement, one test a promise."""

import runpy
from pathlib import Path

import contract
import numpy as np
import pytest
from instances import rounding
from statements import EXAMPLES, FACTORIES, VALUES, WORKS, N, data, entry_of, make, point, solutions_of, solved
from typer.testing import CliRunner

import sdpmetric as sm
from sdpmetric.cli import app
from sdpmetric.core.problem import statements


def test_the_problem_class_of_the_example_passes():
    example = runpy.run_path(str(Path(__file__).parents[1] / "examples" / "12_problem_class.py"))
    rng = np.random.default_rng(0)
    problem = example["ApartProblem"](rng.normal(size=(40, 3)), rng.integers(0, 40, (30, 2)), weight=0.1)
    contract.check_statement(lambda: problem, {"factored": 1e-3})


def test_every_statement_has_a_factory():
    assert {name for name, kind in statements().items() if kind.__module__.startswith("sdpmetric.")} <= set(FACTORIES)


@pytest.mark.parametrize("name", FACTORIES)
def test_solvers_agree_and_lower_bounds_are_below_objectives(name):
    contract.check_sandwich(solutions_of(name))


@pytest.mark.parametrize(("name", "solver"), EXAMPLES)
def test_save_and_load(name, solver, tmp_path):
    contract.check_saving(solved(name, solver))
    solved(name, solver).save(tmp_path / "solution.npz")
    with pytest.raises(ValueError, match=r"solution\.npz"):
        sm.Solution.load(tmp_path / "solution.npz", make(name, 1))


@pytest.mark.parametrize(("name", "solver"), EXAMPLES)
def test_limits_and_interruption_return_a_certified_point(name, solver):
    contract.check_limits(make(name), entry_of(name, solver))


@pytest.mark.parametrize("name", FACTORIES)
def test_equal_statements_are_equal_and_others_are_not(name):
    contract.check_identity(lambda: make(name))
    X, y = data()
    assert FACTORIES[name](X + 1e-9, y).fingerprint() != make(name).fingerprint()


@pytest.mark.parametrize("name", FACTORIES)
def test_bad_input_is_refused_by_a_sentence_before_any_work(name, monkeypatch):
    contract.check_bad_arguments(make(name))
    if name != "multi-metric-lmnn":  # whose points have three dimensions
        contract.check_bad_points(make(name))


@pytest.mark.parametrize("name", sorted({*FACTORIES} - {"kernel-lmnn"}))
def test_single_precision_in_single_precision_out(name):
    X, y = data()
    solution = sm.solve(FACTORIES[name](X.astype(np.float32), y), tol=1e-2, max_time=30)
    assert solution.components.dtype == np.float32


@pytest.mark.parametrize("name", ["lmnn", "kernel-lmnn", "multi-metric-lmnn", "mmc"])
def test_the_optimum_does_not_depend_on_the_order_of_rows_or_the_names_of_classes(name):
    X, y = data()
    state = {**FACTORIES, "mmc": lambda X, y: sm.MMCProblem.from_labels(X, y)}[name]
    order = np.random.default_rng(3).permutation(N)
    names = np.array(["c", "a", "b"])
    contract.check_sandwich([sm.solve(state(X, y)), sm.solve(state(X[order], names[y[order]]))])


@pytest.mark.parametrize("name", FACTORIES)
def test_certify(name):
    problem = make(name)
    certificate = sm.certify(problem, point(problem))
    assert certificate.lower_bound <= certificate.objective
    if name == "frml":
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
    if name not in ("lmnn", "kernel-lmnn", "multi-metric-lmnn", "pola"):
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
    if name in ("nca", "mlkr", "frml"):  # their lower bounds need none
        return
    for bad in (np.zeros(1), np.full(10_000, np.nan)):
        with pytest.raises((TypeError, ValueError), match="dual"):
            sm.certify(problem, point(problem), dual=bad)
