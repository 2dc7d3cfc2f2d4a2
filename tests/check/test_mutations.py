"""Mutated and forged proof files against exact arithmetic: accepted only if true, and never by much time or memory.

examples/benchmarks/corruptions.py --mutations runs more.
"""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "benchmarks"))
import forgeries
import mutations


@pytest.mark.parametrize("family", forgeries.FAMILIES)
def test_no_forgery_is_believed(family, tmp_path):
    violations = forgeries.judged(family, tmp_path)
    assert violations.wrong == []
    assert len(violations.codes) >= 90
    assert violations.seconds < forgeries.SECONDS


@pytest.mark.parametrize("seeds", [range(1), pytest.param(range(1, 12), marks=pytest.mark.slow)], ids=["few", "more"])
@pytest.mark.parametrize("kind", mutations.KINDS)
def test_what_is_accepted_is_true(kind, seeds, tmp_path):
    codes, unproven = [], 0
    for seed in seeds:
        violations = mutations.violations(kind, seed, 25, tmp_path, n=10)
        assert violations.wrong == []
        assert violations.codes[:1] in ([], [0], [1])  # the file that was not mutated
        unproven += violations.codes[:1] == [1]
        codes += violations.codes
    assert unproven <= (len(seeds) > 1)  # of hostile data a slack matrix may be too nearly singular for the checker
    assert len(codes) >= 25
    assert {*codes} == {0, 1, 2}
