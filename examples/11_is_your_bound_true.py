"""Is your SDP bound true?
=======================

Lower bounds that a solver prints, and bounds that are proven, for a program that is nearly
ill-posed.

The program is from the guide of VSDP: with small numbers delta and epsilon its optimum is
exactly ``-1 + delta / epsilon``. An interior-point method stops when its equations hold up to
a tolerance, and its dual objective is then no bound: it may lie above the optimum.
``sm.bound`` moves the multipliers inside the dual cone, encloses a point that satisfies the
dual equations exactly, and accounts for every rounding. Its lower bound is below the optimum,
however nearly ill-posed the program is; if it can prove little, it says so.
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

import sdpmetric as sm
from sdpmetric import plotting

plt.style.use(plotting.STYLE)

DELTA = 2.0**-14


def program(epsilon: float) -> cp.Problem:
    """VSDP's example."""
    X = cp.Variable((3, 3), PSD=True)
    cost = X[0, 1] + DELTA * (X[1, 1] + X[2, 2])
    return cp.Problem(
        cp.Minimize(cost), [X[0, 1] == -1, X[0, 0] == epsilon, X[0, 2] == 0, X[1, 2] == 0]
    )


# %%
# Bound programs that are nearer and nearer to an ill-posed one.
powers = np.arange(0, 15, 2)
printed, proven = [], []
for power in powers:
    epsilon = 2.0**-power
    optimum = -1.0 + DELTA / epsilon
    problem = program(epsilon)
    value = problem.solve(solver="SCS")
    found = sm.bound(problem)
    printed.append(value - optimum)
    proven.append((found.lower_bound - optimum, found.upper_bound - optimum))
    print(
        f"epsilon 2^-{power:<2}  optimum {optimum:.6f} "
        f" SCS prints {value:.6f}  proven: {found}"
    )

# %%
# Draw how far the bounds are off.
lower, upper = np.array(proven).T
_, axes = plt.subplots(figsize=(7, 4))
axes.axhline(0.0, color="black", linewidth=1)
axes.plot(powers, printed, "o", color=plotting.COLORS[1], label="printed by SCS")
axes.vlines(
    powers, lower, upper, color=plotting.COLORS[0], linewidth=4, label="proven interval"
)
axes.set_yscale("symlog", linthresh=1e-9)
axes.set(xlabel="-log2 of epsilon", ylabel="minus the exact optimum")
axes.legend()
plt.show()
