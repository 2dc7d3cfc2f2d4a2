"""The proof that comes with an answer: objective, lower bound, and how nearly the optimality conditions hold."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Kind = Literal["duality", "relaxation", "regret", "stationarity"]


# A lower bound may pass an objective by this much, relatively, through rounding; beyond it they contradict each other.
CONTRADICTION = 1e-6


def absolute_gap(objective: float, lower_bound: float) -> float:
    """The gap ``primal - dual``, at least 0; infinity where evidence is missing or contradicts itself."""
    if not (math.isfinite(objective) and math.isfinite(lower_bound)):
        return math.inf
    gap = objective - lower_bound
    return max(gap, 0.0) if gap >= -CONTRADICTION * max(1.0, abs(objective)) else math.inf


def relative_gap(objective: float, lower_bound: float) -> float:
    """The relative gap ``(primal - dual) / max(|primal|, |dual|)``; 0 where both are 0, infinity without evidence.

    A lower bound above the objective by more than rounding is no evidence: one of the two is wrong.
    """
    gap = absolute_gap(objective, lower_bound)
    return gap / max(abs(objective), abs(lower_bound)) if 0.0 < gap < math.inf else gap


@dataclass(frozen=True)
class Certificate:
    """What is proven about one point of one problem. Made by the problem, never by a solver.

    Attributes
    ----------
    objective : float
        The objective at the point, over all triplets, in float64.
    lower_bound : float
        No point of the problem has a smaller objective. ``-inf`` without evidence.
    kind : {"duality", "relaxation", "regret", "stationarity"}
        What the lower bound bounds: the problem itself, or a convex relaxation of it. "regret": the objective is the
        cumulative loss of a stream, the lower bound is below the loss of every fixed metric on that stream, and the gap
        is the regret; nothing is proven about the last metric. "stationarity": a non-convex problem, of which only
        `stationarity` is known.
    primal_residual : float
        How far the point was from the PSD cone before it was repaired, relative to its largest eigenvalue.
    dual_residual : float
        How far the dual candidate was from its box and its cone before it was repaired: the larger of the two
        violations, the box relative to the push weight, the cone relative to the pull cost.
    complementarity : float
        ``<S, M> / max(1, objective)`` for the repaired dual slack S, 0 at an optimum.
    n_active : int
        Triplets with a positive hinge at the point.
    null_dimension : int
        Directions in which the data vary at no pull cost, treated as null.
    program : str
        The program that was certified.
    unconstrained_lower_bound : float or None
        For a program with further constraints: the lower bound of the problem without them, which is always valid.
    contradiction : tuple of int or None
        Constraints of a problem that are proven to contradict each other, in the problem's order (POLA: pairs);
        objective and lower bound are then infinite.
    regret_bound : float or None
        Of a stream: what the algorithm's theorem allows its cumulative loss to be.
    stationarity : float
        Norm of the objective's gradient at the point, on the scale that the problem names; 0 at a stationary point.
        Infinity where nobody measured it.
    """

    objective: float
    lower_bound: float
    kind: Kind = "duality"
    primal_residual: float = math.inf
    dual_residual: float = math.inf
    complementarity: float = math.inf
    n_active: int = 0
    null_dimension: int = 0
    program: str = "LMNN"
    unconstrained_lower_bound: float | None = None
    contradiction: tuple[int, ...] | None = None
    regret_bound: float | None = None
    stationarity: float = math.inf

    @property
    def gap(self) -> float:
        """The objective less the lower bound; see `absolute_gap`."""
        return absolute_gap(self.objective, self.lower_bound)

    @property
    def relative_gap(self) -> float:
        """The gap relative to the larger of objective and lower bound; see `relative_gap`."""
        return relative_gap(self.objective, self.lower_bound)

    def proves_optimal(self, tol: float) -> bool:
        """Whether the point is proven to be within a relative gap of `tol` of the optimum.

        Parameters
        ----------
        tol : float
            Relative gap, for example 1e-3.
        """
        return self.kind in ("duality", "relaxation") and self.relative_gap <= tol

    def __str__(self) -> str:
        if self.contradiction is not None:
            first = ", ".join(map(str, self.contradiction[:10])) + (", .." if len(self.contradiction) > 10 else "")
            return f"{self.program}: infeasible, constraints {first} contradict each other"
        if self.kind == "regret":
            allowed = "" if self.regret_bound is None else f", theorem's bound {self.regret_bound:.8g}"
            return (
                f"{self.program}: cumulative loss {self.objective:.8g}, that of every fixed metric is at least "
                f"{self.lower_bound:.8g} (regret){allowed}"
            )
        if self.kind == "stationarity":
            return (
                f"{self.program}: objective {self.objective:.8g}, norm of the gradient {self.stationarity:.2e} "
                "(stationarity)"
            )
        null = f", {self.null_dimension} null directions of the pull cost" if self.null_dimension else ""
        beside = (
            f"; without its further constraints the lower bound is {self.unconstrained_lower_bound:.8g}"
            if self.unconstrained_lower_bound is not None
            else ""
        )
        return (
            f"{self.program}: objective {self.objective:.8g}, proven lower bound {self.lower_bound:.8g} "
            f"({self.kind}), relative gap {self.relative_gap:.2e}, {self.n_active} active triplets{null}{beside}"
        )
