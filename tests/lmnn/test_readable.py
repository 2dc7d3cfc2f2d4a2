"""Small programs print as the paper does, and are the same programs as the larger ones in one matrix."""

import re
from html import unescape

import numpy as np
import pytest

import sdpmetric as sm
from sdpmetric.lmnn import readable

LINE = np.array([0.0, 1.0, 2.0, 3.5, 4.5, 5.5])[:, None]
PLANE = np.array([[0, 0], [1, 2], [3, 1], [4, 4], [2, 5], [5, 2.5]])
LABELS = [0, 0, 0, 1, 1, 1]
SMALL = {
    "line": lambda: sm.LMNNProblem.from_labels(LINE, LABELS, 1, 0.5),
    "plane": lambda: sm.LMNNProblem.from_labels(PLANE, LABELS, 1, 0.3, ridge=0.1),
    "squared": lambda: sm.LMNNProblem.from_labels(PLANE, LABELS, 1, 0.3, loss="squared_hinge"),
    "weights": lambda: sm.LMNNProblem.from_labels(PLANE, LABELS, 1, 0.6, sample_weight=[1, 2, 0.5, 1, 3, 1]),
    "frobenius": lambda: sm.LMNNProblem.from_labels(PLANE, LABELS, 1, 0.6, frobenius=0.2),
    "several": lambda: sm.MultiMetricLMNNProblem.from_labels(PLANE, LABELS, 1, 0.6, ridge=0.01),
    "triplets": lambda: sm.LMNNProblem.from_triplets(PLANE, [[0, 1, 3], [3, 4, 0]], push_weight=0.7),
}


@pytest.mark.parametrize("name", SMALL)
def test_a_small_program_has_the_optimum_and_multipliers_of_the_large_one(name, monkeypatch):
    problem = SMALL[name]()
    small = problem.program()
    assert type(small).__name__ == "ReadableProgram"
    assert small.is_dcp(dpp=True)
    solution = sm.solve(problem, tol=1e-7, solver="dual" if name == "frobenius" else "conic")
    monkeypatch.setattr(readable, "MAX_TRIPLETS", 0)
    large = problem.program()
    assert "margins" in {constraint.label for constraint in large.constraints}
    for program in (small, large):
        program.solve(solver="CLARABEL", tol_gap_rel=1e-10, tol_gap_abs=1e-10, tol_feas=1e-10)
        assert program.value == pytest.approx(solution.objective, rel=1e-6)
    assert sm.bound(small).lower_bound <= solution.objective * (1 + 1e-9)
    assert sm.bound(small).upper_bound >= solution.lower_bound * (1 - 1e-9)


def test_six_points_are_equation_14_term_by_term():
    problem, mu = SMALL["line"](), 0.5
    program = problem.program()
    head, *rows = str(program).splitlines()
    pull, push = re.fullmatch(r"minimize \(1 - mu\) \* \((.*)\) \+ mu \* (.*)", head).groups()
    number = r"trace\(\[\[([\d.]+)\]\] @ M\)"
    i, j = problem.target_pairs
    assert [float(found) for found in re.findall(number, pull)] == ((LINE[i] - LINE[j]) ** 2).ravel().tolist()
    assert pull.count("+") == len(i) - 1
    assert push == "sum(xi)"
    triplets = problem.push.all_triplets().to_array().tolist()
    for t, ((i, j, l), row) in enumerate(zip(triplets, rows, strict=False)):
        B = (LINE[i] - LINE[l]).item() ** 2 - (LINE[i] - LINE[j]).item() ** 2
        assert row.removeprefix("subject to").strip() == f"push[{i},{j},{l}]: trace([[{B:.4g}]] @ M) >= 1 - xi[{t}]"
    assert [row.strip() for row in rows[len(triplets) :]] == ["slacks: xi >= 0", "cone: M >> 0"]
    assert program.param_dict["mu"].value == mu
    assert program.param_dict["(1 - mu)"].value == 1 - mu
    assert program.solve(solver="CLARABEL") == pytest.approx(4 / 3)


def test_latex_has_every_pull_and_every_slack():
    problem = SMALL["line"]()
    text = problem.to_latex()
    assert text.count(r"\xi_{") == 2 * problem.source.size
    assert text.startswith(r"\begin{aligned}")
    assert f"$${text}$$" in unescape(problem._repr_html_())
    large = sm.LMNNProblem.from_labels(*sm.datasets.load("iris"))
    assert r"\sum_{(i, j, l)} \xi_{ijl}" in large.to_latex()
    assert r"M^{r_l}" in sm.MultiMetricLMNNProblem.from_labels(*sm.datasets.load("iris"), ridge=0.1).to_latex()
