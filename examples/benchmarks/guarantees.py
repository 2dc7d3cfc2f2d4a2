"""How often guaranteed thresholds fail, and what they keep, as Markdown tables.

Run it with ``python examples/benchmarks/guarantees.py``, SDPMETRIC_DATA being the folder of the data sets (or ``--data
FOLDER``). Every design has a known or enumerated population of pairs, so that the true share of errors of a threshold
is exact. A draw violates the guarantee if that share exceeds alpha.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, norm

from sdpmetric import datasets
from sdpmetric.classification import guaranteed_threshold
from sdpmetric.estimators import RCA, PairClassifier

DELTA = 0.05
# Each of the two is exceeded by chance in one of 20 runs where the guarantee is exact: by one row, by any of the rows.
CONFIDENCE = 0.95
SHIFT = 3.0  # Distance of the normal distributions of similar and of dissimilar pairs.

Pairs = tuple[NDArray[np.float64], NDArray[np.bool_]]


@dataclass(frozen=True)
class Design:
    """How labeled pairs are drawn, and for new ones the shares of dissimilar and of similar pairs that are matches.

    `odds` is the share of similar pairs among new ones.
    """

    name: str
    draw: Callable[[np.random.Generator], Pairs]
    dissimilar: Callable[[float], float]
    similar: Callable[[float], float]
    odds: float
    control: str = "false_matches"
    alpha: float = 0.05

    def share(self, limit: float) -> float:
        """The true share of errors at a threshold."""
        if self.control == "false_matches":
            return self.dissimilar(limit)
        if self.control == "false_non_matches":
            return 1.0 - self.similar(limit)
        false, true = (1.0 - self.odds) * self.dissimilar(limit), self.odds * self.similar(limit)
        return false / (false + true) if false + true > 0.0 else 0.0


def row(design: Design, draws: int, seed: int) -> str:
    """Draws, violations, thresholds that exist, and similar pairs that are matches, of one design."""
    rng, violations, kept = np.random.default_rng(seed), 0, []
    for _ in range(draws):
        limit = guaranteed_threshold(
            *design.draw(rng), alpha=design.alpha, delta=DELTA, control=design.control
        ).threshold
        if limit is not None:
            violations += design.share(limit) > design.alpha
            kept.append(design.similar(limit))
    shown = f"{np.mean(kept):.3f}" if kept else "-"
    return f"| {design.name} | {design.control} | {design.alpha} | {violations} | {len(kept):,} | {shown} |"


def steps(values: NDArray[np.float64]) -> Callable[[float], float]:
    """The share of a finite population that is at most as large as a threshold."""
    ordered = np.sort(values)
    return lambda limit: float(np.searchsorted(ordered, limit, "right") / len(ordered))


def normal(n: int, control: str, alpha: float) -> Design:
    """Independent pairs whose distances are normal."""

    def draw(rng: np.random.Generator) -> Pairs:
        similar = rng.random(n) < 0.5
        return rng.normal(np.where(similar, 0.0, SHIFT)), similar

    return Design(
        f"{n:,} normal distances",
        draw,
        lambda limit: float(norm.cdf(limit, SHIFT)),
        lambda limit: float(norm.cdf(limit)),
        0.5,
        control,
        alpha,
    )


def hub(control: str, *, disjoint: bool = False) -> Design:
    """2,000 independent pairs, one item being in 30 % of the dissimilar ones; or those of them that share no item."""

    def draw(rng: np.random.Generator) -> Pairs:
        similar = rng.random(2000) < 0.5
        famous = ~similar & (rng.random(2000) < 0.3)
        values = np.where(similar | famous, rng.uniform(0, 1, 2000), rng.uniform(1, 2, 2000))
        chosen = ~famous | (np.cumsum(famous) == 1) if disjoint else np.ones(2000, dtype=bool)
        return values[chosen], similar[chosen]

    return Design(
        f"one item in 30 % of 2,000 pairs{', those without a common item' if disjoint else ''}",
        draw,
        lambda limit: float(0.3 * np.clip(limit, 0, 1) + 0.7 * np.clip(limit - 1, 0, 1)),
        lambda limit: float(np.clip(limit, 0, 1)),
        0.5,
        control,
        0.05 if control == "false_matches" else 0.3,
    )


def classes(rng: np.random.Generator, sizes: Sequence[int]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Items of classes whose centers and spreads differ, three features each."""
    y = np.repeat(np.arange(len(sizes)), sizes)
    centers, spreads = rng.normal(scale=2.0, size=(len(sizes), 3)), rng.uniform(0.5, 1.5, len(sizes))
    return centers[y] + spreads[y, None] * rng.normal(size=(len(y), 3)), y


def between(X: NDArray[np.float64], pairs: NDArray[np.int64], *, cosine: bool = False) -> NDArray[np.float64]:
    """Euclidean or cosine distances of pairs of rows."""
    rows = X / np.linalg.norm(X, axis=1, keepdims=True) if cosine else X
    return np.concatenate(
        [np.linalg.norm(rows[block[:, 0]] - rows[block[:, 1]], axis=1) for block in np.array_split(pairs, 20)]
    )


def collection(
    name: str, values: NDArray[np.float64], same: NDArray[np.bool_], n: int, control: str, alpha: float
) -> Design:
    """n pairs at random with replacement from a list of pairs, which is also the population."""

    def draw(rng: np.random.Generator) -> Pairs:
        rows = rng.integers(len(values), size=n)
        return values[rows], same[rows]

    return Design(name, draw, steps(values[~same]), steps(values[same]), float(same.mean()), control, alpha)


def fresh(n: int, control: str, alpha: float) -> Design:
    """Two fresh items for each pair, their classes drawn with shares of a half and five tenths."""
    rng = np.random.default_rng(1)
    centers, shares = rng.normal(scale=2.0, size=(6, 3)), np.array([0.5, *[0.1] * 5])

    def drawn(rng: np.random.Generator, count: int) -> Pairs:
        y = rng.choice(6, size=(count, 2), p=shares)
        X = centers[y] + rng.normal(size=(count, 2, 3))
        return np.linalg.norm(X[:, 0] - X[:, 1], axis=1), y[:, 0] == y[:, 1]

    values, same = drawn(rng, 4_000_000)
    return Design(
        f"{n:,} pairs of fresh items of 6 classes",
        lambda rng: drawn(rng, n),
        steps(values[~same]),
        steps(values[same]),
        float(same.mean()),
        control,
        alpha,
    )


def gallery(n: int, *, probes: int | None = None) -> Design:
    """Probes against a fixed gallery of 60 templates: a fresh probe for each of n pairs, or all pairs of some probes.

    Probes of each person are normal around his or her template. Half of the fresh probes meet their own template.
    """
    rng = np.random.default_rng(2)
    templates = 1.2 * rng.normal(size=(60, 4))

    def drawn(rng: np.random.Generator, count: int) -> Pairs:
        person, other = rng.integers(60, size=count), rng.integers(59, size=count)
        other += other >= person
        same = rng.random(count) < 0.5
        X = templates[person] + 0.6 * rng.normal(size=(count, 4))
        return np.linalg.norm(X - templates[np.where(same, person, other)], axis=1), same

    def every(rng: np.random.Generator) -> Pairs:
        person = rng.integers(60, size=probes)
        X = templates[person] + 0.6 * rng.normal(size=(len(person), 4))
        distances = np.linalg.norm(X[:, None] - templates, axis=2)
        return distances.ravel(), (person[:, None] == np.arange(60)).ravel()

    values, same = drawn(rng, 4_000_000)
    return Design(
        f"all pairs of {probes} probes and 60 templates"
        if probes
        else f"{n:,} pairs of a fresh probe and one of 60 templates",
        every if probes else lambda rng: drawn(rng, n),
        steps(values[~same]),
        steps(values[same]),
        0.5,
    )


def crossed(n_items: int, alpha: float) -> Design:
    """All pairs of few items, each of which adds a number of its own to its distances."""
    pairs = np.stack(np.triu_indices(n_items, 1), axis=1)
    spread = np.sqrt(2.0)

    def draw(rng: np.random.Generator) -> Pairs:
        own = rng.normal(scale=np.sqrt(0.5), size=n_items)
        values = SHIFT * spread + own[pairs].sum(axis=1) + rng.normal(size=len(pairs))
        return values, np.zeros(len(pairs), dtype=bool)

    return Design(
        f"all {len(pairs):,} pairs of {n_items} items",
        draw,
        lambda limit: float(norm.cdf(limit / spread, SHIFT)),
        lambda limit: float(norm.cdf(limit / spread)),
        0.0,
        alpha=alpha,
    )


def new_items(n: int) -> Design:
    """Pairs with replacement from collections of 40 items, judged by pairs of other items from the same classes."""
    rng = np.random.default_rng(3)
    centers = rng.normal(scale=2.0, size=(4, 3))

    def items(rng: np.random.Generator, count: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        y = rng.integers(4, size=count)
        return centers[y] + rng.normal(size=(count, 3)), y

    def draw(rng: np.random.Generator) -> Pairs:
        X, y = items(rng, 40)
        pairs = rng.integers(40, size=(2 * n, 2))
        pairs = pairs[pairs[:, 0] != pairs[:, 1]][:n]
        return between(X, pairs), y[pairs[:, 0]] == y[pairs[:, 1]]

    X, y = items(rng, 4_000_000)
    values = np.linalg.norm(X[::2] - X[1::2], axis=1)
    same = y[::2] == y[1::2]
    return Design(
        f"{n:,} pairs of 40 items with replacement, for pairs of other items",
        draw,
        steps(values[~same]),
        steps(values[same]),
        float(same.mean()),
    )


def learned(control: str, alpha: float, draws: int, seed: int) -> str:
    """`PairClassifier` with RCA on 400 pairs, with replacement, of 100 items, its threshold on half of them."""
    rng = np.random.default_rng(seed)
    X, y = classes(rng, (50, 20, 10, 10, 5, 5))
    every = np.stack(np.triu_indices(len(X), 1), axis=1)
    same = y[every[:, 0]] == y[every[:, 1]]
    violations, kept = 0, []
    for draw in range(draws):
        rows = rng.integers(len(every), size=400)
        classifier = PairClassifier(RCA(), examples=X, guarantee=control, alpha=alpha, delta=DELTA, random_state=draw)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that pairs share items, which independent pairs may
            try:
                matches = classifier.fit(every[rows], same[rows]).predict(every).astype(bool)
            except ValueError:  # too few pairs
                continue
        wrong = {
            "false_matches": matches[~same].mean(),
            "false_non_matches": 1.0 - matches[same].mean(),
            "precision": (~same[matches]).mean() if matches.any() else 0.0,
        }
        violations += wrong[control] > alpha
        kept.append(matches[same].mean())
    shown = f"{np.mean(kept):.3f}" if kept else "-"
    name = "`PairClassifier(RCA())`, 400 pairs of 100 items with replacement"
    return f"| {name} | {control} | {alpha} | {violations} | {len(kept):,} | {shown} |"


def stored(name: str, alpha: float) -> Design:
    """1,000 pairs of a data set: 200,000 of all its pairs are the population."""
    X, y = datasets.load(name)
    every = np.random.default_rng(4).integers(0, len(X), (200_000, 2))
    every = every[every[:, 0] != every[:, 1]]
    values = between(np.asarray(X, dtype=np.float64), every, cosine=name == "banking77")
    same = y[every[:, 0]] == y[every[:, 1]]
    return collection(f"1,000 pairs of {name} with replacement", values, same, 1000, "false_matches", alpha)


def main(arguments: list[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of the data sets; default: the variable SDPMETRIC_DATA")
    parser.add_argument("--draws", type=int, default=1000, help="draws from each design")
    parser.add_argument("--sets", nargs="*", default=["banking77", "yaleb", "letters"])
    args = parser.parse_args(arguments)
    if args.data:
        os.environ["SDPMETRIC_DATA"] = args.data
    rng = np.random.default_rng(0)
    X, y = classes(rng, (2000, *[400] * 5))
    pairs = rng.integers(0, len(X), (400_000, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    uneven, same = between(X, pairs), y[pairs[:, 0]] == y[pairs[:, 1]]
    Z, z = classes(rng, [60] * 3 + [4] * 300)
    mates = np.stack(np.triu_indices(len(Z), 1), axis=1)
    mates = mates[z[mates[:, 0]] == z[mates[:, 1]]]
    inside = [
        *(
            normal(n, "false_matches", alpha)
            for n, alpha in ((100, 0.1), (1000, 0.01), (1000, 0.05), (10_000, 0.01), (10_000, 0.05))
        ),
        normal(1000, "false_non_matches", 0.05),
        *(normal(n, "precision", 0.05) for n in (500, 5000)),
        fresh(2000, "false_matches", 0.05),
        fresh(2000, "false_non_matches", 0.05),
        fresh(2000, "precision", 0.5),
        *(hub(control) for control in ("false_matches", "precision")),
        gallery(2000),
        *(
            collection(f"{n:,} pairs of 4,000 items with replacement", uneven, same, n, control, alpha)
            for n in (1000, 10_000)
            for control, alpha in (("false_matches", 0.05), ("false_non_matches", 0.2))
        ),
        collection(
            "1,500 similar pairs, with replacement, of classes of 60 and of 4",
            between(Z, mates),
            np.ones(len(mates), dtype=bool),
            1500,
            "false_non_matches",
            0.1,
        ),
        *(stored(name, alpha) for name in args.sets for alpha in (0.01, 0.05)),
    ]
    outside = [
        hub("false_matches", disjoint=True),
        gallery(0, probes=20),
        crossed(60, 0.1),
        crossed(120, 0.05),
        new_items(1000),
    ]
    controls = (("false_matches", 0.1), ("false_non_matches", 0.2), ("precision", 0.5))
    n_rows = len(inside) + len(controls)
    one, every = (int(binom.ppf(share, args.draws, DELTA)) for share in (CONFIDENCE, CONFIDENCE ** (1.0 / n_rows)))
    head = "| labeled pairs | control | alpha | violations | thresholds | similar pairs that are matches |\n"
    head += "| --- | --- | ---: | ---: | ---: | ---: |"
    print(
        f"{args.draws:,} draws of each design at delta {DELTA}. If each draw failed with probability {DELTA}, a row "
        f"would have at most {one} violations with probability {CONFIDENCE}, and all {n_rows} rows at most {every}.\n"
    )
    print(f"{head}")
    for seed, design in enumerate(inside):
        print(row(design, args.draws, seed), flush=True)
    for control, alpha in controls:
        print(learned(control, alpha, args.draws, 0), flush=True)
    print(
        f"\nOutside of the guarantee: pairs that are no independent draws from the distribution of new ones.\n\n{head}"
    )
    for seed, design in enumerate(outside):
        print(row(design, args.draws, seed), flush=True)


if __name__ == "__main__":
    main()
