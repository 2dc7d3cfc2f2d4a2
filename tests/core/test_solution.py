"""Solutions on disk: what is saved comes back, without pickle, and only to its own problem."""

import json
import re
import zipfile

import numpy as np
import pytest

from sdpmetric.core.certificate import DualityCertificate
from sdpmetric.core.multipliers import Dual
from sdpmetric.core.solution import Solution
from sdpmetric.core.status import Status
from sdpmetric.core.trace import Trace, TraceRow
from sdpmetric.problems.lmnn import LMNNProblem
from sdpmetric.triplets.triplets import Triplets


@pytest.fixture
def solution(small):
    L = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)
    dual = Dual(Triplets.from_array(np.array(small.statement.triplets[:5])), np.linspace(0, 0.3, 5))
    return Solution(
        components=L,
        certificate=small.problem.certify(L, dual=dual),
        status=Status.USER_LIMIT,
        solver="subgradient",
        dual=dual,
        trace=Trace([TraceRow(0, 0.5, np.inf, -np.inf), TraceRow(7, 1.25, 3.5, 1.0, 0.01, 12)]),
        n_iter=7,
        seconds=1.5,
        problem=small.problem,
        extras={"threshold": 1.5},
    )


@pytest.mark.parametrize("as_text", [True, False])
def test_round_trip(solution, small, tmp_path, as_text):
    path = tmp_path / "without a suffix"
    solution.save(str(path) if as_text else path)
    assert path.exists()
    loaded = Solution.load(str(path) if as_text else path, small.problem)
    assert loaded.components.dtype == np.float32
    assert np.array_equal(loaded.components, solution.components)
    assert loaded.certificate == solution.certificate
    assert (loaded.status, loaded.solver, loaded.n_iter) == (Status.USER_LIMIT, "subgradient", 7)
    assert (loaded.seconds, loaded.extras) == (1.5, {"threshold": 1.5})
    assert loaded.problem is small.problem
    assert np.array_equal(loaded.dual.triplets.to_array(), solution.dual.triplets.to_array())
    assert np.array_equal(loaded.dual.values, solution.dual.values)
    assert str(loaded.trace.rows) == str(solution.trace.rows)  # as text, NaN equals itself
    assert isinstance(loaded.trace.rows[1].iteration, int)
    # What was loaded proves the same again.
    again = small.problem.certify(loaded.components, dual=loaded.dual)
    assert again == solution.certificate
    loaded.save(tmp_path / "again")
    assert str(Solution.load(tmp_path / "again", small.problem)) == str(solution)


def test_missing_parts_and_infinite_evidence_come_back(tmp_path):
    plain = Solution(
        np.zeros((0, 4)),
        DualityCertificate(objective=1.0, lower_bound=-np.inf, program="LMNN"),
        Status.SOLVER_ERROR,
        "conic",
    )
    plain.save(tmp_path / "plain.npz")
    loaded = Solution.load(tmp_path / "plain.npz")
    assert loaded.components.shape == (0, 4)
    assert loaded.certificate == plain.certificate
    assert loaded.certificate.lower_bound == -np.inf
    assert loaded.dual is None
    assert loaded.problem is None
    assert loaded.extras == {}
    assert len(loaded.trace) == 0
    assert len(loaded.trace["objective"]) == 0


def test_the_file_holds_arrays_and_json_and_no_pickle(solution, tmp_path):
    solution.save(tmp_path / "s.npz")
    with np.load(tmp_path / "s.npz", allow_pickle=False) as file:
        assert all(file[name].dtype.kind in "fiuU" for name in file.files)
        about = json.loads(str(file["about"]))
    assert about["status"] == "user_limit"
    assert about["fingerprint"] == solution.problem.fingerprint()


def test_the_solution_of_another_problem_is_refused(solution, small, tmp_path):
    solution.save(tmp_path / "s.npz")
    other = LMNNProblem.from_labels(small.problem.X, small.y, 2, 0.31)
    with pytest.raises(ValueError, match=r"another problem.*pass the one"):
        Solution.load(tmp_path / "s.npz", other)
    assert Solution.load(tmp_path / "s.npz").problem is None


def write(path, name, solution):
    if name == "text":
        path.write_text("x,y\n1,2\n")
    elif name == "empty":
        path.touch()
    elif name == "array":
        with path.open("wb") as file:
            np.save(file, np.eye(3))
    elif name == "other arrays":
        with path.open("wb") as file:
            np.savez(file, X=np.eye(3), y=np.arange(3))
    elif name == "pickle":
        with path.open("wb") as file:
            np.save(file, np.array([{}], dtype=object), allow_pickle=True)
    else:
        solution.save(path)
        if name == "truncated":
            path.write_bytes(path.read_bytes()[:-200])
        else:
            with zipfile.ZipFile(path) as whole:
                parts = {part: whole.read(part) for part in whole.namelist() if not part.startswith("trace_step")}
            with zipfile.ZipFile(path, "w") as less:
                for part, content in parts.items():
                    less.writestr(part, content)


@pytest.mark.parametrize("name", ["text", "empty", "array", "other arrays", "pickle", "truncated", "incomplete"])
def test_what_is_no_solution_is_refused(name, solution, tmp_path):
    path = tmp_path / "file.npz"
    write(path, name, solution)
    with pytest.raises(ValueError, match=r"file\.npz is not a saved solution.*Solution\.save wrote"):
        Solution.load(path)


def test_a_damaged_byte_is_refused_wherever_it_is(solution, tmp_path):
    path = tmp_path / "file.npz"
    solution.save(path)
    whole, said = path.read_bytes(), []
    for place in range(0, len(whole), 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        try:  # a few bytes, dates for example, say nothing
            Solution.load(path)
        except ValueError as error:
            said.append(str(error))
    assert len(said) > 0.7 * len(whole) / 7
    assert all(re.match(r".*file\.npz is not a saved solution: .*Solution\.save wrote; .", text) for text in said)


def test_a_missing_file_is_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        Solution.load(tmp_path / "none.npz")


def test_properties_speak_for_the_certificate(solution):
    c = solution.certificate
    assert (solution.objective, solution.lower_bound, solution.relative_gap) == (
        c.objective,
        c.lower_bound,
        c.relative_gap,
    )
    assert np.array_equal(solution.metric, solution.components.T @ solution.components)
    assert np.array_equal(solution.metrics[0], solution.metric)
    assert solution.metrics.shape == (1, 3, 3)
    assert "subgradient: user_limit after 1.50 s" in repr(solution)
    assert solution.trace["n_active"].tolist() == [0.0, 12.0]
    assert np.isnan(solution.trace["step"][0])
    assert solution.trace[-1].n_active == 12


def test_every_status_has_its_own_word_and_advice():
    words = [status.word for status in Status]
    assert len(set(words)) == len(words)
    assert all(status.advice.endswith(".") and str(status) == status.word for status in Status)
    assert [status for status in Status if status.ok] == [Status.OPTIMAL]
