"""Proofs that pairs contradict each other: no metric and threshold keep all their hard margins."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sdpmetric import psd

FloatArray = NDArray[np.float64]

# The two conditions of a proof must hold to this relative accuracy.
TOLERANCE = 1e-11
# Multipliers below this share of the largest one are left out of a proof.
NEGLIGIBLE = 1e-9
# What counts as nearly zero in multipliers that are to be made a proof of.
NEARLY = 1e-4
ROUNDS = 12


def contradicts(differences: FloatArray, signs: FloatArray, dual: FloatArray) -> bool:
    """Whether multipliers prove that no point keeps the hard margins ``y_t (b - v_t^T A v_t) >= 1`` with ``b >= 1``.

    They do where ``sum a_t y_t v_t v_t^T`` is PSD and ``sum a_t y_t <= 0``: the constraints weighted by them and added
    up then read ``sum a_t <= 0``. The test is made in coordinates in which the differences in use have a unit second
    moment, so that the units of features do not matter, relative to the shortest of them.

    Parameters
    ----------
    differences : (p, d) array
    signs : (p,) array
        1 for similar pairs, -1 for dissimilar ones.
    dual : (p,) array
        Nonnegative.
    """
    used, a, U = _normalized(differences, dual)
    if len(a) == 0 or float(a @ signs[used]) > TOLERANCE:
        return False
    # A dissimilar pair takes from the sum; none of it may lie in directions too short, beside others, to be seen.
    V = differences[used][signs[used] < 0]
    unseen = np.linalg.norm(differences[used] - U @ (U.T @ differences[used]), axis=1)[signs[used] < 0]
    if (unseen > 1e-8 * np.linalg.norm(V, axis=1)).any():
        return False
    lengths = np.sum(U**2, axis=1)
    shortest = float(lengths[lengths > 0.0].min(initial=np.inf)) if lengths.any() else 0.0
    return psd.smallest_eigenvalue(_matrix(U, a * signs[used])) >= -TOLERANCE * shortest


def repeated(differences: FloatArray, signs: FloatArray) -> FloatArray:
    """Multipliers that prove the contradictions which need no search; zeros where there are none.

    Those are pairs with the same difference, up to its sign, that are similar and dissimilar, and dissimilar pairs of
    equal points.

    Parameters
    ----------
    differences, signs
        As in `contradicts`.
    """
    leading = np.argmax(differences != 0.0, axis=1)
    directed = differences * np.where(differences[np.arange(len(leading)), leading] < 0.0, -1.0, 1.0)[:, None] + 0.0
    _, group = np.unique(directed, axis=0, return_inverse=True)
    group = group.ravel()
    n_similar = np.bincount(group, signs > 0)[group]
    n_dissimilar = np.bincount(group, signs < 0)[group]
    a = np.where((n_similar > 0) & (n_dissimilar > 0), 1.0 / np.where(signs > 0, n_similar, n_dissimilar), 0.0)
    return np.where((directed == 0.0).all(axis=1), (signs < 0).astype(np.float64), a)


def sharpen(differences: FloatArray, signs: FloatArray, dual: FloatArray) -> FloatArray | None:
    """Turn multipliers that nearly prove a contradiction into ones that do; None where that fails.

    Newton's method on the eigenvalues that ought to be zero: their block of ``sum a_t y_t v_t v_t^T``, and the sum of
    ``a_t y_t`` if it ought to be zero too, are linear in the multipliers, and the least relative change of these that
    makes them vanish is a step.

    Parameters
    ----------
    differences, signs, dual
        As in `contradicts`.
    """
    used, a, U = _normalized(differences, np.where(dual > NEARLY * dual.max(initial=0.0), dual, 0.0))
    y = signs[used]
    for _ in range(ROUNDS):
        if len(a) == 0:
            return None
        proof = np.zeros_like(dual)
        proof[used] = a
        if contradicts(differences, signs, proof):
            return proof
        values, vectors = np.linalg.eigh(_matrix(U, a * y))
        nearly = values < NEARLY * float(np.abs(values).max(initial=0.0))
        if float(a @ y) > NEARLY or (values < -NEARLY * float(a @ np.sum(U**2, axis=1))).any():
            return None
        flat = U @ vectors[:, nearly]
        row, column = np.triu_indices(flat.shape[1])
        rows = [(flat[:, row] * flat[:, column]).T * y, np.ones((1, len(a)))]
        goals = [-(rows[0] @ a), np.zeros(1)]
        if float(a @ y) > -NEARLY:
            rows.append(y[None])
            goals.append(np.array([-float(a @ y)]))
        relative, *_ = np.linalg.lstsq(np.concatenate(rows) * a, np.concatenate(goals), rcond=1e-12)
        a = np.maximum(a * (1.0 + relative), 0.0)
        a /= max(float(a.sum()), np.finfo(float).tiny)
    return None


def _normalized(differences: FloatArray, dual: FloatArray) -> tuple[NDArray[np.intp], FloatArray, FloatArray]:
    """The pairs in use, their multipliers with sum 1, and their differences, whitened."""
    total = float(dual.sum())
    used = np.flatnonzero(dual > NEGLIGIBLE * dual.max(initial=0.0)) if 0.0 < total < np.inf else np.zeros(0, np.intp)
    V = differences[used]
    if len(used) == 0:
        return used, np.zeros(0), V
    U, sigma, _ = np.linalg.svd(V, full_matrices=False)
    U = U[:, sigma > psd.RANK_TOLERANCE * sigma.max(initial=0.0)]
    a: FloatArray = dual[used] / float(dual[used].sum())
    return used, a, U


def _matrix(U: FloatArray, weights: FloatArray) -> FloatArray:
    return psd.symmetrize((U * weights[:, None]).T @ U)
