"""The PSD cone: projection axioms, factors, and the coordinates in which a cost is the identity."""

import ast
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from instances import assert_close

import sdpmetric.engine.compiled
from sdpmetric.linalg import psd

SEEDS = st.integers(0, 2**32 - 1)


def symmetric(seed):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 7))
    A = rng.normal(size=(d, d)) * 10 ** rng.uniform(-4, 4)
    return A + A.T, rng


def random_psd(rng, d, size):
    L = rng.normal(size=(rng.integers(0, d + 1), d))
    return size * L.T @ L


def check_projection(project, seed):
    A, rng = symmetric(seed)
    size, d = np.abs(A).max(), len(A)
    P, N = project(A), project(-A)
    assert_close(project(P), P, size)
    # Moreau: A = P - N with both in the cone and orthogonal to each other.
    assert_close(P - N, A, size)
    assert np.linalg.eigvalsh(P)[0] >= -1e-12 * size
    assert abs(np.sum(P * N)) <= 1e-9 * size**2
    # Nearest: no other member of the cone is closer.
    for candidate in (random_psd(rng, d, size), P + random_psd(rng, d, 1e-3 * size), 0.99 * P):
        assert np.linalg.norm(A - P) <= np.linalg.norm(A - candidate) + 1e-12 * size


@given(SEEDS)
def test_projection_axioms(seed):
    check_projection(psd.project, seed)


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


@pytest.mark.parametrize("file", sorted(Path(sdpmetric.__file__).parent.rglob("*loops.py")), ids=lambda file: file.stem)
def test_no_variants_that_two_processes_could_mix_up_in_their_caches(file):
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.FunctionDef) and any("loop" in ast.unparse(d) for d in node.decorator_list):
            called = {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}
            assert not called & VARIANTS, f"{file.name}: {node.name}"
