r"""10. Online learning, regret, and a false theorem
==================================================

Pairs arrive one after another, and each of them updates the metric. What can be proven about such a learner? We define
regret, compare an online learner with the best fixed metric, and refute a published theorem with one pair.
"""

# %%
# A stream of pairs
# -----------------
#
# LEGO takes pairs with target distances: similar ones should be near, dissimilar ones far. Only the first of three
# features matters here.

import math

import numpy as np

import sdpmetric as sm

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 3))
pairs = np.array([rng.choice(60, 2, replace=False) for _ in range(300)])
D = np.sum((X[pairs[:, 0]] - X[pairs[:, 1]]) ** 2, axis=1)
similar = np.abs(X[pairs[:, 0], 0] - X[pairs[:, 1], 0]) < 0.7
low, high = np.percentile(D, [5, 95])
targets, sides = np.where(similar, low, high), np.where(similar, 1, -1)  # at most low, at least high

stream = sm.LEGOStream(3, learning_rate=0.05)
losses = []
for (a, b), target, side in zip(pairs, targets, sides, strict=True):
    losses.append(stream.update(X[a], X[b], target, side).loss)
print(f"cumulative loss {sum(losses):.1f}; first 100 pairs {sum(losses[:100]):.1f}, last 100 {sum(losses[-100:]):.1f}")

# %%
# The metric has learned what matters: the first feature has the largest weight.

print(np.round(stream.metric, 2))
assert np.argmax(np.diag(stream.metric)) == 0

# %%
# Regret
# ------
#
# Is that loss large? The fair comparison is with the best metric *in hindsight*, which sees all pairs at once but may
# not change. The difference of the cumulative losses is the *regret*. The best fixed metric is a convex problem, so
# it can be bounded from below, with a proof.

problem = sm.LEGOProblem(X, pairs, targets, sides, learning_rate=0.05)
certificate = sm.regret(problem, sm.solve(problem))
print(certificate)
assert np.isclose(certificate.objective, sum(losses))
assert certificate.lower_bound <= certificate.objective <= certificate.regret_bound

import matplotlib.pyplot as plt

figure, axis = plt.subplots(figsize=(6, 3.4), layout="constrained")
axis.plot(np.cumsum(losses), label="loss of the stream")
axis.axhline(certificate.lower_bound, color="tab:red", linestyle="--", label="no fixed metric loses less, in all")
axis.set(xlabel="pairs", ylabel="cumulative loss", ylim=(0, None))
axis.legend()

# %%
# Three numbers: the loss of the stream, a lower bound on the loss of every fixed metric, and the bound of the theorem.
# The theorem holds here, with room to spare.
#
# A theorem that is false
# -----------------------
#
# The paper of LEGO bounds the loss with constants that contain R, where all *points* have a squared norm of at most
# R. One pair is a counterexample. The two points are opposite, with :math:`\lVert u \rVert^2 = 10 = R`,
# so their squared distance is 40 and not 10. With the target 1 the first step costs

u, target, eta = math.sqrt(10), 1.0, 1.0
online = 0.5 * (4 * u**2 - target) ** 2
print("loss of the online learner:", online)

# %%
# The comparator is the metric 1/40, which meets the target exactly: its loss is 0, and the bound of
# the theorem is a multiple of its LogDet divergence from the first metric.

comparator = target / (4 * u**2)
divergence = comparator - math.log(comparator) - 1
root = 10 / 2 + math.sqrt(10**2 / 4 + 1 / eta)  # the paper's constant with R = 10
allowed = (1 / eta + root**2) * divergence
print(f"the printed theorem allows {allowed:.1f}")
assert online > allowed

# %%
# The proof bounds *differences* of points, and predictions under metrics that may grow, by R. With R the largest of the
# predictions and targets that occur, the theorem holds; the package computes that bound (see the errata).

pair = np.array([[u], [-u]])
once = sm.LEGOProblem(pair, np.array([[0, 1]]), np.array([target]), learning_rate=eta)
corrected = sm.regret(once, sm.solve(once))
print(corrected)
assert corrected.objective <= corrected.regret_bound

# %%
# Exercise 1
# ----------
#
# The learning rate trades two terms of the bound. Run the stream with rates from 0.001 to 1 and find the one with the
# smallest loss. Does the lower bound depend on the rate? Why not?
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

bounds = []
for rate in (0.001, 0.01, 0.1, 1.0):
    stated = sm.LEGOProblem(X, pairs, targets, sides, learning_rate=rate)
    found = sm.regret(stated, sm.solve(stated))
    bounds.append(found.lower_bound)
    print(f"rate {rate}: loss {found.objective:.1f}, every fixed metric at least {found.lower_bound:.1f}")
# A fixed metric has no learning rate: the bound is about the pairs alone.
assert np.allclose(bounds, bounds[0], rtol=1e-3)

# %%
# .. raw:: html
#
#    </details>
#
# Exercise 2: where the printed theorem breaks
# --------------------------------------------
#
# For which R does the counterexample contradict the printed bound?
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

for R in (0.25, 0.5, 1.0, 2.0, 5.0, 10.0):
    predicted = 4 * R  # squared distance of two opposite points
    loss = 0.5 * (predicted - target) ** 2
    root = R / 2 + math.sqrt(R**2 / 4 + 1 / eta)
    divergence = target / predicted - math.log(target / predicted) - 1
    print(f"R = {R}: loss {loss:.2f}, allowed {(1 / eta + root**2) * divergence:.2f}")
# At R = 1/4 the prediction meets the target; from R = 1 on the loss exceeds what is allowed.
assert loss > (1 / eta + root**2) * divergence

# %%
# .. raw:: html
#
#    </details>
#
# Exercise 3: break the order
# ---------------------------
#
# Shuffle the pairs. What changes: the loss of the learner, the bound on fixed metrics, the bound of the theorem?
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

order = np.random.default_rng(1).permutation(len(pairs))
shuffled = sm.LEGOProblem(X, pairs[order], targets[order], sides[order], learning_rate=0.05)
mixed = sm.regret(shuffled, sm.solve(shuffled))
print(f"loss {certificate.objective:.2f} and {mixed.objective:.2f}; fixed {mixed.lower_bound:.2f}")
assert np.isclose(mixed.lower_bound, certificate.lower_bound, rtol=1e-3)  # a sum does not know the order

# %%
# .. raw:: html
#
#    </details>
#
# Exercise 4: an optimum that is useless
# --------------------------------------
#
# Optimal is not useful. Learn a metric for 40 examples of 60 features of which only the first two matter. What do
# neighbors of new examples say?
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

from sdpmetric import classification

rng = np.random.default_rng(3)
A, B = rng.normal(size=(40, 60)), rng.normal(size=(400, 60))
a, b = (np.sign(Z[:, 0] + Z[:, 1]).astype(int) for Z in (A, B))
solved = sm.solve(sm.LMNNProblem.from_labels(A, a))
for name, L in (("Euclidean", np.eye(60)), ("learned", solved.components)):
    seen = np.mean(classification.knn_predict(L, A, a, n_neighbors=3) == a)
    new = np.mean(classification.knn_predict(L, A, a, B, 3) == b)
    print(f"{name}: training examples {seen:.0%}, new ones {new:.0%}")
print(f"objective {solved.objective:.1e}: the optimum, 0, separates the training set in directions of no cost")
assert solved.status.ok
assert np.mean(classification.knn_predict(solved.components, A, a, B, 3) == b) < 0.9

# %%
# .. raw:: html
#
#    </details>
