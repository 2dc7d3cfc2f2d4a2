"""What is to be proven: sums of terms over metrics, an upper bound at a point and a lower bound by weak duality.

A program is a sum of losses ``w l(u)`` of numbers ``u = c + sum K D``, affine in squared distances ``D = v^T M v``, and
of convex functions r of the metric M. With multipliers a and matrices U,

    ``w l(u) >= a u - w l*(a / w)`` and ``r(M) >= <U, M> - r*(U)``,

so each metric costs at least ``sum a c - sum w l*(a / w) - sum r*(U)`` if the slack matrix, the sum of all
``a K v v^T`` and U, is positive semidefinite on the metrics of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations

import numpy as np
from flint import arb, arb_mat

from sdpmetric.check import arithmetic as ar
from sdpmetric.check.arithmetic import balls, total
from sdpmetric.check.files import LISTED, NAMES, Arrays, BadInput, FloatArray, Refused, Said, indices, number, numbered

KINDS = {
    "all": "all metrics",
    "diagonal": "weights of features",
    "threshold": "all metrics of one more feature, 1 in one more row that is else the first, and 0 in the others",
    "bases": "nonnegative combinations of the rank-one metrics of the file's vectors",
    "regions": "a metric for each of {} regions ({}), that of a pair's second row",
    "tasks": "M_0 + M_t of {} tasks ({})",
}
Pair = tuple[int, int]
Entries = list[tuple[Pair, float]]
# ``w l(c + sum K D)`` with a multiplier a: w, c, a, K as numbers of pairs, and the side and the bound of the loss.
Row = tuple[arb, float, arb, Entries, float, float]


class Program:
    """Metrics, and what terms add up to: objective, its lower bound, the slack matrix as pairs and a matrix.

    The point are metrics ``P L^T L P^T``; a pair is measured by the sum of them with the shares of its second row.
    These are those of tasks, ``sharing M_0 + M_t``, or 1 for the metric of the row's region and 0 for the others.
    Without a point there is no claim about one.
    """

    def __init__(self, data: Arrays, domain: Said, point: bool) -> None:
        self.data, self.point, self.high, self.low, self.nonnegative = data, point, arb(0), arb(0), True
        kind, P, groups = str(domain.about["domain"]), domain.arrays.get("map"), domain.arrays.get("groups")
        X, self.pairs = np.asarray(data["X"], dtype=np.float64), dict[Pair, arb]()
        if kind == "threshold":
            X = np.block([[X, np.zeros((len(X), 1))], [X[:1], np.ones((1, 1))]])
        self.X, self.shares, self.words = X, np.ones((len(X), 1)), KINDS[kind]
        self.diagonal = kind in ("diagonal", "bases")
        self.P = balls(np.eye(X.shape[1]) if P is None else P)
        self.rows = (balls(X) if P is None else balls(X) * self.P).tolist()
        if groups is not None:
            found = numbered(indices("groups", groups, 0, len(X)).tolist())
            own = [f"{name!r} in the data" for name in NAMES if np.array_equal(data.get(name, ()), found)]
            self.shares = np.eye(int(groups.max(initial=0)) + 1)[groups.astype(int)]
            self.words = self.words.format(self.shares.shape[1], [*own, "the file's own choice"][0])
            if kind == "tasks":
                sharing = number("sharing", domain.about["sharing"])
                self.words, self.shares = (
                    f"metrics {sharing!r} {self.words}",
                    np.insert(self.shares, 0, sharing, axis=1),
                )
        self.L, (n, count) = domain.arrays["components"], self.shares.shape
        if len(self.L) != count or n != len(X):
            raise BadInput(f"components or regions of the proof are not those of {count} metrics.")
        if (self.shares < 0.0).any() or (self.diagonal and (np.count_nonzero(self.L, axis=2) > 1).any()):
            raise Refused("components: a metric is not of the program: shares are negative, or it is not diagonal")
        self.roots = balls(np.concatenate(self.L).T)
        self.matrix = arb_mat(count * X.shape[1], count * X.shape[1])

    def differences(self, pairs: list[Pair]) -> Iterator[arb_mat]:
        """Blocks of the differences of pairs, times P."""
        for start in range(0, len(pairs), ar.ROWS):
            each = ((self.rows[i], self.rows[j]) for i, j in pairs[start : start + ar.ROWS])
            yield arb_mat([[a - b for a, b in zip(*both, strict=True)] for both in each])

    def distances(self, pairs: list[Pair]) -> list[arb]:
        """The squared distances of pairs."""
        shares, images = np.repeat(self.shares, self.L.shape[1], axis=1).tolist(), self.differences(pairs)
        both = zip(pairs, (row for D in images for row in (D * self.roots).tolist()), strict=True)
        return [total([arb(s) * x * x for s, x in zip(shares[j], row, strict=True)]) for (_, j), row in both]

    def bounds(self) -> Iterator[tuple[int, FloatArray, FloatArray]]:
        """Bounds of the distances of all pairs: the first row of a block, and two arrays."""
        Z = np.array([[ar.rounded(x) for x in row] for row in (arb_mat(self.rows) * self.roots).tolist()])
        for blocks in zip(*(ar.apart(part) for part in np.split(Z, len(self.L), axis=1)), strict=True):
            each = list(zip(self.shares.T, blocks, strict=True))
            low, high = (sum(s * D[k] * (1 + sign * ar.U) for s, D in each) for k, sign in ((1, -8), (2, 8)))
            yield blocks[0][0], np.asarray(low), np.asarray(high)

    def add(self, loss: str, rows: list[Row]) -> None:
        """Losses of numbers, their bounds by multipliers, and what these add to the slack matrix."""
        value, conjugate, least, most = LOSSES[loss]
        used = [*dict.fromkeys(pair for row in rows for pair, _ in row[3])] if self.point else []
        D = dict(zip(used, self.distances(used), strict=True))
        for w, c, a, K, side, bound in rows:
            w, s, b = arb(int(w > 0)) if loss == "hard" else w, arb(side), arb(bound)
            a = w if loss == "linear" else a
            if loss != "linear" and a != 0 and not (w > 0 and (least < 0.0 or a >= 0) and (most > 1.0 or a <= w)):
                raise Refused(f"multipliers: one is not a slope of the {loss} times its weight")
            if w > 0:
                self.low += a * arb(c) - w * conjugate(a / w, s, b)
                self.weigh([pair for pair, _ in K], [a * arb(x) for _, x in K])
            if w > 0 and self.point:
                u = sum((arb(x) * D[pair] for pair, x in K), arb(c))
                if loss == "hard" and not u <= 0:
                    raise Refused("components: a hard constraint is not proven to hold")
                self.high += w * value(u, s, b)
            self.nonnegative &= loss != "minus a root" and not (loss == "linear" and min(c, *(x for _, x in K), c) < 0)

    def weigh(self, pairs: list[Pair], weights: list[arb]) -> None:
        """Add pairs with weights to the slack matrix."""
        for pair, weight in zip(pairs, weights, strict=True):
            self.pairs[pair] = self.pairs.get(pair, arb(0)) + weight

    def require_psd(self) -> None:
        """Refuse slack matrices ``S = sum_q w_q v_q v_q^T + N`` that are not proven PSD, for each metric.

        Where N is 0, it is enough if S is positive on features of which the v are combinations: for each x there is
        then a y of these features with the same products ``v^T x``. Of diagonal metrics the diagonal counts.
        """
        rows, d = self.matrix.tolist(), self.X.shape[1]
        for b, share in enumerate(self.shares.T.tolist()):
            N = arb_mat([row[b * d : (b + 1) * d] for row in rows[b * d : (b + 1) * d]])
            S, both = self.P.transpose() * N * self.P, dict[Pair, arb]()
            for (i, j), weight in self.pairs.items():
                both[min(i, j), max(i, j)] = both.get((min(i, j), max(i, j)), arb(0)) + arb(share[j]) * weight
            used = [pair for pair, weight in both.items() if not weight.is_zero()]
            for k, D in enumerate(self.differences(used)):
                w = [both[pair] for pair in used[k * ar.ROWS : (k + 1) * ar.ROWS]]
                weighted = [a * x for a, row in zip(w, D.tolist(), strict=True) for x in row]
                S = S + D.transpose() * arb_mat(D.nrows(), D.ncols(), weighted)
            if self.diagonal:
                proven = all(S[k, k] >= 0 for k in range(S.nrows()))
            elif not (proven := ar.is_psd(S)) and all(x.is_zero() for x in N.entries()):
                every = arb_mat([row for D in self.differences(used) for row in D.tolist()])
                proven = all(x.is_exact() for x in every.entries())
                proven = proven and ar.is_positive(ar.on(S, ar.independent(every)))
            if not proven:
                raise Refused("dual cone: the slack matrix is not proven to be positive semidefinite")


# -- losses of a number u: value, conjugate, least and largest slope; s and b are sides and bounds --------------------


def _positive(u: arb) -> arb:
    return u.max(arb(0))


def _smooth(u: arb, s: arb, b: arb) -> arb:
    t = _positive(u).min(arb(1))
    return t * (2 * u - t) / 2


def _softplus(u: arb, s: arb, b: arb) -> arb:
    return _positive(u) + (-abs(u)).exp().log1p()


def _half(u: arb, s: arb, b: arb) -> arb:
    return (abs(u) if s == 0 else _positive(s * u)) ** 2 / 2


def _root(u: arb, s: arb, b: arb) -> arb:
    return -_positive(-u).sqrt() if u <= 0 else arb("inf")


def _less_log(x: arb) -> arb:
    return x - x.log1p()


def _entropy(x: arb) -> arb:
    return arb(0) if x.is_zero() else -x * x.log()


def _zero(a: arb, s: arb, b: arb) -> arb:
    return arb(0)


Loss = tuple[Callable[[arb, arb, arb], arb], Callable[[arb, arb, arb], arb], float, float]
LOSSES: dict[str, Loss] = {
    "linear": (lambda u, s, b: u, _zero, 1.0, 1.0),
    "hinge": (lambda u, s, b: _positive(u), _zero, 0.0, 1.0),
    "squared hinge": (lambda u, s, b: _positive(u) ** 2, lambda a, s, b: a**2 / 4, 0.0, np.inf),
    "smooth hinge": (_smooth, lambda a, s, b: a**2 / 2, 0.0, 1.0),
    "logistic": (_softplus, lambda a, s, b: -_entropy(a) - _entropy(1 - a), 0.0, 1.0),
    "hard": (_zero, _zero, 0.0, np.inf),
    "minus a root": (_root, lambda a, s, b: 1 / (4 * a), 0.0, np.inf),
    "half square": (_half, lambda a, s, b: a**2 / 2 if s * a >= 0 else arb("inf"), -np.inf, np.inf),
    "log ratio": (lambda u, s, b: _less_log(s * _positive(u) / b), lambda a, s, b: _less_log(-s * a * b), 0.0, np.inf),
}


# -- terms ------------------------------------------------------------------------------------------------------------


def _weight(term: Said, name: str = "weight") -> tuple[arb, str]:
    """A weight of at least 0, exactly the sum of the floats of a list, and in words."""
    said = term.about[name]
    parts = [number(name, x) for x in (said if isinstance(said, list) else [said])]
    if not (weight := total([arb(x) for x in parts])) >= 0:
        raise BadInput(f"a {name} of the proof is negative.")
    return weight, " + ".join(map(repr, parts)).replace("+ -", "- ")


def _weighed(w: FloatArray) -> str:
    return "" if (w == 1.0).all() else f", examples with weights {float(w.min())!r} to {float(w.max())!r}"


def rows(term: Said, program: Program) -> str:
    """``weight sum_i w_i l(c_i + sum K D)``; entries of K are row, first, second and the number."""
    (weight, said), loss, n = _weight(term), str(term.about["loss"]), len(program.X)
    c, w, a, E = (term.arrays[name] for name in ("offsets", "weights", "multipliers", "entries"))
    s, b = (term.arrays.get(name, np.ones(len(c))) for name in ("sides", "bounds"))
    row, first, second = (indices("entries", E[:, k], 0, end).tolist() for k, end in enumerate((len(c), n, n)))
    fit = loss in LOSSES and {len(c)} == {len(x) for x in (w, a, s, b)} and (w >= 0.0).all() and (b > 0.0).all()
    if not fit or not np.isin(s, (-1.0, 1.0) if loss == "log ratio" else (-1.0, 0.0, 1.0)).all():
        raise BadInput("rows of the proof have an unknown loss or side, or not a number of the right sign for each.")
    if loss == "linear" and a.any():
        raise BadInput("multipliers of linear rows are their weights; the proof has others, which say nothing.")
    K: list[Entries] = [[] for _ in c]
    for k, i, j, x in zip(row, first, second, E[:, 3].tolist(), strict=True):
        K[k].append(((i, j), x))
    each = zip(*(A.tolist() for A in (w, c, a)), K, *(A.tolist() for A in (s, b)), strict=True)
    program.add(loss, [(weight * arb(w_i), c_i, arb(a_i), own, s_i, b_i) for w_i, c_i, a_i, own, s_i, b_i in each])
    return f"{'' if loss == 'hard' else f'{said} times '}{loss} over {len(c)} rows ({_in_words(term, program, K)})"


def _in_words(term: Said, program: Program, K: list[Entries]) -> str:
    """What the numbers of rows are, in kinds, how they are weighed, and whether pairs are those of the data."""
    X, n, kinds = program.X, len(program.data["X"]), dict[str, int]()
    found, given = set[tuple[tuple[int, ...], ...]](), set[tuple[tuple[int, ...], ...]]()
    for c, own in zip(term.arrays["offsets"].tolist(), K, strict=True):
        entries = sorted((-x, i, j) for (i, j), x in own)
        signs = [f"{'-' if x > 0 else '+'} {'' if abs(x) == 1 else f'{abs(x)!r} '}D" for x, *_ in entries]
        kind = f"{c!r} {' '.join(signs) if len(signs) < 4 else f'+ a combination of {len(signs)} D'}"
        kinds[kind] = kinds.get(kind, 0) + 1
        plain = [(i, j, int(np.sign(-x))) for x, i, j in entries if j < n]
        found |= {tuple(plain)} if len(plain) < 3 else {(one,) for one in plain}
    names = ("pairs", "similar", "triplets", "quadruplets")
    lists = [np.asarray(program.data.get(name, ())).tolist() for name in names]
    given |= {((i, j, 1 if same else -1),) for (i, j), same in zip(*lists[:2], strict=True)}
    given |= {((i, j, 1), (k, l, -1)) for i, j, k, l in [(i, j, i, l) for i, j, l in lists[2]] + lists[3]}
    signs_of = {tuple(sign for *_, sign in some) for some in found}
    given = {some for some in given if tuple(sign for *_, sign in some) in signs_of}
    live = [{some for some in those if any((X[i] != X[j]).any() for i, j, _ in some)} for those in (found, given)]
    parts = [f"{count} of {kind}" for kind, count in kinds.items()]
    parts = parts if len(parts) < 5 else [*parts[:3], f"{len(K) - sum([*kinds.values()][:3])} others"]
    for name in ("weights", "bounds", "sides"):
        values = term.arrays.get(name, np.ones(1)).tolist()
        parts += [f"{name} {min(values)!r} to {max(values)!r}"] if {*values} - {1.0} else []
    return ", ".join([*parts, "those of the data" if given and live[0] == live[1] else "of the file's own choice"])


def labels(term: Said, program: Program) -> str:
    """``pull sum_ij w_i D_ij + weight sum_ijl w_i w_l h(offset + D_ij - D_il)``, h the hinge or its square.

    j are the target neighbors of i, and l all examples of other classes: all triplets count at the point. Those with
    neither a multiplier nor, by bounds of their distances, a loss are left out.
    """
    (mu, said), (pull, pulls), loss, n = _weight(term), _weight(term, "pull"), str(term.about["loss"]), len(program.X)
    y, c = np.asarray(program.data["y"], dtype=np.int64), number("offset", term.about["offset"])
    a, w = term.arrays["multipliers"], term.arrays["weights"]
    targets, named = (indices(name, term.arrays[name], least, n) for name, least in (("targets", -1), ("triplets", 0)))
    fit = len(targets) == len(y) == len(w) == n and named.shape == (len(a), 3) and targets.shape[1] > 0
    if loss not in ("hinge", "squared hinge") or c < 0.0 or not fit or (w < 0.0).any():
        raise BadInput("loss, margin, target neighbors, triplets or weights of the proof do not fit the data.")
    near = [(i, j) for i, js in enumerate(targets.tolist()) for j in js if j >= 0]
    if any(y[i] != y[j] or i == j for i, j in near) or len({*near}) < len(near):
        raise Refused("target neighbors: one is of another class, the example itself, or named twice")
    of = dict(zip(map(tuple, named.tolist()), a.tolist(), strict=True))
    if len(of) < len(a) or any(y[i] == y[l] for i, _, l in of) or not {(i, j) for i, j, _ in of} <= {*near}:
        raise Refused("triplets: one is named twice, or is none of these target neighbors and labels")
    for start, low, high in program.bounds():
        own = np.arange(len(low))
        for js in targets[start : start + len(low)].T:
            violated = ~((c + high[own, js])[:, None] * (1 + 4 * ar.U) <= low)
            violated &= (y[start : start + len(low), None] != y) & (js >= 0)[:, None]
            for i, l in np.argwhere(violated).tolist():
                of.setdefault((start + i, int(js[i]), l), 0.0)
            if len(of) > LISTED // 4:
                raise Refused(f"components: more than {LISTED // 4} triplets may have a loss")
    each, ones = [arb(x) for x in w.tolist()], (1.0, 1.0)
    program.add("linear", [(pull * each[i], 0.0, arb(0), [((i, j), 1.0)], *ones) for i, j in near])
    triplets = ((mu * each[i] * each[l], arb(x), [((i, j), 1.0), ((i, l), -1.0)]) for (i, j, l), x in of.items())
    program.add(loss, [(top, c, x, K, *ones) for top, x, K in triplets])
    origin = f"{len(near)} target pairs: {ar.origin_of_targets(program.X, y, targets)}"
    sentence = f"{said} times {loss} of {c!r} + D(i, j) - D(i, l) over all target neighbors j and impostors l of i"
    pulled = f"{pulls} times D(i, j), and " if pull > 0 else ""
    return f"{pulled}{sentence} ({len(np.unique(y))} classes, {origin}{_weighed(w)})"


def softmax(term: Said, program: Program) -> str:
    """``weight sum_g w_g (log sum_j exp -D_gj + <p_g, D_g> - h_g)`` with the entropy h of p, over ordered pairs.

    Of a collapse, g are the examples, and p_g is uniform over neighbors of their class. Else there is one g, with all
    pairs, and p are shares of given ones. Multipliers are ``w (q - p)`` for distributions q.
    """
    (weight, said), n, Q, data = _weight(term), len(program.X), term.arrays["distributions"], program.data
    fit = True
    if term.about["term"] == "collapse":
        y, w, near = data["y"], term.arrays["weights"], indices("neighbors", term.arrays["neighbors"], 0, n)
        sized = near.ndim == 2 and len(y) == len(w) == len(near) == n and near.shape == Q.shape
        if not sized or any(len({g, *own}) <= len(own) for g, own in enumerate(near.tolist())):
            raise BadInput("neighbors of the proof are not rows of different other examples, one for each example.")
        sizes = (y[near] == y[:, None]).sum(axis=1).tolist()
        if any(x > 0.0 and not size for x, size in zip(w.tolist(), sizes, strict=True)):
            raise Refused("neighbors: an example with a weight has none of its class")
        groups = [[(g, j) for j in own] for g, own in enumerate(near.tolist())]
        ideal = [[arb(int(y[j] == y[g])) / max(1, sizes[g]) for _, j in own] for g, own in enumerate(groups)]
        whose = "" if near.shape[1] == n - 1 else f" among {near.shape[1]} of the file for each"
        words = f"collapse of classes{whose}"
    else:
        given, w, shares = term.arrays["pairs"], np.ones(1), dict[Pair, arb]()
        for i, j, x in zip(*indices("pairs", given[:, :2], 0, n).T.tolist(), given[:, 2].tolist(), strict=True):
            shares[min(i, j), max(i, j)] = shares.get((min(i, j), max(i, j)), arb(0)) + arb(x)
        groups, whole = [[*combinations(range(n), 2)]], total(list(shares.values()))
        weight, ideal = weight * whole, [[shares.get(pair, arb(0)) / whole for pair in groups[0]]]
        fit = Q.shape == (1, len(groups[0])) and bool((given[:, 2] >= 0.0).all()) and set(shares) <= set(groups[0])
        words = f"softmax of {len(given)} pairs of the file among all pairs"
    if not fit or len(w) != len(groups) or (w < 0.0).any() or (Q < 0.0).any():
        raise BadInput("labels, pairs, weights or distributions of the proof are not those of a softmax.")
    for own, p, q, x in zip(groups, ideal, Q.tolist(), w.tolist(), strict=True):
        if x > 0.0:
            D, whole, w_g = program.distances(own), total([arb(value) for value in q]), weight * arb(x)
            h = total([_entropy(share) for share in p]) if words[0] == "c" else -arb(2).log()
            chances = [arb(value) / whole for value in q]
            found = total([(-away).exp() for away in D]).log() + total([a * b for a, b in zip(p, D, strict=True)]) - h
            program.high += w_g * found.max(arb(0))
            program.low += w_g * (total([_entropy(chance) for chance in chances]) - h)
            program.weigh(own, [w_g * (a - b) for a, b in zip(p, chances, strict=True)])
    return f"{said} times {words}{_weighed(w)}"


def matrix(term: Said, program: Program) -> str:
    """A convex function of the metric: its trace, its volume, a distance, or the size of its other entries."""
    (weight, said), kind, size = _weight(term), str(term.about["term"]), program.matrix.nrows()
    roots = [program.P * balls(L.T) for L in program.L]
    M, one, given = ar.diagonal([root * root.transpose() for root in roots]), balls(np.eye(size)), term.arrays
    if not weight > 0 or any(A.shape != (size, size) or (A != A.T).any() for A in given.values()):
        raise BadInput(f"{kind} of the proof has no positive weight, or matrices that are not symmetric ({size} rows).")
    slope, to = (balls(given[name]) if name in given else one for name in ("slope", "to"))
    whence = "the identity" if to == one else "0" if to == 0 * one else "the file's matrix"
    program.matrix += weight * slope if kind == "trace" else slope
    if kind == "trace":
        program.high += weight * M.trace()
    elif kind == "frobenius":
        program.high += weight * ar.inner(M - to, M - to) / 2
        program.low -= ar.inner(slope, slope) / (2 * weight) + ar.inner(slope, to)
    elif kind == "off_diagonal":
        away = [(j == k, slope[j, k], abs(M[j, k])) for j in range(size) for k in range(size)]
        if not all(x <= 0 if same else abs(x) <= weight for same, x, _ in away):
            raise Refused("multipliers: a matrix is no slope of the sum of absolute entries")
        program.high += weight * total([y for same, _, y in away if not same])
    else:
        K, size = (to.inv(), size) if kind == "log_det" else (0 * one, 0)
        least, volume = K - slope * (1 / weight), M.det()
        if not (ar.is_positive(to) and ar.is_positive(least)):
            raise Refused("multipliers: a matrix is no slope of the LogDet divergence, or that is not from a metric")
        program.low += weight * ((least.det() * to.det()).log() + M.nrows() - size)
        value = ar.inner(M, K) - (volume / to.det()).log() - size if volume > 0 else arb("inf")
        program.high, program.nonnegative = program.high + weight * value, program.nonnegative and kind == "log_det"
    return f"{said} times {MATRICES[kind].format(whence)}"


MATRICES = {
    "trace": "the trace",
    "frobenius": "half the squared Frobenius distance from {}",
    "log_det": "the LogDet divergence from {}",
    "volume": "minus the logarithm of the determinant",
    "off_diagonal": "the sum of absolute entries off the diagonal",
}
TERMS = {"labels": labels, "rows": rows, "collapse": softmax, "softmax": softmax}


def prove(data: Arrays, domain: Said, terms: list[Said], point: bool) -> tuple[arb, arb, str]:
    """An upper bound at the point, a lower bound of all metrics, and the program in words.

    Where nothing is claimed of a point, its hard constraints are all that counts: that their sum costs more than 0.
    """
    program, (n, d) = Program(data, domain, point), data["X"].shape
    if not point and any(term.about.get("loss") != "hard" for term in terms):
        raise BadInput("a proof of a contradiction has hard constraints and no other terms.")
    words = [TERMS.get(str(term.about["term"]), matrix)(term, program) for term in terms]
    program.require_psd()
    low = program.low.max(arb(0)) if program.nonnegative and point else program.low
    return program.high, low, f"{n} examples, {d} features, {program.words}, the sum of: {'; '.join(words)}"
