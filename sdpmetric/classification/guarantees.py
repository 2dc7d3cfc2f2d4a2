"""Thresholds on distances of independent pairs with a bounded share of errors, by exact binomial probabilities."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtr
from scipy.stats import binomtest
from sklearn.utils import column_or_1d

from sdpmetric.arrays import BoolArray, FloatArray
from sdpmetric.core import rounding, validation

Control = Literal["false_matches", "false_non_matches", "precision"]
# Thresholds among which that for a precision is chosen; the union bound over them costs a factor of this in delta.
N_CANDIDATES = 64
# What is bounded, and the pairs that it is a share of.
WORDS: dict[Control, tuple[str, str]] = {
    "false_matches": ("false matches", "dissimilar pairs"),
    "false_non_matches": ("false non-matches", "similar pairs"),
    "precision": ("false ones among the matches", "matches"),
}

NO_SIMILAR_PAIRS = "none of these pairs is similar, so the share of similar pairs that are matches is unknown."


@dataclass(frozen=True)
class GuaranteedThreshold:
    """A threshold on distances with a bounded share of errors on new pairs, or what is missing for one.

    Attributes
    ----------
    threshold : float or None
        Pairs at most this distance apart are matches; for similarities, pairs of at least this similarity. None: the
        labeled pairs prove no threshold.
    control, alpha, delta
        As in `guaranteed_threshold`, which also states the assumption: pairs drawn independently from one distribution.
    n_pairs : int
        Labeled pairs that count: dissimilar ones for false matches, similar ones for false non-matches, all for a
        precision.
    n_errors, n_of : int
        Errors on these pairs at the threshold, and the pairs that they are a share of: those that count, or for a
        precision the matches among them.
    interval : (float, float)
        Bounds on the share of errors among new pairs; each of the two holds with confidence ``1 - delta``.
    n_missing : int or None
        Further pairs of the kind that counts without which no threshold exists; 0 if there is one; None if the share of
        errors, and not the number of pairs, is the obstacle.
    n_recognized, n_similar : int
        Similar pairs that are matches, and similar pairs, among the labeled ones; no guarantee.

    See Also
    --------
    guaranteed_threshold, sdpmetric.estimators.PairClassifier

    Examples
    --------
    >>> import sdpmetric as sm
    >>> limit = sm.guaranteed_threshold(range(100), [True] * 50 + [False] * 50, alpha=0.1)
    >>> limit.threshold, limit.n_errors, limit.n_of
    (50.99999999999999, 1, 50)
    """

    threshold: float | None
    control: Control
    alpha: float
    delta: float
    n_pairs: int
    n_errors: int
    n_of: int
    interval: tuple[float, float]
    n_missing: int | None
    n_recognized: int
    n_similar: int

    def __str__(self) -> str:
        error_rate, among = WORDS[self.control]
        promise = f"at most {self.alpha:.4g} of {error_rate} with confidence {1.0 - self.delta:.4g}"
        if self.threshold is not None:
            low, high = rounding.rounded(self.interval[0], up=False), rounding.rounded(self.interval[1])
            return (
                f"Threshold {self.threshold:.6g}: {promise}, if labeled and new pairs are drawn independently from one "
                f"distribution. {self.n_errors:,} of {self.n_of:,} {among} are errors, a share between {low} and "
                f"{high}; "
                + (
                    f"{self.n_recognized:,} of {self.n_similar:,} similar pairs are matches."
                    if self.n_similar
                    else NO_SIMILAR_PAIRS
                )
            )
        labeled = f"{self.n_pairs:,} {'pairs' if self.control == 'precision' else among}"
        if self.n_missing is None:
            return (
                f"No threshold is proven to have {promise} by {labeled}: too many of the nearest ones are dissimilar; "
                "allow a larger share, or label more pairs."
            )
        return f"No threshold: {labeled} do not suffice for {promise}; label at least {self.n_missing:,} more."


def guaranteed_threshold(
    distances: ArrayLike,
    similar: ArrayLike,
    *,
    alpha: float,
    delta: float = 0.05,
    control: Control = "false_matches",
    similarity: bool = False,
) -> GuaranteedThreshold:
    """Find the most generous threshold whose share of errors is proven to be at most alpha.

    The guarantee: if the labeled pairs are drawn independently from one distribution of pairs, then with probability at
    least ``1 - delta`` over their draw, the share of errors on new pairs from the same distribution is at most `alpha`
    at the threshold, or there is none. It holds for any distribution of the distances, although the threshold is chosen
    on the same pairs. The distances must come from a metric that was not learned from these pairs.

    Two ways to draw independent pairs: two fresh examples for each pair, none of them drawn twice, for a guarantee
    about pairs of new examples; or pairs at random, with replacement, from all pairs of a collection, for a guarantee
    about pairs drawn so from this collection. Nothing is promised for pairs that are not drawn independently: all pairs
    of a few examples, several pairs of one query, or the pairs of a list that share no example.

    Parameters
    ----------
    distances : (p,) array
        Distances of labeled pairs, from any source.
    similar : (p,) array
        bool; or 1 for similar, and -1 or 0 for dissimilar pairs.
    alpha : float
        Largest share of errors, between 0 and 1.
    delta : float, default 0.05
        One minus the confidence.
    control : {"false_matches", "false_non_matches", "precision"}, default "false_matches"
        The share of dissimilar pairs that are matches; of similar pairs that are not; or of matches that are
        dissimilar, one minus the precision. A precision depends on the share of similar pairs,
        which is part of the distribution of the pairs; the other two do not depend on it.
    similarity : bool, default False
        Whether `distances` are similarities, such as cosines: larger for similar pairs.

    Returns
    -------
    GuaranteedThreshold

    See Also
    --------
    sdpmetric.estimators.PairClassifier : Learns the metric from some pairs and the threshold from others.

    Examples
    --------
    >>> import numpy as np
    >>> from sdpmetric.classification import guaranteed_threshold
    >>> rng = np.random.default_rng(0)
    >>> similar = np.arange(2000) % 2 == 0
    >>> distances = rng.normal(np.where(similar, 1.0, 4.0))
    >>> limit = guaranteed_threshold(distances, similar, alpha=0.01)
    >>> limit.n_errors, limit.n_of, guaranteed_threshold(distances[:200], similar[:200], alpha=0.01).n_missing
    (4, 1000, 199)
    """
    validation.check_choice("control", control, get_args(Control))
    for name, share in (("alpha", alpha), ("delta", delta)):
        if not 0.0 < validation.check_number(name, share, 0.0, 1.0) < 1.0:
            raise ValueError(f"{name} must be between 0 and 1, both excluded, got {share!r}.")
    values = np.asarray(distances)
    if values.dtype.kind != "f" or values.dtype.itemsize > 8:  # lower precisions stay as they are
        values = values.astype(np.float64)
    if values.ndim != 1 or not np.isfinite(values).all():
        raise ValueError(f"distances must be finite numbers, one for each pair, got an array of shape {values.shape}.")
    is_similar = check_answers("similar", similar, len(values))[1]
    values = -values if similarity else values
    mirrored = control == "false_non_matches"
    rows = np.arange(len(values)) if control == "precision" else np.flatnonzero(is_similar == mirrored)
    order = rows[np.argsort(values[rows], kind="stable")]
    # Of false non-matches, the mirror image: the furthest similar pairs come first.
    ordered = -values[order][::-1] if mirrored else values[order]
    if control == "precision":
        cut, n_missing, interval = _most_precise(ordered, ~is_similar[order], alpha, delta)
    else:
        cut, n_missing, interval = _tolerance_limit(ordered, alpha, delta)
    limit, matches = None, np.zeros(len(values), dtype=bool)
    if cut is not None:
        # The pair at the cut is on the side of the errors that are not made, and so are all pairs that tie with it.
        limit = -ordered[cut] if mirrored else np.nextafter(ordered[cut], -np.inf, dtype=ordered.dtype)
        matches = values <= limit
    wrong = matches[rows] != is_similar[rows] if mirrored else matches[rows] & ~is_similar[rows]
    return GuaranteedThreshold(
        None if limit is None else float(-limit if similarity else limit),
        control,
        float(alpha),
        float(delta),
        len(rows),
        0 if cut is None else int(np.count_nonzero(wrong)),
        int(np.count_nonzero(matches[rows])) if control == "precision" else len(rows),
        interval,
        n_missing,
        int(np.count_nonzero(matches & is_similar)),
        int(np.count_nonzero(is_similar)),
    )


def _interval(count: int, n: int, delta: float) -> tuple[float, float]:
    """Clopper and Pearson's bounds on a probability, each of which fails with probability delta at most."""
    low = binomtest(count, n, alternative="greater").proportion_ci(1.0 - delta, "exact").low
    return float(low), float(binomtest(count, n, alternative="less").proportion_ci(1.0 - delta, "exact").high)


# The row at which matches end, how many pairs are missing, and bounds on the share of errors.
Chosen = tuple[int | None, int | None, tuple[float, float]]


def _tolerance_limit(ordered: FloatArray, alpha: float, delta: float) -> Chosen:
    """The k-th smallest of n distances of dissimilar pairs, with the largest k such that P(Bin(n, alpha) < k) <= delta.

    Pairs that are strictly nearer are matches. More than a share alpha of all dissimilar pairs are nearer only if fewer
    than k of the n are at most as far as the alpha-quantile, where each is with probability alpha at least.
    """
    n = len(ordered)
    k = int(np.count_nonzero(bdtr(np.arange(n, dtype=np.float64), n, alpha) <= delta))
    if k == 0:
        return None, max(_fewest(alpha, delta) - n, 1), (0.0, 1.0)
    low, high = _interval(k - 1, n, delta)
    tied = k > 1 and ordered[k - 2] == ordered[k - 1]
    return k - 1, 0, (0.0 if tied else low, high)


def _most_precise(ordered: FloatArray, wrong: BoolArray, alpha: float, delta: float) -> Chosen:
    """The largest of some numbers m of matches for which the errors among the m nearest pairs prove the precision.

    The numbers depend on n only. Given the distance of the pair after them, the m nearest are independent draws of
    pairs that are nearer, so the errors among them are binomial; a union bound covers all the numbers.
    """
    n, delta_each = len(ordered), delta / N_CANDIDATES
    fewest = _fewest(alpha, delta_each)
    if n <= fewest:
        return None, fewest + 1 - n, (0.0, 1.0)
    numbers = np.unique(np.geomspace(fewest, n - 1, N_CANDIDATES).round().astype(np.int64))
    numbers = np.searchsorted(ordered, ordered[numbers])  # without those that tie with the pair after them
    errors = np.concatenate([[0], np.cumsum(wrong)])[numbers]
    proven = bdtr(errors.astype(np.float64), numbers, alpha) <= delta_each
    if not proven.any():
        return None, None, (0.0, 1.0)
    last = int(np.flatnonzero(proven)[-1])
    return int(numbers[last]), 0, _interval(int(errors[last]), int(numbers[last]), delta_each)


def _fewest(alpha: float, delta: float) -> int:
    """The least number of pairs without an error that proves a share of at most alpha: ``(1 - alpha)^n <= delta``."""
    return math.ceil(min(math.log(delta) / math.log1p(-alpha), sys.maxsize))


def check_answers(name: str, answers: ArrayLike, n: int) -> tuple[NDArray[np.generic], BoolArray]:
    """The labels of dissimilar and similar pairs, and which of n pairs are similar."""
    labels = column_or_1d(answers)
    validation.check_count(name, len(labels), n, "pair")
    for classes in (np.array([False, True]), np.array([-1, 1]), np.array([0, 1])):
        alike = classes.dtype.kind == labels.dtype.kind or (labels.dtype.kind in "iuf" and classes.dtype.kind == "i")
        if alike and np.isin(labels, classes).all():
            return classes, np.asarray(labels == classes[1])
    raise ValueError(f"{name} must be 1 for similar and -1 or 0 for dissimilar pairs, or bool.")
