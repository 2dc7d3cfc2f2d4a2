"""Quickstart: a metric with a proven gap
======================================

From labeled data to a metric with a proven gap to the optimum.

.. image:: /pictures/embedding.svg
   :alt: Wine in two dimensions, under the Euclidean metric and under the learned one
"""

# sphinx_gallery_thumbnail_path = 'pictures/embedding.svg'

import tempfile
from pathlib import Path

from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

import sdpmetric as sm

# %%
X, y = load_wine(return_X_y=True)
X, X_new, y, y_new = train_test_split(X, y, test_size=0.3, stratify=y, random_state=0)
scaler = StandardScaler().fit(X)
X, X_new = scaler.transform(X), scaler.transform(X_new)

# %%
# State the problem; nothing is solved yet.
problem = sm.LMNNProblem.from_labels(X, y, n_neighbors=3, push_weight=0.5)
print(problem.describe())

# %%
# Solve it to a relative gap of 1e-3. The status says "optimal" only if that gap is proven.
solution = sm.solve(problem, tol=1e-3)
print(solution)
assert solution.status is sm.Status.OPTIMAL
assert solution.relative_gap <= 1e-3

# %%
# The proof does not depend on the solver: hand the point and the multipliers to the
# problem, and it finds the same.
again = sm.certify(problem, components=solution.components, dual=solution.dual)
assert abs(again.objective - solution.objective) <= 1e-9 * solution.objective
assert again.proves_optimal(1e-3)

# %%
# The identity matrix is a metric too, and the same question has an answer: how far from
# optimal is it?
identity = sm.verify(
    problem, metric=[[float(i == j) for j in range(13)] for i in range(13)], rescale=True
)
print(
    "The best multiple of the Euclidean metric: "
    f"relative gap {identity.relative_gap:.2f}, proven."
)
assert identity.relative_gap > 0.1

# %%
# Use it: in the embedded points X @ L.T, the Euclidean distance is the learned one.
L = solution.components
for name, train, test in (("Euclidean", X, X_new), ("learned", X @ L.T, X_new @ L.T)):
    accuracy = KNeighborsClassifier(n_neighbors=3).fit(train, y).score(test, y_new)
    print(f"3 nearest neighbors on {len(y_new)} held-out wines, {name} metric: {accuracy:.3f}")

# %%
# Save it and load it again, proof included.
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "solution.npz"
    solution.save(path)
    loaded = sm.Solution.load(path, problem)
    assert loaded.certificate == solution.certificate
    print(f"Saved to {path.name} and loaded: the same certificate.")
