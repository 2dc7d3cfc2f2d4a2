"""Decisions that are the same under every near-optimal metric, by strong convexity; see ``docs/decisions.md``."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sdpmetric.arrays import BoolArray, FloatArray
from sdpmetric.classification.ball import Neighbors, Space
from sdpmetric.core import validation
from sdpmetric.core.certificate import AS_SAVED, Claim, DualityCertificate
from sdpmetric.core.solution import Solution, problem_of
from sdpmetric.linalg.distances import distances
from sdpmetric.linalg.rigorous.directed import Rigor, above


@dataclass(frozen=True, eq=False, repr=False)
class Decisions(Claim):
    """Decisions of a metric, and which of them all metrics of a set share.

    Attributes
    ----------
    values : (m,) or (m, k) array
        The decisions: labels, row numbers of neighbors, or whether pairs match.
    settled : bool array of that shape
        Proven to be the same under every metric of the set; the others are *open*.
    rigor : {"float", "rounding"}
        As of a certificate: "float" where every rounding is accounted for.
    as_saved : bool
        Whether a pickle or skops restored them, or the set of metrics; nothing is proven then.

    See Also
    --------
    NearOptimal, near_optimal

    Examples
    --------
    >>> import sdpmetric as sm
    >>> X, y = sm.datasets.load("iris")
    >>> near = sm.near_optimal(sm.solve(sm.LMNNProblem.from_labels(X, y, frobenius=1.0), tol=1e-6))
    >>> near.neighbors(X, n_neighbors=3).values.shape
    (150, 3)
    """

    values: NDArray[np.generic]
    settled: BoolArray
    rigor: Rigor = "float"
    as_saved: bool = False

    @property
    def share(self) -> float:
        """The share of decisions that are settled."""
        return float(self.settled.mean()) if self.settled.size else 1.0

    def __repr__(self) -> str:
        saved = f"; {AS_SAVED}" if self.as_saved else ""
        return f"<Decisions: {int(self.settled.sum()):,} of {self.settled.size:,} settled ({self.share:.1%}){saved}>"


@dataclass(frozen=True, eq=False, repr=False)
class NearOptimal(Claim):
    """A ball of metrics, proven to contain all metrics of some quality; made by `near_optimal`.

    Attributes
    ----------
    components : (r, d) array
        Factor of the metric in its center.
    radius : float
        In the Frobenius norm; for POLA the threshold counts as one more entry of the metric.
    threshold : float or None
        For POLA, the threshold in the center.
    rigor : {"float", "rounding"}
        As of the certificate of the solution.
    as_saved : bool
        Whether a pickle or skops restored it; nothing is proven then.

    See Also
    --------
    Decisions, near_optimal

    Examples
    --------
    >>> import sdpmetric as sm
    >>> X, y = sm.datasets.load("iris")
    >>> near = sm.near_optimal(sm.solve(sm.LMNNProblem.from_labels(X, y, frobenius=1.0), tol=1e-6))
    >>> near.matches(X, [[0, 1], [0, 149]], threshold=2.0).share
    1.0
    """

    components: FloatArray
    radius: float
    threshold: float | None = None
    rigor: Rigor = "float"
    as_saved: bool = False

    def distances(self, X: ArrayLike, pairs: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Bounds on squared distances under all these metrics, (p,) each: ``D(v) -+ radius |v|^2``, and at least 0.

        X are (n, d) examples, learned from or new, and pairs are (p, 2) row numbers of X.
        """
        space = Space.of(self.components, self.radius, X)
        low, high = space.intervals(*validation.check_pairs(pairs, len(space.raw)).T)
        with np.errstate(over="ignore", under="ignore"):
            low, high = np.ldexp(low, space.power), np.ldexp(high, space.power)
        return np.maximum(0.0, np.nextafter(low, -np.inf)), np.nextafter(high, np.inf)

    def neighbors(self, X_train: ArrayLike, X: ArrayLike | None = None, n_neighbors: int = 3) -> Decisions:
        """The nearest examples, and which of them are among the nearest under all these metrics, (m, k).

        Arguments as in `nearest_neighbors`.
        """
        nearest = Neighbors.of(self.components, self.radius, X_train, X, n_neighbors)
        return Decisions(nearest.nearest, nearest.certain, self.rigor, self.as_saved)

    def labels(
        self, X_train: ArrayLike, y_train: ArrayLike, X: ArrayLike | None = None, n_neighbors: int = 3
    ) -> Decisions:
        """The labels by the vote of the nearest examples, (m,), counted as in `knn_predict`, with its arguments."""
        nearest = Neighbors.of(self.components, self.radius, X_train, X, n_neighbors)
        return Decisions(*nearest.labels(y_train), self.rigor, self.as_saved)

    def matches(self, X: ArrayLike, pairs: ArrayLike, threshold: float | None = None) -> Decisions:
        """Whether squared distances of pairs are at most a threshold, (p,).

        Parameters
        ----------
        X : (n, d) array
        pairs : (p, 2) integer array
        threshold : float, optional
            On *squared* distances. Default, for POLA only: its own, which varies over the metrics of the ball.
        """
        cutoff = self.threshold if threshold is None else threshold
        if cutoff is None:
            raise ValueError("pass threshold=, a squared distance: only solutions of POLA have one of their own.")
        limit = validation.check_number("threshold", cutoff, -math.inf)
        low, high = self.distances(X, pairs)
        if threshold is None:  # the threshold moves by the radius at most; together they move less than that
            low, high = np.maximum(0.0, np.nextafter(low - self.radius, -np.inf)), high + self.radius
            high = np.nextafter(high, np.inf)
        squared_distances = distances(np.asarray(X, dtype=np.float64) @ self.components.T, *np.asarray(pairs).T)
        certain = (high <= limit) | (low > limit)
        return Decisions(
            np.where(certain, high <= limit, squared_distances <= limit), certain, self.rigor, self.as_saved
        )

    def __repr__(self) -> str:
        size = np.linalg.norm(self.components @ self.components.T)
        saved = f"; {AS_SAVED}" if self.as_saved else ""
        return f"<All metrics within {self.radius:.3g} of one of norm {size:.3g}{saved}>"


def near_optimal(solution: Solution, *, optimum: bool = False) -> NearOptimal:
    """Return a ball that contains all metrics at least as good as a solution; what they agree on is settled.

    An objective with a Frobenius term of weight lam is strongly convex. With the proven gap, the optimum is within
    ``sqrt(2 gap / lam)`` of the solution, and every metric whose objective is at most the solution's within twice
    that [YTK2018].

    Parameters
    ----------
    solution : Solution
        Of `LMNNProblem` with `frobenius`, `POLAProblem`, or a `MetricProblem` with a `Frobenius` term over all or over
        diagonal metrics, with a proven lower bound.
    optimum : bool, default False
        Return only the ball of half the radius, which contains the optimum.

    Returns
    -------
    NearOptimal

    Raises
    ------
    TypeError
        If the objective is not known to be strongly convex.
    ValueError
        If the solution has no problem or no finite gap.

    See Also
    --------
    NearOptimal, explain

    Examples
    --------
    >>> import sdpmetric as sm
    >>> X, y = sm.datasets.load("iris")
    >>> solution = sm.solve(sm.LMNNProblem.from_labels(X, y, frobenius=1.0), tol=1e-9)
    >>> near = sm.near_optimal(solution)
    >>> near.labels(X, y)
    <Decisions: 150 of 150 settled (100.0%)>
    >>> low, high = near.distances(X, [[0, 1], [0, 149]])
    >>> bool((high - low < 0.1).all())
    True
    """
    problem, certificate = problem_of("near_optimal", solution), solution.certificate
    convexity = problem.strong_convexity(np.asarray(solution.components, dtype=np.float64))
    if convexity is None:
        raise TypeError(
            f"{type(problem).__name__} is not known to be strongly convex, so metrics as good as this one may be far "
            "from it: use LMNNProblem with frobenius=, POLAProblem, or a MetricProblem over all or diagonal metrics "
            "with terms.Frobenius()."
        )
    if not isinstance(certificate, DualityCertificate) or certificate.as_saved or not math.isfinite(certificate.gap):
        raise ValueError(f"the solution has no proven gap ({certificate}); solve the problem with its default solver.")
    # Each root by itself, as quotients may underflow.
    root = math.sqrt(above(certificate.gap, 2)) if certificate.gap > 0.0 else 0.0
    radius = above(math.sqrt(2.0 if optimum else 8.0) * root / math.sqrt(convexity.modulus), 8)
    radius = above(radius + convexity.displacement, 2) if convexity.displacement > 0.0 else radius
    return NearOptimal(convexity.components, radius, convexity.threshold, certificate.rigor)
