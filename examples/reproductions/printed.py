"""What the scripts of this folder share: they run a benchmark or an example, keep what it prints, and report it."""

import argparse
import contextlib
import io
import os
import runpy
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

EXAMPLES = Path(__file__).parents[1]
Rows = list[dict[str, str]]


def command(doc: str, *, runs: bool = True) -> argparse.ArgumentParser:
    """The options that all have: where the data are, where results go, and what was printed before."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of .npz files; default: SDPMETRIC_DATA")
    parser.add_argument("--output", type=Path, default=Path("reproduction_results"))
    if runs:
        parser.add_argument(
            "--printed", type=Path, nargs="+", help="files with what the script underneath has printed: nothing is run"
        )
    return parser


def use_data(folder: str | None) -> None:
    if folder:
        os.environ["SDPMETRIC_DATA"] = folder


def printed(script: str, arguments: Iterable[str], kept: Path, given: list[Path] | None) -> str:
    """What a script of the examples prints: run now and kept in a file, or read from the files that are given."""
    if given:
        return "\n".join(path.read_text() for path in given)
    kept.parent.mkdir(parents=True, exist_ok=True)
    before, sys.argv = sys.argv, [script, *arguments]
    try:
        with kept.open("w") as file, contextlib.redirect_stdout(_Both(file, sys.stdout)):
            runpy.run_path(str(EXAMPLES / script), run_name="__main__")
    finally:
        sys.argv = before
    return kept.read_text()


class _Both(io.TextIOBase):
    def __init__(self, *files: io.TextIOBase) -> None:
        self.files = files

    def write(self, text: str) -> int:
        for file in self.files:
            file.write(text)
            file.flush()
        return len(text)


def table(text: str, first: str) -> Rows:
    """Rows of all Markdown tables whose first column has this name; a row that comes twice counts once."""
    found: Rows = []
    heads: list[str] = []
    for line in text.splitlines():
        if not line.startswith("|"):
            heads = []
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not heads:
            heads = cells
        elif heads[0] == first and not set("".join(cells)) <= set("- "):
            row = dict(zip(heads, cells, strict=True))
            if row not in found:
                found.append(row)
    if not found:
        raise SystemExit(f"nothing was printed that has a table with the first column {first!r}.")
    return found


def markdown(heads: list[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def number(cell: str) -> tuple[float, float]:
    """Mean and standard error of a cell such as ``3.4 ± 0.2``; the error is 0 where there is none."""
    mean, _, error = cell.replace(",", "").replace("*", "").partition("±")
    return float(mean), float(error or 0)


def report(name: str, text: str, output: Path, draw: Callable[[Path], None] | None = None) -> None:
    """Write NAME.md, and NAME.png where `draw` makes a figure; print the text."""
    output.mkdir(parents=True, exist_ok=True)
    (output / f"{name}.md").write_text(text + "\n")
    if draw is not None:
        draw(output / f"{name}.png")
    print(f"\n{text}\n\n{output / name}.md and .png")
