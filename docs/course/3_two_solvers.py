r"""3. The semidefinite program in CVXPY against the fast solver
==============================================================

The same problem, solved by two programs that share only the data: a general solver for semidefinite programs, and a
fast solver for LMNN. We write the semidefinite program ourselves, compare the results, and see when to use which.
"""

# %%
# The program
# -----------
#
# The hinge :math:`[u]_+` is the smallest slack :math:`\xi \ge 0` with :math:`\xi \ge u`. Thus LMNN is linear in the
# metric M and the slacks, with the constraint that M is positive semidefinite: a semidefinite program.

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
# The exact layer of the package does better than our program. It starts with few triplets and adds those that are
# violated (constraint generation), so that it never builds the whole list.

exact = sm.solve(problem, solver="conic")
print(sm.compare(fast, exact))
assert exact.relative_gap <= 1e-6

# %%
# What the dual value of a solver proves
# --------------------------------------
#
# A conic solver also reports a dual value. It is not a proof, because its multipliers are feasible up to a tolerance
# only. The certificate clips and scales them, so that they are dual feasible.

print("proven by the backend's own multipliers:", exact.certificate.backend_lower_bound)

# %%
# Exercise
# --------
#
# Add a constraint to the program: the metric must be diagonal. Solve it. Must the value rise or fall? Check by
# `sm.verify` that the diagonal metric is not optimal for the problem without the constraint.
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
