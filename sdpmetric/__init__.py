"""Metric learning as convex optimization: exact programs, fast solvers, and a certificate with every answer.

``sdpmetric/api.py`` lists the public names. Each is imported when it is first used, so ``import sdpmetric``, the help
of the command line and the checker of proofs load nothing else.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from sdpmetric.api import HOME_OF, MODULES, __all__

if TYPE_CHECKING:
    from sdpmetric.api import *

__version__ = "0.2.0"


def __getattr__(name: str) -> object:
    if name in HOME_OF:
        value: object = getattr(import_module(HOME_OF[name]), name)
    elif name in MODULES:
        value = import_module(MODULES[name])
    elif not name.startswith("__") and find_spec(f"sdpmetric.{name}") is not None:
        return import_module(f"sdpmetric.{name}")
    else:
        raise AttributeError(f"module 'sdpmetric' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    helpers = {"TYPE_CHECKING", "HOME_OF", "MODULES", "find_spec", "import_module"}
    return sorted({*globals(), *__all__} - helpers)
