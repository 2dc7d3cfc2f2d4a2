"""Public callables with nasty values for each argument: the answer must be a result, a ValueError or a TypeError.

    python examples/benchmarks/fuzz.py [--count 50000] [--seed 0] [PART OF A NAME ...]

Each call replaces one argument of a valid call by a nasty value, or by its own valid value damaged. A number, an array,
a certificate and a solution that come back must not hold NaN. Anything else is printed: the callable, the argument, the
value, and what was raised instead.
"""

from __future__ import annotations

import argparse
import datetime
import decimal
import fractions
import inspect
import io
import signal
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.sparse as sp

import sdpmetric as sm
from sdpmetric import classification, constraints, datasets, estimators, ranking, terms

# Processor seconds for a call.
LIMIT = 20
# What a call may raise.
SENTENCES = (ValueError, TypeError, ImportError, MemoryError, FileNotFoundError, IsADirectoryError)
Call = tuple[Callable[..., object], dict[str, object]]


def itself() -> list[object]:
    """A list that contains itself."""
    items: list[object] = []
    items.append(items)
    return items


class Strange:
    """An object of no kind, of which nothing can be asked."""

    def __repr__(self) -> str:
        return "<strange>"


NASTY: list[object] = [
    None, True, False, 0, -1, 1, 2, 10**400, -(10**400), 2**63, 2**70, 0.0, -0.0, 0.5, 1e308, -1e308, 5e-324,
    float("nan"), float("inf"), float("-inf"), 1j, "", "abc", "\x00", "auto", b"abc", [], (), {}, set(), [[]], [None],
    [1, "a"], [[1, 2], [3]], itself(), {"a": 1}, Strange(), Strange, len, object(), Ellipsis, range(3), slice(1),
    decimal.Decimal("0.1"), fractions.Fraction(1, 3), datetime.datetime(2020, 1, 1), np.float64("nan"), np.int64(-3),
    np.float32(0.5), np.bool_(True), np.datetime64("2020-01-01"), np.array(3), np.zeros(0), np.zeros((0, 0)),
    np.zeros((3, 0)), np.zeros((2, 2, 2)), np.full((12, 3), np.nan), np.full((12, 3), 1e200), np.zeros((12, 3)),
    np.eye(3) * 1j, np.array(["a", "b"]), np.array([None, 1]), np.array(["2020-01-01"] * 12, dtype="datetime64[D]"),
    np.ma.masked_array(np.eye(3), mask=np.eye(3)), sp.eye_array(3), pd.DataFrame({"a": [1, 2], "b": ["x", None]}),
    pd.Series([1, None]), pd.array([1, None]), io.BytesIO(b"x"), Path("/nowhere/file"), iter([1, 2]),
    np.random.default_rng(0),
]  # fmt: skip


def damaged(value: object, rng: np.random.Generator) -> object:
    """A valid value of which something is wrong."""
    if isinstance(value, np.ndarray) and value.size:
        kind = rng.integers(9)
        array = value.astype(object if kind == 0 else value.dtype, copy=True)
        place = tuple(int(rng.integers(n)) for n in array.shape)
        if kind == 0:
            array[place] = (None, "x", Strange(), 10**400, 1j)[rng.integers(5)]
        elif kind == 1:
            return array[:-1]
        elif kind == 2:
            return np.concatenate([array, array])
        elif kind == 3:
            return array[..., None]
        elif kind == 4:
            return array.astype(complex) + 1j if array.dtype.kind in "fiu" else array
        elif kind == 5:
            return np.ma.masked_array(array, mask=np.ones(array.shape, bool))
        elif kind == 6 and array.dtype.kind in "f":
            array[place] = (np.nan, np.inf, 1e300, -1e300, 1e160, 1e-320)[rng.integers(6)]
        elif kind == 7 and array.dtype.kind in "iu":
            array[place] = (-1, 10**6, -(2**31))[rng.integers(3)]
        elif kind == 8:
            return array.T if array.ndim > 1 else array.tolist()
        return array
    if isinstance(value, int | float) and not isinstance(value, bool):
        return (-value, value * 1e-320, value * 1e300, str(value), [value], np.array([value, value]))[rng.integers(6)]
    return NASTY[rng.integers(len(NASTY))]


def calls() -> Iterator[tuple[str, Call]]:
    """A valid call of each callable, by name."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 3)), np.arange(12) % 3
    pairs = np.array([[0, 3], [1, 2], [4, 7], [5, 9], [2, 6], [8, 10]])
    similar = y[pairs[:, 0]] == y[pairs[:, 1]]
    triplets, L, M = np.array([[0, 3, 1], [1, 4, 2], [2, 5, 3]]), np.eye(3), np.eye(3)
    quadruplets = np.array([[0, 3, 1, 2], [1, 4, 5, 9]])
    problem = sm.LMNNProblem.from_labels(X, y, 1)
    solution, pola = sm.solve(problem), sm.POLAProblem(X, pairs, similar, slack_weight=1.0)
    stream = sm.solve(pola, "online")
    yield "LMNNProblem.from_labels", (sm.LMNNProblem.from_labels, {"X": X, "y": y, "n_neighbors": 1})
    yield "LMNNProblem.from_triplets", (sm.LMNNProblem.from_triplets, {"X": X, "triplets": triplets})
    yield "MultiMetricLMNNProblem", (sm.MultiMetricLMNNProblem.from_labels, {"X": X, "y": y, "n_neighbors": 1})
    yield "KernelLMNNProblem", (sm.KernelLMNNProblem.from_labels, {"X": X, "y": y, "n_neighbors": 1})
    yield "POLAProblem", (sm.POLAProblem, {"X": X, "pairs": pairs, "similar": similar})
    for statement in (sm.MMCProblem, sm.ITMLProblem, sm.SDMLProblem):
        yield statement.__name__, (statement, {"X": X, "pairs": pairs, "similar": similar})
        yield f"{statement.__name__}.from_labels", (statement.from_labels, {"X": X, "y": y})
    yield "LSMLProblem", (sm.LSMLProblem, {"X": X, "quadruplets": quadruplets})
    yield "SCMLProblem", (sm.SCMLProblem, {"X": X, "triplets": triplets, "bases": L})
    yield "SCMLProblem.from_labels", (sm.SCMLProblem.from_labels, {"X": X, "y": y})
    yield "NCAProblem", (sm.NCAProblem, {"X": X, "y": y})
    yield "MLKRProblem", (sm.MLKRProblem, {"X": X, "y": rng.normal(size=12)})
    yield "FRMLProblem", (sm.FRMLProblem, {"X": X, "relevance": y, "n_components": 2})
    yield "LEGOProblem", (sm.LEGOProblem, {"X": X, "pairs": pairs, "targets": np.ones(6)})
    yield "LEGOBatchProblem", (sm.LEGOBatchProblem, {"X": X, "pairs": pairs, "targets": np.ones(6)})
    total = terms.TripletHinge(triplets) + terms.Trace()
    yield "MetricProblem", (sm.MetricProblem, {"X": X, "terms": total})
    yield "solve", (sm.solve, {"problem": problem, "max_time": 1.0})
    yield "verify", (sm.verify, {"problem": problem, "components": L, "max_time": 1.0})
    yield "certify", (sm.certify, {"problem": problem, "components": L})
    yield "certify(metric)", (sm.certify, {"problem": problem, "metric": M})
    yield "certify(POLA)", (sm.certify, {"problem": pola, "metric": M, "dual": np.ones(6)})
    yield "path", (sm.path, {"problem": problem, "push_weight": [0.3], "max_time": 1.0})
    yield "compare", (sm.compare, {"solution": solution})
    yield "explain", (sm.explain, {"solution": solution})
    yield "regret", (sm.regret, {"problem": pola, "solution": stream})
    yield "solvers_of", (sm.solvers_of, {"statement": problem})
    yield "to_cvxpy", (sm.to_cvxpy, {"problem": problem})
    yield "Solution.leading", (solution.leading, {"n_components": 1})
    yield "Solution.load", (sm.Solution.load, {"path": "/nowhere"})
    yield "Model.load", (sm.Model.load, {"path": "/nowhere"})
    yield "HashIndex", (sm.HashIndex, {"components": L})
    yield "HashIndex.add", (lambda X, ids=None: sm.HashIndex(L).add(X, ids), {"X": X})
    index = sm.HashIndex(L).add(X)
    yield "HashIndex.query", (index.query, {"q": X[0], "k": 2})
    yield "POLAStream", (sm.POLAStream, {"n_features": 3})
    yield (
        "POLAStream.update",
        (
            lambda u, v, similar: sm.POLAStream(3).update(u, v, similar),
            {"u": X[0], "v": X[1], "similar": True},
        ),
    )
    yield (
        "LEGOStream.update",
        (
            lambda u, v, target: sm.LEGOStream(3, 0.1).update(u, v, target),
            {"u": X[0], "v": X[1], "target": 1.0},
        ),
    )
    yield (
        "knn_predict",
        (
            classification.knn_predict,
            {"components": L, "X_train": X, "y_train": y, "X": X, "n_neighbors": 2},
        ),
    )
    yield (
        "nearest_neighbors",
        (
            classification.nearest_neighbors,
            {"components": L, "X_train": X, "X": X, "n_neighbors": 2},
        ),
    )
    yield "Relevance.of", (sm.Relevance.of, {"relevance": y, "n": 12})
    yield "ranking.evaluate", (ranking.evaluate, {"items": X, "relevance": y, "components": L})
    yield "constraints.pairs", (constraints.pairs, {"y": y, "n_pairs": 3})
    yield "constraints.triplets", (constraints.triplets, {"X": X, "y": y})
    yield "constraints.quadruplets", (constraints.quadruplets, {"y": y, "n_quadruplets": 3})
    yield "constraints.chunks", (constraints.chunks, {"y": y, "n_chunks": 2})
    yield "datasets.standardize", (datasets.standardize, {"X": X})
    yield "datasets.prepare", (datasets.prepare, {"how": "standard", "X": X})
    yield "datasets.reduce", (datasets.reduce, {"X": X, "n_components": 2})
    yield "datasets.concentric_rings", (datasets.concentric_rings, {"random_state": 0})
    yield "datasets.zebra_stripes", (datasets.zebra_stripes, {"random_state": 0})
    yield "datasets.load", (datasets.load, {"name": "iris"})
    for name in ("LMNN", "POLA", "ITML", "MMC", "SDML", "LSML", "SCML", "NCA", "RCA", "LFDA"):
        estimator = getattr(estimators, name)
        yield f"{name}.fit", (lambda X, y, kind=estimator: kind().fit(X, y), {"X": X, "y": y})


def arguments(call: Callable[..., object], valid: dict[str, object]) -> list[str]:
    """Names of the arguments that a call is tried with."""
    try:
        parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):
        return list(valid)
    named = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and p.name != "kind"]
    return list(dict.fromkeys([*valid, *named]))


def has_nan(answer: object) -> bool:
    """Whether a number that came back is NaN."""
    if isinstance(answer, float):
        return answer != answer
    if isinstance(answer, np.ndarray):
        return answer.dtype.kind == "f" and bool(np.isnan(answer).any())
    if isinstance(answer, sm.Solution):
        return has_nan(answer.components) or has_nan(answer.objective)
    if isinstance(answer, sm.Certificate):
        return has_nan(answer.objective) or has_nan(answer.lower_bound)
    return isinstance(answer, tuple) and any(map(has_nan, answer))


def late(number: int, frame: object) -> None:
    raise TimeoutError(f"no answer in {LIMIT} s")


def outcome(call: Callable[..., object], keywords: dict[str, object]) -> str:
    """ "answer", "refused", or what is wrong."""
    positional = [keywords.pop("solution")] if call is sm.compare else []
    signal.setitimer(signal.ITIMER_PROF, LIMIT)
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            answer = call(*positional, **keywords)
        return "NaN" if has_nan(answer) else "answer"
    except SENTENCES:
        return "refused"
    except BaseException as error:  # noqa: BLE001  # a fuzz records whatever is raised, panics of Rust included
        return f"{type(error).__name__}: {str(error)[:90]}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="parts of the names of callables; default: all")
    parser.add_argument("--count", type=int, default=50_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first call")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGPROF, late)
    rng, counts = np.random.default_rng(options.seed), Counter[str]()
    chosen = [(n, *c) for n, c in calls() if not options.names or any(part in n for part in options.names)]
    tried = [(n, call, valid, argument) for n, call, valid in chosen for argument in arguments(call, valid)]
    for number in range(options.first, options.first + options.count):
        name, call, valid, argument = tried[number % len(tried)]
        turn = number // len(tried)
        value = NASTY[turn] if turn < len(NASTY) else damaged(valid.get(argument), rng)
        result = outcome(call, {**valid, argument: value})
        counts[result if result in ("answer", "refused") else "other"] += 1
        if result not in ("answer", "refused"):
            print(f"{name}({argument}={str(value)[:60]!r}): {result}", flush=True)
    print(", ".join(f"{count:,} {kind}" for kind, count in counts.items()))
    sys.exit(1 if counts["other"] else 0)


if __name__ == "__main__":
    main()
