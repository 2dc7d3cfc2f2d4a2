"""Plots of metrics, embeddings and solves, by matplotlib, which ``pip install sdpmetric[plot]`` installs.

Each picture is a display class as in scikit-learn: ``from_estimator`` computes and draws it, ``from_solution`` is the
same for a `Solution`, ``plot`` draws it again, ``ax_`` and ``figure_`` are matplotlib's.
"""

from sdpmetric.plotting.curves import ConvergenceDisplay
from sdpmetric.plotting.embedding import DistancesDisplay, EmbeddingDisplay
from sdpmetric.plotting.style import COLORS, STYLE

__all__ = ["COLORS", "STYLE", "ConvergenceDisplay", "DistancesDisplay", "EmbeddingDisplay"]
