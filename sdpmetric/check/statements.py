"""What is to be proven: sums of terms over metrics, an upper bound at a point and a lower bound by weak duality.

A program is a sum of losses ``w l(u)`` of numbers ``u = c + sum K D``, affine in squared distances ``D = v^T M v``, and
of convex functions r of the metric M. With multipliers a and matrices U,

    ``w l(u) >= a u - w l*(a / w)`` and ``r(M) >= <U, M> - r*(U)``,

so that each metric costs at least ``sum a c - sum w l*(a / w) - sum r*(U)`` if the slack matrix, the sum of all
``a K v v^T`` and U, is positive semidefinite on the metrics of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
from flint import arb, arb_mat

from sdpmetric.check.arithmetic import U, above, balls, distances, inner, is_positive, require_psd, squares, total
from sdpmetric.check.files import (
    NAMES,
    Arrays,
    BadInput,
    FloatArray,
    IndexArray,
    Proof,
    Refused,
    Said,
    indices,
    number,
    numbered,
)
from sdpmetric.check.neighbors import origin_of_targets

KINDS = {
    "all": "all metrics",
    "diagonal": "weights of features",
    "threshold": "all metrics of one more feature, 1 in one more row that is else the first, and 0 in the others",
    "subspace": "metrics P N P^T with the file's matrix P",
    "bases": "nonnegative combinations of the rank-one metrics of the file's vectors",
}


class Metrics:
    """The point, metrics ``P L^T L P^T``; a pair is measured by the sum of them with the shares of its second row.

    Shares are those of tasks, ``sharing M_0 + M_t``, or 1 for the metric of the row's region and 0 for the others.
    """

    def __init__(self, X: FloatArray, data: Arrays, domain: Said) -> None:
        kind, n, P = str(domain.about["domain"]), len(X), domain.arrays.get("map")
        if kind == "threshold":
            X = np.block([[X, np.zeros((n, 1))], [X[:1], np.ones((1, 1))]])
        self.X, self.shares, self.words = X, np.ones((len(X), 1)), KINDS.get(kind, "")
        self.P, self.diagonal = None if P is None else balls(P), kind in ("diagonal", "bases")
        if "groups" in domain.arrays:
            groups = indices("groups", domain.arrays["groups"], 0, n)
            as_they_appear = numbered(groups.tolist())
            own = [
                f"{name!r} in the data" for name in NAMES if name in data and np.array_equal(data[name], as_they_appear)
            ]
            whose = own[0] if own else "the file's own choice"
            self.shares = np.eye(int(groups.max(initial=0)) + 1)[groups]
            self.words = f"a metric for each of {self.shares.shape[1]} regions ({whose}), that of a pair's second row"
            if kind == "tasks":
                sharing = domain.number("sharing")
                self.words = f"metrics {sharing!r} M_0 + M_t of {self.shares.shape[1]} tasks ({whose})"
                self.shares = np.column_stack([np.full(len(groups), sharing), self.shares])
        self.L, count = domain.arrays["components"], self.shares.shape[1]
        if {len(self.L), len(domain.arrays["coordinates"])} != {count} or len(self.shares) != len(X):
            raise BadInput(f"components, coordinates or regions of the proof are not those of {count} metrics.")
        if (self.shares < 0.0).any() or (self.diagonal and (np.count_nonzero(self.L, axis=2) > 1).any()):
            raise Refused("components: a metric is not of the program: shares are negative, or it is not diagonal")

    def distances(self, first: IndexArray, second: IndexArray) -> list[arb]:
        """The squared distances of pairs."""
        D = balls(self.X[first]) - balls(self.X[second])
        each = [squares((D if self.P is None else D * self.P) * balls(L).transpose()) for L in self.L]
        both = zip(self.shares[second].tolist(), zip(*each, strict=True), strict=True)
        return [total([arb(share) * D for share, D in zip(*row, strict=True)]) for row in both]

    def matrix(self) -> arb_mat:
        """The metric in the coordinates of the data, those of several as the blocks of one."""
        each = [balls(L).transpose() * balls(L) for L in self.L]
        each, d = [M if self.P is None else self.P * M * self.P.transpose() for M in each], self.X.shape[1]
        rows = [(b, row) for b, M in enumerate(each) for row in M.tolist()]
        return arb_mat([[0] * (b * d) + row + [0] * ((len(each) - 1 - b) * d) for b, row in rows])


@dataclass
class Sums:
    """What terms add up to: objective, its lower bound, the slack matrix as pairs and a matrix; no loss below 0."""

    matrix: arb_mat
    high: arb = field(default_factory=arb)
    low: arb = field(default_factory=arb)
    pairs: dict[tuple[int, int], arb] = field(default_factory=dict)
    nonnegative: bool = True

    def add(self, pairs: Iterable[tuple[int, int]], weights: list[arb]) -> None:
        """Pairs with weights in the slack matrix."""
        for pair, weight in zip(pairs, weights, strict=True):
            self.pairs[pair] = self.pairs.get(pair, arb(0)) + weight


# -- losses of a number u: value, conjugate, least and largest slope; s and b are sides and bounds --------------------


def _positive(u: arb) -> arb:
    return u.max(arb(0))


def _smooth(u: arb) -> arb:
    s = _positive(u).min(arb(1))
    return s * (2 * u - s) / 2


def _less_log(x: arb) -> arb:
    return x - x.log1p()


def _entropy(x: arb) -> arb:
    return arb(0) if x.is_zero() else -x * x.log()


Loss = tuple[Callable[[arb, arb, arb], arb], Callable[[arb, arb, arb], arb], float, float]
LOSSES: dict[str, Loss] = {
    "linear": (lambda u, s, b: u, lambda a, s, b: arb(0), 1.0, 1.0),
    "hinge": (lambda u, s, b: _positive(u), lambda a, s, b: arb(0), 0.0, 1.0),
    "squared hinge": (lambda u, s, b: _positive(u) ** 2, lambda a, s, b: a**2 / 4, 0.0, np.inf),
    "smooth hinge": (lambda u, s, b: _smooth(u), lambda a, s, b: a**2 / 2, 0.0, 1.0),
    "logistic": (
        lambda u, s, b: _positive(u) + (-abs(u)).exp().log1p(),
        lambda a, s, b: -_entropy(a) - _entropy(1 - a),
        0.0,
        1.0,
    ),
    "hard": (lambda u, s, b: arb(0), lambda a, s, b: arb(0), 0.0, np.inf),
    "minus a root": (lambda u, s, b: -_positive(-u).sqrt(), lambda a, s, b: 1 / (4 * a), 0.0, np.inf),
    "half square": (
        lambda u, s, b: (abs(u) if s == 0 else _positive(s * u)) ** 2 / 2,
        lambda a, s, b: a**2 / 2 if s * a >= 0 else arb("inf"),
        -np.inf,
        np.inf,
    ),
    "log ratio": (lambda u, s, b: _less_log(s * _positive(u) / b), lambda a, s, b: _less_log(-s * a * b), 0.0, np.inf),
}


def _weight(term: Said, name: str = "weight") -> tuple[arb, str]:
    """A weight of at least 0, exactly the sum of the floats of a list, and in words."""
    said = term.about[name]
    parts = [number(name, x) for x in (said if isinstance(said, list) else [said])]
    if not (weight := total([arb(x) for x in parts])) >= 0:
        raise BadInput(f"a {name} of the proof is negative.")
    return weight, " + ".join(map(repr, parts)).replace("+ -", "- ")


def rows(term: Said, metrics: Metrics, data: Arrays, sums: Sums, point: bool) -> str:
    """``weight sum_i w_i l(c_i + sum K D)``; entries of K are row, first, second and the number."""
    (weight, said), loss, n = _weight(term), str(term.about["loss"]), len(metrics.X)
    c, w, a, E = (term.arrays[name] for name in ("offsets", "weights", "multipliers", "entries"))
    s, b = (term.arrays.get(name, np.ones(len(c))) for name in ("sides", "bounds"))
    row, first, second = (indices("entries", E[:, k], 0, end) for k, end in enumerate((len(c), n, n)))
    K, pairs = E[:, 3].tolist(), list(zip(first.tolist(), second.tolist(), strict=True))
    if loss not in LOSSES or {len(c)} != {len(x) for x in (w, a, s, b)} or (w < 0.0).any() or (b <= 0.0).any():
        raise BadInput("rows of the proof have an unknown loss, or not a number of the right sign for each.")
    if not np.isin(s, (-1.0, 1.0) if loss == "log ratio" else (-1.0, 0.0, 1.0)).all():
        raise BadInput("sides of the proof are not 1, -1 or, for half squares, 0.")
    if loss == "linear" and a.any():
        raise BadInput("multipliers of linear rows are their weights; the proof has others, which say nothing.")
    value, conjugate, least, most = LOSSES[loss]
    weights = [arb(float(x > 0.0)) if loss == "hard" else weight * arb(x) for x in w.tolist()]
    slopes, u = weights if loss == "linear" else [arb(x) for x in a.tolist()], [arb(x) for x in c.tolist()]
    for k, x, D in zip(row.tolist(), K, metrics.distances(first, second) if point else K, strict=True):
        u[k] += arb(x) * D
    for u_i, c_i, w_i, a_i, *sb in zip(u, c.tolist(), weights, slopes, s.tolist(), b.tolist(), strict=True):
        if loss != "linear" and not (
            (w_i > 0 and (least < 0.0 or a_i >= 0) and (most > 1.0 or a_i <= w_i)) or a_i == 0
        ):
            raise Refused(f"multipliers: one is not a slope of the {loss} times its weight")
        if loss == "hard" and point and w_i > 0 and not u_i <= 0:
            raise Refused("components: a hard constraint is not proven to hold")
        if w_i > 0:
            sums.high += w_i * value(u_i, arb(sb[0]), arb(sb[1]))
            sums.low += a_i * arb(c_i) - w_i * conjugate(a_i / w_i, arb(sb[0]), arb(sb[1]))
    sums.add(pairs, [slopes[k] * arb(x) for k, x in zip(row.tolist(), K, strict=True)])
    sums.nonnegative &= loss != "minus a root" and not (loss == "linear" and (min(K, default=0) < 0 or (c < 0).any()))
    return f"{'' if loss == 'hard' else f'{said} times '}{loss} over {len(c)} rows ({_in_words(term, metrics.X, data)})"


def _in_words(term: Said, X: FloatArray, data: Arrays) -> str:
    """What the numbers of rows are, in kinds, how they are weighed, and whether pairs are those of the data."""
    c, E, n = term.arrays["offsets"], term.arrays["entries"], len(data["X"])
    own: list[list[tuple[float, int, int]]] = [[] for _ in c]
    for k, i, j, x in E.tolist():
        own[int(k)].append((-x, int(i), int(j)))
    kinds, found = dict[str, int](), set[tuple[tuple[int, int, int], ...]]()
    for offset, entries in zip(c.tolist(), own, strict=True):
        signs = [f"{'-' if x > 0 else '+'} {'' if abs(x) == 1 else f'{abs(x)!r} '}D" for x, *_ in sorted(entries)]
        kind = f"{offset!r} {' '.join(signs) if len(signs) < 4 else f'+ a combination of {len(signs)} D'}"
        kinds[kind] = kinds.get(kind, 0) + 1
        plain = [(i, j, int(np.sign(-x))) for x, i, j in sorted(entries) if j < n]
        found |= {tuple(plain)} if len(plain) < 3 else {(one,) for one in plain}
    given: set[tuple[tuple[int, int, int], ...]] = {
        ((i, j, 1 if y else -1),) for (i, j), y in zip(_list(data, "pairs"), _list(data, "similar"), strict=True)
    }
    given |= {((i, j, 1), (i, l, -1)) for i, j, l in _list(data, "triplets")}
    given |= {((i, j, 1), (k, l, -1)) for i, j, k, l in _list(data, "quadruplets")}
    signs_of = {tuple(sign for *_, sign in some) for some in found}
    given = {some for some in given if tuple(sign for *_, sign in some) in signs_of}
    live = [{some for some in those if any((X[i] != X[j]).any() for i, j, _ in some)} for those in (found, given)]
    parts = [f"{count} of {kind}" for kind, count in kinds.items()]
    parts = parts if len(parts) < 5 else [*parts[:3], f"{len(c) - sum([*kinds.values()][:3])} others"]
    for name in ("weights", "bounds", "sides"):
        values = term.arrays.get(name, np.ones(1)).tolist()
        parts += [f"{name} {min(values)!r} to {max(values)!r}"] if {*values} - {1.0} else []
    return ", ".join([*parts, "those of the data" if given and live[0] == live[1] else "of the file's own choice"])


def _list(data: Arrays, name: str) -> list[list[int]]:
    return np.asarray(data[name]).tolist() if name in data else []


def labels(term: Said, metrics: Metrics, data: Arrays, sums: Sums, point: bool) -> str:
    """``pull sum_ij w_i D_ij + weight sum_ijl w_i w_l h(offset + D_ij - D_il)``, h the hinge or its square.

    j are the target neighbors of i, and l all examples of other classes: all triplets count at the point.
    """
    (mu, said), (pull, pulls), loss, n = _weight(term), _weight(term, "pull"), term.about["loss"], len(metrics.X)
    y, a, w, offset = (
        data["y"],
        term.arrays["multipliers"],
        term.arrays["weights"],
        number("offset", term.about["offset"]),
    )
    targets, named = (indices(name, term.arrays[name], least, n) for name, least in (("targets", -1), ("triplets", 0)))
    squared, fit = loss == "squared hinge", len(targets) == len(y) == len(w) == n and named.shape == (len(a), 3)
    if loss not in ("hinge", "squared hinge") or offset < 0.0 or not fit or not targets.shape[1] or (w < 0.0).any():
        raise BadInput("loss, margin, target neighbors, triplets or weights of the proof do not fit the data.")
    anchors, slots = np.nonzero(targets >= 0)
    seconds, (i, j, l) = targets[anchors, slots], named.T
    if (y[anchors] != y[seconds]).any() or (anchors == seconds).any() or _repeated(anchors, seconds):
        raise Refused("target neighbors: one is of another class, the example itself, or named twice")
    if (y[i] == y[l]).any() or not (targets[i] == j[:, None]).any(axis=1).all() or _repeated(i, j, l):
        raise Refused("triplets: one is named twice, or is none of these target neighbors and labels")
    slopes = [arb(x) for x in a.tolist()]
    for x, w_i, w_l in zip(slopes, w[i].tolist(), w[l].tolist(), strict=True):
        top = mu * arb(w_i) * arb(w_l)
        if not (x >= 0 and (x <= top or (squared and top > 0))):
            raise Refused(f"multipliers: one is not between 0 and the push weight {said}, times weights")
        sums.low += x * arb(offset) - (x**2 / (4 * top) if squared and x > 0 else 0)
    sums.add(zip(anchors.tolist(), seconds.tolist(), strict=True), [pull * arb(x) for x in w[anchors].tolist()])
    sums.add(zip(i.tolist() * 2, [*l.tolist(), *j.tolist()], strict=True), [-x for x in slopes] + slopes)
    for blocks in zip(*(distances(metrics.X, L, metrics.P) for L in metrics.L), strict=True):
        each = list(zip(metrics.shares.T, blocks, strict=True))
        low, high = sum(s * D[1] * (1 - 8 * U) for s, D in each), sum(s * D[2] * (1 + 8 * U) for s, D in each)
        some, own = slice(blocks[0][0], blocks[0][0] + len(low)), np.arange(len(low))
        for js in targets[some].T:
            near = np.where(js >= 0, high[own, js], 0.0)
            u = np.maximum((offset + near)[:, None] * (1 + 4 * U) - low, 0.0)
            u *= (y[some, None] != y) & (js >= 0)[:, None]
            sums.high += pull * above(_times(near, w[some]))
            sums.high += mu * above(_times(_times(_times(u, u) if squared else u, w), w[some, None]))
    weighed = "" if (w == 1.0).all() else f", examples with weights {float(w.min())!r} to {float(w.max())!r}"
    origin = (
        f"{len(anchors)} target pairs: {origin_of_targets(metrics.X, np.asarray(y, dtype=np.int64), targets)}{weighed}"
    )
    program = f"{said} times {loss} of {offset!r} + D(i, j) - D(i, l) over all target neighbors j and impostors l of i"
    return f"{f'{pulls} times D(i, j), and ' if pull > 0 else ''}{program} ({len(np.unique(y))} classes, {origin})"


def _times(a: FloatArray, b: FloatArray) -> FloatArray:
    """Products of nonnegative floats, rounded upwards; a faint one is as large as a normal number."""
    return np.where((a == 0.0) | (b == 0.0), 0.0, np.maximum(a * b * (1 + 4 * U), 2.0**-1021))


def _repeated(*columns: IndexArray) -> bool:
    return len(np.unique(np.stack(columns, axis=1), axis=0)) < len(columns[0])


def softmax(term: Said, metrics: Metrics, data: Arrays, sums: Sums, point: bool) -> str:
    """``weight sum_g w_g (log sum_j exp -D_gj + <p_g, D_g> - h_g)`` with the entropy h of p, over ordered pairs.

    Of a collapse, g are the examples, and p_g is uniform over neighbors of their class. Else there is one g, with all
    pairs, and p are shares of given ones. Multipliers are ``w (q - p)`` for distributions q.
    """
    (weight, said), n, Q = _weight(term), len(metrics.X), term.arrays["distributions"]
    fit = True
    if term.about["term"] == "collapse":
        y, w, near = data["y"], term.arrays["weights"], indices("neighbors", term.arrays["neighbors"], 0, n)
        sized = near.ndim == 2 and len(y) == len(w) == len(near) == n and near.shape == Q.shape
        if not sized or any(len({g, *own}) <= len(own) for g, own in enumerate(near.tolist())):
            raise BadInput("neighbors of the proof are not rows of different other examples, one for each example.")
        sizes = (y[near] == y[:, None]).sum(axis=1).tolist()
        if any(x > 0.0 and not size for x, size in zip(w.tolist(), sizes, strict=True)):
            raise Refused("neighbors: an example with a weight has none of its class")
        rows = [[(g, j) for j in own] for g, own in enumerate(near.tolist())]
        ideal = [[arb(int(y[j] == y[g])) / max(1, sizes[g]) for _, j in own] for g, own in enumerate(rows)]
        entropies = [arb(max(1, size)).log() for size in sizes]
        words = "collapse of classes" + (
            "" if near.shape[1] == n - 1 else f" among {near.shape[1]} of the file for each"
        )
    else:
        given, w, shares = term.arrays["pairs"], np.ones(1), dict[tuple[int, int], arb]()
        for i, j, x in zip(*indices("pairs", given[:, :2], 0, n).T.tolist(), given[:, 2].tolist(), strict=True):
            shares[min(i, j), max(i, j)] = shares.get((min(i, j), max(i, j)), arb(0)) + arb(x)
        rows, whole = [[(i, j) for i in range(n) for j in range(i + 1, n)]], total(list(shares.values()))
        weight, ideal = weight * whole, [[shares.get(pair, arb(0)) / whole for pair in rows[0]]]
        fit = Q.shape == (1, len(rows[0])) and bool((given[:, 2] >= 0.0).all()) and set(shares) <= set(rows[0])
        entropies, words = [-arb(2).log()], f"softmax of {len(given)} pairs of the file among all pairs"
    if not fit or len(w) != len(rows) or (w < 0.0).any() or (Q < 0.0).any():
        raise BadInput("labels, pairs, weights or distributions of the proof are not those of a softmax.")
    for own, p, h, q, x in zip(rows, ideal, entropies, Q.tolist(), w.tolist(), strict=True):
        if x > 0.0 and point:
            D = metrics.distances(*np.array(own).T)
            found = total([(-away).exp() for away in D]).log() + total([a * b for a, b in zip(p, D, strict=True)]) - h
            sums.high += weight * arb(x) * found.max(arb(0))
        if x > 0.0:
            whole = total([arb(value) for value in q])
            chances = [arb(value) / whole for value in q]
            sums.low += weight * arb(x) * (total([_entropy(chance) for chance in chances]) - h)
            sums.add(own, [weight * arb(x) * (a - b) for a, b in zip(p, chances, strict=True)])
    weighed = "" if (w == 1.0).all() else f", examples with weights {float(w.min())!r} to {float(w.max())!r}"
    return f"{said} times {words}{weighed}"


def matrix(term: Said, metrics: Metrics, data: Arrays, sums: Sums, point: bool) -> str:
    """A convex function of the metric: its trace, a distance from a matrix, or the size of its other entries."""
    (weight, said), kind, size = _weight(term), str(term.about["term"]), sums.matrix.nrows()
    one, M = arb_mat(np.eye(size, dtype=int).tolist()), metrics.matrix()
    if not weight > 0 or any(A.shape != (size, size) or (A != A.T).any() for A in term.arrays.values()):
        raise BadInput(f"{kind} of the proof has no positive weight, or matrices that are not symmetric ({size} rows).")
    slope, to = (balls(term.arrays[name]) if name in term.arrays else one for name in ("slope", "to"))
    whence = "the identity" if to == one else "0" if to == 0 * one else "the file's matrix"
    given = f"{said} times {{}} from {whence}"
    sums.matrix += weight * slope if kind == "trace" else slope
    if kind == "trace":
        sums.high += weight * M.trace()
        return f"{said} times the trace"
    if kind == "frobenius":
        sums.high += weight * inner(M - to, M - to) / 2
        sums.low -= inner(slope, slope) / (2 * weight) + inner(slope, to)
        return given.format("half the squared Frobenius distance")
    if kind == "log_det":
        K, volume = to.inv(), M.det()
        if not (is_positive(to) and is_positive(K - slope * (1 / weight))):
            raise Refused("multipliers: a matrix is no slope of the LogDet divergence, or that is not from a metric")
        sums.low += weight * ((K - slope * (1 / weight)).det() * to.det()).log()
        sums.high += weight * (inner(M, K) - (volume / to.det()).log() - size) if volume > 0 else arb("inf")
        return given.format("the LogDet divergence")
    apart = [(j == k, x, abs(y)) for j in range(size) for k in range(size) for x, y in ((slope[j, k], M[j, k]),)]
    if not all(x <= 0 if same else abs(x) <= weight for same, x, _ in apart):
        raise Refused("multipliers: a matrix is no slope of the sum of absolute entries")
    sums.high += weight * total([y for same, _, y in apart if not same])
    return f"{said} times the sum of absolute entries off the diagonal"


TERMS = {"labels": labels, "rows": rows, "collapse": softmax, "softmax": softmax}


def program(data: Arrays, proof: Proof) -> tuple[arb, arb, str]:
    """An upper bound at the point, a lower bound of all metrics, and the program in words.

    Where the proof claims no number, its hard constraints are all that counts: that their sum costs more than 0.
    """
    point, (n, d) = proof.about["lower_bound"] is not None, data["X"].shape
    metrics = Metrics(np.asarray(data["X"], dtype=np.float64), data, proof.domain)
    (count, width), X = (len(metrics.L), metrics.X.shape[1]), metrics.X
    sums, words = Sums(arb_mat(count * width, count * width)), list[str]()
    for term in proof.terms:
        if not point and term.about.get("loss") != "hard":
            raise BadInput("a proof of a contradiction has hard constraints and no other terms.")
        words.append(TERMS.get(str(term.about["term"]), matrix)(term, metrics, data, sums, point))
    for b, share in enumerate(metrics.shares.T.tolist()):
        own, block = sums.matrix.tolist(), slice(b * width, (b + 1) * width)
        pairs = {pair: arb(share[pair[1]]) * weight for pair, weight in sums.pairs.items()}
        N = arb_mat([row[block] for row in own[block]])
        require_psd(X, pairs, N, proof.domain.arrays["coordinates"][b], metrics.P, metrics.diagonal)
    low = sums.low.max(arb(0)) if sums.nonnegative and point else sums.low
    return sums.high, low, f"{n} examples, {d} features, {metrics.words}, the sum of: {'; '.join(words)}"
