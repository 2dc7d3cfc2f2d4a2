"""Corruptions of proof files, each of which the checker must refuse, and mutations, of which it may accept true ones.

    python examples/benchmarks/corruptions.py --count 10000 --seed 0
    python examples/benchmarks/corruptions.py --mutations 10000 --seed 0

The first changes one bit of one entry of one array, of the text, or of the seal, and runs the checker; the exit code is
1 if one was accepted. The second draws problems of all statements, changes their files as `mutations.py` does, and
runs the checker; the exit code is 1 if what was printed of an accepted file is not
true in exact arithmetic.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
from sklearn.datasets import load_iris

import sdpmetric as sm
from sdpmetric.check.__main__ import main as check

sys.path.insert(0, str(Path(__file__).parent))
import mutations

# Mutated files of each problem.
EACH = 60


def corrupted(arrays, rng):
    """The arrays of a file with one bit of one of them changed."""
    names = [name for name in arrays if arrays[name].nbytes]
    name = names[int(rng.integers(len(names)))]
    raw = bytearray(np.ascontiguousarray(arrays[name]).tobytes())
    raw[int(rng.integers(len(raw)))] ^= 1 << int(rng.integers(7 if arrays[name].dtype.kind == "U" else 8))
    changed = np.frombuffer(bytes(raw), dtype=arrays[name].dtype).reshape(arrays[name].shape)
    return arrays | {name: changed}


def campaign(count, seed):
    """Mutations of problems of all kinds in turn, `EACH` of each problem; prints what was accepted."""
    warnings.simplefilter("ignore", np.exceptions.ComplexWarning)  # members become complex, which the checker refuses
    done, accepted, false, codes = 0, Counter(), 0, Counter()
    with tempfile.TemporaryDirectory() as folder:
        while done < count:
            kind = mutations.KINDS[seed % len(mutations.KINDS)]
            found = mutations.violations(kind, seed, EACH, Path(folder))
            done += len(found.codes)
            false += len(found.wrong)
            codes.update(found.codes)
            accepted[kind] += found.codes.count(0)
            for sentence in found.wrong:
                print(f"{kind}, seed {seed}: {sentence}", flush=True)
            seed += 1
            print(f"{done:,} mutated files, {false} accepted that are not true", file=sys.stderr, flush=True)
    print(f"{done:,} mutated files, exit codes {dict(sorted(codes.items()))}; accepted: {dict(accepted)}")
    print(f"{false} accepted files are not true")
    return int(false > 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--mutations", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.mutations:
        return campaign(options.mutations, options.seed)
    rng = np.random.default_rng(options.seed)
    X, y = load_iris(return_X_y=True)
    refused, done = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        data, proof, bad = (Path(folder) / name for name in ("data.npz", "proof.npz", "bad.npz"))
        np.savez(data, X=X, y=y)
        sm.solve(sm.LMNNProblem.from_labels(X, y), tol=1e-4).save_proof(proof)
        assert check([str(data), str(proof)])[0] == 0
        with np.load(proof) as file:
            arrays = {name: file[name] for name in file.files}
        while done < options.count:
            try:
                np.savez(bad, **corrupted(arrays, rng))
                code, text = check([str(data), str(bad)])
            except (ValueError, UnicodeError):  # a text that is none: NumPy does not write it
                continue
            done += 1
            refused += code != 0
            if code == 0:
                print("accepted:", text)
    print(f"{refused:,} of {done:,} corruptions refused")
    return 0 if refused == done else 1


if __name__ == "__main__":
    raise SystemExit(main())
