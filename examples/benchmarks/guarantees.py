"""How often guaranteed thresholds fail, and what they keep, as Markdown tables.

Run it with ``python examples/benchmarks/guarantees.py``, SDPMETRIC_DATA being the folder of the data sets (or ``--data
FOLDER``). Simulated distances are normal, those of dissimilar pairs with mean 3 and of similar pairs with mean 0; their
true shares are known. For independent pairs the matches are drawn as what they are, an order statistic. Dependent pairs
are all pairs of few examples, each of which has a number of its own that is added to its distances.
"""

from __future__ import annotations

import argparse
import os

import numpy as np
from scipy.stats import norm

from sdpmetric import datasets
from sdpmetric.classification import guaranteed_threshold

DELTA = 0.05
ALPHAS = (0.1, 0.01, 0.05)
ROW = "| {} | {} | {} | {} | {} |"
HEAD = "| pairs | alpha | violations | similar pairs kept | by the best threshold |\n| --- | --- | --- | --- | --- |"


def independent(n: int, alpha: float, splits: int, rng: np.random.Generator) -> tuple[float, float] | None:
    """Share of splits above alpha, and share of similar pairs kept, for n dissimilar pairs."""
    found = guaranteed_threshold(np.arange(n), np.zeros(n), alpha=alpha, delta=DELTA)
    if found.threshold is None:
        return None
    # The share of dissimilar pairs nearer than the k-th of n is that of the k-th smallest of n uniform numbers.
    k = found.n_errors + 1
    shares = np.concatenate([np.partition(rng.random((50, n)), k - 1, axis=1)[:, k - 1] for _ in range(splits // 50)])
    return float(np.mean(shares > alpha)), float(norm.cdf(norm.ppf(shares) + 3.0).mean())


def precision(n: int, alpha: float, splits: int, rng: np.random.Generator) -> tuple[float, float, float]:
    """Share of splits whose precision is too low, share of similar pairs kept, and that of the best threshold."""
    grid = np.linspace(-4.0, 8.0, 20_001)
    wrong = norm.cdf(grid, 3.0) / np.maximum(norm.cdf(grid, 3.0) + norm.cdf(grid), 1e-300)
    failed, kept = 0, 0.0
    for _ in range(splits):
        same = rng.random(n) < 0.5
        limit = guaranteed_threshold(
            rng.normal(np.where(same, 0.0, 3.0)), same, alpha=alpha, delta=DELTA, control="precision"
        ).threshold
        if limit is not None:
            failed += bool(norm.cdf(limit, 3.0) > alpha * (norm.cdf(limit, 3.0) + norm.cdf(limit)))
            kept += float(norm.cdf(limit))
    return failed / splits, kept / splits, float(norm.cdf(grid[np.flatnonzero(wrong <= alpha)[-1]]))


def dependent(n_examples: int, alpha: float, splits: int, rng: np.random.Generator) -> tuple[float, float, float]:
    """Shares of splits above alpha with groups and without, and of similar pairs kept with groups."""
    pairs = np.stack(np.triu_indices(n_examples, 1), axis=1)
    spread = np.sqrt(1.0 + 2.0 * 0.5)
    failed, kept = np.zeros(2), 0.0
    for split in range(splits):
        own = rng.normal(scale=np.sqrt(0.5), size=n_examples)
        apart = 3.0 * spread + own[pairs].sum(axis=1) + rng.normal(size=len(pairs))
        for way, groups in enumerate((pairs, None)):
            limit = guaranteed_threshold(
                apart, np.zeros(len(pairs)), alpha=alpha, delta=DELTA, groups=groups, random_state=split
            ).threshold
            if limit is not None:
                failed[way] += norm.cdf(limit / spread - 3.0) > alpha
                kept += (way == 0) * float(norm.cdf(limit / spread))
    return float(failed[0] / splits), float(failed[1] / splits), kept / splits


def distances(X: np.ndarray, pairs: np.ndarray, *, cosine: bool) -> np.ndarray:
    """Euclidean or cosine distances of pairs of rows."""
    rows = X / np.linalg.norm(X, axis=1, keepdims=True) if cosine else X
    return np.concatenate(
        [np.linalg.norm(rows[part[:, 0]] - rows[part[:, 1]], axis=1) for part in np.array_split(pairs, 20)]
    )


def replayed(name: str, alpha: float, draws: int, rng: np.random.Generator) -> tuple[float, float, float, float, int]:
    """Violations with the guarantee and without it, similar pairs kept by it and by the best threshold, and pairs used.

    The population is a sample of the pairs of all examples; each draw calibrates on disjoint pairs of random examples.
    """
    X, y = datasets.load(name)
    X = np.asarray(X, dtype=np.float64)
    every = rng.integers(0, len(X), (200_000, 2))
    every = every[every[:, 0] != every[:, 1]]
    same = y[every[:, 0]] == y[every[:, 1]]
    mates = np.argsort(y, kind="stable")
    mates = np.stack([mates, np.roll(mates, 1)], axis=1)
    mates = mates[y[mates[:, 0]] == y[mates[:, 1]]]
    cosine = name == "banking77"
    apart, near = np.sort(distances(X, every[~same], cosine=cosine)), np.sort(distances(X, mates, cosine=cosine))
    failed, kept, used = np.zeros(2), 0.0, 0
    for split in range(draws):
        pairs = rng.permutation(len(X))[: len(X) // 2 * 2].reshape(-1, 2)
        pairs = pairs[y[pairs[:, 0]] != y[pairs[:, 1]]][:1000]
        given = distances(X, pairs, cosine=cosine)
        found = guaranteed_threshold(
            given, np.zeros(len(pairs)), alpha=alpha, delta=DELTA, groups=pairs, random_state=split
        )
        limits = (-np.inf if found.threshold is None else found.threshold, np.quantile(given, alpha, method="lower"))
        for way, limit in enumerate(limits):
            failed[way] += np.searchsorted(apart, limit, "right") > alpha * len(apart)
        kept, used = kept + np.searchsorted(near, limits[0], "right") / len(near), found.n_pairs
    best = np.searchsorted(near, np.quantile(apart, alpha), "right") / len(near)
    return float(failed[0] / draws), float(failed[1] / draws), float(kept / draws), float(best), used


def main(arguments: list[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of the data sets; default: the variable SDPMETRIC_DATA")
    parser.add_argument("--splits", type=int, default=10_000, help="simulated splits")
    parser.add_argument("--draws", type=int, default=300, help="draws from each data set")
    parser.add_argument("--sets", nargs="*", default=["banking77", "yaleb", "letters"])
    parser.add_argument("--sizes", type=int, nargs="+", default=[50, 500, 5000, 50_000])
    args = parser.parse_args(arguments)
    if args.data:
        os.environ["SDPMETRIC_DATA"] = args.data
    rng = np.random.default_rng(0)
    print(f"False matches, {args.splits:,} splits, delta {DELTA}.\n\n{HEAD}")
    for n in args.sizes:
        for alpha in sorted(ALPHAS):
            found, best = independent(n, alpha, args.splits, rng), f"{norm.cdf(norm.ppf(alpha) + 3.0):.3f}"
            shown = ("too few", "") if found is None else (f"{found[0]:.4f}", f"{found[1]:.3f}")
            print(ROW.format(f"{n:,}", alpha, *shown, best), flush=True)
    for n in (500, 5000):
        failed, kept, best = precision(n, 0.05, args.splits, rng)
        print(ROW.format(f"{n:,}, precision", 0.05, f"{failed:.4f}", f"{kept:.3f}", f"{best:.3f}"), flush=True)
    print("\n| examples | alpha | violations, disjoint pairs | all pairs as if independent | kept |")
    print("| --- | --- | --- | --- | --- |")
    for n_examples, alpha in ((60, 0.1), (120, 0.05)):
        with_groups, without, kept = dependent(n_examples, alpha, args.splits, rng)
        print(ROW.format(n_examples, alpha, f"{with_groups:.4f}", f"{without:.4f}", f"{kept:.3f}"), flush=True)
    print(f"\nReplayed, {args.draws} draws of up to 1,000 disjoint dissimilar pairs.\n")
    print("| data | alpha | pairs | violations | of the empirical quantile | kept | by the best threshold |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name in args.sets:
        for alpha in (0.01, 0.05):
            *shares, used = replayed(name, alpha, args.draws, rng)
            print(f"| {name} | {alpha} | {used:,} | {' | '.join(f'{share:.3f}' for share in shares)} |", flush=True)


if __name__ == "__main__":
    main()
