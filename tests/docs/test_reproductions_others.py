"""The reproductions of NCA, POLA, LEGO and FRML run by one command each, here in miniature."""

import importlib
import re
import sys
from pathlib import Path

import numpy as np
import pytest

REPRODUCTIONS = Path(__file__).parents[2] / "examples" / "reproductions"
NAMES = [path.stem for path in REPRODUCTIONS.glob("*.py")]
PAIRS = """| digits | test rows | {} |
| --- | --- | --- |
| 0, 1 | 2,000 | {} |
| 3, 5 | 1,000 | {} |
| all | | {} |
"""
DIRECTIONS = ("principal component", "eigenvector of POLA's metric")
HEADS = [f"{name}, k = {k}" for name in ("Euclid", "POLA", "LEGO", "ITML online") for k in (1, 3, 5)]


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs a script of the reproductions; gives its Markdown, after a look at the size of its figure."""
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.setenv("SDPMETRIC_DATA", str(tmp_path))
    monkeypatch.syspath_prepend(REPRODUCTIONS)

    def main(name, *arguments):
        before = list(sys.argv)
        importlib.import_module(name).main([*arguments, "--output", str(tmp_path)])
        assert sys.argv == before
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000
        return (tmp_path / f"{name}.md").read_text()

    yield main
    for name in NAMES:
        sys.modules.pop(name, None)


@pytest.fixture
def pairs(tmp_path):
    """What a run of the pairs of digits might have printed: errors of each learner with 1, 3 and 5 neighbors."""
    first, second = [8, 9, 7, 3, 9, 8, 4, 8, 7, 1, 1, 1], [20, 30, 40, 10, 20, 50, 10, 30, 45, 1, 1, 1]
    sums = np.add(first, second)
    file = tmp_path / "pairs.txt"
    file.write_text(PAIRS.format(*(" | ".join(map(str, cells)) for cells in (HEADS, first, second, sums))))
    return str(file)


def test_nca_fig1(run):
    text = run("nca_fig1", "--sets", "iris", "--splits", "3")
    lines = [line for line in text.splitlines() if line.startswith("| iris")]
    assert [line.count("±") for line in lines] == [10, 8]
    assert all(line.split(" | ")[-2] == "3" for line in lines)


def test_nca_fig2(run):
    text = run("nca_fig2", "--rows", "wine", "--starts", "2")
    (line,) = [line for line in text.splitlines() if line.startswith("| wine")]
    assert line.count(" / ") == 5
    assert float(line.split(" / ")[-1].strip("% |")) < 12


@pytest.mark.slow
def test_nca_fig3(run):
    text = run("nca_fig3", "--pairs", "150", "--iterations", "60")
    (line,) = [line for line in text.splitlines() if line.startswith("| network by Eq. 8")]
    angle, height = (float(cell) for cell in line.strip("| ").split(" | ")[1:])
    assert angle > 90
    assert height > 40


def test_gradient_of_eq_8_and_of_the_network(run):
    nca_fig3 = importlib.import_module("nca_fig3")
    rng = np.random.default_rng(0)
    X, pairs, weights = rng.normal(size=(8, 3)), np.array([[0, 4], [1, 5], [2, 6]]), rng.random(3)
    network = nca_fig3.Network(3, 5)
    flat = network.start(1)
    loss = nca_fig3.terms.PairSoftmax(pairs, weights=weights).bind(X)
    value, gradient = network.cost(flat, X, loss)
    Y = network.forward(flat, X)[0]
    D = np.sum((Y[:, None] - Y) ** 2, axis=2)
    total = np.exp(-D).sum() - len(Y)  # no face is a pair with itself
    written = -sum(w * np.log(np.exp(-D[a, b]) / total) for (a, b), w in zip(pairs, weights, strict=True))
    assert value == pytest.approx(written + 0.5 * nca_fig3.DECAY * flat @ flat)
    for k in range(0, len(flat), 3):
        step = np.zeros(len(flat))
        step[k] = 1e-6
        change = network.cost(flat + step, X, loss)[0] - network.cost(flat - step, X, loss)[0]
        assert gradient[k] == pytest.approx(change / 2e-6, rel=1e-4, abs=1e-6)


def test_pola_fig2(run):
    text = run("pola_fig2")
    rows = {line.split(" | ")[0][2:]: line.strip("| ").split(" | ")[1:] for line in text.splitlines() if "|" in line}
    principal, learned = (rows[f"pattern: from the leading {name}"] for name in DIRECTIONS)
    assert float(learned[0].strip("%")) > 95 > 80 > float(principal[0].strip("%"))  # legible
    assert float(learned[1]) < 0.1 < 0.6 < float(principal[1])  # two blocks
    assert learned[2] == "0%"


@pytest.mark.slow
def test_pola_fig3_rivals(run, tmp_path):
    """Made digits, two classes of which differ in a few pixels: POLA sees them, and so does Fisher's direction."""
    rng = np.random.default_rng(0)
    y = np.concatenate([np.arange(10).repeat(20), np.arange(10).repeat(10)])
    X = np.clip(rng.normal(90, 40, size=(300, 784)) + 120 * (np.arange(784) % 10 == y[:, None]), 0, 255)
    np.savez(tmp_path / "mnist.npz", X=X.astype(np.uint8), y=y, n_train=200)
    text = run("pola_fig3_rivals", "--every", "40")
    rows = {line.split(" | ")[0][2:]: line.strip("| ").split(" | ")[1:] for line in text.splitlines() if "|" in line}
    assert "| RCA | 45 of 45 | 2 | " in text
    assert int(rows["POLA"][0]) <= 20
    assert int(rows["FDA, one direction"][0]) <= 20


def test_pola_fig4(run):
    text = run("pola_fig4", "--documents", "120")
    means = [float(cell) for cell in text.splitlines()[-1].strip("| ").split(" | ")[2:]]
    assert len(means) == 4
    assert all(0 < mean <= 60 for mean in means)


def test_errors_of_a_filter_are_the_mean_of_two_rates(run):
    pola_fig4 = importlib.import_module("pola_fig4")
    relevant = np.array([True, True, False, False, False, False])
    wrong = np.array([True, False, True, False, False, False])
    assert pola_fig4.balanced_error(wrong, relevant) == 50 * (0.5 + 0.25)


def test_pola_fig3_counts_problems(run, pairs):
    text = run("pola_fig3", "--printed", pairs)
    assert (
        "| POLA against Euclid | 45 of 45 below | 2 | 2 below, 0 equal | 1 below, 1 equal | 0 below, 0 equal |" in text
    )
    assert "| POLA | 13 | 29 | 58 |" in text


def test_lego_fig1(run, pairs, tmp_path):
    options = ("--sets", "iris", "--pairs", "150", "--pretraining", "50")
    text = run("lego_fig1", "--no-digits", *options)
    assert "| iris |" in text
    assert "LEGO against POLA" not in text
    text = run("lego_fig1", "--printed", str(tmp_path / "printed" / "pair_accuracy.txt"), pairs)
    expected = "| 33 of 45 below or equal | 0 below, 1 equal | 1 below, 0 equal | 2 below, 0 equal |"
    assert f"| LEGO against POLA {expected}" in text


@pytest.mark.slow
def test_lego_patches(run):
    text = run("lego_patches")
    found = {name: float(re.search(rf"\| {name} \| ([\d.]+) \|", text)[1]) for name in ("L2", "LEGO", "POLA")}
    assert found["LEGO"] > found["POLA"] + 5 > found["L2"] + 10


def test_lego_fig2(run):
    sizes = ["--points", "60", "--queries", "12", "--constraints", "40", "--depth", "20"]
    text = run("lego_fig2", *sizes)
    assert "A base of 228 patches with 576 features, 12 queries" in text
    assert text.count("| left: ") == 4
    assert text.count("| right: ") == 4


@pytest.mark.slow
def test_frml_table1(run):
    text = run("frml_table1", "--only", "digits", "--passes", "1")
    assert "| digits | FRML-WARP, gamma 25 |" in text
    assert "chosen" not in text
    assert "| CAL10K | P@1 | 0.262 | 0.328 |" in text


def test_frml_table2(run, tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 300)
    np.savez(tmp_path / "covtype_20k.npz", X=rng.normal(size=(300, 54)) + y[:, None], y=y)
    text = run("frml_table2", "--points", "300", "--folds", "2", "--passes", "1", "--methods", "OASIS")
    assert "| OASIS |" in text
    text = run("frml_table2", "--points", "300", "--folds", "2", "--passes", "1", "--methods", "FRML-WARP")
    (line,) = [line for line in text.splitlines() if line.startswith("| FRML-WARP |")]
    assert line.strip("| ").split(" | ")[2::2] == ["0.511", "0.811", "0.689", "0.843"]
    assert "| MLR-AUC | not measured | 0.481 |" in text


def test_what_has_no_table_is_refused(run, tmp_path):
    (tmp_path / "empty.txt").write_text("nothing\n")
    with pytest.raises(SystemExit, match="nothing was printed that has a table with the first column 'data'"):
        run("frml_table1", "--printed", str(tmp_path / "empty.txt"))
