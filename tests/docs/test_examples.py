"""The code of the README and of the pages prints what they say."""

import contextlib
import io
import re
import runpy
from pathlib import Path

import pytest
from outputs import assert_agree, assert_same

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])


@pytest.fixture(autouse=True)
def without_display(monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "Agg")


# The other examples, and the lessons, run as notebooks: test_notebooks.py.
@pytest.mark.slow
def test_the_stream_of_documents_runs(capsys):
    runpy.run_path(str(ROOT / "examples" / "06_pola_stream.py"))["main"](n_documents=80)
    assert capsys.readouterr().out


def snippets():
    """Each python block that is followed by a text block, its output."""
    pattern = re.compile(r"```python\n(.*?)```\n+```text\n(.*?)```", re.DOTALL)
    return [
        pytest.param(code, output, id=f"{page.stem}-{code.splitlines()[-1][:40]}")
        for page in PAGES
        for code, output in pattern.findall(page.read_text(encoding="utf-8"))
    ]


# What depends on where a solver stops or on the rounding of a BLAS kernel: digits of bounds at a tolerance of 1e-3.
STOPPED = ("LMNN: objective 2", "LMNN, metric multiplied", "FRML-AUC: objective", "drift", "relative gap")
STOPPED += ("of the compiled cone program is between", "mean squared error between")


@pytest.mark.parametrize(("code", "output"), snippets())
def test_snippets_print_what_the_pages_say(code, output, tmp_path, monkeypatch):
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
    assert_same(*exact)
