"""Proof files forged by hand: hostile weights, numbers, types, shapes, names and claims of programs with one feature.

    python examples/benchmarks/forgeries.py

Of one feature the metric is a number w >= 0 and a program a convex function that is quadratic between breakpoints, so
its optimum is exact in fractions; this evaluator shares nothing with the checker or with `proof_truth.py`. Prints
a line for each family; the exit code is 1 if a file was accepted of which something printed is false, if an honest one
was not, or if one took more than 30 seconds or 1 GiB.
"""

from __future__ import annotations

import itertools
import json
import math
import re
import resource
import struct
import sys
import tempfile
import time
import warnings
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from hashlib import sha256
from pathlib import Path

import numpy as np

from sdpmetric.check.__main__ import main as check

SECONDS, MEBIBYTES = 30.0, 1024
CLAIM = re.compile(r": the metric has an objective of at most (\S+), no metric has one below (\S+)\.$")
LINE, CLASSES = np.array([[0.0], [1.0], [3.0], [4.0]]), np.array([0, 0, 1, 1])
TINIEST, LARGEST = 5e-324, 1.7e308


@dataclass
class Forgery:
    """A data file and a proof; members are replaced by raw bytes, and names by others, after both are sealed."""

    data: dict = field(default_factory=lambda: {"X": LINE, "y": CLASSES})
    terms: list = field(default_factory=list)  # What the text says of each, and its arrays
    components: object = field(default_factory=lambda: np.array([[[1.0]]]))
    about: dict = field(default_factory=dict)
    domain: dict = field(default_factory=dict)  # Arrays instead of those of all metrics of X
    raw: dict = field(default_factory=dict)  # Bytes of members of the proof
    honest: bool = False  # Whether it has to be accepted
    text: str | None = None  # The JSON text

    def arrays(self) -> dict:
        """Arrays of the proof by their names."""
        found = dict(self.domain)
        if "X" in self.data:
            X = np.asarray(self.data["X"])
            d, n = X.shape[-1] if X.ndim > 1 else 1, len(X)
            found = {"components": self.components, "map": np.eye(d), "shares": np.ones((n, 1))} | found
        found = {f"0.{name}": array for name, array in found.items()}
        for k, (_, own) in enumerate(self.terms, 1):
            found |= {f"{k}.{name}": array for name, array in own.items()}
        return found

    def write(self, folder: Path) -> tuple[Path, Path]:
        """Both files, with the hash and the seal that the checker expects."""
        data, proof = folder / "data.npz", folder / "proof.npz"
        about = {"format": 4, "objective": 1e300, "lower_bound": -1e300, "domain": {"domain": "all"}}
        about |= {"terms": [said for said, _ in self.terms]} | self.about
        hashed = {name: codes(array) if name == "y" else array for name, array in self.data.items()}
        about = {"data": {"members": [*self.data], "sha256": digest(hashed)}} | about
        text, arrays = json.dumps(about) if self.text is None else self.text, self.arrays()
        np.savez_compressed(data, **self.data)
        np.savez_compressed(proof, **arrays, about=np.array(text), seal=np.array(digest(arrays, text)))
        if self.raw:
            with zipfile.ZipFile(proof) as file:
                held = {name: file.read(name) for name in file.namelist()} | self.raw
            with zipfile.ZipFile(proof, "w", zipfile.ZIP_DEFLATED) as file:
                for name, content in held.items():
                    file.writestr(name, content)
        return data, proof


def digest(arrays: dict, text: str = "") -> str:
    """What seals arrays: of those that are no numbers there is none."""
    state = sha256(text.encode())
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in sorted(arrays):
            try:
                numbers = np.ascontiguousarray(arrays[name], dtype="<f8").reshape(np.shape(arrays[name]))
            except (ValueError, TypeError):
                continue
            state.update(f"{name}{numbers.shape}".encode() + numbers.tobytes())
    return state.hexdigest()


def codes(names: object) -> np.ndarray:
    """Names numbered as they appear."""
    seen: dict = {}
    return np.array([seen.setdefault(name, len(seen)) for name in np.ravel(names).tolist()])


# -- the truth, in fractions ------------------------------------------------------------------------------------------


def exact(value: object) -> Fraction:
    """A number of a file as it stands there: of an array, of the text, or a cell of a table."""
    return Fraction(value) if isinstance(value, str | int) else Fraction(*value.as_integer_ratio())


def column(array: object) -> list[Fraction]:
    """Numbers of an array, those of long double as they are."""
    return [exact(x if isinstance(x, np.longdouble) else x.item()) for x in np.ravel(array)]


def plus(u: Fraction) -> Fraction:
    return max(u, Fraction(0))


LOSSES = {
    "linear": (lambda u: u, ()),
    "hinge": (plus, (0,)),
    "squared hinge": (lambda u: plus(u) ** 2, (0,)),
    "smooth hinge": (lambda u: Fraction(0) if u <= 0 else u * u / 2 if u <= 1 else u - Fraction(1, 2), (0, 1)),
    "hard": (lambda u: Fraction(0) if u <= 0 else None, (0,)),
}


class Truth:
    """The program of a file with one feature: losses ``weight l(c + k w)``, ``linear w`` and squares of ``w - to``."""

    def __init__(self, forged: Forgery) -> None:
        self.x = column(forged.data["X"])
        self.y = np.ravel(forged.data["y"]).tolist() if "y" in forged.data else None
        self.rows: list[tuple] = []  # loss, weight, offset, slope
        self.linear, self.squares = Fraction(0), []
        self.point = sum((x * x for x in column(forged.components)), Fraction(0))
        for said, arrays in forged.terms:
            weight = summed(said["weight"])
            if said["term"] == "trace":
                self.linear += weight
            elif said["term"] == "frobenius":
                self.squares.append((weight, column(arrays["to"])[0]))
            elif said["term"] == "rows":
                self._rows(said["loss"], weight, arrays)
            else:
                self._labels(said, weight, arrays)

    def squared(self, i: int, j: int) -> Fraction:
        return (self.x[i] - self.x[j]) ** 2

    def _rows(self, loss: str, weight: Fraction, arrays: dict) -> None:
        own = [Fraction(0) for _ in np.ravel(arrays["offsets"])]
        for k, (i, j), factor in zip(
            column(arrays["places"]), np.asarray(arrays["pairs"]).tolist(), column(arrays["factors"]), strict=True
        ):
            own[int(k)] += factor * self.squared(int(i), int(j))
        for c, w, slope in zip(column(arrays["offsets"]), column(arrays["weights"]), own, strict=True):
            self.rows.append((loss, Fraction(1) if loss == "hard" else weight * w, c, slope))

    def _labels(self, said: dict, weight: Fraction, arrays: dict) -> None:
        w, pull, c = column(arrays["weights"]), summed(said["pull"]), exact(said["offset"])
        for i, row in enumerate(np.asarray(arrays["targets"]).tolist()):
            for j in (int(j) for j in row if j >= 0):
                self.linear += pull * w[i] * self.squared(i, j)
                for l in range(len(self.x)):
                    if self.y[l] != self.y[i]:
                        slope = self.squared(i, j) - self.squared(i, l)
                        self.rows.append((said["loss"], weight * w[i] * w[l], c, slope))

    def cost(self, w: Fraction) -> Fraction | None:
        """The objective at a metric, None where a hard constraint does not hold."""
        value = self.linear * w + sum((a * (w - to) ** 2 / 2 for a, to in self.squares), Fraction(0))
        for loss, weight, c, slope in self.rows:
            if (found := LOSSES[loss][0](c + slope * w)) is None:
                return None
            value += weight * found
        return value

    def optimum(self) -> Fraction | None:
        """The least cost of all metrics: minus infinity as a large number, None if no metric is feasible."""
        low, high = Fraction(0), None
        for _, _, c, slope in (row for row in self.rows if row[0] == "hard"):
            if slope == 0 and c > 0:
                return None
            if slope > 0:
                high = -c / slope if high is None else min(high, -c / slope)
            elif slope < 0:
                low = max(low, -c / slope)
        if high is not None and high < low:
            return None
        breaks = {low} | ({high} if high is not None else set())
        for loss, _, c, slope in self.rows:
            if slope:
                breaks |= {(at - c) / slope for at in LOSSES[loss][1]}
        points = sorted(w for w in breaks if w >= low and (high is None or w <= high))
        values = [self.cost(w) for w in points]
        spans = list(itertools.pairwise(points)) + ([(points[-1], points[-1] + 1)] if high is None else [])
        for k, (a, b) in enumerate(spans):
            # Three values of a quadratic on the span: its curvature, its slope at the start, its vertex.
            m, h = (a + b) / 2, (b - a) / 2
            fa, fm, fb = (self.cost(w) for w in (a, m, b))
            curvature, slope = (fa - 2 * fm + fb) / h**2, (4 * fm - 3 * fa - fb) / (2 * h)
            last = high is None and k == len(spans) - 1
            if curvature > 0 and slope < 0 and (last or a - slope / curvature < b):
                values.append(self.cost(a - slope / curvature))
            elif last and curvature == 0 and slope < 0:
                return Fraction(-(10**400))
        return min(values)

    def nearest(self, targets: np.ndarray) -> bool:
        """Whether all targets are the nearest of their class, ties up to a relative 1e-8 in any order."""
        for i, row in enumerate(targets.astype(int).tolist()):
            others = [l for l in range(len(self.x)) if l != i and self.y[l] == self.y[i] and l not in row]
            least = min((self.squared(i, l) for l in others), default=None)
            most = max(self.squared(i, j) for j in row)
            if min(row) < 0 or (least is not None and least < most * (1 - exact(1e-8))):
                return False
        return True


def summed(said: object) -> Fraction:
    return sum((exact(x) for x in (said if isinstance(said, list) else [said])), Fraction(0))


def untrue(forged: Forgery, text: str) -> list[str]:
    """What is false of the sentence about an accepted file."""
    truth, wrong = Truth(forged), []
    wrong += [] if f"Proven. {len(truth.x)} examples, 1 features, " in text else ["other sizes"]
    for said, arrays in forged.terms:
        if said["term"] == "labels":
            says = "nearest examples of the same class in these data" in text
            wrong += ["not the nearest"] if says and not truth.nearest(np.asarray(arrays["targets"])) else []
        if said["term"] == "rows":
            wrong += [] if f"{said['loss']} over {len(arrays['offsets'])} rows (" in text else ["a term is not stated"]
        w = np.ravel(arrays.get("weights", 1.0))
        if said.get("loss") != "hard" and (w != 1.0).any() and f"weights {float(w.min())!r} to" not in text:
            wrong.append("weights are not stated")
    best, claim = truth.optimum(), CLAIM.search(text)
    if claim is None:
        return wrong + ([] if best is None else [f"a metric satisfies the constraints, at {best}"])
    high, low = (float(x) for x in claim.groups())
    at = truth.cost(truth.point)
    wrong += [] if at is not None and at <= Fraction(high) else [f"the objective is {'infinite' if at is None else at}"]
    return wrong + ([] if best is not None and best >= Fraction(low) else ["a metric costs less than the bound"])


# -- forgeries --------------------------------------------------------------------------------------------------------


def rows(entries: list, loss="hinge", weight=1.0, weights=None, multipliers=None) -> tuple[dict, dict]:
    """A term of rows, each an offset and pairs with factors."""
    listed = [(k, i, j, x) for k, (_, own) in enumerate(entries) for (i, j, x) in own]
    places, i, j, factors = np.array(listed, dtype=float).T
    arrays = {"offsets": np.array([c for c, _ in entries], dtype=float)}
    arrays |= {"weights": np.ones(len(entries)) if weights is None else np.asarray(weights, dtype=float)}
    arrays |= {"multipliers": np.zeros(len(entries)) if multipliers is None else np.asarray(multipliers, dtype=float)}
    arrays |= {"places": places, "pairs": np.stack([i, j], axis=1), "factors": factors}
    return {"term": "rows", "loss": loss, "weight": weight}, arrays


def trace(weight: object = 1.0) -> tuple[dict, dict]:
    return {"term": "trace", "weight": weight}, {}


def labels(targets=((1,), (0,), (3,), (2,)), triplets=(), multipliers=(), weights=None, **said) -> tuple[dict, dict]:
    """The term of LMNN on the line."""
    arrays = {"targets": np.array(targets), "weights": np.ones(4) if weights is None else np.asarray(weights)}
    arrays |= {"triplets": np.reshape(np.array(triplets, dtype=float), (-1, 3)), "multipliers": np.array(multipliers)}
    return {"term": "labels", "loss": "hinge", "weight": 0.5, "pull": [1.0, -0.5], "offset": 1.0} | said, arrays


def pairs(X=LINE, terms=(), **other) -> Forgery:
    return Forgery({"X": X}, list(terms), **other)


def lmnn(X=LINE, y=CLASSES, more=(), components=1.0, honest=False, term=None) -> Forgery:
    return Forgery({"X": X, "y": y}, [term or labels(), *more], np.array([[[components]]]), honest=honest)


# D(0, 1) is at least 1; and D(0, 2) at most 1 / 2, which no metric satisfies since D(0, 2) = 9 D(0, 1).
FAR, NEAR = (1.0, [(0, 1, -1.0)]), (-0.5, [(0, 2, 1.0)])


def hard_constraints() -> Iterator[Forgery]:
    """Weights of 0, denormal or huge, of hard constraints that hold, do not hold, or contradict each other."""
    for weight, own in itertools.product((0.0, [1.0, -1.0], TINIEST, 1.0, LARGEST), (0.0, TINIEST, 1.0, LARGEST)):
        for listed, at in (([FAR, NEAR], 0.0), ([FAR], 0.0), ([FAR], 1.0), ([NEAR], 0.0), ([FAR, NEAR], 1.0)):
            term = rows(listed, "hard", weight, [own] * len(listed))
            yield pairs(terms=[term, trace()], components=np.array([[[at]]]))
            zero = {"objective": 0.0, "lower_bound": 0.0}
            yield pairs(terms=[term, trace()], components=np.array([[[at]]]), about=zero)
        none = {"objective": None, "lower_bound": None}
        for a, contradict in (([9.0, 1.0], True), ([9.0, 1.0 - 1e-9], False), ([1.0, 1.0], False), ([0.0, 0.0], False)):
            term = rows([FAR, NEAR], "hard", weight, [own] * 2, a)
            yield pairs(terms=[term], about=none, honest=contradict)
        yield pairs(terms=[rows([FAR], "hard", weight, [own], [1.0])], about=none)


def sizes() -> Iterator[Forgery]:
    """Squares that overflow or underflow, of data, components and weights."""
    scales = (TINIEST, 1e-310, 1e-200, 1e-162, 1e-154, 1.0, 1e100, 1e153, 1e154, 1e155, 1e160, 1e200, 1e300, 4e307)
    for scale, L in itertools.product(scales, (1e-300, 1e-160, 1.0, 1e160, 1e300)):
        yield lmnn(LINE * scale, components=L, term=labels(pull=0.0, weight=1e-300))
        yield lmnn(LINE * scale, components=L, term=labels(loss="squared hinge"))
        yield pairs(LINE * scale, [rows([FAR, NEAR], weight=1e-300), trace(1e-300)], components=np.array([[[L]]]))
    for x in (1e154, 1e155, 1e160, 5e307):  # the adversary's: hinges and neighbors that overflow
        yield lmnn(np.array([[0.0], [2.0], [1.0], [3.0]]), components=x, term=labels(pull=0.0, weight=1e-300))
        X = np.array([0.0, 1.0, 3.0, 0.5, 3.5])[:, None] * x
        near = labels([[2], [0], [1], [4], [3]], weights=np.ones(5))
        yield lmnn(X, np.array([0, 0, 0, 1, 1]), components=1e-300, term=near)


def weights() -> Iterator[Forgery]:
    """Weights and multipliers that are denormal, negative, infinite, no numbers, or a step beyond what is allowed."""
    odd = (0.0, -0.0, TINIEST, 1e-310, 1.0, -1.0, -TINIEST, 1e300, LARGEST, math.nan, math.inf, -math.inf)
    odd += (math.nextafter(1.0, 2.0), math.nextafter(1.0, 0.0), 2.0**53, 0.5)
    for loss, value in itertools.product(("hinge", "squared hinge", "smooth hinge", "linear", "hard"), odd):
        yield pairs(terms=[rows([FAR, NEAR], loss, 1.0, [value, 1.0]), trace()])
        yield pairs(terms=[rows([FAR, NEAR], loss, 1.0, None, [value, 0.0]), trace()])
        yield pairs(terms=[rows([FAR, NEAR], loss, 1.0, [1e-310, 1.0], [value * 1e-310, 0.0]), trace()])
    for value in odd:
        yield pairs(terms=[rows([FAR, NEAR], weight=value), trace()])
        yield pairs(terms=[rows([FAR, NEAR]), trace(value)])
        yield pairs(terms=[rows([FAR], multipliers=[1.0]), trace([1.0, -value])])
        for name in ("weight", "pull", "offset"):
            yield lmnn(term=labels(**{name: value}))
        yield lmnn(term=labels(weights=[1.0, value, 1.0, 1.0]))
        yield lmnn(term=labels(triplets=[(0, 1, 2)], multipliers=[value]))
        yield lmnn(components=value)


def orders() -> Iterator[Forgery]:
    """Rows in another order, repeated, or of other classes."""
    for order in itertools.permutations(range(4)):
        X, y = LINE[[*order]], CLASSES[[*order]]
        yield lmnn(X, CLASSES)
        yield lmnn(LINE, y)
        yield lmnn(X, y, term=labels([[order.index(order[i] ^ 1)] for i in range(4)]), honest=True)
        yield lmnn(LINE, CLASSES, term=labels([[j] for j in order]))
    for some in itertools.product(range(4), repeat=2):
        triplets = [(0, 1, 2), (some[0], 1, some[1])]
        yield lmnn(term=labels(triplets=triplets, multipliers=[0.1, 0.1]))
        X = LINE.copy()
        X[some[0]] = X[some[1]]
        yield lmnn(X)
        yield pairs(terms=[rows([FAR, (1.0, [(*some, -1.0), (*some, 1.0)])], multipliers=[1.0, 1.0]), trace()])
        yield pairs(terms=[rows([FAR, FAR, FAR], multipliers=[0.5, 0.5, some[0] / 4]), trace(some[1] / 2)])


def claims() -> Iterator[Forgery]:
    """Claims that are better than what is proven, by a step up to anything, at objectives of 0, 1e-300 and 1."""
    shifts = (0.0, 5e-324, 1e-300, 1e-16, 1e-12, 1e-10, 2e-9, 1e-6, 1e-3, 0.5, 1.0, 1e10, 1e300)
    for shift, size in itertools.product(shifts, (0.0, 1e-300, 1.0)):
        term = rows([(size, [(0, 1, -1.0)])], multipliers=[1.0])
        at = np.array([[[math.sqrt(size)]]])
        for name, better in (("objective", -1.0), ("lower_bound", 1.0)):
            said = {"objective": size, "lower_bound": size} | {name: size + better * shift}
            fair = shift == 0.0 and size != 1e-300
            yield pairs(terms=[term, trace()], components=at, about=said, honest=fair)
            yield pairs(terms=[trace()], components=0.0 * at, about=said, honest=fair and size == 0.0)
    for claim in (True, "0", [], None, {}, 10**400, -(10**400), math.nan, math.inf):
        for name in ("objective", "lower_bound"):
            yield pairs(terms=[rows([FAR]), trace()], about={name: claim})
    zero = {"objective": 0.0, "lower_bound": 0.0}
    for terms in ([trace()], [rows([NEAR]), trace()], [rows([NEAR], "squared hinge")], [rows([NEAR], "hard"), trace()]):
        yield pairs(terms=terms, components=np.zeros((1, 1, 1)), about=zero, honest=True)
    yield replace(lmnn(np.ones((4, 1)), np.zeros(4, int), components=0.0), about=zero, honest=True)


def types() -> Iterator[Forgery]:
    """Arrays of every type of NumPy, and whole numbers that no float is."""
    kinds = ("f2", "f4", ">f8", "f8", "longdouble", "i1", "i8", ">i4", "u1", "u8", "?", "c16", "clongdouble")
    for kind in (*kinds, "U9", "S9", "O", "M8[s]", "m8[s]"):
        for name in ("X", "y", "components", "map", "shares", "targets", "weights", "triplets", "multipliers"):
            forged = lmnn(term=labels(triplets=[(0, 1, 2)], multipliers=[0.0]))
            where = forged.data if name in "Xy" else forged.terms[0][1]
            if name in ("components", "map", "shares"):
                forged.domain, where = {name: forged.arrays()[f"0.{name}"]}, forged.domain
                where = forged.domain
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                where[name] = np.asarray(where[name]).astype(kind)
            if name == "components":
                forged.components = np.array([[[1.0]]])
            yield forged
    for start in (2**53, 2**53 + 1, 2**62, 2**63, 2**64):
        x = [start + k for k in (0, 1000, 5, 1005)]
        yield lmnn(np.array(x, dtype=np.longdouble)[:, None], components=0.001)
        x = [start + k for k in (0, 1, 5, 7)]
        for kind in ("i8", "u8", "longdouble", "f8"):
            if start + 7 < 2**63 or kind not in ("i8", "u8"):
                yield lmnn(np.array(x, dtype=np.longdouble).astype(kind)[:, None], components=0.001)


def header(descr="'<f8'", shape="(1,)", order=False) -> bytes:
    """The start of an array in NumPy's format."""
    text = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def shapes() -> Iterator[Forgery]:
    """Shapes that are empty, huge, or not what the bytes are."""
    for shape in (
        (20000, 0, 1),
        (0, 1, 1),
        (1, 0, 1),
        (1, 1, 0),
        (0, 0, 0),
        (1, 1),
        (1,),
        (),
        (1, 1, 1, 1),
        (600, 1, 1),
    ):
        yield replace(lmnn(), components=np.ones(shape))
        yield replace(lmnn(), components=np.ones(shape), domain={"shares": np.ones((4, shape[0] if shape else 1))})
        if len(shape) > 2:
            yield replace(lmnn(), components=np.ones(shape), domain={"map": np.ones((1, shape[2]))})
    for name in ("0.components", "0.map", "0.shares", "1.targets", "1.multipliers", "1.triplets", "1.weights"):
        for shape in (
            "(100000000000,)",
            "(4611686018427387904, 0)",
            "(0, 4611686018427387904)",
            "(-1,)",
            "(1, 1, 1e9)",
        ):
            yield replace(lmnn(), raw={f"{name}.npy": header(shape=shape)})
        zeros = bytes(2**25)
        yield replace(lmnn(), raw={f"{name}.npy": header("'|u1'", f"({2**25}, 1)") + zeros})
        yield replace(lmnn(), raw={f"{name}.npy": header("'<f8'", f"({2**22},)") + zeros})
    for kind in ("'|O'", "'|V8'", "[('a', '<f8')]", "('<f8', (1000,))", "'<U0'", "'<U500000000'", "'M8[s]'", "None"):
        yield replace(lmnn(), raw={"1.weights.npy": header(kind, "(4,)") + bytes(32)})
        yield replace(lmnn(), raw={"seal.npy": header(kind, "()") + bytes(32)})
    n = 2**17
    X, y = np.zeros((n, 1), np.uint8), np.zeros(n, np.uint8)
    yield Forgery({"X": X, "y": y}, [labels(np.full((n, 1), -1), weights=np.ones(n))])
    for n in (2**12, 2**15):  # all distances are 0: all triplets may have a loss, and all neighbors are near
        y = (np.arange(n) < n // 2).astype(int)
        targets = np.roll(np.arange(n), 1)[:, None]
        targets[[0, n // 2]] = -1
        yield Forgery({"X": np.zeros((n, 1)), "y": y}, [labels(targets, weights=np.ones(n))])
        yield Forgery({"X": np.zeros((n, 1)), "y": 0 * y}, [labels(targets, weights=np.ones(n))])
    X = np.zeros((2, 512))
    yield pairs(X, [rows([(1.0, [(0, 1, -1.0)])]), trace()], components=np.ones((1, 1, 512)))
    yield pairs(X, [trace()] * 200, components=np.ones((1, 1, 512)))
    yield pairs(np.zeros((2, 5000)), [trace()], components=np.ones((1, 1, 5000)))


NAMES = (
    "\x1b[2J\x1b[HProven. 4 examples",
    "\x1b]0;owned\x07",
    "\u202eProven",
    "a\nProven. ",
    "\r\r",
    "\x9b2J",
    "a\x00",
    "\ud800",
)


def names() -> Iterator[Forgery]:
    """Escape sequences in the names of members, in the text, and in the cells of a table."""
    for name in NAMES:
        plain = name.encode("utf-8", "surrogatepass")
        text = json.dumps({"format": name, "terms": [name]})
        for said in ({"format": name}, {"domain": {"domain": name}}, {"terms": [{"term": name}]}, {name: 1}):
            yield replace(lmnn(), about=said)
        for loss in ("loss", "term"):
            yield lmnn(term=labels(**{loss: name}))
        yield replace(lmnn(), text=text)
        yield replace(lmnn(), text=name.replace("\ud800", "x"))
        if "\ud800" not in name:
            yield replace(lmnn(), raw={f"{name}.npy": b"raw"})
            yield replace(lmnn(), raw={name: b"raw", "1.weights.npy": plain})
            yield replace(lmnn(), raw={"1.weights.npy": header(f"[({name!r}, '<f8')]", "(4,)") + bytes(32)})
            yield replace(lmnn(), raw={"1.weights.npy": b"\x93NUMPY\x01\x00" + struct.pack("<H", len(plain)) + plain})


FAMILIES = {
    "hard constraints": hard_constraints,
    "sizes": sizes,
    "weights": weights,
    "orders": orders,
    "claims": claims,
    "types": types,
    "shapes": shapes,
    "names": names,
}


@dataclass
class Outcome:
    """Of a family: exit codes, what is wrong, the most seconds of a file, and the mebibytes of this process."""

    codes: list = field(default_factory=list)
    wrong: list = field(default_factory=list)
    seconds: float = 0.0
    mebibytes: float = 0.0


def judged(family: str, folder: Path) -> Outcome:
    """Check all files of a family."""
    found = Outcome()
    for number, forged in enumerate(FAMILIES[family]()):
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                paths = forged.write(folder)
            except (ValueError, OverflowError, TypeError):  # NumPy or JSON does not write it
                continue
        start = time.process_time()
        code, text = check([*map(str, paths)])
        found.seconds = max(found.seconds, time.process_time() - start)
        found.codes.append(code)
        wrong = untrue(forged, text) if code == 0 else ["an honest proof is not accepted"] if forged.honest else []
        wrong += [] if all(" " <= c <= "~" for c in text) else ["the text has control characters"]
        wrong += [] if (code == 0) is text.startswith("Proven. ") else ["the text does not say the exit code"]
        found.wrong += [f"{family} {number}, exit code {code}: {sentence}: {text!a}" for sentence in wrong]
    scale = 2**20 if sys.platform == "darwin" else 2**10
    found.mebibytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / scale
    return found


def main() -> int:
    failed, count = False, 0
    with tempfile.TemporaryDirectory() as folder:
        for family in FAMILIES:
            found = judged(family, Path(folder))
            count += len(found.codes)
            counts = ", ".join(f"{found.codes.count(code)} with exit code {code}" for code in range(3))
            print(f"{family}: {len(found.codes)} files, {counts}; {len(found.wrong)} wrong; at most ", end="")
            print(f"{found.seconds:.1f} s and {found.mebibytes:.0f} MiB", flush=True)
            print("".join(f"  {sentence[:400]}\n" for sentence in found.wrong[:20]), end="")
            failed |= bool(found.wrong) or found.seconds > SECONDS or found.mebibytes > MEBIBYTES
    print(f"{count} files")
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
