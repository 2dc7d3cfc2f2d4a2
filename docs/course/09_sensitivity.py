r"""9. Sensitivity
==============

Multipliers are prices: they show which triplets hold the metric in place, and bound the
optimum under other weights. A small gap also bounds the distance to the optimal metric.

Boyd and Vandenberghe: section 5.6 (perturbation and sensitivity), 3.2.5 (minimization over a
variable) and 9.1.2 (strong convexity). Reading 30 minutes; exercises 11 points, about 65
minutes.
"""

# %%
# Prices
# ------
#
# For a fixed metric, LMNN's objective is a linear function of the push weight. The optimum is
# the smallest of these functions, one for each metric. So it is concave, and each metric's
# line is above it at *every* weight.

import matplotlib.pyplot as plt
import numpy as np

import sdpmetric as sm
from sdpmetric import datasets

X, y = datasets.load("iris")
X = datasets.standardize(X)
problem = sm.LMNNProblem.from_labels(X, y, push_weight=0.5)
solution = sm.solve(problem)
explanation = sm.explain(solution)
print(explanation)

# %%

weights = np.linspace(0.1, 0.9, 9)
optima = [sm.solve(problem.with_weights(push_weight=w)).objective for w in weights]
lines = [explanation.sensitivity.at_most(push_weight=w) for w in weights]
figure, axis = plt.subplots(figsize=(5.5, 3.4), layout="constrained")
axis.plot(weights, optima, "o-", color="#0072B2", label="optimum, solved again")
axis.plot(weights, lines, "--", color="#D55E00", label="bound by the metric of 0.5")
axis.set(xlabel="push weight", ylabel="objective")
axis.legend()
assert all(optimum <= line * (1 + 1e-3) for optimum, line in zip(optima, lines, strict=True))
plt.show()

# %%
# Who holds the metric in place?
# ------------------------------
#
# Only triplets with a positive multiplier do: few of the 45,000.

positive = len(explanation.support)
print(
    f"{positive} of 45,000 triplets; "
    f"{np.sum(np.asarray(explanation.influence.contribution) != 0)} of 150 flowers"
)
assert positive < 2000

# %%
# Self-check
# ----------
#
# Each exercise says what to call your answer. The cell below it tests the answer, or says what
# is missing.


def check(exercise, test):
    """Print whether an answer passes its test, or which name it still lacks."""
    try:
        print(f"exercise {exercise}: {'right' if test() else 'not yet'}")
    except NameError as missing:
        print(f"exercise {exercise}: no {missing.name} yet")


# %%
# Exercise 1 (3 points)
# ---------------------
#
# By how much does the optimum fall if flower 106 is left out? Compute an ``estimate`` before
# you solve, from the objective of ``solution`` in the problem without the flower, and say
# whether it is too large or too small. (``explanation.slacks.by_role`` has what the hinges of
# each flower cost.)
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

# %%
# Keep the metric :math:`M^*` and evaluate the smaller problem there. That takes away every
# term with flower 106: its hinges as anchor, target and impostor, and its pulls. Flowers whose
# target it was get another one. The new optimum is at most this value, so the optimum falls by
# *at least* the difference, up to the gap. It falls by more if another metric suits the
# remaining flowers better.

keep = np.arange(150) != 106
smaller = sm.LMNNProblem.from_labels(X[keep], y[keep], push_weight=0.5)
estimate = solution.lower_bound - smaller.objective(solution.components)
fall = solution.objective - sm.solve(smaller).objective
for role, costs in explanation.slacks.by_role.items():
    print(f"hinges with flower 106 as {role}: {np.asarray(costs)[106]:.3f}")
print(f"the optimum falls by at least {estimate:.3f}; solved again, it falls by {fall:.3f}")
assert 0 < estimate < fall

# %%
# Here the metric changes much: 106 is a flower of the last class among those of the second,
# and the metric no longer needs to make room for it.

# %%
# .. raw:: html
#
#    </details>

check(
    1,
    lambda: (
        0
        < estimate
        <= solution.objective
        - sm.solve(
            sm.LMNNProblem.from_labels(np.delete(X, 106, 0), np.delete(y, 106))
        ).lower_bound
    ),
)

# %%
# Exercise 2: the price of the margin (2 points)
# ----------------------------------------------
#
# How large is the optimum at least if the margin is 1.1 instead of 1? Bound it without
# solving: ``explanation.sensitivity.at_least(margin=...)`` returns the bound ``raised``. Is it
# tight?
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

# %%
# LMNN's other terms are linear in the metric: the metric :math:`1.1 M` with the margin 1.1 has
# 1.1 times the objective of M with the margin 1. So the optimum is proportional to the margin,
# and rises by exactly 10 %.

raised = explanation.sensitivity.at_least(margin=1.1)
print(
    f"at least {raised:.4f}, "
    f"which is {raised / solution.lower_bound:.4f} times the lower bound"
)
assert np.isclose(raised, 1.1 * solution.lower_bound, rtol=1e-6)

# %%
# .. raw:: html
#
#    </details>

check(2, lambda: np.isclose(raised, 1.1 * solution.lower_bound, rtol=1e-6))

# %%
# Exercise 3: concavity, measured (2 points)
# ------------------------------------------
#
# Do the optima in the picture show that the optimum is a concave function of the push weight?
# Compute their second differences, ``bends``.
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

check(3, lambda: len(bends) == len(optima) - 2 and np.max(bends) <= 1e-3 * np.max(optima))

# %%
# Exercise 4: derive the ball (4 points)
# --------------------------------------
#
# A function that is strongly convex with modulus :math:`\lambda` exceeds its minimum by at
# least :math:`\tfrac{\lambda}{2} \lVert M - M^* \rVert^2`. What does an absolute gap g prove
# about the distance of M from the optimal metric? Compare this ``radius`` with the true
# ``distance``. LMNN is not strongly convex. Its sum with a Frobenius term is, with the modulus
# 1: for every third flower, ``few = X[::3], y[::3]``, solve ``sm.MetricProblem(few[0], 0.5 *
# sm.terms.Pull(labels=few[1]) + 0.5 * sm.terms.TripletHinge(labels=few[1]) +
# sm.terms.Frobenius())`` with ``tol=1e-2`` and with ``tol=1e-8``.
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

# %%
# The optimum is at least the lower bound b, so :math:`\tfrac{\lambda}{2} \lVert M - M^*
# \rVert^2 \le f(M) - f(M^*) \le f(M)
# - b = g`, hence :math:`\lVert M - M^* \rVert \le \sqrt{2 g / \lambda}`.

few = X[::3], y[::3]
lmnn = 0.5 * sm.terms.Pull(labels=few[1]) + 0.5 * sm.terms.TripletHinge(labels=few[1])
strong = sm.MetricProblem(few[0], lmnn + sm.terms.Frobenius())
rough, exact = sm.solve(strong, tol=1e-2), sm.solve(strong, tol=1e-8)
radius = np.sqrt(2 * (rough.objective - rough.lower_bound) / 1.0)
distance = np.linalg.norm(rough.metric - exact.metric)
print(f"proven at most {radius:.3f}, in truth {distance:.3f}")
assert distance <= radius * (1 + 1e-6)

# %%
# .. raw:: html
#
#    </details>

check(4, lambda: 0 < distance <= radius * (1 + 1e-6))
