"""The code of README, pages and docstrings, and the commands of the command line, print what is said."""

import contextlib
import doctest
import importlib
import inspect
import io
import re
import runpy
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sdpmetric.cli import app

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
API = runpy.run_path(str(ROOT / "docs" / "api.py"))
NAMES = {f"{module}.{name}" for _, module, names in API["sections"]() for name in names}
NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d[\d,]*(?:\.\d+)?|\.\d+)(?:e[-+]?\d+)?")
# Numbers of seconds, and columns of them, differ from machine to machine.
TIMES = re.compile(r"(?:after |seconds?[: ]+)?\d[\d.]* (?:ms|s|seconds)\b")
# Active constraints and ranks are those of the point where a solver stops, which depends on the rounding.
COUNTS = re.compile(r"\d[\d,]*(?= active)|(?<=optimal rank )\d+(?= of)")
# What depends on where a solver stops or on the rounding of a BLAS kernel: digits of bounds at a tolerance of 1e-3.
STOPPED = ("LMNN: objective 2", "LMNN, metric multiplied", "FRML-AUC: objective", "drift", "relative gap")
STOPPED += ("of the compiled cone program is between", "mean squared error between")


def without_counts(text: str) -> str:
    return TIMES.sub("some time", COUNTS.sub("some", text))


def assert_agree(printed: str, page: str, tolerance: float) -> None:
    """Words are the same, and numbers to the tolerance, which may be where a solver happened to stop."""
    sides = [without_counts(text) for text in (printed, page)]
    words = [NUMBER.sub(" # ", text).split() for text in sides]
    assert words[0] == words[1]
    numbers = [[float(number.replace(",", "")) for number in NUMBER.findall(text)] for text in sides]
    assert numbers[0] == pytest.approx(numbers[1], rel=tolerance, abs=tolerance)


def snippets():
    """Each python block that is followed by a text block, its output."""
    pattern = re.compile(r"```python\n(.*?)```\n+```text\n(.*?)```", re.DOTALL)
    return [
        pytest.param(code, output, id=f"{page.stem}-{code.splitlines()[-1][:40]}")
        for page in PAGES
        for code, output in pattern.findall(page.read_text(encoding="utf-8"))
    ]


@pytest.mark.parametrize(("code", "output"), snippets())
def test_snippets_print_what_the_pages_say(code, output, tmp_path, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.chdir(tmp_path)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "snippet", "exec"), {"__name__": "snippet"})
    sides = [text.splitlines() for text in (printed.getvalue(), output)]
    stopped, exact = (
        ["\n".join(line for line in side if any(word in line for word in STOPPED) is depends) for side in sides]
        for depends in (True, False)
    )
    assert_agree(*stopped, tolerance=1e-3)
    assert without_counts(exact[0]).split() == without_counts(exact[1]).split()


def docstring(name):
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute).__doc__ or ""


@pytest.mark.parametrize("name", sorted(name for name in NAMES if ">>>" in docstring(name)))
def test_example_of_a_docstring_runs(name):
    module, _, attribute = name.rpartition(".")
    namespace = dict(vars(inspect.getmodule(getattr(importlib.import_module(module), attribute))))
    test, out = doctest.DocTestParser().get_doctest(docstring(name), namespace, name, None, None), []
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    doctest.DocTestRunner(optionflags=flags, verbose=False).run(test, out=out.append)
    assert not out, "".join(out)


def test_the_commands_of_the_page(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "command_line.md").read_text(encoding="utf-8")
    exec(re.search(r"```python\n(.*?)```", page, re.DOTALL)[1], {})
    for session in re.findall(r"```console\n(.*?)```", page, re.DOTALL):
        for command_and_output in re.split(r"^\$ sdpmetric ", session, flags=re.MULTILINE)[1:]:
            command, output = command_and_output.split("\n", 1)
            result = CliRunner().invoke(app, shlex.split(command))
            assert result.exit_code == 0, result.output
            assert_agree(result.stdout, output, tolerance=1e-2)
            assert Path("wine.png").is_file()
