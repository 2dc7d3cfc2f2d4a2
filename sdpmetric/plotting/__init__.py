"""Pictures of what was learned, by matplotlib, which ``pip install sdpmetric[plot]`` brings.

Each picture is a class after scikit-learn's convention: ``from_estimator`` or ``from_solution`` computes what is to be
seen and draws it, ``plot`` draws it again, ``ax_`` and ``figure_`` are matplotlib's.
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
