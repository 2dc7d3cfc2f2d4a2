"""The bar that moves while loops are compiled."""

import io

import numba as nb
import pytest
from rich.console import Console
from rich.progress import Progress

from sdpmetric.core.printer import compilation_bar


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
