"""What a sentence of the checker says, read back and compared with exact rational arithmetic and balls."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations

import numpy as np
from exact import SCALARS, Distances, divergence, metric, number, numbers, plus, ratio_divergence, rational
from exact import square as squared
from exact import total as summed
from exact import trace as traced
from flint import arb, fmpq, fmpq_mat

CLAIM = re.compile(r": the metric has an objective of at most (?P<high>\S+), no metric has one below (?P<low>\S+)\.$")
ZERO = fmpq(0)


class Program:
    """The program of a proof file, read independently of the checker; only files that it accepted are given."""

    def __init__(self, files):
        self.about, self.arrays, self.data = files.about, files.arrays, files.data
        self.X, kind = np.asarray(files.data["X"], dtype=np.float64), files.about["domain"]["domain"]
        self.n = len(self.X)
        self.y = np.unique(np.ravel(files.data["y"]), return_inverse=True)[1] if "y" in files.data else None
        if kind == "threshold":
            self.X = np.block([[self.X, np.zeros((self.n, 1))], [self.X[:1], np.ones((1, 1))]])
        self.shares = [[number(x) for x in row] for row in np.asarray(files.arrays["0.shares"], dtype=np.float64)]
        self.P = rational(np.asarray(files.arrays["0.map"], dtype=np.float64))
        self.diagonal = kind == "diagonal"
        self.terms = [
            (term, {name.split(".")[1]: A for name, A in files.arrays.items() if name.split(".")[0] == str(k)})
            for k, term in enumerate(files.about["terms"], 1)
        ]

    def metrics(self, L) -> list[fmpq_mat]:
        found = [metric(np.asarray(own, dtype=np.float64)) for own in L]
        return [self.P * M * self.P.transpose() for M in found]

    def pairs_of(self, term, arrays) -> Iterator[tuple[list[tuple[fmpq, int, int]], fmpq, fmpq, fmpq]]:
        """Of each row of a term: entries, offset, weight and multiplier."""
        own = [[] for _ in arrays["offsets"]]
        for k, (i, j), x in zip(*(np.asarray(arrays[n]) for n in ("places", "pairs", "factors")), strict=True):
            own[int(k)].append((number(float(x)), int(i), int(j)))
        both = weight(term), [numbers(arrays[name]) for name in ("offsets", "weights", "multipliers")]
        for entries, c, w, a in zip(own, *both[1], strict=True):
            a = both[0] * w if term["loss"] == "linear" else a
            yield entries, c, (fmpq(1) if term["loss"] == "hard" else both[0] * w), a

    def triplets(self, arrays):
        targets = np.asarray(arrays["targets"]).astype(int)
        pairs = [(i, int(j)) for i, row in enumerate(targets) for j in row if j >= 0]
        return pairs, [(i, j, int(l)) for i, j in pairs for l in np.flatnonzero(self.y != self.y[i])]

    def cost(self, L) -> arb | None:
        """The objective at metrics; None where a hard constraint does not hold."""
        M = self.metrics(L)
        each, parts = [Distances(self.X, M=own) for own in M], []

        def D(i, j):
            return sum((s * own(i, j) for s, own in zip(self.shares[j], each, strict=True) if s), ZERO)

        for term, arrays in self.terms:
            kind, mu = term["term"], weight(term)
            if kind == "labels":
                w, (pairs, triplets) = numbers(arrays["weights"]), self.triplets(arrays)
                loss, c = SCALARS[term["loss"].replace(" ", "_")], number(term["offset"])
                parts += [weight(term, "pull") * w[i] * D(i, j) for i, j in pairs]
                parts += [mu * w[i] * w[l] * loss(c + D(i, j) - D(i, l)) for i, j, l in triplets]
            elif kind == "rows":
                for entries, c, w, _ in self.pairs_of(term, arrays):
                    u = c + sum((x * D(i, j) for x, i, j in entries), ZERO)
                    if term["loss"] == "hard" and w > 0 and u > 0:
                        return None
                    parts.append(w * scalar(term["loss"], u, c) if w > 0 else 0)
            else:
                whole = blocks(M)
                to = arrays.get("to", np.zeros((whole.nrows(), whole.nrows())))
                off = [abs(whole[i, j]) * 2 for i, j in combinations(range(whole.nrows()), 2)]
                if kind == "log_det":
                    parts.append(mu * divergence(whole, to))
                elif kind == "frobenius":
                    parts.append(mu * squared(whole - rational(to)) / 2)
                else:
                    parts.append(mu * (traced(whole) if kind == "trace" else sum(off, ZERO)))
        return summed(parts)

    def slack_is_psd(self) -> bool:
        """Whether the slack matrix is PSD on every metric of the domain, exactly."""
        pairs, d, count = [], self.X.shape[1], len(self.shares[0])
        U = fmpq_mat(d * count, d * count)
        for term, arrays in self.terms:
            if term["term"] == "labels":
                w, (targets, _) = numbers(arrays["weights"]), self.triplets(arrays)
                pairs += [(weight(term, "pull") * w[i], i, j) for i, j in targets]
                named = np.asarray(arrays["triplets"]).astype(int).tolist()
                for (i, j, l), a in zip(named, numbers(arrays["multipliers"]), strict=True):
                    pairs += [(-a, i, l), (a, i, j)]
            elif term["term"] == "rows":
                pairs += [(a * x, i, j) for entries, _, _, a in self.pairs_of(term, arrays) for x, i, j in entries]
            elif term["term"] == "trace":
                U += weight(term) * rational(np.eye(d * count))
            else:
                U += rational(arrays["slope"])
        X = rational(self.X).tolist()
        for b in range(count):
            S = fmpq_mat([[U[b * d + j, b * d + k] for k in range(d)] for j in range(d)])
            used = [(w * self.shares[j][b], i, j) for w, i, j in pairs if w and self.shares[j][b]]
            if used:
                V = fmpq_mat([[p - q for p, q in zip(X[i], X[j], strict=True)] for _, i, j in used])
                weighted = [[w * x for x in row] for (w, *_), row in zip(used, V.tolist(), strict=True)]
                S += V.transpose() * fmpq_mat(weighted)
            S = S if self.P is None else self.P.transpose() * S * self.P
            n = S.nrows()
            if self.diagonal and not all(S[k, k] >= 0 for k in range(n)):
                return False
            if not self.diagonal and not all(c * (-1) ** (n - k) >= 0 for k, c in enumerate(S.charpoly().coeffs())):
                return False
        return True


def weight(term, name="weight") -> fmpq:
    said = term[name]
    return sum((number(x) for x in (said if isinstance(said, list) else [said])), ZERO)


def scalar(loss, u, c):
    """A loss of one number."""
    if loss in ("linear", "hard"):
        return u if loss == "linear" else ZERO
    if loss == "minus a root":
        return arb("inf") if u > 0 else -arb(plus(-u)).sqrt()
    return ratio_divergence(1 - plus(u) / c) if loss == "log ratio" else SCALARS[loss.replace(" ", "_")](u)


def blocks(parts) -> fmpq_mat:
    """The block diagonal matrix of some matrices."""
    d, count = parts[0].nrows(), len(parts)
    rows = [(b, row) for b, M in enumerate(parts) for row in M.tolist()]
    return fmpq_mat([[ZERO] * (b * d) + row + [ZERO] * ((count - 1 - b) * d) for b, row in rows])


def candidates(files, base) -> Iterator[np.ndarray]:
    """Metrics to be compared with a lower bound: the solution in these units, scaled, the file's, and none at all."""
    X, was, L = (
        files.data["X"].astype(np.float64),
        base.data["X"],
        np.asarray(base.arrays["0.components"], dtype=np.float64),
    )
    size, then, own = np.abs(X).max(), np.abs(was).max(), np.asarray(files.arrays["0.components"], dtype=np.float64)
    yield np.zeros_like(own)
    with np.errstate(all="ignore"):
        near = [own * 2.0 ** (e / 4) for e in (0, -1, 1)]
    yield from (scaled for scaled in near if np.isfinite(scaled).all())
    if L.shape[::2] == own.shape[::2] and size and then:
        shift = int(np.frexp(then)[1]) - int(np.frexp(size)[1])
        for e in (0, -1, 1, -4, 4):
            with np.errstate(all="ignore"):
                scaled = np.ldexp(L, shift) * 2.0 ** (e / 4)
            if np.isfinite(scaled).all():
                yield scaled


def untrue(text, files, base):
    """What an accepting sentence says that is not true, as a list of sentences."""
    program = Program(files)
    wrong = [] if program.slack_is_psd() else ["the slack matrix is not PSD"]
    n, d = files.data["X"].shape
    wrong += [] if f"Proven. {n} examples, {d} features, " in text else ["other sizes"]
    for term, arrays in program.terms:
        wrong += [] if weighed(term) in text else [f"{term} is not stated"]
        if term["term"] == "labels" and text.count("over all target") == 1:
            targets = np.asarray(arrays["targets"]).astype(int)
            chosen, k = "target pairs: the file's own choice" in text, targets.shape[1]
            origin = chosen != are_nearest(program.X, program.y, targets)
            wrong += [] if origin and (chosen or f" {k} nearest" in text) else ["other neighbors"]
    said = CLAIM.search(text)
    costs = [program.cost(L) for L in candidates(files, base)]
    if said is None:
        return wrong + ["a metric satisfies the constraints"] * any(cost is not None for cost in costs)
    high, low, at = float(said["high"]), float(said["low"]), program.cost(files.arrays["0.components"])
    wrong += ["the point is not feasible"] if at is None else [f"objective {at} above {high}"] if at > arb(high) else []
    return wrong + [f"a metric costs {cost}, below {low}" for cost in costs if cost is not None and cost < arb(low)]


def weighed(term) -> str:
    """What the sentence says of a term, for certain."""
    said = term["weight"] if isinstance(term["weight"], list) else [term["weight"]]
    words = " + ".join(repr(float(x)) for x in said).replace("+ -", "- ")
    (c,) = np.ravel(term.get("offset", 0)).tolist()
    kinds = {"labels": f"{term.get('loss')} of {float(c):}", "rows": f"{term.get('loss')} over "}
    kinds |= {
        "trace": "the trace",
        "frobenius": "half the squared",
        "log_det": "the LogDet",
        "off_diagonal": "the sum of absolute",
    }
    return kinds[term["term"]] if term.get("loss") == "hard" else f"{words} times {kinds[term['term']]}"


def are_nearest(X, y, targets):
    """Whether all targets are nearest in the class, ties (to a relative 1e-8) in any order: in rationals."""
    D = Distances(X, np.eye(X.shape[1]))
    for i, row in enumerate(targets.tolist()):
        others = [j for j in range(len(X)) if j != i and y[j] == y[i] and j not in row]
        if min(row) < 0 or any(D(i, l) < D(i, j) * number(1 - 1e-8) for j in row for l in others):
            return False
    return True
