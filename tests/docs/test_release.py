"""What is released says the same everywhere: version, requirements, licence."""

import re
import tomllib
from pathlib import Path

import sdpmetric as sm

ROOT = Path(__file__).parents[2]
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
