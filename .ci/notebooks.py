"""The notebooks that the site offers: their text is Markdown, sheets have room for answers, every cell runs."""

import ast
import json
import re
import runpy
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

ROOT = Path(__file__).parents[1]
NOTEBOOKS = runpy.run_path(str(ROOT / "docs" / "notebooks.py"))
LESSONS, EXAMPLES = ([path.stem for path in NOTEBOOKS[name]] for name in ("COURSE", "EXAMPLES"))
EVERY = [f"course/{stem}{suffix}" for stem in LESSONS for suffix in ("", "_solutions")]
EVERY += [f"examples/{stem}" for stem in EXAMPLES]
# Those that run in a second or two; the others with -m slow.
FAST = {"01_weak_duality", "03_the_cone", "06_contradictions", "01_quickstart"}
RAW = r"\.\. \w+::|:\w+:`|`__?\b|</?details|<\w+[\w.]* object at|^[=-]{4,}$"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("notebooks")
    NOTEBOOKS["write"](path / "course", path / "examples")
    return path


def cells(path):
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


@pytest.mark.parametrize("name", EVERY)
def test_text_is_markdown(folder, name):
    for cell in cells(folder / f"{name}.ipynb"):
        if cell["cell_type"] == "markdown":
            text = re.sub(r"data:image[^\"]*|`[^`]*`", "", cell["source"])
            assert not re.search(RAW, text, re.MULTILINE), text
            assert text.count("$") % 2 == 0, text


@pytest.mark.parametrize("stem", LESSONS)
def test_a_sheet_has_no_solutions_but_room_for_each(folder, stem):
    sheet, solved = (cells(folder / "course" / f"{stem}{suffix}.ipynb") for suffix in ("", "_solutions"))
    exercises = [cell for cell in sheet if cell["source"].startswith("## Exercise")]
    assert all(re.search(r"\(\d points?\)$", cell["source"].split("\n")[0]) for cell in exercises)
    assert len(exercises) == sum(cell["source"] == "**Solution**" for cell in solved) >= 1
    assert len(exercises) == sum(cell["source"].startswith("# Your solution") for cell in sheet)
    assert not any(cell["source"] == "**Solution**" for cell in sheet)
    assert len(sheet) < len(solved)
    checks = [re.match(r"check\(\s*(\d)", cell["source"]) for cell in sheet if cell["cell_type"] == "code"]
    assert [int(found[1]) for found in checks if found] == list(range(1, len(exercises) + 1))


def test_all_lessons_check_answers_alike():
    helpers = [NOTEBOOKS["blocks"](path) for path in NOTEBOOKS["COURSE"]]
    functions = {code for blocks in helpers for is_text, code in blocks if not is_text and "def check(" in code}
    assert len(functions) == 1


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if Path(name).name.removesuffix("_solutions") in FAST else pytest.mark.slow)
        for name in EVERY
        if name != "examples/06_pola_stream"  # which is long, and follows in miniature
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


@pytest.mark.slow
def test_the_stream_of_documents_runs(capsys):
    runpy.run_path(str(ROOT / "examples" / "06_pola_stream.py"))["main"](n_documents=80)
    assert capsys.readouterr().out
