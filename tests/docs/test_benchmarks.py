"""The scripts of the benchmarks read, check and measure."""

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

SCRIPT = Path(__file__).parents[2] / "examples" / "benchmarks" / "data.py"
LETTERS = "Letter,a,b\nT,2,8\nI,5,12\nD,4,11\nT,7,1\n"
X, Y = np.array([[2, 8], [5, 12], [4, 11], [7, 1]], dtype=np.uint8), np.array([2, 1, 0, 2])


@pytest.fixture
def build(tmp_path):
    """Builds letters from a made-up file, whose hash is to be the given one, by default the right one."""
    (tmp_path / "letters.data").write_text(LETTERS)
    script = runpy.run_path(str(SCRIPT))

    def run(*arguments, file="letters.data", sha256=None):
        hashes = sha256 or script["digests"](X, Y, 3)
        recipe = script["Recipe"](((tmp_path / file).as_uri(),), script["read_letters"], "uint8", hashes, 3)
        script["RECIPES"].update(dict.fromkeys(list(script["RECIPES"]), recipe))
        return script["main"]([str(tmp_path / "out"), *arguments])

    return run


def test_download_is_read_checked_and_written(build, tmp_path, capsys):
    assert build("letters") == 0
    with np.load(tmp_path / "out" / "letters.npz") as file:
        assert file["X"].tolist() == X.tolist()
        assert file["y"].tolist() == Y.tolist()
        assert file["n_train"] == 3
    assert build("--check") == 0
    assert "as measured" in capsys.readouterr().out


def test_other_data_are_not_written(build, tmp_path, capsys):
    assert build("letters", sha256=("0" * 64,)) == 1
    assert "differ from those of the figures" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert build("letters", file="nothing.data") == 1
    assert "not built" in capsys.readouterr().err


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
    assert "150 x 4" in rows[0]
    assert "178 x 5" in rows[2]
    assert "numpy" in table
    assert "cores" in table
