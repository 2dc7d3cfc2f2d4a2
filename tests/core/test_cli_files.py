"""The command line and its files and streams: no output is an input, and what cannot be written is one sentence."""

import importlib.util
import os
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sdpmetric.cli import app, main
from sdpmetric.cli.options import Lines
from sdpmetric.models import Model

SCRIPT = Path(__file__).parents[2] / "examples" / "benchmarks" / "sabotage.py"
SPEC = importlib.util.spec_from_file_location("sabotage", SCRIPT)
sabotage = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(sabotage)


@pytest.fixture
def folder(tmp_path):
    """A folder with a model and the data that it applies to."""
    sabotage.solved()[0].save(tmp_path / "model.npz")
    sabotage.write_data(tmp_path / "data.csv")
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.mark.parametrize("which", ["model.npz", "data.csv"])
@pytest.mark.parametrize("by", ["name", "link", "hard link"])
def test_no_output_is_an_input(folder, which, by):
    output = folder / which if by == "name" else folder / f"output{Path(which).suffix}"
    if by == "link":
        output.symlink_to(folder / which)
    elif by == "hard link":
        output.hardlink_to(folder / which)
    before = (folder / which).read_bytes()
    result = run("transform", folder / "model.npz", folder / "data.csv", "--output", output)
    assert result.exit_code == 2
    assert "would overwrite the input" in result.stderr
    assert (folder / which).read_bytes() == before


def test_a_data_set_of_the_folder_is_an_input_by_its_name(folder, monkeypatch):
    monkeypatch.setenv("SDPMETRIC_DATA", str(folder))
    sabotage.write_data(folder / "mine.npz")
    result = run("solve", "mine", "--n-neighbors", 1, "--output", folder / "mine.npz")
    assert result.exit_code == 2
    assert "would overwrite the input mine" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("solve", "iris", "--seed", "-1"), "--seed must be an integer of at least 0"),
        (("solve", "iris", "--set", "ridge=[[[["), "ridge must be a number"),
        (("solve", "iris", "--set", f"ridge={'[' * 100_000}"), "ridge must be a number"),
        (("solve", "iris", "--output", "/dev/full/x.npz"), "there is no folder /dev/full"),
    ],
)
def test_foreseeable_errors_are_one_sentence(arguments, sentence):
    result = run(*arguments)
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert sentence in result.stderr


def test_an_error_that_is_no_sentence_names_the_files(folder, monkeypatch):
    def broken(path):
        raise KeyError("x")

    monkeypatch.setattr(Model, "load", broken)
    result = run("transform", folder / "model.npz", folder / "data.csv")
    assert result.exit_code == 2
    assert f"{folder}/model.npz or {folder}/data.csv cannot be used (KeyError: 'x')" in result.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize(("stream", "code"), [("pipe", 141), ("full", 2), ("closed", 2)])
def test_a_standard_output_that_cannot_be_written(folder, monkeypatch, capfd, stream, code):
    reader, writer = os.pipe()
    os.close(reader)
    streams = {"pipe": os.fdopen(writer, "w"), "full": open("/dev/full", "w"), "closed": None}  # noqa: SIM115
    monkeypatch.setattr(sys, "argv", ["sdpmetric", "transform", str(folder / "model.npz"), str(folder / "data.csv")])
    monkeypatch.setattr("warnings.showwarning", None)  # which the command replaces
    monkeypatch.setattr(sys, "stdout", streams[stream])
    with pytest.raises(SystemExit) as ended:
        main()
    monkeypatch.undo()
    assert ended.value.code == code
    said = capfd.readouterr().err
    assert said.count("\n") == (0 if stream == "pipe" else 1)
    assert stream == "pipe" or "standard output" in said


def test_labels_that_a_spreadsheet_would_run_are_text(folder):
    text = (folder / "data.csv").read_text()
    for old, new in (("class 0", "=1+1"), ("class 1", "-1"), ("class 2", "@x")):
        text = text.replace(old, new)
    (folder / "data.csv").write_text(text)
    lines = run("transform", folder / "model.npz", folder / "data.csv", "--label", "kind").stdout.splitlines()
    cells = [line.split(",") for line in lines[1:]]
    assert {row[-1] for row in cells} == {"'=1+1", "-1", "'@x"}
    assert any(float(cell) < 0.0 for row in cells for cell in row[:-1])  # numbers stay numbers


def test_check_says_on_standard_error_that_its_input_is_bad(folder):
    pytest.importorskip("flint")
    result = run("check", folder / "data.csv", folder / "model.npz")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("Bad input: ")


def test_no_color_is_honored(monkeypatch, capsys):
    monkeypatch.setenv("TERM", "xterm-256color")
    for asked in (False, True):
        monkeypatch.setenv("NO_COLOR", "1") if asked else monkeypatch.delenv("NO_COLOR", raising=False)
        Lines(force_terminal=True).print("text", style="red")
        assert ("31m" in capsys.readouterr().out) is not asked
