"""Build the data sets of the benchmarks and reproductions: one command, then SDPMETRIC_DATA names the folder.

    python examples/benchmarks/data.py DIR letters usps mnist
    python examples/benchmarks/data.py DIR --check

Each set is downloaded from the place named here, brought into the form of an NPZ file with ``X``, ``y`` and, where a
split is customary, ``n_train``, and compared with the hash of the data that the figures of this repository were
measured on. The hash is of the set of rows of the training and of the test part; their order does not matter. What
does not match is not written. ``--from FILE`` takes a file that you have in place of the download.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.io import arff, loadmat
from sklearn.datasets import fetch_openml

GITHUB = "https://raw.githubusercontent.com"
Arrays = tuple[np.ndarray, np.ndarray]


def numbered(labels: Sequence[object]) -> np.ndarray:
    """Labels as numbers from 0, in their sorted order."""
    return np.unique(np.asarray(labels), return_inverse=True)[1].astype(np.int64)


def read_letters(paths: Sequence[Path]) -> Arrays:
    rows = [row for row in (line.split(",") for line in paths[0].read_text().split()) if len(row[0]) == 1]  # no header
    return np.array([row[1:] for row in rows], dtype=np.uint8), numbered([row[0] for row in rows])


def read_arff(paths: Sequence[Path]) -> Arrays:
    """The last column holds the labels, or a number."""
    table, meta = arff.loadarff(paths[0])
    *features, label = meta.names()
    X = np.column_stack([table[name].astype(np.float64) for name in features])
    return X, table[label] if table[label].dtype.kind == "f" else numbered(table[label])


def read_mat(paths: Sequence[Path]) -> Arrays:
    """Of several files the rows one after another."""
    parts = []
    for path in paths:
        arrays = {name: value for name, value in loadmat(path).items() if not name.startswith("__")}
        y = next(np.ravel(value) for value in arrays.values() if min(value.shape) == 1)
        X = next(value for value in arrays.values() if min(value.shape) > 1)
        parts.append((X if len(X) == len(y) else X.T, y))
    return np.concatenate([X for X, _ in parts]), numbered(np.concatenate([y for _, y in parts]))


def read_usps(paths: Sequence[Path]) -> Arrays:
    import h5py

    with h5py.File(paths[0]) as file:
        parts = [(np.asarray(file[part]["data"]), np.asarray(file[part]["target"])) for part in ("train", "test")]
    return np.concatenate([X for X, _ in parts]), numbered(np.concatenate([y for _, y in parts]))


def read_openml(number: int) -> Callable[[Sequence[Path]], Arrays]:
    def read(paths: Sequence[Path]) -> Arrays:
        found = fetch_openml(data_id=number, as_frame=False, parser="liac-arff")
        return np.asarray(found.data), numbered(found.target)

    return read


@dataclass(frozen=True)
class Recipe:
    """Where a data set comes from, how it is read, and the hash of its parts."""

    urls: tuple[str, ...]
    read: Callable[[Sequence[Path]], Arrays]
    dtype: str
    sha256: tuple[str, ...]
    n_train: int | None = None


ARFF = f"{GITHUB}/renatopp/arff-datasets/c59f172882592bb58982cc54d2d3c8a2b57e9b73"
LETTERS = f"{GITHUB}/davidgasquez/letter-recognition/fe3c4830d0003e53340bbf40a57c3573e021df64"
ISOLET = f"{GITHUB}/jundongl/scikit-feature/48cffad4e88ff4b9d2f1c7baffb314d1b3303792/skfeature/data/Isolet.mat"
ISOLET5 = f"{GITHUB}/lwk98/NRMOPSO/25f89a474beb908bda9f40c3ba193b1c1b0ff0d2/data/isolet5.mat"
USPS = f"{GITHUB}/niuers/Learning-From-Data-A-Short-Course/879a698b960e5867f7c2b11f8938fa89c3d21839/data/usps.h5"
YALE = f"{GITHUB}/SkafteNicki/LMNN_matlab/128c24e5f0613c528a1c7161e142573bb0504b07/YaleB_32x32.mat"
FACES = f"{GITHUB}/sjgershm/DBM/a30d9abb523aab874a299b8b1aa21e7df2023f60/olivettifaces.mat"
RECIPES = {
    "letters": Recipe(
        (f"{LETTERS}/letter-recognition.data",),
        read_letters,
        "uint8",
        (
            "c9c5d2c0e06bd0a04a9f6248a540313b836aa6e22064569ae16db969aa2a361b",
            "75ac143c0924be30365dc9cd8171915791cf6a17461d33cbd96e3f99ae15f18d",
        ),
        16000,
    ),
    "balance": Recipe(
        (f"{ARFF}/classification/balance.scale.arff",),
        read_arff,
        "uint8",
        ("b5ddb49b8f0dfd4c47090168a4c1588654abf35a13c1a007fc11ab0c8b4c6c06",),
    ),
    "segment": Recipe(
        (f"{ARFF}/classification/segment.arff",),
        read_arff,
        "float64",
        ("07889601a3f8bc49b2898f91cd226d20e19a129fb96fcf00aa311e2059ca4d71",),
    ),
    "ionosphere": Recipe(
        (f"{ARFF}/classification/ionosphere.arff",),
        read_arff,
        "float32",
        ("b85fa11fc1cf3c2843228c90c475da2c4774433a734ca5ef98e1953d9617baac",),
    ),
    "housing": Recipe(
        (f"{ARFF}/regression/housing.arff",),
        read_arff,
        "float64",
        ("0b06d0b671ac5dbe6c039b33850317301d4a0696be2e7eda26bfd3fc8dececfc",),
    ),
    "isolet_1_5": Recipe(
        (ISOLET, ISOLET5),
        read_mat,
        "float32",
        (
            "52bc5aeea81d650673ac125bc6631a050752ac3eebd1b7f7388f2b6a7546088f",
            "714d4266556d48f43f5d5517b86b0a4f6387b39b27ca5b4b3fe7fb7ad0397530",
        ),
        1560,
    ),
    "usps": Recipe(
        (USPS,),
        read_usps,
        "float32",
        (
            "371105d4f5d83f4857a38922bd880b1fe019bf887344fdc7cae2e31d16c991bd",
            "5ddb8e6d494b48b8c5bf84775f5d0d2b12f13964bfedaa555d7dec22596a054b",
        ),
        7291,
    ),
    "yaleb": Recipe(
        (YALE,),
        read_mat,
        "uint8",
        ("a24c7518c9a51bc15a30cfe895341a72a8f0b6e956167deb63db571f2e572422",),
    ),
    "olivetti": Recipe(
        (FACES,),
        read_mat,
        "uint8",
        ("48ccbd99cc2bc73a7c995a6cafa273e1b18ff71686d2e2c6522165fbf3c3f8c8",),
    ),
    "mnist": Recipe(
        (),
        read_openml(554),
        "uint8",
        (
            "f369600cfdcfac9c1137da8c98b3929d29b267e6fc9d8245515572ad325394c4",
            "b54a2661f636a63dd4716357849ddc9c7e99c71c7f6f2688559386fefd6b4abb",
        ),
        60000,
    ),
}


def digests(X: np.ndarray, y: np.ndarray, n_train: int | None) -> tuple[str, ...]:
    """For each part a hash of its rows that does not depend on their order: the sum of the hashes of the rows."""
    parts = [slice(0, n_train), slice(n_train, None)] if n_train is not None else [slice(None)]
    found = []
    for part in parts:
        rows = zip(np.ascontiguousarray(X[part]), y[part], strict=True)
        total = sum(int.from_bytes(hashlib.sha256(x.tobytes() + label.tobytes()).digest(), "big") for x, label in rows)
        found.append(f"{total % (1 << 256):064x}")
    return tuple(found)


def build(name: str, folder: Path, files: Sequence[Path] = ()) -> Path:
    """Download or take the files, read them, compare the hash, and write NAME.npz.

    Raises
    ------
    ValueError
        If the data are not those that the figures were measured on.
    """
    recipe = RECIPES[name]
    with tempfile.TemporaryDirectory() as temporary:
        paths = list(files)
        for number, url in enumerate(recipe.urls if not files else ()):
            paths.append(Path(temporary) / f"{number}{Path(url).suffix}")
            with urllib.request.urlopen(url, timeout=60) as answer:
                paths[-1].write_bytes(answer.read())
        X, y = recipe.read(paths)
    X = X.astype(recipe.dtype)
    y = y.astype(np.float64 if y.dtype.kind == "f" else np.int64)
    found = digests(X, y, recipe.n_train)
    if found != recipe.sha256:
        raise ValueError(f"{name}: the data differ from those of the figures (hash {found}); nothing was written.")
    folder.mkdir(parents=True, exist_ok=True)
    split = {} if recipe.n_train is None else {"n_train": recipe.n_train}
    np.savez_compressed(folder / f"{name}.npz", X=X, y=y, **split)
    return folder / f"{name}.npz"


def check(folder: Path) -> bool:
    """Compare every known file of a folder with its hash."""
    good = True
    for name, recipe in RECIPES.items():
        if (path := folder / f"{name}.npz").is_file():
            with np.load(path) as file:
                y = file["y"].astype(np.float64 if file["y"].dtype.kind == "f" else np.int64)
                same = digests(file["X"].astype(recipe.dtype), y, recipe.n_train) == recipe.sha256
            print(f"{name}: {'as measured' if same else 'other data'}")
            good = good and same
    return good


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(RECIPES)}; default: all")
    parser.add_argument("--check", action="store_true", help="compare the files of the folder with their hashes")
    parser.add_argument("--from", dest="files", nargs="+", type=Path, default=[], help="files in place of downloads")
    given = parser.parse_args(arguments)
    if unknown := sorted(set(given.names) - set(RECIPES)):
        parser.error(f"unknown data {', '.join(unknown)}; choose from {', '.join(RECIPES)}")
    if given.files and len(given.names) != 1:
        parser.error("--from is for one data set")
    if given.check:
        return 0 if check(given.folder) else 1
    failed = 0
    for name in given.names or RECIPES:
        try:
            print(f"{name}: {build(name, given.folder, given.files)}")
        except (OSError, ValueError, ImportError, KeyError, StopIteration) as error:
            print(f"{name}: not built. {error}", file=sys.stderr)
            failed = 1
    return failed


if __name__ == "__main__":
    raise SystemExit(main())
