"""Proofs about one point of one problem, a class for each kind of proof; made by problems, never by solvers."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from fractions import Fraction
from typing import ClassVar, Self, cast

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.core.files import check_values
from sdpmetric.core.status import Status
from sdpmetric.core.text import Printed, digits, rounded, scientific
from sdpmetric.core.triplets import Triplets
from sdpmetric.linalg.rigorous.directed import RIGORS, Rigor

# Diagnostics by name, which prove nothing.
Info = Mapping[str, float | str]


def absolute_gap(objective: float, lower_bound: float) -> float:
    """Return the gap ``primal - dual``, at least 0, infinity if evidence is missing or contradicts itself."""
    if not (math.isfinite(objective) and math.isfinite(lower_bound)):
        return math.inf
    gap = objective - lower_bound
    # A lower bound may exceed an objective by this share of the larger one if rounding is estimated, as in solvers
    # and in statements without enclosed bounds; a larger excess is a contradiction.
    return max(gap, 0.0) if gap >= -1e-12 * max(abs(objective), abs(lower_bound)) else math.inf


def excess(objective: float, lower_bound: float) -> str:
    """Return how far above the smallest possible objective this one is at most, as a clause.

    It is relative to the lower bound, in percent, if that is positive, and a difference if it is negative. The
    gap that solvers close is relative to the objective, the larger of the two, and at most 1: at a relative gap of 0.89
    the objective may be 810 % above the smallest possible one.
    """
    if not absolute_gap(objective, lower_bound) < math.inf or lower_bound == 0.0 < objective:
        reason = "the lower bound is 0, so nothing" if lower_bound == 0.0 else "nothing"
        return f"{reason} is proven about how much better another metric could be"
    gap = max(Fraction(objective) - Fraction(lower_bound), Fraction(0))
    amount = f"{rounded(100 * gap / Fraction(lower_bound))} %" if lower_bound > 0.0 else rounded(gap)
    return f"the objective is at most {amount} above the smallest possible one"


def relative_gap(objective: float, lower_bound: float) -> float:
    """Return the relative gap ``(primal - dual) / max(|primal|, |dual|)``; 0 if both are 0, infinity without evidence.

    Where both are positive it is what share of the objective another point can save at most; it never exceeds 1. How
    far the objective may be above the smallest possible one is in `excess`, relative to the lower bound.
    A lower bound above the objective by more than rounding is no evidence: one of the two is wrong.
    """
    gap = absolute_gap(objective, lower_bound)
    return gap / max(abs(objective), abs(lower_bound)) if 0.0 < gap < math.inf else gap


@dataclass(frozen=True, kw_only=True)
class Certificate(Printed, ABC):
    """The fields that every kind of certificate has.

    Attributes
    ----------
    objective : float
        The objective at the point, in float64. For a stream, the cumulative loss.
    lower_bound : float
        A number below which no point's objective can fall. ``-inf`` without evidence.
    program : str
        What the certificate is about.
    primal_residual : float
        How far the point was from the feasible set before it was repaired, relatively.
    n_active : int
        Constraints with a positive hinge, or active constraints.
    constraints : str
        What is counted by `n_active`, for example "triplets" or "pairs".
    rigor : {"float", "rounding"}
        Whether what is claimed accounts for every rounding, or only by a guess, the default.
    as_saved : bool
        Whether it is what a file or a pickle says and was not computed again; it proves nothing then.
    info : mapping of str to number or str
        Diagnostics by name, if the problem computes them; see ``docs/reading_certificates.md``.

    See Also
    --------
    DualityCertificate, certify, verify

    Examples
    --------
    >>> import sdpmetric as sm
    >>> problem = sm.LMNNProblem.from_labels(*sm.datasets.load("iris"))
    >>> solution = sm.solve(problem)
    >>> solution.certificate.kind, solution.certificate.proves_optimal(1e-3)
    ('duality', True)
    """

    objective: float
    lower_bound: float
    program: str
    primal_residual: float = math.inf
    n_active: int = 0
    constraints: str = "triplets"
    rigor: Rigor = "rounding"
    as_saved: bool = field(default=False, compare=False)
    info: Info = field(default_factory=dict, hash=False)

    kind: ClassVar[str]

    def __setstate__(self, state: dict[str, object]) -> None:
        """Restore a pickle or skops file, marked as saved: it proves nothing."""
        self.__dict__.update(state, as_saved=True)

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """Return the same certificate: unlike a pickle, a copy in memory cannot have been changed."""
        certificate = object.__new__(type(self))
        certificate.__dict__.update(copy.deepcopy(vars(self), memo))
        return certificate

    def __copy__(self) -> Self:
        return copy.deepcopy(self)

    @property
    def gap(self) -> float:
        """The objective minus the lower bound; see `absolute_gap`."""
        return absolute_gap(self.objective, self.lower_bound)

    @property
    def relative_gap(self) -> float:
        """The gap relative to the larger of objective and lower bound in absolute value.

        For positive values it is the largest share of this objective that another metric can save, at most 1. How far
        this objective may be above the smallest possible one is ``objective / lower_bound - 1``, which is larger.
        """
        return relative_gap(self.objective, self.lower_bound)

    def gap_in_words(self, digits: int = 3) -> str:
        """Return the gap that `proves_optimal` compares with a tolerance, rounded up to some digits."""
        return f"relative gap {scientific(self.relative_gap, digits)}"

    def proves_optimal(self, tol: float) -> bool:
        """Return whether the point is proven to be within a relative gap of `tol` of the optimum.

        Parameters
        ----------
        tol : float
            Relative gap, for example 1e-3.
        """
        return False

    def settles(self, tol: float) -> bool:
        """Return whether `status` holds however the solve ended."""
        return self.proves_optimal(tol)

    @abstractmethod
    def status(self, tol: float) -> Status:
        """Return the status of a solve that was not interrupted and ended with this certificate.

        Parameters
        ----------
        tol : float
            The requested relative gap.
        """

    @abstractmethod
    def finding(self) -> str:
        """Return what the certificate says, as the end of a sentence that begins with the program."""

    def with_origin(self, before: Certificate) -> Self:
        """Add what a certificate of the same point before rounding knows of its program."""
        return replace(
            self,
            program=before.program,
            primal_residual=max(self.primal_residual, before.primal_residual),
            rigor=max(self.rigor, before.rigor, key=RIGORS.index),
            info={**before.info, **self.info},
        )

    @property
    def reservation(self) -> str:
        """The grade in words, after a semicolon, empty if every rounding is accounted for."""
        return "" if self.rigor == "float" else f"; rounding is not fully accounted for (rigor: {self.rigor})"

    def __str__(self) -> str:
        saved = f"; {AS_SAVED}" if self.as_saved else ""
        return f"{self.program}: {self.finding()}{self.reservation}{saved}"

    def to_dict(self) -> dict[str, object]:
        """Return the kind and fields by name, for JSON; `from_dict` reads it again."""
        return {"kind": self.kind} | asdict(self)

    @staticmethod
    def from_dict(values: dict[str, object]) -> Certificate:
        """Return the certificate that `to_dict` wrote."""
        arguments, kind = dict(values), KINDS.get(str(values.get("kind")))
        if kind is None or not arguments.pop("kind"):
            raise ValueError(f"{values.get('kind')!r} is not a certificate of a kind among {', '.join(KINDS)}.")
        needed = frozenset(f.name for f in fields(kind) if f.default is f.default_factory is MISSING)
        check_values(arguments, {f.name: f.type for f in fields(kind)}, "the certificate", needed)
        if any(arguments.get(name) != arguments.get(name) for name in ("objective", "lower_bound")):
            raise ValueError("the certificate has NaN as objective or lower bound.")
        info = arguments.get("info", {})
        assert isinstance(info, dict)
        check_values(info, dict.fromkeys(info, "float | str | bool"), "info of the certificate")
        arguments |= {name: tuple(value) for name, value in arguments.items() if isinstance(value, list)}
        return cast(Callable[..., Certificate], kind)(**arguments)


# Of numbers that a file or a pickle says.
AS_SAVED = "as saved, not verified"


@dataclass(frozen=True, kw_only=True)
class DualityCertificate(Certificate):
    """A lower bound on the problem's optimum, by weak duality.

    Attributes
    ----------
    resolution : float
        0, unless the optimum is proven to be at most 0: then a gap of at most this counts as closed, 1e-9 times the
        cost of the lightest constraint when missed by its whole margin. In floating point an optimum of 0 is often
        attained only up to rounding.
    weakness : str or None
        Why the lower bound may be weak, if that is known.

    See Also
    --------
    InfeasibilityCertificate, RelaxationCertificate, certify
    """

    resolution: float = 0.0
    weakness: str | None = None

    kind: ClassVar[str] = "duality"

    @property
    def resolved(self) -> bool:
        """Whether the gap is open, and at most the resolution; see `sdpmetric.core.certificate`."""
        return 0.0 < self.gap <= self.resolution < math.inf

    def gap_in_words(self, digits: int = 3) -> str:
        """Return the relative gap, explained if it is wide; or the gap and the resolution, if that decides."""
        if self.resolved:
            resolution = f"{self.resolution:.{digits - 1}e}"
            return f"gap {scientific(self.gap, digits)}, below the resolution {resolution} of this statement"
        wide = f": {excess(self.objective, self.lower_bound)}" if self.relative_gap > 1e-2 else ""
        return super().gap_in_words(digits) + wide

    def proves_optimal(self, tol: float) -> bool:
        """Return whether the gap is at most `tol`, relatively, or at most the resolution; False as a file says it."""
        return not self.as_saved and (self.relative_gap <= tol or self.resolved)

    def status(self, tol: float) -> Status:
        """Return ``optimal`` if the gap is proven; ``stalled`` if it is above ten times the tolerance."""
        if self.proves_optimal(tol):
            return Status.OPTIMAL
        return Status.OPTIMAL_INACCURATE if self.proves_optimal(10.0 * tol) else Status.STALLED

    def finding(self) -> str:
        """Return the objective, the lower bound and the gap."""
        directions = self.info.get("null_dimension")
        null = f", {directions} null directions of the pull cost" if directions else ""
        polished = ", multipliers polished" if self.info.get("polished") else ""
        weak = f"; {self.weakness}" if self.weakness is not None and not self.proves_optimal(1e-6) else ""
        proven = "" if self.reservation else "proven "
        low, high = digits(self.lower_bound, self.objective)
        return (
            f"objective {high}, {proven}lower bound {low} ({self.kind}), "
            f"{self.gap_in_words()}, {self.n_active} active {self.constraints}{null}{polished}{weak}"
        )


@dataclass(frozen=True, kw_only=True)
class RelaxationCertificate(DualityCertificate):
    """A lower bound for metrics of bounded rank: that of the convex problem without the bound on the rank."""

    kind: ClassVar[str] = "relaxation"

    @classmethod
    def of(cls, certificate: DualityCertificate) -> Self:
        """Return the same bounds for a point of the problem that the lower bound's relaxation belongs to."""
        return cls(**asdict(certificate))

    def status(self, tol: float) -> Status:
        """Return ``optimal`` if the gap is proven; a solver that ends by itself is at a stationary point."""
        return Status.OPTIMAL if self.proves_optimal(tol) else Status.STATIONARY


@dataclass(frozen=True, kw_only=True)
class InfeasibilityCertificate(Certificate):
    """No point satisfies all constraints; objective and lower bound are infinite.

    Attributes
    ----------
    contradiction : tuple of int
        Constraints that are proven to contradict each other, in the problem's order (POLA: pairs).
    """

    objective: float = math.inf
    lower_bound: float = math.inf
    contradiction: tuple[int, ...]

    kind: ClassVar[str] = "infeasibility"

    def settles(self, tol: float) -> bool:
        """Return True, as a contradiction is proven, but False for a certificate as a file says it."""
        return not self.as_saved

    def status(self, tol: float) -> Status:
        """Return ``infeasible``."""
        return Status.INFEASIBLE

    def finding(self) -> str:
        """Return the constraints that contradict each other."""
        first = ", ".join(map(str, self.contradiction[:10])) + (", .." if len(self.contradiction) > 10 else "")
        return f"infeasible, {self.constraints} {first} contradict each other"


@dataclass(frozen=True, kw_only=True)
class RegretCertificate(Certificate):
    """The cumulative loss of a stream; the lower bound is below the loss of every fixed metric, the gap is the regret.

    Nothing is proven about the last metric.

    Attributes
    ----------
    regret_bound : float or None
        The cumulative loss that the algorithm's theorem allows, or None without a theorem.
    """

    regret_bound: float | None = None
    constraints: str = "pairs"

    kind: ClassVar[str] = "regret"

    def status(self, tol: float) -> Status:
        """Return ``stream_ended``."""
        return Status.STREAM_ENDED

    def finding(self) -> str:
        """Return the cumulative loss, the best fixed metric's, and what the theorem allows."""
        allowed = "" if self.regret_bound is None else f", theorem's bound {self.regret_bound:.8g}"
        return (
            f"cumulative loss {self.objective:.8g}, that of every fixed metric is at least {self.lower_bound:.8g} "
            f"({self.kind}){allowed}"
        )


@dataclass(frozen=True, kw_only=True)
class StationarityCertificate(Certificate):
    """The scaled gradient norm at a point of a nonconvex problem; the lower bound is trivial.

    Attributes
    ----------
    stationarity : float
        Norm of the objective's gradient at the point, on the scale that the problem names; 0 at a stationary point.
    """

    stationarity: float

    kind: ClassVar[str] = "stationarity"

    def settles(self, tol: float) -> bool:
        """Return whether the gradient is at most `tol` but not exactly 0, as it is at the zero metric."""
        return 0.0 < self.stationarity <= tol

    def status(self, tol: float) -> Status:
        """Return ``stationary`` if the gradient is at most `tol`."""
        return Status.STATIONARY if self.stationarity <= tol else Status.STALLED

    def finding(self) -> str:
        """Return the objective and the norm of the gradient."""
        return f"objective {self.objective:.8g}, norm of the gradient {self.stationarity:.2e} ({self.kind})"


KINDS: dict[str, type[Certificate]] = {
    kind.kind: kind
    for kind in (
        DualityCertificate,
        RelaxationCertificate,
        InfeasibilityCertificate,
        RegretCertificate,
        StationarityCertificate,
    )
}


@dataclass(frozen=True)
class Dual:
    """Multipliers of triplets: all triplets that are not listed have multiplier 0.

    Attributes
    ----------
    triplets : Triplets
    values : (t,) array
        The multiplier ``a_t`` of each listed triplet, between 0 and the push weight times its weight.
    """

    triplets: Triplets
    values: FloatArray

    def __len__(self) -> int:
        return len(self.values)


# Multipliers of triplets, or one for each constraint of a problem that lists its constraints itself.
Multipliers = Dual | FloatArray


def check_triplet_multipliers(dual: Multipliers) -> Dual:
    if not isinstance(dual, Dual):
        raise TypeError(f"dual must be a Dual, triplets with their multipliers, got {type(dual).__name__}.")
    return dual


def check_multipliers(dual: Multipliers, shape: tuple[int, ...], meaning: str) -> FloatArray:
    """Return multipliers of a statement that lists its constraints, of a shape, float64."""
    if isinstance(dual, Dual):
        raise TypeError(f"dual must be an array of shape {shape}, {meaning}; this problem has no triplets.")
    return validation.check_matrix("dual", dual, shape, meaning)
