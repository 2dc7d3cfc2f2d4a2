"""Figs. 10 and 12: what ball trees save on principal components, when examples are classified and in training.

Seconds are the process' own on one thread, the best of some runs, so that what else runs on the machine hardly counts.
"""

import time
from collections.abc import Callable
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.neighbors import BallTree
from threadpoolctl import threadpool_limits

from lmnn_figs.digits import Digits, K
from sdpmetric.engine import threads
from sdpmetric.linalg import distances as partial

RUNS = 3
# Training rows that are searched, and queries.
MANY, FEW = 20_000, 500


def seconds(work: Callable[[], object]) -> float:
    """CPU seconds of one thread."""
    spent = []
    with threadpool_limits(limits=1):
        for _ in range(RUNS):
            began = time.process_time()
            work()
            spent.append(time.process_time() - began)
    return min(spent)


def tree_and_partial(Z: np.ndarray, Q: np.ndarray) -> tuple[float, float, float]:
    """CPU seconds of a ball tree and of partial distances for the nearest rows, and the share of coordinates read."""
    tree = BallTree(Z)
    with_tree = seconds(lambda: tree.query(Q, k=K))
    found, _, spent = partial.nearest(Z, Q, Z, Q, 0.0, K)
    assert np.allclose(found, tree.query(Q, k=K)[0] ** 2, rtol=1e-6, atol=1e-9 * np.square(Z).sum(axis=1).max())
    return with_tree, seconds(lambda: partial.nearest(Z, Q, Z, Q, 0.0, K)), spent / (len(Z) * Q.size)


def figure10(digits: Digits, ranks: list[int], output: Path) -> str:
    """Write lmnn_figure10.md and .png; return the Markdown."""
    every, queries = digits.every[:MANY], digits.Z_test[:FEW]
    _, whole, read = tree_and_partial(every, queries)
    rows, gains = [], {"with ball trees": [], "without": []}
    for rank in ranks:
        Z, Q = (np.ascontiguousarray(P[:, :rank]) for P in (every, queries))
        tree, plain, share = tree_and_partial(Z, Q)
        gains["with ball trees"].append(whole / tree)
        gains["without"].append(whole / plain)
        rows.append(
            f"| {rank} | {tree:.3f} | {whole / tree:.2g} | {plain:.3f} | {whole / plain:.2g} | {100 * share:.0f} |"
        )
    lines = [
        f"The {K} nearest of {len(every):,} training rows for {len(queries):,} test rows of "
        f"{digits.name}, deskewed, on leading principal components; no metric is learned. Without a tree: partial "
        "distances along principal axes (section 6), a compiled loop on one thread. With one: scikit-learn's "
        f"`BallTree`. Speed-ups refer to partial distances in all {digits.n_components} components, {whole:.3f} s, "
        f"which read {100 * read:.0f} % of the coordinates; building trees is not counted. The paper prints no values.",
        "",
        "| components | ball tree, s | speed-up | partial distances, s | speed-up | coordinates read, % |",
        "| --- | --- | --- | --- | --- | --- |",
        *rows,
    ]
    text = "\n".join(lines)
    (output / "lmnn_figure10.md").write_text(text + "\n")
    draw(ranks, gains, "speed-up over partial distances in all dimensions", output / "lmnn_figure10.png")
    return text


def figure12(digits: Digits, ranks: list[int], output: Path) -> str:
    """Write lmnn_figure12.md and .png; return the Markdown."""
    problem = digits.problem
    source, together = problem.source, np.zeros(len(digits.y), dtype=np.int32)

    def search(L: np.ndarray, method: str) -> Callable[[], int]:
        Z = problem.embed(L)
        return lambda: sum(len(block.impostors) for block in source.candidate_blocks(Z, together, method=method))

    with threads.limited(1):  # trees have one thread, so that tiles have one, too
        every = np.eye(digits.n_components)
        whole = seconds(search(every, "brute"))
        rows, gains = [], {"ball trees": [], "brute force": []}
        for rank in ranks:
            brute, tree = (seconds(search(every[:rank], method)) for method in ("brute", "ball_tree"))
            pairs = search(every[:rank], "ball_tree")()
            gains["ball trees"].append(whole / tree)
            gains["brute force"].append(whole / brute)
            rows.append(f"| {rank} | {pairs:,} | {brute:.3f} | {tree:.3f} | {whole / brute:.2g} | {whole / tree:.2g} |")
    lines = [
        f"One exhaustive search for margin violations under Euclidean distances of leading principal components, "
        f"{len(digits.y):,} training rows of {digits.name}, {K} target neighbors: a ball tree for each class "
        "(`sdpmetric.lmnn.impostors.Search.by_trees`, trees rebuilt in each search, as training must) "
        "beside tiles of the distance matrix (`by_tiles`, single precision with an allowance "
        "for rounding, each pair once). "
        f"Brute force in all {digits.n_components} components takes {whole:.3f} s, which speed-ups refer to. The paper "
        "prints no values.",
        "",
        "| components | pairs found | brute force, s | ball trees, s | speed-up, brute force | speed-up, ball trees |",
        "| --- | --- | --- | --- | --- | --- |",
        *rows,
    ]
    text = "\n".join(lines)
    (output / "lmnn_figure12.md").write_text(text + "\n")
    draw(ranks, gains, "speed-up over brute force in all dimensions", output / "lmnn_figure12.png")
    return text


def draw(ranks: list[int], gains: dict[str, list[float]], ylabel: str, path: Path) -> None:
    figure, ax = plt.subplots(figsize=(6.6, 4.4), layout="constrained")
    for (name, curve), color, style in zip(gains.items(), ("#0072B2", "#888888"), ("o-", "s:"), strict=True):
        ax.plot(ranks, curve, style, color=color, label=name, markersize=5)
    ax.axhline(1.0, color="0.3", linewidth=0.8)
    ax.set(xlabel="dimensions", ylabel=ylabel, xscale="log", yscale="log")
    ax.set_xticks(ranks, [str(rank) for rank in ranks])
    ax.minorticks_off()
    ticks = [t for t in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500) if _near(t, gains)]
    ax.set_yticks(ticks, [f"{t:g}" for t in ticks])
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color="0.92", linewidth=0.7)
    ax.legend(frameon=False)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _near(tick: float, gains: dict[str, list[float]]) -> bool:
    values = [1.0, *(value for curve in gains.values() for value in curve)]
    return 0.6 * min(values) <= tick <= 1.6 * max(values)
