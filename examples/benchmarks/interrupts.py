"""Ctrl-C at random moments of every solver and estimator: what each call ends with.

    python examples/benchmarks/interrupts.py --count 200 --seed 0

Each case runs once undisturbed, which says how long it takes and compiles its loops. Then it runs again, and this
process sends itself SIGINT at a random moment of that time. A call has to end with a certified point, or with a
KeyboardInterrupt where the solve has not begun yet, or has ended.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable

import numpy as np
from sklearn.datasets import make_blobs

import sdpmetric as sm
from sdpmetric import estimators
from sdpmetric.core.run import Run
from sdpmetric.core.solution import Solution

ROWS, FEATURES = 120, 4
# Estimators that learn from labels.
LABELED = ("LMNN", "KernelLMNN", "MultiMetricLMNN", "POLA", "MMC", "ITML", "RCA", "NCA", "LFDA", "LSML")
LABELED += ("SDML", "SCML", "FRML")
# Of an interrupt that came too late.
ENDED = "the call had ended"
Call = Callable[[], Solution | None]


def statements(X: np.ndarray, y: np.ndarray) -> list[Callable[[], sm.Problem]]:
    """Small problems of every statement."""
    pairs = np.array([[i, (i + 5) % len(X)] for i in range(len(X))])
    goals = np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1.0, 9.0)
    return [
        lambda: sm.LMNNProblem.from_labels(X, y, 2),
        lambda: sm.KernelLMNNProblem.from_labels(X, y, 2, ridge=0.01),
        lambda: sm.MultiMetricLMNNProblem.from_labels(X, y, 2),
        lambda: sm.POLAProblem.from_labels(X, y, 100),
        lambda: sm.MMCProblem.from_labels(X, y, 200),
        lambda: sm.ITMLProblem.from_labels(X, y, 100),
        lambda: sm.LEGOProblem(X, pairs, goals, learning_rate=0.1),
        lambda: sm.LEGOBatchProblem(sm.LEGOProblem(X, pairs, goals, learning_rate=0.1)),
        lambda: sm.NCAProblem(X, y),
        lambda: sm.MLKRProblem(X, y + 0.3 * X[:, 0]),
        lambda: sm.LSMLProblem.from_labels(X, y, 50),
        lambda: sm.SDMLProblem.from_labels(X, y, 50),
        lambda: sm.SCMLProblem.from_labels(X, y, 8, 2, 2, 0.01),
        lambda: sm.FRMLProblem.from_labels(X, y, 2, "auc", regularization=0.1),
    ]


def calls() -> dict[str, Call]:
    """Every statement with every solver, and every estimator that learns from labels."""
    X, y = make_blobs(ROWS, FEATURES, centers=3, cluster_std=3.0, random_state=0)
    found: dict[str, Call] = {}
    for state in statements(X, y):
        for entry in sm.solvers_of(state()):
            name = f"{type(state()).__name__}, {entry.name}"
            found[name] = lambda state=state, solver=entry.name: sm.solve(state(), solver, tol=1e-2, max_time=10)
    for name in (*LABELED, "MLKR"):
        targets = y + 0.3 * X[:, 0] if name == "MLKR" else y
        found[name] = lambda name=name, targets=targets: getattr(estimators, name)().fit(X, targets).solution_
    return found


def inside_of_run(error: BaseException) -> bool:
    """Whether an exception came out of the loop around solvers."""
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code is Run.over.__code__:
            return True
        trace = trace.tb_next
    return False


def outcome(call: Call, delay: float) -> tuple[str, float]:
    """What a call that is interrupted after some seconds ends with, and how long after that."""
    sent: list[float] = []

    def send() -> None:
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(delay, send)
    said = ENDED
    try:
        timer.start()
        solution = call()
        ended = time.perf_counter()
        if sent:
            proven = solution is not None and not np.isnan(solution.objective)
            said = f"certified point, {solution.status}" if proven and solution is not None else "FAILED: no point"
        timer.cancel()
        timer.join()
    except KeyboardInterrupt as error:
        ended = time.perf_counter()
        said = "FAILED: lost the answer" if inside_of_run(error) else "KeyboardInterrupt outside of the solve"
    except (ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError, ValueError) as error:
        ended = time.perf_counter()
        said = f"FAILED: {type(error).__name__}: {error}"
    return said, ended - sent[0] if sent else 0.0


def main() -> int:
    """Interrupt calls in turn and print how many ended how."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first case, to go on with a campaign")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    cases, seen, late = list(calls().items()), Counter[str](), (0.0, "")
    seconds: dict[str, float] = {}
    for k in range(options.first, options.first + options.count):
        name, call = cases[k % len(cases)]
        if name not in seconds:
            call()  # compiles
            began = time.perf_counter()
            call()
            seconds[name] = time.perf_counter() - began
        delay = np.random.default_rng([options.seed, k]).uniform(0.0, seconds[name])
        said, after = outcome(call, delay)
        while said == ENDED:  # before the interrupt came
            delay *= 0.5
            said, after = outcome(call, delay)
        seen[said] += 1
        late = max(late, (after, name))
        if said.startswith("FAILED"):
            print(f"{k}: {name} after {delay:.3f} s of {seconds[name]:.3f} s: {said}")
    for said, count in seen.most_common():
        print(f"{count:6d}  {said}")
    print(f"the latest answer came {late[0]:.2f} s after its interrupt ({late[1]})")
    return int(any(said.startswith("FAILED") for said in seen))


if __name__ == "__main__":
    sys.exit(main())
