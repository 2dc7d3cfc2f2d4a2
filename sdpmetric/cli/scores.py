"""Does the metric help? Nearest neighbors with and without it, on held-out examples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binomtest

from sdpmetric.arrays import FloatArray
from sdpmetric.classification import knn_predict

NEIGHBORS = 3  # that vote
CHANCE = 0.05  # p value from which chance may explain a difference
FEW = "Not scored: no class has enough examples to hold some out."


@dataclass(frozen=True)
class Scores:
    """How many of n held-out examples nearest neighbors classify correctly without the metric and with it."""

    n: int
    before: int
    after: int
    gained: int  # right with the metric only
    lost: int  # right without the metric only

    @property
    def p(self) -> float:
        """The p value of the exact sign test of the examples that differ."""
        differ = self.gained + self.lost
        return float(binomtest(self.gained, differ).pvalue) if differ else 1.0

    @property
    def answer(self) -> str:
        """Yes, no, or that the examples do not tell."""
        if self.p < CHANCE:
            return "Yes, it helps" if self.gained > self.lost else "No, it hurts"
        return "No difference" if self.before == self.after else "Unclear"

    @property
    def needed(self) -> str:
        """How many examples the metric would have had to fix for a significant gain."""
        n_wrong = self.n - self.before
        fixes = range(self.lost + 1, n_wrong + 1)
        needed = next((k for k in fixes if binomtest(k, k + self.lost).pvalue < CHANCE), None)
        done = f"it fixed {self.gained:,} and broke {self.lost:,}"
        if needed is None:
            return f"Without it {n_wrong:,} of {self.n:,} are wrong, too few for a significant gain; {done}."
        return f"To be significant, the metric would have had to fix {needed:,} examples; {done}."

    @property
    def verdict(self) -> str:
        """Whether the metric helps, with the evidence."""
        counts = (
            f"{NEIGHBORS} nearest neighbors classify {self.before:,} of {self.n:,} held-out examples correctly without "
            f"the metric ({self.before / self.n:.1%}) and {self.after:,} with it ({self.after / self.n:.1%})"
        )
        test = f"exact sign test, p = {self.p:.2g}"
        return f"{self.answer}: {counts}; {test}." + ("" if self.p < CHANCE else f" {self.needed}")

    def to_dict(self) -> dict[str, object]:
        return {
            "held_out": self.n,
            "correct_before": self.before,
            "correct_after": self.after,
            "p": self.p,
            "verdict": self.verdict,
        }


def score(
    components: ArrayLike,
    X: FloatArray,
    y: NDArray[np.generic],
    held_out: tuple[ArrayLike, ArrayLike] | None,
) -> Scores:
    """Classify held-out examples by their nearest neighbors in X, before and after."""
    if held_out is None:
        raise ValueError(FEW)
    queries, truth = np.asarray(held_out[0], dtype=np.float64), np.asarray(held_out[1])
    was_right = knn_predict(np.eye(X.shape[1]), X, y, queries, NEIGHBORS) == truth
    is_right = knn_predict(np.asarray(components, dtype=np.float64), X, y, queries, NEIGHBORS) == truth
    return Scores(
        len(truth),
        int(was_right.sum()),
        int(is_right.sum()),
        int((is_right & ~was_right).sum()),
        int((was_right & ~is_right).sum()),
    )
