r"""4. Optimality conditions, and any metric judged
===================================================

We check the four conditions of Karush, Kuhn and Tucker (KKT) on numbers, and see what
complementary slackness says about ranks. Then we certify metrics that solve other problems.

Boyd and Vandenberghe: sections 5.5.1 to 5.5.3 (gaps, complementary slackness, KKT) and 5.9.2
(the same with cones). Reading 30 minutes; exercises 10 points, about 60 minutes.
"""

# %%
# The conditions
# --------------
#
# A metric M and multipliers a are optimal exactly if
#
# 1. M is positive semidefinite (primal feasible),
# 2. :math:`0 \le a_t \le 1/2` and :math:`S = C - \sum_t a_t B_t \succeq 0` (dual feasible),
# 3. :math:`a_t = 1/2` for violated triplets, 0 for those beyond the margin (complementary
#    slackness of the hinges),
# 4. :math:`\langle S, M \rangle = 0` (complementary slackness of the cone).
#
# If 1 and 2 hold, objective minus bound is the sum of the violations of 3 and 4, so a gap of 0
# means that all four hold.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.neighbors import NeighborhoodComponentsAnalysis

import sdpmetric as sm
from sdpmetric import classification, datasets

X, y = datasets.load("wine")
X = datasets.standardize(X)
problem = sm.LMNNProblem.from_labels(X, y)

exact = sm.solve(problem, solver="conic")
constraints = problem.constraints(exact.components, exact.dual)
a = constraints.multipliers
print(
    "violated:",
    np.unique(np.round(a[constraints.excess > 1e-5], 6)),
    "beyond the margin:",
    a[constraints.excess < -1e-5].max(initial=0),
)
assert np.allclose(a[constraints.excess > 1e-5], 0.5, atol=1e-3)

# %%
# Both matrices are positive semidefinite and their product has trace 0, so :math:`S M = 0`:
# they share eigenvectors, and no direction has weight in both. Hence rank M + rank S is at
# most the dimension, 13.

anchors, targets, impostors = (
    constraints.roles[role] for role in ("anchor", "target", "impostor")
)
pull = X[problem.target_pairs[0]] - X[problem.target_pairs[1]]
near, far = X[anchors] - X[targets], X[anchors] - X[impostors]
S = 0.5 * pull.T @ pull - (far.T * a) @ far + (near.T * a) @ near
M = exact.metric
ranks = [int(np.sum(np.linalg.eigvalsh(A) > 1e-5 * np.linalg.eigvalsh(A)[-1])) for A in (M, S)]
print(f"<S, M> = {np.sum(S * M):.1e}, rank M = {ranks[0]}, rank S = {ranks[1]}")
assert abs(np.sum(S * M)) < 1e-4 * exact.objective
assert sum(ranks) <= 13

# %%
# Candidates
# ----------

candidates = {
    "Euclidean": np.eye(13),
    "whitened": np.linalg.cholesky(np.linalg.inv(np.cov(X.T))).T,
    "LDA": LinearDiscriminantAnalysis(solver="eigen").fit(X, y).scalings_[:, :2].T,
    "NCA": NeighborhoodComponentsAnalysis(random_state=0).fit(X, y).components_,
    "LMNN": sm.solve(problem).components,
}

# %%
# The certificates
# ----------------
#
# ``rescale=True`` certifies the best multiple of each metric: the other methods have no margin
# of 1, so their unit of length is arbitrary.

for name, L in candidates.items():
    certificate = sm.verify(problem, L, rescale=True)
    wrong = (
        classification.knn_predict(L, X, y, n_neighbors=3) != y
    )  # each example without itself
    print(
        f"{name:>10}: objective {certificate.objective:6.1f}, "
        f"relative gap {certificate.relative_gap:.4f}",
        end=", ",
    )
    print(f"leave-one-out error {wrong.mean():.1%}")
    assert certificate.lower_bound <= certificate.objective

# %%
# A lower bound is about the problem, so it holds for every metric. ``verify`` searches for
# multipliers until its bound is close to the optimum, so a large gap *here* means that the
# metric does not solve this program. In general it need not mean that: bad multipliers leave a
# large gap at the optimum, too. Nor does a large gap mean that the metric is bad for its
# purpose: LDA has a small error here and is not optimal for LMNN. And a small gap means that
# the program is solved, not that the program suits your purpose.
#
# The embeddings
# --------------

figure, axes = plt.subplots(2, 3, figsize=(8, 5), layout="constrained")
axes[1, 2].set_axis_off()
for axis, (name, L) in zip(axes.flat, candidates.items(), strict=False):
    Z = (X - X.mean(axis=0)) @ L.T
    plane = np.linalg.svd(Z, full_matrices=False)[2][:2]
    axis.scatter(*(Z @ plane.T).T, c=y, s=6, cmap="viridis")
    axis.set(title=name, xticks=[], yticks=[])
    axis.set_aspect("equal", adjustable="datalim")
plt.show()

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
# Perturb the solution: add noise of 1 % of their mean size to the components of LMNN. How
# large is the gap now? And with 10 %? List the three ``gaps``, that without noise first.
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

rng = np.random.default_rng(0)
L = candidates["LMNN"]
gaps = []
for noise in (0.0, 0.01, 0.1):
    spoiled = L + noise * np.abs(L).mean() * rng.normal(size=L.shape)
    gaps.append(sm.verify(problem, spoiled).relative_gap)
    print(f"noise {noise:.0%}: gap {gaps[-1]:.1e}")
assert gaps[0] <= 1e-3
assert gaps[2] > gaps[0]

# %%
# .. raw:: html
#
#    </details>

check(1, lambda: gaps[0] <= 1e-3 < gaps[2] and gaps[1] <= gaps[2])

# %%
# Exercise 2 (1 point)
# --------------------
#
# A colleague sends a metric with a negative eigenvalue. What does ``sm.verify(problem,
# metric=...)`` say? Keep the text of the error as ``answer``.
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

try:
    sm.verify(problem, metric=np.diag([1.0] * 12 + [-1.0]))
except ValueError as error:
    answer = str(error)
print(answer)

# %%
# .. raw:: html
#
#    </details>

check(2, lambda: "semidefinite" in answer or "eigenvalue" in answer)

# %%
# Exercise 3: where the gap sits (4 points)
# -----------------------------------------
#
# Split objective minus bound of ``exact`` into the violations of condition 3, ``hinges``, and
# of condition 4, ``cone``; ``constraints.excess`` has the arguments u of the hinges.
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

# %%
# With :math:`u_t = 1 - \langle B_t, M \rangle` the objective is :math:`\langle C, M \rangle +
# \tfrac12 \sum_t [u_t]_+` and the bound :math:`\sum_t a_t`. Insert :math:`C = S + \sum_t a_t
# B_t`:
#
# .. math::
#
#    \langle C, M \rangle + \tfrac12 \sum_t [u_t]_+ - \sum_t a_t
#    = \langle S, M \rangle + \sum_t \bigl( \tfrac12 [u_t]_+ - a_t u_t \bigr) .
#
# Both parts are at least 0 if conditions 1 and 2 hold, and 0 exactly if 4 and 3 hold.

u = constraints.excess
hinges, cone = float((0.5 * np.maximum(u, 0) - a * u).sum()), float(np.sum(S * M))
print(f"hinges {hinges:.1e}, cone {cone:.1e}, gap {exact.objective - a.sum():.1e}")
assert np.isclose(hinges + cone, exact.objective - a.sum(), atol=1e-6 * exact.objective)

# %%
# .. raw:: html
#
#    </details>

check(
    3,
    lambda: (
        np.isclose(hinges + cone, exact.objective - a.sum(), atol=1e-6 * exact.objective)
        and min(hinges, cone) > -1e-6
    ),
)

# %%
# Exercise 4: break it (3 points)
# -------------------------------
#
# Double the optimal metric and keep the multipliers: ``doubled = problem.certify(...,
# dual=...)`` with the components of the doubled metric and ``exact.dual``. Which of the four
# conditions fails?
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

# %%
# Conditions 1, 2 and 4 still hold: 2 is about the multipliers, which were kept, and 1 and 4,
# :math:`\langle S, 2 M \rangle = 0`, do not depend on the scale of M. Condition 3 fails: other
# triplets are violated now. The bound, which depends on the multipliers only, stays.

doubled = problem.certify(np.sqrt(2) * exact.components, dual=exact.dual)
print(doubled)
assert np.isclose(doubled.lower_bound, exact.lower_bound, rtol=1e-6)
assert doubled.objective > exact.objective

# %%
# .. raw:: html
#
#    </details>

check(
    4,
    lambda: (
        np.isclose(doubled.lower_bound, exact.lower_bound, rtol=1e-6)
        and np.isclose(doubled.objective, problem.objective(metric=2 * exact.metric))
    ),
)
