"""Thresholds on distances of pairs with a bounded share of errors, by exact binomial probabilities."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtr, betaincinv
from sklearn.utils import column_or_1d

from sdpmetric.arrays import BoolArray, FloatArray, LongArray
from sdpmetric.core import validation

Control = Literal["false_matches", "false_non_matches", "precision"]
# Thresholds among which that for a precision is chosen; the union bound over them costs a factor of this in delta.
N_CANDIDATES = 64
# What is bounded, and the pairs that it is a share of.
WORDS: dict[Control, tuple[str, str]] = {
    "false_matches": ("false matches", "dissimilar pairs"),
    "false_non_matches": ("false non-matches", "similar pairs"),
    "precision": ("false ones among the matches", "matches"),
}


@dataclass(frozen=True)
class GuaranteedThreshold:
    """A threshold on distances with a bounded share of errors on new pairs, or what is missing for one.

    Attributes
    ----------
    threshold : float or None
        Pairs at most this distance apart are matches; for similarities, pairs of at least this similarity. None: the
        labeled pairs prove no threshold.
    control, alpha, delta
        As in `guaranteed_threshold`.
    n_pairs : int
        Independent pairs that were used: dissimilar ones for false matches, similar ones for false non-matches.
    n_errors, n_of : int
        Errors on these pairs at the threshold, and the pairs that they are a share of: those used, or for a precision
        the matches among them.
    interval : (float, float)
        Bounds on the share of errors among all pairs; each of the two holds with confidence ``1 - delta``.
    n_missing : int or None
        Further independent pairs that a threshold needs at least; 0 if there is one; None if the share of errors, and
        not the number of pairs, is the obstacle.
    n_recognized, n_similar : int
        Similar pairs that are matches, and similar pairs, among all that were given; no guarantee.
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
        what, among = WORDS[self.control]
        asked = f"at most {self.alpha:.4g} of {what} with confidence {1.0 - self.delta:.4g}"
        if self.threshold is not None:
            low, high = self.interval
            return (
                f"Threshold {self.threshold:.6g}: {asked}. {self.n_errors:,} of {self.n_of:,} {among} are errors, a "
                f"share between {low:.2g} and {high:.2g}; {self.n_recognized:,} of {self.n_similar:,} similar pairs "
                "are matches."
            )
        used = f"{self.n_pairs:,} independent {'pairs' if self.control == 'precision' else among}"
        if self.n_missing is None:
            return (
                f"No threshold is proven to have {asked} by {used}: too many of the nearest ones are dissimilar; allow "
                "a larger share, or label more pairs."
            )
        return f"No threshold: {used} do not suffice for {asked}; label at least {self.n_missing:,} more."


def guaranteed_threshold(
    distances: ArrayLike,
    same: ArrayLike,
    *,
    alpha: float,
    delta: float = 0.05,
    control: Control = "false_matches",
    groups: ArrayLike | None = None,
    similarity: bool = False,
    random_state: int = 0,
) -> GuaranteedThreshold:
    """Find the most generous threshold whose share of errors is proven to be at most alpha.

    Over the draw of the labeled pairs, the share of errors on new pairs exceeds `alpha` with probability at most
    `delta`, for any distribution of the distances, although the threshold is chosen on the same pairs. It is
    assumed that labeled and new pairs are drawn alike and that the metric was not learned from them.

    Parameters
    ----------
    distances : (p,) array
        Distances of labeled pairs, from any source.
    same : (p,) array
        bool; or 1 for similar, and -1 or 0 for dissimilar pairs.
    alpha : float
        Largest share of errors, between 0 and 1.
    delta : float, default 0.05
        One minus the confidence.
    control : {"false_matches", "false_non_matches", "precision"}, default "false_matches"
        The share of dissimilar pairs that are matches; of similar pairs that are not; or of matches that are
        dissimilar, so the precision is at least ``1 - alpha`` if the share of similar pairs is the same among labeled
        and new pairs.
    groups : (p,) or (p, g) array, optional
        What makes pairs dependent: the names of the two examples of each pair, or persons or sources. Only pairs
        without a common name are used. Default: all pairs are independent.
    similarity : bool, default False
        Whether `distances` are similarities, such as cosines: larger for similar pairs.
    random_state : int, default 0
        Seed of the choice among pairs with common names.

    Returns
    -------
    GuaranteedThreshold

    Raises
    ------
    ValueError
        If an argument is not as described.

    Examples
    --------
    >>> import numpy as np
    >>> from sdpmetric.classification import guaranteed_threshold
    >>> rng = np.random.default_rng(0)
    >>> same = np.arange(2000) % 2 == 0
    >>> apart = rng.normal(np.where(same, 1.0, 4.0))
    >>> found = guaranteed_threshold(apart, same, alpha=0.01)
    >>> found.n_errors, found.n_of
    (4, 1000)
    >>> fewer = guaranteed_threshold(apart[:200], same[:200], alpha=0.01)
    >>> fewer.threshold, fewer.n_missing
    (None, 199)
    """
    if control not in get_args(Control):
        raise ValueError(f"control must be one of {', '.join(map(repr, get_args(Control)))}, got {control!r}.")
    for name, share in (("alpha", alpha), ("delta", delta)):
        if not 0.0 < validation.check_number(name, share, 0.0, 1.0) < 1.0:
            raise ValueError(f"{name} must be between 0 and 1, both excluded, got {share!r}.")
    apart, similar = _checked(distances, same)
    mirrored = control == "false_non_matches"
    apart = -apart if similarity else apart
    used = np.arange(len(apart)) if control == "precision" else np.flatnonzero(similar == mirrored)
    if groups is not None:
        named = np.asarray(groups)
        if len(named) != len(apart):
            raise ValueError(f"groups has {len(named)} rows for {len(apart)} pairs; pass one for each.")
        used = used[disjoint_pairs(named[used], random_state)]
    order = used[np.argsort(apart[used], kind="stable")]
    # Of false non-matches, the mirror image: the furthest similar pairs come first.
    ordered = -apart[order][::-1] if mirrored else apart[order]
    if control == "precision":
        cut, n_missing, interval = _most_precise(ordered, ~similar[order], alpha, delta)
    else:
        cut, n_missing, interval = _tolerance_limit(ordered, alpha, delta)
    if cut is None:
        limit, matches = None, np.zeros(len(apart), dtype=bool)
    else:
        # The pair at the cut is on the side of the errors that are not made, and so are all pairs that tie with it.
        limit = -ordered[cut] if mirrored else np.nextafter(ordered[cut], -np.inf, dtype=ordered.dtype)
        matches = apart <= limit
    wrong = matches[used] != similar[used] if mirrored else matches[used] & ~similar[used]
    return GuaranteedThreshold(
        None if limit is None else float(-limit if similarity else limit),
        control,
        float(alpha),
        float(delta),
        len(used),
        0 if cut is None else int(np.count_nonzero(wrong)),
        int(np.count_nonzero(matches[used])) if control == "precision" else len(used),
        interval,
        n_missing,
        int(np.count_nonzero(matches & similar)),
        int(np.count_nonzero(similar)),
    )


def disjoint_pairs(groups: ArrayLike, random_state: int = 0) -> LongArray:
    """Row numbers of a maximal set of pairs, no two of which share a name.

    Pairs are taken in random order, each one that shares no name with those taken before.

    Parameters
    ----------
    groups : (p,) or (p, g) array
        Names of what each pair consists of or comes from.
    random_state : int, default 0

    Examples
    --------
    >>> from sdpmetric.classification import disjoint_pairs
    >>> disjoint_pairs([[0, 1], [1, 2], [3, 4]]).shape
    (2,)
    """
    named = np.asarray(groups)
    if named.ndim not in (1, 2):
        raise ValueError(f"groups has shape {named.shape}; pass one row of names for each pair, (p,) or (p, g).")
    names, codes = np.unique(named, return_inverse=True)
    codes = codes.reshape(len(named), named.shape[1] if named.ndim == 2 else 1)
    turn = np.random.default_rng(random_state).permutation(len(named))
    left, taken, free = np.arange(len(named)), np.zeros(len(named), dtype=bool), np.ones(len(names), dtype=bool)
    while len(left):  # all pairs at once whose turn is before that of every pair they share a name with
        first = np.full(len(names), len(named))
        np.minimum.at(first, codes[left], turn[left, None])
        chosen = left[(first[codes[left]] == turn[left, None]).all(axis=1)]
        taken[chosen] = True
        free[codes[chosen]] = False
        left = left[free[codes[left]].all(axis=1)]
    return np.flatnonzero(taken)


def binomial_interval(count: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """The exact interval of Clopper and Pearson for a probability, from `count` successes in n independent trials.

    Parameters
    ----------
    count, n : int
    confidence : float, default 0.95

    Examples
    --------
    >>> from sdpmetric.classification import binomial_interval
    >>> [round(end, 4) for end in binomial_interval(57, 58)]
    [0.9076, 0.9996]
    """
    validation.check_integer("count", count, 0, validation.check_integer("n", n, 0))
    return _interval(count, n, (1.0 - validation.check_number("confidence", confidence, 0.0, 1.0)) / 2.0)


def _interval(count: int, n: int, delta: float) -> tuple[float, float]:
    """Bounds on a probability, each of which fails with probability delta at most."""
    low = float(betaincinv(count, n - count + 1, delta)) if count else 0.0
    return low, float(betaincinv(count + 1, n - count, 1.0 - delta)) if count < n else 1.0


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
    n, each = len(ordered), delta / N_CANDIDATES
    fewest = _fewest(alpha, each)
    if n <= fewest:
        return None, fewest + 1 - n, (0.0, 1.0)
    numbers = np.unique(np.geomspace(fewest, n - 1, N_CANDIDATES).round().astype(np.int64))
    numbers = np.searchsorted(ordered, ordered[numbers])  # without those that tie with the pair after them
    errors = np.concatenate([[0], np.cumsum(wrong)])[numbers]
    proven = bdtr(errors.astype(np.float64), numbers, alpha) <= each
    if not proven.any():
        return None, None, (0.0, 1.0)
    last = int(np.flatnonzero(proven)[-1])
    return int(numbers[last]), 0, _interval(int(errors[last]), int(numbers[last]), each)


def _fewest(alpha: float, delta: float) -> int:
    """The least number of pairs without an error that proves a share of at most alpha: ``(1 - alpha)^n <= delta``."""
    return math.ceil(math.log(delta) / math.log1p(-alpha))


def _checked(distances: ArrayLike, same: ArrayLike) -> tuple[FloatArray, BoolArray]:
    """Finite distances in their own precision, and which pairs are similar."""
    apart, given = np.asarray(distances), column_or_1d(same)
    apart = apart if apart.dtype.kind == "f" else apart.astype(np.float64)
    if apart.ndim != 1 or not np.isfinite(apart).all():
        raise ValueError(f"distances must be finite numbers, one for each pair, got an array of shape {apart.shape}.")
    if len(given) != len(apart):
        raise ValueError(f"same has {len(given)} labels for {len(apart)} pairs; pass one for each.")
    if given.dtype.kind not in "biuf" or not (np.isin(given, (0, 1)).all() or np.isin(given, (-1, 1)).all()):
        raise ValueError("same must be 1 for similar and -1 or 0 for dissimilar pairs, or bool.")
    return apart, given > 0
