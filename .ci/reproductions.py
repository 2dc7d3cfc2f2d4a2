"""The reproductions and the benchmark of LMNN run by one command each, in miniature, and say what they measured."""

import importlib
import json
import re
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
REPRODUCTIONS = ROOT / "examples" / "reproductions"
sys.path.insert(0, str(ROOT / "tests"))
oracles = importlib.import_module("oracles")
SMALL = "--digits digits --rows 300 --test-rows 200 --components 20"
at_length = partial(pytest.param, marks=pytest.mark.slow)


@pytest.fixture
def script(tmp_path, monkeypatch):
    """Imports a script, which finds its neighbors as it would when run, and data in the folder of the test."""
    before = set(sys.modules)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.setenv("SDPMETRIC_DATA", str(tmp_path))
    monkeypatch.syspath_prepend(REPRODUCTIONS)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and str(REPRODUCTIONS) in sys.modules[name].__file__:
            sys.modules.pop(name)


@pytest.fixture
def run(script, tmp_path):
    """Runs a script; gives its Markdown, after a look at the size of its figure."""

    def main(name, *arguments, written=None):
        before = list(sys.argv)
        script(name).main([*arguments, "--output", str(tmp_path)])
        assert sys.argv == before
        assert (tmp_path / f"{written or name}.png").stat().st_size > 5_000
        return (tmp_path / f"{written or name}.md").read_text()

    return main


def test_table1_is_written_and_nothing_is_measured_twice(run, tmp_path):
    rows = "euclidean,pca,lmnn,energy,several,lmnn-stopped,lmnn-stopped-energy,energy-chosen"
    arguments = ["--columns", "iris", "--splits", ":2", "--rows", rows]
    text = run("lmnn_table1", *arguments)
    for title in ("kNN, Euclidean", "LMNN", "LMNN, energy", "LMNN, multiple metrics"):
        (line,) = [line for line in text.splitlines() if re.match(rf"\| {title} \| [\d.]+ \| [\d.]+ ± ", line)]
        assert line.split(" | ")[7] == "2"  # splits
    assert "(574)" in text  # the paper's active constraints
    assert "kNN after PCA" not in text  # iris is not reduced
    assert "150" in text  # the difference of the protocols is said
    folder_of_cells = tmp_path / "cells" / "iris"
    cell, second, stopped, by_energy = (
        json.loads((folder_of_cells / f"{name}.json").read_text())
        for name in ("lmnn-1", "lmnn-0", "lmnn-stopped-1", "lmnn-stopped-energy-1")
    )
    assert by_energy["n_active"] == stopped["n_active"]  # the same metric
    assert cell["gap"] <= 1e-3
    (folder_of_cells / "lmnn-1.json").write_text(json.dumps(cell | {"test": 77.0}))
    assert f"{(77.0 + second['test']) / 2:.2f}" in run("lmnn_table1", *arguments)


# Number, arguments, settings of the module that draws it, and a line of its Markdown.
FIGURES = [
    ("2", "", {}, r"\| LMNN \| (\w+) \| \1 \|"),  # the error is lowered in the paper and here
    at_length("6", f"{SMALL} --sets digits", {"passes.PASSES": 2}, r"\| digits \| 2 \|"),
    (
        "7",
        "",
        {"circles.CLUSTERS": (1, 6), "circles.DIRECTIONS": (3,), "circles.DRAWN": (1, 6)},
        r"\| 1 \| .* \| 100 \| 100.0 \| 100.0 \|\n(.*\n)*\| 6 \| .* \| not printed \| 0.0 \| 0.0 \|",
    ),
    at_length("9", f"{SMALL} --sets digits", {"clusters.COUNTS": (2,)}, r"\| digits \| 2, clusters \|"),
    at_length("10,12,13", f"{SMALL} --ranks 4", {}, r"300 training rows(.*\n)*\| 4 \| not printed \| not printed \|"),
]


@pytest.mark.parametrize(("number", "arguments", "settings", "printed"), FIGURES)
def test_figures_of_lmnn(run, script, tmp_path, monkeypatch, number, arguments, settings, printed):
    for name, value in settings.items():
        monkeypatch.setattr(script(f"lmnn_figs.{name.split('.')[0]}"), name.split(".")[1], value)
    if number == "2":
        stripes = script("lmnn_figs.stripes")
        drawn = stripes.striped(600)
        monkeypatch.setattr(stripes, "striped", lambda: drawn)
    text = run("lmnn_figures", "--figures", number, *arguments.split(), written=f"lmnn_figure{number.split(',')[-1]}")
    assert re.search(printed, text), text


PAIRS = """| digits | test rows | {} |
| --- | --- | --- |
| 0, 1 | 2,000 | {} |
| 3, 5 | 1,000 | {} |
| all | | {} |
"""
HEADS = [f"{name}, k = {k}" for name in ("Euclid", "POLA", "LEGO", "ITML online") for k in (1, 3, 5)]
COVERTYPE = "--points 300 --folds 2 --passes 1 --methods"


def made_inputs(folder):
    """What a run of the pairs of digits might have printed, and made data of the sets that are not installed."""
    first, second = [8, 9, 7, 3, 9, 8, 4, 8, 7, 1, 1, 1], [20, 30, 40, 10, 20, 50, 10, 30, 45, 1, 1, 1]
    rows = (HEADS, first, second, np.add(first, second))
    (folder / "pairs.txt").write_text(PAIRS.format(*(" | ".join(map(str, cells)) for cells in rows)))
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 300)
    np.savez(folder / "covtype_20k.npz", X=rng.normal(size=(300, 54)) + y[:, None], y=y)
    # Two classes of made digits differ in a few pixels: POLA sees them, and so does Fisher's direction.
    y = np.concatenate([np.arange(10).repeat(20), np.arange(10).repeat(10)])
    X = np.clip(rng.normal(90, 40, size=(300, 784)) + 120 * (np.arange(784) % 10 == y[:, None]), 0, 255)
    np.savez(folder / "mnist.npz", X=X.astype(np.uint8), y=y, n_train=200)


def test_rivals_step_as_their_papers_say(script):
    rivals, rng = script("rivals"), np.random.default_rng(0)
    K, v = rng.normal(size=(3, 7)) + 2 * np.eye(3, 7), 0.4 * rng.normal(size=7)
    retracted = rivals.retracted(K, v, -0.05)
    W = oracles.retraction(K.T @ K, -0.05 * np.outer(v, v))
    np.testing.assert_allclose(retracted.T @ retracted, W, atol=1e-12)
    X, y = rng.normal(size=(4, 3)), np.array([0, 0, 1, 1])
    q, target, far = (int(rows[0]) for rows in rivals.triplets(y, 1))
    assert q != target
    assert y[q] == y[target] != y[far]
    S = rivals.oasis(X, y, 1e9, 1)  # the loss is gone, by the smallest change
    assert X[q] @ S @ (X[target] - X[far]) == pytest.approx(max(1.0, X[q] @ (X[target] - X[far])))
    L, loss = rivals.online_itml(X, np.array([[0, 2]]), np.array([0.1]), np.array([1]), 0.05)
    z = X[0] - X[2]
    assert loss == pytest.approx(0.5 * (z @ z - 0.1) ** 2)
    np.testing.assert_allclose(np.linalg.inv(L.T @ L), np.eye(3) + 0.05 * (z @ z - 0.1) * np.outer(z, z), atol=1e-9)
    far, _ = rivals.online_itml(X, np.array([[0, 2]]), np.array([50 * z @ z]), np.array([-1]), 1e6)
    assert np.sum((far @ z) ** 2) == pytest.approx(2 * z @ z)


MINIATURES = [
    ("nca_fig1", "--sets iris --splits 3", r"\| iris (.*±){10}.* \| 3 \|"),
    ("nca_fig2", "--rows wine --starts 2", r"\| wine.(.* / ){5}(\d|1[01])(\.\d+)?%"),
    at_length("nca_fig3", "--pairs 150 --iterations 60", r"\| network by Eq. 8 \|"),
    ("pola_fig2", "", r"pattern: from the leading eigenvector of POLA's metric \| (9[6-9]|100).*% \| 0.0\d* \| 0%"),
    ("pola_fig3", "--printed pairs.txt", r"\| POLA \| 13 \| 29 \| 58 \|"),
    ("pola_fig3", "--printed pairs.txt", r"\| POLA against Euclid \| 45 of 45 below \| 2 \| 2 below, 0 equal \|"),
    at_length("pola_fig3_rivals", "--every 40", r"\| RCA \| 45 of 45 \| 2 \| "),
    at_length("pola_fig4", "--documents 120", r"\|( [1-5]?\d(\.\d+)? \|){4}$"),
    at_length("lego_patches", "", r"\| LEGO \| [\d.]+ \|"),
    at_length("lego_fig2", "--points 60 --queries 12 --constraints 40 --depth 20", r"A base of 228 patches"),
    at_length("frml_table1", "--only digits --passes 1", r"\| CAL10K \| P@1 \| 0.262 \| 0.328 \|"),
    ("frml_table2", f"{COVERTYPE} OASIS", r"\| OASIS \|"),
    ("frml_table2", f"{COVERTYPE} FRML-WARP", r"\| FRML-WARP \| .* 0.511 .* 0.811 .* 0.689 .* 0.843 \|"),
]


@pytest.mark.parametrize(("name", "arguments", "printed"), MINIATURES)
def test_scripts_of_other_papers(run, tmp_path, name, arguments, printed):
    made_inputs(tmp_path)
    words = [str(tmp_path / word) if word.endswith(".txt") else word for word in arguments.split()]
    text = run(name, *words)
    assert re.search(printed, text, re.MULTILINE), text


def test_lego_fig1(run, tmp_path):
    made_inputs(tmp_path)
    text = run("lego_fig1", *["--no-digits", "--sets", "iris", "--pairs", "150", "--pretraining", "50"])
    assert "| iris |" in text
    assert "LEGO against POLA" not in text
    text = run("lego_fig1", "--printed", *(str(tmp_path / name) for name in ("printed/pair_accuracy.txt", "pairs.txt")))
    expected = "| 33 of 45 below or equal | 0 below, 1 equal | 1 below, 0 equal | 2 below, 0 equal |"
    assert f"| LEGO against POLA {expected}" in text


def test_the_benchmark_of_lmnn_writes_table_and_record(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(ROOT / "examples" / "benchmarks")
    run = importlib.import_module("run")
    for name in ("run", "sets", "peer"):
        sys.modules.pop(name, None)
    arguments = "--data iris wine:5 --solvers factored subgradient --repeats 2 --tol 1e-2 --push-weight 0.3 --output"
    run.main([*arguments.split(), str(tmp_path)])
    table = (tmp_path / "benchmarks.md").read_text()
    assert table in capsys.readouterr().out
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith(("| iris", "| wine"))]
    assert [row[2] for row in rows] == ["factored", "subgradient"] * 2
    assert all(row[4] == "optimal" and 0 <= float(row[6]) <= 1.1e-2 for row in rows)
    assert ("150 x 4" in str(rows[0]), "178 x 5" in str(rows[2])) == (True, True)
    assert all(word in table for word in ("numpy", "cores", "commit"))
