"""Printed programs beside the equations of their papers, term by term, and dual programs beside the primal ones."""

import re
from html import unescape

import cvxpy as cp
import numpy as np
import pytest

import sdpmetric as sm
from sdpmetric import lines, terms
from sdpmetric.losses import ScalarLoss
from sdpmetric.programs import named

LINE = np.array([0.0, 1.0, 2.0, 3.5, 4.5, 5.5])[:, None]
PLANE = np.array([[0, 0], [1, 2], [3, 1], [4, 4], [2, 5], [5, 2.5]])
LABELS = [0, 0, 0, 1, 1, 1]
PAIRS, SIMILAR = np.array([[0, 1], [2, 3], [0, 2], [1, 3]]), np.array([True, True, False, False])
TRIPLETS = [[0, 1, 2], [3, 2, 1]]
TIGHT = {"solver": "CLARABEL", "tol_gap_rel": 1e-10, "tol_gap_abs": 1e-10, "tol_feas": 1e-10}


def summed(total):
    return lambda **options: sm.MetricProblem(PLANE, total, **options)


def hinge(**options):
    return 0.5 * terms.Pull(PAIRS[:2]) + terms.TripletHinge(TRIPLETS, **options)


LMNN = {
    "line": lambda: sm.LMNNProblem.from_labels(LINE, LABELS, 1, 0.5),
    "plane": lambda: sm.LMNNProblem.from_labels(PLANE, LABELS, 1, 0.3, ridge=0.1),
    "squared": lambda: sm.LMNNProblem.from_labels(PLANE, LABELS, 1, 0.3, loss="squared_hinge"),
    "weights": lambda: sm.LMNNProblem.from_labels(PLANE, LABELS, 1, 0.6, sample_weight=[1, 2, 0.5, 1, 3, 1]),
    "several": lambda: sm.MultiMetricLMNNProblem.from_labels(PLANE, LABELS, 1, 0.6, ridge=0.01),
    "triplets": lambda: sm.LMNNProblem.from_triplets(PLANE, [[0, 1, 3], [3, 4, 0]], push_weight=0.7),
    "kernel": lambda: sm.KernelLMNNProblem.from_labels(PLANE, LABELS, 1, 0.5, kernel="poly", ridge=0.1),
}
SMALL = LMNN | {
    "pola hard": lambda: sm.POLAProblem(2 * PLANE[:, :1], [[0, 1], [0, 2], [0, 3]], [True, False, False]),
    "pola soft": lambda: sm.POLAProblem(PLANE, PAIRS, SIMILAR, 0.5, 2.0, pair_weights=[1, 2, 1, 1]),
    "itml": lambda: sm.ITMLProblem(PLANE, PAIRS, SIMILAR, upper=1.5, lower=8, gamma=2),
    "itml with a prior": lambda: sm.ITMLProblem(PLANE, PAIRS, SIMILAR, 1.5, 8, 0.5, "covariance", [1, 2, 1, 1]),
    "mmc": lambda: sm.MMCProblem(PLANE, PAIRS, SIMILAR),
    "mmc diagonal": lambda: sm.MMCProblem(PLANE, PAIRS, SIMILAR, diagonal=True),
    "sdml": lambda: sm.SDMLProblem(PLANE, PAIRS, SIMILAR, distance_weight=0.05, sparsity=0.02),
    "lsml": lambda: sm.LSMLProblem(PLANE, [[0, 3, 0, 2], [2, 3, 1, 3]]),
    "scml": lambda: sm.SCMLProblem(PLANE, TRIPLETS, bases=[[1, 0], [1, 1.0], [0, 1]], sparsity=0.1),
    "lmnn as a sum": lambda: LMNN["plane"]().as_sum(),
    "pairs": summed(
        0.5 * terms.PairHinge(PAIRS, SIMILAR) + 0.1 * terms.Frobenius(to=[[1, 0.5], [0.5, 2]]) + terms.Trace()
    ),
    "squared hinge": summed(hinge(loss="squared_hinge", weights=[1, 2.0])),
    "logistic": summed(hinge(loss="logistic") + terms.LogDet(weight=0.2)),
    "hard": summed(
        terms.Frobenius(weight=2)
        + terms.DistanceBounds(PAIRS, at_most=[4, 4, np.inf, np.inf], at_least=[0, 0, 9, 9])
        + terms.QuadrupletHinge([[0, 1, 2, 1]], loss="hard")
    ),
    "targets": summed(terms.LogDet() + 0.3 * terms.DistanceTargets(PAIRS, [1, 1, 5, 5], sides=[0, 1, -1, 0])),
    "budget": summed(terms.Spread(PAIRS[2:], weights=[1, 3]) + terms.Budget(PAIRS[:2], bound=3, costs=[1, 2])),
    "weights of features": lambda: summed(hinge() + 0.01 * terms.Frobenius())(diagonal=True),
}


@pytest.mark.parametrize("name", SMALL)
def test_the_optimum_of_the_dual_program_is_that_of_the_program(name):
    """And each has the other's variables as its dual values, by name; the multipliers prove what they are worth."""
    problem = SMALL[name]()
    primal, dual = problem.program(), problem.dual_program()
    for program in (primal, dual):
        assert program.is_dcp()
        program.solve(**TIGHT)
    assert dual.value == pytest.approx(primal.value, rel=1e-6, abs=1e-6)
    by_name = named(primal)
    for variable in dual.variables():
        if variable.name() in by_name:  # regularizers have no constraint
            scale = 1.0 + np.abs(variable.value).max()
            constraint = by_name[variable.name()]
            assert constraint.dual_value is not None
            if name not in ("scml", "weights of features"):  # whose multipliers are not unique
                assert np.asarray(constraint.dual_value).ravel() == pytest.approx(
                    np.asarray(variable.value).ravel(), abs=2e-3 * scale
                )
    for constraint in dual.constraints:
        if constraint.label is not None:
            value = np.asarray(by_name[constraint.label].value)
            assert np.asarray(constraint.dual_value) == pytest.approx(value, abs=2e-3 * (1.0 + np.abs(value).max()))


@pytest.mark.parametrize("name", SMALL)
def test_every_symbol_of_a_printed_program_is_known(name):
    """A printed line names points, variables of the program, and symbols that are defined below."""
    problem = SMALL[name]()
    for program in (problem.program(), problem.dual_program()):
        text = str(program)
        assert "-0 " not in text
        assert "+ -" not in text
        assert "- -" not in text
        assert "  where" not in text
        body, where = text.split("\nwhere ")
        defined = {re.match(r"\s*([A-Za-z]\w*)", line)[1].split("_")[0] for line in where.splitlines()}
        variables = {name.split("_excess")[0] for name in program.var_dict} | {"xi"}
        labels = {constraint.label for constraint in program.constraints}
        assert all(labels) or program.lines().goal == "maximize"  # a dual program labels what is a primal variable
        assert len(program.var_dict) == len(program.variables())
        words = set(re.findall(r"[A-Za-z]\w*", body)) - {"minimize", "maximize", "subject", "to"}
        known = {"tr", "log", "det", "exp", "sqrt", "I", "k", "jk", "b_k", "sum_jk", "M_jk", "E"}
        assert words <= known | defined | variables | labels | {f"D_{r}" for r in (1, 2)}, words
        tex = program.to_latex()
        assert tex.startswith(r"\begin{aligned}")
        assert not re.search(r">=|<=|>>|\*|\|\||(?<![\\a-z])xi|==", tex), tex
        assert tex.count("{") == tex.count("}")


def evaluated(text, X, metric, **values):
    """The number that a line stands for at a metric: read as arithmetic, as a student would."""
    text = re.sub(r"\[([^\[\]]*?)\]_\+", r"pos(\1)", re.sub(r"(\w)\[([\d,]+)\]", r"\1(\2)", text))
    for old, new in (("log det(", "logdet("), ("||A||^2", "np.sum(A * A)"), ("||M||^2", "np.sum(M * M)"), ("^", "**")):
        text = text.replace(old, new)
    text = re.sub(r"1/2", "0.5", text)
    distance = lambda i, j: (X[i] - X[j]) @ metric @ (X[i] - X[j])  # noqa: E731
    functions = {"pos": lambda u: max(u, 0.0), "logdet": lambda A: np.linalg.slogdet(A)[1], "tr": np.trace}
    functions |= {"D": distance, "log": np.log, "sqrt": np.sqrt, "np": np, "M": metric, "A": metric}
    return eval(text, functions | values)


def dual_evaluated(text, X, values):
    """The number, or the matrix, that a line of a dual program stands for."""
    text = re.sub(r"\|\|(\w+)\|\|\^2", r"np.sum(\1 * \1)", text).replace("^", "**").replace("log det(", "logdet(")
    text = re.sub(r"(\w+) M0\b", r"\1 @ M0", re.sub(r"\bM0 (\w+)", r"M0 @ \1", text)).replace("1/2", "0.5")
    squares = {"V": lambda i, j: np.outer(X[i] - X[j], X[i] - X[j]), "I": np.eye(X.shape[1]), "np": np, "log": np.log}
    squares |= {"logdet": lambda A: np.linalg.slogdet(A)[1], "tr": np.trace}
    squares["E"] = lambda a: np.array([[0.0, a / 2], [a / 2, 0.0]])
    return eval(text, squares | values)


@pytest.mark.parametrize("name", [name for name in SMALL if name != "kernel"])
def test_a_printed_dual_program_has_the_numbers_of_the_program(name):
    """Read as arithmetic at other multipliers than the optimal ones: objective, PSD matrices and boxes."""
    problem = SMALL[name]()
    program, rng, values = problem.dual_program(), np.random.default_rng(0), {}
    printed = program.lines()
    for variable in program.variables():
        scale = 0.05 if variable.ndim == 2 else 0.01
        value = scale * rng.uniform(1, 2, size=variable.shape)
        variable.value = value @ value.T if variable.ndim == 2 else value
        single = variable.size == 1 and variable.ndim < 2
        values[variable.name()] = float(np.ravel(variable.value)[0]) if single else variable.value
    tied = getattr(problem, "tied", problem)
    values |= {"mu": getattr(tied, "push_weight", None), "rho": getattr(tied, "ridge", None)}
    targets = [term.target for term in getattr(problem, "terms", ()) if term.name in ("frobenius", "log_det")]
    values |= {"M0": targets[0] if targets else None}
    for line in printed.definitions:
        if found := re.match(r"([Ap]) = (.*)", line):
            values[found[1]] = dual_evaluated(found[2], problem.X, values)
    value = dual_evaluated(printed.objective, problem.X, values)
    assert value == pytest.approx(float(program.objective.args[0].value), rel=1e-4)
    by_label = {constraint.label: constraint for constraint in program.constraints if constraint.label is not None}
    checked = 0
    for label, rows in printed.constraints:
        if label.startswith("M"):
            matrix = dual_evaluated(rows[0].removesuffix(" >> 0"), problem.X, values)
            assert np.asarray(matrix) == pytest.approx(by_label[label].args[0].value, rel=1e-4, abs=1e-6)
        elif label == "w":
            S = dual_evaluated(re.fullmatch(r"b_k' \((.*)\) b_k >= 0", rows[0])[1], problem.X, values)
            B = problem.domain.basis
            expected = by_label[label].args[1].value - by_label[label].args[0].value
            assert np.sum((B @ S) * B, axis=1) == pytest.approx(expected, rel=1e-4)
        elif label == "xi":
            limits = [dual_evaluated(row.split(" <= ")[1], problem.X, values) for row in rows]
            assert np.broadcast_to(limits, values["margins"].shape) == pytest.approx(by_label[label].args[1].value)
        checked += bool(label)
    assert checked or name == "pola hard"


METRIC = np.array([[0.3, 0.1], [0.1, 0.2]])


def squared(X, i, j):
    return (X[i] - X[j]) @ METRIC @ (X[i] - X[j])


def parts(problem):
    """Objective and constraints of the printed program, without labels."""
    printed = problem.lines()
    return printed.objective, [row for _, rows in printed.constraints for row in rows]


def test_lmnn_is_section_3_4_term_by_term():
    """Minimize (1 - mu) sum D(i, j) + mu sum xi_ijl subject to D(i, l) - D(i, j) >= 1 - xi_ijl, xi >= 0, M PSD."""
    problem = LMNN["line"]()
    objective, rows = parts(problem)
    targets = np.stack(problem.target_pairs, axis=1).tolist()
    triplets = problem.push.all_triplets().to_array().tolist()
    pull = " + ".join(f"D({i},{j})" for i, j in targets)
    push = " + ".join(f"xi[{i},{j},{l}]" for i, j, l in triplets)
    assert objective == f"(1 - mu) * ({pull}) + mu * ({push})"
    assert rows == [*(f"D({i},{l}) - D({i},{j}) >= 1 - xi[{i},{j},{l}]" for i, j, l in triplets), "xi >= 0", "M >> 0"]
    assert problem.program().solve(**TIGHT) == pytest.approx(4 / 3)


def test_several_metrics_are_equation_16_with_a_metric_for_each_region():
    problem = LMNN["several"]()
    objective, rows = parts(problem)
    for i, j, l in problem.push.all_triplets().to_array().tolist():
        near, far = (1 + problem.regions[k] for k in (j, l))
        assert f"D_{far}({i},{l}) - D_{near}({i},{j}) >= 1 - xi[{i},{j},{l}]" in rows
    assert objective.endswith("+ rho * (tr(M_1) + tr(M_2))")
    assert rows[-2:] == ["M_1 >> 0", "M_2 >> 0"]
    assert set(problem.program().var_dict) == {"M_1", "M_2", "xi"}


def test_pola_is_equation_2_with_the_comparators_norm():
    """1/2 ||A||^2 + 1/2 (b - b_1)^2 subject to y (b - D) >= 1; the soft margin adds the weighted slacks."""
    problem = SMALL["pola soft"]()
    objective, rows = parts(problem)
    xi = np.array([0.1, 0.2, 0.3, 0.4])
    value = evaluated(objective, PLANE, METRIC, b=3.0, c=0.5, xi=lambda t: xi[t])
    expected = 0.5 * np.sum(METRIC**2) + 0.5 * (3.0 - 2.0) ** 2 + 0.5 * (xi @ [1, 2, 1, 1])
    assert value == pytest.approx(expected)
    for t, ((i, j), y) in enumerate(zip(PAIRS, np.where(SIMILAR, 1, -1), strict=True)):
        left, right = rows[t].split(" >= ")
        assert evaluated(left, PLANE, METRIC, b=3.0) == pytest.approx(y * (3.0 - squared(PLANE, i, j)))
        assert right == f"1 - xi[{t}]"
    assert rows[4:] == ["xi >= 0", "A >> 0", "b >= 1"]
    hard_objective, hard_rows = parts(SMALL["pola hard"]())
    assert hard_objective == "1/2 * ||A||^2 + 1/2 * (b - 1)^2"
    assert hard_rows == ["b - D(0,1) >= 1", "D(0,2) - b >= 1", "D(0,3) - b >= 1", "A >> 0", "b >= 1"]


def test_itml_is_its_papers_program_with_slacks():
    """D_ld(A, I) + gamma D_ld(diag(xi), diag(xi_0)) subject to D <= xi for similar, D >= xi for other pairs."""
    objective, rows = parts(SMALL["itml"]())
    xi, xi_0 = np.array([1.0, 2.0, 7.0, 9.0]), np.array([1.5, 1.5, 8.0, 8.0])
    expected = np.trace(METRIC) - np.linalg.slogdet(METRIC)[1] - 2 + 2 * np.sum(xi / xi_0 - np.log(xi / xi_0) - 1)
    assert evaluated(objective, PLANE, METRIC, xi=lambda t: xi[t]) == pytest.approx(expected)
    assert rows == ["D(0,1) <= xi[0]", "D(2,3) <= xi[1]", "D(0,2) >= xi[2]", "D(1,3) >= xi[3]", "M >> 0"]


def test_mmc_maximizes_distances_within_a_budget():
    objective, rows = parts(SMALL["mmc"]())
    assert objective == "-sqrt(D(0,2)) - sqrt(D(1,3))"
    assert rows == ["D(0,1) + D(2,3) <= 1", "M >> 0"]


@pytest.mark.parametrize("name", ["sdml", "lsml", "pairs", "scml", "squared hinge", "targets"])
def test_a_printed_sum_has_the_objective_of_its_problem(name):
    """Read as arithmetic, the objective is the problem's at any metric; no constraint but the cone is left."""
    problem = SMALL[name]()
    printed = problem.lines()
    M0 = next((terms.target for terms in problem.total.regularizers), np.eye(2))
    text = printed.objective.replace("M M0^-1", "M @ np.linalg.inv(M0)").replace(
        "||M - M0||^2", "np.sum((M - M0) ** 2)"
    )
    text = text.replace("sum_jk |M_jk|", "2 * off")
    metric = problem.domain.basis.T @ np.diag([0.1, 0.2, 0.1]) @ problem.domain.basis if name == "scml" else METRIC
    value = evaluated(text, PLANE, metric, M0=M0, off=abs(metric[0, 1]))
    assert value == pytest.approx(problem.objective(metric=metric), rel=1e-5)
    assert [rows for _, rows in printed.constraints] == [["w >= 0" if name == "scml" else "M >> 0"]]


def test_names_do_not_depend_on_the_size():
    """Below and above the number of rows that are shown, with the weights as parameters or not."""
    X, y = sm.datasets.load("iris")
    for last in (53, 140):
        for parametric in (False, True):
            stated = sm.LMNNProblem.from_triplets(X, [[0, 1, l] for l in range(50, last)])
            program = sm.to_cvxpy(stated, parametric=parametric)
            assert [c.label for c in program.constraints] == ["margins", "slacks", "cone"]
            assert set(program.param_dict) == ({"push_weight", "ridge"} if parametric else set())
            assert set(program.var_dict) == {"M", "xi"}
    few, many = (sm.POLAProblem(X, [[0, k] for k in range(1, last)], y[1:last] == 0, 1.0) for last in (40, 140))
    assert [c.label for c in few.program().constraints] == [c.label for c in many.program().constraints]
    assert "... (136 more)" in str(many.program())
    assert r"\cdots (136" in many.to_latex()


def test_large_problems_print_the_general_form():
    problem = sm.LMNNProblem.from_labels(*sm.datasets.load("digits"))
    assert problem.lines().objective == "(1 - mu) * sum_ij D(i,j) + mu * sum_ijl xi[i,j,l]"
    assert r"\sum_{ijl} \xi_{i, j, l}" in problem.to_latex()
    with pytest.raises(ValueError, match="the program would have"):
        problem.dual_program()


def test_notebooks_show_the_program():
    problem = LMNN["line"]()
    assert f"$${problem.to_latex()}$$" in unescape(problem._repr_html_())
    assert problem.dual_program()._repr_latex_().startswith(r"$$\begin{aligned}")


def test_weights_of_a_parametric_program_are_shown_as_they_are():
    """And refused outside of their range, in which the program is bounded."""
    program = sm.to_cvxpy(LMNN["plane"](), parametric=True)
    program.param_dict["push_weight"].value = 0.7
    assert "mu = 0.7" in str(program)
    for wrong in (1.5, -0.1):
        with pytest.raises(ValueError, match="push_weight must be"):
            program.param_dict["push_weight"].value = wrong
    pola = SMALL["pola soft"]()
    program = sm.to_cvxpy(pola, parametric=True)
    assert program.is_dcp(dpp=True)
    program.param_dict["slack_weight"].value = 0.01
    assert "c = 0.01" in str(program)
    other = sm.to_cvxpy(pola.with_weights(slack_weight=0.01))
    assert program.solve(**TIGHT) == pytest.approx(other.solve(**TIGHT), rel=1e-6)
    with pytest.raises(TypeError, match="hard margin"):
        sm.to_cvxpy(SMALL["pola hard"](), parametric=True)


def test_a_loss_of_ones_own_prints_as_a_letter_and_says_what_the_dual_lacks():
    class Quartic(ScalarLoss):
        name = "quartic"

        def values(self, u):
            return np.maximum(u, 0.0) ** 4

        def slopes(self, u, width):
            return 4.0 * np.maximum(u, 0.0) ** 3

        def conjugates(self, s):
            return 0.75 * s * (s / 4.0) ** (1 / 3)

        def expression(self, u, cp):
            return cp.power(cp.pos(u), 4), []

    assert Quartic().form.format(u="u", v="-u") == "l(u)"
    with pytest.raises(TypeError, match="does not say its conjugate"):
        Quartic().dual_expression(cp.Variable(2), np.zeros(2), cp)


@pytest.mark.parametrize(
    ("plain", "expected"),
    [
        ("D(0,1) - D(0,12) >= 1 - xi[0,1,12]", r"D(0,1) - D(0,12) \ge 1 - \xi_{0, 1, 12}"),
        ("x_10 = (0, -1.5)", "x_{10} = (0, -1.5)"),
        ("tr(M M0^-1) - log det(M)", r"\operatorname{tr}(M M_{0}^{-1}) - \log \det(M)"),
        ("2 * [1 + D_1(0,1)]_+^2", r"2\, [1 + D_{1}(0,1)]_+^2"),
        ("triplet_hinge[3] * sqrt(D(0,1))", r"\mathrm{triplet\_hinge}_{3}\, \sqrt{D(0,1)}"),
        ("1/2 * ||A||^2 + ... (7 more)", r"\tfrac12\, \lVert A \rVert^2 + \cdots (7 \mathrm{more})"),
    ],
)
def test_plain_lines_in_latex(plain, expected):
    assert lines.latex(plain) == expected


def test_sums_of_weighted_terms():
    assert (
        lines.total([(1.0, "a"), (-2.0, "b + c"), (0.5, "-d"), (-1.0, "e - f")])
        == "a - 2 * (b + c) - 0.5 * d - (e - f)"
    )
    assert lines.total(((1.0, f"x_{k}") for k in range(60)), 60) == "x_0 + x_1 + x_2 + ... (57 more)"
    assert lines.number(-0.0) == "0"
