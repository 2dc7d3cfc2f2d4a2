"""The script that builds the data of the benchmarks: from a server, from a file, and never other data."""

import functools
import http.server
import runpy
import threading
from pathlib import Path

import numpy as np
import pytest

SCRIPT = Path(__file__).parents[2] / "examples" / "benchmarks" / "data.py"
LETTERS = "Letter,a,b\nT,2,8\nI,5,12\nD,4,11\nT,7,1\n"


@pytest.fixture
def server(tmp_path):
    """A server of this machine with a made-up file of letters."""
    (tmp_path / "served").mkdir()
    (tmp_path / "served" / "letters.data").write_text(LETTERS)
    handler = functools.partial(QuietHandler, directory=str(tmp_path / "served"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


@pytest.fixture
def script(monkeypatch):
    return runpy.run_path(str(SCRIPT))


def state(script, name, url, read, sha256=None, n_train=None):
    """Put a recipe of made-up data into the script; by default with the right hash."""
    X, y = np.array([[2, 8], [5, 12], [4, 11], [7, 1]], dtype=np.uint8), np.array([2, 1, 0, 2])
    hashes = script["digests"](X, y, n_train) if sha256 is None else sha256
    script["RECIPES"][name] = script["Recipe"]((url,), script[read], "uint8", hashes, n_train)


def test_download_is_read_checked_and_written(script, server, tmp_path, capsys):
    state(script, "letters", f"{server}/letters.data", "read_letters", n_train=3)
    assert script["main"]([str(tmp_path / "out"), "letters"]) == 0
    with np.load(tmp_path / "out" / "letters.npz") as file:
        assert file["X"].tolist() == [[2, 8], [5, 12], [4, 11], [7, 1]]
        assert file["y"].tolist() == [2, 1, 0, 2]
        assert file["n_train"] == 3
    script["RECIPES"].update(dict.fromkeys(list(script["RECIPES"]), script["RECIPES"]["letters"]))
    assert script["main"]([str(tmp_path / "out"), "--check"]) == 0
    assert "as measured" in capsys.readouterr().out


def test_other_data_are_not_written(script, server, tmp_path, capsys):
    state(script, "letters", f"{server}/letters.data", "read_letters", sha256=("0" * 64,))
    assert script["main"]([str(tmp_path / "out"), "letters"]) == 1
    assert "differ from those of the figures" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    state(script, "letters", f"{server}/nothing.data", "read_letters")
    assert script["main"]([str(tmp_path / "out"), "letters"]) == 1
    assert "not built" in capsys.readouterr().err
