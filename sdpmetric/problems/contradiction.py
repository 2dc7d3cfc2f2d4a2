"""Proofs of infeasibility: no metric and threshold satisfy the hard margins of all pairs."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sdpmetric.linalg import psd

FloatArray = NDArray[np.float64]

# Multipliers below this share of the largest one are left out of a proof.
NEGLIGIBLE = 1e-9
# Relative values below this count as nearly zero in multipliers that nearly prove a contradiction; Newton steps.
NEARLY = 1e-4
ROUNDS = 12
# Targets for eigenvalues that should be zero: slightly positive, so that they stay positive under rounding.
RAISED = (1e-6, 1e-9)
# Directions in which normalized differences are at most this long are rounding errors of the data.
NULL = 8.0 * float(np.finfo(float).eps)
# Largest numbers of pairs and features for which nearly singular proofs are checked in rational arithmetic.
EXACT = (60, 12)
HAIR = 1e-9
# A multiplier times its squared length below this, the largest multiplier being 1, could vanish by underflow.
SMALLEST = 1e-250
# Largest denominator of the fractions that ratios of multipliers are rounded to, for exactly singular proofs.
DENOMINATOR = 1000


def contradicts(differences: FloatArray, signs: FloatArray, dual: FloatArray) -> bool:
    """Whether multipliers prove that no point satisfies all hard margins ``y_t (b - v_t^T A v_t) >= 1``, ``b >= 1``.

    They do where ``sum a_t y_t v_t v_t^T`` is PSD and ``sum a_t y_t <= 0``: the constraints weighted by them and added
    up then read ``sum a_t <= 0``. The sum is exact. The matrix must be positive by more than the rounding of its
    computation, bounded entry by entry, or else be PSD in rational arithmetic, which is tried for few pairs. Directions
    are left out only where every difference is rounding error relative to its own length and, feature by feature, to
    the longest difference.

    Parameters
    ----------
    differences : (p, d) array
    signs : (p,) array
        1 for similar pairs, -1 for dissimilar ones.
    dual : (p,) array
        Nonnegative; those below 1e-9 of the largest one are left out.
    """
    used = _used(dual)
    a, y = dual[used], signs[used]
    if len(used) == 0 or math.fsum(a * y) > 0.0:
        return False
    if _cancels(differences[used], a * y):
        return True
    a = a / 2.0 ** np.frexp(a.max())[1]
    units = 2.0 ** np.frexp(np.abs(differences[used]).max(axis=0))[1]
    V = (differences[used] / units)[:, differences[used].any(axis=0)]
    lengths = 2.0 ** np.frexp(np.abs(V).max(axis=1, initial=0.0))[1]
    weights = a * lengths**2
    if weights.min() < SMALLEST:
        return False
    smallest, rounding = _spectrum(V / lengths[:, None], weights, y)
    if smallest > rounding:
        return True
    return len(V) <= EXACT[0] and V.shape[1] <= EXACT[1] and smallest > -HAIR - rounding and _exactly(V, a * y)


def repeated(differences: FloatArray, signs: FloatArray) -> FloatArray:
    """Multipliers of the contradictions that need no search; zeros where there are none.

    Those are pairs with the same difference, up to its sign, that are similar and dissimilar, and dissimilar pairs of
    equal points.

    Parameters
    ----------
    differences, signs
        As in `contradicts`.
    """
    group = _groups(differences)
    n_similar = np.bincount(group, signs > 0)[group]
    n_dissimilar = np.bincount(group, signs < 0)[group]
    a = np.where(signs > 0, n_dissimilar, n_similar).astype(np.float64)  # whole numbers, which cancel exactly
    return np.where(~differences.any(axis=1), (signs < 0).astype(np.float64), a)


def _groups(differences: FloatArray) -> NDArray[np.intp]:
    """A number for each difference, the same for differences that are equal up to sign."""
    leading = np.argmax(differences != 0.0, axis=1)
    directed = differences * np.where(differences[np.arange(len(leading)), leading] < 0.0, -1.0, 1.0)[:, None] + 0.0
    _, group = np.unique(directed, axis=0, return_inverse=True)
    return np.asarray(group.ravel(), dtype=np.intp)


def _cancels(V: FloatArray, weights: FloatArray) -> bool:
    """Whether the weights of every nonzero difference add up to at least 0, exactly."""
    V, weights = V[V.any(axis=1)], weights[V.any(axis=1)]
    if len(V) == 0:
        return True
    group = _groups(V)
    if np.bincount(group, weights).min() < -HAIR * np.abs(weights).max():
        return False
    return all(math.fsum(weights[group == g]) >= 0.0 for g in np.unique(group[weights < 0.0]))


def sharpen(differences: FloatArray, signs: FloatArray, dual: FloatArray) -> FloatArray | None:
    """Turn multipliers that nearly prove a contradiction into ones that do; None where that fails.

    Newton's method on the eigenvalues that should be zero: their block of ``sum a_t y_t v_t v_t^T``, and the sum of
    ``a_t y_t`` if it should be zero too, are linear in the multipliers, and the least relative change of these that
    makes them vanish is a step. Multipliers that raise them above rounding are tried, and ones in simple ratios.

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
        steps = _steps(U, a, y, (*RAISED, 0.0))
        if steps is None:
            return None
        for tried in (a, *steps[:-1], _simplest(a)):
            proof = np.zeros_like(dual)
            proof[used] = tried
            if contradicts(differences, signs, proof):
                return proof
        a = steps[-1]
    return None


def _steps(U: FloatArray, a: FloatArray, y: FloatArray, goals: tuple[float, ...]) -> list[FloatArray] | None:
    """Newton steps that bring nearly zero values to each target; None where a value is clearly negative."""
    values, vectors = np.linalg.eigh(_matrix(U, a * y))
    nearly = values < NEARLY * float(np.abs(values).max(initial=0.0))
    if float(a @ y) > NEARLY or (values < -NEARLY * float(a @ np.sum(U**2, axis=1))).any():
        return None
    flat = U @ vectors[:, nearly]
    row, column = np.triu_indices(flat.shape[1])
    products = (flat[:, row] * flat[:, column]).T * y
    near_sum = float(a @ y) > -NEARLY
    system = np.concatenate([products, np.ones((1, len(a))), *([y[None]] if near_sum else [])]) * a
    found = []
    for goal in goals:
        missing = [goal * (row == column) - products @ a, np.zeros(1)]
        if near_sum:
            missing.append(np.array([-goal - float(a @ y)]))
        relative, *_ = np.linalg.lstsq(system, np.concatenate(missing), rcond=1e-12)
        moved = np.maximum(a * (1.0 + relative), 0.0)
        found.append(moved / max(float(moved.sum()), np.finfo(float).tiny))
    return found


def _simplest(a: FloatArray) -> FloatArray:
    """Whole numbers whose ratios are those of the multipliers, nearly."""
    largest = float(a.max())
    if len(a) > EXACT[0] or largest <= 0.0:
        return a
    ratios = [Fraction(float(value) / largest).limit_denominator(DENOMINATOR) for value in a]
    common = math.lcm(*(ratio.denominator for ratio in ratios))
    return np.array([float(ratio * common) for ratio in ratios])


def _used(dual: FloatArray) -> NDArray[np.intp]:
    total = float(dual.sum())
    return np.flatnonzero(dual > NEGLIGIBLE * dual.max(initial=0.0)) if 0.0 < total < np.inf else np.zeros(0, np.intp)


def _spectrum(V: FloatArray, weights: FloatArray, y: FloatArray) -> tuple[float, float]:
    """Smallest eigenvalue of ``sum w_t y_t v_t v_t^T`` where the differences have a unit second moment, and its error.

    A smallest eigenvalue above the error proves that the matrix of coordinates is regular and the sum positive
    definite, however the coordinates were computed.
    """
    _, sigma, basis = np.linalg.svd(V, full_matrices=False)
    kept = sigma > NULL * sigma.max(initial=0.0)
    T = basis[kept].T / sigma[kept]
    if not kept.any():
        return np.inf, 0.0  # all differences are 0
    eps = float(np.finfo(float).eps)
    U = V @ T
    long, off = np.linalg.norm(U, axis=1), (V.shape[1] + 2) * eps * np.linalg.norm(np.abs(V) @ np.abs(T), axis=1)
    size = float(weights @ (long + off) ** 2)
    rounding = float(weights @ (2.0 * long * off + off**2)) + 4.0 * (len(V) + U.shape[1] + 8) * eps * size
    return psd.smallest_eigenvalue(_matrix(U, weights * y)), 2.0 * rounding


def _exactly(V: FloatArray, weights: FloatArray) -> bool:
    """Whether ``sum w_t v_t v_t^T`` is PSD, by elimination in rational numbers."""
    rows = [[Fraction(value) for value in row] for row in V.tolist()]
    scale = [Fraction(value) for value in weights.tolist()]
    d = V.shape[1]
    M = [
        [sum((w * v[i] * v[j] for w, v in zip(scale, rows, strict=True)), Fraction(0)) for j in range(d)]
        for i in range(d)
    ]
    for k in range(d):
        pivot = M[k][k]
        if pivot < 0 or (pivot == 0 and any(M[k][k:])):
            return False
        for i in range(k + 1, d) if pivot else ():
            share = M[i][k] / pivot
            M[i][k:] = [left - share * right for left, right in zip(M[i][k:], M[k][k:], strict=True)]
    return True


def _normalized(differences: FloatArray, dual: FloatArray) -> tuple[NDArray[np.intp], FloatArray, FloatArray]:
    """The pairs in use, their multipliers with sum 1, and their differences, whitened."""
    used = _used(dual)
    V = differences[used]
    if len(used) == 0:
        return used, np.zeros(0), V
    longest = np.abs(V).max(axis=0)
    U, sigma, _ = np.linalg.svd(V / np.where(longest > 0.0, longest, 1.0), full_matrices=False)
    U = U[:, sigma > psd.RANK_TOLERANCE * sigma.max(initial=0.0)]
    a: FloatArray = dual[used] / float(dual[used].sum())
    return used, a, U


def _matrix(U: FloatArray, weights: FloatArray) -> FloatArray:
    return psd.symmetrize((U * weights[:, None]).T @ U)
