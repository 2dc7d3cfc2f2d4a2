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


def test_the_conda_recipe_requires_what_the_package_requires():
    run = RECIPE.split("  run:\n")[1].split("\ntest:")[0]
    found = dict(re.findall(r"- ([\w-]+) (>=[\d.]+)", run))
    wanted = dict(re.fullmatch(r"([\w-]+)(>=[\d.]+)", each).groups() for each in PROJECT["dependencies"])
    expected = {NAMES.get(name, name): bound for name, bound in wanted.items()}
    assert found == {"python": PROJECT["requires-python"], **expected}
