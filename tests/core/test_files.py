"""Files: old or new file whole whatever happens, and a file is read only where its parts are what they should be.

examples/benchmarks/sabotage.py does the same more often.
"""

import contextlib
import copy
import importlib.util
import json
import math
import os
import pickle
import stat
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import sdpmetric as sm
from sdpmetric.cli import app, main
from sdpmetric.core.files import read_npz, replacing, write_npz

SCRIPT = Path(__file__).parents[2] / "examples" / "benchmarks" / "sabotage.py"
SPEC = importlib.util.spec_from_file_location("sabotage", SCRIPT)
sabotage = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(sabotage)


@pytest.fixture
def folder(tmp_path):
    """A folder with a solution and data."""
    sabotage.solved()[0].save(tmp_path / "solution.npz")
    sabotage.write_data(tmp_path / "data.csv")
    return tmp_path


def edited(path, **changes):
    """The file with other arrays; of None, without; of a function, with what it makes of the JSON text."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    for name, change in changes.items():
        if change is None:
            del arrays[name]
        elif callable(change):
            arrays[name] = np.array(json.dumps(change(json.loads(str(arrays[name])))))
        else:
            arrays[name] = change
    np.savez(path, **arrays)
    return path


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills a fork")
@pytest.mark.parametrize("name", ["solution", "proof"])
def test_a_killed_writer_leaves_the_old_or_the_new_file(name):
    outcomes = sabotage.kill(name, 4, 0)
    assert outcomes["whole"] == 4


@pytest.mark.skipif(os.name != "posix", reason="permissions and links of POSIX")
def test_permissions_and_links_are_kept(tmp_path):
    path, link = tmp_path / "file", tmp_path / "link"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    with replacing(link) as file:
        file.write(b"new")
    assert (path.read_text(), link.is_symlink(), stat.S_IMODE(path.stat().st_mode)) == ("new", True, 0o640)
    mask = os.umask(0o027)
    try:
        with replacing(tmp_path / "fresh"):
            pass
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "fresh").stat().st_mode) == 0o640


@pytest.mark.skipif(os.name != "posix", reason="permissions and owners of POSIX")
def test_nobody_else_can_read_a_private_file_while_it_is_written(tmp_path):
    """The hidden file is as private as the old one from its first byte on, and gone if writing fails."""
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(0o600)
    if os.geteuid() == 0:
        os.chown(path, 1234, 1234)
    hidden = []
    with contextlib.suppress(ZeroDivisionError), replacing(path) as file:
        file.write(b"secret")
        hidden += [path_of_temporary.stat() for path_of_temporary in tmp_path.iterdir() if path_of_temporary != path]
        file.write(b"%d" % (1 // 0))
    old = path.stat()
    assert [(status.st_mode, status.st_uid, status.st_gid) for status in hidden] == [
        (old.st_mode, old.st_uid, old.st_gid)
    ]
    assert [*tmp_path.iterdir()] == [path]
    with replacing(path) as file:
        file.write(b"new")
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("new", 0o600)
    assert os.geteuid() or path.stat().st_uid == 1234


ESCAPE = "a\x1b]0;owned\x07\u202e"


@pytest.mark.parametrize("place", ["header", "label", "name", "member", "program"])
def test_escape_sequences_of_a_file_do_not_reach_the_terminal(folder, place):
    text = (folder / "data.csv").read_text()
    if place in ("header", "label"):
        old, new = ("kind", ESCAPE) if place == "header" else ("class 0", ESCAPE)
        (folder / "data.csv").write_text(text.replace(old, new))
        result = run("solve", folder / "data.csv", *(["--label", "none"] if place == "header" else []))
    elif place == "name":
        result = run("solve", folder / f"{ESCAPE}.csv")
    elif place == "member":
        with zipfile.ZipFile(folder / "solution.npz", "a") as file:
            file.writestr(f"{ESCAPE}.npy", b"raw")
        result = run("verify", folder / "data.csv", folder / "solution.npz", "--label", "kind")
        with pytest.raises(ValueError, match="control characters") as error:
            read_npz(folder / "solution.npz")
        assert "\x1b" not in str(error.value)
    else:
        named = {"program": ESCAPE, "info": {ESCAPE: ESCAPE}}
        edited(folder / "solution.npz", about=lambda header: header | {"certificate": header["certificate"] | named})
        assert str(sm.Solution.load(folder / "solution.npz")).isprintable()
        return
    printed = result.stdout + result.stderr
    assert printed
    assert all(line.isprintable() for line in printed.split("\n"))
    assert place == "label" or "x1b" in printed


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("name", ["solution", "proof"])
def test_a_full_disk_is_one_sentence(name):
    with pytest.raises(OSError, match=r"^/dev/full cannot be written: No space left on device\..*$"):
        sabotage.WRITERS[name][1]("/dev/full", 0)


def test_a_path_that_cannot_be_written_is_one_sentence(tmp_path, monkeypatch):
    solution = sabotage.solved()[0]
    with pytest.raises(IsADirectoryError, match="is a folder; name a file in it"):
        solution.save(tmp_path)
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        solution.save(tmp_path / "none" / "file.npz")
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path)
    with pytest.raises(PermissionError, match=r"the folder .* is not writable"):
        solution.save(tmp_path / "file.npz")
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) == tmp_path)
    (tmp_path / "file.npz").touch()
    with pytest.raises(PermissionError, match="is not writable; change its permissions"):
        solution.save(tmp_path / "file.npz")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="reads in a fork")
@pytest.mark.parametrize("kind", [kind for kind in sabotage.KINDS if kind != "proof"])
def test_a_damaged_file_is_refused_in_a_sentence_or_works(kind):
    outcomes, bad = sabotage.apart(kind, 40, 1000)
    assert bad == []
    assert outcomes["refused"] > 10


@pytest.mark.parametrize(
    ("shape", "sentence"),
    [
        (b"(9999999999, 3)", "says 239,999,999,976 bytes"),
        (b"(3, -1)", "is not that of an array"),
        (b"(3, ", "is not that of an array"),
    ],
)
def test_a_header_that_lies_is_refused_before_anything_is_allocated(tmp_path, shape, sentence):
    np.save(tmp_path / "x.npy", np.zeros(3))
    data = (tmp_path / "x.npy").read_bytes().replace(b"(3,)", shape, 1)
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("x.npy", data)
    with pytest.raises(ValueError, match=sentence):
        read_npz(tmp_path / "x.npz")
    np.savez(tmp_path / "x.npz", x=np.full(2, 0x110000, np.uint32).view("U2"))
    with pytest.raises(ValueError, match="x has invalid characters"):
        read_npz(tmp_path / "x.npz")
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_LZMA) as archive:
        archive.write(tmp_path / "x.npy", "x.npy")
    with pytest.raises(ValueError, match=r"x\.npy is compressed in a way that NPZ files are not"):
        read_npz(tmp_path / "x.npz")


def test_arrays_of_every_kind_come_back(tmp_path):
    kinds = ["f8", ">f4", "u1", "?", "c16", "M8[D]", "S2", "U2"]
    arrays = {kind: np.array([[0, 1], [1, 0], [1, 1]]).astype("i8").astype(kind) for kind in kinds}
    arrays |= {"order": np.asfortranarray(arrays["f8"]), "empty": np.zeros((0, 3)), "scalar": np.array(2.5)}
    np.savez_compressed(tmp_path / "all.npz", **arrays)
    for name, array in read_npz(tmp_path / "all.npz").items():
        np.testing.assert_array_equal(array, arrays[name])
        assert array.dtype == arrays[name].dtype.newbyteorder("=")


def test_the_threshold_is_that_of_the_certificate_whatever_the_file_says(tmp_path):
    """An optimum with another threshold is none."""
    problem = sm.POLAProblem([[0.0], [1.0], [3.0]], [[0, 1], [0, 2]], [True, False], slack_weight=0.1)
    solution = sm.solve(problem)
    solution.save(tmp_path / "s.npz")
    edited(tmp_path / "s.npz", about=lambda header: header | {"extras": {"threshold": 100.0}})
    loaded = sm.Solution.load(tmp_path / "s.npz", problem)
    assert loaded.status is sm.Status.OPTIMAL
    assert problem.objective(loaded.components, threshold=loaded.extras["threshold"]) <= 1.001 * loaded.objective


CLAIMS = [
    {"objective": 1.0, "lower_bound": 1.0},
    {"objective": 1e6, "lower_bound": 0.0, "resolution": 1e9, "program": "MMC"},
    {"kind": "infeasibility", "objective": math.inf, "lower_bound": math.inf, "contradiction": [0, 1]},
]


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_solution_is_certified_again_whatever_its_file_claims(tmp_path, claim):
    """Not the status, nor a certificate, nor the gap that the file says it was optimal for; also of another point."""
    solution, path = sabotage.solved()[0], tmp_path / "s.npz"
    solution.save(path)
    status = "infeasible" if "kind" in claim else "optimal"

    def forged(header):
        facts = {name: header["certificate"][name] for name in ("program", "constraints")}
        return header | {"status": status, "certificate": (facts if "kind" in claim else header["certificate"]) | claim}

    edited(path, about=forged)
    assert sm.Solution.load(path, solution.problem).certificate == solution.certificate
    believed = sm.Solution.load(path)
    assert believed.objective == claim["objective"]
    assert f"{status} (as saved, not verified) after" in str(believed)
    assert not believed.certificate.settles(1e9)
    edited(path, components=np.asarray(50.0 * np.eye(3)), dual_values=0.0 * solution.dual.values)
    for tol, expected in ((None, "stalled"), (1e-3, "stalled"), (2.0, "optimal")):
        loaded = sm.Solution.load(path, solution.problem, tol=tol)
        assert loaded.certificate == solution.problem.certify(loaded.components, dual=loaded.dual)
        assert (loaded.status.word, loaded.certificate.as_saved) == (expected, False)
    with pytest.raises(ValueError, match="tol must be a positive"):
        sm.Solution.load(path, solution.problem, tol=0.0)


def test_what_a_pickle_restores_claims_nothing():
    solution = sabotage.solved()[0]
    restored = pickle.loads(pickle.dumps(solution))
    assert str(restored).endswith("as saved, not verified")
    assert not restored.certificate.settles(1e9)
    assert sm.compare(restored).verdict.startswith("As saved, not verified: ")
    assert sm.certify(solution.problem, restored.components, dual=restored.dual) == solution.certificate
    for alike in (copy.copy(solution), copy.deepcopy(solution)):
        assert not alike.certificate.as_saved
    certificate = pickle.loads(pickle.dumps(solution.certificate))
    assert certificate.as_saved
    assert not certificate.proves_optimal(1.0)
    assert not copy.deepcopy(solution.certificate).as_saved


FOREIGN = [
    ({"components": np.eye(7)}, r"must have shape \(r, 3\)"),
    ({"components": np.full((3, 3), np.nan)}, "components contains NaN or infinity"),
    ({"components": np.array("x")}, "components has the type"),
    ({"dual_values": np.zeros(2)}, r"dual_values has shape \(2,\), not"),
    ({"dual_values": None}, "dual_values does not hold"),
    ({"about": lambda about: about | {"extras": {"x": 1}}}, "x of extras must be absent"),
    ({"about": lambda about: about | {"n_iter": "x"}}, "n_iter of about must be int, got 'x'"),
    ({"about": lambda about: about | {"status": "fine"}}, "KeyError: 'fine'"),
    ({"about": lambda about: {**about, "certificate": {"kind": "duality"}}}, "the certificate lacks lower_bound"),
    ({"about": lambda about: [about]}, "about is not a JSON object"),
    ({"about": None}, "it lacks about"),
    ({"about": np.array("[" * 100_000)}, "about is not JSON text"),
]


@pytest.mark.parametrize(("changes", "words"), FOREIGN)
def test_a_file_with_foreign_parts_is_refused(tmp_path, changes, words):
    solution, path = sabotage.solved()[0], tmp_path / "s.npz"
    solution.save(path)
    with pytest.raises(ValueError, match=f"s.npz is not a saved solution.*: .*{words}"):
        sm.Solution.load(edited(path, **changes), solution.problem)


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize(("stream", "code"), [("pipe", 141), ("full", 2), ("closed", 2)])
def test_a_standard_output_that_cannot_be_written(folder, monkeypatch, capfd, stream, code):
    reader, writer = os.pipe()
    os.close(reader)
    streams = {
        "pipe": os.fdopen(writer, "w"),
        "full": os.fdopen(os.open("/dev/full", os.O_WRONLY), "w"),
        "closed": None,
    }
    monkeypatch.setattr(sys, "argv", ["sdpmetric", "solve", "iris", "--no-score"])
    monkeypatch.setattr("warnings.showwarning", None)  # which the command replaces
    monkeypatch.setattr(sys, "stdout", streams[stream])
    with pytest.raises(SystemExit) as ended:
        main()
    monkeypatch.undo()
    assert ended.value.code == code
    printed = capfd.readouterr().err
    assert stream == "pipe" or "standard output" in printed


def test_check_says_on_standard_error_that_its_input_is_bad(folder):
    result = run("check", folder / "data.csv", folder / "solution.npz")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("Bad input: ")


def test_an_archive_holds_no_pickles(tmp_path):
    write_npz(tmp_path / "numbers.npz", {"a": np.ones(2)})
    with np.load(tmp_path / "numbers.npz") as archive:
        assert archive.files == ["a"]
    with pytest.raises(ValueError, match="b cannot be saved without pickle"):
        write_npz(tmp_path / "objects.npz", {"b": np.array([None])})
