"""Which labels of nearest neighbors are settled at which gap, what contradicts them, and what that costs, as tables.

Run it with ``python examples/benchmarks/settled.py``, SDPMETRIC_DATA being the folder of the data sets (or ``--data
FOLDER``). Each metric of a gap is made from the optimum of LMNN with a Frobenius term by a random step; adversaries are
metrics as good as it, as far from the optimum as the objective allows, in directions that exchange a neighbor with
another example. For POLA they are the optima of conic programs.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from dataclasses import replace

import cvxpy as cp
import numpy as np
from sklearn.decomposition import PCA

import sdpmetric as sm
from sdpmetric import datasets
from sdpmetric.classification import knn_predict, nearest_neighbors
from sdpmetric.linalg import psd
from sdpmetric.programs import named

SETS = ("iris", "wine", "breast_cancer", "ionosphere", "balance", "digits", "letters", "usps")
GAPS = (1e-3, 1e-6, 1e-9)
N_TRAIN, N_TEST, N_FEATURES = 300, 500, 15


def split(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Standardised examples in at most 15 dimensions: at most 300 (half) to learn from, and at most 500 others."""
    X, y = datasets.load(name)
    rows = np.random.default_rng(0).permutation(len(X))[: N_TRAIN + N_TEST]
    X, y = datasets.standardize(np.asarray(X, dtype=np.float64)[rows]), y[rows]
    if X.shape[1] > N_FEATURES:
        X = PCA(N_FEATURES, random_state=0).fit_transform(X)
        X /= X[:, 0].std()
    n = min(N_TRAIN, len(X) // 2)
    return X[:n], y[:n], X[n:], y[n:]


def farthest(problem: sm.Problem, start: np.ndarray, step: np.ndarray, most: float) -> np.ndarray:
    """The factor of the last metric on a ray, back in the cone, whose objective is at most a number."""
    low, high = 0.0, 1.0
    while problem.objective(psd.factor(start + high * step)) <= most and high < 1e9:
        low, high = high, 4.0 * high
    for _ in range(25):
        middle = 0.5 * (low + high)
        good = problem.objective(psd.factor(start + middle * step)) <= most
        low, high = (middle, high) if good else (low, middle)
    return psd.factor(start + low * step)


def directions(L: np.ndarray, X: np.ndarray, queries: np.ndarray, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """What makes one of the nearest three examples further and one of the next three nearer, for random queries."""
    near = nearest_neighbors(L, X, queries, 6)[1]
    while True:
        q = rng.integers(len(queries))
        u, v = (queries[q] - X[near[q, rng.integers(*ends)]] for ends in ((0, 3), (3, 6)))
        step = np.outer(u, u) - np.outer(v, v)
        yield step / max(np.linalg.norm(step), 1e-300)


def measured(name: str, n_adversaries: int, frobenius: float) -> tuple[list[str], int, int]:
    """A row of the table, and how many settled decisions were checked and contradicted."""
    X, y, queries, _ = split(name)
    rng, problem = np.random.default_rng(1), sm.LMNNProblem.from_labels(X, y, frobenius=frobenius)
    best = sm.solve(problem, tol=1e-11, max_time=300.0)
    start, scale, checked, wrong = best.metric, np.linalg.norm(best.metric), 0, 0
    row, spent = [name, f"{len(X)} x {X.shape[1]}", f"{len(queries)}"], [0.0, 0.0]
    steps = directions(best.components, X, queries, rng)
    for gap in GAPS:
        most = best.lower_bound + gap * abs(best.lower_bound)
        if best.objective > most:
            row += [f"(gap {best.relative_gap:.0e})"] * 2
            continue
        noise = rng.normal(size=start.shape)
        L = farthest(problem, start, 1e-6 * scale * (noise + noise.T), most)
        certificate = problem.certify(L, dual=best.dual)
        near = sm.near_optimal(replace(best, components=L, certificate=certificate))
        found = near.labels(X, y, queries)
        for turn in range(4):  # the first one warms up
            began = time.process_time()
            near.labels(X, y, queries)
            middle = time.process_time()
            knn_predict(L, X, y, queries)
            spent = [spent[0] + middle - began, spent[1] + time.process_time() - middle] if turn else spent
        for _ in range(n_adversaries):
            other = farthest(problem, start, 1e-6 * scale * next(steps), certificate.objective)
            changed = knn_predict(other, X, y, queries) != found.values
            checked, wrong = checked + int(found.settled.sum()), wrong + int(changed[found.settled].sum())
        exact = knn_predict(best.components, X, y, queries) != found.values
        checked, wrong = checked + int(found.settled.sum()), wrong + int(exact[found.settled].sum())
        row += [f"{found.share:.3f}", f"{near.neighbors(X, queries).settled.all(axis=1).mean():.3f}"]
    return [*row, f"{spent[0] / max(spent[1], 1e-9):.1f}"], checked, wrong


def conic(name: str, n_adversaries: int) -> tuple[int, int]:
    """Settled matches and neighbors of POLA under metrics that the conic program finds against them."""
    X, y, queries, _ = split(name)
    problem = sm.POLAProblem.from_labels(X, y, 40, slack_weight=0.1)
    checked, wrong, rng = 0, 0, np.random.default_rng(2)
    for tol in (1e-2, 1e-4):
        solution = sm.solve(problem, tol=tol)
        near, program = sm.near_optimal(solution), sm.to_cvxpy(problem)
        pairs = rng.integers(0, len(X), (1000, 2))
        matches, labels = near.matches(X, pairs), near.labels(X, y, queries)
        A, b = named(program)["A"], named(program)["b"]
        within = program.objective.args[0] <= solution.objective
        steps = directions(solution.components, X, queries, rng)
        for k in range(n_adversaries):
            if k % 2:
                goal = cp.trace(next(steps) @ A)
            else:  # against the settled match next to the threshold
                D = np.sum(((X[pairs[:, 0]] - X[pairs[:, 1]]) @ solution.components.T) ** 2, axis=1)
                t = np.argsort(np.where(matches.settled, np.abs(D - near.threshold), np.inf))[k // 2]
                v = X[pairs[t, 0]] - X[pairs[t, 1]]
                goal = (v @ A @ v - b) * (1.0 if matches.values[t] else -1.0)
            cp.Problem(cp.Maximize(goal), [*program.constraints, within]).solve(solver=cp.CLARABEL)
            if A.value is None:
                continue
            L = psd.factor(A.value)
            D = np.sum(((X[pairs[:, 0]] - X[pairs[:, 1]]) @ L.T) ** 2, axis=1)
            changed = (float(b.value) >= D) != matches.values
            other = knn_predict(L, X, y, queries) != labels.values
            checked += int(matches.settled.sum() + labels.settled.sum())
            wrong += int(changed[matches.settled].sum() + other[labels.settled].sum())
    return checked, wrong


def main(arguments: list[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of the data sets; default: the variable SDPMETRIC_DATA")
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    parser.add_argument("--adversaries", type=int, default=20, help="metrics for each data set and gap")
    parser.add_argument("--frobenius", type=float, default=10.0)
    args = parser.parse_args(arguments)
    if args.data:
        os.environ["SDPMETRIC_DATA"] = args.data
    gaps = " | ".join(f"labels, {gap:.0e} | neighbors" for gap in GAPS)
    print(f"| data | examples | queries | {gaps} | cost |\n{'| --- ' * 10}|")
    total, wrong = 0, 0
    for name in args.sets:
        row, checked, contradicted = measured(name, args.adversaries, args.frobenius)
        total, wrong = total + checked, wrong + contradicted
        print(f"| {' | '.join(row)} |", flush=True)
    print(f"\nBy steps: {total:,} settled decisions checked, {wrong:,} contradicted.")
    for name in [name for name in ("iris", "wine") if name in args.sets]:
        checked, contradicted = conic(name, args.adversaries)
        print(f"By conic programs, POLA on {name}: {checked:,} checked, {contradicted:,} contradicted.", flush=True)


if __name__ == "__main__":
    main()
