"""Errors of nearest neighbors under metrics learned from pairs of distances, as a Markdown table.

Run it with ``python examples/benchmarks/pair_accuracy.py``, SDPMETRIC_DATA being the folder of the data sets (or
``--data FOLDER``). The protocol of Jain et al. (2008): 10,000 random pairs of training examples; similar ones are to be
at most the 5th percentile of their squared distances apart, dissimilar ones at least the 95th. Settings come from
training data only: the learning rates of LEGO and of online ITML, POLA's threshold and gamma from 2,000 further pairs
(the least cumulative loss; the fewest mistakes), gamma of the offline learner from the leave-one-out error on training
data.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit
from sklearn.preprocessing import MinMaxScaler, StandardScaler

import sdpmetric as sm
from sdpmetric import datasets
from sdpmetric.classification.nearest import knn_predict

sys.path.insert(0, str(Path(__file__).parents[1] / "reproductions"))
import rivals

SCALERS = {"standard": StandardScaler, "unit": MinMaxScaler, "none": None}
SPLITS = {
    "folds": StratifiedKFold(5, shuffle=True, random_state=0),
    "holdouts": StratifiedShuffleSplit(5, test_size=0.3, random_state=0),
}
LEARNERS = ("Euclidean", "LEGO", "POLA", "ITML online", "LogDet offline")


def draw(rng: np.random.Generator, X: np.ndarray, y: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Random pairs of different examples, and whether they are similar."""
    pairs = rng.integers(0, len(X), (2 * n + 100, 2))
    pairs = pairs[(X[pairs[:, 0]] != X[pairs[:, 1]]).any(axis=1)][:n].astype(np.int32)
    return pairs, y[pairs[:, 0]] == y[pairs[:, 1]]


def pola(X: np.ndarray, first: tuple, then: tuple) -> np.ndarray:
    """POLA with the threshold and gamma of fewest mistakes on the first pairs, then over the others."""
    tries = [(b, gamma) for b in (1.0, 2.0, 5.0) for gamma in (None, 1.0, 10.0, 100.0)]
    mistakes = [sm.POLAStream(X.shape[1], *setting).partial_fit(X, *first).mistakes for setting in tries]
    components = sm.POLAStream(X.shape[1], *tries[int(np.argmin(mistakes))]).partial_fit(X, *then).components
    return components if len(components) else np.zeros((1, X.shape[1]))


def offline(X: np.ndarray, y: np.ndarray, pairs: np.ndarray, similar: np.ndarray, bounds: tuple, k: int) -> np.ndarray:
    """ITML with slack, gamma by the leave-one-out error on training data."""
    problems = [sm.ITMLProblem(X, pairs, similar, *bounds, gamma) for gamma in (0.1, 1.0, 10.0)]
    tries = [sm.solve(problem, tol=1e-3, max_time=20).components for problem in problems]
    return min(tries, key=lambda L: np.mean(knn_predict(L, X, y, None, k) != y))


def errors(name: str, args: argparse.Namespace) -> Iterator[dict[str, float]]:
    """Percent of errors of each learner, for one split after another."""
    X, y = datasets.load(name)
    X = np.asarray(X, dtype=np.float64)
    for seed, (train, test) in enumerate(SPLITS[args.splits].split(X, y)):
        scaler = SCALERS[args.scaling]
        scaled = scaler().fit(X[train]).transform(X) if scaler else X
        scaled = scaled[:, X[train].std(axis=0) > 0]
        A, B = scaled[train], scaled[test]
        # A mean squared distance of 1: LEGO, ITML and Euclidean do not depend on it, POLA does.
        size = np.sqrt(2 * A.var(axis=0).sum())
        A, B, labels = A / size, B / size, y[train]
        rng = np.random.default_rng(seed)
        pairs, similar = draw(rng, A, labels, args.pairs)
        some, some_similar = draw(rng, A, labels, args.pretraining)
        low, high = np.percentile(np.sum((A[pairs[:, 0]] - A[pairs[:, 1]]) ** 2, axis=1), [5, 95])

        def stated(rows: np.ndarray, flags: np.ndarray, low: float = low, high: float = high) -> tuple:
            return rows, np.where(flags, low, high), np.where(flags, 1, -1)

        first, then = stated(some, some_similar), stated(pairs, similar)
        metrics = {
            "Euclidean": np.eye(A.shape[1]),
            "LEGO": sm.LEGOStream.pretrained(A, *first).partial_fit(A, *then).components,
            "POLA": pola(A, (some, some_similar), (pairs, similar)),
            "ITML online": rivals.online_itml(A, *then, rivals.itml_rate(A, *first))[0],
            "LogDet offline": offline(A, labels, pairs, similar, (low, high), args.neighbors),
        }
        yield {
            learner: 100.0 * float(np.mean(knn_predict(L, A, labels, B, args.neighbors) != y[test]))
            for learner, L in metrics.items()
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of the data sets; default: the variable SDPMETRIC_DATA")
    parser.add_argument("--sets", nargs="+", default=["wine", "iris", "balance", "ionosphere", "digits"])
    parser.add_argument("--scaling", choices=SCALERS, default="standard")
    parser.add_argument("--splits", choices=SPLITS, default="folds")
    parser.add_argument("--neighbors", type=int, default=3)
    parser.add_argument("--pairs", type=int, default=10_000)
    parser.add_argument("--pretraining", type=int, default=2000)
    args = parser.parse_args()
    if args.data:
        os.environ["SDPMETRIC_DATA"] = args.data
    print(
        f"Percent of errors, mean and standard error of 5 {args.splits}; {args.neighbors} neighbors, features scaled: "
        f"{args.scaling}.\n\n| data | {' | '.join(LEARNERS)} | LEGO less Euclidean | LEGO less offline |\n"
        f"| --- | {' | '.join('---' for _ in LEARNERS)} | --- | --- |"
    )
    for name in args.sets:
        found = list(errors(name, args))
        columns = {learner: np.array([row[learner] for row in found]) for learner in LEARNERS}
        columns["a"] = columns["LEGO"] - columns["Euclidean"]
        columns["b"] = columns["LEGO"] - columns["LogDet offline"]
        shown = [f"{v.mean():.1f} ± {v.std(ddof=1) / np.sqrt(len(v)):.1f}" for v in columns.values()]
        print(f"| {name} | {' | '.join(shown)} |", flush=True)


if __name__ == "__main__":
    main()
