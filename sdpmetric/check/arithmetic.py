"""Numbers that are proven: balls of python-flint where there are few, and floats with bounds of their rounding.

Floats: an operation is off by at most a share U of its result, or, where that is below 2^-1022, by an absolute 2^-1074
(Higham, Accuracy and Stability, chapter 2). Sums and matrix products may take any order. Shares are counted by `gamma`,
absolute errors by FAINT, added to the length of each computed vector, and by TINY = FAINT^2, added to each sum, which
is far more than 2^50 operations can lose. Near them a proof fails; it is never wrong. Infinities and NaN prove nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress

import numpy as np
from flint import arb, arb_mat, ctx, fmpq, fmpq_mat

from sdpmetric.check.files import FloatArray, IndexArray, Refused

# Examples up to which balls are used, the bits of their midpoints, and rows of a block of floats.
SMALL, BITS, ROWS = 500, 320, 512
U, FAINT, TINY = 2.0**-53, 2.0**-500, 2.0**-1000
ctx.prec = BITS


def gamma(n: int) -> float:
    """A sum of n products of floats errs by at most this share of the sum of their absolute values."""
    return 1.01 * n * U


def above(values: FloatArray) -> arb:
    """Not less than a sum of nonnegative floats, each off by at most TINY; infinite or NaN if one is."""
    if not np.isfinite(values).all() or values.max(initial=0.0) > 2.0**960:
        return arb("inf")
    return arb(math.nextafter(math.fsum(values.ravel()), math.inf)) + values.size * arb(TINY)


def balls(A: FloatArray) -> arb_mat:
    """A matrix of floats as exact balls."""
    return arb_mat(A.shape[0], A.shape[1], [arb(value) for value in A.ravel().tolist()])


def total(parts: list[arb]) -> arb:
    """Their sum."""
    return sum(parts, arb(0))


def inner(A: arb_mat, B: arb_mat) -> arb:
    """``<A, B>``."""
    return total([a * b for a, b in zip(A.entries(), B.entries(), strict=True)])


def squares(A: arb_mat) -> list[arb]:
    """The squared lengths of the rows."""
    return [total([entry * entry for entry in row]) for row in A.tolist()]


def ends(ball: arb) -> tuple[float, float]:
    """Floats below and above all numbers of a ball: a conversion is off by less than the step to the next float."""
    if not ball.is_finite():
        raise Refused("numbers: one is beyond the range in which anything is proven")
    return math.nextafter(float(ball.lower()), -math.inf), math.nextafter(float(ball.upper()), math.inf)


def distances(X: FloatArray, L: FloatArray, P: arb_mat | None) -> Iterator[tuple[int, FloatArray, FloatArray]]:
    """Bounds of ``|L P^T (x_a - x_b)|^2``: the first a of a block, and two (rows, n) arrays of its a and all b."""
    if (n := len(X)) > SMALL and P is None:
        yield from float_distances(X, L)
        return
    images = (balls(X) if P is None else balls(X) * P) * balls(L).transpose()
    G = (images * images.transpose()).tolist()
    bounds = np.array([[ends(G[a][a] + G[b][b] - 2 * G[a][b]) for b in range(n)] for a in range(n)])
    yield 0, np.maximum(bounds[:, :, 0], 0.0), bounds[:, :, 1]


def float_distances(X: FloatArray, L: FloatArray) -> Iterator[tuple[int, FloatArray, FloatArray]]:
    """`distances` in floats.

    With z computed images, off by at most e: ``|z_a|^2 + |z_b|^2 - 2 z_a z_b`` is off by a share gamma of
    ``(|z_a| + |z_b|)^2``, and the images add at most ``2 |z_a - z_b| (e_a + e_b) + (e_a + e_b)^2``.
    """
    centered = X - X.mean(axis=0)  # one shift for all; each entry is rounded once
    Z = centered @ L.T
    error = gamma(X.shape[1] + 3) * np.linalg.norm(np.abs(centered) @ np.abs(L).T, axis=1) + FAINT
    norms, reach, share = np.sum(Z**2, axis=1), np.linalg.norm(Z, axis=1) + error, gamma(2 * L.shape[0] + 12)
    for start in range(0, len(X), ROWS):
        some = slice(start, start + ROWS)
        D, long = norms[some, None] + norms - 2.0 * (Z[some] @ Z.T), reach[some, None] + reach
        off = share * long**2 + 2.02 * long * (error[some, None] + error) + TINY
        yield start, np.maximum(D - off, 0.0) * (1 - 4 * U), (np.maximum(D, 0.0) + off) * (1 + 4 * U)


def is_positive(S: arb_mat) -> bool:
    """Whether a symmetric matrix is proven to be positive definite: by its leading minors, or as nearly the identity.

    For the latter any regular R will do, and one for which ``R S R^T`` has a dominant diagonal is regular.
    """
    rows, n = S.tolist(), S.nrows()
    if n <= 40:
        return all(arb_mat([row[:k] for row in rows[:k]]).det() > 0 for k in range(1, n + 1))
    middle = np.array([[float(entry.mid()) for entry in row] for row in rows])
    with suppress(np.linalg.LinAlgError):
        R = balls(np.linalg.inv(np.linalg.cholesky(middle)))
        near = (R * S * R.transpose()).tolist()
        return all(2 * row[k] > total([abs(entry) for entry in row]) for k, row in enumerate(near))
    return False


def require_psd(
    X: FloatArray, pairs: dict[tuple[int, int], arb], N: arb_mat, V: FloatArray, P: arb_mat | None, diagonal: bool
) -> None:
    """Refuse ``P^T S P`` that is not proven PSD, ``S = sum_q w_q v_q v_q^T + N`` with v_q the difference of pair q.

    It is PSD if ``V^T P^T S P V > 0`` and V has as many columns as the ``P^T v`` span dimensions: for each x there is
    then a y with the same products ``v^T P V y = v^T P x``. With N other than 0, V must be regular, but for features in
    which nothing differs and N has a nonnegative diagonal and nothing else. Of diagonal metrics the diagonal counts.
    """
    both = {tuple(sorted(pair)): pairs[pair] + pairs.get(pair[::-1], arb(0)) for pair in pairs}
    used = {pair: weight for pair, weight in both.items() if not weight.is_zero()}
    first, second = np.array([*used], dtype=np.int64).reshape(-1, 2).T
    w, plain = [*used.values()], P is None
    D = balls(X[first]) - balls(X[second]) if len(X) <= SMALL or diagonal or not plain else None
    if P is not None and D is not None:
        D, N = D * P, P.transpose() * N * P
    if diagonal and D is not None:
        entries = zip(*D.tolist(), strict=True) if used else [()] * N.nrows()
        sums = [total([x * x * a for x, a in zip(column, w, strict=True)]) for column in entries]
        if not all(own + N[k, k] >= 0 for k, own in enumerate(sums)):
            raise Refused("dual cone: an entry of the diagonal slack matrix is not proven to be nonnegative")
        return
    rows = N.tolist()
    alone = [row[k] >= 0 and all(x.is_zero() for j, x in enumerate(row) if j != k) for k, row in enumerate(rows)]
    whole = any(not x.is_zero() for x in N.entries())
    differ = (X[first] != X[second]).any(axis=0) if plain else np.ones(len(rows), dtype=bool)
    differ |= ~np.array(alone, dtype=bool) & whole
    V = V[:, V.any(axis=0)]
    differ |= V.shape[1] == len(rows)
    if V.shape[0] != len(rows) or (whole and V.shape[1] != differ.sum()):
        raise Refused("coordinates: not a row for each feature or, with a ridge, a column for each that differs")
    if not whole and not _rank_is_at_most(X, first, second, V.shape[1], P):
        raise Refused("coordinates: differences that count are not proven to lie in as many dimensions")
    if D is None:
        B = np.array([[float(x.mid()) for x in row] for row in rows])
        weights = np.array([ends(weight)[0] for weight in w])
        proven = _factorizes(X[:, differ], first, second, weights, V[differ], B[np.ix_(differ, differ)])
    else:
        B = balls(np.where(differ[:, None], V, 0.0))
        images = D * B
        weighted = [a * x for a, row in zip(w, images.tolist(), strict=True) for x in row]
        proven = is_positive(images.transpose() * arb_mat(len(w), V.shape[1], weighted) + B.transpose() * N * B)
    if V.size and not proven:
        raise Refused("dual cone: the slack matrix is not proven to be positive semidefinite")


def _factorizes(
    X: FloatArray, first: IndexArray, second: IndexArray, weights: FloatArray, V: FloatArray, N: FloatArray
) -> bool:
    """Whether Cholesky's method succeeds on ``T = V^T S V`` less its rounding, and less its own (Rump 2006).

    T is a sum over rows ``p = V^T v``, off by e: ``w p p^T`` is off by ``|w| (2 |p| |e| + |e|^2)``, its rounding by a
    share gamma of ``|w| |p|^2``, and by TINY (1 + |p|) where products underflow. N, rounded once, adds its own.
    Columns of V are scaled by powers of two: any V will do, also a rounded one.
    """
    if not V.size:
        return True
    V = np.ldexp(V, -np.frexp(np.abs(V).max(axis=0))[1])
    V = np.ldexp(V, -np.frexp(np.maximum(np.abs(X @ V).max(axis=0), np.sqrt(np.abs(N)).sum(axis=1) @ np.abs(V)))[1])
    T, bent = V.T @ N @ V, np.abs(V).T @ np.abs(N) @ np.abs(V)
    size, error = float(np.trace(bent)), gamma(2 * len(N) + 8) * float(bent.sum()) + TINY * len(N) ** 2
    for start in range(0, len(first), ROWS):
        some = slice(start, start + ROWS)
        D, w = X[first[some]] - X[second[some]], weights[some]
        P, off = D @ V, gamma(len(N) + 3) * np.linalg.norm(np.abs(D) @ np.abs(V), axis=1) + FAINT
        T, long = T + (P * w[:, None]).T @ P, np.linalg.norm(P, axis=1) + FAINT
        size += float(np.abs(w) @ (long + off) ** 2)
        error += float(np.abs(w) @ (2.0 * long * off + off**2) + TINY * np.sum(1.0 + long))
    error += gamma(ROWS + len(first) // ROWS + 12) * size + TINY * (1.0 + size)
    shift = 1.01 * (error + gamma(3 * len(T) + 20) * max(0.0, float(np.trace(T))))
    with suppress(np.linalg.LinAlgError):
        return bool(np.isfinite(np.linalg.cholesky(0.5 * (T + T.T) - shift * np.eye(len(T)))).all())
    return False


def _rank_is_at_most(X: FloatArray, first: IndexArray, second: IndexArray, rank: int, P: arb_mat | None) -> bool:
    """Whether the differences of pairs, times P, span no more dimensions than `rank`, exactly."""
    width = int((X[first] != X[second]).any(axis=0).sum()) if P is None else P.ncols()
    most = min(width, len(np.unique(X[np.unique(np.concatenate([first, second]))], axis=0)) - 1)
    if most <= rank or len(X) > SMALL:
        return bool(most <= rank)
    exact = [[fmpq(*value.as_integer_ratio()) for value in row] for row in X.tolist()]
    pairs = np.unique(np.stack([first, second], axis=1), axis=0).tolist()
    differences = fmpq_mat([[a - b for a, b in zip(exact[i], exact[j], strict=True)] for i, j in pairs])
    if P is not None:
        differences *= fmpq_mat([[fmpq(*float(x.mid()).as_integer_ratio()) for x in row] for row in P.tolist()])
    return bool(differences.rank() <= rank)
