"""The reproductions run by one command and say what they measured."""

from __future__ import annotations

import importlib
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from sdpmetric.estimators import LMNN
from sdpmetric.triplets.neighbors import target_neighbors

REPRODUCTIONS = Path(__file__).parents[2] / "examples" / "reproductions"


@pytest.fixture(scope="module")
def table1():
    """The command as a module; it finds its neighbors as a script would."""
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
        (line,) = [line for line in text.splitlines() if re.match(rf"\| {title} \| [\d.]+ \| [\d.]+ ± ", line)]
        assert line.split(" | ")[7] == "2"  # splits
    assert "(574)" in text  # the paper's active constraints
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


def test_energies_of_the_stopped_metric_and_of_chosen_settings(table1, tmp_path):
    from table1.bench import Bench, energy_error
    from table1.columns import COLUMNS

    rows = "lmnn-stopped,lmnn-stopped-energy,energy-chosen"
    table1.main(["--columns", "iris", "--splits", "1:2", "--rows", rows, "--output", str(tmp_path)])
    cells = {name: json.loads((tmp_path / "cells" / "iris" / f"{name}-1.json").read_text()) for name in rows.split(",")}
    stopped, by_energy, chosen = cells.values()
    assert by_energy["n_active"] == stopped["n_active"]  # the same metric
    bench = Bench(COLUMNS["iris"], 1, tmp_path)
    model, s = bench.stopped(), bench.split
    assert len(model.targets) == len(s.y) > len(bench.part(fit=True)[1])
    assert by_energy["test"] == energy_error(model, s.X, s.y, s.X_test, s.y_test)
    mu, n = chosen["chosen"].removeprefix("mu ").split(", target neighbors ")
    best = bench.validation_error(bench.lmnn(float(mu), fit=True, n_neighbors=int(n)), by_energy=True)
    others = [bench.lmnn(m, fit=True, n_neighbors=k) for m in (0.2, 0.5, 0.8) for k in (1, 2, 3)]
    assert best == min(bench.validation_error(model, by_energy=True) for model in others)
    learned = bench.lmnn(float(mu), n_neighbors=int(n))
    assert learned.targets.shape == (len(bench.split.y), int(n))
    assert chosen["n_active"] == learned.n_active


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


@pytest.fixture(scope="module")
def figures():
    """The command of LMNN's figures as a module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MPLBACKEND", "Agg")
        patch.syspath_prepend(REPRODUCTIONS)
        import lmnn_figures

        yield lmnn_figures
    for name in [name for name in sys.modules if name.split(".")[0] in ("lmnn_figures", "lmnn_figs", "table1")]:
        sys.modules.pop(name)


def cells(text: str, first: str) -> list[str]:
    """The cells of the table's row that begins so."""
    (line,) = [line for line in text.splitlines() if line.startswith(f"| {first} |")]
    return line.strip("| ").split(" | ")


def test_lmnn_and_nca_lower_the_error_on_stripes_and_others_raise_it(figures, tmp_path, monkeypatch):
    import lmnn_figs.stripes

    X, y = lmnn_figs.stripes.striped(600)
    monkeypatch.setattr(lmnn_figs.stripes, "striped", lambda: (X, y))
    figures.main(["--figures", "2", "--output", str(tmp_path)])
    text = (tmp_path / "lmnn_figure2.md").read_text()
    for name in ("LDA", "RCA", "MMC", "NCA", "LMNN"):
        _, paper, here, _, angle = cells(text, name)
        assert paper == here
        assert float(angle) < 10 or name not in ("NCA", "LMNN")
    assert (tmp_path / "lmnn_figure2.png").stat().st_size > 10_000


def test_neighbors_of_faces_are_counted_and_drawn(figures, tmp_path, monkeypatch):
    rng = np.random.default_rng(5)
    persons = rng.uniform(0, 255, (5, 4096))
    y = np.repeat(np.arange(5), 10)
    # What tells persons apart is small beside what every image has of a few common directions.
    common = rng.normal(size=(50, 6)) @ rng.normal(size=(6, 4096))
    np.savez(tmp_path / "olivetti.npz", X=persons[y] + 90 * common + 20 * rng.normal(size=common.shape), y=y)
    import lmnn_figs.faces

    monkeypatch.setenv("SDPMETRIC_DATA", str(tmp_path))
    monkeypatch.setattr(lmnn_figs.faces, "EIGENFACES", 20)
    figures.main(["--figures", "4", "--output", str(tmp_path)])
    text = (tmp_path / "lmnn_figure4.md").read_text()
    before, after = (int(cells(text, f"impostors among the 3 nearest {when}")[-1]) for when in ("before", "after"))
    lost = int(cells(text, "impostors that leave them")[-1])
    assert after < before <= after + lost
    assert float(cells(text, "kNN error (k = 3) after, %")[-1]) < float(cells(text, "kNN error (k = 3) before, %")[-1])
    assert (tmp_path / "lmnn_figure4.png").stat().st_size > 10_000


def test_metrics_of_few_dimensions_and_trees_are_measured_and_kept(figures, tmp_path):
    arguments = ["--digits", "digits", "--rows", "300", "--test-rows", "200", "--components", "20", "--ranks", "4"]
    figures.main(["--figures", "10,12,13", *arguments, "--output", str(tmp_path)])
    table = (tmp_path / "lmnn_figure13.md").read_text()
    _, paper, faster, _, cut, principal, learned, _, cut_above, learned_above, _ = cells(table, "4")
    assert (paper, faster) == ("not printed", "not printed")
    assert float(learned) < min(float(cut), float(principal))
    assert 0 < float(learned_above) < float(cut_above.replace(",", ""))
    assert "300 training rows" in table  # the difference of the protocols is said
    assert 0 < float(cells((tmp_path / "lmnn_figure10.md").read_text(), "4")[5]) <= 100
    assert int(cells((tmp_path / "lmnn_figure12.md").read_text(), "4")[1].replace(",", "")) > 0
    for number in (10, 12, 13):
        assert (tmp_path / f"lmnn_figure{number}.png").stat().st_size > 5_000
    kept = tmp_path / "models" / "digits-300-20-rank4.npz"
    before = kept.stat().st_mtime_ns
    figures.main(["--figures", "13", *arguments, "--output", str(tmp_path)])
    assert kept.stat().st_mtime_ns == before


def test_figures_refuse_numbers_that_they_do_not_know(figures, tmp_path):
    with pytest.raises(SystemExit, match="there is no figure 3 here; choose among"):
        figures.main(["--figures", "2,3", "--output", str(tmp_path)])


SMALL_DIGITS = ["--digits", "digits", "--rows", "300", "--test-rows", "200", "--components", "20"]


def test_neighbors_of_digits_are_counted(figures, tmp_path):
    figures.main(["--figures", "5", *SMALL_DIGITS, "--output", str(tmp_path)])
    text = (tmp_path / "lmnn_figure5.md").read_text()
    import lmnn_figs.righted

    assert sum(int(cells(text, kind)[1]) for kind in lmnn_figs.righted.KINDS.values()) == 200
    assert (tmp_path / "lmnn_figure5.png").stat().st_size > 10_000


def test_passes_lower_the_objective(figures, tmp_path, monkeypatch):
    import lmnn_figs.passes

    monkeypatch.setattr(lmnn_figs.passes, "PASSES", 2)
    figures.main(["--figures", "6", "--sets", "digits", *SMALL_DIGITS, "--output", str(tmp_path)])
    text = (tmp_path / "lmnn_figure6.md").read_text()
    none, first, second = (cells(text, f"digits | {n}") for n in range(3))
    # Nearer target neighbors cost less under the metric of the pass before.
    assert float(second[6].replace(",", "")) < float(first[6].replace(",", ""))
    data = lmnn_figs.sets.data_set("digits", lmnn_figs.digits.Digits("digits", 300, 200, 20, tmp_path))
    learned = LMNN(n_neighbors=3).fit(data.X, data.y).components_
    before, after = (target_neighbors(P, data.y, 3) for P in (data.X, data.X @ learned.T))
    new = [len(set(there) - set(here)) / 3 for here, there in zip(before.tolist(), after.tolist(), strict=True)]
    assert float(second[5]) == pytest.approx(100 * np.mean(new), abs=5.0)  # two solves to 1e-3
    assert float(first[8]) <= 1e-3
    assert float(first[4]) < float(none[4])
    assert float(second[3]) == pytest.approx(float(second[2]) / float(first[2]), abs=0.1)
    assert (tmp_path / "lmnn_figure6.png").stat().st_size > 10_000


def test_one_metric_fails_on_circles_and_several_do_not(figures, tmp_path, monkeypatch):
    import lmnn_figs.circles

    for name, value in {"CLUSTERS": (1, 6), "DIRECTIONS": (3,), "DRAWN": (1, 6)}.items():
        monkeypatch.setattr(lmnn_figs.circles, name, value)
    figures.main(["--figures", "7", "--output", str(tmp_path)])
    text = (tmp_path / "lmnn_figure7.md").read_text()
    assert cells(text, "1")[2:] == ["100", "100.0", "100.0"]
    assert cells(text, "6")[2:] == ["not printed", "0.0", "0.0"]
    assert cells(text, "3")[3:] == ["0.0", "0.0"]
    assert (tmp_path / "lmnn_figure7.png").stat().st_size > 10_000


def test_a_metric_for_each_of_four_digits_is_learned_and_drawn(figures, tmp_path):
    figures.main(["--figures", "8", *SMALL_DIGITS, "--output", str(tmp_path)])
    text = (tmp_path / "lmnn_figure8.md").read_text()
    for dimensions in (2, 20):
        one, several = (
            cells(text, f"{dimensions} components | {name}") for name in ("one metric", "a metric for each digit")
        )
        assert float(several[4].replace(",", "")) < float(one[4].replace(",", ""))
    for digit in (0, 1, 2, 4):
        _, ratio, direction = map(float, cells(text, str(digit)))
        assert ratio >= 1
        assert 0 <= direction <= 180
    assert (tmp_path / "lmnn_figure8.png").stat().st_size > 10_000


def test_errors_of_several_metrics_stand_beside_that_of_one(figures, tmp_path, monkeypatch):
    import lmnn_figs.clusters

    monkeypatch.setattr(lmnn_figs.clusters, "COUNTS", (2,))
    figures.main(["--figures", "9", "--sets", "digits", *SMALL_DIGITS, "--output", str(tmp_path)])
    text = (tmp_path / "lmnn_figure9.md").read_text()
    one, two, each = (cells(text, f"digits | {n}") for n in ("1", "2, clusters", "10, one for each class"))
    for row in (two, each):
        assert float(row[5]) == pytest.approx(float(row[4]) / float(one[4]), abs=0.01)
        assert int(row[7].replace(",", "")) < int(one[7].replace(",", ""))
        assert float(row[8]) <= 5e-3
    assert (tmp_path / "lmnn_figure9.png").stat().st_size > 10_000


def test_figures_refuse_data_sets_that_they_do_not_know(figures, tmp_path):
    with pytest.raises(SystemExit, match="there is no data set foo here; choose among letters, isolet, digits"):
        figures.main(["--figures", "9", "--sets", "foo", *SMALL_DIGITS, "--output", str(tmp_path)])


# -- The reproductions of NCA, POLA, LEGO and FRML run by one command each, here in miniature --------------------------


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
