"""Learning to rank: rank, loss and time
=====================================

Learning to rank with a metric of fixed rank: FRML's loss, and its rankings against rank and
against time.

Left: the loss of ranks on average over the sampling, truncated by gamma (Lim and Lanckriet
2014, Fig. 1). Middle: mean average precision (MAP) of held-out digits against the rank of the
metric, also for principal components (such curves for three data sets are in their Figs. 2 to
4). Right: MAP against seconds for several gamma: late passes spend nearly all draws on queries
whose relevant item already ranks high, and truncation saves them.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import sdpmetric as sm
from sdpmetric import ranking
from sdpmetric.plotting import COLORS, STYLE
from sdpmetric.ranking.frml_solver import principal
from sdpmetric.ranking.scores import expected_weights, rank_weights

plt.style.use(STYLE)

RANKS, PASSES = (2, 5, 10, 20), 12
HUES = {"warp": COLORS[0], "auc": COLORS[1], "euclidean": "0.5"}


def learner(
    X: np.ndarray, rank: int, loss: str = "warp", gamma: float = 25.0
) -> sm.FRMLStream:
    start = principal(X, rank, 20.0)
    return sm.FRMLStream(
        X.shape[1],
        rank,
        loss=loss,
        gamma=gamma,
        step=20.0,
        decay=0.1 * 5 / len(X),
        regularization=0.003,
        init=start,
    )


# %%
# Digits, scaled to a mean squared distance of 1.
X, y = load_digits(return_X_y=True)
X = X - X.mean(axis=0)
X /= np.sqrt(2 * X.var(axis=0).sum())  # a mean squared distance of 1
X, Q, y, asked = train_test_split(
    X, y, train_size=700, test_size=300, random_state=0, stratify=y
)
apart, own = sm.Relevance.from_labels(y, asked), sm.Relevance.from_labels(y)


def score(**how: np.ndarray) -> float:
    return ranking.evaluate(X, apart, Q, **how).map


# %%
# The loss of ranks, on average over the sampling.
_, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
n = 1000
axes[0].plot(
    rank_weights("warp", n), color="0.6", linestyle="--", label="loss of the true rank"
)
for gamma, shade in zip((1, 5, 25), (0.9, 0.65, 0.4), strict=True):
    axes[0].plot(
        expected_weights("warp", n, gamma),
        color=plt.cm.Blues(shade),
        label=f"expected, gamma {gamma}",
    )
axes[0].set(
    title="Truncated sampling",
    xlabel="violators among 1,000",
    ylabel="weight of a hinge",
    xlim=(1, n),
)
axes[0].set_xscale("log")
axes[0].legend(frameon=False)

# %%
# Mean average precision against the rank of the metric.
found: dict[str, list[float]] = {name: [] for name in HUES}
for rank in RANKS:
    for loss in ("warp", "auc"):
        stream = learner(X, rank, loss).partial_fit(X, own, n_steps=PASSES * len(X) // 5)
        found[loss].append(score(components=stream.components))
    found["euclidean"].append(score(components=principal(X, rank, 1.0)))
names = {
    "warp": "FRML-WARP, gamma 25",
    "auc": "FRML-AUC",
    "euclidean": "principal components",
}
for name, color in HUES.items():
    axes[1].plot(RANKS, found[name], color=color, marker="o", markersize=4, label=names[name])
axes[1].axhline(score(), color="0.5", linestyle=":", label="Euclidean, all 64 features")
axes[1].set(
    title="MAP against rank", xlabel="rank", ylabel="MAP of digits held out", xticks=RANKS
)
axes[1].legend(frameon=False, fontsize=8)
print(
    "MAP at rank 20:",
    {names[name]: round(values[-1], 3) for name, values in found.items()},
)

# %%
# Mean average precision against seconds.
for gamma, shade in zip((1, 5, 25), (0.9, 0.65, 0.4), strict=True):
    stream, seconds, scores = learner(X, 10, gamma=gamma), [0.0], []
    scores.append(score(components=stream.components))
    for _ in range(PASSES):
        began = time.process_time()
        stream.partial_fit(X, own)
        seconds.append(seconds[-1] + time.process_time() - began)
        scores.append(score(components=stream.components))
    axes[2].plot(
        seconds,
        scores,
        color=plt.cm.Blues(shade),
        marker="o",
        markersize=3,
        label=f"gamma {gamma}",
    )
    print(
        f"gamma {gamma}: MAP {scores[-1]:.3f} after "
        f"{stream.n_evaluations:,} evaluations of f_q"
    )
axes[2].set(
    title="MAP against time, rank 10",
    xlabel="CPU seconds of learning",
    ylabel="MAP of digits held out",
)
axes[2].legend(frameon=False)
plt.show()
