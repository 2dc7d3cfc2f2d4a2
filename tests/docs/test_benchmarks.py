"""The benchmark command makes its table and its figure, and judges every metric by the problem's own objective."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

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
