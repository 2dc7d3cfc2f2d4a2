"""The reproductions run by one command and say what they measured."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

REPRODUCTIONS = Path(__file__).parents[1] / "examples" / "reproductions"


@pytest.fixture(scope="module")
def table1():
    """The command as a module; it finds its neighbours as a script would."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MPLBACKEND", "Agg")
        patch.syspath_prepend(REPRODUCTIONS)
        import lmnn_table1

        yield lmnn_table1
    for name in [name for name in sys.modules if name == "lmnn_table1" or name.split(".")[0] == "table1"]:
        sys.modules.pop(name)


def test_table1_is_written_and_nothing_is_measured_twice(table1, tmp_path, capsys):
    arguments = ["--columns", "iris", "--splits", ":2", "--rows", "euclidean,pca,lmnn,energy,several", "--output"]
    table1.main([*arguments, str(tmp_path)])
    assert (tmp_path / "lmnn_table1.png").stat().st_size > 10_000
    text = (tmp_path / "lmnn_table1.md").read_text()
    assert text in capsys.readouterr().out
    for title in ("kNN, Euclidean", "LMNN", "LMNN, energy", "LMNN, multiple metrics"):
        (line,) = [line for line in text.splitlines() if line.startswith(f"| {title} | not at hand")]
        assert line.split(" | ")[7] == "2"  # splits
    assert "kNN after PCA" not in text  # iris is not reduced
    assert "150" in text  # the difference of the protocols is said
    kept = tmp_path / "cells" / "iris" / "lmnn-1.json"
    cell = json.loads(kept.read_text())
    assert 0 <= cell["test"] < 15
    assert cell["gap"] <= 1e-3
    kept.write_text(json.dumps(cell | {"test": 77.0}))
    table1.main([*arguments, str(tmp_path)])
    assert "77.00" not in (tmp_path / "lmnn_table1.md").read_text()  # a mean over both splits
    other = json.loads((tmp_path / "cells" / "iris" / "lmnn-0.json").read_text())
    assert f"{(77.0 + other['test']) / 2:.2f}" in (tmp_path / "lmnn_table1.md").read_text()


def test_table1_refuses_names_that_it_does_not_know(table1):
    with pytest.raises(SystemExit, match="there is no foo; choose among"):
        table1.main(["--columns", "foo"])


def test_training_and_test_part_are_reduced_by_the_training_part_alone(table1):
    from table1.columns import Column

    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(40, 6)) * np.arange(1, 7) + 3.0, np.repeat([0, 1], 20)
    split = Column("made", lambda: (X, y, 30), 1, "", n_components=2).split(0)
    moved = Column("made", lambda: (np.concatenate([X[:30], X[30:] * 9]), y, 30), 1, "", n_components=2).split(0)
    np.testing.assert_allclose(moved.X, split.X)
    np.testing.assert_allclose(split.X.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(split.X, axis=1).mean(), 4.0)
    assert split.reduced
    assert not np.allclose(moved.X_test, split.X_test)
