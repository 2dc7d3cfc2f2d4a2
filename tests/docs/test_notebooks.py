"""Every cell of the notebooks that the site offers runs as downloaded."""

import ast
import json
import re
import runpy
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

DOCS = Path(__file__).parents[2] / "docs"
NOTEBOOKS = runpy.run_path(str(DOCS / "notebooks.py"))
COURSE, EXAMPLES = ([path.stem for path in NOTEBOOKS[name]] for name in ("COURSE", "EXAMPLES"))
FAST = {"01_weak_duality", "03_the_cone", "06_contradictions", "01_quickstart"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("notebooks")
    NOTEBOOKS["write"](path / "course", path / "examples")
    return path


def cells(path):
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if Path(name).name.removesuffix("_solutions") in FAST else pytest.mark.slow)
        for name in (
            *(f"course/{stem}{suffix}" for stem in COURSE for suffix in ("", "_solutions")),
            *(f"examples/{stem}" for stem in EXAMPLES if stem != "06_pola_stream"),
        )
    ],
)
def test_every_cell_runs_as_downloaded(folder, name, monkeypatch, capsys):
    """Each cell after the other; what a notebook would show of its last line is not the address of an object."""
    monkeypatch.setenv("MPLBACKEND", "Agg")
    namespace = {"__name__": "__main__"}
    for cell in cells(folder / f"{name}.ipynb"):
        if cell["cell_type"] == "code" and not cell["source"].startswith("%pip"):
            tree = ast.parse(cell["source"])
            last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, name, "exec"), namespace)
            if last is not None:
                shown = eval(compile(ast.Expression(last.value), name, "eval"), namespace)
                assert " at 0x" not in repr(shown)
    plt.close("all")
    printed = capsys.readouterr().out
    assert printed
    assert "/tmp" not in printed
    assert " at 0x" not in printed
    if name.startswith("course/"):
        verdicts = re.findall(r"^exercise \d: (right|no \w+ yet)$", printed, re.MULTILINE)
        assert verdicts
        assert {"right"} == set(verdicts) if name.endswith("_solutions") else "right" not in verdicts
