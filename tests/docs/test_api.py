"""The docstring of every public name suffices alone: an example that runs, see-also, returns, parameters in order."""

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


def public(name):
    module, _, what = name.rpartition(".")
    return getattr(importlib.import_module(module), what)


def section(name, title):
    """The lines of a section of a docstring, or none."""
    lines = inspect.cleandoc(docstring(name)).splitlines()
    starts = [k for k, line in enumerate(lines) if k + 1 < len(lines) and re.fullmatch("-{3,}", lines[k + 1])]
    for k, start in enumerate(starts):
        if lines[start] == title:
            return lines[start + 2 : starts[k + 1] if k + 1 < len(starts) else None]
    return []


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_docstring_suffices_alone(name):
    """As numpydoc's own validation has it, RT01 and PR03; statements and verbs have an example that runs."""
    verb = name.count(".") == 1 and (inspect.isfunction(public(name)) or name.endswith("Problem"))
    assert not verb or any(line.startswith(">>>") for line in section(name, "Examples"))
    related = [one.strip(" `,") for line in section(name, "See Also") for one in line.split(" : ")[0].split(", ")]
    home = name.rpartition(".")[0]
    for other in filter(None, related):
        if not other.startswith("sklearn."):
            assert exists(other, home), f"{name}: see also {other}?"
    what = public(name)
    if inspect.isfunction(what) and inspect.signature(what).return_annotation not in (None, "None"):
        assert section(name, "Returns")
    documented = [
        one.strip(" *")
        for line in section(name, "Parameters")
        if line and not line.startswith(" ")
        for one in line.split(" : ")[0].split(", ")
    ]
    if not inspect.isclass(what) or not issubclass(what, Warning):
        positional = [p.name for p in inspect.signature(what).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
        parameters = [name for name in positional if name in documented]
        assert parameters == [name for name in documented if name in positional]


def exists(other, home):
    """Whether a name of a see-also leads somewhere: in the same module, in the package, or by its full name."""
    for start in (f"{home}.{other}", f"sdpmetric.{other}", other):
        found = start.split(".")
        for k in range(len(found), 0, -1):
            try:
                here = importlib.import_module(".".join(found[:k]))
            except ImportError:
                continue
            for attribute in found[k:]:
                here = getattr(here, attribute, None)
            if here is not None:
                return True
            break
    return False


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
