"""Data and proof files: what is read, how much at most, and the hashes that tie them to each other."""

from __future__ import annotations

import hashlib
import json
import struct
import sys
import tokenize
import zlib
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.int64]
Arrays = dict[str, NDArray[Any]]

FORMAT = 4  # That is read
# All limits: with them a check takes less than 1 GiB of memory and 30 s, whatever a file holds.
LIMITS = {
    "bytes of a file": 2**25,
    "bytes of its arrays": 2**26,
    "numbers of its arrays": 2**22,
    "bytes from one deflated": 1040,  # zlib makes at most 1032
    "arrays of a file": 128,
    "terms of a proof": 128,
    "characters of its text": 2**16,
    "rows of X": 2**16,
    "features": 2**9,  # Times the number of metrics
    "pairs, rows or triplets": 2**19,  # Of an array, and those that may have a loss together
    "multiplications": 2**28,  # See Work
}
LIMITED_SIZES = {"n": "rows of X", **dict.fromkeys("dBDQ", "features")}
# Of arrays: a letter or number for each size, then the least number and, of whole numbers, the size they are below.
NAMES = ("y", "regions")  # Names of groups: only equality matters.
DATA = {"X": "n d", **dict.fromkeys(NAMES, "n: 0 n"), "pairs": "p 2: 0 n", "similar": "p"}
DATA |= {"triplets": "u 3: 0 n", "quadruplets": "o 4: 0 n"}
ROWS = {"offsets": "r", "weights": "r: 0", "multipliers": "r", "places": "e: 0 r", "pairs": "e 2: 0 n", "factors": "e"}
LABELS = {"targets": "n k: -1 n", "weights": "n: 0", "multipliers": "t", "triplets": "t 3: 0 n"}
# Domains and terms: the data that they need, what the text says of them, and arrays.
METRICS = ("X", "", {"components": "B K Q", "map": "d Q", "shares": "n B: 0"})
DOMAINS = dict.fromkeys(("all", "diagonal", "threshold"), METRICS)
TERMS: dict[str, tuple[str, str, dict[str, str]]] = {
    "labels": ("y", "loss weight pull offset", LABELS),
    "rows": ("", "loss weight", ROWS),
    "trace": ("", "weight", {}),
    **dict.fromkeys(("frobenius", "log_det"), ("", "weight", {"slope": "D D", "to": "D D"})),
    "off_diagonal": ("", "weight", {"slope": "D D"}),
}
# Errors of zipfile, zlib, NumPy and the JSON reader for a damaged or malicious file.
PYTHON = (ValueError, OSError, LookupError, RuntimeError, MemoryError, ArithmeticError, EOFError, TypeError)
DAMAGED = (*PYTHON, AttributeError, SyntaxError, tokenize.TokenError, struct.error, BadZipFile, zlib.error)


class BadInput(Exception):
    """A file that cannot be read, or lacks what a check needs."""


class Refused(Exception):
    """The step of a proof that fails, and why."""


class Work:
    """The cost of a check, counted in multiplications of balls before they are done."""

    def __init__(self, cost: int = 1) -> None:
        """Count each multiplication `cost` times."""
        self.left, self.cost = LIMITS["multiplications"], cost

    def spend(self, steps: int, products: int = 0) -> None:
        """Count steps of loops in Python, and products within FLINT or floats within NumPy."""
        # A step of a loop in Python takes as long as 8 multiplications of balls within FLINT.
        self.left -= self.cost * (8 * steps + products)
        if self.left < 0:
            raise BadInput(f"it takes more than {LIMITS['multiplications']:,} multiplications to check this file.")


def printable(text: object, limit: int = 200) -> str:
    """Return what a file or a name says, in printable ASCII, its middle left out if it is longer."""
    characters = "".join(c if " " <= c <= "~" else ascii(c)[1:-1] for c in str(text)[: 10 * limit])
    return characters if len(characters) <= limit else f"{characters[: limit // 2]}...{characters[-limit // 2 :]}"


@dataclass(frozen=True)
class ProofPart:
    """A domain or a term: its kind, its loss, numbers, each the exact sum of some floats, and arrays."""

    kind: str
    loss: str
    numbers: dict[str, list[float]]
    arrays: Arrays


def digits(low: float, high: float) -> tuple[str, str]:
    """Return two bounds rounded outward to eight digits, or to as many as keep the gap from more than doubling."""
    for count in range(8, 16):
        bounds = zip((low, high), (ROUND_FLOOR, ROUND_CEILING), strict=True)
        shortened = [float(Context(prec=count, rounding=rounding).create_decimal(repr(x))) for x, rounding in bounds]
        if low == high or shortened[1] - shortened[0] <= 2.0 * (high - low):
            return f"{shortened[0]:.{count}g}", f"{shortened[1]:.{count}g}"
    return repr(low), repr(high)


def number(name: str, value: object) -> float:
    """Return a number in the text of a proof, which must be finite."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= sys.float_info.max:
        raise BadInput(f"{name!r} of the proof is not a finite number.")
    return float(value)


def checked(name: str, array: NDArray[Any], wanted: str, sizes: dict[str, int]) -> NDArray[Any]:
    """Return the array if its numbers and sizes are as wanted; its sizes are added to those of other arrays."""
    shape, _, limits = wanted.partition(":")
    fits = array.dtype.kind in "fiub" and array.dtype.itemsize <= 8 and array.ndim == len(shape.split())
    for key, size in zip(shape.split(), array.shape, strict=False):
        fits = fits and size == (int(key) if key.isdigit() else sizes.setdefault(key, size))
    if not fits:
        sizes_in_words = ", ".join(f"{key} = {sizes[key]}" for key in shape.split() if key in sizes)
        raise BadInput(
            f"{name!r} is of type {array.dtype} and shape {array.shape}; expected numbers of at most 8 bytes, {shape} "
            f"({sizes_in_words})."
        )
    for key, size in zip(shape.split(), array.shape, strict=True):
        if not key.isdigit() and size > LIMITS[kind := LIMITED_SIZES.get(key, "pairs, rows or triplets")]:
            raise BadInput(f"{name!r} is of shape {array.shape}; at most {LIMITS[kind]:,} {kind} are checked.")
    numbers, (smallest, *size_above) = array.astype(np.float64), limits.split() or ["-inf"]
    odd = (
        ~np.isfinite(numbers)
        | (numbers < float(smallest))
        | ((array.dtype.kind in "iu") & (np.abs(numbers) >= 2.0**53))
    )
    if size_above:
        odd |= (numbers >= sizes[size_above[0]]) | (numbers != np.floor(numbers))
    if odd.any():
        integers_in_words = f", or no whole numbers below {sizes[size_above[0]]}" if size_above else ""
        raise BadInput(
            f"{name!r} holds numbers that are not finite, below {smallest}, integers from 2^53{integers_in_words}."
        )
    return numbers.astype(np.int64) if size_above else numbers


def numbered(names: list[Any]) -> IndexArray:
    """Number names 0, 1, ... as they appear."""
    if any(name != name for name in names):
        raise BadInput("a label is not a number.")
    number_of: dict[object, int] = {}
    return np.array([number_of.setdefault(name, len(number_of)) for name in names], dtype=np.int64)


def digest(arrays: Arrays, text: str = "") -> str:
    """Return SHA-256 of a text and of arrays in the order of their names: shapes, and numbers as 8-byte floats."""
    state = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        state.update(f"{name}{arrays[name].shape}".encode() + np.ascontiguousarray(arrays[name], dtype="<f8").tobytes())
    return state.hexdigest()


def contents(path: Path) -> bytes:
    """Return the bytes of a regular file of at most the given size."""
    if not path.is_file():
        raise ValueError("there is no such file")
    with path.open("rb") as file:
        raw = file.read(LIMITS["bytes of a file"] + 1)
    limited("bytes of a file", len(raw))
    return raw


def limited(kind: str, size: int) -> None:
    if size > LIMITS[kind]:
        raise ValueError(f"it has more than {LIMITS[kind]:,} {kind}")


def read_npz(path: Path, needed: list[str], allows_others: bool = False) -> Arrays:
    """Return arrays of an NPZ file, numbers or text; with `others` it may hold more, not read."""
    with ZipFile(BytesIO(contents(path))) as file:
        infos = {entry.filename.removesuffix(".npy"): entry for entry in file.infolist()}
        limited("arrays of a file", len(file.infolist()))
        fits = len(infos) == len(file.infolist()) and {*needed} <= {*infos}
        if not fits or not (allows_others or len(infos) == len(needed)):
            names = ", ".join(repr(printable(name, 40)) for name in infos)
            raise ValueError(f"it holds {names}; expected {', '.join(needed)}, each once")
        used = {name: file.getinfo(infos[name].filename.removesuffix(".npy") + ".npy") for name in needed}
        if any(info.compress_type not in (ZIP_STORED, ZIP_DEFLATED) for info in used.values()):
            raise ValueError("it is compressed by a method that NumPy does not use")
        limited("bytes of its arrays", sum(info.file_size for info in used.values()))
        for info in used.values():
            limited("bytes from one deflated", info.file_size // (info.compress_size + 1))
        arrays = dict[str, NDArray[Any]]()
        for name, info in used.items():
            with file.open(info) as member:  # decompresses no more than it is asked for
                arrays[name] = _array(BytesIO(member.read(info.file_size)))
        limited("numbers of its arrays", sum(array.size for array in arrays.values()))
        return arrays


def _array(member: BytesIO) -> NDArray[Any]:
    """Return an array of NumPy's format: nothing is allocated for its header."""
    reader = npy.read_array_header_1_0 if npy.read_magic(member) == (1, 0) else npy.read_array_header_2_0
    shape, fortran, dtype = reader(member)
    if dtype.kind not in "fiubUS":
        raise ValueError("it holds what is no numbers and no text")
    values = np.frombuffer(member.read(), dtype=dtype).reshape(shape, order="F" if fortran else "C")
    if dtype.kind == "U":
        if (values.reshape(-1).view(f"{dtype.byteorder}u4") > sys.maxunicode).any():
            raise ValueError("it holds what is no text")
        str(values.tolist()).encode()  # refuses halves of characters
    return values


def read(data_path: Path, proof_path: Path) -> tuple[list[Any], Arrays, list[ProofPart]]:
    """Return the claims, the data, and the domain and terms of a proof with an unbroken seal."""
    try:
        texts = read_npz(proof_path, ["about", "seal"], allows_others=True)
        limited("characters of its text", max(value.nbytes // 4 for value in texts.values()))
        text, seal = map(str, texts.values())
        claims = json.loads(text)
        limited("terms of a proof", len(claims["terms"]))
        descriptions, members = [claims["domain"], *claims["terms"]], {*claims["data"]["members"]}
        if claims["format"] != FORMAT or {*claims} != {"format", "objective", "lower_bound", "data", "domain", "terms"}:
            raise ValueError(f"it is not of format {FORMAT}, which this checker reads; save it again")
        kinds = [
            (TERMS if k else DOMAINS)[description["term" if k else "domain"]]
            for k, description in enumerate(descriptions)
        ]
        keys = [{"term" if k else "domain", *words.split()} for k, (_, words, _) in enumerate(kinds)]
        needed, domain = {name for data, *_ in kinds for name in data.split()}, descriptions[0]["domain"]
        fits = needed <= members <= {*DATA} and len(descriptions) > 1
        fits &= ("pairs" in members) == ("similar" in members) and {*claims["data"]} == {"members", "sha256"}
        if (
            not fits
            or keys != [{*description} for description in descriptions]
            or (domain == "threshold" and needed != {"X"})
        ):
            raise ValueError(f"it says {printable(claims)!r}; something is missing, foreign or of other programs")
        data, sizes = read_data(data_path, members)
        if domain == "threshold":  # One more feature, and row.
            sizes |= {"n": sizes["n"] + 1, "d": sizes["d"] + 1}
        names = [f"{k}.{name}" for k, (*_, arrays) in enumerate(kinds) for name in arrays]
        held = read_npz(proof_path, [*names, "about", "seal"])
        broken = seal != digest({name: held[name].astype("<f8", casting="same_kind") for name in names}, text)
    except DAMAGED as error:
        why = printable(error, 1000)
        raise BadInput(f"{proof_path} is not a proof, or {data_path} not its data: {why}.") from error
    if digest(data) != claims["data"]["sha256"]:
        raise Refused("data: these are not the data that the proof is about: their hashes differ")
    if broken:
        raise Refused("seal: the file was changed after it was written")
    program = list[ProofPart]()
    for k, (description, (_, words, schema)) in enumerate(zip(descriptions, kinds, strict=True)):
        known_sizes = dict(sizes)
        arrays = {name: checked(name, held[f"{k}.{name}"], wanted, known_sizes) for name, wanted in schema.items()}
        numbers = {name: description[name] for name in {*words.split()} - {"loss"}}
        exact = {
            name: [number(name, x) for x in (value if value and isinstance(value, list) else [value])]
            for name, value in numbers.items()
        }
        program.append(
            ProofPart(str(description["term" if k else "domain"]), str(description.get("loss")), exact, arrays)
        )
        sizes |= {"B": known_sizes.get("B", 0), "D": known_sizes.get("B", 0) * known_sizes.get("d", 0)}
        if not all(known_sizes.get(key, 1) for key in "BKQ") or sizes["D"] > LIMITS["features"]:
            raise BadInput(
                f"the components of the proof are of shape {program[0].arrays['components'].shape}; expected no empty "
                f"ones, and at most {LIMITS['features']} features times metrics."
            )
    return [claims["objective"], claims["lower_bound"]], data, program


def read_data(path: Path, members: set[str]) -> tuple[Arrays, dict[str, int]]:
    """Return what the proof says that it needs of a file, and its sizes."""
    arrays, sizes = read_npz(path, [*members], True), dict[str, int]()
    for name, wanted in DATA.items():
        if name in members:
            array = numbered(arrays[name].ravel().tolist()) if name in NAMES else arrays[name]
            arrays[name] = checked(name, array, wanted, sizes)
    if sizes.get("n", 2) < 2 or not sizes.get("d", 1):
        raise BadInput(f"{path} has X of shape {arrays['X'].shape}, too small.")
    return {name: arrays[name] > 0 if name == "similar" else arrays[name] for name in members}, sizes
