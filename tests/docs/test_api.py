"""Examples of docstrings run, and the commands of the page on the command line print what it says."""

import doctest
import importlib
import inspect
import re
import runpy
import shlex
from pathlib import Path

import pytest
from outputs import assert_agree
from typer.testing import CliRunner

from sdpmetric.cli import app

DOCS = Path(__file__).parents[2] / "docs"
API = runpy.run_path(str(DOCS / "api.py"))
NAMES = {f"{module}.{name}" for _, module, names in API["sections"]() for name in names}
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def docstring(name):
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute).__doc__ or ""


def run(code, name, namespace):
    out = []
    test = doctest.DocTestParser().get_doctest(code, dict(namespace), name, None, None)
    doctest.DocTestRunner(optionflags=FLAGS, verbose=False).run(test, out=out.append)
    assert not out, "".join(out)


@pytest.mark.parametrize("name", sorted(name for name in NAMES if ">>>" in docstring(name)))
def test_example_of_a_docstring_runs(name):
    module, _, attribute = name.rpartition(".")
    run(docstring(name), name, vars(inspect.getmodule(getattr(importlib.import_module(module), attribute))))


PAGE = (Path(__file__).parents[2] / "docs" / "command_line.md").read_text(encoding="utf-8")


def test_the_commands_of_the_page(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)[1], {})
    sessions = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    commands = [
        command_and_output.split("\n", 1)
        for session in sessions
        for command_and_output in re.split(r"^\$ sdpmetric ", session, flags=re.M)[1:]
    ]
    for command, output in commands:
        result = CliRunner().invoke(app, shlex.split(command))
        assert result.exit_code == 0, result.output
        assert_agree(result.stdout, output)
        assert Path("wine.png").is_file()
