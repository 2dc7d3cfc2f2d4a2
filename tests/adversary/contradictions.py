"""Hard constraints across scales, and an exact answer to whether some metric satisfies given ones.

A constraint ``c + <A, M> <= 0`` is its exact offset c and its exact matrix A. Over diagonal metrics an exact simplex
method decides. Over all metrics a semidefinite program proposes a metric, or multipliers, and rational arithmetic
decides whether it is right.
"""

import warnings
from fractions import Fraction
from itertools import combinations

import cvxpy as cp
import exact
import numpy as np
from exact import INFINITE, ZERO, Distances, metric, number, rational
from flint import arb, fmpq, fmpq_mat

import sdpmetric as sm
from adversary.case import Case
from adversary.families import log_uniform
from adversary.sums import combined
from sdpmetric import terms

Constraint = tuple[fmpq, fmpq_mat]
# Smallest eigenvalues of slack matrices of unit constraints that are asked for, one after the other.
ROOMS = (1e-3, 1e-6, 1e-9, 0.0)


def inner(A: fmpq_mat, M: fmpq_mat) -> fmpq:
    return sum((a * m for a, m in zip(A.entries(), M.entries(), strict=True)), ZERO)


def square_of(v: list[fmpq]) -> fmpq_mat:
    column = fmpq_mat(len(v), 1, v)
    return column * column.transpose()


def semidefinite(M: fmpq_mat) -> bool:
    """Whether all principal minors are at least 0."""
    n = M.nrows()
    subsets = [list(rows) for k in range(1, n + 1) for rows in combinations(range(n), k)]
    return all(fmpq_mat(len(s), len(s), [M[i, j] for i in s for j in s]).det() >= 0 for s in subsets)


def satisfiable(constraints: list[Constraint], diagonal: bool) -> bool | None:
    """Whether a PSD, or a diagonal nonnegative, matrix satisfies all constraints; None if that is not decided."""
    d = constraints[0][1].nrows()
    if diagonal or d == 1:
        rows = [[A[k, k] for k in range(d)] for _, A in constraints]
        return has_nonnegative_point(rows, [-c for c, _ in constraints])
    return decided_by_proposals(constraints)


def has_nonnegative_point(A: list[list[fmpq]], b: list[fmpq]) -> bool:
    """Whether ``A x <= b`` has a solution ``x >= 0``: the first phase of the simplex method, by Bland's rule.

    The dictionary is ``w = b - A x + t``; the largest t is driven to 0.
    """
    m, n = len(A), len(A[0])
    if min(b) >= 0:
        return True
    # Columns: x, t. Row i is a basic variable: value[i] + sum_j table[i][j] * nonbasic_j.
    table = [[-a for a in row] + [fmpq(1)] for row in A]
    value, basic, nonbasic = list(b), [n + 1 + i for i in range(m)], [*range(n), n]
    leaving = min(range(m), key=lambda i: value[i])
    entering = n
    while True:
        pivot(table, value, basic, nonbasic, leaving, entering)
        if n not in basic:
            return True
        of_t = basic.index(n)
        falling = [j for j in range(n + 1) if table[of_t][j] < 0]
        if value[of_t] == 0:
            return True
        if not falling:
            return False
        entering = min(falling, key=lambda j: nonbasic[j])
        ratios = [(value[i] / -table[i][entering], basic[i], i) for i in range(m) if table[i][entering] < 0]
        leaving = min(ratios)[2]


def pivot(table, value, basic, nonbasic, i, j):
    """Exchange the basic variable of row i and the nonbasic one of column j."""
    p = table[i][j]
    table[i] = [-a / p for a in table[i]]
    table[i][j], value[i] = 1 / p, -value[i] / p
    basic[i], nonbasic[j] = nonbasic[j], basic[i]
    for k, row in enumerate(table):
        if k != i and row[j] != 0:
            share = row[j]
            row[j] = ZERO
            table[k] = [a + share * e for a, e in zip(row, table[i], strict=True)]
            value[k] += share * value[i]


def decided_by_proposals(constraints: list[Constraint]) -> bool | None:
    """A metric, or multipliers, found in floats and checked in rational numbers."""
    d = constraints[0][1].nrows()
    sizes = [max(abs(A[k, k]) for _, A in constraints) or fmpq(1) for k in range(d)]
    T = fmpq_mat(d, d, [half_power(sizes[i]) if i == j else ZERO for i in range(d) for j in range(d)])
    matrices, offsets = [], []
    for c, A in constraints:
        A = T * A * T
        size = max(abs(a) for a in A.entries()) or fmpq(1)
        matrices.append(A / size)
        offsets.append(c / size)
    largest = max(abs(c) for c in offsets) or fmpq(1)
    offsets = [c / largest for c in offsets]
    forms = [np.array([float(arb(a)) for a in A.entries()]).reshape(d, d) for A in matrices]
    numbers_of_offsets = [float(arb(c)) for c in offsets]
    for M in proposed_metrics(forms, numbers_of_offsets):
        values, vectors = np.linalg.eigh(M)
        point = metric(np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T)
        if all(c + inner(A, point) <= 0 for c, A in zip(offsets, matrices, strict=True)):
            return True
    for a in proposed_multipliers(forms, numbers_of_offsets):
        slack = sum((x * A for x, A in zip(a, matrices, strict=True)), fmpq_mat(d, d))
        if sum((x * c for x, c in zip(a, offsets, strict=True)), ZERO) > 0 and semidefinite(slack):
            return False
    return None


def proposed_metrics(forms, offsets):
    """The metric that keeps all constraints with the most room."""
    M, room = cp.Variable(forms[0].shape, PSD=True), cp.Variable()
    rows = [c + cp.trace(A @ M) + room <= 0 for A, c in zip(forms, offsets, strict=True)]
    if solved(cp.Problem(cp.Maximize(room), [*rows, room <= 1])):
        yield M.value


def proposed_multipliers(forms, offsets):
    """Multipliers with sum 1 that gain the most, with a slack matrix from clearly definite to singular."""
    a, d = cp.Variable(len(forms), nonneg=True), len(forms[0])
    slack, gain = sum(a[i] * A for i, A in enumerate(forms)), a @ np.array(offsets)
    for room in ROOMS:
        if solved(cp.Problem(cp.Maximize(gain), [slack >> room * np.eye(d), cp.sum(a) == 1])):
            top = float(a.value.max())
            yield [number(max(0.0, value)) for value in a.value.tolist()]
            simple = [Fraction(max(0.0, value) / top).limit_denominator(100) for value in a.value.tolist()]
            yield [fmpq(value.numerator, value.denominator) for value in simple]


def solved(program: cp.Problem) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            program.solve("CLARABEL")
        except cp.SolverError:
            return False
    return program.status in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE)


def half_power(size: fmpq) -> fmpq:
    """About the inverse root, a power of 2."""
    exponent = (int(size.q).bit_length() - int(size.p).bit_length()) // 2
    return fmpq(2) ** exponent


# -- problems ----------------------------------------------------------------------------------------------------


def bounds(X, y, rng):
    """Bounds, comparisons and a budget over pairs of all lengths, of scales at which many of them contradict."""
    X = np.asarray(X, float)
    short = rng.integers(0, len(X), 3)
    X = np.concatenate([X, X[short] + log_uniform(rng, -7, -1) * np.ptp(X, axis=0) * rng.normal(size=X[short].shape)])
    n, d, diagonal = len(X), X.shape[1], bool(rng.random() < 0.4)
    pairs = np.array([rng.permutation(n)[:2] for _ in range(int(rng.integers(1, 5)))])
    near = rng.integers(0, 3, int(rng.integers(1, 3)))
    pairs = np.concatenate([pairs, np.column_stack([short[near], n - 3 + near])])
    pairs = pairs[(X[pairs[:, 0]] != X[pairs[:, 1]]).any(axis=1)]
    if not len(pairs):
        return None
    V, P = X[pairs[:, 0]] - X[pairs[:, 1]], rational(X)
    spread = np.clip(np.ptp(X, axis=0), 1e-60, 1e60)
    lengths = np.clip(np.sum((V / spread) ** 2, axis=1), 1e-100, 1e100) * 10.0 ** rng.uniform(-3, 3)
    sizes = lengths * 10.0 ** rng.uniform(-2, 2, len(pairs))
    is_upper = rng.random(len(pairs)) < 0.5
    upper, lower = np.where(is_upper, sizes, np.inf), np.where(is_upper, 0.0, sizes)
    both = ~is_upper & (rng.random(len(pairs)) < 0.3)
    upper[both] = 1.5 * lower[both]
    summands = [terms.DistanceBounds(pairs, upper, lower)]

    def of_pair(i, j):
        return square_of([P[int(i), k] - P[int(j), k] for k in range(d)])

    zero = fmpq_mat(d, d)
    rows = [(-number(b), of_pair(*p)) for p, b in zip(pairs, upper, strict=True) if np.isfinite(b)]
    rows += [(number(b), zero - of_pair(*p)) for p, b in zip(pairs, lower, strict=True) if b > 0.0]
    if rng.random() < 0.4:
        margin, triplets = float(np.median(sizes)), np.array([rng.permutation(n)[:3] for _ in range(3)])
        summands.append(terms.TripletHinge(triplets, margin=margin, loss="hard"))
        rows += [(number(margin), of_pair(i, j) - of_pair(i, l)) for i, j, l in triplets]
    problem = sm.MetricProblem(X, terms.Sum((*summands, terms.Trace())), diagonal=diagonal)
    return case_of(problem, X, rows, diagonal)


def case_of(problem, X, rows, diagonal, **options):
    """The trace over metrics that satisfy hard constraints."""

    def value(M):
        return arb(exact.trace(M)) if all(c + inner(A, M) <= 0 for c, A in rows) else INFINITE

    verbs, inside = ("solve", "solve", "verify", "proof"), combined(np.eye(X.shape[1]), True) if diagonal else None
    return Case(problem, value, X, inside=inside, verbs=verbs, constraints=rows, diagonal=diagonal, **options)


def tight(X, y, rng):
    """Bounds and a budget that a metric keeps exactly, with no float between: distances rounded to either side."""
    X, diagonal = np.asarray(X, float), bool(rng.random() < 0.3)
    n, d = X.shape
    units = 2.0 ** np.round(np.log2(1.0 / np.clip(np.ptp(X, axis=0), 1e-60, 1e60)))
    L = (np.diag if diagonal else np.atleast_2d)(rng.integers(-3, 4, d) if diagonal else rng.integers(-3, 4, (2, d)))
    L = L * units * 2.0 ** int(rng.integers(-20, 20))
    pairs = np.array([rng.permutation(n)[:2] for _ in range(int(rng.integers(2, 6)))])
    D = Distances(X, L)
    lengths = [D(i, j) for i, j in pairs.tolist()]
    kept = [k for k, length in enumerate(lengths) if fmpq(1, 10**100) < length < fmpq(10**100)]
    if not kept:
        return None
    pairs, lengths, P = pairs[kept], [lengths[k] for k in kept], rational(X)
    upper = np.array([rounded(length, np.inf) for length in lengths])
    lower = np.array([rounded(length, -np.inf) for length in lengths])

    def of_pair(i, j):
        return square_of([P[int(i), k] - P[int(j), k] for k in range(d)])

    rows = [(-number(b), of_pair(*p)) for p, b in zip(pairs, upper, strict=True)]
    rows += [(number(b), fmpq_mat(d, d) - of_pair(*p)) for p, b in zip(pairs, lower, strict=True)]
    costs = rng.uniform(0.1, 2.0, len(pairs))
    spent = sum((number(c) * length for c, length in zip(costs, lengths, strict=True)), ZERO)
    budget = rounded(spent, np.inf)
    total = sum((number(c) * of_pair(*p) for p, c in zip(pairs, costs, strict=True)), fmpq_mat(d, d))
    rows.append((-number(budget), total))
    summands = (terms.DistanceBounds(pairs, upper, lower), terms.Budget(pairs, budget, costs), terms.Trace())
    problem = sm.MetricProblem(X, terms.Sum(summands), diagonal=diagonal)
    return case_of(problem, X, rows, diagonal, planted=[L], known=[metric(L)], decided=True)


def rounded(value: fmpq, toward: float) -> float:
    """The next float at or beyond a number."""
    near = float(arb(value).mid())
    while (number(near) < value) if toward > 0 else (number(near) > value):
        near = float(np.nextafter(near, toward))
    return near
