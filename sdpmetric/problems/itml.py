"""Information-theoretic metric learning (ITML), offline with slack: the statement, its objective, its certificate.

As a sum, `terms.LogDet` with `terms.DistanceBounds(loss="log_ratio")`, it takes up to one and a half times as long.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sdpmetric.core import validation
from sdpmetric.core.certificate import DualityCertificate
from sdpmetric.core.constraints import Constraints, LogRatio
from sdpmetric.core.multipliers import Multipliers, check_multipliers
from sdpmetric.core.pairs import check_labelled_pairs, weighted_pairs_of_labels
from sdpmetric.core.problem import Extras, SmoothProblem
from sdpmetric.core.sample_weight import check_pair_weights
from sdpmetric.linalg import psd
from sdpmetric.linalg.distances import adjoint, distances
from sdpmetric.problems.itml_bounds import SMALLEST, ITMLBounds

FloatArray = NDArray[np.float64]

# Percentiles of the distances that bound them where no bounds are given, as in the paper's experiments.
PERCENTILES = (5.0, 95.0)
# An objective below this per dimension and pair is nothing but rounding.
ZERO = 1e-15


@dataclass(frozen=True, init=False, eq=False, repr=False)
class ITMLProblem(SmoothProblem):
    """ITML with slack as a convex program (Davis, Kulis, Jain, Sra and Dhillon 2007) [DKJSD2007].

    Minimize over positive definite matrices A and positive slacks xi, with ``D`` the squared distance under A::

        D_ld(A, A0) + gamma * D_ld(diag(xi), diag(xi0))

    subject to ``D(a, b) <= xi_ab`` for similar and ``D(a, b) >= xi_ab`` for dissimilar pairs; ``xi0`` is `upper` for
    similar and `lower` for dissimilar pairs, and ``D_ld(A, B) = trace(A B^-1) - log det(A B^-1) - d``. For a given A
    the best slacks are ``max(upper, D)`` and ``min(lower, D)``, so that the objective is one of A alone.

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
    gamma : float, default 1
        Weight of the slacks, > 0.
    prior : (d, d) array, optional
        Positive definite ``A0``; default: the identity.
    pair_weights : (p,) array, optional
        Positive: the divergence of a pair's slack counts so many times; default 1.

    Attributes
    ----------
    X : (n, d) array
    pairs : (p, 2) int32 array
    similar : (p,) bool array
    upper, lower, gamma : float
    prior, pair_weights : (d, d) array, and (p,) array or None

    Raises
    ------
    ValueError
        If the data are not finite; a pair is out of range, of a row with itself, or both similar and dissimilar; the
        two examples of a dissimilar pair coincide; bounds are not in order; gamma is not positive; or the prior is not
        positive definite.
    """

    statement: ClassVar[str] = "itml"
    weights: ClassVar[tuple[str, ...]] = ("gamma",)

    X: NDArray[np.floating]
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
        gamma: float = 1.0,
        prior: ArrayLike | None = None,
        pair_weights: ArrayLike | None = None,
    ) -> None:
        data = validation.check_examples(X)
        rows, flags = check_labelled_pairs(pairs, similar, len(data))
        if not len(rows):
            raise ValueError("there are no pairs; ITML needs at least one.")
        same = (data[rows[:, 0]] == data[rows[:, 1]]).all(axis=1) & ~flags
        if same.any():
            raise ValueError(
                f"dissimilar pair {rows[same][0].tolist()} has two equal examples, whose distance is 0 under every "
                "metric; leave it out."
            )
        d = data.shape[1]
        A0 = np.eye(d) if prior is None else validation.check_positive_definite("prior", prior, d)
        L0 = psd.factor(A0)
        D0 = distances(np.asarray(data, dtype=np.float64) @ L0.T, rows[:, 0], rows[:, 1])
        low, high = np.percentile(D0[D0 > 0] if D0.any() else D0, PERCENTILES).tolist()
        values = {
            "X": data,
            "pairs": rows,
            "similar": flags,
            "upper": validation.check_number("upper", low if upper is None else upper, 0.0),
            "lower": validation.check_number("lower", high if lower is None else lower, 0.0),
            "gamma": validation.check_number("gamma", gamma, 0.0),
            "prior": A0,
            "pair_weights": check_pair_weights(pair_weights, len(rows)),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        if not 0.0 < self.upper < self.lower:
            raise ValueError(
                f"upper must be positive and below lower, got upper={self.upper:g} and lower={self.lower:g}: similar "
                "pairs are to be nearer than upper, dissimilar ones further than lower. Bounds you omit default to "
                "distance percentiles; pass both."
            )
        if self.gamma == 0.0:
            raise ValueError("gamma must be positive; the smaller it is, the more the slacks may stray.")

    @classmethod
    def from_labels(
        cls,
        X: ArrayLike,
        y: ArrayLike,
        n_pairs: int | None = None,
        *,
        upper: float | None = None,
        lower: float | None = None,
        gamma: float = 1.0,
        prior: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        random_state: int | None = None,
    ) -> ITMLProblem:
        """State ITML for labelled data: pairs of equal labels are similar, all others dissimilar.

        Equal examples of different labels are not paired: their distance is 0 under every metric.

        Parameters
        ----------
        X : (n, d) array
        y : (n,) array
            Class labels of any kind; at least two classes.
        n_pairs : int, optional
            Pairs of each kind at most, drawn at random; default: all pairs ``a < b``.
        upper, lower, gamma, prior
            As in `ITMLProblem`.
        sample_weight : (n,) array, optional
            Nonnegative; a pair has the product of its examples'. Whole weights are repeated rows, for given bounds.
        random_state : int, optional
            Seed of the draw; default 0.
        """
        data = validation.check_examples(X)
        pairs, similar, w = weighted_pairs_of_labels(y, len(data), n_pairs, random_state, sample_weight)
        kept = similar | (data[pairs[:, 0]] != data[pairs[:, 1]]).any(axis=1)
        w = None if w is None else w[kept]
        return cls(data, pairs[kept], similar[kept], upper, lower, gamma, prior, w)

    # -- the statement ------------------------------------------------------------------------------------------

    def describe(self) -> str:
        """Say in one sentence what is minimised, over how much data."""
        return (
            f"ITML with slack (Davis et al. 2007): {self.X.shape[0]:,} examples, {self.X.shape[1]} features, "
            f"{int(self.similar.sum()):,} similar and {int((~self.similar).sum()):,} dissimilar pairs; "
            f"upper {self.upper:g}, lower {self.lower:g}, gamma {self.gamma:g}"
        )

    @cached_property
    def ends(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """First and second rows of the pairs."""
        return self.pairs[:, 0], self.pairs[:, 1]

    @cached_property
    def signs(self) -> FloatArray:
        """1 for similar and -1 for dissimilar pairs."""
        return np.where(self.similar, 1.0, -1.0)

    @cached_property
    def bounds(self) -> FloatArray:
        """``xi0``: upper for similar and lower for dissimilar pairs."""
        return np.where(self.similar, self.upper, self.lower)

    @cached_property
    def root(self) -> FloatArray:
        """A symmetric square root of the prior, (d, d): in the coordinates of `points` the prior is the identity."""
        values, vectors = np.linalg.eigh(self.prior)
        return np.asarray((vectors * np.sqrt(values)) @ vectors.T)

    @cached_property
    def points(self) -> FloatArray:
        """The data less their mean, where the prior is the identity, (n, d)."""
        X = np.asarray(self.X, dtype=np.float64)
        return np.ascontiguousarray((X - X.mean(axis=0)) @ self.root)

    @cached_property
    def gammas(self) -> FloatArray:
        """``gamma_p``: `gamma` times the weight of each pair, (p,)."""
        return self.gamma * (np.ones(len(self.pairs)) if self.pair_weights is None else self.pair_weights)

    def objective(self, components: ArrayLike | None = None, *, metric: ArrayLike | None = None) -> float:
        """The divergences of metric and best slacks; infinite for a singular metric.

        Parameters
        ----------
        components, metric
            As in `Problem.objective`.
        """
        L, _ = validation.check_point(components, metric, self.X.shape[1])
        factor = self._inner(L)
        return self._value(factor, self.slack_ratios(factor))

    def _inner(self, components: FloatArray) -> FloatArray:
        return np.asarray(np.linalg.solve(self.root, components.T).T)

    def slack_ratios(self, factor: FloatArray) -> FloatArray:
        """Best slacks at a factor on `points`, over their bounds; 1 where the bound is satisfied."""
        ratios = distances(self.points @ factor.T, *self.ends) / self.bounds
        return np.where(self.similar, np.maximum(ratios, 1.0), np.minimum(ratios, 1.0))

    def _value(self, factor: FloatArray, ratios: FloatArray) -> float:
        sigma: FloatArray = np.asarray(np.linalg.svd(factor, compute_uv=False), dtype=np.float64)
        if len(sigma) < factor.shape[1] or not (sigma > 0).all() or not (ratios > 0).all():
            return math.inf
        value = float(_burg(sigma**2).sum() + self.gammas @ _burg(ratios))
        return value if value > ZERO * (len(sigma) + float(self.gammas.sum())) else 0.0

    # -- coordinates for solvers: there the prior is the identity -----------------------------------------------------

    @cached_property
    def balance(self) -> FloatArray:
        """A symmetric (d, d) matrix B: the metric ``B @ B`` on `points` puts pairs between their bounds, on average."""
        middle = math.sqrt(self.upper) * math.sqrt(self.lower)  # their product may underflow
        mean = adjoint(self.points, *self.ends, np.full(len(self.pairs), 1 / len(self.pairs)))
        values, vectors = np.linalg.eigh(np.eye(len(mean)) + mean / middle)
        return np.asarray((vectors / np.sqrt(np.maximum(values, np.finfo(float).eps * values[-1]))) @ vectors.T)

    def start(self) -> FloatArray:
        """Where a solver begins, (d, d): the prior, made smaller where it puts pairs beyond their bounds."""
        return self.balance

    def smooth(self, factor: FloatArray) -> tuple[float, FloatArray]:
        """The objective at a square factor on `points`, and its gradient."""
        ratios = np.maximum(self.slack_ratios(factor), SMALLEST)
        pull = adjoint(self.points, *self.ends, self.gammas * (1.0 - 1.0 / ratios) / self.bounds)
        U, sigma, Vt = np.linalg.svd(factor)
        sigma = np.maximum(sigma, SMALLEST)
        value = float(_burg(sigma**2).sum() + self.gammas @ _burg(ratios))
        return value, 2 * (factor - (U / sigma) @ Vt + factor @ pull)

    def lift(self, factor: FloatArray) -> FloatArray:
        """Components in the data's own coordinates from a factor on `points`."""
        return factor @ self.root

    # -- the certificate --------------------------------------------------------------------------------------------

    def multipliers(self, components: FloatArray) -> FloatArray:
        """The multipliers ``gamma |1 / xi0 - 1 / xi|`` that belong to a point's slacks, a dual candidate."""
        ratios = np.maximum(self.slack_ratios(self._inner(components)), SMALLEST)
        return np.abs(self.gammas * (1.0 - 1.0 / ratios) / self.bounds)

    @cached_property
    def _proven(self) -> ITMLBounds:
        return ITMLBounds(self)

    def certify(
        self, components: ArrayLike | None = None, *, metric: ArrayLike | None = None, dual: Multipliers | None = None
    ) -> DualityCertificate:
        """Certify any point; see `Problem.certify`.

        The lower bound of multipliers ``a >= 0`` with signs s is ``log det(I + sum s_p a_p v_p v_p^T) + sum_p gamma_p
        log(1 - s_p a_p xi0_p / gamma_p)``, v in the coordinates of `points`, at the best of all multiples of a. See
        ``docs/itml.md``.

        Parameters
        ----------
        components, metric
            As there. The objective of a singular metric is infinite.
        dual : (p,) array, optional
            Multipliers of the pairs in their order; negative ones are taken as 0. Default: those of the point's slacks.
        """
        L, primal_residual = validation.check_point(components, metric, self.X.shape[1])
        factor = self._inner(L)
        ratios = self.slack_ratios(factor)
        objective = self._proven.highest(L)
        tried = self.multipliers(L) if dual is None else dual
        given = check_multipliers(tried, len(self.pairs), "multipliers, one per pair")
        a = np.maximum(given, 0.0)
        bound, scaling = self._proven.lower_bound(a)
        D = distances(self.points @ factor.T, *self.ends)
        slack = float(np.sum(scaling * a * np.abs(D - self.bounds * ratios)))
        return DualityCertificate(
            objective=objective,
            constraints="pairs",
            lower_bound=bound,
            primal_residual=primal_residual,
            dual_residual=max(float((a - given).max(initial=0.0)), 1.0 - scaling if scaling < 1.0 else 0.0),
            complementarity=slack / max(1.0, objective),
            n_active=int(np.count_nonzero(ratios != 1.0)),
            program="ITML",
            resolution=ZERO * (L.shape[1] + float(self.gammas.sum())),
        )

    def constraints(self, components: FloatArray, dual: Multipliers | None, extras: Extras) -> Constraints:
        """All pairs; see `Constrained.constraints`."""
        factor = self._inner(components)
        tried = self.multipliers(components) if dual is None else dual
        a = np.maximum(check_multipliers(tried, len(self.pairs), "multipliers, one per pair"), 0.0)
        a = self._proven.lower_bound(a)[1] * a
        D, (first, second) = distances(self.points @ factor.T, *self.ends), self.ends
        loss = LogRatio(self.gammas, self.bounds, self.signs)
        excess = self.signs * (D - self.bounds)
        slack = float(loss.values(excess).sum()) / self.gamma
        return Constraints(
            dual=a,
            roles={"first": first, "second": second},
            columns={"pair": np.arange(len(a)), "similar": self.similar},
            multipliers=a,
            excess=excess,
            loss=loss,
            stretch=[(first, second, -self.signs * D)],
            sums={"divergence": self._value(factor, np.ones(len(a))), "slack": slack},
            slopes={"gamma": slack},
        )


def _burg(ratios: FloatArray) -> FloatArray:
    """``r - log r - 1`` of each number."""
    # log1p keeps the digits near 1, log those near 0.
    logs = np.where(ratios > 0.5, np.log1p(np.maximum(ratios, 0.5) - 1.0), np.log(ratios))
    return np.asarray(ratios - 1.0 - logs)
