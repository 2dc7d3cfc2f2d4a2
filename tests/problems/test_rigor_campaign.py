"""Five hundred problems of the campaign against exact arithmetic, of which the default run has 150.

CI runs all; examples/benchmarks/rigor.py runs more.
"""

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "examples" / "benchmarks" / "rigor.py"
SPEC = importlib.util.spec_from_file_location("rigor_campaign", SCRIPT)
rigor = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(rigor)


@pytest.mark.parametrize("part", [*range(3), *(pytest.param(part, marks=pytest.mark.slow) for part in range(3, 10))])
def test_no_bound_passes_an_exact_objective(part):
    found, tried = [], 0
    for seed in range(50 * part, 50 * part + 50):
        try:
            found += rigor.violations(*rigor.drawn(seed), seed)
            tried += 1
        except ValueError:  # a statement that refuses such data
            continue
    assert found == []
    assert tried >= 40


def test_no_bound_of_a_weighted_statement_does():
    found, tried = [], 0
    for seed in range(60):
        try:
            found += rigor.violations("weighted", rigor.FAMILIES[seed % len(rigor.FAMILIES)], seed)
            tried += 1
        except ValueError:
            continue
    assert found == []
    assert tried >= 40
