"""Proof files: what a solution proves, written down for a program that shares nothing with this one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sdpmetric.core.certificate import Multipliers
from sdpmetric.core.files import write_npz

Arrays = Mapping[str, NDArray[np.generic]]
Statement = Mapping[str, object]


@dataclass(frozen=True)
class ProofTerm:
    """A term of the program: what the text says of it, and its arrays."""

    about: Statement
    arrays: Arrays = field(default_factory=dict)
    data: Arrays = field(default_factory=dict)  # What of its arrays a data file holds too


@dataclass(frozen=True)
class Proof:
    """What a proof file says; `sdpmetric.check` reads it."""

    objective: float | None  # Claimed of the components; None where constraints are proven to contradict each other
    lower_bound: float | None  # And of all metrics
    domain: Statement
    terms: Sequence[ProofTerm]
    data: Arrays  # What the statement is about
    arrays: Arrays = field(repr=False)

    def write(self, path: str | Path, data: str | Path | None = None) -> None:
        """Write an NPZ file: arrays, JSON text, and a digest of both; and the data, if a path is given."""
        arrays = {f"0.{name}": np.asarray(array, dtype=np.float64) for name, array in self.arrays.items()}
        factors = arrays["0.components"]
        if not factors.shape[-2]:  # the zero metric, of which the checker expects a row
            arrays["0.components"] = np.zeros((*factors.shape[:-2], 1, factors.shape[-1]))
        for k, term in enumerate(self.terms, 1):
            arrays |= {f"{k}.{name}": np.asarray(array, dtype=np.float64) for name, array in term.arrays.items()}
        claims = {"format": 4, "objective": self.objective, "lower_bound": self.lower_bound, "domain": self.domain}
        hashed = {"members": list(self.data), "sha256": digest(self.data)}
        text = json.dumps(claims | {"terms": [term.about for term in self.terms], "data": hashed})
        write_npz(path, arrays | {"about": np.array(text), "seal": np.array(digest(arrays, text))})
        if data is not None:
            write_npz(data, dict(self.data))


def digest(arrays: Arrays, text: str = "") -> str:
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

    def proof(self, components: NDArray[np.float64], dual: Multipliers | None) -> Proof:
        """What a point and multipliers prove."""
