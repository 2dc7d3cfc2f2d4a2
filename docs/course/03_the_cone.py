r"""3. The cone, drawn
==================

A metric of two features has three numbers, so the cone of metrics can be drawn. We see what
scaling multipliers to feasibility does, and why any multipliers prove something.

Boyd and Vandenberghe: sections 2.2.5 (the cone), 2.6.1 (dual cones) and 5.9.1. Reading 30
minutes; exercises 14 points, about 85 minutes.
"""

# %%
# A cone in three dimensions
# --------------------------
#
# A symmetric matrix :math:`\begin{pmatrix} p & q \\ q & r \end{pmatrix}` is positive
# semidefinite (PSD) exactly if :math:`p \ge 0`, :math:`r \ge 0` and :math:`p r \ge q^2`. In
# the coordinates :math:`(p - r)/2`, q and :math:`(p + r)/2` this is an ice-cream cone: the
# last coordinate is at least the length of the first two.

import matplotlib.pyplot as plt
import numpy as np

import sdpmetric as sm


def coordinates(A):
    """A symmetric 2 x 2 matrix as a point."""
    return np.array([(A[0, 0] - A[1, 1]) / 2, A[0, 1], (A[0, 0] + A[1, 1]) / 2])


rng = np.random.default_rng(0)
for _ in range(1000):
    A = rng.normal(size=(2, 2))
    A = A + A.T
    across, q, up = coordinates(A)
    assert (np.linalg.eigvalsh(A)[0] >= 0) == (up >= np.hypot(across, q))

# %%
# A problem in this cone
# ----------------------
#
# Two classes differ in the second feature. The cost C lies inside the cone. As :math:`\tau`
# grows, the slack :math:`S(\tau a) = C - \tau \sum_t a_t B_t` moves along a straight line, and
# out of it.

y = np.repeat([0, 1], 10)
X = np.column_stack([rng.normal(size=20), y + 0.3 * rng.normal(size=20)])
problem = sm.LMNNProblem.from_labels(X, y, n_neighbors=1)
pairs = np.stack(problem.target_pairs, axis=1)
triplets = np.array([(i, j, k) for i, j in pairs for k in np.flatnonzero(y != y[i])])
difference = X[pairs[:, 0]] - X[pairs[:, 1]]
near, far = X[triplets[:, 0]] - X[triplets[:, 1]], X[triplets[:, 0]] - X[triplets[:, 2]]
C = 0.5 * difference.T @ difference


def multipliers(M):
    """1/2 where the hinge is active at the metric M, else 0."""
    D = [np.einsum("ti,ij,tj->t", v, M, v) for v in (near, far)]
    return np.where(1 + D[0] - D[1] > 0, 0.5, 0.0)


def weighted(a):
    """The sum of all a_t B_t."""
    return (far.T * a) @ far - (near.T * a) @ near


def scaled(a):
    """The largest share of the multipliers with a feasible slack, and its bound."""
    W = np.linalg.inv(np.linalg.cholesky(C))
    top = np.linalg.eigvalsh(W @ weighted(a) @ W.T)[-1]
    tau = min(1.0, 1.0 / max(top, 1e-12))
    return tau, tau * a.sum()


a = multipliers(np.eye(2))
tau, bound = scaled(a)
print(f"all of them: smallest eigenvalue of S {np.linalg.eigvalsh(C - weighted(a))[0]:.2f}")
print(f"a share of {tau:.3f} is feasible, and proves {bound:.3f}")
assert np.linalg.eigvalsh(C - tau * weighted(a))[0] >= -1e-9
assert bound <= sm.solve(problem).objective

# %%
# The picture: the line from C leaves the cone at the share that was computed.

figure = plt.figure(figsize=(5.5, 4.6), layout="constrained")
axis = figure.add_subplot(projection="3d")
height = coordinates(C)[2] * 1.2
angle, level = np.meshgrid(np.linspace(0, 2 * np.pi, 60), np.linspace(0, height, 20))
axis.plot_surface(
    level * np.cos(angle), level * np.sin(angle), level, alpha=0.2, color="#0072B2"
)
line = np.array(
    [coordinates(C - share * weighted(a)) for share in np.linspace(0, 1.8 * tau, 30)]
)
axis.plot(*line.T, color="#D55E00", label="S along the multiples of a")
axis.scatter(*coordinates(C), color="black", label="C")
axis.scatter(
    *coordinates(C - tau * weighted(a)), color="#D55E00", label="the last feasible one"
)
axis.set(xlabel="(p - r)/2", ylabel="q", zlabel="(p + r)/2")
axis.legend()
plt.show()

# %%
# Better multipliers
# ------------------
#
# Multipliers of other metrics point in other directions, those of the solution in a good one.
# Any of them proves a bound; none can prove a false one.

for name, M in (
    ("Euclidean", np.eye(2)),
    ("second feature", np.diag([0.1, 2.0])),
    ("solution", sm.solve(problem).metric),
):
    print(f"{name}: bound {scaled(multipliers(M))[1]:.3f}")
optimum = sm.solve(problem, solver="conic")
print(f"optimum {optimum.objective:.3f}")
assert all(
    scaled(multipliers(np.diag(d)))[1] <= optimum.objective
    for d in rng.exponential(size=(50, 2))
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
# Exercise 1 (2 points)
# ---------------------
#
# Which matrices are on the boundary of the cone? What kind of metrics are they? Write down one
# that is not zero, ``flat``.
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

# %%
# Those with :math:`p r = q^2`, that is, with determinant 0. They have rank one or zero:
# :math:`M = v v^\top`, and the distance :math:`(v^\top (x - z))^2` sees one direction only.

v = rng.normal(size=2)
flat = np.outer(v, v)
across, q, up = coordinates(flat)
assert np.isclose(up, np.hypot(across, q))

# %%
# .. raw:: html
#
#    </details>

check(
    1,
    lambda: (
        np.linalg.eigvalsh(flat)[0] > -1e-9
        and np.isclose(np.linalg.det(flat), 0)
        and np.any(flat)
    ),
)

# %%
# Exercise 2 (2 points)
# ---------------------
#
# Break it: find multipliers ``useless`` in their boxes for which the scaled bound is 0.
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

useless = np.zeros(len(triplets))
print(scaled(useless)[1])
assert scaled(useless)[1] == 0

# %%
# All multipliers 0. The bound is true and useless: the objective is a sum of terms that are at
# least 0.

# %%
# .. raw:: html
#
#    </details>

check(2, lambda: scaled(useless)[1] == 0 and 0 <= np.min(useless) <= np.max(useless) <= 0.5)

# %%
# Exercise 3: derive the eigenvalues (3 points)
# ---------------------------------------------
#
# Express the eigenvalues of the matrix in the three coordinates, as a function
# ``eigenvalues(e, q, h)`` that returns the smaller one first; e is (p - r)/2 and h (p + r)/2.
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

# %%
# Write :math:`h = (p + r)/2` for the height and :math:`e = (p - r)/2`. The characteristic
# polynomial is
#
# .. math:: (h + e - \lambda)(h - e - \lambda) - q^2 = (h - \lambda)^2 - e^2 - q^2 ,
#
# so :math:`\lambda = h \mp \sqrt{e^2 + q^2}`: height minus and plus the distance from the
# axis. The matrix is positive semidefinite if the smaller one is at least 0, that is, if the
# height is at least the distance from the axis. This proves that the cone is the ice-cream
# cone.


def eigenvalues(e, q, h):
    """Height minus and plus the distance from the axis."""
    return h - np.hypot(e, q), h + np.hypot(e, q)


A = rng.normal(size=(2, 2))
A = A + A.T
assert np.allclose(np.linalg.eigvalsh(A), eigenvalues(*coordinates(A)))

# %%
# .. raw:: html
#
#    </details>

check(
    3,
    lambda: (
        np.allclose(eigenvalues(0.3, -0.4, 2.0), [1.5, 2.5])
        and np.allclose(eigenvalues(*coordinates(C)), np.linalg.eigvalsh(C))
    ),
)

# %%
# Exercise 4: a witness (3 points)
# --------------------------------
#
# The cone is its own dual: S is in it exactly if :math:`\langle S, M \rangle \ge 0` for all M
# in it. For ``S = C - 1.5 * tau * weighted(a)``, which is outside of the cone, find a
# ``witness`` M that shows it.
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

# %%
# An eigenvector v of a negative eigenvalue :math:`\lambda` gives :math:`M = v v^\top` with
# :math:`\langle S, M \rangle = v^\top S v = \lambda < 0`. Conversely, :math:`\langle S, M
# \rangle = \operatorname{tr}(L S L^\top) \ge 0` for :math:`M = L^\top L` if S is in the cone,
# so no such M exists then.

S = C - 1.5 * tau * weighted(a)
values, vectors = np.linalg.eigh(S)
witness = np.outer(vectors[:, 0], vectors[:, 0])
print(f"<S, M> = {np.sum(S * witness):.3f}, the smallest eigenvalue is {values[0]:.3f}")
assert np.isclose(np.sum(S * witness), values[0])
assert values[0] < 0

# %%
# .. raw:: html
#
#    </details>

check(
    4,
    lambda: (
        np.sum((C - 1.5 * tau * weighted(a)) * witness)
        < 0
        <= np.linalg.eigvalsh(witness)[0] + 1e-9
    ),
)

# %%
# Exercise 5: design a metric from multipliers (4 points)
# -------------------------------------------------------
#
# At the last feasible share S has a null direction v. Complementary slackness suggests the
# metric :math:`m\, v v^\top`. How good is its best multiple? ``sm.verify(problem, designed,
# rescale=True)`` judges that of a factor ``designed`` with one row.
#
# .. raw:: html
#
#    <details><summary>Solution</summary>

values, vectors = np.linalg.eigh(C - tau * weighted(a))
designed = vectors[:, :1].T
certificate = sm.verify(problem, designed, rescale=True)
print(f"{certificate.objective:.3f}, the optimum is {optimum.objective:.3f}")
assert certificate.objective >= optimum.lower_bound

# %%
# Not good: its objective is more than twice the optimum. Complementary slackness holds between
# an *optimal* S and an optimal M, and the multipliers of the Euclidean metric are far from
# optimal. With those of the solution v would be close to the best direction.

# %%
# .. raw:: html
#
#    </details>

check(
    5,
    lambda: (
        np.shape(designed) == (1, 2)
        and np.allclose((C - tau * weighted(a)) @ np.ravel(designed), 0, atol=1e-6)
    ),
)
