"""Damaged files: bytes flipped, cut out or doubled, and whole archives with other arrays or other JSON in them."""

from __future__ import annotations

import io
import json
import warnings
import zipfile

import numpy as np


def damaged(data, rng):
    """Bytes flipped, cut off, cut out, doubled, or overwritten."""
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 5, 20])):
        at = rng.randrange(len(data) + 1)
        end = min(len(data), at + rng.choice([1, 2, 8, 100, 1000]))
        match rng.randrange(8):
            case 0:
                del data[at:]
            case 1:
                del data[at:end]
            case 2:
                data[at:at] = data[at:end]
            case 3:
                data[at:end] = rng.choice([b"\0", b"\xff"]) * (end - at)
            case _:
                if at < len(data):
                    data[at] ^= 1 << rng.randrange(8)
        if not data:
            break
    return bytes(data)


HOSTILE = [
    None,
    True,
    -1,
    0,
    1,
    10**400,
    -(10**20),
    1e308,
    float("nan"),
    float("inf"),
    "",
    "x",
    "=1+1",
    "\udc80",
    [],
    {},
]
HOSTILE += [[1], {"a": {}}, ["x"] * 3, "n_features_in_", "PCA", "regret", "optimal", 1e-300, 2**63]


def other_json(value, rng):
    """The same JSON with one of its values, at any depth, replaced, removed or added."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(list(value))
        match rng.randrange(8):
            case 0:
                return {k: v for k, v in value.items() if k != key}
            case 1:
                return value | {rng.choice(["x", "transform", "kind", "mean_", key + "_"]): rng.choice(HOSTILE)}
        return value | {key: other_json(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.9:
        at = rng.randrange(len(value))
        return [*value[:at], other_json(value[at], rng), *value[at + 1 :]]
    return rng.choice(HOSTILE)


def other_array(array, rng):
    """The same array with other numbers, shape or type."""
    if array.dtype.kind == "U" and array.ndim == 0:
        text = str(array)
        if rng.random() < 0.2:
            text = rng.choice(["[" * 100_000, "null", "[]", "{}", "1", "", '"x"', text[:-1], text * 2])
        else:
            text = json.dumps(other_json(json.loads(text), rng)) if text.startswith("{") else text + "x"
        return np.array(text)
    if array.dtype.kind not in "fiu" or rng.random() < 0.15:
        return rng.choice([np.array("x"), np.array([b"\xff"]), np.zeros(0), np.zeros((0, 3)), np.array(1 + 2j)])
    match rng.randrange(9):
        case 0:
            return array.astype(rng.choice(["f2", ">f8", "i8", "c16", "U", "f4", "?", "g"]))
        case 1:
            return array[..., None]
        case 2:
            return array[:-1] if array.ndim else array
        case 3:
            return array.T.copy()
        case 4:
            return np.concatenate([array, array], axis=-1) if array.ndim else array
        case 5:
            return np.zeros((rng.choice([0, 1, 10**6]), *array.shape[1:]), array.dtype)
    changed = np.array(array).ravel()
    if changed.size:
        numbers = [0, -1, 1, 127] if array.dtype.kind in "iu" else [np.nan, np.inf, 0, -1, 1e308, -1e200, 1e-320, 1e6]
        at = rng.randrange(changed.size)
        changed[at : at + rng.choice([1, changed.size])] = rng.choice(numbers)
    return changed.reshape(array.shape)


def member(array, rng):
    """The bytes of an array, at times with a header that lies."""
    file = io.BytesIO()
    np.lib.format.write_array(file, np.asanyarray(array), allow_pickle=False)
    data = file.getvalue()
    if rng.random() < 0.2:
        lies = [
            (b"(", b"(9999999999, "),
            (b"<f8", b"<f4"),
            (b"<f8", b"|O"),
            (b"<U", b"<U9"),
            (b"False", b"True "),
            (b"}", b"]"),
        ]
        data = data.replace(*rng.choice(lies), 1)
    return data


def restructured(data, rng):
    """A valid archive, in which an array is another, another's, missing, double or a liar."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    name = rng.choice(list(parts))
    if "about.npy" in parts and rng.random() < 0.4:
        name = rng.choice([n for n in ("about.npy", "model.npy") if n in parts])
    match rng.randrange(10):
        case 0:
            del parts[name]
        case 1:
            parts[name] = parts[rng.choice(list(parts))]
        case 2:
            parts[name] = damaged(parts[name], rng)
        case 3:
            parts[rng.choice(["x.npy", "../x.npy", "about.npy", "x", "step0_x.npy"])] = parts[name]
        case _:
            array = np.load(io.BytesIO(parts[name]), allow_pickle=False)
            parts[name] = member(other_array(array, rng), rng)
    file = io.BytesIO()
    with zipfile.ZipFile(
        file, "w", rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
    ) as archive:
        for part, content in parts.items():
            archive.writestr(part, content)
        if rng.random() < 0.05:
            with warnings.catch_warnings(action="ignore"):
                archive.writestr(name, b"again")
    return file.getvalue()
