"""Figures of the README and of the pages are those of the stored tables in docs/measured.

A sentence is given with a placeholder for each figure, and each figure as a cell of a stored table, rounded as printed.
"""

import math
import re
from functools import partial
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MEASURED = ROOT / "docs" / "measured"


def table(page, heading):
    """Rows of the tables under a heading: dictionaries from the names of the columns to the cells."""
    text = (MEASURED / f"{page}.md").read_text(encoding="utf-8")
    section = re.split(r"^## ", text.partition(f"## {heading}\n")[2], flags=re.MULTILINE)[0]
    assert section, f"{page} has no heading {heading}"
    rows, names = [], None
    for line in section.splitlines():
        if not line.startswith("|"):
            names = None
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if names is None:
            names = cells
        elif not set(line) <= set("|-: "):
            rows.append([*zip(names, cells, strict=False)])
    return rows


def cell(page, heading, row, column):
    """The cell of the first row that has all given words in its first cells, in the last column that starts so."""
    for cells in table(page, heading):
        values = [value for _, value in cells]
        if all(word in values for word in row):
            in_column = [value for name, value in cells if name == column]
            if in_column:
                return in_column[-1]
    raise AssertionError(f"{page}, {heading}: no row {row} with a column {column!r}")


def number(text):
    return float(re.search(r"-?\d[\d,]*\.?\d*(?:e[-+]?\d+)?", text)[0].replace(",", ""))


def figure(page, heading, column, form=None):
    """What prints the cell of a column, by words of its row; in a format where one is given, halves up."""

    def of(*row, form=form):
        def text():
            value = cell(page, heading, row, column)
            return value if form is None else format(number(value) + 1e-9, form)

        return text

    return of


def exponent(first, last, rows):
    """The exponent of the seconds between two sizes of MNIST."""
    return lambda: format(math.log(number(scaled(last)()) / number(scaled(first)())) / math.log(rows), ".2f")


def minutes():
    return f"{number(million('1,000,000')()) / 60:.0f}"


def cells_reached():
    """Cells of LMNN's Table 1 that were measured, and those with at most the paper's error, or two standard errors."""
    measured = reached = 0
    for row in table("lmnn_table1", "LMNN, Table 1"):
        for _, text in row[1:]:
            if parts_of_cell := re.match(r"([\d.]+)(?: ± ([\d.]+))? \(([\d.]+)\)", text):
                ours, error, paper = (float(value or 0) for value in parts_of_cell.groups())
                measured += 1
                reached += ours <= paper + 2 * error + 1e-9
    return measured, reached


errors, cpu, gap = (figure("lmnn_table1", "letters", name) for name in ("test %", "CPU, s (paper)", "gap"))
scaled, seconds = (figure("lmnn", heading, "seconds") for heading in ("The factored solver at scale", "Seconds"))
million, peak = (figure("lmnn", "A million rows", name) for name in ("seconds, stating included", "peak, GiB"))
growth, embedded = figure("lmnn", "A million rows", "exponent of the seconds"), figure("lmnn", "Embeddings", "seconds")
peers = {data: figure("lmnn", "Peers", data) for data in ("iris", "wine", "digits, d = 30")}
small = figure("lmnn", "Three solvers on small data", "seconds")
adapters = partial(figure, "methods", "Adapters on embeddings")
README = (
    ("Euclidean distances | {} % | | |", [errors("kNN, Euclidean")]),
    ("LDA | {} % | {} |", [errors("LDA"), cpu("LDA", form=".2f")]),
    ("NCA, 1,000 of the rows | {} % | {} |", [errors("NCA"), cpu("NCA", form=".1f")]),
    (
        "**LMNN** | **{} %** | {} | within {} % of the optimum",
        [errors("LMNN"), cpu("LMNN", form=".1f"), lambda: format(100 * number(gap("LMNN")()), ".2f")],
    ),
    (
        "LMNN, up to three passes | {} % | {} |",
        [errors("LMNN, multiple passes"), cpu("LMNN, multiple passes", form=".1f")],
    ),
)
BENCHMARKS = (
    (
        "takes sdpmetric {} s; PyLMNN takes {} s, mlpack {} s and metric-learn more than 150 s",
        [
            scaled("letters", "1e-03", form=".1f"),
            seconds("letters", "pylmnn", form=".1f"),
            seconds("letters", "mlpack:optimizer=lbfgs", form=".0f"),
        ],
    ),
    ("sdpmetric takes {} s, PyLMNN {} s", [scaled("usps:256", form=".1f"), seconds("usps", "pylmnn", form=".1f")]),
    ("MNIST | 60,000 x 164 | 5.4e-4 | {} |", [scaled("mnist:164", "60000 x 164", form=".1f")]),
    ("250,000 x 50 | 3.9e-4 | {} | {} GiB", [million("250,000", form=".0f"), peak("250,000", form=".1f")]),
    ("1,000,000 x 50 | 5.7e-4 | {} | {} GiB", [million("1,000,000", form=",.0f"), peak("1,000,000", form=".1f")]),
    ("60,000 x 512 | 8.0e-4 | {} |", [embedded("60,000", form=".0f")]),
    ("the seconds grow as $n^{{{}}}$", [exponent("mnist:164:2000", "mnist:164", 30)]),
    (
        "125,000, 250,000 and a million rows are {}, {} and {}",
        [growth(rows) for rows in ("125,000", "250,000", "1,000,000")],
    ),
    *(
        (
            f"{shown} | {{}} s | {{}} s | {{}} s |",
            [
                small(data, "0.5", solver, form=form)
                for solver, form in zip(("conic", "subgradient", "factored"), forms.split(), strict=True)
            ],
        )
        for shown, data, forms in (
            ("iris", "iris", ".2f .2f .2f"),
            ("wine", "wine", ".1f .2f .2f"),
            ("digits, d = 30", "digits30", ".1f .2f .2f"),
            ("digits, d = 61", "digits61", ".0f .1f .2f"),
        )
    ),
    *(
        (f"{shown} | {{}} | {{}} | {{}} |", [of("hinge", solver) for of in peers.values()])
        for shown, solver in (
            ("sdpmetric, target gap 1e-3", "factored, target gap 1e-3"),
            ("metric-learn 0.7", "metric-learn"),
            ("PyLMNN 1.6.4", "PyLMNN"),
            ("mlpack 4.8, L-BFGS", "mlpack, L-BFGS"),
            ("mlpack 4.8, AMSGrad", "mlpack, AMSGrad"),
        )
    ),
)


def first_seconds(data):
    """The first column of seconds; `cell` takes the last."""
    row = next(row for row in table("methods", "Adapters on embeddings") if row[0][1] == data)
    return next(value for name, value in row if name == "seconds")


DATA = ("5 labels per class", "50 labels per class", "all 10,003 labels", "1,500 comparisons", "5,000 comparisons")
ADAPTERS = tuple(
    (
        f"{data} | {{}} | {{}} | {{}} | {{}} | {{}} | {{}} |",
        [
            *(adapters(name)(data) for name in ("as they are", "`LMNN()`", "`Adapter()`")),
            partial(first_seconds, data),
            *(adapters(name)(data) for name in ("contrastive, best of grid", "seconds")),
        ],
    )
    for data in DATA
)


PAGES = (
    (
        "docs/which_estimator.md",
        "60,000 x 164 in {} s, 250,000 x 50 in {} s, a million x 50 in {} minutes | 60,000 x 512 in {} s",
        [
            scaled("mnist:164", "60000 x 164", form=".0f"),
            million("250,000", form=".0f"),
            minutes,
            embedded("60,000", form=".0f"),
        ],
    ),
    (
        "docs/reproductions.md",
        "{} measured: {} lower or within two standard errors",
        [lambda: str(cells_reached()[0]), lambda: str(cells_reached()[1])],
    ),
    (
        "docs/useless_optima.md",
        "falls by up to {} points below that of the raw features",
        [
            lambda: format(
                max(
                    100 * (number(dict(row)["raw"]) - number(dict(row)["LMNN, ridge 0"]))
                    for row in table("methods", "Few examples, many features")
                ),
                ".0f",
            )
        ],
    ),
)
FIGURES = [
    *(("README.md", *figure) for figure in README),
    *(("docs/benchmarks.md", *figure) for figure in BENCHMARKS),
    *(("docs/adapters.md", *figure) for figure in ADAPTERS),
    *PAGES,
]


@pytest.mark.parametrize(
    ("page", "sentence", "figures"), FIGURES, ids=lambda value: str(value)[:40] if isinstance(value, str) else ""
)
def test_a_figure_is_that_of_its_table(page, sentence, figures):
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    expected = sentence.format(*(figure() for figure in figures))
    assert expected in text, f"{page} should say: {expected}"
