"""Whether ``max_time`` limits the solver and one certificate follows: statements and estimators on 20,000 x 100.

    python examples/benchmarks/limits.py [PART OF A NAME ...] [--seconds 0.5 2]

A solve may take its limit, one step, and 1.5 times the `certify` of its answer. The step is the one in which the limit
came: from one look at the clock to the next. The certificate is made again for a statement that has computed nothing
yet. An estimator has a preparation besides, which its limit counts but does not end. Kernels have 2,000 examples.

The clock is that of the processor, with one thread, so the load of the machine does not matter. Every solve runs in a
process of its own, which may take 8 GiB and 400 s, after a small one that compiles.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import fields

os.environ |= {"NUMBA_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1"}
LOOKS: list[float] = []


def clock() -> float:
    """Read the processor's clock and note the time."""
    LOOKS.append(time.process_time())
    return LOOKS[-1]


time.perf_counter = clock

import numpy as np  # noqa: E402
from sklearn.datasets import make_blobs  # noqa: E402

import sdpmetric as sm  # noqa: E402
from sdpmetric import estimators  # noqa: E402
from sdpmetric.core.run import Run  # noqa: E402
from sdpmetric.core.solution import Solution  # noqa: E402

ROWS, KERNEL_ROWS, FEATURES = 20_000, 2_000, 100
BYTES, LONGEST = 8 << 30, 400
Data = tuple[np.ndarray, np.ndarray]


def targets(X: np.ndarray, y: np.ndarray) -> sm.LEGOProblem:
    pairs, similar = sm.constraints.pairs(y, len(y))
    return sm.LEGOProblem(X, pairs, np.where(similar, 1.0, 4.0), learning_rate=0.3)


STATEMENTS: dict[str, Callable[[np.ndarray, np.ndarray], sm.Problem]] = {
    "LMNN": sm.LMNNProblem.from_labels,
    "several metrics": sm.MultiMetricLMNNProblem.from_labels,
    "kernel LMNN": sm.KernelLMNNProblem.from_labels,
    "NCA": sm.NCAProblem,
    "MLKR": sm.MLKRProblem,
    "ITML": lambda X, y: sm.ITMLProblem.from_labels(X, y, len(y)),
    "MMC": lambda X, y: sm.MMCProblem.from_labels(X, y, len(y)),
    "SDML": lambda X, y: sm.SDMLProblem.from_labels(X, y, len(y)),
    "LSML": lambda X, y: sm.LSMLProblem.from_labels(X, y, len(y)),
    "SCML": sm.SCMLProblem.from_labels,
    "POLA": lambda X, y: sm.POLAProblem.from_labels(X, y, len(y)),
    "LEGO": targets,
    "LEGO in batch": lambda X, y: sm.LEGOBatchProblem(targets(X, y)),
    "FRML": lambda X, y: sm.FRMLProblem.from_labels(X, y, 10),
}
ESTIMATORS = ("LMNN", "MultiMetricLMNN", "KernelLMNN", "NCA", "MLKR", "ITML", "MMC", "SDML", "LSML", "SCML", "POLA")
ESTIMATORS += ("LEGO", "FRML")


def data(name: str, *, small: bool) -> Data:
    n, d = (200, 10) if small else (KERNEL_ROWS if name.lower().startswith("kernel") else ROWS, FEATURES)
    X, y, *_ = make_blobs(n, d, centers=10, cluster_std=5, random_state=0)
    return X, y.astype(np.float64) if name == "MLKR" else y


class Watched:
    """The last solve, as its methods begin and end."""

    def __init__(self) -> None:
        self.over, self.finish = Run.over, Run.finish

        def over(run: Run, steps: object) -> Solution:
            self.began, self.deadline = run.budget.began, run.budget.deadline
            solution = self.over(run, steps)
            self.ended = time.process_time()
            return solution

        def finish(run: Run) -> Solution:
            self.certified = time.process_time()
            return self.finish(run)

        Run.over, Run.finish = over, finish

    @property
    def step(self) -> float:
        """From the last look at the clock before the limit to the next one; 0 if the solver ended by itself."""
        looks = np.array([look for look in LOOKS if self.began <= look <= self.certified])
        late = np.flatnonzero(looks > self.deadline)
        return float(looks[late[0]] - looks[late[0] - 1]) if len(late) else 0.0


def without_caches(problem: sm.Problem) -> sm.Problem:
    """The same statement, which has computed nothing yet."""
    names = [f.name for f in fields(problem)] + ["names", "_data_digest"]
    fresh = object.__new__(type(problem))
    fresh.__dict__.update({name: vars(problem)[name] for name in names if name in vars(problem)})
    return fresh


def row(name: str, learn: Callable[[Data, float | None], Solution], limit: float) -> str:
    """What a solve took, as cells of the table."""
    learn(data(name, small=True), None)
    watched, given = Watched(), data(name, small=False)
    began = time.process_time()
    solution = learn(given, limit)
    rest = time.process_time() - watched.ended
    solver, certificate = watched.certified - watched.began, watched.ended - watched.certified
    before = time.process_time()
    fresh = without_caches(solution.problem)
    if solution.certificate.kind != "regret":
        sm.certify(fresh, solution.components, dual=solution.dual)
    again = time.process_time() - before
    allowed, total = limit + watched.step + 1.5 * again, solver + certificate
    good = total <= allowed and solution.components.any() and solution.objective < np.inf
    numbers = (watched.began - began, solver, watched.step, certificate, again, rest, allowed, total)
    text = " | ".join(f"{number:.2f}" for number in numbers)
    return f"{solution.status} | {text if good else text.rsplit('| ', 1)[0] + f'| **{total:.2f}**'} |"


def apart(work: Callable[[], str]) -> str:
    """The answer of a process of its own."""
    receiver, sender = os.pipe()
    if not (child := os.fork()):
        resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
        resource.setrlimit(resource.RLIMIT_CPU, (LONGEST, LONGEST))
        warnings.simplefilter("ignore")
        try:
            answer = work()
        except Exception:  # noqa: BLE001  # all that is not an answer is reported
            answer = f"failed: {traceback.format_exc(limit=-1).strip().splitlines()[-1][:100]} |"
        os.write(sender, answer.encode())
        os._exit(0)
    os.close(sender)
    with os.fdopen(receiver) as pipe:
        answer = pipe.read()
    killed = os.waitpid(child, 0)[1]
    return f"killed ({killed}) |" if killed else answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="parts of the names of statements and estimators; default: all")
    parser.add_argument("--seconds", type=float, nargs="*", default=[0.5, 2.0])
    options = parser.parse_args()
    columns = "preparation", "solver", "step", "certificate", "certify", "after it", "allowed", "solve"
    print("| statement or estimator | max_time | status |", *(f"{column} |" for column in columns))
    print("| --- | ---: | --- |", *("---: |" for _ in columns))

    def solved(state: Callable[..., sm.Problem], given: Data, limit: float | None) -> Solution:
        return sm.solve(state(*given), max_time=limit)

    def fitted(name: str, given: Data, limit: float | None) -> Solution:
        return getattr(estimators, name)(max_time=limit).fit(*given).solution_

    calls = {name: lambda given, limit, state=state: solved(state, given, limit) for name, state in STATEMENTS.items()}
    calls |= {f"`{name}`": lambda given, limit, name=name: fitted(name, given, limit) for name in ESTIMATORS}
    for name, learn in calls.items():
        if not options.names or any(part in name for part in options.names):
            for limit in options.seconds:
                cells = apart(lambda name=name, learn=learn, limit=limit: row(name.strip("`"), learn, limit))
                print(f"| {name} | {limit:g} | {cells}", flush=True)


if __name__ == "__main__":
    main()
