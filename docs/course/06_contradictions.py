r"""6. Pairs that contradict each other: Farkas' lemma
==================================================

Some demands cannot be met by any metric. A failed solver does not prove that; a few
multipliers do. We find them, check them by hand, and see that one of two certificates always
exists.

Boyd and Vandenberghe: sections 5.8 (theorems of alternatives) and 5.9.4 (the same with cones).
Reading 30 minutes; exercises 10 points, about 60 minutes.
"""

# %%
# Three points
# ------------
#
# POLA asks for a metric A and a threshold :math:`b \ge 1`: squared distances of similar pairs
# should be at most b - 1, those of dissimilar ones at least b + 1. Take points at 0, 1 and 2
# on a line: the outer two are similar, and 0 and 1 are not.

import numpy as np

import sdpmetric as sm

X = np.array([[0.0], [1.0], [2.0]])
problem = sm.POLAProblem(X, pairs=[[0, 2], [0, 1]], similar=[True, False])
solution = sm.solve(problem)
print(solution.status, solution.certificate.contradiction)

# %%
# On a line the reason is plain: 4 m must be at most b - 1, and m at least b + 1. In general,
# multiply the demands by :math:`a_t \ge 0` that are not all 0, and add them up. Any metric
# that meets the demands satisfies
#
# .. math:: \sum_t a_t \le b \sum_t a_t y_t - \Bigl\langle \sum_t a_t y_t V_t, A \Bigr\rangle ,
#
# where :math:`y_t = \pm 1`. But the left side is positive, and the right side is not, for any
# A and b, if :math:`\sum_t a_t y_t V_t \succeq 0` and :math:`\sum_t a_t y_t \le 0`.

a, signs, squares = np.array([1.0, 1.0]), np.array([1, -1]), np.array([4.0, 1.0])
print("matrix:", (a * signs * squares).sum(), "threshold:", (a * signs).sum())
assert (a * signs * squares).sum() >= 0 >= (a * signs).sum()

# %%
# Each demand is a half plane of metrics m and thresholds b. The two do not meet where m is at
# least 0:

import matplotlib.pyplot as plt

m = np.linspace(-1.5, 2, 50)
figure, axis = plt.subplots(figsize=(6, 3.4), layout="constrained")
axis.fill_between(
    m, 4 * m + 1, 9, alpha=0.4, label="0 and 2 are similar: b is at least 4 m + 1"
)
axis.fill_between(m, -9, m - 1, alpha=0.4, label="0 and 1 are not: b is at most m - 1")
axis.axvline(0, color="black", linewidth=1)
axis.set(xlabel="metric m", ylabel="threshold b", xlim=(-1.5, 2), ylim=(-6, 9))
axis.legend(loc="lower right")
plt.show()

# %%
# A theorem of alternatives
# -------------------------
#
# Farkas' lemma says that there is no third case: either a metric meets all demands, or such
# multipliers exist. For matrices this needs that the set of all sums is closed, which the
# `docs <../../pola.html>`_ show. We try random pairs in five dimensions: the demands of a few
# can be met, those of many cannot.

rng = np.random.default_rng(0)
for count in (5, 20, 80):
    Z = rng.normal(size=(40, 5))
    pairs = np.array([rng.choice(40, 2, replace=False) for _ in range(count)])
    similar = rng.random(count) < 0.5
    hard = sm.POLAProblem(Z, pairs, similar)
    outcome = sm.solve(hard)
    print(f"{count} random pairs: {outcome.status}")
    assert str(outcome.status) in ("optimal", "infeasible")

# %%
# The multipliers of the last one, checked without the package:

V = Z[pairs[:, 0]] - Z[pairs[:, 1]]
a, sign = outcome.dual, np.where(similar, 1.0, -1.0)
matrix = (V.T * (a * sign)) @ V
lowest, highest = np.linalg.eigvalsh(matrix)[[0, -1]]
print(f"smallest eigenvalue {lowest / highest:.1e}, sum {np.sum(a * sign) / a.sum():.1e}")
print(len(outcome.certificate.contradiction), "pairs contradict each other")
assert lowest >= -1e-9 * highest
assert np.sum(a * sign) <= 1e-9 * a.sum()

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
# Exercise 1 (2 points)
# ---------------------
#
# Leave out one of the contradicting pairs. Are the others feasible? Store the solution of the
# problem without it as ``without``.
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

remaining = np.setdiff1d(np.arange(count), outcome.certificate.contradiction[:1])
without = sm.solve(sm.POLAProblem(Z, pairs[remaining], similar[remaining]))
print(without.status)

# %%
# Not necessarily: other pairs may contradict each other as well, and the listed set need not
# be a smallest one.

# %%
# .. raw:: html
#
#    </details>

check(
    1,
    lambda: (
        len(without.problem.pairs) == count - 1
        and str(without.status) in ("optimal", "infeasible")
    ),
)

# %%
# Exercise 2 (2 points)
# ---------------------
#
# Soften the demands of the three points with ``slack_weight=1`` and solve that as ``soft``;
# ``soft.extras["threshold"]`` is b. What is the optimum, and which pair pays? List the two
# ``slacks``.
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

soft = sm.solve(sm.POLAProblem(X, problem.pairs, problem.similar, slack_weight=1.0))
distances, b = soft.metric[0, 0] * squares, soft.extras["threshold"]
slacks = np.maximum(0, 1 - signs * (b - distances))
print(f"{soft.status}, objective {soft.objective:.3f}, slacks {slacks.round(3)}")
assert soft.status.ok

# %%
# The dissimilar pair pays: its slack is 2, and the metric is 0 with the threshold 1. To widen
# the distance of 0 and 1 by m costs the similar pair 4 m, so no metric is worth its cost. The
# objective is the slack.

# %%
# .. raw:: html
#
#    </details>

check(
    2,
    lambda: (
        np.isclose(soft.objective, 2, atol=1e-3) and np.isclose(np.sum(slacks), 2, atol=1e-2)
    ),
)

# %%
# Exercise 3: Farkas for numbers (3 points)
# -----------------------------------------
#
# The demands :math:`x \le 0` and :math:`x \ge 1` contradict each other. Which multipliers show
# it? Let a linear program find them, and store the two as ``farkas``, that of x <= 0 first.
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

# %%
# Write the demands as :math:`A x \le b`. Multipliers :math:`a \ge 0` with :math:`a^\top A = 0`
# and :math:`a^\top b < 0` turn their sum into :math:`0 \le a^\top b < 0`, which no x
# satisfies. Here the two demands add up to :math:`1 \le 0` with the multipliers 1 and 1.

from scipy.optimize import linprog

A, b = np.array([[1.0], [-1.0]]), np.array([0.0, -1.0])  # A x <= b
found_a = linprog(b, A_eq=A.T, b_eq=[0.0], bounds=[(0, 1), (0, 1)])
farkas = found_a.x
print(farkas, found_a.fun)
assert found_a.fun < 0

# %%
# .. raw:: html
#
#    </details>

check(3, lambda: np.isclose(farkas[0], farkas[1]) and farkas[1] > 0)

# %%
# Exercise 4: design a contradiction (3 points)
# ---------------------------------------------
#
# Build a problem ``twins`` of two pairs in the plane that no metric satisfies. Use as few
# points as you can.
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

twins = sm.POLAProblem([[0.0, 0.0], [1.0, 2.0]], pairs=[[0, 1], [1, 0]], similar=[True, False])
answer = sm.solve(twins)
print(
    answer.status, answer.certificate.contradiction
)  # one pair, called similar and dissimilar
assert str(answer.status) == "infeasible"

# %%
# .. raw:: html
#
#    </details>

check(4, lambda: len(twins.pairs) == 2 and str(sm.solve(twins).status) == "infeasible")
