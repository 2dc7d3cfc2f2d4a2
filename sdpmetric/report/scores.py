"""Does the metric help? Nearest neighbors with and without it, on held-out examples if there are some."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binomtest

from sdpmetric.arrays import FloatArray
from sdpmetric.classification import knn_predict
from sdpmetric.core import validation

# Neighbors that vote, classes of a whole confusion table, and the p value from which chance may explain a difference.
NEIGHBORS, TABLE, CHANCE = 3, 12, 0.05
UNKNOWN = "Not known: there are no labels to score nearest neighbors by."


@dataclass(frozen=True)
class Scores:
    """How many of n examples nearest neighbors classify correctly, before and after."""

    held_out: bool
    n: int
    correct: tuple[int, int]
    n_seen: int  # Held-out examples that equal a training example
    n_better: int  # Right after and wrong before
    n_worse: int
    confused: list[tuple[str, str, int]]  # Label, prediction with the metric, how often; most first
    classes: list[str]
    table: list[list[int]]  # By label and prediction with the metric; empty for many classes

    @property
    def intervals(self) -> list[tuple[float, float]]:
        """Exact 95 % intervals of the accuracies, for examples that are drawn independently."""
        bounds = [binomtest(count, self.n).proportion_ci(method="exact") for count in self.correct]
        return [(float(interval.low), float(interval.high)) for interval in bounds]

    @property
    def p(self) -> float:
        """The exact sign test of the examples that differ: how likely so many are if the metric changes nothing."""
        differ = self.n_better + self.n_worse
        return float(binomtest(self.n_better, differ).pvalue) if differ else 1.0

    @property
    def smallest_visible_gain(self) -> str:
        """How large a gain could have been seen: the smallest one that the sign test calls significant."""
        losses, n_wrong = self.n_worse, self.n - self.correct[0]
        significant = (k - losses for k in range(losses + 1, n_wrong + 1) if binomtest(k, k + losses).pvalue < CHANCE)
        gain, condition = next(significant, None), f" with {losses:,} lost" if losses else ""
        if gain is None:
            return (
                f"No gain could have been seen: without the metric {n_wrong:,} of {self.n:,} are wrong, too few for "
                f"the sign test{condition}."
            )
        share = f"{gain / self.n:.1%}: {gain:,} of {self.n:,} examples"
        return f"The smallest gain that could have been seen{condition} is {share}."

    @property
    def verdict(self) -> str:
        """Whether the metric helps, in a sentence with its evidence."""
        before, after = self.correct
        counts = f"{after:,} of {self.n:,} correctly with the metric and {before:,} without it"
        if not self.held_out:
            return f"Not known: no examples were held out. On the training examples, neighbors classify {counts}."
        if before == after:
            return (
                f"No difference: of the held-out examples, neighbors classify {after:,} of {self.n:,} correctly with "
                f"the metric and as many without it. {self.smallest_visible_gain}"
            )
        test = f"exact sign test, p = {self.p:.2g}"
        if self.p >= CHANCE:
            unclear = f"neighbors classify {counts}; chance may explain it ({test})"
            return f"Unclear: of the held-out examples, {unclear}. {self.smallest_visible_gain}"
        word = "Yes" if self.n_better > self.n_worse else "No, it hurts"
        return f"{word}: of the held-out examples, neighbors classify {counts} ({test})."

    def to_dict(self) -> dict[str, object]:
        return asdict(self) | {"intervals": self.intervals, "p": self.p}


def score(
    components: ArrayLike,
    X: FloatArray,
    rows: NDArray[np.int64],
    y: NDArray[np.generic],
    held_out: tuple[ArrayLike, ArrayLike] | None,
    regions: NDArray[np.integer] | None = None,
) -> Scores:
    """Score held-out examples by neighbors among all of X; without them, some rows of X by neighbors among these."""
    L, n_seen = np.asarray(components, dtype=np.float64), 0
    examples, labels, queries, truth = X, y, None, y[rows]
    if held_out is None:
        examples, labels, regions = X[rows], truth, None if regions is None else regions[rows]
    else:
        queries, truth = _checked(X, *held_out)
        training_rows = {row.tobytes() for row in np.ascontiguousarray(X)}
        n_seen = sum(row.tobytes() in training_rows for row in np.ascontiguousarray(queries))
    before = knn_predict(np.eye(X.shape[1]), examples, labels, queries, NEIGHBORS)
    after = knn_predict(L, examples, labels, queries, NEIGHBORS, regions=regions)
    was_correct, correct = before == truth, after == truth
    wrong = Counter(zip(truth[~correct].astype(str).tolist(), after[~correct].astype(str).tolist(), strict=True))
    classes = np.union1d(y, truth)
    small = classes if len(classes) <= TABLE else classes[:0]
    return Scores(
        held_out is not None,
        len(truth),
        (int(was_correct.sum()), int(correct.sum())),
        n_seen,
        int((correct & ~was_correct).sum()),
        int((was_correct & ~correct).sum()),
        [(label, predicted, times) for (label, predicted), times in wrong.most_common(TABLE)],
        classes.astype(str).tolist(),
        [[int(((truth == row) & (after == column)).sum()) for column in small] for row in small],
    )


def _checked(X: FloatArray, queries: ArrayLike, truth: ArrayLike) -> tuple[FloatArray, NDArray[np.generic]]:
    """Held-out examples and their labels: of the same features, and not the training examples again."""
    Q, y = np.asarray(validation.check_data(queries), dtype=np.float64), np.asarray(truth).ravel()
    validation.check_width("held_out", Q, X.shape[1], "the metric")
    validation.check_count("held_out", len(y), len(Q), "example")
    if np.array_equal(Q, X):
        raise ValueError("the metric was learned from these very examples; pass other held_out examples, or none.")
    return Q, y
