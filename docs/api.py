"""The public names by task, for the site and for the tests."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from types import ModuleType

FUNCTIONS = [
    "solve",
    "certify",
    "verify",
    "compare",
    "explain",
    "path",
    "regret",
    "solvers_of",
    "to_cvxpy",
    "bound",
]
PROGRAMS = [
    "metric_variable",
    "squared_distances",
    "triplet_margins",
    "LiftedDistances",
    "ProgramBound",
]
EXTENSIONS = ["Problem", "solver", "formulation"]
SEARCH = ["HashIndex", "MetricStep", "Relevance", "RankingScores"]
# Tasks, and which names of the package serve each; the first that fits has the name.
TASKS: dict[str, Callable[[str], bool]] = {
    "Functions": FUNCTIONS.__contains__,
    "Programs in CVXPY": PROGRAMS.__contains__,
    "Classes and solvers of your own": EXTENSIONS.__contains__,
    "Search and rankings": SEARCH.__contains__,
    "Problem classes": lambda name: name.endswith(("Problem", "Space")),
    "Streams": lambda name: name.endswith("Stream"),
    "Solutions and certificates": lambda name: True,
}
# Tasks that a module of its own serves.
MODULES = {
    "Estimators": "sdpmetric.estimators",
    "Terms of sums": "sdpmetric.sums.terms",
    "Pairs, triplets and quadruplets": "sdpmetric.constraints",
    "Classification": "sdpmetric.classification",
    "Data sets": "sdpmetric.datasets",
    "Plots": "sdpmetric.plotting",
}
ORDER = (
    "Estimators",
    "Functions",
    "Problem classes",
    "Solutions and certificates",
    "Terms of sums",
    "Streams",
    "Programs in CVXPY",
    "Pairs, triplets and quadruplets",
    "Classification",
    "Search and rankings",
    "Data sets",
    "Plots",
    "Classes and solvers of your own",
)


def public(module: ModuleType) -> list[str]:
    """The documented names of a module, classes and functions, LMNN first."""
    own = getattr(module, "__all__", None) or [
        name
        for name, what in vars(module).items()
        if getattr(what, "__module__", None) == module.__name__
    ]
    named = [(name, getattr(module, name)) for name in own if not name.startswith("_")]
    names = [name for name, what in named if inspect.isclass(what) or inspect.isfunction(what)]
    return sorted(names, key=lambda name: (not name.startswith("LMNN"), name))


def sections() -> list[tuple[str, str, list[str]]]:
    """Task, module and names of each part of the reference."""
    package = importlib.import_module("sdpmetric")
    parts: dict[str, tuple[str, list[str]]] = {task: ("sdpmetric", []) for task in TASKS}
    for name in public(package):
        parts[next(task for task, serves in TASKS.items() if serves(name))][1].append(name)
    parts["Functions"][1].sort(key=FUNCTIONS.index)
    for task, home in MODULES.items():
        module = importlib.import_module(home)
        parts[task] = (
            home,
            [
                name
                for name in public(module)
                if getattr(package, name, None) is not getattr(module, name)
            ],
        )
    return [(task, *parts[task]) for task in ORDER if parts[task][1]]
