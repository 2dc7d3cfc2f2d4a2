"""FRML on digits, USPS and others, classes as relevance: WARP, AUC and Euclidean, and what gamma = 25 saves.

Run it with ``python examples/benchmarks/frml_digits.py [--data DIR] [--only digits letters]``, DIR that of usps.npz and
the others; it prints a table in Markdown. Items are 80 of 100 rows and queries the others, at random; USPS is also
split as published (items are the training images, queries the test images, which are known to be harder), and isolet
only so: of its five groups of speakers the first is the items and the last the queries. Features are brought to a mean
squared distance of 1 between two items. The step of each loss is chosen by MAP on a fifth of the items, for WARP with
gamma = 25; both gammas then take the same number of steps of the same lengths. The rank is 60, or the number of
features.
"""

import argparse
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import sdpmetric as sm
from sdpmetric import ranking
from sdpmetric.ranking import frml_solver as frml

RANK, REGULARIZATION = 60, 0.001
CHOICES = [{"step": 3.0}, {"step": 30.0}]


def splits(folder: Path) -> dict[str, Callable[[], tuple]]:
    """Items, queries and the labels of both, by name; loaded when called."""

    def at_random(name: str, rows: int | None = None) -> tuple:
        X, y, _ = from_file(name)
        return train_test_split(X[:rows], y[:rows], test_size=0.2, random_state=0, stratify=y[:rows])

    def published(name: str) -> tuple:
        X, y, n = from_file(name)
        return X[:n], X[n:], y[:n], y[n:]

    def from_file(name: str) -> tuple:
        with np.load(folder / f"{name}.npz") as file:
            return file["X"].astype(float), file["y"], int(file.get("n_train", 0))

    def digits() -> tuple:
        X, y = load_digits(return_X_y=True)
        return train_test_split(X, y, test_size=0.2, random_state=0, stratify=y)

    return {
        "digits": digits,
        "USPS": partial(at_random, "usps"),
        "USPS, published split": partial(published, "usps"),
        "isolet, two of five groups": partial(published, "isolet_1_5"),
        "letters": partial(at_random, "letters"),
        "MNIST, first 10,000": partial(at_random, "mnist", 10_000),
    }


def learn(X: np.ndarray, y: np.ndarray, loss: str, gamma: float, passes: int, step: float):
    """A stream after so many passes; the step falls as 1 / (1 + pass / 10)."""
    rank = min(RANK, X.shape[1])
    stream = sm.FRMLStream(
        X.shape[1],
        rank,
        loss=loss,
        gamma=gamma,
        regularization=REGULARIZATION,
        step=step,
        decay=0.1 * 5 / len(X),
        init=frml.principal(X, rank, 20.0),
    )
    relevance = sm.Relevance.from_labels(y)
    began = time.process_time()
    stream.partial_fit(X, relevance, n_steps=passes * len(X) // 5)
    return stream, time.process_time() - began


def scores(X, y, Q, asked, components=None) -> ranking.RankingScores:
    return ranking.evaluate(X, sm.Relevance.from_labels(y, asked), Q, components=components)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("SDPMETRIC_DATA", ".")))
    parser.add_argument("--passes", type=int, default=2)
    parser.add_argument("--only", nargs="*", help="names of data; default: all")
    args = parser.parse_args()
    learn(np.random.default_rng(0).normal(size=(40, 61)), np.arange(40) % 2, "warp", 1.0, 1, 0.01)  # compiles
    print(f"rank {RANK}, regularization {REGULARIZATION}, {args.passes} passes (digits: {5 * args.passes})\n")
    print("| data | method | MAP | P@1 | P@10 | evaluations of f_q | CPU seconds | chosen |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, load in splits(args.data).items():
        if args.only and name not in args.only:
            continue
        X, Q, y, asked = load()
        unit = np.sqrt(frml.mean_squared_distance(X))
        X, Q = X / unit, Q / unit
        print(row(name, "Euclidean", scores(X, y, Q, asked), "", "", {}), flush=True)
        P, H, p, h = train_test_split(X, y, test_size=0.2, random_state=0, stratify=y)
        best = {}
        for loss, gamma in (("auc", 1.0), ("warp", 1.0), ("warp", 25.0)):
            if loss not in best:
                tried = [scores(P, p, H, h, learn(P, p, loss, 25.0, 2, **one)[0].components).map for one in CHOICES]
                best[loss] = CHOICES[int(np.argmax(tried))]
            stream, seconds = learn(X, y, loss, gamma, args.passes * (5 if name == "digits" else 1), **best[loss])
            method = "FRML-AUC" if loss == "auc" else f"FRML-WARP, gamma {gamma:g}"
            found = scores(X, y, Q, asked, stream.components)
            print(row(name, method, found, f"{stream.n_evaluations:,}", f"{seconds:.1f}", best[loss]), flush=True)


def row(name, method, found: ranking.RankingScores, evaluations: str, seconds: str, chosen: dict) -> str:
    options = ", ".join(f"{key} {value:g}" for key, value in chosen.items())
    measures = [f"{value:.4f}" for value in (found.map, found.precision(1), found.precision(10))]
    return f"| {' | '.join([name, method, *measures, evaluations, seconds, options])} |"


if __name__ == "__main__":
    main()
