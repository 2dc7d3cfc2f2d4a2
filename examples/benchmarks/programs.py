"""Bounds of random programs whose optimum is known as a rational number, as a Markdown table.

    python examples/benchmarks/programs.py                      # 1000 programs, seeds from 0
    python examples/benchmarks/programs.py --first 500 --count 10
    python examples/benchmarks/programs.py --known              # programs with published values
    python examples/benchmarks/programs.py --answers            # that CVXPY calls optimal, and are not

Data, planted points and planted multipliers are integers times powers of 2, so the optimum is exact. A bound beyond it
is a wrong proof.
"""

from __future__ import annotations

import argparse
import math
import time
from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction

import cvxpy as cp
import numpy as np

import sdpmetric as sm


@dataclass
class Planted:
    """A program with its exact optimum; infinite where it is infeasible or unbounded."""

    kind: str
    problem: cp.Problem
    optimum: Fraction | float
    interior: bool = True

    @property
    def room(self) -> Fraction | int:
        """What CVXPY may round: quotients, and the root of 2 by which entries of semidefinite blocks are multiplied."""
        is_rounded = self.kind in ("rounded", "SDP", "LMI", "mixed", "no interior")
        return Fraction(1, 10**12) * max(1, abs(self.optimum)) if is_rounded else 0


def exact(v):
    return [Fraction(float(value)) for value in np.ravel(v)]


def inner(a, b):
    return sum((x * y for x, y in zip(exact(a), exact(b), strict=True)), Fraction(0))


def integers(rng, *shape, most=4):
    return rng.integers(-most, most + 1, shape).astype(float)


def orthogonal(rng, n):
    """An integer matrix with orthogonal columns of one length."""
    v = np.zeros(n)
    some = rng.choice(n, min(n, int(rng.integers(2, 5))), replace=False)
    v[some] = rng.choice([-1.0, 1.0], len(some))
    return (v @ v) * np.eye(n) - 2.0 * np.outer(v, v)


def complementary(rng, n):
    """Two positive semidefinite matrices of integers, of complementary ranks, whose product is 0."""
    V, rank = orthogonal(rng, n), int(rng.integers(1, n)) if n > 1 else 1
    w = rng.integers(1, 4, n).astype(float)
    return (V[:, :rank] * w[:rank]) @ V[:, :rank].T / 4.0, (V[:, rank:] * w[rank:]) @ V[:, rank:].T / 4.0


class Rows:
    """Constraints of a variable x that hold at a planted point, with planted multipliers; adds up their gradients.

    More of the first variable is strictly feasible, so the program has an interior.
    """

    def __init__(self, rng, x, point):
        self.rng, self.x, self.point = rng, x, point
        self.constraints, self.gradient = [], np.zeros(len(point))

    def linear(self, m):
        A = integers(self.rng, m, len(self.point))
        A[:, 0] = -self.rng.integers(1, 4, m)
        active = self.rng.random(m) < 0.5
        slack = np.where(active, 0.0, self.rng.integers(1, 6, m))
        z = np.where(active, self.rng.integers(1, 6, m), 0.0)
        self.constraints.append(A @ self.x <= A @ self.point + slack)
        self.gradient += A.T @ z

    def equal(self, m):
        A, y = integers(self.rng, m, len(self.point)), integers(self.rng, m)
        A[:, 0] = 0.0
        self.constraints.append(A @ self.x == A @ self.point)
        self.gradient += A.T @ y

    def box(self, width=16.0):
        self.constraints += [self.x <= self.point + width, self.x >= self.point - width]

    def ball(self, size):
        """A second-order cone, on whose boundary the point is, strictly inside or at the apex."""
        F, f = integers(self.rng, size, len(self.point)), integers(self.rng, len(self.point))
        F[:, 0], f[0] = 0.0, 2.0
        tail = np.zeros(size)
        tail[self.rng.permutation(size)[:2]] = 3.0, 4.0
        where = self.rng.integers(3)
        head, tail = [(5.0, tail), (7.0, tail), (0.0, 0.0 * tail)][where]
        g, h = head - f @ self.point, tail - F @ self.point
        self.constraints.append(cp.norm(F @ self.x + h) <= f @ self.x + g)
        if where == 0:
            self.gradient += -(5.0 * f - F.T @ tail)
        elif where == 2:
            z = integers(self.rng, size, most=2)
            self.gradient += -(2.0 * size * f + F.T @ z)

    def semidefinite(self, n):
        S, Z = complementary(self.rng, n)
        F = [G + G.T for G in (integers(self.rng, n, n, most=2) for _ in self.point)]
        F[0] = 2.0 * np.eye(n)
        constant = S - sum(v * G for v, G in zip(self.point, F, strict=True))
        self.constraints.append(constant + sum(self.x[k] * F[k] for k in range(len(F))) >> 0)
        self.gradient -= np.array([np.sum(Z * G) for G in F])


def point_and_rows(rng, n):
    x = cp.Variable(n)
    return x, Rows(rng, x, integers(rng, n, most=3))


def lp(rng):
    n = int(rng.integers(2, 40))
    x, rows = point_and_rows(rng, n)
    rows.linear(int(rng.integers(n, 3 * n)))
    if rng.random() < 0.5:
        rows.equal(int(rng.integers(1, max(2, n // 3))))
    rows.box()
    c = -rows.gradient
    return Planted("LP", cp.Problem(cp.Minimize(c @ x), rows.constraints), inner(c, rows.point))


def qp(rng):
    n = int(rng.integers(2, 30))
    x, rows = point_and_rows(rng, n)
    rows.linear(int(rng.integers(1, 2 * n)))
    F = integers(rng, int(rng.integers(1, n + 1)), n, most=2)
    c = -rows.gradient - 2.0 * F.T @ (F @ rows.point)
    rows.box()
    if rng.random() < 0.5:
        objective, value = cp.sum_squares(F @ x), inner(F @ rows.point, F @ rows.point)
    else:
        P = F.T @ F + np.eye(n)
        c = c - 2.0 * rows.point
        objective, value = cp.quad_form(x, P), inner(P @ rows.point, rows.point)
    return Planted("QP", cp.Problem(cp.Minimize(objective + c @ x), rows.constraints), value + inner(c, rows.point))


def socp(rng):
    n = int(rng.integers(2, 25))
    x, rows = point_and_rows(rng, n)
    for _ in range(int(rng.integers(1, 6))):
        rows.ball(int(rng.integers(2, 12)))
    rows.box()
    c = -rows.gradient
    sign = rng.choice([-1, 1])
    objective = cp.Minimize(c @ x) if sign > 0 else cp.Maximize(-c @ x)
    return Planted("SOCP", cp.Problem(objective, rows.constraints), int(sign) * inner(c, rows.point))


def sdp(rng, largest=60):
    n = int(rng.integers(2, 12)) if rng.random() < 0.9 else int(rng.integers(12, largest + 1))
    X_at, Z = complementary(rng, n)
    X, m = cp.Variable((n, n), PSD=True), int(rng.integers(1, n + 1))
    A = [np.eye(n), *(G + G.T for G in (integers(rng, n, n, most=2) for _ in range(m - 1)))]
    y = integers(rng, m)
    C = Z + sum(v * G for v, G in zip(y, A, strict=True))
    constraints = [cp.trace(G @ X) == float(np.sum(G * X_at)) for G in A]
    return Planted("SDP", cp.Problem(cp.Minimize(cp.trace(C @ X)), constraints), inner(C, X_at))


def lmi(rng):
    x, rows = point_and_rows(rng, int(rng.integers(2, 10)))
    for _ in range(int(rng.integers(1, 3))):
        rows.semidefinite(int(rng.integers(2, 20)))
    rows.box()
    c = -rows.gradient
    return Planted("LMI", cp.Problem(cp.Minimize(c @ x), rows.constraints), inner(c, rows.point))


def exponential(rng, kind="exp"):
    n = int(rng.integers(2, 12))
    x, rows = point_and_rows(rng, n)
    rows.linear(int(rng.integers(1, n + 1)))
    if kind == "mixed":
        rows.ball(int(rng.integers(2, 6)))
        rows.semidefinite(int(rng.integers(2, 8)))
        rows.equal(1)
    rows.box(4.0)
    m = int(rng.integers(1, 6))
    F, w = integers(rng, m, n, most=1), rng.integers(1, 4, m).astype(float)
    objective, slope = w @ cp.exp(F @ x - F @ rows.point), F.T @ w
    if rng.random() < 0.5:
        k = int(rng.integers(n))
        objective, slope = objective - cp.log(x[k] - rows.point[k] + 1.0), slope - np.eye(n)[k]
    c = -rows.gradient - slope
    value = sum(exact(w), Fraction(0)) + inner(c, rows.point)
    return Planted(kind, cp.Problem(cp.Minimize(objective + c @ x), rows.constraints), value)


def scaled(rng):
    """Rows and variables in units from 2^-20 to 2^20."""
    n = int(rng.integers(2, 20))
    m = int(rng.integers(n, 3 * n))
    units, heights = np.ldexp(1.0, rng.integers(-20, 21, n)), np.ldexp(1.0, rng.integers(-20, 21, m))
    point, A = integers(rng, n, most=3), integers(rng, m, n)
    A[:, 0] = -rng.integers(1, 4, m)
    active = rng.random(m) < 0.5
    slack, z = np.where(active, 0.0, rng.integers(1, 6, m)), np.where(active, rng.integers(1, 6, m), 0.0)
    b, c = A @ point + slack, -A.T @ z
    x = cp.Variable(n)
    A = heights[:, None] * A / units
    around = [x <= units * (point + 16.0), x >= units * (point - 16.0)]
    problem = cp.Problem(cp.Minimize((c / units) @ x), [A @ x <= heights * b, *around])
    return Planted("ill-scaled", problem, inner(c, point))


def flat(rng):
    """No interior: an inequality that holds with equality throughout, or a metric that is 0 in one direction."""
    if rng.random() < 0.5:
        n = int(rng.integers(2, 12))
        x, rows = point_and_rows(rng, n)
        rows.linear(n)
        rows.box()
        g = integers(rng, n)
        c = -rows.gradient
        both = [g @ x <= g @ rows.point, g @ x >= g @ rows.point]
        problem = cp.Problem(cp.Minimize(c @ x), rows.constraints + both)
        return Planted("no interior", problem, inner(c, rows.point), interior=False)
    n = int(rng.integers(2, 8))
    inside = np.zeros((n, n))
    X_at, Z = complementary(rng, n - 1) if n > 2 else (np.ones((1, 1)), np.zeros((1, 1)))
    inside[1:, 1:] = X_at
    C = np.eye(n)
    C[1:, 1:] += Z
    X = cp.Variable((n, n), PSD=True)
    C[0, 1:] = C[1:, 0] = integers(rng, n - 1)
    problem = cp.Problem(cp.Minimize(cp.trace(C @ X)), [X[0, 0] == 0, cp.trace(X) == float(np.trace(inside))])
    return Planted("no interior", problem, inner(C, inside), interior=False)


def degenerate(rng):
    """Linear constraints that all points fulfil with equality, copies of rows, and rays along which the cost is 0."""
    n, rays = int(rng.integers(3, 25)), int(rng.integers(0, 3))
    x, rows = point_and_rows(rng, n)
    rows.linear(int(rng.integers(1, n)))
    rows.box()
    point, constraints, value = rows.point, rows.constraints, -inner(rows.gradient, rows.point)
    for _ in range(int(rng.integers(1, 4))):
        g, factor = integers(rng, n), 2.0 ** int(rng.integers(-8, 9))
        kind = rng.integers(4)
        if kind == 0:  # an equation as two inequalities
            constraints += [g @ x <= g @ point, factor * g @ x >= factor * (g @ point)]
        elif kind == 1:  # variables that are 0, or an integer, by an inequality that fixes them
            some = rng.permutation(n)[: int(rng.integers(1, n))]
            constraints += [x[some] >= point[some], cp.sum(x[some]) <= np.sum(point[some])]
        elif kind == 2:  # the same equation three times
            constraints += [
                g @ x == g @ point,
                factor * (g @ x) == factor * (g @ point),
                3 * (g @ x) == 3 * (g @ point),
            ]
        else:  # dependent equations
            h = integers(rng, n)
            constraints += [g @ x == g @ point, h @ x == h @ point, (g + 2 * h) @ x == (g + 2 * h) @ point]
    if rays:
        y = cp.Variable(rays, nonneg=True)
        constraints.append(integers(rng, rays) @ y + 0 * x[0] <= x[0] - point[0] + 64.0)
    objective = -rows.gradient @ x
    return Planted("degenerate", cp.Problem(cp.Minimize(objective), constraints), value, interior=False)


def infeasible(rng):
    n = int(rng.integers(2, 20))
    x, kind = cp.Variable(n), rng.integers(3)
    A, b = integers(rng, int(rng.integers(1, n + 1)), n), integers(rng, n)
    if kind == 0:
        b = b[: len(A)]
        constraints = [A @ x <= b, -np.sum(A, axis=0) @ x <= -float(np.sum(b)) - float(rng.integers(1, 4))]
    elif kind == 1:
        constraints = [cp.norm(x - b) <= 1.0, x[0] >= b[0] + float(rng.integers(2, 5))]
    else:
        X = cp.Variable((n, n), PSD=True)
        constraints = [cp.trace(X) == 1.0, X[0, 0] >= float(rng.integers(2, 4)), x == X[0]]
    return Planted("infeasible", cp.Problem(cp.Minimize(cp.sum(x)), constraints), math.inf)


def unbounded(rng):
    n = int(rng.integers(2, 20))
    x = cp.Variable(n)
    A = np.abs(integers(rng, n, n))
    constraints = [A @ x <= np.abs(integers(rng, n)) + 1.0]
    return Planted("unbounded", cp.Problem(cp.Minimize(cp.sum(x)), constraints), -math.inf)


def rounded(rng):
    """Quotients, means and sums that compilation rounds: the optimum is that which was written."""
    n, sign = int(rng.integers(2, 8)), int(rng.choice([-1, 1]))
    d, k, c = rng.integers(3, 100, n), rng.integers(1, 9, n), rng.integers(1, 9, n)
    x, by = cp.Variable(n), int(rng.integers(3, 50))
    constraints, optimum = [x / d >= k], Fraction(int(c @ (d * k)), by)
    kind = rng.integers(4)
    if kind == 0:  # which holds
        constraints.append(cp.mean(x) >= 1)
    elif kind == 1:  # the same point, twice
        constraints += [cp.sum(x) == int(d @ k), cp.mean(x) * n >= int(d @ k)]
    elif kind == 2:  # which is no restriction
        constraints.append((x / 49) * 49 >= x)
    objective = c @ x / by
    objective = cp.Minimize(objective) if sign > 0 else cp.Maximize(-objective)
    return Planted("rounded", cp.Problem(objective, constraints), sign * optimum, interior=kind in (0, 3))


FAMILIES = [
    lp,
    qp,
    socp,
    sdp,
    lmi,
    exponential,
    lambda rng: exponential(rng, "mixed"),
    scaled,
    flat,
    degenerate,
    infeasible,
    unbounded,
    rounded,
]


def planted(seed):
    return FAMILIES[seed % len(FAMILIES)](np.random.default_rng(seed))


def judged(found, case):
    """Whether a bound is wrong, and whether all is proven that could be."""
    low, high, optimum = found.lower_bound, found.upper_bound, case.optimum
    if isinstance(optimum, float):
        return not low <= optimum <= high, low == high
    wrong = low == math.inf or high == -math.inf
    wrong |= math.isfinite(low) and Fraction(low) > optimum + case.room
    wrong |= math.isfinite(high) and Fraction(high) < optimum - case.room
    return wrong, math.isfinite(low) and math.isfinite(high)


def random_programs(first, count):
    found = defaultdict(list)
    for seed in range(first, first + count):
        case = planted(seed)
        began = time.process_time()
        interval = sm.bound(case.problem)
        wrong, proven = judged(interval, case)
        if wrong:
            print(f"WRONG: seed {seed}, {case.kind}: {interval!r}, optimum {float(case.optimum)!r}")
        width = interval.upper_bound - interval.lower_bound if proven else math.inf
        size = max(1.0, abs(float(case.optimum))) if math.isfinite(width) else 1.0
        lower = math.isfinite(interval.lower_bound)
        if not proven and case.interior:
            print(f"not proven: seed {seed}, {case.kind}: {interval}")
        found[case.kind].append((wrong, proven, width / size, lower, time.process_time() - began))
    print("\n| programs | number | wrong | both sides | lower bound | median relative width | CPU seconds |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for kind, rows in found.items():
        wrong, proven, widths, lower, seconds = (np.array(column) for column in zip(*rows, strict=True))
        exact_ones = kind in ("infeasible", "unbounded")
        width = "-" if exact_ones else f"{np.median(widths):.1e}"
        print(
            f"| {kind} | {len(rows)} | {wrong.sum()} | {proven.sum()} | {'-' if exact_ones else lower.sum()} | "
            f"{width} | {seconds.sum():.1f} |"
        )


def theta(n):
    """Lovasz' theta of an odd cycle."""
    X = cp.Variable((n, n), PSD=True)
    return cp.Problem(cp.Maximize(cp.sum(X)), [cp.trace(X) == 1, *(X[i, (i + 1) % n] == 0 for i in range(n))])


def chsh():
    G = cp.Variable((4, 4), PSD=True)
    return cp.Problem(cp.Maximize(G[0, 2] + G[0, 3] + G[1, 2] - G[1, 3]), [cp.diag(G) == 1])


def pseudo_metric(n=30, d=5):
    """EE364a's exercise: a metric for which given distances are approximated best, by squares."""
    rng = np.random.default_rng(8)
    X, Y, root = rng.normal(size=(n, d)), rng.normal(size=(n, d)), rng.normal(size=(d, d))
    D = [X[k] - Y[k] for k in range(n)]
    squares = np.array([np.sum((root @ v) ** 2) for v in D])
    distances = np.sqrt(squares) * (1.0 + 0.1 * rng.normal(size=n))
    P = cp.Variable((d, d), PSD=True)
    lengths = cp.hstack([v @ P @ v for v in D])
    missed = cp.sum(lengths - 2.0 * cp.multiply(distances, cp.sqrt(lengths)) + distances**2)
    return cp.Problem(cp.Minimize(missed / n))


def two_blocks():
    """The example of CSDP's guide, the first semidefinite one of VSDP's."""
    X, Y, Z = (cp.Variable((n, n), PSD=True) for n in (2, 3, 2))
    cost = cp.trace(np.array([[2.0, 1], [1, 2]]) @ X) + cp.trace(np.array([[3.0, 0, 1], [0, 2, 0], [1, 0, 3]]) @ Y)
    first = cp.trace(np.array([[3.0, 1], [1, 3]]) @ X) + Z[0, 0] == 1
    second = cp.trace(np.array([[3.0, 0, 1], [0, 4, 0], [1, 0, 5]]) @ Y) + Z[1, 1] == 2
    return cp.Problem(cp.Minimize(-cost), [first, second])


def linear():
    """The first linear example of VSDP's manual."""
    x, A = cp.Variable(5, nonneg=True), np.array([[-1.0, 2, 0, 1, 1], [0, 0, -1, 0, 2]])
    return cp.Problem(cp.Minimize(2 * x[1] + 3 * x[3] + 5 * x[4]), [A @ x == np.array([2.0, 3.0])])


def nearly_ill_posed(delta=1e-4, epsilon=2e-4):
    """VSDP's example with the optimum ``-1 + delta / epsilon``, and a gap of duality at 0."""
    X = cp.Variable((3, 3), PSD=True)
    cost = X[0, 1] + delta * (X[1, 1] + X[2, 2])
    return cp.Problem(cp.Minimize(cost), [X[0, 1] == -1, X[0, 0] == epsilon, X[0, 2] == 0, X[1, 2] == 0])


def no_matrix():
    """VSDP's infeasible example: a negative diagonal entry."""
    X = cp.Variable((2, 2), PSD=True)
    return cp.Problem(cp.Minimize(X[0, 0]), [X[0, 0] == -0.01, 2 * X[0, 1] + 0.005 * X[1, 1] == 1])


def no_cone_point():
    """VSDP's infeasible second-order example, after Ben-Tal and Nemirovski."""
    x = cp.Variable(3)
    return cp.Problem(cp.Minimize(0.0), [x[0] + 0.5 * x[2] == 0, x[1] == 1, cp.norm(x[1:]) <= x[0]])


KNOWN = {
    "CHSH": (chsh, 8.0**0.5),
    "theta of C5": (lambda: theta(5), 5.0**0.5),
    "theta of C7": (lambda: theta(7), 7.0 * math.cos(math.pi / 7) / (1.0 + math.cos(math.pi / 7))),
    "pseudo-metric of EE364a": (pseudo_metric, None),
    "VSDP: linear": (linear, 8.0),
    "VSDP: blocks": (two_blocks, -2.75),
    "VSDP: nearly ill-posed": (nearly_ill_posed, -0.5),
    "VSDP: infeasible matrix": (no_matrix, math.inf),
    "VSDP: infeasible cone": (no_cone_point, math.inf),
}


def known_programs():
    print("| program | known value | proven interval | relative width |")
    print("| --- | --- | --- | --- |")
    for name, (make, value) in KNOWN.items():
        found = sm.bound(make())
        ends = f"{found.lower_bound:.10f} to {found.upper_bound:.10f}"
        print(f"| {name} | {'-' if value is None else f'{value:.10f}'} | {ends} | {found.relative_width:.1e} |")


def fit(n, error, limit=math.inf):
    """The least error of n monomials on 40 points, by coefficients up to a limit."""
    t, c = np.linspace(0.0, 1.0, 40), cp.Variable(n)
    missed = np.vander(t, n) @ c - np.exp(np.sin(9.0 * t))
    return cp.Problem(cp.Minimize(error(missed)), [cp.abs(c) <= limit] if limit < math.inf else [])


def answers():
    """Programs that CVXPY calls optimal at an objective that is not."""
    print("| program | CVXPY: status, objective | proven interval |")
    print("| --- | --- | --- |")
    cases = {
        "VSDP's nearly ill-posed program, epsilon 1e-4": lambda: nearly_ill_posed(1e-6, 1e-4),
        "largest error of 10 monomials": lambda: fit(10, cp.norm_inf),
        "squared error of 12 monomials, coefficients up to 1e6": lambda: fit(12, cp.sum_squares, 1e6),
    }
    for name, make in cases.items():
        problem, found = make(), sm.bound(make())
        problem.solve(solver="CLARABEL")
        ends = f"{found.lower_bound:.7g} to {found.upper_bound:.7g}"
        print(f"| {name} | {problem.status}, {problem.value:.6g} | {ends} |")


def main() -> None:
    """Print one of the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--known", action="store_true", help="programs with known values")
    parser.add_argument("--answers", action="store_true", help="answers called optimal that are not")
    given = parser.parse_args()
    if given.known:
        known_programs()
    elif given.answers:
        answers()
    else:
        random_programs(given.first, given.count)


if __name__ == "__main__":
    main()
