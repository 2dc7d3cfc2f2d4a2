r"""2. The semidefinite program, its dual, and Slater's condition
=================================================================

LMNN is a semidefinite program (SDP). We write it and its dual in CVXPY, see that their values agree, ask why, and meet
an SDP for which they do not. Then we compare with the fast solver.
"""

# %%
# The program
# -----------
#
# The hinge :math:`[u]_+` is the smallest slack :math:`\xi \ge 0` with :math:`\xi \ge u`. With slacks, LMNN is linear in
# M and in them, and M must be positive semidefinite: that is a semidefinite program.

import cvxpy as cp
import numpy as np

import sdpmetric as sm
from sdpmetric import datasets

X, y = datasets.load("iris")
rows = np.arange(0, 150, 3)
X, y = datasets.standardize(X)[rows], y[rows]
problem = sm.LMNNProblem.from_labels(X, y, n_neighbors=2)

i, j = problem.target_pairs
triplets = np.array([(a, b, c) for a, b in zip(i, j, strict=True) for c in np.flatnonzero(y != y[a])])
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
# A multiplier :math:`0 \le a_t \le 1/2` for each triplet, as in lesson 1; what is left over, :math:`S(a) = C - \sum_t
# a_t B_t`, is a matrix now, and must be positive semidefinite. The best bound of this kind is the dual program:

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
# If we scale these multipliers up, the bound grows, until S leaves the cone: the best multiple is 1.

import matplotlib.pyplot as plt

multiples = np.linspace(0, 1.25, 51)
lowest = [np.linalg.eigvalsh(C - s * np.einsum("t,tij->ij", a.value, stacked))[0] for s in multiples]
figure, axis = plt.subplots(figsize=(6, 3.4), layout="constrained")
axis.plot(multiples, lowest, label="smallest eigenvalue of S")
axis.axhline(0, color="0.5", linewidth=1)
axis.axvspan(1, 1.25, color="tab:red", alpha=0.15, label="not dual feasible")
axis.set(xlabel="multiple of the best multipliers", xlim=(0, 1.25))
axis.legend()

# %%
# The primal variables are M and the slacks, the dual ones a and S. In the notation of Boyd and Vandenberghe, M is the
# variable of a conic program with data :math:`C` and :math:`B_t`, and S is the multiplier of :math:`M \succeq 0`.
#
# The values agree: *strong duality*. Slater's condition is enough for it: some point satisfies all constraints
# strictly. Here :math:`M = I` with large slacks does, and so does a small multiple of any :math:`a > 0` in the dual, if
# C is positive definite.

assert np.linalg.eigvalsh(C)[0] > 0

# %%
# Without Slater's condition there can be a gap. Minimize :math:`x` subject to
#
# .. math:: \begin{pmatrix} 0 & x & 0 \\ x & z & 0 \\ 0 & 0 & 1 + x \end{pmatrix} \succeq 0 .
#
# A zero on the diagonal forces its row to vanish: x = 0 is the only feasible value, and no feasible matrix is positive
# definite. In the dual, z is free, so the middle row of the multiplier must vanish. Then its last entry must be 1, and
# the bound is -1: the gap is 1.

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
# The numbers agree, but agreement is weak evidence: both could be wrong in the same way. So we ask the *problem* to
# certify the metric that CVXPY found, from the data alone.

certificate = sm.verify(problem, metric=M.value, tol=1e-5)
print(certificate)
assert certificate.lower_bound <= fast.objective * (1 + 1e-9)
assert fast.lower_bound <= certificate.objective * (1 + 1e-9)

# %%
# Each lower bound is below the other's objective, and both intervals are short: an error would have to occur in both.
#
# The exact layer of the package needs less memory than our program: it starts with few triplets and adds those that are
# violated (constraint generation), so it never builds the whole list.

exact = sm.solve(problem, solver="conic")
print(sm.compare(fast, exact))
assert exact.relative_gap <= 1e-6

# %%
# What the dual value of a solver proves
# --------------------------------------
#
# A conic solver also reports a dual value. It is not a proof, because its multipliers are feasible only up to a
# tolerance. The certificate clips and scales them until they are dual feasible.

print("proven by the backend's own multipliers:", exact.certificate.info["backend_lower_bound"])

# %%
# Exercise 1
# ----------
#
# Add a constraint to the program: the metric must be diagonal. Can the value fall? Use ``sm.verify`` to check that the
# diagonal metric is not optimal for the problem without the constraint.
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

diagonal = cp.Problem(program.objective, [*program.constraints, cp.diag(cp.diag(M)) == M])
diagonal.solve(solver="CLARABEL")
print(f"{diagonal.value:.4f}, above {exact.objective:.4f}: fewer metrics to choose from")
assert diagonal.value >= exact.lower_bound
certificate = sm.verify(problem, metric=np.diag(np.maximum(np.diag(M.value), 0)))
print(certificate)
assert certificate.relative_gap > exact.relative_gap

# %%
# .. raw:: html
#
#    </details>
#
# Exercise 2
# ----------
#
# Find a strictly feasible point of the dual above by hand: which multiples of a = (1, ..., 1) will do?
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

ones = stacked.sum(axis=0)
scale = 0.9 * min(0.5, 1 / max(np.linalg.eigvals(np.linalg.solve(C, ones)).real.max(), 1e-12))
assert 0 < scale < 0.5
assert np.linalg.eigvalsh(C - scale * ones)[0] > 0
print(f"a = {scale:.4f} for every triplet proves {scale * len(triplets):.3f}, the optimum is {program.value:.3f}")

# %%
# .. raw:: html
#
#    </details>
#
# Exercise 3: the dual is in the primal solver
# --------------------------------------------
#
# CVXPY reports multipliers of the constraints of the *primal* program. Do they solve the dual?
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

program.solve(solver="CLARABEL")  # again: the constraints have been in another program
own = program.constraints[0].dual_value
print(f"sum {own.sum():.6f}, dual value {dual.value:.6f}")
slack_matrix = C - (stacked * own[:, None, None]).sum(axis=0)
print(f"smallest eigenvalue of S {np.linalg.eigvalsh(slack_matrix)[0]:.1e}: feasible up to the solver's tolerance")
assert np.isclose(own.sum(), dual.value, rtol=1e-4)
assert np.linalg.eigvalsh(slack_matrix)[0] > -1e-3 * np.linalg.eigvalsh(C)[-1]

# %%
# .. raw:: html
#
#    </details>
#
# Exercise 4: derive the gap
# --------------------------
#
# In the example without Slater's condition replace the first zero by :math:`\epsilon > 0`. What is the optimum now?
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

# The block of x and z allows every x if z >= x^2 / epsilon, so only 1 + x >= 0 is left: the optimum is -1. It jumps to
# 0 at epsilon = 0, while the dual value is -1 throughout: the dual sees the limit, the primal does not.
for epsilon in (1.0, 1e-2, 1e-4):
    matrix = np.array([[epsilon, -1, 0], [-1, 1 / epsilon, 0], [0, 0, 0]])
    print(f"epsilon {epsilon}: smallest eigenvalue at x = -1 {np.linalg.eigvalsh(matrix)[0]:+.1e}")
    assert np.linalg.eigvalsh(matrix)[0] > -1e-9

# %%
# .. raw:: html
#
#    </details>
