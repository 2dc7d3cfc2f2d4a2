"""Attributes and compiled loops: each is computed or compiled when it is first used.

``functools.cached_property`` of Python 3.11 has one lock for each property of a class: a solve waits while another
thread prepares another problem, and a child that is forked meanwhile waits for ever. Here threads that read the same
attribute of one object at once each compute it, to the same bits, and all keep what the first one stored.

A loop that is worth several threads works on a run of its items and releases the GIL; `in_parts` of
`sdpmetric.engine.threads` does all runs. No loop is compiled with numba's own parallel regions: they take several
times as long to compile, and their threads spin while they wait for each other, which costs milliseconds a time on a
busy machine.

Compiled loops call no function of NumPy that numba makes in several variants, as np.sort and np.argsort, or the two
sides of np.searchsorted: numba names the variants alike except for a counter of each process, so a cached variant of
one process can be taken for another variant by the next, with silently wrong results.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import update_wrapper
from importlib import import_module
from pickle import UnpicklingError
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

ArrayT = TypeVar("ArrayT", bound=NDArray[Any])

# Errors that pickle raises for damaged files.
DAMAGED = (AttributeError, EOFError, ImportError, IndexError, KeyError, TypeError, UnpicklingError, ValueError)
# "Reassociate and contract" lets the compiler vectorize the sums; NaN and infinity keep their meaning.
FAST = {"reassoc", "contract", "nsz"}


if TYPE_CHECKING:
    from functools import cached_property as cached
    from functools import cached_property as published
else:

    class cached:
        """A decorator of methods without arguments, as ``functools.cached_property`` of Python 3.12 is."""

        def __init__(self, compute: Callable[[object], object]) -> None:
            self.compute, self.__doc__ = compute, compute.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self.name = name

        def __get__(self, instance: object, owner: type | None = None) -> object:
            if instance is None:
                return self
            values = vars(instance)
            if getattr(type(instance), self.name) is not self:
                return self.compute(instance)  # read by super(): the name belongs to the attribute of the subclass
            return values[self.name] if self.name in values else values.setdefault(self.name, self.compute(instance))

    class published(cached):
        """The same for arrays that users can reach: they cannot be written to, as later answers depend on them."""

        def __init__(self, compute: Callable[[object], object]) -> None:
            super().__init__(lambda instance: _read_only(compute(instance)))
            self.__doc__ = compute.__doc__

    def _read_only(value: object) -> object:
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, np.ndarray):
                item.flags.writeable = False
        return value


class Loop:
    """A loop that is compiled by its first call; numba, which takes half a second to import, is loaded then."""

    lock = RLock()

    def __init__(self, function: Callable[..., Any], options: dict[str, object]) -> None:
        self.function, self.options = function, options
        self.ready: Callable[..., Any] | None = None
        update_wrapper(self, function)

    def compiled(self) -> Callable[..., Any]:
        """Return the compiled loop, which takes this one's place in its module, as do the loops that it calls."""
        with self.lock:
            if self.ready is None:
                from numba import njit

                try:
                    self.ready = njit(self.function, cache=True, **self.options)
                except RuntimeError:  # neither the package's folder nor the user's can be written to
                    self.ready = njit(self.function, **self.options)
                else:
                    _mend(self.ready)
                names = self.function.__globals__
                names.update({name: value.compiled() for name, value in names.items() if isinstance(value, Loop)})
            return self.ready

    def __call__(self, *arguments: object) -> object:
        return (self.ready or self.compiled())(*arguments)

    def __reduce__(self) -> tuple[Callable[[str, str], object], tuple[str, str]]:
        return _named, (self.function.__module__, self.function.__qualname__)


def _mend(loop: Callable[..., object]) -> None:
    """Compile a loop again if its files in numba's cache are damaged, with a warning in place of an error of pickle."""
    cache = cast(Any, loop)._cache
    load = cache.load_overload

    def load_or_compile(signature: object, context: object) -> object:
        try:
            return load(signature, context)
        except DAMAGED as error:
            cache.flush()
            warnings.warn(
                f"a compiled loop in {cache.cache_path} is damaged ({type(error).__name__}) and is compiled again; if "
                "this comes back, delete that folder.",
                RuntimeWarning,
                stacklevel=2,
            )
            return None

    cache.load_overload = load_or_compile


def _named(module: str, name: str) -> object:
    return getattr(import_module(module), name)


def fixed(array: ArrayT) -> ArrayT:
    """Return a contiguous view that is read-only, or a copy: a loop is compiled once for what callers own and lend."""
    if array.flags.c_contiguous and not array.flags.writeable:
        return array
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return cast("ArrayT", view)


def loop(**options: object) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator of loops, with options of numba's ``njit``."""
    return lambda function: Loop(function, options)


__all__ = ["FAST", "Loop", "cached", "fixed", "loop", "published"]
