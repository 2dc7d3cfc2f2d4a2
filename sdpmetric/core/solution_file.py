"""The file of a solution: what its arrays and its JSON text have to be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

import numpy as np
from numpy.typing import NDArray

from sdpmetric.core.schemas import Part, check_arrays, check_values, read_json
from sdpmetric.core.trace import TraceRow

# Of the files that `Solution.save` writes.
FORMAT = 2
# Columns of the trace that hold whole numbers.
WHOLE = frozenset(f.name for f in fields(TraceRow) if f.type == "int")
ARRAYS = {
    "components": Part("f4 f8", ("r d", "c r d")),
    "dual_triplets": Part("i4", ("t 3",), optional=True),
    "dual_values": Part("f4 f8", ("t", "t u"), optional=True),
    **{f"trace_{f.name}": Part("f8", ("s",), finite=f.name in WHOLE) for f in fields(TraceRow)},
}
ABOUT = {
    "format": "int",
    "certificate": "dict",
    "status": "str",
    "solver": "str",
    "n_iter": "int",
    "seconds": "float",
    "extras": "dict",
    "fingerprint": "str | None",
}
EXTRAS = {"threshold": "float", "screened": "float", "mistakes": "int", "perplexity": "float"}


def check(arrays: Mapping[str, NDArray[np.generic]]) -> dict[str, object]:
    """What the JSON text says, where it and the arrays are those of a solution."""
    check_arrays(arrays, ARRAYS)
    if "dual_triplets" in arrays and ("dual_values" not in arrays or arrays["dual_values"].ndim != 1):
        raise ValueError("dual_values does not hold one number for each of dual_triplets.")
    about = read_json(arrays, "about")
    check_values(about, ABOUT, "about", frozenset(ABOUT) - {"fingerprint"})
    check_values(about["extras"], EXTRAS, "extras")
    return about
