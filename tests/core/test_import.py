"""What an import loads decides how long it takes: kept by names of modules, since times depend on the machine."""

import subprocess
import sys

LIGHT = ("numpy", "scipy", "sklearn", "numba", "cvxpy", "rich", "typer", "sdpmetric.estimators", "sdpmetric.plotting")
OPTIONAL = ("matplotlib", "polars", "flint", "onnx", "faiss", "selenium", "sphinx", "sdpmetric.report")
STAGES = f"""
import sys
def loaded(names): print([name for name in names if name in sys.modules])
import sdpmetric
loaded({(*LIGHT, *OPTIONAL)!r})
from sdpmetric.estimators import LMNN
import sdpmetric as sm
print(callable(sm.solve), "regret" in dir(sm), sm.LMNNProblem.__name__)
loaded({OPTIONAL!r})
import sdpmetric.plotting as p
loaded(["matplotlib"])
sys.modules["matplotlib"] = None
try: p.ConvergenceDisplay.from_trace(sm.Trace([sm.TraceRow(0, 1.0, 2.0, 1.0)]))
except ImportError as error: print(error)
"""


def test_an_import_loads_only_what_it_needs():
    """One process for all, since each costs seconds: the package, then estimators and public names, then pictures."""
    done = subprocess.run([sys.executable, "-c", STAGES], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "[]",
        "True True LMNNProblem",
        "[]",
        "[]",
        "pictures need matplotlib: pip install 'sdpmetric[plot]'.",
    ]
