"""Callbacks of scikit-learn, from 1.9: every step of a fit is told, and a callback can end it."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sdpmetric.estimators import ITML, LMNN, KernelLMNN, MultiMetricLMNN

callback = pytest.importorskip("sklearn.callback")


def name_of(estimator) -> str:
    return type(estimator).__name__


class Recorder:
    def __init__(self, stop: bool = False) -> None:
        self.stop, self.began, self.ended, self.events = stop, [], [], []

    def setup(self, estimator, context):
        self.events.append("setup")

    def teardown(self, estimator, context):
        self.events.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.began.append(context.task_name)

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, fitted_estimator=None):
        self.ended.append(context.task_name)
        assert fitted_estimator.transform(X).shape[0] == len(y)
        assert fitted_estimator.components_.dtype == X.dtype
        return self.stop


@pytest.mark.parametrize("estimator", [LMNN(n_passes=2), MultiMetricLMNN(), KernelLMNN(), ITML()], ids=name_of)
def test_each_step_is_told_to_callbacks(estimator, data):
    recorder = Recorder()
    X = data[0] if isinstance(estimator, KernelLMNN) else data[0].astype(np.float32)
    fitted = clone(estimator).set_callbacks(recorder).fit(X, data[1])
    assert recorder.events == ["setup", "teardown"]
    assert sorted(recorder.began) == sorted(recorder.ended)
    assert recorder.began[0] == recorder.ended[-1] == "fit"
    assert recorder.began.count("pass") == (0 if isinstance(estimator, ITML) else len(fitted.solutions_))
    steps = sum(len(s.trace) - 1 for s in getattr(fitted, "solutions_", [fitted.solution_]))
    assert recorder.ended.count("step") == steps > 0


def test_a_callback_can_stop_the_fit(data):
    recorder = Recorder(stop=True)
    with pytest.warns(ConvergenceWarning, match="user_limit"):
        lmnn = LMNN(tol=1e-9).set_callbacks(recorder).fit(*data)
    assert len(lmnn.solution_.trace) == recorder.ended.count("step") == 1
