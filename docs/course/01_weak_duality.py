r"""1. A metric by hand, and weak duality
=======================================

We state large margin nearest neighbor classification (LMNN) for six points on a line, solve it
by hand, and prove that the answer is optimal. You need to know what a derivative is, and
nothing else.

Boyd and Vandenberghe: sections 5.1.1 to 5.1.3 and 5.2.2 (weak duality), 3.3.1 (conjugates, for
exercise 3). Reading 30 minutes; exercises 11 points, about 65 minutes.
"""

# %%
# Six points, two classes
# -----------------------
#
# On a line a metric is a single number :math:`m \ge 0`, and the squared distance of two points
# is :math:`m (a - b)^2`.

import numpy as np

import sdpmetric as sm

X = np.array([0.0, 1.0, 2.0, 3.5, 4.5, 5.5])[:, None]
y = np.array([0, 0, 0, 1, 1, 1])

# %%
# Each point gets one *target neighbor*, the nearest point of its class. A *triplet* (i, j, l)
# is a point i, its target neighbor j and a point l of the other class: an *impostor* if it is
# closer than the margin of 1 allows, :math:`D(i, l) < D(i, j) + 1`.

problem = sm.LMNNProblem.from_labels(X, y, n_neighbors=1, push_weight=0.5)
print(problem.describe())

# %%
# The objective
# -------------
#
# Half of the sum of the squared distances to target neighbors (the *pull*), plus half of the
# sum of the hinges :math:`[1 + D(i, j) - D(i, l)]_+` over all triplets (the *push*). In one
# dimension both are easy to write down.

anchors, targets = problem.target_pairs
near = (X[anchors, 0] - X[targets, 0]) ** 2
strangers = [np.flatnonzero(y != y[i]) for i in anchors]
far = np.array([(X[i, 0] - X[o, 0]) ** 2 for i, o in zip(anchors, strangers, strict=True)])


def objective(m):
    """Pull and push of the metric m."""
    return 0.5 * m * near.sum() + 0.5 * np.maximum(0, 1 + m * near[:, None] - m * far).sum()


for m in (0.0, 0.5, 1.0):
    assert np.isclose(objective(m), problem.objective(metric=[[m]]))
    print(f"m = {m}: objective {objective(m):.3f}")

# %%
# The objective is piecewise linear in m. Its kinks are where a hinge becomes zero, and the
# minimum is at 0 or at a kink.

kinks = (1 / (far - near[:, None]))[far > near[:, None]]
best = min([0.0, *kinks], key=objective)
print(f"the best m is {best:.4f}, with the objective {objective(best):.4f}")

# %%
# A bound from below
# ------------------
#
# How could we convince somebody who did not look at all kinks? For every hinge and every
# number :math:`0 \le a \le 1/2`
#
# .. math:: \tfrac12 [u]_+ \ge a u ,
#
# since a hinge is at least zero and at least its argument. Choose such a *multiplier*
# :math:`a_t` for each triplet and add up. What is left is linear in m:
#
# .. math::
#
#    f(m) \ge \sum_t a_t + m \, S(a), \qquad
#    S(a) = \tfrac12 \sum (\text{near}) - \sum_t a_t (\text{far}_t - \text{near}_t) .
#
# If :math:`S(a) \ge 0`, the last term is not negative for any metric, and so *every* metric
# has an objective of at least :math:`\sum_t a_t`. This is weak duality. Let us try
# multipliers: 1/2 where the hinge is active at the best m.


def bound(a):
    """The sum of the multipliers, if S(a) is not negative."""
    S = 0.5 * near.sum() - (a * (far - near[:, None])).sum()
    return a.sum() if S >= -1e-12 else -np.inf


hinges = 1 + best * near[:, None] - best * far
a = np.where(hinges > 1e-9, 0.5, 0.0)
print("multipliers of active triplets only:", bound(a))

# %%
# That is a bound, but not a tight one: S is positive. The triplet whose hinge is exactly zero
# may have any multiplier between 0 and 1/2. We raise it until S is zero.

tight = np.argmin(np.abs(hinges))
room = 0.5 * near.sum() - (a * (far - near[:, None])).sum()
a.flat[tight] = room / (far - near[:, None]).flat[tight]
assert 0 <= a.flat[tight] <= 0.5
print(f"lower bound {bound(a):.4f}, objective {objective(best):.4f}")

# %%
# *The* picture of this package: the objective is a convex curve, every choice of multipliers
# is a line below it, and the best one touches the lowest point.

import matplotlib.pyplot as plt

figure, axis = plt.subplots(figsize=(6, 3.6), layout="constrained")
grid = np.linspace(0, 0.8, 400)
axis.plot(grid, [objective(m) for m in grid], color="#0072B2", label="objective f(m)")
for share, style in ((0.5, ":"), (0.8, "--"), (1.0, "-")):
    slope = 0.5 * near.sum() - (share * a * (far - near[:, None])).sum()
    axis.plot(
        grid,
        share * a.sum() + slope * grid,
        style,
        color="#D55E00",
        label=f"bound by {share:.0%} of the multipliers",
    )
axis.plot(best, objective(best), "o", color="black")
axis.set(xlabel="metric m", ylim=(0, 6))
axis.legend()
plt.show()

# %%
# Bound and objective are equal, so the proof is complete. No metric is better, and nobody has
# to trust our search.
assert np.isclose(bound(a), objective(best))

# %%
# The package does the same, for matrices: S(a) becomes a matrix that must be positive
# semidefinite.

solution = sm.solve(problem, tol=1e-8)
print(solution.certificate)
assert solution.lower_bound <= objective(best) + 1e-9 <= solution.objective + 2e-9

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
# Multiply the best multipliers by 1.1. Why do they prove nothing? How can you repair them
# (store the array as ``repaired``), and how good is the bound then?
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

print(bound(1.1 * a))  # S is negative, and multipliers of 1/2 left their box
scale = min(0.5 / (1.1 * a).max(), 0.5 * near.sum() / (1.1 * a * (far - near[:, None])).sum())
repaired = scale * 1.1 * a
print(bound(repaired))  # scaled back into box and cone: here the old bound again
assert np.isclose(bound(repaired), bound(a))

# %%
# .. raw:: html
#
#    </details>

check(
    1,
    lambda: (
        bound(repaired) > 0.999 * bound(a)
        and 0 <= repaired.min() <= repaired.max() <= 0.5 + 1e-9
    ),
)

# %%
# Exercise 2 (2 points)
# ---------------------
#
# Certify the metric m = 1 by ``sm.verify(problem, metric=[[1.0]])``, which has an
# ``objective`` and a ``lower_bound``. By the certificate, what share of its objective f can a
# better metric ``save``, and how far may f be ``above`` the optimum, as a share of the
# optimum? Which of the two is the relative gap? How far above is it in ``truth``?
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

certificate = sm.verify(problem, metric=[[1.0]])
print(certificate)
f, b = certificate.objective, certificate.lower_bound
save, above, truth = (f - b) / f, f / b - 1, objective(1.0) / objective(best) - 1
print(f"another metric saves at most {save:.4f} of f; gap {certificate.relative_gap:.4f}")
print(f"f is at most {above:.2%} above the optimum, in truth {truth:.2%}")
assert b <= objective(best) * (1 + 1e-12)

# %%
# The optimum v lies between b and f. The share that can be saved, (f - v) / f, is at most (f -
# b) / f. This is the relative gap, and less than 1 for every positive b. How far f is above
# the optimum, (f - v) / v, is at most (f - b) / b = f / b - 1, which has no limit as b falls
# to 0. With the relative gap g it is g / (1 - g): 0.1 % stays 0.1 %, but 89 % becomes 809 %.
# The certificate prints this share with two digits, rounded up: 130 % for 125.00 %.

# %%
# .. raw:: html
#
#    </details>

check(
    2,
    lambda: np.allclose([above, truth], [save / (1 - save), 1.25], rtol=1e-3) and 0 < save < 1,
)

# %%
# Exercise 3: derive a conjugate (4 points)
# -----------------------------------------
#
# Lines lie below the squared hinge :math:`\tfrac12 [u]_+^2`, too. Show that :math:`\tfrac12
# [u]_+^2 \ge a u - \tfrac12 a^2` for every :math:`a \ge 0`, and that equality holds for
# :math:`a = [u]_+`. Write the term that is subtracted as a function ``conjugate(a)``.
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

# %%
# For :math:`u > 0` the difference of the two sides is a square,
#
# .. math:: \tfrac12 u^2 - \bigl(a u - \tfrac12 a^2\bigr) = \tfrac12 (u - a)^2 \ge 0 ,
#
# and it is 0 exactly for :math:`a = u = [u]_+`. For :math:`u \le 0` the left side is 0 and
# both terms on the right are at most 0, since :math:`a \ge 0`; both are 0 for :math:`a = 0 =
# [u]_+`. The largest lower bound of this kind, :math:`\max_{a \ge 0} \{a u - \tfrac12 a^2\}`,
# is therefore the loss itself: :math:`\tfrac12 a^2` is its conjugate.


def conjugate(a):
    """The conjugate of half the squared hinge, for a >= 0."""
    return 0.5 * a**2


u = np.linspace(-3, 3, 61)
loss = 0.5 * np.maximum(u, 0) ** 2
assert all((loss >= slope * u - conjugate(slope) - 1e-12).all() for slope in (0.0, 0.5, 2.0))
slope_of_u = np.maximum(u, 0)
assert np.allclose(loss, slope_of_u * u - conjugate(slope_of_u))

# %%
# .. raw:: html
#
#    </details>

check(
    3,
    lambda: all(
        np.isclose(
            conjugate(s),
            max(s * v - max(v, 0) ** 2 / 2 for v in np.arange(-9, 9, 0.01)),
            atol=1e-4,
        )
        for s in (0.0, 0.5, 2.0)
    ),
)

# %%
# Exercise 4: break it (3 points)
# -------------------------------
#
# Find ``labels`` of the six points for which the best metric is m = 0, and multipliers that
# prove it.
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

labels = [0, 1, 1, 1, 1, 0]
mixed = sm.LMNNProblem.from_labels(X, labels, n_neighbors=1, push_weight=0.5)
outer = sm.solve(mixed, tol=1e-8)
print(
    f"metric {outer.metric[0, 0]:.1e}, objective {outer.objective:.6f}, "
    f"lower bound {outer.lower_bound:.6f}"
)
assert np.isclose(outer.lower_bound, 8)
assert np.isclose(outer.objective, 8)

# %%
# The two outer points are targets of each other, and every other point lies between them. With
# all 16 multipliers equal to 1/2, :math:`S(a)` is not negative, and the bound is 16/2 = 8, the
# objective of m = 0.

# %%
# .. raw:: html
#
#    </details>

check(
    4,
    lambda: (
        sm.solve(sm.LMNNProblem.from_labels(X, labels, n_neighbors=1), tol=1e-8).metric[0, 0]
        < 1e-6
    ),
)
