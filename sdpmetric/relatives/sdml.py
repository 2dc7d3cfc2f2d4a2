"""SDML as a sum of terms: sparse metrics from pairs, near a given metric.

With ``S = M0^-1 + distance_weight * mean_p y_p v_p v_p^T`` it is, up to a constant, the graphical lasso of S::

    minimize over M PD   <S, M> - log det M + sparsity * sum_{j != k} |M_jk|

The covariance W that scikit-learn finds has the diagonal of S and differs from it by at most the sparsity elsewhere, so
``W - S`` is a matrix of feasible multipliers; their dual value is ``log det W + d``.

The absolute entries depend on the coordinates, so few rows in many features are solved in their span (see
`MetricProblem.in_span`) with a sparsity of 0 only. Else reduce the features first, for example by PCA, which states
another problem: its entries are between components.

The certificate of a factor L of M takes one form in its coordinates. With the multipliers U, and V for the part of S
that is a sum over pairs, ``<V, M> = tr(L V L^T)``; the minimum over all metrics is that of `LogDet` with ``P = L^T``.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.covariance import graphical_lasso
from sklearn.exceptions import ConvergenceWarning

from sdpmetric.arrays import FloatArray, IndexArray, allow_underflow
from sdpmetric.core import validation
from sdpmetric.core.certificate import Certificate, DualityCertificate, Multipliers, relative_gap
from sdpmetric.core.named import named_prior
from sdpmetric.core.pairs import check_labeled_pairs, weighted_pairs_of_labels
from sdpmetric.core.registry import solver
from sdpmetric.core.sample_weight import check_pair_weights
from sdpmetric.core.steps import Budget, Step
from sdpmetric.engine.lazy import published
from sdpmetric.linalg.rigorous.directed import TINY, above, gamma, sum_above
from sdpmetric.linalg.rigorous.forms import Form
from sdpmetric.sums import terms
from sdpmetric.sums.fenchel import Proven
from sdpmetric.sums.problem import MetricProblem
from sdpmetric.sums.terms import LogDet
from sdpmetric.sums.terms.base import ROUNDINGS

# Sweeps of coordinate descent over the features; data of the benchmarks take 1 to 6.
MAX_SWEEPS = 100
# Relative gap above which better multiples of the multipliers are sought.
LARGEST_GAP = 1e-3


@dataclass(init=False, eq=False, repr=False)
class SDMLProblem(MetricProblem):
    """Sparse determinant metric learning (Qi et al. 2009) [QTZCZ2009].

    With ``y_p`` 1 for similar and -1 for dissimilar pairs, minimize over positive definite matrices::

        trace(M M0^-1) - log det(M M0^-1) - d + distance_weight * mean_p y_p D(p) + sparsity * sum_{j != k} |M_jk|

    This is a graphical lasso. Since the distances of dissimilar pairs are unbounded, an error is raised unless the
    linear part, ``M0^-1 + distance_weight * mean_p y_p v_p v_p^T``, is positive definite.

    Parameters
    ----------
    X : (n, d) array
    pairs : (p, 2) integer array
        Row numbers of X.
    similar : (p,) array
        bool, or +1 for similar and -1 for dissimilar.
    prior : {"identity", "covariance", "random"} or (d, d) array, default "identity"
        What the metric stays near, positive definite: the identity divided by the largest variance of the data in any
        direction, the inverse of their covariance with 0.1 % of the mean variance added, a random matrix (of seed 0),
        or a given one.
    distance_weight : float, default 0.3
        Weight of the mean over the pairs.
    sparsity : float, default 0.01
        0: no term of sparsity.
    pair_weights : (p,) array, optional
        Positive weights of the mean; default 1.

    Raises
    ------
    ValueError
        If `distance_weight` is so large that there may be no minimum.

    Examples
    --------
    >>> import sdpmetric as sm
    >>> X, y = sm.datasets.load("iris")
    >>> pairs, similar = sm.constraints.pairs(y, 30)
    >>> found = sm.solve(sm.SDMLProblem(X, pairs, similar, distance_weight=0.01))
    >>> bool(found.relative_gap <= 1e-3)
    True
    """

    statement: ClassVar[str] = "sdml"
    title: ClassVar[str] = "SDML (Qi et al. 2009)"

    def __init__(
        self,
        X: ArrayLike,
        pairs: ArrayLike,
        similar: ArrayLike,
        prior: ArrayLike | str = "identity",
        distance_weight: float = 0.3,
        sparsity: float = 0.01,
        pair_weights: ArrayLike | None = None,
    ) -> None:
        data = validation.check_examples(X)
        rows, flags = check_labeled_pairs(pairs, similar, len(data))
        checked_weights = check_pair_weights(pair_weights, len(rows))
        w = np.ones(len(rows)) if checked_weights is None else checked_weights
        share = validation.check_weight("distance_weight", distance_weight) / float(w.sum())
        divergence = terms.LogDet(to=named_prior(prior, data, scaled=True)).bind(data)
        total = divergence + validation.check_weight("sparsity", sparsity) * terms.OffDiagonal()
        for kind, term in ((flags, terms.Pull), (~flags, terms.Repulsion)):
            if kind.any() and share:
                total = total + share * term(rows[kind], weights=w[kind])
        super().__init__(data, total)
        reduced = self if self.in_span is None else cast(SDMLProblem, self.in_span.problem)
        if np.linalg.eigvalsh(reduced.linear)[0] <= 0.0:
            raise ValueError(
                f"distance_weight={distance_weight:g} is too large: dissimilar pairs gain more than the divergence and "
                "similar pairs cost, so there may be no minimum; lower it, or scale the features."
            )

    @published
    def linear(self) -> FloatArray:
        """S of the head of this file, times the weight of the divergence, (d, d)."""
        (divergence,) = cast(tuple[LogDet, ...], self.total.regularizers)
        inverse = divergence.inverse_root @ divergence.inverse_root
        return self.total.slack_matrix(self.fixed_multipliers) + divergence.weight * inverse

    @property
    def fixed_multipliers(self) -> list[FloatArray]:
        """Those of dissimilar pairs, which are their weights, and 0 of entries."""
        return [loss.clip(np.zeros(loss.size)) for loss in self.total.losses]

    @published
    def weighted_pairs(self) -> tuple[IndexArray, IndexArray, FloatArray]:
        """Both rows of each pair, and its weight in S."""
        first, second = self.total.pairs.T
        return first, second, self.total.pair_weights(self.fixed_multipliers)

    @allow_underflow
    def certify(
        self, components: ArrayLike | None = None, *, metric: ArrayLike | None = None, dual: Multipliers | None = None
    ) -> Certificate:
        """Certify any point as a sum is; a solution as the head of this file says, which takes less time."""
        if components is not None and metric is None and dual is not None and self.in_span is None:
            L, a = self.check_point(components, None)[0], self.read_dual(dual)
            if len(L) == L.shape[1] and (certificate := self._certificate_of_solution(L, a)) is not None:
                return certificate
        return super().certify(components, metric=metric, dual=dual)

    def _certificate_of_solution(self, L: FloatArray, multipliers: list[FloatArray]) -> DualityCertificate | None:
        """Certify a factor by multipliers that nearly belong to it; return None if they do not."""
        total, (divergence,) = self.total, cast(tuple[LogDet, ...], self.total.regularizers)
        a = [loss.clip(x) for loss, x in zip(total.losses, multipliers, strict=True)]
        pairs = total.images(self.X, L.T).form(*self.weighted_pairs, roundings=ROUNDINGS, accuracy=math.inf)
        M, errors = L.T @ L, gamma(len(L) + 8) * (np.abs(L).T @ np.abs(L)) + len(L) * TINY
        costs = [*np.diag(pairs.matrix), above(len(L) * pairs.error), divergence.upper_bound(L)]
        for loss in total.losses:
            if loss.depends_on_entries:
                costs.append(loss.upper_bound(loss.entries(M - errors), loss.entries(M + errors)))
        bound = divergence.minimum_below(pairs + Form.congruent(total.entry_matrix(a), L.T), L.T)
        objective = sum_above(np.array(costs))
        if not relative_gap(objective, bound) <= LARGEST_GAP:
            return None
        return self.certificate_of(objective, Proven(bound, a), 0.0)

    @classmethod
    def from_labels(
        cls,
        X: ArrayLike,
        y: ArrayLike,
        n_pairs: int | None = 1000,
        prior: ArrayLike | str = "identity",
        distance_weight: float = 0.3,
        sparsity: float = 0.01,
        *,
        sample_weight: ArrayLike | None = None,
        random_state: int | None = None,
    ) -> SDMLProblem:
        """State SDML for labeled data: pairs of equal labels are similar, all others dissimilar.

        Parameters
        ----------
        X : (n, d) array
        y : (n,) array
            Class labels of any kind; at least two classes.
        n_pairs : int or None, default 1000
            The largest number of pairs of each kind, drawn at random; all pairs if None.
        prior, distance_weight, sparsity
            As in the constructor.
        sample_weight : (n,) array, optional
            Nonnegative; a pair has the product of its examples' weights.
        random_state : int, optional
            Seed of the draw; default 0.
        """
        data = validation.check_examples(X)
        pairs, similar, w = weighted_pairs_of_labels(y, len(data), n_pairs, random_state, sample_weight)
        return cls(data, pairs, similar, prior, distance_weight, sparsity, w)


def takes(problem: SDMLProblem) -> bool:
    """Return whether scikit-learn's graphical lasso takes this number of features: at least two."""
    return bool(problem.X.shape[1] > 1)


@solver(SDMLProblem, "graphical_lasso", tol=1e-4, rank=1, takes=takes)
def steps(problem: SDMLProblem, budget: Budget, tol: float) -> Iterator[Step]:
    """Solve SDML by scikit-learn's `graphical_lasso`; its covariance has the multipliers of the certificate.

    It does not see a limit of time. Where it breaks down, as for nearly singular S, "factored" is next.
    """
    losses, weight = problem.total.losses, problem.total.regularizers[0].weight
    sparsity = sum(loss.weight for loss in losses if loss.depends_on_entries) / weight
    S, sweeps = problem.linear / weight, int(min(MAX_SWEEPS, budget.max_iter))
    if not np.isfinite(S).all():
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        W, M, n_sweeps = graphical_lasso(
            S, sparsity, tol=0.1 * tol, enet_tol=0.01 * tol, max_iter=sweeps, return_n_iter=True
        )
    budget.spend(n_sweeps)
    slopes = 2.0 * weight * (W - S)[np.triu_indices(len(S), 1)]
    a = [slopes if loss.depends_on_entries else x for loss, x in zip(losses, problem.fixed_multipliers, strict=True)]
    yield Step.certified(problem, np.linalg.cholesky(M).T, problem.state_dual(a))
