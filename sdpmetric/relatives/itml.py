"""Information-theoretic metric learning (ITML), offline with slack, as a sum of terms."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sdpmetric.arrays import SMALLEST_DIVISOR, FloatArray, allow_underflow
from sdpmetric.core import validation
from sdpmetric.core.certificate import Certificate, DualityCertificate, Multipliers
from sdpmetric.core.constraints import Constraints
from sdpmetric.core.named import named_prior
from sdpmetric.core.pairs import check_labeled_pairs, weight_of_slacks, weighted_pairs_of_labels
from sdpmetric.core.problem import NOT_STATED, Problem
from sdpmetric.core.registry import solver
from sdpmetric.core.sample_weight import check_pair_weights
from sdpmetric.linalg import psd
from sdpmetric.linalg.distances import distances
from sdpmetric.sums import descent
from sdpmetric.sums.domains import Domain
from sdpmetric.sums.problem import MetricProblem
from sdpmetric.sums.terms.base import Term
from sdpmetric.sums.terms.log_det import LogDet
from sdpmetric.sums.terms.pairs import DistanceBounds

# Percentiles of the distances that are their default bounds, as in the paper's experiments.
PERCENTILES = (5.0, 95.0)


@dataclass(init=False, eq=False, repr=False)
class ITMLProblem(MetricProblem):
    """ITML with slack as a convex program (Davis, Kulis, Jain, Sra and Dhillon 2007) [DKJSD2007].

    Minimize over positive definite matrices A and positive slacks xi, with ``D`` the squared distance under A::

        D_ld(A, A0) + gamma * D_ld(diag(xi), diag(xi0))

    subject to ``D(a, b) <= xi_ab`` for similar and ``D(a, b) >= xi_ab`` for dissimilar pairs; ``xi0`` is `upper` for
    similar and `lower` for dissimilar pairs, and ``D_ld(A, B) = trace(A B^-1) - log det(A B^-1) - d``. For a given A
    the best slacks are ``max(upper, D)`` and ``min(lower, D)``, so the objective is one of A alone: a sum of the
    terms `LogDet` and `DistanceBounds` with ``loss="log_ratio"``, infinite at singular metrics. Multipliers of pairs
    are slopes of the divergences of their slacks; negative multipliers are taken as 0.

    Parameters
    ----------
    X : (n, d) array
        Finite numbers; float32 stays float32, everything else becomes float64.
    pairs : (p, 2) integer array
        Row numbers of X. A repeated pair counts as often as it is listed.
    similar : (p,) array
        bool, or +1 for similar and -1 for dissimilar.
    upper, lower : float, optional
        Bounds on squared distances, ``0 < upper < lower``; default: the 5th and 95th percentile of the given pairs'
        squared distances under the prior, those that are 0 left out.
    gamma : float or "auto", default 1
        Weight of the slacks, > 0; "auto": 1 while the pairs' weights add up to 100 at most, and 100
        divided by their sum if to more; similar pairs of equal examples do not count.
    prior : {"identity", "covariance", "random"} or (d, d) array, default "identity"
        Positive definite ``A0``: the identity, the inverse of the data's covariance with 0.1 % of the mean variance
        added, a random matrix (of seed 0), or a given one.
    pair_weights : (p,) array, optional
        Positive weights of the divergences of the pairs' slacks; default 1.

    Raises
    ------
    ValueError
        If there are no pairs, a dissimilar pair has two equal examples, or `upper` is not below `lower`.

    Examples
    --------
    >>> import sdpmetric as sm
    >>> X, y = sm.datasets.load("iris")
    >>> pairs, similar = sm.constraints.pairs(y, 30)
    >>> itml = sm.ITMLProblem(X, pairs, similar)
    >>> bool(sm.solve(itml).relative_gap <= 1e-3)
    True
    """

    weights: ClassVar[tuple[str, ...]] = ("gamma",)
    statement: ClassVar[str] = "itml"
    certificate_title: ClassVar[str] = "ITML"
    counted: ClassVar[str] = "pairs"

    terms: tuple[Term, ...] = field(init=False, metadata=NOT_STATED)
    domain: Domain = field(init=False, metadata=NOT_STATED)
    names: tuple[str, ...] = field(init=False, metadata=NOT_STATED)
    pairs: NDArray[np.int32]
    similar: NDArray[np.bool_]
    upper: float
    lower: float
    gamma: float
    prior: FloatArray
    pair_weights: FloatArray | None

    def __init__(
        self,
        X: ArrayLike,
        pairs: ArrayLike,
        similar: ArrayLike,
        upper: float | None = None,
        lower: float | None = None,
        gamma: float | Literal["auto"] = 1.0,
        prior: ArrayLike | str = "identity",
        pair_weights: ArrayLike | None = None,
    ) -> None:
        data = validation.check_examples(X)
        rows, flags = check_labeled_pairs(pairs, similar, len(data))
        if not len(rows):
            raise ValueError("there are no pairs; ITML needs at least one.")
        same = (data[rows[:, 0]] == data[rows[:, 1]]).all(axis=1) & ~flags
        if same.any():
            raise ValueError(
                f"dissimilar pair {rows[same][0].tolist()} has two equal examples, whose distance is 0 under every "
                "metric; leave it out."
            )
        A0 = validation.check_positive_definite("prior", named_prior(prior, data), data.shape[1])
        L0 = psd.factor(A0)
        D0 = distances(np.asarray(data, dtype=np.float64) @ L0.T, rows[:, 0], rows[:, 1])
        low, high = np.percentile(D0[D0 > 0] if D0.any() else D0, PERCENTILES).tolist()
        self.pairs, self.similar, self.prior = rows, flags, A0
        self.upper = validation.check_number("upper", low if upper is None else upper, 0.0)
        self.lower = validation.check_number("lower", high if lower is None else lower, 0.0)
        self.pair_weights = check_pair_weights(pair_weights, len(rows))
        if gamma == "auto":
            # Under gamma='auto' all slacks together weigh at most 100, and each at most its pair's weight.
            gamma = weight_of_slacks(data, rows, flags, self.pair_weights, 1.0, 100.0)
        self.gamma = validation.check_positive("gamma", gamma)
        if not 0.0 < self.upper < self.lower:
            raise ValueError(
                f"upper must be positive and below lower, got upper={self.upper:g} and lower={self.lower:g}: similar "
                "pairs must be nearer than upper, dissimilar ones farther than lower. Bounds you omit default to "
                "distance percentiles; pass both."
            )
        gammas = self.gamma * (np.ones(len(rows)) if self.pair_weights is None else self.pair_weights)
        signs, bounds = np.where(flags, 1.0, -1.0), np.where(flags, self.upper, self.lower)
        slacks = DistanceBounds(rows, loss="log_ratio", sides=signs, bounds=bounds, weights=gammas)
        self._set(data, (LogDet(to=A0), slacks), Domain.of(data.shape[1]))

    @classmethod
    def from_labels(
        cls,
        X: ArrayLike,
        y: ArrayLike,
        n_pairs: int | None = None,
        *,
        upper: float | None = None,
        lower: float | None = None,
        gamma: float | Literal["auto"] = 1.0,
        prior: ArrayLike | str = "identity",
        sample_weight: ArrayLike | None = None,
        random_state: int | None = None,
    ) -> ITMLProblem:
        """State ITML for labeled data: pairs of equal labels are similar, all others dissimilar.

        Equal examples of different labels are not paired: their distance is 0 under every metric.

        Parameters
        ----------
        X : (n, d) array
        y : (n,) array
            Class labels of any kind; at least two classes.
        n_pairs : int, optional
            The largest number of pairs of each kind, drawn at random; default: all pairs ``a < b``.
        upper, lower, gamma, prior
            As in `ITMLProblem`.
        sample_weight : (n,) array, optional
            Nonnegative; a pair has the product of its examples' weights. Whole weights are repeated rows, for given
            bounds.
        random_state : int, optional
            Seed of the draw; default 0.
        """
        data = validation.check_examples(X)
        pairs, similar, w = weighted_pairs_of_labels(y, len(data), n_pairs, random_state, sample_weight)
        paired = similar | (data[pairs[:, 0]] != data[pairs[:, 1]]).any(axis=1)
        w = None if w is None else w[paired]
        return cls(data, pairs[paired], similar[paired], upper, lower, gamma, prior, w)

    def describe(self) -> str:
        return (
            f"ITML with slack (Davis et al. 2007): {self.X.shape[0]:,} examples, {self.X.shape[1]} features, "
            f"{int(self.similar.sum()):,} similar and {int((~self.similar).sum()):,} dissimilar pairs; "
            f"upper {self.upper:g}, lower {self.lower:g}, gamma {self.gamma:g}"
        )

    def with_weights(self, **values: float) -> Self:
        """State the same problem with another `gamma`."""
        return Problem.with_weights(self, **values)

    @allow_underflow
    def certify(
        self, components: ArrayLike | None = None, *, metric: ArrayLike | None = None, dual: Multipliers | None = None
    ) -> Certificate:
        """Certify a point; see `MetricProblem.certify`. The weakness names pairs too near for the digits of floats."""
        certificate = super().certify(components, metric=metric, dual=dual)
        if not isinstance(certificate, DualityCertificate) or certificate.weakness is not None:
            return certificate
        L, _ = self.check_point(components, metric)
        ratios = distances(self.centered @ L.T, *self.pairs.T) / np.where(self.similar, self.upper, self.lower)
        short = ~self.similar & (ratios < 1.0)  # the slack of these is the bound minus the shortfall
        w = 1.0 if self.pair_weights is None else self.pair_weights[short]
        # 1e-15: the error of the ratio of a slack to its bound, absolute.
        with np.errstate(over="ignore"):
            error = 1e-15 * float(np.sum(self.gamma * w / np.maximum(ratios[short], SMALLEST_DIVISOR)))
        if not error > 1e-7 * certificate.objective:
            return certificate
        return replace(
            certificate,
            weakness=f"a dissimilar pair is only {float(ratios[short].min()):.1g} of its bound apart, and floats have "
            "too few digits for the logarithm of that; leave such pairs out",
        )

    def lists(self) -> dict[str, NDArray[np.generic]]:
        """See `MetricProblem.lists`."""
        return {"pairs": self.pairs, "similar": self.similar}

    def constraints(self, components: FloatArray, dual: Multipliers | None) -> Constraints:
        """Return pairs; see `Constrained.constraints`. Slacks are in units of `gamma`."""
        pairs, (excess,) = super().constraints(components, dual), self.total.excess(components)
        pair = np.flatnonzero((np.asarray(pairs.dual) > 0.0) | (excess > 0.0))
        divergence, slacks = pairs.sums.values()
        sums, columns = {"divergence": divergence, "slack": slacks / self.gamma}, {"pair": pair}
        slopes = {"gamma": sums["slack"]}
        return replace(pairs, columns={**columns, "similar": self.similar[pair]}, sums=sums, slopes=slopes)


solver(ITMLProblem, "factored", tol=1e-6, rank=3)(descent.steps)  # without kinks, descent proves more
