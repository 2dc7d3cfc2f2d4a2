"""Proof files: what a solution proves, written down for a program that shares nothing with this one."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray
from sdpmetric.core.files import write_npz
from sdpmetric.core.multipliers import Multipliers
from sdpmetric.core.problem import Extras


@dataclass(frozen=True)
class Proof:
    """What a proof file says; `sdpmetric.check` reads it."""

    statement: str  # "LMNN", "POLA" or "MMC"
    objective: float  # What is claimed of the components, and of all metrics
    lower_bound: float  # What is claimed of the components, and of all metrics
    parameters: dict[str, float | bool | None]  # Numbers of the statement and of the point
    data: dict[str, NDArray[np.generic]]  # What the statement is about
    arrays: dict[str, NDArray[np.generic]] = field(repr=False)

    def write(self, path: str | Path) -> None:
        """Write an NPZ file: arrays, JSON text, and a digest of both."""
        claims = {"statement": self.statement, "objective": self.objective, "lower_bound": self.lower_bound}
        about = json.dumps({"format": 2} | claims | self.parameters | {"data": digest(self.data)})
        seal = digest(self.arrays, about)
        write_npz(path, self.arrays | {"about": np.array(about), "seal": np.array(seal)})


def digest(arrays: dict[str, NDArray[np.generic]], text: str = "") -> str:
    """SHA-256 of a text and of arrays in the order of their names: shapes, and numbers as 8-byte floats."""
    state = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name], dtype="<f8")
        state.update(f"{name}{array.shape}".encode())
        state.update(array.tobytes())
    return state.hexdigest()


@runtime_checkable
class Provable(Protocol):
    """A statement whose proofs can be written down."""

    def proof(self, components: FloatArray, dual: Multipliers | None, extras: Extras) -> Proof:
        """What a point and multipliers prove."""
