"""Solvers, one file each; importing this imports all of them, and each registers itself."""

import importlib
import pkgutil

for _module in pkgutil.walk_packages(__path__, f"{__name__}."):
    importlib.import_module(_module.name)
