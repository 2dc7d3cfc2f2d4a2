"""A problem beside its exact objective, and points at which the two are compared."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from exact import definite, metric, rational
from flint import arb, fmpq, fmpq_mat

import sdpmetric as sm

Exact = arb | fmpq | None


@dataclass
class Case:
    """A problem and what it states, exactly."""

    problem: sm.Problem
    # `value(M, **weights)`, the exact objective at an exact metric; None where nothing is claimed.
    value: Callable[..., Exact]
    # The data in whose features metrics are; by default those of the problem.
    X: np.ndarray | None = None
    # Number of metrics; 0: one.
    several: int = 0
    # Of a restricted domain: draws rows that combine to a factor in it, exactly.
    inside: Callable[[np.random.Generator], fmpq_mat] | None = None
    # What belongs to a point besides the metric.
    extras: Callable[[np.random.Generator], dict[str, float]] = field(default=lambda rng: {})
    # Values for `path`, by the name of the weight.
    weights: dict[str, list[float]] = field(default_factory=dict)
    # What else is tried, besides certifying points.
    verbs: tuple[str, ...] = ("solve", "verify", "compare", "stop", "proof")
    # Rows of factors, at most.
    rank: int = 10**9
    # Multipliers that certificates need.
    dual: Callable[[sm.Problem], object] | None = None
    # Factors that are known to cost little.
    planted: list[np.ndarray] = field(default_factory=list)
    # Exact metrics whose objectives no lower bound may exceed.
    known: list[fmpq_mat] = field(default_factory=list)
    # Hard constraints as exact offsets and matrices, in the order in which certificates name them.
    constraints: list[tuple[fmpq, fmpq_mat]] = field(default_factory=list)
    # Whether an objective must be finite wherever the exact one is.
    decided: bool = False
    # Whether metrics are diagonal.
    diagonal: bool = False
    # Verbs that are tried on every problem.
    always: tuple[str, ...] = ("certify", "metric")

    def __post_init__(self) -> None:
        self.X = np.asarray(self.problem.X if self.X is None else self.X, float)

    @property
    def takes(self) -> tuple[str, ...]:
        return (*self.always, *self.verbs)

    def exact(self, components, **extras: float) -> Exact:
        """The exact objective at a factor, or factors, of floats."""
        return self.value([metric(L) for L in components] if self.several else metric(components), **extras)

    @property
    def units(self) -> np.ndarray:
        spread = np.ptp(self.X, axis=0)
        size = np.maximum(np.abs(self.X).max(axis=0), 1e-60)
        return np.where(spread > 0.0, np.clip(spread, 1e-60, 1e60), size)

    def factors(self, rng: np.random.Generator) -> list[np.ndarray]:
        """Points: of the data's size, diagonal, far along one feature, tiny, huge; the zero metric."""
        d = self.X.shape[1]
        unit = 1.0 / self.units
        moderate = 10.0 ** rng.uniform(-2, 1) * rng.normal(size=(2, d)) * unit
        diagonal = np.diag(unit)
        boosted = np.diag(
            np.where(np.arange(d) == rng.integers(d), 10.0 ** rng.uniform(0, 12), rng.uniform(0, 2)) * unit
        )
        size = 10.0 ** rng.uniform(-170, -2) if rng.random() < 0.7 else 10.0 ** rng.uniform(2, 20)
        chosen = [moderate, (boosted, diagonal, size * moderate)[int(rng.integers(3))], np.zeros((0, d))]
        chosen = [L[: self.rank] for L in [*chosen, *self.planted]]
        if not self.several:
            return chosen
        return [np.stack([L * rng.uniform(0.3, 2.0) for _ in range(self.several)]) for L in chosen]

    def metrics(self, rng: np.random.Generator) -> np.ndarray | None:
        """A metric of floats that is positive definite exactly, about what a user computes; None where it fails."""
        d, drawn = self.X.shape[1], []
        for _ in range(max(1, self.several)):
            G = (np.eye(d) + rng.normal(size=(d, d)) * 10.0 ** rng.uniform(-3, 0.5)) / self.units
            M = G.T @ G
            M = np.triu(M) + np.triu(M, 1).T
            if not (np.isfinite(M).all() and definite(rational(M))):
                return None
            drawn.append(M)
        return np.stack(drawn) if self.several else drawn[0]
