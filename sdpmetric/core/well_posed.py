"""Whether a pull cost is known well enough to be inverted, a ridge that makes it so, and sentences if it is not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sdpmetric.core import validation
from sdpmetric.core.certificate import Certificate, DualityCertificate
from sdpmetric.linalg.distances import distances

FloatArray = NDArray[np.float64]
Ridge = float | Literal["auto"]

# More directions than this, relative to the examples, and a metric without a ridge fits the training examples only:
# docs/measured/methods.md has the measurements.
CROWDED = 0.25


@dataclass(frozen=True, eq=False)
class SampleSize:
    """What the cost of a metric was learned from."""

    examples: int
    directions: int
    cost: Callable[[], float]

    @classmethod
    def of(
        cls, X: FloatArray, first: NDArray[np.integer], second: NDArray[np.integer], weights: FloatArray
    ) -> SampleSize:
        """The sample of ``sum_p w_p D_M(p)`` over pairs of examples."""
        examples = len(np.unique(np.concatenate([first, second])))
        directions = min(int(X.any(axis=0).sum()), max(examples - 1, 0))
        return cls(examples, directions, lambda: float(distances(X, first, second) @ weights))

    @property
    def crowding(self) -> float:
        return self.directions / max(self.examples, 1)

    def ridge(self, ridge: Ridge) -> float:
        """The ridge that is asked for; "auto" is the mean cost of a direction times the square of `crowding`."""
        if isinstance(ridge, str):
            if ridge != "auto":
                raise ValueError(f"ridge must be a number of at least 0 or 'auto', got {ridge!r}.")
            return self.crowding**2 * self.cost() / max(self.directions, 1)
        return validation.check_number("ridge", ridge, 0.0)


def caution(
    certificate: Certificate | None,
    sample_sizes: Sequence[SampleSize],
    ridge: float,
    separated: float = 0.0,
    *,
    remedy: str = "pass ridge='auto'",
) -> str | None:
    """Why the optimum is likely to be of no use for other data than the training data; None where nothing is seen."""
    advice = f"reduce the dimension (PCA), or {remedy}; see docs/useless_optima.md."
    if separated > 0.5:
        return f"directions of the data that cost no pull separate {separated:.0%} of the triplets: {advice}"
    if isinstance(certificate, DualityCertificate) and 0.0 <= certificate.objective <= certificate.resolution:
        return f"the objective is 0, up to its resolution, so the labels hardly constrain the metric: {advice}"
    worst = max(sample_sizes, key=lambda sample_size: sample_size.crowding)
    if ridge == 0.0 and worst.crowding > CROWDED:
        return (
            f"{worst.examples} examples in {worst.directions} directions are too few to know what each direction "
            f"costs: {advice}"
        )
    return None
