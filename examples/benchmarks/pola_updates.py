"""Online POLA's projection after a similar pair: ways to find the one negative eigenpair, on the same pairs.

    OPENBLAS_NUM_THREADS=1 python examples/benchmarks/pola_updates.py --data FOLDER --against CHECKOUT ..

prints Markdown: processor microseconds per pair, the least of five runs on one thread, of `sdpmetric.POLAStream`,
of the same loop with Lanczos' method alone, of a full decomposition after each similar pair, and of the `POLAStream` of
other checkouts of this repository. "normal" are 2,000 pairs of Gaussian points, half of them similar as a hidden metric
says; the others are 2,000 pairs of classes of a data set, scaled to a mean squared distance of 1.
"""

import argparse
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import numpy as np
from lego_against_pola import full_pola, make
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from threadpoolctl import threadpool_limits

import sdpmetric as sm

REPEATS, N_PAIRS = 5, 2_000
Stream = tuple[np.ndarray, np.ndarray, np.ndarray]


def of_classes(X: np.ndarray, y: np.ndarray, d: int) -> Stream:
    """Pairs of a random part of the data in d dimensions, half of them similar, in random order."""
    rng = np.random.default_rng(0)
    rows = rng.permutation(len(X))[:3000]
    X = np.asarray(X[rows], dtype=np.float64)
    X = PCA(d, random_state=0).fit_transform(X) if X.shape[1] > d else X
    pairs, similar = sm.constraints.pairs(y[rows], N_PAIRS // 2)
    order = rng.permutation(len(pairs))
    squares = np.sum((X[pairs[:, 0]] - X[pairs[:, 1]]) ** 2, axis=1)
    return X / np.sqrt(squares.mean()), pairs[order].astype(np.int32), similar[order]


def streams(folder: str | None) -> dict[str, Callable[[], Stream]]:
    made: dict[str, Callable[[], Stream]] = {
        f"normal, {d}": lambda d=d: make(d, N_PAIRS if d < 700 else N_PAIRS // 4)[:3] for d in (16, 64, 164, 200, 784)
    }
    made["digits, 64"] = lambda: of_classes(*load_digits(return_X_y=True), 64)
    if folder:
        os.environ["SDPMETRIC_DATA"] = folder
        for name, d in (("letters", 16), ("isolet_1_5", 164), ("usps", 256), ("mnist", 784)):
            made[f"{name}, {d}"] = lambda name=name, d=d: of_classes(*sm.datasets.load(name), d)
    return made


def seconds(task: Callable[[], object]) -> float:
    """Processor seconds, the least of some runs after one that compiles."""
    task()
    spent = []
    for _ in range(REPEATS):
        began = time.process_time()
        task()
        spent.append(time.process_time() - began)
    return min(spent)


def ours(stream: Stream) -> float:
    X, pairs, similar = stream
    return seconds(lambda: sm.POLAStream(X.shape[1]).partial_fit(X, pairs, similar))


def by_lanczos_alone(stream: Stream) -> float:
    """`ours` without the inverse."""
    from sdpmetric.pola import loops  # not in older checkouts

    def project(state: loops.State, d: int, due: int) -> None:
        state.totals[loops.LANCZOS_STEPS] = 0
        settle(state, d, due & loops.PROJECTION)

    settle = loops.settle
    with patch.object(loops, "settle", project):
        return ours(stream)


def elsewhere(checkout: str, stream: Stream) -> float:
    """`ours` with the package of another checkout, in a process of its own."""
    code = "import pickle, sys, pola_updates; print(pola_updates.ours(pickle.load(sys.stdin.buffer)))"
    path = os.pathsep.join((checkout, str(Path(__file__).parent)))
    arguments = {"input": pickle.dumps(stream), "env": os.environ | {"PYTHONPATH": path}, "cwd": checkout}
    return float(subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True, **arguments).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.environ.get("SDPMETRIC_DATA"), help="folder of data sets")
    parser.add_argument("--against", nargs="*", default=[], help="folders of other checkouts")
    parser.add_argument("--streams", nargs="*", help="names, by default all")
    args = parser.parse_args()
    ways = ["in use", "Lanczos alone", "full decomposition", *map(str, args.against)]
    print(f"| stream | {' | '.join(ways)} | in use over the best of the others |\n{'| --- ' * (len(ways) + 2)}|")
    for name, state in streams(args.data).items():
        if args.streams and name not in args.streams:
            continue
        stream = state()
        spent = [ours(stream), by_lanczos_alone(stream), np.inf]
        if stream[0].shape[1] < 500:
            spent[2] = seconds(lambda stream=stream: full_pola(*stream))
        spent += [elsewhere(checkout, stream) for checkout in args.against]
        cells = [f"{1e6 * each / len(stream[1]):.1f}" if np.isfinite(each) else "" for each in spent]
        print(f"| {name} | {' | '.join(cells)} | {spent[0] / min(spent[1:]):.2f} |", flush=True)


if __name__ == "__main__":
    with threadpool_limits(limits=1, user_api="blas"):
        main()
