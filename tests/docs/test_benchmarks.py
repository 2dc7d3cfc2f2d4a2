"""The benchmark command makes its table and its figure, and judges every metric by the problem's own objective."""

import json
import os
import sys
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest

from sdpmetric import LMNNProblem

BENCHMARKS = Path(__file__).parents[2] / "examples" / "benchmarks"


@pytest.fixture(scope="module")
def run():
    """The command as a module; it finds its neighbors as a script would."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MPLBACKEND", "Agg")
        patch.syspath_prepend(BENCHMARKS)
        import run

        yield run
    for name in ("run", "report"):
        sys.modules.pop(name, None)


def test_command_writes_table_figure_and_record(run, tmp_path, capsys):
    arguments = "--data iris wine:5 --solvers factored subgradient --repeats 2 --tol 1e-2 --push-weight 0.3 --output"
    run.main([*arguments.split(), str(tmp_path)])
    table = (tmp_path / "benchmarks.md").read_text()
    assert table in capsys.readouterr().out
    rows = [line for line in table.splitlines() if line.startswith(("| iris", "| wine"))]
    assert [row.split(" | ")[2] for row in rows] == ["factored", "subgradient"] * 2
    assert "150 x 4" in rows[0]
    assert "178 x 5" in rows[2]
    assert "numpy" in table
    assert "cores" in table
    assert (tmp_path / "benchmarks.png").read_bytes()[:4] == b"\x89PNG"
    runs = json.loads((tmp_path / "benchmarks.json").read_text())["runs"]
    for run_of in runs:
        assert run_of["status"] == "optimal"
        assert 0 <= run_of["above"] <= 1.1e-2
        seconds, objectives = np.array(run_of["trace"]).T
        assert (np.diff(seconds) >= 0).all()
        assert (np.diff(objectives) < 0).all()
        # The objectives of rounds are in the precision of the solver, which is single for such tolerances.
        assert objectives[-1] == pytest.approx(run_of["objective"], rel=1e-6)
        assert 0 < run_of["stating"] < run_of["seconds"]


def test_objective_is_the_problems_at_the_best_multiple(run):
    loss = "squared_hinge"
    X, y = run.load("iris:3", None)
    judge = run.module("objectives", "lmnn")
    problem = run.statement(Namespace(objective=f"lmnn:loss={loss}", n_neighbors=2, push_weight=0.3), X, y)
    assert problem.fingerprint() == LMNNProblem.from_labels(X, y, 2, 0.3, loss=loss).fingerprint()
    L = np.random.default_rng(0).normal(size=(2, 3))
    assert judge.objective(problem, 0.01 * L) == pytest.approx(judge.objective(problem, 7 * L), rel=1e-6)
    scales = np.geomspace(0.01, 10, 200)
    around = min(problem.objective(scale * L) for scale in scales)
    assert around * (1 - 1e-2) <= judge.objective(problem, L) <= around * (1 + 1e-9)
    assert judge.above(12.0, 10.0) == pytest.approx(0.2)


@pytest.mark.skipif(os.name == "nt", reason="the stand-in for an environment is a shell script")
def test_a_peers_path_of_exchange(run, tmp_path, monkeypatch):
    """A stand-in peer in this environment: its metric, its seconds and its version come back; a crash is named."""
    solvers = tmp_path / "solvers"
    solvers.mkdir()
    (solvers / "stand_in.py").write_text(
        "PACKAGE = 'numpy'\ndef fit(X, y, k, push_weight, start, scale=1):\n"
        "    assert (k, push_weight) == (2, 0.3)\n    return scale * start[:2]\n"
    )
    (tmp_path / "peer.py").write_text((BENCHMARKS / "peer.py").read_text())
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    monkeypatch.setattr(run, "HERE", tmp_path)

    args = Namespace(n_neighbors=2, push_weight=0.3, max_time=60.0, peers=tmp_path)
    X, y = np.eye(6, 3), np.arange(6) % 2
    record = run.peer(args, "stand_in:scale=2.5", X, y)
    np.testing.assert_array_equal(record["components"], 2.5 * np.eye(3)[:2])
    assert str(record["version"]) == f"numpy {np.__version__}"
    assert float(record["seconds"]) >= 0
    args.push_weight = 0.4
    assert run.peer(args, "stand_in", X, y) == "failed: AssertionError"
