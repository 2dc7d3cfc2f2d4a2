"""The cost of an update of FRML against the number of features, at fixed rank, and the exponent that it grows with.

Run it with ``python examples/benchmarks/frml_cost.py``; it prints a Markdown table.
"""

import time

import numpy as np

import sdpmetric as sm

RANK, BATCH = 10, 5
FEATURES = (100, 300, 1000, 3000, 10_000)


def seconds_per_update(d: int) -> float:
    """The least of five runs of one loop, AUC loss: two evaluations of f_q for each query."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, d)) / np.sqrt(d), np.arange(300) % 3
    relevance = sm.Relevance.from_labels(y)
    count = max(20, 300_000 // d)
    stream = sm.FRMLStream(d, RANK, loss="auc", step=1e-4, batch_size=BATCH)
    stream.partial_fit(X, relevance, n_steps=2)
    best = np.inf
    for _ in range(5):
        began = time.process_time()
        stream.partial_fit(X, relevance, n_steps=count)
        best = min(best, (time.process_time() - began) / count)
    return best


def main() -> None:
    found = [seconds_per_update(d) for d in FEATURES]
    print(f"rank {RANK}, batches of {BATCH} queries\n")
    print("| features | microseconds per update | nanoseconds per update and feature |")
    print("| --- | --- | --- |")
    for d, seconds in zip(FEATURES, found, strict=True):
        print(f"| {d:,} | {1e6 * seconds:.1f} | {1e9 * seconds / d:.0f} |")
    slope = np.polyfit(np.log(FEATURES), np.log(found), 1)[0]
    print(f"\nseconds grow as d^{slope:.2f}")


if __name__ == "__main__":
    main()
