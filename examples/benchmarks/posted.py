"""Proven intervals of 47 programs of the kinds that people post, and processor seconds beside CVXPY's own solve.

    python examples/benchmarks/posted.py

The kinds are those of CVXPY's examples and of questions about it: portfolios, regression, classification, control,
networks, relaxations, matrices and designs. The data are random.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

import cvxpy as cp
import numpy as np

import sdpmetric as sm

Programs = Iterator[tuple[str, cp.Problem]]


def returns(rng, n=12, days=60):
    """Covariance and mean of random returns."""
    R = 0.01 * rng.normal(size=(days, n)) + 0.005 * rng.normal(size=(days, 1))
    return np.cov(R, rowvar=False), R.mean(axis=0) + 0.001, R


def graph(rng, n=12, share=0.4):
    """The adjacency matrix of a random graph."""
    A = np.triu(rng.random((n, n)) < share, 1).astype(float)
    return A + A.T


def portfolios(rng: np.random.Generator) -> Programs:
    """Choose weights of assets."""
    S, mu, _ = returns(rng)
    w = cp.Variable(len(mu))
    goal = cp.Maximize(mu @ w - 5 * cp.quad_form(w, S))
    yield "portfolio without short sales", cp.Problem(goal, [cp.sum(w) == 1, w >= 0])
    S, mu, _ = returns(rng)
    w, gamma = cp.Variable(len(mu)), cp.Parameter(nonneg=True, value=0.3)
    goal = cp.Maximize(mu @ w - gamma * cp.quad_form(w, S))
    yield "portfolio with leverage", cp.Problem(goal, [cp.sum(w) == 1, cp.norm1(w) <= 2])
    F, d, w = rng.normal(size=(40, 5)), rng.random(40), cp.Variable(40)
    risk = cp.sum_squares(F.T @ w) + cp.sum_squares(cp.multiply(np.sqrt(d), w))
    goal = cp.Minimize(risk - rng.random(40) @ w)
    yield "portfolio with factors", cp.Problem(goal, [cp.sum(w) == 1, w >= 0, w <= 0.2])
    S, mu, _ = returns(rng, 20, 10)
    w = cp.Variable(20)
    goal = cp.Minimize(cp.quad_form(w, cp.psd_wrap(S)))
    yield "portfolio with few days", cp.Problem(goal, [cp.sum(w) == 1, mu @ w >= mu.mean(), w >= 0])
    S, mu, _ = returns(rng)
    w = cp.Variable(len(mu))
    yield (
        "least variance at a return",
        cp.Problem(cp.Minimize(cp.quad_form(w, S)), [cp.sum(w) == 1, mu @ w >= np.quantile(mu, 0.7), cp.abs(w) <= 1]),
    )
    S, mu, _ = returns(rng)
    y = cp.Variable(len(mu), nonneg=True)
    yield "largest ratio of return to risk", cp.Problem(cp.Minimize(cp.quad_form(y, S)), [mu @ y == 1])
    _, mu, R = returns(rng)
    w, a = cp.Variable(len(mu), nonneg=True), cp.Variable()
    loss = a + cp.sum(cp.pos(-R @ w - a)) / (0.05 * len(R))
    yield "conditional value at risk", cp.Problem(cp.Minimize(loss), [cp.sum(w) == 1, mu @ w >= mu.mean()])
    b = cp.Variable(10)
    odds = rng.uniform(0.7, 1.4, size=(50, 10))
    yield "growth of bets", cp.Problem(cp.Maximize(cp.sum(cp.log(odds @ b)) / 50), [b >= 0, cp.sum(b) == 1])
    S, _, _ = returns(rng)
    w = cp.Variable(len(S))
    yield "risk parity", cp.Problem(cp.Minimize(0.5 * cp.quad_form(w, 1e4 * S) - cp.sum(cp.log(w)) / len(S)))


def regressions(rng: np.random.Generator) -> Programs:
    """Fit and classify."""
    A, x = rng.normal(size=(60, 30)), cp.Variable(30)
    yield "lasso", cp.Problem(cp.Minimize(cp.sum_squares(A @ x - A @ (np.arange(30) < 4)) + 2.0 * cp.norm1(x)))
    A, y, x = rng.normal(size=(60, 30)), rng.normal(size=60), cp.Variable(30)
    yield "ridge regression", cp.Problem(cp.Minimize(cp.sum_squares(A @ x - y) / 60 + 0.1 * cp.sum_squares(x)))
    A, y, x = rng.normal(size=(60, 30)), rng.normal(size=60), cp.Variable(30)
    cost = cp.sum_squares(A @ x - y) / 120 + 0.1 * cp.norm1(x) + 0.05 * cp.sum_squares(x)
    yield "elastic net", cp.Problem(cp.Minimize(cost))
    A, x, b = rng.normal(size=(80, 8)), cp.Variable(8), cp.Variable()
    y = np.where(A[:, 0] + rng.normal(size=80) > 0, 1.0, -1.0)
    loss = cp.sum(cp.logistic(-cp.multiply(y, A @ x + b))) / 80
    yield "logistic regression", cp.Problem(cp.Minimize(loss + 0.05 * cp.norm1(x)))
    A, x = rng.normal(size=(60, 6)), cp.Variable(6)
    y = A @ np.ones(6) + 10.0 * (rng.random(60) < 0.1)
    yield "robust regression", cp.Problem(cp.Minimize(cp.sum(cp.huber(A @ x - y, 1.0))))
    t = np.sort(rng.random(60))
    x, y = cp.Variable(2), 2.0 * t + rng.normal(size=60) * t
    r = y - x[0] - x[1] * t
    yield "quantile regression", cp.Problem(cp.Minimize(cp.sum(0.5 * cp.abs(r) + (0.9 - 0.5) * r)))
    X, w, b = rng.normal(size=(60, 5)), cp.Variable(5), cp.Variable()
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=60) > 0, 1.0, -1.0)
    yield (
        "support vector machine",
        cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) + cp.sum(cp.pos(1 - cp.multiply(y, X @ w + b))))),
    )
    X = rng.normal(size=(40, 3))
    y, a = np.where(X[:, 0] > 0, 1.0, -1.0), cp.Variable(40)
    K = np.exp(-((X[:, None] - X[None]) ** 2).sum(-1))
    goal = cp.Maximize(cp.sum(a) - 0.5 * cp.quad_form(a, np.outer(y, y) * K))
    yield "dual of a kernel machine", cp.Problem(goal, [a >= 0, a <= 10, y @ a == 0])
    A, x = rng.normal(size=(50, 20)), cp.Variable(20)
    yield "nonnegative least squares", cp.Problem(cp.Minimize(cp.sum_squares(A @ x - rng.normal(size=50))), [x >= 0])
    y, x = np.repeat([0.0, 2.0, 1.0], 25) + 0.3 * rng.normal(size=75), cp.Variable(75)
    yield "total variation", cp.Problem(cp.Minimize(0.5 * cp.sum_squares(x - y) + cp.tv(x)))
    y, x = np.cumsum(np.cumsum(0.1 * rng.normal(size=60))), cp.Variable(60)
    yield "trend filter", cp.Problem(cp.Minimize(0.5 * cp.sum_squares(y - x) + 5.0 * cp.norm1(cp.diff(x, 2))))
    y, x = np.arange(40) / 10 + rng.normal(size=40), cp.Variable(40)
    yield "isotonic regression", cp.Problem(cp.Minimize(cp.sum_squares(x - y)), [cp.diff(x) >= 0])
    t, c = np.linspace(-1, 1, 50), cp.Variable(10)
    yield (
        "polynomial fit",
        cp.Problem(cp.Minimize(cp.sum_squares(np.vander(t, 10) @ c - np.exp(t) - 0.1 * rng.normal(size=50)))),
    )


def matrices(rng: np.random.Generator) -> Programs:
    """Relax, complete and decompose."""
    A, X = graph(rng), cp.Variable((12, 12), PSD=True)
    yield "maximum cut", cp.Problem(cp.Maximize(cp.trace((np.diag(A.sum(1)) - A) @ X) / 4), [cp.diag(X) == 1])
    A, X = graph(rng), cp.Variable((12, 12), symmetric=True)
    edges = zip(*np.nonzero(np.triu(A)), strict=True)
    goal = cp.Maximize(cp.sum(X))
    yield "theta of a graph", cp.Problem(goal, [X >> 0, cp.trace(X) == 1, *(X[i, j] == 0 for i, j in edges)])
    C, X = np.corrcoef(rng.normal(size=(8, 12))) + 0.4 * rng.normal(size=(8, 8)), cp.Variable((8, 8), PSD=True)
    yield "nearest correlation matrix", cp.Problem(cp.Minimize(cp.norm(X - (C + C.T) / 2, "fro")), [cp.diag(X) == 1])
    S, X = np.cov(rng.normal(size=(8, 40))), cp.Variable((8, 8), PSD=True)
    yield "sparse inverse covariance", cp.Problem(cp.Minimize(-cp.log_det(X) + cp.trace(S @ X) + 0.1 * cp.norm1(X)))
    M = rng.normal(size=(8, 2)) @ rng.normal(size=(2, 7))
    known, X = rng.random(M.shape) < 0.7, cp.Variable(M.shape)
    yield "matrix completion", cp.Problem(cp.Minimize(cp.normNuc(X)), [cp.multiply(known, X) == known * M])
    M = rng.normal(size=(8, 2)) @ rng.normal(size=(2, 8)) + 5.0 * (rng.random((8, 8)) < 0.1)
    L, S = cp.Variable(M.shape), cp.Variable(M.shape)
    yield "robust principal components", cp.Problem(cp.Minimize(cp.normNuc(L) + cp.norm1(S) / np.sqrt(8)), [L + S == M])
    P, Z = rng.random((5, 2)), cp.Variable((7, 7), PSD=True)
    anchors = np.array([[0.0, 0], [1, 0], [0, 1]])
    missed = [Z[:2, :2] == np.eye(2)], []
    for i in range(5):
        e = np.eye(5)[i]
        for a in anchors:
            v = np.append(a, -e)
            missed[1].append(cp.abs(v @ Z @ v - np.sum((P[i] - a) ** 2) - 0.02 * rng.normal()))
    yield "sensor localization", cp.Problem(cp.Minimize(sum(missed[1]) + 1e-3 * cp.trace(Z)), missed[0])


def control(rng: np.random.Generator) -> Programs:
    """Steer, and bound what is steered."""
    A, B = np.array([[1.0, 0.1], [0.0, 1.0]]), np.array([[0.0], [0.1]])
    x, u = cp.Variable((2, 21)), cp.Variable((1, 20))
    cost = sum(cp.quad_form(x[:, k + 1], np.diag([1.0, 0.1])) + 0.1 * cp.sum_squares(u[:, k]) for k in range(20))
    dynamics = [x[:, k + 1] == A @ x[:, k] + B @ u[:, k] for k in range(20)]
    yield (
        "model predictive control",
        cp.Problem(cp.Minimize(cost), [*dynamics, x[:, 0] == [3.0, 0.0], cp.abs(u) <= 2.0, cp.norm_inf(x[1]) <= 1.5]),
    )
    A, x, u = np.eye(3) + 0.2 * np.eye(3, k=1), cp.Variable((3, 31)), cp.Variable(30)
    dynamics = [x[:, 1:] == A @ x[:, :-1] + np.array([[0.0], [0.0], [0.2]]) @ cp.reshape(u, (1, 30), order="F")]
    fuel = cp.sum(cp.maximum(cp.abs(u), 2 * cp.abs(u) - 1))
    yield "least fuel", cp.Problem(cp.Minimize(fuel), [*dynamics, x[:, 0] == 0, x[:, 30] == [1.0, 0.0, 0.0]])
    A = rng.normal(size=(4, 4)) - 4.0 * np.eye(4)
    P = cp.Variable((4, 4), symmetric=True)
    yield "lyapunov matrix", cp.Problem(cp.Minimize(0), [P >> np.eye(4), A.T @ P + P @ A << -np.eye(4)])
    S = [(G + G.T) / 2 for G in rng.normal(size=(4, 6, 6))]
    x = cp.Variable(3)
    goal = cp.Minimize(cp.lambda_max(S[0] + sum(x[k] * S[k + 1] for k in range(3))))
    yield "least largest eigenvalue", cp.Problem(goal, [cp.norm(x) <= 2])


def networks(rng: np.random.Generator) -> Programs:
    """Transport, assign and play."""
    a, b, C, T = rng.random(6), rng.random(7), rng.random((6, 7)), cp.Variable((6, 7), nonneg=True)
    marginals = [cp.sum(T, axis=1) == a / a.sum(), cp.sum(T, axis=0) == b / b.sum()]
    yield "transport of probabilities", cp.Problem(cp.Minimize(cp.sum(cp.multiply(C, T))), marginals)
    T, C = cp.Variable((4, 5), nonneg=True), rng.integers(1, 20, (4, 5))
    yield (
        "transport of goods",
        cp.Problem(
            cp.Minimize(cp.sum(cp.multiply(C, T))),
            [cp.sum(T, axis=1) <= [30, 40, 20, 50], cp.sum(T, axis=0) >= [20, 30, 30, 15, 35]],
        ),
    )
    X, C = cp.Variable((8, 8), nonneg=True), rng.integers(1, 50, (8, 8))
    goal = cp.Minimize(cp.sum(cp.multiply(C, X)))
    yield "assignment", cp.Problem(goal, [cp.sum(X, axis=0) == 1, cp.sum(X, axis=1) == 1])
    edges = [(i, j) for i in range(8) for j in range(8) if i != j and rng.random() < 0.5]
    f, B = cp.Variable(len(edges), nonneg=True), np.zeros((8, len(edges)))
    for k, (i, j) in enumerate(edges):
        B[i, k], B[j, k] = -1.0, 1.0
    yield "maximum flow", cp.Problem(cp.Maximize(-B[0] @ f), [B[1:7] @ f == 0, f <= rng.integers(1, 10, len(edges))])
    x, A = cp.Variable(12, nonneg=True), rng.uniform(0, 2, size=(5, 12))
    yield "diet", cp.Problem(cp.Minimize(rng.uniform(1, 5, 12) @ x), [A @ x >= rng.uniform(3, 8, 5)])
    p, v = cp.Variable(7, nonneg=True), cp.Variable()
    yield "zero sum game", cp.Problem(cp.Maximize(v), [rng.normal(size=(6, 7)) @ p >= v, cp.sum(p) == 1])


def designs(rng: np.random.Generator) -> Programs:
    """Design shapes, filters and experiments."""
    A, x, r = rng.normal(size=(15, 3)), cp.Variable(3), cp.Variable()
    goal = cp.Maximize(r)
    yield "center of a polygon", cp.Problem(goal, [A @ x + r * np.linalg.norm(A, axis=1) <= rng.random(15) + 1])
    P, x = rng.normal(size=(20, 2)), cp.Variable(2)
    yield "geometric median", cp.Problem(cp.Minimize(cp.sum(cp.norm(P - cp.reshape(x, (1, 2), order="F"), axis=1))))
    w = np.linspace(0.0, np.pi, 60)
    C, h = 2.0 * np.cos(np.outer(w, np.arange(1, 9))), cp.Variable(9)
    response = h[0] + C @ h[1:]
    goal = cp.Minimize(cp.max(cp.abs(response[w > 1.5])))
    yield "filter design", cp.Problem(goal, [cp.abs(response[w < 1.0] - 1) <= 0.1])
    x = cp.Variable(10)
    yield "water filling", cp.Problem(cp.Maximize(cp.sum(cp.log(rng.random(10) + 0.1 + x))), [x >= 0, cp.sum(x) == 1])
    p, a = cp.Variable(30), np.linspace(-1.0, 1.0, 30)
    moments = [cp.abs(a @ p) <= 0.1, a**2 @ p >= 0.4, a**2 @ p <= 0.6]
    yield "maximum entropy", cp.Problem(cp.Maximize(cp.sum(cp.entr(p))), [cp.sum(p) == 1, *moments])
    V, w = rng.normal(size=(3, 12)), cp.Variable(12, nonneg=True)
    yield "optimal experiments", cp.Problem(cp.Maximize(cp.log_det(V @ cp.diag(w) @ V.T)), [cp.sum(w) == 1])
    B, w = rng.integers(-2, 3, (4, 10)).astype(float), cp.Variable(10, nonneg=True)
    K = sum(w[k] * np.outer(B[:, k], B[:, k]) for k in range(10))
    goal = cp.Minimize(cp.matrix_frac(np.array([0.0, 1.0, 0.0, -1.0]), K))
    yield "truss of least compliance", cp.Problem(goal, [cp.sum(w) <= 1])
    Q, g = cp.Variable((3, 3), PSD=True), cp.Variable()
    sums = [Q[0, 0], 2 * Q[0, 1], 2 * Q[0, 2] + Q[1, 1], 2 * Q[1, 2], Q[2, 2]]
    p = [1.0 - g, -3.0, -2.0, 0.5, 1.0]
    yield "polynomial from below", cp.Problem(cp.Maximize(g), [s == c for s, c in zip(sums, p, strict=True)])


def posted(seed: int = 0) -> dict[str, cp.Problem]:
    """Return all programs by name."""
    rng = np.random.default_rng(seed)
    groups = (portfolios, regressions, matrices, control, networks, designs)
    return {name: problem for group in groups for name, problem in group(rng)}


def main() -> None:
    """Print the table."""
    print("| program | proven interval | relative width | CVXPY's CPU ms | CPU ms | ratio |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    proven, wrong, ratios, unproven = 0, 0, [], []
    for name in posted():
        seconds = []
        for _ in range(3):
            problem, twin = posted()[name], posted()[name]
            began = time.process_time()
            problem.solve(solver="CLARABEL")
            middle = time.process_time()
            found = sm.bound(twin)
            seconds.append((middle - began, time.process_time() - middle))
        own, ours = np.min(seconds, axis=0)
        ratios.append(ours / own)
        both = found.relative_width <= 1e-4
        proven += both
        unproven += [] if both else [f"{name}: {found.reason}"]
        tight = posted()[name]
        tight.solve(solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
        allowance = 1e-7 * max(1.0, abs(tight.value))
        wrong += not found.lower_bound - allowance <= tight.value <= found.upper_bound + allowance
        ends = f"{found.lower_bound:.9g} to {found.upper_bound:.9g}"
        width = f"{found.relative_width:.1e}" if math.isfinite(found.relative_width) else "-"
        print(f"| {name} | {ends} | {width} | {1e3 * own:.1f} | {1e3 * ours:.1f} | {ratios[-1]:.1f} |", flush=True)
    print(f"\n{proven} of {len(ratios)} from both ends within 1e-4, {wrong} wrong, ", end="")
    print(f"CPU time over CVXPY's {np.median(ratios):.1f} in the median, {max(ratios):.1f} at most.")
    print(*unproven, sep="\n")


if __name__ == "__main__":
    main()
