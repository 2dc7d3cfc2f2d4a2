"""Two solvers prove the same optimum
==================================

Two solvers without common code, and the optimum between their bounds.

The conic solver hands a semidefinite program to an interior-point method. The subgradient
method takes projected subgradient steps. They share the data and the triplets, but no
optimization code. Each lower bound is below the objective of the other solver, and both
intervals are short: an error would have to occur in both solvers alike.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_iris
from sklearn.preprocessing import StandardScaler

import sdpmetric as sm
from sdpmetric.plotting import ConvergenceDisplay

# %%
X, y = load_iris(return_X_y=True)
problem = sm.LMNNProblem.from_labels(
    StandardScaler().fit_transform(X), y, n_neighbors=3, push_weight=0.3
)

exact = sm.solve(problem, solver="conic", tol=1e-6)
fast = sm.solve(problem, solver="subgradient", tol=1e-3)
print(sm.compare(exact, fast))

# %%
# Each proves what was asked of it.
assert exact.relative_gap <= 1e-6
assert fast.relative_gap <= 1e-3

# %%
# Each lower bound is below the other's objective, up to rounding.
rounding = 1e-9 * max(1.0, exact.objective)
assert exact.lower_bound <= fast.objective + rounding
assert fast.lower_bound <= exact.objective + rounding

# %%
# This test can fail: a metric that is 21 % too large has an objective above the proven
# interval.
spoiled = sm.certify(problem, components=1.1 * exact.components)
print(
    f"the same metric times 1.21: objective {spoiled.objective:.6f}, "
    f"above {exact.objective:.6f}"
)
assert spoiled.objective > exact.objective + 1e-3 * exact.objective

# %%
# The optimal metric is not unique in general, so compare objectives, bounds and gaps, not
# the matrices.

# %%
# The interval of the subgradient method closes around the optimum that the conic solver
# has proven.
interval = ConvergenceDisplay.from_solution(fast, against="iteration", name="subgradient")
axis = interval.ax_[0]
axis.axhline(exact.objective, color="black", linestyle=":", label="conic: optimum")
axis.set(xscale="log", xlim=(1, interval.positions[-1]), ylim=(0, 1.5 * exact.objective))
axis.legend()
plt.figure(interval.figure_)
plt.show()
