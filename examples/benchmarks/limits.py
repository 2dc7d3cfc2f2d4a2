"""Whether ``max_time`` holds: processor seconds of every solver of every statement, of verifications and certificates.

    python examples/benchmarks/limits.py [PART OF A NAME ...] [--seconds 0.5 2]

A call may take 1.2 times the limit and a second. The clock of limits is here the processor's, with one thread, so the
load of the machine does not matter. Calls near what is allowed are made three times, and the median counts. Each is
made in a process of its own, which may take 12 GiB and 60 s. Verified and certified is a metric in another unit, under
which nearly every constraint is active.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import statistics
import time
import traceback
from collections.abc import Callable, Iterator

os.environ |= {"NUMBA_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1"}
time.perf_counter = time.process_time

import numpy as np  # noqa: E402
from sklearn.datasets import make_blobs  # noqa: E402

import sdpmetric as sm  # noqa: E402
from sdpmetric import terms  # noqa: E402

Statement = Callable[[np.ndarray, np.ndarray], sm.Problem]
SIZES = ((3_000, 200), (20_000, 20))
BYTES, LONGEST = 12 << 30, 60
# The squared Euclidean distance times this is verified.
FOREIGN_UNIT = 1e-6


def of_pairs(state: Callable[..., sm.Problem], **options: float) -> Statement:
    return lambda X, y: state(X, *sm.constraints.pairs(y, len(y)), **options)


def targets(X: np.ndarray, y: np.ndarray) -> sm.LEGOProblem:
    pairs, similar = sm.constraints.pairs(y, len(y))
    return sm.LEGOProblem(X, pairs, np.where(similar, 1.0, 4.0), learning_rate=0.3)


def triplets(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.asarray(sm.constraints.triplets(X, y, 2, 2))


STATEMENTS: dict[str, Statement] = {
    "LMNN": sm.LMNNProblem.from_labels,
    "LMNN of listed triplets": lambda X, y: sm.LMNNProblem.from_triplets(X, triplets(X, y)),
    "kernel LMNN": sm.KernelLMNNProblem.from_labels,
    "several metrics": sm.MultiMetricLMNNProblem.from_labels,
    "NCA": sm.NCAProblem,
    "MLKR": sm.MLKRProblem,
    "POLA": of_pairs(sm.POLAProblem, slack_weight=1.0),
    "POLA without slack": of_pairs(sm.POLAProblem, slack_weight=None),
    "MMC": of_pairs(sm.MMCProblem),
    "ITML": of_pairs(sm.ITMLProblem),
    "SDML": of_pairs(sm.SDMLProblem),
    "LSML": sm.LSMLProblem.from_labels,
    "SCML": sm.SCMLProblem.from_labels,
    "FRML": lambda X, y: sm.FRMLProblem(X, y, 5),
    "LEGO": targets,
    "LEGO, batch": lambda X, y: sm.LEGOBatchProblem(targets(X, y)),
    "sum: hinge, trace": lambda X, y: sm.MetricProblem(X, terms.TripletHinge(triplets(X, y)) + terms.Trace()),
    "sum: logistic, LogDet": lambda X, y: sm.MetricProblem(
        X, terms.TripletHinge(triplets(X, y), loss="logistic") + terms.LogDet()
    ),
    "sum: weights of features": lambda X, y: sm.MetricProblem(
        X, terms.TripletHinge(triplets(X, y), loss="smooth_hinge") + terms.Frobenius(), diagonal=True
    ),
}


def data(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    X, y, *_ = make_blobs(n, d, centers=10, cluster_std=5, random_state=0)
    return X, y


def calls(problem: sm.Problem) -> Iterator[tuple[str, Callable[[float], object]]]:
    """Calls under a limit, by their names."""
    for entry in sm.solvers_of(problem):
        options = {"n_components": 2} if entry.name == "low_rank" else {}
        yield (
            entry.name,
            lambda limit, entry=entry, options=options: sm.solve(problem, entry.name, max_time=limit, **options),
        )
    r, d = getattr(problem, "n_components", problem.X.shape[1]), problem.X.shape[1]
    point = np.sqrt(FOREIGN_UNIT) * (problem.domain.basis if problem.statement == "scml" else np.eye(d)[:r])
    point = np.stack([point] * problem.n_regions) if isinstance(problem, sm.MultiMetricLMNNProblem) else point
    yield "certify", lambda limit: sm.certify(problem, point, max_time=limit)
    yield "verify", lambda limit: sm.verify(problem, point, max_time=limit)


def seconds(call: Callable[[float], object], limit: float) -> float | str:
    """Processor seconds of a call in a process of its own, or what became of it."""
    receiver, sender = os.pipe()
    if not (child := os.fork()):
        resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
        resource.setrlimit(resource.RLIMIT_CPU, (LONGEST, LONGEST))
        began = time.process_time()
        try:
            call(limit)
            answer = repr(time.process_time() - began)
        except TypeError as error:
            answer = "" if "verify" in str(error) else repr(str(error))
        except Exception:  # noqa: BLE001  # all that is not an answer is reported
            answer = repr(traceback.format_exc(limit=-1).strip().splitlines()[-1][:100])
        os.write(sender, answer.encode())
        os._exit(0)
    os.close(sender)
    with os.fdopen(receiver) as pipe:
        answer = pipe.read()
    killed = os.waitpid(child, 0)[1]
    return f"killed ({killed})" if killed else eval(answer) if answer else "no bound"


def cell(call: Callable[[float], object], limit: float) -> str:
    allowed, answer = 1.2 * limit + 1.0, seconds(call, limit)
    if isinstance(answer, float) and answer > 0.8 * allowed:
        others = [value for value in (seconds(call, limit), seconds(call, limit)) if isinstance(value, float)]
        answer = statistics.median([answer, *others])
    if isinstance(answer, str):
        return answer
    return f"**{answer:.2f}**" if answer > allowed else f"{answer:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="parts of the names of statements; default: all")
    parser.add_argument("--seconds", type=float, nargs="*", default=[0.5, 2.0])
    options = parser.parse_args()
    print("| statement | examples x features | call |", *(f"`max_time={limit:g}` |" for limit in options.seconds))
    print("| --- | --- | --- |", *("---: |" for _ in options.seconds))
    for name, state in STATEMENTS.items():
        if options.names and not any(part in name for part in options.names):
            continue
        for call_name, call in calls(state(*data(200, 10))):
            with contextlib.suppress(TypeError, ValueError):
                call(2.0 if call_name != "conic" else 1e-3)  # compiles
        for n, d in SIZES:
            for call_name, call in calls(state(*data(n, d))):
                cells = " | ".join(cell(call, limit) for limit in options.seconds)
                print(f"| {name} | {n:,} x {d} | {call_name} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
