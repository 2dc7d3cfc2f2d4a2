"""Files: written whole or not at all, read only if their parts are valid; no pickle. Proof files."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import secrets
import struct
import sys
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO, Protocol, runtime_checkable

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from sdpmetric.engine.threads import memory_size

if TYPE_CHECKING:
    from sdpmetric.core.certificate import Multipliers

Arrays = dict[str, NDArray[np.generic]]

# Errors that zipfile raises for damaged bytes, a truncated stream or a flipped flag.
DAMAGED = (ValueError, OSError, EOFError, RuntimeError, struct.error, zipfile.BadZipFile, zlib.error, MemoryError)
# Errors of code with an unexpected value, besides ValueError and TypeError, which are sentences here.
FOREIGN = (AttributeError, LookupError, ArithmeticError, MemoryError, RecursionError)


# -- writing -------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[BinaryIO]:
    """Open a file for writing that replaces `path` at the end, if nothing failed; else the old one stays as it was.

    The bytes go to a hidden file in the same folder and reach the disk before it is renamed. Links are followed, the
    permissions and the owner of an existing file are kept from the first byte on, a hard link is replaced, and a device
    or pipe is written to directly.
    """
    target = Path(os.path.realpath(path))
    temporary = target.parent / f".{secrets.token_hex(8)}.tmp"
    try:
        check_target(path)
        if target.exists() and not target.is_file():
            with target.open("wb") as file:
                yield file
            return
        old = target.stat() if target.exists() else None
        mode = 0o666 if old is None else 0o600  # less umask, or that of nobody else until it is that of the old file
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            if old is not None:
                _take_over(temporary, old)
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
        if os.name == "posix":
            _sync_folder(target.parent)
    except OSError as error:
        if error.errno is None or isinstance(error, BrokenPipeError):  # a sentence already, or nothing to be said
            raise
        reason = error.strerror or type(error).__name__
        raise type(error)(f"{path} cannot be written: {reason}. What was there before is unchanged.") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def _take_over(temporary: Path, old: os.stat_result) -> None:
    """Give a new file the owner and then the permissions of an old one; an owner who cannot be set is not."""
    if hasattr(os, "chown") and (temporary.stat().st_uid, temporary.stat().st_gid) != (old.st_uid, old.st_gid):
        with contextlib.suppress(OSError):
            os.chown(temporary, old.st_uid, old.st_gid)
    now = temporary.stat()
    foreign = 0o6000 * ((now.st_uid, now.st_gid) != (old.st_uid, old.st_gid))  # not the rights of another owner
    temporary.chmod(old.st_mode & 0o7777 & ~foreign)


def printable(text: object) -> str:
    """Return what a file or a name says, without control characters: those are written as in Python's literals."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(text))


def check_target(path: str | Path) -> None:
    """Refuse a path that `replacing` could not write."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(f"{path} is a folder; name a file in it.")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {Path(path).parent} to save {Path(path).name} in.")
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(f"{path} is not writable; change its permissions, or name another file.")
    if (target.is_file() or not target.exists()) and not os.access(target.parent, os.W_OK):
        raise PermissionError(f"the folder {target.parent} is not writable; change its permissions.")


def _sync_folder(folder: Path) -> None:
    """Sync the new name to the disk, if the file system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_npz(path: str | Path, arrays: Mapping[str, NDArray[np.generic]]) -> None:
    save: Callable[..., None] = np.savez_compressed  # NumPy 2.0 has no allow_pickle=
    if named_objects := [name for name, array in arrays.items() if np.asarray(array).dtype.hasobject]:
        raise ValueError(f"{', '.join(named_objects)} cannot be saved without pickle; give numbers or strings.")
    with replacing(path) as file:
        save(file, **arrays)


# -- reading -------------------------------------------------------------------------------------------------------


def read_npz(path: str | Path) -> Arrays:
    """Read every array of an NPZ file, without pickle; declared sizes are compared to the file's before allocation."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no file {path}.")
    arrays: Arrays = {}
    try:
        with zipfile.ZipFile(path) as archive:
            members = [info for info in archive.infolist() if info.filename.endswith(".npy")]
            if odd := next((info.filename for info in members if not info.filename.isprintable()), None):
                raise ValueError(f"the name of an array has control characters, {odd!r}")
            _check_sizes(members, Path(path).stat().st_size)
            for info in members:
                with archive.open(info) as stream:
                    arrays[info.filename.removesuffix(".npy")] = _array(stream, info)
    except TypeError as error:
        raise ValueError(
            f"the array {error} of {path} holds Python objects or records, and objects are not loaded since they can "
            "run code; save it as numbers or strings."
        ) from None
    except zipfile.BadZipFile as error:
        if not arrays and not zipfile.is_zipfile(path):
            raise ValueError(f"{path} is not an NPZ file; write one with numpy.savez.") from error
        raise ValueError(f"{path} is damaged ({error}); write or copy it again.") from error
    except DAMAGED as error:
        reason = str(error) or type(error).__name__
        raise ValueError(f"{path} is damaged ({reason}); write or copy it again.") from error
    return arrays


def _check_sizes(members: list[zipfile.ZipInfo], size: int) -> None:
    """Refuse members that cannot be as large as they say, by the size of the file."""
    if len({info.filename for info in members}) < len(members):
        raise ValueError("two arrays have one name")
    for info in members:
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"{info.filename} is compressed in a way that NPZ files are not")
        # A byte of a deflated stream makes at most 1,040.
        if info.compress_size > size or info.file_size > 1040 * (info.compress_size + 1):
            raise ValueError(f"{info.filename} says that it has {info.file_size:,} bytes, in a file of {size:,}")
    if (total := sum(info.file_size for info in members)) > memory_size():
        raise ValueError(f"its arrays have {total:,} bytes, more than the memory of this machine")


def _array(stream: IO[bytes], info: zipfile.ZipInfo) -> NDArray[np.generic]:
    """Read one array of exactly the bytes that its header says; raise a TypeError for one of Python objects."""
    name = info.filename.removesuffix(".npy")
    try:
        read_header = npy.read_array_header_1_0 if npy.read_magic(stream) == (1, 0) else npy.read_array_header_2_0
        shape, is_fortran, dtype = read_header(stream)
    except (ValueError, TypeError, SyntaxError, tokenize.TokenError, *FOREIGN) as error:
        raise ValueError(f"the header of {name} is not that of an array") from error
    if min(shape, default=0) < 0:
        raise ValueError(f"the header of {name} is not that of an array, of shape {shape}")
    if dtype.hasobject or dtype.kind == "V":
        raise TypeError(repr(name))
    n_bytes = math.prod(shape) * dtype.itemsize
    if dtype.itemsize == 0 or n_bytes != info.file_size - stream.tell():
        raise ValueError(f"the header of {name} says {n_bytes:,} bytes; it has {info.file_size - stream.tell():,}")
    raw = stream.read()
    if len(raw) != n_bytes:
        raise ValueError(f"{name} ends early")
    flat = np.frombuffer(raw, dtype).astype(dtype.newbyteorder("="))
    if dtype.kind == "U" and flat.view(np.uint32).max(initial=0) > sys.maxunicode:
        raise ValueError(f"{name} has invalid characters")
    return flat.reshape(shape, order="F" if is_fortran else "C")


# Of annotations: what JSON has for them.
JSON_KINDS: dict[str, tuple[type, ...]] = {
    "float": (float, int),
    "int": (int,),
    "str": (str,),
    "Rigor": (str,),
    "Info": (dict,),
    "bool": (bool,),
    "dict": (dict,),
    "list": (list,),
    "None": (type(None),),
    "tuple[int, ...]": (list, tuple),
}


def check_arrays(arrays: Mapping[str, NDArray[np.generic]], schema: Mapping[str, tuple[str, ...]]) -> None:
    """Refuse arrays that are not what a schema says: their possible types, and then their possible shapes.

    A type is that of ``numpy.dtype.str`` without the byte order. A shape names its sizes, which agree if their names
    do, or are numbers.
    """
    sizes: dict[str, int] = {}
    for name, (types, *shapes) in schema.items():
        if name not in arrays:
            continue
        array = arrays[name]
        if array.dtype.str[1:] not in types.split():
            raise ValueError(f"{name} has the type {array.dtype}.")
        for shape in map(str.split, shapes):
            if len(shape) == array.ndim and all(
                size == (int(key) if key.isdigit() else sizes.setdefault(key, size))
                for key, size in zip(shape, array.shape, strict=True)
            ):
                break
        else:
            wanted = " or ".join(f"({shape.replace(' ', ', ')})" for shape in shapes)
            agreed = ", ".join(f"{key} = {size}" for key, size in sizes.items())
            raise ValueError(f"{name} has shape {array.shape}, not {wanted}{f' with {agreed}' if agreed else ''}.")


def read_json(arrays: Mapping[str, NDArray[np.generic]], name: str) -> dict[str, object]:
    if name not in arrays:
        raise ValueError(f"it lacks {name}.")
    try:
        values = json.loads(str(arrays[name]))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name} is not JSON text.") from error
    if not isinstance(values, dict):
        raise ValueError(f"{name} is not a JSON object.")
    return values


def check_values(values: object, types: Mapping[str, object], owner: str, needed: frozenset[str] = frozenset()) -> None:
    """Refuse JSON that is no object with values of the given types."""
    if not isinstance(values, dict):
        raise ValueError(f"{owner} is not a JSON object.")
    if missing := sorted(needed - set(values)):
        raise ValueError(f"{owner} lacks {', '.join(missing)}.")
    for name, value in values.items():
        kinds = [JSON_KINDS[kind] for kind in str(types.get(name, "")).split(" | ") if kind]
        flat = tuple(kind for alternatives in kinds for kind in alternatives)
        if not isinstance(value, flat) or (isinstance(value, bool) and bool not in flat):
            raise ValueError(f"{name} of {owner} must be {types.get(name, 'absent')}, got {str(value)[:40]!r}.")
        if isinstance(value, list | tuple) and types[name] != "list" and not all(type(item) is int for item in value):
            raise ValueError(f"{name} of {owner} must be integers.")
        if "float" in str(types[name]) and isinstance(value, int) and abs(value) > 1 << 1000:
            raise ValueError(f"{name} of {owner} is too large a number.")


@contextlib.contextmanager
def expected(path: str | Path, kind: str, writer: str) -> Iterator[None]:
    """Say of a file what it was expected to be, whatever is wrong with its contents."""
    try:
        yield
    except (ValueError, TypeError, *FOREIGN) as error:
        message = str(error) if isinstance(error, ValueError | TypeError) else f"{type(error).__name__}: {error}."
        raise ValueError(f"{path} is not {kind}: expected an NPZ file that {writer} wrote; {message}") from error


Statement = Mapping[str, object]


@dataclass(frozen=True)
class ProofTerm:
    """A term of the program: what the text says of it, and its arrays."""

    about: Statement
    arrays: Mapping[str, NDArray[np.generic]] = field(default_factory=dict)
    data: Mapping[str, NDArray[np.generic]] = field(default_factory=dict)  # Arrays that a data file holds, too


@dataclass(frozen=True)
class Proof:
    """The content of a proof file; `sdpmetric.check` reads it."""

    objective: float | None  # Claimed of the components; None if constraints are proven to contradict each other
    lower_bound: float | None  # And of all metrics
    domain: Statement
    terms: Sequence[ProofTerm]
    data: Mapping[str, NDArray[np.generic]]  # The statement's data
    arrays: Mapping[str, NDArray[np.generic]] = field(repr=False)

    def write(self, path: str | Path, data: str | Path | None = None) -> None:
        """Write an NPZ file: arrays, JSON text, and a digest of both; and the data, if a path is given."""
        arrays = {f"0.{name}": np.asarray(array, dtype=np.float64) for name, array in self.arrays.items()}
        factors = arrays["0.components"]
        if not factors.shape[-2]:  # the zero metric: the checker expects a row of it
            arrays["0.components"] = np.zeros((*factors.shape[:-2], 1, factors.shape[-1]))
        for k, term in enumerate(self.terms, 1):
            arrays |= {f"{k}.{name}": np.asarray(array, dtype=np.float64) for name, array in term.arrays.items()}
        claims = {"format": 4, "objective": self.objective, "lower_bound": self.lower_bound, "domain": self.domain}
        hashed = {"members": list(self.data), "sha256": digest_of_arrays(self.data)}
        text = json.dumps(claims | {"terms": [term.about for term in self.terms], "data": hashed})
        write_npz(path, arrays | {"about": np.array(text), "seal": np.array(digest_of_arrays(arrays, text))})
        if data is not None:
            write_npz(data, dict(self.data))


def digest_of_arrays(arrays: Mapping[str, NDArray[np.generic]], text: str = "") -> str:
    """Return SHA-256 of a text and of arrays in the order of their names: shapes, and numbers as 8-byte floats."""
    state = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name], dtype="<f8")
        state.update(f"{name}{array.shape}".encode())
        state.update(array.tobytes())
    return state.hexdigest()


@runtime_checkable
class Provable(Protocol):
    """A statement with proofs that can be written to files."""

    def proof(self, components: NDArray[np.float64], dual: Multipliers | None) -> Proof:
        """Return what a point and multipliers prove."""
