r"""2. The semidefinite program, its dual, and Slater's condition
=================================================================

LMNN is a semidefinite program (SDP). We write it and its dual in CVXPY, see that their values
agree, ask why, and meet an SDP for which they do not. Then we compare with the fast solver.

Boyd and Vandenberghe: sections 4.6.2 (semidefinite programs), 5.2.3 and 5.3.2 (Slater's
condition, a proof), 5.9.1 (duality with cones). Reading 45 minutes; exercises 17 points, about
100 minutes.
"""

# %%
# Six points on one screen
# ------------------------
#
# The hinge :math:`[u]_+` is the smallest slack :math:`\xi \ge 0` with :math:`\xi \ge u`. With
# slacks, LMNN is linear in M and in them, and M must be positive semidefinite: that is a
# semidefinite program. For the six points of lesson 1, where M has one entry, it is small
# enough to print: a row of the constraint ``margins`` for each triplet. :math:`D(i, l) - D(i,
# j)` is the trace of :math:`B_t M` with :math:`B_t = (x_i - x_l)(x_i - x_l)^\top - (x_i -
# x_j)(x_i - x_j)^\top`.

import cvxpy as cp
import numpy as np

import sdpmetric as sm
from sdpmetric import datasets

line = np.array([0.0, 1.0, 2.0, 3.5, 4.5, 5.5])[:, None]
six = sm.LMNNProblem.from_labels(line, [0, 0, 0, 1, 1, 1], n_neighbors=1, push_weight=0.5)
small = six.program()
print(small)

# %%
# In lesson 1 we found m = 4/21 and the value 4/3 by hand. Two conic solvers find the same, and
# so does Algorithm 1 of the paper.

for backend in ("CLARABEL", "SCS"):
    small.solve(solver=backend)
    print(f"{backend}: m = {small.var_dict['M'].value[0, 0]:.4f}, value {small.value:.4f}")
    assert np.isclose(small.value, 4 / 3, rtol=1e-3)
paper = sm.solve(six, solver="subgradient", step="paper", max_iter=2000)
print(f"Algorithm 1: m = {paper.metric[0, 0]:.4f}, value {paper.objective:.4f}")
assert np.isclose(paper.objective, 4 / 3, rtol=1e-3)

# %%
# The program, for matrices
# -------------------------
#
# Now the metric is a matrix of four features, and there are thousands of triplets. We write
# the same program ourselves.

X, y = datasets.load("iris")
rows = np.arange(0, 150, 3)
X, y = datasets.standardize(X)[rows], y[rows]
problem = sm.LMNNProblem.from_labels(X, y, n_neighbors=2)

i, j = problem.target_pairs
triplets = np.array(
    [(a, b, c) for a, b in zip(i, j, strict=True) for c in np.flatnonzero(y != y[a])]
)
M = cp.Variable((4, 4), PSD=True)
slack = cp.Variable(len(triplets), nonneg=True)
difference = X[i] - X[j]
pull = cp.sum(cp.multiply(difference @ M, difference))
margins = sm.triplet_margins(M, X, triplets)  # D(i, l) - D(i, j), linear in M
program = cp.Problem(cp.Minimize(0.5 * pull + 0.5 * cp.sum(slack)), [margins >= 1 - slack])
program.solve(solver="CLARABEL")
print(f"{len(triplets):,} triplets, value {program.value:.6f}")

# %%
# The dual
# --------
#
# A multiplier :math:`0 \le a_t \le 1/2` for each triplet, as in lesson 1; what is left over,
# :math:`S(a) = C - \sum_t a_t B_t`, is a matrix now, and must be positive semidefinite. The
# best bound of this kind is the dual program:

nearby, distant = X[triplets[:, 0]] - X[triplets[:, 1]], X[triplets[:, 0]] - X[triplets[:, 2]]
C = 0.5 * difference.T @ difference
stacked = np.einsum("ti,tj->tij", distant, distant) - np.einsum("ti,tj->tij", nearby, nearby)
a = cp.Variable(len(triplets), nonneg=True)
S = C - cp.reshape(stacked.reshape(len(triplets), -1).T @ a, (4, 4), order="C")
dual = cp.Problem(cp.Maximize(cp.sum(a)), [a <= 0.5, S >> 0])
dual.solve(solver="CLARABEL")
print(f"dual value {dual.value:.6f}")
assert abs(dual.value - program.value) < 1e-4 * program.value

# %%
# If we scale these multipliers up, the bound grows, until S leaves the cone: the best multiple
# is 1.

import matplotlib.pyplot as plt

multiples = np.linspace(0, 1.25, 51)
lowest = [
    np.linalg.eigvalsh(C - s * np.einsum("t,tij->ij", a.value, stacked))[0] for s in multiples
]
figure, axis = plt.subplots(figsize=(6, 3.4), layout="constrained")
axis.plot(multiples, lowest, label="smallest eigenvalue of S")
axis.axhline(0, color="0.5", linewidth=1)
axis.axvspan(1, 1.25, color="tab:red", alpha=0.15, label="not dual feasible")
axis.set(xlabel="multiple of the best multipliers", xlim=(0, 1.25))
axis.legend()
plt.show()

# %%
# The primal variables are M and the slacks, the dual ones a and S. In the notation of Boyd and
# Vandenberghe, M is the variable of a conic program with data :math:`C` and :math:`B_t`, and S
# is the multiplier of :math:`M \succeq 0`.
#
# The values agree: *strong duality*. Slater's condition is enough for it: some point satisfies
# all constraints strictly. Here :math:`M = I` with large slacks does, and so does a small
# multiple of any :math:`a > 0` in the dual, if C is positive definite.

assert np.linalg.eigvalsh(C)[0] > 0

# %%
# A proof of Slater's theorem for this cone
# -----------------------------------------
#
# Let f be convex and finite for every symmetric matrix, as LMNN's objective is, and let
# :math:`v = \inf \{f(M) : M \succeq 0\}` be finite. *There is an* :math:`S \succeq 0` *with*
# :math:`f(M) \ge v + \langle S, M \rangle` *for every symmetric M*, positive semidefinite or
# not.
#
# *Proof.* The sets
#
# .. math::
#
#    \mathcal{A} = \{(U, r) : M + U \succeq 0, \; f(M) \le r \text{ for some } M\}, \qquad
#    \mathcal{B} = \{(0, r) : r < v\}
#
# are convex, and they are disjoint by the definition of v. So a hyperplane separates them:
# there are S and :math:`\mu`, not both 0, with :math:`\langle S, U \rangle + \mu r \ge \mu r'`
# for all (U, r) in the first set and all :math:`r' < v`. In the first set U may grow by any
# positive semidefinite matrix and r by any positive number, so :math:`S \succeq 0` and
# :math:`\mu \ge 0`. With :math:`U = -M`, :math:`r = f(M)` and :math:`r' \to v`,
#
# .. math:: \mu f(M) - \langle S, M \rangle \ge \mu v \qquad \text{for every symmetric } M .
#
# If :math:`\mu` were 0, Slater's point M = I would give :math:`-\operatorname{tr} S \ge 0`,
# hence S = 0, and both would be 0. So :math:`\mu > 0`, and S divided by :math:`\mu` is the
# multiplier. ∎
#
# The left side minus :math:`\langle S, M \rangle` is now minimized without a cone. It is
# piecewise linear with finitely many hinges, and its minimum is finite, so the duality of
# linear programs gives multipliers :math:`0 \le a_t \le 1/2` of the hinges with :math:`S = C -
# \sum_t a_t B_t` and :math:`\sum_t a_t = v`: the dual program attains the optimum.
#
# A program without strong duality
# --------------------------------
#
# Without Slater's condition there can be a gap. Minimize :math:`x` subject to
#
# .. math:: \begin{pmatrix} 0 & x & 0 \\ x & z & 0 \\ 0 & 0 & 1 + x \end{pmatrix} \succeq 0 .
#
# A zero on the diagonal forces its row to vanish: x = 0 is the only feasible value, and no
# feasible matrix is positive definite. In the dual, z is free, so the middle row of the
# multiplier must vanish. Then its last entry must be 1, and the bound is -1: the gap is 1.

for x in (-0.1, 0.0, 0.1):
    matrix = np.array([[0, x, 0], [x, 5, 0], [0, 0, 1 + x]])
    print(f"x = {x:+.1f}: smallest eigenvalue {np.linalg.eigvalsh(matrix)[0]:+.4f}")
    assert (np.linalg.eigvalsh(matrix)[0] >= 0) == (x == 0)

# %%
# The fast solver
# ---------------

fast = sm.solve(problem, tol=1e-5)
print(fast)

# %%
# Which one is right?
# -------------------
#
# The numbers agree, but agreement is weak evidence: both could be wrong in the same way. So we
# ask the *problem* to certify the metric that CVXPY found, from the data alone.

certificate = sm.verify(problem, metric=M.value, tol=1e-5)
print(certificate)
assert certificate.lower_bound <= fast.objective * (1 + 1e-9)
assert fast.lower_bound <= certificate.objective * (1 + 1e-9)

# %%
# Each lower bound is below the other's objective, and both intervals are short: an error would
# have to occur in both.
#
# The exact layer of the package needs less memory than our program: it starts with few
# triplets and adds those that are violated (constraint generation), so it never builds the
# whole list.

exact = sm.solve(problem, solver="conic")
print(sm.compare(fast, exact))
assert exact.relative_gap <= 1e-6

# %%
# What the dual value of a solver proves
# --------------------------------------
#
# A conic solver also reports a dual value. It is not a proof, because its multipliers are
# feasible only up to a tolerance. The certificate clips and scales them until they are dual
# feasible.

print(
    "proven by the backend's own multipliers:", exact.certificate.info["backend_lower_bound"]
)

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
# Add a constraint to the program: the metric must be diagonal. Solve it as ``diagonal``, a
# ``cp.Problem`` with the constraints of ``program`` and one more. Can the value fall? Use
# ``sm.verify`` to check that the diagonal metric is not optimal for the problem without the
# constraint.
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

diagonal = cp.Problem(program.objective, [*program.constraints, cp.diag(cp.diag(M)) == M])
diagonal.solve(solver="CLARABEL")
certificate = sm.verify(problem, metric=np.diag(np.maximum(np.diag(M.value), 0)))
print(f"diagonal metric {certificate.objective:.4f}, a better metric {exact.objective:.4f}")
print(
    f"no metric at all is below {certificate.lower_bound:.4f}, "
    "by the multipliers of the diagonal one"
)
assert certificate.objective > exact.objective

# %%
# The value cannot fall: every diagonal metric was feasible before, so the minimum is over a
# smaller set.
#
# That the diagonal metric is not optimal without the constraint is proven by *a better
# metric*: ``exact`` has a smaller objective. A large gap would not prove it. The gap says that
# an improvement by so much cannot be excluded with these multipliers. Multipliers that are far
# from the best give every metric a large gap, the optimal one, too.

# %%
# .. raw:: html
#
#    </details>

check(
    1,
    lambda: np.isclose(
        cp.Problem(
            program.objective, [*program.constraints, cp.diag(cp.diag(M)) == M]
        ).solve(),
        diagonal.value,
    ),
)

# %%
# Exercise 2 (4 points)
# ---------------------
#
# Find a strictly feasible point of the dual above by hand: which multiples of a = (1, ..., 1)
# will do? Compute the ``limit`` that they have to stay below.
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

# %%
# Let :math:`B = \sum_t B_t`, and let R be any matrix with :math:`C = R R^\top`, say a Cholesky
# factor. Then
#
# .. math:: C - s B = R \, (I - s \, R^{-1} B R^{-\top}) \, R^\top ,
#
# which is positive definite exactly if :math:`s \lambda < 1` for every eigenvalue
# :math:`\lambda` of the symmetric matrix :math:`R^{-1} B R^{-\top}`. So the strictly feasible
# multiples are all s with
#
# .. math:: 0 < s < \min \{ 1/2, \; 1 / \lambda_{\max} \} ,
#
# where the second bound is left out if :math:`\lambda_{\max} \le 0`.

R = np.linalg.cholesky(C)
largest = np.linalg.eigvalsh(np.linalg.solve(R, np.linalg.solve(R, stacked.sum(axis=0)).T))[-1]
limit = min(0.5, 1 / largest)
for s in (0.5 * limit, 0.99 * limit, 1.01 * limit):
    smallest = np.linalg.eigvalsh(C - s * stacked.sum(axis=0))[0]
    print(
        f"s = {s:.6f}: smallest eigenvalue of S {smallest:+.4f}, "
        f"sum of the multipliers {s * len(triplets):.3f}"
    )
    assert (smallest > 0) == (s < limit)

# %%
# .. raw:: html
#
#    </details>

check(
    2,
    lambda: (
        np.linalg.eigvalsh(C - 0.99 * limit * stacked.sum(axis=0))[0] > 0
        and (limit == 0.5 or np.linalg.eigvalsh(C - 1.01 * limit * stacked.sum(axis=0))[0] < 0)
    ),
)

# %%
# Exercise 3: the dual is in the primal solver (2 points)
# -------------------------------------------------------
#
# CVXPY reports ``multipliers`` of the constraints of the *primal* program, as ``dual_value``
# of a constraint. Do they solve the dual? (Solve the program again first: exercise 1 has used
# its constraints in another program.) ``problem.dual_program()`` is the dual that the package
# states; does it print what we wrote?
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

program.solve(solver="CLARABEL")  # again: the constraints have been in another program
multipliers = program.constraints[0].dual_value
print(f"sum {multipliers.sum():.6f}, dual value {dual.value:.6f}")
slack_matrix = C - (stacked * multipliers[:, None, None]).sum(axis=0)
print(
    f"smallest eigenvalue of S {np.linalg.eigvalsh(slack_matrix)[0]:.1e}: "
    "feasible up to the solver's tolerance"
)
print(f"multipliers from {multipliers.min():.1e} to {multipliers.max():.6f}")
assert multipliers.min() > -1e-6
assert multipliers.max() < 0.5 + 1e-6
assert np.isclose(multipliers.sum(), dual.value, rtol=1e-4)
assert np.linalg.eigvalsh(slack_matrix)[0] > -1e-3 * np.linalg.eigvalsh(C)[-1]

# %%
# They do, up to the solver's tolerance: they are between 0 and 1/2, S is in the cone, and
# their sum is the dual value. ``print(problem.dual_program())`` shows the same program, with
# :math:`V(i, j) = (x_i - x_j)(x_i - x_j)^\top`.

# %%
# .. raw:: html
#
#    </details>

check(
    3,
    lambda: (
        np.isclose(multipliers.sum(), dual.value, rtol=1e-4)
        and -1e-6 < multipliers.min() <= multipliers.max() < 0.5 + 1e-6
    ),
)

# %%
# Exercise 4: derive the gap (4 points)
# -------------------------------------
#
# In the example without Slater's condition replace the first zero by :math:`\epsilon > 0`.
# What is the optimum now? Write it as a function ``optimum(epsilon)``, for epsilon = 0, too.
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

# %%
# The matrix has two diagonal blocks. The first, :math:`\begin{pmatrix} \epsilon & x \\ x & z
# \end{pmatrix}`, is positive semidefinite exactly if :math:`z \ge x^2 / \epsilon`, and z is
# free, so it allows every x. What is left is :math:`1 + x \ge 0`: the optimum is -1 for every
# :math:`\epsilon > 0`, and 0 for :math:`\epsilon = 0`. In the dual, the multiplier Z must
# satisfy :math:`Z_{22} = 0` (z is free), so :math:`Z_{12} = 0` and :math:`Z_{33} = 1`, with
# the value :math:`-Z_{33} - \epsilon Z_{11}`. Its maximum, at :math:`Z_{11} = 0`, is -1
# throughout: the dual sees the limit, the primal does not.


def optimum(epsilon):
    """The smallest x for which some z makes the matrix positive semidefinite."""
    return -1.0 if epsilon > 0 else 0.0


for epsilon in (1.0, 1e-2, 1e-4):
    matrix = np.array([[epsilon, -1, 0], [-1, 1 / epsilon, 0], [0, 0, 0]])
    print(
        f"epsilon {epsilon}: smallest eigenvalue at x "
        f"= -1 {np.linalg.eigvalsh(matrix)[0]:+.1e}"
    )
    assert np.linalg.eigvalsh(matrix)[0] > -1e-9

# %%
# .. raw:: html
#
#    </details>

check(
    4,
    lambda: (
        all(
            (np.linalg.eigvalsh([[e, x, 0], [x, 1e9, 0], [0, 0, 1 + x]])[0] > -1e-6)
            == (x >= optimum(e))
            for e in (0.1, 1.0)
            for x in (-1.01, -1.0, 0.0)
        )
        and optimum(0.0) == 0
    ),
)

# %%
# Exercise 5: a metric from measured distances (4 points)
# -------------------------------------------------------
#
# From Boyd's course EE364a. Distances :math:`d_i` of pairs with differences :math:`z_i` were
# measured. Choose :math:`P \succeq 0` to minimize :math:`\sum_i (d_i - \sqrt{z_i^\top P
# z_i})^2`. Show that the problem is convex, solve it as ``measured`` for data that you make
# (with noise), and prove how good your solution is: ``sm.bound`` bounds the value of a program
# in CVXPY. Store what it returns as ``proven``.
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

# %%
# Expand the square:
#
# .. math:: \sum_i \bigl( d_i^2 - 2 d_i \sqrt{z_i^\top P z_i} + z_i^\top P z_i \bigr) .
#
# The last term is linear in P. The square root of a nonnegative linear function is concave,
# and :math:`d_i \ge 0`, so minus :math:`2 d_i` times it is convex. The sum is convex, and the
# cone is.

rng = np.random.default_rng(0)
z = rng.normal(size=(60, 3))
hidden = np.array([[2.0, -1.0, 0.0], [-1.0, 2.0, 0.0], [0.0, 0.0, 0.5]])
d = np.sqrt(np.einsum("ni,ij,nj->n", z, hidden, z)) * (1 + 0.1 * rng.normal(size=60))
P = cp.Variable((3, 3), PSD=True)
squared = cp.sum(cp.multiply(z @ P, z), axis=1)
measured = cp.Problem(cp.Minimize(d @ d - 2 * d @ cp.sqrt(squared) + cp.sum(squared)))
measured.solve(solver="CLARABEL")
proven = sm.bound(measured)
print(proven)
print(np.round(P.value, 2))
assert proven.relative_width < 1e-4

# %%
# .. raw:: html
#
#    </details>

check(
    5,
    lambda: (
        proven.relative_width < 1e-4
        and proven.lower_bound - 1e-4 <= measured.value <= proven.upper_bound + 1e-4
    ),
)
