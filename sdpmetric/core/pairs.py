"""Pairs that are said to be similar or not: checked, or made from labels."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sdpmetric.core import validation

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.int32]
BoolArray = NDArray[np.bool_]

# Up to so many examples all pairs are listed before some are drawn.
LISTED = 2000


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
        raise ValueError(f"pair {rows[itself][0].tolist()} repeats a row; leave it out.")
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


def check_targets(
    data: NDArray[np.floating], pairs: ArrayLike, targets: ArrayLike, sides: ArrayLike | None
) -> tuple[IndexArray, FloatArray, FloatArray]:
    """Pairs of two different rows, the squared distance that each is to have, and on which side of it it may be.

    Parameters
    ----------
    data : (n, d) array
    pairs : (p, 2) integer array
    targets : (p,) array
        Finite, at least 0; a single number stands for all.
    sides : (p,) array or None
        0: the target is to be met; 1: it is a largest, -1: a smallest distance. A single number stands for all; None
        is 0.

    Raises
    ------
    ValueError
        If a pair is out of range, of a row with itself, or of two equal examples that are to be parted; if targets are
        negative or not finite, sides are no such numbers, or the lengths differ.
    """
    rows = validation.check_pairs(pairs, len(data))
    itself = rows[:, 0] == rows[:, 1]
    if itself.any():
        raise ValueError(f"pair {rows[itself][0].tolist()} repeats a row; leave it out.")
    values = _numbers("targets", targets, len(rows))
    if not (np.isfinite(values) & (values >= 0)).all():
        worst = values[~(np.isfinite(values) & (values >= 0))][0]
        raise ValueError(f"targets must be finite squared distances of at least 0, got {worst:g}.")
    marks = np.zeros(len(rows)) if sides is None else _numbers("sides", sides, len(rows))
    if not np.isin(marks, (-1, 0, 1)).all():
        raise ValueError("sides must be 1 (at most the target), -1 (at least the target) or 0 (the target itself).")
    apart = (values > 0) & (marks <= 0)
    same = np.zeros(len(rows), dtype=bool)
    same[apart] = (data[rows[apart, 0]] == data[rows[apart, 1]]).all(axis=1)
    if same.any():
        raise ValueError(
            f"pair {rows[same][0].tolist()} has two equal examples, which no metric can bring {values[same][0]:g} "
            f"apart ({int(same.sum())} such pairs); leave it out."
        )
    return rows, values, marks


def _numbers(name: str, given: ArrayLike, p: int) -> FloatArray:
    try:
        values = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numbers, one for each pair ({error}).") from error
    if values.shape not in ((), (p,)):
        raise ValueError(f"{name} must be {p} numbers, one for each pair, got shape {values.shape}.")
    return np.array(np.broadcast_to(values, p))


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
    if n_pairs is not None:
        validation.check_integer("n_pairs", n_pairs)
    rng = np.random.default_rng(0 if random_state is None else random_state)
    if n_pairs is not None and len(index) > LISTED:
        return _drawn_pairs(index, n_pairs, rng)
    first, second = np.triu_indices(len(index), 1)
    similar = index[first] == index[second]
    kept = np.arange(len(first))
    if n_pairs is not None:
        kinds = (np.flatnonzero(similar), np.flatnonzero(~similar))
        kept = np.sort(np.concatenate([rng.permutation(kind)[:n_pairs] for kind in kinds]))
    pairs = np.stack([first[kept], second[kept]], axis=1).astype(np.int32)
    return pairs, similar[kept]


def _drawn_pairs(index: IndexArray, n_pairs: int, rng: np.random.Generator) -> tuple[IndexArray, BoolArray]:
    """A sample of each kind, without a list of all pairs: anchors by how many partners they have, then a partner."""
    n = len(index)
    order = np.argsort(index, kind="stable")  # a class is a run of places
    _, starts, sizes = np.unique(index[order], return_index=True, return_counts=True)
    start, size = np.repeat(starts, sizes), np.repeat(sizes, sizes)
    keys = []
    for similar, partners in ((True, size - 1), (False, n - size)):
        wanted, kind = min(n_pairs, int(partners.sum()) // 2), np.zeros(0, dtype=np.int64)
        while len(kind) < wanted:
            one = rng.choice(n, 2 * (wanted - len(kind)), p=partners / partners.sum())
            other = rng.integers(0, partners[one])
            # Partners are the own class without oneself, or all places without the own class.
            if similar:
                other += start[one] + (other >= one - start[one])
            else:
                other += np.where(other >= start[one], size[one], 0)
            ends = np.sort(order[np.stack([one, other])], axis=0)
            kind = np.unique(np.concatenate([kind, ends[0] * n + ends[1]]))
        keys.append(rng.permutation(kind)[:wanted])
    chosen = np.sort(np.concatenate(keys))
    pairs = np.stack([chosen // n, chosen % n], axis=1).astype(np.int32)
    return pairs, index[pairs[:, 0]] == index[pairs[:, 1]]


def check_pairs(pairs: ArrayLike, n: int) -> IndexArray:
    """Pairs of two different rows below n, at least one; (p, 2)."""
    given = validation.check_pairs(pairs, n)
    if len(given) == 0:
        raise ValueError("pairs is empty; pass at least one pair of row numbers of X.")
    alone = given[:, 0] == given[:, 1]
    if alone.any():
        t = int(np.flatnonzero(alone)[0])
        raise ValueError(
            f"pair {t} is of row {given[t, 0]} with itself: its distance is 0 under every metric; leave it out."
        )
    return given


def check_similar(similar: ArrayLike, n_pairs: int) -> BoolArray:
    """Flags of pairs, bool or +1 and -1, as bool; (p,)."""
    given = np.asarray(similar)
    if given.shape != (n_pairs,):
        raise ValueError(f"similar has shape {given.shape} for {n_pairs} pairs; pass one value per pair.")
    if given.dtype.kind == "b":
        return given.copy()
    if given.dtype.kind not in "iuf" or not np.isin(given, (-1, 1)).all():
        raise ValueError("similar must be bool, or +1 for similar and -1 for dissimilar pairs.")
    return np.asarray(given > 0)


def contradiction_loss(pairs: IndexArray, similar: BoolArray) -> float:
    """What every fixed metric and threshold loses on pairs, as squared hinges, by contradictions that are plain.

    Where a pair is named m times as similar and n times as dissimilar, the squared hinges add up to
    ``m [1 - z]_+^2 + n [1 + z]_+^2`` with ``z = b - v^T A v``, which is ``4 m n / (m + n)`` at least.

    Parameters
    ----------
    pairs : (p, 2) array
    similar : (p,) bool array
    """
    names, index = np.unique(np.sort(pairs, axis=1), axis=0, return_inverse=True)
    m, n = (np.bincount(index.ravel()[similar == kind], minlength=len(names)) for kind in (True, False))
    return float(np.sum(4.0 * m * n / np.maximum(m + n, 1)))
