"""Everything that the README, the pages and the examples show is run here, and what they link to exists."""

import contextlib
import io
import os
import re
import runpy
import sys
from pathlib import Path

import pytest
from outputs import assert_agree, assert_same

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("[0-9]*.py"))
COURSE = sorted((ROOT / "docs" / "course").glob("[0-9]*.py"))
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])


@pytest.fixture(autouse=True)
def without_display(monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "Agg")


# The other examples, and the lessons, run as notebooks: test_notebooks.py.
@pytest.mark.slow
def test_the_stream_of_documents_runs(capsys):
    runpy.run_path(str(ROOT / "examples" / "06_pola_stream.py"))["main"](n_documents=80)
    assert capsys.readouterr().out


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_has_a_title_for_the_gallery(example):
    title, line = example.read_text(encoding="utf-8").splitlines()[:2]
    assert title.startswith('"""')
    assert line == "=" * len(title.removeprefix('"""'))


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


@pytest.mark.parametrize("page", [*PAGES, *COURSE, *EXAMPLES], ids=lambda path: path.stem)
def test_code_is_as_wide_as_a_column(page):
    """The site shows 95 characters at 1,280 pixels."""
    text = page.read_text(encoding="utf-8")
    blocks = (
        re.findall(r"^```(?:python|py|sh)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        if page.suffix == ".md"
        else [text]
    )
    assert [line for block in blocks for line in block.splitlines() if len(line) > 95] == []


def anchors(page):
    """The anchors of a page's headings, as GitHub and MyST make them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    slugs = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading).strip().replace(" ", "-") for heading in slugs}


@pytest.mark.parametrize(
    "page",
    [*PAGES, *(ROOT / "docs" / "measured").glob("*.md"), ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"],
    ids=lambda path: path.stem,
)
def test_links_lead_somewhere(page):
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)]*))?\)", page.read_text(encoding="utf-8")):
        if not target.startswith(("http://", "https://")):
            destination = page.parent / target if target else page
            assert os.path.exists(destination), f"{page.name} links to {target}, which does not exist"
            assert not anchor or anchor in anchors(destination), f"{page.name}: {target} has no heading #{anchor}"


def test_pages_that_docstrings_and_messages_name_exist():
    scripts = [*ROOT.glob("sdpmetric/**/*.py"), *ROOT.glob("tests/**/*.py"), *ROOT.glob("examples/**/*.py")]
    named = {page for path in scripts for page in re.findall(r"docs/[\w/]+\.md", path.read_text(encoding="utf-8"))}
    assert "docs/methods.md" in named
    assert [page for page in named if not (ROOT / page).is_file()] == []


def test_every_page_is_in_one_track():
    """The site's navigation is made of these lists; a page that is in none of them would not be found."""
    docs = ROOT / "docs"
    tracks = ["start", "benchmarks"]
    listed_pages = [
        page
        for track in tracks
        for line in (docs / f"{track}.md").read_text(encoding="utf-8").splitlines()
        if line.startswith("- [")
        for page in re.findall(r"\]\((\w+)\.md\)", line.split(": ")[0])
    ]
    assert sorted(listed_pages) == sorted(set(listed_pages))
    pages = {path.stem for path in docs.glob("*.md")}
    assert pages == {"index", *tracks, *listed_pages}
    assert len(pages) <= 25


def test_the_readme_has_two_set_up_commands():
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    commands = [line for line in lines if "pip install" in line]
    assert commands == ["pip install . && sdpmetric demo", 'pip install ".[test]" && pytest']


def test_every_key_that_is_cited_is_in_the_bibliography():
    keys = set(re.findall(r"\*\*\[(\w+\d{4})\]\*\*", (ROOT / "docs" / "bibliography.md").read_text(encoding="utf-8")))
    assert "WS2009" in keys
    for path in [*ROOT.glob("sdpmetric/**/*.py"), *ROOT.glob("examples/*.py"), *PAGES]:
        cited = set(re.findall(r"\[([A-Z]\w*(?:19|20)\d{2})\b", path.read_text(encoding="utf-8")))
        assert cited <= keys, f"{path.name} cites {sorted(cited - keys)}"


@pytest.mark.parametrize(
    "script",
    [*EXAMPLES, *sorted((ROOT / "examples" / "reproductions").glob("[flnp]*_*.py"))],
    ids=lambda path: path.stem,
)
def test_every_page_of_the_gallery_has_a_picture(script):
    """Drawn when the site is built, or stored."""
    text = script.read_text(encoding="utf-8")
    stored = re.findall(r"image:: /(\S+)$|thumbnail_path = '(\S+)'$", text, re.MULTILINE)
    assert all((ROOT / "docs" / (image or thumbnail)).is_file() for image, thumbnail in stored)
    assert any(image for image, _ in stored) or (script in EXAMPLES and "plt.show()" in text)


def test_pictures_can_be_drawn_from_the_printed_tables(tmp_path, monkeypatch, capsys):
    """The tables have all columns that the pictures need; nothing is rendered."""
    drawn = []
    monkeypatch.setattr(
        "matplotlib.figure.Figure.savefig", lambda figure, path, **options: drawn.append(Path(path).name)
    )
    monkeypatch.setattr(sys, "path", [str(ROOT / "docs"), *sys.path])
    pictures = runpy.run_path(str(ROOT / "docs" / "table_pictures.py"))
    pictures["from_printed"](tmp_path)
    pictures["nca_fig1"](tmp_path / "nca_fig1.png")
    pictures["lmnn_table1"](tmp_path / "lmnn_table1.png")
    pictures["lmnn_figures"](tmp_path)
    assert len(drawn) == 11
    assert len(COURSE) == 14  # thirteen lessons and the capstone
    assert all((ROOT / "docs" / "pictures" / name).is_file() for name in drawn)
