r"""13. FRML: sampling, retraction, and a relaxation
================================================

Fast ranking via metric learning (FRML) puts the relevant items of each query first. Three
ideas make it fast and one makes it provable: weights by sampling, metrics of bounded rank,
steps that stay on them, and a convex program without the rank.

Lim and Lanckriet (2014), sections 2 to 4. Boyd and Vandenberghe: section 5.2 (bounds from
relaxations, in exercise 5.13). Reading 35 minutes; exercises 11 points, about 75 minutes.
"""

# %%
# Rankings
# --------
#
# A query q has relevant items and n irrelevant ones. An irrelevant item is a *violator* of a
# relevant one if it is nearer than the margin allows. With v violators AUC costs v, and WARP
#
# .. math:: L(v) = 1 + \tfrac12 + \dots + \tfrac1v ,
#
# so the first places of the list cost most.

import matplotlib.pyplot as plt
import numpy as np

import sdpmetric as sm
from sdpmetric import datasets, ranking

n = 50
L = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, n + 1))])
print("loss of 1, 2, 10 and 50 violators:", L[[1, 2, 10, 50]].round(2))

# %%
# WARP sampling
# -------------
#
# To count violators means to look at all items. FRML draws irrelevant items, with replacement,
# until it meets a violator, and takes :math:`\lfloor n / N \rfloor` for v if that took N
# draws. Few violators take many draws. The estimate is rough, but its mean weight grows with v
# as a weight should:


def sampled_weight(v, rng):
    """L of the estimate after drawing until a violator, 0 if n draws find none."""
    draws = np.flatnonzero(rng.integers(n, size=n) < v)
    return L[n // (draws[0] + 1)] if len(draws) else 0.0


rng = np.random.default_rng(0)
counts = np.array([1, 2, 5, 10, 20, 50])
means = [np.mean([sampled_weight(v, rng) for _ in range(4000)]) for v in counts]
expected = ranking.expected_weights("warp", n)
figure, axis = plt.subplots(figsize=(6, 3), layout="constrained")
axis.plot(L, label="L(v)")
axis.plot(expected, label="mean of the sampled weight, by its formula")
axis.plot(counts, means, "o", label="mean of 4,000 samples")
axis.plot(ranking.expected_weights("warp", n, gamma=10), "--", label="at most n / 10 draws")
axis.set(xlabel="violators v", ylabel="weight")
axis.legend(fontsize="small")
plt.show()
assert np.allclose(means, expected[counts], atol=0.1)

# %%
# With at most n / 10 draws an item that is near the top already is hardly pushed further, and
# each query costs a tenth.
#
# Metrics of bounded rank
# -----------------------
#
# A metric of rank r is :math:`W = L^\top L` with r rows: r d numbers, and distances in r
# dimensions. These matrices are a curved surface. A step along a gradient :math:`\xi` leaves
# it, and so does the nearest point of the cone, by an eigendecomposition for every step.
#
# FRML goes back by a *retraction*. With the projection P to the range of W, only the parts
# :math:`\xi_s = P \xi P` and :math:`\xi_p = (I - P) \xi P` (and its transpose) of the step are
# tangent to the surface. Then
#
# .. math::
#
#    V = W + \tfrac12 \xi_s + \xi_p - \tfrac18 \xi_s W^+ \xi_s
#    - \tfrac12 \xi_p W^+ \xi_s , \qquad R(\xi) = V W^+ V^\top
#
# has rank r, is positive semidefinite, and agrees with the tangent step to first order.


def tangent(W, xi):
    """The parts of a symmetric step within and across the range of W."""
    P = W @ np.linalg.pinv(W)
    return P @ xi @ P, (np.eye(len(W)) - P) @ xi @ P


def retract(W, xi):
    """The retraction of the tangent part of a step."""
    inverse, (xs, xp) = np.linalg.pinv(W), tangent(W, xi)
    V = W + xs / 2 + xp - xs @ inverse @ xs / 8 - xp @ inverse @ xs / 2
    return V @ inverse @ V.T


factor, xi = rng.normal(size=(2, 4)), rng.normal(size=(4, 4))
W, xi = factor.T @ factor, xi + xi.T
xs, xp = tangent(W, xi)
for t in (0.1, 0.01, 0.001):
    moved = retract(W, t * xi)
    away = np.linalg.norm(moved - (W + t * (xs + xp + xp.T)))
    straight = np.linalg.eigvalsh(W + t * xi)
    print(
        f"t = {t}: rank {np.linalg.matrix_rank(moved, tol=1e-9)}, off the tangent {away:.1e}; "
        f"straight on, the smallest eigenvalue is {straight[0]:+.1e}"
    )
    assert np.linalg.eigvalsh(moved)[0] > -1e-9

# %%
# The distance from the tangent falls with the square of the step. On factors, with a gradient
# that is a sum of few outer products, a step costs O(d): Algorithm 1 of the paper,
# ``FRMLStream``.
#
# A stream of queries
# -------------------

X, y = datasets.load("wine")
X = datasets.standardize(X)
relevance = sm.Relevance.from_labels(y)
stream = sm.FRMLStream(13, 2, random_state=0, step=0.02)
scores = [ranking.evaluate(X, relevance, components=stream.components).map]
for _ in range(4):
    stream.partial_fit(X, y, n_steps=500)
    scores.append(ranking.evaluate(X, relevance, components=stream.components).map)
print("mean average precision, after every 500 steps:", np.round(scores, 3))
print(f"{stream.n_evaluations / stream.n_items:.0f} distances for a query, of {len(X)}")
assert scores[-1] > scores[0] + 0.2

# %%
# What can be proven?
# -------------------
#
# The problem is not convex, for two reasons: WARP's weights jump, and the rank is bounded.
# With the AUC loss and without the rank it is convex; it is LMNN with all items as targets and
# impostors (section 4.1). Its optimum, and every lower bound of it, is below the optimum of
# bounded rank. Four groups of items, at the corners of a square, and a metric of rank 1:

groups = np.repeat(np.arange(4), 6)
corners = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]])
Q = corners[groups] + 0.25 * np.random.default_rng(0).normal(size=(24, 2))
bounded = sm.FRMLProblem.from_labels(Q, groups, 1, loss="auc", regularization=0.05)
relaxed = sm.solve(bounded.relaxation, solver="conic")
found = sm.solve(bounded, solver="relaxed")
print("relaxation:", relaxed.certificate)
print("rank 1:", found.certificate)
assert found.certificate.kind == "relaxation"
assert found.lower_bound <= relaxed.objective < found.objective

# %%
# The kind of the second certificate is *relaxation*: its lower bound is true of the problem
# with the bounded rank, and its gap may be open at the optimum. One direction cannot separate
# the four groups, two can. So a part of the gap is due to the rank, and a part to a solver
# that may have ended in a local optimum; the certificate does not say which (exercise 3). With
# rank 2 the relaxation is the problem, and the gap closes:

both = sm.solve(
    sm.FRMLProblem.from_labels(Q, groups, 2, loss="auc", regularization=0.05), solver="relaxed"
)
print("rank 2:", both.certificate)
assert both.relative_gap < 1e-2

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
# Exercise 1: the mean of a sampled weight (4 points)
# ---------------------------------------------------
#
# Of n irrelevant items v are violators. With which probability does the first violator come at
# draw N? Write the mean of the sampled weight, for up to n draws, as a function
# ``mean_weight(v)``, and show that it grows with v.
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

# %%
# Each draw is a violator with the probability :math:`p = v / n`, so N is geometric:
# :math:`P(N) = p (1 - p)^{N - 1}`. With :math:`w_N = L(\lfloor n / N \rfloor)` and :math:`w_{n
# + 1} = 0` the mean is :math:`E(p) = \sum_{N = 1}^n p (1 - p)^{N - 1} w_N`. Sum by parts: as
# :math:`p (1 - p)^{N - 1} = (1 - p)^{N - 1} - (1 - p)^N`,
#
# .. math:: E(p) = \sum_{N = 1}^n (w_N - w_{N + 1}) \bigl( 1 - (1 - p)^N \bigr) .
#
# The weights fall with N, so no factor :math:`w_N - w_{N + 1}` is negative, and :math:`1 - (1
# - p)^N` increases with p: so does E. It is also concave in p, as each summand is: the step
# from v to v + 1 violators costs less and less, as for L itself.


def mean_weight(v):
    """The mean of L(n // N) over the draw N of the first violator."""
    N, p = np.arange(1, n + 1), v / n
    return float(np.sum(p * (1 - p) ** (N - 1) * L[n // N]))


assert np.allclose([mean_weight(v) for v in range(n + 1)], expected)

# %%
# .. raw:: html
#
#    </details>

check(
    1,
    lambda: np.allclose(
        [mean_weight(v) for v in (1, 7, 50)], ranking.expected_weights("warp", n)[[1, 7, 50]]
    ),
)

# %%
# Exercise 2: the retraction of rank one (4 points)
# -------------------------------------------------
#
# Let :math:`W = l l^\top` and :math:`\xi = l z^\top + z l^\top` with z orthogonal to l.
# Simplify :math:`R(\xi)` and write it as a function ``rank_one(l, z)``. How far is it from
# :math:`W + \xi`, and why is :math:`W + \xi` itself no metric?
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

# %%
# Here :math:`P = l l^\top / \lVert l \rVert^2`, so :math:`P z = 0`, :math:`\xi_s = P \xi P =
# 0` and :math:`\xi_p = (I - P) \xi P = z l^\top`. What is left of V is :math:`W + \xi_p = (l +
# z) l^\top`, and with :math:`W^+ = l l^\top / \lVert l \rVert^4`
#
# .. math:: R(\xi) = (l + z)\, l^\top W^+ l\, (l + z)^\top = (l + z)(l + z)^\top = W + \xi + z
#    z^\top .
#
# The retraction moves the factor along z. It is :math:`z z^\top` away from :math:`W + \xi`, of
# second order in the step. In the orthonormal directions of l and z, with lengths a and b, W +
# :math:`\xi` is the matrix with the rows :math:`(a^2, a b)` and :math:`(a b, 0)`, whose
# determinant :math:`-a^2 b^2` is negative: one eigenvalue is.


def rank_one(l, z):
    """The retraction of l z' + z l' at l l'."""
    return np.outer(l + z, l + z)


l, z = np.array([1.0, 2.0, 0.0]), np.array([0.2, -0.1, 0.5])
xi = np.outer(l, z) + np.outer(z, l)
assert np.allclose(rank_one(l, z), retract(np.outer(l, l), xi))
print("smallest eigenvalue of W + xi:", np.linalg.eigvalsh(np.outer(l, l) + xi)[0].round(3))

# %%
# .. raw:: html
#
#    </details>

check(
    2,
    lambda: np.allclose(
        rank_one(np.array([1.0, 2.0]), np.array([0.2, -0.1])),
        retract(np.array([[1.0, 2.0], [2.0, 4.0]]), np.array([[0.4, 0.3], [0.3, -0.4]])),
    ),
)

# %%
# Exercise 3: the parts of a gap (3 points)
# -----------------------------------------
#
# In the plane a factor of rank 1 is a direction and a length. Find the true optimum of
# ``bounded`` by a search over both: ``truth``. How much of the gap of ``found`` is then due to
# the rank, and how much to the solver? Store the two as ``parts``, the rank's first.
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

# %%
# With the optimum v of rank 1, the relaxation's lower bound b and the objective f of the
# solver,
#
# .. math:: f - b = (v - b) + (f - v) .
#
# Both parts are at least 0. The first is open whatever a solver does; the second is a better
# start's business. A search over a grid proves nothing, but its best point is a feasible one:
# :math:`v` is at most its value.

truth = min(
    bounded.objective([[length * np.cos(angle), length * np.sin(angle)]])
    for angle in np.linspace(0, np.pi, 181)
    for length in np.geomspace(0.5, 5, 40)
)
parts = (truth - found.lower_bound, found.objective - truth)
print(
    f"optimum at most {truth:.2f}; due to the rank {parts[0]:.2f}, the solver {parts[1]:.2f}"
)
assert min(parts) > 0

# %%
# .. raw:: html
#
#    </details>

check(
    3,
    lambda: (
        truth < 12.5
        and np.isclose(sum(parts), found.objective - found.lower_bound)
        and np.isclose(parts[1], found.objective - truth)
    ),
)
