"""The base of the LogDet learners: a factor of a positive definite metric that moves by rank-one steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.core.pairs import check_targets
from sdpmetric.engine.compiled import fixed
from sdpmetric.lego import loops as logdet

# Default candidates for the learning rate, in units of one over the mean squared target or distance.
RATES = tuple(10.0 ** (k / 2) for k in range(-8, 5))
# Mean squares below it have no reciprocal that a rate could be.
SMALLEST = 1e-290


@dataclass(frozen=True, eq=False)
class LogDetUpdate:
    """The result of one item of a stream.

    Attributes
    ----------
    prediction : float
        Before the step: the pair's squared distance; for a comparison the near pair's minus the far pair's.
    loss : float
        Before the step, half the square of the violation of the target or margin.
    steps : tuple of MetricStep
        Steps of the factor in order: none where the target was satisfied, one for a pair, two for a comparison.
    """

    prediction: float
    loss: float
    steps: tuple[MetricStep, ...]

    @property
    def step(self) -> MetricStep | None:
        """The step of a pair; None where the metric did not move."""
        if len(self.steps) > 1:
            raise ValueError("a comparison moves the factor in two steps; take them in turn from steps.")
        return self.steps[0] if self.steps else None


class LogDetCounts:
    """What every stream of LogDet steps counts."""

    def __init__(self, learning_rate: float) -> None:
        self.learning_rate = check_rate(learning_rate)
        self._totals = np.zeros(logdet.SIZE)
        self._n_items = 0

    @property
    def n_items(self) -> int:
        """Pairs (and comparisons) taken so far."""
        return self._n_items

    @property
    def n_updates(self) -> int:
        """How many of them moved the metric."""
        return int(self._totals[logdet.MOVES])

    @property
    def cumulative_loss(self) -> float:
        """Sum of the losses, each before its step."""
        return float(self._totals[logdet.LOSS])


class LogDetStream(LogDetCounts):
    """A metric ``A = G^T G`` that takes pairs with target distances; the base of LEGO.

    Parameters
    ----------
    n_features : int
    learning_rate : float
    prior : (d, d) array, optional
        Positive definite ``A_0``; default: the identity.
    """

    def __init__(self, n_features: int, learning_rate: float, prior: ArrayLike | None = None) -> None:
        super().__init__(learning_rate)
        self._G = np.eye(validation.check_integer("n_features", n_features))
        if prior is not None:
            A0 = validation.check_positive_definite("prior", prior, len(self._G))
            self._G = np.ascontiguousarray(np.linalg.cholesky(A0).T)
        self._volume = 2.0 * float(np.linalg.slogdet(self._G)[1])

    @classmethod
    def pretrained(
        cls,
        X: ArrayLike,
        pairs: ArrayLike,
        targets: ArrayLike,
        sides: ArrayLike | None = None,
        *,
        rates: ArrayLike | None = None,
        prior: ArrayLike | None = None,
    ) -> Self:
        """A new stream with the learning rate that has the smallest loss on a few pairs.

        The paper tunes the rate on 1,000 constraints and states neither candidates nor criterion [JKDG2008]. Here each
        rate processes the pairs once, from the initial metric, and the smallest cumulative loss wins. The returned
        stream has not seen the pairs.

        Parameters
        ----------
        X : (n, d) array
        pairs : (p, 2) integer array
        targets, sides
            As in `partial_fit`.
        rates : (m,) array, optional
            Rates to try; default: 1e-4 to 1e2, two for each power of ten, divided by the mean of squared targets and
            squared distances under the initial metric.
        prior : (d, d) array, optional
        """
        data = np.ascontiguousarray(validation.check_data(X), dtype=np.float64)
        checked = check_targets(data, pairs, targets, sides)
        if not len(checked[0]):
            raise ValueError("there are no pairs to choose a learning rate by; pass some, or name a rate.")
        first = cls(data.shape[1], 1.0, prior)
        if rates is None:
            Z = (data[checked[0][:, 0]] - data[checked[0][:, 1]]) @ first._G.T
            with np.errstate(over="ignore"):
                size = float(np.mean(np.sum(Z**2, axis=1) ** 2) + np.mean(checked[1] ** 2))
            if size < SMALLEST and (Z.any() or checked[1].any()):
                raise ValueError("fourth powers of distances underflow; scale the features, for example to [0, 1].")
            rates = np.array(RATES) / (size if 0.0 < size < np.inf else 1.0)
        tries = [cls(data.shape[1], float(rate), prior) for rate in np.ravel(rates)]
        if not tries:
            raise ValueError("rates is empty; name at least one learning rate.")
        for stream in tries:
            stream._take(data, *checked)
        best = min(tries, key=lambda stream: stream.cumulative_loss)
        return cls(data.shape[1], best.learning_rate, prior)

    # -- what is known ------------------------------------------------------------------------------------------

    @property
    def n_features(self) -> int:
        """Number of features, d."""
        return self._G.shape[1]

    @property
    def components(self) -> FloatArray:
        """The factor G of the metric, (d, d), a copy."""
        return self._G.copy()

    @property
    def metric(self) -> FloatArray:
        """The metric ``A = G^T G``, (d, d)."""
        metric: FloatArray = self._G.T @ self._G
        return metric

    @property
    def reach(self) -> float:
        """Largest ``prediction * max(prediction, target)`` of pairs that violated their target; see docs/lego.md."""
        return float(self._totals[logdet.REACH])

    def drift(self) -> float:
        """Rounding error of the factor, measured by the log-determinant of its metric.

        Each step changes it by a known amount; their sum is compared with the log-determinant of the current factor. As
        the metric is ``G^T G``, rounding can make it singular but never indefinite; if singular, this is infinite.
        """
        sign, half = np.linalg.slogdet(self._G)
        return float(abs(2.0 * half - self._volume - self._totals[logdet.VOLUME])) if sign != 0 else np.inf

    # -- learning -----------------------------------------------------------------------------------------------

    def update(self, u: ArrayLike, v: ArrayLike, target: float, side: int = 0) -> LogDetUpdate:
        """Take one pair.

        Parameters
        ----------
        u, v : (d,) arrays
        target : float
            Squared distance, at least 0.
        side : {0, 1, -1}, default 0
            0: the distance should be the target; 1: at most the target; -1: at least the target.

        Returns
        -------
        LogDetUpdate

        Raises
        ------
        ValueError
            If the vectors have another length than the metric, are not finite, or are equal; if the target is negative
            or not finite; if the side is unknown; or if a number overflows, which changes nothing.
        """
        z = self._difference(u, v)
        y = validation.check_number("target", target, 0.0)
        if side not in (0, 1, -1):
            raise ValueError(f"side must be 1 (at most the target), -1 (at least) or 0 (the target), got {side!r}.")
        left, right = np.empty(len(self._G)), np.empty(len(z))
        losses = self.cumulative_loss
        about = (float(side), self.learning_rate)
        distance, moved = logdet.pair_step(self._G, z, y, *about, left, right, self._totals)
        if not np.isfinite(distance):
            raise self._too_large("the squared distance or the target is")
        self._n_items += 1
        return LogDetUpdate(distance, self.cumulative_loss - losses, (MetricStep(left, right),) if moved else ())

    def partial_fit(self, X: ArrayLike, pairs: ArrayLike, targets: ArrayLike, sides: ArrayLike | None = None) -> Self:
        """Take pairs of rows in turn, in one compiled loop.

        Parameters
        ----------
        X : (n, d) array
        pairs : (p, 2) integer array
        targets : (p,) array or float
            Squared distances, at least 0.
        sides : (p,) array or int, optional
            0, 1 or -1 for each pair, as in `update`; default 0.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If X has another number of features than the metric or is not finite; if pairs, targets or sides are
            invalid, see `sdpmetric.core.pairs.check_targets`; or if a number overflows. The pairs before that one have
            been taken.
        """
        data = self._data(X)
        self._take(data, *check_targets(data, pairs, targets, sides))
        return self

    def _take(self, X: FloatArray, pairs: NDArray[np.int32], targets: FloatArray, sides: FloatArray) -> None:
        """Take checked pairs."""
        taken = logdet.take_pairs(self._G, fixed(X), pairs, targets, sides, self.learning_rate, self._totals)
        self._n_items += taken
        if taken < len(pairs):
            raise self._too_large(f"the squared distance or the target of pair {pairs[taken].tolist()} is")

    def _too_large(self, what: str) -> ValueError:
        return ValueError(
            f"{what} too large to learn from with learning_rate={self.learning_rate:g}: scale the features, or take a "
            "smaller rate; about one over a mean squared target is common."
        )

    def _data(self, X: ArrayLike) -> FloatArray:
        data: FloatArray = np.ascontiguousarray(validation.check_data(X), dtype=np.float64)
        validation.check_width("X", data, self.n_features, "this stream")
        return data

    def _difference(self, u: ArrayLike, v: ArrayLike) -> FloatArray:
        one, other = (validation.check_vector("an example", x, self.n_features) for x in (u, v))
        if (one == other).all():
            raise ValueError("the two examples are equal, 0 apart under every metric; leave the pair out.")
        return one - other


def check_rate(learning_rate: float) -> float:
    """A finite positive number."""
    rate = validation.check_number("learning_rate", learning_rate, 0.0)
    if rate == 0.0:
        raise ValueError("learning_rate must be positive; the larger it is, the further each step goes.")
    return rate


@dataclass(frozen=True, eq=False)
class MetricStep:
    """One rank-one step of a factor: ``G_new = G + outer(left, right)``.

    Attributes
    ----------
    left : (r,) array
        In the space that the factor maps to.
    right : (d,) array
        In the space of the examples.
    """

    left: FloatArray
    right: FloatArray

    def apply(self, components: FloatArray) -> FloatArray:
        """Return the factor after the step.

        Parameters
        ----------
        components : (r, d) array
        """
        moved: FloatArray = components + np.outer(self.left, self.right)
        return moved
