"""The table of claims is complete, and what it names exists."""

import ast
import importlib
import inspect
import re
import sys
from pathlib import Path

import pytest
from claims_table import FAMILIES, GRADES, PAGE, ROWS, page

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
DRAWN = importlib.import_module("adversary.families").FAMILIES

RIGOROUS = "linalg.rigorous.directed linalg.rigorous.divergence linalg.rigorous.forms"
NAMES = "classification constraints datasets estimators losses plotting programs ranking"
CLAIM = re.compile(r"\b(proven|settled|guaranteed|certified|contradictions?|optimal|infeasible)\b", re.IGNORECASE)
DENIAL = re.compile(r"\b(could not be|not|nothing is|nothing finite is|no \w+( of \w+)? is) (proven|certified)\b", re.I)
WIDE = re.compile(CLAIM.pattern[:-3] + r"|certif\w+|contradict|exact|guarantee|prov\w+|bound|holds?)\b", re.IGNORECASE)


def docstrings():
    """Docstrings of public names and of their own methods and properties."""
    for module in ["", *f"{NAMES} sums.terms {RIGOROUS}".split()]:
        home = importlib.import_module(f"sdpmetric.{module}" if module else "sdpmetric")
        classes = [name for name, value in vars(home).items() if getattr(value, "__module__", "") == home.__name__]
        for name in getattr(home, "__all__", classes):
            documented = getattr(home, name)
            if inspect.isclass(documented) or inspect.isfunction(documented):
                yield name, documented
            for method, code in vars(documented).items() if inspect.isclass(documented) else ():
                if not method.startswith("_") and (callable(code) or isinstance(code, property | classmethod)):
                    yield f"{name}.{method}", code


DOCSTRINGS = {name: inspect.getdoc(documented) or "" for name, documented in docstrings()}


def claims(text, words=CLAIM):
    """Whether a text claims something: outside of examples and code, and not by a denial."""
    text = re.sub(r"`[^`]*`", "", " ".join(text.split("Examples\n---")[0].split()))
    return words.search(DENIAL.sub("", text)) is not None


def printed(path):
    """Where a module prints a claim: names of public classes, or of the module; errors and docstrings do not count."""
    module = ".".join(path.relative_to(ROOT / "sdpmetric").with_suffix("").parts).removesuffix(".__init__")

    def walk(node, place):
        if isinstance(node, ast.Raise | ast.Assert) or (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        ):
            return
        if isinstance(node, ast.ClassDef):
            place = node.name if node.name in DOCSTRINGS else place
        text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
        if (" " in text or text[:1].isupper()) and claims(text):
            yield place
        for child in ast.iter_child_nodes(node):
            yield from walk(child, place)

    return set(walk(ast.parse(path.read_text(encoding="utf-8")), module))


PRINTED = set().union(*map(printed, sorted((ROOT / "sdpmetric").rglob("*.py"))))
NAMED = {name for row in ROWS for name in row.names.split(", ")}


def test_every_name_that_claims_something_has_a_row():
    claiming = {name for name, text in DOCSTRINGS.items() if claims(text)} | PRINTED
    assert sorted(claiming - NAMED) == [], "say less, or add a row to .ci/claims_table.py"


def defined(path):
    return {node.name for node in ast.parse(path.read_text(encoding="utf-8")).body if hasattr(node, "name")}


def test_what_the_table_names_exists():
    files = [*(ROOT / "tests").rglob("*.py"), *(ROOT / "examples" / "benchmarks").glob("*.py")]
    evaluators = {name for row in ROWS for name in row.evaluators.split()}
    stems = {name.split(".")[0] for name in evaluators}
    defined_names = {f"{path.stem}.{name}" for path in files if path.stem in stems for name in defined(path)}
    assert sorted(evaluators - defined_names) == []
    assert {family for names in FAMILIES.values() for family in names} <= set(DRAWN)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.names.split(',')[0]} {row.grade}")
def test_a_row_is_not_stale(row):
    names = row.names.split(", ")
    assert not [name for name in names if name not in DOCSTRINGS and name not in PRINTED]
    assert [name for name in names if name in PRINTED or claims(DOCSTRINGS[name], WIDE)]
    assert row.grade in GRADES
    assert set(row.families.split()) <= set(FAMILIES)


def test_the_page_prints_the_table():
    text = PAGE.read_text(encoding="utf-8")
    assert page(text) == text, "run python .ci/claims_table.py"


def test_a_claim_is_found_and_a_denial_is_none():
    assert claims("The optimum is proven.")
    assert claims("Settled labels")
    assert not claims("Optimality is not\n    proven, `optimal` is a name.")
