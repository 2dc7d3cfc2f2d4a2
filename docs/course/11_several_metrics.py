r"""11. Several metrics
===================

One metric treats all places alike. LMNN can learn one for each region, in one convex program.
We see when that helps, what becomes of distances, and why a smaller optimum is not a better
classifier.

Boyd and Vandenberghe: section 5.2 (weak duality, for the bound that both programs share).
Weinberger and Saul (2009), section 5.2. Reading 30 minutes; exercises 11 points, about 70
minutes.
"""

# %%
# Two regions
# -----------
#
# On the left the classes differ in the second feature, on the right in the first; the other
# feature is noise.

import matplotlib.pyplot as plt
import numpy as np

import sdpmetric as sm
from sdpmetric import classification, datasets


def draw(n, seed):
    """Points, their classes, and their regions: 0 on the left, 1 on the right."""
    rng = np.random.default_rng(seed)
    region, y = rng.integers(2, size=n), rng.integers(2, size=n)
    noise, signal = 3.0 * rng.normal(size=n), 0.35 * rng.normal(size=n) + 1.2 * y - 0.6
    left, right = np.column_stack([noise - 12, signal]), np.column_stack([signal + 12, noise])
    return np.where(region[:, None] == 0, left, right), y, region


X, y, region = draw(60, seed=0)
figure, axis = plt.subplots(figsize=(7, 2.6), layout="constrained")
axis.scatter(*X.T, c=y, s=14, cmap="viridis")
axis.set(xlabel="first feature", ylabel="second feature")
plt.show()

# %%
# One program for all metrics
# ---------------------------
#
# The distance to a point is measured by the metric of *that point's* region: :math:`D_r(i, j)
# = (x_i - x_j)^\top M_r (x_i - x_j)` with the region r of j (Eq. 16 of the paper). A triplet
# (i, j, l) compares two distances, possibly under two metrics, so the metrics are learned
# together. For two points of each class, with a region for each class:

few = np.array([[0, 0], [1, 2], [3, 1], [4, 4]])
small = sm.MultiMetricLMNNProblem.from_labels(few, [0, 0, 1, 1], n_neighbors=1)
print(small.program())

# %%
# Solved, with a proof
# --------------------
#
# The program is convex, so a certificate says how near each answer is to its optimum.

tied = sm.LMNNProblem.from_labels(X, y, n_neighbors=3)
several = sm.MultiMetricLMNNProblem.from_labels(X, y, n_neighbors=3, regions=region)
one, two = sm.solve(tied, solver="conic"), sm.solve(several, solver="conic")
for name, solution in (("one metric", one), ("two metrics", two)):
    print(f"{name}: objective {solution.objective:.2f}, gap {solution.relative_gap:.0e}")
print("left:", np.diag(two.metrics[0]).round(2), "right:", np.diag(two.metrics[1]).round(2))
assert two.objective < one.lower_bound

# %%
# Each metric weighs the feature that matters in its region. The optimum with two metrics is
# *proven* to be smaller than that with one. It is never larger: two equal metrics are
# feasible.
#
# When they help
# --------------
#
# Here they help, on 2,000 new points, too:

B, b, _ = draw(2000, seed=1)
for name, L, options in (
    ("Euclidean", np.eye(2), {}),
    ("one metric", one.components, {}),
    ("two metrics", two.components, {"regions": region}),
):
    error = np.mean(classification.knn_predict(L, X, y, B, 3, **options) != b)
    print(f"{name}: error {error:.1%}")
assert (
    np.mean(classification.knn_predict(two.components, X, y, B, 3, regions=region) != b) < 0.1
)

# %%
# And when they do not: on a third of wine, a metric for each of the three classes halves the
# objective and triples the error. Three metrics of 13 features have 273 numbers, for 60
# examples. A ridge, the trace of the metrics, is the remedy.

W, w = datasets.load("wine")
W, train = datasets.standardize(W), np.arange(178) % 3 == 0
errors = {}
for ridge in (0.0, "auto"):
    alone = sm.LMNNProblem.from_labels(W[train], w[train], ridge=ridge)
    each = sm.MultiMetricLMNNProblem.from_labels(W[train], w[train], ridge=ridge)
    for name, problem, options in (("one", alone, {}), ("three", each, {"regions": w[train]})):
        found = sm.solve(problem, solver="conic")
        predicted = classification.knn_predict(
            found.components, W[train], w[train], W[~train], 3, **options
        )
        errors[name, ridge] = np.mean(predicted != w[~train])
        print(
            f"ridge {ridge}, {name}: objective {found.objective:.1f}, "
            f"error {errors[name, ridge]:.1%}"
        )
assert errors["three", 0.0] > errors["one", 0.0] >= errors["three", "auto"] - 1e-9

# %%
# A distance that is not symmetric
# --------------------------------
#
# Between points of two regions the distance there is not the distance back:

left, right = np.flatnonzero(region == 0)[0], np.flatnonzero(region == 1)[0]
difference = X[left] - X[right]
there, back = (difference @ two.metrics[r] @ difference for r in (1, 0))
print(f"from left to right {there:.1f}, from right to left {back:.1f}")

# %%
# For nearest neighbors that is no harm: each training point brings its own ruler. But cells of
# nearest neighbors are no polygons any more. The plane, colored by the nearest training
# point's class:

figure, axes = plt.subplots(1, 2, figsize=(8, 2.8), layout="constrained", sharey=True)
grid = np.stack(np.meshgrid(np.linspace(-22, 20, 160), np.linspace(-8, 8, 80)), axis=-1)
places = grid.reshape(-1, 2)
for axis, (name, L, options) in zip(
    axes,
    (
        ("one metric", one.components, {}),
        ("two metrics", two.components, {"regions": region}),
    ),
    strict=True,
):
    shade = classification.knn_predict(L, X, y, places, 1, **options)
    axis.pcolormesh(grid[..., 0], grid[..., 1], shade.reshape(80, 160), alpha=0.25)
    axis.scatter(*X.T, c=y, s=8)
    axis.set(title=name)
plt.show()

# %%
# The dual program
# ----------------
#
# Each metric has a slack matrix of its own. The multiplier of a triplet adds to that of its
# target's region, and subtracts from that of its impostor's.

print(small.dual_program())

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
# Exercise 1: what several metrics gain (4 points)
# ------------------------------------------------
#
# Show that multipliers which are feasible for the dual program of several metrics are feasible
# for that of one metric. What does that say about the two optima? Then bound the difference of
# the optima of ``tied`` and ``several`` from both sides by the two certificates: ``gain =
# (least, most)``.
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

# %%
# Let :math:`V_{ij} = (x_i - x_j)(x_i - x_j)^\top`. With several metrics, region r has the
# slack
#
# .. math::
#
#    S_r(a) = (1 - \mu) \sum_{(i, j):\, r_j = r} V_{ij}
#    - \sum_{(i, j, l):\, r_l = r} a_{ijl} V_{il}
#    + \sum_{(i, j, l):\, r_j = r} a_{ijl} V_{ij} .
#
# Each pull is in one of the sums, and so is each of the two parts of a triplet. Hence
# :math:`\sum_r S_r(a) = (1 - \mu) \sum V_{ij} - \sum a_{ijl} (V_{il} - V_{ij}) = S(a)`, the
# slack of one metric. A sum of positive semidefinite matrices is positive semidefinite, and
# the box is the same. So every bound of several metrics is one of the single metric: the
# optimum of several is at most that of one. With lower bounds b and objectives f,
#
# .. math:: b_{one} - f_{several} \le v_{one} - v_{several} \le f_{one} - b_{several} .

gain = (one.lower_bound - two.objective, one.objective - two.lower_bound)
print(f"the gain is between {gain[0]:.6f} and {gain[1]:.6f}")

# %%
# .. raw:: html
#
#    </details>

check(
    1,
    lambda: (
        np.allclose(gain, one.objective - two.objective, atol=1e-3)
        and gain[0] <= one.objective - two.objective <= gain[1]
    ),
)

# %%
# Exercise 2: break the triangle inequality (3 points)
# ----------------------------------------------------
#
# The root of a squared distance under one metric satisfies the triangle inequality. Find three
# points on a line, ``line = [x_i, x_j, x_l]``, and metrics of j and l, ``m = [m_j, m_l]``, for
# which going from i to l costs more than going from i to j and from j to l.
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

# %%
# The distance to l, from i and from j, is measured by :math:`m_l`, and that to j by
# :math:`m_j`. For :math:`x_i < x_j < x_l` the inequality that should fail is
#
# .. math:: \sqrt{m_l}\, (x_l - x_i) \le \sqrt{m_j}\, (x_j - x_i) + \sqrt{m_l}\, (x_l - x_j) ,
#
# which is :math:`\sqrt{m_l} \le \sqrt{m_j}`. So every :math:`m_l > m_j` breaks it: who walks
# through a region with short rulers saves.

line, m = [0.0, 1.0, 2.0], [1.0, 100.0]

# %%
# .. raw:: html
#
#    </details>

check(
    2,
    lambda: (
        np.sqrt(m[1]) * abs(line[2] - line[0])
        > np.sqrt(m[0]) * abs(line[1] - line[0]) + np.sqrt(m[1]) * abs(line[2] - line[1])
    ),
)

# %%
# Exercise 3: a cell of a nearest neighbor (4 points)
# ---------------------------------------------------
#
# On a line the point 0 has the metric 1, and the point 1 the metric 4. Which x are nearer to
# 1? Give the ends of this ``interval``. Which points of the plane are nearer to b than to a,
# under metrics B and A, and when is that a half plane for all b?
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

# %%
# :math:`4 (x - 1)^2 < x^2` means :math:`2 |x - 1| < |x|`: for x > 1 this is x < 2, and for x
# between 0 and 1 it is :math:`x > 2/3`; for negative x it fails. The cell is bounded: (2/3,
# 2). In the plane the points are those with
#
# .. math:: (x - b)^\top B (x - b) < (x - a)^\top A (x - a) ,
#
# where the quadratic part is :math:`x^\top (B - A) x`: an ellipse if B - A is positive
# definite, the inside of a hyperbola's branches if it is indefinite. It is a half plane if the
# quadratic part vanishes, A = B, as for one metric.

interval = (2 / 3, 2.0)

# %%
# .. raw:: html
#
#    </details>

check(
    3,
    lambda: (
        np.allclose([4 * (x - 1) ** 2 - x**2 for x in interval], 0)
        and interval[0] < 1 < interval[1]
    ),
)
