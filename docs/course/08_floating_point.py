r"""8. Floating point: a false bound
================================

The theorem of lesson 1 is true, yet a program that evaluates it can print a number that is no
lower bound. Six points are enough. We compute such a number, refute it by exact arithmetic,
and see what rounding outward costs.

Boyd and Vandenberghe: section 5.5.1 (what a dual point proves). Reading 35 minutes; exercises
13 points, about 80 minutes.
"""

# %%
# Six points, twice
# -----------------
#
# Six points p in the plane have integer coordinates. We shear and flatten them: x = T p, where
# the second feature of x repeats the first up to multiples of :math:`\epsilon = 2^{-26}`. All
# coordinates are floats, exactly.

import math
from fractions import Fraction

import numpy as np

import sdpmetric as sm

P = np.array([[7, 0], [1, 2], [1, 7], [7, 5], [0, 0], [2, 3]])
y = np.array([0, 1, 0, 1, 0, 1])


def flattened(k):
    """The points (p, p + q / 2^k)."""
    return np.column_stack([P[:, 0], P[:, 0] + P[:, 1] * 2.0**-k])


# %%
# Nothing changes in the problem: for the metric :math:`M` of the points p, the metric
# :math:`T^{-\top} M T^{-1}` gives the same distances to the points x. If target neighbors are
# kept, both problems have the same optimum and the same lower bounds for the same multipliers.
# Only the cost C of the points x is nearly singular: one of its eigenvalues is about
# :math:`2^{-52}` times the other.

compact = sm.LMNNProblem.from_labels(P.astype(float), y, n_neighbors=1)
pairs = np.stack(compact.target_pairs, axis=1).tolist()
triplets = [(i, j, int(l)) for i, j in pairs for l in np.flatnonzero(y != y[i])]
a = [0.5] * len(triplets)
print(f"{len(triplets)} triplets, all with the multiplier 1/2")

# %%
# The bound as a textbook computes it
# -----------------------------------
#
# The largest share of the multipliers that leaves the slack in the cone is one over the
# largest eigenvalue of :math:`C^{-1} \sum_t a_t B_t` (lesson 3), which for two features is a
# root of a quadratic equation. Plain Python computes it below, one IEEE operation after
# another: no library, so every computer prints the same digits.


def textbook_bound(points, number=float):
    """tau times the sum of the multipliers; floats are rounded after every operation."""
    points = [[number(v) for v in point] for point in points.tolist()]

    def outer(i, j):
        u, v = (p - q for p, q in zip(points[i], points[j], strict=True))
        return u * u, u * v, v * v

    C = [sum(entries) / 2 for entries in zip(*(outer(i, j) for i, j in pairs), strict=True)]
    B = [0, 0, 0]
    for (i, j, l), multiplier in zip(triplets, map(number, a), strict=True):
        B = [
            b + multiplier * (far - near)
            for b, far, near in zip(B, outer(i, l), outer(i, j), strict=True)
        ]
    determinant = C[0] * C[2] - C[1] * C[1]
    half = (C[2] * B[0] - 2 * C[1] * B[1] + C[0] * B[2]) / determinant / 2
    product = (B[0] * B[2] - B[1] * B[1]) / determinant
    top = float(half) + math.sqrt(half * half - product)
    return min(1.0, 1 / top) * sum(a)


# %%
# The objective in exact arithmetic
# ---------------------------------
#
# Floats are rational numbers, and the objective needs only sums, products and comparisons, so
# Python's fractions compute it without rounding. The metric is the solution for the points p,
# taken to the points x.


def exact_objective(points, L):
    """The objective of the metric L^T L as a fraction."""
    rows = [[Fraction(v) for v in row] for row in points.tolist()]
    Z = [[sum(m * v for m, v in zip(line, row, strict=True)) for line in L] for row in rows]

    def squared(i, j):
        return sum((p - q) ** 2 for p, q in zip(Z[i], Z[j], strict=True))

    pull = sum(squared(i, j) for i, j in pairs)
    push = sum(max(Fraction(0), 1 + squared(i, j) - squared(i, l)) for i, j, l in triplets)
    return (pull + push) / 2


solution = sm.solve(compact, solver="conic", tol=1e-8)
L = [[Fraction(v) for v in line] for line in solution.components.tolist()]
moved = [
    [first - second * 2**26, second * 2**26] for first, second in L
]  # L times the inverse of T
attained = exact_objective(flattened(26), moved)
assert attained == exact_objective(P, L)

# %%
# The contradiction
# -----------------

printed = textbook_bound(flattened(26))
print(f"'lower bound' of the textbook {printed:.4f}")
print(f"objective of a metric that exists {float(attained):.4f}")
print(f"what the multipliers really prove {textbook_bound(flattened(26), Fraction):.4f}")
assert Fraction(printed) > attained

# %%
# A "bound" above an attained value is no bound. Its formula is right, and in fractions it
# gives the smaller number. In floats the determinant cancels: it is the difference of two
# products that agree in their first 15 digits, so nearly all that is left of it is rounding
# error.
#
# How thin must the points be? The picture shows the textbook's number for :math:`\epsilon =
# 2^{-8}` to :math:`2^{-26}`, and what `certify` proves from the same multipliers.

import matplotlib.pyplot as plt

from sdpmetric.core.certificate import Dual

exponents = np.arange(8, 27)
multipliers = Dual(sm.Triplets(*np.array(triplets, dtype=np.int32).T), np.array(a))
truth = textbook_bound(P, Fraction)
printed, proven = [], []
for k in exponents.tolist():
    thin = sm.LMNNProblem.from_labels(
        flattened(k), y, target_neighbors=[[j] for _, j in pairs]
    )
    printed.append(textbook_bound(flattened(k)) / truth - 1)
    proven.append(thin.certify(np.eye(2), dual=multipliers).lower_bound / truth - 1)
figure, axis = plt.subplots(figsize=(6, 3.4), layout="constrained")
axis.axhline(0, color="black", linewidth=1, label="what the multipliers prove")
axis.axhline(
    float(attained) / truth - 1, color="black", linestyle=":", label="an attained objective"
)
axis.plot(exponents, printed, "X", color="#D55E00", label='"bound" in float64')
axis.plot(exponents, proven, "o", color="#0072B2", label="bound that is rounded outward")
axis.set_yscale("symlog", linthresh=1e-12)
axis.set(
    xlabel="k, for points that are flattened by $2^{-k}$",
    ylabel="relative to the truth, minus 1",
)
axis.legend(loc="lower left", fontsize="small")
plt.show()
assert max(proven) <= 0
assert max(printed) > float(attained) / truth - 1

# %%
# Up to k = 19 the determinant is exact: its products fit into the 53 bits of a float. Beyond,
# the error of the textbook's number grows roughly as :math:`4^k`, the square of the condition
# of the points, and has both signs. The certificate rounds every step outward: sums,
# products, eigenvalues (by Cholesky's method with a proven error) and the whitening, whose
# inverse is never needed. Its bounds hold. They lose some digits on data like these, and
# almost none on others.

X, labels = sm.datasets.load("iris")
problem = sm.LMNNProblem.from_labels(X, labels)
print(f"iris: proven relative gap {sm.solve(problem, solver='conic').relative_gap:.1e}")

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
# For which k of ``exponents`` does the textbook print more than its multipliers prove? List
# them as ``above``, and those for which it prints more than an attained objective as
# ``false``. Is the number a proof for k = 8?
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

exact = [textbook_bound(flattened(k), Fraction) for k in exponents.tolist()]
above = [
    k
    for k, value in zip(exponents.tolist(), exact, strict=True)
    if textbook_bound(flattened(k)) > value
]
false = [k for k in exponents.tolist() if Fraction(textbook_bound(flattened(k))) > attained]
print(
    f"more than the multipliers prove: k = {above}; "
    f"more than an attained objective: k = {false}"
)
assert false == [26]

# %%
# No, not for any k. Where the number happens to be small enough, nothing in the computation
# shows that it is: the same operations print a true number for k = 25 and a false one for k =
# 26. A proof needs a bound on the rounding error, or directed rounding.

# %%
# .. raw:: html
#
#    </details>

check(
    1,
    lambda: (
        set(false) <= set(above)
        and false
        == [k for k in exponents.tolist() if Fraction(textbook_bound(flattened(k))) > attained]
    ),
)

# %%
# Exercise 2 (2 points)
# ---------------------
#
# A proof is a vector of multipliers. Raise all of them by 1 % (``Dual(triplets, values)``
# makes multipliers) and certify a solution for iris again by ``problem.certify(...,
# dual=...)``: what is the bound that is ``proven_now``? (A proof file,
# ``Solution.save_proof``, holds the same vector; ``tests/check/test_forgeries.py`` has files
# that were built to fool the independent checker, ``python -m sdpmetric.check``.)
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

honest = sm.solve(problem, tol=1e-3)
forged = Dual(honest.dual.triplets, 1.01 * np.asarray(honest.dual.values))
claimed = float(np.sum(forged.values))
proven_now = problem.certify(honest.components, dual=forged).lower_bound
best = sm.solve(problem, solver="conic").objective
print(f"claimed {claimed:.3f}, proven {proven_now:.3f}, optimum {best:.3f}")
assert proven_now <= best < claimed

# %%
# Multipliers outside their boxes or the cone are clipped and scaled: the bound may fall, and
# never exceeds the optimum.

# %%
# .. raw:: html
#
#    </details>

check(2, lambda: 0 < proven_now <= sm.solve(problem, solver="conic").objective)

# %%
# Exercise 3 (homework): forge proof files (5 points)
# ---------------------------------------------------
#
# Write an honest proof file. Then claim more, remove the triplets behind the multipliers, or
# change the data, and let the independent checker judge each file:
# ``sdpmetric.check.__main__.main([data, proof])`` returns a code, 0 if it accepts, and a
# sentence. A seal protects files against accidents only, so forge it, too:
# ``sdpmetric.core.files.digest`` computes the seal of a file's arrays and of its text
# ``about``. Collect the ``verdicts``, a dictionary from what you tried to code and sentence.
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

import json
import tempfile
from pathlib import Path

from sdpmetric.check.__main__ import main
from sdpmetric.core.files import digest_of_arrays

folder = Path(tempfile.mkdtemp())
np.savez(folder / "data.npz", X=X, y=labels)
np.savez(folder / "other.npz", X=1.001 * X, y=labels)
honest.save_proof(folder / "proof.npz")
with np.load(folder / "proof.npz") as stored:
    members = {name: stored[name] for name in stored.files}


def judge(data="data.npz", claim=1.0, **changed):
    """The verdict on a file with a valid seal."""
    about = json.loads(str(members["about"]))
    about["lower_bound"] *= claim
    arrays = {
        name: changed.get(name, array)
        for name, array in members.items()
        if name not in ("about", "seal")
    }
    text = json.dumps(about)
    np.savez(
        folder / "forged.npz",
        **arrays,
        about=np.array(text),
        seal=np.array(digest_of_arrays(arrays, text)),
    )
    return main([str(folder / data), str(folder / "forged.npz")])


values, rows = (
    "1.multipliers",
    "1.triplets",
)  # of the second term; the first part is the metric
assert judge()[0] == 0
verdicts = {
    "claims 1 % more": judge(claim=1.01),
    "multipliers raised": judge(claim=1.01, **{values: 1.01 * members[values]}),
    "negative multipliers": judge(**{values: -members[values]}),
    "infinite multipliers": judge(**{values: np.inf * members[values]}),
    "triplets counted twice": judge(
        claim=2.0,
        **{values: np.tile(members[values], 2), rows: np.tile(members[rows], (2, 1))},
    ),
    "triplets removed": judge(**{values: members[values][:0], rows: members[rows][:0]}),
    "other data": judge(data="other.npz"),
}
for name, (code, text) in verdicts.items():
    print(f"{name}: {text[:70]}")
    assert code != 0

# %%
# .. raw:: html
#
#    </details>

check(3, lambda: len(verdicts) >= 3 and all(code != 0 for code, _ in verdicts.values()))

# %%
# Exercise 4: sums in floating point (3 points)
# ---------------------------------------------
#
# Compute :math:`10^{16} + 1 - 10^{16}` from left to right, in another order, and by
# ``math.fsum``. Then bound the sum of ``np.random.default_rng(0).normal(size=1000)`` from both
# sides, by floats ``low`` and ``high``.
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

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

check(
    4,
    lambda: (
        low < high < low + 1e-9
        and Fraction(low)
        <= sum(map(Fraction, np.random.default_rng(0).normal(size=1000).tolist()))
        <= Fraction(high)
    ),
)
