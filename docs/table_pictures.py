"""Draw the pictures of long runs from the tables of docs/measured: ``python docs/table_pictures.py [FOLDER]``.

The scripts of examples/reproductions draw what they have measured; here their functions draw what is stored, so
a picture of the gallery agrees with its table, and nothing is run again.
"""

from __future__ import annotations

import importlib
import re
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image

HERE = Path(__file__).parent
SCRIPTS = HERE.parent / "examples" / "reproductions"
sys.path.insert(0, str(SCRIPTS))
shared = importlib.import_module("printed")
# Colors of a stored picture: enough for charts, and a third of the bytes.
COLORS = 96


def section(page: str, title: str) -> str:
    """The text below a heading, up to the next heading or the paper's own table."""
    text = (HERE / "measured" / page).read_text(encoding="utf-8")
    below = re.split(rf"^#+ {re.escape(title)}\n", text, flags=re.MULTILINE)[1]
    return re.split(r"^#+ |^The paper's Table", below, flags=re.MULTILINE)[0]


def values(cell: str) -> np.ndarray:
    """Two numbers with the mean and the standard error that a cell prints."""
    mean, error = shared.number(cell)
    return np.array([mean - error, mean + error])


def from_printed(folder: Path) -> None:
    """The scripts that draw from what a benchmark printed take the page's table in its place."""
    for name, page, title, options in (
        ("pola_fig3", "methods.md", "POLA online: digits in pairs", []),
        ("lego_fig1", "other_papers.md", "LEGO, Fig. 1", ["--no-digits"]),
        ("frml_table1", "other_papers.md", "FRML, Table 1", []),
        ("frml_table2", "other_papers.md", "FRML, Table 2", []),
    ):
        with tempfile.TemporaryDirectory() as own:
            table = Path(own) / "table.txt"
            measured = [
                line
                for line in section(page, title).splitlines()
                if "not measured" not in line
            ]
            table.write_text("\n".join(measured), encoding="utf-8")
            importlib.import_module(name).main(
                ["--printed", str(table), "--output", str(folder), *options]
            )


def nca_fig1(path: Path) -> None:
    """Bars of both tables: training and test errors of each metric."""
    script, found = importlib.import_module("nca_fig1"), {}
    for panel, metrics in script.PANELS.items():
        for row in shared.table(section("other_papers.md", "NCA, Fig. 1"), panel):
            for metric in metrics:
                both = [values(part) for part in row[metric].split(" / ")]
                found.setdefault(row[panel], {})[panel, metric] = np.stack(both, axis=1)
    script.draw(found, path)


def lmnn_table1(path: Path) -> None:
    """The summary: the row that follows the paper's protocol, for each of its data sets."""
    rows, report = (importlib.import_module(f"table1.{name}") for name in ("rows", "report"))
    keys, found = {label: key for key, (label, _) in rows.ROWS.items()}, {}
    for row in shared.table(section("lmnn_table1.md", "LMNN, Table 1"), "test error, %"):
        for column, cell in list(row.items())[1:]:
            ours = cell.split(" (")[0]
            if ours not in ("N/A", "not measured"):
                name = "mnist-deskewed" if column == "mnist" else column
                found.setdefault(name, {})[keys[row["test error, %"]]] = [
                    rows.Cell(error) for error in values(ours)
                ]
    report.draw(found, path)


def lmnn_figures(folder: Path) -> None:
    """Figs. 6, 9, 10, 12 and 13."""
    passes, metrics = {}, {}
    for row in shared.table(section("lmnn_figures.md", "Fig. 6, multiple passes"), "data"):
        if row["train %"]:
            passes.setdefault(row["data"], []).append(
                [float(row["test %"]), float(row["train %"])]
            )
    for row in shared.table(
        section("lmnn_figures.md", "Fig. 9, a metric for each class"), "data"
    ):
        count = float(row["metrics"].split(",")[0])
        metrics.setdefault(row["data"], []).append(
            [count, float(row["test %"]), float(row["train %"])]
        )
    for name, curves, number in (("passes", passes, 6), ("clusters", metrics, 9)):
        stacked = {data: np.array(curve) for data, curve in curves.items()}
        importlib.import_module(f"lmnn_figs.{name}").draw(
            stacked, folder / f"lmnn_figure{number}.png"
        )
    for number, title, columns, ylabel in (
        (
            10,
            "ball trees when examples are classified",
            ("partial distances, s", "ball tree, s"),
            "partial distances",
        ),
        (
            12,
            "ball trees while the metric is learned",
            ("brute force, s", "ball trees, s"),
            "brute force",
        ),
    ):
        text = section("lmnn_figures.md", f"Fig. {number}, {title}")
        rows, whole = (
            shared.table(text, "components"),
            float(re.findall(r"components(?:,| takes) ([\d.]+) s", text)[0]),
        )
        gains = {
            name.removesuffix(", s"): [whole / float(row[name]) for row in rows]
            for name in columns
        }
        importlib.import_module("lmnn_figs.trees").draw(
            [int(row["components"]) for row in rows],
            gains,
            f"speed-up over {ylabel} in all dimensions",
            folder / f"lmnn_figure{number}.png",
        )
    text = section("lmnn_figures.md", "Fig. 13, error against dimensionality")
    rows = [
        row
        for row in shared.table(text.split("With all of")[0], "dimensions")
        if "PCA, test %" in row
    ]
    errors = {
        int(row["dimensions"]): [
            float(row["PCA, test %"]),
            float(row.get("LMNN-S, test %") or row["LMNN-S, eigenvectors of the metric, %"]),
            float(row.get("LMNN-S, principal components of the transformed inputs, %", "nan")),
            float(row.get("LMNN-R, test %") or row["LMNN-R, %"]),
        ]
        for row in reversed(rows)
    }
    every, best = (
        float(x) for x in re.findall(r"error is ([\d.]+) % before and ([\d.]+) %", text)[0]
    )
    ranks = sorted(errors)
    importlib.import_module("lmnn_figs.dimensions").draw(
        ranks,
        np.array([errors[rank] for rank in ranks]),
        every,
        best,
        folder / "lmnn_figure13.png",
    )


def shrink(path: Path) -> None:
    """Store a picture with few colors."""
    with Image.open(path) as image:
        image.convert("RGB").quantize(COLORS, dither=Image.Dither.NONE).save(
            path, optimize=True
        )


def main(folder: Path) -> None:
    """Draw all of them."""
    plt.switch_backend("Agg")
    from_printed(folder)
    nca_fig1(folder / "nca_fig1.png")
    lmnn_table1(folder / "lmnn_table1.png")
    lmnn_figures(folder)
    for path in folder.glob("*.md"):
        path.unlink()
    for path in folder.glob("*.png"):
        shrink(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "pictures")
