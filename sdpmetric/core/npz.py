"""Arrays from NPZ files, without pickle; a file that is damaged anywhere is refused by a sentence."""

from __future__ import annotations

import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

# What zipfile and NumPy raise where bytes are damaged, a truncated stream and a flipped flag included.
DAMAGED = (ValueError, OSError, EOFError, RuntimeError, struct.error, zipfile.BadZipFile, zlib.error)


def read_npz(path: str | Path) -> dict[str, NDArray[np.generic]]:
    """Read every array of an NPZ file, without pickle.

    Parameters
    ----------
    path : str or Path

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is not an NPZ file, is damaged, or holds Python objects.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no file {path}.")
    if not zipfile.is_zipfile(path):
        raise ValueError(f"{path} is not an NPZ file; write one with numpy.savez.")
    arrays: dict[str, NDArray[np.generic]] = {}
    name = ""
    try:
        with np.load(Path(path), allow_pickle=False) as file:
            for name in file.files:
                arrays[name] = np.asarray(file[name])
    except DAMAGED as error:
        if "allow_pickle" in str(error):
            raise ValueError(
                f"the array {name!r} of {path} holds Python objects, which are not loaded since they can run code; "
                "save it as numbers or strings."
            ) from error
        raise ValueError(f"{path} is damaged ({error}); write or copy it again.") from error
    return arrays
