"""The packages that only exact programs need, each imported when its first name is used.

CVXPY and the solvers under it take half a second to import, which estimators need not wait for.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import clarabel as clarabel
    import cvxpy as cvxpy
    import scs as scs
else:

    class _Later(ModuleType):
        def __getattr__(self, name: str) -> object:
            return getattr(import_module(self.__name__), name)

    clarabel, cvxpy, scs = _Later("clarabel"), _Later("cvxpy"), _Later("scs")
