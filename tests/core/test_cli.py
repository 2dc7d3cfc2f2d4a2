"""The command line: what it prints, where it prints it, and its exit code (0 proven, 1 not proven, 2 bad input)."""

import dataclasses
import io
import json
import re
import shlex
import subprocess
import sys
import warnings

import numpy as np
import pytest
from typer.testing import CliRunner

import sdpmetric as sm
from sdpmetric import datasets
from sdpmetric.cli import app, main, options, results
from sdpmetric.core import registry
from sdpmetric.core.problem import Labeled, statements
from sdpmetric.core.status import Status
from sdpmetric.core.steps import Step


def replace_steps(monkeypatch, name, steps):
    """Let a solver of LMNN take other steps."""
    sm.solvers_of(sm.LMNNProblem)  # registers them
    for scope in sm.LMNNProblem.__mro__:
        solvers = registry._SOLVERS.get(scope, {})
        if name in solvers:
            monkeypatch.setitem(solvers, name, dataclasses.replace(solvers[name], steps=steps))


@pytest.fixture
def run():
    def run(*arguments):
        return CliRunner().invoke(app, [str(a) for a in arguments])

    return run


@pytest.fixture
def iris():
    X, y = datasets.load("iris")
    return sm.LMNNProblem.from_labels(datasets.standardize(X), y, n_neighbors=2, push_weight=0.3)


@pytest.fixture
def iris_csv(tmp_path):
    X, y = datasets.load("iris")
    rows = zip(X.tolist(), y, strict=True)
    lines = [",".join([*map(repr, row[:2]), f"class {label}", *map(repr, row[2:])]) for row, label in rows]
    path = tmp_path / "iris.csv"
    path.write_text("\n".join(["a,b,kind,c,d", *lines]))
    return path


OPTIONS = ("--n-neighbors", 2, "--push-weight", 0.3, "--ridge", 0)


def numbers(text, pattern):
    return [float(n) for n in re.search(pattern, text).groups()]


def assert_refused(result, sentence):
    assert result.exit_code == 2
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert re.search(sentence, result.stderr), result.stderr
    assert "Traceback" not in result.output
    assert isinstance(result.exception, SystemExit)


def test_the_demo_says_what_helped_in_plain_lines_of_80_columns(run):
    result = run("demo", "--only", "rings", "--only", "iris")
    assert result.exit_code == 0
    assert not {"✓", "✗", "\x1b"} & set(result.stdout)
    assert max(map(len, result.stdout.splitlines())) <= 80
    printed = " ".join(result.stdout.split())
    assert re.search("Proven on .*iris.* in ", printed)
    assert re.search(r"iris \S+% before, \S+% after", printed)
    assert "Does the metric help, by the exact sign test? Yes, it helps: rings." in printed
    assert "sdpmetric solve mine.csv --label COLUMN --plot before_after.png" in printed


def test_a_terminal_shows_a_mark_beside_the_verdict(monkeypatch):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    with monkeypatch.context() as streams:
        streams.setattr(sys, "stdout", terminal)
        streams.setattr(sys, "stderr", terminal)
        app(["solve", "iris", "--no-score"], standalone_mode=False)
    assert "\x1b[1;32m✓" in terminal.getvalue()
    assert "object at" not in terminal.getvalue()  # what rich draws itself, the line of progress, is not text


@pytest.mark.parametrize("name", ["components", "metric"])
def test_verify_judges_a_metric_by_its_name(run, iris, tmp_path, name):
    # Squares differ from these numbers, so that mistaking one kind for the other changes the objective.
    matrix = np.diag([0.7, 0.3, 0.2, 0.9])[: 4 if name == "metric" else 3]
    point = tmp_path / "point.npz"
    np.savez(point, **{name: matrix, "other": np.eye(4)})
    result = run("verify", "iris", point, *OPTIONS)
    objective, lower = numbers(result.stdout, r"objective (\S+), proven lower bound (\S+) ")
    assert result.exit_code == 1
    assert objective == pytest.approx(iris.objective(**{name: matrix}), rel=1e-7)
    assert lower == pytest.approx(sm.solve(iris, tol=1e-4).lower_bound, rel=2e-3)
    assert "Not proven to 1e-03" in result.stdout


def test_an_interrupted_solve_prints_the_best_certified_point(run, monkeypatch, tmp_path):
    def interrupted(problem, budget, tol, **options):
        yield Step(np.eye(4), objective=problem.objective(np.eye(4)))
        raise KeyboardInterrupt

    replace_steps(monkeypatch, "subgradient", interrupted)
    result = run("solve", "iris", "--solver", "subgradient", "--output", tmp_path / "best.npz")
    assert result.exit_code == 130
    assert "subgradient: interrupted" in result.stdout
    assert "the optimum lies between" in result.stdout
    assert len(np.load(tmp_path / "best.npz")["components"]) == 4


CSV = ("solve", "bad.csv", "--label", "y", "--n-neighbors", "1")
POINT = ("verify", "iris", "bad.npz")
BAD = [
    (None, ("solve", "irsi"), r"^Error: unknown data 'irsi' \(did you mean 'iris'\?\); name one of"),
    (None, ("solve", "iris", "--solver", "facored"), r"'facored' \(did you mean 'factored'\?\)"),
    (None, ("solve", "iris", "--statement", "imtl"), "'imtl'"),
    (None, ("solve", "iris", "--set", "n_neighbor=2"), "n_neighbor"),
    (None, ("solve", "iris", "--set", f"ridge={'[' * 100_000}"), "ridge"),
    (None, ("solve", "iris", "--seed", "-1"), "--seed"),
    (None, ("demo", "--only", "mnist"), "'mnist'"),
    (None, ("solve", "iris", "--pca", "5"), "at most 4, got 5"),
    (None, ("solve", "iris", "--output", "no/such/folder/x.npz"), "no folder no/such/folder"),
    (None, ("solve", "iris", "--output", "."), r"\. is a folder"),
    (None, ("verify", "iris", "missing.npz"), r"no file missing\.npz"),
    ("a,y\n1,x\nfast,x\n", CSV, "'fast'"),
    ("a,y\n1,x\n2,z\n3,w\n", CSV, "labels occurs once"),
    ({"components": np.eye(2, 3)}, POINT, "components"),
    ({"metric": np.diag([1.0, 1.0, 1.0, -0.5])}, POINT, "metric is not positive semidefinite"),
    ({"M": np.eye(4)}, POINT, "the arrays M"),
]


@pytest.mark.parametrize(("content", "arguments", "sentence"), BAD)
def test_bad_input_is_one_sentence(run, tmp_path, monkeypatch, content, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    if isinstance(content, str):
        (tmp_path / "bad.csv").write_text(content)
    elif content:
        np.savez(tmp_path / "bad.npz", **content)
    assert_refused(run(*arguments), sentence)


def test_warnings_are_lines_on_standard_error(monkeypatch, capsys):
    def warned(problem, budget, tol, **options):
        warnings.warn("a word of warning", UserWarning, stacklevel=1)
        yield Step(np.eye(4), objective=problem.objective(np.eye(4)))

    replace_steps(monkeypatch, "factored", warned)
    monkeypatch.setattr(sys, "argv", ["sdpmetric", "solve", "iris", "--solver", "factored"])
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # which the command replaces
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    assert "Warning: a word of warning" in capsys.readouterr().err.splitlines()


def test_json_of_solve(run):
    result = run("solve", "iris", "--json", "--solver", "subgradient", "--max-iter", 1)
    facts = json.loads(result.stdout)
    assert (result.exit_code, facts["status"]) == (1, "user_limit")
    assert facts["certificate"]["lower_bound"] <= facts["certificate"]["objective"]
    hard = ("--statement", "pola", "--set", "slack_weight=null", "--set", "n_pairs=300", "--json")
    facts = json.loads(run("solve", "iris", *hard).stdout)
    assert facts["status"] == "infeasible"
    assert facts["certificate"]["objective"] is None  # JSON has no infinity


def test_names_are_completed(run):
    labeled = [name for name, kind in statements().items() if issubclass(kind, Labeled)]
    assert options._statements("") == labeled
    assert options._statements("it") == ["itml"]
    assert options._data_sets("w") == ["wine"]
    assert tuple(datasets.NAMED) == options.NAMED
    assert "--install-completion" in run("--help").stdout


def test_the_version():
    result = subprocess.run(
        [sys.executable, "-m", "sdpmetric", "--version"], capture_output=True, text=True, check=True
    )
    assert result.stdout == f"sdpmetric {sm.__version__}\n"


@pytest.mark.parametrize("module", ["sdpmetric", "sdpmetric.cli", "sdpmetric.check.__main__"])
def test_help_and_the_checker_load_no_solver(module):
    code = f"import sys, {module}; print({{'numba', 'sklearn', 'cvxpy', 'sdpmetric.core'}}.intersection(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_the_names_of_the_package_are_public_ones():
    """Each can be had, and `dir(sm)` lists nothing else."""
    assert all(hasattr(sm, name) for name in sm.__all__)
    assert dir(sm) == sm.__all__


LIGHT = ("numpy", "scipy", "sklearn", "numba", "cvxpy", "rich", "typer", "sdpmetric.estimators", "sdpmetric.plotting")
# What estimators do not need until something is solved, or solved exactly.
LATER = ("numba", "cvxpy", "clarabel", "scs", "osqp", "sdpmetric.sums.dual", "sklearn.cluster")
OPTIONAL = ("matplotlib", "polars", "flint", "faiss", "sphinx")
STAGES = f"""
import sys, logging
def loaded(names): print([name for name in names if name in sys.modules])
import sdpmetric
assert not logging.getLogger("sdpmetric").handlers
loaded({(*LIGHT, *OPTIONAL)!r})
from sdpmetric.estimators import LMNN
loaded({(*LATER, *OPTIONAL)!r})
import sdpmetric as sm
print(callable(sm.solve), "regret" in dir(sm), sm.LMNNProblem.__name__)
X, y = [[0.0], [1.0], [0.1], [1.2]], [0, 1, 0, 1]
LMNN(n_neighbors=1).fit(X, y)
loaded({("cvxpy", "clarabel", "scs", "osqp", *OPTIONAL)!r})
LMNN(n_neighbors=1, solver="conic").fit(X, y)
loaded(["numba", "cvxpy"])
import sdpmetric.plotting as p
loaded(["matplotlib"])
sys.modules["matplotlib"] = None
try: p.ConvergenceDisplay.from_trace(sm.Trace([sm.TraceRow(0, 1.0, 2.0, 1.0)]))
except ImportError as error: print(error)
"""


def test_an_import_loads_only_what_it_needs():
    """One process for all, since each costs seconds: the package, then estimators and public names, then pictures."""
    command = [sys.executable, "-W", "error::UserWarning", "-c", STAGES]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "[]",
        "[]",
        "True True LMNNProblem",
        "[]",
        "['numba', 'cvxpy']",
        "[]",
        "pictures need matplotlib: pip install 'sdpmetric[plot]'.",
    ]


@pytest.mark.parametrize("options", [["--no-standardize"], []])
def test_a_proof_is_written_with_the_command_that_checks_it(run, tmp_path, options):
    proof = tmp_path / "a proof.npz"
    result = run("solve", "iris", *options, "--proof", proof, "--no-score")
    assert result.exit_code == 0
    words = shlex.split(next(line for line in result.stdout.splitlines() if "sdpmetric check" in line))
    assert words == ["sdpmetric", "check", str(tmp_path / "a proof.data.npz"), str(proof)]
    assert run(*words[1:]).exit_code == 0


def test_no_output_is_an_input_or_another_output(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y = datasets.load("iris")
    np.savez("s.data.npz", X=X, y=y)
    (tmp_path / "link.npz").symlink_to("s.data.npz")
    before = (tmp_path / "s.data.npz").read_bytes()
    for arguments in (
        ("s.data.npz", "--proof", "s.npz"),
        ("s.data.npz", "--output", "link.npz"),
        ("link.npz", "--output", "./s.data.npz"),
        ("iris", "--output", "x.npz", "--proof", "x.npz"),
        ("iris", "--output", "x.data.npz", "--proof", "x.npz"),
        ("iris", "--proof", "s.npz"),
    ):
        assert_refused(run("solve", *arguments), "would overwrite|holds other data")
    assert (tmp_path / "s.data.npz").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.npz", "s.data.npz"]
    assert run("solve", "iris", "--proof", "p.npz", "--no-score").exit_code == 0
    assert run("solve", "iris", "--proof", "p.npz", "--no-score").exit_code == 0  # the same data may be written again


def test_a_picture_of_before_and_after_is_drawn(run, tmp_path):
    pytest.importorskip("matplotlib")
    result = run("solve", "iris", "--plot", tmp_path / "iris.png", "--no-score")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "iris.png").read_bytes().startswith(b"\x89PNG")
    assert_refused(run("solve", "iris", "--plot", tmp_path / "iris.xls"), "must end in one of")


def test_the_metric_is_scored_on_examples_that_were_held_out(run, iris_csv):
    result = run("solve", iris_csv, "--label", "kind", "--json")
    facts = json.loads(result.stdout)["scores"]
    assert facts["held_out"] == 45
    counts = "{correct_before} of 45 held-out examples correctly without the metric".format(**facts)
    assert counts in run("solve", iris_csv, "--label", "kind").stdout
    assert "ridge" in json.loads(result.stdout)["problem"]  # as of the estimator
    assert "ridge" not in json.loads(run("solve", "iris", "--ridge", 0, "--json", "--no-score").stdout)["problem"]


def test_problems_that_have_no_scores_or_pictures_say_so(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for statement in ("kernel-lmnn", "multi-metric-lmnn"):
        result = run("solve", "iris", "--statement", statement, "--tol", 0.1)
        assert result.exit_code == 0
        assert "Not scored: the metric is no single one of the features" in result.stdout
    rows = [f"{k},{k % 3},{0.11 + 0.07 * (k % 5)}" for k in range(20)]
    (tmp_path / "prices.csv").write_text("\n".join(["area,rooms,price", *rows]))
    prices = ("solve", "prices.csv", "--label", "price", "--statement", "mlkr", "--max-iter", 5)
    assert "Not scored: the labels are numbers" in run(*prices).stdout
    pytest.importorskip("matplotlib")
    assert_refused(run(*prices, "--plot", "x.png"), "--plot draws classes under one metric")
    assert_refused(run("solve", "iris", "--statement", "multi-metric-lmnn", "--plot", "x.png"), "under one metric")
    (tmp_path / "pairs.csv").write_text("a,y\n1,x\n2,x\n5,z\n7,z\n1.5,x\n")
    small = run("solve", "pairs.csv", "--label", "y", "--n-neighbors", 1, "--plot", "x.png")
    assert small.exit_code == 0, small.output
    assert "Not scored: no class has enough examples" in small.stdout


def test_a_proof_that_cannot_be_written_or_checked_is_refused_before_the_solve(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    np.savez("wide.npz", X=rng.normal(size=(20, 600)), y=np.arange(20) % 2)
    assert_refused(
        run("solve", "wide.npz", "--proof", "p.npz"), "at most 512 features, since the checker does; got 600"
    )
    assert_refused(run("solve", "iris", "--statement", "nca", "--proof", "p.npz"), "--proof does not take NCAProblem")
    # The same examples with other labels: found out when the proof is there, and kept.
    X, y = datasets.load("iris")
    np.savez("p.data.npz", X=datasets.standardize(X), y=np.roll(y, 1))
    before = (tmp_path / "p.data.npz").read_bytes()
    result = run("solve", "iris", "--proof", "p.npz", "--no-score")
    assert result.exit_code == 2
    assert "the checker does not take p.data.npz and p.npz: data: these are not the data" in result.stderr
    assert (tmp_path / "p.data.npz").read_bytes() == before


@pytest.mark.parametrize("command", [("demo", "--only", "rings"), ("solve", "iris"), ("solve", "iris", "--json")])
def test_an_interrupt_of_a_later_solve_ends_the_command(run, monkeypatch, command):
    whole = results.solve_problem
    solves = []

    def later_ones_are_interrupted(*arguments, **options):
        solves.append(whole(*arguments, **options))
        return solves[0] if len(solves) == 1 else dataclasses.replace(solves[-1], status=Status.INTERRUPTED)

    monkeypatch.setattr(results, "solve_problem", later_ones_are_interrupted)
    result = run(*command)
    assert (result.exit_code, len(solves)) == (130, 2)
    assert "Interrupted." in result.stderr


@pytest.mark.parametrize("seconds", [0.05, 0.4, 1.5])
def test_ctrl_c_ends_a_command_without_a_traceback(seconds):
    code = (
        "import os, signal, sys, threading; from sdpmetric.__main__ import main; sys.argv[1:] = ['demo'];"
        f"threading.Timer({seconds}, os.kill, (os.getpid(), signal.SIGINT)).start(); main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 130
    assert "Traceback" not in done.stderr
