"""LEGO's pairs all at once: a metric near the first one that loses little, the comparator of Theorem 2.2."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from sdpmetric.core.certificate import Multipliers
from sdpmetric.core.constraints import Constraints
from sdpmetric.core.registry import formulation
from sdpmetric.lego.problem import LEGOProblem
from sdpmetric.programs.exact_program import ExactProgram
from sdpmetric.sums.problem import MetricProblem
from sdpmetric.sums.program import state
from sdpmetric.sums.terms.log_det import LogDet
from sdpmetric.sums.terms.pairs import DistanceTargets


@dataclass(init=False, eq=False, repr=False)
class LEGOBatchProblem(MetricProblem):
    """The convex program behind LEGO, over all pairs of a stream at once.

    Minimize over positive definite A, with the losses of `LEGOProblem`::

        D_ld(A, A_0) + eta * sum_t loss_t(A)

    a sum of the terms `LogDet` and `DistanceTargets`. Its optimum, times ``1 / eta + reach``, is the tightest allowance
    of the corrected Theorem 2.2. A pair's multiplier is the slope of its loss times ``eta``; those of the wrong sign
    count as 0.

    Parameters
    ----------
    stream : LEGOProblem
        Gives data, pairs, targets, ``eta`` and ``A_0``.

    Examples
    --------
    >>> import numpy as np
    >>> import sdpmetric as sm
    >>> X, y = sm.datasets.load("iris")
    >>> pairs, similar = sm.constraints.pairs(y, 30)
    >>> stream = sm.LEGOProblem(X, pairs, np.where(similar, 1.0, 9.0), learning_rate=0.1)
    >>> bool(sm.solve(sm.LEGOBatchProblem(stream)).relative_gap <= 1e-3)
    True
    """

    weights: ClassVar[tuple[str, ...]] = ("learning_rate",)
    statement: ClassVar[str] = "lego-batch"
    certificate_title: ClassVar[str] = "LEGO in batch"
    counted: ClassVar[str] = "pairs"

    stream: LEGOProblem

    def __init__(self, stream: LEGOProblem) -> None:
        losses = DistanceTargets(stream.pairs, stream.targets, stream.sides)
        super().__init__(stream.X, LogDet(to=stream.prior) + stream.learning_rate * losses)
        self.stream = stream

    def describe(self) -> str:
        return f"all pairs at once of {self.stream.describe()}"

    @classmethod
    def from_labels(
        cls,
        X: ArrayLike,
        y: ArrayLike,
        n_pairs: int | None = 1000,
        *,
        learning_rate: float = 1.0,
        random_state: int | None = None,
    ) -> LEGOBatchProblem:
        """State the program for labeled data; parameters as in `LEGOProblem.from_labels`."""
        return cls(LEGOProblem.from_labels(X, y, n_pairs, learning_rate=learning_rate, random_state=random_state))

    def with_weights(self, **values: float) -> Self:
        """State the same program with another `learning_rate`."""
        return type(self)(self.stream.with_weights(**values))

    def constraints(self, components: np.ndarray, dual: Multipliers | None) -> Constraints:
        """Pairs; see `Constrained.constraints`. A target for equality is one on the side on which its distance is."""
        pairs, (u,), sides = super().constraints(components, dual), self.total.excess(components), self.stream.sides
        sign = np.where(sides != 0.0, sides, np.where(u >= 0.0, 1.0, -1.0))
        pair = np.flatnonzero((sign * np.asarray(pairs.dual) > 0.0) | (sign * u > 0.0))
        divergence, loss = pairs.sums.values()
        columns, sums = {"pair": pair, "at_most": sign[pair] > 0}, {"divergence": divergence, "loss": loss}
        return replace(pairs, columns=columns, sums=sums, slopes={"learning_rate": loss})


@formulation(LEGOProblem, exact=False)
def state_comparator(problem: LEGOProblem) -> ExactProgram:
    """The program of the comparator of a stream, `LEGOBatchProblem`."""
    return state(LEGOBatchProblem(problem))
