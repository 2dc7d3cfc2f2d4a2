"""Lessons and examples as Jupyter notebooks: without solutions, with solutions, and with marks for slides.

``python docs/notebooks.py FOLDER`` writes all of them; the site offers the same files.
"""

from __future__ import annotations

import base64
import json
import re
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
COURSE = sorted((HERE / "course").glob("[01]*.py"))
EXAMPLES = sorted((HERE.parent / "examples").glob("[01]*.py"))
SOURCE = tomllib.loads((HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))[
    "project"
]["urls"]["Source"]

INSTALL = """\
# Before the first lesson run  pip install ".[plot]"  in a clone of the repository.
import sdpmetric

print("sdpmetric", sdpmetric.__version__)"""
OPENING = re.compile(r"\.\. raw:: html\n\n +<details><summary>Solution</summary>\n?")
CLOSING = re.compile(r"\.\. raw:: html\n\n +</details>\n?")
EXERCISE = re.compile(r"## (Self-check|Exercise|Rules)")
Cell = dict[str, object]


def markdown(text: str) -> str:
    """The reStructuredText of lessons in Markdown."""
    text = re.sub(r"^(\S.*)\n=+$", r"# \1", text, flags=re.MULTILINE)
    text = re.sub(r"^(\S.*)\n-+$", r"## \1", text, flags=re.MULTILINE)
    text = re.sub(
        r":math:`([^`]+)`", lambda formula: f"${' '.join(formula[1].split())}$", text
    )
    text = re.sub(
        r"^\.\. math::((?: .*)?(?:\n(?: +.*)?)*)(?=\n\S|\Z)",
        lambda formula: f"$$\n{' '.join(formula[1].split())}\n$$\n",
        text,
        flags=re.MULTILINE,
    )
    text = re.sub(r"``([^`]+)``", r"`\1`", text)
    text = re.sub(r"`([^`<]+?)\s*<(https?:[^`>]+)>`_", r"[\1](\2)", text)
    return re.sub(
        r"^\.\. image:: /(\S+)\n +:alt: (.*)$", embedded, text, flags=re.MULTILINE
    ).strip()


def embedded(image: re.Match[str]) -> str:
    """A picture of the site inside of the notebook."""
    kind = "svg+xml" if image[1].endswith(".svg") else "png"
    data = base64.b64encode((HERE / image[1]).read_bytes()).decode("ascii")
    return f'<img alt="{image[2]}" src="data:image/{kind};base64,{data}">'


def install() -> str:
    """The first cell; as long as the project has no address, a clone is installed by hand."""
    if "example.org" in SOURCE:
        return INSTALL
    return f'%pip install --quiet "sdpmetric[plot] @ git+{SOURCE}"'


def blocks(script: Path) -> list[tuple[bool, str]]:
    """Text and code of a script in turn; true stands for text."""
    lines = script.read_text(encoding="utf-8")
    head = re.match(r'r?"""(.*?)"""\n', lines, re.DOTALL)
    assert head is not None
    found = [(True, head[1])]
    body = re.sub(r"^# sphinx_gallery_.*\n", "", lines[head.end() :], flags=re.MULTILINE)
    for part in re.split(r"^# %%\n", body, flags=re.MULTILINE):
        comment = "".join(re.findall(r"\A(?:#.*\n)*", part))
        text = "\n".join(line[2:] for line in comment.splitlines())
        code = part[len(comment) :].strip("\n")
        found.extend([(True, text)] if text.strip() else [])
        found.extend([(False, code)] if code else [])
    return found


def notebook(script: Path, solutions: bool = False) -> Cell:
    """The notebook of a lesson or an example; without solutions each exercise has an empty cell."""
    cells: list[Cell] = []
    solving = exercising = False

    def add(kind: str, source: str) -> None:
        heading = source.startswith("#") and kind == "markdown"
        slide = "skip" if exercising else "slide" if heading else "-"
        cell: Cell = {
            "cell_type": kind,
            "metadata": {"slideshow": {"slide_type": slide}},
            "source": source,
        }
        cells.append(
            cell | ({"execution_count": None, "outputs": []} if kind == "code" else {})
        )

    for is_text, content in [*blocks(script)[:1], (False, install()), *blocks(script)[1:]]:
        if not is_text:
            if not solving or solutions:
                add("code", content)
            continue
        if CLOSING.search(content):
            solving, content = False, CLOSING.split(content, maxsplit=1)[1]
        before, *after = OPENING.split(content, maxsplit=1)
        # Long texts are several slides.
        for text in re.split(r"\n(?=\S.*\n-+\n)", before):
            exercising = exercising or EXERCISE.match(markdown(text)) is not None
            if text.strip() and (not solving or solutions):
                add("markdown", markdown(text))
        if after:
            solving = True
            add(
                *(
                    ("markdown", "**Solution**")
                    if solutions
                    else ("code", "# Your solution.\n")
                )
            )
    about = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}
    }
    return {"cells": cells, "metadata": about, "nbformat": 4, "nbformat_minor": 4}


def write(course: Path, gallery: Path) -> None:
    """Write the notebooks of the course, those with solutions, and those of the gallery."""
    for folder in (course, gallery):
        folder.mkdir(parents=True, exist_ok=True)
    for lesson in COURSE:
        for solutions, suffix in ((False, ""), (True, "_solutions")):
            text = json.dumps(notebook(lesson, solutions), indent=1)
            (course / f"{lesson.stem}{suffix}.ipynb").write_text(text, encoding="utf-8")
    for example in EXAMPLES:
        (gallery / f"{example.stem}.ipynb").write_text(
            json.dumps(notebook(example), indent=1), encoding="utf-8"
        )


if __name__ == "__main__":
    write(Path(sys.argv[1]) / "course", Path(sys.argv[1]) / "examples")
