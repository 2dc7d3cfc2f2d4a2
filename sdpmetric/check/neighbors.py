"""Whether target pairs are the nearest neighbors in the data, or the file's own choice."""

from __future__ import annotations

import numpy as np

from sdpmetric.check.arithmetic import float_distances, gamma
from sdpmetric.check.files import FloatArray, IndexArray

# The share up to which squared distances are ties; differences whose squares may underflow.
TIES, FAINTEST = 1e-9, 2.0**-450


def origin_of_targets(X: FloatArray, y: IndexArray, targets: IndexArray) -> str:
    """In words, where the target pairs come from."""
    k, shift = targets.shape[1], 400 - int(np.frexp(np.abs(X).max())[1])
    scaled = np.ldexp(X, shift)  # no square overflows
    verdicts = [_nearest(scaled[own], np.flatnonzero(own), targets[own]) for own in (y == c for c in np.unique(y))]
    if False in verdicts:
        return f"the file's own choice, not the {k} nearest of the data"
    if None in verdicts or (np.ldexp(scaled, -shift) != X).any():
        return f"the file's own choice, not proven to be the {k} nearest of the data"
    ties = f"squared distances equal to a relative {TIES!r} are ties, of which the lowest rows are taken"
    return f"the {k} nearest examples of the same class in these data ({ties})"


def _nearest(X: FloatArray, rows: IndexArray, targets: IndexArray) -> bool | None:
    """Whether targets are the nearest other examples of a class, those at `rows`; None where rounding leaves it open.

    Of the k-th least distance, the clearly lesser ones are taken first, and then ties by their index. Only examples
    whose lower bound is below the upper bound of the k-th are looked at, by differences: these are off by a share.
    """
    k, share = targets.shape[1], gamma(8 * X.shape[1] + 80)
    if len(rows) <= k or (targets < 0).any():
        return False
    for start, low, high in float_distances(X, np.eye(X.shape[1])):
        for at, (least, most) in enumerate(zip(low, high, strict=True), start):
            least[at] = most[at] = np.inf
            near = np.flatnonzero(least <= np.partition(most, k - 1)[k - 1] * (1.0 + 2.0 * TIES))
            apart = np.abs(X[near] - X[at])
            reach, squared = apart.max(axis=1), np.sum(apart**2, axis=1)
            kth = np.partition(squared, k - 1)[k - 1]
            first, tied = squared < kth * (1 - TIES - share), np.abs(squared - kth) <= kth * (TIES - share)
            faint, beyond = (reach > 0.0) & (reach < FAINTEST), squared > kth * (1 + TIES + share)
            if faint.any() or not (first | tied | beyond).all():
                return None
            chosen = np.concatenate([near[first], near[tied]])[:k]
            if set(rows[chosen].tolist()) != set(targets[at].tolist()):
                return False
    return True
