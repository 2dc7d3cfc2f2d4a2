"""Losses of pairs: hinges, bounds, targets, a budget, and distances that should be large."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from sdpmetric.arrays import FloatArray
from sdpmetric.core import pairs as pair_checks
from sdpmetric.core import validation
from sdpmetric.core.constraints import TermConstraints
from sdpmetric.core.files import ProofTerm
from sdpmetric.core.pairs import check_similar
from sdpmetric.engine.lazy import cached
from sdpmetric.lines import distance, divided
from sdpmetric.losses import (
    LOSSES,
    HalfSquare,
    Hard,
    Linear,
    LogRatio,
    NegativeRoot,
    ScalarLoss,
    Weighted,
    find_loss,
)
from sdpmetric.sums.terms.base import errors_of
from sdpmetric.sums.terms.margins import MarginLoss, Rows, check_term_pairs, item_weights

# Multipliers of roots are positive.
SMALLEST_MULTIPLIER = 1e-150


@dataclass(frozen=True, eq=False, repr=False)
class PairHinge(MarginLoss):
    """``sum_p w_p l(margin - y_p (b - D(p)))`` over pairs, y 1 if similar and -1 if not, as in POLA [SSN2004].

    Similar pairs should be nearer than ``b - margin``, dissimilar pairs farther than ``b + margin``.

    Parameters
    ----------
    pairs : (p, 2) integer array
        Row numbers of X; pairs may repeat.
    similar : (p,) array
        bool, or +1 for similar and -1 for dissimilar.
    threshold : float, default 2
        ``b``.
    margin : float, default 1
    loss : {"hinge", "squared_hinge", "logistic"}, default "hinge"
    weight : float, default 1
    weights : (p,) array, optional
        ``w_p >= 0``; default 1.
    sample_weight : (n,) array, optional
        Weights of examples; each pair is multiplied by that of its first row.

    Raises
    ------
    ValueError
        If `similar` is missing.

    Examples
    --------
    >>> import sdpmetric as sm
    >>> from sdpmetric import terms
    >>> X, y = sm.datasets.load("iris")
    >>> pairs, similar = sm.constraints.pairs(y, 30)
    >>> stated = sm.MetricProblem(X, terms.PairHinge(pairs, similar, threshold=3.0) + 0.1 * terms.Frobenius())
    >>> bool(sm.solve(stated).relative_gap <= 1e-3)
    True
    """

    pairs: ArrayLike | None = None
    similar: ArrayLike | None = None
    threshold: float = 2.0
    margin: float = 1.0
    loss: str = "hinge"

    name: ClassVar[str] = "pair_hinge"

    def bind(self, X: NDArray[np.floating]) -> Self:
        rows = check_term_pairs(self.name, self.pairs, len(X))
        if self.similar is None:
            raise ValueError(f"{self.name} needs similar=, a flag for each pair: True if it is similar.")
        flags = check_similar(self.similar, len(rows))
        margin = validation.check_number("margin", self.margin, 0.0)
        threshold = validation.check_number("threshold", self.threshold, 0.0)
        find_loss(self.loss, type(self).__name__)
        return replace(self.weighted(X, rows[:, 0]), pairs=rows, similar=flags, margin=margin, threshold=threshold)

    def describe(self) -> str:
        similar = int(np.count_nonzero(np.asarray(self.similar)))
        kinds = f"{similar:,} similar and {self.size - similar:,} dissimilar pairs"
        return f"{self.scalar.name} over {kinds} with threshold {self.threshold:g}"

    @property
    def lists(self) -> Mapping[str, NDArray[np.generic]]:
        return {"pairs": np.asarray(self.pairs), "similar": np.asarray(self.similar)}

    @cached
    def rows(self) -> Rows:
        """``margin - y b + y D``, y 1 for similar and -1 for dissimilar pairs."""
        y = np.where(np.asarray(self.similar), 1.0, -1.0)
        loss = find_loss(self.loss, self.name)
        return Rows.of_pairs(loss, self.pairs, y, self.margin - y * self.threshold, self.margin or 1.0)


@dataclass(frozen=True, eq=False, repr=False)
class DistanceBounds(MarginLoss):
    """``sum_p w_p l(D(p) - at_most) + sum_p w_p l(at_least - D(p))``, or hard constraints.

    With ``loss="log_ratio"`` the loss is the divergence ``r - log r - 1`` of the slack from the bound, r being their
    ratio, as in ITML [DKJSD2007].

    Parameters
    ----------
    pairs : (p, 2) integer array
        Row numbers of X.
    at_most : number or (p,) array, optional
        Upper bounds; infinite bounds are left out.
    at_least : number or (p,) array, optional
        Lower bounds; those of 0 are left out.
    loss : {"hard", "log_ratio", "hinge", "squared_hinge", "logistic"}, default "hard"
        Hard bounds have no weight: that of the term has no effect, and 0 raises an error.
    weight : float, default 1
    weights : (p,) array, optional
        ``w_p >= 0``; default 1. Hard bounds of weight 0 are left out; other weights of theirs have no effect.
    sample_weight : (n,) array, optional
        Weights of examples; each pair is multiplied by that of its first row.

    Attributes
    ----------
    sides : (m,) array
        For a bound term, 1 for upper and -1 for lower bounds; upper bounds come first.
    bounds : (m,) array

    Raises
    ------
    ValueError
        If no bound binds, bounds are out of order, or one binds from below on two equal examples.

    Examples
    --------
    >>> import sdpmetric as sm
    >>> from sdpmetric import terms
    >>> X, y = sm.datasets.load("iris")
    >>> pairs, similar = sm.constraints.pairs(y, 30)
    >>> near = terms.DistanceBounds(pairs[similar], at_most=1.0, loss="log_ratio")
    >>> stated = sm.MetricProblem(X, 0.1 * near + terms.LogDet())
    >>> bool(sm.solve(stated).relative_gap <= 1e-3)
    True
    """

    pairs: ArrayLike | None = None
    at_most: ArrayLike | None = None
    at_least: ArrayLike | None = None
    loss: str = "hard"
    sides: FloatArray | None = None
    bounds: FloatArray | None = None

    name: ClassVar[str] = "distance_bounds"

    def bind(self, X: NDArray[np.floating]) -> Self:
        rows = check_term_pairs(self.name, self.pairs, len(X))
        if self.loss not in ("hard", "log_ratio"):
            find_loss(self.loss, type(self).__name__)
        upper = self._bounds("at_most", self.at_most, len(rows), np.inf)
        lower = self._bounds("at_least", self.at_least, len(rows), 0.0)
        crossed = np.flatnonzero(lower > upper)
        if len(crossed):
            p = crossed[0]
            raise ValueError(
                f"{self.name}: pair {rows[p].tolist()} has at_least {lower[p]:g} above at_most {upper[p]:g}; "
                "bounds must be in order."
            )
        w = item_weights(self.name, self.weights, self.sample_weight, rows[:, 0], len(X))
        used = (w > 0.0) | (self.loss != "hard")
        above, below = np.flatnonzero(np.isfinite(upper) & used), np.flatnonzero((lower > 0.0) & used)
        if not len(above) + len(below):
            pair = "" if used.all() else ", of a pair whose weight is not 0"
            raise ValueError(f"{self.name} needs at_most= or at_least=, with a bound that is not infinite or 0{pair}.")
        if self.loss == "log_ratio" and not (upper[above] > 0.0).all():
            raise ValueError(f"{self.name}: at_most must be positive with loss='log_ratio', which divides by it.")
        equal = (X[rows[below, 0]] == X[rows[below, 1]]).all(axis=1)
        if equal.any():
            raise ValueError(
                f"{self.name}: pair {rows[below][equal][0].tolist()} has two equal examples, whose distance is 0 "
                f"under every metric and below at_least ({int(equal.sum())} such pairs); leave it out."
            )
        sides = np.repeat([1.0, -1.0], [len(above), len(below)])
        bounds, bounded = np.concatenate([upper[above], lower[below]]), np.concatenate([above, below])
        weights = np.ones(len(bounded)) if self.loss == "hard" else w[bounded]
        cleared = replace(self, at_most=None, at_least=None, sample_weight=None)
        return replace(cleared, pairs=rows[bounded], weights=weights, sides=sides, bounds=bounds)

    def _bounds(self, name: str, bounds: ArrayLike | None, p: int, default: float) -> FloatArray:
        owner = f"{name} of {self.name}"
        values = validation.check_column(owner, default if bounds is None else bounds, p, "pair")
        if not (values >= 0.0).all():
            raise ValueError(f"{owner} must be at least 0, got {values[~(values >= 0.0)][0]:g}.")
        return values

    def describe(self) -> str:
        upper = int(np.count_nonzero(self.rows.combination.data > 0.0))
        kinds = [(upper, "upper"), (self.size - upper, "lower")]
        words = " and ".join(f"{count:,} {kind}" for count, kind in kinds if count)
        return f"{self.scalar.name} {'' if self.scalar.hard else 'over '}{words} bounds on distances"

    @cached
    def rows(self) -> Rows:
        """``D - b`` for upper bounds and ``b - D`` for lower bounds, in units of the median bound."""
        s, b = np.asarray(self.sides, dtype=np.float64), np.asarray(self.bounds, dtype=np.float64)
        losses: dict[str, ScalarLoss] = {"hard": Hard(), "log_ratio": LogRatio(s, b)}
        unit = float(np.median(b[b > 0.0])) if b.any() else 1.0
        return Rows.of_pairs(losses.get(self.loss) or find_loss(self.loss, self.name), self.pairs, s, -s * b, unit)

    def row_text(self, t: int) -> str:
        """See `MarginLoss.row_text`; the log ratio is one of slacks xi to bounds."""
        ratio = divided(f"xi[{t}]", float(np.asarray(self.bounds)[t]))
        return f"{ratio} - log({ratio}) - 1" if self.loss == "log_ratio" else super().row_text(t)

    def constraint_text(self) -> list[str]:
        """See `Term.constraint_text`; those of the log ratio are about slacks."""
        if self.loss != "log_ratio":
            return super().constraint_text()
        pairs, sides = np.asarray(self.pairs).tolist(), np.asarray(self.sides).tolist()
        signs = ["<=" if side > 0.0 else ">=" for side in sides]
        return [f"{distance(i, j)} {sign} xi[{t}]" for t, ((i, j), sign) in enumerate(zip(pairs, signs, strict=True))]


@dataclass(frozen=True, eq=False, repr=False)
class DistanceTargets(MarginLoss):
    """``sum_p w_p / 2 (D(p) - y_p)^2``, on one side or both, the loss of LEGO [JKDG2008].

    Parameters
    ----------
    pairs : (p, 2) integer array
        Row numbers of X.
    targets : (p,) array or number
        ``y_p >= 0``, squared distances.
    sides : (p,) array or number, optional
        0, the default: the distance should equal the target; 1: at most the target; -1: at least the target.
    weight : float, default 1
    weights : (p,) array, optional
        ``w_p >= 0``; default 1.
    sample_weight : (n,) array, optional
        Weights of examples; each pair is multiplied by that of its first row.

    Examples
    --------
    >>> import numpy as np
    >>> import sdpmetric as sm
    >>> from sdpmetric import terms
    >>> X, y = sm.datasets.load("iris")
    >>> pairs, similar = sm.constraints.pairs(y, 30)
    >>> stated = sm.MetricProblem(X, 0.1 * terms.DistanceTargets(pairs, np.where(similar, 1.0, 9.0)) + terms.LogDet())
    >>> bool(sm.solve(stated).relative_gap <= 1e-3)
    True
    """

    pairs: ArrayLike | None = None
    targets: ArrayLike = 1.0
    sides: ArrayLike | None = None

    name: ClassVar[str] = "distance_targets"

    def bind(self, X: NDArray[np.floating]) -> Self:
        pairs = check_term_pairs(self.name, self.pairs, len(X))
        with errors_of(self.name):
            rows, targets, sides = pair_checks.check_targets(X, pairs, self.targets, self.sides)
        return replace(self.weighted(X, rows[:, 0]), pairs=rows, targets=targets, sides=sides)

    def describe(self) -> str:
        return f"half squares over {self.size:,} target distances"

    def listed_constraints(self, a: FloatArray, u: FloatArray, D: FloatArray) -> TermConstraints:
        """List each pair on the side on which it is, at most its target or at least that."""
        sides = np.asarray(self.sides, dtype=np.float64)
        sign = np.where(sides != 0.0, sides, np.where(u >= 0.0, 1.0, -1.0))
        rows = np.flatnonzero((sign * a > 0.0) | (sign * u > 0.0))
        first, second = np.asarray(self.pairs)[rows].T
        cost = Weighted(LOSSES["squared_hinge"], 0.5 * self.item_weights[rows])
        stretch = [(first, second, -sign[rows] * D[rows])]
        roles = {"first": first, "second": second}
        return TermConstraints(roles, np.maximum(sign * a, 0.0)[rows], (sign * u)[rows], cost, stretch)

    def proof_term(self, a: FloatArray) -> ProofTerm:
        """See `Term.proof_term`: half the square of a hinge for each side on which a pair costs."""
        sides, targets, w = (
            np.asarray(values, dtype=np.float64) for values in (self.sides, self.targets, self.weights)
        )
        above, below = np.flatnonzero(sides >= 0.0), np.flatnonzero(sides <= 0.0)
        rows, s = np.concatenate([above, below]), np.repeat([1.0, -1.0], [len(above), len(below)])
        arrays = {"places": np.arange(len(s)), "pairs": np.asarray(self.pairs)[rows], "factors": s}
        arrays |= {
            "offsets": -s * targets[rows],
            "weights": 0.5 * w[rows],
            "multipliers": np.maximum(s * a[rows], 0.0),
        }
        return ProofTerm({"term": "rows", "loss": "squared hinge", "weight": self.weight}, arrays)

    def row_text(self, t: int) -> str:
        """See `MarginLoss.row_text`: half the square on the sides that cost."""
        side = float(np.asarray(self.sides)[t])
        return f"1/2 * [{self.excess_text(t, int(side))}]_+^2" if side else f"1/2 * ({self.excess_text(t)})^2"

    @cached
    def rows(self) -> Rows:
        sides, targets = (np.asarray(values, dtype=np.float64) for values in (self.sides, self.targets))
        return Rows.of_pairs(HalfSquare(sides), self.pairs, 1.0, -targets)


@dataclass(frozen=True, eq=False, repr=False)
class Repulsion(MarginLoss):
    """``-sum_p w_p D(p)``, linear, as for the dissimilar pairs of SDML [QTZCZ2009].

    By itself it is unbounded: other terms must cost more in every direction, as LogDet does if the weights are small. A
    loss with a margin, `PairHinge`, needs no such care.

    Parameters
    ----------
    pairs : (p, 2) integer array
        Row numbers of X; pairs may repeat.
    weight : float, default 1
    weights : (p,) array, optional
        ``w_p >= 0``; default 1.
    sample_weight : (n,) array, optional
        Weights of examples; each pair is multiplied by that of its first row.

    Examples
    --------
    >>> import sdpmetric as sm
    >>> X, y = sm.datasets.load("iris")
    >>> pairs, similar = sm.constraints.pairs(y, 30)
    >>> found = sm.solve(sm.SDMLProblem(X, pairs, similar, distance_weight=0.01))
    >>> bool(found.relative_gap <= 1e-3)
    True
    """

    pairs: ArrayLike | None = None

    name: ClassVar[str] = "repulsion"
    nonnegative: ClassVar[bool] = False

    def bind(self, X: NDArray[np.floating]) -> Self:
        rows = check_term_pairs(self.name, self.pairs, len(X))
        return replace(self.weighted(X, rows[:, 0]), pairs=rows)

    def describe(self) -> str:
        return f"repulsion of {self.size:,} pairs"

    def anchor(self, a: FloatArray) -> FloatArray:
        """Return the weights, the only multipliers there are; what they take away, other terms have to outweigh."""
        return self.clip(a)

    @cached
    def rows(self) -> Rows:
        return Rows.of_pairs(Linear(), self.pairs, -1.0)


@dataclass(frozen=True, eq=False, repr=False)
class Budget(MarginLoss):
    """The constraint ``sum_p c_p D(p) <= bound``, as in MMC [XNJR2002], which sets the scale of a metric.

    Parameters
    ----------
    pairs : (p, 2) integer array
        Row numbers of X.
    bound : float, default 1
        Positive.
    costs : (p,) array, optional
        ``c_p >= 0``; default 1.
    weight : float, default 1
        Without effect on a constraint; 0 raises an error, as for all hard constraints: leave the term out.

    Examples
    --------
    >>> import sdpmetric as sm
    >>> from sdpmetric import terms
    >>> X, y = sm.datasets.load("iris")
    >>> pairs, similar = sm.constraints.pairs(y, 30)
    >>> stated = sm.MetricProblem(X, terms.Spread(pairs[~similar]) + terms.Budget(pairs[similar]))
    >>> bool(sm.solve(stated).relative_gap <= 1e-3)
    True
    """

    pairs: ArrayLike | None = None
    bound: float = 1.0
    costs: ArrayLike | None = None

    name: ClassVar[str] = "budget"

    def bind(self, X: NDArray[np.floating]) -> Self:
        rows = check_term_pairs(self.name, self.pairs, len(X))
        validation.check_positive(f"bound of {self.name}", self.bound)
        costs = item_weights(self.name, self.costs, None, rows[:, 0], len(X))
        return replace(self, pairs=rows, costs=costs, weights=np.ones(1), sample_weight=None)

    def describe(self) -> str:
        return f"at most {self.bound:g} for the sum of {len(self.distance_pairs()):,} distances"

    def exact_rows(self, rows: NDArray[np.intp]) -> tuple[FloatArray, sp.csr_array]:
        """See `MarginLoss.exact_rows`: the sum minus the bound, without the division."""
        costs = sp.csr_array(np.asarray(self.costs, dtype=np.float64)[None])
        return np.full(len(rows), -self.bound), sp.csr_array(costs[rows])

    @cached
    def rows(self) -> Rows:
        """The weighted sum divided by the bound, minus 1."""
        K = sp.csr_array(np.asarray(self.costs, dtype=np.float64)[None] / self.bound)
        return Rows(Hard(), np.asarray(self.pairs, dtype=np.int32), K, -1.0)


@dataclass(frozen=True, eq=False, repr=False)
class Spread(MarginLoss):
    """``-sum_p w_p sqrt(D(p))``, the objective of MMC [XNJR2002]; some other term must bound it.

    Parameters
    ----------
    pairs : (p, 2) integer array
        Row numbers of X.
    weight : float, default 1
    weights : (p,) array, optional
        ``w_p >= 0``; default 1.
    sample_weight : (n,) array, optional
        Weights of examples; each pair is multiplied by that of its first row.

    Raises
    ------
    ValueError
        If all pairs coincide or have weight 0.

    Examples
    --------
    >>> import sdpmetric as sm
    >>> from sdpmetric import terms
    >>> X, y = sm.datasets.load("iris")
    >>> pairs, similar = sm.constraints.pairs(y, 30)
    >>> stated = sm.MetricProblem(X, terms.Spread(pairs[~similar]) + terms.Budget(pairs[similar]))
    >>> bool(sm.solve(stated).relative_gap <= 1e-3)
    True
    """

    pairs: ArrayLike | None = None

    name: ClassVar[str] = "spread"
    nonnegative: ClassVar[bool] = False
    has_infinite_slopes: ClassVar[bool] = True

    def bind(self, X: NDArray[np.floating]) -> Self:
        rows = check_term_pairs(self.name, self.pairs, len(X))
        w = item_weights(self.name, self.weights, self.sample_weight, rows[:, 0], len(X))
        distinct = (w > 0.0) & (X[rows[:, 0]] != X[rows[:, 1]]).any(axis=1)
        if not distinct.any():
            raise ValueError(f"{self.name}: all pairs coincide or have weight 0; check the data.")
        return replace(self, pairs=rows[distinct], weights=w[distinct], sample_weight=None)

    def describe(self) -> str:
        return f"minus the sum of {self.size:,} distances"

    def smoothed(self, u: FloatArray, width: float, center: FloatArray | None = None) -> tuple[float, FloatArray]:
        """Add a share of the mean to each squared distance, so slopes are finite."""
        # Share of the mean distance that is added to all distances to smooth the roots.
        D, shares = (
            np.maximum(-u, 0.0),
            1e-3 * min(width, 1.0) ** 2 * self.item_weights / self.item_weights.sum(),
        )
        roots = np.sqrt(D + float(shares @ D))
        slopes = 0.5 * self.item_weights / np.maximum(roots, SMALLEST_MULTIPLIER)
        return -float(self.item_weights @ roots), slopes + float(slopes.sum()) * shares

    def clip(self, a: FloatArray) -> FloatArray:
        """Return at least a tiny share of the largest, or 0 if none is positive."""
        top = float(a.max(initial=0.0))
        return np.maximum(a, max(1e-12 * top, SMALLEST_MULTIPLIER) if top > 0.0 else 0.0)

    @cached
    def rows(self) -> Rows:
        return Rows.of_pairs(NegativeRoot(), self.pairs, -1.0)
