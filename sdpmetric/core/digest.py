"""Hashes that tell statements apart."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray


def digest(about: object, *arrays: NDArray[np.generic]) -> str:
    """SHA-256 of what is to be said and of the bytes of arrays, as hexadecimal digits.

    Parameters
    ----------
    about : object
        What the arrays do not say: a text, or a tuple of parameters and shapes; its `str` is taken.
    *arrays : arrays
        In any layout.
    """
    state = hashlib.sha256(str(about).encode())
    for array in arrays:
        state.update(np.ascontiguousarray(array).tobytes())
    return state.hexdigest()
