"""Words, figures and structure of pages and docstrings, checked by ``pytest .ci/pages.py``: nothing here is solved.

Figures of the README and of the pages are those of the stored tables in docs/measured: a sentence is given with a
placeholder for each figure, and each figure as a cell of a stored table, rounded as printed.
"""

import ast
import importlib
import inspect
import math
import os
import re
import runpy
import sys
import tomllib
from functools import partial
from pathlib import Path

import pytest

import sdpmetric as sm
from sdpmetric import estimators

ROOT = Path(__file__).parents[1]
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
ours, pylmnn = (figure("lmnn", "One thread", name) for name in ("sdpmetric, s", "PyLMNN, s"))
wide = figure("lmnn", "Wide data", "seconds")
million, peak = (figure("lmnn", "A million rows", name) for name in ("seconds, stating included", "peak, GiB"))
embedded = figure("lmnn", "Embeddings", "seconds")
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
        "takes sdpmetric {} s on letters (16,000 x 16) and {} s on USPS (7,291 x 256); PyLMNN takes [{} and {} s]",
        [ours("letters"), ours("usps"), pylmnn("letters", form=".1f"), pylmnn("usps", form=".1f")],
    ),
    ("mlpack takes {} s on letters", [seconds("letters", "mlpack:optimizer=lbfgs", form=".0f")]),
    (
        "take [{}, {} and {} s](measured/lmnn.md#wide-data)",
        [wide(f"wide:{d}:3000", form=".1f") for d in (200, 400, 800)],
    ),
    ("MNIST | 60,000 x 164 | 5.4e-4 | {} |", [scaled("mnist:164", "60000 x 164", form=".1f")]),
    ("250,000 x 50 | 4.5e-4 | {} | {} GiB", [million("250,000", form=".0f"), peak("250,000", form=".1f")]),
    ("1,000,000 x 50 | 4.3e-4 | {} | {} GiB", [million("1,000,000", form=",.0f"), peak("1,000,000", form=".1f")]),
    ("60,000 x 512 | 8.0e-4 | {} |", [embedded("60,000", form=".0f")]),
    ("the seconds grow as $n^{{{}}}$", [exponent("mnist:164:2000", "mnist:164", 30)]),
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


# -- the release ------------------------------------------------------------------------------------------------------

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
RECIPE = (ROOT / "conda" / "meta.yaml").read_text(encoding="utf-8")
# Packages that conda names differently: this one is CVXPY without solvers of its own.
NAMES = {"cvxpy": "cvxpy-base"}


def test_the_version_has_one_source():
    pattern = re.search(r"regex_pattern='(.*?)'", RECIPE)[1]
    assert re.search(pattern, (ROOT / "sdpmetric" / "__init__.py").read_text(encoding="utf-8"))[1] == sm.__version__
    assert "version" in PROJECT["dynamic"]
    assert "version:" not in (ROOT / "CITATION.cff").read_text(encoding="utf-8").replace("cff-version:", "")


def test_the_landing_page_has_the_version():
    assert f"Version {sm.__version__}:" in (ROOT / "docs" / "index.md").read_text(encoding="utf-8")


def test_the_conda_recipe_requires_what_the_package_requires():
    run = RECIPE.split("  run:\n")[1].split("\ntest:")[0]
    requirements = dict(re.findall(r"- ([\w-]+) (>=[\d.]+)", run))
    wanted = dict(re.fullmatch(r"([\w-]+)(>=[\d.]+)", requirement).groups() for requirement in PROJECT["dependencies"])
    expected = {NAMES.get(name, name): bound for name, bound in wanted.items()}
    assert requirements == {"python": PROJECT["requires-python"], **expected}


def test_licence_and_keywords_agree_with_the_citation():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"license: {PROJECT['license']}" in citation
    assert f"license: {PROJECT['license']}" in RECIPE
    assert {word for word in PROJECT["keywords"] if f"- {word}\n" in citation} >= {"metric learning", "certificate"}


def test_the_changelog_is_in_order():
    """The unreleased changes come first, then the newest version; groups are those of Keep a Changelog."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## \[(.*?)\]", text, re.MULTILINE)
    assert versions[0] == "Unreleased"
    numbers = [tuple(map(int, version.split("."))) for version in versions[1:]]
    assert numbers == sorted(numbers, reverse=True)
    groups = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert set(re.findall(r"^### (.*)$", text, re.MULTILINE)) <= groups


# -- language ----------------------------------------------------------------------------------------------------------

EVERY_PAGE = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
# Phrases that the pages do not use, and what to write instead.
PATTERNS = {
    r"\b(gap asked|asked gap|asked for a gap)\b": "requested gap, target gap",
    r"\b(is|are) refused\b": "raises an error",
    r"\b(the )?aim is\b": "what was measured",
    r"\b\w*(minimis|maximis|standardis|optimis(?!tic)|generalis|regularis)\w*": "American spelling",
    r"\b(colour|neighbour|behaviour|licence|labour)\w*": "American spelling",
    r"\banew\b": "again",
    r"\bless (the|at most|its|their)\b": "minus",
    r"\b(labelled|modelled|(out|in|up|down|to)wards)\b": "American spelling",
}


# Words of papers' titles.
TITLES = r"Neighbourhood components analysis|generalised distance"


@pytest.mark.parametrize("page", EVERY_PAGE, ids=lambda path: path.stem)
def test_pages_are_in_plain_american_english_and_well_formed(page):
    text = re.sub(r"```.*?```|`[^`]*`", " ", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    words = " ".join(re.sub(r"\[[^\]]*\]\([^)]*\)", " ", text).split())
    for pattern, instead in PATTERNS.items() if page.stem != "bibliography" else ():
        phrase = re.search(pattern, words, re.IGNORECASE)
        assert not phrase, f"{page.name}: write {instead!r}, not {phrase[0]!r}"
    # Ends of an interval that print alike hide the width that it is about.
    for low, high in re.findall(
        r"between (-?\d[-\d.e]*) and (-?\d[-\d.e]*\d)", " ".join(page.read_text("utf-8").split())
    ):
        assert low != high
    # Markdown makes a list of a line that begins with a minus, in the middle of a formula, too.
    for paragraph in text.split("\n\n"):
        for before in re.finditer(r"\n\s*[-+*] ", paragraph):
            assert paragraph[: before.start()].count("$") % 2 == 0, paragraph


def test_docstrings_and_errors_are_in_plain_american_english():
    patterns = [*list(PATTERNS)[1:2], *list(PATTERNS)[3:7], r",\s+so that\b"]
    for module in sorted((ROOT / "sdpmetric").glob("**/*.py")):
        text = " ".join(re.sub(TITLES, "", module.read_text(encoding="utf-8")).split())
        for pattern in patterns:
            phrase = re.search(pattern, text, re.IGNORECASE)
            assert not phrase, f"{module.relative_to(ROOT)}: {phrase[0]!r}"


def test_so_that_states_a_purpose():
    """For a mere consequence "so", or a new sentence, is enough; a few purposes remain."""
    text = " ".join(page.read_text(encoding="utf-8") for page in EVERY_PAGE)
    assert len(re.findall(r"\bso\s+that\b", text)) <= 12


def text_of(page):
    """A page without blocks of code and formulas."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"\$[^$]+\$", "x", text)


def test_pages_for_users_are_short():
    docs, tracks = ROOT / "docs", {}
    for track in ("start",):
        text = (docs / f"{track}.md").read_text(encoding="utf-8")
        tracks |= dict.fromkeys(re.findall(r"^- \[[^\]]*\]\((\w+)\.md\)", text, re.MULTILINE), track)
    lengths = {page: len((docs / f"{page}.md").read_text(encoding="utf-8").split()) for page in tracks}
    assert len(lengths) > 10
    theory = {"certificates", "duals", "methods", "lmnn_solvers", "terms", "bibliography", "inside"}
    assert {page: n for page, n in lengths.items() if n > 1500 and page not in theory} == {}
    assert sum(len(text_of(page).split()) for page in docs.glob("*.md")) <= 22_000
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 600


# -- structure of pages, docstrings and examples ----------------------------------------------------------------------

EXAMPLES = sorted((ROOT / "examples").glob("[0-9]*.py"))
COURSE = sorted((ROOT / "docs" / "course").glob("[0-9]*.py"))
API = runpy.run_path(str(ROOT / "docs" / "api.py"))
PUBLIC = sorted({f"{module}.{name}" for _, module, names in API["sections"]() for name in names})
CLASSIFIERS = ("EnergyClassifier", "PairClassifier", "TripletClassifier", "QuadrupletClassifier")
LEARNERS = {name: getattr(estimators, name) for name in estimators.__all__ if name not in CLASSIFIERS}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_has_a_title_for_the_gallery(example):
    title, line = example.read_text(encoding="utf-8").splitlines()[:2]
    assert title.startswith('"""')
    assert line == "=" * len(title.removeprefix('"""'))


@pytest.mark.parametrize("page", [*EVERY_PAGE, *COURSE, *EXAMPLES], ids=lambda path: path.stem)
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
    [*EVERY_PAGE, *(ROOT / "docs" / "measured").glob("*.md"), ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"],
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
    for path in [*ROOT.glob("sdpmetric/**/*.py"), *ROOT.glob("examples/*.py"), *EVERY_PAGE]:
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


def public(name):
    module, _, what = name.rpartition(".")
    return getattr(importlib.import_module(module), what)


def section(name, title):
    """The lines of a section of a docstring, or none."""
    lines = inspect.cleandoc(public(name).__doc__ or "").splitlines()
    starts = [k for k, line in enumerate(lines) if k + 1 < len(lines) and re.fullmatch("-{3,}", lines[k + 1])]
    for k, start in enumerate(starts):
        if lines[start] == title:
            return lines[start + 2 : starts[k + 1] if k + 1 < len(starts) else None]
    return []


@pytest.mark.parametrize("name", PUBLIC)
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


def test_the_table_of_options_is_that_of_the_signatures():
    page = (ROOT / "docs" / "estimators.md").read_text().split("## Options")[1].split("\n\n- ")[0]
    table = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", page, re.MULTILINE))
    every = set(LEARNERS)
    assert list(table) == ["n_components", "prior", "init", "warm_start", "max_time", "early_stopping"]
    for option, cell in table.items():
        named = set(re.findall(r"`(\w+)`", cell))
        assert named <= every
        having = {name for name, kind in LEARNERS.items() if option in inspect.signature(kind).parameters}
        assert having == (every - named if cell.startswith("all but") else named), option


def test_the_table_of_what_is_learned_from_is_that_of_the_methods():
    page = (ROOT / "docs" / "pairs.md").read_text()
    rows = dict(re.findall(r"^\| `(fit_\w+)\(.*\| .* \| (.*) \|$", page, re.MULTILINE))
    methods = {name for kind in LEARNERS.values() for name in dir(kind) if name.startswith("fit_")} - {"fit_transform"}
    assert set(rows) == methods
    for method, names in rows.items():
        assert re.findall(r"\w+", names) == sorted(name for name, kind in LEARNERS.items() if hasattr(kind, method))


def entries(kind: type, title: str) -> list[str]:
    """The names that a section of a docstring describes."""
    section = re.search(rf"^{title}\n-+\n(.*?)(?=\n\n\w|\Z)", inspect.getdoc(kind) or "", re.MULTILINE | re.DOTALL)
    named = re.findall(r"^(\w[\w, ]*?)(?: :.*)?$", section[1] if section else "", re.MULTILINE)
    return [name for names in named for name in names.split(", ")]


@pytest.mark.parametrize(
    "kind", [getattr(estimators, name) for name in estimators.__all__], ids=lambda kind: kind.__name__
)
def test_every_option_is_documented_once(kind):
    assert sorted(entries(kind, "Parameters")) == sorted(inspect.signature(kind).parameters)
    attributes = entries(kind, "Attributes")
    assert len(attributes) == len(set(attributes))
    assert "n_features_in_" in attributes
    assert {"components_", "metric_"} <= set(attributes) or kind.__name__ in CLASSIFIERS
    assert ("solution_" in attributes) != (kind.__name__ in (*CLASSIFIERS, "Covariance", "LFDA", "RCA"))
    assert ("validation_score_" in attributes) == ("early_stopping" in inspect.signature(kind).parameters)


def test_stored_pictures_have_no_bars_on_logarithmic_axes():
    drawn = {}
    pictures = runpy.run_path(str(ROOT / "docs" / "pictures.py"))
    pictures["bars"].__globals__["save"] = lambda figure, name: drawn.update({name: figure.axes[0]})
    pictures["bars"](""), pictures["adapters"]("")
    assert drawn.keys() == {"gaps", "peers", "adapters"}
    for axes in drawn.values():
        assert axes.collections
        assert not axes.patches


# -- loops ------------------------------------------------------------------------------------------------------------

# numba gives the code behind these one name each, or one for several of them, whatever they were asked to do.
VARIANTS = {"sort", "argsort", "partition", "argpartition", "searchsorted"}
VARIANTS |= {"digitize", "median", "quantile", "percentile"}


@pytest.mark.parametrize("file", sorted((ROOT / "sdpmetric").rglob("*loops.py")), ids=lambda file: file.stem)
def test_no_variants_that_two_processes_could_mix_up_in_their_caches(file):
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.FunctionDef) and any("loop" in ast.unparse(d) for d in node.decorator_list):
            called = {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}
            assert not called & VARIANTS, f"{file.name}: {node.name}"
