"""Files under attack: writers killed at random moments, readers given damaged files.

    python examples/benchmarks/sabotage.py kill --count 100 --seed 0
    python examples/benchmarks/sabotage.py mutate --count 10000 --seed 0 [--kind solution]

"kill" lets each writer write two contents in turn over one file and kills it (SIGKILL) at a random moment; then the
file must be one of the two, whole. "mutate" damages files of each kind: bytes flipped, cut out, doubled; and, inside a
valid archive with valid check sums, arrays and JSON replaced. A reader must refuse the file in a sentence, or what it
read must work; what is certified must be true. Each part of the work is done in a process of its own with 8 GiB of
memory, so that a crash is counted and not suffered.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parent))
from damage import damaged, restructured

import sdpmetric as sm
from sdpmetric import datasets
from sdpmetric.cli import app
from sdpmetric.cli.inputs import read_table
from sdpmetric.cli.options import ProblemOptions

PART = 250
SECONDS = 20  # for one file at most


@cache
def solved(seed=0):
    """A solution, and the data that were prepared for its problem."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((24, 4)) * [1, 2, 3, 4] + 5
    y = np.arange(24) % 3
    X[:, 0] += 2 * y
    prepared = datasets.reduce(datasets.standardize(X), 3)
    return sm.solve(sm.LMNNProblem.from_labels(prepared, y, 2), tol=1e-6), X, y


def write_data(path):
    _, X, y = solved()
    if path.suffix == ".npz":
        np.savez(path, X=X, y=y, n_train=20)
    else:
        pd.DataFrame(X, columns=list("abcd")).assign(kind=[f"class {label}" for label in y]).to_csv(path, index=False)


WRITERS = {
    "solution": (".npz", lambda path, seed: solved(seed)[0].save(path)),
    "proof": (".npz", lambda path, seed: solved(seed)[0].save_proof(path)),
}


# -- kills -------------------------------------------------------------------------------------------------------------


def kill(name, count, seed):
    """How often the file was whole, how many kills fell into a write, and how many found the old or the new file."""
    suffix, write = WRITERS[name]
    rng, found = random.Random(seed), Counter()
    with tempfile.TemporaryDirectory() as folder:
        path, whole = Path(folder) / f"file{suffix}", []
        for content in (0, 1):
            write(path, content)
            whole.append(path.read_bytes())
        assert whole[0] != whole[1]
        began = time.perf_counter()
        write(path, 0)
        longest = 2.0 * (time.perf_counter() - began)
        for number in range(count):
            child = os.fork()
            if not child:
                try:
                    while True:
                        for content in (0, 1):
                            write(path, content)
                finally:
                    os._exit(1)
            ends = time.perf_counter() + 10.0
            while number % 2 and not any(Path(folder).glob(".*.tmp")) and time.perf_counter() < ends:
                pass  # every other kill falls into a write, which may be a small part of the writer's work
            time.sleep(rng.uniform(0.0, 0.003 if number % 2 else longest))
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            found["whole" if path.read_bytes() in whole else "TORN"] += 1
            for left in Path(folder).glob(".*.tmp"):
                found["in a write"] += 1
                left.unlink()
    return found


# -- damaged files -----------------------------------------------------------------------------------------------------


def command(*arguments):
    """Run a command; one that was refused says why in one line, without a traceback."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code in (0, 1, 2), result.output
    if result.exit_code == 2:
        lines = [line for line in result.stderr.splitlines() if not line.startswith("Warning: ")]
        assert len(lines) == 1, result.stderr
        raise ValueError(lines[0])


def use_solution(path):
    own = solved()[0]
    found = sm.Solution.load(path, own.problem)
    if not found.certificate.as_saved:  # what is certified is true
        assert found.objective >= own.lower_bound, found
        assert found.lower_bound <= own.objective, found
    str(found), found.certificate.to_dict(), sm.Solution.load(path)


def use_data(path):
    if path.suffix == ".npz":
        X, _ = datasets.load(path)
    else:
        X = read_table(path, ProblemOptions(label="kind")).X
    sm.LMNNProblem.from_labels(X, np.arange(len(X)) % 3, 2)


def use_proof(path):
    from sdpmetric.check.__main__ import main

    code, text = main([str(path.with_name("data.npz")), str(path)])
    if code:
        raise ValueError(text)


KINDS = {
    "solution": (".npz", use_solution, ("verify", "data.npz", "FILE")),
    "proof": (".npz", use_proof, ("check", "data.npz", "FILE")),
    "data, npz": (".npz", use_data, ("verify", "FILE", "metric.npz")),
    "data, csv": (".csv", use_data, ("verify", "FILE", "metric.npz", "--label", "kind")),
}


def late(number, frame):
    raise TimeoutError("a file took too long")


def mutate(kind, count, seed, folder):
    """How many files were refused and how many were used, and the seeds of those that did neither."""
    suffix, use, arguments = KINDS[kind]
    for name in ("data.csv", "data.npz"):
        write_data(folder / name)
    np.savez(folder / "metric.npz", metric=np.eye(4))
    path = folder / f"whole{suffix}"
    WRITERS[kind][1](path, 0) if kind in WRITERS else write_data(path)
    whole, found, bad = path.read_bytes(), Counter(), []
    if kind == "proof":  # of the prepared data
        np.savez(folder / "data.npz", X=solved()[0].problem.X, y=solved()[2])
    use(path)
    signal.signal(signal.SIGALRM, late)
    for number in range(seed, seed + count):
        rng = random.Random(number)
        with warnings.catch_warnings(action="ignore"):
            structured = suffix == ".npz" and rng.random() < 0.6
            data = restructured(whole, rng) if structured else damaged(whole, rng)
            path.write_bytes(data)
            signal.alarm(SECONDS)
            try:
                if arguments and number % 10 == 0:
                    found["by a command"] += 1
                    command(
                        *(str(path if word == "FILE" else folder / word if "." in word else word) for word in arguments)
                    )
                else:
                    use(path)
                found["used"] += 1
            except (ValueError, FileNotFoundError):
                found["refused"] += 1
            except Exception as error:  # noqa: BLE001 what is looked for
                bad.append(f"seed {number}: {type(error).__name__}: {str(error)[:200]}")
            signal.alarm(0)
    return found, bad


def apart(kind, count, seed):
    """`mutate` in a process of its own, which may crash."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        child = os.fork()
        if not child:
            try:
                resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
                answer.write_text(json.dumps(mutate(kind, count, seed, Path(folder))))
                os._exit(0)
            finally:
                os._exit(1)
        status = os.waitpid(child, 0)[1]
        if status or not answer.is_file():
            return Counter(), [f"seeds {seed} to {seed + count}: the process ended with {status}"]
        found, bad = json.loads(answer.read_text())
        return Counter(found), bad


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("attack", choices=["kill", "mutate"])
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", help="One writer or kind of file; default: all.")
    given = parser.parse_args()
    for seed in (0, 1):
        solved(seed)
    violated = False
    for name in [given.kind] if given.kind else KINDS if given.attack == "mutate" else WRITERS:
        if given.attack == "kill":
            found = kill(name, given.count, given.seed)
            violated |= bool(found["TORN"])
            print(
                f"{name}: {given.count} kills, {found['in a write']} of them in a write; {found['whole']} files whole"
            )
        else:
            found, bad = Counter(), []
            for seed in range(given.seed, given.seed + given.count, PART):
                part = apart(name, min(PART, given.seed + given.count - seed), seed)
                found, bad = found + part[0], bad + part[1]
            violated |= bool(bad)
            counts = ", ".join(f"{found[what]} {what}" for what in ("refused", "used", "by a command"))
            print(f"{name}: {given.count} files, {counts}")
            print("".join(f"  {line}\n" for line in bad[:20]), end="", flush=True)
    raise SystemExit(violated)


if __name__ == "__main__":
    main()
