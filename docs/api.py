"""The public names, by the pages of the reference, for the site and for the tests."""

from __future__ import annotations

import importlib
import inspect
from types import ModuleType

# A heading, and how the modules whose public names belong under it begin or end; the first that fits has the name.
HEADINGS = {
    "Functions": ("verbs", "explanation", "comparator", "comparison"),
    "Streams": ("stream", "logdet"),
    "Programs in CVXPY": ("sdpmetric.programs",),
    "Search and rankings": ("hash_index", "relevance", "scores"),
    "Classification": ("sdpmetric.classification",),
    "Solutions and certificates": ("sdpmetric.core",),
    "Problem classes": ("sdpmetric.",),
}
MODULES = (
    "estimators",
    "constraints",
    "sums.terms",
    "classification",
    "datasets",
    "plotting",
)


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
    package = importlib.import_module("sdpmetric")
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
