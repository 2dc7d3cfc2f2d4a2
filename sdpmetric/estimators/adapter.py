"""A metric near the identity for frozen embeddings, from labels, pairs, triplets or quadruplets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from numbers import Integral
from typing import Annotated, Literal, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.preprocessing import normalize
from sklearn.utils._param_validation import Interval

from sdpmetric.arrays import FloatArray, IndexArray, LongArray
from sdpmetric.core import validation
from sdpmetric.core.pairs import check_similar
from sdpmetric.core.problem import Problem
from sdpmetric.core.run import solve
from sdpmetric.core.sample_weight import check_weights
from sdpmetric.core.steps import Score
from sdpmetric.estimators import base
from sdpmetric.estimators.base import SolvedEstimator
from sdpmetric.estimators.data import (
    Data,
    Labels,
    Matrix,
    Positive,
    Weights,
    divide_rows,
    estimator,
    tuple_distances,
    tuple_score,
)
from sdpmetric.linalg.distances import mean_squared_distance
from sdpmetric.sums.problem import MetricProblem
from sdpmetric.sums.terms import Frobenius, PairHinge, QuadrupletHinge, Term, TripletHinge


@dataclass(frozen=True)
class AdapterOptions:
    """What `Adapter` is made with; docs/measured/methods.md has the measurements."""

    mean_square: float = 10.0  # squared distance of two examples under the prior: the temperature of the losses
    same_class_share: float = 0.25  # of the candidates of an example, at most, unless there are no others
    strengths: tuple[float, ...] = (100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1)  # that cross-validation tries
    held_share: float = 0.25  # of the data, held back in each round of cross-validation
    rounds: int = 3  # of cross-validation
    path_gap: float = 1e-2  # relative gap that is proven in cross-validation, at least
    patience: int = 3  # strengths without a better score after which cross-validation ends
    rows_at_once: int = 512  # rows with distances to all others in memory


OPTIONS = AdapterOptions()
# Names of tuples by their size, and what is in their columns.
ROLES = {
    2: ("pairs", ""),
    3: ("triplets", ": an example, one that is to be near it, and one that is to be farther away"),
    4: ("quadruplets", ": the near pair, then the far one"),
}


class AdapterProblem(MetricProblem):
    """The sum that `Adapter` minimizes."""

    title = certificate_title = "Adapter"


@estimator
class Adapter(SolvedEstimator):
    """A metric near a given one for frozen embeddings, a convex counterpart of the contrastive adapter.

    Minimizes the mean of the losses plus ``strength / (2 sqrt(n d)) |M / s - I|^2`` for n examples or comparisons with
    d features; the squared distance of two examples is 10 on average under ``s I``. From comparisons the loss
    is ``log(1 + exp(D(near) - D(far)))``. From labels it is the sum of these over the nearest examples of other classes
    of each example, each compared with one of the nearest of its class. From pairs it is the same for D and a threshold
    halfway between the mean distances of similar and of dissimilar pairs.

    Parameters
    ----------
    strength : float or "cv", default 1
        How near the metric stays to the prior. "cv" chooses among 100, 30, 10, 3, 1, 0.3 and 0.1 by the accuracy of
        nearest neighbors, the area under the ROC curve, or the share of comparisons in order, on three random quarters
        that are held out in turn; each solve starts from the one before.
    metric : {"euclidean", "cosine"}, default "euclidean"
        "cosine" divides each row by its length, in `transform` as well.
    prior : "identity" or (d, d) array, default "identity"
        What the metric stays near: s I, or a PSD matrix in place of it, such as the `metric_` of an earlier fit.
    n_candidates : int, default 100
        With labels: how many of the nearest examples are compared, from each one, at most a quarter of them of its
        class. At least 2.
    solver : {"auto", "span", "factored", "conic"}, default "auto"
    tol, max_iter, max_time, verbose, random_state, init, warm_start
        As in `LMNN`; `random_state` also seeds what "cv" holds out.
    early_stopping, validation_fraction, n_iter_no_change
        As in `LMNN`.

    Attributes
    ----------
    components_, metric_, solution_, relative_gap_, validation_score_, n_iter_, n_features_in_, feature_names_in_
        As in `LMNN`.
    strength_ : float
        The value that was chosen or given.
    strengths_, scores_ : (p,) arrays
        With "cv", the values that were tried and their mean scores; else empty.

    See Also
    --------
    LMNN : Large margins from labels or triplets; has no prior, and needs more data.
    ITML : Bounds on distances of pairs, near a prior.

    Notes
    -----
    Uses and measurements: docs/adapters.md.

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
    n_candidates: Annotated[int, Interval(Integral, 2, None, closed="left")] = 100
    strength_: float = field(init=False)
    strengths_: FloatArray = field(init=False)
    scores_: FloatArray = field(init=False)
    statement = MetricProblem
    fit_pairs, fit_triplets, fit_quadruplets = base.fit_pairs, base.fit_triplets, base.fit_quadruplets

    def _ranked(self, X: Data) -> Data:
        data = super()._ranked(X)
        return normalize(data) if self.metric == "cosine" else data

    def _embed(self, X: Data | sp.csr_array) -> Data:
        return super()._embed(normalize(X) if self.metric == "cosine" else X)

    def _proximity(self, X: Data, count: float) -> tuple[Frobenius, float]:
        """Return the Frobenius term for a sum of mean losses over `count` items, and the scale of the prior."""
        d, spread = self.n_features_in_, mean_squared_distance(X)
        scale = OPTIONS.mean_square / spread if spread > 0.0 else 1.0
        M0 = scale * np.eye(X.shape[1])
        if not isinstance(self.prior, str):
            M0, _ = validation.check_semidefinite("prior", self.prior, d, "pass a symmetric matrix or 'identity'")
        size = float(np.sum(M0 * M0)) / len(M0)
        return Frobenius(to=M0, weight=self.strength_ / (np.sqrt(count * d) * (size if size > 0.0 else 1.0))), scale

    def _problem(self, X: Data, y: Labels, weights: Weights = None) -> AdapterProblem:
        total = float(len(X) if weights is None else weights.sum())
        _, index = validation.check_labels(y, len(X))
        if np.bincount(index).max() == 1:
            raise ValueError("every class of y has one member; each example needs another one of its class to be near.")
        triplets = comparisons(np.asarray(X, dtype=np.float64), index, min(int(self.n_candidates), len(X) - 1))
        counted = None if weights is None else weights[triplets[:, 0]]
        loss = TripletHinge(triplets, margin=0.0, loss="logistic", weights=counted)
        return AdapterProblem(X, (1.0 / total) * loss + self._proximity(X, total)[0])

    def _problem_of_tuples(self, X: Data, tuples: ArrayLike, annotations: ArrayLike | None) -> AdapterProblem:
        rows = checked_tuples(tuples, len(X))
        if rows.shape[1] > 2 and annotations is not None:
            annotations = check_weights("weights", annotations, len(rows), "comparison")
        counted = annotations is None or rows.shape[1] == 2
        total = float(len(rows) if counted else np.abs(np.asarray(annotations, dtype=np.float64)).sum()) or 1.0
        proximity, scale = self._proximity(X, total)
        loss: Term
        if rows.shape[1] == 2:
            similar = check_similar(() if annotations is None else annotations, len(rows))
            (squared_distances,) = tuple_distances(np.asarray(X, dtype=np.float64), rows)
            means = [float(squared_distances[kind].mean()) for kind in (similar, ~similar) if kind.any()]
            loss = PairHinge(rows, similar, scale * float(np.mean(means)), margin=0.0, loss="logistic")
        else:
            hinge = TripletHinge if rows.shape[1] == 3 else QuadrupletHinge
            loss = hinge(rows, margin=0.0, loss="logistic", weights=annotations)
        return AdapterProblem(X, (1.0 / total) * loss + proximity)

    def _fit(self, X: Data, y: Labels, weights: Weights = None) -> Self:
        def stated(rows: LongArray) -> AdapterProblem:
            return self._problem(X[rows], y[rows], None if weights is None else weights[rows])

        def scored(problem: AdapterProblem, rows: LongArray, held: LongArray) -> Score:
            return self._measure(problem, y[rows], X[held], y[held])

        self._chosen("examples", len(y), stated, scored)
        return super()._fit(X, y, weights)

    def _fit_tuples(
        self,
        X: Data,
        tuples: ArrayLike,
        annotations: ArrayLike | None,
        state: Callable[[Data, ArrayLike, ArrayLike | None], Problem] | None = None,
    ) -> Self:
        rows = checked_tuples(tuples, len(X))
        similar = (
            check_similar(() if annotations is None else annotations, len(rows)) if rows.shape[1:] == (2,) else None
        )

        def stated(some: LongArray) -> AdapterProblem:
            return self._problem_of_tuples(
                X, rows[some], None if annotations is None else np.asarray(annotations)[some]
            )

        def scored(problem: AdapterProblem, some: LongArray, held: LongArray) -> Score:
            return partial(tuple_score, problem.X, rows[held], None if similar is None else similar[held])

        self._chosen(ROLES[rows.shape[1]][0], len(rows), stated, scored)
        return super()._fit_tuples(X, tuples, annotations, state)

    def _chosen(
        self,
        items: str,
        n: int,
        stated: Callable[[LongArray], AdapterProblem],
        scored: Callable[[AdapterProblem, LongArray, LongArray], Score],
    ) -> None:
        self.strength_, self.strengths_, self.scores_ = 1.0, np.zeros(0), np.zeros(0)
        if self.strength != "cv":
            self.strength_ = float(self.strength)
            return
        if n < 2:
            raise ValueError(f"strength='cv' holds back some of the {items}, and there is {n}; pass a number, or more.")
        splits = [divide_rows(n, OPTIONS.held_share, self._seed() + k) for k in range(OPTIONS.rounds)]
        problems = [stated(rows) for rows, _ in splits]
        measures = [scored(problem, *split) for problem, split in zip(problems, splits, strict=True)]
        starts, scores = list[Data | None]([None] * OPTIONS.rounds), list[float]()
        for strength in OPTIONS.strengths:
            factors = [
                solve(
                    problem.with_weights(frobenius=strength * problem.terms[1].weight),
                    tol=max(self.tol or OPTIONS.path_gap, OPTIONS.path_gap),
                    max_time=self._share_of_time(OPTIONS.rounds * len(OPTIONS.strengths)),
                    init=start,
                ).components
                for problem, start in zip(problems, starts, strict=True)
            ]
            starts = [L if L.any() else None for L in factors]
            scores.append(
                float(np.mean([score(L.astype(np.float64)) for score, L in zip(measures, factors, strict=True)]))
            )
            if len(scores) - 1 - int(np.argmax(scores)) >= OPTIONS.patience:
                break
        self.strengths_, self.scores_ = np.array(OPTIONS.strengths[: len(scores)]), np.array(scores)
        self.strength_ = float(self.strengths_[np.argmax(scores)])


def checked_tuples(tuples: ArrayLike, n: int) -> IndexArray:
    """Return pairs, triplets or quadruplets of row numbers below n that compare different rows; at least one."""
    rows = validation.rectangular("pairs", tuples)
    size = rows.shape[1] if rows.ndim == 2 and rows.shape[1] in ROLES else 2
    name, roles = ROLES[size]
    checked = validation.check_rows(name, rows, n, ("t", size), roles, distinct=size < 4)
    if not len(checked):
        raise ValueError(f"{name} is empty; pass at least one, of row numbers of X.")
    for pair in (checked[:, :2], checked[:, 2:]) if size == 4 else ():
        validation.check_rows(f"a pair of {name}", pair, n, ("t", 2), distinct=True)
    return checked


def comparisons(X: FloatArray, y: IndexArray, m: int) -> IndexArray:
    """Return triplets (t, 3) of each example: one of the nearest of its class, in turn, and each of the nearest others.

    Of m candidates at most a quarter is of the class, unless there are no others. Examples without another one of their
    class are left out.
    """
    n, squares, counts, triplets = len(X), np.einsum("ij,ij->i", X, X), np.bincount(y), list[IndexArray]()
    sorted_rows = np.argsort(y, kind="stable")
    for start in range(0, n, OPTIONS.rows_at_once):
        block = sorted_rows[start : start + OPTIONS.rows_at_once]
        away = squares - 2.0 * X[block] @ X.T
        away[np.arange(len(block)), block] = np.inf
        for label in np.unique(y[block][counts[y[block]] > 1]):
            n_mates, of_class = int(counts[label]) - 1, y[block] == label
            n_near = max(min(n_mates, max(1, int(OPTIONS.same_class_share * m))), m - (n - 1 - n_mates))
            groups = (np.flatnonzero(y == label), n_near), (np.flatnonzero(y != label), m - n_near)
            targets, foreign = (
                np.sort(group[np.argpartition(away[of_class][:, group], k - 1, axis=1)[:, :k]], axis=1)
                for group, k in groups
            )
            rows = block[of_class, None]
            mates = np.take_along_axis(targets, (rows + np.arange(foreign.shape[1])) % n_near, axis=1)
            triplets.append(np.stack(np.broadcast_arrays(rows, mates, foreign), axis=2).reshape(-1, 3).astype(np.int32))
    stacked = np.concatenate(triplets)
    return stacked[np.argsort(stacked[:, 0], kind="stable")]
