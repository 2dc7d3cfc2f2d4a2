"""What is to be proven: LMNN, POLA and MMC, each an upper bound at a point and a lower bound by weak duality."""

from __future__ import annotations

import numpy as np
from flint import arb
from numpy.typing import NDArray

from sdpmetric.check.arithmetic import U, above, balls, distances, ends, form, require_psd, squares
from sdpmetric.check.files import Arrays, BadInput, FloatArray, IndexArray, Proof, Refused, indices
from sdpmetric.check.neighbors import origin_of_targets


def lmnn(X: FloatArray, data: Arrays, proof: Proof) -> tuple[float, float, str]:
    """``f(M) = (1 - mu) sum_ij D_ij + ridge trace(M) + mu sum_ijl h(1 + D_ij - D_il)``, h the hinge or its square.

    Upper bound: f at ``M = L^T L``, over all triplets. Lower bound: with multipliers ``0 <= a <= mu`` (no limit for the
    squared hinge) and ``S = C - sum a (C_il - C_ij)`` positive semidefinite, ``f(M) >= sum a + <S, M> >= sum a``, less
    ``sum a^2 / (4 mu)`` for the squared hinge.
    """
    y, n, L, a = np.asarray(data["y"], dtype=np.int64), len(X), proof.arrays["components"], proof.arrays["multipliers"]
    targets, named = (indices(name, proof.arrays[name], least, n) for name, least in (("targets", -1), ("triplets", 0)))
    mu, ridge, squared = proof.number("push_weight"), proof.number("ridge"), proof.about["squared"]
    weighed = 0.0 < mu <= 1.0 and ridge >= 0.0 and isinstance(squared, bool)
    if not weighed or len(targets) != n or not targets.shape[1] or named.shape != (len(a), 3):
        raise BadInput("push weight, ridge, loss, target neighbors or triplets are not those of LMNN for these data.")
    anchors, slots = np.nonzero(targets >= 0)
    seconds, (i, j, l) = targets[anchors, slots], named.T
    if (y[anchors] != y[seconds]).any() or (anchors == seconds).any() or _repeated(anchors, seconds):
        raise Refused("target neighbors: one is of another class, the example itself, or named twice")
    if (y[i] == y[l]).any() or not (targets[i] == j[:, None]).any(axis=1).all() or _repeated(i, j, l):
        raise Refused("triplets: one is named twice, or is none of these target neighbors and labels")
    if (a < 0.0).any() or (not squared and (a > mu).any()):
        raise Refused(f"multipliers: one is not between 0 and the push weight {mu!r}")
    pull, push = arb(0), arb(0)
    for start, low, high in distances(X, L):
        some, rows = slice(start, start + len(low)), np.arange(len(low))
        for own in targets[some].T:
            used = own >= 0
            near = np.where(used, high[rows, own], 0.0)
            pull += above(near)
            u = np.maximum((1.0 + near)[:, None] * (1 + 4 * U) - low, 0.0) * ((y[some, None] != y) & used[:, None])
            push += above(u**2 * (1 + 4 * U) if squared else u)
    objective = (1 - arb(mu)) * pull + arb(ridge) * sum(squares(balls(L)), arb(0)) + arb(mu) * push
    weights = np.concatenate([np.full(len(anchors), (1.0 - mu) * (1 - 4 * U)), -a, a])
    first, second = np.concatenate([anchors, i, i]), np.concatenate([seconds, l, j])
    require_psd(X, first, second, weights, proof.arrays["coordinates"], ridge)
    value = sum((arb(x) - (arb(x) ** 2 / (4 * arb(mu)) if squared else 0) for x in a.tolist()), arb(0))
    loss, pairs = "squared hinge" if squared else "hinge", f"{len(anchors)} target pairs: "
    counts = f"{n} examples, {X.shape[1]} features, {len(np.unique(y))} classes, "
    program = f"{loss}, push weight {mu!r}, ridge {ridge!r}, {counts}{pairs}{origin_of_targets(X, y, targets)}"
    return ends(objective)[1], max(0.0, ends(value)[0]), program


def pola(X: FloatArray, data: Arrays, proof: Proof) -> tuple[float, float, str]:
    """``1/2 |A|^2 + 1/2 (b - b_1)^2``, margins ``y_t (b - v_t^T A v_t) >= 1`` hard or with slacks of a weight, b >= 1.

    Lower bound: with multipliers ``a >= 0``, at most the weight, ``S = sum a_t y_t v_t v_t^T`` and ``s = sum a_t y_t``,
    every point costs at least ``sum a + 1/2 |A|^2 + <S, A> + 1/2 (b - b_1)^2 - s b``. The part of A is at least
    ``-1/2 |S - Q|^2`` for any PSD Q, as ``<Q, A> >= 0``; that of b is least at ``max(1, b_1 + s)``.
    """
    first, second, similar = _pairs(data)
    start, threshold = arb(proof.number("initial_threshold")), arb(proof.number("threshold"))
    hard = proof.about["slack_weight"] is None
    weight = arb(0 if hard else proof.number("slack_weight"))
    if not (start >= 1 and (hard or weight > 0)):
        raise BadInput("initial threshold or slack weight is not one of POLA.")
    L, V, y = balls(proof.arrays["components"]), balls(X[first]) - balls(X[second]), np.where(similar, 1, -1).tolist()
    missed = [1 - s * (threshold - D) for s, D in zip(y, squares(V * L.transpose()), strict=True)]
    if not threshold >= 1 or (hard and any(not u <= 0 for u in missed)):
        raise Refused("components: a hard margin is missed, or the threshold is below 1")
    slack = weight * sum((arb(max(0.0, ends(u)[1])) for u in missed), arb(0))
    objective = (sum(squares(L * L.transpose()), arb(0)) + (threshold - start) ** 2) / 2 + slack
    a = [arb(x) for x in proof.arrays["multipliers"].tolist()]
    if len(a) != len(y) or any(not x >= 0 or (not hard and not x <= weight) for x in a):
        raise Refused("multipliers: one is missing, negative or above the slack weight")
    S, s = form(V, [x * s for x, s in zip(a, y, strict=True)]), sum((x * s for x, s in zip(a, y, strict=True)), arb(0))
    if not np.isfinite(middle := np.array([[float(entry.mid()) for entry in row] for row in S.tolist()])).all():
        raise Refused("multipliers: their matrix is beyond the range in which anything is proven")
    values, vectors = np.linalg.eigh(middle)
    G = balls((vectors * np.sqrt(np.maximum(values, 0.0))).T)  # any factor of Q will do; this one is nearly the best
    least = (1 - start) ** 2 / 2 - s if start + s < 1 else -(s**2) / 2 - s * start
    value = sum(a, arb(0)) - sum(squares(S - G.transpose() * G), arb(0)) / 2 + least
    margins = "hard margins" if hard else f"margins with slacks of weight {proof.number('slack_weight')!r}"
    program = f"{margins}, initial threshold {proof.number('initial_threshold')!r}, {_counts(X, similar)}"
    return ends(objective)[1], ends(value)[0], program


def mmc(X: FloatArray, data: Arrays, proof: Proof) -> tuple[float, float, str]:
    """``-sum sqrt(D_p)`` over dissimilar pairs, where ``sum D_p <= 1`` over similar pairs.

    Lower bound: ``sqrt(D) <= w D + 1 / (4 w)``, so that the objective is at least ``-<B(w), M> - sum 1 / (4 w_p)``, and
    the first term at least ``-theta`` if ``theta C - B(w)`` is PSD. Pairs of equal examples have ``D = 0`` and no w.
    """
    (first, second, similar), L = _pairs(data), balls(proof.arrays["components"])
    D = np.array(squares((balls(X[first]) - balls(X[second])) * L.transpose()))
    if not sum(D[similar]) <= 1:
        raise Refused("components: the distances of similar pairs add up to more than 1")
    objective = -sum((arb(max(0.0, ends(square)[0])).sqrt() for square in D[~similar]), arb(0))
    w, theta, V = proof.arrays["weights"], proof.number("theta"), proof.arrays["coordinates"]
    live = ~similar & (X[first] != X[second]).any(axis=1)
    if len(w) != live.sum() or (w <= 0.0).any() or theta <= 0.0:
        raise Refused("weights: there is not a positive one for each dissimilar pair of different examples")
    used = np.concatenate([np.flatnonzero(similar), np.flatnonzero(live)])
    require_psd(X, first[used], second[used], np.concatenate([np.full(len(used) - len(w), theta), -w]), V, 0.0)
    value = -arb(theta) - sum((1 / arb(x) for x in w.tolist()), arb(0)) / 4
    return ends(objective)[1], ends(value)[0], _counts(X, similar)


STATEMENTS = {"LMNN": lmnn, "POLA": pola, "MMC": mmc}


def _pairs(data: Arrays) -> tuple[IndexArray, IndexArray, NDArray[np.bool_]]:
    pairs = np.asarray(data["pairs"], dtype=np.int64)
    return pairs[:, 0], pairs[:, 1], np.asarray(data["similar"], dtype=np.bool_)


def _counts(X: FloatArray, similar: NDArray[np.bool_]) -> str:
    same, other = int(np.count_nonzero(similar)), int(np.count_nonzero(~similar))
    return f"{len(X)} examples, {X.shape[1]} features, {same} similar and {other} dissimilar pairs"


def _repeated(*columns: IndexArray) -> bool:
    return len(np.unique(np.stack(columns, axis=1), axis=0)) < len(columns[0])
