"""LEGO, Fig. 2
============

Fig. 2 of Jain et al. (2008): search by a learned metric, an index against linear scans, on made patches.

Run it with ``python examples/reproductions/lego_fig2.py``; it writes lego_fig2.md and lego_fig2.png into ``--output``.
Left as printed: after all constraints, recall of a query's true matches against the number of patches retrieved, by
LEGO and by Euclidean distances, each by a linear scan and by an index that ranks 10 % of the base. Right as printed:
constraints and queries in random order, and the recall so far, by LEGO with a linear scan, with an index whose keys are
made anew after every constraint (naive), with one whose keys follow the metric, and by a Euclidean linear scan. Patches
and constraints are those of ``lego_patches.py``, in place of Photo Tourism.

.. image:: /pictures/lego_fig2.png
   :alt: LEGO, Fig. 2, as this script draws it
"""

# sphinx_gallery_thumbnail_path = 'pictures/lego_fig2.png'

import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from lego_patches import VIEWS, draw_pairs, patches
from printed import command, markdown, report

import sdpmetric as sm

BITS, SHARE = 64, 0.1


def ranked(X: np.ndarray, components: np.ndarray, q: np.ndarray, depth: int) -> np.ndarray:
    """The nearest rows by a linear scan, nearest first."""
    D = np.sum((X @ components.T - q @ components.T) ** 2, axis=1)
    found = np.argpartition(D, depth)[:depth]
    return found[np.argsort(D[found])]


class Base:
    """Patches to be searched, queries and their true matches: the other views of the same scene point."""

    def __init__(self, n_points: int, n_queries: int, depth: int) -> None:
        views, points = patches(n_points, 1)
        asked = np.zeros(len(points), dtype=bool)
        asked[:: VIEWS * max(1, n_points // n_queries)] = True
        self.X, self.points = views[~asked].astype(np.float32), points[~asked]
        self.queries, self.answers = views[asked], points[asked]
        self.depth = depth

    def recall(self, found: np.ndarray, query: int) -> np.ndarray:
        """Share of the true matches among the first 1, 2, .. patches retrieved."""
        hits = np.cumsum(self.points[found] == self.answers[query]) / (VIEWS - 1)
        return np.pad(hits, (0, self.depth - len(hits)), mode="edge")


def after_all(base: Base, metrics: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Left: mean recall over all queries, by number of patches retrieved."""
    curves = {}
    for name, G in metrics.items():
        index = sm.HashIndex(G, BITS, center=base.X.mean(axis=0)).add(base.X)
        by_scan, by_index = np.zeros(base.depth), np.zeros(base.depth)
        for t, q in enumerate(base.queries):
            by_scan += base.recall(ranked(base.X, G, q, base.depth), t)
            by_index += base.recall(index.query(q, base.depth, share=SHARE)[0], t)
        curves[f"{name}, linear scan"] = by_scan / len(base.queries)
        curves[f"{name}, index"] = by_index / len(base.queries)
    return curves


def stream(base: Base, X: np.ndarray, constraints: tuple[np.ndarray, ...], rate: float) -> dict[str, np.ndarray]:
    """Right: recall at the depth, averaged over the queries so far; and seconds for each way, printed."""
    lego = sm.LEGOStream(X.shape[1], rate)
    followed = sm.HashIndex(lego.components, BITS, center=base.X.mean(axis=0)).add(base.X)
    naive = sm.HashIndex(lego.components, BITS, center=base.X.mean(axis=0), rehash_share=0.0).add(base.X)
    pairs, targets, sides = constraints
    events = np.random.default_rng(5).permutation(len(pairs) + len(base.queries))
    names = ("LEGO, linear scan", "LEGO, naive index", "LEGO, index", "L2, linear scan")
    recalls, seconds = {name: [] for name in names}, dict.fromkeys(names, 0.0)
    queries, pending = iter(range(len(base.queries))), iter(range(len(pairs)))
    for event in events:
        if event < len(pairs):
            t = next(pending)
            steps = lego.update(X[pairs[t, 0]], X[pairs[t, 1]], targets[t], int(sides[t])).steps
            for name, index in (("LEGO, index", followed), ("LEGO, naive index", naive)):
                began = time.perf_counter()
                index.update(*steps)
                if index is naive:
                    index.rehash()
                seconds[name] += time.perf_counter() - began
            continue
        query = next(queries)
        q = base.queries[query]
        ways = {
            "LEGO, linear scan": lambda q=q: ranked(base.X, lego.components, q, base.depth),
            "LEGO, naive index": lambda q=q: naive.query(q, base.depth, share=SHARE)[0],
            "LEGO, index": lambda q=q: followed.query(q, base.depth, share=SHARE)[0],
            "L2, linear scan": lambda q=q: ranked(base.X, np.eye(X.shape[1]), q, base.depth),
        }
        for name, search in ways.items():
            began = time.perf_counter()
            found = search()
            seconds[name] += time.perf_counter() - began
            recalls[name].append(base.recall(found, query)[-1])
    print({name: f"{spent:.1f} s" for name, spent in seconds.items()})
    return {name: np.cumsum(values) / np.arange(1, len(values) + 1) for name, values in recalls.items()}


def main(arguments: list[str] | None = None) -> None:
    parser = command(__doc__, runs=False)
    parser.add_argument("--constraints", type=int, default=2000)
    parser.add_argument("--points", type=int, default=1500, help="scene points of the base; %(default)s")
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--depth", type=int, default=300, help="patches retrieved at most; %(default)s as printed")
    given = parser.parse_args(arguments)
    X, points = patches(200, 0)
    base = Base(given.points, given.queries, given.depth)

    def constraints(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        pairs, same = draw_pairs(points, given.constraints, seed)
        return pairs, np.where(same, low, high), np.where(same, 1, -1)

    some, _ = draw_pairs(points, 1000, 2)
    low, high = np.percentile(np.sum((X[some[:, 0]] - X[some[:, 1]]) ** 2, axis=1), [5, 95])
    rate = sm.LEGOStream.pretrained(X, *constraints(4)).learning_rate
    lego = sm.LEGOStream(X.shape[1], rate).partial_fit(X, *constraints(2))
    left = after_all(base, {"LEGO": lego.components, "L2": np.eye(X.shape[1])})
    right = stream(base, X, constraints(2), rate)

    def draw(path: Path) -> None:
        figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
        for axis, curves, start in ((axes[0], left, 1), (axes[1], right, 1)):
            for name, curve in curves.items():
                color = "#c0392b" if name.startswith("LEGO") else "0.4"
                style = {"linear scan": "-", "index": "--", "naive index": ":"}[name.split(", ")[1]]
                axis.plot(np.arange(start, len(curve) + start), curve, color=color, linestyle=style, label=name)
            axis.set(ylim=(0, 1.02), ylabel="recall of the true matches")
            axis.legend(frameon=False)
        axes[0].set_xlabel("patches retrieved")
        axes[1].set_xlabel("queries so far")
        figure.savefig(path, dpi=110)
        plt.close(figure)

    ten = min(10, given.depth) - 1
    rows = [[f"left: {name}", f"{c[ten]:.1%}", f"{c[-1]:.1%}"] for name, c in left.items()]
    rows += [[f"right: {name}", "", f"{c[-1]:.1%}"] for name, c in right.items()]
    note = (
        f"A base of {len(base.X):,} patches with {X.shape[1]} features, {len(base.queries)} queries, {VIEWS - 1} true "
        f"matches for each, {given.constraints:,} constraints of other patches; the index ranks {SHARE:.0%} of it. "
        "The paper prints no recalls."
    )
    heads = ["curve", f"recall at {ten + 1}", f"recall at {given.depth}"]
    report("lego_fig2", f"{note}\n\n{markdown(heads, rows)}", given.output, draw)


if __name__ == "__main__":
    main()
