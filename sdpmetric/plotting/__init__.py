"""Plots of metrics, embeddings and solves, by matplotlib, which ``pip install sdpmetric[plot]`` installs.

Each picture is a display class as in scikit-learn: ``from_estimator`` and ``from_solution`` compute and draw it,
``plot`` draws it again, ``ax_`` and ``figure_`` are matplotlib's.
"""

from sdpmetric.plotting.active import ActiveTripletsDisplay
from sdpmetric.plotting.convergence import ConvergenceDisplay
from sdpmetric.plotting.embedding import EmbeddingDisplay
from sdpmetric.plotting.metric import MetricDisplay
from sdpmetric.plotting.neighbors import NeighborsDisplay
from sdpmetric.plotting.style import COLOURS

__all__ = [
    "COLOURS",
    "ActiveTripletsDisplay",
    "ConvergenceDisplay",
    "EmbeddingDisplay",
    "MetricDisplay",
    "NeighborsDisplay",
]
