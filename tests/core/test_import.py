"""What an import loads decides how long it takes: kept by names of modules, since times depend on the machine."""

import subprocess
import sys

import pytest

HEAVY = ("numpy", "scipy", "sklearn", "numba", "cvxpy", "rich", "typer")
OPTIONAL = ("matplotlib", "polars", "flint", "onnx", "faiss", "selenium", "sphinx", "sdpmetric.report")


@pytest.mark.parametrize(
    ("code", "not_loaded"),
    [("import sdpmetric", (*HEAVY, *OPTIONAL)), ("import sdpmetric; sdpmetric.LMNNProblem", OPTIONAL)],
)
def test_an_import_loads_only_what_it_needs(code, not_loaded):
    asked = f"{code}; import sys; print([name for name in {not_loaded!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
