"""The decorator that makes an estimator of a class with fields, and the types of the fields.

The parameters of an estimator are its fields, which the ``__init__`` that dataclasses write stores unchanged, as
scikit-learn asks; what a parameter may be is its type, of which scikit-learn's ``_parameter_constraints`` are made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Annotated, Literal, TypeVar, Union, dataclass_transform, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, StrOptions

T = TypeVar("T", bound=BaseEstimator)

Count = Annotated[int, Interval(Integral, 1, None, closed="left")]
Positive = Annotated[float, Interval(Real, 0, None, closed="right")]  # infinity is one
NotNegative = Annotated[float, Interval(Real, 0, None, closed="left")]
Rate = Annotated[float, Interval(Real, 0, 1, closed="both")]
Share = Annotated[float, Interval(Real, 0, 1, closed="neither")]
Ridge = NotNegative | Literal["auto"]
Matrix = Annotated[ArrayLike, "array-like"]
Verbosity = Annotated[int, "verbose"]
Seed = Annotated[int | np.random.RandomState | np.random.Generator | None, "random_state", np.random.Generator]
# Default number of pairs of each kind that are drawn from labels.
N_PAIRS = 10_000
CONSTRAINTS = {bool: "boolean", int: Integral, float: Real, NoneType: None, Callable: callable}


def seed_of(random_state: Seed) -> int:
    """A seed: an integer as it is, None is 0, a generator gives one."""
    seed_range = np.iinfo(np.int32).max
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(seed_range))
    return (
        int(random_state.randint(seed_range))
        if isinstance(random_state, np.random.RandomState)
        else int(random_state or 0)
    )


@dataclass_transform(eq_default=False, kw_only_default=True, field_specifiers=(field,))
def estimator(kind: type[T]) -> type[T]:
    """Write the ``__init__`` of an estimator from its fields, and its constraints from their types.

    A decorator of classes. Equality and representation stay scikit-learn's.
    """
    made = dataclass(eq=False, repr=False, kw_only=True)(kind)
    types = get_type_hints(made, include_extras=True)
    parameters = [parameter.name for parameter in fields(made) if parameter.init]
    made._parameter_constraints = {name: _accepted(types[name]) for name in parameters}
    return made


def _accepted(kind: object) -> list[object]:
    """The constraints of a type, any of which is to hold."""
    origin, arguments = get_origin(kind) or kind, get_args(kind)
    if origin is Annotated:
        return list(arguments[1:])
    if origin in (Union, UnionType):
        return [constraint for argument in arguments for constraint in _accepted(argument)]
    return [StrOptions(set(arguments)) if origin is Literal else CONSTRAINTS.get(origin, origin)]
