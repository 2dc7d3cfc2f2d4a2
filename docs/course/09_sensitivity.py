r"""9. Sensitivity
==============

Multipliers are prices: they show which triplets hold the metric in place, and bound the optimum under other weights. A
small gap also bounds the distance to the optimal metric.
"""

# %%
# Prices
# ------
#
# For a fixed metric, LMNN's objective is a linear function of the push weight. The optimum is the smallest of these
# functions, one for each metric. So it is concave, and each metric's line is above it at *every* weight.

import matplotlib.pyplot as plt
import numpy as np

import sdpmetric as sm
from sdpmetric import datasets

X, y = datasets.load("iris")
X = datasets.standardize(X)
problem = sm.LMNNProblem.from_labels(X, y, push_weight=0.5)
solution = sm.solve(problem)
found = sm.explain(solution)
print(found)

# %%

weights = np.linspace(0.1, 0.9, 9)
optima = [sm.solve(problem.with_weights(push_weight=w)).objective for w in weights]
lines = [found.sensitivity.at_most(push_weight=w) for w in weights]
figure, axis = plt.subplots(figsize=(5.5, 3.4), layout="constrained")
axis.plot(weights, optima, "o-", color="#0072B2", label="optimum, solved again")
axis.plot(weights, lines, "--", color="#D55E00", label="bound by the metric of 0.5")
axis.set(xlabel="push weight", ylabel="objective")
axis.legend()
assert all(optimum <= line * (1 + 1e-3) for optimum, line in zip(optima, lines, strict=True))

# %%
# Who holds the metric in place?
# ------------------------------
#
# Only triplets with a positive multiplier do: few of the 45,000.

positive = len(found.support)
print(f"{positive} of 45,000 triplets; {np.sum(np.asarray(found.influence.contribution) != 0)} of 150 flowers")
assert positive < 2000

# %%
# Exercise 1
# Exercise 2
# ----------
#
# By how much does the optimum fall if flower 106 is left out? Estimate it before you solve.
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

anchored = np.asarray(found.slacks.by_role["anchor"])[106]
keep = np.arange(150) != 106
without = sm.solve(sm.LMNNProblem.from_labels(X[keep], y[keep], push_weight=0.5))
print(f"hinges of anchor 106 cost {anchored:.3f}; the optimum falls by {solution.objective - without.objective:.3f}")

# %%
# .. raw:: html
#
#    </details>
#
# Exercise 2: the price of the margin
# -----------------------------------
#
# By how much does the optimum rise if the margin is 1.1 instead of 1? Bound it without solving.
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

raised = found.sensitivity.at_least(margin=1.1)
print(f"at least {raised:.4f}, which is {raised / solution.lower_bound:.4f} times the lower bound")
# LMNN's other terms are linear in the metric, so the optimum is proportional to the margin: 10 % more.
assert np.isclose(raised, 1.1 * solution.lower_bound, rtol=1e-6)

# %%
# .. raw:: html
#
#    </details>
#
# Exercise 3: concavity, measured
# -------------------------------
#
# Do the optima in the picture show that the optimum is a concave function of the push weight?
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

bends = np.diff(optima, 2)
print("second differences:", np.round(bends, 3))
assert (bends <= 1e-3 * np.max(optima)).all()  # up to the gaps

# %%
# .. raw:: html
#
#    </details>
#
# Exercise 4: derive the ball
# ---------------------------
#
# A function that is strongly convex with modulus :math:`\lambda` exceeds its minimum by at least
# :math:`\tfrac{\lambda}{2} \lVert M - M^* \rVert^2`. What does an absolute gap g prove about the distance of M from the
# optimal metric? Compare with the true distance.
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

strong = sm.FrobeniusLMNNProblem.from_labels(X, y, frobenius=1.0)
rough, exact = sm.solve(strong, tol=1e-2), sm.solve(strong, solver="conic")
radius = np.sqrt(2 * (rough.objective - rough.lower_bound) / 1.0)
distance = np.linalg.norm(rough.metric - exact.metric)
print(f"proven at most {radius:.3f}, in truth {distance:.3f}")
assert distance <= radius * (1 + 1e-6)

# %%
# .. raw:: html
#
#    </details>
