"""Files that were made to deceive the checker: contradictions, other programs, sizes, mutations, what is no number."""

import json
import math
import struct
import sys
import zipfile
from itertools import product
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "benchmarks"))
import mutations

from sdpmetric.check.__main__ import main
from sdpmetric.check.files import Work, digest
from sdpmetric.check.statements import origin_of_targets

LINE = np.array([[0.0], [1.0], [3.0], [4.0]])
CLASSES = np.array([0, 0, 1, 1])


def write(folder, data, arrays, raw=None, **claims):
    """A data file and a proof whose hash and seal fit; `raw` is the text of JSON instead of what `claims` say."""
    np.savez(folder / "data.npz", **data)
    codes = {"y": np.unique(data["y"], return_inverse=True)[1]} if "y" in data else {}
    hashed = {name: np.asarray(array, float) for name, array in (data | codes).items()}
    claims = {"format": 4, "objective": 1e300, "lower_bound": -1e300, "domain": {"domain": "all"}} | claims
    claims["data"] = {"members": [*data], "sha256": digest(hashed)}
    text = raw(json.dumps(claims)) if raw else json.dumps(claims)
    hashable = {name: array for name, array in arrays.items() if np.asarray(array).dtype.kind in "fiub"}
    seal = np.array(digest(hashable, text))
    np.savez(folder / "proof.npz", **arrays, about=np.array(text), seal=seal)


def checked(folder):
    code, text = main([str(folder / "data.npz"), str(folder / "proof.npz")])
    assert "\n" not in text
    return code, text


def named(defaults, changes):
    """Arrays as a proof names them: of the domain, and of its first term; None leaves one out."""
    common = ("components", "shares", "map")
    arrays = {name: array for name, array in (defaults | changes).items() if array is not None}
    if "components" in arrays and np.ndim(arrays["components"]) < 3:
        arrays["components"] = np.asarray(arrays["components"])[None]
    return {name if "." in name else f"{int(name not in common)}.{name}": array for name, array in arrays.items()}


def lmnn(folder, X=LINE, y=CLASSES, raw=None, claims=None, term=None, ridge=None, **arrays):
    """An LMNN proof of four points on a line, without multipliers, changed as asked, and how its check ends."""
    defaults = {
        "components": np.array([[1.0]]),
        "targets": np.array([[1], [0], [3], [2]]),
        "triplets": np.zeros((0, 3)),
        "multipliers": np.zeros(0),
        "weights": np.ones(len(X)),
        "shares": np.ones((len(X), 1)),
        "map": np.eye(X.shape[1]),
    }
    labels = {"term": "labels", "loss": "hinge", "weight": 0.5, "pull": [1.0, -0.5], "offset": 1.0} | (term or {})
    terms = [labels] if ridge is None else [labels, {"term": "trace", "weight": ridge}]
    write(folder, {"X": X, "y": y}, named(defaults, arrays), raw, **({"terms": terms} | (claims or {})))
    return checked(folder)


def split(entries):
    """Rows, pairs and factors of entries."""
    return {"places": entries[:, 0], "pairs": entries[:, 1:3], "factors": entries[:, 3]}


def pola(folder, X=LINE, loss="hinge", start=1.5, **arrays):
    """POLA with the threshold 2, no multipliers and no slope but that of the point."""
    E = [[0, 0, 1, 1.0], [1, 1, 2, -1.0], [0, 0, len(X), -1.0], [1, 0, len(X), 1.0]]
    to = np.diag([0.0, start - 1.0])
    defaults = {"components": np.eye(2), "map": np.eye(2), "shares": np.ones((len(X) + 1, 1))}
    defaults |= split(np.array(E)) | {"offsets": np.array([0.0, 2.0])}
    defaults |= {"weights": np.ones(2), "multipliers": np.zeros(2), "2.to": to, "2.slope": 1e-3 * np.eye(2)}
    terms = [{"term": "rows", "loss": loss, "weight": 0.25}, {"term": "frobenius", "weight": 1.0}]
    data = {"X": X, "pairs": np.array([[0, 1], [1, 2]]), "similar": np.array([True, False])}
    write(folder, data, named(defaults, arrays), domain={"domain": "threshold"}, terms=terms)
    return checked(folder)


def forged(v, scale=1.0, n=102):
    """Pairs at 0/1 and 100/101, whose pulls are a few denormals along v, and each push less than half of one."""
    half = n // 2
    X = np.concatenate([np.arange(half) % 2, 100 + np.arange(half) % 2])[:, None] * scale
    y = np.repeat([0, 1], half)
    partner = np.arange(n) - half * y ^ 1
    targets = np.where(partner < half, partner + half * y, -1)
    anchors = np.flatnonzero(targets >= 0)
    i, j = np.repeat(anchors, half), np.repeat(targets[anchors], half)
    l = (np.arange(half)[None, :] + half * (1 - y[anchors])[:, None]).ravel()
    D = ((X[i, 0] - X[l, 0]) / scale) ** 2
    a = np.minimum(0.5, 0.49 / ((v * scale) ** 2 / 5e-324) / D)
    arrays = {"targets": targets[:, None], "triplets": np.stack([i, j, l], axis=1), "multipliers": a}
    L = np.array([[math.sqrt(1 / 9700) / scale]])
    return X, y, arrays | {"components": L}


@pytest.mark.parametrize("scale", [1.0, 2.0**-500])
def test_pushes_that_underflow_one_by_one_are_no_proof(tmp_path, scale):
    """Accepted before: an objective of at most 0.026, and no metric below 0.51."""
    X, y, arrays = forged(math.sqrt(3 * 5e-324 / 0.5) / scale, scale)
    code, text = lmnn(tmp_path, X, y, **arrays)
    assert code == 1, text
    assert "dual cone" in text


@pytest.mark.parametrize("e", [-500, -160, 0, 160, 480])
def test_a_true_proof_at_any_scale_is_one(tmp_path, e):
    """What is refused for underflow is the forgery, not the scale of data or components."""
    arrays = {"triplets": np.array([[0, 1, 2]]), "multipliers": np.array([0.1])}
    code, text = lmnn(tmp_path, np.ldexp(LINE, e), components=np.array([[2.0**-e]]), **arrays)
    assert code == 0, text
    assert float(text.split("below ")[1][:-1]) > 0.0999


def test_a_trace_whose_squares_underflow_counts(tmp_path):
    """L = 1e-162 under a ridge of 1e300: the trace is 1e-324, which no float is, and costs 1e-24."""
    code, text = lmnn(tmp_path, ridge=1e300, components=np.array([[1e-162]]))
    assert code == 0, text
    high = float(text.split("at most ")[1].split(",")[0])
    hinges = 0.5 * 2 * 4  # four target pairs with two impostors each
    assert high >= hinges
    arrays = {"components": np.array([[1e-162]])}
    only = lmnn(tmp_path, np.ones((4, 1)), np.zeros(4, int), ridge=1e300, targets=np.full((4, 1), -1), **arrays)
    assert float(only[1].split("at most ")[1].split(",")[0]) >= 0.99e-24


def test_pola_beyond_the_range_of_floats(tmp_path):
    assert pola(tmp_path)[0] == 0
    assert pola(tmp_path, components=1e200 * np.eye(2))[0] == 1
    assert pola(tmp_path, X=LINE * 1e200)[0] == 1
    code, text = pola(tmp_path, X=LINE * 1e200, components=1e-250 * np.eye(2), **{"2.slope": 1e200 * np.eye(2)})
    assert (code, "not finite" in text) == (1, True), text


def test_the_verdict_states_the_program(tmp_path):
    mu = math.nextafter(0.5, 1.0)
    verdict = lmnn(tmp_path, term={"weight": mu, "pull": [1.0, -mu]}, ridge=0.1 + 0.2)[1]
    for words in (
        "4 examples, 1 features, all metrics",
        f"1.0 - {mu!r} times D(i, j)",
        f"{mu!r} times hinge of 1.0 + D(i, j) - D(i, l)",
        "(2 classes, 4 target pairs",
        "0.30000000000000004 times the trace",
    ):
        assert words in verdict
    assert "times squared hinge of" in lmnn(tmp_path, term={"loss": "squared hinge"})[1]
    weighed = lmnn(tmp_path, weights=np.array([0.0, 1.0, 2.0, 1.0]))[1]
    assert ", weights 0.0 to 2.0" in weighed
    soft = pola(tmp_path)[1]
    assert "0.25 times hinge over 2 rows (1 of 0.0 + D - D, 1 of 2.0 + D - D, 2 of the 2 in the data)" in soft
    assert "half the squared Frobenius distance from the file's matrix" in soft
    X = np.array([[0.0], [1.0], [5.0]])
    point = np.diag([1.0, math.sqrt(3.0 - 1e-9)])
    assert "hard over 2 rows" in pola(tmp_path, X, "hard", 3.0, components=point)[1]
    swapped = np.array([[0, 1, 2, 1.0], [1, 0, 1, -1.0], [0, 0, len(LINE), -1.0], [1, 0, len(LINE), 1.0]])
    assert "of the file's own choice" in pola(tmp_path, **split(swapped))[1]
    swapped[1] = swapped[0]
    assert "of the file's own choice" in pola(tmp_path, **split(swapped))[1]
    once = np.array([[0, 0, 1, 1.0], [1, 0, 1, 1.0], [0, 0, len(LINE), -1.0], [1, 0, len(LINE), -1.0]])
    assert "1 of the 2 in the data" in pola(tmp_path, **split(once))[1]


def test_whether_targets_are_the_nearest_is_said(tmp_path):
    X, y = np.array([[0.0], [1.0], [2.0], [9.0], [10.0], [12.0]]), np.array([0, 0, 0, 1, 1, 1])
    nearest = np.array([[1], [0], [1], [4], [3], [4]])
    assert "the 1 nearest examples of the same class in these data" in lmnn(tmp_path, X, y, targets=nearest)[1]
    tied = nearest.copy()
    tied[1] = 2  # as near as 0
    assert "the 1 nearest examples" in lmnn(tmp_path, X, y, targets=tied)[1]
    left_out = np.where(np.arange(6)[:, None] == 4, -1, nearest)
    for targets in (left_out, np.array([[2], [0], [1], [4], [3], [4]])):
        assert "target pairs: the file's own choice" in lmnn(tmp_path, X, y, targets=targets)[1]


def test_ties_are_those_of_the_package():
    """Distances that differ by less than a relative 1e-9 are ties of the package, and by less than 1e-8 here."""
    y = np.zeros(3, int)
    targets = np.array([[1], [0], [0]])
    for nearer, tied in ((1e-10, True), (1e-9, True), (1e-8, False)):
        X = np.array([[0.0], [1.0], [-1.0 + nearer]])
        origin = origin_of_targets(X, y, targets, Work())
        assert ("own choice" in origin) is not tied, origin
    with np.errstate(all="ignore"):
        for X in ([0.0, 1e-300, -1e-300], [0.0, 1e300, -1e300], [0.0, 1e-200, 1e300]):
            assert "own choice" not in origin_of_targets(np.array(X)[:, None], y, targets, Work())


@pytest.mark.parametrize("claim", ["NaN", "Infinity", "-Infinity", "1e400", "1" + "0" * 5000, "null", "true"])
@pytest.mark.parametrize("name", ["objective", "lower_bound", "weight", "offset"])
def test_claims_that_are_no_numbers(tmp_path, claim, name):
    changes = {"term" if name in ("weight", "offset") else "claims": {name: "claim"}}
    code, text = lmnn(tmp_path, raw=lambda text: text.replace('"claim"', claim), **changes)
    assert code == 2, text


# Statements, terms, arrays and data that are none, of LMNN's proof and of POLA's.
HEADERS = [
    {"format": 3},
    {"format": [4]},
    {"terms": [["labels"]]},
    {"domain": {"domain": "none"}},
    {"lower_bound": None},
]
TERMS = [
    {"loss": "logistic"},
    {"weight": -1.0},
    {"weight": {}},
    {"offset": -1.0},
    {"sample_weight": 1.0},
    {"term": "rows"},
]
NONE = [
    *[(lmnn, {"claims": header}) for header in HEADERS],
    *[(lmnn, {"term": term}) for term in TERMS],
    *[(lmnn, {"components": np.array([[value]])}) for value in (1.0 + 1.0j, "1.0", np.nan, np.inf, 2**53 + 1)],
    *[(lmnn, {"components": np.ones(shape)}) for shape in ((1, 2), (1, 1, 1, 1), (9, 1))],
    *[(lmnn, {"targets": np.array(targets)}) for targets in ([[1.5], [0], [3], [2]], [[4], [0], [3], [2]])],
    *[(lmnn, {"X": LINE[:n], "y": CLASSES[:n], "targets": np.zeros((n, 1))}) for n in (0, 1)],
    *[(lmnn, {"raw": lambda text, other=other: other}) for other in ("[" * 100_000, "{}", "3", "{}x")],
    *[
        (lmnn, change)
        for change in ({"weights": -np.ones(4)}, {"multipliers": None}, {"foreign": np.zeros(1)}, {"ridge": -1.0})
    ],
    (lmnn, {"raw": lambda text: text.replace("sha256", "sha257")}),
    *[(pola, {"loss": loss}) for loss in ("absolute", "log ratio", "half square")],
    *[(pola, {name: np.zeros(1)}) for name in ("weights", "offsets", "factors")],
    (pola, {"places": np.array([0, 1, 0, 2])}),
    (pola, {"pairs": np.array([[0, 1], [1, 2], [0, 4], [0, 99]])}),
    (pola, {"2.to": np.array([[0.0, 1.0], [0.0, 0.0]])}),
    (pola, {"2.slope": np.zeros((3, 3))}),
]
# What is read but proves nothing, and at which step.
NOTHING = [
    (pola, {"multipliers": np.array([0.3, 0.0])}, "multipliers"),
    (pola, {"loss": "linear", "multipliers": np.ones(2)}, "multipliers"),
    (pola, {"multipliers": np.array([-0.1, 0.0])}, "multipliers"),
    (pola, {"weights": np.array([1.0, 0.0]), "multipliers": np.array([0.0, 0.1])}, "multipliers"),
    (pola, {"multipliers": np.array([0.0, 0.2])}, "dual cone"),
    (pola, {"2.slope": -np.eye(2)}, "dual cone"),
    (pola, {"loss": "hard", "components": np.diag([2.0, 1.0])}, "infinite"),
]


@pytest.mark.parametrize(
    ("statement", "changes", "code", "step"),
    [(lmnn, {}, 0, ""), (pola, {}, 0, "")] + [(*r, 2, "") for r in NONE] + [(*r[:2], 1, r[2]) for r in NOTHING],
)
def test_changed_files_are_refused(tmp_path, statement, changes, code, step):
    ended, text = statement(tmp_path, **changes)
    assert (ended, step in text) == (code, True), text


def test_metrics_that_are_not_in_the_domain(tmp_path):
    """A dense factor is no metric of weights, and regions that are not the labels are said to be the file's own."""
    X, y = np.column_stack([LINE, LINE[::-1] ** 2]), CLASSES
    diagonal = {"claims": {"domain": {"domain": "diagonal"}}}
    assert lmnn(tmp_path, X, y, components=np.eye(2), **diagonal)[0] == 0
    code, text = lmnn(tmp_path, X, y, components=np.ones((1, 2)), **diagonal)
    assert (code, "diagonal" in text) == (1, True)
    assert lmnn(tmp_path, X, y, components=np.eye(2), map=np.ones((1, 2)), **diagonal)[0] == 2
    several = {"components": np.ones((2, 1, 1))}
    shares = np.eye(2)[CLASSES]
    shares_by = "2 metrics with shares by the group of its second row ({}): 1.0 0.0; 0.0 1.0"
    assert shares_by.format("'y' in the data") in lmnn(tmp_path, shares=shares, **several)[1]
    assert shares_by.format("the file's own choice") in lmnn(tmp_path, shares=np.eye(2)[[0, 1, 0, 1]], **several)[1]
    for wrong in (np.eye(3)[[0, 0, 1, 2]], shares[:3], -shares):
        assert lmnn(tmp_path, shares=wrong, **several)[0] == 2


def test_contradictions_need_one(tmp_path):
    """Of two constraints that a metric satisfies no multipliers prove a contradiction."""
    X, E = np.array([[0.0], [1.0], [3.0]]), np.array([[0, 0, 1, 1.0], [1, 0, 2, -1.0]])
    defaults = {"components": np.zeros((1, 1)), "map": np.eye(1), "shares": np.ones((3, 1)), "weights": np.ones(2)}
    defaults |= split(E)
    for (far, code), weight in product(((10.0, 0), (8.0, 1)), (0.0, 5e-324, 1.0, 1.7e308)):
        rows = {"offsets": np.array([-1.0, far]), "multipliers": np.array([9.0 + 1e-9, 1.0])}
        terms = [{"term": "rows", "loss": "hard", "weight": weight}]
        write(tmp_path, {"X": X}, named(defaults, rows), objective=None, lower_bound=None, terms=terms)
        assert checked(tmp_path)[0] == code
    terms = [terms[0] | {"loss": "hinge"}]
    write(tmp_path, {"X": X}, named(defaults, rows), objective=None, lower_bound=None, terms=terms)
    assert checked(tmp_path)[0] == 2


@pytest.mark.parametrize(
    "y", [np.array([0, 0, 1, 1]) + 2**53, np.array([0, 0, 1, 1], np.uint64) + 2**63, np.array(list("bbaa"))]
)
def test_labels_of_any_name(tmp_path, y):
    """Classes 2^53 and 2^53 + 1 are two, and text names any."""
    codes = CLASSES
    assert lmnn(tmp_path, y=codes)[0] == 0
    np.savez(tmp_path / "data.npz", X=LINE, y=np.where(CLASSES, np.nan, 0.0))
    assert checked(tmp_path)[0] == 2
    np.savez(tmp_path / "data.npz", X=LINE, y=y)
    assert checked(tmp_path)[0] == 0


def test_members_that_are_not_arrays_or_come_twice(tmp_path):
    assert lmnn(tmp_path)[0] == 0
    for path in (tmp_path / "proof.npz", tmp_path / "data.npz"):
        content = path.read_bytes()
        inner = "0.components.npy" if path.name == "proof.npz" else "X.npy"
        with zipfile.ZipFile(path, "a") as file, pytest.warns(UserWarning, match="Duplicate"):
            file.writestr(inner, file.read(inner))
        assert checked(tmp_path)[0] == 2
        path.write_bytes(content)
        with zipfile.ZipFile(path, "a") as file:
            file.writestr(inner.removesuffix(".npy"), b"raw")
        assert checked(tmp_path)[0] == 2
        path.write_bytes(content)
    for names, method in ((("X", "y"), zipfile.ZIP_STORED), (("X.npy", "y.npy"), zipfile.ZIP_BZIP2)):
        with zipfile.ZipFile(tmp_path / "data.npz", "w", method) as file:
            for name in names:
                file.writestr(name, b"raw")
        assert checked(tmp_path)[0] == 2


def test_a_root_is_infinite_where_it_is_none(tmp_path):
    """``-sqrt(D - 10)`` is no number below 10: a point there costs infinity, and contradicts no lower bound."""
    X, E = np.array([[0.0], [1.0]]), np.array([[0, 0, 1, -1.0]])
    for point, code in ((1.0, 1), (4.0, 0)):
        rows = {"offsets": np.array([10.0]), "multipliers": np.array([1.0]), "weights": np.ones(1)} | split(E)
        terms_of_file = {f"2.{name}": array for name, array in rows.items()}
        terms_of_file |= {"2.offsets": np.array([-5.0 if code else -16.0]), "2.factors": np.ones(1)}
        terms_of_file |= {"map": np.eye(1), "shares": np.ones((2, 1))}
        terms = [{"term": "rows", "loss": loss, "weight": 1.0} for loss in ("minus a root", "hard")]
        write(tmp_path, {"X": X}, named({"components": np.array([[point]])} | terms_of_file, rows), terms=terms)
        ended, text = checked(tmp_path)
        assert (ended, "contradict" in text) == (code, False), text


# Names that would move the cursor of a terminal, hide text or write a line of their own.
NAMES = ("\x1b[2J\x1b[HProven. 4 examples", "\u202eProven", "a\nProven. ", "\x9b2J", "a\x00", "\ud800")


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_names_of_a_file_write_no_control_characters(tmp_path, name):
    headers = [{"claims": claims} for claims in ({"format": name}, {"domain": {"domain": name}}, {name: 1})]
    parts = [{"term": {"loss": name}}, {"term": {"term": name}}, {"raw": lambda text: json.dumps([name])}]
    for changes in [*headers, *parts]:
        code, text = lmnn(tmp_path, **changes)
        assert code == 2
        assert all(" " <= c <= "~" for c in text)
    if name != NAMES[-1]:  # which no archive takes
        lmnn(tmp_path)
        with zipfile.ZipFile(tmp_path / "proof.npz", "a") as file:
            file.writestr(f"{name}.npy", b"raw")
        code, text = checked(tmp_path)
        assert code == 2
        assert all(" " <= c <= "~" for c in text)


@pytest.mark.parametrize("member", ["0.components", "0.shares", "1.targets", "1.weights", "seal"])
def test_headers_that_lie_are_refused_before_memory_is_taken(tmp_path, member):
    shapes = ("(100000000000,)", "(4611686018427387904, 0)", "(-1,)", "(1, 1, 1e9)")
    kinds = ("'|O'", "'|V8'", "[('a', '<f8')]", "('<f8', (1000,))", "'<U500000000'", "None")
    for kind, shape in [*(("'<f8'", shape) for shape in shapes), *((kind, "(4,)") for kind in kinds)]:
        lmnn(tmp_path)
        text = f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}, }}".encode()
        with zipfile.ZipFile(tmp_path / "proof.npz") as file:
            parts = {name: file.read(name) for name in file.namelist()}
        parts[f"{member}.npy"] = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + bytes(32)
        with zipfile.ZipFile(tmp_path / "proof.npz", "w") as file:
            for name, content in parts.items():
                file.writestr(name, content)
        assert checked(tmp_path)[0] in (1, 2), (kind, shape)  # -1 is whatever fits, so the seal does not


@pytest.mark.parametrize("seeds", [range(1), pytest.param(range(1, 12), marks=pytest.mark.slow)], ids=["few", "more"])
@pytest.mark.parametrize("kind", mutations.KINDS)
def test_what_is_accepted_is_true(kind, seeds, tmp_path):
    codes, unproven = [], 0
    for seed in seeds:
        violations = mutations.violations(kind, seed, 25, tmp_path, n=10)
        assert violations.wrong == []
        assert violations.codes[:1] in ([], [0], [1])  # the file that was not mutated
        unproven += violations.codes[:1] == [1]
        codes += violations.codes
    assert unproven <= (len(seeds) > 1)  # of hostile data a slack matrix may be too nearly singular for the checker
    assert len(codes) >= 25
    assert {*codes} == {0, 1, 2}
