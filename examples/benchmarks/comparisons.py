"""People's answers about 85 shoes, learned from with and without features, as a table.

Run it with ``python examples/benchmarks/comparisons.py --data FOLDER`` (default: SDPMETRIC_DATA), the folder of
shoes.npz. Errors are those on 50,000 answers that nothing has seen; seconds are processor time after a fit that is not
counted. Each number is the mean over ``--seeds`` draws of answers.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import subprocess
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import FunctionTransformer, normalize

from sdpmetric.estimators import LMNN, OrdinalEmbedding, TripletClassifier

N_TEST, TRACES = 50_000, [0.3, 0.1, 0.05, 0.03, 0.01]


def learners(X: np.ndarray) -> dict[str, object]:
    """What is compared, by name."""
    centered = X - X.mean(axis=0)
    kernel = centered @ centered.T
    raw = FrozenEstimator(FunctionTransformer().fit(X))
    cosine = FrozenEstimator(FunctionTransformer(normalize).fit(X))
    return {
        "features as they are": TripletClassifier(raw, examples=X),
        "features, cosine": TripletClassifier(cosine, examples=X),
        "features, `LMNN()` from triplets": TripletClassifier(LMNN(), examples=X),
        "no features, `LMNN()` from triplets": TripletClassifier(LMNN(), examples=np.eye(len(X))),
        "no features, `OrdinalEmbedding()`": OrdinalEmbedding(),
        "features as `kernel=` of `OrdinalEmbedding`": OrdinalEmbedding(kernel=kernel * len(X) / np.trace(kernel)),
        "no features, `GridSearchCV` over 5 traces, 3 folds": GridSearchCV(
            OrdinalEmbedding(trace=0.1), {"trace": TRACES}, cv=3
        ),
    }


def measured(learner: object, seen: np.ndarray, held: np.ndarray) -> tuple[float, float]:
    """The share of wrong answers, and seconds of processor time."""
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        learner.fit(seen)
    return 1.0 - learner.score(held), time.process_time() - began


def main(argv: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("SDPMETRIC_DATA", ".")))
    parser.add_argument("--sizes", type=int, nargs="+", default=[2000, 20_000])
    parser.add_argument("--seeds", type=int, default=2)
    args = parser.parse_args(argv)
    stored = np.load(args.data / "shoes.npz")
    X, triplets = stored["X"].astype(np.float64), stored["triplets"].astype(np.int64)
    for learner in learners(X).values():
        measured(learner, triplets[::1000], triplets[:10])
    print("| learned from | " + " | ".join(f"{m:,} answers: wrong | seconds" for m in args.sizes) + " |")
    print("| --- |" + " ---: | ---: |" * len(args.sizes))
    for name in learners(X):
        cells = [name]
        for m in args.sizes:
            runs = []
            for seed in range(args.seeds):
                rows = np.random.default_rng(seed).permutation(len(triplets))
                seen, held = triplets[rows[N_TEST : N_TEST + m]], triplets[rows[:N_TEST]]
                runs.append(measured(learners(X)[name], seen, held))
            error, seconds = np.mean(runs, axis=0)
            cells += [f"{100 * error:.1f} %", f"{seconds:.1f}"]
        print("| " + " | ".join(cells) + " |", flush=True)
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=Path(__file__).parent, check=False
    )
    today, cores = datetime.datetime.now(tz=datetime.UTC).date(), os.cpu_count()
    print(f"\n{today}, commit {commit.stdout.strip() or 'unknown'}, {platform.machine()} with {cores} cores.")


if __name__ == "__main__":
    main()
