"""Data that have made trouble: each must end with a proof, or with a status that says what to do. A Markdown table.

python examples/benchmarks/hard_cases.py
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import sdpmetric as sm


def cases() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Name, data and labels."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(3), 400)
    X = rng.normal(size=(1200, 10)) + 0.5 * y[:, None]
    for scale in (1e-4, 1e-2, 1.0, 1e2, 1e4):
        yield f"three classes, times {scale:g}", scale * X, y
    yield "all points of two classes identical", np.where((y < 2)[:, None], 1.0, X), y
    yield "fewer examples than dimensions", rng.normal(size=(60, 200)), np.arange(60) % 3
    yield "pull cost singular: a feature constant in each class", np.column_stack([X, y]), y
    yield "no impostors", 0.01 * X + 100.0 * y[:, None], y
    many = np.repeat(np.arange(500), 10)
    yield "500 classes", rng.normal(size=(500, 20))[many] + 0.7 * rng.normal(size=(5000, 20)), many
    large = np.repeat([0, 1, 2], [20_000, 200, 200])
    yield "one class 100 times larger", rng.normal(size=(20_400, 10)) + 0.7 * large[:, None], large


def main() -> None:
    """Solve them and print the table."""
    print("| case | n x d | status | objective | proven gap | null directions | evaluations | seconds |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, X, y in cases():
        s = sm.solve(sm.LMNNProblem.from_labels(X, y), max_time=120)
        print(
            f"| {name} | {len(X)} x {X.shape[1]} | {s.status} | {s.objective:.6g} | {s.relative_gap:.1e} "
            f"| {s.certificate.null_dimension} | {s.n_iter} | {s.seconds:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
