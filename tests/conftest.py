"""Shared by all tests: deterministic Hypothesis, one thread of BLAS, common fixtures.

Nothing heavy is imported here, since pytest-xdist reads this file once more, before its workers begin.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    import numpy as np
    from instances import Instance

pytest.register_assert_rewrite("instances")
settings.register_profile(
    "sdpmetric",
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("sdpmetric")
gc.disable()  # what is imported and collected stays: a third of that time would go into looking for garbage there


def pytest_configure(config: pytest.Config) -> None:
    """A solve that does not converge is an error. The filter imports scikit-learn, which only workers need."""
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        config.addinivalue_line("filterwarnings", "error::sklearn.exceptions.ConvergenceWarning")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    """Garbage is collected again, but not among what was imported."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def one_thread_of_blas():
    """Oracles and small programs call NumPy's and SciPy's BLAS in turn, whose threads would wait for each other's."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, "blas"):
        yield


@pytest.fixture
def rng() -> np.random.Generator:
    import numpy as np

    return np.random.default_rng(20090)


@pytest.fixture
def small() -> Instance:
    from instances import make_instance

    return make_instance("plain", 1)
