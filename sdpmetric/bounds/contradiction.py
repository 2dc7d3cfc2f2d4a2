"""Proofs of infeasibility: no metric and threshold satisfy the hard margins of all pairs."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray
from sdpmetric.linalg import exact, psd
from sdpmetric.linalg.rigorous import Form, Images

# Multipliers below this share of the largest one are left out of a proof.
NEGLIGIBLE = 1e-9
# Relative values below this count as nearly zero in multipliers that nearly prove a contradiction; Newton steps.
NEARLY = 1e-4
ROUNDS = 12
# Targets for eigenvalues that should be zero: slightly positive, so they stay positive under rounding.
RAISED = (1e-6, 1e-9)
# Directions in which normalized differences are at most this long are left out where exact elimination agrees, which is
# tried up to so many entries and features.
NULL, LARGEST = 8.0 * float(np.finfo(float).eps), (400_000, 128)
# Largest numbers of pairs and features for which nearly singular proofs are checked in rational arithmetic.
EXACT = (60, 12)
HAIR = 1e-9
# A multiplier times its squared length below this, the largest multiplier being 1, could vanish by underflow.
SMALLEST = 1e-250
# Largest denominator of the fractions that ratios of multipliers are rounded to, for exactly singular proofs.
DENOMINATOR = 1000


def contradicts(differences: FloatArray, signs: FloatArray, dual: FloatArray, rest: FloatArray | None = None) -> bool:
    """Whether multipliers prove that no point satisfies all hard margins ``y_t (b - v_t^T A v_t) >= 1``, ``b >= 1``.

    They do where ``sum a_t y_t v_t v_t^T`` is PSD and ``sum a_t y_t <= 0``: the constraints weighted by them and added
    up then read ``sum a_t <= 0``. The sum is exact. The matrix must be proven positive on coordinates of as many
    dimensions as the differences span, or else be PSD in rational arithmetic, which is tried for few pairs.
    """
    used = _used(dual)
    a, y = dual[used], signs[used]
    if len(used) == 0 or math.fsum(a * y) > 0.0:
        return False
    V = differences[used]
    R = np.zeros_like(V) if rest is None else rest[used]
    if _cancels(V, R, a * y):
        return True
    a = a / 2.0 ** np.frexp(a.max())[1]
    units = 2.0 ** np.frexp(np.abs(V).max(axis=0))[1]
    live = V.any(axis=0)
    V, R = (V / units)[:, live], (R / units)[:, live]
    lengths = 2.0 ** np.frexp(np.abs(V).max(axis=1, initial=0.0))[1]
    weights = a * lengths**2
    if weights.min() < SMALLEST:
        return False
    form, proven = _form(V / lengths[:, None], R / lengths[:, None], weights * y)
    if proven and form.least > 0.0:
        return True
    few = len(V) <= EXACT[0] and V.shape[1] <= EXACT[1]
    return few and psd.smallest_eigenvalue(form.matrix) > -HAIR - form.error and _exactly(V, R, a * y)


def repeated(differences: FloatArray, signs: FloatArray) -> FloatArray:
    """Multipliers of the contradictions that need no search; zeros if there are none.

    Those are pairs with the same difference, up to its sign, that are similar and dissimilar, and dissimilar pairs of
    equal points.
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


def _cancels(V: FloatArray, R: FloatArray, weights: FloatArray) -> bool:
    """Whether the weights of every nonzero difference add up to at least 0, exactly."""
    differ = V.any(axis=1)
    V, weights = np.concatenate([V, R], axis=1)[differ], weights[differ]
    if len(V) == 0:
        return True
    group = _groups(V)
    if np.bincount(group, weights).min() < -HAIR * np.abs(weights).max():
        return False
    return all(math.fsum(weights[group == g]) >= 0.0 for g in np.unique(group[weights < 0.0]))


def sharpen(
    differences: FloatArray, signs: FloatArray, dual: FloatArray, rest: FloatArray | None = None
) -> FloatArray | None:
    """Turn multipliers that nearly prove a contradiction into ones that do; None where that fails.

    Newton's method on the eigenvalues that should be zero: their block of ``sum a_t y_t v_t v_t^T``, and the sum of
    ``a_t y_t`` if it should be zero too, are linear in the multipliers, and the least relative change of these that
    makes them vanish is a step. Multipliers that raise them above rounding are tried, and ones in simple ratios.
    """
    used, a, U = _normalized(differences, np.where(dual > NEARLY * dual.max(initial=0.0), dual, 0.0))
    y = signs[used]
    for _ in range(ROUNDS):
        if len(a) == 0:
            return None
        steps = _steps(U, a, y, (*RAISED, 0.0))
        if steps is None:
            return None
        for tried in (a, *steps[:-1], simplest(a)):
            proof = np.zeros_like(dual)
            proof[used] = tried
            if contradicts(differences, signs, proof, rest):
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


def simplest(a: FloatArray) -> FloatArray:
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


def _form(V: FloatArray, R: FloatArray, weights: FloatArray) -> tuple[Form, bool]:
    """``sum w_t v_t v_t^T`` where the differences have a unit second moment, and whether they span no more dimensions.

    A positive least eigenvalue proves that the coordinates are as many as their number says, however computed. The
    differences are those of points, each entry rounded once, to the origin.
    """
    _, sigma, basis = np.linalg.svd(V, full_matrices=False)
    nonzero = sigma > NULL * sigma.max(initial=0.0)
    points, rank = np.concatenate([V, np.zeros((1, V.shape[1]))]), int(nonzero.sum())
    images = Images.of(points, points, basis[nonzero].T / sigma[nonzero])
    ends = (np.arange(len(V), dtype=np.int32), np.full(len(V), len(V), dtype=np.int32))
    form = images.form(*ends, weights, accuracy=0.0)
    if rank == min(V.shape):
        return form, True
    if V.shape[1] > LARGEST[1] or V.size > LARGEST[0]:
        return form, False
    whole = exact.integers(np.concatenate([V, R]))
    try:
        return form, exact.null_space(whole[: len(V)] + whole[len(V) :]).shape[1] == V.shape[1] - rank
    except ArithmeticError:
        return form, False


def _exactly(V: FloatArray, R: FloatArray, weights: FloatArray) -> bool:
    """Whether ``sum w_t v_t v_t^T`` is PSD, by elimination in rational numbers."""
    sums = zip(V.tolist(), R.tolist(), strict=True)
    rows = [[Fraction(value) + Fraction(less) for value, less in zip(*row, strict=True)] for row in sums]
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
