r"""Capstone: the best proof wins
=============================

Prove as large a lower bound as you can. You submit a proof file; the independent checker
scores it, so nobody has to trust you, your solver, or this package.

Boyd and Vandenberghe: section 5.5.1. Reading 15 minutes; exercises 6 points, about 35 minutes.
"""

# %%
# The task
# --------
#
# The problem is LMNN on every third flower of iris. Your submission is an NPZ file with
# multipliers; how you find them is up to you. Your score is the lower bound that the checker
# confirms, as a share of the optimum. A file that is not accepted scores 0.

import json
import re
import tempfile
from pathlib import Path

import numpy as np

import sdpmetric as sm
from sdpmetric import datasets
from sdpmetric.check.__main__ import main
from sdpmetric.core.certificate import Dual
from sdpmetric.core.proof import digest

folder = Path(tempfile.mkdtemp())
X, y = datasets.load("iris")
X, y = datasets.standardize(X)[::3], y[::3]
np.savez(folder / "data.npz", X=X, y=y)
problem = sm.LMNNProblem.from_labels(X, y, n_neighbors=2)
optimum = sm.solve(problem, solver="conic").lower_bound


def score(path):
    """The confirmed bound as a share of the optimum; 0 if the checker confirms none."""
    code, text = main([str(folder / "data.npz"), str(path)])
    return (
        float(re.search(r"no metric has one below ([^.]+\.?\d*(?:e[+-]\d+)?)", text)[1])
        / optimum
        if code == 0
        else 0.0
    )


def submit(dual, name):
    """Write multipliers as a proof file with the Euclidean metric; the bound is scored."""
    path = folder / name
    problem.proof(np.eye(4), dual).write(path)
    return path


# %%
# A first submission
# ------------------
#
# The same multiplier for every triplet, as in lesson 2. ``problem.proof`` makes a file that
# claims only what they prove.

i, j = problem.target_pairs
triplets = np.array(
    [(a, b, c) for a, b in zip(i, j, strict=True) for c in np.flatnonzero(y != y[a])],
    dtype=np.int32,
)
sources = sm.solve(problem, tol=1e-2)
first = submit(
    Dual(type(sources.dual.triplets)(*triplets.T), np.full(len(triplets), 1e-4)), "equal.npz"
)
print(f"equal multipliers: {score(first):.1%}")

# %%
# Better ones
# -----------

import matplotlib.pyplot as plt

scores = {"equal": score(first)}
for steps in (10, 100, 1000):
    descent = sm.solve(problem, solver="subgradient", max_iter=steps)
    descent.save_proof(folder / "mine.npz")
    scores[f"{steps} steps"] = score(folder / "mine.npz")
    print(f"{steps} steps of the subgradient method: {scores[f'{steps} steps']:.2%}")
figure, axis = plt.subplots(figsize=(6, 3), layout="constrained")
axis.bar_label(
    axis.barh(list(scores), [100 * s for s in scores.values()]), fmt="%.1f %%", padding=3
)
axis.set(xlabel="confirmed bound, % of the optimum", xlim=(0, 115))
axis.invert_yaxis()
assert 0.99 < score(folder / "mine.npz") <= 1
plt.show()

# %%
# Cheating does not pay: a claim that the multipliers do not prove scores 0, even with a valid
# seal.

with np.load(folder / "mine.npz") as stored:
    arrays = {name: stored[name] for name in stored.files}
about = json.loads(str(arrays["about"]))
about["lower_bound"] *= 1.001
text = json.dumps(about)
unsealed = {name: array for name, array in arrays.items() if name not in ("about", "seal")}
np.savez(
    folder / "cheat.npz",
    **unsealed,
    about=np.array(text),
    seal=np.array(digest(unsealed, text)),
)
print(f"a claim that is too large: {score(folder / 'cheat.npz'):.0%}")
assert score(folder / "cheat.npz") == 0

# %%
# Rules for a class
# -----------------
#
# - *Bronze*: 90 % of the optimum without any solver of this package: a subgradient method of
#   your own (lesson 7).
# - *Silver*: 99 % with as few nonzero multipliers as you can. Which triplets are needed
#   (lesson 9)?
# - *Gold*: a file that the checker accepts although its bound is false (lesson 8). Nobody has
#   found one; if you do, please report it.
#
# Exercise: silver (6 points)
# ---------------------------
#
# Set the smallest multipliers of an optimal solution to 0. How many must stay to prove 99 %?
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

exact = sm.solve(problem, solver="conic")
values, listed = np.asarray(exact.dual.values), exact.dual.triplets
for threshold in (1e-6, 0.1, 0.2, 0.4):
    chosen = values > threshold
    path = submit(Dual(listed, np.where(chosen, values, 0.0)), "few.npz")
    print(f"{chosen.sum()} multipliers above {threshold}: {score(path):.2%}")

# %%
# .. raw:: html
#
#    </details>
