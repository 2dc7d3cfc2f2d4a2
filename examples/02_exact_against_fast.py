"""Exact against fast
==================

Two solvers that know nothing of each other, one optimum between them.

The conic solver hands a semidefinite program to an interior-point method. The subgradient method walks downhill and
projects. They share the data and the triplets, and neither sees the other's answer. If the lower bound of each lies
below the objective of the other, and both intervals are short, then a mistake would have to be made twice.

Run it with ``python examples/02_exact_against_fast.py``.
"""

# sphinx_gallery_thumbnail_path = 'pictures/interval.svg'

from sklearn.datasets import load_iris
from sklearn.preprocessing import StandardScaler

import sdpmetric as sm


def main() -> None:
    X, y = load_iris(return_X_y=True)
    problem = sm.LMNNProblem.from_labels(StandardScaler().fit_transform(X), y, n_neighbors=3, push_weight=0.3)

    exact = sm.solve(problem, solver="conic", tol=1e-6)
    fast = sm.solve(problem, solver="subgradient", tol=1e-3)
    print(sm.compare(exact, fast))

    # Each proves what was asked of it.
    assert exact.relative_gap <= 1e-6
    assert fast.relative_gap <= 1e-3

    # The sandwich: each lower bound is below the other's objective, up to rounding.
    rounding = 1e-9 * max(1.0, exact.objective)
    assert exact.lower_bound <= fast.objective + rounding
    assert fast.lower_bound <= exact.objective + rounding

    # At an optimum the slack matrix S(a) and the metric M are complementary: <S, M> = 0.
    print(
        f"complementarity: conic {exact.certificate.complementarity:.1e}, fast {fast.certificate.complementarity:.1e}"
    )
    assert exact.certificate.complementarity <= 1e-5

    # The sandwich is no formality: a metric that is a little off lies above the optimum by more than its gap allows.
    spoiled = sm.certify(problem, components=1.1 * exact.components)
    print(f"the same metric times 1.21: objective {spoiled.objective:.6f}, above {exact.objective:.6f}")
    assert spoiled.objective > exact.objective + 1e-3 * exact.objective

    # The optimal metric is not unique in general, so compare objectives, bounds and gaps, never the matrices.


if __name__ == "__main__":
    main()
