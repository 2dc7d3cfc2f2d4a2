r"""5. Conjugates: one inequality, many methods
===============================================

Nearly every bound in this package follows from one inequality, that of Fenchel and Young. We
check it for some losses, and then build problems from terms: the package derives the exact
program, a fast solver, the dual and the certificate.

Boyd and Vandenberghe: sections 3.3 (conjugates) and 5.1.6 (dual functions from conjugates).
Reading 40 minutes; exercises 15 points, about 90 minutes.
"""

# %%
# Fenchel and Young
# -----------------
#
# The conjugate of a loss is :math:`\ell^*(a) = \sup_u \{a u - \ell(u)\}`, so :math:`\ell(u)
# \ge a u - \ell^*(a)` for all u and a. If u is linear in the metric, so is the right side.
# What is left is to minimize a linear function plus any other term over the cone, and these
# minima are known:
#
# - no other term: :math:`\min_M \langle S, M \rangle = 0` if :math:`S \succeq 0` (LMNN);
# - a Frobenius term: :math:`-\tfrac12 \lVert [-S]_+ \rVert^2` (POLA);
# - LogDet: :math:`\log\det(I + S)` (ITML, LEGO).

import numpy as np

u = np.linspace(-3, 3, 601)
LOSS = {
    "hinge": (np.maximum(u, 0), lambda a: 0.0 if 0 <= a <= 1 else np.inf),
    "squared hinge": (np.maximum(u, 0) ** 2, lambda a: a**2 / 4),
    "logistic": (np.log1p(np.exp(u)), lambda a: a * np.log(a) + (1 - a) * np.log(1 - a)),
}
for name, (loss, conjugate) in LOSS.items():
    gaps = np.array([loss - (a * u - conjugate(a)) for a in (0.1, 0.5, 0.9)])
    print(
        f"{name}: smallest difference {gaps.min():.1e}, "
        f"attained for every a: {bool((gaps.min(axis=1) < 1e-3).all())}"
    )
    assert gaps.min() >= -1e-12

# %%
# In a picture: for each slope a, a line touches the loss from below, and its height at 0 is
# :math:`-\ell^*(a)`.

import matplotlib.pyplot as plt

figure, axes = plt.subplots(1, 3, figsize=(9, 3), layout="constrained", sharey=True)
for axis, (name, (loss, conjugate)) in zip(axes, LOSS.items(), strict=True):
    axis.plot(u, loss, color="black", linewidth=2)
    for a in (0.1, 0.5, 0.9):
        axis.plot(u, a * u - conjugate(a), linewidth=1, label=f"slope {a}")
    axis.set(title=name, xlabel="u", ylim=(-1, 3))
axes[0].legend()
plt.show()

# %%
# A sum of terms
# --------------
#
# We have few labels (30 of 150 flowers), and expect that all features matter. So we pull
# neighbors together, push impostors away, and stay near the Euclidean metric by the LogDet
# divergence.

from dataclasses import dataclass, replace

import sdpmetric as sm
from sdpmetric import classification, datasets, terms
from sdpmetric.losses import LOSSES

X, y = datasets.load("iris")
X = datasets.standardize(X)
labeled = np.arange(0, 150, 5)
X_few, y_few = X[labeled], y[labeled]

pull_near = terms.Pull(labels=y_few)
push_apart = terms.TripletHinge(labels=y_few)
problem = sm.MetricProblem(X_few, 0.5 * pull_near + 0.5 * push_apart + 1.0 * terms.LogDet())
print(problem.describe())

# %%
# Solve it twice
# --------------

fast = sm.solve(problem, tol=1e-4)
exact = sm.solve(problem, solver="conic")
print(sm.compare(fast, exact))
assert sm.compare(fast, exact).consistent
assert fast.relative_gap <= 1e-4

# %%
# How much should we trust the few labels? We vary the weight of one term, and classify the
# other 120 flowers by their three nearest neighbors among the 30.

unlabeled = np.setdiff1d(np.arange(150), labeled)
weights = [0.01, 1.0, 100.0]
for weight, solution in zip(weights, sm.path(problem, log_det=weights), strict=True):
    predicted = classification.knn_predict(
        solution.components, X_few, y_few, X[unlabeled], n_neighbors=3
    )
    print(
        f"weight {weight}: accuracy {np.mean(predicted == y[unlabeled]):.3f}, "
        f"gap {solution.relative_gap:.0e}"
    )
    assert solution.status.ok

# %%
# A term of your own
# ------------------
#
# Suppose that certain pairs must be at least 1 apart. The loss of a pair is a hinge, :math:`[1
# - D_p]_+`. A term names the pairs it depends on, and states how its numbers :math:`u = c + K
# D` come from their distances. The dual and the certificate are computed from the conjugate of
# the loss.


@dataclass(frozen=True, eq=False, repr=False)
class Apart(terms.MarginLoss):
    """Pairs of examples that should be at least 1 apart."""

    pairs: np.ndarray = None
    name = "apart"
    scalar = LOSSES["hinge"]

    def bind(self, X):
        return replace(self, weights=np.ones(len(self.pairs)))

    def describe(self):
        return f"hinge over {len(self.pairs)} pairs that should be apart"

    @property
    def rows(self):
        return terms.Rows.of_pairs(self.scalar, self.pairs, signs=-1.0, offset=1.0)


pairs = np.array([(a, b) for a in range(30) for b in range(a) if y_few[a] != y_few[b]])[::7]
far_pairs = sm.MetricProblem(X_few, terms.Trace() + 0.2 * Apart(pairs=pairs))
fast, exact = sm.solve(far_pairs), sm.solve(far_pairs, solver="conic")
print(far_pairs.describe())
print(sm.compare(fast, exact).verdict)
assert sm.compare(fast, exact).consistent


def violated(metric):
    """How many pairs are less than 1 apart."""
    difference = X_few[pairs[:, 0]] - X_few[pairs[:, 1]]
    return int(np.sum(np.einsum("pi,ij,pj->p", difference, metric, difference) < 1 - 1e-4))


print(violated(exact.metric), "of", len(pairs), "pairs are less than 1 apart")

# %%
# The bound is proven by the same theorem as for the terms of the package: Fenchel and Young
# for each loss, and a matrix that must be positive semidefinite. A conjugate that is too small
# would show here, as a lower bound above the objective of the other solver.

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
# Replace the hinge by its square (``LOSSES["squared_hinge"]``, in a subclass of ``Apart``) and
# solve the problem ``squared``. Are more or fewer pairs violated? Check the certificate
# against the exact solver.
#
# .. raw:: html
#
#    <details><summary>Solution</summary>


class ApartSquared(Apart):
    """The same with a squared hinge."""

    scalar = LOSSES["squared_hinge"]


squared = sm.MetricProblem(X_few, terms.Trace() + 0.2 * ApartSquared(pairs=pairs))
solution = sm.solve(squared)
print(sm.compare(solution, sm.solve(squared, solver="conic")).verdict)
print("hinge:", violated(exact.metric), "squared hinge:", violated(solution.metric))

# %%
# More pairs are violated: small violations cost little when they are squared, so they are
# spread over more pairs.

# %%
# .. raw:: html
#
#    </details>

check(
    1,
    lambda: (
        violated(sm.solve(squared).metric) != violated(exact.metric)
        and len(squared.terms) == 2
    ),
)

# %%
# Exercise 2: derive a conjugate (3 points)
# -----------------------------------------
#
# Compute :math:`\sup_u \{a u - [u]_+^2\}` by hand, for every real a, as a function
# ``conjugate_of_square(a)``, and compare with the table above.
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

# %%
# For :math:`a < 0` let :math:`u \to -\infty`: the supremum is infinite. For :math:`a \ge 0` no
# :math:`u < 0` is better than u = 0. For :math:`u \ge 0` the function is :math:`a u - u^2 =
# a^2/4 - (u - a/2)^2`, so its maximum is :math:`a^2 / 4`, at :math:`u = a/2`. The table has
# only this case; for :math:`a < 0` its formula is too small, and would give false bounds.


def conjugate_of_square(a):
    """The supremum, infinite for negative slopes."""
    return a**2 / 4 if a >= 0 else np.inf


for a in (0.1, 0.5, 0.9):
    highest = (a * u - np.maximum(u, 0) ** 2).max()
    assert np.isclose(highest, conjugate_of_square(a), atol=1e-4)

# %%
# .. raw:: html
#
#    </details>

check(
    2,
    lambda: (
        np.isclose(
            conjugate_of_square(0.8), (0.8 * u - np.maximum(u, 0) ** 2).max(), atol=1e-4
        )
        and conjugate_of_square(-0.1) == np.inf
    ),
)

# %%
# Exercise 3: the minimum over the cone, with LogDet (4 points)
# -------------------------------------------------------------
#
# Show that :math:`\min_M \{\operatorname{tr} M - \log\det M - d + \langle S, M \rangle\} =
# \log\det(I + S)`, over the positive definite M with d rows, if :math:`I + S` is positive
# definite. What is the infimum if it is not? Write the ``minimizer(S)`` as a function.
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

# %%
# The minimum is over the positive definite M. The function is convex, since :math:`-\log\det`
# is (its restriction to a line, :math:`-\sum_i \log(1 + t \mu_i)` plus a constant, is a sum of
# convex functions) and the rest is linear. So a point where the derivative vanishes is the
# minimum. The derivative is :math:`I - M^{-1} + S`. If :math:`I + S` is positive definite, it
# vanishes at :math:`M = (I + S)^{-1}`, where
#
# .. math:: \operatorname{tr}((I + S) M) - \log\det M - d = d + \log\det(I + S) - d .
#
# If :math:`I + S` has an eigenvector v with an eigenvalue of at most 0, then :math:`M = I + t
# v v^\top` has values that fall without limit as t grows: the infimum is :math:`-\infty`, and
# the multipliers prove nothing.


def minimizer(S):
    """Where the derivative vanishes."""
    return np.linalg.inv(np.eye(len(S)) + S)


root = np.random.default_rng(0).normal(size=(3, 3))
S = root @ root.T


def penalized(M):
    """The function that is minimized."""
    return np.trace(M) - np.linalg.slogdet(M)[1] - 3 + np.sum(S * M)


best = minimizer(S)
assert np.isclose(penalized(best), np.linalg.slogdet(np.eye(3) + S)[1])
assert penalized(1.1 * best) > penalized(best) < penalized(0.9 * best)

# %%
# .. raw:: html
#
#    </details>

check(
    3,
    lambda: all(
        np.allclose(np.eye(2) - np.linalg.inv(minimizer(A)) + A, 0)
        for A in (np.eye(2), np.array([[2.0, 1.0], [1.0, 0.0]]))
    ),
)

# %%
# Exercise 4: the minimum over the cone, with a Frobenius term (5 points)
# -----------------------------------------------------------------------
#
# What is the minimum of :math:`\tfrac12 \lVert M \rVert^2 + \langle S, M \rangle` over
# :math:`M \succeq 0`, and which M attains it? Write that M as a function ``projected(S)``.
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

# %%
# Split :math:`-S = P - N` into its positive and its negative part: :math:`P = [-S]_+` and
# :math:`N = [S]_+` are positive semidefinite, and :math:`\langle P, N \rangle = 0`, since
# their eigenvectors are orthogonal. For every :math:`M \succeq 0`
#
# .. math::
#
#    \tfrac12 \lVert M \rVert^2 + \langle S, M \rangle
#    = \tfrac12 \lVert M - P \rVert^2 - \tfrac12 \lVert P \rVert^2 + \langle N, M \rangle
#    \ge - \tfrac12 \lVert P \rVert^2 ,
#
# because :math:`\langle N, M \rangle \ge 0`. Equality holds only for M = P. So the minimum is
# :math:`-\tfrac12 \lVert [-S]_+ \rVert^2`, attained at :math:`M = [-S]_+`, the projection of
# -S to the cone.


def projected(S):
    """The positive part of -S."""
    values, vectors = np.linalg.eigh(-S)
    return (vectors * np.maximum(values, 0)) @ vectors.T


S = S - 4 * np.eye(3)
M = projected(S)
lowest = 0.5 * np.sum(M * M) + np.sum(S * M)
assert np.isclose(lowest, -0.5 * np.sum(np.maximum(np.linalg.eigvalsh(-S), 0) ** 2))
assert all(
    lowest <= 0.5 * np.sum(N * N) + np.sum(S * N)
    for N in (np.zeros((3, 3)), np.eye(3), 1.2 * M)
)

# %%
# .. raw:: html
#
#    </details>

check(
    4,
    lambda: (
        np.allclose(projected(np.diag([-2.0, 3.0])), np.diag([2.0, 0.0]))
        and np.allclose(
            projected(np.array([[0.0, 1.0], [1.0, 0.0]])), [[0.5, -0.5], [-0.5, 0.5]]
        )
    ),
)
