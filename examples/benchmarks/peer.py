"""Run one peer on one data set, in the peers' environment: reads an NPZ file, writes another.

python -P peer.py SOLVER_FILE IN.npz OUT.npz
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import json
import sys
import time

import numpy as np


def main(solver: str, given: str, found: str) -> None:
    """Fit the peer; only its fit is timed, after its imports."""
    # Under another name than the file's, which may be that of the package it imports.
    spec = importlib.util.spec_from_file_location("peer_solver", solver)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with np.load(given) as file:
        X, y, start = file["X"], file["y"], file["start"]
        settings = json.loads(str(file["settings"]))
    importlib.import_module(module.PACKAGE)
    began = time.perf_counter()
    components = module.fit(X, y, settings["k"], settings["push_weight"], start, **settings["options"])
    seconds = time.perf_counter() - began
    version = f"{module.PACKAGE} {importlib.metadata.version(module.PACKAGE)}"
    np.savez(found, components=components, seconds=seconds, version=version)


if __name__ == "__main__":
    main(*sys.argv[1:])
