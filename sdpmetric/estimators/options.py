"""The options that estimators share, in groups; an estimator that derives from a group has its options.

Estimators are dataclasses: their parameters are the fields of the class and of its groups, and the ``__init__`` that
dataclasses write stores them unchanged, as scikit-learn asks. Attributes that a fit sets are no fields. A docstring
describes what is the class's own; what its bases describe is added to it.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
T = TypeVar("T")

# Default number of pairs of each kind that are drawn from labels.
N_PAIRS = 10_000
# The title of a section of a docstring, and the beginning of an entry: names, then a colon or the end of the line.
SECTION, ENTRY = re.compile(r"^(\w+)\n-+\n", re.MULTILINE), re.compile(r"^(?=\S)", re.MULTILINE)


@dataclass_transform(eq_default=False, kw_only_default=True, field_specifiers=(field,))
def options(group: type[T]) -> type[T]:
    """Write the ``__init__`` of an estimator, or of a group of options, and add what its bases say to its docstring.

    A decorator of classes. Equality and representation stay scikit-learn's.
    """
    group.__doc__ = _described(group)
    return dataclass(eq=False, repr=False, kw_only=True)(group)


def _described(kind: type) -> str:
    """The docstring of a class, with the parameters and attributes that only its bases describe."""
    summary, *parts = SECTION.split(inspect.cleandoc(kind.__doc__ or "") + "\n")
    sections = {"Parameters": "", "Attributes": ""} | dict(zip(parts[::2], parts[1::2], strict=True))
    for base in kind.__mro__[1:]:
        _, *theirs = SECTION.split(inspect.cleandoc(base.__dict__.get("__doc__") or "") + "\n")
        for title, text in zip(theirs[::2], theirs[1::2], strict=True):
            if title in ("Parameters", "Attributes"):
                known = {name for entry in ENTRY.split(sections[title]) for name in _names(entry)}
                new = [entry for entry in ENTRY.split(text) if not known & _names(entry)]
                sections[title] = (sections[title].rstrip() + "\n" + "".join(new).rstrip()).strip() + "\n\n"
    return summary + "".join(f"{title}\n{'-' * len(title)}\n{text}" for title, text in sections.items() if text.strip())


def _names(entry: str) -> set[str]:
    """The names that an entry of a docstring describes."""
    return set(entry.partition("\n")[0].partition(" :")[0].split(", ")) - {""}


@options
class Reduced:
    """Of what has a number of components, which may be passed by position.

    Parameters
    ----------
    n_components : int, optional
        Columns of `transform`: the leading principal components of the transformed examples. `solution_` is the whole
        metric. Default: all.
    """

    n_components: int | None = field(default=None, kw_only=False)


@options
class Limited:
    """Of whatever runs step by step.

    Parameters
    ----------
    max_iter : int, optional
        Limit on evaluations; of a stream, on its items.
    max_time : float, optional
        Limit on seconds.
    verbose : bool, default False
        Print progress.
    random_state : int, RandomState or None, default None
        Of all draws: of pairs, of validation examples, of the solver; None is 0.
    """

    max_iter: int | None = None
    max_time: float | None = None
    verbose: int = False
    random_state: int | np.random.RandomState | None = None


@options
class Solved(Limited):
    """Of what is solved to a tolerance by a solver that can be chosen.

    Parameters
    ----------
    solver : str, default "auto"
        See `sdpmetric.solve`.
    tol : float or None, default 1e-3
        Relative gap to prove; None: the default of the solver.
    """

    solver: str = "auto"
    tol: float | None = 1e-3


@options
class Started:
    """Of solvers that start from components.

    Parameters
    ----------
    init : (r, d) array, optional
        Components to start from; default: the solver's own start. The optimum is the same.
    warm_start : bool, default False
        Start from the metric of the last fit. The optimum is the same; it is found sooner.
    """

    init: FloatArray | str | None = None
    warm_start: bool = False


@options
class StoppedEarly:
    """Of solves that examples held back may end.

    Parameters
    ----------
    early_stopping : bool, default False
        Set a part of the examples aside for validation, and take the metric of the solve with the best score on them;
        `solution_` has its certificate. The score is the accuracy of nearest neighbors, or R^2 of kernel regression
        with weights ``exp(-d^2)`` for continuous targets. Of pairs, triplets, quadruplets and queries a part is set
        aside instead, and scored by the area under the ROC curve, the share in order, or the mean average precision.
    validation_fraction : float, default 0.3
        The share that is set aside, stratified by class.
    n_iter_no_change : int, default 10
        Steps of the solver without a better score, after which the solve ends.

    Attributes
    ----------
    validation_score_ : float
        With early stopping, the score of the learned metric on what was set aside.
    """

    early_stopping: bool = False
    validation_fraction: float = 0.3
    n_iter_no_change: int = 10


@options
class Drawn:
    """Of what draws pairs from labels.

    Parameters
    ----------
    n_pairs : int or None, default 10000
        With labels: pairs of each kind that are drawn at most, from each batch where it is online; None: all of them.
    """

    n_pairs: int | None = N_PAIRS
