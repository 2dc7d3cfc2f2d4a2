"""Figs. 10 and 12: what ball trees save after LMNN, when examples are classified and while a metric is learned.

Seconds are the process' own on one thread, the best of some runs, so that what else runs on the machine hardly counts.
"""

import time
from collections.abc import Callable
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.neighbors import BallTree, NearestNeighbors
from threadpoolctl import threadpool_limits

from lmnn_figs.digits import Digits, K
from sdpmetric.engine import threads

RUNS, QUERIES = 5, 1000


def seconds(work: Callable[[], object]) -> float:
    """CPU seconds of one thread."""
    spent = []
    with threadpool_limits(limits=1):
        for _ in range(RUNS):
            began = time.process_time()
            work()
            spent.append(time.process_time() - began)
    return min(spent)


def figure10(digits: Digits, ranks: list[int], output: Path) -> str:
    """Write lmnn_figure10.md and .png; return the Markdown."""
    every, queries = digits.every, digits.Z_test[:QUERIES]
    whole = seconds(lambda: _brute(every, queries))
    rows, gains = [], {"LMNN-R": [], "PCA": []}
    for rank in ranks:
        cells = []
        for name, L in (("LMNN-R", digits.rectangular(rank).components), ("PCA", np.eye(digits.n_components)[:rank])):
            Z, Q = every @ L.T, queries @ L.T
            tree = BallTree(Z)
            spent = seconds(lambda tree=tree, Q=Q: tree.query(Q, k=K))
            tree.reset_n_calls()
            found, expected = tree.query(Q, k=K)[0], _brute(Z, Q)
            # scikit-learn's brute force loses half of the digits where points nearly coincide.
            assert np.allclose(found**2, expected**2, rtol=1e-6, atol=1e-9 * np.square(Z).sum(axis=1).max())
            share = 100 * tree.get_n_calls() / (len(Q) * len(Z))
            gains[name].append(whole / spent)
            brute = f"{seconds(lambda Z=Z, Q=Q: _brute(Z, Q)):.3f} | " if name == "LMNN-R" else ""
            cells.append(f"{brute}{spent:.3f} | {whole / spent:.2g} | {share:.2g}")
        rows.append(f"| {rank} | not at hand | " + " | ".join(cells) + " |")
    lines = [
        f"The {K} nearest of {len(every):,} training rows for {len(queries):,} test rows, by scikit-learn's `BallTree` "
        f"and by its brute force. Metrics: {digits.protocol}. Brute force in all {digits.n_components} dimensions "
        f"takes {whole:.3f} s, which speed-ups refer to; building trees and embedding rows are not counted.",
        "",
        "| dimensions | paper | brute force, s | LMNN-R, tree, s | speed-up | distances computed, % | PCA, tree, s "
        "| speed-up | distances computed, % |",
        "| --- |" + " --- |" * 8,
        *rows,
    ]
    text = "\n".join(lines)
    (output / "lmnn_figure10.md").write_text(text + "\n")
    ylabel = f"speed-up over brute force in {digits.n_components} dimensions"
    _draw(ranks, gains, ylabel, output / "lmnn_figure10.png")
    return text


def figure12(digits: Digits, ranks: list[int], output: Path) -> str:
    """Write lmnn_figure12.md and .png; return the Markdown."""
    problem = digits.problem
    source, together = problem.source, np.zeros(len(digits.y), dtype=np.int32)

    def search(L: np.ndarray, method: str) -> Callable[[], int]:
        Z = problem.embed(L)
        return lambda: sum(len(block.impostors) for block in source.near(Z, together, method=method))

    with threads.limited(1):  # trees have one thread, so that tiles have one, too
        whole = seconds(search(digits.full.components, "brute"))
        rows, gains = [], {"ball trees": [], "brute force": []}
        for rank in ranks:
            L = digits.rectangular(rank).components
            brute, tree = seconds(search(L, "brute")), seconds(search(L, "ball_tree"))
            pairs = search(L, "ball_tree")()
            gains["ball trees"].append(whole / tree)
            gains["brute force"].append(whole / brute)
            saved = f"{whole / brute:.2g} | {whole / tree:.2g}"
            rows.append(f"| {rank} | not at hand | {pairs:,} | {brute:.3f} | {tree:.3f} | {saved} |")
    lines = [
        f"One exhaustive search for impostors at the optimum, {len(digits.y):,} training rows: a ball tree for each "
        f"class (`sdpmetric.triplets.impostors.search_trees`, trees built anew in each search, as training must) "
        f"beside tiles of the distance matrix (`search_tiles`, single precision with an allowance for rounding, each "
        f"pair once). "
        f"Metrics: {digits.protocol}. Brute force under the metric of full rank ({len(digits.full.components)}) takes "
        f"{whole:.3f} s, which speed-ups refer to.",
        "",
        "| dimensions | paper | pairs found | brute force, s | ball trees, s | speed-up, brute force "
        "| speed-up, ball trees |",
        "| --- |" + " --- |" * 6,
        *rows,
    ]
    text = "\n".join(lines)
    (output / "lmnn_figure12.md").write_text(text + "\n")
    _draw(ranks, gains, "speed-up over brute force under the full metric", output / "lmnn_figure12.png")
    return text


def _brute(Z: np.ndarray, Q: np.ndarray) -> np.ndarray:
    return NearestNeighbors(n_neighbors=K, algorithm="brute").fit(Z).kneighbors(Q)[0]


def _draw(ranks: list[int], gains: dict[str, list[float]], ylabel: str, path: Path) -> None:
    figure, ax = plt.subplots(figsize=(6.6, 4.4), layout="constrained")
    for (name, curve), colour, style in zip(gains.items(), ("#0072B2", "#888888"), ("o-", "s:"), strict=True):
        ax.plot(ranks, curve, style, color=colour, label=name, markersize=5)
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
