r"""12. NCA: a gradient, hills, and what a certificate does not say
=================================================================

Neighborhood components analysis maximizes the expected number of points that a random nearest
neighbor classifies correctly. The function is smooth and not concave. We derive its gradient,
climb from several starts, and read a certificate that claims little.

Goldberger, Roweis, Hinton and Salakhutdinov (2005), sections 2 to 4. Boyd and Vandenberghe:
section 4.2.2 (local and global optima). Reading 30 minutes; exercises 11 points, about 70
minutes.
"""

# %%
# Soft neighbors
# --------------
#
# Point i chooses another point j as its neighbor with the probability
#
# .. math:: p_{ij} = \frac{e^{-D_{ij}}}{\sum_{k \ne i} e^{-D_{ik}}}, \qquad
#    D_{ij} = \lVert L (x_i - x_j) \rVert^2 ,
#
# and it is right with the probability :math:`p_i`, the sum over the j of its class. NCA
# maximizes :math:`f(L) = \sum_i p_i`; the package minimizes -f.

import matplotlib.pyplot as plt
import numpy as np

import sdpmetric as sm
from sdpmetric import datasets


def probabilities(X, L):
    """All p_ij, (n, n), with zeros on the diagonal."""
    Z = X @ np.transpose(L)
    D = np.sum((Z[:, None] - Z[None]) ** 2, axis=2)
    np.fill_diagonal(D, np.inf)
    E = np.exp(-(D - D.min(axis=1, keepdims=True)))
    return E / E.sum(axis=1, keepdims=True)


def f(X, y, L):
    """The expected number of correct classifications."""
    return float(np.sum(probabilities(X, L)[y[:, None] == y]))


X, y = datasets.load("iris")
X = datasets.standardize(X)
problem = sm.NCAProblem(X, y, n_components=2)
L = np.random.default_rng(0).normal(size=(2, 4))
print(f"f = {f(X, y, L):.4f} of 150; the package: {-problem.objective(L):.4f}")
assert np.isclose(f(X, y, L), -problem.objective(L))

# %%
# Hills
# -----
#
# On a line L is one number, and f can be drawn. It has two hills, and far out a plain.

line = np.array([1.0, 1.9, 6.3, 7.0, 7.8, 7.9, 8.8])[:, None]
sides = np.array([0, 1, 0, 1, 1, 1, 1])
scales = np.geomspace(0.03, 20, 300)
figure, axis = plt.subplots(figsize=(6, 3), layout="constrained")
axis.semilogx(scales, [f(line, sides, [[s]]) for s in scales])
axis.set(xlabel="L", ylabel="f, of 7 points")
plt.show()

small_problem = sm.NCAProblem(line, sides)
for start in (0.05, 3.0):
    l = np.array([[start]])
    for _ in range(3000):  # small steps along the gradient
        l = l - 0.02 * small_problem.value_and_gradient(l)[1]
    print(f"from {start}: L = {l[0, 0]:.2f}, f = {f(line, sides, l):.2f}")

# %%
# Whoever climbs in small steps ends on the nearest hill. No calculation at its top shows that
# there is a higher one.
#
# The gradient
# ------------
#
# With :math:`V_{ij} = (x_i - x_j)(x_i - x_j)^\top` (Eq. 5 of the paper; exercise 1),
#
# .. math::
#
#    \nabla f(L) = 2 L \sum_i \Bigl( p_i \sum_k p_{ik} V_{ik}
#    - \sum_{j \text{ of the class of } i} p_{ij} V_{ij} \Bigr) .
#
# Points that the neighborhood contains by chance are pushed away; those of the class, which
# make it right, are pulled. We check the package by differences:

step = 1e-6 * np.random.default_rng(1).normal(size=L.shape)
value, gradient = problem.value_and_gradient(L)
change = (f(X, y, L + step) - f(X, y, L - step)) / 2
print(f"change {change:.6e}, by the gradient {-np.sum(gradient * step):.6e}")
assert np.isclose(change, -np.sum(gradient * step), rtol=1e-5)

# %%
# Ten starts
# ----------
#
# Iris, two rows, ten random starts. Every solve ends where the gradient vanishes, and the ends
# differ.

ends = []
for seed in range(10):
    start = np.random.default_rng(seed).normal(size=(2, 4))
    ends.append(sm.solve(problem, init=start))
reached = np.array([-end.objective for end in ends])
print("f reached:", np.sort(reached.round(2)))
print("largest norm of a gradient:", max(end.certificate.stationarity for end in ends))
assert np.ptp(reached) > 1

# %%
# Two of the ends, the lowest and the highest, on logarithmic axes:

figure, axes = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
for axis, end in zip(axes, (ends[np.argmin(reached)], ends[np.argmax(reached)]), strict=True):
    Z = X @ end.components.T
    axis.scatter(*(np.sign(Z) * np.log1p(np.abs(Z))).T, c=y, s=8, cmap="viridis")
    axis.set(title=f"f = {-end.objective:.2f}", xticks=[], yticks=[])
plt.show()

# %%
# What the certificate says
# -------------------------

print(ends[0].certificate)

# %%
# Its kind is *stationarity*: the gradient is nearly zero, so no small step helps much. That
# holds at a top, in a valley and on a saddle. It has no lower bound of the optimum by duality,
# and no gap, since the program is not convex. The two ends above have the same certificate up
# to digits.
#
# One bound is free: :math:`f \le n`, as probabilities are at most 1. So the end with f = 150
# is a global optimum, up to what is printed below. For the other ends nothing shows how far
# they are from the top.

best = ends[np.argmax(reached)]
print(f"at most {150 - reached.max():.1e} below the best conceivable value")
assert 150 - reached.max() < 1e-2

# %%
# Compare: a convex statement judges the same metric. LMNN's certificate bounds *LMNN's*
# optimum, and says that NCA's metric, scaled at its best, is far from it: another question,
# with an answer.

lmnn = sm.LMNNProblem.from_labels(X, y, n_neighbors=3)
print(sm.verify(lmnn, best.components, rescale=True))

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
# Exercise 1: derive the gradient (4 points)
# ------------------------------------------
#
# Derive the gradient of f from the definition of :math:`p_{ij}`, and write it as a function
# ``slope(X, y, L)`` with the help of ``probabilities``.
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

# %%
# :math:`D_{ij} = \operatorname{tr}(L V_{ij} L^\top)` has the gradient :math:`2 L V_{ij}`. From
# :math:`\log p_{ij} = -D_{ij} - \log \sum_k e^{-D_{ik}}`
#
# .. math::
#
#    \nabla p_{ij} = p_{ij} \nabla \log p_{ij}
#    = p_{ij} \Bigl( -2 L V_{ij} + \sum_k p_{ik}\, 2 L V_{ik} \Bigr) ,
#
# since the derivative of the logarithm of a sum of exponentials is the mean of the derivatives
# with the weights :math:`p_{ik}`. Add up over the j of the class of i, whose :math:`p_{ij}`
# add up to :math:`p_i`, and over i: this is the formula above. With the weights :math:`w_{ij}
# = p_{ij} (p_i - 1)` for the j of the class and :math:`p_{ij} p_i` for the others it is
# :math:`2 L \sum_{ij} w_{ij} V_{ij}`.


def slope(X, y, L):
    """The gradient of f."""
    P, same = probabilities(X, L), y[:, None] == y
    W = P * (np.sum(P * same, axis=1, keepdims=True) - same)
    differences = X[:, None] - X[None]
    return 2 * np.asarray(L) @ np.einsum("ij,ija,ijb->ab", W, differences, differences)


assert np.allclose(slope(X, y, L), -gradient)

# %%
# .. raw:: html
#
#    </details>

check(1, lambda: np.allclose(slope(X, y, L), -problem.value_and_gradient(L)[1]))

# %%
# Exercise 2: a start that is stuck (3 points)
# --------------------------------------------
#
# Find a start ``stuck`` of two rows, not zero, from which no gradient method ever leaves the
# factors of rank one. Why is it so? What is the gradient at L = 0?
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

# %%
# The gradient is :math:`2 L G(L)` with a symmetric matrix G. If the second row of L is 0, so
# is the second row of the gradient: a step along it leaves the row 0, forever. The same holds
# for any L of rank one, whose rows are multiples of one vector :math:`v^\top`: those of the
# gradient are the same multiples of :math:`2 v^\top G`. At L = 0 the gradient is 0: the zero
# metric is stationary, and its certificate says so. It is no maximum.

stuck = np.array([[1.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
end = sm.solve(problem, init=stuck)
print(
    f"f = {-end.objective:.2f}, second row {np.abs(end.components[1]).max()}; "
    f"at 0: {problem.certify(np.zeros((2, 4)))}"
)
assert not end.components[1].any()

# %%
# .. raw:: html
#
#    </details>

check(
    2,
    lambda: (
        np.shape(stuck) == (2, 4)
        and np.linalg.matrix_rank(stuck) == 1
        and np.linalg.matrix_rank(stuck + 0.1 * problem.value_and_gradient(stuck)[1], tol=1e-9)
        == 1
    ),
)

# %%
# Exercise 3: infinitely large metrics (4 points)
# -----------------------------------------------
#
# Let no two distances under L be equal. What is the limit of :math:`f(s L)` for :math:`s \to
# \infty`? Compute this ``limit`` for the points on the line above. Why did so many of the ten
# starts end near whole numbers, and why does f of iris have no maximum?
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

# %%
# Divide by the largest term: with the nearest neighbor :math:`j^*` of i,
#
# .. math::
#
#    p_{ij} = \frac{e^{-s^2 (D_{ij} - D_{ij^*})}}
#    {1 + \sum_{k \ne j^*} e^{-s^2 (D_{ik} - D_{ij^*})}} \to
#    \begin{cases} 1 & j = j^* \\ 0 & \text{otherwise,} \end{cases}
#
# as the differences are positive for all other points. So :math:`f(s L)` tends to the number
# of points whose nearest neighbor has their class, a whole number: the leave-one-out score of
# the nearest neighbor. A climb that finds a direction with a high score makes L larger and
# larger, and stops where the slope is below the solver's tolerance. On iris one of them comes
# as near to 150 as floats allow, and no L attains it, since each :math:`p_i < 1`. On the line
# the plain of 3 is lower than both hills.

Z = np.abs(line - line.T) + np.diag(np.full(len(line), np.inf))
limit = int(np.sum(sides[Z.argmin(axis=1)] == sides))
print(limit, f(line, sides, [[1000.0]]))
assert np.isclose(f(line, sides, [[1000.0]]), limit)

# %%
# .. raw:: html
#
#    </details>

check(3, lambda: np.isclose(f(line, sides, [[1000.0]]), limit))
