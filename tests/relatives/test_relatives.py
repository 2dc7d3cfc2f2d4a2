"""MMC, ITML, LSML, SDML and SCML: closed forms, free directions, priors, multipliers, what each is for."""

import numpy as np
import pytest
from instances import PAIRS, SIMILAR, assert_same, nine_rows, rounding
from sklearn.covariance import graphical_lasso
from sklearn.datasets import load_iris
from sklearn.preprocessing import StandardScaler

import sdpmetric as sm
from sdpmetric.estimators import SCML


def mmc(d=3):
    return sm.MMCProblem(nine_rows(d=d), PAIRS, SIMILAR)


def test_a_point_that_misses_the_constraint_is_scaled_and_said_to():
    problem = mmc()
    L = 3.0 * np.eye(3)
    certificate = problem.certify(L)
    spent = sum(9.0 * np.sum((problem.X[a] - problem.X[b]) ** 2) for a, b in PAIRS[SIMILAR > 0])
    assert_same(certificate.primal_residual, spent - 1)
    assert_same(certificate.objective, problem.objective(L / np.sqrt(spent)))
    assert problem.certify(L / np.sqrt(2 * spent)).primal_residual == 0.0


def test_negative_weights_prove_nothing():
    assert mmc().certify(np.eye(3), dual=-np.ones(5)).lower_bound == -np.inf


def test_one_feature_has_a_closed_form():
    """With d = 1 the constraint decides: sum of distances over the root of the sum of squares."""
    problem = mmc(d=1)
    x = problem.X[:, 0]
    similar_sum = sum((x[a] - x[b]) ** 2 for (a, b), s in zip(PAIRS, SIMILAR, strict=True) if s > 0)
    far = sum(abs(x[a] - x[b]) for (a, b), s in zip(PAIRS, SIMILAR, strict=True) if s < 0)
    for solver in ("factored", "conic"):
        assert sm.solve(problem, solver=solver).objective == pytest.approx(-far / similar_sum**0.5, rel=1e-6)


def test_directions_that_no_pair_uses_are_harmless_and_free_ones_are_named():
    X = np.concatenate([mmc().X, np.zeros((9, 1))], axis=1)
    assert sm.solve(sm.MMCProblem(X, PAIRS, SIMILAR)).objective == pytest.approx(sm.solve(mmc()).objective, rel=1e-6)
    X[8, 3] = 1.0  # example 8 is in dissimilar pairs only
    with pytest.raises(ValueError, match="infinite: dissimilar pairs differ in 1 directions"):
        sm.MMCProblem(X, PAIRS, SIMILAR)


def test_equal_examples_of_different_labels_are_not_paired():
    rng = np.random.default_rng(2)
    X = rng.integers(0, 2, size=(30, 3)).astype(float)
    y = (rng.random(30) < 0.3).astype(int)
    problem = sm.ITMLProblem.from_labels(X, y)
    distinct = (X[problem.pairs[:, 0]] != X[problem.pairs[:, 1]]).any(axis=1)
    assert (distinct | problem.similar).all()
    assert problem.similar.sum() == sum(y[i] == y[j] for i in range(30) for j in range(i))
    assert (~problem.similar).sum() == sum(y[i] != y[j] and (X[i] != X[j]).any() for i in range(30) for j in range(i))
    assert problem.upper > 0  # though more than a twentieth of the pairs are of equal examples
    with pytest.raises(ValueError, match="pass both"):
        sm.ITMLProblem(X, [[0, 1]], [True])


@pytest.mark.parametrize("size", [1e5, 1e9])
def test_rounding_of_long_differences_never_lifts_the_bound(size: float) -> None:
    X = [[0.0, 0.0], [size, size], [1.0, -1.0], [0.1, 0.3]]
    problem = sm.ITMLProblem(X, [[0, 1], [0, 2]], [True, False], upper=1.0, lower=4.0)
    L = np.array([[1.0, -1.0], [1 / size, 1 / size]]) / 2**0.5
    assert problem.certify(L, dual=[0.9, 0.4]).lower_bound <= problem.objective(L) * (1 + 1e-9)
    assert sm.solve(problem, "conic", max_time=5).lower_bound <= problem.objective(L) * (1 + 1e-9)


FLOWERS, KINDS = load_iris(return_X_y=True)
FLOWERS, KINDS = StandardScaler().fit_transform(FLOWERS)[::5], KINDS[::5]
RNG = np.random.default_rng(0)
A = RNG.normal(size=(4, 4))
M0 = A @ A.T + np.eye(4)


DRAWN, DRAWN_SIMILAR = sm.core.pairs.pairs_of_labels(np.searchsorted([0, 1, 2], KINDS).astype(np.int32), 60, 1)


def test_sdml_is_a_graphical_lasso():
    problem = sm.SDMLProblem(FLOWERS, DRAWN, DRAWN_SIMILAR, M0, 0.01, 0.02)
    V = FLOWERS[DRAWN[:, 0]] - FLOWERS[DRAWN[:, 1]]
    S = np.linalg.inv(M0) + 0.01 / len(V) * (V.T * np.where(DRAWN_SIMILAR, 1.0, -1.0)) @ V
    _, precision = graphical_lasso(S, 0.02, tol=1e-5, max_iter=2000)
    solution = sm.solve(problem, tol=1e-7)
    assert problem.objective(metric=precision) >= solution.lower_bound - rounding(1.0)
    assert problem.objective(metric=precision) == pytest.approx(solution.objective, rel=1e-4)


def test_bases_of_triplets_need_labels_and_give_metrics_of_any_rank():
    triplets = sm.SCMLProblem.from_labels(FLOWERS, KINDS, 12).terms[0].triplets
    wide = SCML(n_bases=24).fit_triplets(FLOWERS, triplets, y=KINDS)
    assert wide.components_.shape[0] == wide.transform(FLOWERS).shape[1] <= 4
    np.testing.assert_allclose(wide.metric_, wide.solution_.metric, rtol=1e-8, atol=1e-8 * abs(wide.metric_).max())


@pytest.mark.parametrize("scale", [1e-3, 1e4])
def test_the_identity_is_a_prior_in_the_units_of_the_data(scale):
    def metrics(FLOWERS):
        problems = (
            sm.LSMLProblem.from_labels(FLOWERS, KINDS, 100),
            sm.SDMLProblem(FLOWERS, DRAWN, DRAWN_SIMILAR, sparsity=0.0),
        )
        return [sm.solve(problem, tol=1e-8).metric for problem in problems]

    for metric, expected in zip(metrics(scale * FLOWERS), metrics(FLOWERS), strict=True):
        np.testing.assert_allclose(scale**2 * metric, expected, rtol=1e-3, atol=1e-3 * abs(expected).max())
