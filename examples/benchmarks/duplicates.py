"""Duplicates by a threshold with a guarantee, and questions of no known kind: shares that are kept, raw and adapted.

    python examples/benchmarks/duplicates.py --data FOLDER

On banking77.npz: two questions of one kind are duplicates. `Adapter()` learns from 10 labels of each kind. Pairs of
other training questions, drawn with replacement, half of them duplicates, choose the threshold; the shares are those of
all pairs of test questions. For the second table it learns from half of the kinds: a question is of none of them where
its nearest labeled question is farther than a threshold that at most 5 % of such questions are to be within.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np
from scipy.spatial.distance import cdist

import sdpmetric as sm
from sdpmetric.estimators import Adapter

N_PAIRS, ALPHA, ALPHA_OF_NONE = 6_000, 0.01, 0.05


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("SDPMETRIC_DATA", ".")))
    stored = np.load(parser.parse_args().data / "banking77.npz")
    X, y, n = stored["X"].astype(np.float32), stored["y"].astype(np.int64), int(stored["n_train"])
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    rng = np.random.default_rng(0)
    some = np.concatenate([rng.permutation(np.flatnonzero(y[:n] == c))[:10] for c in range(77)])
    unused = np.setdiff1d(np.arange(n), some)
    first, second = rng.choice(unused, (2, 100 * N_PAIRS))
    similar = (y[first] == y[second]) & (first != second)
    drawn = np.concatenate([np.flatnonzero(flags)[: N_PAIRS // 2] for flags in (similar, y[first] != y[second])])
    held, asked = X[n:], y[n:]
    same = (asked[:, None] == asked)[upper := np.triu_indices(len(held), 1)]
    print(
        "| features | threshold | errors among dissimilar pairs, % | duplicates kept, % |\n| --- | ---: | ---: | ---: |"
    )
    for name, Z in (("as they are", X), ("`Adapter()`", Adapter().fit(X[some], y[some]).transform(X))):
        distances = np.linalg.norm(Z[first[drawn]] - Z[second[drawn]], axis=1)
        limit = sm.guaranteed_threshold(distances, similar[drawn], alpha=ALPHA)
        near = cdist(Z[n:], Z[n:])[upper] <= limit.threshold
        print(f"| {name} | {limit.threshold:.3f} | {100 * near[~same].mean():.2f} | {100 * near[same].mean():.0f} |")
    known = rng.permutation(77)[:38]
    some = some[np.isin(y[some], known)]
    unused = rng.permutation(unused)[:2_000]
    print("\n| features | threshold | new classes within, % | known classes within, % |\n| --- | ---: | ---: | ---: |")
    for name, Z in (("as they are", X), ("`Adapter()`", Adapter().fit(X[some], y[some]).transform(X))):
        nearest = cdist(Z[unused], Z[some]).min(axis=1)
        limit = sm.guaranteed_threshold(nearest, np.isin(y[unused], known), alpha=ALPHA_OF_NONE)
        within, of_kind = cdist(Z[n:], Z[some]).min(axis=1) <= limit.threshold, np.isin(asked, known)
        shares = 100 * within[~of_kind].mean(), 100 * within[of_kind].mean()
        print(f"| {name} | {limit.threshold:.3f} | {shares[0]:.1f} | {shares[1]:.0f} |")


if __name__ == "__main__":
    main()
