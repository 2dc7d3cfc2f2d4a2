"""Rankings: relevance, scores, and the losses of ranks."""

from sdpmetric.ranking.relevance import Relevance
from sdpmetric.ranking.scores import (
    RankingScores,
    evaluate,
    expected_weights,
    rank_weights,
    sorted_scores,
)

__all__ = [
    "RankingScores",
    "Relevance",
    "evaluate",
    "expected_weights",
    "rank_weights",
    "sorted_scores",
]
