"""Convergence and active triplets: the curves are those of the trace, and the certificate ends them."""

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.collections import PolyCollection

import sdpmetric as sm
from sdpmetric import datasets
from sdpmetric.core.trace import Trace, TraceRow
from sdpmetric.plotting import COLORS, ActiveTripletsDisplay, ConvergenceDisplay


@pytest.fixture(autouse=True)
def agg():
    mpl.use("Agg")
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def solved():
    X, y = datasets.load("wine")
    return sm.solve(sm.LMNNProblem.from_labels(datasets.standardize(X), y, 3, 0.3))


def trace(*rows):
    return Trace([TraceRow(i, *row) for i, row in enumerate(rows)])


def test_convergence_draws_the_best_so_far_and_its_gap():
    rows = trace((0.5, 9.0, -np.inf), (1.0, 5.0, 3.0), (1.5, 6.0, 2.0), (2.0, np.inf, 4.0), (2.5, 4.5, 4.4))
    display = ConvergenceDisplay.from_trace(rows, name="ours")
    values, gaps = display.ax_
    curves = {line.get_label(): line.get_xydata().tolist() for line in values.lines}
    assert curves["ours: objective"] == [[0.5, 9], [1, 5], [1.5, 5], [2, 5], [2.5, 4.5]]
    assert curves["ours: lower bound"] == [[1, 3], [1.5, 3], [2, 4], [2.5, 4.4]]
    np.testing.assert_allclose(gaps.lines[0].get_ydata(), [2 / 5, 2 / 5, 1 / 5, 0.1 / 4.5])
    assert gaps.get_yscale() == "log"
    assert gaps.get_xlabel() == "seconds"
    assert values.get_xlim()[0] == 0
    assert sum(isinstance(c, PolyCollection) for c in values.collections) == 1
    assert display.gap[0] == np.inf


def test_convergence_ends_with_the_certificate(solved):
    display = ConvergenceDisplay.from_solution(solved, against="iteration")
    assert display.at[-1] == solved.n_iter
    assert display.objective[-1] <= solved.objective
    assert display.gap[-1] <= solved.relative_gap
    assert display.ax_[1].get_xlabel() == "iteration"
    assert display.ax_[0].lines[0].get_label() == "factored: objective"


def test_a_second_solve_is_drawn_on_the_axes_of_the_first_in_another_color():
    first = ConvergenceDisplay.from_trace(trace((1.0, 5.0, 3.0), (2.0, 4.0, 3.5)), name="first")
    second = ConvergenceDisplay.from_trace(trace((0.01, 400.0, 1.0), (90.0, 4.0, 4.0)), name="second", ax=first.ax_)
    assert second.ax_ == first.ax_
    assert second.figure_ is first.figure_
    assert [line.get_color() for line in first.ax_[0].lines] == [COLORS[0]] * 2 + [COLORS[1]] * 2
    assert first.ax_[0].get_xscale() == first.ax_[0].get_yscale() == "log"
    low, high = first.ax_[0].get_xlim()
    assert 0 < low < 0.01 < 90 < high
    assert len(first.ax_[1].lines[1].get_ydata()) == 1  # a gap of 0 has no place on the axis


def test_convergence_without_bounds_and_of_streams():
    none = ConvergenceDisplay.from_trace(trace((1.0, 5.0, -np.inf), (2.0, 4.0, np.nan)), kind="stationarity")
    assert [text.get_text() for text in none.ax_[1].texts] == ["no lower bound"]
    assert len(none.ax_[0].lines) == 1
    ConvergenceDisplay.from_trace(trace((1.0, 4.0, 4.0)), ax=none.ax_)
    assert [text.get_text() for text in none.ax_[1].texts] == ["the gap is 0"]
    ConvergenceDisplay.from_trace(trace((1.0, 4.0, 3.0), (2.0, 4.0, 4.0 + 1e-12)), ax=none.ax_)
    assert not none.ax_[1].texts
    np.testing.assert_allclose(none.ax_[1].lines[0].get_xydata(), [[1.0, 0.25]])
    assert none.ax_[0].lines[-1].get_ydata()[-1] == 4.0 + 1e-12
    stream = ConvergenceDisplay.from_trace(trace((1.0, 5.0, 0.0), (2.0, 8.0, 2.0)), kind="regret")
    assert stream.ax_[0].lines[0].get_ydata().tolist() == [5, 8]
    assert stream.ax_[0].get_ylabel() == "cumulative loss"


def test_active_triplets_where_they_were_counted(solved):
    rows = Trace([TraceRow(i, i + 0.5, 1.0, 0.0, n_active=n) for i, n in enumerate((30, 0, 20, 7))])
    display = ActiveTripletsDisplay.from_trace(rows)
    assert display.ax_.lines[0].get_xydata().tolist() == [[0.5, 30], [2.5, 20], [3.5, 7]]
    assert display.ax_.get_ylim()[0] == 0
    assert display.ax_.get_ylim()[1] > 30
    more = ActiveTripletsDisplay.from_solution(solved, ax=display.ax_)
    assert more.n_active[-1] == solved.certificate.n_active > 0
    assert display.ax_.get_yscale() == "log"
    assert display.ax_.get_ylim()[0] < 7 < more.n_active.max() < display.ax_.get_ylim()[1]
    assert display.ax_.get_ylabel() == f"active triplets, of {solved.problem.source.size:,}"
    nothing = ActiveTripletsDisplay.from_trace(Trace([TraceRow(0, 1.0, 1.0, 0.0)]))
    assert nothing.ax_.lines[0].get_ydata().tolist() == [0]
