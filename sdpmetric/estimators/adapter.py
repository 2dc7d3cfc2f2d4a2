"""A metric near the identity for frozen embeddings, from labels, pairs, triplets or quadruplets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Literal, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.preprocessing import normalize

from sdpmetric.arrays import FloatArray, IndexArray, LongArray
from sdpmetric.core import validation
from sdpmetric.core.pairs import check_similar
from sdpmetric.core.problem import Problem
from sdpmetric.core.run import Score
from sdpmetric.estimators import routes
from sdpmetric.estimators.base import SolvedEstimator
from sdpmetric.estimators.data import Data, Labels, Weights, divide, tuple_distances, tuple_score
from sdpmetric.estimators.options import Count, Matrix, Positive, estimator
from sdpmetric.linalg.distances import mean_squared_distance
from sdpmetric.problems.metric_problem import MetricProblem
from sdpmetric.terms import Collapse, Frobenius, PairHinge, QuadrupletHinge, Term, TripletHinge
from sdpmetric.verbs import solve

# The mean squared distance of two examples under the prior, which is the temperature of the losses.
SPREAD = 10.0
# At most this share of the examples that one is compared with are of its class, unless there are no others.
OWN = 0.25
# Strengths that cross-validation tries, the strongest first; which share of the data it holds back, and how often; the
# gap that is proven along the path, at least; and values without a better score after which it ends.
STRENGTHS, HELD, ROUNDS, ROUGH, PATIENCE = (100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1), 0.25, 3, 1e-2, 3
# Rows whose distances to all others are held at once.
AT_ONCE = 512


@estimator
class Adapter(SolvedEstimator):
    """A metric near a given one for frozen embeddings, a convex counterpart of the contrastive adapter.

    Minimizes the mean of the losses plus ``strength / (2 sqrt(n d)) |M / s - I|^2``, where n examples or comparisons
    have d features, and the squared distance of two examples is 10 on average under ``s I``. From labels the loss is
    that of MCML [GR2006] among the nearest examples, ``-mean_j log p(j | i)`` over those of i's class up to a constant;
    from comparisons it is ``log(1 + exp(D(near) - D(far)))``; from pairs the same of D and a threshold, half way
    between the mean distances of similar and of dissimilar pairs.

    Parameters
    ----------
    strength : float or "cv", default 1
        How near the metric stays to the prior. "cv" chooses among 100, 30, 10, 3, 1, 0.3 and 0.1 by the accuracy of
        nearest neighbors, the area under the ROC curve, or the share of comparisons in order, on a random quarter that
        is held back, three times; each solve starts from the one before.
    metric : {"euclidean", "cosine"}, default "euclidean"
        "cosine" divides each row by its length, in `transform` as well.
    prior : "identity" or (d, d) array, default "identity"
        What the metric stays near: s I, or a PSD matrix in place of it, such as the `metric_` of an earlier fit.
    n_candidates : int, default 100
        With labels: how many examples each one is compared with, those nearest to it, at most a quarter of its class.
    solver : {"auto", "projected", "factored", "dual", "conic"}, default "auto"
    tol, max_iter, max_time, verbose, random_state, init, warm_start
        As in `LMNN`; `random_state` is also that of what is held back.
    early_stopping, validation_fraction, n_iter_no_change
        As in `LMNN`: a share of the examples, pairs or comparisons is kept out.

    Attributes
    ----------
    components_, metric_, solution_, relative_gap_, validation_score_, n_iter_, n_features_in_, feature_names_in_
        As in `LMNN`.
    strength_ : float
        The value that was chosen or given.
    strengths_, scores_ : (p,) arrays
        Of "cv": the values that were tried, and their mean scores; else empty.

    See Also
    --------
    LMNN : Large margins from labels or triplets; stays near nothing, and needs more data.
    ITML : Bounds on distances of pairs, near a prior.

    Notes
    -----
    Which data it is for, and measurements: docs/adapters.md.

    References
    ----------
    [GR2006] A. Globerson and S. Roweis. Metric learning by collapsing classes. Advances in Neural Information
        Processing Systems 18, 2006.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sdpmetric.estimators import Adapter
    >>> X, y = load_digits(return_X_y=True)
    >>> adapter = Adapter().fit(X[:100], y[:100])
    >>> adapter.transform(X).shape, bool(adapter.relative_gap_ <= 1e-3)
    ((1797, 64), True)
    """

    strength: Positive | Literal["cv"] = field(default=1.0, kw_only=False)
    metric: Literal["euclidean", "cosine"] = "euclidean"
    prior: Matrix | Literal["identity"] = "identity"
    n_candidates: Count = 100
    strength_: float = field(init=False)
    strengths_: FloatArray = field(init=False)
    scores_: FloatArray = field(init=False)
    statement = MetricProblem
    fit_pairs, fit_triplets, fit_quadruplets = routes.fit_pairs, routes.fit_triplets, routes.fit_quadruplets

    @property
    def unit_rows(self) -> bool:
        """Whether rows are divided by their lengths first, for `metric="cosine"`."""
        return self.metric == "cosine"

    def _ranked(self, X: Data) -> Data:
        data = super()._ranked(X)
        return normalize(data) if self.unit_rows else data

    def _embed(self, X: Data | sp.csr_array) -> Data:
        return super()._embed(normalize(X) if self.unit_rows else X)

    def _near(self, X: Data, count: float) -> tuple[Term, float]:
        """The Frobenius term for a sum of mean losses over `count` items, and the scale of the prior."""
        d, spread = X.shape[1], mean_squared_distance(X)
        scale = SPREAD / spread if spread > 0.0 else 1.0
        M0 = scale * np.eye(d) if isinstance(self.prior, str) else validation.real_array("prior", self.prior)
        if M0.shape != (d, d):
            raise ValueError(f"prior must be 'identity' or a symmetric ({d}, {d}) matrix, got shape {M0.shape}.")
        size = float(np.sum(M0 * M0)) / d
        return Frobenius(to=M0, weight=self.strength_ / (np.sqrt(count * d) * (size if size > 0.0 else 1.0))), scale

    def _problem(self, X: Data, y: Labels, weights: Weights = None) -> MetricProblem:
        total = float(len(X) if weights is None else weights.sum())
        _, index = validation.check_labels(y, len(X))
        near = candidates(np.asarray(X, dtype=np.float64), index, min(int(self.n_candidates), len(X) - 1))
        loss = Collapse(y, near, sample_weight=weights, weight=1.0 / total)
        return MetricProblem(X, loss + self._near(X, total)[0])

    def _problem_of_tuples(self, X: Data, tuples: ArrayLike, about: ArrayLike | None) -> MetricProblem:
        rows = validation.rectangular("tuples", tuples)
        counted = about is None or rows.shape[1] == 2
        total = float(len(rows) if counted else np.abs(np.asarray(about, dtype=np.float64)).sum()) or 1.0
        near, scale = self._near(X, total)
        loss: Term
        if rows.shape[1] == 2:
            similar = check_similar(() if about is None else about, len(rows))
            given = validation.check_pairs(rows, len(X))
            (apart,) = tuple_distances(np.asarray(X, dtype=np.float64), given)
            means = [float(apart[kind].mean()) for kind in (similar, ~similar) if kind.any()]
            loss = PairHinge(given, similar, scale * float(np.mean(means)), margin=0.0, loss="logistic")
        else:
            hinge = TripletHinge if rows.shape[1] == 3 else QuadrupletHinge
            loss = hinge(rows, margin=0.0, loss="logistic", weights=about)
        return MetricProblem(X, (1.0 / total) * loss + near)

    def _fit(self, X: Data, y: Labels, weights: Weights = None) -> Self:
        def stated(rows: LongArray) -> MetricProblem:
            return self._problem(X[rows], y[rows], None if weights is None else weights[rows])

        def scored(problem: MetricProblem, rows: LongArray, held: LongArray) -> Score:
            return self._measure(problem, y[rows], X[held], y[held])

        self._chosen(len(y), stated, scored)
        return super()._fit(X, y, weights)

    def _fit_tuples(
        self,
        X: Data,
        tuples: ArrayLike,
        about: ArrayLike | None,
        state: Callable[[Data, ArrayLike, ArrayLike | None], Problem] | None = None,
    ) -> Self:
        rows = validation.rectangular("tuples", tuples)
        if rows.ndim != 2 or rows.shape[1] not in (2, 3, 4):
            rows = validation.check_pairs(rows, len(X))
        similar = check_similar(() if about is None else about, len(rows)) if rows.shape[1:] == (2,) else None

        def stated(some: LongArray) -> MetricProblem:
            return self._problem_of_tuples(X, rows[some], None if about is None else np.asarray(about)[some])

        def scored(problem: MetricProblem, some: LongArray, held: LongArray) -> Score:
            return lambda L: tuple_score(problem.X, rows[held], None if similar is None else similar[held], L)

        self._chosen(len(rows), stated, scored)
        return super()._fit_tuples(X, tuples, about, state)

    def _chosen(
        self,
        n: int,
        stated: Callable[[LongArray], MetricProblem],
        scored: Callable[[MetricProblem, LongArray, LongArray], Score],
    ) -> None:
        """Set the strength, by cross-validation if asked for."""
        self.strength_, self.strengths_, self.scores_ = 1.0, np.zeros(0), np.zeros(0)
        if self.strength != "cv":
            self.strength_ = float(self.strength)
            return
        splits = [divide(n, HELD, self._seed() + k) for k in range(ROUNDS)]
        problems = [stated(rows) for rows, _ in splits]
        measures = [scored(problem, *split) for problem, split in zip(problems, splits, strict=True)]
        starts, scores = list[Data | None]([None] * ROUNDS), list[float]()
        for strength in STRENGTHS:
            found = [
                solve(
                    problem.with_weights(frobenius=strength * problem.terms[1].weight),
                    tol=max(self.tol or ROUGH, ROUGH),
                    max_time=self.max_time,
                    init=start,
                ).components
                for problem, start in zip(problems, starts, strict=True)
            ]
            starts = [L if L.any() else None for L in found]
            scores.append(
                float(np.mean([score(L.astype(np.float64)) for score, L in zip(measures, found, strict=True)]))
            )
            if len(scores) - 1 - int(np.argmax(scores)) >= PATIENCE:
                break
        self.strengths_, self.scores_ = np.array(STRENGTHS[: len(scores)]), np.array(scores)
        self.strength_ = float(self.strengths_[np.argmax(scores)])


def candidates(X: FloatArray, y: IndexArray, m: int) -> IndexArray:
    """The m examples that each one is compared with, (n, m): the nearest of its class, and of the others."""
    n, squares, counts = len(X), np.einsum("ij,ij->i", X, X), np.bincount(y)
    found = np.empty((n, m), dtype=np.int32)
    for first in range(0, n, AT_ONCE):
        rows = np.arange(first, min(n, first + AT_ONCE))
        for i, away in zip(rows.tolist(), squares - 2.0 * X[rows] @ X.T, strict=True):
            same = y == y[i]
            own = max(min(int(counts[y[i]]) - 1, max(1, int(OWN * m))), m - (n - int(counts[y[i]])))
            same[i] = False
            parts = [(np.flatnonzero(same), own), (np.flatnonzero(y != y[i]), m - own)]
            nearest = [part[np.argsort(away[part], kind="stable")[:k]] for part, k in parts]
            found[i] = np.sort(np.concatenate(nearest))
    return found
