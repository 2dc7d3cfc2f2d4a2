"""What is said while a solve runs, and the bar that moves while loops are compiled."""

import io
import logging

import numba as nb
import pytest
from rich.console import Console
from rich.progress import Progress

from sdpmetric.core.printer import LOGGER, Printer, compilation_bar, say
from sdpmetric.core.trace import TraceRow


@pytest.mark.parametrize(("module", "moves"), [("sdpmetric._loops.pairs", 1), ("numba.np.linalg", 0)])
def test_bar_moves_once_for_each_loop_of_the_package(module, moves, monkeypatch):
    advanced = []
    monkeypatch.setattr(Progress, "advance", lambda self, task, advance=1.0: advanced.append(advance))

    def double(x):
        return 2 * x

    double.__module__ = module
    loop = nb.njit(double)
    screen = io.StringIO()
    with compilation_bar("compiling", Console(file=screen, force_terminal=True)):
        loop(1)
        loop(2)
    loop(1.5)  # compiled again, but no longer watched
    assert len(advanced) == moves
    assert "compiling" in screen.getvalue()


def test_without_a_terminal_there_is_one_line():
    screen = io.StringIO()
    with compilation_bar("compiling", Console(file=screen)):
        pass
    assert screen.getvalue() == "compiling ...\n"


def lines(*rows, **options):
    written = []
    printer = Printer(written.append, interval=0.0, **options)
    for row in rows:
        printer(row)
    return written


def test_what_is_unknown_is_left_blank_and_columns_stay_aligned():
    rows = TraceRow(3, 0.5, float("inf"), float("-inf")), TraceRow(7, 1.5, 4.0, 3.0, 0.01, 12)
    head, first, second = lines(*rows)
    assert head.split() == ["iter", "seconds", "objective", "lower", "bound", "gap", "level", "active"]
    assert first.split() == ["3", "0.50"]
    assert second.split() == ["7", "1.50", "4", "3", "2.50e-01", "1.00e-02", "12"]
    assert second.index("2.50e-01") + 8 == head.index("gap") + 3


def test_the_gap_is_of_the_best_so_far_and_of_a_stream_its_own():
    rows = TraceRow(1, 1.0, 4.0, 3.0), TraceRow(2, 2.0, 6.0, 2.0)
    assert "2.50e-01" in lines(*rows)[-1]
    assert "6.67e-01" in lines(*rows, stream=True)[-1]


def test_the_time_left_is_extrapolated_from_the_rate_of_the_gap():
    rows = [TraceRow(k, 10.0 * k, 1.0, 1.0 - 10.0**-k) for k in range(5)]
    written = lines(*rows, TraceRow(5, 42.0, 1.0, 0.0), TraceRow(6, 99.0, 1.0, 0.0), tol=1e-5)[1:]
    assert [line.partition("about ")[2] for line in written[1:]] == [f"{s} s left" for s in (40, 30, 20, 10, 8)] + [""]
    assert "left" not in "".join([written[0], *lines(*rows)])


def test_scores_have_a_column():
    head, row = lines(TraceRow(1, 1.0, 4.0, 3.0, score=0.75))
    assert head.endswith("score")
    assert row.endswith("0.7500")


def test_rows_that_come_too_soon_are_left_out():
    written = []
    printer = Printer(written.append, interval=1.0)
    for seconds in (0.0, 0.5, 0.9, 1.1):
        printer(TraceRow(0, seconds, 1.0, 0.0))
    assert len(written) == 3


def test_a_program_that_configures_logging_gets_the_lines(caplog, capsys):
    with caplog.at_level(logging.INFO, logger="sdpmetric"):
        say("one line")
    assert [(record.name, record.message) for record in caplog.records] == [("sdpmetric", "one line")]


def test_without_logging_they_go_to_standard_error(capsys, monkeypatch):
    monkeypatch.setattr(LOGGER, "handlers", [])
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    say("one line")
    assert capsys.readouterr() == ("", "one line\n")
