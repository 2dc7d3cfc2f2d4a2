"""Linear terms: the trace, and the distances of pairs that should be near."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sdpmetric import lines
from sdpmetric.arrays import FloatArray, IndexArray
from sdpmetric.core.files import ProofTerm
from sdpmetric.lines import total
from sdpmetric.sums.terms.base import Term
from sdpmetric.sums.terms.comparisons import target_pairs
from sdpmetric.sums.terms.margins import check_term_pairs, item_weights


@dataclass(frozen=True, eq=False, repr=False)
class Trace(Term):
    """``trace(M)``, linear: every direction costs the same, which favors metrics of low rank.

    Parameters
    ----------
    weight : float, default 1

    Examples
    --------
    >>> import sdpmetric as sm
    >>> from sdpmetric import terms
    >>> X, y = sm.datasets.load("iris")
    >>> sm.MetricProblem(X, terms.Pull(labels=y) + terms.Trace()).describe()
    'pull over 450 pairs + trace: 150 examples, 4 features'
    """

    name: ClassVar[str] = "trace"

    @property
    def ridge(self) -> float:
        return self.weight

    def bind(self, X: NDArray[np.floating]) -> Self:
        return self

    def describe(self) -> str:
        return "trace"

    def smallest_cost(self, distance: float, trace: float) -> float:
        return self.weight * trace

    def text(self) -> tuple[float, str]:
        return self.weight, "tr(M)"

    def proof_term(self, a: FloatArray) -> ProofTerm:
        return ProofTerm({"term": "trace", "weight": self.weight})


@dataclass(frozen=True, eq=False, repr=False)
class Pull(Term):
    """``sum_p w_p D(p)``, the pull term of LMNN (Weinberger and Saul 2009, Eq. 11) [WS2009]; linear.

    Parameters
    ----------
    pairs : (p, 2) integer array, optional
        Row numbers of X.
    weights : (p,) array, optional
        At least 0; default 1.
    labels : (n,) array, optional
        In place of pairs: every example with its `n_neighbors` target neighbors, the nearest of its class.
    n_neighbors : int, default 3
    target_neighbors : (n, k) integer array, optional
        In place of the nearest of the class, with `labels`.
    sample_weight : (n,) array, optional
        Weights of examples; each pair is multiplied by that of its first row.
    weight : float, default 1

    Raises
    ------
    ValueError
        If not exactly one of `pairs` and `labels` is passed.

    Examples
    --------
    >>> import sdpmetric as sm
    >>> from sdpmetric import terms
    >>> X, y = sm.datasets.load("iris")
    >>> sm.MetricProblem(X, terms.Pull(labels=y) + terms.Trace()).describe()
    'pull over 450 pairs + trace: 150 examples, 4 features'
    """

    pairs: ArrayLike | None = None
    weights: ArrayLike | None = None
    labels: ArrayLike | None = None
    n_neighbors: int = 3
    target_neighbors: ArrayLike | None = None
    sample_weight: ArrayLike | None = None

    name: ClassVar[str] = "pull"

    def bind(self, X: NDArray[np.floating]) -> Self:
        if (self.pairs is None) == (self.labels is None):
            raise ValueError("Pull takes either pairs= or labels=; pass exactly one of the two.")
        if self.labels is not None:
            _, targets = target_pairs(self.name, X, self.labels, self.n_neighbors, self.target_neighbors)
            i, slot = np.nonzero(targets >= 0)
            rows = np.stack([i.astype(np.int32), targets[i, slot]], axis=1)
        else:
            rows = check_term_pairs(self.name, self.pairs, len(X))
        w = item_weights(self.name, self.weights, self.sample_weight, rows[:, 0], len(X))
        return replace(self, pairs=rows, weights=w, labels=None, target_neighbors=None, sample_weight=None)

    def describe(self) -> str:
        return f"pull over {len(np.asarray(self.pairs)):,} pairs"

    def smallest_cost(self, distance: float, trace: float) -> float:
        costs = self.pair_costs()[1]
        return distance * float(costs[costs > 0.0].min(initial=np.inf))

    def pair_costs(self) -> tuple[IndexArray, FloatArray]:
        return np.asarray(self.pairs, dtype=np.int32), self.weight * np.asarray(self.weights, dtype=np.float64)

    def text(self) -> tuple[float, str]:
        pairs, w = np.asarray(self.pairs).tolist(), np.asarray(self.weights).tolist()
        return self.weight, total(((w_p, lines.distance(i, j)) for w_p, (i, j) in zip(w, pairs, strict=True)), len(w))

    def proof_term(self, a: FloatArray) -> ProofTerm:
        return pull_part(np.asarray(self.pairs), np.asarray(self.weights, dtype=np.float64), self.weight)


def pull_part(pairs: NDArray[np.integer], weights: FloatArray, weight: float | list[float]) -> ProofTerm:
    """Return a weighted sum of distances, for a proof file; a list of weights stands for its exact sum."""
    zeros, ones = np.zeros(len(pairs)), np.ones(len(pairs))
    arrays = {"places": np.arange(len(pairs)), "pairs": pairs, "factors": ones}
    arrays |= {"offsets": zeros, "weights": weights, "multipliers": zeros}
    return ProofTerm({"term": "rows", "loss": "linear", "weight": weight}, arrays)
