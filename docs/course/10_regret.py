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
# Exercise
# --------
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
