"""The benchmark of LMNN measures and writes its table."""

import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "examples" / "benchmarks"


@pytest.fixture(scope="module")
def run():
    """The command as a module; it finds its neighbors as a script would."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        import run

        yield run
    for name in ("run", "sets", "peer"):
        sys.modules.pop(name, None)


def test_command_writes_table_and_record(run, tmp_path, capsys):
    arguments = "--data iris wine:5 --solvers factored subgradient --repeats 2 --tol 1e-2 --push-weight 0.3 --output"
    run.main([*arguments.split(), str(tmp_path)])
    table = (tmp_path / "benchmarks.md").read_text()
    assert table in capsys.readouterr().out
    rows = [line for line in table.splitlines() if line.startswith(("| iris", "| wine"))]
    assert {row.split(" | ")[4] for row in rows} == {"optimal"}
    assert all(0 <= float(row.split(" | ")[6]) <= 1.1e-2 for row in rows)
    assert [row.split(" | ")[2] for row in rows] == ["factored", "subgradient"] * 2
    assert ("150 x 4" in rows[0], "178 x 5" in rows[2]) == (True, True)
    assert all(word in table for word in ("numpy", "cores", "commit"))
