"""What is to be proven: LMNN, POLA and MMC, each an upper bound at a point and a lower bound by weak duality."""

from __future__ import annotations

import math

import numpy as np
from flint import arb
from numpy.typing import NDArray

from sdpmetric.check.arithmetic import FloatArray, IndexArray, U, balls, distances, ends, form, require_psd, squares
from sdpmetric.check.files import Arrays, BadInput, Proof, Refused


def lmnn(X: FloatArray, data: Arrays, proof: Proof) -> tuple[float, float, str]:
    """``f(M) = (1 - mu) sum_ij D_ij + ridge trace(M) + mu sum_ijl h(1 + D_ij - D_il)``, h the hinge or its square.

    Upper bound: f at ``M = L^T L``, over all triplets. Lower bound: with multipliers ``0 <= a <= mu`` (no limit for the
    squared hinge) and ``S = C - sum a (C_il - C_ij)`` positive semidefinite, ``f(M) >= sum a + <S, M> >= sum a``, less
    ``sum a^2 / (4 mu)`` for the squared hinge.
    """
    y, targets = np.asarray(data["y"], dtype=np.int64), proof.array("targets", 2).astype(np.int64)
    mu, ridge, squared = proof.number("push_weight"), proof.number("ridge"), bool(proof.about.get("squared"))
    n, L, a, V = len(X), proof.array("components", 2), proof.array("multipliers", 1), proof.array("coordinates", 2)
    named = proof.array("triplets", 2).astype(np.int64)
    if len(targets) != n or not (0.0 < mu <= 1.0 and ridge >= 0.0) or named.shape != (len(a), 3):
        raise BadInput("target neighbors, weights or triplets do not match the data or the multipliers.")
    if targets.min() < -1 or max(targets.max(), named.max(initial=0)) >= n or named.min(initial=0) < 0:
        raise BadInput("a target neighbor or a triplet is out of range.")
    anchors, slots = np.nonzero(targets >= 0)
    seconds, (i, j, l) = targets[anchors, slots], named.T
    if (y[anchors] != y[seconds]).any() or (anchors == seconds).any() or _repeated(anchors, seconds):
        raise Refused("target neighbors: one is of another class, the example itself, or named twice")
    if (y[i] == y[l]).any() or not (targets[i] == j[:, None]).any(axis=1).all() or _repeated(i, j, l):
        raise Refused("triplets: one is named twice, or is none of these target neighbors and labels")
    if (a < 0.0).any() or (not squared and (a > mu).any()):
        raise Refused(f"multipliers: one is not between 0 and the push weight {mu!r}")
    pull, push = [], []
    for start, low, high in distances(X, L):
        some, rows = slice(start, start + len(low)), np.arange(len(low))
        for own in targets[some].T:
            used = own >= 0
            near = np.where(used, high[rows, own], 0.0)
            pull.append(math.fsum(near))
            u = np.maximum((1.0 + near)[:, None] * (1 + 4 * U) - low, 0.0) * ((y[some, None] != y) & used[:, None])
            push.append(math.fsum(np.ravel(u**2 if squared else u)))
    objective = (1.0 - mu) * math.fsum(pull) + ridge * math.fsum(np.ravel(L**2)) + mu * math.fsum(push)
    weights = np.concatenate([np.full(len(anchors), (1.0 - mu) * (1 - 4 * U)), -a, a])
    require_psd(X, np.concatenate([anchors, i, i]), np.concatenate([seconds, l, j]), weights, V, ridge)
    value = arb(sum(arb(x) - (arb(x) ** 2 / (4 * arb(mu)) if squared else 0) for x in a.tolist()))
    details = f"{n} examples, {len(anchors)} target pairs as given, push weight {mu:g}, ridge {ridge:g}"
    return objective * (1 + 16 * U), max(0.0, ends(value)[0]), details


def pola(X: FloatArray, data: Arrays, proof: Proof) -> tuple[float, float, str]:
    """``1/2 |A|^2 + 1/2 (b - b_1)^2``, margins ``y_t (b - v_t^T A v_t) >= 1`` hard or with slacks of a weight, b >= 1.

    Lower bound: with multipliers ``a >= 0``, at most the weight, ``S = sum a_t y_t v_t v_t^T`` and ``s = sum a_t y_t``,
    every point costs at least ``sum a + 1/2 |A|^2 + <S, A> + 1/2 (b - b_1)^2 - s b``. The part of A is at least
    ``-1/2 |S - Q|^2`` for any PSD Q, as ``<Q, A> >= 0``; that of b is least at ``max(1, b_1 + s)``.
    """
    first, second, similar = _pairs(X, data)
    start, threshold = arb(proof.number("initial_threshold")), arb(proof.number("threshold"))
    weight = None if proof.about.get("slack_weight") is None else arb(proof.number("slack_weight"))
    L, V, y = balls(proof.array("components", 2)), balls(X[first]) - balls(X[second]), np.where(similar, 1, -1).tolist()
    missed = [1 - s * (threshold - D) for s, D in zip(y, squares(V * L.transpose()), strict=True)]
    if not threshold >= 1 or not start >= 1 or (weight is None and any(not u <= 0 for u in missed)):
        raise Refused("components: a hard margin is missed, or the threshold is below 1")
    slack = sum(arb(max(0.0, ends(u)[1])) for u in missed) * (weight or 0)
    objective = (sum(squares(L * L.transpose())) + (threshold - start) ** 2) / 2 + slack
    a = [arb(x) for x in proof.array("multipliers", 1).tolist()]
    if len(a) != len(y) or any(not x >= 0 or (weight is not None and not x <= weight) for x in a):
        raise Refused("multipliers: one is missing, negative or above the slack weight")
    signed = [x * s for x, s in zip(a, y, strict=True)]
    S, s = form(V, signed), arb(sum(signed))
    values, vectors = np.linalg.eigh([[float(entry.mid()) for entry in row] for row in S.tolist()])
    G = balls((vectors * np.sqrt(np.maximum(values, 0.0))).T)  # any factor of Q will do; this one is nearly the best
    least = (1 - start) ** 2 / 2 - s if start + s < 1 else -(s**2) / 2 - s * start
    value = sum(a) - sum(squares(S - G.transpose() * G)) / 2 + least
    return ends(objective)[1], ends(value)[0], f"{len(y)} pairs, slack weight {proof.about.get('slack_weight')}"


def mmc(X: FloatArray, data: Arrays, proof: Proof) -> tuple[float, float, str]:
    """``-sum sqrt(D_p)`` over dissimilar pairs, where ``sum D_p <= 1`` over similar pairs.

    Lower bound: ``sqrt(D) <= w D + 1 / (4 w)``, so that the objective is at least ``-<B(w), M> - sum 1 / (4 w_p)``, and
    the first term at least ``-theta`` if ``theta C - B(w)`` is PSD. Pairs of equal examples have ``D = 0`` and no w.
    """
    (first, second, similar), L = _pairs(X, data), balls(proof.array("components", 2))
    D = np.array(squares((balls(X[first]) - balls(X[second])) * L.transpose()))
    if not sum(D[similar]) <= 1:
        raise Refused("components: the distances of similar pairs add up to more than 1")
    objective = -sum(arb(max(0.0, ends(square)[0])).sqrt() for square in D[~similar])
    w, theta, V = proof.array("weights", 1), proof.number("theta"), proof.array("coordinates", 2)
    live = ~similar & (X[first] != X[second]).any(axis=1)
    if len(w) != live.sum() or (w <= 0.0).any() or theta <= 0.0:
        raise Refused("weights: there is not a positive one for each dissimilar pair of different examples")
    used = np.concatenate([np.flatnonzero(similar), np.flatnonzero(live)])
    require_psd(X, first[used], second[used], np.concatenate([np.full(len(used) - len(w), theta), -w]), V, 0.0)
    value = -arb(theta) - sum(1 / arb(x) for x in w.tolist()) / 4
    counts = f"{np.count_nonzero(similar)} similar and {np.count_nonzero(~similar)} dissimilar pairs"
    return ends(arb(objective))[1], ends(value)[0], counts


STATEMENTS = {"LMNN": lmnn, "POLA": pola, "MMC": mmc}


def _pairs(X: FloatArray, data: Arrays) -> tuple[IndexArray, IndexArray, NDArray[np.bool_]]:
    pairs, similar = np.asarray(data["pairs"], dtype=np.int64), np.asarray(data["similar"], dtype=np.bool_)
    if pairs.shape != (len(similar), 2) or pairs.min() < 0 or pairs.max() >= len(X):
        raise BadInput("pairs are not two columns of row numbers of X, with an entry of similar for each.")
    return pairs[:, 0], pairs[:, 1], similar


def _repeated(*columns: IndexArray) -> bool:
    return len(np.unique(np.stack(columns, axis=1), axis=0)) < len(columns[0])
