"""SDML as a sum of terms: sparse metrics from pairs, near a given metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from sdpmetric.core import validation
from sdpmetric.core.named import named_prior
from sdpmetric.core.pairs import check_labeled_pairs, weighted_pairs_of_labels
from sdpmetric.core.sample_weight import check_pair_weights
from sdpmetric.sums import terms
from sdpmetric.sums.problem import MetricProblem


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
        share = validation.check_number("distance_weight", distance_weight, 0.0) / float(w.sum())
        divergence = terms.LogDet(to=named_prior(prior, data, scaled=True)).bind(data)
        total = divergence + validation.check_number("sparsity", sparsity, 0.0) * terms.OffDiagonal()
        V = np.asarray(data, dtype=np.float64)[rows[:, 0]] - np.asarray(data, dtype=np.float64)[rows[:, 1]]
        linear = divergence.inverse_root @ divergence.inverse_root + share * (V.T * np.where(flags, w, -w)) @ V
        if np.linalg.eigvalsh(linear)[0] <= 0.0:
            raise ValueError(
                f"distance_weight={distance_weight:g} is too large: dissimilar pairs gain more than the divergence and "
                "similar pairs cost, so there may be no minimum; lower it, or scale the features."
            )
        for kind, term in ((flags, terms.Pull), (~flags, terms.Repulsion)):
            if kind.any() and share:
                total = total + share * term(rows[kind], weights=w[kind])
        super().__init__(data, total)

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
            The largest number of pairs of each kind, drawn at random; None: all.
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
