"""Every compiled loop of the package, one module for each kind of work; what all of them share is here.

A loop that is worth several threads works on a run of its items and releases the GIL; `in_parts` of
`sdpmetric.engine.threads` does all runs. No loop is compiled with numba's own parallel regions: they take several
times as long to compile, and their threads spin while they wait for each other, which costs milliseconds a time on a
busy machine.

Compiled loops call no function of NumPy that numba makes in several variants, as np.sort and np.argsort, or the two
sides of np.searchsorted: numba names the variants alike except for a counter of each process, so a cached variant of
one process can be taken for another variant by the next, with silently wrong results.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from importlib import import_module
from threading import RLock
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

ArrayT = TypeVar("ArrayT", bound=NDArray[Any])

# "Reassociate and contract" lets the compiler vectorize the sums; NaN and infinity keep their meaning.
FAST = {"reassoc", "contract", "nsz"}


class Loop:
    """A loop that is compiled by its first call; numba, which takes half a second to import, is loaded then."""

    lock = RLock()

    def __init__(self, function: Callable[..., Any], options: dict[str, object]) -> None:
        self.function, self.options = function, options
        self.ready: Callable[..., Any] | None = None
        update_wrapper(self, function)

    def compiled(self) -> Callable[..., Any]:
        """The compiled loop; in the loop's own module it takes the place of this one, as do those that it calls."""
        with self.lock:
            if self.ready is None:
                from numba import njit

                try:
                    self.ready = njit(self.function, cache=True, **self.options)
                except RuntimeError:  # neither the package's folder nor the user's can be written to
                    self.ready = njit(self.function, **self.options)
                names = self.function.__globals__
                names.update({name: value.compiled() for name, value in names.items() if isinstance(value, Loop)})
            return self.ready

    def __call__(self, *arguments: object) -> object:
        return self.compiled()(*arguments)

    def __reduce__(self) -> tuple[Callable[[str, str], object], tuple[str, str]]:
        return _named, (self.function.__module__, self.function.__qualname__)


def _named(module: str, name: str) -> object:
    return getattr(import_module(module), name)


def fixed(array: ArrayT) -> ArrayT:
    """A contiguous view that cannot be written to, or a copy: a loop is compiled once for what callers own and lend."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return cast("ArrayT", view)


def loop(**options: object) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator of loops, with options of numba's ``njit``."""
    return lambda function: Loop(function, options)
