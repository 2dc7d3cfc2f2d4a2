"""Neighbors under a metric that is being learned: an index that follows it, a linear scan, and two rivals.

Run it with ``OMP_NUM_THREADS=1 python examples/benchmarks/online_hashing.py --data DIR``, DIR (or SDPMETRIC_DATA)
with mnist.npz: the arrays X (70000, 784), the last 10,000 rows being the test digits, and y. It writes Markdown tables.

The index holds the 60,000 training digits and 40,000 copies of some of them, moved by one pixel; test digits ask for
300 neighbors. LEGO has taken 4,000 pairs before the clock starts; then each further pair is followed by a query.
"""

import argparse
import os
import time
from pathlib import Path

import numpy as np

import sdpmetric as sm

N, K, WARM = 100_000, 300, 4_000


def load(folder: Path, features: int, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    with np.load(folder / "mnist.npz") as file:
        X, y = file["X"].astype(np.float32) / 255, file["y"].astype(int)
    train, queries = X[:60_000], X[60_000:]
    chosen = rng.choice(60_000, N - 60_000, replace=False)
    moves = np.array([(-1, 0), (1, 0), (0, -1), (0, 1)])[rng.integers(4, size=len(chosen))]
    copies = [np.roll(train[i].reshape(28, 28), move, (0, 1)).ravel() for i, move in zip(chosen, moves, strict=True)]
    rows, labels = np.vstack([train, copies]), np.concatenate([y[:60_000], y[chosen]])
    center = train.mean(axis=0)
    if features < 784:
        axes = np.linalg.eigh(np.cov(train.T))[1][:, ::-1][:, :features].astype(np.float32)
        rows, queries, center = (rows - center) @ axes, (queries - center) @ axes, np.zeros(features)
    return np.ascontiguousarray(rows), labels, queries, y[60_000:], center


def pairs_of(y: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Pairs of one digit and of two in turn."""
    members = [np.flatnonzero(y == c) for c in range(10)]
    pairs = []
    for t in range(count):
        c, e = rng.choice(10, 2, replace=False)
        pairs.append(
            rng.choice(members[c], 2, replace=False) if t % 2 == 0 else (rng.choice(members[c]), rng.choice(members[e]))
        )
    return np.array(pairs)


class LinearScan:
    """Squared norms kept up to date by one product per update; one product per query."""

    def __init__(self, X: np.ndarray, components: np.ndarray) -> None:
        self.X, self.G = X, components.copy()
        Z = X @ components.T.astype(np.float32)
        self.norms = np.einsum("ij,ij->i", Z, Z)
        self.product = 0.0  # seconds of the products of queries

    def update(self, *steps: sm.MetricStep) -> None:
        for step in steps:
            scale = 2 * (step.column @ self.G @ step.row) / (step.row @ step.row) + step.column @ step.column
            self.norms += np.float32(scale) * (self.X @ step.row.astype(np.float32)) ** 2
            self.G = step.apply(self.G)

    def query(self, q: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        target = (self.G.T @ (self.G @ q)).astype(np.float32)
        start = time.perf_counter()
        products = self.X @ target
        self.product += time.perf_counter() - start
        values = self.norms - 2 * products
        found = np.argpartition(values, k)[:k]
        return found, values[found]


class FinalLSH:
    """faiss's LSH over the examples as the final metric embeds them; candidates ranked by their distances there."""

    def __init__(self, X: np.ndarray, components: np.ndarray, center: np.ndarray, bits: int) -> None:
        import faiss

        faiss.omp_set_num_threads(1)
        self.center, self.Gt = center.astype(np.float32), components.T.astype(np.float32)
        self.Z = np.ascontiguousarray((X - self.center) @ self.Gt)
        self.index = faiss.IndexLSH(self.Z.shape[1], bits)
        self.index.train(self.Z)
        self.index.add(self.Z)

    def query(self, q: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        z = (q - self.center) @ self.Gt
        near = np.sort(self.index.search(z[None], N // 10)[1][0])
        values = ((self.Z[near] - z) ** 2).sum(axis=1)
        best = np.argpartition(values, k)[:k]
        return near[best], values[best]


def run(data: tuple[np.ndarray, ...], rate: float, bits: int, rounds: int, seed: int) -> None:
    X, y, Q, answers, center = data
    rng = np.random.default_rng(seed)
    pairs = pairs_of(y[:60_000], WARM + rounds, rng)
    sample = rng.choice(60_000, (20_000, 2))
    low, high = np.percentile(np.sum((X[sample[:, 0]] - X[sample[:, 1]]) ** 2, axis=1), [5, 95])
    targets, sides = np.tile([low, high], (WARM + rounds) // 2), np.tile([1, -1], (WARM + rounds) // 2)
    stream = sm.LEGOStream(X.shape[1], rate)
    stream.partial_fit(X[:60_000], pairs[:WARM], targets[:WARM], sides[:WARM])

    scan = LinearScan(X, stream.components)
    systems = {"linear scan": scan}
    for name, share in (("index that follows", 0.1), ("rival: re-hashed lazily", 0.0)):
        small = sm.HashIndex(stream.components, bits, rehash_share=share, center=center).add(X[:5_000]).rehash()
        systems[name] = sm.HashIndex(stream.components, bits, rehash_share=share, center=center).add(X).rehash()
        for t in range(20):  # loads the compiled code, and half of these searches before it re-hashes
            small.update(sm.MetricStep(np.full(X.shape[1], 1e-4), X[t] - X[t + 1].astype(float)))
            small.query(Q[t], K)
        systems[name].query(Q[0], K)
    spent, right = dict.fromkeys(systems, 0.0), {name: [] for name in systems}
    asked = rng.choice(len(Q), rounds, replace=False)
    moved = 0
    for (i, j), target, side, q in zip(pairs[WARM:], targets[WARM:], sides[WARM:], asked, strict=True):
        steps = stream.update(X[i], X[j], target, int(side)).steps
        moved += len(steps)
        for name, system in systems.items():
            start = time.perf_counter()
            system.update(*steps)
            found = system.query(Q[q], K)[0]
            spent[name] += time.perf_counter() - start
            right[name].append(np.mean(y[found] == answers[q]))
    product = scan.product / rounds
    index, rival = systems["index that follows"], systems["rival: re-hashed lazily"]
    counters = str(index.counters)
    settled = {}
    for name, system in (("index, metric at rest", index.rehash()), ("faiss LSH", None)):
        if system is None:
            try:
                system = FinalLSH(X, stream.components, center, bits)
            except ImportError:
                print("faiss is not installed (pip install 'sdpmetric[faiss]'); its row is left out.")
                continue
        system.query(Q[0], K)
        start = time.perf_counter()
        right[name] = [np.mean(y[system.query(Q[q], K)[0]] == answers[q]) for q in asked]
        settled[name] = (time.perf_counter() - start) / rounds
    exact = np.mean([np.mean(y[scan.query(Q[q], K)[0]] == answers[q]) for q in asked])
    print(f"\n{X.shape[1]} features, learning rate {rate:g}, {bits} bits; {moved} of {rounds} pairs moved the metric\n")
    print("| what | ms per pair and query | one float32 product takes so many times that | relevant at 300 |")
    print("| --- | --- | --- | --- |")
    print(f"| one float32 matrix-vector product | {1e3 * product:.2f} | 1 | |")
    for name, seconds in spent.items():
        each = seconds / rounds
        print(f"| {name} | {1e3 * each:.2f} | {product / each:.2f} | {np.mean(right[name]):.2%} |")
    for name, each in settled.items():
        share = f"{np.mean(right[name]):.2%} (scan {exact:.2%})"
        print(f"| {name}, per query | {1e3 * each:.2f} | {product / each:.2f} | {share} |")
    ratio = spent["rival: re-hashed lazily"] / spent["index that follows"]
    print(f"\nThe rival takes {ratio:.2f} times the index's time, with {rival.counters.full_rehashes - 1} re-hashes.")
    print(f"Index: {counters}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("SDPMETRIC_DATA"), help="folder with mnist.npz")
    parser.add_argument("--features", type=int, nargs="+", default=[784], help="784, or fewer: principal components")
    parser.add_argument("--rates", type=float, nargs="+", default=[1e-5, 1e-6])
    parser.add_argument("--bits", type=int, nargs="+", default=[48])
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if given.data is None:
        raise SystemExit("name the folder that holds mnist.npz, with --data or SDPMETRIC_DATA.")
    for features in given.features:
        data = load(Path(given.data), features, np.random.default_rng(given.seed))
        for rate in given.rates:
            for bits in given.bits:
                run(data, rate, bits, given.rounds, given.seed)


if __name__ == "__main__":
    main()
