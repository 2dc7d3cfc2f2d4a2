"""The default solver proves its tolerance on plain sums: rows, losses, regularizers, standardized and raw."""

from collections.abc import Iterator

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.preprocessing import scale

import sdpmetric as sm
from sdpmetric import terms

SETS = {"iris": load_iris, "wine": load_wine, "cancer": load_breast_cancer}
LOSSES = ("hinge", "squared_hinge", "smooth_hinge", "logistic")


def regularizers(d: int) -> dict[str, terms.Term]:
    return {
        "frobenius": terms.Frobenius(),
        "frobenius to I": terms.Frobenius(to=np.eye(d)),
        "trace": terms.Trace(),
        "log_det": terms.LogDet(),
    }


def rows(kind: str, y: np.ndarray, loss: str, count: int, seed: int) -> terms.Term | terms.Sum:
    """Random triplets or pairs, or the target neighbors and impostors of labels."""
    rng = np.random.default_rng(seed)
    if kind == "labels":
        return terms.Pull(labels=y) + terms.TripletHinge(labels=y, loss=loss)
    if kind == "pairs":
        pairs = rng.integers(len(y), size=(count, 2))
        pairs = pairs[pairs[:, 0] != pairs[:, 1]]
        return terms.PairHinge(pairs, y[pairs[:, 0]] == y[pairs[:, 1]], loss=loss)
    i, j, impostor = rng.integers(len(y), size=(3, 20 * count))
    chosen = (y[i] == y[j]) & (i != j) & (y[i] != y[impostor])
    return terms.TripletHinge(np.stack([i, j, impostor], axis=1)[chosen][:count], loss=loss)


def unproven(kinds: tuple[str, ...], names: tuple[str, ...], count: int, seed: int) -> Iterator[str]:
    for name in names:
        X, y = SETS[name](return_X_y=True)
        for features, data in (("standardized", scale(X)), ("raw", X)):
            for kind in kinds:
                for loss in LOSSES:
                    for regularizer, term in regularizers(X.shape[1]).items():
                        problem = sm.MetricProblem(data, rows(kind, y, loss, count, seed) + term)
                        solution = sm.solve(problem, max_time=120)
                        if not solution.status.ok:
                            yield f"{name} {features} {kind} {loss} {regularizer}: {solution}"


@pytest.mark.parametrize("kind", ["triplets", "pairs"])
@pytest.mark.parametrize("name", ["iris", "wine"])  # breast cancer takes 57 s of 68, and is in the slow test
def test_auto_proves_its_tolerance(kind: str, name: str) -> None:
    assert list(unproven((kind,), (name,), 60, 1)) == []


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", ["triplets", "pairs", "labels"])
@pytest.mark.parametrize("name", SETS)
def test_auto_proves_its_tolerance_at_length(kind: str, name: str) -> None:
    assert list(unproven((kind,), (name,), 600, 0)) == []
