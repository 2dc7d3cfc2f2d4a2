r"""7. Why Algorithm 1 stalls and Polyak's step does not
======================================================

The LMNN paper uses subgradient descent and adapts the step: times 1.01 after a success, times
0.5 after a failure. We implement this rule, observe that it stops above the optimum, explain
why, and replace it.

Boyd and Vandenberghe: chapter 9.2 and 9.3 for descent; subgradients are in Boyd's notes for
EE364b. Reading 40 minutes; exercises 12 points, about 70 minutes.
"""

# %%
# A function with a kink
# ----------------------
#
# The objective of LMNN contains hinges, so it has kinks. A narrow valley with a sharp bottom,
# in two dimensions, shows what they do.

import matplotlib.pyplot as plt
import numpy as np


def f(x):
    """A valley: steep across, flat along."""
    return 10 * abs(x[0]) + abs(x[1] - 3)


def subgradient(x):
    """A slope of f; on a kink one of several."""
    return np.array([10 * np.sign(x[0]), np.sign(x[1] - 3)])


def descend(rule, steps=400):
    """Objectives and step lengths along the way, from (1, 0)."""
    x, step, best = np.array([1.0, 0.0]), 0.1, np.inf
    values, lengths = [], []
    for _ in range(steps):
        value = f(x)
        step = rule(step, value, best)
        best = min(best, value)
        values.append(best)
        lengths.append(step)
        g = subgradient(x)
        x = x - step * g / max(np.linalg.norm(g), 1e-12)
    return np.array(values), np.array(lengths)


# %%
# The rule of the paper
# ---------------------


def paper(step, value, best):
    """Algorithm 1: a little longer after a success, half after a failure."""
    return 1.01 * step if value < best else 0.5 * step


values, lengths = descend(paper)
print(f"best value {values[-1]:.4f}, last step {lengths[-1]:.1e}; the minimum is 0")
assert values[-1] > 1
assert lengths[-1] < 1e-6

# %%
# The steps across the valley overshoot the kink. Each failure halves the step, and it takes 70
# successes to make up for one failure, since :math:`1.01^{70} \approx 2`. Near the kink
# failures are more frequent than that, so the step lengths decrease geometrically. Their sum
# is finite, and so is the distance that the method can go. It stops, and its objective looks
# as if it had converged.
#
# Polyak's rule
# -------------
#
# If the optimum :math:`f^*` is known, the step
#
# .. math:: \frac{f(x) - f^*}{\lVert g \rVert^2}
#
# along the subgradient always brings x nearer to the solution: by convexity :math:`f^* \ge
# f(x) + \langle g, x^* - x \rangle`, so the squared distance to :math:`x^*` falls by at least
# :math:`(f(x) - f^*)^2 / \lVert g \rVert^2`. A *lower bound* can replace :math:`f^*` if it
# converges to it.


def polyak(step, value, best):
    """Polyak's step, for normalized directions: here the minimum is 0."""
    return value / np.sqrt(101)


polyak_values, polyak_lengths = descend(polyak)
print(f"best value {polyak_values[-1]:.2e}")
assert polyak_values[-1] < 1e-2 * values[-1]

figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
for name, (v, s) in {
    "Algorithm 1": (values, lengths),
    "Polyak": (polyak_values, polyak_lengths),
}.items():
    axes[0].semilogy(v, label=name)
    axes[1].semilogy(s, label=name)
axes[0].set(xlabel="iteration", ylabel="best value")
axes[1].set(xlabel="iteration", ylabel="step length")
axes[0].legend()
plt.show()

# %%
# On LMNN
# -------
#
# A certificate contains a lower bound, so Polyak's rule works without knowing the optimum.
# ``step="paper"`` is Algorithm 1 as printed.

import sdpmetric as sm
from sdpmetric import datasets

X, y = datasets.load("wine")
problem = sm.LMNNProblem.from_labels(datasets.standardize(X), y)
stalls = sm.solve(problem, solver="subgradient", step="paper", max_iter=1500)
proves = sm.solve(problem, solver="subgradient", tol=1e-2)
for name, solution in (("Algorithm 1", stalls), ("Polyak", proves)):
    print(f"{name}: {solution.status}, proven relative gap {solution.relative_gap:.1e}")
assert proves.relative_gap <= 1e-2 < stalls.relative_gap

# %%
# The objective does not show that Algorithm 1 stopped too early, but the certificate does: its
# gap is large.
#
# The factor: Burer and Monteiro
# ------------------------------
#
# The default solver descends in a factor L of :math:`M = L^\top L` instead. That is not
# convex, but the certificate does not care: a point whose gradient :math:`2 L S` vanishes is a
# global optimum if S is positive semidefinite. A factor of too few rows can be stationary
# without that; then a new row along a direction in which S is negative leads down.

flat = sm.solve(problem, n_components=1)
full = sm.solve(problem, tol=1e-3)
for name, solution in (("rank 1", flat), ("full", full)):
    print(f"{name}: objective {solution.objective:.1f}, gap {solution.relative_gap:.0e}")
assert flat.certificate.kind == "relaxation"
assert full.objective < flat.objective

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
# Change the rule of the paper to times 1.5 after a success and times 0.7 after a failure: one
# success makes up for one failure. Call it ``faster(step, value, best)``. Does it still stall
# in the valley? Why?
#
# .. raw:: html
#
#    <details><summary>Solution</summary>


def faster(step, value, best):
    """The same rule with other factors."""
    return 1.5 * step if value < best else 0.7 * step


faster_values, _ = descend(faster)
print(f"best value {faster_values[-1]:.2e}, against {values[-1]:.2e}")
assert faster_values[-1] > 1

# %%
# It still stalls: at the kink fewer than half of the steps succeed. Any two factors fail in
# some valley, since the share of successes depends on the angle of the kink, which the rule
# does not know. Polyak's step needs no factors.

# %%
# .. raw:: html
#
#    </details>

check(1, lambda: (faster(1.0, 0.0, 1.0), faster(1.0, 1.0, 0.0)) == (1.5, 0.7))

# %%
# Exercise 2: compute how far it can go (2 points)
# ------------------------------------------------
#
# Add up the step lengths of Algorithm 1 in the valley, to a ``total``. Can it reach the
# minimum?
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

total = lengths.sum()
print(f"total {total:.2f}, distance to the minimum {np.hypot(1, 3):.2f}")
assert total < np.hypot(1, 3)  # it cannot, whatever the directions

# %%
# .. raw:: html
#
#    </details>

check(2, lambda: np.isclose(total, lengths.sum()))

# %%
# Exercise 3: derive the decrease (3 points)
# ------------------------------------------
#
# Derive the inequality of Polyak's step, and check it along 50 steps from (1, 0): every step
# brings x nearer to the solution. List the squared distances before and after them as
# ``squared``, 51 numbers.
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

# %%
# With the step :math:`s = (f(x) - f^*) / \lVert g \rVert^2` along a subgradient g,
#
# .. math::
#
#    \lVert x - s g - x^* \rVert^2
#    = \lVert x - x^* \rVert^2 - 2 s \langle g, x - x^* \rangle + s^2 \lVert g \rVert^2
#    \le \lVert x - x^* \rVert^2 - 2 s (f(x) - f^*) + s^2 \lVert g \rVert^2 ,
#
# since :math:`\langle g, x - x^* \rangle \ge f(x) - f^*`. The last two terms add up to
# :math:`-(f(x) - f^*)^2 / \lVert g \rVert^2`, and no other s makes their sum smaller.

x, target = np.array([1.0, 0.0]), np.array([0.0, 3.0])
squared = [np.sum((x - target) ** 2)]
for _ in range(50):
    g, value = subgradient(x), f(x)
    x = x - value / (g @ g) * g if value > 0 else x
    squared.append(np.sum((x - target) ** 2))
    assert squared[-1] <= squared[-2] - value**2 / max(g @ g, 1.0) + 1e-9
print(f"distance after 50 steps {np.sqrt(squared[-1]):.1e}")

# %%
# .. raw:: html
#
#    </details>

check(
    3,
    lambda: (
        len(squared) == 51 and np.isclose(squared[0], 10) and np.all(np.diff(squared) <= 1e-9)
    ),
)

# %%
# Exercise 4: a saddle of a factor (4 points)
# -------------------------------------------
#
# Minimize :math:`m^2 - m` over :math:`m \ge 0` by :math:`m = l^2`. Where is the factor
# stationary without being optimal, and what is the slack there? List the ``stationary`` points
# :math:`l \ge 0` and their ``slopes`` by m.
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

# %%
# The derivative of :math:`l^4 - l^2` in l is :math:`2 l S` with :math:`S = 2 m - 1`. It is
# zero at l = 0, where S = -1 is negative: no proof of optimality, and a direction that leads
# down. It is zero at m = 1/2, where S = 0, too: the minimum, -1/4.

stationary, slopes = [0.0, np.sqrt(0.5)], [-1.0, 0.0]
l = np.linspace(0.0, 2.0, 2001)
objective = l**4 - l**2
assert abs(objective[1]) < 1e-5  # flat at 0,
assert objective[100] < objective[0]  # and yet higher than nearby
assert np.isclose(objective.min(), -0.25, atol=1e-6)

# %%
# .. raw:: html
#
#    </details>

check(
    4,
    lambda: (
        np.allclose([4 * l**3 - 2 * l for l in stationary], 0, atol=1e-9)
        and np.allclose(slopes, 2 * np.square(stationary) - 1)
    ),
)
