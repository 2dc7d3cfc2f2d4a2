"""Over 150 problems of the adversary's suite: all statements, families and verbs.

examples/benchmarks/rigor.py tries more, with other seeds.
"""

import re
import warnings

import numpy as np
import pytest
from adversary.campaign import DIGITS, FAMILIES, STATEMENTS, Claim, Ledger, drawn, tried
from adversary.verbs import VERBS
from flint import arb, ctx

# Problems that take half a second or more, which rigor.py tries.
LONG = {100, 112, 133}
SEEDS = [seed for seed in range(200) if seed not in LONG]


@pytest.fixture(scope="module")
def outcomes():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [tried(seed, *drawn(seed)) for seed in SEEDS]


def test_nothing_that_is_claimed_is_false(outcomes):
    assert [text for outcome in outcomes for text in outcome.unknown] == []


def test_every_statement_family_and_verb_is_tried(outcomes):
    assert {outcome.statement for outcome in outcomes} == set(STATEMENTS)
    assert {outcome.family for outcome in outcomes} == set(FAMILIES)
    assert {verb for outcome in outcomes for verb in outcome.verbs} == set(VERBS)
    assert sum(outcome.claims for outcome in outcomes) >= 800
    assert sum(outcome.undecided for outcome in outcomes) == 0
    assert sum("statement" in outcome.refused for outcome in outcomes) <= 0.15 * len(outcomes)


# Seeds, statements and families.
BROKEN = """
55 hard, offset; 150 pola, far; 249 itml, float32; 141 lsml, grid;
464 mmc, float32; 390 pola, apart; 193 squared, constant; 1490 listed, huge; 30099 several, repeated;
31081 squared, vanishing;
537 itml, equal classes; 100824 lmnn, beside; 101658 sums, enormous; 411954 sums, constant;
2001016 sums, null; 2107072 sums, grid; 2102151 frml, dependent;
"""


@pytest.mark.parametrize(("seed", "statement", "family"), re.findall(r"(\d+) ([a-z ]+), ([a-z0-9 ]+)", BROKEN))
def test_problems_that_broke_something_are_certified(seed, statement, family):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert tried(int(seed), statement, family).violations == []


# Problems whose proof files were refused: slopes with too little room, bounds that were none, balls about 0.
REFUSED = """
1 planted, duplicates; 2 planted, grid; 0 planted, wide; 0 mmc, dependent; 0 mmc, units; 0 pola, beside;
1 itml, coincident; 0 lsml, apart; 0 sums, offset;
"""


@pytest.mark.parametrize(("seed", "statement", "family"), re.findall(r"(\d+) ([a-z ]+), ([a-z0-9 ]+)", REFUSED))
def test_proof_files_of_solutions_are_accepted(seed, statement, family):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert tried(int(seed), statement, family, ("proof",)).violations == []


@pytest.mark.parametrize("verb", ["certify", "solve", "verify", "explain", "proof"])
@pytest.mark.parametrize("statement", ["lmnn", "squared", "pola", "mmc", "itml", "lsml", "sums", "planted", "tight"])
def test_underflow_that_is_allowed_for_is_no_error_where_a_user_made_it_one(statement, verb):
    """Even the float next to 0 raises an error then."""
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("ignore")
        assert tried(3, statement, "plain", (verb,)).violations == []


def test_the_judge_sees_what_is_false():
    ctx.prec = DIGITS
    true, infinity = Claim("a", 1.0, 0.5, exact=arb(1)), float("inf")
    for claim, kind in (
        (Claim("b", 1.0 - 2.0**-53, 0.5, exact=arb(1)), "objective"),
        (Claim("b", 2.0, 1.0 + 2.0**-52), "bound"),
        (Claim("b", infinity, infinity), "bound"),
        (Claim("b", 0.75, 0.875), "contradiction"),
        (Claim("b", float("nan"), 0.0), "nan"),
        (Claim("b", 2.0, 0.5, exact=arb(2), optimal=0.1), "optimal"),
    ):
        ledger = Ledger([true, claim])
        ledger.judge(arb(0))
        assert {(verb, violation) for verb, violation, _ in ledger.violations} >= {("b", kind)}
    honest = Ledger([true, Claim("b", 2.0, 0.25, exact=arb(2), optimal=0.5)])
    honest.judge(arb(0))
    assert honest.violations == []
