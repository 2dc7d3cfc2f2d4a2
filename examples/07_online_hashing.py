"""Search while a metric is learned
================================

Search while a metric is learned: an index whose keys follow LEGO (Jain et al. 2008, section 3
and Fig. 2).

Left: how many of the query's class are found among the first items retrieved, by a linear scan
and by the index, which ranks a tenth of the examples. Right: the same over a stream in which
pairs and queries take turns.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import sdpmetric as sm
from sdpmetric.plotting import COLORS, STYLE

plt.style.use(STYLE)

ROUNDS, QUERIES, DEPTH, SHARE = 40, 10, 60, 0.1


def nearest(X: np.ndarray, components: np.ndarray, q: np.ndarray) -> np.ndarray:
    return np.argsort((((X - q) @ components.T) ** 2).sum(axis=1))[:DEPTH]


# %%
# Digits in random order, 300 of them as queries. Pairs of one class get a small target
# distance, pairs of two classes a large one.
X, y = load_digits(return_X_y=True)
rng = np.random.default_rng(0)
order = rng.permutation(len(X))
X, y = X[order] / X.max(), y[order]
queries, X, answers, y = X[:300], X[300:], y[:300], y[300:]
pairs = rng.integers(len(X), size=(2 * 15 * ROUNDS, 2))
pairs = pairs[pairs[:, 0] != pairs[:, 1]]
distances = ((X[pairs[:, 0]] - X[pairs[:, 1]]) ** 2).sum(axis=1)
same = y[pairs[:, 0]] == y[pairs[:, 1]]
low, high = np.percentile(distances, [5, 95])
sides, targets = np.where(same, 1, -1), np.where(same, low, high)

# %%
# The stream learns from the pairs, and the index follows each of its steps.
stream = sm.LEGOStream(X.shape[1], learning_rate=0.03 / distances.mean() ** 2)
index = sm.HashIndex(stream.components, 48, center=X.mean(axis=0)).add(X)
curves, over_time = np.zeros((2, DEPTH)), []
for turn in range(ROUNDS):
    for t in range(turn * 15, turn * 15 + 15):
        i, j = pairs[t]
        index.update(*stream.update(X[i], X[j], targets[t], int(sides[t])).steps)
    hits = np.zeros((2, DEPTH))
    for q in rng.choice(300, QUERIES, replace=False):
        relevant = np.sum(y == answers[q])
        for row, found in enumerate(
            (
                nearest(X, stream.components, queries[q]),
                index.query(queries[q], DEPTH, share=SHARE)[0],
            )
        ):
            hits[row] += np.cumsum(y[found] == answers[q]) / relevant / QUERIES
    over_time.append(hits[:, -1])
    curves += hits / ROUNDS
over_time = np.array(over_time)
scan, hashed = curves[:, -1]
print(
    f"recall at {DEPTH}: linear scan {scan:.1%}, "
    f"index {hashed:.1%} with {SHARE:.0%} of the examples ranked"
)
print(index.counters)

# %%
# Draw the recall against the depth and over time.
_, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
for row, (name, color, style) in enumerate(
    (("linear scan", "0.2", "-"), ("index", COLORS[1], "--"))
):
    left.plot(np.arange(1, DEPTH + 1), curves[row], color=color, linestyle=style, label=name)
    right.plot(
        np.arange(1, ROUNDS + 1) * 15,
        over_time[:, row],
        color=color,
        linestyle=style,
        label=name,
    )
left.set(xlabel="items retrieved", ylabel="recall of the query's class", ylim=(0, None))
right.set(xlabel="pairs taken", ylabel=f"recall at {DEPTH}", ylim=(0, 1))
left.legend(frameon=False)
plt.show()
