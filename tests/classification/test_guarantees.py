"""Thresholds with a guarantee: exact probabilities, ties, simulated coverage, and what labeled pairs do not prove."""

from fractions import Fraction
from itertools import product
from math import comb

import numpy as np
import pytest
from scipy.stats import binom

import sdpmetric as sm
from sdpmetric.classification import guarantees
from sdpmetric.estimators import RCA, PairClassifier

CASES = [(n, alpha, delta) for n in (50, 300, 1000) for alpha in (0.1, 0.05, 0.01) for delta in (0.05, 0.2)]


def fewer_than(k: int, n: int, p: Fraction) -> Fraction:
    """The exact probability that fewer than k of n trials succeed."""
    a, b = p.numerator, p.denominator
    return Fraction(sum(comb(n, i) * a**i * (b - a) ** (n - i) for i in range(k)), b**n)


@pytest.mark.parametrize(("n", "alpha", "delta"), CASES)
def test_the_number_of_errors_is_the_largest_whose_exact_probability_is_allowed(n, alpha, delta):
    share, risk = Fraction(str(alpha)), Fraction(str(delta))
    threshold = sm.guaranteed_threshold(np.arange(n), np.zeros(n), alpha=alpha, delta=delta)
    k = threshold.n_errors + 1 if threshold.threshold is not None else 0
    assert fewer_than(k, n, share) <= risk < fewer_than(k + 1, n, share)
    if k == 0:
        needed = n + threshold.n_missing
        assert (1 - share) ** needed <= risk < (1 - share) ** (needed - 1)
        assert f"label at least {threshold.n_missing} more" in str(threshold)
    else:
        assert threshold.threshold == np.nextafter(k - 1.0, -np.inf)
        assert threshold.n_of == n
        assert threshold.interval[0] <= threshold.n_errors / n <= threshold.interval[1] <= alpha
    mirror = sm.guaranteed_threshold(-np.arange(n), np.ones(n), alpha=alpha, delta=delta, control="false_non_matches")
    assert (mirror.n_errors, mirror.n_missing) == (threshold.n_errors, threshold.n_missing)


def chance_of_violation(control: str, n: int, support: np.ndarray, chances: np.ndarray, alpha: float) -> float:
    """The exact probability that the share of errors exceeds alpha, over all samples of a distribution with atoms."""
    same, total = control == "false_non_matches", 0.0
    for counts in product(range(n + 1), repeat=len(support)):
        if sum(counts) == n:
            drawn = np.repeat(support, counts)
            limit = sm.guaranteed_threshold(drawn, np.full(n, same), alpha=alpha, delta=0.2, control=control).threshold
            wrong = 0.0 if limit is None else float(chances[(support > limit) if same else (support <= limit)].sum())
            count_of_orders, remaining = 1, n
            for count in counts:
                count_of_orders, remaining = count_of_orders * comb(remaining, count), remaining - count
            total += (wrong > alpha) * count_of_orders * float(np.prod(chances ** np.array(counts)))
    return total


@pytest.mark.parametrize("control", ["false_matches", "false_non_matches"])
@pytest.mark.parametrize("chances", [[0.1, 0.3, 0.6], [0.6, 0.3, 0.1], [0.25, 0.5, 0.25]])
def test_the_guarantee_holds_exactly_where_distances_tie(control, chances):
    assert chance_of_violation(control, 12, np.array([1.0, 2.0, 3.0]), np.array(chances), 0.25) <= 0.2


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.longdouble, np.int64])
def test_the_errors_are_those_at_the_threshold_as_a_float(dtype):
    """Next to a long double the threshold rounds to the distance itself, and all that tie with it are matches."""
    rng = np.random.default_rng(0)
    distances, similar = rng.integers(0, 40, 3000).astype(dtype), rng.random(3000) < 0.5
    limit = sm.guaranteed_threshold(distances, similar, alpha=0.2)
    assert limit.n_errors == np.count_nonzero(distances[~similar] <= limit.threshold)


def test_a_precision_is_proven_by_exact_tails_at_numbers_chosen_beforehand():
    rng = np.random.default_rng(0)
    distances = rng.random(4000)
    same = rng.random(4000) > distances**2
    threshold = sm.guaranteed_threshold(distances, same, alpha=0.1, control="precision")
    matches = distances <= threshold.threshold
    assert (threshold.n_errors, threshold.n_of) == (int((matches & ~same).sum()), int(matches.sum()))
    allowed = Fraction("0.05") / guarantees.N_CANDIDATES
    assert fewer_than(threshold.n_errors + 1, threshold.n_of, Fraction("0.1")) <= allowed
    assert threshold.interval[1] <= 0.1
    labels = rng.random(4000) > 0.5
    same_numbers = sm.guaranteed_threshold(distances, labels, alpha=0.9, control="precision").n_of
    numbers = np.geomspace(guarantees._fewest(0.9, 0.05 / 64), 3999, 64).round()
    assert same_numbers in numbers  # which no label has moved
    hopeless = sm.guaranteed_threshold(distances, ~same, alpha=0.1, control="precision")
    assert hopeless.threshold is None
    assert hopeless.n_missing is None
    assert "too many of the nearest" in str(hopeless)
    short_list = sm.guaranteed_threshold(distances[:40], np.ones(40), alpha=0.1, control="precision")
    assert short_list.n_missing == guarantees._fewest(0.1, 0.05 / 64) + 1 - 40
    assert "No threshold: 40 pairs do not suffice" in str(short_list)


def test_a_precision_counts_the_pairs_strictly_nearer_than_the_next():
    distances = np.repeat(np.arange(4.0), 500)
    threshold = sm.guaranteed_threshold(distances, distances < 2, alpha=0.1, control="precision")
    assert (threshold.n_errors, threshold.n_of, threshold.threshold) == (0, 1000, np.nextafter(2.0, 0.0))
    assert threshold.interval == guarantees._interval(0, 1000, 0.05 / guarantees.N_CANDIDATES)


@pytest.mark.parametrize(("count", "n"), [(0, 20), (3, 20), (20, 20), (57, 58)])
def test_each_end_of_an_interval_has_the_exact_tail(count, n):
    low, high = map(Fraction, guarantees._interval(count, n, 0.025))
    assert float(1 - fewer_than(count, n, low)) == pytest.approx(0.025) if count else low == 0
    assert float(fewer_than(count + 1, n, high)) == pytest.approx(0.025) if count < n else high == 1


DELTA = 0.1


def test_the_guarantee_of_a_learned_metric_covers_pairs_drawn_with_replacement_from_a_collection():
    rng, failures = np.random.default_rng(6), 0
    y = np.repeat([0, 1, 2], [50, 6, 4])
    X = rng.normal(size=(60, 3)) + y[:, None]
    every = np.stack(np.triu_indices(60, 1), axis=1)
    same = y[every[:, 0]] == y[every[:, 1]]
    for seed in range(60):
        rows = rng.integers(len(every), size=300)
        classifier = PairClassifier(
            RCA(), examples=X, guarantee="false_matches", alpha=0.1, delta=DELTA, random_state=seed
        )
        with pytest.warns(UserWarning, match="300 of 300 pairs share an example"):
            classifier.fit(every[rows], same[rows])
        failures += np.mean(classifier.predict(every[~same])) > 0.1
    assert failures <= binom.ppf(0.99, 60, DELTA)


def test_where_no_pair_is_similar_a_threshold_says_so():
    limit = sm.guaranteed_threshold(np.arange(1.0, 501.0), np.zeros(500), alpha=0.1)
    assert limit.threshold is not None
    assert str(limit).endswith(
        "none of these pairs is similar, so the share of similar pairs that are matches is unknown."
    )
