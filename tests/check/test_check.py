"""Proof files and their checker: what was proven is accepted, and no corruption is."""

import json
import shutil
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from flint import arb, ctx
from statements import FACTORIES, PROVEN, WITHOUT_PROOF, X, Y

import sdpmetric as sm
from sdpmetric import terms
from sdpmetric.check import arithmetic
from sdpmetric.check.__main__ import PRECISIONS, main
from sdpmetric.check.files import ProofPart, digest, digits
from sdpmetric.check.statements import Program
from sdpmetric.core.text import digits as certificate_digits
from sdpmetric.losses import Hinge

CONTRADICTIONS = ("contradiction", "contradicting pairs")
CHANGED = ("lmnn", "multi-metric-lmnn", "pola, hard", "mmc", "itml", "scml", "pairs")


@cache
def written(name, folder):
    """A solved problem as a data file and a proof file."""
    sm.solve(PROVEN[name](), tol=1e-5).save_proof(folder / f"{name}.npz", folder / f"{name} data.npz")
    return folder / f"{name} data.npz", folder / f"{name}.npz"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("proofs")


@pytest.fixture(params=CHANGED)
def files(request, folder, tmp_path):
    for path, name in zip(written(request.param, folder), ("data.npz", "proof.npz"), strict=True):
        shutil.copy(path, tmp_path / name)
    return tmp_path


def run(folder, data="data.npz", proof="proof.npz"):
    return main([str(folder / data), str(folder / proof)])


def arrays_in(folder):
    with np.load(folder / "proof.npz") as file:
        return {name: file[name] for name in file.files}


def sealed(arrays):
    """A proof whose seal fits what it says now: the corruption of somebody who can write proofs."""
    arrays = {name: array for name, array in arrays.items() if name != "seal"}
    header = str(arrays.pop("about"))
    return {**arrays, "about": np.array(header), "seal": np.array(digest(arrays, header))}


@pytest.mark.parametrize("name", PROVEN)
def test_proofs_are_accepted(name, folder):
    data_file, proof = written(name, folder)
    code, text = main([str(data_file), str(proof)])
    assert code == 0, text
    if name in CONTRADICTIONS:
        assert "no metric satisfies" in text
        return
    high, low = (float(text.split(words)[1].split(",")[0].rstrip(".")) for words in ("at most ", "has one below "))
    solution = sm.solve(PROVEN[name](), tol=1e-5)
    certificate = solution.certificate
    assert high <= certificate.objective + 1e-7 * abs(certificate.objective)
    assert low >= certificate.lower_bound - 1e-7 * abs(certificate.lower_bound)


def test_bases_may_be_the_first_features(tmp_path):
    X = np.random.default_rng(0).normal(size=(6, 4))
    problem = sm.SCMLProblem(X, [[0, 1, 2], [3, 4, 5]], np.eye(2, 4))
    sm.solve(problem).save_proof(tmp_path / "proof.npz", tmp_path / "data.npz")
    assert run(tmp_path)[0] == 0


@pytest.mark.parametrize("seed", [1, 7, 11, 17, 18])
def test_a_proof_holds_the_combination_of_bases_whose_objective_it_claims(seed, tmp_path):
    """Components in single precision are near several combinations of rank-one metrics."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(9, 3)).astype(np.float32)
    triplets = rng.permuted(np.tile(np.arange(9), (15, 1)), axis=1)[:, :3]
    problem = sm.SCMLProblem(X, triplets, rng.normal(size=(6, 3)))
    sm.solve(problem, "highs").save_proof(tmp_path / "proof.npz", tmp_path / "data.npz")
    assert run(tmp_path)[0] == 0


def test_a_changed_entry_breaks_the_seal(files):
    original, rng = arrays_in(files), np.random.default_rng(1)
    for name in [name for name in original if name not in ("about", "seal") and original[name].size]:
        flat = original[name].copy().reshape(-1)
        flat[rng.integers(flat.size)] += 1
        np.savez(files / "bad.npz", **(original | {name: flat.reshape(original[name].shape)}))
        code, text = run(files, proof="bad.npz")
        assert (code, "seal" in text) == (1, True), name


def test_sealed_corruptions_are_refused_for_what_they_are(files):
    """With a new seal: a changed claim, factor or multiplier is refused by what it no longer proves."""
    original = arrays_in(files)
    header = json.loads(str(original["about"]))

    def judged(step, codes=(1,), **changes):
        np.savez(files / "bad.npz", **sealed(original | changes))
        code, text = run(files, proof="bad.npz")
        assert code in codes, text
        assert step in text, text

    def claiming(**claims):
        return np.array(json.dumps(header | claims))

    gap = 1e-3 * abs(header["objective"])
    judged("objective", about=claiming(objective=header["objective"] - gap))
    judged("lower_bound", about=claiming(lower_bound=header["lower_bound"] + gap))
    judged("data", about=claiming(data=header["data"] | {"sha256": header["data"]["sha256"][::-1]}))
    judged("", **{"0.components": 1.01 * original["0.components"]})
    for name, values in original.items():
        kind = name.split(".")[-1]
        if kind in ("multipliers", "slope") and values.any():
            for changed in (-values, 0.9 * values, 1.1 * values):  # of linear terms there are none
                judged("", (1, 2), **{name: changed})


def test_other_data_are_refused(files):
    with np.load(files / "data.npz") as file:
        data = {name: file[name] for name in file.files}
    X = data["X"].copy()
    X[3, 1] = np.nextafter(X[3, 1], np.inf)
    changes = {name: data[name].copy() for name in data if name in ("y", "similar", "triplets")}
    for array in changes.values():
        array[2] = ~array[2] if array.dtype == bool else 1 + array[2]
    for changed in ({"X": X}, *({name: array} for name, array in changes.items())):
        np.savez(files / "other.npz", **(data | changed))
        code, text = run(files, data="other.npz")
        assert code == 1
        assert "hashes differ" in text


def test_bad_input(files):
    content = (files / "proof.npz").read_bytes()
    for place in range(0, len(content), len(content) // 12):  # a date, for example, says nothing
        (files / "bad.npz").write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        assert run(files, proof="bad.npz")[0] in (0, 2)
    (files / "text.npz").write_text("no arrays")
    assert run(files, proof="text.npz")[0] == 2
    assert run(files, data="text.npz")[0] == 2
    assert run(files, data="missing.npz")[0] == 2
    assert main([])[0] == 2


def test_bounds_of_distances_hold_far_from_the_origin():
    """Floats that select triplets: exact distances are within their bounds, and the bounds are near each other."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(40, 3)) + 1e4
    for i, p in enumerate(Z):
        low, high = arithmetic.distance_bounds(Z, i, np.ones(Z.shape))
        exact = [float(sum((Fraction(a) - Fraction(b)) ** 2 for a, b in zip(p, q, strict=True))) for q in Z]
        assert (low <= np.nextafter(exact, np.inf)).all()
        assert (np.nextafter(exact, -np.inf) <= high).all()
        assert (high - low).max() < 1e-9


def test_equal_examples_whose_images_are_not_exact_are_at_distance_0():
    """FLINT's square of the ball 0 +- r is no number."""
    X, L = [[1e200, 1.0, 1e-200]] * 2 + [[2.0, 1.0, 3.0]], np.array([[[1e-50, 1e-10, 1e90]]])
    with ctx.workprec(PRECISIONS[0]):
        arrays = {"components": L, "map": np.eye(3), "shares": np.ones((3, 1))}
        program = Program({"X": np.array(X)}, ProofPart("all", "", {}, arrays), 1)
        distance = program.distance((0, 1))
    assert not distance.is_exact()
    assert distance.contains(0)


def test_images_that_cancel_select_every_triplet():
    """Of ``10^200 + 1 - 10^200`` 320 bits leave nothing: its float would be wrong by 10^100, and says so."""
    assert [arithmetic.rounded(arb(x)) for x in (0, 0.1, -3)] == [0.0, 0.1, -3.0]
    with ctx.workprec(PRECISIONS[0]):
        canceled = arb(1e200) + 1 - arb(1e200)
    assert np.isnan(arithmetic.rounded(canceled))
    low, high = arithmetic.distance_bounds(np.array([[arithmetic.rounded(canceled)], [0.0], [5.0]]), 0, np.ones((3, 1)))
    assert not (low > 0.0).any()
    assert not (high < np.inf).any()


@pytest.mark.parametrize("name", sorted(WITHOUT_PROOF))
def test_statements_without_proofs_say_so(name):
    with pytest.raises(TypeError, match=r"save_proof does not take \w+Problem: "):
        sm.solve(FACTORIES[name](X, Y), tol=1e-2, max_time=5).save_proof("nowhere.npz")


def test_terms_of_others_and_two_sets_of_labels_are_refused(monkeypatch):
    monkeypatch.setattr(Hinge, "in_proof_files", False)
    with pytest.raises(ValueError, match="pair_hinge"):
        sm.solve(PROVEN["pairs"](), tol=1e-2).save_proof("nowhere.npz")
    two_labelings = terms.TripletHinge(labels=Y) + terms.TripletHinge(labels=Y[::-1].copy()) + terms.Trace()
    with pytest.raises(ValueError, match="one label of each example"):
        sm.solve(sm.MetricProblem(X, two_labelings), tol=1e-2).save_proof("nowhere.npz")


@pytest.mark.parametrize("size", [0.0, 1e-300, 1e-9, 0.1, 234.334513, 1e20, 1e300])
def test_the_checker_prints_the_digits_of_certificates(size):
    """Two functions, since the checker and the package share no code."""
    for gap in (0.0, 1e-16, 1e-12, 1e-6, 0.5):
        low, high = size * (1.0 - gap), size
        assert digits(low, high) == certificate_digits(low, high)
        first, second = map(float, digits(low, high))
        assert first <= low <= high <= second
