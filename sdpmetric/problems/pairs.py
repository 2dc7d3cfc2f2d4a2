"""Pairs that are said to be similar or not: checked, or made from labels."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sdpmetric import validation

IndexArray = NDArray[np.int32]
BoolArray = NDArray[np.bool_]


def check_labelled_pairs(pairs: ArrayLike, similar: ArrayLike, n: int) -> tuple[IndexArray, BoolArray]:
    """Pairs of two different rows below n, none of them both similar and dissimilar.

    Parameters
    ----------
    pairs : (p, 2) integer array
        Pairs may repeat, in either order; each counts as often as it is named.
    similar : (p,) array
        bool, or +1 for similar and -1 for dissimilar.
    n : int

    Raises
    ------
    ValueError
        If a pair is out of range, of a row with itself, or named as similar and as dissimilar; if `similar` has another
        length or other values.
    """
    rows = validation.check_pairs(pairs, n)
    itself = rows[:, 0] == rows[:, 1]
    if itself.any():
        raise ValueError(f"pair {rows[itself][0].tolist()} is an example with itself, 0 apart always; leave it out.")
    flags = np.asarray(similar)
    if flags.dtype != bool and flags.dtype.kind in "iuf" and np.isin(flags, (1, -1)).all():
        flags = flags == 1
    if flags.shape != (len(rows),) or flags.dtype != bool:
        raise ValueError(
            f"similar must be {len(rows)} flags, one per pair, bool or +1 and -1, "
            f"got shape {flags.shape} and dtype {flags.dtype}."
        )
    ordered = np.sort(rows, axis=1).astype(np.int64)
    keys = ordered[:, 0] * n + ordered[:, 1]
    both = np.isin(keys, np.intersect1d(keys[flags], keys[~flags]))
    if both.any():
        raise ValueError(
            f"pair {rows[both][0].tolist()} is named as similar and as dissimilar "
            f"({len(np.unique(keys[both]))} such pairs); decide for one."
        )
    return rows, flags


def pairs_of_labels(index: IndexArray, n_pairs: int | None, random_state: int | None) -> tuple[IndexArray, BoolArray]:
    """All pairs ``a < b`` of examples, similar where the labels agree, or a random sample of each kind.

    Parameters
    ----------
    index : (n,) int32 array
        Class of each example.
    n_pairs : int or None
        Pairs of each kind at most, drawn without replacement; None: all.
    random_state : int or None
        Seed of the sample; None: 0.
    """
    first, second = np.triu_indices(len(index), 1)
    similar = index[first] == index[second]
    kept = np.arange(len(first))
    if n_pairs is not None:
        if isinstance(n_pairs, bool) or not isinstance(n_pairs, int | np.integer) or n_pairs < 1:
            raise ValueError(f"n_pairs must be a positive integer or None (all pairs), got {n_pairs!r}.")
        rng = np.random.default_rng(0 if random_state is None else random_state)
        kinds = (np.flatnonzero(similar), np.flatnonzero(~similar))
        kept = np.sort(np.concatenate([rng.permutation(kind)[:n_pairs] for kind in kinds]))
    pairs = np.stack([first[kept], second[kept]], axis=1).astype(np.int32)
    return pairs, similar[kept]
