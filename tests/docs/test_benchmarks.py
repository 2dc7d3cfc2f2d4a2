"""The benchmark command makes its table and its figure, and judges every metric by the problem's own objective."""

import json
import os
import sys
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

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
    for name in ("run", "report", "energy_cost", "busy"):
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
    for one in runs:
        assert one["status"] == "optimal"
        assert 0 <= one["above"] <= 1.1e-2
        seconds, objectives = np.array(one["trace"]).T
        assert (np.diff(seconds) >= 0).all()
        assert (np.diff(objectives) < 0).all()
        # The objectives of rounds are in the precision of the solver, which is single for such tolerances.
        assert objectives[-1] == pytest.approx(one["objective"], rel=1e-6)
        assert 0 < one["stating"] < one["seconds"]


def test_growth_is_fitted_where_there_are_three_sizes(run):
    import report

    def one(n, d, seconds):
        return run.Run(f"letters:{d}:{n}", (n, d), "factored", "optimal", 1.0, tol=1e-3, seconds=seconds)

    runs = [one(n, 16, 1e-6 * n**1.5) for n in (1000, 2000, 5000)] + [one(1000, 8, 3.0)]
    assert report.growth(runs) == ["- letters, d = 16, factored to 1e-03: seconds grow as n^1.50"]


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
    found = run.peer(args, "stand_in:scale=2.5", X, y)
    np.testing.assert_array_equal(found["components"], 2.5 * np.eye(3)[:2])
    assert str(found["version"]) == f"numpy {np.__version__}"
    assert float(found["seconds"]) >= 0
    args.push_weight = 0.4
    assert run.peer(args, "stand_in", X, y) == "failed: AssertionError"


@pytest.mark.slow
def test_cost_of_energies_is_a_table(run, tmp_path, capsys, monkeypatch):
    import energy_cost

    digits = load_digits()
    np.savez(tmp_path / "mnist.npz", X=digits.data, y=digits.target, n_train=1500)
    monkeypatch.setenv("SDPMETRIC_DATA", "somewhere else")
    monkeypatch.setattr(energy_cost, "LEARNED_ON", 300)
    arguments = ["--data", str(tmp_path), "--dimension", "9", "--queries", "50", "--repeats", "1"]
    energy_cost.main([*arguments, "--output", str(tmp_path / "out")])
    rows = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines() if line[:7] == "| float"]
    assert [row[:2] for row in rows] == [[d, n] for d in ("float64", "float32") for n in ("1", "10")]
    for row in rows:
        assert 1 <= int(row[2]) <= 9
        assert float(row[6]) == pytest.approx(float(row[5]) / int(row[1]), abs=0.06)
    assert (tmp_path / "out" / "energy_cost.npz").is_file()


def test_settled_decisions_are_checked(run):
    import settled

    row, checked, contradicted = settled.measured("iris", 1, 10.0)
    assert row[0] == "iris"
    assert checked > 100
    assert contradicted == 0


@pytest.mark.slow
def test_busy_machines_are_a_table(run, capsys, monkeypatch):
    import busy

    monkeypatch.setattr(busy, "first", lambda args, data: (2.0, 1.5))  # compiles everything
    busy.main(["--data", "iris", "--repeats", "1"])
    head, _, row = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines() if line[:1] == "|"]
    assert len(head) == len(row)
    assert row[0] == "iris"
    idle, taken, two = (float(row[i]) for i in (2, 3, 5))
    assert min(idle, taken, two) > 0
    assert row[-2:] == ["2.0", "1.5"]
