"""What is to be proven: LMNN, POLA and MMC, each an upper bound at a point and a lower bound by weak duality."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
from flint import arb, arb_mat
from numpy.typing import NDArray

from sdpmetric.check import arithmetic
from sdpmetric.check.arithmetic import ROWS, Distances, U, balls, lower, scaled, upper
from sdpmetric.check.files import Arrays, BadInput, Proof, Refused, digest, read_data, read_proof

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.int64]

# What a file claims may be better than what is proven here by this much, relatively: both are rounded outwards.
AGREEMENT = 1e-9


def check(data_path: Path, proof_path: Path) -> str:
    """Prove what the file claims, or raise `Refused`; returns what was proven, as a sentence."""
    proof = read_proof(proof_path)
    statement = str(proof.about["statement"])
    data = read_data(data_path, statement)
    if digest(data) != proof.about.get("data"):
        raise Refused("data", "these are not the data that the proof is about: their hashes differ")
    X = np.asarray(data["X"], dtype=np.float64)
    if proof.array("components", 2).shape[1] != X.shape[1]:
        raise Refused("components", f"the factor has {proof.array('components', 2).shape[1]} columns, not {X.shape[1]}")
    high, low, details = STATEMENTS[statement](X, data, proof)
    for name, proven, better in (("objective", high, -1.0), ("lower_bound", low, 1.0)):
        claimed = proof.number(name)
        if better * (claimed - proven) > AGREEMENT * max(abs(claimed), abs(proven)):
            raise Refused(name, f"the file claims {claimed!r}, what it holds proves {proven!r}")
    return f"{statement} ({details}): the metric has an objective of at most {high!r}, no metric has one below {low!r}."


def lmnn(X: FloatArray, data: Arrays, proof: Proof) -> tuple[float, float, str]:
    """``f(M) = (1 - mu) sum_ij D_ij + ridge trace(M) + mu sum_ijl h(1 + D_ij - D_il)``, h the hinge or its square.

    Upper bound: f at ``M = L^T L``, over all triplets. Lower bound: with multipliers ``0 <= a <= mu`` (no limit for the
    squared hinge) and ``S = C - sum a (C_il - C_ij)`` positive semidefinite, ``f(M) >= sum a + <S, M> >= sum a``, less
    ``sum a^2 / (4 mu)`` for the squared hinge.
    """
    y, targets = np.asarray(data["y"], dtype=np.int64), proof.array("targets", 2).astype(np.int64)
    mu, ridge, squared = proof.number("push_weight"), proof.number("ridge"), bool(proof.about.get("squared"))
    n, L = len(X), proof.array("components", 2)
    if len(targets) != n or not (0.0 < mu <= 1.0 and ridge >= 0.0) or targets.min() < -1 or targets.max() >= n:
        raise BadInput("target neighbors or weights are out of range.")
    anchors, slots = np.nonzero(targets >= 0)
    seconds = targets[anchors, slots]
    if (y[anchors] != y[seconds]).any() or (anchors == seconds).any() or _repeated(anchors, seconds):
        raise Refused("target neighbors", "one is of another class, the example itself, or named twice")
    D, pull, push = Distances(X, L), [], []
    for start in range(0, n, ROWS):
        stop = min(start + ROWS, n)
        low, high = D.rows(start, stop)
        other, rows = y[start:stop, None] != y, np.arange(stop - start)
        for own in targets[start:stop].T:
            used = own >= 0
            near = np.where(used, high[rows, own], 0.0)
            pull.append(math.fsum(near))
            u = np.maximum((1.0 + near)[:, None] * (1 + 4 * U) - low, 0.0) * (other & used[:, None])
            push.append(math.fsum(np.ravel(u**2 if squared else u)))
    trace = math.fsum(np.ravel(L**2))
    objective = (1.0 - mu) * math.fsum(pull) + ridge * trace + mu * math.fsum(push)
    i, j, l = proof.array("triplets", 2).astype(np.int64).reshape(-1, 3).T
    a = proof.array("multipliers", 1)
    if len(a) != len(i) or (len(i) and (min(i.min(), j.min(), l.min()) < 0 or max(i.max(), j.max(), l.max()) >= n)):
        raise BadInput("multipliers and triplets do not match.")
    if (y[i] == y[l]).any() or not (targets[i] == j[:, None]).any(axis=1).all() or _repeated(i, j, l):
        raise Refused("triplets", "one is named twice, or is none of these target neighbors and labels")
    if (a < 0.0).any() or (not squared and (a > mu).any()):
        raise Refused("multipliers", f"one is not between 0 and the push weight {mu!r}")
    V = proof.array("coordinates", 2)
    first, second = np.concatenate([anchors, i, i]), np.concatenate([seconds, l, j])
    weights = np.concatenate([np.full(len(anchors), (1.0 - mu) * (1 - 4 * U)), -a, a])
    _require_psd(X, first, second, weights, V, ridge)
    value = sum((arb(x) for x in a.tolist()), arb(0))
    if squared:
        value -= sum((arb(x) ** 2 for x in a.tolist()), arb(0)) / (4 * arb(mu))
    details = f"{n} examples, {len(anchors)} target pairs as given, push weight {mu:g}, ridge {ridge:g}"
    return objective * (1 + 16 * U), max(0.0, lower(value)), details


def pola(X: FloatArray, data: Arrays, proof: Proof) -> tuple[float, float, str]:
    """``1/2 |A|^2 + 1/2 (b - b_1)^2``, margins ``y_t (b - v_t^T A v_t) >= 1`` hard or with slacks of a weight, b >= 1.

    Lower bound: with multipliers ``a >= 0``, at most the weight, ``S = sum a_t y_t v_t v_t^T`` and ``s = sum a_t y_t``,
    every point costs at least ``sum a + 1/2 |A|^2 + <S, A> + 1/2 (b - b_1)^2 - s b``. The part of A is at least
    ``-1/2 |S - Q|^2`` for any PSD Q, as ``<Q, A> >= 0``; that of b is least at ``max(1, b_1 + s)``.
    """
    (first, second), y = _pairs(X, data), np.where(np.asarray(data["similar"]), 1, -1).tolist()
    start, threshold = arb(proof.number("initial_threshold")), arb(proof.number("threshold"))
    weight = None if proof.about.get("slack_weight") is None else arb(proof.number("slack_weight"))
    L, V, (p, d) = balls(proof.array("components", 2)), balls(X[first]) - balls(X[second]), (len(first), X.shape[1])
    images = V * L.transpose()
    missed = [1 - s * (threshold - sum((images[t, k] ** 2 for k in range(L.nrows())), arb(0))) for t, s in enumerate(y)]
    if not (threshold >= 1 and start >= 1):
        raise Refused("threshold", "it is below 1")
    if weight is None and any(not u <= 0 for u in missed):
        raise Refused("components", "a hard margin is missed")
    slack = arb(0) if weight is None else weight * sum((arb(max(0.0, upper(u))) for u in missed), arb(0))
    objective = (_square(L * L.transpose()) + (threshold - start) ** 2) / 2 + slack
    a = proof.array("multipliers", 1)
    if len(a) != p or (a < 0.0).any() or (weight is not None and any(not arb(x) <= weight for x in a.tolist())):
        raise Refused("multipliers", "one is missing, negative or above the slack weight")
    signed = [arb(x) * s for x, s in zip(a.tolist(), y, strict=True)]
    S = V.transpose() * scaled(V, signed)
    values, vectors = np.linalg.eigh([[float(S[i, j].mid()) for j in range(d)] for i in range(d)])
    G = balls((vectors * np.sqrt(np.maximum(values, 0.0))).T)  # any factor of Q will do; this one is nearly the best
    total = sum(signed, arb(0))
    least = (1 - start) ** 2 / 2 - total if start + total < 1 else -(total**2) / 2 - total * start
    value = sum((arb(x) for x in a.tolist()), arb(0)) - _square(S - G.transpose() * G) / 2 + least
    margin = "hard margin" if weight is None else f"slack weight {proof.number('slack_weight'):g}"
    return upper(objective), lower(value), f"{p} pairs, {margin}"


def mmc(X: FloatArray, data: Arrays, proof: Proof) -> tuple[float, float, str]:
    """``-sum sqrt(D_p)`` over dissimilar pairs, where ``sum D_p <= 1`` over similar pairs.

    Lower bound: ``sqrt(D) <= w D + 1 / (4 w)``, so that the objective is at least ``-<B(w), M> - sum 1 / (4 w_p)``, and
    the first term at least ``-theta`` if ``theta C - B(w)`` is PSD. Pairs of equal examples have ``D = 0`` and no w.
    """
    first, second = _pairs(X, data)
    similar, L = np.asarray(data["similar"], dtype=bool), balls(proof.array("components", 2))
    images = (balls(X[first]) - balls(X[second])) * L.transpose()
    r = images.ncols()
    D = [sum((images[t, k] ** 2 for k in range(r)), arb(0)) for t in range(len(first))]
    if not sum((D[t] for t in np.flatnonzero(similar).tolist()), arb(0)) <= 1:
        raise Refused("components", "the distances of similar pairs add up to more than 1")
    objective = -sum((arb(max(0.0, lower(D[t]))).sqrt() for t in np.flatnonzero(~similar).tolist()), arb(0))
    w, theta, V = proof.array("weights", 1), proof.number("theta"), proof.array("coordinates", 2)
    live = np.flatnonzero(~similar & (X[first] != X[second]).any(axis=1))
    if len(w) != len(live) or (w <= 0.0).any() or theta <= 0.0:
        raise Refused("weights", "there is not a positive one for each dissimilar pair of different examples")
    used = np.concatenate([np.flatnonzero(similar), live])
    weights = np.concatenate([np.full(int(similar.sum()), theta), -w])
    _require_psd(X, first[used], second[used], weights, V, 0.0)
    value = -arb(theta) - sum((1 / arb(x) for x in w.tolist()), arb(0)) / 4
    return upper(objective), lower(value), f"{int(similar.sum())} similar and {int((~similar).sum())} dissimilar pairs"


Statement = Callable[[FloatArray, Arrays, Proof], tuple[float, float, str]]
STATEMENTS: dict[str, Statement] = {"LMNN": lmnn, "POLA": pola, "MMC": mmc}


def _require_psd(
    X: FloatArray, first: IndexArray, second: IndexArray, weights: FloatArray, V: FloatArray, ridge: float
) -> None:
    """``S = sum w v v^T + ridge I`` is PSD if ``V^T S V > 0`` and V has as many columns as the v span dimensions.

    For each x there is then a y with the same products ``v^T V y = v^T x``. With a ridge V must be regular where
    anything differs; the rest of S is the ridge's alone.
    """
    if V.shape[0] != X.shape[1]:
        raise Refused("coordinates", f"they have {V.shape[0]} rows for {X.shape[1]} features")
    differ = arithmetic.differing(X, first, second)
    V = np.where(differ[:, None], V, 0.0)  # any V will do
    if ridge > 0.0 and V.shape[1] != differ.sum():
        raise Refused("coordinates", "with a ridge they must be as many as the features that differ")
    if not arithmetic.rank_is_at_most(X[:, differ], first, second, V.shape[1]):
        raise Refused("coordinates", "differences that count are not proven to lie in as many dimensions")
    if not arithmetic.is_positive_definite(X, first, second, weights, V, ridge):
        raise Refused("dual cone", "the slack matrix is not proven to be positive semidefinite")


def _square(A: arb_mat) -> arb:
    return sum((entry * entry for entry in A.entries()), arb(0))


def _pairs(X: FloatArray, data: Arrays) -> tuple[IndexArray, IndexArray]:
    pairs = np.asarray(data["pairs"], dtype=np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.min() < 0 or pairs.max() >= len(X):
        raise BadInput("pairs are not two columns of row numbers of X.")
    if len(np.asarray(data["similar"])) != len(pairs):
        raise BadInput("there is not one entry of similar for each pair.")
    return pairs[:, 0], pairs[:, 1]


def _repeated(*columns: IndexArray) -> bool:
    return len(np.unique(np.stack(columns, axis=1), axis=0)) < len(columns[0])
