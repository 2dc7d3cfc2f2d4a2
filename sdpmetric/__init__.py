"""Metric learning as convex optimization: exact programs, fast solvers, and a certificate with every answer.

Public names are listed in ``sdpmetric/api.py`` and loaded when the first one is used, so ``import sdpmetric``, the
help of the command line and the checker of proofs load nothing else.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sdpmetric.api import *

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    if name == "__all__":
        return import_module("sdpmetric.api").__all__
    if not name.startswith("__"):
        if find_spec(f"sdpmetric.{name}") is not None:  # a submodule, which needs no other
            return import_module(f"sdpmetric.{name}")
        api = import_module("sdpmetric.api")
        globals().update({public: getattr(api, public) for public in api.__all__})
        if name in globals():
            return globals()[name]
    raise AttributeError(f"module 'sdpmetric' has no attribute {name!r}")


def __dir__() -> list[str]:
    helpers = {"TYPE_CHECKING", "find_spec", "import_module"}
    return sorted({*globals(), *import_module("sdpmetric.api").__all__} - helpers)
