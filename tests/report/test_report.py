"""The report's data are the solution's, the page is one file without a network, and bad arguments are refused."""

import base64
import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.neighbors import KNeighborsClassifier
from statements import FACTORIES, make
from statements import data as statement_data
from typer.testing import CliRunner

import sdpmetric as sm
from sdpmetric import datasets
from sdpmetric.classification import knn_predict
from sdpmetric.cli import app
from sdpmetric.core.certificate import excess
from sdpmetric.core.rounding import digits
from sdpmetric.plotting import EmbeddingDisplay
from sdpmetric.report import Recorder, write
from sdpmetric.report import contents as report
from sdpmetric.report.contents import page_data
from sdpmetric.report.scores import Scores

FOLDER = Path(report.__file__).parent


@pytest.fixture(scope="module")
def recorder():
    return Recorder()


@pytest.fixture(scope="module")
def solution(recorder):
    X, y = datasets.load("wine")
    problem = sm.LMNNProblem.from_labels(datasets.standardize(X), y)
    return sm.solve(problem, solver="subgradient", tol=1e-2, watch=recorder)


def unpack(text, dtype, *shape):
    return np.frombuffer(base64.b64decode(text), dtype=dtype).reshape(shape)


def embedded_data(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])


def test_numbers_are_those_of_the_solution(solution):
    data = page_data(solution, *[None] * 5)
    assert (data["objective"], data["lower_bound"]) == (solution.objective, solution.lower_bound)
    assert data["relative_gap"] == solution.relative_gap
    assert data["trace"]["rows"][-1]["objective"] == solution.objective
    np.testing.assert_allclose(data["spectrum"], np.linalg.eigvalsh(solution.metric)[::-1], atol=1e-9)
    weights = {row["name"]: row["weight"] for row in data["weights"]}
    np.testing.assert_allclose(weights["feature 6"], np.sqrt(solution.metric[6, 6]), rtol=1e-9)
    explained = sm.explain(solution)
    assert data["support"]["total"] == len(explained.support)
    total, first = explained.influence.total, data["support"]["rows"][0]
    heaviest = int(total.argmax())
    assert (first["example"], first["class"]) == (f"example {heaviest}", str(solution.problem.row_labels[heaviest]))
    assert first["share"] == pytest.approx(total.max() / total.sum())
    assert any(digits(solution.lower_bound, solution.objective)[0] in sentence for sentence in data["words"])
    assert data["trace"]["picture"] == "curve"
    assert "says little about others" in data["words"][-1]


def test_targets_and_impostors_are_those_of_the_definition(solution):
    data = page_data(solution, *[None] * 5)
    problem, n, f = solution.problem, len(solution.problem.X), len(data["frames"])
    targets = unpack(data["targets"], "<i2", n, report.OPTIONS.targets)
    impostors, counts = (
        unpack(data["impostors"], "<i2", f, n, report.OPTIONS.impostors),
        unpack(data["counts"], "<i2", f, n),
    )
    y = problem.row_labels
    for frame, X in ((0, problem.X), (f - 1, problem.X @ solution.components.T)):
        for i in range(0, n, 7):
            D = np.square(X - X[i]).sum(axis=1)
            mates = [j for a, j in zip(*problem.target_pairs, strict=True) if a == i]
            assert sorted(mates) == sorted(targets[i][targets[i] >= 0])
            expected = np.flatnonzero((y != y[i]) & (D[mates].max() >= D))
            assert counts[frame, i] == len(expected)
            drawn = impostors[frame, i][impostors[frame, i] >= 0]
            assert set(drawn) <= set(expected)
            assert len(drawn) == min(len(expected), report.OPTIONS.impostors)


def test_headline_counts_held_out_examples_and_tests_the_difference(tmp_path):
    X, y = datasets.load("wine")
    X, train = datasets.standardize(X), np.arange(178) % 3 > 0
    solution = sm.solve(sm.LMNNProblem.from_labels(X[train], y[train]))
    for title in ("%DATA%", "%SCRIPT% %VEGA%", "wine"):  # the places of the page are filled in one pass
        write(solution, tmp_path / "page.html", title=title, held_out=(X[~train], y[~train]))
        data = embedded_data((tmp_path / "page.html").read_text(encoding="utf-8"))
        assert data["title"] == f"LMNN on {title}"
    data = embedded_data((tmp_path / "page.html").read_text(encoding="utf-8"))
    neighbors = KNeighborsClassifier(3)
    correct = [
        neighbors.fit(X[train] @ L.T, y[train]).predict(X[~train] @ L.T) == y[~train]
        for L in (np.eye(13), solution.components)
    ]
    scores = data["scores"]
    assert (scores["held_out"], scores["n"]) == (True, 60)
    assert scores["correct"] == [int(flags.sum()) for flags in correct]
    assert (scores["n_better"], scores["n_worse"]) == (
        int((correct[1] & ~correct[0]).sum()),
        int((correct[0] & ~correct[1]).sum()),
    )
    low, high = scores["intervals"][1]
    count = scores["correct"][1]
    assert binom.sf(count - 1, 60, low) == pytest.approx(0.025)
    assert high == 1.0 if count == 60 else binom.cdf(count, 60, high) == pytest.approx(0.025)
    assert sum(map(sum, scores["table"])) == 60
    assert sum(scores["table"][c][c] for c in range(3)) == count
    assert data["title"] == "LMNN on wine"
    assert f"{count} of 60 correctly with the metric" in data["verdict"]
    tiles = {tile["label"]: tile for tile in data["tiles"]}
    invading = np.unpackbits(unpack(data["invading"], "u1", -1), count=len(data["frames"]) * 118).reshape(-1, 118)
    display = EmbeddingDisplay.from_solution(solution, X[train], y[train])
    pictured = [len(view.invaders) for view in (display.before, display.after)]
    assert invading.sum(axis=1)[[0, -1]].tolist() == pictured
    assert tiles["impostors"]["value"] == f"{pictured[0]} to {pictured[1]}"
    assert tiles["proven"]["value"] == excess(solution.objective, solution.lower_bound)


@pytest.mark.parametrize(
    ("gained", "losses", "word"),
    [(8, 0, "Yes:"), (0, 8, "No, it hurts:"), (3, 1, "Unclear:"), (2, 2, "No difference:")],
)
def test_verdict_needs_more_than_chance(gained, losses, word):
    scores = Scores(True, 50, (30, 30 + gained - losses), 0, gained, losses, [], [], [])
    assert scores.verdict.startswith(word)
    assert scores.p == pytest.approx(min(1.0, 2 * binom.cdf(min(gained, losses), gained + losses, 0.5)))
    if word in ("Unclear:", "No difference:"):
        gain = {3: 7, 2: 8}[gained]  # binomtest(8, 9) and binomtest(10, 12) are below 0.05, (7, 8) and (9, 11) are not
        assert scores.verdict.endswith(f"seen with {losses} lost is {gain / 50:.1%}: {gain} of 50 examples.")
        few = replace(scores, correct=(48, 48 + gained - losses)).verdict
        assert few.endswith(f"without the metric 2 of 50 are wrong, too few for the sign test with {losses} lost.")
    assert replace(scores, held_out=False).verdict.startswith("Not known:")


def test_several_metrics_are_shown_one_after_the_other(tmp_path):
    """Impostors, accuracy and weights are those of the distances to the second example's region."""
    X, y = datasets.load("iris")
    y = np.array(["setosa", "versicolor", "virginica"])[y]
    solution = sm.solve(sm.MultiMetricLMNNProblem.from_labels(X, y), tol=1e-1)
    data = page_data(solution, y, *[None] * 4)
    n, problem = len(X), solution.problem
    captions = [frame["caption"] for frame in data["frames"]]
    assert captions[1:] == [f"after: the metric of region {name}" for name in problem.region_names]
    points = unpack(data["points"], "<f4", 4, n, 2)
    assert np.isfinite(points).all()
    assert np.ptp(points, axis=1).min() > 0
    counts, targets = unpack(data["counts"], "<i2", 4, n), unpack(data["targets"], "<i2", n, -1).astype(int)
    D = np.empty((n, n))
    for i in range(n):
        D[i] = [float((X[i] - X[l]) @ solution.metrics[problem.regions[l]] @ (X[i] - X[l])) for l in range(n)]
    for i in range(n):
        reach = max(D[i, j] for j in targets[i] if j >= 0)
        assert abs(counts[1, i] - np.count_nonzero((D[i] <= reach) & (y != y[i]))) <= 1  # ties
    assert (counts[1:] == counts[1]).all()
    predicted = knn_predict(solution.components, X, y, n_neighbors=3, regions=problem.regions)
    assert data["scores"]["correct"][1] == np.count_nonzero(predicted == y)
    name = f"feature 2, region {problem.region_names[1]}"
    assert {row["name"]: row["weight"] for row in data["weights"]}[name] == pytest.approx(
        np.sqrt(solution.metrics[1, 2, 2])
    )
    assert data["support"]["total"] == len(sm.explain(solution).support)
    assert "There are 3 metrics" in " ".join(data["words"])
    write(solution, tmp_path / "page.html", y, held_out=(X[::3] + 0.01, y[::3]))
    assert "region virginica" in (tmp_path / "page.html").read_text()


def test_page_is_one_file_that_asks_for_nothing(solution, tmp_path):
    names = [f"</script><b>{i}" for i in range(178)]
    write(solution, tmp_path / "page.html", example_names=names)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert not re.search(r"<(?:script|link|img)[^>]+(?:src|href)=\"(?!data:)", page)
    assert "%DATA%" not in page
    data = embedded_data(page)
    assert data["names"] == names
    assert data["objective"] == solution.objective


def test_vega_is_the_version_that_is_named():
    source = (FOLDER / "__init__.py").read_text()
    assert "Vega 6.4.0" in source
    digest = hashlib.sha256((FOLDER / "vega.min.js").read_bytes()).hexdigest()
    assert digest == "8f6a3587cf8d4f42c7e08120e3eb05d067e746d554e39d2dcf52acc0bd5ba28f"


@pytest.mark.parametrize("name", sorted(FACTORIES))
def test_every_statement_has_a_page(name, tmp_path):
    X, y = statement_data()
    solution = sm.solve(make(name), max_iter=20)
    for labels in (None, y):
        write(solution, tmp_path / "page.html", labels)
        data = embedded_data((tmp_path / "page.html").read_text(encoding="utf-8"))
        assert data["words"]
        assert data["classes"] == ["0", "1", "2"] or (labels is None and data["index"].count(0) == len(X))


def test_solutions_without_a_problem_or_with_several_metrics_have_no_page(solution, tmp_path):
    solution.save(tmp_path / "solution.npz")
    with pytest.raises(ValueError, match="without its problem"):
        write(sm.Solution.load(tmp_path / "solution.npz"), tmp_path / "page.html")


def test_command_line_writes_the_page(tmp_path):
    (tmp_path / "mine.csv").write_text(
        "height,kind\n" + "".join(f"{i % 7 + 5 * (i % 2)},{'ab'[i % 2]}\n" for i in range(40))
    )
    page = tmp_path / "mine.html"
    result = CliRunner().invoke(app, ["report", str(tmp_path / "mine.csv"), str(page), "--label", "kind"])
    assert result.exit_code == 0, result.output
    assert embedded_data(page.read_text(encoding="utf-8"))["verdict"] in result.stdout
    data = embedded_data(page.read_text(encoding="utf-8"))
    assert data["classes"] == ["a", "b"]
    assert (data["title"], data["total"], data["scores"]["n"]) == ("LMNN on mine", 28, 12)
    assert data["scores"]["n_seen"] == 12  # the table has few different rows
    assert set(data["names"]) < {f"example {row}" for row in range(40)}
    CliRunner().invoke(app, ["report", str(tmp_path / "mine.csv"), str(page), "--label", "kind", "--everything"])
    assert "no examples were held out" in embedded_data(page.read_text(encoding="utf-8"))["verdict"]
    assert data["weights"][0]["name"] == "height"
    assert CliRunner().invoke(app, ["report", "iris", str(tmp_path / "no" / "page.html")]).exit_code == 2
