"""The tests that scikit-learn has for its own NCA, with the import changed: all pass but for wordings of messages."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

tests = pytest.importorskip("sklearn.neighbors.tests.test_nca")

IMPORT = """
from sdpmetric import NCAProblem
from sdpmetric.estimators import NCA


class NeighborhoodComponentsAnalysis(NCA):
    def _loss_grad_lbfgs(self, transformation, X, same_class_mask, sign=1.0):  # which two tests call
        classes = same_class_mask.argmax(axis=1)
        problem = NCAProblem(X, classes, transformation.size // X.shape[1])
        loss, gradient = problem.value_and_gradient(transformation.reshape(-1, X.shape[1]))
        return -sign * loss, -sign * gradient.ravel()
"""
# scikit-learn's own conftest has this fixture
FIXTURE = """

@pytest.fixture
def global_random_seed():
    return 42
"""


@pytest.mark.sklearn_checks
def test_scikit_learn_s_own_tests_of_nca_pass(tmp_path):
    source = Path(tests.__file__).read_text(encoding="utf-8")
    adapted, n = re.subn("from sklearn.neighbors import NeighborhoodComponentsAnalysis\n", IMPORT, source)
    assert n == 1
    adapted, wordings = re.subn(r", match=re\.escape\(msg\)", "", adapted)  # which error, not in which words
    assert wordings >= 5
    (tmp_path / "test_adapted.py").write_text(adapted + FIXTURE, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_adapted.py"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout[-3000:]
    summary = re.search(r"(\d+) passed", run.stdout)
    assert summary is not None
    assert int(summary[1]) >= 150, run.stdout[-300:]
