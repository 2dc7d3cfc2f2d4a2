"""Proof files that an adversary changes, and what must be true of each that the checker accepts.

A mutation keeps the structure of a file and recomputes its seal and the hash of its data: exponents are shifted by
hundreds, signs flipped, multipliers raised, rows permuted and repeated, parameters and claims
replaced, terms left out, repeated and changed into others, members retyped, reshaped, added and left out, and the data
moved along. If the checker accepts a file, the sentence that it prints is read and compared with exact rational
arithmetic. `corruptions.py --mutations` runs them.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import sdpmetric as sm
from sdpmetric import terms
from sdpmetric.check.__main__ import main as check
from sdpmetric.check.files import digest

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
sys.path.insert(0, str(Path(__file__).parent))
from exact import FAMILIES, hostile
from instances import separable
from proof_truth import untrue

# A problem of each kind, from data, classes, pairs and whether they are similar.
STATEMENTS = {
    "hinge": lambda X, y, pairs, same: sm.LMNNProblem.from_labels(X, y, 1, 0.5),
    "squared": lambda X, y, pairs, same: sm.LMNNProblem.from_labels(X, y, 2, 0.1, loss="squared_hinge"),
    "ridge": lambda X, y, pairs, same: sm.LMNNProblem.from_labels(X, y, 1, 0.9, ridge=0.1),
    "weights": lambda X, y, pairs, same: sm.LMNNProblem.from_labels(X, y, 1, 0.5, sample_weight=weights(y)),
    "triplets": lambda X, y, pairs, same: sm.LMNNProblem.from_triplets(X, triplets(y)),
    "regions": lambda X, y, pairs, same: sm.MultiMetricLMNNProblem.from_labels(X, y, 1),
    "soft": lambda X, y, pairs, same: sm.POLAProblem(X, pairs, same, 0.3, 1.5),
    "mmc": lambda X, y, pairs, same: sm.MMCProblem(X, pairs, same),
    "itml": lambda X, y, pairs, same: sm.ITMLProblem(X, pairs, same, gamma=0.7),
    "lsml": lambda X, y, pairs, same: sm.LSMLProblem.from_labels(X, y, 10),
    "sdml": lambda X, y, pairs, same: sm.SDMLProblem(X, pairs, same),
    "scml": lambda X, y, pairs, same: sm.SCMLProblem(X, triplets(y), np.vstack([np.eye(X.shape[1])] * 2), 0.1),
    "lego": lambda X, y, pairs, same: sm.LEGOBatchProblem(sm.LEGOProblem(X, pairs, np.where(same, 1.0, 4.0))),
    "pairs": lambda X, y, pairs, same: sm.MetricProblem(
        X, terms.Trace() + terms.PairHinge(pairs[same], np.arange(same.sum()) % 2 == 0)
    ),
    "diagonal": lambda X, y, pairs, same: sm.MetricProblem(
        X, terms.Frobenius() + terms.TripletHinge(labels=y, n_neighbors=1), diagonal=True
    ),
    "sum": lambda X, y, pairs, same: sm.MetricProblem(
        X,
        0.5 * terms.LogDet()
        + terms.Frobenius(to=np.eye(X.shape[1]))
        + 0.1 * terms.OffDiagonal()
        + terms.PairHinge(pairs, same, loss="logistic")
        + 0.1 * terms.TripletHinge(triplets(y), loss="squared_hinge"),
    ),
    "bounds": lambda X, y, pairs, same: sm.MetricProblem(
        X, terms.Trace() + terms.DistanceBounds([[0, 1], [2, 3]], at_most=[1.0, np.inf], at_least=[0.0, 2.0])
    ),
    "contradiction": lambda X, y, pairs, same: sm.MetricProblem(
        X,
        terms.Trace() + terms.DistanceBounds([[0, 1], [1, 2], [0, 2]], at_most=[1, 1, np.inf], at_least=[0, 0, 9]),
    ),
}
KINDS = ("hard", *STATEMENTS)
LOSSES = ("hinge", "squared hinge", "logistic", "hard", "linear", "log ratio", "minus a root")
# What a mutation raises that does not fit the types that another one left.
UNFIT = (TypeError, ValueError, KeyError, IndexError, AttributeError)
SPECIAL = (0.0, -0.0, 5e-324, 1e-310, 5.4e-162, 1e-30, 0.5, 1.0, 2.0**53, 1e154, 1e300, 1.7e308, -1.0, np.nan, np.inf)


@dataclass
class Files:
    """What a data file and a proof file hold; a mutation may put anything there."""

    data: dict
    arrays: dict
    about: dict

    def copy(self):
        return Files({**self.data}, {**self.arrays}, deepcopy(self.about))

    def write(self, folder):
        """Both files, with hash and seal of what they hold now."""
        np.savez(folder / "data.npz", **self.data)
        hashes = {"members": [*self.data], "sha256": digest(hashed(self.data))}
        about = self.about | ({"data": hashes} if "data" in self.about else {})
        text = json.dumps(about)
        numbers = {name: array for name, array in self.arrays.items() if np.asarray(array).dtype.kind in "fiub"}
        with np.errstate(all="ignore"):
            np.savez(folder / "proof.npz", **self.arrays, about=np.array(text), seal=np.array(digest(numbers, text)))


def weights(y):
    return np.arange(len(y)) % 3 / 2.0


def triplets(y):
    """Triplets of rows in their order."""
    found = [(i, j, l) for i in range(0, len(y), 2) for j in range(len(y)) for l in (0, len(y) - 1)]
    return np.array([(i, j, l) for i, j, l in found if i != j and y[i] == y[j] and y[i] != y[l]])[:20]


def hashed(data):
    """The data as they are hashed."""
    arrays = {name: np.asarray(array, dtype=np.float64) for name, array in data.items()}
    for name in {"y", "regions"} & set(data):
        seen = {}
        arrays[name] = np.array([seen.setdefault(label, len(seen)) for label in np.ravel(data[name]).tolist()])
    return arrays | ({"similar": arrays["similar"] > 0} if "similar" in data else {})


def drawn(kind, seed, folder, n=None):
    """A solved problem of a kind as files; None where the family does not allow one."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    X, y = hostile(FAMILIES[seed % len(FAMILIES)], rng, n=n or int(rng.choice([8, 12, 12, 16, 40])))
    X = np.asarray(X, dtype=np.float64)
    pairs = np.unique(np.sort(rng.integers(0, len(X), (25, 2)), axis=1), axis=0)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    try:
        problem = separable(seed) if kind == "hard" else STATEMENTS[kind](X, y, pairs, y[pairs[:, 0]] == y[pairs[:, 1]])
        sm.solve(problem, tol=1e-6, max_time=20.0).save_proof(folder / "proof.npz", folder / "data.npz")
    except (ValueError, np.linalg.LinAlgError):
        return None
    data, arrays = ({**np.load(folder / name)} for name in ("data.npz", "proof.npz"))
    about = json.loads(str(arrays.pop("about")))
    del arrays["seal"]
    return Files(data | {"X": np.asarray(data["X"], dtype=np.float64)}, arrays, about)


def exponent(rng):
    """A power of two: by hundreds, by a little, or to where squares underflow."""
    return int(rng.choice([rng.integers(-1100, 1100), rng.integers(-3, 4), rng.integers(-545, -525), 512]))


def factor(rng):
    """A factor near 1."""
    return 1.0 + float(rng.choice([-1.0, 1.0])) * 10.0 ** -int(rng.integers(0, 17))


def part(array, rng):
    """An index: of all, of a row, of a column or of an entry."""
    at = tuple(int(rng.integers(size)) for size in array.shape)
    return (..., at[:1], (slice(None), *at[1:]), at)[int(rng.integers(4))]


def changed(array, rng):
    """Numbers of an array changed: exponents, factors near 1, signs, special values, neighbors, others of its own."""
    array = np.array(array, dtype=np.float64)
    if not array.size or not array.ndim:
        return array
    at, how = part(array, rng), int(rng.integers(6))
    if how == 0:
        array[at] = np.ldexp(array[at], exponent(rng))
    elif how == 1:
        array[at] = array[at] * factor(rng)
    elif how == 2:
        array[at] = -array[at]
    elif how == 3:
        array[at] = rng.choice(SPECIAL)
    elif how == 4:
        array[at] = np.nextafter(array[at], rng.choice([-np.inf, np.inf]))
    else:
        array[at] = rng.choice(array.ravel())
    return array


def rearranged(array, rng):
    """Rows permuted, repeated or left out; columns too; a dimension more or less."""
    array = np.asarray(array)
    if not array.ndim or not array.size:
        return array
    axis = int(rng.integers(array.ndim))
    size = array.shape[axis]
    choices = (
        lambda: np.take(array, rng.permutation(size), axis=axis),
        lambda: np.take(array, np.append(np.arange(size), rng.integers(size)), axis=axis),
        lambda: np.delete(array, rng.integers(size), axis=axis),
        lambda: np.concatenate([array, np.zeros_like(np.take(array, [0], axis=axis))], axis=axis),
        lambda: np.take(array, np.arange(size), axis=axis)[..., None],
        lambda: array.T,
        lambda: array[:0],
        lambda: array.ravel(),
    )
    return choices[int(rng.integers(len(choices)))]()


def retyped(array, rng):
    """The same numbers as another type, which may be one that a checker does not take."""
    array = np.asarray(array)
    kind = rng.choice(["<f4", ">f8", "<i8", "<i2", "|b1", "<c16", "<U30", "<f2", "<u8", "order"])
    with np.errstate(all="ignore"):
        return np.asfortranarray(array) if kind == "order" else array.astype(kind)


def mutate_array(files, rng):
    where = files.data if rng.random() < 0.15 else files.arrays
    name = rng.choice(sorted(where))
    if where[name].dtype.kind not in "fiub":
        return
    how = rng.random()
    where[name] = (changed if how < 0.7 else rearranged if how < 0.9 else retyped)(where[name], rng)


def mutate_statement(files, rng):
    """Numbers and words of the text: claims, the domain, or a term."""
    said = (files.about, files.about["domain"], *files.about["terms"])[int(rng.integers(2 + len(files.about["terms"])))]
    name, how = str(rng.choice(sorted(said))), rng.random()
    value = said[name]
    if isinstance(value, list) and value and isinstance(value[0], float) and how < 0.6:
        value[int(rng.integers(len(value)))] *= factor(rng)
    elif how < 0.45 and isinstance(value, float):
        said[name] = float(value * (factor(rng) if rng.random() < 0.6 else 2.0 ** int(rng.integers(-900, 900))))
    elif how < 0.6 and name == "loss":
        said[name] = str(rng.choice(LOSSES))
    elif how < 0.6 and name == "domain":
        said[name] = str(rng.choice(["all", "diagonal", "threshold"]))
    elif how < 0.8:
        others = (True, False, None, "1", [], {}, 10**400, 2**60, -1, 0, 1, 2, 99, 1e-300, 1e300, *SPECIAL)
        said[name] = others[int(rng.integers(len(others)))]
    elif how < 0.9:
        del said[name]
    else:
        said[str(rng.choice(["sample_weight", "n_neighbors", "X", "lower_bound"]))] = [1.0, None][int(rng.integers(2))]


def mutate_terms(files, rng):
    """A term left out or repeated, with its arrays."""
    count = len(files.about["terms"])
    order = list(range(1, count + 1))
    at = int(rng.integers(count))
    order = order[:at] + order[at + 1 :] if rng.random() < 0.5 else [*order, order[at]]
    old = {name: files.arrays.pop(name) for name in [*files.arrays] if not name.startswith("0.")}
    files.about["terms"] = [deepcopy(files.about["terms"][k - 1]) for k in order]
    for new, k in enumerate(order, 1):
        own = {name: array for name, array in old.items() if name.split(".")[0] == str(k)}
        files.arrays |= {f"{new}.{name.split('.')[1]}": array for name, array in own.items()}


def mutate_together(files, rng):
    """Data and components scaled by powers of two, each or together; the proof may stay one."""
    e = exponent(rng)
    with np.errstate(all="ignore"):
        if rng.random() < 0.5:
            files.data["X"] = np.ldexp(files.data["X"], e)
        files.arrays["0.components"] = np.ldexp(files.arrays["0.components"], -e if rng.random() < 0.8 else e)


def mutate_multipliers(files, rng):
    """Multipliers or slopes raised: all, or some, or to the weight of their term."""
    names = [name for name in files.arrays if name.split(".")[-1] in ("multipliers", "slope", "distributions")]
    name = str(rng.choice(names))
    a = np.array(files.arrays[name], dtype=np.float64)
    if a.size:
        at = rng.random(a.shape) < rng.choice([0.1, 0.5, 1.0])
        a = np.where(at, a * (1.0 + 10.0 ** -int(rng.integers(-6, 12))), a)
        limit = files.about["terms"][int(name.split(".")[0]) - 1].get("weight")
        files.arrays[name] = np.minimum(a, limit) if isinstance(limit, float) and rng.random() < 0.8 else a


def mutate_targets(files, rng):
    """Target neighbors left out, all or some, or others of the class."""
    targets, y = files.arrays.get("1.targets"), files.data.get("y")
    if targets is None or np.ndim(targets) != 2 or not np.size(targets) or len(targets) != len(y):
        return
    targets, how = np.array(targets), int(rng.integers(4))
    i, slot = int(rng.integers(len(targets))), int(rng.integers(targets.shape[1]))
    if how == 0:
        targets[i, slot] = -1
    elif how == 1:
        targets[:] = -1
        files.arrays["1.triplets"], files.arrays["1.multipliers"] = np.zeros((0, 3)), np.zeros(0)
    elif how == 2:
        targets[i, slot] = rng.choice(np.flatnonzero(y == y[i]))
    else:
        targets = targets[:, rng.permutation(targets.shape[1])]
    files.arrays["1.targets"] = targets


def mutate_forged(files, rng):
    """All triplets, with multipliers whose pushes each round to nothing where pulls are denormals."""
    shapes = [np.ndim(files.arrays.get(name, 0.0)) for name in ("1.multipliers", "1.triplets", "1.targets")]
    X, mu = np.asarray(files.data["X"], dtype=np.float64), files.about["terms"][0].get("weight")
    if shapes != [1, 2, 2] or X.ndim != 2 or not isinstance(mu, float) or not 0.0 < mu < 1.0:
        return
    targets, y = files.arrays["1.targets"].astype(int), files.data["y"]
    if len(targets) != len(X) or not np.size(targets) or np.max(targets) >= len(X) or np.ndim(y) != 1:
        return
    V = np.diag(np.sqrt(rng.integers(2, 12) * 5e-324 / (1.0 - mu)) / np.maximum(X.std(axis=0), 1e-100))
    listed = [(i, j, l) for i, row in enumerate(targets) for j in row if j >= 0 for l in np.flatnonzero(y != y[i])]
    if listed:
        i, _, l = np.array(listed).T
        size = np.maximum(np.max(np.abs((X[i] - X[l]) @ V), axis=1) / 5e-324**0.5, 1e-100)
        files.arrays["1.triplets"] = np.array(listed)
        files.arrays["1.multipliers"] = np.minimum(mu, 0.49 / size**2)


def mutate_moved(files, rng):
    """Some examples moved far from the others: what is near among them is the difference of large numbers."""
    X = np.array(files.data["X"], dtype=np.float64)
    if X.ndim == 2 and X.size:
        y = files.data.get("y")
        some = np.ravel(y) == np.ravel(y)[0] if y is not None and np.size(y) == len(X) else rng.random(len(X)) < 0.5
        X[some] += 10.0 ** int(rng.integers(3, 12))
        files.data["X"] = X
        if rng.random() < 0.5 and "1.triplets" in files.arrays:
            files.arrays["1.triplets"], files.arrays["1.multipliers"] = np.zeros((0, 3)), np.zeros(0)


def mutate_members(files, rng):
    """A member left out, or a foreign one."""
    if rng.random() < 0.5:
        del files.arrays[str(rng.choice(sorted(files.arrays)))]
    else:
        files.arrays["extra"] = np.zeros(3)


MUTATIONS = (
    mutate_array,
    mutate_statement,
    mutate_together,
    mutate_multipliers,
    mutate_targets,
    mutate_forged,
    mutate_moved,
    mutate_terms,
)


def mutated(files, rng):
    """One to three mutations, mostly with claims that anything proves: what counts is what is printed then."""
    files = files.copy()
    if rng.random() < 0.8 and files.about["lower_bound"] is not None:
        files.about |= {"objective": 1e300, "lower_bound": -1e300}
    with np.errstate(all="ignore"):
        for _ in range(int(rng.integers(1, 4))):
            with suppress(*UNFIT):
                MUTATIONS[int(rng.integers(len(MUTATIONS)))](files, rng)
    if rng.random() < 0.02:
        mutate_members(files, rng)
    return files


def judged(files, base, folder):
    """The exit code of the checker, None if the file cannot be written, and what was accepted and is not true."""
    try:
        files.write(folder)
    except (ValueError, OverflowError, TypeError):  # NumPy or JSON does not write it
        return None, []
    code, text = check([str(folder / "data.npz"), str(folder / "proof.npz")])
    wrong = [text] if "bounds:" in text and "contradict each other" in text else []
    return code, wrong + ([f"{sentence}: {text}" for sentence in untrue(text, files, base)] if code == 0 else [])


@dataclass
class Found:
    """The exit code for each mutated file, and what was accepted and is not true."""

    codes: list
    wrong: list


def violations(kind, seed, count, folder, n=None):
    """Mutate the proof of one problem so many times."""
    base, found = drawn(kind, seed, folder, n), Found([], [])
    if base is None:
        return found
    rng = np.random.default_rng([seed, 7])
    while len(found.codes) < count:
        code, wrong = judged(base if not found.codes else mutated(base, rng), base, folder)
        if code is not None:
            found.codes.append(code)
            found.wrong += [f"file {len(found.codes)}: {sentence}" for sentence in wrong]
    return found
