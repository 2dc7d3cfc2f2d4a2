"""Statements to prove: sums of terms over metrics, an upper bound at a point, a lower bound by weak duality.

A program is a sum of losses ``w l(u)`` of numbers ``u = c + sum K D``, affine in squared distances ``D = v^T M v``, and
of convex functions r of the metric M. With multipliers a and matrices U,

    ``w l(u) >= a u - w l*(a / w)`` and ``r(M) >= <U, M> - r*(U)``,

so each metric costs at least ``sum a c - sum w l*(a / w) - sum r*(U)`` if the slack matrix, the sum of all
``a K v v^T`` and U, is positive semidefinite on the metrics of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from flint import arb, arb_mat

from sdpmetric.check import arithmetic as ar
from sdpmetric.check.arithmetic import balls, total
from sdpmetric.check.files import (
    LIMITS,
    NAMES,
    Arrays,
    BadInput,
    FloatArray,
    IndexArray,
    ProofPart,
    Refused,
    Work,
    numbered,
    printable,
)

DOMAINS = {
    "all": "all metrics",
    "diagonal": "weights of features",
    "threshold": "all metrics of one more feature, 1 in one more row that is else the first, and 0 in the others",
}
# Squared distances that differ by this share may be ties.
TIES = 1e-8
Pair = tuple[int, int]
Entries = list[tuple[Pair, float]]
Comparison = tuple[tuple[int, int, int], ...]
Row = tuple[arb, float, arb, Entries]  # ``w l(c + sum K D)`` with a multiplier a: w, c, a, K as numbers of pairs


class Program:
    """Metrics ``P L^T L P^T``, and what terms add up to: objective, lower bound, slack matrix as pairs and a matrix.

    A pair is measured by the sum of the metrics with the shares of its second row.
    """

    def __init__(self, data: Arrays, domain: ProofPart, cost: int) -> None:
        self.data, self.high, self.low, self.pairs, self.work = data, arb(0), arb(0), dict[Pair, arb](), Work(cost)
        self.L, P, self.shares = domain.arrays.values()
        (B, K, Q), (n, d) = self.L.shape, (len(self.shares), len(P))
        self.work.spend(n * (2 * d + 2 * Q + 3 * B * K + B * Q) + (B * d) ** 2, (n * Q + B * d * d) * (d + B * K + Q))
        X, file_choice, is_identity = data["X"], "the file's own choice", np.array_equal(P, np.eye(len(P)))
        if domain.kind == "threshold":
            X = np.block([[X, np.zeros((len(X), 1))], [X[:1], np.ones((1, 1))]])
        self.X, self.P, self.diagonal, self.words = X, balls(P), domain.kind == "diagonal", DOMAINS[domain.kind]
        if self.L.shape[1] > X.size + len(X):
            raise BadInput("components of the proof have more rows than any metric needs.")
        if self.diagonal and (np.count_nonzero(self.L, axis=2) > 1).any():
            raise Refused("components: a metric is not of the program: it is not diagonal")
        self.words += "" if is_identity else " of the features P^T x, with the file's matrix P"
        if self.shares.shape[1] > 1 or (self.shares != 1.0).any():
            share_rows = [*map(tuple, self.shares.tolist())]
            whose = [
                f"{name!r} in the data" for name in NAMES if np.array_equal(data.get(name, ()), numbered(share_rows))
            ]
            self.words += f", for a pair the sum of {len(self.L)} metrics with shares by the group of its second row"
            groups = "; ".join(" ".join(map(repr, row)) for row in dict.fromkeys(share_rows))
            self.words += f" ({[*whose, file_choice][0]}): {groups}"
        self.rows = balls(X) if is_identity else balls(X) * self.P
        self.V, roots = self.rows.tolist(), balls(np.concatenate(self.L).T)
        self.images, self.row_shares = (self.rows * roots).tolist(), np.repeat(self.shares, self.L.shape[1], axis=1)
        self.Z = np.array([[ar.rounded(x) for x in row] for row in self.images])
        self.matrix = arb_mat(len(self.L) * X.shape[1], len(self.L) * X.shape[1])

    def distance(self, pair: Pair) -> arb:
        self.work.spend(4 + self.row_shares.shape[1])
        terms = zip(self.row_shares[pair[1]].tolist(), *(self.images[i] for i in pair), strict=True)
        return total(s * ar.square(a - b) for s, a, b in terms if s)

    def add(self, loss: str, rows: Iterable[Row]) -> None:
        """Add losses of numbers, their bounds by multipliers, and what these add to the slack matrix.

        Hard constraints have no weights.
        """
        value, conjugate, largest_slope = LOSSES[loss]
        distances = dict[Pair, arb]()
        for w, c, a, K in rows:
            self.work.spend(10 + 2 * len(K))
            w = arb(1) if loss == "hard" else w
            if a != 0 and not (w > 0 and a > 0 and (largest_slope == np.inf or a <= largest_slope * w)):
                raise Refused(f"multipliers: one is not a slope of the {loss} times its weight")
            if w > 0:
                a = w if loss == "linear" else a
                distances |= {pair: self.distance(pair) for pair, _ in K if pair not in distances}
                self.low += a * c - w * conjugate(a / w, arb(c))
                self.high += w * value(total((x * distances[pair] for pair, x in K)) + c, arb(c))
                self.weigh((pair, a * x) for pair, x in K)

    def weigh(self, pairs: Iterable[tuple[Pair, arb]]) -> None:
        for pair, weight in pairs:
            self.work.spend(6)
            if not weight.is_zero():
                self.pairs[pair] = self.pairs.get(pair, arb(0)) + weight

    def difference(self, i: int, j: int) -> list[arb]:
        return [x - y for x, y in zip(self.V[i], self.V[j], strict=True)]

    def require_psd(self) -> None:
        """Refuse slack matrices ``S = sum_q w_q v_q v_q^T + N`` that are not proven PSD, for each metric.

        A sum of squares with weights of at least 0 and of a PSD matrix N is PSD. If N is 0, it is enough that S is
        positive on features that all v are combinations of: for each x there is then a y of these features with the
        same products ``v^T x``. Of diagonal metrics the diagonal counts.
        """
        entries, d, q = self.matrix.tolist(), self.X.shape[1], self.rows.ncols()
        for b, share in enumerate(self.shares.T.tolist()):
            N = arb_mat([row[b * d : (b + 1) * d] for row in entries[b * d : (b + 1) * d]])
            laplacian, weighted_pairs = [[arb(0)] * q for _ in self.V], [pair for pair in self.pairs if share[pair[1]]]
            self.work.spend((len(weighted_pairs) * 5 + len(laplacian)) * q, (len(laplacian) + 2 * q) * q * q)
            for i, j in weighted_pairs:
                v = [self.pairs[i, j] * share[j] * x for x in self.difference(i, j)]
                laplacian[i] = [x + y for x, y in zip(laplacian[i], v, strict=True)]
                laplacian[j] = [x - y for x, y in zip(laplacian[j], v, strict=True)]
            mapped = self.P.transpose() * N * self.P
            S = mapped + self.rows.transpose() * arb_mat(laplacian)
            is_sum_of_squares = all(self.pairs[i, j] * share[j] >= 0 for i, j in weighted_pairs)
            if is_sum_of_squares and ar.is_psd(mapped):
                continue
            if self.diagonal:
                proven = all(S[k, k] >= 0 for k in range(q))
            elif not (proven := ar.is_psd(S)) and all(x.is_zero() for x in N.entries()):
                columns = ar.independent(arb_mat([self.difference(i, j) for i, j in weighted_pairs]), self.work)
                proven = columns is not None and ar.is_psd(S, columns)
            if not proven:
                raise Refused("dual cone: the slack matrix is not proven to be positive semidefinite")


# -- losses of a number u with an offset c: value, conjugate, largest slope; the least is 0 ---------------------------


def _positive(u: arb) -> arb:
    return u.max(arb(0))


def _less_log(x: arb) -> arb:
    return x - x.log1p()


def _entropy(x: arb) -> arb:
    return arb(0) if x.is_zero() else -x * x.log()


def _zero(u: arb, c: arb) -> arb:
    return arb(0)


Function = Callable[[arb, arb], arb]
LOSSES: dict[str, tuple[Function, Function, float]] = {
    "linear": (lambda u, c: u, _zero, 0.0),  # the slope is the weight
    "hinge": (lambda u, c: _positive(u), _zero, 1.0),
    "squared hinge": (lambda u, c: ar.square(_positive(u)), lambda a, c: ar.square(a) / 4, np.inf),
    "logistic": (lambda u, c: _positive(u) + (-abs(u)).exp().log1p(), lambda a, c: -_entropy(a) - _entropy(1 - a), 1.0),
    "hard": (lambda u, c: arb(0 if u <= 0 else "inf"), _zero, np.inf),
    "minus a root": (lambda u, c: -_positive(-u).sqrt() if u <= 0 else arb("inf"), lambda a, c: 1 / (4 * a), np.inf),
    "log ratio": (lambda u, c: _less_log(-_positive(u) / c), lambda a, c: _less_log(a * c), np.inf),
}


# -- terms ------------------------------------------------------------------------------------------------------------


def _summed(floats: list[float]) -> tuple[arb, str]:
    """Return a sum of floats that is at least 0, and in words."""
    if not (weight := total(map(arb, floats))) >= 0:
        raise BadInput("a weight of the proof is negative.")
    return weight, " + ".join(map(repr, floats)).replace("+ -", "- ")


def _weighed(w: FloatArray, loss: str = "") -> str:
    return "" if (w == 1.0).all() or loss == "hard" else f", weights {float(w.min())!r} to {float(w.max())!r}"


def rows(term: ProofPart, program: Program, weight: arb) -> str:
    """Return ``weight sum_i w_i l(c_i + sum K D)``, K by places of pairs with factors."""
    c, w, a, places, pairs, factors = term.arrays.values()
    if term.loss == "log ratio" and not c.all():
        raise BadInput("offsets of log ratios of the proof are 0.")
    program.work.spend(20 * (len(c) + len(places)))
    K: list[Entries] = [[] for _ in c]
    for k, (i, j), x in zip(places.tolist(), pairs.tolist(), factors.tolist(), strict=True):
        K[k].append(((i, j), x))
    numbers = zip(w.tolist(), c.tolist(), a.tolist(), K, strict=True)
    program.add(term.loss, ((weight * w_i, c_i, arb(a_i), entries) for w_i, c_i, a_i, entries in numbers))
    return f"{term.loss} over {len(c)} rows ({_in_words(program, c.tolist(), K)}{_weighed(w, term.loss)})"


def _in_words(program: Program, offsets: list[float], K: list[Entries]) -> str:
    """Return kinds of rows, the most frequent first, and how many comparisons of the data they are."""
    kinds, comparisons, in_data, n = dict[str, int](), set[Comparison](), set[Comparison](), len(program.data["X"])
    for c, combination in zip(offsets, K, strict=True):
        entries = sorted((-x, i, j) for (i, j), x in combination)
        signs = [f"{'-' if x > 0 else '+'} {'' if abs(x) == 1 else f'{abs(x)!r} '}D" for x, *_ in entries]
        kind = f"{c!r} {' '.join(signs) if len(signs) < 4 else f'+ a combination of {len(signs)} D'}"
        kinds[kind] = kinds.get(kind, 0) + 1
        signed_pairs = [(i, j, int(np.sign(-x))) for x, i, j in entries if j < n]
        comparisons |= (
            {tuple(signed_pairs)} if len(signed_pairs) < 3 else {(signed_pair,) for signed_pair in signed_pairs}
        )
    lists = ("pairs", "similar", "triplets", "quadruplets")
    program.work.spend(40 * sum(len(program.data.get(name, ())) for name in lists))
    pairs, similar, triplets, quadruplets = (np.asarray(program.data.get(name, ())).tolist() for name in lists)
    in_data |= {((i, j, 1 if same else -1),) for (i, j), same in zip(pairs, similar, strict=True)}
    in_data |= {((i, j, 1), (k, l, -1)) for i, j, k, l in [(i, j, i, l) for i, j, l in triplets] + quadruplets}
    phrases = [f"{kinds[kind]} of {kind}" for kind in sorted(kinds, key=lambda kind: -kinds[kind])]
    phrases = phrases if len(phrases) < 5 else [*phrases[:3], f"{len(phrases) - 3} other kinds"]
    origin = (
        f"{len(comparisons)} of the {len(in_data)} in the data"
        if comparisons <= in_data
        else "of the file's own choice"
    )
    return ", ".join([*phrases, origin])


def labels(term: ProofPart, program: Program, weight: arb) -> str:
    """Return ``pull sum_ij w_i D_ij + weight sum_ijl w_i w_l h(offset + D_ij - D_il)``, h the hinge or its square.

    j are the target neighbors of i, and l all examples of other classes: all triplets count at the point. Those with
    neither a multiplier nor, by bounds of their distances, a loss are left out.
    """
    targets, w, a, named = term.arrays.values()
    y, (pull, pulls), (c, *rest_of_offset) = program.data["y"], _summed(term.numbers["pull"]), term.numbers["offset"]
    if term.loss not in ("hinge", "squared hinge") or c < 0.0 or rest_of_offset or not targets.size:
        raise BadInput("loss, margin or target neighbors of the proof are not those of labels.")
    program.work.spend(20 * (targets.size + len(named)), len(y) ** 2 * (program.row_shares.shape[1] + 4) // 4)
    target_pairs = [(i, j) for i, js in enumerate(targets.tolist()) for j in js if j >= 0]
    if any(y[i] != y[j] or i == j for i, j in target_pairs) or len({*target_pairs}) < len(target_pairs):
        raise Refused("target neighbors: one is of another class, the example itself, or named twice")
    of = dict(zip(map(tuple, named.tolist()), a.tolist(), strict=True))
    if len(of) < len(a) or any(y[i] == y[l] for i, _, l in of) or not {(i, j) for i, j, _ in of} <= {*target_pairs}:
        raise Refused("triplets: one is named twice, or is none of these target neighbors and labels")
    for i, neighbors in enumerate(targets):
        low, high = ar.distance_bounds(program.Z, i, program.row_shares)
        for j in neighbors[neighbors >= 0].tolist():
            violated = (y != y[i]) & ~((c + high[j]) * (1 + 4 * ar.U) <= low)
            of |= {(i, j, l): 0.0 for l in np.flatnonzero(violated).tolist() if (i, j, l) not in of}
        if len(of) > (max_triplets := LIMITS["pairs, rows or triplets"]):
            raise BadInput(f"more than {max_triplets:,} triplets may have a loss at the components of the proof.")
    weights = [arb(x) for x in w.tolist()]
    program.add("linear", ((pull * weights[i], 0.0, arb(0), [((i, j), 1.0)]) for i, j in target_pairs))
    triplets = of.items()
    program.add(
        term.loss,
        ((weight * weights[i] * weights[l], c, arb(x), [((i, j), 1.0), ((i, l), -1.0)]) for (i, j, l), x in triplets),
    )
    origin = f"{len(target_pairs)} target pairs: {origin_of_targets(program.X, y, targets, program.work)}"
    pulled = f", plus {pulls} times D(i, j)," if pull > 0 else ""
    sentence = f"{term.loss} of {c!r} + D(i, j) - D(i, l){pulled} over all target neighbors j and impostors l of i"
    return f"{sentence} ({len(np.unique(y))} classes, {origin}{_weighed(w)})"


def origin_of_targets(X: FloatArray, y: IndexArray, targets: IndexArray, work: Work) -> str:
    """Say where the target pairs come from; floats decide first, then exact differences of near candidates."""
    work.spend(X.size, len(X) * X.size // 4)
    shares, V, k = np.ones(X.shape), balls(X).tolist(), targets.shape[1]
    for i, js in enumerate(targets):
        (low, high), candidates = ar.distance_bounds(X, i, shares), y == y[i]
        candidates[i] = candidates[js] = False
        if (js < 0).any():
            return "the file's own choice"
        nearest = np.flatnonzero(candidates & ~(low >= high[js].max() * (1.0 - TIES))).tolist()
        work.spend((len(nearest) + k) * (3 * X.shape[1] + 6) + 2 * len(nearest) * k)
        candidate_distances, target_distances = (
            [total(ar.square(a - b) for a, b in zip(V[i], V[j], strict=True)) for j in some] for some in (nearest, js)
        )
        if not all(limit * (1 - TIES) <= D for D in candidate_distances for limit in target_distances):
            return f"the file's own choice, not the {k} nearest of the data"
    return f"the {k} nearest examples of the same class in these data (ties, up to a relative {TIES!r}, in any order)"


def matrix(term: ProofPart, program: Program, weight: arb) -> str:
    """Return a convex function of the metric: its trace, a distance, or the size of its other entries."""
    kind, size, arrays = term.kind, program.matrix.nrows(), term.arrays
    roots = [program.P * balls(L.T) for L in program.L]
    program.work.spend(4 * size**2, 8 * size**3)
    M, identity = ar.diagonal([root * root.transpose() for root in roots]), balls(np.eye(size))
    slope, to = (balls(arrays[name]) if name in arrays else identity for name in ("slope", "to"))
    if not weight > 0 or slope != slope.transpose() or to != to.transpose():
        raise BadInput(f"{kind} of the proof has no positive weight, or matrices that are not symmetric.")
    whence = "the identity" if to == identity else "0" if to == 0 * identity else "the file's matrix"
    if kind == "trace":
        slope, whence = weight * identity, ""
        program.high += ar.inner(slope, M)
    elif kind == "frobenius":
        program.high += weight * ar.inner(M - to, M - to) / 2
        program.low -= ar.inner(slope, slope) / (2 * weight) + ar.inner(slope, to)
    elif kind == "off_diagonal":
        away = [(j == k, slope[j, k], abs(M[j, k])) for j in range(size) for k in range(size)]
        if not all(x <= 0 if same else abs(x) <= weight for same, x, _ in away):
            raise Refused("multipliers: a matrix is no slope of the sum of absolute entries")
        program.high += weight * total(y for same, _, y in away if not same)
    else:
        K, volume = to.inv(), M.det()
        inverse_of_minimizer = K - slope * (1 / weight)
        if not (ar.is_positive(to) and ar.is_positive(inverse_of_minimizer)):
            raise Refused("multipliers: a matrix is no slope of the LogDet divergence, or that is not from a metric")
        program.low += weight * ((inverse_of_minimizer.det() * to.det()).log() + M.nrows() - size)
        program.high += weight * (ar.inner(M, K) - (volume / to.det()).log() - size if volume > 0 else arb("inf"))
    program.matrix += slope
    return MATRICES[kind].format(whence)


MATRICES = {
    "trace": "the trace",
    "frobenius": "half the squared Frobenius distance from {}",
    "log_det": "the LogDet divergence from {}",
    "off_diagonal": "the sum of absolute entries off the diagonal",
}
TERMS = {"labels": labels, "rows": rows}


def prove(data: Arrays, domain: ProofPart, terms: list[ProofPart], cost: int) -> tuple[arb, arb, str]:
    """Return an upper bound at the point, a lower bound of all metrics, and the program in words.

    `cost` is the number of ordinary multiplications that take the time of one at the present precision.
    """
    program, (n, d), words = Program(data, domain, cost), data["X"].shape, list[str]()
    for term in terms:
        if term.kind in ("labels", "rows") and term.loss not in LOSSES:
            raise BadInput(f"the loss {printable(term.loss, 40)!r} of the proof is unknown.")
        weight, weight_in_words = _summed(term.numbers["weight"])
        sentence = TERMS.get(term.kind, matrix)(term, program, weight)
        words.append(sentence if term.loss == "hard" else f"{weight_in_words} times {sentence}")
    program.require_psd()
    return program.high, program.low, f"{n} examples, {d} features, {program.words}, the sum of: {'; '.join(words)}"
