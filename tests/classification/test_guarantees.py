"""Thresholds with a guarantee: exact probabilities, ties, dependent pairs, and what the labeled pairs do not prove."""

from fractions import Fraction
from itertools import product
from math import comb

import numpy as np
import pytest

import sdpmetric as sm
from sdpmetric.classification import binomial_interval, disjoint_pairs, guarantees

CASES = [(n, alpha, delta) for n in (50, 300, 1000) for alpha in (0.1, 0.05, 0.01) for delta in (0.05, 0.2)]


def fewer_than(k: int, n: int, p: Fraction) -> Fraction:
    """The exact probability that fewer than k of n trials succeed."""
    a, b = p.numerator, p.denominator
    return Fraction(sum(comb(n, i) * a**i * (b - a) ** (n - i) for i in range(k)), b**n)


@pytest.mark.parametrize(("n", "alpha", "delta"), CASES)
def test_the_number_of_errors_is_the_largest_whose_exact_probability_is_allowed(n, alpha, delta):
    share, risk = Fraction(str(alpha)), Fraction(str(delta))
    found = sm.guaranteed_threshold(np.arange(n), np.zeros(n), alpha=alpha, delta=delta)
    k = found.n_errors + 1 if found.threshold is not None else 0
    assert fewer_than(k, n, share) <= risk < fewer_than(k + 1, n, share)
    if k == 0:
        needed = n + found.n_missing
        assert (1 - share) ** needed <= risk < (1 - share) ** (needed - 1)
        assert f"label at least {found.n_missing} more" in str(found)
    else:
        assert found.threshold == np.nextafter(k - 1.0, -np.inf)
        assert found.n_of == n
        assert found.interval[0] <= found.n_errors / n <= found.interval[1] <= alpha
    mirror = sm.guaranteed_threshold(-np.arange(n), np.ones(n), alpha=alpha, delta=delta, control="false_non_matches")
    assert (mirror.n_errors, mirror.n_missing) == (found.n_errors, found.n_missing)


def chance_of_violation(control: str, n: int, support: np.ndarray, chances: np.ndarray, alpha: float) -> float:
    """The exact probability that the share of errors exceeds alpha, over all samples of a distribution with atoms."""
    same, total = control == "false_non_matches", 0.0
    for counts in product(range(n + 1), repeat=len(support)):
        if sum(counts) == n:
            drawn = np.repeat(support, counts)
            limit = sm.guaranteed_threshold(drawn, np.full(n, same), alpha=alpha, delta=0.2, control=control).threshold
            wrong = 0.0 if limit is None else float(chances[(support > limit) if same else (support <= limit)].sum())
            ways, left = 1, n
            for count in counts:
                ways, left = ways * comb(left, count), left - count
            total += (wrong > alpha) * ways * float(np.prod(chances ** np.array(counts)))
    return total


@pytest.mark.parametrize("control", ["false_matches", "false_non_matches"])
@pytest.mark.parametrize("chances", [[0.1, 0.3, 0.6], [0.6, 0.3, 0.1], [0.25, 0.5, 0.25]])
def test_the_guarantee_holds_exactly_where_distances_tie(control, chances):
    assert chance_of_violation(control, 12, np.array([1.0, 2.0, 3.0]), np.array(chances), 0.25) <= 0.2


def test_a_precision_is_proven_by_exact_tails_at_numbers_chosen_beforehand():
    rng = np.random.default_rng(0)
    apart = rng.random(4000)
    same = rng.random(4000) > apart**2
    found = sm.guaranteed_threshold(apart, same, alpha=0.1, control="precision")
    matches = apart <= found.threshold
    assert (found.n_errors, found.n_of) == (int((matches & ~same).sum()), int(matches.sum()))
    allowed = Fraction("0.05") / guarantees.N_CANDIDATES
    assert fewer_than(found.n_errors + 1, found.n_of, Fraction("0.1")) <= allowed
    assert found.interval[1] <= 0.1
    labels = rng.random(4000) > 0.5
    same_numbers = sm.guaranteed_threshold(apart, labels, alpha=0.9, control="precision").n_of
    numbers = np.geomspace(guarantees._fewest(0.9, 0.05 / 64), 3999, 64).round()
    assert same_numbers in numbers  # which no label has moved
    hopeless = sm.guaranteed_threshold(apart, ~same, alpha=0.1, control="precision")
    assert hopeless.threshold is None
    assert hopeless.n_missing is None
    assert "too many of the nearest" in str(hopeless)
    few = sm.guaranteed_threshold(apart[:40], np.ones(40), alpha=0.1, control="precision")
    assert few.n_missing == guarantees._fewest(0.1, 0.05 / 64) + 1 - 40
    assert "40 independent pairs" in str(few)


def test_a_precision_counts_the_pairs_strictly_nearer_than_the_next():
    apart = np.repeat(np.arange(4.0), 500)
    found = sm.guaranteed_threshold(apart, apart < 2, alpha=0.1, control="precision")
    assert (found.n_errors, found.n_of, found.threshold) == (0, 1000, np.nextafter(2.0, 0.0))
    assert found.interval == guarantees._interval(0, 1000, 0.05 / guarantees.N_CANDIDATES)


def test_similarities_and_single_precision():
    rng = np.random.default_rng(1)
    apart, same = rng.normal(size=600).astype(np.float32), rng.random(600) < 0.5
    by_distance = sm.guaranteed_threshold(apart, same, alpha=0.1)
    by_score = sm.guaranteed_threshold(-apart, np.where(same, 1, -1), alpha=0.1, similarity=True)
    assert by_score.threshold == -by_distance.threshold
    for matches in (apart <= by_distance.threshold, -apart >= by_score.threshold):  # NumPy compares in float32
        assert int((matches & ~same).sum()) == by_distance.n_errors


def test_pairs_without_common_examples():
    rng = np.random.default_rng(2)
    pairs = rng.integers(0, 200, (3000, 2))
    rows = disjoint_pairs(pairs, 5)
    ends = [set(pairs[row].tolist()) for row in rows]
    assert len(set().union(*ends)) == sum(map(len, ends))
    taken: set[int] = set()
    greedy = []
    for row in np.argsort(np.random.default_rng(5).permutation(3000)):
        if not taken & set(pairs[row].tolist()):
            taken |= set(pairs[row].tolist())
            greedy.append(row)
    assert sorted(greedy) == rows.tolist()
    apart, same = rng.random(3000), rng.random(3000) < 0.3
    found = sm.guaranteed_threshold(apart, same, alpha=0.1, groups=pairs)
    assert found.n_pairs == len(disjoint_pairs(pairs[~same])) <= 100
    assert len(disjoint_pairs(["a", "b", "a"])) == 2
    none = sm.guaranteed_threshold(apart, np.ones(3000), alpha=0.1, groups=pairs)
    assert (none.threshold, none.n_pairs, none.n_missing) == (None, 0, 29)
    everyone = sm.guaranteed_threshold(apart, same, alpha=0.1, groups=np.arange(3000))
    assert everyone == sm.guaranteed_threshold(apart, same, alpha=0.1)


def test_the_interval_of_clopper_and_pearson_is_exact():
    for count, n in ((0, 20), (3, 20), (20, 20), (57, 58)):
        low, high = map(Fraction, binomial_interval(count, n))
        if count:
            assert float(1 - fewer_than(count, n, low)) == pytest.approx(0.025)
        if count < n:
            assert float(fewer_than(count + 1, n, high)) == pytest.approx(0.025)
    assert binomial_interval(0, 0) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"alpha": 0.0}, "alpha must be"),
        ({"delta": 1.0}, "delta must be"),
        ({"control": "recall"}, "control must be one of"),
        ({"distances": [1.0, np.nan]}, "finite"),
        ({"same": [0, 2]}, "same must be"),
        ({"same": [0]}, "1 labels for 2 pairs"),
        ({"groups": [0]}, "1 rows for 2 pairs"),
    ],
)
def test_bad_arguments_are_sentences(change, said):
    given = {"distances": [1.0, 2.0], "same": [0, 1], "alpha": 0.1} | change
    with pytest.raises(ValueError, match=said):
        sm.guaranteed_threshold(given.pop("distances"), given.pop("same"), **given)
