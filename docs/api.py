"""The public names, by the pages of the reference, and an example of each that runs: for the site and for the tests."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).parent

# A heading, and how the modules whose public names belong under it begin or end; the first that fits has the name.
HEADINGS = {
    "Functions": ("verbs", "explanation", "comparator", "comparison"),
    "Streams": ("stream", "logdet"),
    "Programs in CVXPY": ("sdpmetric.programs",),
    "Search and rankings": ("hash_index", "relevance", "scores"),
    "Decisions": ("sdpmetric.classification",),
    "Solutions and certificates": ("sdpmetric.core", "sdpmetric.models"),
    "Problem classes": ("sdpmetric.",),
}
MODULES = (
    "estimators",
    "constraints",
    "sums.terms",
    "classification",
    "datasets",
    "plotting",
    "report",
    "testing",
)
# What the examples have at hand, in words and in code.
GIVEN = (
    "Here ``X, y`` are iris, standardized; ``problem`` is its LMNN and ``solution`` what `solve` returns; "
    "``pairs`` are 60 pairs of row numbers, and ``similar`` says which of them are of one class."
)
PRELUDE = """
import numpy as np
import sdpmetric as sm
from sdpmetric import datasets

X, y = datasets.load("iris")
X = datasets.standardize(X)
pairs = np.random.default_rng(0).permutation(150)[:120].reshape(60, 2)
similar = y[pairs[:, 0]] == y[pairs[:, 1]]
problem = sm.LMNNProblem.from_labels(X, y)
solution = sm.solve(problem)
"""


def public(module: ModuleType) -> list[str]:
    """The documented names of a module, classes and functions, LMNN first."""
    own = getattr(module, "__all__", None) or [
        name
        for name, what in vars(module).items()
        if getattr(what, "__module__", None) == module.__name__
    ]
    found = [(name, getattr(module, name)) for name in own if not name.startswith("_")]
    names = [name for name, what in found if inspect.isclass(what) or inspect.isfunction(what)]
    return sorted(names, key=lambda name: (not name.startswith("LMNN"), name))


def sections() -> list[tuple[str, str, list[str]]]:
    """Heading, module and names of each part of the reference."""
    package = importlib.import_module("sdpmetric.api")
    left = {name: getattr(package, name).__module__ for name in public(package)}
    found = []
    for title, homes in HEADINGS.items():
        names = [
            name
            for name, home in left.items()
            if home.startswith(homes) or home.endswith(homes)
        ]
        left = {name: home for name, home in left.items() if name not in names}
        found.append((title, "sdpmetric", names))
    for name in MODULES:
        module = importlib.import_module(f"sdpmetric.{name}")
        names = [
            name
            for name in public(module)
            if getattr(package, name, None) is not getattr(module, name)
        ]
        found.append((module.__name__, module.__name__, names))
    return [part for part in found if part[2]]


def examples() -> dict[str, str]:
    """The stored example of each name that has none in its docstring, by its full name."""
    blocks = re.split(
        r"^== (.+)$",
        (HERE / "api_examples.txt").read_text(encoding="utf-8"),
        flags=re.MULTILINE,
    )[1:]
    return {
        f"sdpmetric.{name}": code.strip("\n")
        for names, code in zip(blocks[::2], blocks[1::2], strict=True)
        for name in names.split(", ")
    }
