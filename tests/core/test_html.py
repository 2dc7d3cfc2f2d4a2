"""What notebooks show: well-formed tables with what is known, and text escaped."""

import math
from xml.etree import ElementTree

import numpy as np
import pytest

import sdpmetric as sm
from sdpmetric.core import html


@pytest.fixture(scope="module")
def solution():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 15)
    return sm.solve(sm.LMNNProblem.from_labels(rng.normal(size=(45, 3)) + y[:, None], y, ridge=0.25), "subgradient")


def cells(shown):
    """The text of each row of a table, by its first cell."""
    table = ElementTree.fromstring(f"<div>{shown._repr_html_()}</div>")[0]
    return {row[0].text: [cell.text for cell in row[1:]] for row in table.iter("tr") if len(row)}, table[0].text


def test_everything_shown_is_a_table_with_its_sentence(solution):
    rows, caption = cells(solution)
    assert caption == str(solution)
    assert rows["solver"] == ["subgradient"]
    assert rows["status"] == [f"optimal: {sm.Status.OPTIMAL.advice}"]
    assert float(rows["objective"][0]) == pytest.approx(solution.objective, rel=1e-5)
    rows, caption = cells(solution.problem)
    assert caption == solution.problem.describe()
    assert rows["ridge"] == ["0.25"]
    assert rows["examples"] == ["45"]
    rows, caption = cells(solution.certificate)
    assert caption == str(solution.certificate)
    assert rows["kind of proof"] == ["duality"]
    assert rows["active triplets"] == [f"{solution.certificate.n_active:,}"]
    rows, _ = cells(sm.explain(solution))
    assert set(rows) == {"support", "influence", "slacks", "sensitivity"}
    rows, _ = cells(sm.compare(solution))
    assert len(rows) == 2


def test_a_trace_shows_its_ends_and_no_empty_columns(solution):
    rows, _ = cells(solution.trace)
    assert len(rows) - 1 == min(len(solution.trace), 12)
    assert "mistakes" not in rows["iteration"]
    assert "score" not in rows["iteration"]
    assert cells(sm.Trace())[1] == "0 steps"
    trace = sm.Trace([sm.TraceRow(i, i, 2.0, 1.0) for i in range(1, 31)])
    assert cells(trace)[1] == "30 steps, 18 in the middle left out"


def test_unknown_values_are_left_out_and_text_is_escaped():
    table = ElementTree.fromstring(html.facts("a < b & c", {"x": math.inf, "y": None, "z": "<script>"}))
    assert table.find("caption").text == "a < b & c"
    assert [[cell.text for cell in row] for row in table.iter("tr")] == [["z", "<script>"]]
