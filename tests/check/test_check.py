"""Proof files and their checker: what was proven is accepted, and no corruption is."""

import json
import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import load_iris

import sdpmetric as sm
from sdpmetric.check.__main__ import main
from sdpmetric.check.files import digest


def lmnn():
    X, y = load_iris(return_X_y=True)
    X, y = X[::3], y[::3]
    return sm.LMNNProblem.from_labels(X, y, 2, 0.4), {"X": X, "y": y}


def pairs_of_iris(seed=0):
    X, y = load_iris(return_X_y=True)
    X, y = X[::4], y[::4]
    rng = np.random.default_rng(seed)
    pairs = np.unique(np.sort(rng.integers(0, len(X), (80, 2)), axis=1), axis=0)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    return X, pairs, y[pairs[:, 0]] == y[pairs[:, 1]]


def pola(weight):
    X, pairs, similar = pairs_of_iris()
    if weight is None:
        X = np.column_stack([X, 10.0 * (np.arange(len(X)) % 2)])
        similar = (pairs[:, 0] - pairs[:, 1]) % 2 == 0
    return sm.POLAProblem(X, pairs, similar, weight), {"X": X, "pairs": pairs, "similar": similar}


def mmc():
    X, pairs, similar = pairs_of_iris()
    return sm.MMCProblem(X, pairs, similar), {"X": X, "pairs": pairs, "similar": similar}


CASES = {"LMNN": lmnn, "POLA soft": lambda: pola(0.2), "POLA hard": lambda: pola(None), "MMC": mmc}


@pytest.fixture(params=CASES)
def files(request, tmp_path):
    problem, data = CASES[request.param]()
    np.savez(tmp_path / "data.npz", **data)
    solution = sm.solve(problem, tol=1e-6)
    assert solution.status.ok
    solution.save_proof(tmp_path / "proof.npz")
    return tmp_path


def run(folder, data="data.npz", proof="proof.npz"):
    return main([str(folder / data), str(folder / proof)])


def parts(folder):
    with np.load(folder / "proof.npz") as file:
        return {name: file[name] for name in file.files}


def sealed(arrays):
    """A proof whose seal fits what it says now: the corruption of somebody who can write proofs."""
    arrays = {name: array for name, array in arrays.items() if name != "seal"}
    about = str(arrays.pop("about"))
    return {**arrays, "about": np.array(about), "seal": np.array(digest(arrays, about))}


def test_proofs_are_accepted(files):
    code, text = run(files)
    assert code == 0, text
    assert "Proven" in text


def test_random_corruptions_are_refused(files):
    """One entry of one array, one label or one number changed: the seal sees all of them, and says so."""
    rng = np.random.default_rng(1)
    original = parts(files)
    for _ in range(40):
        arrays = {name: array.copy() for name, array in original.items()}
        name = rng.choice([name for name in arrays if name not in ("about", "seal") and arrays[name].size])
        flat = arrays[name].reshape(-1)
        at = int(rng.integers(flat.size))
        flat[at] = np.nextafter(flat[at], np.inf) if flat.dtype.kind == "f" else flat[at] + 1
        np.savez(files / "bad.npz", **arrays)
        code, text = run(files, proof="bad.npz")
        assert code == 1
        assert "seal" in text
    arrays = dict(original)
    seal = list(str(arrays["seal"]))
    seal[5] = "0" if seal[5] != "0" else "1"
    np.savez(files / "bad.npz", **(arrays | {"seal": np.array("".join(seal))}))
    assert run(files, proof="bad.npz")[0] == 1


def test_sealed_corruptions_are_refused_for_what_they_are(files):
    """With a new seal: a changed claim, factor or multiplier is refused by what it no longer proves."""
    original = parts(files)
    about = json.loads(str(original["about"]))
    values = "weights" if "weights" in original else "multipliers"

    def judged(step, **changes):
        np.savez(files / "bad.npz", **sealed(original | changes))
        code, text = run(files, proof="bad.npz")
        assert code == 1, text
        assert step in text, text

    def claiming(**claims):
        return np.array(json.dumps(about | claims))

    gap = 1e-3 * abs(about["objective"])
    judged("objective", about=claiming(objective=about["objective"] - gap))
    judged("lower_bound", about=claiming(lower_bound=about["lower_bound"] + gap))
    judged("data", about=claiming(data="0" + about["data"][1:] if about["data"][0] != "0" else "1" + about["data"][1:]))
    judged("", components=1.01 * original["components"])
    judged("", **{values: -original[values]})
    judged("", **{values: 0.9 * original[values]})
    judged("", **{values: 1.1 * original[values]})


def test_other_data_are_refused(files):
    with np.load(files / "data.npz") as file:
        data = {name: file[name] for name in file.files}
    X = data["X"].copy()
    X[3, 1] = np.nextafter(X[3, 1], np.inf)
    labels = "y" if "y" in data else "similar"
    other = data[labels].copy()
    other[2] = 1 - other[2] if labels == "y" else ~other[2]
    for changed in ({"X": X}, {labels: other}):
        np.savez(files / "other.npz", **(data | changed))
        code, text = run(files, data="other.npz")
        assert code == 1
        assert "hashes differ" in text


def test_bad_input(files):
    whole = (files / "proof.npz").read_bytes()
    for place in range(0, len(whole), len(whole) // 60):  # a date, for example, says nothing
        (files / "bad.npz").write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        assert run(files, proof="bad.npz")[0] in (0, 2)
    (files / "text.npz").write_text("no arrays")
    assert run(files, proof="text.npz")[0] == 2
    assert run(files, data="text.npz")[0] == 2
    assert run(files, data="missing.npz")[0] == 2
    assert main([])[0] == 2


def test_the_command_and_csv_files(tmp_path):
    problem, data = lmnn()
    rows = [",".join(map(repr, [*map(float, x), int(label)])) for x, label in zip(data["X"], data["y"], strict=True)]
    (tmp_path / "data.csv").write_text("a,b,c,d,class\n" + "\n".join(rows) + "\n")
    sm.solve(problem, tol=1e-4).save_proof(tmp_path / "proof.npz")
    command = [sys.executable, "-m", "sdpmetric.check", str(tmp_path / "data.csv"), str(tmp_path / "proof.npz")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout[:7]) == (0, "Proven."), done.stdout + done.stderr


def test_many_examples_are_checked_in_floats():
    from sdpmetric.check import arithmetic

    rng = np.random.default_rng(0)
    X, L = rng.normal(size=(40, 3)) + 1e4, rng.normal(size=(2, 3))
    ((_, *small),) = arithmetic.distances(X, L)
    arithmetic.SMALL, was = 10, arithmetic.SMALL
    try:
        ((_, low, high),) = arithmetic.distances(X, L)
    finally:
        arithmetic.SMALL = was
    assert (low <= small[1]).all()
    assert (small[0] <= high).all()
    assert (high - low).max() < 1e-10


def test_statements_without_proofs_say_so():
    X, y = load_iris(return_X_y=True)
    problem = sm.LMNNProblem.from_triplets(X, [[0, 1, 70], [0, 2, 80]])
    with pytest.raises(ValueError, match="labelled data"):
        sm.solve(problem, tol=1e-2).save_proof("nowhere.npz")
    other = sm.solve(sm.MCMLProblem(X[::5], y[::5]), tol=1e-2)
    with pytest.raises(ValueError, match="only solutions of LMNN"):
        other.save_proof("nowhere.npz")
