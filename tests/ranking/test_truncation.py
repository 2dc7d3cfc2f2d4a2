"""The expected loss of truncated sampling satisfies Eq. 3 of Lim and Lanckriet (2014), as docs/frml.md proves."""

import numpy as np
import pytest

from sdpmetric.ranking.scores import expected_weights, rank_weights


@pytest.mark.parametrize("gamma", [1, 10, 25])
@pytest.mark.parametrize("n", [50, 200, 1000])
def test_expected_loss_is_increasing_and_concave(n, gamma):
    E = expected_weights("warp", n, gamma)
    increments = np.diff(E)
    assert E[0] == 0.0
    assert increments.min() >= -1e-14
    assert np.diff(increments).max() <= 1e-12
    assert E[n] == pytest.approx(rank_weights("warp", n)[n], rel=1e-12)
    # The sum that the proof ends with.
    weights = np.append(rank_weights("warp", n)[n // np.arange(1, n // gamma + 1)], 0.0)
    within = 1 - (1 - np.arange(n + 1)[:, None] / n) ** np.arange(1, n // gamma + 1)
    np.testing.assert_allclose(within @ -np.diff(weights), E, atol=1e-12)


def test_truncated_loss_itself_is_not_concave():
    """Eq. 3 fails for ``L_gamma``, which jumps from 0 to L(gamma)."""
    L = np.where(np.arange(51) < 10, 0.0, rank_weights("warp", 50))
    assert np.diff(L, 2).max() > 1


def test_figure_1():
    E = expected_weights("warp", 50, 10)
    assert E[1] == pytest.approx(0.342, abs=5e-4)
    assert E[50] == pytest.approx(4.499, abs=5e-4)
    assert np.diff(E)[:9].min() > 0  # strictly, though L_gamma is 0 there
