"""What holds for every compiled loop."""

import ast
from pathlib import Path

import pytest

import sdpmetric._loops

# numba gives the code behind these one name each, or one for several of them, whatever they were asked to do.
VARIANTS = {
    "sort",
    "argsort",
    "searchsorted",
    "digitize",
    "partition",
    "argpartition",
    "median",
    "quantile",
    "percentile",
}


@pytest.mark.parametrize(
    "file", sorted(Path(sdpmetric._loops.__file__).parent.glob("*.py")), ids=lambda file: file.stem
)
def test_no_variants_that_two_processes_could_mix_up_in_their_caches(file):
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.FunctionDef) and any("njit" in ast.unparse(d) for d in node.decorator_list):
            called = {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}
            assert not called & VARIANTS, f"{file.name}: {node.name}"
