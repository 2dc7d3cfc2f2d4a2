"""A campaign against exact rational arithmetic: no objective below the exact one, no lower bound above any.

Problems are drawn from the hostile families of tests/exact.py. For each, certificates are made at several points
(solved, scaled, random, zero), from slopes and from the solver's multipliers, and compared with exact objectives.
Solving takes most of the time, so that only a share of the problems is solved, by the same seeds whatever the share;
the others are judged at the other points, and at a random one with a random length.

    python examples/benchmarks/rigor.py --problems 500 --seed 0 [--seconds 60] [--solved 0.1] [--statement mlr]

prints how many problems of each statement were tried, and every violation with its seed as soon as it is found. Every
1,000 problems it says how far it came. The exit code is 1 if there was a violation.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from flint import arb, ctx, fmpq

import sdpmetric as sm

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
sys.path.insert(0, str(Path(__file__).parent))
import oracles
import rigor_sums
from exact import (
    FAMILIES,
    Distances,
    divergence,
    hostile,
    itml_objective,
    lego_loss,
    lfda_objective,
    lmnn_objective,
    mcml_objective,
    metric,
    mlr_objective,
    number,
    rational,
    rca_objective,
)

# Share of the problems that are solved.
share = 1.0
# Binary digits of balls.
DIGITS = 256
# Statements in the proportion in which they are tried.
STATEMENTS = (
    "lmnn",
    "lmnn",
    "lmnn",
    "squared",
    "ridge",
    "several",
    "frobenius",
    "pola",
    "hard",
    "mmc",
    "itml",
    "lego",
    "stream",
    "rca",
    "mcml",
    "sums",
    "mlr",
    "lfda",
)


def points(problem, solution, rng):
    d = problem.X.shape[1]
    scale = 1.0 / np.maximum(np.ptp(np.asarray(problem.X, dtype=np.float64), axis=0), 1e-300)
    return [np.asarray(solution.components, float), np.diag(scale), rng.normal(size=(2, d)) * scale, np.zeros((0, d))]


def triplets_of(problem):
    return np.array(oracles.all_triplets(problem.source.targets, problem.source.labels)).reshape(-1, 3)


@dataclass
class Guess:
    """What stands for a solution where a problem is not solved."""

    components: np.ndarray
    certificate: sm.Certificate


def solved(problem, rng):
    tol, max_iter = 10.0 ** -rng.integers(3, 9), int(rng.integers(30, 300))
    if rng.random() < share:
        return sm.solve(problem, tol=tol, max_iter=max_iter)
    d = problem.X.shape[1]
    units = np.maximum(np.ptp(np.asarray(problem.X, dtype=np.float64), axis=0), 1e-300)
    shape = (problem.n_regions, d, d) if isinstance(problem, sm.MultiMetricLMNNProblem) else (d, d)
    L = 10.0 ** rng.uniform(-2, 1) * rng.normal(size=shape) / units
    return Guess(L, problem.certify(L))


def norm(L):
    A = rational(L) * rational(L).transpose()
    return sum((entry**2 for entry in A.entries()), fmpq(0))


def lmnn(X, y, rng, loss="hinge", ridge=0.0):
    problem = sm.LMNNProblem.from_labels(
        X, y, int(rng.integers(1, 3)), float(rng.uniform(0.1, 0.9)), loss=loss, ridge=ridge
    )
    solution, triplets = solved(problem, rng), triplets_of(problem)
    pairs = np.stack(problem.target_pairs, axis=1)
    for L in points(problem, solution, rng):
        exact = lmnn_objective(
            np.asarray(X, float),
            L,
            pairs,
            triplets,
            np.ones(len(triplets)),
            problem.push_weight,
            ridge,
            loss != "hinge",
        )
        yield exact, problem.certify(L)
    yield None, solution.certificate


def several(X, y, rng):
    problem = sm.MultiMetricLMNNProblem.from_labels(X, y, 1, 0.4)
    solution, triplets = solved(problem, rng), triplets_of(problem)
    pairs, shape = np.stack(problem.target_pairs, axis=1), (problem.n_regions, 1, X.shape[1])
    for L in (np.asarray(solution.components, float), rng.normal(size=shape), np.zeros(shape)):
        exact = lmnn_objective(
            np.asarray(X, float), L, pairs, triplets, np.ones(len(triplets)), 0.4, regions=problem.regions
        )
        yield exact, problem.certify(L)
    yield None, solution.certificate


def frobenius(X, y, rng):
    problem = sm.FrobeniusLMNNProblem.from_labels(X, y, 1, 0.4, 0.5)
    solution, triplets = solved(problem, rng), triplets_of(problem.base)
    pairs = np.stack(problem.base.target_pairs, axis=1)
    for L in points(problem, solution, rng):
        exact = lmnn_objective(np.asarray(X, float), L, pairs, triplets, np.ones(len(triplets)), 0.4)
        yield exact + (number(0.25) * norm(L) if len(L) else 0), problem.certify(L)
    yield None, solution.certificate


def some_pairs(X, y, rng, n):
    pairs = np.unique(np.sort(rng.integers(0, len(X), (n, 2)), axis=1), axis=0)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    return pairs, y[pairs[:, 0]] == y[pairs[:, 1]]


def pola(X, y, rng):
    pairs, similar = some_pairs(X, y, rng, 16)
    problem = sm.POLAProblem(X, pairs, similar, 0.3, 1.5)
    solution = solved(problem, rng)
    for L in points(problem, solution, rng)[:3]:
        b = float(rng.uniform(1, 3))
        D = Distances(np.asarray(X, float), L)
        missed = [
            1 - (number(b) - D(int(i), int(j))) * (1 if same else -1)
            for (i, j), same in zip(pairs, similar, strict=True)
        ]
        slack = sum((max(fmpq(0), u) for u in missed), fmpq(0))
        exact = (norm(L) + (number(b) - number(1.5)) ** 2) / 2 + number(0.3) * slack
        yield exact, problem.certify(L, threshold=b)
    yield None, solution.certificate


def hard(X, y, rng):
    pairs, similar = some_pairs(X, y, rng, int(rng.integers(3, 9)))
    problem = sm.POLAProblem(X, pairs, similar, None, float(rng.uniform(1.0, 3.0)))
    solution, start = solved(problem, rng), number(problem.initial_threshold)
    for L in points(problem, solution, rng):
        D = Distances(np.asarray(X, float), L)
        lengths = [(D(int(i), int(j)), bool(same)) for (i, j), same in zip(pairs, similar, strict=True)]
        near = max((q for q, same in lengths if same), default=fmpq(0))
        far = min((q for q, same in lengths if not same), default=None)
        size, exact = norm(L) if len(L) else fmpq(0), None
        if far is not None and far > near:  # the best feasible point on the ray; see docs/pola.md
            c = max(2 / (far - near), (start + 1) * far / (size + far**2))
            b = max(fmpq(1), min(max(start, c * near + 1), c * far - 1))
            exact = (c * c * size + (b - start) ** 2) / 2
        yield exact, problem.certify(L)
    yield None, solution.certificate


def mmc(X, y, rng):
    pairs, similar = some_pairs(X, y, rng, 60)
    problem = sm.MMCProblem(X, pairs, similar)
    solution = solved(problem, rng)
    for L in points(problem, solution, rng)[:2]:
        D = Distances(np.asarray(X, float), L)
        spent = sum((D(int(i), int(j)) for (i, j), same in zip(pairs, similar, strict=True) if same), fmpq(0))
        lengths = [arb(D(int(i), int(j))).sqrt() for (i, j), same in zip(pairs, similar, strict=True) if not same]
        yield -sum(lengths, arb(0)) / (arb(spent).sqrt() if spent > 1 else arb(1)), problem.certify(L)
    yield None, solution.certificate


def itml(X, y, rng):
    pairs, similar = some_pairs(X, y, rng, 20)
    prior = np.eye(X.shape[1]) if rng.random() < 0.5 else definite(X, rng)
    bounds = np.quantile(spread(X, pairs, prior), [0.2, 0.8]) + np.array([0.0, 1e-3])
    problem = sm.ITMLProblem(X, pairs, similar, *bounds.tolist(), float(10.0 ** rng.integers(-1, 2)), prior)
    solution = solved(problem, rng)
    for L in points(problem, solution, rng)[:2]:
        exact = itml_objective(
            np.asarray(X, float), L, pairs, similar, problem.upper, problem.lower, problem.gamma, problem.prior
        )
        yield exact, problem.certify(L)
    yield None, solution.certificate


def lego_stream(X, y, rng):
    pairs, _ = some_pairs(X, y, rng, 20)
    prior = np.eye(X.shape[1]) if rng.random() < 0.5 else definite(X, rng)
    D = spread(X, pairs, prior)
    targets, sides = rng.choice(D, len(pairs)) * rng.uniform(0.1, 2.0), rng.integers(-1, 2, len(pairs))
    sides[D == 0.0] = 1
    return sm.LEGOProblem(X, pairs, targets, sides, float(10.0 ** rng.integers(-3, 1)), prior)


def lego(X, y, rng):
    stream = lego_stream(X, y, rng)
    problem = sm.LEGOBatchProblem(stream)
    solution = solved(problem, rng)
    for L in points(problem, solution, rng)[:2]:
        lost = lego_loss(np.asarray(X, float), L, stream.pairs, stream.targets, stream.sides)
        away = divergence(metric(L), stream.initial_metric)
        yield away + arb(number(stream.learning_rate) * lost), problem.certify(L)
    yield None, solution.certificate


def stream(X, y, rng):
    """What fixed metrics lose on a stream, its regret, and what the theorem allows."""
    if rng.random() < 0.2:
        yield from pola_stream(X, y, rng)
        return
    problem = lego_stream(X, y, rng)
    tries = points(problem, solved(sm.LEGOBatchProblem(problem), rng), rng)
    for L in tries:
        lost = lego_loss(np.asarray(X, float), L, problem.pairs, problem.targets, problem.sides)
        yield lost, problem.certify(L)
    online = sm.solve(problem)
    found = sm.regret(problem, online, tol=1e-4) if rng.random() < 0.1 else online.certificate
    yield None, found
    yield found.objective * (1.0 - 1e-9), replace(found, objective=found.regret_bound, lower_bound=math.nan)


def pola_stream(X, y, rng):
    """The sum of squared hinges of fixed metrics, and what the regret of online POLA says no metric can do without."""
    pairs, similar = some_pairs(X, y, rng, int(rng.integers(3, 12)))
    problem, gamma = sm.POLAProblem(X, pairs, similar), float(10.0 ** rng.integers(-1, 3))
    online = sm.solve(problem, solver="online", gamma=gamma)
    found = sm.regret(problem, online, tol=1e-4, gamma=gamma)
    yield None, found
    yield found.objective * (1.0 - 1e-9), replace(found, objective=found.regret_bound, lower_bound=math.nan)
    for L in points(problem, solved(problem, rng), rng):
        D, b = Distances(np.asarray(X, float), L), number(rng.uniform(1, 3))
        missed = [
            max(fmpq(0), 1 - (b - D(int(i), int(j))) * (1 if same else -1))
            for (i, j), same in zip(pairs, similar, strict=True)
        ]
        yield sum((u * u for u in missed), fmpq(0)), replace(found, objective=math.inf, lower_bound=-math.inf)


def rca(X, y, rng):
    chunks = np.where(rng.random(len(y)) < 0.2, -1, y)
    ridge = float(10.0 ** rng.integers(-3, 1)) if rng.random() < 0.5 else 0.0
    problem = sm.RCAProblem(X, chunks, ridge)
    solution, rank = solved(problem, rng), problem.coordinates.rank if ridge else None
    for L in points(problem, solution, rng)[:2]:
        yield rca_objective(np.asarray(X, float), L[:rank], chunks, ridge, None, rank), problem.certify(L[:rank])
    yield None, solution.certificate


def mcml(X, y, rng):
    problem = sm.MCMLProblem(X, y)
    solution = solved(problem, rng)
    for L in points(problem, solution, rng):
        yield mcml_objective(np.asarray(X, float), L, y), problem.certify(L)
    yield None, solution.certificate


def mlr(X, y, rng):
    """Queries among the items' kind, or far from them."""
    X, Q = X[:7], X[7:9] * 10.0 ** -rng.integers(0, 9)
    related = sm.Relevance.from_lists([[0, 1, 2], [3, 4]], 7, leave_one_out=False)
    problem = sm.MLRProblem(X, related, ("auc", "map")[int(rng.integers(2))], float(10.0 ** rng.uniform(-2, 3)), Q)
    solution, data = solved(problem, rng), (np.asarray(X, float), np.asarray(Q, float))
    for L in points(problem, solution, rng):
        L = L[: X.shape[1]]
        exact = mlr_objective(data[0], L, related, data[1], problem.loss == "map", problem.slack_weight)
        yield exact, problem.certify(L, dual=problem.multipliers(np.ones(1), [L]))
    yield None, solution.certificate


def lfda(X, y, rng):
    ridge, r = float(10.0 ** rng.integers(-3, 1)) if rng.random() < 0.5 else 0.0, int(rng.integers(1, X.shape[1] + 1))
    weights = rng.uniform(0.1, 5.0, len(X)) if rng.random() < 0.5 else None
    problem = sm.LFDAProblem(X, y, r, int(rng.integers(1, 8)), ridge, weights)
    solution = sm.solve(problem)
    for L in (np.asarray(solution.components, float), points(problem, solution, rng)[2]):
        L = L[: min(r, len(problem.scatters[0]))]
        if len(L):
            exact = lfda_objective(np.asarray(X, float), L, y, problem.n_neighbors, ridge, weights)
            yield exact, problem.certify(L)
    yield None, solution.certificate


def weighted(X, y, rng):
    """MMC, ITML, RCA, MCML and POLA with weights of pairs, or of examples."""
    kind = ("mmc", "itml", "rca", "mcml", "pola")[int(rng.integers(5))]
    pairs, similar = some_pairs(X, y, rng, 40)
    w = rng.uniform(0.1, 5.0, len(X) if kind in ("rca", "mcml") else len(pairs))
    data, prior, judged = np.asarray(X, float), np.eye(X.shape[1]), slice(0, 2)
    if kind == "rca":
        problem = sm.RCAProblem(X, y, sample_weight=w)

        def exact(L):
            return rca_objective(data, L, y, 0.0, w)
    elif kind == "mcml":
        problem, judged = sm.MCMLProblem(X, y, w), slice(0, 4)

        def exact(L):
            return mcml_objective(data, L, y, w)
    elif kind == "itml":
        bounds = np.quantile(spread(X, pairs, prior), [0.2, 0.8]) + np.array([0.0, 1e-3])
        problem = sm.ITMLProblem(X, pairs, similar, *bounds.tolist(), 1.0, prior, w)

        def exact(L):
            return itml_objective(data, L, pairs, similar, problem.upper, problem.lower, 1.0, prior, w)
    elif kind == "mmc":
        problem = sm.MMCProblem(X, pairs, similar, w)

        def exact(L):
            D = [Distances(data, L)(int(i), int(j)) for i, j in pairs]
            spent = sum((number(c) * q for c, q, same in zip(w, D, similar, strict=True) if same), fmpq(0))
            gained = sum(
                (arb(number(c)) * arb(q).sqrt() for c, q, same in zip(w, D, similar, strict=True) if not same), arb(0)
            )
            return -gained / (arb(spent).sqrt() if spent > 1 else arb(1))
    else:
        problem, judged = sm.POLAProblem(X, pairs, similar, 1.0, 1.5, w), slice(0, 3)

        def exact(L):
            D = Distances(data, L)
            missed = [
                1 - (2 - D(int(i), int(j))) * (1 if same else -1) for (i, j), same in zip(pairs, similar, strict=True)
            ]
            slack = sum((number(c) * max(fmpq(0), u) for c, u in zip(w, missed, strict=True)), fmpq(0))
            return (norm(L) + fmpq(1, 4)) / 2 + slack

    about = {"threshold": 2.0} if kind == "pola" else {}
    solution = solved(problem, rng)
    for L in points(problem, solution, rng)[judged]:
        yield exact(L), problem.certify(L, **about)
    yield None, solution.certificate


def definite(X, rng):
    """A prior in the units of the data."""
    scale = 1.0 / np.maximum(np.ptp(np.asarray(X, float), axis=0), 1e-3)
    G = rng.normal(size=(X.shape[1] + 2, X.shape[1])) * scale
    return G.T @ G


def spread(X, pairs, prior):
    V = np.asarray(X, float)[pairs[:, 0]] - np.asarray(X, float)[pairs[:, 1]]
    return np.einsum("ij,jk,ik->i", V, prior, V)


DRAWS = {
    "lmnn": lmnn,
    "squared": lambda X, y, rng: lmnn(X, y, rng, loss="squared_hinge"),
    "ridge": lambda X, y, rng: lmnn(X, y, rng, ridge=float(10.0 ** rng.integers(-4, 2))),
    "several": several,
    "frobenius": frobenius,
    "pola": pola,
    "hard": hard,
    "mmc": mmc,
    "itml": itml,
    "lego": lego,
    "stream": stream,
    "rca": rca,
    "mcml": mcml,
    "sums": lambda X, y, rng: rigor_sums.judged(X, y, rng, share),
    "mlr": mlr,
    "lfda": lfda,
    "weighted": weighted,
}


def drawn(seed: int) -> tuple[str, str]:
    """Statement and family of a seed."""
    return STATEMENTS[seed % len(STATEMENTS)], FAMILIES[seed // len(STATEMENTS) % len(FAMILIES)]


def violations(statement: str, family: str, seed: int) -> list[str]:
    """What a problem's certificates get wrong; empty if nothing."""
    rng = np.random.default_rng(seed)
    X, y = hostile(family, rng, n=int(rng.integers(9, 15)), d=int(rng.integers(1, 5)))
    y = np.unique(y, return_inverse=True)[1]
    ctx.prec = DIGITS
    judged = [(None if v is None else arb(v), c) for v, c in DRAWS[statement](X, y, rng)]
    found = [f"objective {c.objective!r} < {v}" for v, c in judged if v is not None and arb(c.objective) < v]
    judged = [(v, c) for v, c in judged if not math.isnan(c.lower_bound)]  # a theorem's allowance is no objective
    bound = max((c.lower_bound for _, c in judged), default=-math.inf)
    found += [f"lower bound {bound!r} > {v}" for v, _ in judged if v is not None and v < arb(bound)]
    return [f"{statement} {family} seed {seed}: {text}" for text in found]


def main() -> int:
    global share
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=math.inf)
    parser.add_argument("--solved", type=float, default=1.0)
    parser.add_argument("--statement", choices=DRAWS)
    options = parser.parse_args()
    share = options.solved
    tried, refused, wrong, began = Counter(), Counter(), 0, time.perf_counter()
    for seed in range(options.seed, options.seed + options.problems):
        if time.perf_counter() - began > options.seconds:
            break
        statement, family = drawn(seed)
        if options.statement:
            statement, family = options.statement, FAMILIES[seed % len(FAMILIES)]
        try:
            found = violations(statement, family, seed)
        except ValueError:  # a statement that refuses such data, in a sentence
            refused[statement] += 1
            continue
        tried[statement] += 1
        wrong += len(found)
        for text in found:
            print(text, flush=True)
        if sum(tried.values()) % 1_000 == 0:
            print(f"{sum(tried.values()):,} problems up to seed {seed}, {wrong} violations", flush=True)
    for statement, count in sorted(tried.items()):
        print(f"{statement:10} {count:7,} ({refused[statement]:,} refused as statements)")
    print(f"{sum(tried.values()):,} problems, seeds from {options.seed}, {wrong} violations")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
