"""Every public name has an example that runs: in its docstring, or in docs/api_examples.txt."""

import doctest
import importlib
import inspect
import re
import runpy
from pathlib import Path

import pytest
from outputs import assert_agree
from typer.testing import CliRunner

from sdpmetric.cli import app

DOCS = Path(__file__).parents[2] / "docs"
API = runpy.run_path(str(DOCS / "api.py"))
NAMES = {f"{module}.{name}" for _, module, names in API["sections"]() for name in names}
STORED = API["examples"]()
FIRST = {code: name for name, code in reversed(STORED.items())}
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.fixture(scope="module")
def given():
    namespace = {}
    exec(API["PRELUDE"], namespace)
    return namespace


def docstring(name):
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute).__doc__ or ""


def run(code, name, namespace):
    out = []
    test = doctest.DocTestParser().get_doctest(code, dict(namespace), name, None, None)
    doctest.DocTestRunner(optionflags=FLAGS, verbose=False).run(test, out=out.append)
    assert not out, "".join(out)


def test_every_public_name_has_an_example():
    lacking = {name for name in NAMES - set(STORED) if ">>>" not in docstring(name)}
    assert not lacking, f"add an example to docs/api_examples.txt for {sorted(lacking)}"
    assert set(STORED) <= NAMES


@pytest.mark.parametrize("name", sorted(NAMES))
def test_public_names_and_their_methods_are_documented(name):
    """Ruff does not ask for it, because docstrings of what is internal are there for a reason only."""
    module, _, attribute = name.rpartition(".")
    public = getattr(importlib.import_module(module), attribute)
    members = {member: getattr(public, member) for member in dir(public) if not member.startswith("_")}
    documented = [member for member, value in members.items() if callable(value) or isinstance(value, property)]
    assert public.__doc__
    if inspect.isclass(public):
        assert not [member for member in documented if not inspect.getdoc(members[member])]


@pytest.mark.parametrize("code", [pytest.param(code, id=name) for code, name in FIRST.items()])
def test_stored_example_runs(code, given, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "Agg")
    run(code, "example", given)


@pytest.mark.parametrize("name", sorted(name for name in NAMES if ">>>" in docstring(name)))
def test_example_of_a_docstring_runs(name):
    module, _, attribute = name.rpartition(".")
    run(docstring(name), name, vars(inspect.getmodule(getattr(importlib.import_module(module), attribute))))


PAGE = (Path(__file__).parents[2] / "docs" / "command_line.md").read_text(encoding="utf-8")


def test_the_commands_of_the_page(tmp_path, monkeypatch, capsys):
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    exec(re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)[1], {})
    sessions = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    commands = [
        command_and_output.split("\n", 1)
        for session in sessions
        for command_and_output in re.split(r"^\$ sdpmetric ", session, flags=re.M)[1:]
    ]
    assert len(commands) >= 4
    for command, output in commands:
        result = CliRunner().invoke(app, command.split())
        assert result.exit_code == 0, result.output
        assert_agree(result.stdout, output)
    assert Path("embedded.csv").read_text(encoding="utf-8").startswith("lmnn0,lmnn1")
