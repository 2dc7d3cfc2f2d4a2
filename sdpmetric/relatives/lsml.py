"""LSML as a sum of terms: comparisons of two pairs, near a given metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sdpmetric.core import validation
from sdpmetric.core.named import named_prior
from sdpmetric.core.pairs import weighted_pairs_of_labels
from sdpmetric.core.sample_weight import check_mean_weights
from sdpmetric.sums import terms
from sdpmetric.sums.problem import MetricProblem


@dataclass(init=False, eq=False, repr=False)
class LSMLProblem(MetricProblem):
    """Least squares metric learning from relative comparisons (Liu et al. 2012) [LGZJW2012], in a convex form.

    Quadruplets (a, b, c, d) state that a and b are nearer than c and d. Minimize over positive definite matrices, with
    D the squared distance and the LogDet divergence from M0::

        comparison_weight * mean_t [ D(a, b) - D(c, d) ]_+^2  +  trace(M M0^-1) - log det(M M0^-1) - d

    The paper, and metric-learn, square the excess of the distances themselves, ``sqrt D(a, b) - sqrt D(c, d)``; a
    difference of square roots is not convex in M, and no optimum of it is proven. For squared distances it is convex,
    and both are 0 for the same quadruplets.

    Parameters
    ----------
    X : (n, d) array
    quadruplets : (t, 4) integer array
        Row numbers of X: the near pair, then the far one.
    weights : (t,) array, optional
        Weights of quadruplets; they are divided by their sum.
    prior : {"identity", "covariance", "random"} or (d, d) array, default "identity"
        What the metric stays near, positive definite: the identity divided by the largest variance of the data in any
        direction, the inverse of their covariance with 0.1 % of the mean variance added, a random matrix (of seed 0),
        or a given one.
    comparison_weight : float, default 1

    Examples
    --------
    >>> import sdpmetric as sm
    >>> X, y = sm.datasets.load("iris")
    >>> compared = [[0, 1, 2, 60], [50, 51, 52, 120], [100, 101, 102, 10]]
    >>> sm.solve(sm.LSMLProblem(X, compared)).status.word
    'optimal'
    """

    statement: ClassVar[str] = "lsml"
    title: ClassVar[str] = "LSML (Liu et al. 2012), convex"

    def __init__(
        self,
        X: ArrayLike,
        quadruplets: ArrayLike,
        weights: ArrayLike | None = None,
        prior: ArrayLike | str = "identity",
        comparison_weight: float = 1.0,
    ) -> None:
        rows = np.asarray(quadruplets)
        w = np.ones(len(rows)) if weights is None else check_mean_weights("weights", weights, len(rows), "quadruplet")
        share = 1.0 / float(w.sum())
        mean = validation.check_weight("comparison_weight", comparison_weight) * share
        push = terms.QuadrupletHinge(rows, margin=0.0, loss="squared_hinge", weights=w)
        data = validation.check_examples(X)
        super().__init__(data, mean * push + terms.LogDet(to=named_prior(prior, data, scaled=True)))

    @classmethod
    def from_labels(
        cls,
        X: ArrayLike,
        y: ArrayLike,
        n_quadruplets: int = 1000,
        prior: ArrayLike | str = "identity",
        comparison_weight: float = 1.0,
        *,
        sample_weight: ArrayLike | None = None,
        random_state: int | None = None,
    ) -> LSMLProblem:
        """State LSML for labeled data: a similar pair with a dissimilar one, both drawn at random.

        Parameters
        ----------
        X : (n, d) array
        y : (n,) array
            Class labels of any kind; at least two classes.
        n_quadruplets : int, default 1000
            The largest number that is drawn.
        prior, comparison_weight
            As in the constructor.
        sample_weight : (n,) array, optional
            Nonnegative; a quadruplet has the product of its four examples' weights.
        random_state : int, optional
            Seed of the draw; default 0.
        """
        data = validation.check_examples(X)
        rows, similar, weights = weighted_pairs_of_labels(y, len(data), n_quadruplets, random_state, sample_weight)
        first, second = drawn_quadruplets(similar, n_quadruplets, random_state)
        quadruplets = np.concatenate([rows[first], rows[second]], axis=1)
        products = None if weights is None else weights[first] * weights[second]
        return cls(data, quadruplets, products, prior, comparison_weight)


def drawn_quadruplets(
    similar: NDArray[np.bool_], count: int, random_state: int | None
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return numbers of similar pairs, and of their dissimilar pairs."""
    kinds = np.flatnonzero(similar), np.flatnonzero(~similar)
    if not len(kinds[0]):
        raise ValueError("every class has one member, so no pair is similar; merge classes.")
    rng = validation.generator(random_state, 0)
    size = min(count, max(map(len, kinds)))
    first, second = (kind[np.resize(rng.permutation(len(kind)), size)] for kind in kinds)
    return first, second
