r"""8. Floating point: a false bound
================================

The theorem of lesson 1 is true, yet a program that evaluates it can print a number that is no lower bound. Nine points
are enough. We compute such a number, refute it by exact arithmetic, and see what rounding outward costs.
"""

# %%
# Nine points
# -----------
#
# The third feature repeats the first one up to :math:`10^{-9}`. So there is a direction in which target neighbors
# hardly differ, and the cost C has one eigenvalue near :math:`10^{-18}` among others near 1.

from fractions import Fraction

import numpy as np

import sdpmetric as sm


def nine_points(seed):
    """A problem with a nearly singular cost, its triplets and its differences."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(9, 2))
    X = np.column_stack([X, X[:, 0] + 1e-9 * rng.normal(size=9)])
    problem = sm.LMNNProblem.from_labels(X, np.arange(9) % 3, 1, 0.5)
    return X, problem, np.stack(problem.target_pairs, axis=1)


# %%
# The bound as a textbook computes it
# -----------------------------------
#
# Whiten by the cost, take the largest eigenvalue, scale the multipliers: all in float64, without a thought about
# rounding.


def textbook_bound(X, pairs, triplets, a):
    """tau times the sum of the multipliers, in float64."""
    difference = np.sqrt(0.5) * (X[pairs[:, 0]] - X[pairs[:, 1]])
    _, sigma, rotation = np.linalg.svd(difference, full_matrices=False)
    W = rotation.T / sigma
    near, far = X[triplets[:, 0]] - X[triplets[:, 1]], X[triplets[:, 0]] - X[triplets[:, 2]]
    top = np.linalg.eigvalsh(W.T @ ((far.T * a) @ far - (near.T * a) @ near) @ W)[-1]
    return min(1.0, 1.0 / top) * a.sum()


# %%
# The objective in exact arithmetic
# ---------------------------------
#
# Floats are rational numbers, and the objective needs only sums, products and comparisons, so Python's fractions
# compute it without rounding.


def exact_objective(X, y, pairs, L):
    """The objective of the metric L^T L as a fraction."""
    rows = [[Fraction(v) for v in row] for row in X.tolist()]
    Z = [[sum(Fraction(m) * v for m, v in zip(line, row, strict=True)) for line in L.tolist()] for row in rows]

    def squared(a, b):
        return sum((p - q) ** 2 for p, q in zip(Z[a], Z[b], strict=True))

    pull = sum(squared(a, b) for a, b in pairs.tolist())
    others = {a: np.flatnonzero(y != y[a]) for a in range(len(y))}
    hinges = (1 + squared(a, b) - squared(a, c) for a, b in pairs.tolist() for c in others[a])
    push = sum(max(Fraction(0), hinge) for hinge in hinges)
    return (pull + push) / 2


# %%
# The contradiction
# -----------------

false, rows = 0, []
for seed in (29, 38, 53):
    X, problem, pairs = nine_points(seed)
    solution = sm.solve(problem, solver="conic", tol=1e-8)
    triplets, a = solution.dual.triplets.to_array(), np.asarray(solution.dual.values)
    printed = textbook_bound(X, pairs, triplets, a)
    attained = exact_objective(X, np.arange(9) % 3, pairs, solution.components)
    false += Fraction(printed) > attained
    rows.append([printed / float(attained) - 1, solution.lower_bound / float(attained) - 1])
    print(
        f"seed {seed}: 'bound' {printed:.10f}, attained {float(attained):.10f}, certificate {solution.lower_bound:.10f}"
    )
    assert Fraction(solution.lower_bound) <= attained <= Fraction(solution.objective)
print(f"{false} of 3 'bounds' exceed a value that is attained")

# %%
# A "bound" above an attained value is no bound. The differences are small, relative :math:`2 \cdot 10^{-10}` to
# :math:`6 \cdot 10^{-8}`: a test with a tolerance of :math:`10^{-7}` does not notice them. Whitening stretched one
# direction by :math:`10^9`, and with it the rounding errors of the data's differences.

import matplotlib.pyplot as plt

figure, axis = plt.subplots(figsize=(6, 3), layout="constrained")
printed, proven = np.array(rows).T
axis.axvline(0, color="black", linewidth=1, label="an attained objective")
axis.plot(printed, range(3), "X", color="tab:red", markersize=9, label='"bound" in float64')
axis.plot(proven, range(3), "o", color="tab:blue", markersize=7, label="proven bound")
axis.set_xscale("symlog", linthresh=1e-9)
axis.set(xlabel="relative to the attained objective, minus 1", xticks=[-1e-4, -1e-6, -1e-8, 0, 1e-8, 1e-6])
axis.set(yticks=range(3), yticklabels=(29, 38, 53), ylabel="seed", xlim=(-1e-3, 1e-5), ylim=(-1.9, 2.5))
axis.legend(loc="lower left", fontsize="small")

# %%
# The certificate rounds every step outward: sums, products, eigenvalues (by Cholesky's method with a proven error) and
# the whitening, whose inverse is never needed. Its bounds hold. They lose some digits on data like these, and almost
# none on others.

X, y = sm.datasets.load("iris")
problem = sm.LMNNProblem.from_labels(X, y)
print(f"iris: proven relative gap {sm.solve(problem, solver='conic').relative_gap:.1e}")

# %%
# Exercise 1
# ----------
#
# Perturb by 1e-3 instead of 1e-9. Are there still false bounds?
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

for seed in (29, 38, 53):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(9, 2))
    A = np.column_stack([A, A[:, 0] + 1e-3 * rng.normal(size=9)])
    mild = sm.LMNNProblem.from_labels(A, np.arange(9) % 3, 1, 0.5)
    found = sm.solve(mild, solver="conic", tol=1e-6)
    value = exact_objective(A, np.arange(9) % 3, np.stack(mild.target_pairs, axis=1), found.components)
    assert Fraction(found.lower_bound) <= value
    print(f"proven gap {found.relative_gap:.1e}")
# The textbook bound may still be too large by 1e-15 or so. Only a bound that is rounded downward is a proof.

# %%
# .. raw:: html
#
#    </details>
#
# Exercise 2
# ----------
#
# A proof is a vector of multipliers. Raise all of them by 1 % and certify again: what do they prove now? (A proof file,
# ``Solution.save_proof``, holds the same vector; ``tests/check/test_forgeries.py`` has files that were built to fool
# the independent checker, ``python -m sdpmetric.check``.)
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

from sdpmetric.core.certificate import Dual

honest = sm.solve(problem, tol=1e-3)
forged = Dual(honest.dual.triplets, 1.01 * np.asarray(honest.dual.values))
claimed = float(np.sum(forged.values))
proven = problem.certify(honest.components, dual=forged).lower_bound
print(f"claimed {claimed:.3f}, proven {proven:.3f}, optimum {sm.solve(problem, solver='conic').objective:.3f}")
# Multipliers outside their boxes or the cone are clipped and scaled: the bound may fall, and never exceeds the optimum.
assert proven <= sm.solve(problem, solver="conic").objective < claimed

# %%
# .. raw:: html
#
#    </details>
#
# Exercise 3 (homework): forge proof files
# ----------------------------------------
#
# Write an honest proof file. Then claim more, remove the triplets behind the multipliers, or change the data, and let
# the independent checker judge each file. A seal protects files against accidents only, so forge it, too.
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

import json
import tempfile
from pathlib import Path

from sdpmetric.check.__main__ import main
from sdpmetric.core.proof import digest

folder = Path(tempfile.mkdtemp())
np.savez(folder / "data.npz", X=X, y=y)
np.savez(folder / "other.npz", X=1.001 * X, y=y)
honest.save_proof(folder / "proof.npz")
with np.load(folder / "proof.npz") as stored:
    parts = {name: stored[name] for name in stored.files}


def judge(data="data.npz", claim=1.0, **changed):
    """The verdict on a file with a valid seal."""
    about = json.loads(str(parts["about"]))
    about["lower_bound"] *= claim
    arrays = {name: changed.get(name, array) for name, array in parts.items() if name not in ("about", "seal")}
    text = json.dumps(about)
    np.savez(folder / "forged.npz", **arrays, about=np.array(text), seal=np.array(digest(arrays, text)))
    return main([str(folder / data), str(folder / "forged.npz")])


a, triplets = "1.multipliers", "1.triplets"  # of the second term; the first part is the metric
assert judge()[0] == 0
for name, (code, text) in {
    "claims 1 % more": judge(claim=1.01),
    "multipliers raised": judge(claim=1.01, **{a: 1.01 * parts[a]}),
    "negative multipliers": judge(**{a: -parts[a]}),
    "infinite multipliers": judge(**{a: np.inf * parts[a]}),
    "triplets counted twice": judge(claim=2.0, **{a: np.tile(parts[a], 2), triplets: np.tile(parts[triplets], (2, 1))}),
    "other data": judge(data="other.npz"),
}.items():
    print(f"{name}: {text[:70]}")
    assert code != 0

# %%
# .. raw:: html
#
#    </details>
#
# Exercise 4: sums in floating point
# ----------------------------------
#
# Compute :math:`10^{16} + 1 - 10^{16}` in three orders. Then bound the sum of 1,000 random numbers from both sides.
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

import math

print((1e16 + 1) - 1e16, (1e16 - 1e16) + 1, math.fsum([1e16, 1, -1e16]))
numbers = np.random.default_rng(0).normal(size=1000)
low = high = 0.0
for value in numbers.tolist():  # one step outward after every operation
    low, high = math.nextafter(low + value, -math.inf), math.nextafter(high + value, math.inf)
exact_sum = sum(map(Fraction, numbers.tolist()))
print(f"between {low!r} and {high!r}")
assert Fraction(low) <= exact_sum <= Fraction(high)

# %%
# .. raw:: html
#
#    </details>
