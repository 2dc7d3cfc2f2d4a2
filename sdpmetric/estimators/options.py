"""The options that estimators share, in groups; an estimator that derives from a group has its options.

Estimators are dataclasses: their parameters are the fields of the class and of its groups, and the ``__init__`` that
dataclasses write stores them unchanged, as scikit-learn asks. Attributes that a fit sets are no fields.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
T = TypeVar("T")


@dataclass_transform(eq_default=False, kw_only_default=True, field_specifiers=(field,))
def options(group: type[T]) -> type[T]:
    """Write the ``__init__`` of an estimator, or of a group of options: a decorator of classes.

    Equality and representation stay scikit-learn's.
    """
    return dataclass(eq=False, repr=False, kw_only=True)(group)


@options
class Reduced:
    """Of what has a number of components, which may be passed by position."""

    n_components: int | None = field(default=None, kw_only=False)


@options
class Limited:
    """Of whatever runs step by step."""

    max_iter: int | None = None
    max_time: float | None = None
    verbose: int = False
    random_state: int | np.random.RandomState | None = None


@options
class Solved(Limited):
    """Of what is solved to a tolerance by a solver that can be chosen."""

    solver: str = "auto"
    tol: float | None = 1e-3


@options
class Started:
    """Of solvers that start from components."""

    init: FloatArray | str | None = None
    warm_start: bool = False


@options
class StoppedEarly:
    """Of solves that examples held back may end."""

    early_stopping: bool = False
    validation_fraction: float = 0.3
    n_iter_no_change: int = 10
