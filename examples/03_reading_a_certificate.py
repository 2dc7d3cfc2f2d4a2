"""Why Algorithm 1 stalls: read a certificate
==========================================

Why Algorithm 1's step rule stalls, and how a certificate reveals it.

Algorithm 1 of Weinberger and Saul (2009) multiplies its step by 1.01 when the objective fell
and by 0.5 when it rose. The objective has kinks, and near a kink a step along the subgradient
often overshoots. One overshoot takes back seventy successes, so the steps shrink like a
geometric series. Their sum is finite, so the method comes to rest above the optimum, and its
objective looks as if it had converged.

The certificate shows that it has not: the lower bound stays far below, because the slopes of a
point that is not optimal cannot prove that it is. Polyak's step, ``(objective - best lower
bound) / ||G||^2``, contains that gap, so it stays long while something remains to be proven.
The two rules work in different coordinates, those of the data and those in which the pull cost
is the identity, so the lengths of their steps cannot be compared.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

import sdpmetric as sm
from sdpmetric import plotting

plt.style.use(plotting.STYLE)

TOLERANCE = 1e-3
RULES = {
    "paper": (plotting.COLORS[1], "Algorithm 1 (times 1.01, times 0.5)"),
    "polyak": (plotting.COLORS[0], "Polyak"),
}


def draw(solutions: dict[str, sm.Solution]) -> None:
    """Objective and bound, proven gap, and step against iterations."""
    figure, (values, gaps, steps) = plt.subplots(
        3, 1, figsize=(7.5, 9), sharex=True, layout="constrained"
    )
    last = max(solution.trace.rows[-1].iteration for solution in solutions.values())
    for rule, solution in solutions.items():
        color, name = RULES[rule]
        trace = solution.trace.rows[1:]  # the first row is the start, not yet evaluated
        iteration = np.array([row.iteration for row in trace])
        objective = np.minimum.accumulate([row.objective for row in trace])
        bound = np.maximum.accumulate([row.lower_bound for row in trace])
        gap = (objective - bound) / objective
        values.fill_between(iteration, bound, objective, color=color, alpha=0.13, linewidth=0)
        values.plot(iteration, objective, color=color, label=f"{name}: objective")
        values.plot(
            iteration, bound, color=color, linestyle="--", label=f"{name}: lower bound"
        )
        gaps.plot(iteration, gap, color=color, label=name)
        steps.plot(iteration, [row.step_size for row in trace], color=color, label=name)
        if iteration[-1] < last:  # where it came to rest it stays, however long one waits
            for axes, level in ((values, objective[-1]), (values, bound[-1]), (gaps, gap[-1])):
                axes.hlines(
                    level, iteration[-1], last, color=color, linewidth=1, linestyle=":"
                )
            for axes, level in (
                (values, bound[-1]),
                (gaps, gap[-1]),
                (steps, trace[-1].step_size),
            ):
                axes.plot(iteration[-1], level, "o", color=color, markersize=5)
            gaps.annotate(
                f"at rest, {gap[-1]:.1%} unproven",
                (last, gap[-1]),
                xytext=(0, 5),
                textcoords="offset points",
                color=color,
                fontsize="small",
                ha="right",
            )
    values.set(ylabel="best so far", ylim=(185, 235))
    values.set_title("The optimum lies in the shaded interval", loc="left")
    gaps.set(ylabel="relative gap", yscale="log")
    gaps.set_title("What is proven: the interval, relative to the objective", loc="left")
    gaps.axhline(TOLERANCE, color="gray", linewidth=1, linestyle=":")
    gaps.annotate(
        "asked",
        (1, TOLERANCE),
        xytext=(2, 3),
        textcoords="offset points",
        color="gray",
        fontsize="small",
    )
    steps.set(ylabel="step", xlabel="iteration", xscale="log", yscale="log", ylim=(1e-20, 100))
    steps.set_title("Why: the step", loc="left")
    for axes in (values, gaps, steps):
        axes.legend(fontsize="small", loc="lower left" if axes is steps else "upper right")
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(
        "LMNN on wine by projected subgradients: two step rules", fontweight="bold"
    )
    plt.show()


# %%
X, y = load_wine(return_X_y=True)
problem = sm.LMNNProblem.from_labels(
    StandardScaler().fit_transform(X), y, n_neighbors=3, push_weight=0.5
)
solutions = {
    rule: sm.solve(
        problem,
        solver="subgradient",
        step=rule,
        check_every=5,
        tol=TOLERANCE,
        max_iter=3000,
    )
    for rule in RULES
}
for rule, solution in solutions.items():
    print(f"{rule:>6}: {solution}")
paper, polyak = solutions["paper"], solutions["polyak"]

# %%
# Algorithm 1 has stopped moving: its step is down by twelve orders of magnitude, and more
# iterations will not help.
steps = paper.trace["step_size"][1:]
assert steps[-1] < 1e-12 * steps[0]

# %%
# It has not reached the optimum: the other metric is better, which needs no theory to
# check.
print(
    f"Algorithm 1 rests {paper.objective - polyak.objective:.3f} above a metric that exists."
)
assert paper.objective > polyak.objective

# %%
# Its objective alone does not tell: it has hardly changed in the last half of the run.
half = paper.trace["objective"][len(paper.trace) // 2]
assert half - paper.objective < 1e-3 * paper.objective

# %%
# Its certificate does.
assert not paper.status.ok
assert paper.relative_gap > 10 * TOLERANCE

# %%
# Polyak's step proves the gap.
assert polyak.status.ok
assert polyak.relative_gap <= TOLERANCE

draw(solutions)
