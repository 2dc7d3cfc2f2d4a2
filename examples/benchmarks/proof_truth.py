"""What a sentence of the checker says, read back and compared with exact rational arithmetic."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
from exact import Distances, lmnn_objective, number, rational
from flint import arb, fmpq, fmpq_mat

CLAIM = r"the metric has an objective of at most (?P<high>\S+), no metric has one below (?P<low>\S+)\.$"
LMNN = re.compile(
    r"Proven\. LMNN \((?P<loss>squared hinge|hinge), push weight (?P<mu>\S+), ridge (?P<ridge>\S+), "
    r"(?P<n>\d+) examples, (?P<d>\d+) features, (?P<classes>\d+) classes, "
    r"(?P<pairs>\d+) target pairs: (?P<origin>.*)\): " + CLAIM
)
POLA = re.compile(
    r"Proven\. POLA \((hard margins|margins with slacks of weight (?P<weight>\S+)), initial threshold (?P<start>\S+), "
    r"(?P<n>\d+) examples, (?P<d>\d+) features, (?P<same>\d+) similar and (?P<other>\d+) dissimilar pairs\): " + CLAIM
)
MMC = re.compile(
    r"Proven\. MMC \((?P<n>\d+) examples, (?P<d>\d+) features, "
    r"(?P<same>\d+) similar and (?P<other>\d+) dissimilar pairs\): " + CLAIM
)


def untrue(text, files, base):
    """What an accepting sentence says that is not true, as a list of sentences."""
    said = next(match for form in (LMNN, POLA, MMC) if (match := form.match(text)))
    high, low = number(float(said["high"])), number(float(said["low"]))
    at, others = (lmnn if said.re is LMNN else pola if said.re is POLA else mmc)(said, files, base)
    if at is None:
        return ["the point is not feasible, the slack matrix not PSD, or the program another one"]
    wrong = [] if at <= high else [f"objective {at} above {said['high']}"]
    wrong += [f"a metric costs {cost}, below {said['low']}" for cost in others if cost is not None and cost < low]
    n, d = files.data["X"].shape
    return wrong + ([] if (int(said["n"]), int(said["d"])) == (n, d) else ["other sizes"])


def candidates(files, base) -> Iterator[np.ndarray]:
    """Metrics to be compared with a lower bound: the solution in these units, scaled, and none at all."""
    X, was = files.data["X"].astype(np.float64), base.data["X"]
    size, then = np.abs(X).max(), np.abs(was).max()
    L = base.arrays["components"]
    yield np.zeros((1, X.shape[1]))
    if L.shape[1] == X.shape[1] and size and then:
        shift = int(np.frexp(then)[1]) - int(np.frexp(size)[1])
        for e in (0, -1, 1, -4, 4):
            with np.errstate(all="ignore"):
                scaled = np.ldexp(L, shift) * 2.0 ** (e / 4)
            if np.isfinite(scaled).all():
                yield scaled


def lmnn(said, files, base):
    X, y, targets = files.data["X"].astype(np.float64), np.ravel(files.data["y"]), files.arrays["targets"].astype(int)
    pairs = [(i, int(j)) for i, row in enumerate(targets) for j in row if j >= 0]
    triplets = [(i, j, l) for i, j in pairs for l in np.flatnonzero(y != y[i])]
    terms = pairs, triplets, np.ones(len(triplets)), float(said["mu"]), float(said["ridge"])

    def cost(L):
        return lmnn_objective(X, np.asarray(L, dtype=np.float64), *terms, squared=said["loss"] == "squared hinge")

    chosen, k = said["origin"].startswith("the file's own choice, not"), targets.shape[1]
    right = "not proven" in said["origin"] or chosen != are_nearest(X, y, targets)
    right &= f" {k} nearest" in said["origin"]
    if not right or len(pairs) != int(said["pairs"]) or len(set(y.tolist())) != int(said["classes"]):
        return None, []
    mu, a = number(terms[3]), [number(value) for value in files.arrays["multipliers"]]
    named = files.arrays["triplets"].astype(int).tolist()
    apart = pairs + [(i, l) for i, _, l in named] + [(i, j) for i, j, _ in named]
    if not is_psd(X, apart, [1 - mu] * len(pairs) + [-value for value in a] + a, terms[4]):
        return None, []
    at = cost(files.arrays["components"])
    return at, [at, *(cost(L) for L in candidates(files, base))]


def is_psd(X, pairs, weights, ridge=0):
    """Whether ``sum_q w_q v_q v_q^T + ridge I`` is PSD, exactly: signs of its characteristic polynomial alternate."""
    P, d = rational(X), X.shape[1]
    V = fmpq_mat([[P[i, k] - P[j, k] for k in range(d)] for i, j in pairs]) if pairs else fmpq_mat(0, d)
    weighted = [[w * x for x in row] for w, row in zip(weights, V.tolist(), strict=True)]
    S = (V.transpose() * fmpq_mat(weighted) if pairs else fmpq_mat(d, d)).tolist()
    S = fmpq_mat([[S[a][b] + (number(ridge) if a == b else 0) for b in range(d)] for a in range(d)])
    return all(c * (-1) ** (d - k) >= 0 for k, c in enumerate(S.charpoly().coeffs()))


def are_nearest(X, y, targets):
    """Whether all targets are the nearest of the class, ties (to a relative 1e-9) by lowest row: in rationals."""
    D, tie = Distances(X, np.eye(X.shape[1])), number(1e-9)
    for i, row in enumerate(targets.tolist()):
        mates = [j for j in range(len(X)) if j != i and y[j] == y[i]]
        if len(mates) < len(row):
            return False
        kth = sorted(D(i, j) for j in mates)[len(row) - 1]
        near = [j for j in mates if D(i, j) < kth * (1 - tie)]
        tied = [j for j in mates if kth * (1 - tie) <= D(i, j) <= kth * (1 + tie)]
        if set((near + tied)[: len(row)]) != set(row):
            return False
    return True


def signs(said, files):
    similar = np.ravel(np.asarray(files.data["similar"], dtype=np.float64) > 0).tolist()
    counted = (int(said["same"]), int(said["other"])) == (sum(similar), len(similar) - sum(similar))
    return [(int(a), int(b)) for a, b in files.data["pairs"].tolist()], similar, counted


def pola(said, files, base):
    X, (pairs, similar, counted) = files.data["X"].astype(np.float64), signs(said, files)
    weight, start = said["weight"] and number(float(said["weight"])), number(float(said["start"]))

    def cost(L, b):
        D = Distances(X, np.asarray(L, dtype=np.float64))
        missed = [1 - (b - D(*pair)) * (1 if same else -1) for pair, same in zip(pairs, similar, strict=True)]
        slack = sum((max(fmpq(0), u) for u in missed), fmpq(0))
        if b < 1 or (weight is None and slack > 0):
            return None
        G = np.asarray(L, dtype=np.float64)
        gram = [[sum((number(u) * number(v) for u, v in zip(p, q, strict=True)), fmpq(0)) for q in G] for p in G]
        size = sum((g * g for row in gram for g in row), fmpq(0))
        return (size + (b - start) ** 2) / 2 + (slack * weight if weight is not None else 0)

    then = number(base.about["threshold"])
    others = [cost(L, b) for L in candidates(files, base) for b in (start, then)]
    at = cost(files.arrays["components"], number(float(files.about["threshold"])))
    return (at if counted else None), [at, *others]


def mmc(said, files, base):
    X, (pairs, similar, counted) = files.data["X"].astype(np.float64), signs(said, files)

    def cost(L, scaled):
        D = Distances(X, np.asarray(L, dtype=np.float64))
        spent = sum((D(*pair) for pair, same in zip(pairs, similar, strict=True) if same), fmpq(0))
        gained = sum((arb(D(*pair)).sqrt() for pair, same in zip(pairs, similar, strict=True) if not same), arb(0))
        if scaled and spent > 0:
            return -gained / arb(spent).sqrt()
        return -gained if spent <= 1 else None

    live = [pair for pair, same in zip(pairs, similar, strict=True) if not same and (X[pair[0]] != X[pair[1]]).any()]
    near = [pair for pair, same in zip(pairs, similar, strict=True) if same]
    theta, weights = number(float(files.about["theta"])), [-number(w) for w in files.arrays["weights"]]
    if not is_psd(X, near + live, [theta] * len(near) + weights):
        return None, []
    at = cost(files.arrays["components"], scaled=False)
    return (at if counted else None), [at, *(cost(L, scaled=True) for L in candidates(files, base))]
