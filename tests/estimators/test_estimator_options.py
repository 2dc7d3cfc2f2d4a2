"""Options of estimators that a copy with the option ignored would pass the other tests with."""

from __future__ import annotations

import numpy as np
import pytest

from sdpmetric.estimators import LMNN, MMC


def mixed(seed: int, n: int = 90, d: int = 6) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    return rng.normal(size=(n, d)) + 0.9 * np.outer(y, [1, -1, *[0] * (d - 2)]), y


@pytest.mark.parametrize("patience", [2, 7])
def test_early_stopping_waits_as_many_steps_as_it_was_told(patience):
    X, y = mixed(1)
    early = LMNN(early_stopping=True, solver="subgradient", n_iter_no_change=patience, tol=1e-9).fit(X, y)
    scores = early.solution_.trace["score"]
    assert len(scores) == scores.argmax() + patience + 1


def test_of_several_passes_the_one_that_predicts_best_is_kept():
    class FirstIsBest(LMNN):
        def _score(self, problem, examples, components):
            return 0.5 if hasattr(self, "solutions_") else 0.9

    lmnn = FirstIsBest(early_stopping=True, n_passes=3, tol=5e-2).fit(*mixed(0))
    assert len(lmnn.solutions_) == 3
    assert lmnn.solution_ is lmnn.solutions_[0]
    assert lmnn.validation_score_ == 0.9


def test_callbacks_see_components_in_the_precision_of_the_data():
    pytest.importorskip("sklearn.callback")
    seen = []

    class Watch:
        def setup(self, estimator, context):
            pass

        def teardown(self, estimator, context):
            pass

        def on_fit_task_begin(self, estimator, context):
            pass

        def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
            if context.task_name == "step":
                seen.append(fitted_estimator.components_.dtype)

    X, y = mixed(0)
    LMNN().set_callbacks(Watch()).fit(X.astype(np.float32), y)
    assert seen
    assert set(seen) == {np.dtype(np.float32)}


def test_of_few_pairs_none_is_left_out_by_default():
    X, y = mixed(0)
    mmc = MMC().fit(X, y)
    assert len(mmc.solution_.problem.pairs) == 90 * 89 // 2
    assert len(MMC(n_pairs=50).fit(X, y).solution_.problem.pairs) == 100
