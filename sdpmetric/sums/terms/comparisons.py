"""Hinges over triplets and quadruplets: one distance should be smaller than another one by a margin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from sdpmetric.arrays import FloatArray, IndexArray
from sdpmetric.core import pairs, validation
from sdpmetric.core.files import ProofTerm
from sdpmetric.core.triplets import Triplets
from sdpmetric.engine.lazy import cached
from sdpmetric.losses import Hard, ScalarLoss, find_loss
from sdpmetric.sums.terms.base import errors_of
from sdpmetric.sums.terms.margins import MarginLoss, Rows, check_term_pairs

# Triplets of labels that a term lists; an LMNNProblem needs no list.
MAX_TRIPLETS = 8_000_000
# Columns of the pair of a quadruplet that should be nearer, and of the other one.
NEARER, FARTHER = slice(0, 2), slice(2, 4)
# Losses of labeled triplets that the checker of proofs knows.
LABELED = ("hinge", "squared_hinge")


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class _Comparison(MarginLoss):
    """``sum_t w_t l(margin + D(p_t) - D(q_t))``, the pair p_t being the one that should be nearer."""

    margin: float = 1.0
    loss: str = "hinge"

    def _checked_margin(self) -> float:
        margin = validation.check_number("margin", self.margin, 0.0)
        if self._loss.hard and margin == 0.0:
            raise ValueError(f"{self.name}: the zero metric satisfies hard comparisons of margin 0; pass margin=1.")
        return margin

    def _with_weights(self, X: NDArray[np.floating], comparisons: IndexArray) -> tuple[Self, IndexArray]:
        """Return the term with a weight for each comparison; hard comparisons of weight 0 are left out."""
        bound = self.weighted(X, comparisons[:, 0])
        weights = np.asarray(bound.weights)
        if not self._loss.hard:
            return bound, comparisons
        if not weights.any():
            raise ValueError(f"{self.name}: all hard comparisons have weight 0; leave the term out.")
        return replace(bound, weights=np.ones(np.count_nonzero(weights))), comparisons[weights > 0.0]

    def _rows(self, nearer: IndexArray, farther: IndexArray, names: Sequence[str], comparisons: IndexArray) -> Rows:
        # A pair of many comparisons is listed once; rows have two entries, also for two equal pairs.
        sorted_pairs = np.sort(np.stack([nearer, farther]), axis=2).astype(np.int64)
        keys = 2 * (sorted_pairs[..., 0] * (1 + int(sorted_pairs.max(initial=0))) + sorted_pairs[..., 1])
        keys[1] += keys[0] == keys[1]
        _, first, place = np.unique(keys.ravel(), return_index=True, return_inverse=True)
        n, columns = len(comparisons), place.reshape(2, -1).T.ravel()
        K = sp.csr_array((np.tile([1.0, -1.0], n), columns, 2 * np.arange(n + 1)), shape=(n, len(first)))
        roles, pairs = dict(zip(names, comparisons.T, strict=True)), np.concatenate([nearer, farther])[first]
        return Rows(self._loss, pairs, K, self.margin, self.margin or 1.0, roles)

    @property
    def _loss(self) -> ScalarLoss:
        return Hard() if self.loss == "hard" else find_loss(self.loss, type(self).__name__)

    def describe(self) -> str:
        margin = "" if self.margin == 1.0 else f" with margin {self.margin:g}"
        return f"{self._loss.name} over {self.size:,} {self.name.removesuffix('_hinge')}s{margin}"


@dataclass(frozen=True, eq=False, repr=False)
class TripletHinge(_Comparison):
    """``sum_t w_t l(margin + D(i, j) - D(i, l))`` over triplets (i, j, l), the push term of LMNN [WS2009].

    Schultz and Joachims [SJ2003] and many later methods learn from such triplets. A triplet states "i is nearer to j
    than to l"; it may come from any source.

    Parameters
    ----------
    triplets : (t, 3) integer array or Triplets, optional
        Columns anchor i, target j, impostor l: three different row numbers of X.
    labels : (n,) array, optional
        In place of triplets: all triplets of an example, one of its `n_neighbors` target neighbors (the nearest of its
        class), and an example of another class.
    n_neighbors : int, default 3
    target_neighbors : (n, k) integer array, optional
        In place of the nearest of the class, with `labels`.
    weight : float, default 1
    weights : (t,) array, optional
        ``w_t >= 0``; default 1. Hard comparisons of weight 0 are left out; other weights of theirs have no effect.
    sample_weight : (n,) array, optional
        Weights of examples; each triplet is multiplied by that of its anchor.
    margin : float, default 1
    loss : {"hinge", "squared_hinge", "logistic", "hard"}, default "hinge"
        Hard comparisons hold, or the solution names some that contradict each other.

    Attributes
    ----------
    index : (n,) int32 array or None
        The class of each example, for a bound term of labels without weights.
    targets : (n, k) int32 array or None
        Its target neighbors.

    Raises
    ------
    ValueError
        If not exactly one of `triplets` and `labels` is passed, or there are no triplets.

    Examples
    --------
    >>> import sdpmetric as sm
    >>> from sdpmetric import terms
    >>> X, y = sm.datasets.load("iris")
    >>> stated = sm.MetricProblem(X, 0.5 * terms.Pull(labels=y) + 0.5 * terms.TripletHinge(labels=y))
    >>> bool(sm.solve(stated, tol=1e-2).relative_gap <= 1e-2)
    True
    >>> sm.MetricProblem(X, terms.Pull(labels=y) + terms.Trace()).describe()
    '...pull over 450 pairs + trace: 150 examples, 4 features'
    """

    triplets: ArrayLike | Triplets | None = None
    labels: ArrayLike | None = None
    n_neighbors: int = 3
    target_neighbors: ArrayLike | None = None
    index: IndexArray | None = None
    targets: IndexArray | None = None

    name: ClassVar[str] = "triplet_hinge"

    def bind(self, X: NDArray[np.floating]) -> Self:
        margin = self._checked_margin()
        if (self.triplets is None) == (self.labels is None):
            raise ValueError("TripletHinge takes either triplets= or labels=; pass exactly one of the two.")
        index, targets, is_weighted = None, None, self.weights is not None or self.sample_weight is not None
        if self.labels is not None:
            index, targets = target_pairs(self.name, X, self.labels, self.n_neighbors, self.target_neighbors)
            triplets = labeled_triplets(self.name, index, targets)
        else:
            array = self.triplets if isinstance(self.triplets, Triplets) else np.asarray(self.triplets)
            with errors_of(self.name):
                triplets = validation.check_triplets(array, len(X))
            if not len(triplets):
                raise ValueError(f"{self.name}: triplets is empty; pass at least one triplet of row numbers of X.")
        bound, rows = self._with_weights(X, triplets.to_array())
        bound = replace(bound, triplets=rows, margin=margin, labels=None, target_neighbors=None)
        return bound if is_weighted else replace(bound, index=index, targets=targets)

    @property
    def lists(self) -> Mapping[str, NDArray[np.generic]]:
        return {} if self.targets is not None else {"triplets": np.asarray(self.triplets)}

    def proof_term(self, a: FloatArray) -> ProofTerm:
        """See `Term.proof_term`: triplets of labels under the hinge or its square are enumerated by the checker."""
        if self.targets is None or self.index is None or self.loss not in LABELED:
            return super().proof_term(a)
        used = np.flatnonzero(a > 0.0)
        highest = (1.0 - 4e-16) * self.weight if self.loss == "hinge" else np.inf
        arrays: dict[str, NDArray[np.generic]] = {
            "targets": self.targets,
            "weights": np.ones(len(self.index)),
            "triplets": np.asarray(self.triplets)[used],
        }
        statement = {
            "term": "labels",
            "loss": self.scalar.name,
            "weight": self.weight,
            "pull": 0.0,
            "offset": self.margin,
        }
        return ProofTerm(statement, arrays | {"multipliers": np.minimum(a[used], highest)}, {"y": self.index})

    @cached
    def rows(self) -> Rows:
        """Anchors with targets, then anchors with impostors."""
        triplets = np.asarray(self.triplets, dtype=np.int32)
        return self._rows(triplets[:, :2], triplets[:, ::2], ("anchor", "target", "impostor"), triplets)


@dataclass(frozen=True, eq=False, repr=False)
class QuadrupletHinge(_Comparison):
    """``sum_t w_t l(margin + D(u, v) - D(w, x))`` over quadruplets (u, v, w, x).

    Comparisons of two pairs that need not share an example, such as "these two are more alike than those two".

    Parameters
    ----------
    quadruplets : (t, 4) integer array
        Row numbers of X: the near pair, then the far pair.
    weight : float, default 1
    weights : (t,) array, optional
        ``w_t >= 0``; default 1. Hard comparisons of weight 0 are left out; other weights of theirs have no effect.
    sample_weight : (n,) array, optional
        Weights of examples; each quadruplet is multiplied by that of its first row.
    margin : float, default 1
    loss : {"hinge", "squared_hinge", "logistic", "hard"}, default "hinge"
        Hard comparisons hold, or the solution names some that contradict each other.

    Examples
    --------
    >>> import sdpmetric as sm
    >>> from sdpmetric import terms
    >>> X, y = sm.datasets.load("iris")
    >>> compared = terms.QuadrupletHinge([[0, 1, 2, 60], [50, 51, 52, 120]])
    >>> bool(sm.solve(sm.MetricProblem(X, compared + 0.1 * terms.Trace())).relative_gap <= 1e-3)
    True
    """

    quadruplets: ArrayLike | None = None

    name: ClassVar[str] = "quadruplet_hinge"

    def bind(self, X: NDArray[np.floating]) -> Self:
        margin = self._checked_margin()
        roles = ", the near pair and then the far pair"
        listed_rows: ArrayLike = () if self.quadruplets is None else self.quadruplets
        with errors_of(self.name):
            quadruplets = validation.check_rows("quadruplets", listed_rows, len(X), ("t", 4), roles)
        pairs = [check_term_pairs(self.name, quadruplets[:, columns], len(X)) for columns in (NEARER, FARTHER)]
        bound, rows = self._with_weights(X, np.concatenate(pairs, axis=1))
        return replace(bound, quadruplets=rows, margin=margin)

    @property
    def lists(self) -> Mapping[str, NDArray[np.generic]]:
        return {"quadruplets": np.asarray(self.quadruplets)}

    @cached
    def rows(self) -> Rows:
        quadruplets = np.asarray(self.quadruplets, dtype=np.int32)
        names = ("near_first", "near_second", "far_first", "far_second")
        return self._rows(quadruplets[:, NEARER], quadruplets[:, FARTHER], names, quadruplets)


def target_pairs(
    name: str, X: NDArray[np.floating], labels: ArrayLike, n_neighbors: int, target_neighbors: ArrayLike | None
) -> tuple[IndexArray, IndexArray]:
    """Return classes (n,) and target neighbors (n, k), padded with -1, of examples; see `LMNNProblem.from_labels`."""
    with errors_of(name):
        classes, index = validation.check_labels(labels, len(X))
        if target_neighbors is not None:
            return index, validation.check_target_neighbors(target_neighbors, index)
        validation.check_class_sizes(classes, index, n_neighbors)
    return index, pairs.target_neighbors(np.asarray(X, dtype=np.float64), index, int(n_neighbors))


def labeled_triplets(name: str, index: IndexArray, targets: IndexArray) -> Triplets:
    """Return all triplets of an example, a target neighbor and an example of another class."""
    i, slot = np.nonzero(targets >= 0)
    counts = len(index) - np.bincount(index)[index[i]]
    if counts.sum() > MAX_TRIPLETS:
        raise ValueError(
            f"{name}: the labels make {int(counts.sum()):,} triplets, more than the {MAX_TRIPLETS:,} that a term "
            "lists; state pull and push alone as an LMNNProblem, which needs no list, or pass fewer triplets."
        )
    order = np.argsort(index, kind="stable")
    sorted_classes = index[order]
    # Impostors of an example: the sorted examples without the range of its class.
    start, stop = (np.searchsorted(sorted_classes, index[i], side) for side in ("left", "right"))
    place = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    place += np.where(place >= np.repeat(start, counts), np.repeat(stop - start, counts), 0)
    repeated = np.repeat(np.arange(len(i)), counts)
    return Triplets(i[repeated].astype(np.int32), targets[i, slot][repeated], order[place].astype(np.int32))
