"""The commands on the page about the command line print what it says."""

import re
from pathlib import Path

import pytest
from outputs import assert_agree
from typer.testing import CliRunner

from sdpmetric.cli import app

PAGE = (Path(__file__).parents[2] / "docs" / "command_line.md").read_text(encoding="utf-8")


def test_the_commands_of_the_page(tmp_path, monkeypatch, capsys):
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    exec(re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)[1], {})
    sessions = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    commands = [
        part.split("\n", 1) for session in sessions for part in re.split(r"^\$ sdpmetric ", session, flags=re.M)[1:]
    ]
    assert len(commands) >= 4
    for command, output in commands:
        result = CliRunner().invoke(app, command.split())
        assert result.exit_code == 0, result.output
        assert_agree(result.stdout, output)
    assert Path("embedded.csv").read_text(encoding="utf-8").startswith("lmnn0,lmnn1")
