"""Attributes that are computed when they are first read, without a lock.

``functools.cached_property`` of Python 3.11 has one lock for each property of a class: a solve waits while another
thread prepares another problem, and a child that is forked meanwhile waits for ever. Here threads that read the same
attribute of one object at once each compute it, to the same bits, and all keep what the first one stored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

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


__all__ = ["cached", "published"]
